//! HTTP requests, ordinary or modified -> exchanges, each recorded on its own channel, and their replies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_proto::mcp::{Era, Revision};
use barewire_proto::transcript::{Channel, Framing, Note, Stream, StreamClose, UnreadReason, Word};
use serde_json::Value;
use tokio::time::timeout_at;

use super::outcome::HttpRefusal;
use super::recording::{LocatedFrame, Recording};
use crate::check::excerpt::Excerpt;
use crate::check::finding::Location;
use crate::http::ExchangeEvent;
use crate::http::session::{HttpTarget, SESSION_END_TIMEOUT, SessionClient, headers};

pub(super) use crate::http::HttpRequest;

/// An HTTP client that records its exchanges with a server.
pub(super) struct RecordingClient {
    target: Arc<HttpTarget>,
    pub(super) client: SessionClient,
    recording: Recording,
    /// Maps the number of each exchange to the exchange, including finished ones.
    exchanges: HashMap<u64, SentExchange>,
    /// Maps each request's id, as JSON text, to the number of the exchange that carried the request.
    requests: HashMap<String, u64>,
    /// The ids of requests whose missing response the probe reports itself, including requests that are not sent yet.
    claimed: HashSet<String>,
}

struct SentExchange {
    channel: Channel,
    is_get: bool,
    is_notification: bool,
    /// The number of body bytes so far if the body has a Content-Encoding, so that its messages and secrets cannot be
    /// read. `None` for a plain body.
    unread: Option<u64>,
    reply: HttpReply,
}

/// The part of an HTTP response that has arrived.
#[derive(Clone, Default)]
pub(super) struct HttpReply {
    pub(super) channel: String,
    /// The status code; `None` until the head arrives.
    pub(super) status: Option<u16>,
    /// The headers, with names in lower case.
    pub(super) headers: Vec<(String, String)>,
    /// The first line of the head; empty until the head arrives.
    status_line: String,
    pub(super) first: Option<FirstFrame>,
    /// The request, as evidence.
    pub(super) request: Option<Excerpt>,
    /// The reason why the response is incomplete; empty if it is complete.
    pub(super) why: String,
}

/// The first message of a response. Not all of its bytes are kept, because replies are kept for the whole run.
#[derive(Clone)]
pub(super) struct FirstFrame {
    location: Location,
    start: Vec<u8>,
    /// The code in the message, if it is an error.
    code: Option<i64>,
}

impl FirstFrame {
    fn of(frame: &LocatedFrame) -> Self {
        let code = frame.json().and_then(|message| message.at(&["error", "code"])?.integer());
        let start = frame.bytes[..frame.bytes.len().min(MAX_FRAME_START)].to_vec();
        Self { location: frame.location.clone(), start, code }
    }
}

impl HttpReply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the error code in the first message of the response.
    pub(super) fn code(&self) -> Option<i64> {
        self.first.as_ref()?.code
    }

    pub(super) fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| (200..=299).contains(&status))
    }

    pub(super) fn is_client_error(&self) -> bool {
        self.status.is_some_and(|status| (400..=499).contains(&status))
    }

    pub(super) fn describe(&self) -> String {
        match (self.status, self.code()) {
            (Some(status), Some(code)) => format!("status {status} and error {code}"),
            (Some(status), None) => format!("status {status}"),
            (None, _) if self.why.is_empty() => "no response".to_owned(),
            (None, _) => format!("no response: {}", self.why),
        }
    }

    /// Returns the start of the response as evidence; `None` if there was no response.
    pub(super) fn excerpt(&self) -> Option<Excerpt> {
        self.status?;
        let body = self.first.as_ref().map_or(&[][..], |frame| &frame.start);
        let lines = [self.status_line.as_bytes(), body].into_iter().filter(|line| !line.is_empty());
        Some(Excerpt::of_lines(self.location(), lines))
    }

    pub(super) fn location(&self) -> Location {
        self.first.as_ref().map_or_else(|| Location::channel(&self.channel), |frame| frame.location.clone())
    }
}

impl RecordingClient {
    pub(super) fn new(target: Arc<HttpTarget>, recording: Recording) -> Self {
        let client = SessionClient::new(Arc::clone(&target));
        let (exchanges, requests, claimed) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { target, client, recording, exchanges, requests, claimed }
    }

