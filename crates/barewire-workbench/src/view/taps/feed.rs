//! A running tap -> its entries, from its capture if it records to a file, otherwise from its socket.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{Entry, Header, read_line};

use crate::frames::FrameLimits;
use crate::pipeline::{Observer, Pipeline};
use crate::platform::local_socket::{self, LocalStream};
use crate::relay::live::{RelayIdentity, STREAM_REQUEST};

/// A running tap that has said who it is.
pub struct RunningTap {
    identity: RelayIdentity,
    stream: BufReader<LocalStream>,
    socket: PathBuf,
}

/// The way in which the entries of a tap have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TapEnd {
    /// The tap has ended.
    Ended,
    /// The tap was killed, or the connection to it was lost.
    Lost,
    /// The observer needs no more entries.
    Stopped,
}

impl RunningTap {
    /// Reads who the tap is.
    pub(super) fn meet(stream: LocalStream, socket: &Path) -> io::Result<Self> {
        stream.set_read_timeout(Some(IDENTITY_TIMEOUT))?;
        let mut stream = BufReader::with_capacity(64 * 1024, stream);
        let mut line = Vec::new();
        (&mut stream).take(MAX_IDENTITY).read_until(b'\n', &mut line)?;
        let identity = serde_json::from_slice(&line).map_err(io::Error::other)?;
        stream.get_ref().set_read_timeout(None)?;
        Ok(Self { identity, stream, socket: socket.to_owned() })
    }

    /// Returns the facts that the tap has told.
    pub fn identity(&self) -> &RelayIdentity {
        &self.identity
    }

    /// Passes the entries of the tap to an observer, until the tap ends or `stop` is set. Blocks.
    pub fn read<O: Observer>(mut self, observer: O, stop: &AtomicBool) -> (O, TapEnd) {
        let limits = FrameLimits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
        let mut pipeline = Pipeline::new(limits, None, observer);
        let recording = self.recording();
        let done = match recording {
            Some(capture) => self.follow(capture, &mut pipeline, stop),
            None => self.stream(&mut pipeline, stop),
        };
        let end = match done {
            _ if stop.load(Ordering::Relaxed) => TapEnd::Stopped,
            // A tap that ends by itself removes its socket file first.
            Ok(()) if !local_socket::exists(&self.socket) => TapEnd::Ended,
            Ok(()) | Err(_) => TapEnd::Lost,
        };
        if end == TapEnd::Lost {
            self.remove_socket();
        }
        (pipeline.finish().0, end)
    }

    /// Removes the socket file of a killed tap. The system may close its connections before its listener.
    fn remove_socket(&self) {
        for _ in 0..REMOVE_TRIES {
            local_socket::remove_if_stale(&self.socket);
            if !local_socket::exists(&self.socket) {
                return;
            }
            thread::sleep(FOLLOW_PAUSE);
        }
    }

    /// Opens the capture of the tap. Returns `None` if it is not the file of this tap.
    fn recording(&self) -> Option<BufReader<File>> {
        let mut capture = BufReader::with_capacity(READ_SIZE, File::open(self.identity.recording.as_ref()?).ok()?);
        let begin = capture.fill_buf().ok()?;
        let line = begin.split(|byte| *byte == b'\n').next()?;
        let Ok(Entry::Header(Header { facts, .. })) = read_line(line, 1) else { return None };
        let started = facts.iter().find(|(key, _)| key.as_str() == "started")?;
        (started.1 == self.identity.started.as_bytes()).then_some(capture)
    }

    /// Reads the capture while the tap writes it. The connection only tells when the tap has ended, so that the tap
    /// does no more than without a viewer.
    fn follow<O: Observer>(
        &mut self,
        mut capture: BufReader<File>,
        pipeline: &mut Pipeline<O>,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let has_ended = Arc::new(AtomicBool::new(false));
        let (mut connection, ended) = (self.stream.get_ref().try_clone()?, Arc::clone(&has_ended));
        thread::spawn(move || {
            let _ = connection.read(&mut [0; 1]);
            ended.store(true, Ordering::Release);
        });
        let mut lines = Lines::default();
        loop {
            // What is written before the end is read after it was noticed.
            let is_last = has_ended.load(Ordering::Acquire);
            while lines.pass_on(&mut capture, pipeline, stop)? {}
            pipeline.observer().caught_up();
            if is_last || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            thread::sleep(FOLLOW_PAUSE);
        }
    }

    /// Asks the tap for its live entries, and reads them.
    fn stream<O: Observer>(&mut self, pipeline: &mut Pipeline<O>, stop: &AtomicBool) -> io::Result<()> {
        self.stream.get_mut().write_all(format!("{STREAM_REQUEST}\n").as_bytes())?;
        // The read returns now and then, to notice `stop`.
        self.stream.get_ref().set_read_timeout(Some(STOP_TIMEOUT))?;
        let mut lines = Lines::default();
        loop {
            match lines.pass_on(&mut self.stream, pipeline, stop) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
            pipeline.observer().caught_up();
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
}

/// The lines of a transcript that is still being written.
#[derive(Default)]
struct Lines {
    /// The beginning of a line whose rest is not there yet.
    partial: Vec<u8>,
    /// The number of the last line.
    number: u64,
}

impl Lines {
    /// Passes on the lines of the next read. Returns `false` at the current end of the input.
    fn pass_on<O: Observer>(
        &mut self,
        from: &mut impl BufRead,
        pipeline: &mut Pipeline<O>,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        let bytes = match from.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let (length, mut rest) = (bytes.len(), bytes);
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            rest = after;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if self.partial.is_empty() {
                self.line(line, pipeline);
            } else {
                self.partial.extend_from_slice(line);
                let line = std::mem::take(&mut self.partial);
                self.line(&line, pipeline);
            }
        }
        if self.partial.len() + rest.len() > MAX_LINE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.partial.extend_from_slice(rest);
        from.consume(length);
        Ok(length > 0)
    }

    fn line<O: Observer>(&mut self, line: &[u8], pipeline: &mut Pipeline<O>) {
        self.number += 1;
        // A line that cannot be read is of a newer version, and left out.
        if let Ok(entry) = read_line(line, self.number) {
            pipeline.entry(entry);
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The maximum wait for the first line of a tap, which it writes at once.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum length of the first line: the longest command line that is reasonable.
const MAX_IDENTITY: u64 = 1024 * 1024;

/// The maximum length of a line: a piece of a frame, in which each byte may be escaped.
const MAX_LINE: usize = 16 * 1024 * 1024;

const READ_SIZE: usize = 256 * 1024;

/// The time between two looks at a capture: too short for a person to notice.
const FOLLOW_PAUSE: Duration = Duration::from_millis(25);

/// The number of tries to remove the socket file of a killed tap: half a second.
const REMOVE_TRIES: usize = 20;

/// The maximum time until a viewer that has been stopped notices it.
const STOP_TIMEOUT: Duration = Duration::from_millis(200);
