//! Messages of a client -> the messages of the probe, each to be written now or at a later time.
//!
//! The probe does no I/O: bytes and times are arguments. One `ProbeServer` is one connection, or one session over HTTP.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use barewire_proto::json::Json;
use barewire_proto::mcp::{ClientCapabilities, ClientCapability, RequestParams, Revision};
use barewire_proto::rpc::{DEFAULT_DEPTH, Id, Invalid, Message, Parsed, Request, parse};
use serde_json::{Value, json};

use super::answers::{Answer, Failure};
use super::{lists, modern, tools};
use crate::check::Scenario;
use crate::check::host::{PING_IDS, UNKNOWN_METHOD_NAME, UNKNOWN_REVISION};

/// The probe for one client.
pub(super) struct ProbeServer {
    pub(super) scenario: Scenario,
    phase: Phase,
    pub(super) revision: Revision,
    pub(super) capabilities: ClientCapabilities,
    /// Maps the id of each unanswered request of the probe, as JSON text, to the use of its answer.
    questions: HashMap<String, Question>,
    /// Responses that wait until the client has answered what needs no person.
    held: Vec<HeldResponse>,
    timers: Vec<(Instant, Timer)>,
    /// Whether the change of the tools was announced.
    pub(super) has_changed: bool,
    /// Whether the change of the tools is to be announced, or was.
    announces: bool,
    /// The number of requests that the probe has sent, which also numbers the calls that ask.
    pub(super) questions_asked: u64,
    pub(super) out: Vec<ProbeOutput>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Answered,
    Ready,
}

/// What the answer to a request of the probe is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// Nothing: it is enough that it comes. Responses wait for it.
    Prompt,
    /// The call of the tool `ask` with this number.
    Call(u64),
    /// Nothing: the question is cancelled.
    Cancelled,
}

struct HeldResponse {
    output: ProbeOutput,
    until: Instant,
}

/// Something that is to be done later.
#[derive(Debug)]
pub(super) enum Timer {
    AnnounceChange { exchange: u64, subscription: Option<String> },
    Slow(tools::SlowCall),
    Ask(tools::AskCall),
    Exit,
}

/// Something that the owner of the probe must do.
#[derive(Debug, Clone)]
pub(super) enum ProbeOutput {
    Send {
        bytes: Vec<u8>,
        /// The exchange of the request that the message belongs to; 0 for none.
        exchange: u64,
        /// Whether the message is the response that ends its exchange.
        is_last: bool,
        /// The offsets at which the message is cut, with a pause after each part.
        cuts: Vec<usize>,
    },
    /// Ends the probe, or over HTTP the session.
    Exit,
}

