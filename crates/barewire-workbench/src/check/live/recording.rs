//! The bytes of all connections of a run -> the pipeline with the passive checks, and the completed frames.

use std::cell::{RefCell, RefMut};
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::json::Json;
use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{Bytes, Channel, End, Entry, Marks, Note, Stream};

use crate::capture::{CaptureClock, CaptureWriter};
use crate::check::excerpt::Excerpt;
use crate::check::finding::Location;
use crate::check::inspector::Inspector;
use crate::check::ledger::Ledger;
use crate::check::passive::PassiveChecks;
use crate::frames::{FrameLimits, WireItem};
use crate::operations::{OperationTracker, Relation, TrackedMessage};
use crate::pipeline::{Observer, Pipeline};

/// The pipeline of a run, which all connections of the run share.
#[derive(Clone)]
pub(super) struct Recording(Rc<RefCell<RecordingState>>);

struct RecordingState {
    clock: CaptureClock,
    /// The number of bytes that the server has sent on all connections, without stderr.
    received: usize,
    pipeline: Pipeline<RecordingSink>,
}

#[derive(Clone)]
pub(super) struct LocatedFrame {
    pub(super) location: Location,
    /// The time at which the end of the frame was written or arrived.
    pub(super) time: Duration,
    pub(super) bytes: Rc<[u8]>,
    /// The request, if the frame is its response.
    pub(super) request: Option<Rc<Excerpt>>,
}

impl LocatedFrame {
    /// Returns the memory that the frame takes, in bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }

    /// Returns the frame as JSON, or `None` if it is not JSON. A byte order mark is skipped: the passive checks report
    /// it, and the probes go on.
    pub(super) fn json(&self) -> Option<Json<'_>> {
        Json::parse(self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.bytes)).ok()
    }
}

/// The passive checks, and the frames that the probes have not taken yet.
struct RecordingSink {
    inspector: Inspector,
    frames: Vec<LocatedFrame>,
    /// The request that the current frame answers.
    request: Option<Rc<Excerpt>>,
}

impl Observer for RecordingSink {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        if let Relation::Response { operation, .. } = message.relation {
            // The checks forget the request after its response.
            self.request = self.inspector.checks.request(operation.number).map(Rc::new);
        }
        self.inspector.message(message);
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        if let WireItem::Frame(frame) = item {
            let bytes = frame.bytes.unwrap_or_default().into();
            let time = frame.place.and_then(|place| place.time).unwrap_or_default();
            let request = self.request.take();
            self.frames.push(LocatedFrame { location: Location::of(frame, 0), time, bytes, request });
        }
        self.inspector.item(item, operations);
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.inspector.end(operations);
    }
}

impl Recording {
    pub(super) fn new(clock: CaptureClock, capture: Option<CaptureWriter>) -> Self {
        Self(Rc::new(RefCell::new(RecordingState { clock, received: 0, pipeline: pipeline(capture) })))
    }

    /// Records bytes that are written or read now, and returns the frames that these bytes complete.
    pub(super) fn bytes(&self, channel: &Channel, stream: Stream, bytes: &[u8]) -> Vec<LocatedFrame> {
        self.bytes_at(channel, stream, bytes, self.clock().now())
    }

    /// Records bytes that were written or read at this time, and returns the frames that these bytes complete.
    pub(super) fn bytes_at(
        &self,
        channel: &Channel,
        stream: Stream,
        bytes: &[u8],
        time: Duration,
    ) -> Vec<LocatedFrame> {
        if stream == Stream::ToClient {
            self.0.borrow_mut().received += bytes.len();
        }
        self.push(|pipeline, _| pipeline.bytes(channel, stream, bytes, time))
    }

    pub(super) fn stderr(&self, channel: &Channel, time: Duration, line: Vec<u8>) {
        let marks = Marks::at(Some(time));
        let bytes = Bytes { stream: Stream::Stderr, channel: channel.clone(), payload: line, end: End::Lf, marks };
        self.push(|pipeline, _| pipeline.entry(Entry::Bytes(bytes)));
    }

    pub(super) fn event(&self, channel: &Channel, note: Note) -> Vec<LocatedFrame> {
        self.push(|pipeline, time| pipeline.event(channel, note, time))
    }

    pub(super) fn open(&self, channel: &Channel, argv: &[OsString]) {
        self.push(|pipeline, time| pipeline.open(channel, argv.iter().map(OsString::as_os_str), time));
    }

    /// Records a header whose value is a secret, whatever its name.
    pub(super) fn secret_header(&self, channel: &Channel, name: &str, value: &str) {
        self.push(|pipeline, time| pipeline.secret_header(channel, name, value, time));
    }

    fn push(&self, record: impl FnOnce(&mut Pipeline<RecordingSink>, Duration)) -> Vec<LocatedFrame> {
        let RecordingState { clock, pipeline, .. } = &mut *self.0.borrow_mut();
        record(pipeline, clock.now());
        if let Some(capture) = pipeline.capture().filter(|capture| capture.waiting() > FLUSH_BYTES) {
            // `finish` reports a write error.
            let _ = capture.flush();
        }
        std::mem::take(&mut pipeline.observer().frames)
    }

    /// Whether the server has sent so much that the run ends.
    pub(super) fn is_full(&self) -> bool {
        self.0.borrow().received >= MAX_RECEIVED
    }

    pub(super) fn clock(&self) -> CaptureClock {
        self.0.borrow().clock
    }

    pub(super) fn ledger(&self) -> RefMut<'_, Ledger> {
        RefMut::map(self.0.borrow_mut(), |state| &mut state.pipeline.observer().inspector.ledger)
    }

    pub(super) fn passive(&self) -> RefMut<'_, PassiveChecks> {
        RefMut::map(self.0.borrow_mut(), |state| &mut state.pipeline.observer().inspector.checks)
    }

    /// Notes that the response without an id in this frame is for the request with this id.
    pub(super) fn attribute(&self, channel: &Channel, id: &str, frame: Option<u64>) {
        let state = &mut *self.0.borrow_mut();
        let Inspector { checks, ledger, .. } = &mut state.pipeline.observer().inspector;
        checks.attribute(channel.as_str(), id, frame, ledger);
    }

    /// Ends the run, and returns the observations, and an error if the capture could not be written.
    pub(super) fn finish(self) -> (Inspector, Result<(), std::io::Error>) {
        let ended = std::mem::replace(&mut self.0.borrow_mut().pipeline, pipeline(None));
        let (collector, capture) = ended.finish();
        (collector.inspector, capture.map_or(Ok(()), |mut capture| capture.flush()))
    }
}

fn pipeline(capture: Option<CaptureWriter>) -> Pipeline<RecordingSink> {
    let limits = FrameLimits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
    Pipeline::new(
        limits,
        capture,
        RecordingSink { inspector: Inspector::of_our_own(), frames: Vec::new(), request: None },
    )
}

/// The number of buffered bytes from which the capture is flushed, so that not every line is a separate write.
const FLUSH_BYTES: usize = 64 * 1024;

/// The maximum number of bytes that are received, and recorded, in a run: four frames of the maximum length. A server
/// that never stops sending fills neither the disk nor the time of a run.
pub(super) const MAX_RECEIVED: usize = 256 * 1024 * 1024;
