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
use crate::replay::client::{ClientReplay, NextAction};
use crate::replay::framing::StreamDecoder;
use crate::replay::script::{ExitStatus, Script};
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
    let (mut out, mut waiting) = (Vec::new(), None);
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
                out.extend_from_slice(&bytes);
            }
        }
        if is_done && out.is_empty() {
            break PlayEnd::Done;
        }
        clock.note_progress(client.progress(), out.len());
        let event = tokio::select! {
            read = parts.reader.read(&mut buffer) => PlayEvent::Read(read),
            written = parts.writer.write(&out), if !out.is_empty() => PlayEvent::Written(written),
            () = wait_until(waiting.as_ref().map(|(_, due)| *due)) => PlayEvent::Due,
            () = wait_until(clock.deadline.filter(|_| waiting.is_none())) => PlayEvent::Late,
        };
        match event {
            PlayEvent::Read(Ok(read)) if read > 0 => out.extend(push(&mut decoder, &buffer[..read], &mut client)),
            PlayEvent::Read(_) => break PlayEnd::Closed,
            PlayEvent::Written(Ok(written)) => {
                out.drain(..written);
            }
            // The server has closed its input. Its last messages may still arrive.
            PlayEvent::Written(Err(_)) => out.clear(),
            PlayEvent::Due => {
                let (bytes, _) = waiting.take().expect("a message was due");
                out.extend_from_slice(&bytes);
            }
            PlayEvent::Late => {
                let timeout = options.timeout.unwrap_or_default().as_secs_f64();
                let missed = client.give_up(&format!("nothing within {timeout} s"));
                clock.missed += 1;
                if !out.is_empty() {
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
                Ok(read) if read > 0 => { push(&mut decoder, &buffer[..read], &mut client); }
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
        push(&mut decoder, &buffer[..read], &mut client);
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

/// Passes every frame that these bytes complete to the client. Returns bytes to write that are not in the capture.
fn push(decoder: &mut StreamDecoder, bytes: &[u8], client: &mut ClientReplay<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    decoder.push(bytes, &mut |frame| out.extend(take(frame, client)));
    out
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
