//! Answers a client on a stream with the messages that the server sent in the capture.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use barewire_proto::rpc::Invalid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::{ServeOptions, ServeReport};
use crate::replay::framing::StreamDecoder;
use crate::replay::script::Script;
use crate::replay::server::{Arrival, ServerOutput, ServerReplay};
use crate::replay::wait_until;

/// Answers one client as the recorded server did, until the client closes its side.
///
/// Calls `log` with a line for each request: the recorded frame that it matches, or the reason why it matches none.
pub async fn serve(
    script: &Script,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    options: &ServeOptions,
    mut log: impl FnMut(&str),
) -> ServeReport {
    let mut server = ServerReplay::new(script, script.stream_framing(), options, Instant::now());
    let mut decoder = StreamDecoder::new(script.stream_framing(), options.max_frame);
    let mut out = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    // The bytes of the last read that are not handled yet; `None` if more must be read.
    let mut unhandled: Option<Range<usize>> = None;
    let mut perform = |outputs: Vec<ServerOutput>, out: &mut Vec<u8>| {
        for output in outputs {
            match output {
                ServerOutput::Send { bytes, .. } => out.extend_from_slice(&bytes),
                ServerOutput::Log(line) => log(&line),
            }
        }
    };
    perform(server.run(Instant::now()), &mut out);
    loop {
        // If a client does not read our messages, we stop handling its messages: this limits the size of `out`. The
        // limit is checked for each frame, because an answer can be much longer than its request.
        while out.len() < MAX_UNREAD_BYTES
            && let Some(bytes) = unhandled.take()
        {
            let now = Arrival { at: Instant::now(), exchange: 0 };
            let mut input = &buffer[bytes.clone()];
            let found = decoder.push_until_frame(&mut input, &mut |frame| match frame {
                Ok(frame) => perform(server.take(frame.bytes, now), &mut out),
                Err(error) => perform(server.reject_bytes(&Invalid::from_frame(&error)), &mut out),
            });
            unhandled = found.then(|| bytes.end - input.len()..bytes.end);
        }
        let due = server.due();
        let event = tokio::select! {
            read = reader.read(&mut buffer), if unhandled.is_none() => ServeEvent::Read(read),
            written = writer.write(&out), if !out.is_empty() => ServeEvent::Written(written),
            () = wait_until(due.map(Into::into)) => ServeEvent::Due,
        };
        match event {
            ServeEvent::Read(Ok(read)) if read > 0 => unhandled = Some(0..read),
            ServeEvent::Read(_) => break,
            ServeEvent::Written(Ok(written)) => {
                out.drain(..written);
            }
            ServeEvent::Written(Err(_)) => break,
            ServeEvent::Due => perform(server.run(Instant::now()), &mut out),
        }
    }
    let now = Arrival { at: Instant::now(), exchange: 0 };
    decoder.finish(&mut |frame| {
        if let Ok(frame) = frame {
            perform(server.take(frame.bytes, now), &mut out);
        }
    });
    let mut rest = out.as_slice();
    // Writing fails if the client has already disconnected.
    while let Ok(Ok(written @ 1..)) = timeout(WRITE_TIMEOUT, writer.write(rest)).await {
        rest = &rest[written..];
    }
    let _ = timeout(WRITE_TIMEOUT, writer.shutdown()).await;
    ServeReport { matched: server.matched, unmatched: server.unmatched, unused: server.unused().len() }
}

enum ServeEvent {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Due,
}

/// The maximum time for which a client that has closed its side reads none of the last messages; as in the library.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of unwritten bytes above which nothing is read from the client.
const MAX_UNREAD_BYTES: usize = 64 * 1024 * 1024;
