//! HTTP exchanges -> findings. Each exchange is checked at its end, by the rules in [`client`] and [`server`].

mod client;
mod server;

use std::collections::{HashMap, HashSet};

use barewire_proto::http::mcp_name_source;
use barewire_proto::json::Text;
use barewire_proto::mcp::{RequestParams, Revision, Side, code};
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Event, Note, Stream, StreamClose};

use super::tools::ToolChecks;
use super::{MessageContext, ObservationState};
use crate::check::catalogue::{Check, Rule};
use crate::check::excerpt::Excerpt;
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::Ledger;
use crate::operations::{Handshake, HttpExchange, member};
use crate::text::shown;

#[derive(Default)]
pub(super) struct HttpChecks {
    /// Maps the channel of each open exchange to its messages.
    messages: HashMap<String, ExchangeMessages>,
    /// Whether the response to the last handshake started a session.
    gives_sessions: bool,
    /// Whether the server has shown that it speaks the modern era.
    is_modern: bool,
    /// The targets of POST requests over HTTP+SSE. Their JSON-RPC responses arrive in another exchange.
    sse_targets: HashSet<String>,
}

#[derive(Default)]
struct ExchangeMessages {
    posted: Option<PostedMessage>,
    request: Option<Location>,
    /// The location of the first message of the response.
    response: Option<Location>,
    conversation: String,
    has_result: bool,
    error: Option<i64>,
    /// Whether the client has disconnected, or the response is incomplete.
    is_cut: bool,
}

/// The parts of a posted message that decide which headers and statuses are right.
#[derive(Default)]
struct PostedMessage {
    kind: PostedKind,
    method: String,
    id: Option<String>,
    /// The protocol version in the message's metadata.
    version: Option<String>,
    /// The required value of `Mcp-Name`.
    name: Option<String>,
    /// The revision that the handshake agreed on.
    agreed: Option<Revision>,
}

#[derive(Clone, Copy, PartialEq, Default)]
enum PostedKind {
    Request,
    Notification,
    Response,
    /// An array, or not a message.
    #[default]
    Other,
}

