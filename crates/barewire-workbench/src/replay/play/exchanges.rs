//! Messages of a client -> exchanges over HTTP in their order, with the session and the version that this server gives; and what comes in
//! them -> messages for the player.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::frame::{Body, Codec, Frame, FrameError, Sse};
use barewire_proto::mcp::Revision;
use barewire_proto::rpc::Id;
use barewire_proto::transcript::Framing;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::http::Site;
use crate::http::{ExchangeEvent, HttpRequest, ToolHeaders, exchange, is_modern};
use crate::replay::message::{Kind, Said};
use crate::replay::player::Player;
use crate::text::shown;

/// One client of a server.
pub(super) struct Line {
    site: Site,
    sender: UnboundedSender<(u64, ExchangeEvent)>,
    receiver: UnboundedReceiver<(u64, ExchangeEvent)>,
    open: HashMap<u64, Exchange>,
    last: u64,
    /// What the server has given in its answer to `initialize`.
    session: Option<String>,
    revision: Option<Revision>,
    /// What tools want to have repeated in headers.
    tools: ToolHeaders,
    /// The exchange that has to be taken before the next message is sent, and until when that is waited for.
    gate: Option<(u64, Option<Instant>)>,
    reached: bool,
    max_frame: usize,
}

/// Why there is an exchange.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum About {
    /// For the so many-th message of the client.
    Sent(usize),
    /// For an answer of ours.
    Reply,
    /// For what the server says unasked.
    Listen,
}

struct Exchange {
    task: AbortHandle,
    about: About,
    /// What is asked in it.
    ids: Vec<Id<'static>>,
    is_modern: bool,
    method: String,
    /// As in `HTTP/1.1 200 OK`.
    status: String,
    is_good: bool,
    codec: Cut,
}

/// How a response is cut into messages.
enum Cut {
    /// There are none in it.
    Nothing,
    Body(Body),
    Events {
        sse: Box<Sse>,
        /// Where to go on if the stream ends too early.
        last_event_id: String,
    },
}

