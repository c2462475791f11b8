//! Observed traffic -> findings, by checks that send nothing: on captures, on live runs, and in a tap.

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

use std::collections::{HashMap, HashSet};
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

#[derive(Default)]
pub(crate) struct PassiveChecks {
    state: ObservationState,
    /// Maps the operation number of each unanswered request to its context.
    requests: HashMap<u64, RequestContext>,
    envelope: envelope::EnvelopeChecks,
    tools: tools::ToolChecks,
    flow: flow::FlowChecks,
    http: http::HttpChecks,
    modern: modern::ModernChecks,
    process: process::ProcessChecks,
    privacy: privacy::PrivacyCheck,
}

/// The state that all passive checks share.
#[derive(Default)]
pub(crate) struct ObservationState {
    /// Whether the client is `barewire check`, whose own violations are deliberate.
    client_is_ours: bool,
    /// The time after a cancellation from which a response is late. An earlier response may have been sent before its
    /// sender received the cancellation.
    late_after: Duration,
    /// Channels on which a probe breaks rules on purpose and judges the end of the process itself.
    misuse_channels: HashSet<String>,
    /// Channels on which a probe compares responses itself, because they may belong to other requests.
    compared_channels: HashSet<String>,
    /// The channel and id of each request for which a probe itself reports a missing response.
    claimed: HashSet<(String, String)>,
    /// The time of the last item.
    last: Option<Duration>,
    /// Maps each channel whose stdin is closed to the time at which stdin was closed.
    closed: HashMap<String, Duration>,
}

/// The context of a request, kept until its response.
struct RequestContext {
    /// The revision in the request's metadata, else that of the handshake.
    revision: Option<Revision>,
    is_modern: bool,
    /// The client's capabilities, as JSON text.
    capabilities: Option<String>,
}

struct MessageContext<'a> {
    tracked: &'a TrackedMessage<'a>,
    /// The revision whose rules apply.
    revision: Option<Revision>,
    /// The context of the related request: the message is this request, its response or its progress.
    request: Option<&'a RequestContext>,
    state: &'a ObservationState,
}

impl PassiveChecks {
    /// Returns the checks for captures and taps.
    pub(crate) fn new() -> Self {
        Self::with(false, Duration::from_secs(2))
    }

    /// Returns the checks for a live run, in which the client is `barewire check` itself. It knows better when a
    /// response is late, because it sends a request after the cancellation.
    pub(crate) fn of_our_own() -> Self {
        Self::with(true, Duration::MAX)
    }

    fn with(client_is_ours: bool, late_after: Duration) -> Self {
        let state = ObservationState { client_is_ours, late_after, ..ObservationState::default() };
        Self { state, ..Self::default() }
    }

    /// Marks a channel on which a probe breaks rules on purpose.
    pub(crate) fn mark_misuse(&mut self, channel: &str) {
        self.state.misuse_channels.insert(channel.to_owned());
    }

    /// Claims a request: a probe reports a missing response itself, and `unanswered-request` does not.
    pub(crate) fn claim(&mut self, channel: &str, id: &str) {
        self.state.claimed.insert((channel.to_owned(), id.to_owned()));
    }

    /// Marks a channel on which a probe compares responses itself.
    pub(crate) fn mark_compared(&mut self, channel: &str) {
        self.state.compared_channels.insert(channel.to_owned());
    }

    /// Removes the mark of a channel, because the probe turned out to follow the rules.
    pub(crate) fn unmark_misuse(&mut self, channel: &str) {
        self.state.misuse_channels.remove(channel);
    }

    /// Notes that the response without an id in this frame is for the request with this id, because no other request
    /// was in flight and no other response followed.
    pub(crate) fn attribute(&mut self, channel: &str, id: &str, frame: Option<u64>, ledger: &mut Ledger) {
        self.claim(channel, id);
        self.envelope.attribute_to(channel, id, frame, ledger);
    }

