//! The session: transcripts of `testdata/session`, and random interleavings against a naive reference.
//!
//! In a transcript `>` is a frame of the peer, `@` an event on our side, and `=` the effect.

mod transcript_files;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use barewire_proto::rpc::{Code, DEFAULT_DEPTH, Id, Message, Parsed, parse};
use barewire_proto::session::{
    BatchId, CallId, CallTimeout, Conventions, Effect, Refusal, Session, SessionEvent, SessionLimits, Settings, Signal,
    Ticket,
};
use barewire_proto::transcript::{Entry, Note, escape, read};
use proptest::prelude::*;
use transcript_files::{check_or_bless, files};

#[test]
fn transcripts() {
    let files = files("session");
    assert!(files.len() >= 3);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let entries = read(text.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut runner = SessionRunner::default();
        let mut blessed = String::new();
        for entry in entries {
            let follows = match &entry {
                Entry::Expect(_) => continue,
                Entry::Bytes(bytes) => runner.frame(&bytes.payload),
                Entry::Event(event) => match &event.note {
                    Note::Other(text) => runner.event(std::str::from_utf8(text.as_bytes()).expect("UTF-8")),
                    note => panic!("{note:?} is not an event of a session"),
                },
                _ => Vec::new(),
            };
            entry.write(&mut blessed);
            for line in follows {
                Entry::Expect(escape(line.as_bytes()).into()).write(&mut blessed);
            }
        }
        check_or_bless(&file, &text, &blessed);
    }
}

/// The session of a transcript, with the state that its driver would have.
struct SessionRunner {
    session: Session,
    conventions: Conventions,
    room: bool,
    now: Duration,
    started: BTreeMap<String, (Ticket, Id<'static>, usize)>,
    /// The calls, in the order in which they were started.
    calls: Vec<CallId>,
    tickets: Vec<Ticket>,
}

impl Default for SessionRunner {
    fn default() -> Self {
        Self {
            session: Session::default(),
            conventions: Conventions::JSON_RPC,
            room: true,
            now: Duration::ZERO,
            started: BTreeMap::new(),
            calls: Vec::new(),
            tickets: Vec::new(),
        }
    }
}

impl SessionRunner {
    fn frame(&mut self, frame: &[u8]) -> Vec<String> {
        match parse(frame, DEFAULT_DEPTH) {
            Parsed::Message(Message::Request(request)) => {
                let (bytes, room) = (frame.len(), self.room);
                let effect = self.session.step(SessionEvent::Request { id: &request.id, bytes, room, stalled: false });
                if let Effect::Start(ticket) | Effect::Park(ticket) = effect {
                    let id = request.id.clone().into_owned();
                    self.started.insert(request.id.to_string(), (ticket, id, bytes));
                    self.tickets.push(ticket);
                }
                let refused = match effect {
                    Effect::Refuse(refusal) => Some(refusal.error(&request.id).to_string()),
                    _ => None,
                };
                std::iter::once(self.show(effect)).chain(refused).collect()
            }
            Parsed::Message(Message::Notification(notification)) => {
                match barewire_proto::session::signal(&self.conventions, &notification) {
                    Signal::Cancel(id) => {
                        let effect = self.session.step(SessionEvent::Cancelled(&id));
                        vec![self.show(effect)]
                    }
                    Signal::Progress(call) => {
                        let effect = self.session.step(SessionEvent::Progress { call, now: self.now });
                        vec![self.show(effect)]
                    }
                    Signal::Stray => vec!["cancels nothing".into()],
                    Signal::None => vec!["to be handled".into()],
                }
            }
            Parsed::Message(Message::Response(response)) => {
                let effect = self.session.step(SessionEvent::Response(&response.id));
                vec![self.show(effect)]
            }
            Parsed::Message(Message::OrphanError(_)) => vec!["reported".into()],
            Parsed::Invalid(invalid) => {
                let effect = self.session.step(SessionEvent::Invalid(&invalid));
                vec![self.show(effect)]
            }
            Parsed::Batch(batch) => {
                self.session.step(SessionEvent::StartOfBatch);
                let mut lines: Vec<String> = batch.texts().flat_map(|text| self.frame(text)).collect();
                loop {
                    match self.session.step(SessionEvent::EndOfBatch) {
                        Effect::Nothing => return lines,
                        effect => lines.push(self.show(effect)),
                    }
                }
            }
        }
    }

