//! What passes by -> findings: the checks that need no stimulus. On captures, on the recording of a live run, and inside a tap.

mod envelope;
mod flow;
mod http;
mod methods;
mod modern;
mod multiline;
mod pages;
mod privacy;
mod process;
mod shape;
#[cfg(test)]
mod tests;
mod tools;
mod violation;

use std::collections::HashMap;
use std::collections::HashSet;
use std::time::Duration;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{Era, RequestParams, Revision, Side};
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Note, Stream};

use super::catalogue::Check;
use super::finding::{Finding, Location, Party};
use super::ledger::Ledger;
use crate::frames::WireItem;
use crate::operations::{Handshake, OperationTracker, Relation, TrackedMessage, member};

/// All passive checks, and what they remember.
pub(crate) struct PassiveChecks {
    state: ObservationState,
    /// What is known of requests that are not answered yet, by the number of their operation.
    request: HashMap<u64, RequestContext>,
    envelope: envelope::EnvelopeChecks,
    tools: tools::ToolChecks,
    flow: flow::FlowChecks,
    http: http::HttpChecks,
    modern: modern::ModernChecks,
    process: process::ProcessChecks,
    privacy: privacy::PrivacyCheck,
}

/// Where it looks on.
pub(crate) struct ObservationState {
    /// The client is ourselves: what it does is meant.
    client_is_ours: bool,
    /// An answer that comes so long after its cancel has not just crossed it.
    late_after: Duration,
    /// Channels on which things are done that nobody does: how the process ends there is told by whoever does them.
    misuse_channels: HashSet<String>,
    /// Requests whose silence is told by whoever sent them: channel and id.
    claimed: HashSet<(String, String)>,
    /// When something was seen last.
    last: Option<Duration>,
    /// When stdin was closed, by channel.
    closed: HashMap<String, Duration>,
}

/// What is remembered of a request until it is answered.
struct RequestContext {
    /// By its own metadata, or by the handshake.
    revision: Option<Revision>,
    is_modern: bool,
    /// As JSON text.
    capabilities: Option<String>,
}

/// A message, and what is known of it.
struct MessageContext<'a> {
    tracked: &'a TrackedMessage<'a>,
    /// The revision that this message is to be judged by.
    revision: Option<Revision>,
    /// What is known of the request, for answers.
    request: Option<&'a RequestContext>,
    state: &'a ObservationState,
}

impl PassiveChecks {
    /// For captures and taps.
    pub(crate) fn new() -> Self {
        Self::with(ObservationState {
            client_is_ours: false,
            late_after: Duration::from_secs(2),
            misuse_channels: HashSet::new(),
            claimed: HashSet::new(),
            last: None,
            closed: HashMap::new(),
        })
    }

    /// For what we drive ourselves.
    pub(crate) fn of_our_own() -> Self {
        Self::with(ObservationState {
            client_is_ours: true,
            late_after: Duration::from_millis(100),
            misuse_channels: HashSet::new(),
            claimed: HashSet::new(),
            last: None,
            closed: HashMap::new(),
        })
    }

    fn with(state: ObservationState) -> Self {
        Self {
            state,
            request: HashMap::new(),
            envelope: envelope::EnvelopeChecks::default(),
            tools: tools::ToolChecks::default(),
            flow: flow::FlowChecks::default(),
            http: http::HttpChecks::default(),
            modern: modern::ModernChecks::default(),
            process: process::ProcessChecks::default(),
            privacy: privacy::PrivacyCheck::new(),
        }
    }

    /// How the process of this channel ends is told by somebody else.
    pub(crate) fn mark_misuse(&mut self, channel: &str) {
        self.state.misuse_channels.insert(channel.to_owned());
    }

    /// That this request is not answered is told by somebody else.
    pub(crate) fn claim(&mut self, channel: &str, id: &str) {
        self.state.claimed.insert((channel.to_owned(), id.to_owned()));
    }

