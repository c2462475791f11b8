//! A script and a client on our stdin and stdout -> what the server said in the capture.

mod connection;
pub(super) mod http;

use std::io::{self, Write};
use std::time::Instant;

use barewire::transport::{Transport, stdio};
use barewire_proto::rpc::Invalid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep_until;

use super::client::Frames;
use super::script::Script;
use super::stage::{Came, Manner, Out, Stage};
use crate::{Exit, Failure};

pub(super) async fn serve(
    script: &Script,
    manner: Manner,
    max_frame: usize,
    quiet: bool,
) -> Result<Exit, Failure> {
    let mut stage = Stage::new(script, script.on_a_stream(), manner, Instant::now());
    let parts = stdio().map_err(|error| Failure::new(format!("cannot serve here: {error}")))?.into_parts();
    let (mut reader, mut writer) = (parts.reader, parts.writer);
    let mut frames = Frames::new(script.on_a_stream(), max_frame);
    let mut out = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let say = |done: Vec<Out>, out: &mut Vec<u8>| {
        for done in done {
            match done {
                Out::Send { bytes, .. } => out.extend_from_slice(&bytes),
                Out::Log(line) => {
                    if !quiet {
                        // If stderr is closed there is nobody to tell.
                        let _ = writeln!(io::stderr(), "barewire: {line}");
                    }
                }
            }
        }
    };
    say(stage.run(Instant::now()), &mut out);
    loop {
        let due = stage.due();
        let event = tokio::select! {
            // Who does not read what it is told is told no more, and not kept in memory.
            read = reader.read(&mut buffer), if out.len() < MOST_UNREAD => Event::Read(read),
            written = writer.write(&out), if !out.is_empty() => Event::Written(written),
            () = async { match due {
                Some(due) => sleep_until(due.into()).await,
                None => std::future::pending().await,
            } } => Event::Due,
        };
        match event {
            Event::Read(Ok(read)) if read > 0 => {
                let now = Came { at: Instant::now(), to: 0 };
                frames.each(&buffer[..read], &mut |frame| match frame {
                    Ok(frame) => say(stage.take(frame.bytes, now), &mut out),
                    Err(error) => {
                        let mut refusal = Vec::new();
                        stage.refuse(&Invalid::from_frame(&error), 0, &mut refusal);
                        say(refusal, &mut out);
                    }
                });
            }
            Event::Read(_) => break,
            Event::Written(Ok(written)) => {
                out.drain(..written);
            }
            Event::Written(Err(_)) => break,
            Event::Due => say(stage.run(Instant::now()), &mut out),
        }
    }
    let now = Came { at: Instant::now(), to: 0 };
    frames.last(&mut |frame| {
        if let Ok(frame) = frame {
            say(stage.take(frame.bytes, now), &mut out);
        }
    });
    // The client may be gone already, and then nobody misses it.
    let _ = writer.write_all(&out).await;
    let _ = writer.shutdown().await;
    let (matched, unmatched, left) = (stage.matched, stage.unmatched, stage.left().len());
    say(
        vec![Out::Log(format!("{matched} matched, {unmatched} not; {left} of the capture not asked"))],
        &mut out,
    );
    Ok(if unmatched == 0 { Exit::Clean } else { Exit::No })
}

/// What can happen.
enum Event {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    /// It is time to say something.
    Due,
}

/// More than a client leaves unread that means to read it.
const MOST_UNREAD: usize = 64 * 1024 * 1024;