    fn event(&mut self, text: &str) -> Vec<String> {
        let words: Vec<&str> = text.split(' ').collect();
        let seconds = |text: &str| Duration::from_secs(text.trim_end_matches('s').parse().expect("seconds"));
        let call = |n: &str| self.calls[n.parse::<usize>().expect("a number") - 1];
        let effect = match words[..] {
            ["mcp"] => {
                self.conventions = Conventions::MCP;
                self.session = Session::new(Settings::default().cancelled(None));
                return Vec::new();
            }
            ["limits", requests, bytes, parked] => {
                let number = |text: &str| text.parse().expect("a number");
                let limits =
                    SessionLimits::default().requests(number(requests)).bytes(number(bytes)).parked(number(parked));
                self.session = Session::new(Settings::default().limits(limits));
                return Vec::new();
            }
            ["quiet"] => {
                self.session = Session::new(Settings::default().answer_unreadable(false));
                return Vec::new();
            }
            ["room", there] => {
                self.room = there == "yes";
                return Vec::new();
            }
            ["defer", id] => {
                let (ticket, id, bytes) = &self.started[id];
                self.session.step(SessionEvent::Defer { ticket: *ticket, id, bytes: *bytes })
            }
            ["answer", id] => {
                let (ticket, id, _) = self.started.remove(id).expect("started");
                self.session.step(SessionEvent::Answer { ticket, id: &id })
            }
            ["ask", ref options @ ..] => {
                let mut wanted = CallTimeout::default();
                let mut batch = None;
                for word in options {
                    match word.split_once('=') {
                        Some(("timeout", time)) => wanted.timeout = Some(seconds(time)),
                        Some(("at-most", time)) => wanted.at_most = Some(seconds(time)),
                        Some(("batch", number)) => batch = Some(BatchId(number.parse().expect("a number"))),
                        _ => wanted.reset_by_progress = *word == "reset",
                    }
                }
                let effect = self.session.step(SessionEvent::StartCall { now: self.now, timeout: wanted, batch });
                if let Effect::SendRequest(call) = effect {
                    self.calls.push(call);
                }
                effect
            }
            ["forget", n] => {
                let call = call(n);
                self.session.step(SessionEvent::AbandonCall(call))
            }
            ["at", time] => {
                self.now = seconds(time);
                let mut lines = Vec::new();
                loop {
                    match self.session.step(SessionEvent::Tick(self.now)) {
                        Effect::Nothing if lines.is_empty() => return vec!["nothing".into()],
                        Effect::Nothing => return lines,
                        effect => lines.push(self.show(effect)),
                    }
                }
            }
            ["close"] => self.session.step(SessionEvent::Close),
            _ => panic!("unknown event: {text}"),
        };
        vec![self.show(effect)]
    }

