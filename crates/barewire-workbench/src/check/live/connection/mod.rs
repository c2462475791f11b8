//! A connection to the checked server, over pipes or HTTP: sends requests, and waits for responses until a deadline.

mod end;
mod liveness;
mod pipes;
mod waiting;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use barewire_proto::mcp::{Era, Revision, key};
use barewire_proto::rpc::{self, Message, Parsed, Request};
use barewire_proto::transcript::{Channel, Note, Stream};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;

use super::http_client::{HttpReply, RecordingClient};
use super::io_thread::Arrival;
use super::outcome::{ErrorResponse, RequestOutcome};
use super::recording::{LocatedFrame, Recording};
use crate::check::catalogue::framing::STDOUT_PURITY;
use crate::check::excerpt::{Excerpt, Fault};
use crate::check::finding::{Finding, Location, Party};

pub(super) use crate::platform::processes::Exited;
pub(super) use end::ProcessEnd;
pub(super) use pipes::ServerPipes;
pub(super) use waiting::lacks_id;

/// A connection to the server, and the messages on it.
pub(super) struct ServerConnection {
    pub(super) channel: Channel,
    pub(super) era: Era,
    /// Whether a probe breaks rules on this connection on purpose, and judges the exit of the process itself.
    pub(super) is_misuse: bool,
    /// The agreed revision.
    pub(super) revision: Revision,
    recording: Recording,
    patience: Duration,
    run_deadline: Instant,
    link: ConnectionTransport,
    /// Received frames that the probes have not taken yet, and their size in bytes.
    inbox: VecDeque<LocatedFrame>,
    inbox_bytes: usize,
    /// The rest of a message that the server has not read in time.
    unwritten: Vec<u8>,
    /// The ids of our requests that may still be answered.
    unanswered: HashSet<String>,
    /// Maps the ids of requests for whose responses a probe has waited in vain to the end of that wait.
    given_up: HashMap<String, Instant>,
    /// The requests for whose responses a probe waits later, each with its response if that has arrived.
    deferred: HashMap<String, DeferredRequest>,
    /// The time of our last request, or of the last response to one.
    last_exchange: Instant,
    /// The longest time that a response took so far, without the start of the program.
    slowest: Duration,
    /// The number of notifications that a list has changed.
    pub(super) list_changes: usize,
    /// The number of received frames that are not JSON.
    pub(super) unreadable: usize,
    /// Whether something was sent that a server may be unable to read, and may refuse with an error without an id.
    has_sent_garbage: bool,
    pub(super) error_without_id: Option<ErrorResponse>,
    pub(super) received: ReceivedOutput,
    /// The last frame that was sent, as evidence.
    last_sent: Option<Excerpt>,
    /// Maps the ids of our last requests, as JSON text, to the requests, as evidence.
    sent: HashMap<String, SentMessage>,
    /// The number of the server's requests that were answered.
    answered: usize,
    /// The method of the requests that test whether a legacy server still answers.
    pub(super) liveness: &'static str,
    last_id: u64,
    /// The last progress token, as JSON text.
    pub(super) last_token: String,
    /// The number of notifications about progress.
    pub(super) progress_count: usize,
    /// The time without output after which no further output is expected.
    quiet: Duration,
    /// Whether the server has closed its output.
    pub(super) is_closed: bool,
    /// The place of this connection among those that may exist at once.
    pub(super) place: Option<OwnedSemaphorePermit>,
}

/// A request that was sent.
struct SentMessage {
    method: String,
    /// The request as evidence, with its id as the fault.
    excerpt: Excerpt,
}

/// A request for whose response a probe waits later.
struct DeferredRequest {
    sent: Instant,
    outcome: Option<RequestOutcome>,
}

/// The output of the server so far, including output that is not a message.
#[derive(Default)]
pub(super) struct ReceivedOutput {
    pub(super) bytes: usize,
    pub(super) lines: usize,
    /// The first bytes of the output.
    pub(super) start: Vec<u8>,
}

/// The type of a progress token. Hosts on the official SDKs send numbers.
#[derive(Clone, Copy)]
pub(super) enum TokenKind {
    Number,
    Text,
}

/// The transport below a connection.
pub(super) enum ConnectionTransport {
    Pipes(ServerPipes),
    Http(Box<RecordingClient>),
}

