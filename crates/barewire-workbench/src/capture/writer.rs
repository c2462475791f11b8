//! Entries -> redaction -> lines of a file, also of one that cannot be written to for a while.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use barewire_proto::transcript::{Bytes, Channel, Entry, Event, Header, Marks, Note, Stream, VERSION, Word};

use super::{CaptureClock, Redactor, file};
use crate::Error;

/// A `.wire` file that is being written.
pub struct CaptureWriter {
    file: File,
    path: PathBuf,
    redactor: Redactor,
    /// What was redacted, on its way to the text.
    entries: Vec<Entry>,
    /// Whole lines that are not in the file yet.
    text: String,
    state: State,
}

enum State {
    Writing,
    /// It could not be written to. What came since then is only counted.
    Failed {
        /// What is missing of the line that was cut.
        rest: Vec<u8>,
        missed: BTreeMap<(char, String), (Stream, Channel, u64)>,
        next_try: Instant,
    },
}

impl CaptureWriter {
    /// Makes the file, and writes the header with these facts behind its own.
    pub fn create(path: &Path, clock: CaptureClock, redactor: Redactor, facts: &[(&str, &str)]) -> Result<Self, Error> {
        let (file, path) = file::create(path, clock)?;
        let started = clock.started();
        let own = [("started", &*started), ("barewire", env!("CARGO_PKG_VERSION"))];
        let fact = |(key, value): (&str, &str)| Some((Word::new(key)?, value.as_bytes().to_vec()));
        let facts = own.into_iter().chain(facts.iter().copied()).filter_map(fact).collect();
        let (entries, text) = (Vec::new(), String::new());
        let mut capture = Self { file, path, redactor, entries, text, state: State::Writing };
        Entry::Header(Header { version: VERSION, facts }).write(&mut capture.text);
        Ok(capture)
    }

    /// Where it is, which is not always where it was wished to be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down that a program was started.
    pub fn open<'a>(&mut self, channel: Channel, argv: impl IntoIterator<Item = &'a OsStr>, time: Duration) {
        let (line, redacted) = self.redactor.argv(argv);
        let mut marks = Marks::at(Some(time));
        marks.redacted = redacted;
        self.put(&Entry::Event(Event { channel, note: Note::Open(line), marks }));
    }

    /// Writes down that a header is sent whose value is a secret, whatever it is called.
    pub fn secret_header(&mut self, channel: Channel, name: &str, value: &str, time: Duration) {
        let (line, redacted) = self.redactor.secret_header(name, value);
        let mut marks = Marks::at(Some(time));
        marks.redacted = redacted;
        self.put(&Entry::Event(Event { channel, note: Note::Head(Stream::ToServer, line), marks }));
    }

    /// Takes an entry, which is in the file after the next [`Self::flush`].
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
            (State::Writing, entry) => entry.write(&mut self.text),
            (State::Failed { missed, .. }, Entry::Bytes(bytes)) => {
                let Bytes { stream, channel, payload, end, .. } = bytes;
                miss(missed, *stream, channel, (payload.len() + end.as_bytes().len()) as u64);
            }
            (State::Failed { missed, .. }, Entry::Event(Event { channel, note: Note::Gap(stream, bytes), .. })) => {
                miss(missed, *stream, channel, *bytes);
            }
            // What else happened is short, and says what the gaps are about.
            (State::Failed { .. }, entry) if self.text.len() < MOST_EVENTS => entry.write(&mut self.text),
            (State::Failed { .. }, _) => {}
        }
    }

    /// How much waits for the next [`Self::flush`].
    pub fn waiting(&self) -> usize {
        self.text.len()
    }

    /// Writes what there is to the file. The error that a failing file begins with is given once; then it is tried again every
    /// second, and what was missed becomes a gap.
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Writing => {}
            State::Failed { next_try, .. } if Instant::now() < *next_try => return Ok(()),
            State::Failed { rest, next_try, .. } => {
                let (done, _) = write(&mut self.file, rest);
                rest.drain(..done);
                if !rest.is_empty() {
                    *next_try = Instant::now() + RETRY;
                    return Ok(());
                }
            }
        }
        let was_failed = match std::mem::replace(&mut self.state, State::Writing) {
            State::Writing => false,
            State::Failed { missed, .. } => {
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
            self.text.shrink_to(MOST_KEPT);
            return Ok(());
        };
        self.fail(done);
        if was_failed { Ok(()) } else { Err(error) }
    }

    /// Of what waits, this much is in the file. The rest of its line is kept, so that the file goes on with whole lines; the others
    /// are counted.
    fn fail(&mut self, done: usize) {
        let text = std::mem::take(&mut self.text);
        let (_, left) = text.as_bytes().split_at(done);
        let at_line_start = done == 0 || text.as_bytes()[done - 1] == b'\n';
        let rest = match memchr::memchr(b'\n', left) {
            Some(end) if !at_line_start => left[..=end].to_vec(),
            _ => Vec::new(),
        };
        let lost = &left[rest.len()..];
        self.state = State::Failed { rest, missed: BTreeMap::new(), next_try: Instant::now() + RETRY };
        for line in lost.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            if let Ok(entry) = barewire_proto::transcript::read_line(line, 2) {
                self.put(&entry);
            }
        }
    }
}

fn miss(missed: &mut BTreeMap<(char, String), (Stream, Channel, u64)>, stream: Stream, channel: &Channel, bytes: u64) {
    let key = (stream.sigil(), channel.as_str().to_owned());
    // Channels come and go over HTTP; so many are not told apart.
    if missed.len() < MOST_CHANNELS || missed.contains_key(&key) {
        let entry = missed.entry(key).or_insert((stream, channel.clone(), 0));
        entry.2 = entry.2.saturating_add(bytes);
    }
}

/// Writes as much as can be written, and says how much that was.
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

/// Something that happened, as an entry.
pub fn event(channel: Channel, note: Note, time: Option<Duration>) -> Entry {
    Entry::Event(Event { channel, note, marks: Marks::at(time) })
}

/// Often enough to go on soon after a disk has room again, and no burden.
const RETRY: Duration = Duration::from_secs(1);

/// What is kept of the memory for lines.
const MOST_KEPT: usize = 1 << 20;

/// What happened while a file could not be written to.
const MOST_EVENTS: usize = 64 * 1024;

const MOST_CHANNELS: usize = 1024;
