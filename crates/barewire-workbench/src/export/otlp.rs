//! The operations of a wire -> OTLP/JSON: a span for each, with the semantic conventions of OpenTelemetry for MCP.
//!
//! All operations of a conversation are one trace, below a span for the conversation. A question of the server is below
//! the call that waits for its answer. If a request has a `traceparent`, its span is part of that trace instead. The ids
//! are made from the capture, so that the same capture always gives the same spans.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::Duration;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::Side;
use barewire_proto::rpc::Message;
use ring::digest::{SHA256, digest};
use serde_json::json;

use super::clock::{WallClock, time_of};
use super::otlp_span::{Attributes, OtlpSpan, SpanIds, SpanKind, trace_parent};
use crate::frames::WireItem;
use crate::operations::{Conversation, Operation, OperationTracker, Relation, ResponseOutcome, TrackedMessage};
use crate::pipeline::Observer;
use crate::secrets::Redactor;

/// Writes the spans of a wire as one OTLP/JSON object, on one line.
pub struct OtlpExporter<W> {
    out: W,
    /// The first error; after it, nothing is written.
    error: Option<io::Error>,
    redactor: Redactor,
    clock: WallClock,
    /// A text that only this capture has: its start, and its first message.
    seed: Vec<u8>,
    spans: u64,
    /// Maps the number of each unfinished operation to its span.
    open: BTreeMap<u64, OpenSpan>,
    conversations: HashMap<String, OpenConversation>,
    last: Duration,
}

/// The span of an unfinished operation.
struct OpenSpan {
    ids: SpanIds,
    conversation: String,
    channel: String,
    /// Whether a question of the server can be part of it.
    may_ask: bool,
    protocol_version: Option<String>,
    over_http: bool,
    /// The end of the last round, if the server has asked for input.
    waits_since: Option<Duration>,
}

/// The span of a conversation.
struct OpenConversation {
    ids: SpanIds,
    began: Duration,
    ended: Duration,
    over_http: bool,
    client: Option<String>,
    server: Option<String>,
    version: Option<String>,
}