impl ServerConnection {
    pub(super) fn new(
        link: ConnectionTransport,
        channel: Channel,
        recording: Recording,
        patience: Duration,
        run_deadline: Instant,
        place: Option<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            channel,
            era: Era::Legacy,
            is_misuse: false,
            revision: Revision::LATEST_LEGACY,
            recording,
            patience,
            run_deadline,
            link,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            unwritten: Vec::new(),
            unanswered: HashSet::new(),
            given_up: HashMap::new(),
            deferred: HashMap::new(),
            last_exchange: Instant::now(),
            slowest: Duration::ZERO,
            list_changes: 0,
            unreadable: 0,
            has_sent_garbage: false,
            error_without_id: None,
            received: ReceivedOutput::default(),
            last_sent: None,
            sent: HashMap::new(),
            answered: 0,
            liveness: "ping",
            last_id: 0,
            last_token: String::new(),
            progress_count: 0,
            quiet: liveness::MIN_QUIET,
            is_closed: false,
            place,
        }
    }

    pub(super) fn http(&mut self) -> Option<&mut RecordingClient> {
        if let ConnectionTransport::Http(client) = &mut self.link { Some(client) } else { None }
    }

    fn pipes(&mut self) -> Option<&mut ServerPipes> {
        if let ConnectionTransport::Pipes(pipes) = &mut self.link { Some(pipes) } else { None }
    }

    /// Writes bytes as they are, and reads at the same time, because the server may block until its output is read.
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.send_until(bytes, self.response_deadline()).await;
    }

    async fn send_until(&mut self, bytes: &[u8], deadline: Instant) {
        let (era, revision) = (self.era, self.revision);
        if let ConnectionTransport::Http(client) = &mut self.link {
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let location = client.post(line, era, revision);
                let request = Excerpt::of_request(location, line);
                if let Parsed::Message(Message::Request(message)) = rpc::parse(line, rpc::DEFAULT_DEPTH) {
                    remember(&mut self.sent, &message, &request);
                }
                self.last_sent = Some(request.unmarked());
            }
            return;
        }
        // If the server has not read the last message yet, it cannot read this one either.
        self.write_rest(deadline).await;
        if !self.unwritten.is_empty() {
            return;
        }
        // What has arrived before is recorded before, so that the capture has the order of the wire.
        self.take_arrived();
        for LocatedFrame { location, bytes: line, .. } in self.recording.bytes(&self.channel, Stream::ToServer, bytes) {
            let sent = Excerpt::of_request(location, &line);
            match rpc::parse(&line, rpc::DEFAULT_DEPTH) {
                Parsed::Message(Message::Request(request)) => {
                    self.last_exchange = Instant::now();
                    self.unanswered.insert(request.id.to_string());
                    self.has_sent_garbage |= line.len() > LONG_LINE;
                    remember(&mut self.sent, &request, &sent);
                }
                Parsed::Message(_) => {}
                Parsed::Batch(_) | Parsed::Invalid(_) => self.has_sent_garbage = true,
            }
            self.last_sent = Some(sent.unmarked());
        }
        self.unwritten.extend_from_slice(bytes);
        self.write_rest(deadline).await;
    }

    /// Writes the unwritten bytes until the deadline, and reads at the same time unless too many frames wait. A server
    /// that reads a long message slowly has more time.
    async fn write_rest(&mut self, mut deadline: Instant) {
        let last = self.deadline(self.patience * MAX_WRITE_PATIENCE).max(deadline);
        let Some(mut writer) = self.pipes().and_then(|pipes| pipes.writer.take()) else {
            return self.unwritten.clear();
        };
        while !self.unwritten.is_empty() && !self.is_over(deadline) {
            let may_read = !self.is_closed && self.inbox_bytes < MAX_INBOX_BYTES;
            let Self { link: ConnectionTransport::Pipes(pipes), unwritten, .. } = self else { return };
            let event = tokio::select! {
                written = writer.write(unwritten) => PipeEvent::Written(written),
                arrival = pipes.arrivals.next(), if may_read => PipeEvent::Read(arrival),
                () = tokio::time::sleep_until(deadline.into()) => PipeEvent::Timeout,
            };
            match event {
                PipeEvent::Written(Ok(0) | Err(_)) => self.unwritten.clear(),
                PipeEvent::Written(Ok(count)) => {
                    self.unwritten.drain(..count);
                    deadline = self.response_deadline().clamp(deadline, last);
                }
                PipeEvent::Read(arrival) => self.handle_arrival(&arrival),
                PipeEvent::Timeout => break,
            }
        }
        if let Some(pipes) = self.pipes() {
            pipes.writer = Some(writer);
        }
    }

    pub(super) async fn send_json(&mut self, message: &Value) {
        self.send(format!("{message}\n").as_bytes()).await;
    }

    pub(super) async fn request(&mut self, method: &str, params: Value) -> RequestOutcome {
        let id = self.send_request(method, params).await;
        self.wait_for_response(&id).await
    }

    /// Sends a request, and waits for its response; for a probe that reports a missing response itself.
    pub(super) async fn claimed_request(&mut self, method: &str, params: Value) -> RequestOutcome {
        self.claimed_request_within(method, params, self.patience).await
    }

    pub(super) async fn claimed_request_within(
        &mut self,
        method: &str,
        params: Value,
        patience: Duration,
    ) -> RequestOutcome {
        let id = self.send_request(method, params).await;
        self.claim(&id);
        self.wait_for_response_within(&id, patience).await
    }

    /// Sends a request, and returns its id without waiting.
    pub(super) async fn send_request(&mut self, method: &str, params: Value) -> String {
        let (line, id) = self.request_line(method, params);
        self.send(format!("{line}\n").as_bytes()).await;
        id
    }

    pub(super) fn request_line(&mut self, method: &str, params: Value) -> (String, String) {
        let id = self.next_id();
        let params = self.with_meta(params);
        (json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(), id.to_string())
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns a new progress token.
    pub(super) fn next_token(&mut self, kind: TokenKind) -> Value {
        let id = self.next_id();
        let token = match kind {
            TokenKind::Number => json!(id),
            TokenKind::Text => json!(format!("barewire-{id}")),
        };
        self.last_token = token.to_string();
        token
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        let params = if self.era == Era::Modern { params } else { self.with_meta(params) };
        self.send_json(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request without the member `params`, and waits for its response; for a probe that reports a missing
    /// response itself.
    pub(super) async fn bare_request(&mut self, method: &str) -> RequestOutcome {
        let id = self.next_id();
        self.send_json(&json!({"jsonrpc": "2.0", "id": id, "method": method})).await;
        let id = id.to_string();
        self.claim(&id);
        self.wait_for_response(&id).await
    }

    /// Returns the time, as frames have it.
    pub(super) fn now(&self) -> Duration {
        self.recording.clock().now()
    }

    pub(super) async fn cancel_request(&mut self, id: &str) {
        self.unanswered.remove(id);
        let number: Value = serde_json::from_str(id).unwrap_or_default();
        self.notify("notifications/cancelled", json!({"requestId": number, "reason": "barewire check"})).await;
    }

    /// Waits until the server has accepted all notifications, which over HTTP have a response. Returns the exchanges
    /// without a response.
    pub(super) async fn unaccepted_notifications(&mut self, patience: Duration) -> Vec<HttpReply> {
        let deadline = self.deadline(patience);
        while self.http().is_some_and(|client| client.has_open_notification())
            && let Some(frame) = self.next_frame(deadline).await
        {
            self.handle_frame(frame, None, deadline).await;
        }
        self.http().map(RecordingClient::close_open_notifications).unwrap_or_default()
    }

    pub(super) fn with_meta(&self, mut params: Value) -> Value {
        if self.era == Era::Modern
            && let Some(members) = params.as_object_mut()
        {
            let meta = members.entry("_meta").or_insert_with(|| json!({}));
            for (name, value) in modern_meta() {
                if meta.get(name).is_none() {
                    meta[name] = value;
                }
            }
        }
        params
    }

    /// Claims a request: the probe reports a missing response itself, and `unanswered-request` does not.
    pub(super) fn claim(&mut self, id: &str) {
        match &mut self.link {
            ConnectionTransport::Pipes(_) => self.recording.passive().claim(self.channel.as_str(), id),
            ConnectionTransport::Http(client) => client.claim(id),
        }
    }

    fn keep(&mut self, frames: Vec<LocatedFrame>) {
        self.inbox_bytes += frames.iter().map(LocatedFrame::size).sum::<usize>();
        self.inbox.extend(frames);
    }

    /// Whether a deadline has passed, or nothing more is read in this run.
    fn is_over(&self, deadline: Instant) -> bool {
        Instant::now() >= deadline || self.recording.is_full()
    }

    /// Answers a request of a legacy server, if there is time. A modern client must not answer.
    async fn answer_server(&mut self, id: &str, method: &str, deadline: Instant) {
        let is_http = matches!(self.link, ConnectionTransport::Http(_));
        if self.era == Era::Modern || self.is_over(deadline) || (is_http && self.answered == MAX_HTTP_ANSWERS) {
            return;
        }
        self.answered += 1;
        let outcome = match method {
            "ping" => r#""result":{}"#,
            _ => r#""error":{"code":-32601,"message":"this client has not declared it"}"#,
        };
        self.send_until(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{outcome}}}\n").as_bytes(), deadline).await;
    }

    pub(super) async fn drain_for(&mut self, time: Duration) {
        let deadline = self.deadline(time);
        while let Some(frame) = self.next_frame(deadline).await {
            self.handle_frame(frame, None, deadline).await;
        }
    }

    /// Returns the location of the last frame that was sent, or of the connection if no frame was sent.
    pub(super) fn location(&self) -> Location {
        self.last_sent.as_ref().map_or_else(|| self.channel_location(), |sent| sent.location.clone())
    }

    /// Returns the last frame that was sent, as evidence.
    pub(super) fn last_sent(&self) -> Option<Excerpt> {
        self.last_sent.clone()
    }

    /// Returns a request that was sent, as evidence, with its id as the fault.
    pub(super) fn sent_request(&self, id: &str) -> Option<Excerpt> {
        self.sent.get(id).map(|sent| sent.excerpt.clone())
    }

    /// Returns the method of a request that was sent.
    pub(super) fn sent_method(&self, id: &str) -> Option<&str> {
        self.sent.get(id).map(|sent| sent.method.as_str())
    }

    pub(super) fn channel_location(&self) -> Location {
        Location::channel(self.channel.as_str())
    }

    pub(super) fn exited(&self) -> Option<Exited> {
        if let ConnectionTransport::Pipes(pipes) = &self.link { pipes.exited() } else { None }
    }

    pub(super) fn response_deadline(&self) -> Instant {
        self.deadline(self.patience)
    }

    pub(super) fn deadline(&self, patience: Duration) -> Instant {
        (Instant::now() + patience).min(self.run_deadline)
    }

    fn handle_arrival(&mut self, Arrival { time, bytes }: &Arrival) {
        self.record_stderr();
        if bytes.is_empty() {
            self.is_closed = true;
            let frames = self.recording.event(&self.channel, Note::Eof(Stream::ToClient));
            return self.keep(frames);
        }
        self.received.bytes += bytes.len();
        let room = MAX_START.saturating_sub(self.received.start.len());
        let was_short = self.received.start.len() < BYTE_ORDER_MARK.len();
        self.received.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if was_short && self.received.start.starts_with(BYTE_ORDER_MARK) {
            let detail = "the output begins with a byte order mark";
            let finding = Finding::new(&STDOUT_PURITY, Party::Server, self.channel_location(), detail);
            self.recording.ledger().fail(finding.seen(&self.received.start, Fault::Whole));
        }
        let frames = self.recording.bytes_at(&self.channel, Stream::ToClient, bytes, *time);
        self.received.lines += frames.len();
        self.keep(frames);
    }

    /// Records the output that has arrived so far, unless too many frames wait. What arrives meanwhile is left, because
    /// a server may never stop writing.
    fn take_arrived(&mut self) {
        for _ in 0..self.pipes().map_or(0, |pipes| pipes.arrivals.count()) {
            if self.is_closed || self.inbox_bytes >= MAX_INBOX_BYTES {
                break;
            }
            let Some(arrival) = self.pipes().and_then(|pipes| pipes.arrivals.try_next()) else { break };
            self.handle_arrival(&arrival);
        }
    }

    fn record_stderr(&mut self) {
        let ConnectionTransport::Pipes(pipes) = &self.link else { return };
        for (time, line) in pipes.take_stderr() {
            self.recording.stderr(&self.channel, time, line);
        }
    }
}

enum PipeEvent {
    Written(std::io::Result<usize>),
    Read(Arrival),
    Timeout,
}

pub(super) fn modern_meta() -> [(&'static str, Value); 3] {
    [
        (key::PROTOCOL_VERSION, json!(Revision::LATEST)),
        (key::CLIENT_INFO, json!({"name": "barewire", "version": env!("CARGO_PKG_VERSION")})),
        (key::CLIENT_CAPABILITIES, json!({})),
    ]
}

/// Keeps a request as evidence, and forgets all others if there are too many.
fn remember(sent: &mut HashMap<String, SentMessage>, request: &Request<'_>, excerpt: &Excerpt) {
    if sent.len() >= MAX_SENT {
        sent.clear();
    }
    let message = SentMessage { method: request.method.to_name().into_owned(), excerpt: excerpt.clone() };
    sent.insert(request.id.to_string(), message);
}

/// The maximum number of requests that are kept as evidence; more than a probe has in flight.
const MAX_SENT: usize = 256;
/// U+FEFF in UTF-8. The decoder of lines skips it at the start of a stream.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// The maximum length of `ReceivedOutput::start`; enough to recognise another framing or encoding.
const MAX_START: usize = 4096;
/// The maximum number of the server's requests that are answered over HTTP, where each answer is an exchange of its
/// own.
const MAX_HTTP_ANSWERS: usize = 256;
/// The length of the waiting frames above which no more is read while a message is written: more than a server sends
/// before it reads its input.
const MAX_INBOX_BYTES: usize = 4 * 1024 * 1024;
/// The maximum time for writing one message, in multiples of the patience.
const MAX_WRITE_PATIENCE: u32 = 4;
/// The length in bytes from which a server may refuse a line without reading its id.
const LONG_LINE: usize = 60_000;
