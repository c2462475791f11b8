//! Sends the client's messages as HTTP exchanges, in order, with the session and the version of this server, and passes
//! the messages in their responses to the client.

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
use crate::replay::message::Message;
use crate::text::shown;

pub(super) struct ClientExchanges {
    pub(super) session: SessionClient,
    open: HashMap<u64, ClientExchange>,
    /// The exchange whose response must begin before the next message is sent. HTTP requests on separate connections
    /// have no order, so a message without requests must be accepted before the next message is sent.
    pub(super) gate: Option<Gate>,
    /// Whether the server has responded to anything.
    pub(super) is_reached: bool,
    max_frame: usize,
}

pub(super) struct Gate {
    exchange: u64,
    /// The time after which the next message is sent in any case.
    pub(super) until: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Purpose {
    /// The exchange sends the planned message with this index.
    Message(usize),
    /// The exchange sends a response to the server that is not in the capture.
    Reply,
    /// The exchange is a GET stream for messages that belong to no request.
    Listen,
}

struct ClientExchange {
    purpose: Purpose,
    /// The ids of the requests in this exchange, if they are of the modern era.
    modern_requests: Vec<Id<'static>>,
    is_initialized: bool,
    /// The status line, such as `HTTP/1.1 200 OK`; empty until the response begins.
    status: String,
    is_success: bool,
    decoder: ResponseDecoder,
}

enum ResponseDecoder {
    /// A response without messages.
    Empty,
    Body(Body),
    Events {
        sse: Box<Sse>,
        /// The id of the event after which the stream is resumed if it ends too early.
        last_event_id: String,
    },
}

impl ClientExchanges {
    pub(super) fn new(dialer: Dialer, headers: Vec<(String, String)>, max_frame: usize) -> Self {
        let target = HttpTarget::new(dialer, headers, "barewire-replay");
        let session = SessionClient::new(target.into());
        Self { session, open: HashMap::new(), gate: None, is_reached: false, max_frame }
    }

    fn open_gate_of(&mut self, number: u64) {
        self.gate.take_if(|gate| gate.exchange == number);
    }

    /// Whether an exchange is open whose message was not accepted yet, or whose response may contain further messages
    /// after the expected one.
    pub(super) fn is_answering(&self, client: &ClientReplay<'_>) -> bool {
        self.open.values().any(|exchange| match exchange.purpose {
            Purpose::Message(send) => exchange.status.is_empty() || !client.is_waiting_for(send),
            Purpose::Reply => true,
            Purpose::Listen => false,
        })
    }

    pub(super) fn post(&mut self, body: &[u8], purpose: Purpose) {
        let all = Message::in_frame(body);
        let cancelled = all.iter().find_map(Message::cancelled_id);
        if let Some(number) = cancelled.and_then(|id| self.modern_request(&id)) {
            // In the modern era a client cancels by closing the connection.
            self.close(number);
            return;
        }
        let era = if is_modern(body) { Era::Modern } else { Era::Legacy };
        let revision = self.session.revision.unwrap_or(Revision::V2025_03_26);
        let request = self.session.request(body, era, revision);
        let requests = all.iter().filter(|message| message.is_request());
        let requests: Vec<Id<'static>> = requests.filter_map(|message| message.id().cloned()).collect();
        let number = self.session.send(&request, Duration::ZERO);
        if requests.is_empty() {
            self.gate = Some(Gate { exchange: number, until: None });
        }
        let is_initialized = all.first().and_then(Message::method) == Some("notifications/initialized");
        let modern_requests = if era == Era::Modern { requests } else { Vec::new() };
        self.open.insert(number, ClientExchange { modern_requests, is_initialized, ..ClientExchange::new(purpose) });
    }

    /// Returns the number of the exchange with this modern request, if it is open.
    fn modern_request(&self, id: &Id<'_>) -> Option<u64> {
        let is = |exchange: &ClientExchange| exchange.modern_requests.contains(id);
        self.open.iter().find(|(_, exchange)| is(exchange)).map(|(number, _)| *number)
    }

    /// Opens a GET stream, either for messages that belong to no request or for the rest of another stream.
    fn listen(&mut self, purpose: Purpose, last_event_id: Option<&str>, delay: Duration) -> u64 {
        let request = self.session.listen(last_event_id);
        let number = self.session.send(&request, delay);
        self.open.insert(number, ClientExchange::new(purpose));
        number
    }

    fn close(&mut self, number: u64) {
        self.open.remove(&number);
        self.session.close(number);
    }

    /// Returns the memory that the unfinished messages of all open exchanges take.
    fn held_bytes(&self) -> usize {
        self.open.values().map(|exchange| exchange.decoder.capacity()).sum()
    }

