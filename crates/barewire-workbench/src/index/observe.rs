//! An index -> an observer, which sees what a filter selects as if it had been read from a capture.

use super::IndexedCapture;
use super::exported::ExportedRows;
use super::selection::SelectionQuery;
use super::wire_entries::wire_entries;
use crate::Error;
use crate::filter::Filter;
use crate::frames::{FrameLimits, Streams, WireItem};
use crate::operations::{OperationTracker, TrackedMessage};
use crate::pipeline::{Observer, ObserverSink};
use barewire_proto::transcript::Note;

/// Passes to an observer every operation of which the filter selects a message, and the other messages that it
/// selects. The index must be complete, or else the observer sees what is there so far.
pub fn observe<O: Observer>(index: &IndexedCapture, filter: &Filter, observer: O) -> Result<O, Error> {
    observe_selection(index, &SelectionQuery { filter: filter.clone(), ..SelectionQuery::default() }, observer)
}

/// Passes what a query selects to an observer.
pub(crate) fn observe_selection<O: Observer>(
    index: &IndexedCapture,
    query: &SelectionQuery,
    observer: O,
) -> Result<O, Error> {
    let rows = index.exported_rows(query);
    let mut sink = ObserverSink::new(SelectedObserver { observer, rows, row: None });
    let mut streams = Streams::new(FrameLimits::default());
    let mut failure = None;
    // The tracker sees everything, so that frames keep their numbers, and operations their conversations.
    wire_entries(index, None, &mut |row, entry| {
        sink.observer.row = row;
        match streams.entry(&entry, &mut sink) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                failure = Some(error);
                false
            }
        }
    });
    failure.map_or_else(|| streams.finish(&mut sink), Err)?;
    Ok(sink.finish().observer)
}

/// Passes on what is in the exported rows.
struct SelectedObserver<O> {
    observer: O,
    /// The exported rows; all of them if `None`.
    rows: Option<ExportedRows>,
    /// The row that the current item is made of.
    row: Option<usize>,
}

impl<O> SelectedObserver<O> {
    /// Whether the current row is exported; for a batch, its element with this index.
    fn has(&self, element: Option<usize>) -> bool {
        match (&self.rows, self.row) {
            (Some(rows), Some(row)) => element.map_or_else(|| rows.has(row), |element| rows.has_element(row, element)),
            (None, _) | (_, None) => true,
        }
    }
}

impl<O: Observer> Observer for SelectedObserver<O> {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        if self.has(message.element) {
            self.observer.message(message);
        }
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        let is_passed = match item {
            WireItem::Frame(_) | WireItem::Stderr(_) => self.has(None),
            // The end of an exchange that was not passed on says nothing to an observer, so only the beginning matters.
            WireItem::Event(event) => !matches!(event.note, Note::Head(..)) || self.has(None),
            WireItem::Header(_) | WireItem::Endpoint { .. } => true,
        };
        if is_passed {
            self.observer.item(item, operations);
        }
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.observer.end(operations);
    }
}