impl<W: Write> OtlpExporter<W> {
    /// Begins the object. The redactor replaces the secrets.
    pub fn new(out: W, redactor: Redactor) -> Self {
        let mut exporter = Self {
            out,
            error: None,
            redactor,
            clock: WallClock::default(),
            seed: Vec::new(),
            spans: 0,
            open: BTreeMap::new(),
            conversations: HashMap::new(),
            last: Duration::ZERO,
        };
        let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "barewire" } }] });
        let scope = json!({ "name": "barewire", "version": env!("CARGO_PKG_VERSION") });
        let begin =
            format!("{{\"resourceSpans\":[{{\"resource\":{resource},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":[");
        exporter.write(&begin);
        exporter
    }

    /// Writes the end of the object. Returns the number of spans.
    pub fn finish(mut self) -> io::Result<u64> {
        self.write("]}]}]}\n");
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.spans),
        }
    }

    fn write(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = self.out.write_all(text.as_bytes()).err();
        }
    }

    fn span(&mut self, span: OtlpSpan) {
        let comma = if self.spans == 0 { "" } else { "," };
        self.spans += 1;
        self.write(&format!("{comma}{}", span.json()));
    }

    /// Returns the first bytes of a digest of the capture and of these texts.
    fn id<const N: usize>(&self, texts: &[&[u8]]) -> [u8; N] {
        let mut all = self.seed.clone();
        for text in texts {
            all.extend_from_slice(&(text.len() as u64).to_be_bytes());
            all.extend_from_slice(text);
        }
        let digest = digest(&SHA256, &all);
        std::array::from_fn(|at| digest.as_ref()[at])
    }

    /// Returns the ids of the span of a conversation, and notes that the conversation goes on.
    fn conversation(&mut self, conversation: &Conversation, channel: &str, time: Duration) -> Option<SpanIds> {
        let name = &conversation.name;
        // Over HTTP without a session, every exchange is its own conversation, which needs no span of its own.
        if conversation.over_http && name == channel {
            return None;
        }
        if !self.conversations.contains_key(name) {
            if self.conversations.len() >= MAX_CONVERSATIONS {
                return None;
            }
            let (trace, span) = (self.id(&[b"trace", name.as_bytes()]), self.id(&[b"conversation", name.as_bytes()]));
            let ids = SpanIds { trace, span, parent: None };
            let (client, server, version) = (None, None, None);
            let over_http = conversation.over_http;
            let open = OpenConversation { ids, began: time, ended: time, over_http, client, server, version };
            self.conversations.insert(name.clone(), open);
        }
        let open = self.conversations.get_mut(name)?;
        open.ended = open.ended.max(time);
        let label = |it: &crate::operations::Participant| format!("{} {}", it.name, it.version).trim().to_owned();
        if open.client.is_none() {
            open.client = conversation.client.as_ref().map(label);
        }
        if open.server.is_none() {
            open.server = conversation.server.as_ref().map(label);
        }
        if open.version.is_none() {
            open.version.clone_from(&conversation.version);
        }
        Some(open.ids)
    }

    fn request(&mut self, tracked: &TrackedMessage<'_>, operation: &Operation, time: Duration) {
        let channel = tracked.frame.place.map_or("", |place| place.channel);
        let conversation = self.conversation(tracked.conversation, channel, time);
        if let Some(open) = self.open.get_mut(&operation.number) {
            // A further round: the client has answered what the server asked.
            let since = open.waits_since.take();
            let (ids, round) = (open.ids, operation.rounds.len() as u64);
            if let Some(since) = since {
                let span = self.id(&[b"input", &ids.span, &round.to_be_bytes()]);
                self.input_span(SpanIds { span, parent: Some(ids.span), ..ids }, since, time);
            }
            return;
        }
        let number = operation.number.to_be_bytes();
        let span = self.id(&[b"operation", operation.conversation.as_bytes(), &number]);
        let is_question = operation.asker == Side::Server;
        let waiting = if is_question { self.waiting(&operation.conversation, channel) } else { None };
        let given = traceparent(tracked.message).and_then(|text| trace_parent(&text));
        let own =
            || SpanIds { trace: self.id(&[b"trace", operation.conversation.as_bytes(), &number]), span, parent: None };
        let ids = match (given, waiting.or(conversation)) {
            (Some((trace, parent)), _) => SpanIds { trace, span, parent: Some(parent) },
            (None, Some(above)) => SpanIds { trace: above.trace, span, parent: Some(above.span) },
            (None, None) => own(),
        };
        let open = OpenSpan {
            ids,
            conversation: operation.conversation.clone(),
            channel: channel.to_owned(),
            may_ask: !is_question && !operation.is_listen(),
            protocol_version: tracked.conversation.version.clone(),
            over_http: tracked.conversation.over_http,
            waits_since: None,
        };
        self.open.insert(operation.number, open);
        if self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
    }

    /// Returns the ids of the call that a question of the server is part of: in its HTTP exchange, or else the one that
    /// began last.
    fn waiting(&self, conversation: &str, channel: &str) -> Option<SpanIds> {
        let calls = || self.open.values().rev().filter(|open| open.may_ask && open.conversation == conversation);
        calls().find(|open| open.over_http && open.channel == channel).or_else(|| calls().next()).map(|open| open.ids)
    }

    fn input_span(&mut self, ids: SpanIds, began: Duration, ended: Duration) {
        let mut attributes = Attributes::default();
        attributes.text("mcp.result.type", "input_required");
        let (began, ended) = (self.clock.at(began), self.clock.at(ended));
        let (name, kind) = ("input required".to_owned(), SpanKind::Internal);
        self.span(OtlpSpan { ids, name, kind, began, ended, attributes, error: None });
    }

    /// Writes the span of an operation that has ended, or never will.
    fn end_operation(&mut self, operation: &Operation, ended: Duration) {
        let Some(open) = self.open.remove(&operation.number) else { return };
        let failure = failure(operation);
        let mut attributes = Attributes::default();
        let name = operation.name.as_deref().map(|name| self.redactor.text(name));
        attributes.text("mcp.method.name", &operation.method);
        let mut target = None;
        match (&*operation.method, &name) {
            ("tools/call", Some(name)) => {
                attributes.text("gen_ai.operation.name", "execute_tool");
                attributes.text("gen_ai.tool.name", name);
                target = Some(name);
            }
            ("prompts/get", Some(name)) => {
                attributes.text("gen_ai.prompt.name", name);
                target = Some(name);
            }
            ("resources/read" | "resources/subscribe" | "resources/unsubscribe", Some(uri)) => {
                attributes.text("mcp.resource.uri", uri);
            }
            _ => {}
        }
        let span_name = target.map_or_else(|| operation.method.clone(), |name| format!("{} {name}", operation.method));
        if let Some(round) = operation.rounds.last() {
            attributes.text("jsonrpc.request.id", round.id.as_str().trim_matches('"'));
        }
        if let Some(version) = &open.protocol_version {
            attributes.text("mcp.protocol.version", version);
        }
        if open.over_http {
            attributes.text("network.protocol.name", "http");
        }
        attributes.text("network.transport", if open.over_http { "tcp" } else { "pipe" });
        if open.over_http && operation.conversation != open.channel {
            let session = self.redactor.text(&operation.conversation);
            attributes.text("mcp.session.id", &session);
        }
        if let Some(ResponseOutcome::Error { code, .. }) = operation.answer().map(|answer| &answer.outcome) {
            attributes.text("rpc.response.status_code", &code.to_string());
        }
        if let Some((kind, _)) = &failure {
            attributes.text("error.type", kind);
        }
        attributes.number("barewire.frame", operation.asked().frame);
        if let Some(answer) = operation.answer() {
            attributes.number("barewire.answer_frame", answer.at.frame);
        }
        let error = failure.map(|(_, message)| self.redactor.text(&message));
        let asked = operation.asked();
        let began = asked.time.unwrap_or(Duration::from_micros(asked.frame));
        let (began, ended) = (self.clock.at(began), self.clock.at(ended));
        let (ids, kind) = (open.ids, SpanKind::Client);
        self.span(OtlpSpan { ids, name: span_name, kind, began, ended, attributes, error });
    }

    fn end_conversation(&mut self, name: &str, open: OpenConversation) {
        let mut attributes = Attributes::default();
        if open.over_http {
            let session = self.redactor.text(name);
            attributes.text("mcp.session.id", &session);
            attributes.text("network.protocol.name", "http");
        }
        attributes.text("network.transport", if open.over_http { "tcp" } else { "pipe" });
        let facts = [
            ("mcp.protocol.version", open.version),
            ("barewire.client", open.client),
            ("barewire.server", open.server),
        ];
        for (key, value) in facts {
            if let Some(value) = value {
                let value = self.redactor.text(&value);
                attributes.text(key, &value);
            }
        }
        let (began, ended) = (self.clock.at(open.began), self.clock.at(open.ended));
        let (name, kind) = ("MCP conversation".to_owned(), SpanKind::Internal);
        self.span(OtlpSpan { ids: open.ids, name, kind, began, ended, attributes, error: None });
    }
}

