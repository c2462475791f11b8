//! A capture -> its operations.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Observer, ObserverSink};
use crate::Error;
use crate::frames::{Format, FrameLimits, FrameReader, WireItem};
use crate::operations::{Operation, OperationTracker, Relation, TrackedMessage};

/// Reads the operations of a capture, a `.wire` file, in the order in which they began.
///
/// All of them are in memory at once; an [`Observer`] sees them one after the other instead.
pub fn read_operations(file: impl AsRef<Path>) -> Result<Vec<Operation>, Error> {
    let reading = FrameReader {
        file: Some(file.as_ref()),
        format: Format::Wire,
        limits: FrameLimits::default(),
        follow: false,
        // A last line that is cut short belongs to no complete message.
        warn: &|_| {},
    };
    let mut observed = ObserverSink::new(OperationCollector::default());
    reading.each(&mut observed)?;
    Ok(observed.finish().0.into_values().collect())
}

/// Every operation, by its number.
#[derive(Default)]
struct OperationCollector(BTreeMap<u64, Operation>);

impl OperationCollector {
    fn keep(&mut self, operation: &Operation) {
        self.0.insert(operation.number, operation.clone());
    }
}

impl Observer for OperationCollector {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        // After its response an operation is forgotten, unless there is another round.
        if let Relation::Response { operation, .. } = message.relation {
            self.keep(operation);
        }
    }

    fn item(&mut self, _item: &WireItem<'_>, operations: &OperationTracker) {
        operations.refused().iter().for_each(|operation| self.keep(operation));
    }

    fn end(&mut self, operations: &OperationTracker) {
        operations.open().for_each(|operation| self.keep(operation));
    }
}
