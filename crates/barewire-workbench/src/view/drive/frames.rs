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
pub(super) struct FramesObserver {
    frames: Arc<CallFrames>,
    /// What the messages of the current frame are. It is told with the frame, because the page asks for the frame as
    /// soon as it knows the number.
    seen: Vec<SeenMessage>,
}

/// A message that the page is told the frame of.
enum SeenMessage {
    /// The request of a call.
    Request(u64),
    /// A response to a call.
    Response(u64),
    /// A request of the server, with its method.
    Question(String),
}

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

impl WireFacts {
    fn note(&mut self, seen: SeenMessage, frame: u64) {
        match seen {
            SeenMessage::Request(call) => {
                self.frames.insert(call, (Some(frame), None));
            }
            SeenMessage::Response(call) => {
                if let Some(frames) = self.frames.get_mut(&call) {
                    frames.1 = Some(frame);
                }
            }
            SeenMessage::Question(method) => {
                if self.questions.len() < MAX_METHODS || self.questions.contains_key(&method) {
                    self.questions.insert(method, frame);
                }
            }
        }
    }
}

impl FramesObserver {
    pub(super) fn new(frames: Arc<CallFrames>) -> Self {
        Self { frames, seen: Vec::new() }
    }
}

impl Observer for FramesObserver {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        if self.seen.len() >= MAX_METHODS {
            return;
        }
        let mut facts = self.frames.lock();
        let facts = &mut *facts;
        self.seen.extend(match message.relation {
            Relation::Request { operation, .. } if message.sender == Side::Client => {
                if facts.operations.contains_key(&operation.number) {
                    return;
                }
                let waiting = facts.expected.get_mut(operation.method.as_str());
                let Some(call) = waiting.and_then(VecDeque::pop_front) else { return };
                facts.operations.insert(operation.number, call);
                Some(SeenMessage::Request(call))
            }
            Relation::Request { operation, .. } => Some(SeenMessage::Question(operation.method.clone())),
            Relation::Response { operation, .. } => {
                facts.operations.get(&operation.number).copied().map(SeenMessage::Response)
            }
            _ => None,
        });
    }

    fn item(&mut self, item: &WireItem<'_>, _: &OperationTracker) {
        if let WireItem::Frame(frame) = item {
            let mut facts = self.frames.lock();
            for seen in self.seen.drain(..) {
                facts.note(seen, frame.number);
            }
        }
        if let WireItem::Event(Event { note: Note::Head(Stream::ToClient, line), .. }) = item
            && let Some((name, value)) = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':'))
            && name.eq_ignore_ascii_case("mcp-session-id")
        {
            self.frames.lock().session = Some(value.trim().to_owned());
        }
    }

    fn end(&mut self, _: &OperationTracker) {}
}

/// The maximum number of methods that are told apart, and of messages of a batch.
const MAX_METHODS: usize = 1000;

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;
    use crate::frames::{FrameLimits, Streams};
    use crate::pipeline::ObserverSink;

    /// Looks at what the page is told, while the messages and then the frame are observed.
    struct Looking {
        observer: FramesObserver,
        told: Vec<(&'static str, u64, Option<u64>)>,
    }

    impl Looking {
        fn look(&mut self, at: &'static str, frame: u64) {
            let (request, response) = self.observer.frames.of_call(1);
            let question = self.observer.frames.of_question("roots/list");
            self.told.push((at, frame, [request, response, question].into_iter().flatten().max()));
        }
    }

    impl Observer for Looking {
        fn message(&mut self, message: &TrackedMessage<'_>) {
            self.observer.message(message);
            self.look("message", message.frame.number);
        }

        fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
            self.observer.item(item, operations);
            if let WireItem::Frame(frame) = item {
                self.look("frame", frame.number);
            }
        }

        fn end(&mut self, _: &OperationTracker) {}
    }

    /// The writer of the index adds a frame after its messages were observed.
    #[test]
    fn a_frame_is_told_when_it_can_be_asked_for() {
        let frames = Arc::new(CallFrames::default());
        frames.expect("tools/call", 1);
        let mut sink = ObserverSink::new(Looking { observer: FramesObserver::new(frames), told: Vec::new() });
        let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
        let wire = r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}
< {"jsonrpc":"2.0","id":"q","method":"roots/list"}
< {"jsonrpc":"2.0","id":1,"result":{}}
"#;
        for entry in read(wire.as_bytes()).expect("a transcript") {
            assert!(matches!(streams.entry(&entry, &mut sink), Ok(true)));
        }
        let told = sink.finish().told;
        let expected = [
            ("message", 1, None),
            ("frame", 1, Some(1)),
            ("message", 2, Some(1)),
            ("frame", 2, Some(2)),
            ("message", 3, Some(2)),
            ("frame", 3, Some(3)),
        ];
        assert_eq!(told, expected);
    }
}
