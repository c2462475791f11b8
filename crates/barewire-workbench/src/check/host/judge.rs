//! The messages of a host and of the probe -> findings of the checks that only a probe can make.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::mcp::{RequestParams, Side};
use barewire_proto::rpc::{Code, Message, Request, Response};
use barewire_proto::transcript::{Note, Stream};

use super::steps::{ListPage, PageStep, ROUND_STATES, UNKNOWN_METHOD_NAME, UNKNOWN_REVISION, pages};
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::{ANSWERED_ONCE, ID_FIDELITY, NOTIFICATION_SILENCE, UNANSWERED_REQUEST};
use crate::check::catalogue::flow::LATE_ANSWER;
use crate::check::catalogue::host::{
    CLIENT_CURSOR, CLIENT_INITIALIZED, CLIENT_INPUT_ROUND, CLIENT_LIST_CHANGED, CLIENT_SESSION_EXPIRED,
    CLIENT_SHUTDOWN, CLIENT_VERSION, NEW_ID, STATE_RETURNED,
};
use crate::check::catalogue::methods::{EMPTY_RESULTS, PING, UNKNOWN_METHOD};
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::Ledger;
use crate::check::passive::PassiveChecks;
use crate::frames::WireItem;
use crate::operations::{Handshake, Operation, OperationTracker, Relation, ResponseOutcome, TrackedMessage, member};
use crate::text::shown;

/// The checks of hosts, for one capture.
#[derive(Default)]
pub(super) struct HostJudge {
    sessions: HashMap<String, JudgedSession>,
    /// The time of the last item.
    last: Option<Duration>,
    /// The way in which the process of the probe ended on stdio.
    end: Option<ProbeEnd>,
    /// Whether the capture is of a probe on stdio, and has a message.
    is_stdio: bool,
    /// The id of an HTTP session that has expired, and what the client did then.
    expired: Option<ExpiredSession>,
}

enum ProbeEnd {
    /// Stdin ended, and no signal came before.
    Eof,
    Signal(i32),
    /// The probe ended by itself.
    Own,
}

struct ExpiredSession {
    id: String,
    at: Location,
    time: Option<Duration>,
    reaction: Option<Reaction>,
}

enum Reaction {
    NewSession,
    SameSession(Location),
}

/// The state of one conversation.
#[derive(Default)]
struct JudgedSession {
    handshake: HandshakeState,
    /// Maps the method of each list to the last page that was sent, or begun.
    lists: HashMap<String, SentPage>,
    /// The announcement of changed tools that the client has not reacted to yet.
    changed: Option<(Location, Option<Duration>)>,
    /// Whether the probe has sent a notification that the client may have received.
    was_notified: bool,
    /// The time at which the probe has cancelled one of its own requests for the last time.
    cancelled: Option<Duration>,
    /// The last request for input of a modern call.
    round: Option<InputRound>,
}

#[derive(Default)]
enum HandshakeState {
    #[default]
    None,
    /// `initialize` was answered with this version.
    Answered { time: Option<Duration>, at: Location, is_unknown: bool },
    /// The handshake is judged.
    Judged,
}

struct SentPage {
    step: PageStep,
    at: Location,
    /// The number of the request that it answers.
    operation: u64,
}

struct InputRound {
    id: String,
    state: Option<String>,
    /// The keys of the input requests.
    keys: Vec<String>,
}

impl HostJudge {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn message(&mut self, tracked: &TrackedMessage<'_>, passive: &mut PassiveChecks, ledger: &mut Ledger) {
        self.is_stdio |= !tracked.conversation.over_http;
        let time = tracked.frame.place.and_then(|place| place.time);
        // Without a session, each HTTP request is a conversation of its own, but a list has several requests.
        let is_alone = tracked.exchange.is_some_and(|exchange| exchange.session.is_none());
        let name = if is_alone { String::new() } else { tracked.conversation.name.clone() };
        if self.sessions.len() >= MAX_SESSIONS && !self.sessions.contains_key(&name) {
            return;
        }
        self.session_expired(tracked);
        let session = self.sessions.entry(name).or_default();
        match tracked.sender {
            Side::Client => session.client_message(tracked, ledger),
            Side::Server => session.server_message(tracked, time),
        }
        // The judge reports a missing response itself, because it knows how long the client had time to send it.
        if let (Side::Server, Relation::Request { operation, .. }) = (tracked.sender, tracked.relation)
            && let Some(round) = operation.rounds.last()
        {
            passive.claim(&operation.conversation, round.id.as_str());
        }
    }