    /// Handles an event or a line of stderr that `operations` has already handled.
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
            && self.state.closed.len() < MAX_REQUESTS
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
                    // A conversation with a session continues in other exchanges.
                    if operations.exchange(channel).is_some_and(|exchange| exchange.session.is_none()) {
                        self.envelope.over(channel);
                        self.modern.over(channel);
                    }
                }
            }
        }
    }

    pub(crate) fn message(&mut self, tracked: &TrackedMessage<'_>, ledger: &mut Ledger) {
        if let Relation::Request { operation, .. } = tracked.relation {
            self.process.request(tracked, operation);
            let request = RequestContext::of(tracked);
            if self.requests.len() >= MAX_REQUESTS {
                self.requests.clear();
            }
            self.requests.insert(operation.number, request);
        }
        let request = match tracked.relation {
            Relation::Response { operation, .. }
            | Relation::Request { operation, .. }
            | Relation::Progress { operation } => self.requests.get(&operation.number),
            _ => None,
        };
        let revision = request.map_or_else(|| tracked.conversation.revision(), |request| request.revision);
        if let (Some(place), Some(revision)) = (tracked.frame.place, revision) {
            ledger.speaks(place.channel, revision);
        }
        let context = MessageContext { tracked, revision, request, state: &self.state };
        self.envelope.message(&context, ledger);
        let is_compared = self.state.compared_channels.contains(&tracked.conversation.name);
        if !is_compared {
            methods::message(&context, &self.tools, self.modern.is_modern(tracked.conversation), ledger);
            shape::message(&context, ledger);
            self.tools.message(&context, ledger);
            self.flow.message(&context, ledger);
            self.modern.message(&context, ledger);
            self.http.message(&context, &self.tools, ledger);
            self.privacy.message(&context, ledger);
        }
        if let Relation::Response { operation, .. } = tracked.relation {
            self.requests.remove(&operation.number);
        }
    }

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
        let conversation = tracked.conversation;
        let is_early = matches!(conversation.handshake, Handshake::None | Handshake::Asked);
        let is_undecided = !is_modern && is_early && tracked.sender == Side::Client;
        let revision = conversation.revision().filter(|_| !is_undecided);
        let capabilities = if is_modern {
            meta.client_capabilities.map(|it| it.as_str().to_owned())
        } else {
            conversation.client_capabilities.clone()
        };
        let is_modern = is_modern || revision.is_some_and(Revision::is_modern);
        Self { revision, is_modern, capabilities }
    }
}

impl MessageContext<'_> {
    /// Reports a violation by the sender.
    fn fail(&self, ledger: &mut Ledger, check: &'static Check, detail: impl Into<String>) {
        self.fail_at(ledger, check, 0, detail);
    }

    /// Reports a violation by the sender, at this byte of the frame.
    fn fail_at(&self, ledger: &mut Ledger, check: &'static Check, at: usize, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, at, detail));
    }

    /// Reports a violation by the sender, at the member with this JSON Pointer.
    fn fail_in(&self, ledger: &mut Ledger, check: &'static Check, path: &str, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, 0, detail).at(path));
    }

    fn finding(&self, check: &'static Check, at: usize, detail: impl Into<String>) -> Finding {
        let TrackedMessage { frame: seen, text, sender, .. } = self.tracked;
        let finding = Finding::new(check, Party::from(*sender), Location::of(seen, at), detail);
        finding.seen(text.or(seen.bytes).unwrap_or_default()).in_revision(self.revision)
    }

    fn note(&self, ledger: &mut Ledger, finding: Finding) {
        if finding.party != Party::Client || !self.state.client_is_ours {
            ledger.fail(finding);
        }
    }

    /// Returns the key under which a server's lists are kept: the name of the conversation, or over HTTP without a
    /// session the host and path of the URL.
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

/// Whether a result is complete, which means that it does not ask for input.
fn is_complete(result: Json<'_>) -> bool {
    let kind = member(Some(result), "resultType");
    kind.is_none_or(|kind| Text::from_json(kind).is_some_and(|text| text == "complete"))
}

/// The maximum number of requests that are tracked; more than any client has in flight.
const MAX_REQUESTS: usize = 65_536;
/// A name in requests of `barewire check` with characters that a server must escape or encode if it repeats the name in
/// an error: a quote, a backslash, a line break, a tab, letters outside ASCII and outside the first 65,536 characters.
pub(crate) const HARD_NAME: &str = "barewire \"no\\such\"\n\tZürich 東京 🎉";
