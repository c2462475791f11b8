//! A script and clients at a URL -> what the server said in the capture: every session has the whole of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::pin;
use std::time::{Duration, Instant};

use barewire_proto::transcript::Framing;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{sleep, sleep_until};

use super::connection::{ConnectionEvent, HttpRequest, ResponsePart, serve as serve_connection};
use super::{ServeOptions, ServeReport};
use crate::http::is_modern;
use crate::replay::message::{Message, MessageKind};
use crate::replay::script::Script;
use crate::replay::server::{Arrival, ServerOutput, ServerReplay};

/// Answers clients over HTTP at [`HTTP_PATH`](super::HTTP_PATH) as the server of the capture did, until `stop` is ready.
///
/// Every session has the whole capture to itself; all requests that are in no session share one. Only clients that call this server
/// by a loopback name are answered. `log` is called with a line about each request: what in the capture answers it, or why nothing
/// does.
pub async fn serve_http(
    script: &Script,
    listener: TcpListener,
    options: &ServeOptions,
    stop: impl Future<Output = ()>,
    log: impl FnMut(&str),
) -> ServeReport {
    let mut stop = pin!(stop);
    let (sender, mut receiver) = unbounded_channel();
    let mut server = HttpReplayServer::new(script, options, log);
    let mut last = 0;
    loop {
        let due = server.due();
        tokio::select! {
            accepted = listener.accept() => {
                // The client is gone again, or too many files are open for a moment.
                let Ok((client, _)) = accepted else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                last += 1;
                tokio::spawn(serve_connection(client, last, options.max_frame, sender.clone()));
            }
            Some(event) = receiver.recv() => server.take(event),
            () = async { match due {
                Some(due) => sleep_until(due.into()).await,
                None => std::future::pending().await,
            } } => server.run(),
            () = &mut stop => break,
        }
    }
    server.end()
}

/// The server of a capture: all sessions of its clients.
struct HttpReplayServer<'a, L> {
    script: &'a Script,
    options: &'a ServeOptions,
    log: L,
    /// By their id; under the empty one, all requests that are in no session.
    sessions: HashMap<String, ReplaySession<'a>>,
    /// Requests without an answer so far, by the number of their connection.
    exchanges: HashMap<u64, PendingExchange>,
    session_count: u64,
    /// Of sessions that are over.
    matched: usize,
    unmatched: usize,
    unused: Option<HashSet<usize>>,
}

/// One session of a client, which has the whole capture to itself.
struct ReplaySession<'a> {
    stage: ServerReplay<'a>,
    /// The stream for messages that belong to no request.
    listener: Option<UnboundedSender<ResponsePart>>,
    /// Messages for that stream that came while there was none.
    undelivered: VecDeque<Vec<u8>>,
}

/// A request without an answer so far.
struct PendingExchange {
    /// The id of its session.
    session: String,
    reply: UnboundedSender<ResponsePart>,
    /// The id of the session that begins with it, until the client is told.
    new_session: Option<String>,
    is_stream: bool,
}

impl<'a, L: FnMut(&str)> HttpReplayServer<'a, L> {
    fn new(script: &'a Script, options: &'a ServeOptions, log: L) -> Self {
        Self {
            script,
            options,
            log,
            sessions: HashMap::new(),
            exchanges: HashMap::new(),
            session_count: 0,
            matched: 0,
            unmatched: 0,
            unused: None,
        }
    }

