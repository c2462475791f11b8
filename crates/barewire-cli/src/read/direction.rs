//! Frames of a plain stream, which does not record their direction -> the same frames with a guessed direction.

use super::filter::refuse_plain_stream;
use crate::Failure;
use barewire_workbench::filter::Filter;
use barewire_workbench::frames::{Sink, WireItem};
use barewire_workbench::pipeline::{Observer, ObserverSink};
use barewire_workbench::rows::DirectionGuess;

/// Passes everything that is read to another observer. Frames without a direction get a guessed one first.
pub(super) struct DirectedObserver<'a, O> {
    filter: &'a Filter,
    guess: DirectionGuess,
    observed: ObserverSink<O>,
    pub(super) has_directions: bool,
}

impl<'a, O: Observer> DirectedObserver<'a, O> {
    pub(super) fn new(filter: &'a Filter, observer: O) -> Self {
        let guess = DirectionGuess::default();
        Self { filter, guess, observed: ObserverSink::new(observer), has_directions: false }
    }

    pub(super) fn finish(self) -> O {
        self.observed.finish()
    }
}

impl<O: Observer> Sink for DirectedObserver<'_, O> {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Failure> {
        match item {
            WireItem::Frame(frame) if frame.place.is_none() => {
                refuse_plain_stream(self.filter)?;
                self.observed.take(&WireItem::Frame(&self.guess.place(frame)))
            }
            item => {
                self.has_directions |= matches!(item, WireItem::Frame(_));
                self.observed.take(item)
            }
        }
    }
}
