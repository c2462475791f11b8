//! Live bytes and events -> entries -> { a capture, frames -> operations -> observers }.
//!
//! Recorded captures, live relays and servers under test all use this pipeline, so they give the same results.
//! Observers see the bytes as they were on the wire; secrets are replaced only in the capture.

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

/// A consumer of messages and events.
pub trait Observer {
    /// Called with each message and its relation to earlier messages.
    fn message(&mut self, message: &TrackedMessage<'_>);

    /// Called with every item. For a frame, `message` is called first, with each message in it.
    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker);

    /// Called after `item` was called with all items that were received so far.
    fn caught_up(&mut self) {}

    /// Called at the end. `operations` holds the unfinished operations.
    fn end(&mut self, operations: &OperationTracker);

    /// Whether this observer needs to be called at all. If `false`, frames are neither decoded nor parsed.
    fn is_active(&self) -> bool {
        true
    }
}

/// Calls several observers one after another.
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

    fn is_active(&self) -> bool {
        !self.is_empty()
    }
}

/// The last stage of the pipeline, also for frames from a file: tracks operations, and calls an observer.
pub struct ObserverSink<O> {
    operations: OperationTracker,
    /// The observer.
    pub observer: O,
}

impl<O: Observer> ObserverSink<O> {
    /// Creates a sink for this observer.
    pub fn new(observer: O) -> Self {
        Self { operations: OperationTracker::new(), observer }
    }

    /// Calls the observer's `end`, and returns the observer.
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

/// The whole pipeline for live bytes.
pub struct Pipeline<O> {
    /// A recorder for each open stream.
    recorders: HashMap<(Channel, Stream), Recorder>,
    streams: Streams,
    observed: ObserverSink<O>,
    /// The error after which the observer is no longer called: a peer exceeded a limit that well-behaved peers respect.
    observer_error: Option<Error>,
    capture: Option<CaptureWriter>,
    entries: Vec<Entry>,
}

impl<O: Observer> Pipeline<O> {
    /// Creates a pipeline with these limits for frames. Records to `capture`, if given.
    pub fn new(limits: FrameLimits, capture: Option<CaptureWriter>, observer: O) -> Self {
        let (streams, observed) = (Streams::new(limits), ObserverSink::new(observer));
        Self { recorders: HashMap::new(), streams, observed, observer_error: None, capture, entries: Vec::new() }
    }

    /// Takes bytes of a stream.
    pub fn bytes(&mut self, channel: &Channel, stream: Stream, bytes: &[u8], time: Duration) {
        let mut entries = std::mem::take(&mut self.entries);
        let new = || Recorder::new(stream, channel.clone(), PIECE);
        let recorder = self.recorders.entry((channel.clone(), stream)).or_insert_with(new);
        recorder.push(bytes, Some(time), &mut entries);
        self.pass_on(entries);
    }

    /// Takes an event. A gap or the end of a stream ends the unfinished line before it.
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

    /// Takes an entry as it is. Bytes in it are not joined with other bytes of their stream.
    pub fn entry(&mut self, entry: Entry) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.push(entry);
        self.pass_on(entries);
    }

    /// Takes the start of a program. Its arguments may contain secrets, which the writer recognizes by the names of
    /// options.
    pub fn open<'a>(&mut self, channel: &Channel, argv: impl Iterator<Item = &'a OsStr> + Clone, time: Duration) {
        let (line, _) = Redactor::off().argv(argv.clone());
        self.observe(&event(channel.clone(), Note::Open(line), Some(time)));
        if let Some(capture) = &mut self.capture {
            capture.open(channel.clone(), argv, time);
        }
    }

    /// Takes a header that is sent and whose value is a secret, regardless of its name.
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
        if self.observer_error.is_none()
            && self.observed.observer.is_active()
            && let Err(error) = self.streams.entry(entry, &mut self.observed)
        {
            self.observer_error = Some(error);
        }
    }

    /// Returns the observer.
    pub fn observer(&mut self) -> &mut O {
        &mut self.observed.observer
    }

    /// Returns the capture, if there is one. Its file is complete after [`CaptureWriter::flush`].
    pub fn capture(&mut self) -> Option<&mut CaptureWriter> {
        self.capture.as_mut()
    }

    /// Returns the error after which the observer is no longer called, if there was one.
    pub fn observer_error(&self) -> Option<&Error> {
        self.observer_error.as_ref()
    }

    /// Ends all streams, and returns the observer and the capture.
    pub fn finish(mut self) -> (O, Option<CaptureWriter>) {
        if self.observer_error.is_none() && self.observed.observer.is_active() {
            // This cannot fail: the sink accepts everything, and the unfinished frames are within the limits.
            let _ = self.streams.finish(&mut self.observed);
        }
        (self.observed.finish(), self.capture)
    }
}