impl HttpChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, tools: &ToolChecks, ledger: &mut Ledger) {
        let tracked = context.tracked;
        let (Some(place), Some(exchange)) = (tracked.frame.place, tracked.exchange) else { return };
        if self.messages.len() >= MAX_EXCHANGES && !self.messages.contains_key(place.channel) {
            return;
        }
        let messages = self.messages.entry(place.channel.to_owned()).or_default();
        messages.conversation.clone_from(&tracked.conversation.name);
        let location = Location::of(tracked.frame, 0);
        if tracked.sender == Side::Client {
            client::check_param_headers(context, exchange, tools, ledger);
            messages.request.get_or_insert(location);
            let posted = PostedMessage::of(context);
            messages.posted = Some(match &messages.posted {
                None => posted,
                Some(_) => PostedMessage { kind: PostedKind::Other, ..posted },
            });
            return;
        }
        messages.response.get_or_insert(location);
        server::check_get_stream(context, exchange, ledger);
        match tracked.message {
            Ok(Message::Response(response)) => match response.outcome {
                Ok(result) => {
                    messages.has_result = true;
                    self.is_modern |= member(Some(result), "resultType").is_some();
                }
                Err(error) => {
                    messages.error = Some(error.code.get());
                    self.is_modern |= code::is_modern(error.code);
                }
            },
            Ok(Message::OrphanError(error)) => messages.error = Some(error.code.get()),
            _ => {}
        }
    }

    /// Handles an event. `exchange` is the HTTP exchange of the event's channel, even if the exchange has just ended.
    pub(super) fn event(
        &mut self,
        event: &Event,
        exchange: Option<&HttpExchange>,
        state: &mut ObservationState,
        ledger: &mut Ledger,
    ) {
        let Some(exchange) = exchange else { return };
        let channel = event.channel.as_str();
        match &event.note {
            Note::Closed(StreamClose::Connection) | Note::Cut { .. } if self.messages.len() < MAX_EXCHANGES => {
                self.messages.entry(channel.to_owned()).or_default().is_cut = true;
            }
            Note::Eof(Stream::ToClient) => {
                let messages = self.messages.remove(channel).unwrap_or_default();
                self.finish(channel, exchange, &messages, state, ledger);
            }
            _ => {}
        }
    }

    fn finish(
        &mut self,
        channel: &str,
        exchange: &HttpExchange,
        messages: &ExchangeMessages,
        state: &mut ObservationState,
        ledger: &mut Ledger,
    ) {
        let status = exchange.code();
        // Either the HTTP status explains why there is no response, or another check reports the missing response.
        let is_accepted = status == Some(202) && !exchange.is_sse_transport;
        let is_refused = is_accepted || status.is_none_or(|status| status >= 400) || messages.is_cut;
        let id = messages.posted.as_ref().and_then(|posted| posted.id.clone());
        let key = |name: &str| (name.to_owned(), id.clone().unwrap_or_default());
        let is_claimed = [channel, &messages.conversation].iter().any(|name| state.claimed.contains(&key(name)));
        if let Some(PostedMessage { id: Some(id), .. }) = &messages.posted
            && is_refused
            && state.claimed.len() < MAX_EXCHANGES
        {
            for name in [channel, &messages.conversation] {
                state.claimed.insert((name.to_owned(), id.clone()));
            }
        }
        let Some(status) = status else { return };
        let mut view = FinishedExchange { channel, exchange, messages, state, ledger, status, is_claimed };
        if status == 401 {
            view.unauthorized();
        }
        match (exchange.method(), &messages.posted) {
            // 2024-11-05 has no rules for headers and statuses.
            (Some("POST"), Some(posted)) if self.is_sse_transport(&view, posted) => {}
            (Some("POST"), Some(posted)) => {
                view.client(posted, self.gives_sessions);
                view.server(posted, self.is_modern);
                if posted.is_handshake() && view.is_ok() {
                    self.gives_sessions = exchange.response_header("mcp-session-id").is_some();
                }
            }
            (Some("GET"), None) if view.accepts("text/event-stream") => view.get(),
            (Some("DELETE"), None) if exchange.request_header("mcp-session-id").is_some() => view.delete(),
            _ => {}
        }
    }

    /// Whether a message was posted over HTTP+SSE.
    fn is_sse_transport(&mut self, view: &FinishedExchange<'_>, posted: &PostedMessage) -> bool {
        let Some(target) = view.exchange.target() else { return false };
        if view.exchange.is_sse_transport || self.sse_targets.contains(target) {
            return true;
        }
        let has_answer = view.messages.has_result || view.messages.error.is_some();
        let is_one = posted.kind == PostedKind::Request && view.exchange.may_be_sse_post() && !has_answer;
        if is_one && self.sse_targets.len() < MAX_EXCHANGES {
            self.sse_targets.insert(target.to_owned());
        }
        is_one
    }
}

struct FinishedExchange<'a> {
    channel: &'a str,
    exchange: &'a HttpExchange,
    messages: &'a ExchangeMessages,
    state: &'a ObservationState,
    ledger: &'a mut Ledger,
    status: u16,
    /// Whether a probe judges the outcome of the request itself.
    is_claimed: bool,
}

