//! Messages and their relations -> violations of JSON-RPC: malformed messages, wrong ids, missing or extra responses.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use barewire_proto::mcp::{Revision, Side};
use barewire_proto::rpc::{Message, Parsed};
use serde_json::json;

use super::multiline::MultilineMessages;
use super::requests::RequestContexts;
use super::violation::{EnvelopeViolation, LastRequest, WITHOUT_ID, is_line, violation};
use super::{HARD_NAME, MessageContext, ObservationState};
use crate::check::catalogue::envelope::{
    ANSWERED_ONCE, BATCH_POLICY, BATCH_SENT, ID_FIDELITY, JSONRPC_MESSAGES, NOTIFICATION_SILENCE, STRUCTURED_ERRORS,
    UNANSWERED_REQUEST,
};
use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::excerpt::Excerpt;
use crate::check::finding::{Finding, Location, Party};
use crate::check::key_lines::KeyLines;
use crate::check::ledger::Ledger;
use crate::operations::{Operation, OperationTracker, Relation, Round};

#[derive(Default)]
pub(super) struct EnvelopeChecks {
    count: MessageCounts,
    conversations: HashMap<String, EnvelopeConversation>,
    multiline: MultilineMessages,
    /// Maps the channels on which a private key is written, line by line, to the state of that key.
    keys: HashMap<String, KeyLines>,
}

/// Counts of the messages from the server.
#[derive(Default)]
struct MessageCounts {
    messages: u64,
    conform: u64,
    methods: BTreeMap<String, u64>,
}

/// The state of a conversation. Each array has one entry per [`Side`].
#[derive(Default)]
struct EnvelopeConversation {
    /// The number of the side's unanswered requests.
    waiting: [u64; 2],
    /// The side's last request, unless that request is answered.
    last_request: [Option<LastRequest>; 2],
    /// The side's last notification, if it has sent one.
    notified: [Option<Excerpt>; 2],
    /// The numbers of the side's frames that the peer may refuse with an error without an id: malformed messages,
    /// arrays, very long or deep messages, and requests with very large numbers as ids.
    refusable: [VecDeque<u64>; 2],
    /// The numbers of frames that were refused with an error without an id.
    refused: Vec<u64>,
    /// Findings for responses without an id that arrived while requests were unanswered.
    undecided: Vec<Finding>,
    /// The number of the side's last frame.
    last: [u64; 2],
    /// Whether the side has sent an array.
    batches: [bool; 2],
}

impl EnvelopeConversation {
    /// Whether no request is unanswered and no finding is undecided.
    fn is_idle(&self) -> bool {
        self.waiting == [0, 0] && self.undecided.is_empty()
    }
}

