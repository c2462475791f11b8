//! Copies of what is relayed -> the pipeline, on a thread of its own, so that no relay waits for a disk or a check.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::{Channel, Note, Stream};

use super::queue::{Batch, Exchange, Moment, ONLY, ObservationQueue};
use crate::Error;
use crate::capture::{CaptureClock, CaptureWriter};
use crate::frames::FrameLimits;
use crate::pipeline::{Observer, Pipeline};

/// What looks on at a relay: a capture, observers, or both.
pub struct Observation {
    clock: CaptureClock,
    queue: Arc<ObservationQueue>,
    done: mpsc::Receiver<()>,
    warn: fn(&Error),
}

/// The end of an observation that a relay puts things into. It never waits.
#[derive(Clone)]
pub(super) struct Copies {
    clock: CaptureClock,
    queue: Arc<ObservationQueue>,
}

impl Observation {
    /// Starts to look on. `warn` is called with what cannot be written or seen; the relay goes on all the same.
    pub fn start(
        clock: CaptureClock,
        capture: Option<CaptureWriter>,
        observers: Vec<Box<dyn Observer + Send>>,
        warn: fn(&Error),
    ) -> Self {
        let limits = FrameLimits { frame: MAX_OBSERVED_FRAME, depth: DEFAULT_DEPTH };
        let observed = Observing {
            pipeline: Pipeline::new(limits, capture, observers),
            warn,
            has_warned_of_gaps: false,
            is_blind: false,
        };
        let queue = Arc::new(ObservationQueue::default());
        let (finished, done) = mpsc::channel();
        let from = Arc::clone(&queue);
        thread::spawn(move || {
            observed.run(&from);
            let _ = finished.send(());
        });
        Self { clock, queue, done, warn }
    }

    pub(super) fn clock(&self) -> CaptureClock {
        self.clock
    }

    pub(super) fn copies(&self) -> Copies {
        Copies { clock: self.clock, queue: Arc::clone(&self.queue) }
    }

    /// Nothing more comes: waits as long as the thread gets on. A disk that hangs must not keep the host waiting.
    pub fn finish(self) {
        self.queue.end();
        let until = Instant::now() + SLOW_DISK;
        let mut seen = self.queue.seen();
        while let Err(RecvTimeoutError::Timeout) = self.done.recv_timeout(STUCK) {
            let before = std::mem::replace(&mut seen, self.queue.seen());
            if before == seen || Instant::now() >= until {
                let what = "what was seen last cannot be written down in time: the end of it is missing";
                (self.warn)(&Error::new(what));
                return;
            }
        }
    }
}

impl Copies {
    /// Takes a copy of bytes that were relayed, and when they were read.
    pub(super) fn bytes(&self, exchange: Exchange, stream: Stream, bytes: &[u8], time: Duration) {
        self.queue.bytes(exchange, stream, bytes, time);
    }

    /// Takes something else that happened now.
    pub(super) fn note(&self, exchange: Exchange, note: Note) {
        self.queue.note(exchange, note, self.clock.now());
    }
}

/// The thread's side.
struct Observing {
    pipeline: Pipeline<Vec<Box<dyn Observer + Send>>>,
    warn: fn(&Error),
    has_warned_of_gaps: bool,
    is_blind: bool,
}

impl Observing {
    /// Observes until nothing more comes.
    fn run(mut self, queue: &ObservationQueue) {
        let mut batch = Batch::default();
        while queue.take(&mut batch) {
            for (time, exchange, moment) in batch.moments() {
                self.moment(time, exchange, &moment);
                queue.see();
            }
            self.flush();
            self.pipeline.observer().caught_up();
        }
        let (_, capture) = self.pipeline.finish();
        if let Some(mut capture) = capture {
            flush(&mut capture, self.warn);
        }
    }

    fn moment(&mut self, time: Duration, exchange: Exchange, moment: &Moment<'_>) {
        let channel = match exchange {
            ONLY => Channel::default(),
            exchange => Channel::new(&format!("x{exchange}")).expect("it can be written"),
        };
        match moment {
            Moment::Bytes(stream, bytes) => self.pipeline.bytes(&channel, *stream, bytes, time),
            Moment::Missed(stream, bytes) => {
                if !std::mem::replace(&mut self.has_warned_of_gaps, true) {
                    let what = "what goes over the wire comes faster than it can be written down: \
                        there are gaps in the capture";
                    (self.warn)(&Error::new(what));
                }
                self.pipeline.event(&channel, Note::Gap(*stream, *bytes), time);
            }
            Moment::Note(note) => self.pipeline.event(&channel, (*note).clone(), time),
        }
        if let Some(error) = self.pipeline.blind().filter(|_| !self.is_blind) {
            (self.warn)(error);
            self.is_blind = true;
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

/// Writes what there is to the file; that it cannot be written is said once.
pub fn flush(capture: &mut CaptureWriter, warn: fn(&Error)) {
    if let Err(error) = capture.flush() {
        let what = format!("cannot write {}: {error}", capture.path().display());
        warn(&Error::new(what).and(STILL_RELAYED));
    }
}

/// The end of a warning about what cannot be written down.
pub const STILL_RELAYED: &str = "everything is still passed on";

/// Of a longer frame only the beginning is looked at. It is recorded whole.
const MAX_OBSERVED_FRAME: usize = 16 * 1024 * 1024;

/// Written at once rather than kept until all of a batch is.
const FLUSH_BYTES: usize = 256 * 1024;

/// As long as a disk takes that is only slow.
const SLOW_DISK: Duration = Duration::from_secs(5);

/// Less than hosts wait before they kill.
const STUCK: Duration = Duration::from_secs(1);
