//! Redacts entries and writes them to a file. Bytes that are missed while the file cannot be written become gaps.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use barewire_proto::transcript::{Bytes, Channel, Entry, Event, Header, Marks, Note, Stream, VERSION, Word};

use super::file::{self, CreatedFile, ExistingCapture};
use super::{CaptureClock, Redactor};
use crate::Error;

/// A `.wire` file that is being written.
pub struct CaptureWriter {
    file: File,
    path: PathBuf,
    /// The path without a number, if the path has one.
    wanted: Option<PathBuf>,
    redactor: Redactor,
    /// A buffer for redacted entries. It is empty between calls.
    entries: Vec<Entry>,
    /// Complete lines that are not written to the file yet.
    text: String,
    state: FileState,
}

enum FileState {
    Writing,
    /// A write has failed. Since then, bytes are only counted.
    Failed {
        /// The unwritten rest of the line in which the write failed.
        rest: Vec<u8>,
        missed: BTreeMap<(char, String), (Stream, Channel, u64)>,
        next_try: Instant,
    },
}

impl CaptureWriter {
    /// Creates the file, and prepares its header: the start time, the version of this crate, `facts`, and
    /// `redacted=no` if secrets are not replaced.
    pub fn create(
        path: &Path,
        existing: ExistingCapture,
        clock: CaptureClock,
        redactor: Redactor,
        facts: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let CreatedFile { file, path, wanted } = file::create(path, clock, existing)?;
        Ok(Self { wanted, ..Self::to_file(file, path, clock, redactor, facts) })
    }

    /// Writes to a file that is open, such as a socket, and prepares the header.
    pub(crate) fn to_file(
        file: File,
        path: PathBuf,
        clock: CaptureClock,
        redactor: Redactor,
        facts: &[(&str, &str)],
    ) -> Self {
        let started = clock.started();
        let own = [("started", &*started), ("barewire", env!("CARGO_PKG_VERSION"))];
        let fact = |(key, value): (&str, &str)| Some((Word::new(key)?, value.as_bytes().to_vec()));
        let unredacted = redactor.is_off().then_some(("redacted", "no"));
        let facts = own.into_iter().chain(facts.iter().copied()).chain(unredacted).filter_map(fact).collect();
        let (entries, text) = (Vec::new(), String::new());
        let mut capture = Self { file, path, wanted: None, redactor, entries, text, state: FileState::Writing };
        Entry::Header(Header { version: VERSION, facts }).write(&mut capture.text);
        capture
    }

    /// Returns the path of the file, which may differ from the requested path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path that another capture already has, if the path of this one has a number for this reason.
    pub fn taken_path(&self) -> Option<&Path> {
        self.wanted.as_deref()
    }