impl<W: Write> Observer for OtlpExporter<W> {
    fn message(&mut self, tracked: &TrackedMessage<'_>) {
        let time = time_of(tracked.frame);
        self.last = self.last.max(time);
        if !self.seed.ends_with(SEED_END) {
            // The first message without its secrets, which are random.
            let first = String::from_utf8_lossy(tracked.text.unwrap_or_default());
            let first = self.redactor.text(&first);
            self.seed.extend_from_slice(first.as_bytes());
            self.seed = digest(&SHA256, &self.seed).as_ref().to_vec();
            self.seed.extend_from_slice(SEED_END);
        }
        match tracked.relation {
            Relation::Request { operation, .. } => self.request(tracked, operation, time),
            Relation::Response { operation, .. } => {
                let channel = tracked.frame.place.map_or("", |place| place.channel);
                self.conversation(tracked.conversation, channel, time);
                match operation.answer().map(|answer| &answer.outcome) {
                    Some(ResponseOutcome::InputRequired) => {
                        if let Some(open) = self.open.get_mut(&operation.number) {
                            open.waits_since = Some(time);
                        }
                    }
                    _ => self.end_operation(operation, time),
                }
            }
            _ => {}
        }
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        if let WireItem::Header(header) = item {
            self.clock = WallClock::of(header);
            for (_, value) in &header.facts {
                self.seed.extend_from_slice(value);
            }
        }
        if let WireItem::Event(event) = item {
            self.last = self.last.max(event.marks.time.unwrap_or_default());
        }
        for operation in operations.refused() {
            self.end_operation(operation, self.last);
        }
    }

    fn end(&mut self, operations: &OperationTracker) {
        for operation in operations.open() {
            let ended = operation.cancelled.and_then(|cancelled| cancelled.time).unwrap_or(self.last);
            self.end_operation(operation, ended);
        }
        let mut conversations: Vec<_> = self.conversations.drain().collect();
        conversations.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, open) in conversations {
            self.end_conversation(&name, open);
        }
    }
}

/// Returns the `error.type` of an operation that failed, and a sentence.
fn failure(operation: &Operation) -> Option<(String, String)> {
    let failed = |kind: &str, message: &str| Some((kind.to_owned(), message.to_owned()));
    match operation.answer().map(|answer| &answer.outcome) {
        Some(ResponseOutcome::Error { code, message }) => Some((code.to_string(), message.clone())),
        Some(ResponseOutcome::ToolFailed) => failed("tool_error", "the tool failed"),
        Some(ResponseOutcome::Unreadable) => failed("_OTHER", "the response is not valid"),
        Some(ResponseOutcome::Result | ResponseOutcome::InputRequired | ResponseOutcome::Cut) => None,
        None if operation.cancelled.is_some() => failed("cancelled", "cancelled"),
        None if operation.is_listen() => None,
        None => failed("_OTHER", "no response"),
    }
}

/// Returns the `traceparent` in the metadata of a request.
fn traceparent(message: &crate::frames::MessageResult<'_>) -> Option<String> {
    let Ok(Message::Request(request)) = message else { return None };
    let params: Json<'_> = request.params?.json();
    let text = Text::from_json(params.member("_meta")?.member("traceparent")?)?;
    Some(text.to_name().into_owned())
}

/// Ends a seed that is complete.
const SEED_END: &[u8] = b"\nbarewire";
/// The maximum number of unfinished operations, and of conversations that get a span.
const MAX_OPEN: usize = 65_536;
const MAX_CONVERSATIONS: usize = 65_536;