impl EnvelopeChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        let name = &tracked.conversation.name;
        if self.conversations.len() >= MAX_CONVERSATIONS && !self.conversations.contains_key(name) {
            self.conversations.retain(|_, conversation| !conversation.is_idle());
            if self.conversations.len() >= MAX_CONVERSATIONS {
                self.conversations.clear();
            }
        }
        let sender = tracked.sender;
        // The body of an HTTP error, or of the response to a POST over HTTP+SSE, need not be a message.
        let is_http_body = sender == Side::Server
            && tracked.exchange.is_some_and(|it| it.may_be_sse_post() || it.code() >= Some(400))
            && matches!(tracked.message, Ok(Message::OrphanError(_)) | Err(_));
        let conversation = self.conversations.entry(name.clone()).or_default();
        if !is_http_body {
            conversation.last[sender as usize] = tracked.frame.number;
        }
        match tracked.relation {
            Relation::Request { operation, .. } => {
                conversation.waiting[sender as usize] += 1;
                let id = operation.rounds.last().map(|round| round.id.as_str().to_owned());
                let request = id.map(|id| LastRequest { id, operation: operation.number });
                conversation.last_request[sender as usize] = request;
            }
            Relation::Response { operation, .. } => {
                let waiting = &mut conversation.waiting[sender.other() as usize];
                *waiting = waiting.saturating_sub(1);
                let round = operation.rounds.last();
                // An answered request is no longer refusable.
                let frame = round.map(|round| round.asked.frame);
                conversation.refusable[sender.other() as usize].retain(|it| Some(*it) != frame);
                let id = round.map(|round| round.id.as_str());
                conversation.last_request[sender.other() as usize].take_if(|it| Some(it.id.as_str()) == id);
            }
            _ => {}
        }
        if is_refusable(context) {
            let refusable = &mut conversation.refusable[sender as usize];
            refusable.push_back(tracked.frame.number);
            if refusable.len() > MAX_UNDECIDED {
                refusable.pop_front();
            }
        }
        let is_orphan = matches!(tracked.message, Ok(Message::OrphanError(_)));
        let refused = match tracked.relation {
            Relation::Unsolicited if is_orphan => conversation.refusable[sender.other() as usize].pop_front(),
            _ => None,
        };
        if let (Some(refused), true) = (refused, conversation.refused.len() < MAX_CONVERSATIONS) {
            conversation.refused.push(refused);
        }
        let notification = conversation.notified[sender.other() as usize].clone();
        if let Ok(Message::Notification(_)) = tracked.message {
            // Only a short one is kept, because there may be many conversations.
            let text = tracked.text.filter(|text| text.len() <= MAX_NOTIFICATION);
            let sent = Excerpt::of_lines(Location::of(tracked.frame, 0), text);
            conversation.notified[sender as usize] = Some(sent);
        }
        // A probe that sends malformed messages judges errors without an id itself.
        let is_expected = is_orphan && context.state.misuse_channels.contains(name);
        let is_fine = refused.is_some() || is_http_body || is_expected;
        let last_request = conversation.last_request[sender.other() as usize].as_ref();
        let violation = if is_fine { None } else { violation(context, notification.is_some(), last_request) };
        if sender == Side::Server {
            self.count(context, violation.is_none());
        }
        if context.by_server() || !context.state.client_is_ours {
            ledger.inspected(&JSONRPC_MESSAGES);
        }
        if is_line(context) {
            ledger.inspected(&STDOUT_PURITY);
            ledger.inspected(&ONE_MESSAGE_A_LINE);
        }
        if matches!(tracked.message, Ok(Message::Response(_) | Message::OrphanError(_))) && context.by_server() {
            ledger.inspected(&ID_FIDELITY);
            ledger.inspected(&ANSWERED_ONCE);
        }
        if let Ok(Message::Notification(_)) = tracked.message {
            ledger.inspected(&NOTIFICATION_SILENCE);
        }
        self.report(context, violation, notification, ledger);
        self.decide(name, sender.other(), ledger);
        errors(context, ledger);
        self.batch(context, ledger);
    }

    /// Forgets the conversation of an HTTP exchange that has ended, unless `finish` still needs it.
    pub(super) fn over(&mut self, conversation: &str) {
        let is_done =
            |conversation: &EnvelopeConversation| conversation.undecided.is_empty() && conversation.refused.is_empty();
        if self.conversations.get(conversation).is_some_and(is_done) {
            self.conversations.remove(conversation);
        }
    }

    /// Reports an array in a revision without batches.
    fn batch(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        if !matches!(tracked.frame.parsed, Parsed::Batch(_)) || tracked.element != Some(0) {
            return;
        }
        let conversation = self.conversations.entry(tracked.conversation.name.clone()).or_default();
        conversation.batches[tracked.sender as usize] = true;
        // A probe that sends an array judges the response itself.
        let is_judged = context.state.client_is_ours && conversation.batches[tracked.sender.other() as usize];
        match context.revision.or(tracked.conversation.revision()) {
            Some(revision) if revision >= Revision::V2025_06_18 && !is_judged => {
                let detail = format!("a batch is sent in {revision}, which has no batches");
                context.note(ledger, context.finding(&BATCH_POLICY, 0, detail).under(&BATCH_SENT));
            }
            Some(_) => ledger.inspected(&BATCH_POLICY),
            None => {}
        }
    }

    fn count(&mut self, context: &MessageContext<'_>, conforms: bool) {
        self.count.messages += 1;
        self.count.conform += u64::from(conforms);
        let method = match (&context.tracked.message, context.tracked.relation) {
            (_, Relation::Response { operation, .. }) => operation.method.clone(),
            (Ok(Message::Request(request)), _) => request.method.to_name().into_owned(),
            (Ok(Message::Notification(notification)), _) => notification.method.to_name().into_owned(),
            _ => String::new(),
        };
        if self.count.methods.len() < MAX_METHODS || self.count.methods.contains_key(&method) {
            *self.count.methods.entry(method).or_default() += 1;
        }
    }

    /// Reports a violation after it is clear whether the line is a part of a message that spans several lines.
    fn report(
        &mut self,
        context: &MessageContext<'_>,
        violation: Option<EnvelopeViolation>,
        notification: Option<Excerpt>,
        ledger: &mut Ledger,
    ) {
        let tracked = context.tracked;
        let channel = tracked.frame.place.map_or("", |place| place.channel);
        // A key in a valid message is redacted by the name or the format of its member.
        let is_key = tracked.message.is_err() && self.is_key(channel, tracked.text.unwrap_or_default());
        let finding = violation.map(|EnvelopeViolation { check, at, fault, detail, by_carrier, request }| {
            let finding = context.finding(check, at, detail);
            let finding = if is_key { finding } else { context.with_evidence(finding, fault) };
            let finding = if by_carrier { Finding { party: Party::Carrier, ..finding } } else { finding };
            let request = request.and_then(|operation| context.requests.excerpt(operation));
            match request.or(notification.filter(|it| check == &NOTIFICATION_SILENCE && !it.is_empty())) {
                Some(request) => finding.with_request(Some(request)),
                None => finding,
            }
        });
        for finding in self.multiline.line(channel, tracked.text.unwrap_or_default(), finding) {
            self.report_or_defer(context, finding, ledger);
        }
    }

    /// Whether a line is part of a private key, so that it must not be quoted.
    fn is_key(&mut self, channel: &str, line: &[u8]) -> bool {
        let mut key = self.keys.remove(channel).unwrap_or_default();
        let is_key = key.contains(line);
        if key.is_inside() && self.keys.len() < MAX_CONVERSATIONS {
            self.keys.insert(channel.to_owned(), key);
        }
        is_key
    }

    fn report_or_defer(&mut self, context: &MessageContext<'_>, finding: Finding, ledger: &mut Ledger) {
        if finding.party == Party::Client && context.state.client_is_ours {
            return;
        }
        let conversation = self.conversations.entry(context.tracked.conversation.name.clone()).or_default();
        let asker = context.tracked.sender.other();
        if finding.check == &NOTIFICATION_SILENCE
            && conversation.waiting[asker as usize] > 0
            && conversation.undecided.len() < MAX_UNDECIDED
        {
            conversation.undecided.push(finding);
            return;
        }
        report(finding, ledger);
    }

    /// After all requests are answered, reports the undecided responses without an id: they must be for notifications.
    fn decide(&mut self, name: &str, asker: Side, ledger: &mut Ledger) {
        let Some(conversation) = self.conversations.get_mut(name) else { return };
        if conversation.waiting[asker as usize] == 0 {
            conversation.undecided.drain(..).for_each(|finding| report(finding, ledger));
        }
    }

    /// Reports the response without an id in this frame as the response to the client's request with this id.
    pub(super) fn attribute_to(&mut self, name: &str, id: &str, frame: Option<u64>, ledger: &mut Ledger) {
        let Some(conversation) = self.conversations.get_mut(name) else { return };
        let waiting = &mut conversation.waiting[Side::Client as usize];
        *waiting = waiting.saturating_sub(1);
        conversation.last_request[Side::Client as usize].take_if(|last| last.id == id);
        let is_it = |finding: &mut Finding| finding.location.frame.is_some() && finding.location.frame == frame;
        for finding in conversation.undecided.extract_if(.., is_it) {
            let detail =
                format!("the response has no id, the request has id {}", crate::text::shown(id.as_bytes(), 60));
            report(Finding { check: &ID_FIDELITY, detail, ..finding }, ledger);
        }
    }

    /// Returns the unanswered requests, except those that a probe or another check reports.
    fn unanswered<'w>(
        &self,
        operations: &'w OperationTracker,
        state: &ObservationState,
    ) -> Vec<(&'w Operation, &'w Round)> {
        let is_exempt = |operation: &Operation, round: &Round| {
            let key = (operation.conversation.clone(), round.id.as_str().to_owned());
            let conversation = self.conversations.get(&operation.conversation);
            // A client that closes stdin right after its requests has not waited for responses.
            let closed = state.closed.get(&operation.channel).zip(round.asked.time);
            let has_waited = closed.is_none_or(|(closed, asked)| closed.saturating_sub(asked) >= UNANSWERED_AFTER);
            operation.asker == Side::Server && state.client_is_ours
                || operation.asker == Side::Client && !state.client_is_ours && !has_waited
                || state.claimed.contains(&key)
                || state.misuse_channels.contains(&operation.conversation)
                || conversation.is_some_and(|conversation| conversation.refused.contains(&round.asked.frame))
        };
        let open = operations.open().filter(|operation| operation.is_unanswered());
        let open = open.filter_map(|operation| Some((operation, operation.rounds.last()?)));
        open.filter(|(operation, round)| !is_exempt(operation, round)).collect()
    }

    /// Attributes each undecided response without an id to an earlier unanswered request, or to a notification if there
    /// is no such request. Called at the end of the traffic. The findings are in no particular order.
    fn attribute(&mut self, unanswered: &[(&Operation, &Round)]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut requests: HashMap<&str, Vec<u64>> = HashMap::new();
        for (operation, round) in unanswered {
            requests.entry(&operation.conversation).or_default().push(round.asked.frame);
        }
        for (name, conversation) in &mut self.conversations {
            let mut waiting = requests.remove(&**name).unwrap_or_default();
            for finding in conversation.undecided.drain(..) {
                let asked = waiting.iter().position(|asked| finding.location.frame.is_some_and(|at| at > *asked));
                match asked {
                    Some(asked) => {
                        waiting.remove(asked);
                        findings.push(Finding { check: &ID_FIDELITY, detail: WITHOUT_ID.to_owned(), ..finding });
                    }
                    None => findings.push(finding),
                }
            }
        }
        findings
    }

    pub(super) fn finish(
        &mut self,
        operations: &OperationTracker,
        state: &ObservationState,
        requests: &RequestContexts,
        ledger: &mut Ledger,
    ) {
        let unanswered = self.unanswered(operations, state);
        let mut findings = self.attribute(&unanswered);
        findings.extend(self.multiline.finish());
        // Equal traffic gives an equal report.
        findings.sort_by_key(|finding| finding.location.frame);
        findings.into_iter().for_each(|finding| report(finding, ledger));
        let MessageCounts { messages, conform, methods } = &self.count;
        if *messages > 0 {
            let measure = json!({"messages": messages, "conform": conform, "methods": methods});
            ledger.measure(&JSONRPC_MESSAGES, measure);
        }
        for (operation, round) in unanswered {
            let answerer = operation.asker.other();
            // The response may be missing only because the capture ends right after the request.
            let conversation = self.conversations.get(&operation.conversation);
            let went_on =
                conversation.is_some_and(|conversation| conversation.last[answerer as usize] > round.asked.frame);
            let waited = state.last.zip(round.asked.time).map(|(last, asked)| last.saturating_sub(asked));
            let is_long = waited.is_some_and(|waited| waited >= UNANSWERED_AFTER);
            if !went_on && !is_long && !state.client_is_ours {
                continue;
            }
            let stream = if operation.asker == Side::Client { '>' } else { '<' };
            let location = Location {
                channel: operation.channel.clone(),
                stream: Some(stream),
                frame: Some(round.asked.frame),
                offset: None,
            };
            let detail = format!("{} with id {} has no response", operation.title(), round.id);
            let detail = crate::text::shown(detail.as_bytes(), 120);
            let request = requests.excerpt(operation.number).map(Excerpt::unmarked);
            let finding = Finding::new(&UNANSWERED_REQUEST, Party::from(answerer), location, detail);
            ledger.fail(finding.with_request(request).unanswered());
        }
        if self.conversations.values().any(|conversation| conversation.last.iter().any(|last| *last > 0)) {
            ledger.inspected(&UNANSWERED_REQUEST);
        }
    }
}

