//! Bytes that we send and get -> the pipeline, and the frames that are complete with them; one for all connections of a run.

use std::cell::RefCell;
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{Bytes, Channel, End, Entry, Marks, Note, Stream};

use crate::capture::{CaptureClock, CaptureWriter};
use crate::check::catalogue::Check;
use crate::check::finding::{Finding, Location};
use crate::check::inspector::Inspector;
use crate::check::ledger::{Ledger, Reason, SkipReason};
use crate::frames::{FrameLimits, WireItem};
use crate::operations::{OperationTracker, TrackedMessage};
use crate::pipeline::{Observer, Pipeline};

/// The pipeline of a run, in several hands.
#[derive(Clone)]
pub(super) struct Recording(Rc<RefCell<RecordingState>>);

struct RecordingState {
    clock: CaptureClock,
    pipeline: Pipeline<FrameCollector>,
}

/// One frame, in its place.
#[derive(Clone)]
pub(super) struct LocatedFrame {
    pub(super) location: Location,
    pub(super) bytes: Vec<u8>,
}

/// The passive checks, and the frames that the probes wait for.
struct FrameCollector {
    inspector: Inspector,
    lines: Vec<LocatedFrame>,
}

impl Observer for FrameCollector {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        self.inspector.message(message);
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        if let WireItem::Frame(frame) = item {
            let bytes = frame.bytes.unwrap_or_default().to_vec();
            self.lines.push(LocatedFrame { location: Location::of(frame, 0), bytes });
        }
        self.inspector.item(item, operations);
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.inspector.end(operations);
    }
}

impl Recording {
    pub(super) fn new(clock: CaptureClock, capture: Option<CaptureWriter>) -> Self {
        Self(Rc::new(RefCell::new(RecordingState { clock, pipeline: pipeline(capture) })))
    }

    /// Takes what was written or read, and gives back the frames that are complete with it.
    pub(super) fn bytes(&self, channel: &Channel, stream: Stream, bytes: &[u8]) -> Vec<LocatedFrame> {
        self.put(|pipeline, time| pipeline.bytes(channel, stream, bytes, time))
    }

    /// Takes a line of stderr.
    pub(super) fn stderr(&self, channel: &Channel, time: Duration, line: Vec<u8>) {
        let marks = Marks::at(Some(time));
        let bytes = Bytes { stream: Stream::Stderr, channel: channel.clone(), payload: line, end: End::Lf, marks };
        self.put(|pipeline, _| pipeline.entry(Entry::Bytes(bytes)));
    }

    pub(super) fn event(&self, channel: &Channel, note: Note) -> Vec<LocatedFrame> {
        self.put(|pipeline, time| pipeline.event(channel, note, time))
    }

    /// A program was started.
    pub(super) fn open(&self, channel: &Channel, argv: &[OsString]) {
        self.put(|pipeline, time| pipeline.open(channel, argv.iter().map(OsString::as_os_str), time));
    }

    /// A header is sent whose value is a secret, whatever it is called.
    pub(super) fn secret_header(&self, channel: &Channel, name: &str, value: &str) {
        self.put(|pipeline, time| pipeline.secret_header(channel, name, value, time));
    }

    fn put(&self, take: impl FnOnce(&mut Pipeline<FrameCollector>, Duration)) -> Vec<LocatedFrame> {
        let RecordingState { clock, pipeline } = &mut *self.0.borrow_mut();
        take(pipeline, clock.now());
        if let Some(capture) = pipeline.capture().filter(|capture| capture.waiting() > FLUSH_BYTES) {
            // That it cannot be written is told at the end.
            let _ = capture.flush();
        }
        std::mem::take(&mut pipeline.observer().lines)
    }

    pub(super) fn clock(&self) -> CaptureClock {
        self.0.borrow().clock
    }

    pub(super) fn fail(&self, finding: Finding) {
        self.inspector(|inspector| inspector.ledger.fail(finding));
    }

    pub(super) fn inspected(&self, check: &'static Check) {
        self.inspector(|inspector| inspector.ledger.inspected(check));
    }

    pub(super) fn skip(&self, check: &'static Check, why: SkipReason) {
        self.inspector(|inspector| inspector.ledger.skip(check, why));
    }

    pub(super) fn incomplete(&self, check: &'static Check, why: impl Into<Reason>) {
        self.inspector(|inspector| inspector.ledger.incomplete(check, why));
    }

    pub(super) fn withdraw(&self, check: &'static Check) {
        self.inspector(|inspector| inspector.ledger.withdraw(check));
    }

    pub(super) fn has_failed(&self, check: &Check) -> bool {
        self.inspector(|inspector| inspector.ledger.has_failed(check))
    }

    pub(super) fn is_settled(&self, check: &Check) -> bool {
        self.inspector(|inspector| inspector.ledger.is_settled(check))
    }

    /// How its process ends is told by whoever drives it.
    pub(super) fn mark_misuse(&self, channel: &Channel) {
        self.inspector(|inspector| inspector.checks.mark_misuse(channel.as_str()));
    }

    /// That this is not answered is told by whoever asked.
    pub(super) fn claim(&self, conversation: &str, id: &str) {
        self.inspector(|inspector| inspector.checks.claim(conversation, id));
    }

    fn inspector<T>(&self, with: impl FnOnce(&mut Inspector) -> T) -> T {
        with(&mut self.0.borrow_mut().pipeline.observer().inspector)
    }

    /// All is over: what was found, and whether it could be kept.
    pub(super) fn finish(self) -> (Ledger, Result<(), std::io::Error>) {
        let ended = std::mem::replace(&mut self.0.borrow_mut().pipeline, pipeline(None));
        let (frames, capture) = ended.finish();
        (frames.inspector.ledger, capture.map_or(Ok(()), |mut capture| capture.flush()))
    }
}

fn pipeline(capture: Option<CaptureWriter>) -> Pipeline<FrameCollector> {
    let limits = FrameLimits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
    Pipeline::new(limits, capture, FrameCollector { inspector: Inspector::of_our_own(), lines: Vec::new() })
}

/// Not a write for every line.
const FLUSH_BYTES: usize = 64 * 1024;