    /// Posts a message in the way in which a client of this era posts it.
    /// Returns the location of the exchange.
    pub(super) fn post(&mut self, body: &[u8], era: Era, revision: Revision) -> Location {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        if era == Era::Modern && message["method"] == "notifications/cancelled" {
            // In the modern era a client cancels by closing the connection.
            let id = message["params"]["requestId"].to_string();
            if let Some(number) = self.requests.get(&id).copied() {
                self.close(number);
            }
            return Location::default();
        }
        let number = self.send(&self.client.request(body, era, revision));
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            exchange.is_notification = message.get("method").is_some() && message.get("id").is_none();
        }
        self.remember(message, number);
        let channel = self.exchanges.get(&number).map_or("", |exchange| exchange.channel.as_str());
        Location::channel(channel)
    }

    /// Remembers the exchange of each request in a message.
    fn remember(&mut self, message: Value, number: u64) {
        let messages = message.as_array().cloned().unwrap_or_else(|| vec![message]);
        for id in messages.iter().filter(|it| it.get("method").is_some()).filter_map(|it| it.get("id")) {
            let id = id.to_string();
            self.requests.insert(id.clone(), number);
            if self.claimed.contains(&id) {
                self.claim(&id);
            }
        }
    }

    fn send(&mut self, request: &HttpRequest) -> u64 {
        let number = self.client.send(request, Duration::ZERO);
        let channel: Channel = Word::new(&format!("x{number}")).expect("letters and digits form a valid word");
        for line in self.target.head(request) {
            self.recording.event(&channel, Note::Head(Stream::ToServer, line.into_bytes()));
        }
        for (name, value) in &self.target.headers {
            self.recording.secret_header(&channel, &name.to_ascii_lowercase(), value);
        }
        if let Some(body) = &request.body {
            self.recording.event(&channel, Note::Framing(Framing::Body));
            self.recording.bytes(&channel, Stream::ToServer, body);
        }
        self.recording.event(&channel, Note::Eof(Stream::ToServer));
        let request_excerpt = Some(self.excerpt(request, &channel));
        let name = channel.as_str().to_owned();
        let reply = HttpReply { channel: name, request: request_excerpt, ..HttpReply::default() };
        let is_get = request.verb == "GET";
        self.exchanges.insert(number, SentExchange { channel, is_get, is_notification: false, unread: None, reply });
        number
    }

    /// Returns the request line, the headers that probes change, and the body.
    fn excerpt(&self, request: &HttpRequest, channel: &Channel) -> Excerpt {
        let head = self.target.head(request);
        let is_shown = |line: &&String| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            // The session id of a server is a secret.
            SHOWN_HEADERS.contains(&name) || name == "mcp-session-id" && value.trim().starts_with("barewire-")
        };
        let headers = head.iter().skip(1).filter(is_shown);
        let body = request.body.as_deref().map(|body| &body[..body.len().min(MAX_FRAME_START)]);
        let lines = head.iter().take(1).chain(headers).map(String::as_bytes).chain(body);
        Excerpt::of_lines(Location::channel(channel.as_str()), lines)
    }

    /// Whether a notification has got no response yet.
    pub(super) fn has_open_notification(&self) -> bool {
        self.open_notifications().next().is_some()
    }

    fn open_notifications(&self) -> impl Iterator<Item = (u64, &SentExchange)> {
        let exchanges = self.exchanges.iter().map(|(number, exchange)| (*number, exchange));
        exchanges.filter(|(number, it)| it.is_notification && it.reply.status.is_none() && self.client.is_open(*number))
    }

    /// Closes the exchanges of notifications without a response, and returns them.
    pub(super) fn close_open_notifications(&mut self) -> Vec<HttpReply> {
        let open: Vec<(u64, HttpReply)> =
            self.open_notifications().map(|(number, exchange)| (number, exchange.reply.clone())).collect();
        open.into_iter()
            .map(|(number, reply)| {
                self.close(number);
                reply
            })
            .collect()
    }

    /// Whether the exchange of this request is open; without an id, whether any exchange is open.
    pub(super) fn is_waiting(&self, id: Option<&str>) -> bool {
        match id.and_then(|id| self.requests.get(id)) {
            // A response arrives in the exchange of its request.
            Some(number) => self.client.is_open(*number),
            None => self.client.has_open(),
        }
    }

    /// Waits for the next event of any exchange, and returns the frames that the event completes.
    pub(super) async fn next(&mut self) -> Vec<LocatedFrame> {
        let (number, event) = self.client.next().await;
        self.take(number, event)
    }

    /// Returns the HTTP response to a request, if its exchange has ended.
    pub(super) fn refusal(&self, id: &str) -> Option<HttpRefusal> {
        let number = self.requests.get(id).filter(|number| !self.client.is_open(**number))?;
        let HttpReply { status, why, channel, .. } = &self.exchanges.get(number)?.reply;
        Some(HttpRefusal { status: *status, why: why.clone(), location: Location::channel(channel), request: None })
    }

    /// Returns the part of the HTTP response to a request that has arrived.
    pub(super) fn reply(&self, id: &str) -> Option<HttpReply> {
        self.exchanges.get(self.requests.get(id)?).map(|exchange| exchange.reply.clone())
    }

    /// Sends a request and waits for its response. If the response is a stream, waits only for the first message, or
    /// for the head if the request is a GET.
    pub(super) async fn ask(&mut self, request: HttpRequest, deadline: Instant) -> HttpReply {
        let number = self.send(&request);
        self.remember(serde_json::from_slice(request.body.as_deref().unwrap_or_default()).unwrap_or_default(), number);
        loop {
            let Some(exchange) = self.exchanges.get(&number) else { return HttpReply::default() };
            let is_stream = exchange.reply.header("content-type").is_some_and(|it| it.contains("event-stream"));
            let is_enough = is_stream && (exchange.reply.first.is_some() || exchange.is_get);
            if is_enough || !self.client.is_open(number) {
                break;
            }
            if timeout_at(deadline.into(), self.next()).await.is_err() {
                break;
            }
        }
        let reply = self.exchanges.get(&number).map(|it| it.reply.clone()).unwrap_or_default();
        self.close(number);
        reply
    }

    /// Opens the stream of a GET, and waits for the head of the response. Returns whether the stream is open.
    pub(super) async fn open_stream(&mut self, revision: Revision, deadline: Instant) -> bool {
        let number = self.send(&HttpRequest::of_session("GET", self.client.session.as_deref(), Some(revision)));
        while self.client.is_open(number) && self.exchanges[&number].reply.status.is_none() {
            if timeout_at(deadline.into(), self.next()).await.is_err() {
                break;
            }
        }
        let reply = &self.exchanges[&number].reply;
        let is_stream = reply.header("content-type").is_some_and(|it| it.contains("event-stream"));
        self.client.is_open(number) && reply.is_ok() && is_stream
    }

    /// Claims a request: the probe reports a missing response itself.
    pub(super) fn claim(&mut self, id: &str) {
        self.claimed.insert(id.to_owned());
        if let Some(exchange) = self.requests.get(id).and_then(|number| self.exchanges.get(number)) {
            self.recording.passive().claim(exchange.channel.as_str(), id);
            if let Some(session) = &self.client.session {
                self.recording.passive().claim(session, id);
            }
        }
    }

    fn close(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get(&number).filter(|_| self.client.is_open(number)) else {
            return;
        };
        self.recording.event(&exchange.channel, Note::Closed(StreamClose::Connection));
        self.body_end(exchange);
        self.client.close(number);
    }

    /// Records the end of a response's body.
    fn body_end(&self, exchange: &SentExchange) -> Vec<LocatedFrame> {
        if let Some(bytes) = exchange.unread.filter(|bytes| *bytes > 0) {
            self.recording.event(&exchange.channel, Note::Gap(Stream::ToClient, bytes));
        }
        self.recording.event(&exchange.channel, Note::Eof(Stream::ToClient))
    }

    /// Closes all exchanges, and ends the session if there is one.
    pub(super) async fn end(&mut self, deadline: Instant, revision: Option<Revision>) {
        for number in self.exchanges.keys().copied().collect::<Vec<_>>() {
            self.close(number);
        }
        self.client.revision = revision;
        if let Some(request) = self.client.leave() {
            self.ask(request, deadline.min(Instant::now() + SESSION_END_TIMEOUT)).await;
        }
    }

    fn take(&mut self, number: u64, event: ExchangeEvent) -> Vec<LocatedFrame> {
        let Some(exchange) = self.exchanges.get_mut(&number) else { return Vec::new() };
        let (recording, channel) = (&self.recording, &exchange.channel);
        let mut frames = Vec::new();
        let mut is_over = false;
        match event {
            ExchangeEvent::Head { bytes, framing, status } => {
                let heads = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
                for line in heads.filter(|line| !line.is_empty()) {
                    recording.event(channel, Note::Head(Stream::ToClient, line.to_vec()));
                }
                let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                exchange.reply.status_line = String::from_utf8_lossy(first.trim_ascii_end()).into_owned();
                exchange.reply.headers = headers(&bytes).collect();
                exchange.reply.status = Some(status);
                if let Some(framing) = framing {
                    frames = recording.event(channel, Note::Framing(framing));
                }
            }
            ExchangeEvent::Encoded(coding) => {
                exchange.unread = Some(0);
                let why = UnreadReason::Encoded(coding.into_bytes());
                recording.event(channel, Note::Unread { stream: Stream::ToClient, why });
            }
            ExchangeEvent::Body(bytes) => match &mut exchange.unread {
                Some(unread) => *unread += bytes.len() as u64,
                None => frames = recording.bytes(channel, Stream::ToClient, &bytes),
            },
            ExchangeEvent::End => is_over = true,
            ExchangeEvent::Broken(why) => {
                is_over = true;
                let stream = Stream::ToClient;
                exchange.reply.why = String::from_utf8_lossy(&why.text(stream)).into_owned();
                recording.event(channel, Note::Cut { stream, why });
            }
        }
        if is_over {
            frames = self.body_end(&self.exchanges[&number]);
        }
        for frame in &frames {
            self.client.learn(number, &frame.bytes);
        }
        if is_over {
            self.client.close(number);
        }
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            let first = &mut exchange.reply.first;
            *first = first.take().or_else(|| frames.first().map(FirstFrame::of));
        }
        frames
    }
}

/// The headers of a request that are shown as evidence.
const SHOWN_HEADERS: [&str; 6] = ["host", "origin", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"];
/// The maximum length of `FirstFrame::start`; enough for the evidence of a finding.
const MAX_FRAME_START: usize = 4096;
