//! Messages of a client -> exchanges over HTTP in their order, with the session and the version that this server gives; and what comes
//! in them -> messages for the player.

use std::collections::HashMap;
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::frame::{Body, Codec, Frame, FrameError, Sse};
use barewire_proto::mcp::{Era, Revision};
use barewire_proto::rpc::Id;
use barewire_proto::transcript::{Framing, Stream};
use tokio::time::{Instant, timeout};

use crate::http::session::{HttpTarget, SESSION_END_TIMEOUT, SessionClient};
use crate::http::{ExchangeEvent, is_modern};
use crate::replay::client::ClientReplay;
use crate::replay::message::{Message, MessageKind};
use crate::text::shown;

/// One client of a server, and its exchanges in flight.
pub(super) struct ClientExchanges {
    client: SessionClient,
    open: HashMap<u64, OpenExchange>,
    /// The exchange whose response has to begin before the next message is sent.
    gate: Option<Gate>,
    /// Whether the server has answered anything.
    is_reached: bool,
    max_frame: usize,
}

struct Gate {
    exchange: u64,
    /// The end of the wait, if there is one.
    until: Option<Instant>,
}

/// The reason for an exchange.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Purpose {
    /// It carries the message of the client with this index.
    Message(usize),
    /// It carries an answer that is not in the capture.
    Reply,
    /// It is open for what the server says unasked.
    Listen,
}

struct OpenExchange {
    purpose: Purpose,
    /// The requests in it, if they are of the modern era.
    modern_requests: Vec<Id<'static>>,
    is_initialized: bool,
    /// As in `HTTP/1.1 200 OK`; empty until the response begins.
    status: String,
    is_success: bool,
    decoder: ResponseDecoder,
}

/// Cuts a response into messages.
enum ResponseDecoder {
    /// There are none in it.
    Empty,
    Body(Body),
    Events {
        sse: Box<Sse>,
        /// The event behind which to go on if the stream ends too early.
        last_event_id: String,
    },
}

impl ClientExchanges {
    pub(super) fn new(dialer: Dialer, headers: Vec<(String, String)>, max_frame: usize) -> Self {
        let target = HttpTarget::new(dialer, headers, "barewire-replay");
        let client = SessionClient::new(target.into());
        Self { client, open: HashMap::new(), gate: None, is_reached: false, max_frame }
    }

    /// Whether the next message can be sent. On a stream messages keep their order; here a message without an answer has to be accepted
    /// first.
    pub(super) fn can_send(&self) -> bool {
        self.gate.is_none()
    }

    /// The time at which the next message can be sent whatever comes.
    pub(super) fn gate_opens(&self) -> Option<Instant> {
        self.gate.as_ref().and_then(|gate| gate.until)
    }

    pub(super) fn open_gate(&mut self) {
        self.gate = None;
    }

    fn open_gate_of(&mut self, number: u64) {
        self.gate.take_if(|gate| gate.exchange == number);
    }

    /// Whether the server has answered anything.
    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Whether something can still come in an exchange that is not waited for, or something is not accepted yet.
    pub(super) fn is_answering(&self, player: &ClientReplay<'_>) -> bool {
        self.open.values().any(|exchange| match exchange.purpose {
            Purpose::Message(at) => exchange.status.is_empty() || !player.is_waiting_for(at),
            Purpose::Reply => true,
            Purpose::Listen => false,
        })
    }

