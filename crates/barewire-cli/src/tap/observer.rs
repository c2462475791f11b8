//! What was forwarded -> the capture, the log, and whoever else wants to know.
//!
//! Everything is judged as it was on the wire, before secrets are taken out of it. Who wants to look on as well is an [`Onlooker`]
//! in the list that [`Observer`] is made with.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{Channel, Entry, Note, Recorder, Stream};

use super::tape::{Batch, Line, Moment, ONLY, Tape};
use crate::Failure;
use crate::failure::report;
use barewire_workbench::capture::{Capture, PIECE, event};
use barewire_workbench::frames::{Limits, Sight, Sink, Streams, ended};
use barewire_workbench::operations::{Watch, Watched};

/// Somebody who is told what goes over the wire, as it happens.
pub(super) trait Onlooker: Send {
    /// A message, and what it has to do with those before it.
    fn message(&mut self, watched: &Watched<'_>);

    /// Everything that is told of the wire: frames as well, behind the messages in them. `watch` knows of it.
    fn sight(&mut self, sight: &Sight<'_>, watch: &Watch);

    /// All that has come so far is told.
    fn rest(&mut self) {}

    /// The wire is gone. What was not finished is in `watch`.
    fn end(&mut self, watch: &Watch);
}

pub(super) struct Observer {
    capture: Option<Capture>,
    /// For every stream that is open.
    recorders: HashMap<(Line, Stream), Recorder>,
    streams: Streams,
    told: Told,
    entries: Vec<Entry>,
    /// That there are gaps was said.
    said_behind: bool,
}

/// Those who look on.
struct Told {
    watch: Watch,
    onlookers: Vec<Box<dyn Onlooker>>,
}

impl Observer {
    pub(super) fn new(capture: Option<Capture>, onlookers: Vec<Box<dyn Onlooker>>) -> Self {
        Self {
            capture,
            recorders: HashMap::new(),
            streams: Streams::new(Limits { frame: MOST_FRAME, depth: DEFAULT_DEPTH }),
            told: Told { watch: Watch::new(), onlookers },
            entries: Vec::new(),
            said_behind: false,
        }
    }

    /// Observes until nothing more comes.
    pub(super) fn run(mut self, tape: &Tape) {
        let mut batch = Batch::default();
        while tape.take(&mut batch) {
            for (time, line, moment) in batch.moments() {
                self.moment(time, line, &moment);
                tape.see();
            }
            self.flush();
            for onlooker in &mut self.told.onlookers {
                onlooker.rest();
            }
        }
        if !self.told.onlookers.is_empty() {
            let _ = self.streams.finish(&mut self.told);
        }
        let Told { watch, onlookers } = &mut self.told;
        for onlooker in onlookers {
            onlooker.end(watch);
        }
        self.flush();
    }

    fn moment(&mut self, time: Duration, line: Line, moment: &Moment<'_>) {
        let mut entries = std::mem::take(&mut self.entries);
        let channel = || match line {
            ONLY => Channel::default(),
            exchange => Channel::new(&format!("x{exchange}")).expect("it can be written"),
        };
        let event = |note| event(channel(), note, Some(time));
        match moment {
            Moment::Bytes(stream, bytes) => {
                let new = || Recorder::new(*stream, channel(), PIECE);
                let recorder = self.recorders.entry((line, *stream)).or_insert_with(new);
                recorder.push(bytes, Some(time), &mut entries);
            }
            Moment::Missed(stream, bytes) => {
                self.finish(line, *stream, time, &mut entries);
                if !std::mem::replace(&mut self.said_behind, true) {
                    let what = "what goes over the wire comes faster than it can be written down: \
                        there are gaps in the capture";
                    report(&Failure::new(what));
                }
                entries.push(event(Note::Gap(*stream, *bytes)));
            }
            Moment::Note(note) => {
                if let Note::Gap(stream, _) = note {
                    self.finish(line, *stream, time, &mut entries);
                }
                if let Some(stream) = ended(note) {
                    self.finish(line, stream, time, &mut entries);
                }
                entries.push(event((*note).clone()));
            }
        }
        for entry in entries.drain(..) {
            if !self.told.onlookers.is_empty()
                && let Err(failure) = self.streams.entry(&entry, &mut self.told)
            {
                // Too much at once: whoever looks on sees no more of it.
                report(&failure);
                self.told.onlookers.clear();
            }
            if let Some(capture) = &mut self.capture {
                capture.write(entry);
            }
        }
        self.entries = entries;
        if self.capture.as_ref().is_some_and(|capture| capture.waiting() > FLUSH) {
            self.flush();
        }
    }

    /// A line that goes on behind a gap is none; and behind the end of a stream there is nothing.
    fn finish(&mut self, line: Line, stream: Stream, time: Duration, entries: &mut Vec<Entry>) {
        if let Some(mut recorder) = self.recorders.remove(&(line, stream)) {
            recorder.finish(Some(time), entries);
        }
    }

    fn flush(&mut self) {
        self.capture.as_mut().map(flush);
    }
}

/// Writes what there is to the file; that it cannot be written is said once.
pub(super) fn flush(capture: &mut Capture) {
    if let Err(error) = capture.flush() {
        let what = format!("cannot write {}: {error}", capture.path().display());
        report(&Failure::new(what).and(STILL));
    }
}

impl Sink for Told {
    fn take(&mut self, sight: &Sight<'_>) -> Result<bool, Failure> {
        let Self { watch, onlookers } = self;
        watch.take(sight, &mut |watched| {
            for onlooker in &mut *onlookers {
                onlooker.message(watched);
            }
        });
        for onlooker in onlookers {
            onlooker.sight(sight, watch);
        }
        Ok(true)
    }
}

/// Whatever cannot be written down.
pub(super) const STILL: &str = "everything is still passed on";

/// Of a longer frame only the beginning is looked at. It is recorded whole.
const MOST_FRAME: usize = 16 * 1024 * 1024;

/// Written at once rather than kept until all of a batch is.
const FLUSH: usize = 256 * 1024;
