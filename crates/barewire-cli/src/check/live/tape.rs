//! Bytes that we send and get -> entries, frames and findings, as they come; and the file that keeps them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{Bytes, Channel, End, Entry, Marks, Note, Recorder, Stream};

use crate::Failure;
use crate::check::catalogue::Check;
use crate::check::finding::{Finding, Spot};
use crate::check::ledger::{Ledger, Skip};
use crate::check::passive::Judge;
use barewire_workbench::capture::{Capture, Clock, PIECE, Redactor, event};
use barewire_workbench::frames::{Limits, Sight, Sink, Streams};
use barewire_workbench::operations::Watch;

/// Everything that went over all connections of a run.
pub(super) struct Tape {
    clock: Clock,
    streams: Streams,
    recorders: HashMap<(Channel, Stream), Recorder>,
    onlooker: Onlooker,
    capture: Option<Capture>,
}

/// A tape in several hands.
#[derive(Clone)]
pub(super) struct Shared(Rc<RefCell<Tape>>);

/// One frame, in its place.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) spot: Spot,
    pub(super) bytes: Vec<u8>,
}

/// Whoever is told of frames: the passive checks, and who waits for the next frame.
struct Onlooker {
    watch: Watch,
    judge: Judge,
    ledger: Ledger,
    lines: Vec<Line>,
}

impl Sink for Onlooker {
    fn take(&mut self, sight: &Sight<'_>) -> Result<bool, Failure> {
        let Self { watch, judge, ledger, lines } = self;
        if let Sight::Frame(seen) = sight {
            let bytes = seen.bytes.unwrap_or_default().to_vec();
            lines.push(Line { spot: Spot::of(seen, 0), bytes });
        }
        watch.take(sight, &mut |watched| judge.message(watched, ledger));
        judge.sight(sight, watch, ledger);
        Ok(true)
    }
}

impl Shared {
    pub(super) fn new(clock: Clock, capture: Option<Capture>) -> Self {
        let limits = Limits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
        let onlooker = Onlooker {
            watch: Watch::new(),
            judge: Judge::of_our_own(),
            ledger: Ledger::default(),
            lines: Vec::new(),
        };
        let tape =
            Tape { clock, streams: Streams::new(limits), recorders: HashMap::new(), onlooker, capture };
        Self(Rc::new(RefCell::new(tape)))
    }

    /// Takes what was written or read, and gives back the frames that are complete with it.
    pub(super) fn bytes(&self, channel: &Channel, stream: Stream, bytes: &[u8]) -> Vec<Line> {
        let mut tape = self.0.borrow_mut();
        let time = Some(tape.clock.now());
        let mut entries = Vec::new();
        let key = (channel.clone(), stream);
        let recorder =
            tape.recorders.entry(key).or_insert_with(|| Recorder::new(stream, channel.clone(), PIECE));
        recorder.push(bytes, time, &mut entries);
        tape.entries(entries)
    }

    /// Takes a line of stderr.
    pub(super) fn stderr(&self, channel: &Channel, time: Duration, line: Vec<u8>) {
        let marks = Marks { time: Some(time), ..Marks::default() };
        let bytes =
            Bytes { stream: Stream::Stderr, channel: channel.clone(), payload: line, end: End::Lf, marks };
        self.0.borrow_mut().entries(vec![Entry::Bytes(bytes)]);
    }

    pub(super) fn event(&self, channel: &Channel, note: Note) -> Vec<Line> {
        let mut tape = self.0.borrow_mut();
        let time = Some(tape.clock.now());
        let mut entries = Vec::new();
        if let Note::Eof(stream) = note
            && let Some(mut recorder) = tape.recorders.remove(&(channel.clone(), stream))
        {
            recorder.finish(time, &mut entries);
        }
        entries.push(event(channel.clone(), note, time));
        tape.entries(entries)
    }