    /// Records the start of a program.
    pub fn open<'a>(&mut self, channel: Channel, argv: impl IntoIterator<Item = &'a OsStr>, time: Duration) {
        let (line, redacted) = self.redactor.argv(argv);
        self.put_redacted(channel, Note::Open(line), redacted, time);
    }

    /// Records a header whose value is a secret, regardless of its name.
    pub fn secret_header(&mut self, channel: Channel, name: &str, value: &str, time: Duration) {
        let (line, redacted) = self.redactor.secret_header(name, value);
        self.put_redacted(channel, Note::Head(Stream::ToServer, line), redacted, time);
    }

    fn put_redacted(&mut self, channel: Channel, note: Note, redacted: bool, time: Duration) {
        let mut marks = Marks::at(Some(time));
        marks.redacted = redacted;
        self.put(&Entry::Event(Event { channel, note, marks }));
    }

    /// Redacts an entry. The next [`Self::flush`] writes it to the file.
    pub fn write(&mut self, entry: Entry) {
        let mut entries = std::mem::take(&mut self.entries);
        self.redactor.entry(entry, &mut entries);
        for entry in entries.drain(..) {
            self.put(&entry);
        }
        self.entries = entries;
    }

    fn put(&mut self, entry: &Entry) {
        match (&mut self.state, entry) {
            (FileState::Writing, entry) => entry.write(&mut self.text),
            (FileState::Failed { missed, .. }, Entry::Bytes(bytes)) => {
                let Bytes { stream, channel, payload, end, .. } = bytes;
                count_missed(missed, *stream, channel, (payload.len() + end.as_bytes().len()) as u64);
            }
            (FileState::Failed { missed, .. }, Entry::Event(Event { channel, note: Note::Gap(stream, bytes), .. })) => {
                count_missed(missed, *stream, channel, *bytes);
            }
            // Other events are short and explain the gaps, so they are kept.
            (FileState::Failed { .. }, entry) if self.text.len() < MAX_EVENT_TEXT => entry.write(&mut self.text),
            (FileState::Failed { .. }, _) => {}
        }
    }

    /// Returns the number of bytes that the next [`Self::flush`] will write.
    pub fn waiting(&self) -> usize {
        self.text.len()
    }

    /// Writes all pending lines to the file. Only the first of several failures in a row is returned as an error. Later
    /// calls retry at most once per second; after a success, the bytes that were missed are recorded as gaps.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            FileState::Writing => {}
            FileState::Failed { next_try, .. } if Instant::now() < *next_try => return Ok(()),
            FileState::Failed { rest, next_try, .. } => {
                let (done, _) = write(&mut self.file, rest);
                rest.drain(..done);
                if !rest.is_empty() {
                    *next_try = Instant::now() + RETRY;
                    return Ok(());
                }
            }
        }
        let was_failed = match std::mem::replace(&mut self.state, FileState::Writing) {
            FileState::Writing => false,
            FileState::Failed { missed, .. } => {
                let mut gaps = String::new();
                for (stream, channel, bytes) in missed.into_values() {
                    event(channel, Note::Gap(stream, bytes), None).write(&mut gaps);
                }
                self.text.insert_str(0, &gaps);
                true
            }
        };
        let (done, result) = write(&mut self.file, self.text.as_bytes());
        let Err(error) = result else {
            self.text.clear();
            self.text.shrink_to(MAX_IDLE_CAPACITY);
            return Ok(());
        };
        self.fail(done);
        if was_failed { Ok(()) } else { Err(error) }
    }

    /// Handles a write that failed after `done` bytes. Keeps the rest of a line that was written in part, so that it
    /// can be completed; counts the bytes of all other lines as missed.
    fn fail(&mut self, done: usize) {
        let text = std::mem::take(&mut self.text);
        let (_, left) = text.as_bytes().split_at(done);
        let at_line_start = done == 0 || text.as_bytes()[done - 1] == b'\n';
        let rest = match memchr::memchr(b'\n', left) {
            Some(end) if !at_line_start => left[..=end].to_vec(),
            _ => Vec::new(),
        };
        let lost = &left[rest.len()..];
        self.state = FileState::Failed { rest, missed: BTreeMap::new(), next_try: Instant::now() + RETRY };
        for line in lost.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            if let Ok(entry) = barewire_proto::transcript::read_line(line, 2) {
                self.put(&entry);
            }
        }
    }
}

fn count_missed(
    missed: &mut BTreeMap<(char, String), (Stream, Channel, u64)>,
    stream: Stream,
    channel: &Channel,
    bytes: u64,
) {
    let key = (stream.sigil(), channel.as_str().to_owned());
    // Over HTTP there can be any number of channels. Missed bytes are counted for at most this many channels.
    if missed.len() < MAX_MISSED_CHANNELS || missed.contains_key(&key) {
        let entry = missed.entry(key).or_insert((stream, channel.clone(), 0));
        entry.2 = entry.2.saturating_add(bytes);
    }
}

/// Writes as much as possible. Returns the number of bytes written, and the error if there was one.
fn write(file: &mut File, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut done = 0;
    while done < bytes.len() {
        match file.write(&bytes[done..]) {
            Ok(0) => return (done, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(()))
}

/// Makes an event entry.
pub fn event(channel: Channel, note: Note, time: Option<Duration>) -> Entry {
    Entry::Event(Event { channel, note, marks: Marks::at(time) })
}

/// The time between two attempts to write: short enough to continue soon after a disk has room again.
const RETRY: Duration = Duration::from_secs(1);

/// The maximum capacity of the line buffer that is kept between flushes.
const MAX_IDLE_CAPACITY: usize = 1 << 20;

/// The maximum length of the event lines, in bytes, that are kept while the file cannot be written.
const MAX_EVENT_TEXT: usize = 64 * 1024;

const MAX_MISSED_CHANNELS: usize = 1024;