    /// Notes the first request of the client after its session has expired.
    fn session_expired(&mut self, tracked: &TrackedMessage<'_>) {
        let (Some(expired), Some(exchange), Side::Client) = (&mut self.expired, tracked.exchange, tracked.sender)
        else {
            return;
        };
        if expired.reaction.is_some() {
            return;
        }
        let Ok(Message::Request(request)) = tracked.message else { return };
        expired.reaction = match exchange.request_header("mcp-session-id") {
            None if request.method == "initialize" => Some(Reaction::NewSession),
            Some(id) if id == expired.id => Some(Reaction::SameSession(Location::of(tracked.frame, 0))),
            _ => None,
        };
    }

    pub(super) fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        let time = match item {
            WireItem::Frame(frame) => frame.place.and_then(|place| place.time),
            WireItem::Event(event) => event.marks.time,
            _ => None,
        };
        self.last = time.or(self.last);
        let WireItem::Event(event) = item else { return };
        let exchange = operations.exchange(event.channel.as_str());
        match &event.note {
            Note::Eof(Stream::ToServer) if exchange.is_none() => {
                self.end.get_or_insert(ProbeEnd::Eof);
            }
            Note::Signal(signal) | Note::SignalReceived(signal) if exchange.is_none() => {
                self.end.get_or_insert(ProbeEnd::Signal(*signal));
            }
            Note::ExitCode(_) if exchange.is_none() => {
                self.end.get_or_insert(ProbeEnd::Own);
            }
            Note::Eof(Stream::ToClient) => {
                let Some(exchange) = exchange.filter(|it| it.code() == Some(404) && self.expired.is_none()) else {
                    return;
                };
                if let Some(id) = exchange.request_header("mcp-session-id") {
                    let (id, at) = (id.to_owned(), Location::channel(event.channel.as_str()));
                    self.expired = Some(ExpiredSession { id, at, time, reaction: None });
                }
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, operations: &OperationTracker, ledger: &mut Ledger) {
        let last = self.last;
        for operation in operations.open().filter(|it| it.asker == Side::Server && it.is_unanswered()) {
            unanswered(operation, last, ledger);
        }
        for session in self.sessions.values_mut() {
            session.end(last, ledger);
        }
        self.shutdown(ledger);
        let Some(expired) = self.expired.take() else { return };
        match expired.reaction {
            Some(Reaction::NewSession) => ledger.count(&CLIENT_SESSION_EXPIRED),
            Some(Reaction::SameSession(at)) => {
                fail(ledger, &CLIENT_SESSION_EXPIRED, at, "a request has the id of the expired session");
            }
            None if is_over(expired.time, last, REACTION_TIME) => {
                fail(ledger, &CLIENT_SESSION_EXPIRED, expired.at, "no request follows");
            }
            None => {}
        }
    }

    fn shutdown(&mut self, ledger: &mut Ledger) {
        if !self.is_stdio {
            return;
        }
        match self.end {
            Some(ProbeEnd::Eof) => ledger.count(&CLIENT_SHUTDOWN),
            Some(ProbeEnd::Signal(signal)) => {
                let name = match signal {
                    1 => "SIGHUP".to_owned(),
                    2 => "SIGINT".to_owned(),
                    15 => "SIGTERM".to_owned(),
                    other => format!("signal {other}"),
                };
                let detail = format!("{name} arrives while stdin is open");
                fail(ledger, &CLIENT_SHUTDOWN, Location::default(), &detail);
            }
            // A probe that was killed writes no end. So does one that still runs, which is nothing to report.
            Some(ProbeEnd::Own) | None => {}
        }
    }
}

/// Judges a request of the probe that has no response. A client that leaves soon is not at fault.
fn unanswered(operation: &Operation, last: Option<Duration>, ledger: &mut Ledger) {
    let Some(round) = operation.rounds.last() else { return };
    let (check, patience): (&'static Check, _) = match operation.method.as_str() {
        "ping" => (&PING, PROMPT),
        UNKNOWN_METHOD_NAME => (&UNKNOWN_METHOD, PROMPT),
        "roots/list" => (&UNANSWERED_REQUEST, PROMPT),
        // A person may have to answer.
        _ => (&UNANSWERED_REQUEST, PERSON),
    };
    if !is_over(round.asked.time, last, patience) {
        return;
    }
    let frame = Some(round.asked.frame);
    let location = Location { channel: operation.channel.clone(), stream: Some('<'), frame, offset: None };
    let detail = format!("{} with id {} has no response", operation.title(), round.id);
    fail(ledger, check, location, &detail);
}

impl JudgedSession {
    fn server_message(&mut self, tracked: &TrackedMessage<'_>, time: Option<Duration>) {
        let at = || Location::of(tracked.frame, 0);
        match (tracked.message, tracked.relation) {
            (Ok(Message::Response(response)), Relation::Response { operation, .. }) => {
                self.response_of_probe(tracked, response, operation, time);
            }
            (Ok(Message::Notification(notification)), relation) => {
                self.was_notified = true;
                if let Relation::Cancellation { .. } = relation {
                    self.cancelled = time;
                }
                if notification.method == "notifications/tools/list_changed" {
                    self.changed = Some((at(), time));
                }
            }
            _ => {}
        }
    }

