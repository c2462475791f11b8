//! Reads the operations of a capture.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Observer, ObserverSink};
use crate::Error;
use crate::frames::{Format, FrameLimits, FrameReader, WireItem};
use crate::operations::{Operation, OperationTracker, Relation, TrackedMessage};

/// Reads the operations of a capture, a `.wire` file, in the order in which they began.
///
/// All operations are in memory at once; an [`Observer`] sees them one at a time instead.
pub fn read_operations(file: impl AsRef<Path>) -> Result<Vec<Operation>, Error> {
    let reading = FrameReader {
        file: Some(file.as_ref()),
        format: Format::Wire,
        limits: FrameLimits::default(),
        follow: false,
        // The only warning is about an incomplete last line, which has no complete message.
        warn: &|_| {},
        notice: &|_| {},
        filter: None,
    };
    let mut observed = ObserverSink::new(OperationCollector::default());
    reading.each(&mut observed)?;
    Ok(observed.finish().0.into_values().collect())
}

/// Maps each operation's number to the operation.
#[derive(Default)]
struct OperationCollector(BTreeMap<u64, Operation>);

impl OperationCollector {
    fn keep(&mut self, operation: &Operation) {
        self.0.insert(operation.number, operation.clone());
    }
}

impl Observer for OperationCollector {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        // The tracker forgets an operation after its response, unless another round follows.
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
