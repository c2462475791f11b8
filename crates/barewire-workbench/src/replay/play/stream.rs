//! A script and a server on a stream, as the stdin and stdout of a program -> what the server answers this time.

use std::io;
use std::pin::pin;
use std::time::Duration;

use barewire::transport::{Exit, Transport};
use barewire_proto::frame::{Frame, FrameError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::clock::{Clock, MAX_MISSES, wait_until};
use super::{PlayOptions, PlayReport};
use crate::replay::client::{ClientReplay, NextAction};
use crate::replay::framing::StreamDecoder;
use crate::replay::script::{ExitStatus, Script};

/// Sends what the client sent in the capture to a server on a stream, such as a started [`Child`](barewire::transport::Child), and
/// compares the answers.
pub async fn play(script: &Script, server: impl Transport, options: &PlayOptions) -> PlayReport {
    let framing = script.stream_framing();
    let mut player = ClientReplay::new(script, framing, options);
    let mut parts = server.into_parts();
    let mut decoder = StreamDecoder::new(framing, options.max_frame);
    let mut clock = Clock::new(script, options);
    let (mut out, mut held) = (Vec::new(), None);
    let mut buffer = vec![0; 64 * 1024];
    let ended = loop {
        let mut done = false;
        while held.is_none() {
            match player.next() {
                NextAction::Send { bytes, time, .. } => held = Some((bytes, clock.due(time))),
                NextAction::Wait => break,
                NextAction::Done => {
                    done = true;
                    break;
                }
            }
            if let Some((bytes, _)) = held.take_if(|(_, due)| *due <= Instant::now()) {
                out.extend_from_slice(&bytes);
            }
        }
        if done && out.is_empty() {
            break PlayEnd::Done;
        }
        clock.look(player.progress(), out.len());
        let event = tokio::select! {
            read = parts.reader.read(&mut buffer) => PlayEvent::Read(read),
            written = parts.writer.write(&out), if !out.is_empty() => PlayEvent::Written(written),
            () = wait_until(held.as_ref().map(|(_, due)| *due)) => PlayEvent::Due,
            () = wait_until(clock.deadline.filter(|_| held.is_none())) => PlayEvent::Late,
        };
        match event {
            PlayEvent::Read(Ok(read)) if read > 0 => out.extend(push(&mut decoder, &buffer[..read], &mut player)),
            PlayEvent::Read(_) => break PlayEnd::Closed,
            PlayEvent::Written(Ok(written)) => {
                out.drain(..written);
            }
            // It reads no more; what it still has to say comes, or the end.
            PlayEvent::Written(Err(_)) => out.clear(),
            PlayEvent::Due => {
                let (bytes, _) = held.take().expect("it was due");
                out.extend_from_slice(&bytes);
            }
            PlayEvent::Late => {
                let timeout = options.timeout.unwrap_or_default().as_secs_f64();
                let missed = player.give_up(&format!("nothing within {timeout} s"));
                clock.missed += 1;
                if !out.is_empty() {
                    break PlayEnd::Stuck("the server does not read what it is sent");
                }
                if clock.missed == MAX_MISSES {
                    break PlayEnd::Stuck("the server has answered nothing for too long");
                }
                if missed == 0 {
                    break PlayEnd::Done;
                }
                clock.begin();
            }
        }
    };
    player.close();
    match ended {
        PlayEnd::Stuck(why) => player.ended(why),
        PlayEnd::Done if !script.tail.is_empty() => {
            // No answer follows, so a server that does not read it is not waited for.
            let _ = timeout(Duration::from_secs(1), parts.writer.write_all(&script.tail)).await;
        }
        PlayEnd::Done | PlayEnd::Closed => {}
    }
    drop(parts.writer);
    let mut ending = pin!(async {
        match parts.ending {
            Some(ending) => ending.await,
            None => None,
        }
    });
    let exit = loop {
        tokio::select! {
            read = parts.reader.read(&mut buffer) => match read {
                Ok(read) if read > 0 => { push(&mut decoder, &buffer[..read], &mut player); }
                _ => break ending.await,
            },
            exit = &mut ending => break exit,
        }
    };
    // What it wrote last may still be in the pipe.
    let last = Instant::now() + LAST_READS_TIMEOUT;
    while Instant::now() < last
        && let Ok(Ok(read @ 1..)) = timeout(LAST_READ_TIMEOUT, parts.reader.read(&mut buffer)).await
    {
        push(&mut decoder, &buffer[..read], &mut player);
    }
    decoder.finish(&mut |frame| {
        taken(frame, &mut player);
    });
    match exit.as_ref().and_then(known) {
        _ if ended == PlayEnd::Closed => player.ended(&how(exit.as_ref())),
        Some(ended) => player.exited(ended),
        None => {}
    }
    player.played()
}

/// What the player waits for.
enum PlayEvent {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    /// It is time for the next message.
    Due,
    /// Something has not come in time.
    Late,
}

/// The reason for the end of the conversation.
#[derive(PartialEq)]
enum PlayEnd {
    Done,
    /// The server closed its side.
    Closed,
    Stuck(&'static str),
}

/// Hands every frame that these bytes complete to the player; returns what the server is to be told at once.
fn push(decoder: &mut StreamDecoder, bytes: &[u8], player: &mut ClientReplay<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    decoder.push(bytes, &mut |frame| out.extend(taken(frame, player)));
    out
}

fn taken(frame: Result<Frame<'_>, FrameError>, player: &mut ClientReplay<'_>) -> Vec<u8> {
    match frame {
        Ok(frame) => player.take(frame.bytes, None).concat(),
        Err(error) => {
            player.unreadable(&error.to_string());
            Vec::new()
        }
    }
}

fn how(exit: Option<&Exit>) -> String {
    match exit.and_then(known) {
        Some(ended) => format!("the server ended with {ended}"),
        None => "the server closed its stdout".into(),
    }
}

/// The exit status of a server that ended by itself.
fn known(exit: &Exit) -> Option<ExitStatus> {
    match exit {
        Exit { by_us: true, .. } => None,
        Exit { code: Some(code), .. } => Some(ExitStatus::Code(*code)),
        Exit { signal: Some(signal), .. } => Some(ExitStatus::Signal(*signal)),
        _ => None,
    }
}

/// The wait for each last read of what is still in the pipe.
const LAST_READ_TIMEOUT: Duration = Duration::from_millis(200);
/// The wait for all last reads together.
const LAST_READS_TIMEOUT: Duration = Duration::from_secs(2);