/// 2^53, up to which a double can represent every integer.
const TWO_TO_THE_53: f64 = 9_007_199_254_740_992.0;

/// The time after which a request counts as unanswered, even if no traffic follows it.
const UNANSWERED_AFTER: Duration = Duration::from_secs(5);

/// Whether the receiver may refuse the frame with an error without an id, because it might be unable to read the id.
fn is_refusable(context: &MessageContext<'_>) -> bool {
    let tracked = context.tracked;
    let is_batch = tracked.element == Some(0);
    let is_hard = tracked.frame.too_deep.is_some() || tracked.frame.length > LONG_FRAME;
    let is_bad = tracked.message.is_err() && matches!(tracked.relation, Relation::Request { .. });
    // Some receivers read numbers as doubles, which cannot represent such an id.
    let is_big = |round: &Round| round.id.as_str().parse().is_ok_and(|id: f64| id.abs() >= TWO_TO_THE_53);
    let has_big_id =
        matches!(tracked.relation, Relation::Request { operation, .. } if operation.rounds.last().is_some_and(is_big));
    is_batch || is_hard || is_bad || has_big_id
}

/// Reports a finding. If its check is not `jsonrpc-messages`, `jsonrpc-messages` notes the violation too.
fn report(finding: Finding, ledger: &mut Ledger) {
    let check = finding.check;
    ledger.fail(finding);
    if check != &JSONRPC_MESSAGES {
        ledger.report_under(&JSONRPC_MESSAGES, check);
    }
}

