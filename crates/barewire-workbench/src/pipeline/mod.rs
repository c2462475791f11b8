//! Bytes and events as they happen -> entries -> { a capture, frames -> operations -> observers }.
//!
//! There is one way from bytes to verdicts. A capture that is read, a relay that looks on and a server that is checked all go
//! through it, so they cannot disagree. Observers see the bytes as they were on the wire; secrets are replaced only in the capture.

mod read;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::time::Duration;

use barewire_proto::transcript::{Channel, Entry, Note, Recorder, Stream};

use crate::Error;
use crate::capture::{CaptureWriter, PIECE, Redactor, event};
use crate::frames::{FrameLimits, Sink, Streams, WireItem, ended_stream};
use crate::operations::{OperationTracker, TrackedMessage};

pub use read::read_operations;

/// Something that looks at what goes over the wire, as it happens.
pub trait Observer {
    /// Called with each message, and what it has to do with those before it.
    fn message(&mut self, message: &TrackedMessage<'_>);

    /// Called with everything that happened: with frames as well, after the messages in them.
    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker);

    /// Called when everything that has come so far was handed over.
    fn caught_up(&mut self) {}

    /// Called at the end. The operations that were not finished are in `operations`.
    fn end(&mut self, operations: &OperationTracker);

    /// Whether anything looks on at all. If not, no frame is cut and nothing is parsed.
    fn is_looking(&self) -> bool {
        true
    }
}

/// Several observers, each told the same, in their order.
impl<O: Observer + ?Sized> Observer for Vec<Box<O>> {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        self.iter_mut().for_each(|observer| observer.message(message));
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.iter_mut().for_each(|observer| observer.item(item, operations));
    }

    fn caught_up(&mut self) {
        self.iter_mut().for_each(|observer| observer.caught_up());
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.iter_mut().for_each(|observer| observer.end(operations));
    }

    fn is_looking(&self) -> bool {
        !self.is_empty()
    }
}

/// Frames -> operations -> an observer: the end of the pipeline, for what is read from a file as well.
pub struct ObserverSink<O> {
    operations: OperationTracker,
    /// The observer.
    pub observer: O,
}

impl<O: Observer> ObserverSink<O> {
    /// Puts an observer behind frames.
    pub fn new(observer: O) -> Self {
        Self { operations: OperationTracker::new(), observer }
    }

    /// Tells the observer that nothing more comes, and gives it back.
    pub fn finish(mut self) -> O {
        self.observer.end(&self.operations);
        self.observer
    }
}

impl<O: Observer> Sink for ObserverSink<O> {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        let Self { operations, observer } = self;
        operations.take(item, &mut |message| observer.message(message));
        observer.item(item, operations);
        Ok(true)
    }

    fn caught_up(&mut self) -> Result<(), Error> {
        self.observer.caught_up();
        Ok(())
    }
}

/// The whole way, for bytes that are seen live.
pub struct Pipeline<O> {
    /// One for each stream that is open.
    recorders: HashMap<(Channel, Stream), Recorder>,
    streams: Streams,
    observed: ObserverSink<O>,
    /// Why the observer is told nothing more: a limit that no peer reaches which means well.
    blind: Option<Error>,
    capture: Option<CaptureWriter>,
    entries: Vec<Entry>,
}

impl<O: Observer> Pipeline<O> {
    /// Makes one that cuts frames within these limits, and records if there is a capture to record to.
    pub fn new(limits: FrameLimits, capture: Option<CaptureWriter>, observer: O) -> Self {
        Self {
            recorders: HashMap::new(),
            streams: Streams::new(limits),
            observed: ObserverSink::new(observer),
            blind: None,
            capture,
            entries: Vec::new(),
        }
    }

    /// Takes bytes of a stream.
    pub fn bytes(&mut self, channel: &Channel, stream: Stream, bytes: &[u8], time: Duration) {
        let mut entries = std::mem::take(&mut self.entries);
        let new = || Recorder::new(stream, channel.clone(), PIECE);
        let recorder = self.recorders.entry((channel.clone(), stream)).or_insert_with(new);
        recorder.push(bytes, Some(time), &mut entries);
        self.pass_on(entries);
    }

    /// Takes something else that happened. After a gap or the end of a stream its unfinished line is a line of its own.
    pub fn event(&mut self, channel: &Channel, note: Note, time: Duration) {
        let mut entries = std::mem::take(&mut self.entries);
        let over = match &note {
            Note::Gap(stream, _) => Some(*stream),
            note => ended_stream(note),
        };
        if let Some(stream) = over
            && let Some(mut recorder) = self.recorders.remove(&(channel.clone(), stream))
        {
            recorder.finish(Some(time), &mut entries);
        }
        entries.push(event(channel.clone(), note, Some(time)));
        self.pass_on(entries);
    }

    /// Takes an entry that is complete in itself.
    pub fn entry(&mut self, entry: Entry) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.push(entry);
        self.pass_on(entries);
    }

    /// Takes the start of a program. Its arguments may hold secrets, by the names of options.
    pub fn open<'a>(&mut self, channel: &Channel, argv: impl Iterator<Item = &'a OsStr> + Clone, time: Duration) {
        let (line, _) = Redactor::off().argv(argv.clone());
        self.observe(&event(channel.clone(), Note::Open(line), Some(time)));
        if let Some(capture) = &mut self.capture {
            capture.open(channel.clone(), argv, time);
        }
    }

    /// Takes a header that is sent and whose value is a secret, whatever it is called.
    pub fn secret_header(&mut self, channel: &Channel, name: &str, value: &str, time: Duration) {
        let line = format!("{name}: {value}").into_bytes();
        self.observe(&event(channel.clone(), Note::Head(Stream::ToServer, line), Some(time)));
        if let Some(capture) = &mut self.capture {
            capture.secret_header(channel.clone(), name, value, time);
        }
    }

    fn pass_on(&mut self, mut entries: Vec<Entry>) {
        for entry in entries.drain(..) {
            self.observe(&entry);
            if let Some(capture) = &mut self.capture {
                capture.write(entry);
            }
        }
        self.entries = entries;
    }

    fn observe(&mut self, entry: &Entry) {
        if self.blind.is_none()
            && self.observed.observer.is_looking()
            && let Err(error) = self.streams.entry(entry, &mut self.observed)
        {
            self.blind = Some(error);
        }
    }

    /// The observer.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observed.observer
    }

    /// The capture, if there is one. What is in it is in its file after [`CaptureWriter::flush`].
    pub fn capture(&mut self) -> Option<&mut CaptureWriter> {
        self.capture.as_mut()
    }

    /// Why the observer is told nothing more, if that is so.
    pub fn blind(&self) -> Option<&Error> {
        self.blind.as_ref()
    }

    /// Ends all streams, tells the observer, and gives back both ends.
    pub fn finish(mut self) -> (O, Option<CaptureWriter>) {
        if self.blind.is_none() && self.observed.observer.is_looking() {
            // A sink that refuses nothing leaves only limits, and what is unfinished is within them.
            let _ = self.streams.finish(&mut self.observed);
        }
        (self.observed.finish(), self.capture)
    }
}