    /// Hands the messages of an event to the client. Returns responses to the server that are not in the capture.
    pub(super) fn take(&mut self, number: u64, event: ExchangeEvent, client: &mut ClientReplay<'_>) -> Vec<Vec<u8>> {
        let Some(exchange) = self.open.get_mut(&number) else { return Vec::new() };
        let send = match exchange.purpose {
            Purpose::Message(send) => Some(send),
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
                exchange.status = shown(line.trim_ascii(), MAX_REASON_LENGTH);
                let begins_session = exchange.is_initialized && exchange.is_success;
                self.open_gate_of(number);
                if begins_session {
                    let exchange = self.listen(Purpose::Listen, None, Duration::ZERO);
                    self.gate = Some(Gate { exchange, until: Some(Instant::now() + LISTEN_TIMEOUT) });
                }
            }
            // The requests accept no encoding, so encoded bodies are not decoded.
            ExchangeEvent::Encoded(coding) => {
                let coding = shown(coding.as_bytes(), MAX_REASON_LENGTH);
                exchange.status = format!("{}, encoded as {coding}", exchange.status);
            }
            ExchangeEvent::Body(bytes) => {
                exchange.decoder.push(&bytes, &mut frames);
                if self.held_bytes() > MAX_HELD_FRAMES * self.max_frame {
                    end = Some("too long, together with the other open responses".to_owned());
                }
            }
            ExchangeEvent::End => {
                exchange.decoder.finish(&mut frames);
                end = Some(match exchange.is_success {
                    true => format!("{} without a message", exchange.status),
                    false => exchange.status.clone(),
                });
            }
            ExchangeEvent::Broken(why) => {
                exchange.decoder.finish(&mut frames);
                end = Some(shown(&why.text(Stream::ToClient), MAX_REASON_LENGTH));
            }
        }
        let mut replies = Vec::new();
        for frame in frames {
            match frame {
                Ok(frame) => match send.and_then(|send| client.error_instead(&frame, send)) {
                    Some(message) => {
                        let why = format!("{}: {message}", end.as_deref().unwrap_or("refused"));
                        end = end.and(Some(shown(why.as_bytes(), MAX_REASON_LENGTH)));
                    }
                    None => {
                        self.session.learn(number, &frame);
                        replies.extend(client.take(&frame, send));
                    }
                },
                Err(error) => client.handle_unreadable(&error.to_string()),
            }
        }
        if let Some(why) = end {
            self.handle_end(number, &why, client);
        }
        replies
    }

    /// Handles the end of an exchange. If a message is still expected in its stream, resumes the stream.
    fn handle_end(&mut self, number: u64, why: &str, client: &mut ClientReplay<'_>) {
        self.open_gate_of(number);
        self.session.close(number);
        let Some(exchange) = self.open.remove(&number) else { return };
        let is_wanted = match exchange.purpose {
            Purpose::Message(send) => client.is_waiting_for(send),
            Purpose::Reply => false,
            Purpose::Listen => true,
        };
        if let (true, ResponseDecoder::Events { sse, last_event_id }) = (is_wanted, &exchange.decoder)
            && !last_event_id.is_empty()
        {
            self.listen(exchange.purpose, Some(last_event_id), sse.retry().unwrap_or(RECONNECT_DELAY));
        } else if let Purpose::Message(send) = exchange.purpose {
            client.give_up_send(send, why);
        }
    }

    /// Closes all exchanges and ends the session.
    pub(super) async fn end(mut self) {
        self.session.close_all();
        if let Some(request) = self.session.leave() {
            self.session.send(&request, Duration::ZERO);
            let is_end = |event| matches!(event, ExchangeEvent::End | ExchangeEvent::Broken(_));
            let ended = async { while !is_end(self.session.next().await.1) {} };
            // If the server does not answer, the wait ends after the timeout.
            let _ = timeout(SESSION_END_TIMEOUT, ended).await;
        }
    }
}

/// Closes all connections if the replay is dropped.
impl Drop for ClientExchanges {
    fn drop(&mut self) {
        self.session.close_all();
    }
}

impl ClientExchange {
    fn new(purpose: Purpose) -> Self {
        let (modern_requests, status, decoder) = (Vec::new(), String::new(), ResponseDecoder::Empty);
        Self { purpose, modern_requests, is_initialized: false, status, is_success: false, decoder }
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
        // An SSE event without its final empty line is incomplete, and is ignored.
        if let Self::Body(body) = self {
            while let Some(frame) = body.finish() {
                out.extend(message(frame));
            }
            // Up to 64 MiB, which are not needed while the message is compared.
            *self = Self::Empty;
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Body(body) => body.capacity(),
            Self::Events { sse, .. } => sse.capacity(),
        }
    }
}

/// Returns the message in a frame. An SSE event has a message only if it is named `message` and has data.
fn message(frame: Result<Frame<'_>, FrameError>) -> Option<Result<Vec<u8>, FrameError>> {
    match frame {
        Ok(Frame { event: Some(event), bytes, .. }) if event.name != "message" || bytes.is_empty() => None,
        Ok(frame) => Some(Ok(frame.bytes.to_vec())),
        Err(error) => Some(Err(error)),
    }
}

/// The maximum memory for the unfinished messages of all open exchanges, in frames of the maximum length. A server
/// decides how long its responses are, and a capture how many requests are open at once.
const MAX_HELD_FRAMES: usize = 2;

/// The maximum wait for the head of a GET stream, because some servers send it only with the first event.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);

/// The delay before a stream is resumed, unless the server sets another delay.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// The maximum number of characters of a reason in a difference.
const MAX_REASON_LENGTH: usize = 120;