    /// Sends a message.
    pub(super) fn post(&mut self, body: &[u8], purpose: Purpose) {
        let all = Message::in_frame(body);
        let cancelled = all.iter().find_map(Message::cancelled_id);
        if let Some(number) = cancelled.and_then(|id| self.modern_request(&id)) {
            // In the modern era a client cancels by closing the connection.
            self.close(number);
            return;
        }
        let era = if is_modern(body) { Era::Modern } else { Era::Legacy };
        let revision = self.client.revision.unwrap_or(Revision::V2025_03_26);
        let request = self.client.request(body, era, revision);
        let requests: Vec<Id<'static>> = all
            .iter()
            .filter_map(|message| match &message.kind {
                MessageKind::Request { id, .. } => Some(id.clone()),
                _ => None,
            })
            .collect();
        let number = self.client.send(&request, Duration::ZERO);
        if requests.is_empty() {
            self.gate = Some(Gate { exchange: number, until: None });
        }
        let is_initialized = all.first().and_then(Message::method) == Some("notifications/initialized");
        let modern_requests = if era == Era::Modern { requests } else { Vec::new() };
        self.open.insert(number, OpenExchange { modern_requests, is_initialized, ..OpenExchange::new(purpose) });
    }

    fn modern_request(&self, id: &Id<'_>) -> Option<u64> {
        let is = |exchange: &OpenExchange| exchange.modern_requests.contains(id);
        self.open.iter().find(|(_, exchange)| is(exchange)).map(|(number, _)| *number)
    }

    /// Asks for what the server says unasked, or for the rest of a stream.
    fn listen(&mut self, purpose: Purpose, last_event_id: Option<&str>, delay: Duration) -> u64 {
        let request = self.client.listen(last_event_id);
        let number = self.client.send(&request, delay);
        self.open.insert(number, OpenExchange::new(purpose));
        number
    }

    fn close(&mut self, number: u64) {
        self.open.remove(&number);
        self.client.close(number);
    }

    /// Waits for the next event of any exchange.
    pub(super) async fn next(&mut self) -> (u64, ExchangeEvent) {
        self.client.next().await
    }

    /// Hands what came to the player; returns what the server is to be told.
    pub(super) fn take(&mut self, number: u64, event: ExchangeEvent, player: &mut ClientReplay<'_>) -> Vec<Vec<u8>> {
        let Some(exchange) = self.open.get_mut(&number) else { return Vec::new() };
        let to = match exchange.purpose {
            Purpose::Message(at) => Some(at),
            Purpose::Reply | Purpose::Listen => None,
        };
        let mut frames = Vec::new();
        let mut end = None;
        match event {
            ExchangeEvent::Head { bytes, framing, status } => {
                self.is_reached = true;
                exchange.is_success = (200..=299).contains(&status);
                exchange.decoder = ResponseDecoder::new(framing, self.max_frame);
                let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                exchange.status = shown(line.trim_ascii(), REASON_WIDTH);
                let begins_session = exchange.is_initialized && exchange.is_success;
                self.open_gate_of(number);
                if begins_session {
                    let exchange = self.listen(Purpose::Listen, None, Duration::ZERO);
                    self.gate = Some(Gate { exchange, until: Some(Instant::now() + LISTEN_TIMEOUT) });
                }
            }
            // Requests ask for no encoding, so none is read here.
            ExchangeEvent::Encoded(coding) => {
                let coding = shown(coding.as_bytes(), REASON_WIDTH);
                exchange.status = format!("{}, encoded as {coding}", exchange.status);
            }
            ExchangeEvent::Body(bytes) => exchange.decoder.push(&bytes, &mut frames),
            ExchangeEvent::End => {
                exchange.decoder.finish(&mut frames);
                end = Some(match exchange.is_success {
                    true => format!("{}, and nothing in it", exchange.status),
                    false => exchange.status.clone(),
                });
            }
            ExchangeEvent::Broken(why) => {
                exchange.decoder.finish(&mut frames);
                end = Some(shown(&why.text(Stream::ToClient), REASON_WIDTH));
            }
        }
        let mut replies = Vec::new();
        for frame in frames {
            match frame {
                Ok(frame) => match to.and_then(|at| player.refusal(&frame, at)) {
                    Some(refusal) => {
                        let why = format!("{}: {refusal}", end.as_deref().unwrap_or("refused"));
                        end = end.and(Some(shown(why.as_bytes(), REASON_WIDTH)));
                    }
                    None => {
                        self.client.learn(number, &frame);
                        replies.extend(player.take(&frame, to));
                    }
                },
                Err(error) => player.unreadable(&error.to_string()),
            }
        }
        if let Some(why) = end {
            self.ended(number, &why, player);
        }
        replies
    }