/// Checks the message of an error, and results that contain only an error.
fn errors(context: &MessageContext<'_>, ledger: &mut Ledger) {
    match context.tracked.message {
        Ok(Message::Response(response)) => match response.outcome {
            Err(error) => {
                ledger.inspected(&STRUCTURED_ERRORS);
                check_error_message(context, &error.message.to_name(), ledger);
            }
            Ok(result) => {
                let mut members = result.members();
                let only = members.next().filter(|member| member.name == "error");
                if only.is_some() && members.next().is_none() {
                    context.fail(ledger, &STRUCTURED_ERRORS, "the result contains only an error");
                }
            }
        },
        Ok(Message::OrphanError(error)) => {
            ledger.inspected(&STRUCTURED_ERRORS);
            check_error_message(context, &error.message.to_name(), ledger);
        }
        _ => {}
    }
}

fn check_error_message(context: &MessageContext<'_>, message: &str, ledger: &mut Ledger) {
    let trace = ["Traceback (most recent call last)", "\n    at ", "\n\tat ", "stack backtrace:", "panicked at "];
    if message.trim().is_empty() {
        context.fail_in(ledger, &STRUCTURED_ERRORS, "/error/message", "the error's message is empty");
    } else if trace.iter().any(|sign| message.contains(sign)) {
        context.fail_in(ledger, &STRUCTURED_ERRORS, "/error/message", "the error's message contains a stack trace");
    } else if without_name(context, message).trim().contains('\n') {
        context.fail_in(ledger, &STRUCTURED_ERRORS, "/error/message", "the error's message has several lines");
    }
}

/// Returns the message of an error without the name in its request, which may contain a line break.
fn without_name(context: &MessageContext<'_>, message: &str) -> String {
    let name = match context.tracked.relation {
        Relation::Response { operation, .. } => operation.name.as_deref(),
        _ => Some(HARD_NAME).filter(|_| context.state.client_is_ours),
    };
    name.filter(|name| !name.is_empty()).map_or_else(|| message.to_owned(), |name| message.replace(name, ""))
}

/// The maximum length of a notification that is kept as evidence, in bytes.
const MAX_NOTIFICATION: usize = 512;
/// The maximum number of undecided findings, and of refusable frames, of each conversation.
const MAX_UNDECIDED: usize = 16;
/// The length in bytes from which a frame may be too long for its receiver: below 64 KiB, the lowest common limit.
const LONG_FRAME: u64 = 60_000;
/// The maximum number of conversations that are tracked; more than any host has.
const MAX_CONVERSATIONS: usize = 4096;
/// The maximum number of methods that are counted separately; more than MCP has.
const MAX_METHODS: usize = 200;
