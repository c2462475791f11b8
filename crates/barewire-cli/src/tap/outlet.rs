//! Log lines -> stderr, a file or a socket. A separate thread writes them, so that a slow reader blocks nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use barewire_proto::transcript::SafeText;

use crate::Failure;
use crate::failure::report;
use crate::output::raw_stderr;
use crate::platform::{self, LogSocket};

#[derive(Clone, Debug)]
pub(super) enum LogTarget {
    Stderr,
    File(PathBuf),
    /// A Unix socket. Its listener may start later, stop and be replaced.
    Unix(PathBuf),
}

impl LogTarget {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: needs the path of a socket"),
            Some(path) => Ok(Self::Unix(path.into())),
            None if text.is_empty() => Err("expected stderr, a file or unix:PATH"),
            None if text == "stderr" => Ok(Self::Stderr),
            None => Ok(Self::File(text.into())),
        }
    }
}

/// A handle for writing lines to the log.
#[derive(Clone)]
pub(super) struct Outlet(Arc<LogQueue>);

#[derive(Default)]
struct LogQueue {
    lines: Mutex<QueuedLines>,
    changed: Condvar,
}

#[derive(Default)]
struct QueuedLines {
    /// Escaped, because the log quotes peers and may be a terminal.
    text: SafeText,
    /// The number of lines that were dropped because the queue was full.
    missed: u64,
    /// Whether the thread is currently writing lines.
    writing: bool,
}

impl Outlet {
    pub(super) fn open(target: LogTarget) -> Result<Self, Failure> {
        let writer = match target {
            LogTarget::Stderr => LogWriter::Open(Box::new(raw_stderr())),
            LogTarget::File(path) => LogWriter::Open(Box::new(open(&path)?)),
            LogTarget::Unix(path) => LogWriter::Socket { path, next_try: Instant::now() },
        };
        let shared = Arc::new(LogQueue::default());
        let outlet = Self(Arc::clone(&shared));
        thread::spawn(move || shared.write(writer));
        Ok(outlet)
    }

    /// Queues a line. `line` has no newline at its end.
    pub(super) fn line(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.text.len() + line.len() > MAX_QUEUED {
            lines.missed += 1;
            return;
        }
        lines.report_missed();
        lines.text.push(format_args!("{line}\n"));
    }

    /// Wakes the thread to write all queued lines.
    pub(super) fn flush(&self) {
        self.0.changed.notify_all();
    }

    /// Waits until all queued lines are written, at most for `FINISH_TIMEOUT`.
    pub(super) fn finish(&self) {
        self.0.lock().report_missed();
        self.flush();
        let lines = self.0.lock();
        let busy = |lines: &mut QueuedLines| lines.writing || !lines.text.is_empty();
        drop(self.0.changed.wait_timeout_while(lines, FINISH_TIMEOUT, busy));
    }
}

impl QueuedLines {
    fn report_missed(&mut self) {
        if self.missed > 0 {
            let missed = std::mem::take(&mut self.missed);
            self.text.push(format_args!("# {missed} lines are missing here\n"));
        }
    }
}

/// Opens a file for appending, and makes it readable only by its owner. Refuses a file with content that is not a log,
/// and a file of another user.
fn open(path: &Path) -> Result<File, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot write the log to {}: {why}", path.display()))
            .with_hint("--log takes stderr, a file, or unix:PATH")
    };
    let mut options = platform::private_options();
    options.append(true).create(true);
    let opened = options.clone().read(true).open(path).or_else(|error| match error.kind() {
        // The file may be a terminal that can be written but not read.
        io::ErrorKind::PermissionDenied => options.open(path),
        _ => Err(error),
    });
    let file = opened.map_err(|error| cannot(&error))?;
    let metadata = file.metadata().map_err(|error| cannot(&error))?;
    if metadata.is_file() && metadata.len() > 0 {
        let mut begin = Vec::new();
        (&file).take(LOG_START_LENGTH).read_to_end(&mut begin).map_err(|error| cannot(&error))?;
        let is_log = begin.starts_with(LOG_START) && memchr::memmem::find(&begin, b" tap, ").is_some();
        if !is_log {
            return Err(cannot(&"the file exists and is not a log")
                .with_hint("choose another name, or remove the file; only logs are appended to"));
        }
    }
    barewire_workbench::platform::make_private(&file)
        .map_err(|error| cannot(&error).with_hint("choose another name; a log must be readable only by you"))?;
    Ok(file)
}

/// Returns the first line of a log. A file may contain several logs.
pub(super) fn first_line(started: &str, what: &str) -> String {
    format!("# barewire {} tap, {started}: {what}", env!("CARGO_PKG_VERSION"))
}

const LOG_START: &[u8] = b"# barewire ";

/// The number of bytes to read to recognize a log: enough for the start of its first line, with the version.
const LOG_START_LENGTH: u64 = 64;

#[rustfmt::skip] // each variant stays on one line
enum LogWriter {
    Open(Box<dyn Write + Send>),
    /// A socket that has no listener yet.
    Socket { path: PathBuf, next_try: Instant },
    /// A write failed, and the failure was reported. Further lines are dropped.
    Gone,
}

impl LogQueue {
    fn write(&self, mut writer: LogWriter) {
        loop {
            let mut lines = self.lock();
            lines.writing = false;
            self.changed.notify_all();
            while lines.text.is_empty() {
                lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
            }
            let text = std::mem::take(&mut lines.text);
            lines.writing = true;
            drop(lines);
            writer = writer.put(&text);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogWriter {
    fn put(self, text: &SafeText) -> Self {
        let mut open = match self {
            Self::Open(open) => open,
            Self::Gone => return Self::Gone,
            Self::Socket { path, next_try } => {
                if Instant::now() < next_try {
                    return Self::Socket { path, next_try };
                }
                match LogSocket::connect(&path) {
                    Ok(socket) => Box::new(Reconnecting { socket, path }),
                    // The listener may start later.
                    Err(_) => return Self::Socket { path, next_try: Instant::now() + RETRY },
                }
            }
        };
        match open.write_all(text.as_bytes()).and_then(|()| open.flush()) {
            Ok(()) => Self::Open(open),
            Err(error) => {
                report(&Failure::new(format!("cannot write the log: {error}; everything is still passed on")));
                Self::Gone
            }
        }
    }
}

/// A socket that reconnects when its listener is replaced.
struct Reconnecting {
    socket: LogSocket,
    path: PathBuf,
}

impl Write for Reconnecting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // The listener closed the connection. If there is no new listener, the line is dropped.
                if let Ok(socket) = LogSocket::connect(&self.path) {
                    self.socket = socket;
                    return self.socket.write(bytes);
                }
                Ok(bytes.len())
            }
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The maximum number of queued bytes.
const MAX_QUEUED: usize = 1024 * 1024;

/// The maximum time to wait for the log at the end: long enough for most readers to read a full queue.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);

const RETRY: Duration = Duration::from_secs(1);