    /// The text of an effect. Tickets and calls are numbered by the order in which they came.
    fn show(&self, effect: Effect) -> String {
        let call = |call: CallId| format!("call {}", call.id());
        let ticket = |ticket: Ticket| {
            let at = self.tickets.iter().position(|known| *known == ticket);
            format!("request {}", at.map_or(self.tickets.len(), |at| at) + 1)
        };
        match effect {
            Effect::Nothing => "nothing".into(),
            Effect::Start(at) => format!("start {}", ticket(at)),
            Effect::Park(at) => format!("park {}", ticket(at)),
            Effect::Hold => "hold".into(),
            Effect::Refuse(why) => format!("refuse {why:?}").to_lowercase(),
            Effect::RejectFrame => "reject".into(),
            Effect::Answer => "answer".into(),
            Effect::Cancel { ticket: at, answer, .. } => match answer {
                Some(code) => format!("cancel {}, answer {code}", ticket(at)),
                None => format!("cancel {}, answer nothing", ticket(at)),
            },
            Effect::SendRequest(id) => format!("asked as {}", call(id)),
            Effect::Closed => "closed".into(),
            Effect::Settle(id) => format!("settle {}", call(id)),
            Effect::SettleInvalid(id) => format!("fault in the answer to {}", call(id)),
            Effect::Late => "late, dropped".into(),
            Effect::Unknown => "unknown, reported and dropped".into(),
            Effect::Missing(id) => format!("missing {}", call(id)),
            Effect::SendCancel(id) => format!("tell them that we forget {}", call(id)),
            Effect::TimedOut(id) => format!("timed out {}", call(id)),
            other => panic!("{other:?} has no text here"),
        }
    }
}

/// An event of the model. Numbers choose among the requests and calls that exist.
#[derive(Debug, Clone)]
enum ModelEvent {
    Request { id: u8, spelling: bool, bytes: usize, room: bool, defer: bool },
    Answer(u8),
    Cancelled(u8),
    Ask { timeout: Option<u8>, reset: bool, at_most: Option<u8> },
    Response(u8),
    Garbled(u8),
    Progress(u8),
    Forget(u8),
    Pass(u8),
    Close,
}

fn model_events() -> impl Strategy<Value = ModelEvent> {
    prop_oneof![
        8 => (0..6u8, any::<bool>(), 0..40usize, prop::bool::weighted(0.8), any::<bool>()).prop_map(
            |(id, spelling, bytes, room, defer)| ModelEvent::Request { id, spelling, bytes, room, defer }
        ),
        4 => (0..8u8).prop_map(ModelEvent::Answer),
        2 => (0..6u8).prop_map(ModelEvent::Cancelled),
        4 => (prop::option::of(1..9u8), any::<bool>(), prop::option::of(1..20u8))
            .prop_map(|(timeout, reset, at_most)| ModelEvent::Ask { timeout, reset, at_most }),
        4 => (0..12u8).prop_map(ModelEvent::Response),
        1 => (0..12u8).prop_map(ModelEvent::Garbled),
        2 => (0..12u8).prop_map(ModelEvent::Progress),
        2 => (0..12u8).prop_map(ModelEvent::Forget),
        3 => (0..4u8).prop_map(ModelEvent::Pass),
        1 => Just(ModelEvent::Close),
    ]
}

/// The number of a call, its deadline, its latest deadline, and the extension by progress.
type Asked = (i64, Option<u64>, Option<u64>, Option<u64>);

/// The naive reference: lists with linear search, and rules as in the specification.
#[derive(Default)]
struct Reference {
    /// The value of the id, the ticket, the bytes, and whether the request is parked.
    owed: Vec<(u8, Ticket, usize, bool)>,
    asked: Vec<Asked>,
    given_up: Vec<i64>,
    minted: i64,
    now: u64,
    closing: bool,
}

fn model_limits() -> SessionLimits {
    SessionLimits::default().requests(3).bytes(60).parked(30)
}

impl Reference {
    fn request(&mut self, id: u8, bytes: usize, room: bool) -> &'static str {
        let held: usize = self.owed.iter().map(|owed| owed.2).sum();
        let parked: usize = self.owed.iter().filter(|owed| owed.3).map(|owed| owed.2).sum();
        let full = self.owed.len() >= model_limits().requests
            || (!self.owed.is_empty() && held + bytes > model_limits().bytes);
        if self.closing {
            "closing"
        } else if self.owed.iter().any(|owed| owed.0 == id) {
            "duplicate"
        } else if room && !full {
            "start"
        } else if self.asked.is_empty() {
            "hold"
        } else if full || (parked > 0 && parked + bytes > model_limits().parked) {
            "busy"
        } else {
            "park"
        }
    }

    fn overdue(&self) -> Option<i64> {
        let due = self.asked.iter().filter_map(|ask| ask.1.map(|at| (at, ask.0)));
        due.filter(|(at, _)| *at <= self.now).min().map(|(_, call)| call)
    }
}