    /// Takes what is no message: what happens, and what is written to stderr. `operations` has been told of it.
    pub(crate) fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker, ledger: &mut Ledger) {
        let time = match item {
            WireItem::Header(_) | WireItem::Endpoint { .. } => None,
            WireItem::Frame(seen) => seen.place.and_then(|place| place.time),
            WireItem::Stderr(bytes) => bytes.marks.time,
            WireItem::Event(event) => event.marks.time,
        };
        self.state.last = time.or(self.state.last);
        if let (WireItem::Event(event), Some(time)) = (item, time)
            && event.note == Note::Eof(Stream::ToServer)
            && operations.exchange(event.channel.as_str()).is_none()
            && self.state.closed.len() < MOST_ASKED
        {
            self.state.closed.insert(event.channel.as_str().to_owned(), time);
        }
        match item {
            WireItem::Header(_) | WireItem::Frame(_) | WireItem::Endpoint { .. } => {}
            WireItem::Stderr(bytes) => {
                self.process.stderr(bytes, ledger);
                self.privacy.stderr(bytes, ledger);
            }
            WireItem::Event(event) => {
                self.process.event(event, &self.state, ledger);
                let channel = event.channel.as_str();
                self.http.event(event, operations.exchange(channel), &mut self.state, ledger);
                if let Note::Eof(Stream::ToClient) = event.note {
                    // Whatever has a session goes on in another exchange.
                    if operations.exchange(channel).is_some_and(|exchange| exchange.session.is_none()) {
                        self.envelope.over(channel);
                        self.modern.over(channel);
                    }
                }
            }
        }
    }

    /// Takes a message.
    pub(crate) fn message(&mut self, tracked: &TrackedMessage<'_>, ledger: &mut Ledger) {
        if let Relation::Request { operation, .. } = tracked.relation {
            self.process.asked(tracked, operation);
            let request = RequestContext::of(tracked);
            if self.request.len() >= MOST_ASKED {
                self.request.clear();
            }
            self.request.insert(operation.number, request);
        }
        let request = match tracked.relation {
            Relation::Response { operation, .. }
            | Relation::Request { operation, .. }
            | Relation::Progress { operation } => self.request.get(&operation.number),
            _ => None,
        };
        let revision = match request {
            Some(request) => request.revision,
            None => revision_of(tracked),
        };
        let context = MessageContext { tracked, revision, request, state: &self.state };
        self.envelope.message(&context, ledger);
        methods::message(&context, &self.tools, self.modern.is_proven(tracked.conversation), ledger);
        shape::message(&context, ledger);
        self.tools.message(&context, ledger);
        self.flow.message(&context, ledger);
        self.modern.message(&context, ledger);
        self.http.message(&context, &self.tools, ledger);
        self.privacy.message(&context, ledger);
        if let Relation::Response { operation, .. } = tracked.relation {
            self.request.remove(&operation.number);
        }
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self, operations: &OperationTracker, ledger: &mut Ledger) {
        self.envelope.finish(operations, &self.state, ledger);
    }
}

impl RequestContext {
    fn of(tracked: &TrackedMessage<'_>) -> Self {
        let Ok(Message::Request(request)) = tracked.message else {
            return Self { revision: None, is_modern: false, capabilities: None };
        };
        let meta = RequestParams::read(request.params).meta;
        let is_modern = meta.protocol_version.is_some();
        let talk = tracked.conversation;
        let revision = match talk.handshake {
            _ if is_modern => talk.revision(),
            Handshake::None | Handshake::Asked if tracked.sender == Side::Client => None,
            _ => talk.revision(),
        };
        let capabilities = if is_modern {
            meta.client_capabilities.map(|it| it.as_str().to_owned())
        } else {
            talk.client_capabilities.clone()
        };
        let is_modern = is_modern || revision.is_some_and(Revision::is_modern);
        Self { revision, is_modern, capabilities }
    }
}

/// What a message without a request is to be judged by.
fn revision_of(tracked: &TrackedMessage<'_>) -> Option<Revision> {
    tracked.conversation.revision()
}

impl MessageContext<'_> {
    /// Notes a violation of the sender.
    fn fail(&self, ledger: &mut Ledger, check: &'static Check, detail: impl Into<String>) {
        self.fail_at(ledger, check, 0, detail);
    }

    /// The same, of a byte of the frame.
    fn fail_at(&self, ledger: &mut Ledger, check: &'static Check, at: usize, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, at, detail));
    }

    /// The same, of a member.
    fn fail_in(&self, ledger: &mut Ledger, check: &'static Check, path: &str, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, 0, detail).at(path));
    }

    fn finding(&self, check: &'static Check, at: usize, detail: impl Into<String>) -> Finding {
        let TrackedMessage { frame: seen, text, sender, .. } = self.tracked;
        let finding = Finding::new(check, Party::from(*sender), Location::of(seen, at), detail);
        match text.or(seen.bytes) {
            Some(text) => finding.seen(text),
            None => finding,
        }
    }

    fn note(&self, ledger: &mut Ledger, finding: Finding) {
        if finding.party == Party::Client && self.state.client_is_ours {
            return;
        }
        ledger.fail(finding);
    }

    /// Where what a server says of itself holds: in its session, and over HTTP without one at its address.
    fn scope(&self) -> String {
        match self.tracked.exchange {
            Some(exchange) if exchange.session.is_none() && !exchange.is_sse_transport => {
                let host = exchange.request_header("host").unwrap_or_default();
                let path = exchange.target().and_then(|target| target.split('?').next());
                format!("{host}{}", path.unwrap_or_default())
            }
            _ => self.tracked.conversation.name.clone(),
        }
    }

    fn is_modern(&self) -> bool {
        match self.request {
            Some(request) => request.is_modern,
            None => self.tracked.conversation.era() == Some(Era::Modern),
        }
    }

    fn by_server(&self) -> bool {
        self.tracked.sender == Side::Server
    }
}

/// Whether a result is one, and no question.
fn is_complete(result: Json<'_>) -> bool {
    let kind = member(Some(result), "resultType");
    kind.is_none_or(|kind| Text::from_json(kind).is_some_and(|text| text == "complete"))
}

/// More than any client has in flight.
const MOST_ASKED: usize = 65_536;