impl Line {
    pub(super) fn new(site: Site, max_frame: usize) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            site,
            sender,
            receiver,
            open: HashMap::new(),
            last: 0,
            session: None,
            revision: None,
            tools: ToolHeaders::default(),
            gate: None,
            reached: false,
            max_frame,
        }
    }

    /// Whether the next message can be sent. On a stream they come in their order; here a message that nobody answers has to be taken
    /// first.
    pub(super) fn is_free(&self) -> bool {
        self.gate.is_none()
    }

    pub(super) fn free_at(&self) -> Option<Instant> {
        self.gate.and_then(|(_, until)| until)
    }

    pub(super) fn free(&mut self) {
        self.gate = None;
    }

    /// Whether anybody was there.
    pub(super) fn is_reached(&self) -> bool {
        self.reached
    }

    /// Whether something can still come in an exchange that is not waited for, or something is not taken yet.
    pub(super) fn is_answering(&self, player: &Player<'_>) -> bool {
        self.open.values().any(|exchange| match exchange.about {
            About::Sent(at) => exchange.status.is_empty() || !player.is_waiting_for(at),
            About::Reply => true,
            About::Listen => false,
        })
    }

    /// Sends a message.
    pub(super) fn post(&mut self, body: &[u8], about: About) {
        let all = Said::all(body);
        let cancelled = all.iter().find_map(Said::cancels);
        if let Some(number) = cancelled.and_then(|id| self.modern_request(&id)) {
            // In the modern era whoever closes the connection gives up.
            self.close(number);
            return;
        }
        let is_modern = is_modern(body);
        let request = if is_modern {
            HttpRequest::modern(body, &self.tools)
        } else {
            let revision = self.revision.unwrap_or(Revision::V2025_03_26);
            HttpRequest::legacy(body, revision, self.session.as_deref())
        };
        let ids: Vec<Id<'static>> = all
            .iter()
            .filter_map(|said| match &said.kind {
                Kind::Request { id, .. } => Some(id.clone()),
                _ => None,
            })
            .collect();
        let waits = ids.is_empty();
        let method = all.first().and_then(Said::method).unwrap_or_default().to_owned();
        let number = self.send(request, about, Duration::ZERO);
        if let Some(exchange) = self.open.get_mut(&number) {
            (exchange.ids, exchange.is_modern, exchange.method) = (ids, is_modern, method);
        }
        if waits {
            self.gate = Some((number, None));
        }
    }

    fn modern_request(&self, id: &Id<'_>) -> Option<u64> {
        let is = |exchange: &Exchange| exchange.is_modern && exchange.ids.contains(id);
        self.open.iter().find(|(_, exchange)| is(exchange)).map(|(number, _)| *number)
    }

    fn send(&mut self, request: HttpRequest, about: About, after: Duration) -> u64 {
        self.last += 1;
        let (number, dial) = (self.last, self.site.dial.clone());
        let bytes = request.bytes(request.head(&dial, "barewire-replay"), &self.site.headers, &dial);
        let carried = exchange(dial, bytes, request.kind(), number, self.sender.clone());
        let task = tokio::spawn(async move {
            sleep(after).await;
            carried.await;
        });
        let exchange = Exchange {
            task: task.abort_handle(),
            about,
            ids: Vec::new(),
            is_modern: false,
            method: String::new(),
            status: String::new(),
            is_good: false,
            codec: Cut::Nothing,
        };
        self.open.insert(number, exchange);
        number
    }

    /// Asks for what the server says unasked, or for the rest of a stream.
    fn listen(&mut self, about: About, last_event_id: Option<&str>, after: Duration) -> u64 {
        let request = HttpRequest::of_session("GET", self.session.as_deref(), self.revision);
        self.send(request.with("last-event-id", last_event_id), about, after)
    }

    fn close(&mut self, number: u64) {
        if let Some(exchange) = self.open.remove(&number) {
            exchange.task.abort();
        }
    }

    /// What comes next in any exchange.
    pub(super) async fn next(&mut self) -> (u64, ExchangeEvent) {
        self.receiver.recv().await.expect("it holds a sender itself")
    }

    /// Hands what came to the player; gives what the server is to be told.
    pub(super) fn take(
        &mut self,
        number: u64,
        event: ExchangeEvent,
        player: &mut Player<'_>,
    ) -> Vec<Vec<u8>> {
        let Some(exchange) = self.open.get_mut(&number) else { return Vec::new() };
        let to = match exchange.about {
            About::Sent(at) => Some(at),
            About::Reply | About::Listen => None,
        };
        let mut frames = Vec::new();
        let mut over = None;
        match event {
            ExchangeEvent::Head(head, framing, status) => {
                self.reached = true;
                exchange.is_good = (200..=299).contains(&status);
                exchange.codec = Cut::new(framing, self.max_frame);
                let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
                exchange.status = shown(lines.next().unwrap_or_default(), LONGEST);
                if exchange.method == "initialize" && !exchange.is_modern {
                    self.session = lines.find_map(session);
                }
                if self.gate.is_some_and(|(waited_for, _)| waited_for == number) {
                    self.gate = None;
                }
                if exchange.method == "notifications/initialized" && exchange.is_good {
                    let number = self.listen(About::Listen, None, Duration::ZERO);
                    self.gate = Some((number, Some(Instant::now() + LISTENING)));
                }
            }
            // Nobody has asked for that, and nobody here can read it.
            ExchangeEvent::Encoded(coding) => {
                let coding = shown(coding.as_bytes(), LONGEST);
                exchange.status = format!("{}, encoded as {coding}", exchange.status);
            }
            ExchangeEvent::Body(bytes) => exchange.codec.push(&bytes, &mut frames),
            ExchangeEvent::End => {
                exchange.codec.finish(&mut frames);
                over = Some(match exchange.is_good {
                    true => format!("{}, and nothing in it", exchange.status),
                    false => exchange.status.clone(),
                });
            }
            ExchangeEvent::Broken(why) => {
                exchange.codec.finish(&mut frames);
                over = Some(shown(why.as_bytes(), LONGEST));
            }
        }
        let mut replies = Vec::new();
        for frame in frames {
            match frame {
                Ok(frame) => match to.and_then(|at| player.refusal(&frame, at)) {
                    Some(refusal) => {
                        let why = format!("{}: {refusal}", over.as_deref().unwrap_or("refused"));
                        over = over.and(Some(shown(why.as_bytes(), LONGEST)));
                    }
                    None => {
                        self.learn(number, &frame);
                        replies.extend(player.take(&frame, to));
                    }
                },
                Err(error) => player.unreadable(&error.to_string()),
            }
        }
        if let Some(why) = over {
            self.over(number, &why, player);
        }
        replies
    }

    /// What the server says of how it is to be asked.
    fn learn(&mut self, number: u64, frame: &[u8]) {
        self.tools.learn(frame);
        let is_initialize = |exchange: &Exchange| exchange.method == "initialize" && !exchange.is_modern;
        if self.open.get(&number).is_some_and(is_initialize) {
            let message: Value = serde_json::from_slice(frame).unwrap_or_default();
            let version = message["result"]["protocolVersion"].as_str();
            self.revision = version.and_then(Revision::parse).or(self.revision);
        }
    }

    /// An exchange is over. A stream that was to go on is asked for again.
    fn over(&mut self, number: u64, why: &str, player: &mut Player<'_>) {
        if self.gate.is_some_and(|(waited_for, _)| waited_for == number) {
            self.gate = None;
        }
        let Some(exchange) = self.open.remove(&number) else { return };
        let is_wanted = match exchange.about {
            About::Sent(at) => player.is_waiting_for(at),
            About::Reply => false,
            About::Listen => true,
        };
        if let (true, Cut::Events { sse, last_event_id }) = (is_wanted, &exchange.codec)
            && !last_event_id.is_empty()
        {
            self.listen(exchange.about, Some(last_event_id), sse.retry().unwrap_or(AGAIN));
        } else if let About::Sent(at) = exchange.about {
            player.unanswered(at, why);
        }
    }

    /// Closes everything, and ends the session.
    pub(super) async fn end(mut self) {
        for (_, exchange) in self.open.drain() {
            exchange.task.abort();
        }
        if let Some(session) = self.session.take() {
            let request = HttpRequest::of_session("DELETE", Some(&session), self.revision);
            self.send(request, About::Reply, Duration::ZERO);
            let ended = async {
                while !matches!(self.next().await, (_, ExchangeEvent::End | ExchangeEvent::Broken(_))) {}
            };
            // A server that does not answer that is left alone.
            let _ = timeout(LAST, ended).await;
        }
    }
}

impl Cut {
    fn new(framing: Option<Framing>, limit: usize) -> Self {
        match framing {
            Some(Framing::Sse) => {
                Self::Events { sse: Box::new(Sse::new(limit)), last_event_id: String::new() }
            }
            Some(Framing::Body) => Self::Body(Body::new(limit)),
            _ => Self::Nothing,
        }
    }

    fn push(&mut self, mut bytes: &[u8], out: &mut Vec<Result<Vec<u8>, FrameError>>) {
        match self {
            Self::Nothing => {}
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

/// The session that a line of a head gives.
fn session(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let (name, value) = line.split_once(':')?;
    name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
}

/// Some servers begin a stream only with its first event.
const LISTENING: Duration = Duration::from_secs(1);

/// A stream is asked for again after this, unless the server says otherwise.
const AGAIN: Duration = Duration::from_millis(500);

/// Nobody waits long for the end of a session.
const LAST: Duration = Duration::from_secs(2);

/// As much of a reason as fits a line.
const LONGEST: usize = 120;
