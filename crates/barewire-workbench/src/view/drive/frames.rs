//! The messages of a driven session -> the frames of each call, and the id of the HTTP session.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::mcp::Side;
use barewire_proto::transcript::{Event, Note, Stream};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

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
    expected: HashMap<String, Vec<ExpectedCall>>,
    /// Maps each open operation of a call to the call.
    operations: HashMap<u64, u64>,
    /// The frames of the request and of the response of each call.
    frames: HashMap<u64, (Option<u64>, Option<u64>)>,
    /// The frame of the last request of the server for each method.
    questions: HashMap<String, u64>,
    session: Option<String>,
}

/// A call whose request was not seen yet.
struct ExpectedCall {
    call: u64,
    params: ParamsHash,
}

/// The hash of the params of a request without `_meta`, which the client adds; `None` if they cannot be read. Only a
/// hash, because params can be long.
///
/// A request is attributed to a call only if it has the call's params: tasks queue requests in any order, and the client
/// sends requests of its own.
#[derive(Clone, Copy)]
struct ParamsHash(Option<u64>);

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
    pub(super) fn expect(&self, method: &str, params: Option<&RawValue>, call: u64) {
        let params = ParamsHash::of(params.map_or("", RawValue::get).as_bytes());
        let mut facts = self.lock();
        if facts.expected.len() < MAX_METHODS || facts.expected.contains_key(method) {
            facts.expected.entry(method.to_owned()).or_default().push(ExpectedCall { call, params });
        }
    }

    /// Expects the request of a call no longer, because it will not be sent.
    pub(super) fn do_not_expect(&self, call: u64) {
        self.lock().do_not_expect(call);
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
        facts.do_not_expect(call);
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
    fn do_not_expect(&mut self, call: u64) {
        self.expected.retain(|_, calls| {
            calls.retain(|expected| expected.call != call);
            !calls.is_empty()
        });
    }

    /// Returns the call that a request belongs to; the call is not expected any more.
    fn take_expected(&mut self, method: &str, params: ParamsHash) -> Option<u64> {
        let calls = self.expected.get_mut(method)?;
        let at = calls.iter().position(|expected| expected.params.matches(params))?;
        let call = calls.remove(at).call;
        if calls.is_empty() {
            self.expected.remove(method);
        }
        Some(call)
    }

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

impl ParamsHash {
    fn of(params: &[u8]) -> Self {
        let is_absent = params.trim_ascii().is_empty();
        let value = if is_absent { Ok(Value::Null) } else { serde_json::from_slice(params) };
        Self(value.ok().map(|mut value| {
            if let Value::Object(members) = &mut value {
                members.remove("_meta");
                if members.is_empty() {
                    value = Value::Null;
                }
            }
            BuildHasherDefault::<DefaultHasher>::default().hash_one(&value)
        }))
    }

    /// Returns the hash of the params in a request.
    fn of_request(text: Option<&[u8]>) -> Self {
        #[derive(Deserialize)]
        struct Members<'a> {
            #[serde(default, borrow)]
            params: Option<&'a RawValue>,
        }
        let members = text.and_then(|text| serde_json::from_slice::<Members<'_>>(text).ok());
        members.map_or(Self(None), |it| Self::of(it.params.map_or("", RawValue::get).as_bytes()))
    }

    /// Whether these can be the same params.
    fn matches(self, other: Self) -> bool {
        self.0.is_none() || other.0.is_none() || self.0 == other.0
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
                let params = ParamsHash::of_request(message.text);
                let Some(call) = facts.take_expected(&operation.method, params) else { return };
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
        expect(&frames, "tools/call", r#"{"name":"a"}"#, 1);
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

    fn expect(frames: &CallFrames, method: &str, params: &str, call: u64) {
        let params = RawValue::from_string(params.to_owned()).expect("JSON");
        frames.expect(method, Some(&params), call);
    }

    /// Returns the frames of the first calls, after the wire text was observed.
    fn observed<const CALLS: usize>(frames: &Arc<CallFrames>, wire: &str) -> [(Option<u64>, Option<u64>); CALLS] {
        let mut sink = ObserverSink::new(FramesObserver::new(Arc::clone(frames)));
        let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
        for entry in read(wire.as_bytes()).expect("a transcript") {
            assert!(matches!(streams.entry(&entry, &mut sink), Ok(true)));
        }
        let mut call = 0;
        [(); CALLS].map(|()| {
            call += 1;
            frames.of_call(call)
        })
    }

    #[test]
    fn a_call_whose_request_was_not_sent_takes_the_frames_of_no_other_call() {
        let frames = Arc::new(CallFrames::default());
        for call in 1..=2 {
            expect(&frames, "tools/call", r#"{"name":"a"}"#, call);
        }
        frames.do_not_expect(1);
        let wire = r#"wire 1
> {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}
< {"jsonrpc":"2.0","id":7,"result":{}}
"#;
        assert_eq!(observed(&frames, wire), [(None, None), (Some(1), Some(2))]);
    }

    #[test]
    fn the_frames_of_a_call_are_those_with_its_params() {
        let frames = Arc::new(CallFrames::default());
        expect(&frames, "tools/call", r#"{"name":"a","arguments":{"x":1,"y":[]},"_meta":{"k":1}}"#, 1);
        expect(&frames, "tools/call", r#"{"name":"b"}"#, 2);
        frames.expect("tools/list", None, 3);
        // Requests can be sent in another order, and the client sends some of its own: here a further page of a list.
        let wire = r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2","_meta":{}}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b","_meta":{"progressToken":2}}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"_meta":{},"arguments":{"y":[],"x":1},"name":"a"}}
> {"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"_meta":{"progressToken":4}}}
< {"jsonrpc":"2.0","id":3,"result":{}}
"#;
        assert_eq!(observed(&frames, wire), [(Some(3), Some(5)), (Some(2), None), (Some(4), None)]);
    }
}
