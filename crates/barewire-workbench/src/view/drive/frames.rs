//! The messages of a driven session -> the frames of each call, and the id of the HTTP session.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::mcp::Side;
use barewire_proto::transcript::{Event, Note, Stream};

use crate::frames::WireItem;
use crate::operations::{OperationTracker, Relation, TrackedMessage};
use crate::pipeline::Observer;

/// The frames of the calls, as far as they are known.
#[derive(Default)]
pub(super) struct CallFrames(Mutex<WireFacts>);

/// What the observer of a driven session has seen.
#[derive(Default)]
struct WireFacts {
    /// The calls of each method whose requests were not seen yet, the oldest first.
    expected: HashMap<String, VecDeque<u64>>,
    /// Maps each open operation of a call to the call.
    operations: HashMap<u64, u64>,
    /// The frames of the request and of the response of each call.
    frames: HashMap<u64, (Option<u64>, Option<u64>)>,
    /// The frame of the last request of the server for each method.
    questions: HashMap<String, u64>,
    session: Option<String>,
}

/// Collects the facts.
pub(super) struct FramesObserver(Arc<CallFrames>);

impl CallFrames {
    /// Expects the request of a call.
    pub(super) fn expect(&self, method: &str, call: u64) {
        let mut facts = self.lock();
        if facts.expected.len() < MAX_METHODS || facts.expected.contains_key(method) {
            facts.expected.entry(method.to_owned()).or_default().push_back(call);
        }
    }

    /// Returns the frames of the request and of the last response of a call.
    pub(super) fn of_call(&self, call: u64) -> (Option<u64>, Option<u64>) {
        self.lock().frames.get(&call).copied().unwrap_or_default()
    }

    /// Forgets a call that is over and not listed any more.
    pub(super) fn forget(&self, call: u64) {
        let mut facts = self.lock();
        facts.frames.remove(&call);
        facts.operations.retain(|_, known| *known != call);
        facts.expected.values_mut().for_each(|calls| calls.retain(|known| *known != call));
    }

    /// Returns the frame of the last request of the server for a method.
    pub(super) fn of_question(&self, method: &str) -> Option<u64> {
        self.lock().questions.get(method).copied()
    }

    /// Returns the id of the HTTP session.
    pub(super) fn session(&self) -> Option<String> {
        self.lock().session.clone()
    }

    fn lock(&self) -> MutexGuard<'_, WireFacts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FramesObserver {
    pub(super) fn new(frames: Arc<CallFrames>) -> Self {
        Self(frames)
    }
}

impl Observer for FramesObserver {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        let frame = message.frame.number;
        let mut facts = self.0.lock();
        let facts = &mut *facts;
        match message.relation {
            Relation::Request { operation, .. } if message.sender == Side::Client => {
                if facts.operations.contains_key(&operation.number) {
                    return;
                }
                let waiting = facts.expected.get_mut(operation.method.as_str());
                let Some(call) = waiting.and_then(VecDeque::pop_front) else { return };
                facts.operations.insert(operation.number, call);
                facts.frames.insert(call, (Some(frame), None));
            }
            Relation::Request { operation, .. } => {
                let method = operation.method.as_str();
                let has_room = facts.questions.len() < MAX_METHODS || facts.questions.contains_key(method);
                facts.questions.extend(has_room.then(|| (method.to_owned(), frame)));
            }
            Relation::Response { operation, .. } => {
                if let Some(call) = facts.operations.get(&operation.number)
                    && let Some(frames) = facts.frames.get_mut(call)
                {
                    frames.1 = Some(frame);
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, item: &WireItem<'_>, _: &OperationTracker) {
        if let WireItem::Event(Event { note: Note::Head(Stream::ToClient, line), .. }) = item
            && let Some((name, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':'))
            && name.eq_ignore_ascii_case("mcp-session-id")
        {
            self.0.lock().session = Some(value.trim().to_owned());
        }
    }

    fn end(&mut self, _: &OperationTracker) {}
}

/// The maximum number of methods that are told apart.
const MAX_METHODS: usize = 1000;