    fn due(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|session| session.stage.due()).min()
    }

    fn take(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Closed { number } => {
                if let Some(exchange) = self.exchanges.remove(&number)
                    && let Some(session) = self.sessions.get_mut(&exchange.session)
                {
                    session.stage.close_exchange(number);
                }
            }
            ConnectionEvent::Request { number, request, reply } => {
                if let Err((status, why)) = self.request(number, &request, &reply) {
                    // If the client is gone, it is told nothing.
                    let _ = reply.send(ResponsePart::Status(status, why));
                }
            }
        }
    }

    /// Takes a request, or returns the status that answers it.
    fn request(
        &mut self,
        number: u64,
        request: &HttpRequest,
        reply: &UnboundedSender<ResponsePart>,
    ) -> Result<(), (&'static str, String)> {
        let mut id = request.header("mcp-session-id").unwrap_or_default().to_owned();
        if !id.is_empty() && !self.sessions.contains_key(&id) {
            return Err(("404 Not CaptureChannels", "there is no such session\n".to_owned()));
        }
        match request.method.as_str() {
            "POST" => {}
            "GET" if !id.is_empty() => {
                let session = self.sessions.get_mut(&id).expect("it is there");
                let _ = reply.send(ResponsePart::Events(None));
                for message in session.undelivered.drain(..) {
                    let _ = reply.send(ResponsePart::Event(message));
                }
                session.listener = Some(reply.clone());
                return Ok(());
            }
            "DELETE" if !id.is_empty() => {
                if let Some(session) = self.sessions.remove(&id) {
                    self.count(&session.stage);
                }
                return Err(("200 OK", String::new()));
            }
            _ => return Err(("405 Method Not Allowed", String::new())),
        }
        let all = Message::in_frame(&request.body);
        let begins = all.iter().any(|message| message.method() == Some("initialize")) && !is_modern(&request.body);
        if begins {
            self.session_count += 1;
            id = format!("replay-{}-{}", std::process::id(), self.session_count);
        }
        if self.sessions.len() >= MAX_SESSIONS && !self.sessions.contains_key(&id) {
            return Err(("503 Service Unavailable", "too many sessions\n".to_owned()));
        }
        let waits =
            all.iter().any(|message| matches!(message.kind, MessageKind::Request { .. } | MessageKind::Invalid));
        if waits {
            let (session, new_session) = (id.clone(), begins.then(|| id.clone()));
            let exchange = PendingExchange { session, reply: reply.clone(), new_session, is_stream: false };
            self.exchanges.insert(number, exchange);
        } else {
            let _ = reply.send(ResponsePart::Status("202 Accepted", String::new()));
        }
        let (script, options, now) = (self.script, self.options, Instant::now());
        let stage = || ServerReplay::new(script, Framing::Body, options, now);
        let session = self.sessions.entry(id.clone()).or_insert_with(|| ReplaySession {
            stage: stage(),
            listener: None,
            undelivered: VecDeque::new(),
        });
        let out = session.stage.take(&request.body, Arrival { at: now, exchange: number });
        self.perform(&id, out);
        // No answer ends an exchange in which there is no message.
        let is_invalid = all.iter().all(|message| message.kind == MessageKind::Invalid);
        if is_invalid && let Some(exchange) = self.exchanges.remove(&number) {
            let last = ResponsePart::Status("400 Bad Request", String::new());
            let _ = exchange.reply.send(if exchange.is_stream { ResponsePart::End } else { last });
        }
        Ok(())
    }

    /// Sends everything that is due.
    fn run(&mut self) {
        let now = Instant::now();
        let all: Vec<(String, Vec<ServerOutput>)> =
            self.sessions.iter_mut().map(|(id, session)| (id.clone(), session.stage.run(now))).collect();
        for (id, out) in all {
            self.perform(&id, out);
        }
    }

    fn perform(&mut self, session: &str, all: Vec<ServerOutput>) {
        for out in all {
            match out {
                ServerOutput::Log(line) => (self.log)(&line),
                ServerOutput::Send { bytes, exchange, is_last } => self.send(session, bytes, exchange, is_last),
            }
        }
    }

    /// Sends a message in the exchange of its request, or if that is over, in the session's stream. If the client is gone, the message is
    /// dropped.
    fn send(&mut self, session: &str, bytes: Vec<u8>, number: u64, is_last: bool) {
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            if is_last && !exchange.is_stream {
                let is_orphan =
                    matches!(Message::in_frame(&bytes).as_slice(), [Message { kind: MessageKind::OrphanError, .. }]);
                let _ = exchange.reply.send(match is_orphan {
                    true => ResponsePart::Refusal(bytes),
                    false => ResponsePart::Answer(bytes, exchange.new_session.take()),
                });
            } else {
                if !exchange.is_stream {
                    exchange.is_stream = true;
                    let _ = exchange.reply.send(ResponsePart::Events(exchange.new_session.take()));
                }
                let _ = exchange.reply.send(ResponsePart::Event(bytes));
                if is_last {
                    let _ = exchange.reply.send(ResponsePart::End);
                }
            }
            if is_last {
                self.exchanges.remove(&number);
            }
            return;
        }
        let Some(session) = self.sessions.get_mut(session) else { return };
        match session.listener.take_if(|listener| listener.is_closed()) {
            None if session.listener.is_some() => {
                let _ = session.listener.as_ref().map(|listener| listener.send(ResponsePart::Event(bytes)));
            }
            _ if session.undelivered.len() < MAX_UNDELIVERED => session.undelivered.push_back(bytes),
            _ => {}
        }
    }

    /// Adds the counts of a session that is over.
    fn count(&mut self, stage: &ServerReplay<'_>) {
        self.matched += stage.matched;
        self.unmatched += stage.unmatched;
        let unused = stage.unused();
        self.unused = Some(match self.unused.take() {
            Some(others) => others.intersection(&unused).copied().collect(),
            None => unused,
        });
    }

    fn end(mut self) -> ServeReport {
        for (_, session) in std::mem::take(&mut self.sessions) {
            self.count(&session.stage);
        }
        let unused = || ServerReplay::new(self.script, Framing::Body, self.options, Instant::now()).unused();
        let unused = self.unused.unwrap_or_else(unused).len();
        ServeReport { matched: self.matched, unmatched: self.unmatched, unused }
    }
}

/// Sessions at a time: more than a test of a client needs.
const MAX_SESSIONS: usize = 1000;

/// Messages that are kept for a client without a stream.
const MAX_UNDELIVERED: usize = 10_000;
