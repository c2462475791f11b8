//! A script and a client on a stream -> what the server said in the capture.

use std::io;
use std::time::Instant;

use barewire_proto::rpc::Invalid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep_until;

use super::{ServeOptions, ServeReport};
use crate::replay::framing::StreamDecoder;
use crate::replay::script::Script;
use crate::replay::server::{Arrival, ServerOutput, ServerReplay};

/// Answers one client as the server of the capture did, until the client closes its side.
///
/// `log` is called with a line about each request: what in the capture answers it, or why nothing does.
pub async fn serve(
    script: &Script,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    options: &ServeOptions,
    mut log: impl FnMut(&str),
) -> ServeReport {
    let mut stage = ServerReplay::new(script, script.stream_framing(), options, Instant::now());
    let mut decoder = StreamDecoder::new(script.stream_framing(), options.max_frame);
    let mut out = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut perform = |outputs: Vec<ServerOutput>, out: &mut Vec<u8>| {
        for output in outputs {
            match output {
                ServerOutput::Send { bytes, .. } => out.extend_from_slice(&bytes),
                ServerOutput::Log(line) => log(&line),
            }
        }
    };
    perform(stage.run(Instant::now()), &mut out);
    loop {
        let due = stage.due();
        let event = tokio::select! {
            // A client that does not read is not read from either, so that what waits for it stays bounded.
            read = reader.read(&mut buffer), if out.len() < MAX_UNREAD_BYTES => ServeEvent::Read(read),
            written = writer.write(&out), if !out.is_empty() => ServeEvent::Written(written),
            () = async { match due {
                Some(due) => sleep_until(due.into()).await,
                None => std::future::pending().await,
            } } => ServeEvent::Due,
        };
        match event {
            ServeEvent::Read(Ok(read)) if read > 0 => {
                let now = Arrival { at: Instant::now(), exchange: 0 };
                decoder.push(&buffer[..read], &mut |frame| match frame {
                    Ok(frame) => perform(stage.take(frame.bytes, now), &mut out),
                    Err(error) => {
                        let mut refusal = Vec::new();
                        stage.refuse(&Invalid::from_frame(&error), 0, &mut refusal);
                        perform(refusal, &mut out);
                    }
                });
            }
            ServeEvent::Read(_) => break,
            ServeEvent::Written(Ok(written)) => {
                out.drain(..written);
            }
            ServeEvent::Written(Err(_)) => break,
            ServeEvent::Due => perform(stage.run(Instant::now()), &mut out),
        }
    }
    let now = Arrival { at: Instant::now(), exchange: 0 };
    decoder.finish(&mut |frame| {
        if let Ok(frame) = frame {
            perform(stage.take(frame.bytes, now), &mut out);
        }
    });
    // The client may be gone already.
    let _ = writer.write_all(&out).await;
    let _ = writer.shutdown().await;
    ServeReport { matched: stage.matched, unmatched: stage.unmatched, unused: stage.unused().len() }
}

/// What the server of a stream waits for.
enum ServeEvent {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    /// A message is due.
    Due,
}

/// Bytes that a client has not read yet.
const MAX_UNREAD_BYTES: usize = 64 * 1024 * 1024;
