//! Observed traffic -> findings, by checks that send nothing: on captures, on live runs, and in a tap.

mod changes;
mod definitions;
mod envelope;
#[cfg(test)]
mod evidence_tests;
mod flow;
mod http;
mod listens;
mod methods;
mod modern;
mod multiline;
mod pages;
mod privacy;
mod process;
mod requests;
mod shape;
mod tasks;
#[cfg(test)]
mod tests;
mod tools;
mod unasked;
mod values;
mod violation;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{Era, Revision, Side};
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Note, Stream};

use super::catalogue::Check;
use super::excerpt::{Excerpt, Fault};
use super::finding::{Finding, Location, Party};
use super::ledger::Ledger;
use crate::frames::WireItem;
use crate::operations::{OperationTracker, Relation, TrackedMessage, member};
use requests::{RequestContext, RequestContexts};

#[derive(Default)]
pub(crate) struct PassiveChecks {
    state: ObservationState,
    requests: RequestContexts,
    envelope: envelope::EnvelopeChecks,
    tools: tools::ToolChecks,
    definitions: definitions::DefinitionChecks,
    changes: changes::ChangeChecks,
    flow: flow::FlowChecks,
    unasked: unasked::UnaskedChecks,
    http: http::HttpChecks,
    modern: modern::ModernChecks,
    tasks: tasks::TaskChecks,
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

struct MessageContext<'a> {
    tracked: &'a TrackedMessage<'a>,
    /// The revision whose rules apply.
    revision: Option<Revision>,
    /// The context of the related request: the message is this request, its response or its progress.
    request: Option<&'a RequestContext>,
    /// All unanswered requests.
    requests: &'a RequestContexts,
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
                self.process.stderr(bytes, &self.state, ledger);
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
        ledger.looks_at(Some(tracked.sender));
        if tracked.sender == Side::Client {
            self.process.client_message(tracked);
        }
        if let Relation::Request { operation, .. } = tracked.relation {
            let request = RequestContext::of(tracked);
            self.process.request(tracked, operation, request.excerpt.as_ref());
            self.requests.insert(operation.number, request);
        }
        let request = match tracked.relation {
            Relation::Response { operation, .. }
            | Relation::Request { operation, .. }
            | Relation::Progress { operation } => self.requests.get(operation.number),
            _ => None,
        };
        let revision = request.map_or_else(|| tracked.conversation.revision(), |request| request.revision);
        if let (Some(place), Some(revision)) = (tracked.frame.place, revision) {
            ledger.speaks(place.channel, revision);
        }
        let context = MessageContext { tracked, revision, request, requests: &self.requests, state: &self.state };
        self.envelope.message(&context, ledger);
        let is_compared = self.state.compared_channels.contains(&tracked.conversation.name);
        if !is_compared {
            methods::message(&context, &self.tools, self.modern.is_modern(tracked.conversation), ledger);
            shape::message(&context, ledger);
            self.tools.message(&context, ledger);
            self.definitions.message(&context, ledger);
            self.changes.message(&context, ledger);
            self.flow.message(&context, ledger);
            self.unasked.message(&context, ledger);
            self.modern.message(&context, ledger);
            self.tasks.message(&context, ledger);
            self.http.message(&context, &self.tools, ledger);
            self.privacy.message(&context, ledger);
        }
        if let Relation::Response { operation, .. } = tracked.relation {
            self.requests.remove(operation.number);
        }
        ledger.looks_at(None);
    }

    /// Returns an excerpt of the request of an unanswered operation, with its id as the fault.
    pub(crate) fn request(&self, operation: u64) -> Option<Excerpt> {
        self.requests.excerpt(operation)
    }

    pub(crate) fn finish(&mut self, operations: &OperationTracker, ledger: &mut Ledger) {
        self.process.finish(ledger);
        self.envelope.finish(operations, &self.state, &self.requests, ledger);
        self.changes.finish(ledger);
    }
}

impl MessageContext<'_> {
    /// Reports a violation by the sender.
    fn fail(&self, ledger: &mut Ledger, check: &'static Check, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, 0, detail));
    }

    /// Reports a violation by the sender, at the member with this JSON Pointer.
    fn fail_in(&self, ledger: &mut Ledger, check: &'static Check, path: &str, detail: impl Into<String>) {
        self.note(ledger, self.finding(check, 0, detail).at(path));
    }

    /// Reports a violation by the sender, and points at the method.
    fn fail_method(&self, ledger: &mut Ledger, check: &'static Check, detail: impl Into<String>) {
        self.note_with(ledger, self.finding(check, 0, detail), Fault::Member("/method"));
    }

    fn finding(&self, check: &'static Check, at: usize, detail: impl Into<String>) -> Finding {
        let TrackedMessage { frame: seen, sender, .. } = self.tracked;
        Finding::new(check, Party::from(*sender), Location::of(seen, at), detail).in_revision(self.revision)
    }

    /// Reports a violation, with the message and its request as evidence. The fault is the member of the finding.
    fn note(&self, ledger: &mut Ledger, finding: Finding) {
        let path = finding.path.clone();
        self.note_with(ledger, finding, path.as_deref().map_or(Fault::Whole, Fault::Member));
    }

    /// Reports a violation, with the message and its request as evidence, and this fault in the message.
    fn note_with(&self, ledger: &mut Ledger, finding: Finding, fault: Fault<'_>) {
        // A fault in a long message takes time to find, so it is found only for the first findings.
        let fault = if ledger.has_few(finding.check) { fault } else { Fault::Whole };
        let finding = self.with_evidence(finding, fault);
        self.note_bare(ledger, finding);
    }

    /// Reports a violation, without evidence.
    fn note_bare(&self, ledger: &mut Ledger, finding: Finding) {
        if finding.party != Party::Client || !self.state.client_is_ours {
            ledger.fail(finding);
        }
    }

    /// Adds the message to a finding, with the fault in it, and its request if the message is a response.
    fn with_evidence(&self, finding: Finding, fault: Fault<'_>) -> Finding {
        let TrackedMessage { frame, text, message, .. } = self.tracked;
        let Some(text) = text.or(frame.bytes) else { return finding };
        let excerpt = Some(Excerpt::of(Location::of(frame, 0), text, fault));
        let is_response = match message {
            Ok(Message::Response(_) | Message::OrphanError(_)) => true,
            Ok(Message::Request(_)) => false,
            // Other output of a server belongs to the request that the client waits for.
            Ok(Message::Notification(_)) | Err(_) => self.by_server(),
        };
        if !is_response {
            return finding.with_request(excerpt);
        }
        let request = self.request.and_then(|request| request.excerpt.clone());
        finding.with_response(excerpt).with_request(request.map(Excerpt::unmarked))
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
/// The text in arguments that `barewire check` makes up for tools and prompts, sometimes followed by a number.
pub(crate) const INVENTED_TEXT: &str = "barewire";
/// A name in requests of `barewire check` with characters that a server must escape or encode if it repeats the name in
/// an error: a quote, a backslash, a line break, a tab, letters outside ASCII and outside the first 65,536 characters.
pub(crate) const HARD_NAME: &str = "barewire \"no\\such\"\n\tZürich 東京 🎉";
