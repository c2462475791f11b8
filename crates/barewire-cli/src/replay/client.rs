//! A script and a program -> what the program answers this time, over its stdin and stdout.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use barewire::transport::{Child, Exit, Stderr, Transport};
use barewire_proto::frame::{Codec, ContentLength, Frame, FrameError, Lines};
use barewire_proto::transcript::Framing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::clock::{Clock, MOST_MISSED, Pace, wait_until};
use super::player::{Next, Played, Player};
use super::script::{Ended, Script};
use crate::Failure;

pub(super) async fn play(
    script: &Script,
    mut player: Player<'_>,
    program: &[OsString],
    pace: Pace,
) -> Result<Played, Failure> {
    let [program, args @ ..] = program else { return Err(Failure::new("no program to replay to")) };
    let child = Child::new(program).args(args).stderr(stderr());
    let process = child.spawn().map_err(|error| Failure::new(error.to_string()))?;
    let mut parts = process.into_parts();
    let mut frames = Frames::new(script.on_a_stream(), pace.max_frame);
    let mut clock = Clock::new(script, pace);
    let (mut out, mut held) = (Vec::new(), None);
    let mut buffer = vec![0; 64 * 1024];
    let ended = loop {
        let mut done = false;
        while held.is_none() {
            match player.next() {
                Next::Send { bytes, time, .. } => held = Some((bytes, clock.due(time))),
                Next::Wait => break,
                Next::Done => {
                    done = true;
                    break;
                }
            }
            if let Some((bytes, _)) = held.take_if(|(_, due)| *due <= Instant::now()) {
                out.extend_from_slice(&bytes);
            }
        }
        if done && out.is_empty() {
            break Finish::Done;
        }
        clock.look(player.progress(), out.len());
        let event = tokio::select! {
            read = parts.reader.read(&mut buffer) => Event::Read(read),
            written = parts.writer.write(&out), if !out.is_empty() => Event::Written(written),
            () = wait_until(held.as_ref().map(|(_, due)| *due)) => Event::Due,
            () = wait_until(clock.deadline.filter(|_| held.is_none())) => Event::Late,
        };
        match event {
            Event::Read(Ok(read)) if read > 0 => out.extend(frames.push(&buffer[..read], &mut player)),
            Event::Read(_) => break Finish::Closed,
            Event::Written(Ok(written)) => {
                out.drain(..written);
            }
            // It reads no more; what it still has to say comes, or the end.
            Event::Written(Err(_)) => out.clear(),
            Event::Due => {
                let (bytes, _) = held.take().expect("it was due");
                out.extend_from_slice(&bytes);
            }
            Event::Late => {
                let patience = pace.patience.unwrap_or_default().as_secs_f64();
                let missed = player.give_up(&format!("nothing within {patience} s"));
                clock.missed += 1;
                if !out.is_empty() {
                    break Finish::Stuck("the server does not read what it is sent");
                }
                if clock.missed == MOST_MISSED {
                    break Finish::Stuck("the server has answered nothing for too long");
                }
                if missed == 0 {
                    break Finish::Done;
                }
                clock.begin();
            }
        }
    };
    player.close();
    match ended {
        Finish::Stuck(why) => player.ended(why),
        Finish::Done if !script.tail.is_empty() => {
            // Nobody answers that; a server that does not read it has been told enough.
            let _ = timeout(Duration::from_secs(1), parts.writer.write_all(&script.tail)).await;
        }
        Finish::Done | Finish::Closed => {}
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
                Ok(read) if read > 0 => { frames.push(&buffer[..read], &mut player); }
                _ => break ending.await,
            },
            exit = &mut ending => break exit,
        }
    };
    // What it wrote last may still be in the pipe.
    let last = Instant::now() + MOST_AT_THE_END;
    while Instant::now() < last
        && let Ok(Ok(read @ 1..)) = timeout(AT_THE_END, parts.reader.read(&mut buffer)).await
    {
        frames.push(&buffer[..read], &mut player);
    }
    frames.finish(&mut player);
    match exit.as_ref().and_then(known) {
        _ if ended == Finish::Closed => player.ended(&how(exit.as_ref())),
        Some(ended) => player.exited(ended),
        None => {}
    }
    Ok(player.played())
}

/// What can happen.
enum Event {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    /// It is time for the next message.
    Due,
    /// Something has not come in time.
    Late,
}

/// Why it is over.
#[derive(PartialEq)]
enum Finish {
    Done,
    /// The server has closed its stdout.
    Closed,
    Stuck(&'static str),
}

/// What the server writes, cut into frames.
pub(super) enum Frames {
    Lines(Lines),
    ContentLength(ContentLength),
}

impl Frames {
    pub(super) fn new(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::ContentLength => Self::ContentLength(ContentLength::new(limit)),
            _ => Self::Lines(Lines::new(limit)),
        }
    }

    /// Calls `each` with every frame that is whole.
    pub(super) fn each(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Result<Frame<'_>, FrameError>)) {
        while let Some(frame) = match self {
            Self::Lines(codec) => codec.next_frame(&mut bytes),
            Self::ContentLength(codec) => codec.next_frame(&mut bytes),
        } {
            each(frame);
        }
    }

    /// Calls `each` with what the end of the stream completes.
    pub(super) fn last(&mut self, each: &mut dyn FnMut(Result<Frame<'_>, FrameError>)) {
        while let Some(frame) = match self {
            Self::Lines(codec) => codec.finish(),
            Self::ContentLength(codec) => codec.finish(),
        } {
            each(frame);
        }
    }

    fn push(&mut self, bytes: &[u8], player: &mut Player<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        self.each(bytes, &mut |frame| out.extend(taken(frame, player)));
        out
    }

    fn finish(&mut self, player: &mut Player<'_>) {
        self.last(&mut |frame| {
            taken(frame, player);
        });
    }
}

fn taken(frame: Result<Frame<'_>, FrameError>, player: &mut Player<'_>) -> Vec<u8> {
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

/// How it ended by itself.
fn known(exit: &Exit) -> Option<Ended> {
    match exit {
        Exit { by_us: true, .. } => None,
        Exit { code: Some(code), .. } => Some(Ended::Code(*code)),
        Exit { signal: Some(signal), .. } => Some(Ended::Signal(*signal)),
        _ => None,
    }
}

/// The stderr of the program: to a terminal escaped, to anything else as it is.
fn stderr() -> Stderr {
    if io::stderr().is_terminal() {
        return Stderr::inherit();
    }
    Stderr::lines(|line| {
        // In one piece, so that lines of several do not mix. If stderr is closed there is nobody to tell.
        let _ = io::stderr().write_all(&[line, b"\n"].concat());
    })
}

/// Long enough for what is in a pipe.
const AT_THE_END: Duration = Duration::from_millis(200);
/// Somebody who never stops is not listened to for ever.
const MOST_AT_THE_END: Duration = Duration::from_secs(2);
