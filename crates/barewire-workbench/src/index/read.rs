//! Reads a file into an index.

use std::sync::Arc;

use super::{IndexWriter, IndexedCapture};
use crate::Error;
use crate::frames::{FrameReader, Sink, WireFrame, WireItem};
use crate::pipeline::ObserverSink;
use crate::rows::DirectionGuess;
use crate::secrets::Redactor;

/// Reads a file into an index, until its end or until the index is stopped. `progress` is called with the number of
/// bytes that were read.
pub fn read_file(
    reader: &FrameReader<'_>,
    index: &Arc<IndexedCapture>,
    redactor: Redactor,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let writer = IndexWriter::new(Arc::clone(index), redactor);
    let mut sink = IndexSink { observed: ObserverSink::new(writer), guess: DirectionGuess::default(), progress };
    let done = reader.each(&mut sink);
    sink.observed.finish();
    done
}

struct IndexSink<'a> {
    observed: ObserverSink<IndexWriter>,
    guess: DirectionGuess,
    progress: &'a mut dyn FnMut(u64),
}

impl Sink for IndexSink<'_> {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        match item {
            WireItem::Frame(frame) if frame.place.is_none() => {
                self.observed.observer.guesses_directions();
                let placed: WireFrame<'_> = self.guess.place(frame);
                self.observed.take(&WireItem::Frame(&placed))?;
            }
            item => {
                self.observed.take(item)?;
            }
        }
        Ok(!self.observed.observer.is_finished())
    }

    fn caught_up(&mut self) -> Result<(), Error> {
        self.observed.caught_up()
    }

    fn read_so_far(&mut self, bytes: u64) {
        (self.progress)(bytes);
    }
}