    /// An exchange is over. A stream that was to go on is asked for again.
    fn ended(&mut self, number: u64, why: &str, player: &mut ClientReplay<'_>) {
        self.open_gate_of(number);
        self.client.close(number);
        let Some(exchange) = self.open.remove(&number) else { return };
        let is_wanted = match exchange.purpose {
            Purpose::Message(at) => player.is_waiting_for(at),
            Purpose::Reply => false,
            Purpose::Listen => true,
        };
        if let (true, ResponseDecoder::Events { sse, last_event_id }) = (is_wanted, &exchange.decoder)
            && !last_event_id.is_empty()
        {
            self.listen(exchange.purpose, Some(last_event_id), sse.retry().unwrap_or(RECONNECT_DELAY));
        } else if let Purpose::Message(at) = exchange.purpose {
            player.unanswered(at, why);
        }
    }

    /// Closes everything, and ends the session.
    pub(super) async fn end(mut self) {
        self.client.close_all();
        if let Some(request) = self.client.leave() {
            self.client.send(&request, Duration::ZERO);
            let is_end = |event| matches!(event, ExchangeEvent::End | ExchangeEvent::Broken(_));
            let ended = async { while !is_end(self.client.next().await.1) {} };
            // A server that does not answer is left alone.
            let _ = timeout(SESSION_END_TIMEOUT, ended).await;
        }
    }
}

/// A replay that is given up leaves no connection open.
impl Drop for ClientExchanges {
    fn drop(&mut self) {
        self.client.close_all();
    }
}

impl OpenExchange {
    fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            modern_requests: Vec::new(),
            is_initialized: false,
            status: String::new(),
            is_success: false,
            decoder: ResponseDecoder::Empty,
        }
    }
}

impl ResponseDecoder {
    fn new(framing: Option<Framing>, limit: usize) -> Self {
        match framing {
            Some(Framing::Sse) => Self::Events { sse: Box::new(Sse::new(limit)), last_event_id: String::new() },
            Some(Framing::Body) => Self::Body(Body::new(limit)),
            _ => Self::Empty,
        }
    }

    fn push(&mut self, mut bytes: &[u8], out: &mut Vec<Result<Vec<u8>, FrameError>>) {
        match self {
            Self::Empty => {}
            Self::Body(body) => {
                while let Some(frame) = body.next_frame(&mut bytes) {
                    out.extend(message(frame));
                }
            }
            Self::Events { sse, last_event_id } => {
                while let Some(frame) = sse.next_frame(&mut bytes) {
                    if let Ok(Frame { event: Some(event), .. }) = &frame {
                        event.last_event_id.clone_into(last_event_id);
                    }
                    out.extend(message(frame));
                }
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Result<Vec<u8>, FrameError>>) {
        // An event without its end is none.
        if let Self::Body(body) = self {
            while let Some(frame) = body.finish() {
                out.extend(message(frame));
            }
        }
    }
}

/// Only events named `message` carry messages, and one without data only primes a stream.
fn message(frame: Result<Frame<'_>, FrameError>) -> Option<Result<Vec<u8>, FrameError>> {
    match frame {
        Ok(Frame { event: Some(event), bytes, .. }) if event.name != "message" || bytes.is_empty() => None,
        Ok(frame) => Some(Ok(frame.bytes.to_vec())),
        Err(error) => Some(Err(error)),
    }
}

/// Some servers begin a stream only with its first event.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream is asked for again after this, unless the server says otherwise.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// The columns of a reason in a line.
const REASON_WIDTH: usize = 120;