    fn response_of_probe(
        &mut self,
        tracked: &TrackedMessage<'_>,
        response: &Response<'_>,
        operation: &Operation,
        time: Option<Duration>,
    ) {
        let Ok(result) = response.outcome else { return };
        let at = Location::of(tracked.frame, 0);
        if operation.method == "initialize" {
            let is_unknown = tracked.conversation.version.as_deref() == Some(UNKNOWN_REVISION);
            self.handshake = HandshakeState::Answered { time, at, is_unknown };
            return;
        }
        if operation.answer().is_some_and(|answer| answer.outcome == ResponseOutcome::InputRequired) {
            let requests = member(Some(result), "inputRequests");
            let keys = requests.map(|it| it.members().map(|member| member.name.to_name().into_owned()).collect());
            let state = member(Some(result), "requestState").and_then(|it| it.string().map(|it| it.into_owned()));
            self.round =
                Some(InputRound { id: response.id.as_str().to_owned(), state, keys: keys.unwrap_or_default() });
            return;
        }
        let Some(pages) = pages(&operation.method, is_modern_list(tracked)) else { return };
        let next = member(Some(result), "nextCursor").and_then(|it| it.string().map(|it| it.into_owned()));
        let Some(step) = sent_step(pages, next.as_deref()) else { return };
        self.lists.insert(operation.method.clone(), SentPage { step, at, operation: operation.number });
    }