impl ProbeServer {
    pub(super) fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            phase: Phase::New,
            revision: Revision::LATEST_LEGACY,
            capabilities: ClientCapabilities::default(),
            questions: HashMap::new(),
            held: Vec::new(),
            timers: Vec::new(),
            has_changed: false,
            announces: false,
            questions_asked: 0,
            out: Vec::new(),
        }
    }

    /// Handles a frame of the client.
    pub(super) fn take(&mut self, frame: &[u8], exchange: u64, now: Instant) -> Vec<ProbeOutput> {
        match parse(frame, DEFAULT_DEPTH) {
            Parsed::Message(message) => self.message(&message, exchange, now),
            Parsed::Batch(batch) if self.revision.has_batches() && self.phase == Phase::Ready => {
                for element in batch.elements() {
                    match element {
                        Ok(message) => self.message(&message, exchange, now),
                        Err(invalid) => self.refuse(&invalid, exchange),
                    }
                }
            }
            Parsed::Batch(batch) => batch.refusals().for_each(|invalid| self.refuse(&invalid, exchange)),
            Parsed::Invalid(invalid) => self.refuse(&invalid, exchange),
        }
        self.finish(now)
    }

    /// Refuses bytes that are no frame, such as a line that is too long.
    pub(super) fn refuse(&mut self, invalid: &Invalid<'_>, exchange: u64) {
        if let Some(reply) = invalid.reply() {
            let mut bytes = Vec::new();
            reply.error(&mut bytes, &invalid.error());
            self.out.push(ProbeOutput::Send { bytes, exchange, is_last: true, cuts: Vec::new() });
        }
    }

    /// Returns the time of the next thing to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let timers = self.timers.iter().map(|(at, _)| *at);
        timers.chain(self.held.iter().map(|held| held.until)).min()
    }

    /// Does everything that is due.
    pub(super) fn run(&mut self, now: Instant) -> Vec<ProbeOutput> {
        while let Some(index) = self.timers.iter().position(|(at, _)| *at <= now) {
            let (_, timer) = self.timers.remove(index);
            match timer {
                Timer::AnnounceChange { exchange, subscription } => {
                    self.announce_change(exchange, subscription.as_deref())
                }
                Timer::Slow(call) => self.go_on_slowly(call, now),
                Timer::Ask(call) => self.go_on_asking(call, now),
                // The response to the call comes first.
                Timer::Exit if !self.held.is_empty() => self.later(now + EXIT_AFTER, Timer::Exit),
                Timer::Exit => self.out.push(ProbeOutput::Exit),
            }
        }
        self.finish(now)
    }

    /// Forgets an exchange whose connection was closed.
    pub(super) fn close_exchange(&mut self, exchange: u64) {
        self.timers.retain(|(_, timer)| {
            !matches!(timer, Timer::AnnounceChange { exchange: of, subscription: Some(_) } if *of == exchange)
        });
    }

    /// Releases the held responses, and returns everything that is to be done now.
    fn finish(&mut self, now: Instant) -> Vec<ProbeOutput> {
        if self.held.iter().any(|held| held.until <= now) {
            // The client had its time. Later responses do not wait for the same answers again.
            self.questions.values_mut().filter(|it| **it == Question::Prompt).for_each(|it| *it = Question::Cancelled);
        }
        let is_waiting = self.is_waiting();
        let due = |_: &mut HeldResponse| !is_waiting;
        let released: Vec<HeldResponse> = self.held.extract_if(.., due).collect();
        self.out.extend(released.into_iter().map(|held| held.output));
        std::mem::take(&mut self.out)
    }

    /// Whether an answer is missing that needs no person.
    fn is_waiting(&self) -> bool {
        self.questions.values().any(|question| *question == Question::Prompt)
    }

    fn message(&mut self, message: &Message<'_>, exchange: u64, now: Instant) {
        match message {
            Message::Request(request) => self.request(request, exchange, now),
            Message::Notification(notification) => {
                if notification.method == "notifications/initialized" && self.phase == Phase::Answered {
                    self.phase = Phase::Ready;
                    self.greet();
                } else if notification.method == "notifications/cancelled" {
                    let id = notification.params.and_then(|params| params.json().member("requestId"));
                    if let Some(id) = id.and_then(Id::from_json) {
                        self.cancelled(&id);
                    }
                }
            }
            Message::Response(response) => {
                let id = response.id.as_str();
                let question = self.questions.remove(id).or_else(|| {
                    // The same id may be written in another way.
                    let key =
                        self.questions.keys().find(|key| Id::parse(key.as_bytes()).is_some_and(|it| it == response.id));
                    let key = key.cloned()?;
                    self.questions.remove(&key)
                });
                if let Some(Question::Call(call)) = question {
                    self.answered_in_call(call, now);
                }
            }
            Message::OrphanError(_) => {}
        }
    }

    fn request(&mut self, request: &Request<'_>, exchange: u64, now: Instant) {
        let params = RequestParams::read(request.params);
        let method = request.method.to_name().into_owned();
        let is_modern = params.meta.protocol_version.is_some() || method == "server/discover";
        if is_modern && self.phase == Phase::New {
            return modern::request(self, request, &method, &params, exchange, now);
        }
        let answer = match (self.phase, method.as_str()) {
            (_, "ping") => Ok(Answer::Result(json!({}))),
            (Phase::New, "initialize") => self.initialize(request),
            (_, "initialize") => Err(Failure::invalid_request("initialize is sent only once")),
            (Phase::New, _) => Err(Failure::invalid_request("not before initialize")),
            // A client may send requests before its notification, and `client-initialized` reports it.
            (Phase::Answered | Phase::Ready, _) => self.serve(request, &method, &params, exchange, now),
        };
        self.reply(request, answer, exchange, now);
    }

    fn initialize(&mut self, request: &Request<'_>) -> Result<Answer, Failure> {
        let params = request.params.map(|params| params.json());
        let member = |name: &str| params.and_then(|params| params.member(name));
        let asked = member("protocolVersion").and_then(Json::string);
        let asked = asked.as_deref().and_then(Revision::parse).filter(|revision| !revision.is_modern());
        let version = match self.scenario {
            Scenario::OldestRevision => Revision::V2024_11_05.as_str(),
            Scenario::UnknownRevision => UNKNOWN_REVISION,
            _ => asked.unwrap_or(Revision::LATEST_LEGACY).as_str(),
        };
        self.revision = Revision::parse(version).unwrap_or(Revision::LATEST_LEGACY);
        self.capabilities = member("capabilities").and_then(|it| it.to().ok()).unwrap_or_default();
        self.phase = Phase::Answered;
        Ok(Answer::Result(lists::initialize_result(version, self.revision)))
    }

    /// Serves a request after the handshake.
    fn serve(
        &mut self,
        request: &Request<'_>,
        method: &str,
        params: &RequestParams<'_>,
        exchange: u64,
        now: Instant,
    ) -> Result<Answer, Failure> {
        match method {
            "tools/call" => self.call(request, params, exchange, now),
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => Ok(Answer::Result(json!({}))),
            _ => {
                if method == "tools/list" && !std::mem::replace(&mut self.announces, true) {
                    self.later(now + ANNOUNCE_AFTER, Timer::AnnounceChange { exchange: 0, subscription: None });
                }
                lists::serve(method, params, self.has_changed, false)
            }
        }
    }

    /// Sends the requests that every client must answer, in one write with a notification that no client knows.
    fn greet(&mut self) {
        self.send(message(&json!({"method": "notifications/barewire/unknown", "params": {"unknown": [1, 2]}})), 0);
        for id in PING_IDS {
            self.send(request_text(id, "ping", None), 0);
            self.questions.insert(id.to_owned(), Question::Prompt);
        }
        self.ask(UNKNOWN_METHOD_NAME, Some(&json!({"a": [true, null]})), Question::Prompt, 0);
        if self.capabilities.has(ClientCapability::Roots) {
            self.ask("roots/list", None, Question::Prompt, 0);
        }
    }

    /// Sends a request to the client. Returns its id, as JSON text.
    pub(super) fn ask(&mut self, method: &str, params: Option<&Value>, question: Question, exchange: u64) -> String {
        self.questions_asked += 1;
        // Ids that are texts and ids that are numbers take turns.
        let id = match self.questions_asked % 2 {
            0 => (1000 + self.questions_asked).to_string(),
            _ => format!("\"question-{}\"", self.questions_asked),
        };
        self.send(request_text(&id, method, params), exchange);
        self.questions.insert(id.clone(), question);
        id
    }

    /// Cancels a request of the probe.
    pub(super) fn cancel(&mut self, id: &str, exchange: u64) {
        self.questions.insert(id.to_owned(), Question::Cancelled);
        let id: Value = serde_json::from_str(id).unwrap_or_default();
        let params = json!({"requestId": id, "reason": "the probe tests cancellation"});
        self.send(message(&json!({"method": "notifications/cancelled", "params": params})), exchange);
    }

    /// Whether a request of the probe is not answered yet.
    pub(super) fn is_asked(&self, id: &str) -> bool {
        self.questions.contains_key(id)
    }

    pub(super) fn has_question_of(&self, call: u64) -> bool {
        self.questions.values().any(|question| *question == Question::Call(call))
    }

    fn answered_in_call(&mut self, call: u64, now: Instant) {
        if self.has_question_of(call) {
            return;
        }
        for (at, timer) in &mut self.timers {
            if matches!(timer, Timer::Ask(asking) if asking.number == call) {
                *at = now;
            }
        }
        // `run` would do this at once; a client should not have to send anything else first.
        while let Some(index) = self
            .timers
            .iter()
            .position(|(at, timer)| *at <= now && matches!(timer, Timer::Ask(asking) if asking.number == call))
        {
            if let (_, Timer::Ask(asking)) = self.timers.remove(index) {
                self.go_on_asking(asking, now);
            }
        }
    }

    /// Forgets the work for a request that the client has cancelled: it gets no response.
    fn cancelled(&mut self, id: &Id<'_>) {
        let is_of = |text: &str| Id::parse(text.as_bytes()).is_some_and(|it| it == *id);
        self.timers.retain(|(_, timer)| match timer {
            Timer::Slow(call) => !is_of(&call.id),
            Timer::Ask(call) => !is_of(&call.id),
            Timer::AnnounceChange { subscription: Some(subscription), .. } => !is_of(subscription),
            _ => true,
        });
    }

    pub(super) fn later(&mut self, at: Instant, timer: Timer) {
        if self.timers.len() < MAX_TIMERS {
            self.timers.push((at, timer));
        }
    }

    fn announce_change(&mut self, exchange: u64, subscription: Option<&str>) {
        self.has_changed = true;
        let params = subscription.map(|id| {
            let id: Value = serde_json::from_str(id).unwrap_or_default();
            json!({"_meta": {barewire_proto::mcp::key::SUBSCRIPTION_ID: id}})
        });
        let mut changed = json!({"method": "notifications/tools/list_changed"});
        if let Some(params) = params {
            changed["params"] = params;
        }
        self.send(message(&changed), exchange);
    }

    /// Sends a message that is not a response.
    pub(super) fn send(&mut self, bytes: Vec<u8>, exchange: u64) {
        self.out.push(ProbeOutput::Send { bytes, exchange, is_last: false, cuts: Vec::new() });
    }

    /// Sends the response to a request; a legacy client gets it after it has answered the pings.
    pub(super) fn reply(
        &mut self,
        request: &Request<'_>,
        answer: Result<Answer, Failure>,
        exchange: u64,
        now: Instant,
    ) {
        self.reply_to(request.id.as_str(), answer, exchange, now);
    }

    pub(super) fn reply_to(&mut self, id: &str, answer: Result<Answer, Failure>, exchange: u64, now: Instant) {
        let Some((bytes, cuts)) = Answer::write(answer, id) else { return };
        let output = ProbeOutput::Send { bytes, exchange, is_last: true, cuts };
        if self.is_waiting() || !self.held.is_empty() {
            self.held.push(HeldResponse { output, until: now + HOLD });
        } else {
            self.out.push(output);
        }
    }
}

/// Writes a message that is not a response.
pub(super) fn message(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    // All messages are objects with a member.
    format!("{{\"jsonrpc\":\"2.0\",{}", &text[1..]).into_bytes()
}

fn request_text(id: &str, method: &str, params: Option<&Value>) -> Vec<u8> {
    let params = params.map_or(String::new(), |params| format!(",\"params\":{params}"));
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"{params}}}").into_bytes()
}

/// The time for which a response is held if the client does not answer a ping. A little more than the time in which the
/// checks expect the answer.
const HOLD: Duration = Duration::from_millis(2500);
/// The time from the first list of tools to the announcement that the tools have changed.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(500);
/// The time from the answer of a tool that ends the server to the end, so that the client can read the answer.
pub(super) const EXIT_AFTER: Duration = Duration::from_millis(200);
/// The maximum number of timers, so that a client that never stops calling does not fill the memory.
const MAX_TIMERS: usize = 10_000;
