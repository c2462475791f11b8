//! The probe on stdin and stdout: bytes of the client -> bytes of the probe, and a capture of both.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use barewire_proto::frame::{Codec, DEFAULT_LIMIT, Lines};
use barewire_proto::rpc::{DEFAULT_DEPTH, Invalid};
use barewire_proto::transcript::{Channel, Note, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::server::{ProbeOutput, ProbeServer};
use crate::Error;
use crate::capture::{CaptureClock, CaptureWriter};
use crate::check::Scenario;
use crate::frames::FrameLimits;
use crate::pipeline::{Observer, Pipeline};
use crate::replay::wait_until;

/// The reason why a probe on stdio has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a probe ends for one of these reasons")]
pub enum StdioEnd {
    /// The client closed stdin, or reads no more.
    Closed,
    /// A signal arrived.
    Signal,
    /// The client called the tool `exit`.
    Exit,
}

/// Serves one client on a stream, until the client closes it, a signal arrives, or the client calls the tool `exit`.
///
/// `argv` is the command line of the probe, for the capture. `stop` is ready when a signal arrives, and returns its
/// number. `warn` is called once if the capture cannot be written; the probe goes on.
pub async fn serve_stdio(
    scenario: Scenario,
    argv: &[OsString],
    (clock, capture): (CaptureClock, CaptureWriter),
    (mut reader, mut writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    stop: impl Future<Output = i32>,
    warn: fn(&Error),
) -> StdioEnd {
    tokio::pin!(stop);
    let mut record = Record::new(clock, capture, warn);
    record.pipeline.open(&Channel::default(), argv.iter().map(OsString::as_os_str), clock.now());
    let mut server = ProbeServer::new(scenario);
    let mut decoder = Lines::new(DEFAULT_LIMIT);
    let mut out = Output::default();
    let mut buffer = vec![0; 64 * 1024];
    let end = loop {
        record.flush();
        if out.ends && out.parts.is_empty() {
            break StdioEnd::Exit;
        }
        let event = tokio::select! {
            read = reader.read(&mut buffer), if out.length < MAX_UNWRITTEN => StreamEvent::Read(read),
            written = write_part(&mut writer, out.parts.front(), out.pause), if !out.parts.is_empty() => StreamEvent::Written(written),
            () = wait_until(server.due().map(Into::into)) => StreamEvent::Due,
            signal = &mut stop => StreamEvent::Signal(signal),
        };
        match event {
            StreamEvent::Read(Ok(count @ 1..)) => {
                record.bytes(Stream::ToServer, &buffer[..count]);
                let mut input = &buffer[..count];
                while let Some(frame) = decoder.next_frame(&mut input) {
                    let outputs = match &frame {
                        Ok(frame) => server.take(frame.bytes, 0, Instant::now()),
                        Err(error) => {
                            server.refuse(&Invalid::from_frame(error), 0);
                            server.run(Instant::now())
                        }
                    };
                    out.add(outputs);
                }
            }
            StreamEvent::Read(_) => {
                record.note(Note::Eof(Stream::ToServer));
                break StdioEnd::Closed;
            }
            StreamEvent::Written(Ok(count)) => out.written(count, &mut record),
            StreamEvent::Written(Err(_)) => {
                // The client does not read any more; its own side may still have something.
                out = Output::default();
            }
            StreamEvent::Due => out.add(server.run(Instant::now())),
            StreamEvent::Signal(signal) => {
                record.note(Note::SignalReceived(signal));
                break StdioEnd::Signal;
            }
        }
    };
    // What is already begun is written to its end.
    while end == StdioEnd::Closed && !out.parts.is_empty() {
        match timeout(LAST_WRITE, write_part(&mut writer, out.parts.front(), None)).await {
            Ok(Ok(count)) => out.written(count, &mut record),
            _ => break,
        }
    }
    let _ = timeout(LAST_WRITE, writer.shutdown()).await;
    record.note(Note::ExitCode(0));
    record.flush();
    end
}

enum StreamEvent {
    Read(io::Result<usize>),
    Written(io::Result<usize>),
    Due,
    Signal(i32),
}

/// The bytes that are not written yet, in parts with a pause after each part that is cut.
#[derive(Default)]
struct Output {
    parts: VecDeque<Part>,
    length: usize,
    /// The time before which the next part is not written.
    pause: Option<Instant>,
    /// Whether the probe ends after the last part.
    ends: bool,
}

struct Part {
    bytes: Vec<u8>,
    done: usize,
    is_cut: bool,
}

impl Output {
    fn add(&mut self, outputs: Vec<ProbeOutput>) {
        for output in outputs {
            let ProbeOutput::Send { mut bytes, mut cuts, .. } = output else {
                self.ends = true;
                continue;
            };
            bytes.push(b'\n');
            self.length += bytes.len();
            cuts.retain(|cut| *cut < bytes.len());
            let mut begin = 0;
            for cut in cuts.into_iter().map(Some).chain([None]) {
                let end = cut.unwrap_or(bytes.len());
                self.part(&bytes[begin..end], cut.is_some());
                begin = end;
            }
        }
    }

    /// Adds a part. Parts without a pause between them are written together.
    fn part(&mut self, bytes: &[u8], is_cut: bool) {
        match self.parts.back_mut().filter(|last| !last.is_cut && last.done == 0) {
            Some(last) => {
                last.bytes.extend_from_slice(bytes);
                last.is_cut = is_cut;
            }
            None => self.parts.push_back(Part { bytes: bytes.to_vec(), done: 0, is_cut }),
        }
    }

    fn written(&mut self, count: usize, record: &mut Record) {
        let Some(part) = self.parts.front_mut() else { return };
        let end = (part.done + count).min(part.bytes.len());
        record.bytes(Stream::ToClient, &part.bytes[part.done..end]);
        self.length -= end - part.done;
        part.done = end;
        if part.done == part.bytes.len() {
            self.pause = part.is_cut.then(|| Instant::now() + PAUSE);
            self.parts.pop_front();
        }
    }
}

/// Writes some bytes of a part, after the pause.
async fn write_part(
    writer: &mut (impl AsyncWrite + Unpin),
    part: Option<&Part>,
    pause: Option<Instant>,
) -> io::Result<usize> {
    let Some(part) = part else { return Ok(0) };
    if let Some(pause) = pause {
        tokio::time::sleep_until(pause.into()).await;
    }
    let count = writer.write(&part.bytes[part.done..]).await?;
    match count {
        0 => Err(io::ErrorKind::WriteZero.into()),
        count => Ok(count),
    }
}

/// The capture of a session.
struct Record {
    clock: CaptureClock,
    pipeline: Pipeline<Vec<Box<dyn Observer>>>,
    warn: fn(&Error),
}

impl Record {
    fn new(clock: CaptureClock, capture: CaptureWriter, warn: fn(&Error)) -> Self {
        let limits = FrameLimits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
        Self { clock, pipeline: Pipeline::new(limits, Some(capture), Vec::new()), warn }
    }

    fn bytes(&mut self, stream: Stream, bytes: &[u8]) {
        self.pipeline.bytes(&Channel::default(), stream, bytes, self.clock.now());
    }

    fn note(&mut self, note: Note) {
        self.pipeline.event(&Channel::default(), note, self.clock.now());
    }

    /// Writes everything to the file, because the host may kill the probe at any time.
    fn flush(&mut self) {
        if let Some(capture) = self.pipeline.capture().filter(|capture| capture.waiting() > 0)
            && let Err(error) = capture.flush()
        {
            (self.warn)(&Error::new(format!("cannot write {}: {error}", capture.path().display())));
        }
    }
}

/// The pause between two parts of a message: long enough for a client to read the first part alone.
const PAUSE: Duration = Duration::from_millis(50);
/// The maximum time for the client to read the last bytes after it has closed its side.
const LAST_WRITE: Duration = Duration::from_secs(2);
/// The number of unwritten bytes above which nothing is read from the client.
const MAX_UNWRITTEN: usize = 64 * 1024 * 1024;
