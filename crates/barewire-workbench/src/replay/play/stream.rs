//! Plays a script to a server on a stream, such as the stdin and stdout of a program, and reports the differences.

use std::io;
use std::pin::pin;
use std::time::Duration;

use barewire::transport::{Exit, Transport};
use barewire_proto::frame::{Frame, FrameError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::clock::{MAX_MISSES, PlayClock};
use super::{PlayOptions, PlayReport};
use crate::frames::ExitStatus;
use crate::replay::client::{ClientReplay, NextAction};
use crate::replay::framing::StreamDecoder;
use crate::replay::script::Script;
use crate::replay::wait_until;

/// Sends the client's messages in a capture to a server on a stream, such as a started
/// [`Child`](barewire::transport::Child), and compares the answers with the recorded ones.
pub async fn play(script: &Script, server: impl Transport, options: &PlayOptions) -> PlayReport {
    let framing = script.stream_framing();
    let mut client = ClientReplay::new(script, framing, options);
    let mut parts = server.into_parts();
    let mut decoder = StreamDecoder::new(framing, options.max_frame);
    let mut clock = PlayClock::new(script, options);
    // The bytes to write, and the next message with the time at which it is due.
    let (mut out, mut waiting) = (Outbox::default(), None);
    let mut buffer = vec![0; 64 * 1024];
    let end = loop {
        let mut is_done = false;
        while waiting.is_none() {
            match client.next() {
                NextAction::Send { bytes, time, .. } => waiting = Some((bytes, clock.due(time))),
                action => {
                    is_done = action == NextAction::Done;
                    break;
                }
            }
            if let Some((bytes, _)) = waiting.take_if(|(_, due)| *due <= Instant::now()) {
                out.push_recorded(&bytes);
            }
        }
        if is_done && out.bytes.is_empty() {
            break PlayEnd::Done;
        }
        clock.note_progress(client.progress());
        let event = if waiting.is_none() && clock.is_late() {
            PlayEvent::Late
        } else {
            tokio::select! {
                read = parts.reader.read(&mut buffer), if out.has_room() => PlayEvent::Read(read),
                written = parts.writer.write(&out.bytes), if !out.bytes.is_empty() => PlayEvent::Written(written),
                () = wait_until(waiting.as_ref().map(|(_, due)| *due)) => PlayEvent::Due,
                () = wait_until(clock.deadline.filter(|_| waiting.is_none())) => PlayEvent::Late,
            }
        };
        match event {
            PlayEvent::Read(Ok(read)) if read > 0 => {
                decoder.push(&buffer[..read], &mut |frame| out.bytes.extend(take(frame, &mut client)));
            }
            PlayEvent::Read(_) => break PlayEnd::Closed,
            PlayEvent::Written(Ok(written)) => out.remove_written(written),
            // The server has closed its input. Its last messages may still arrive.
            PlayEvent::Written(Err(_)) => out.clear(),
            PlayEvent::Due => {
                let (bytes, _) = waiting.take().expect("a message was due");
                out.push_recorded(&bytes);
            }
            PlayEvent::Late => {
                let timeout = options.timeout.unwrap_or_default().as_secs_f64();
                let missed = client.give_up(&format!("nothing within {timeout} s"));
                clock.missed += 1;
                if out.has_recorded() {
                    break PlayEnd::Stuck("the server does not read its input");
                }
                if clock.missed == MAX_MISSES {
                    break PlayEnd::Stuck("the server has not answered for too long");
                }
                if missed == 0 {
                    break PlayEnd::Done;
                }
                clock.reset_deadline();
            }
        }
    };
    client.close();
    match end {
        PlayEnd::Stuck(why) => client.handle_end(why),
        PlayEnd::Done if !script.tail.is_empty() => {
            // No answer follows the tail, so if the server does not read it, the wait ends after a second.
            let _ = timeout(Duration::from_secs(1), parts.writer.write_all(&script.tail)).await;
        }
        PlayEnd::Done | PlayEnd::Closed => {}
    }
    drop(parts.writer);
    let mut ending = pin!(async { if let Some(ending) = parts.exit { ending.await } else { None } });
    let exit = loop {
        tokio::select! {
            read = parts.reader.read(&mut buffer) => match read {
                Ok(read) if read > 0 => discard_replies(&mut decoder, &buffer[..read], &mut client),
                _ => break ending.await,
            },
            exit = &mut ending => break exit,
        }
    };
    // The server's last bytes may still be in the pipe.
    let last = Instant::now() + LAST_READS_TIMEOUT;
    while Instant::now() < last
        && let Ok(Ok(read @ 1..)) = timeout(LAST_READ_TIMEOUT, parts.reader.read(&mut buffer)).await
    {
        discard_replies(&mut decoder, &buffer[..read], &mut client);
    }
    decoder.finish(&mut |frame| {
        take(frame, &mut client);
    });
    match (exit_status(exit.as_ref()), end) {
        (Some(status), PlayEnd::Closed) => client.handle_end(&format!("the server ended with {status}")),
        (None, PlayEnd::Closed) => client.handle_end("the server closed its stdout"),
        (Some(status), _) => client.handle_exit(status),
        (None, _) => {}
    }
    client.report()
}

enum PlayEvent {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Due,
    /// An expected message did not come in time.
    Late,
}

enum PlayEnd {
    Done,
    /// The server closed its side.
    Closed,
    Stuck(&'static str),
}

/// The bytes that wait to be written: messages of the capture, and replies to the server that are not in the capture.
#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    /// The end of the last message of the capture in `bytes`; 0 if only replies wait.
    recorded_end: usize,
}

impl Outbox {
    fn push_recorded(&mut self, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.recorded_end = self.bytes.len();
    }

    fn remove_written(&mut self, written: usize) {
        self.bytes.drain(..written);
        self.recorded_end = self.recorded_end.saturating_sub(written);
    }

    fn clear(&mut self) {
        self.remove_written(self.bytes.len());
    }

    fn has_recorded(&self) -> bool {
        self.recorded_end > 0
    }

    /// Whether the server may be read: what it sends may need replies.
    fn has_room(&self) -> bool {
        self.bytes.len() - self.recorded_end < MAX_WAITING_REPLIES
    }
}

/// Passes every frame that these bytes complete to the client, when nothing is written any more.
fn discard_replies(decoder: &mut StreamDecoder, bytes: &[u8], client: &mut ClientReplay<'_>) {
    decoder.push(bytes, &mut |frame| drop(take(frame, client)));
}

fn take(frame: Result<Frame<'_>, FrameError>, client: &mut ClientReplay<'_>) -> Vec<u8> {
    match frame {
        Ok(frame) => client.take(frame.bytes, None).concat(),
        Err(error) => {
            client.handle_unreadable(&error.to_string());
            Vec::new()
        }
    }
}

/// Returns the exit status of a server that ended by itself, not because we ended it.
fn exit_status(exit: Option<&Exit>) -> Option<ExitStatus> {
    let exit = exit.filter(|exit| !exit.by_us)?;
    exit.code.map(ExitStatus::Code).or(exit.signal.map(ExitStatus::Signal))
}

/// The maximum wait for each of the last reads from the pipe, and for all of them together.
const LAST_READ_TIMEOUT: Duration = Duration::from_millis(200);
const LAST_READS_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of waiting bytes of replies above which the server is not read. A server that waits for its input to be
/// read reads them; a server that floods us with requests has to wait.
const MAX_WAITING_REPLIES: usize = 1024 * 1024;