    fn client_message(&mut self, tracked: &TrackedMessage<'_>, ledger: &mut Ledger) {
        if self.was_notified {
            ledger.count(&NOTIFICATION_SILENCE);
        }
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(request)), Relation::Request { operation, .. }) => {
                self.request(tracked, request, operation, ledger);
            }
            (Ok(Message::Response(response)), Relation::Response { operation, .. }) => {
                response_of_client(tracked, response, operation, ledger);
            }
            (Ok(Message::Notification(notification)), _) if notification.method == "notifications/initialized" => {
                self.initialized(tracked, ledger);
            }
            _ => {}
        }
    }

    fn initialized(&mut self, tracked: &TrackedMessage<'_>, ledger: &mut Ledger) {
        if let HandshakeState::Answered { is_unknown, .. } = self.handshake {
            match is_unknown {
                true => {
                    let detail = format!("notifications/initialized follows the version {UNKNOWN_REVISION}");
                    fail(ledger, &CLIENT_VERSION, Location::of(tracked.frame, 0), &detail);
                }
                false => ledger.count(&CLIENT_INITIALIZED),
            }
            self.handshake = HandshakeState::Judged;
        }
    }

    fn request(
        &mut self,
        tracked: &TrackedMessage<'_>,
        request: &Request<'_>,
        operation: &Operation,
        ledger: &mut Ledger,
    ) {
        let at = || Location::of(tracked.frame, 0);
        let method = operation.method.as_str();
        if let HandshakeState::Answered { is_unknown, .. } = self.handshake
            && method != "ping"
            && tracked.conversation.handshake != Handshake::Done
        {
            let (check, detail): (&'static Check, _) = match is_unknown {
                true => (&CLIENT_VERSION, format!("{method} follows the version {UNKNOWN_REVISION}")),
                false => (&CLIENT_INITIALIZED, format!("{method} is sent without notifications/initialized")),
            };
            fail(ledger, check, at(), &detail);
            self.handshake = HandshakeState::Judged;
        }
        let params = RequestParams::read(request.params);
        if method == "tools/list" && params.cursor.is_none() && self.changed.take().is_some() {
            ledger.count(&CLIENT_LIST_CHANGED);
        }
        if let (Some(pages), Some(cursor)) = (pages(method, is_modern_list(tracked)), params.cursor) {
            self.cursor(tracked, pages, operation, cursor, ledger);
        }
        let is_retry = params.request_state.is_some() || params.input_responses.is_some();
        if method == "tools/call" && is_retry {
            self.next_round(tracked, request, &params, ledger);
        }
    }

    /// Judges the cursor of a list request, and with it the page before.
    fn cursor(
        &mut self,
        tracked: &TrackedMessage<'_>,
        pages: &[ListPage],
        operation: &Operation,
        cursor: Json<'_>,
        ledger: &mut Ledger,
    ) {
        let method = operation.method.as_str();
        let cursor = cursor.string();
        let page = pages.iter().position(|page| page.cursor.is_some() && page.cursor == cursor.as_deref());
        let Some(page) = page else {
            let shown = shown(cursor.as_deref().unwrap_or("not a string").as_bytes(), 60);
            let detail = format!("{method} has the cursor {shown}, which was never given");
            // The client did go on after the page before.
            self.lists.remove(method);
            return fail(ledger, &CLIENT_CURSOR, Location::of(tracked.frame, 0), &detail);
        };
        ledger.count(&CLIENT_CURSOR);
        let before = pages[page - 1].step;
        if let Some((check, _)) = before.judged_by() {
            ledger.count(check);
        }
        self.lists.remove(method);
        let step = pages[page].step;
        if step.is_written_slowly() {
            let at = Location::of(tracked.frame, 0);
            self.lists.insert(method.to_owned(), SentPage { step, at, operation: operation.number });
        }
    }

    /// Judges the next round of a modern call.
    fn next_round(
        &mut self,
        tracked: &TrackedMessage<'_>,
        request: &Request<'_>,
        params: &RequestParams<'_>,
        ledger: &mut Ledger,
    ) {
        let at = || Location::of(tracked.frame, 0);
        let finding = |detail: String| Finding::new(&CLIENT_INPUT_ROUND, Party::Client, at(), detail);
        let Some(round) = self.round.take() else {
            // Modern requests over HTTP have no session, so the round before is known only by its state.
            let state = params.request_state.and_then(|it| it.string());
            return match state.is_some_and(|state| ROUND_STATES.contains(&&*state)) {
                true => ledger.count(&CLIENT_INPUT_ROUND),
                false => ledger.fail(finding("requestState differs".to_owned()).under(&STATE_RETURNED)),
            };
        };
        let given = params.request_state.and_then(|it| it.string().map(|it| it.into_owned()));
        let missing = round.keys.iter().find(|key| member(params.input_responses, key).is_none());
        if given != round.state {
            ledger.fail(finding("requestState differs".to_owned()).under(&STATE_RETURNED));
        } else if request.id.as_str() == round.id {
            ledger.fail(finding("the id is that of the round before".to_owned()).under(&NEW_ID));
        } else if let Some(key) = missing {
            ledger.fail(finding(format!("inputResponses has no member {}", shown(key.as_bytes(), 60))));
        } else {
            ledger.count(&CLIENT_INPUT_ROUND);
        }
    }

    fn end(&mut self, last: Option<Duration>, ledger: &mut Ledger) {
        match std::mem::take(&mut self.handshake) {
            HandshakeState::Answered { is_unknown: true, .. } => ledger.count(&CLIENT_VERSION),
            HandshakeState::Answered { time, at, .. } if is_over(time, last, PROMPT) => {
                fail(ledger, &CLIENT_INITIALIZED, at, "notifications/initialized does not follow");
            }
            _ => {}
        }
        let mut lists: Vec<SentPage> = self.lists.drain().map(|(_, page)| page).collect();
        lists.sort_by_key(|page| page.operation);
        for SentPage { step, at, .. } in lists {
            if let Some((check, detail)) = step.judged_by() {
                fail(ledger, check, at, detail);
            }
        }
        // A late answer would have come by then.
        if is_over(self.cancelled, last, PROMPT) {
            ledger.count(&LATE_ANSWER);
        }
        if let Some((at, time)) = self.changed.take()
            && is_over(time, last, REACTION_TIME)
        {
            fail(ledger, &CLIENT_LIST_CHANGED, at, "tools/list does not follow");
        }
    }
}

