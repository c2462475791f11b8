//! The messages of a capture -> its operations, each with the texts of its request and its response.

use std::collections::HashMap;

use barewire_proto::mcp::Side;

use super::ComparedSide;
use crate::Error;
use crate::frames::{FrameReader, Sink, WireItem};
use crate::operations::{Operation, OperationTracker, Relation, TrackedMessage};
use crate::pipeline::{Observer, ObserverSink};
use crate::rows::DirectionGuess;

/// The operations of a capture, with their texts.
#[derive(Debug, Default)]
pub struct OperationTexts {
    pub(super) operations: Vec<CollectedOperation>,
    /// Maps the number of each unfinished operation to its place.
    places: HashMap<u64, usize>,
    /// The number of bytes of all texts.
    held: usize,
}

#[derive(Debug)]
pub(super) struct CollectedOperation {
    pub(super) method: String,
    pub(super) name: Option<String>,
    pub(super) asker: Side,
    pub(super) side: ComparedSide,
    /// The text of the first request.
    pub(super) request: Vec<u8>,
    /// The text of the last response.
    pub(super) response: Option<Vec<u8>>,
}

impl OperationTexts {
    /// Creates an empty collection, which observes a capture.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads all operations of a file. Fails if they are too large to compare: their texts are in memory.
    pub fn read(reader: &FrameReader<'_>) -> Result<Self, Error> {
        let mut sink = CollectorSink { observed: ObserverSink::new(Self::new()), guess: DirectionGuess::default() };
        reader.each(&mut sink)?;
        Ok(sink.observed.finish())
    }

    /// Whether the texts are too large to keep more of them.
    pub fn is_full(&self) -> bool {
        self.held > MAX_HELD || self.operations.len() > MAX_OPERATIONS
    }

    fn begin(&mut self, operation: &Operation, text: &[u8]) {
        if self.places.contains_key(&operation.number) || self.is_full() {
            return;
        }
        self.held += text.len();
        self.places.insert(operation.number, self.operations.len());
        self.operations.push(CollectedOperation {
            method: operation.method.clone(),
            name: operation.name.clone(),
            asker: operation.asker,
            side: ComparedSide {
                conversation: operation.conversation.clone(),
                frame: operation.asked().frame,
                answer_frame: None,
                outcome: None,
                latency: None,
            },
            request: text.to_vec(),
            response: None,
        });
    }

    fn answer(&mut self, operation: &Operation, text: &[u8]) {
        let Some(collected) = self.places.get(&operation.number).and_then(|at| self.operations.get_mut(*at)) else {
            return;
        };
        let before = collected.response.replace(text.to_vec()).map_or(0, |text| text.len());
        self.held = (self.held + text.len()).saturating_sub(before);
        if let Some(answer) = operation.answer() {
            (collected.side.answer_frame, collected.side.outcome) =
                (Some(answer.at.frame), Some(answer.outcome.clone()));
        }
        collected.side.latency = operation.latency();
        // The first message with the session id can be the response.
        collected.side.conversation.clone_from(&operation.conversation);
    }
}

impl Observer for OperationTexts {
    fn message(&mut self, tracked: &TrackedMessage<'_>) {
        let text = tracked.text.unwrap_or_default();
        match tracked.relation {
            Relation::Request { operation, .. } => self.begin(operation, text),
            Relation::Response { operation, .. } => self.answer(operation, text),
            _ => {}
        }
    }

    fn item(&mut self, _: &WireItem<'_>, _: &OperationTracker) {}

    fn end(&mut self, _: &OperationTracker) {
        self.places = HashMap::new();
    }
}

/// Collects operations, also of an input without directions.
struct CollectorSink {
    observed: ObserverSink<OperationTexts>,
    guess: DirectionGuess,
}

impl Sink for CollectorSink {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        match item {
            WireItem::Frame(frame) if frame.place.is_none() => {
                self.observed.take(&WireItem::Frame(&self.guess.place(frame)))?;
            }
            item => {
                self.observed.take(item)?;
            }
        }
        if self.observed.observer.is_full() {
            let what =
                format!("the operations take more than {} MiB, or are more than {MAX_OPERATIONS}", MAX_HELD >> 20);
            return Err(Error::new(what).with_hint("compare smaller captures"));
        }
        Ok(true)
    }
}

/// The maximum number of bytes of all texts of a capture.
const MAX_HELD: usize = 256 * 1024 * 1024;
/// The maximum number of operations of a capture.
const MAX_OPERATIONS: usize = 200_000;