impl FinishedExchange<'_> {
    fn is_ok(&self) -> bool {
        (200..=299).contains(&self.status)
    }

    fn by_client(&mut self, check: &'static Check, detail: impl Into<String>) {
        if self.state.client_is_ours {
            return;
        }
        let location = self.messages.request.clone().unwrap_or_else(|| Location::channel(self.channel));
        let finding = Finding::new(check, Party::Client, location, detail);
        self.ledger.fail(finding.with_request(Some(self.request())));
    }

    /// Reports a violation of a named rule by the client.
    fn by_client_under(&mut self, check: &'static Check, rule: &'static Rule, detail: impl Into<String>) {
        if !self.state.client_is_ours {
            let location = self.messages.request.clone().unwrap_or_else(|| Location::channel(self.channel));
            let finding = Finding::new(check, Party::Client, location, detail).under(rule);
            self.ledger.fail(finding.with_request(Some(self.request())));
        }
    }

    fn by_server(&mut self, check: &'static Check, detail: impl Into<String>) {
        let location = self.messages.response.clone().unwrap_or_else(|| Location::channel(self.channel));
        let finding = Finding::new(check, Party::Server, location, detail);
        self.ledger.fail(self.with_heads(finding));
    }

    /// Reports a violation of a named rule by the server.
    fn by_server_under(&mut self, check: &'static Check, rule: &'static Rule, detail: impl Into<String>) {
        let location = self.messages.response.clone().unwrap_or_else(|| Location::channel(self.channel));
        let finding = Finding::new(check, Party::Server, location, detail).under(rule);
        self.ledger.fail(self.with_heads(finding));
    }

    /// Adds the heads of the request and of its response to a finding.
    fn with_heads(&self, finding: Finding) -> Finding {
        let location = self.messages.response.clone().unwrap_or_else(|| Location::channel(self.channel));
        let lines = ["content-type", "www-authenticate"].map(|name| header(&self.exchange.response_headers, name));
        let lines = std::iter::once(self.exchange.status.clone()).chain(lines.into_iter().flatten());
        let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        let response = Excerpt::of_lines(location, lines.iter().map(String::as_bytes));
        finding.with_request(Some(self.request())).with_response(Some(response))
    }

    /// Returns the request line, and the headers that have rules.
    fn request(&self) -> Excerpt {
        let location = self.messages.request.clone().unwrap_or_else(|| Location::channel(self.channel));
        let names = ["accept", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"];
        let lines = names.map(|name| header(&self.exchange.request_headers, name)).into_iter().flatten();
        let lines: Vec<String> = std::iter::once(self.exchange.request.clone()).chain(lines).collect();
        Excerpt::of_lines(location, lines.iter().map(String::as_bytes))
    }

    fn accepts(&self, wanted: &str) -> bool {
        let (kind, _) = wanted.split_once('/').unwrap_or((wanted, ""));
        let accepts = self.exchange.request_headers.iter().filter(|(name, _)| name == "accept");
        accepts.flat_map(|(_, value)| value.split(',')).any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            range == wanted || range == "*/*" || range == format!("{kind}/*")
        })
    }
}

/// Returns the line of a header, if it is there.
fn header(headers: &[(String, String)], wanted: &str) -> Option<String> {
    let (name, value) = headers.iter().find(|(name, _)| name == wanted)?;
    Some(format!("{name}: {value}"))
}

impl PostedMessage {
    fn of(context: &MessageContext<'_>) -> Self {
        let tracked = context.tracked;
        let conversation = tracked.conversation;
        let agreed = conversation.revision().filter(|_| conversation.handshake >= Handshake::Answered);
        let mut posted = Self { agreed, ..Self::default() };
        match tracked.message {
            Ok(Message::Request(request)) => {
                let text = |json| Text::from_json(json).map(|it| it.to_name().into_owned());
                let params = RequestParams::read(request.params);
                posted.kind = PostedKind::Request;
                posted.method = request.method.to_name().into_owned();
                posted.id = Some(request.id.as_str().to_owned());
                posted.version = params.meta.protocol_version.and_then(text);
                posted.name = mcp_name_source(&posted.method, &params).and_then(|(_, whom)| whom).and_then(text);
            }
            Ok(Message::Notification(notification)) => {
                posted.kind = PostedKind::Notification;
                posted.method = notification.method.to_name().into_owned();
            }
            Ok(Message::Response(_)) => posted.kind = PostedKind::Response,
            Ok(Message::OrphanError(_)) => {}
            Err(invalid) => posted.id = invalid.id.as_ref().map(|id| id.as_str().to_owned()),
        }
        if tracked.element.is_some() {
            posted.kind = PostedKind::Other;
        }
        posted
    }

    fn is_handshake(&self) -> bool {
        self.method == "initialize" && self.version.is_none()
    }

    fn shown(&self) -> String {
        match self.kind {
            PostedKind::Response => "a response".to_owned(),
            _ => shown(self.method.as_bytes(), 60),
        }
    }
}

/// The maximum number of exchanges that are tracked; more than any host has open.
const MAX_EXCHANGES: usize = 65_536;