    /// A program was started.
    pub(super) fn open(&self, channel: &Channel, argv: &[OsString]) {
        let argv = || argv.iter().map(OsString::as_os_str);
        let (line, _) = Redactor::off().argv(argv());
        self.tell(channel, Note::Open(line), |capture, time| capture.open(channel.clone(), argv(), time));
    }

    /// A header is sent whose value is a secret, whatever it is called.
    pub(super) fn secret_header(&self, channel: &Channel, name: &str, value: &str) {
        let line = format!("{name}: {value}").into_bytes();
        self.tell(channel, Note::Head(Stream::ToServer, line), |capture, time| {
            capture.secret_header(channel.clone(), name, value, time);
        });
    }

    /// Something that is written down in another way than it is looked at.
    fn tell(&self, channel: &Channel, note: Note, write: impl FnOnce(&mut Capture, Duration)) {
        let mut tape = self.0.borrow_mut();
        let Tape { clock, streams, onlooker, capture, .. } = &mut *tape;
        let time = clock.now();
        // A sink that never refuses leaves only limits that no server reaches.
        let _ = streams.entry(&event(channel.clone(), note, Some(time)), onlooker);
        if let Some(capture) = capture {
            write(capture, time);
        }
    }

    pub(super) fn clock(&self) -> Clock {
        self.0.borrow().clock
    }

    pub(super) fn fail(&self, finding: Finding) {
        self.0.borrow_mut().onlooker.ledger.fail(finding);
    }

    pub(super) fn look(&self, check: &'static Check) {
        self.0.borrow_mut().onlooker.ledger.look(check);
    }

    pub(super) fn skip(&self, check: &'static Check, why: Skip) {
        self.0.borrow_mut().onlooker.ledger.skip(check, why);
    }

    pub(super) fn incomplete(&self, check: &'static Check, why: impl Into<String>) {
        self.0.borrow_mut().onlooker.ledger.incomplete(check, why);
    }

    pub(super) fn withdraw(&self, check: &'static Check) {
        self.0.borrow_mut().onlooker.ledger.withdraw(check);
    }

    pub(super) fn has_failed(&self, check: &Check) -> bool {
        self.0.borrow().onlooker.ledger.has_failed(check)
    }

    pub(super) fn is_settled(&self, check: &Check) -> bool {
        self.0.borrow().onlooker.ledger.is_settled(check)
    }

    /// How its process ends is told by whoever drives it.
    pub(super) fn is_rough(&self, channel: &Channel) {
        self.0.borrow_mut().onlooker.judge.is_rough(channel.as_str());
    }

    /// That this is not answered is told by whoever asked.
    pub(super) fn claim(&self, conversation: &str, id: &str) {
        self.0.borrow_mut().onlooker.judge.claim(conversation, id);
    }

    /// All is over: what was found, and whether it could be kept.
    pub(super) fn finish(self) -> (Ledger, Result<(), std::io::Error>) {
        let mut tape = self.0.borrow_mut();
        let Tape { streams, onlooker, capture, .. } = &mut *tape;
        // Nothing that it is told makes it fail.
        let _ = streams.finish(onlooker);
        let Onlooker { watch, judge, ledger, .. } = onlooker;
        judge.finish(watch, ledger);
        let kept = capture.as_mut().map_or(Ok(()), Capture::flush);
        (std::mem::take(ledger), kept)
    }
}

impl Tape {
    fn entries(&mut self, entries: Vec<Entry>) -> Vec<Line> {
        for entry in entries {
            // A sink that never refuses leaves only limits that no server reaches.
            let _ = self.streams.entry(&entry, &mut self.onlooker);
            if let Some(capture) = &mut self.capture {
                capture.write(entry);
                if capture.waiting() > FLUSH {
                    // That it cannot be written is told at the end.
                    let _ = capture.flush();
                }
            }
        }
        std::mem::take(&mut self.onlooker.lines)
    }
}

/// Not a write for every line.
const FLUSH: usize = 64 * 1024;
