//! Passes copies of relayed bytes through the pipeline, on a separate thread, so that no relay waits for a disk or a
//! check.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{Channel, Note, Stream};

use super::queue::{ExchangeNumber, ObservationBatch, ObservationQueue, ObservedItem, SINGLE_CONNECTION};
use crate::Error;
use crate::capture::{CaptureClock, CaptureWriter};
use crate::frames::FrameLimits;
use crate::pipeline::{Observer, Pipeline};

/// The observation of a relay: a capture, observers, or both.
pub struct Observation {
    clock: CaptureClock,
    queue: Arc<ObservationQueue>,
    done: mpsc::Receiver<()>,
    warn: fn(&Error),
}

/// The side of an observation that a relay writes to. Writing never blocks.
#[derive(Clone)]
pub(super) struct ObservationSender {
    clock: CaptureClock,
    queue: Arc<ObservationQueue>,
}

impl Observation {
    /// Starts an observation. `warn` is called if something cannot be recorded or observed; the relay continues.
    pub fn start(
        clock: CaptureClock,
        capture: Option<CaptureWriter>,
        observers: Vec<Box<dyn Observer + Send>>,
        warn: fn(&Error),
    ) -> Self {
        let limits = FrameLimits { frame: MAX_OBSERVED_FRAME, depth: DEFAULT_DEPTH };
        let pipeline = Pipeline::new(limits, capture, observers);
        let observed = ObservationThread { pipeline, warn, has_warned_of_gaps: false, has_warned_of_error: false };
        let queue = Arc::new(ObservationQueue::default());
        let (finished, done) = mpsc::channel();
        let from = Arc::clone(&queue);
        thread::spawn(move || {
            observed.run(&from);
            let _ = finished.send(());
        });
        Self { clock, queue, done, warn }
    }

    pub(super) fn sender(&self) -> ObservationSender {
        ObservationSender { clock: self.clock, queue: Arc::clone(&self.queue) }
    }

    /// Ends the observation. Waits only as long as its thread makes progress, so that a disk that hangs does not block
    /// the host.
    pub fn finish(self) {
        self.queue.end();
        let until = Instant::now() + SLOW_DISK;
        let mut seen = self.queue.seen();
        while let Err(RecvTimeoutError::Timeout) = self.done.recv_timeout(STUCK_DISK) {
            let before = std::mem::replace(&mut seen, self.queue.seen());
            if before == seen || Instant::now() >= until {
                (self.warn)(&Error::new("cannot write the last messages in time: the end of the capture is missing"));
                return;
            }
        }
    }
}

impl ObservationSender {
    pub(super) fn clock(&self) -> CaptureClock {
        self.clock
    }

    /// Queues bytes that were relayed, with the time when they were read.
    pub(super) fn bytes(&self, exchange: ExchangeNumber, stream: Stream, bytes: &[u8], time: Duration) {
        self.queue.bytes(exchange, stream, bytes, time);
    }

    /// Queues an event that happened now.
    pub(super) fn note(&self, exchange: ExchangeNumber, note: Note) {
        self.queue.note(exchange, note, self.clock.now());
    }
}

struct ObservationThread {
    pipeline: Pipeline<Vec<Box<dyn Observer + Send>>>,
    warn: fn(&Error),
    has_warned_of_gaps: bool,
    has_warned_of_error: bool,
}

impl ObservationThread {
    fn run(mut self, queue: &ObservationQueue) {
        let mut batch = ObservationBatch::default();
        while queue.take(&mut batch) {
            for (time, exchange, item) in batch.items() {
                self.item(time, exchange, &item);
                queue.count_seen();
            }
            self.flush();
            self.pipeline.observer().caught_up();
        }
        let (_, capture) = self.pipeline.finish();
        if let Some(mut capture) = capture {
            flush(&mut capture, self.warn);
        }
    }

    fn item(&mut self, time: Duration, exchange: ExchangeNumber, item: &ObservedItem<'_>) {
        if matches!(item, ObservedItem::Missed(..)) && !std::mem::replace(&mut self.has_warned_of_gaps, true) {
            (self.warn)(&Error::new("messages come faster than they can be recorded: the capture has gaps"));
        }
        observe(&mut self.pipeline, &channel_of(exchange), item, time);
        if let Some(error) = self.pipeline.observer_error().filter(|_| !self.has_warned_of_error) {
            (self.warn)(error);
            self.has_warned_of_error = true;
        }
        if self.pipeline.capture().is_some_and(|capture| capture.waiting() > FLUSH_BYTES) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Some(capture) = self.pipeline.capture() {
            flush(capture, self.warn);
        }
    }
}

/// Returns the channel of an exchange in a capture.
pub(super) fn channel_of(exchange: ExchangeNumber) -> Channel {
    match exchange {
        SINGLE_CONNECTION => Channel::default(),
        exchange => Channel::new(&format!("x{exchange}")).expect("a letter and digits"),
    }
}

/// Passes one item through a pipeline.
pub(super) fn observe<O: Observer>(
    pipeline: &mut Pipeline<O>,
    channel: &Channel,
    item: &ObservedItem<'_>,
    time: Duration,
) {
    match item {
        ObservedItem::Bytes(stream, bytes) => pipeline.bytes(channel, *stream, bytes, time),
        ObservedItem::Missed(stream, bytes) => pipeline.event(channel, Note::Gap(*stream, *bytes), time),
        ObservedItem::Note(note) => pipeline.event(channel, (*note).clone(), time),
    }
}

/// Writes all pending lines of the capture to the file. A failure is reported once.
pub fn flush(capture: &mut CaptureWriter, warn: fn(&Error)) {
    if let Err(error) = capture.flush() {
        warn(&Error::new(format!("cannot write {}: {error}", capture.path().display())).and(STILL_RELAYED));
    }
}

/// The last clause of a warning about something that cannot be recorded.
pub const STILL_RELAYED: &str = "everything is still passed on";

/// The maximum length of a frame that is parsed. Longer frames are still recorded completely.
pub(super) const MAX_OBSERVED_FRAME: usize = 16 * 1024 * 1024;

/// The number of pending bytes above which they are written to the file, even in the middle of a batch.
pub(super) const FLUSH_BYTES: usize = 256 * 1024;

/// The maximum time in which a slow disk can finish the capture.
const SLOW_DISK: Duration = Duration::from_secs(5);

/// The maximum wait for a disk that makes no progress. Hosts wait longer than this before they kill a server.
const STUCK_DISK: Duration = Duration::from_secs(1);