/// Judges the response of the client to a request of the probe.
fn response_of_client(
    tracked: &TrackedMessage<'_>,
    response: &Response<'_>,
    operation: &Operation,
    ledger: &mut Ledger,
) {
    for check in [&ID_FIDELITY, &ANSWERED_ONCE, &UNANSWERED_REQUEST] {
        ledger.count(check);
    }
    let at = Location::of(tracked.frame, 0);
    match (operation.method.as_str(), response.outcome) {
        ("ping", Ok(_)) => {
            ledger.count(&PING);
            ledger.count(&EMPTY_RESULTS);
        }
        ("ping", Err(error)) => fail(ledger, &PING, at, &format!("the response is the error {}", error.code.get())),
        (UNKNOWN_METHOD_NAME, Err(error)) if error.code == Code::METHOD_NOT_FOUND => ledger.count(&UNKNOWN_METHOD),
        (UNKNOWN_METHOD_NAME, Err(error)) => {
            fail(ledger, &UNKNOWN_METHOD, at, &format!("the error has the code {}", error.code.get()));
        }
        (UNKNOWN_METHOD_NAME, Ok(_)) => fail(ledger, &UNKNOWN_METHOD, at, "the response is a result"),
        _ => {}
    }
}

/// Whether a list of this conversation has the pages for modern clients.
fn is_modern_list(tracked: &TrackedMessage<'_>) -> bool {
    tracked.conversation.handshake == Handshake::None
}

/// Returns the step of the page whose `nextCursor` is this one.
fn sent_step(pages: &[ListPage], next: Option<&str>) -> Option<PageStep> {
    match next {
        None => pages.last().map(|page| page.step),
        Some(next) => {
            let page = pages.iter().position(|page| page.cursor == Some(next))?;
            Some(pages[page.checked_sub(1)?].step)
        }
    }
}

/// Whether the time after `begin` was enough for the client to react, as far as the capture shows.
fn is_over(begin: Option<Duration>, end: Option<Duration>, enough: Duration) -> bool {
    begin.zip(end).is_some_and(|(begin, end)| end.saturating_sub(begin) >= enough)
}

fn fail(ledger: &mut Ledger, check: &'static Check, location: Location, detail: &str) {
    ledger.fail(Finding::new(check, Party::Client, location, detail));
}

/// The time in which a client must answer a ping, and all else that needs no person. The specification says promptly.
const PROMPT: Duration = Duration::from_secs(2);
/// The time in which a client must react to a change.
const REACTION_TIME: Duration = Duration::from_secs(5);
/// The time in which a person, or the client for this person, must answer a question.
const PERSON: Duration = Duration::from_secs(30);
/// The maximum number of sessions that are judged; more than a host has with one server.
const MAX_SESSIONS: usize = 1000;
