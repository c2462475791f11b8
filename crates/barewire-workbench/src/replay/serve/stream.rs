//! A script and a client on a stream -> what the server said in the capture.

use std::io;
use std::time::Instant;

use barewire_proto::rpc::Invalid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep_until;

use super::{ServeOptions, Served};
use crate::replay::framing::StreamDecoder;
use crate::replay::script::Script;
use crate::replay::stage::{Came, Out, Stage};

/// Answers one client as the server of the capture did, until the client closes its side.
///
/// `log` is called with a line about each request: what in the capture answers it, or why nothing does.
pub async fn serve(
    script: &Script,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    options: &ServeOptions,
    mut log: impl FnMut(&str),
) -> Served {
    let mut stage = Stage::new(script, script.on_a_stream(), options, Instant::now());
    let mut decoder = StreamDecoder::new(script.on_a_stream(), options.max_frame);
    let mut out = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut say = |done: Vec<Out>, out: &mut Vec<u8>| {
        for done in done {
            match done {
                Out::Send { bytes, .. } => out.extend_from_slice(&bytes),
                Out::Log(line) => log(&line),
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
                decoder.push(&buffer[..read], &mut |frame| match frame {
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
    decoder.finish(&mut |frame| {
        if let Ok(frame) = frame {
            say(stage.take(frame.bytes, now), &mut out);
        }
    });
    // The client may be gone already, and then nobody misses it.
    let _ = writer.write_all(&out).await;
    let _ = writer.shutdown().await;
    Served { matched: stage.matched, unmatched: stage.unmatched, not_asked: stage.left().len() }
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
