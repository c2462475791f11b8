//! A queue of copies -> the entries that one viewer gets, on a thread of its own. The thread may wait for the viewer;
//! the relay does not wait for the thread.

use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use barewire_proto::rpc::DEFAULT_DEPTH;
use barewire_proto::transcript::Channel;

use super::super::observation::{FLUSH_BYTES, MAX_OBSERVED_FRAME, channel_of, observe};
use super::super::queue::{ObservationBatch, ObservationQueue};
use crate::capture::{CaptureClock, CaptureWriter, Redactor};
use crate::frames::FrameLimits;
use crate::pipeline::{Observer, Pipeline};

/// The facts with which the entries for a viewer begin.
pub(super) struct ViewedEntries {
    pub(super) clock: CaptureClock,
    pub(super) argv: Vec<OsString>,
    pub(super) redacted: bool,
}

/// The thread that writes to one viewer.
pub(super) struct ViewerThread(Receiver<()>);

impl ViewedEntries {
    /// Starts the thread. Calls `ended` when the viewer is gone.
    pub(super) fn write_to(
        self,
        to: File,
        queue: Arc<ObservationQueue>,
        ended: impl FnOnce() + Send + 'static,
    ) -> ViewerThread {
        let (finished, done) = mpsc::channel();
        thread::spawn(move || {
            // An error means that the viewer is gone.
            let _ = self.run(to, &queue);
            let _ = finished.send(());
            ended();
        });
        ViewerThread(done)
    }

    fn run(self, to: File, queue: &ObservationQueue) -> std::io::Result<()> {
        let redactor = if self.redacted { Redactor::new() } else { Redactor::off() };
        let mut capture = CaptureWriter::to_file(to, PathBuf::from("a viewer"), self.clock, redactor, &[]);
        if !self.argv.is_empty() {
            capture.open(Channel::default(), self.argv.iter().map(OsString::as_os_str), Duration::ZERO);
        }
        capture.flush()?;
        let limits = FrameLimits { frame: MAX_OBSERVED_FRAME, depth: DEFAULT_DEPTH };
        let mut pipeline = Pipeline::new(limits, Some(capture), Vec::<Box<dyn Observer + Send>>::new());
        let mut batch = ObservationBatch::default();
        while queue.take(&mut batch) {
            for (time, exchange, item) in batch.items() {
                observe(&mut pipeline, &channel_of(exchange), &item, time);
                queue.count_seen();
                flush_above(&mut pipeline, FLUSH_BYTES)?;
            }
            flush_above(&mut pipeline, 0)?;
        }
        match pipeline.finish().1 {
            Some(mut capture) => capture.flush(),
            None => Ok(()),
        }
    }
}

/// Writes the pending entries if they are longer than this.
fn flush_above<O: Observer>(pipeline: &mut Pipeline<O>, bytes: usize) -> std::io::Result<()> {
    match pipeline.capture().filter(|capture| capture.waiting() > bytes) {
        Some(capture) => capture.flush(),
        None => Ok(()),
    }
}

impl ViewerThread {
    /// Waits until the thread has written everything, as long as its viewer reads and until this time.
    pub(super) fn wait(self, queue: &ObservationQueue, until: Instant) {
        let mut seen = queue.seen();
        while let Err(RecvTimeoutError::Timeout) = self.0.recv_timeout(STUCK_VIEWER) {
            let before = std::mem::replace(&mut seen, queue.seen());
            if before == seen || Instant::now() >= until {
                return;
            }
        }
    }
}

/// The maximum wait at the end for a viewer that does not read.
const STUCK_VIEWER: Duration = Duration::from_millis(50);
