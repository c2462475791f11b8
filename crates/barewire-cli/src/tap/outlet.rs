//! Lines of the log -> stderr, a file or a socket, on a thread of its own: who does not read them holds up nobody.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::failure::report;
use crate::platform::{self, LogSocket};

/// Where the log goes.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Stderr,
    File(PathBuf),
    /// Whoever listens there; also if that is later.
    Unix(PathBuf),
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text.strip_prefix("unix:") {
            Some("") => Err("unix: needs the path of a socket"),
            Some(path) => Ok(Self::Unix(path.into())),
            None if text.is_empty() => Err("stderr, a file or unix:PATH is expected"),
            None if text == "stderr" => Ok(Self::Stderr),
            None => Ok(Self::File(text.into())),
        }
    }
}

/// Where lines are put.
#[derive(Clone)]
pub(super) struct Outlet(Arc<Shared>);

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    text: String,
    /// How many did not fit.
    missed: u64,
    /// Some are being written just now.
    writing: bool,
}

impl Outlet {
    pub(super) fn open(target: Target) -> Result<Self, Failure> {
        let writer = match target {
            Target::Stderr => Writer::Open(Box::new(io::stderr())),
            Target::File(path) => Writer::Open(Box::new(open(&path)?)),
            Target::Unix(path) => Writer::Socket { path, next_try: Instant::now() },
        };
        let shared = Arc::new(Shared::default());
        let outlet = Self(Arc::clone(&shared));
        thread::spawn(move || shared.write(writer));
        Ok(outlet)
    }

    /// Puts a line there, without its end.
    pub(super) fn line(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.text.len() + line.len() > MOST {
            lines.missed += 1;
            return;
        }
        lines.say_missed();
        lines.text.push_str(line);
        lines.text.push('\n');
    }

    /// Everything so far is to be written now.
    pub(super) fn flush(&self) {
        self.0.changed.notify_all();
    }

    /// Waits until all of it is written, but not for ever.
    pub(super) fn finish(&self) {
        self.0.lock().say_missed();
        self.flush();
        let lines = self.0.lock();
        let busy = |lines: &mut Lines| lines.writing || !lines.text.is_empty();
        drop(self.0.changed.wait_timeout_while(lines, AT_THE_END, busy));
    }
}

impl Lines {
    fn say_missed(&mut self) {
        if self.missed > 0 {
            let missed = std::mem::take(&mut self.missed);
            self.text.push_str(&format!("# {missed} lines are missing here\n"));
        }
    }
}

/// Opens a file to append to, if it is empty, a log already, or a device.
fn open(path: &Path) -> Result<File, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(format!("cannot write the log to {}: {why}", path.display()))
            .with_hint("--log takes stderr, a file, or unix:PATH")
    };
    let mut options = platform::private_options();
    options.append(true).create(true);
    let opened = options.clone().read(true).open(path).or_else(|error| match error.kind() {
        // A terminal that can only be written to.
        io::ErrorKind::PermissionDenied => options.open(path),
        _ => Err(error),
    });
    let file = opened.map_err(|error| cannot(&error))?;
    let metadata = file.metadata().map_err(|error| cannot(&error))?;
    if metadata.is_file() && metadata.len() > 0 {
        let mut begin = Vec::new();
        (&file).take(LONGEST_BEGIN).read_to_end(&mut begin).map_err(|error| cannot(&error))?;
        let is_log = begin.starts_with(BEGIN) && memchr::memmem::find(&begin, b" tap, ").is_some();
        if !is_log {
            return Err(cannot(&"it is there already, and is no log")
                .with_hint("give another name, or remove the file; only to logs is it appended"));
        }
    }
    Ok(file)
}

/// What a log begins with, and another one in the same file.
pub(super) fn first_line(started: &str, what: &str) -> String {
    format!("# barewire {} tap, {started}: {what}", env!("CARGO_PKG_VERSION"))
}

const BEGIN: &[u8] = b"# barewire ";

/// The version is in it.
const LONGEST_BEGIN: u64 = 64;

enum Writer {
    Open(Box<dyn Write + Send>),
    /// Nobody listens there yet.
    Socket {
        path: PathBuf,
        next_try: Instant,
    },
    /// It failed, and that was said.
    Gone,
}

impl Shared {
    fn write(&self, mut writer: Writer) {
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

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn put(self, text: &str) -> Self {
        let mut open = match self {
            Self::Open(open) => open,
            Self::Gone => return Self::Gone,
            Self::Socket { path, next_try } => {
                if Instant::now() < next_try {
                    return Self::Socket { path, next_try };
                }
                match LogSocket::connect(&path) {
                    Ok(socket) => Box::new(Reconnecting { socket, path }),
                    // Somebody may listen there later.
                    Err(_) => return Self::Socket { path, next_try: Instant::now() + RETRY },
                }
            }
        };
        match open.write_all(text.as_bytes()).and_then(|()| open.flush()) {
            Ok(()) => Self::Open(open),
            Err(error) => {
                let what = format!("cannot write the log: {error}; everything is still passed on");
                report(&Failure::new(what));
                Self::Gone
            }
        }
    }
}

/// A socket to which somebody listens, and perhaps somebody else later.
struct Reconnecting {
    socket: LogSocket,
    path: PathBuf,
}

impl Write for Reconnecting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                // Whoever listened has gone. If nobody listens now, nobody misses the line.
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

/// Of lines that nobody reads.
const MOST: usize = 1024 * 1024;

/// Somebody who reads at all has read a mebibyte by then.
const AT_THE_END: Duration = Duration::from_millis(500);

const RETRY: Duration = Duration::from_secs(1);