fn model(events: Vec<ModelEvent>) {
    let mut session = Session::new(Settings::default().limits(model_limits()));
    let mut reference = Reference::default();
    // The state of the driver: the requests that were started and not finished, including cancelled ones.
    let mut started: VecDeque<(u8, Ticket)> = VecDeque::new();
    let mut calls: Vec<CallId> = Vec::new();
    let spelled = |id: u8, spelling: bool| {
        // Two spellings of the same value.
        let text = if spelling { format!("{id}.0") } else { id.to_string() };
        Id::parse(text.as_bytes()).expect("a number").into_owned()
    };
    for event in events {
        let now = Duration::from_secs(reference.now);
        let pick = |n: u8| (!calls.is_empty()).then(|| calls[usize::from(n) % calls.len()]);
        match event {
            ModelEvent::Request { id, spelling, bytes, room, defer } => {
                let wire = spelled(id, spelling);
                let expected = reference.request(id, bytes, room);
                let effect = session.step(SessionEvent::Request { id: &wire, bytes, room, stalled: false });
                match (effect, expected) {
                    (Effect::Start(ticket), "start") => {
                        assert!(started.iter().all(|it| it.1 != ticket), "a ticket is given out once");
                        if defer {
                            assert_eq!(session.step(SessionEvent::Defer { ticket, id: &wire, bytes }), Effect::Nothing);
                            reference.owed.push((id, ticket, bytes, false));
                            started.push_back((id, ticket));
                        }
                    }
                    (Effect::Park(ticket), "park") => {
                        reference.owed.push((id, ticket, bytes, true));
                        started.push_back((id, ticket));
                    }
                    (Effect::Hold, "hold")
                    | (Effect::Refuse(Refusal::Busy), "busy")
                    | (Effect::Refuse(Refusal::Duplicate), "duplicate")
                    | (Effect::Refuse(Refusal::Closing), "closing") => {}
                    other => panic!("{other:?}"),
                }
            }
            ModelEvent::Answer(n) => {
                let Some(at) = (!started.is_empty()).then(|| usize::from(n) % started.len()) else {
                    continue;
                };
                let Some((id, ticket)) = started.remove(at) else { continue };
                let owed = reference.owed.iter().position(|owed| owed.1 == ticket);
                let effect = session.step(SessionEvent::Answer { ticket, id: &spelled(id, n % 2 == 0) });
                assert_eq!(effect, owed.map_or(Effect::Nothing, |_| Effect::Answer));
                owed.map(|at| reference.owed.remove(at));
            }
            ModelEvent::Cancelled(id) => {
                let owed = reference.owed.iter().position(|owed| owed.0 == id);
                let effect = session.step(SessionEvent::Cancelled(&spelled(id, true)));
                match (effect, owed) {
                    (Effect::Cancel { ticket, answer, .. }, Some(at)) => {
                        assert_eq!(ticket, reference.owed.remove(at).1);
                        assert_eq!(answer, Some(Code::REQUEST_CANCELLED));
                    }
                    (effect, owed) => assert_eq!((effect, owed), (Effect::Nothing, None)),
                }
            }
            ModelEvent::Ask { timeout, reset, at_most } => {
                let mut call_timeout = CallTimeout::default().reset_by_progress(reset);
                call_timeout.timeout = timeout.map(|s| Duration::from_secs(s.into()));
                call_timeout.at_most = at_most.map(|s| Duration::from_secs(s.into()));
                match session.step(SessionEvent::StartCall { now, timeout: call_timeout, batch: None }) {
                    Effect::SendRequest(call) => {
                        assert!(!reference.closing);
                        reference.minted += 1;
                        assert_eq!(call.id(), Id::from(reference.minted), "minted in order, never twice");
                        let end = at_most.map(|s| reference.now + u64::from(s));
                        let first = timeout.map(|s| reference.now + u64::from(s));
                        let due = [first, end].into_iter().flatten().min();
                        let step = timeout.filter(|_| reset).map(u64::from);
                        reference.asked.push((reference.minted, due, end, step));
                        calls.push(call);
                    }
                    effect => {
                        assert_eq!(effect, Effect::Closed);
                        assert!(reference.closing);
                    }
                }
            }
            ModelEvent::Response(n) | ModelEvent::Garbled(n) => {
                let garbled = matches!(event, ModelEvent::Garbled(_));
                let call = pick(n);
                let id = call.map_or(Id::from(7000), CallId::id);
                let number = call.map(|call| call.id().integer().expect("a number"));
                let asked = reference.asked.iter().position(|ask| Some(ask.0) == number);
                let given_up = reference.given_up.iter().position(|call| Some(*call) == number);
                let frame = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":5}}"#);
                let effect = match parse(frame.as_bytes(), DEFAULT_DEPTH) {
                    Parsed::Invalid(invalid) if garbled => session.step(SessionEvent::Invalid(&invalid)),
                    _ => session.step(SessionEvent::Response(&id)),
                };
                let expected = match (asked, given_up, call) {
                    (Some(at), _, Some(call)) => {
                        reference.asked.remove(at);
                        if garbled { Effect::SettleInvalid(call) } else { Effect::Settle(call) }
                    }
                    (None, Some(at), _) => {
                        reference.given_up.remove(at);
                        Effect::Late
                    }
                    _ => Effect::Unknown,
                };
                assert_eq!(effect, expected);
            }
            ModelEvent::Progress(n) => {
                let Some(call) = pick(n) else { continue };
                let number = call.id().integer().expect("a number");
                let asked = reference.asked.iter_mut().find(|ask| ask.0 == number);
                let effect = session.step(SessionEvent::Progress { call, now });
                assert_eq!(effect, if asked.is_some() { Effect::Nothing } else { Effect::Unknown });
                if let Some((_, due, end, Some(step))) = asked {
                    *due = [Some(reference.now + *step), *end].into_iter().flatten().min();
                }
            }
            ModelEvent::Forget(n) => {
                let Some(call) = pick(n) else { continue };
                let number = call.id().integer().expect("a number");
                let asked = reference.asked.iter().position(|ask| ask.0 == number);
                let effect = session.step(SessionEvent::AbandonCall(call));
                assert_eq!(effect, asked.map_or(Effect::Nothing, |_| Effect::SendCancel(call)));
                if let Some(at) = asked {
                    reference.given_up.push(reference.asked.remove(at).0);
                }
            }
            ModelEvent::Pass(seconds) => {
                reference.now += u64::from(seconds);
                let now = Duration::from_secs(reference.now);
                while let Some(overdue) = reference.overdue() {
                    let effect = session.step(SessionEvent::Tick(now));
                    let Effect::TimedOut(call) = effect else { panic!("{overdue} is overdue: {effect:?}") };
                    assert_eq!(call.id(), Id::from(overdue));
                    reference.asked.retain(|ask| ask.0 != overdue);
                    reference.given_up.push(overdue);
                }
                assert_eq!(session.step(SessionEvent::Tick(now)), Effect::Nothing);
            }
            ModelEvent::Close => {
                session.step(SessionEvent::Close);
                reference.closing = true;
            }
        }
        assert_eq!(session.in_flight(), reference.owed.len());
        assert_eq!(session.is_waiting(), !reference.asked.is_empty());
        assert_eq!(session.is_idle(), reference.owed.is_empty() && reference.asked.is_empty());
        let due = reference.asked.iter().filter_map(|ask| ask.1).min();
        assert_eq!(session.next_deadline(), due.map(Duration::from_secs));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_interleaving_matches_the_reference(events in prop::collection::vec(model_events(), 0..120)) {
        model(events);
    }
}

#[test]
fn only_the_last_abandoned_calls_are_remembered() {
    let mut session = Session::default();
    let mut first = None;
    for _ in 0..5000 {
        let ask = SessionEvent::StartCall { now: Duration::ZERO, timeout: CallTimeout::default(), batch: None };
        let Effect::SendRequest(call) = session.step(ask) else { panic!("open") };
        first.get_or_insert(call);
        assert_eq!(session.step(SessionEvent::AbandonCall(call)), Effect::SendCancel(call));
    }
    let first = first.expect("asked").id();
    assert_eq!(session.step(SessionEvent::Response(&first)), Effect::Unknown);
    assert_eq!(session.step(SessionEvent::Response(&Id::from(5000))), Effect::Late);
}
