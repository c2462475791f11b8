//! Answers clients over HTTP with the messages that the server sent in the capture.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_proto::transcript::Framing;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, unbounded_channel};
use tokio::time::sleep;

use super::connection::{Bodies, ConnectionEvent, ReceivedRequest, ResponsePart, serve as serve_connection};
use super::{ServeOptions, ServeReport};
use crate::http::is_modern;
use crate::replay::message::{Message, MessageKind};
use crate::replay::script::Script;
use crate::replay::server::{Arrival, ServerOutput, ServerReplay};
use crate::replay::wait_until;

/// Answers clients over HTTP at [`HTTP_PATH`](super::HTTP_PATH) as the recorded server did, until `stop` is ready.
///
/// Each session can use the whole capture independently; all requests without a session id are one session. Requests
/// whose `Host` is not a loopback name are refused. Calls `log` with a line for each request: the recorded frame that
/// it matches, or the reason why it matches none.
pub async fn serve_http(
    script: &Script,
    listener: TcpListener,
    options: &ServeOptions,
    stop: impl Future<Output = ()>,
    log: impl FnMut(&str),
) -> ServeReport {
    let mut stop = pin!(stop);
    let (sender, mut receiver) = unbounded_channel();
    let mut server = HttpReplayServer {
        script,
        options,
        log,
        sessions: HashMap::new(),
        exchanges: HashMap::new(),
        session_count: 0,
        matched: 0,
        unmatched: 0,
        unused: None,
    };
    let mut last = 0;
    let (room, bodies) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), Bodies::default());
    let accept = async || {
        let place = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
        listener.accept().await.map(|(client, _)| (client, place))
    };
    loop {
        let due = server.due();
        tokio::select! {
            accepted = accept() => {
                // The client has disconnected, or too many files are open at the moment.
                let Ok((client, place)) = accepted else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                last += 1;
                let serving = serve_connection(client, last, options.max_frame, bodies.clone(), sender.clone());
                tokio::spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Some(event) = receiver.recv() => server.take(event),
            () = wait_until(due.map(Into::into)) => server.run(),
            () = &mut stop => break,
        }
    }
    server.end()
}

/// The replayed server, with the sessions of all clients.
struct HttpReplayServer<'a, L> {
    script: &'a Script,
    options: &'a ServeOptions,
    log: L,
    /// Maps each session id to its session. The empty id is for all requests without a session id.
    sessions: HashMap<String, ReplaySession<'a>>,
    /// Maps the number of each connection to its exchange, until the final response is sent.
    exchanges: HashMap<u64, PendingExchange>,
    session_count: u64,
    /// The sums of the counts in sessions that have ended.
    matched: usize,
    unmatched: usize,
    /// The recorded requests that no ended session has used; `None` if no session has ended.
    unused: Option<HashSet<usize>>,
}

struct ReplaySession<'a> {
    server: ServerReplay<'a>,
    /// The open stream for messages that belong to no request.
    listener: Option<Sender<ResponsePart>>,
    /// Messages for the stream of `listener`, kept while no such stream is open.
    undelivered: VecDeque<Vec<u8>>,
}

/// An exchange whose final response is not sent yet.
struct PendingExchange {
    /// The id of the exchange's session.
    session: String,
    response: Sender<ResponsePart>,
    /// The id of the session that begins with this exchange, until the id is sent to the client.
    new_session: Option<String>,
    is_stream: bool,
}

impl<L: FnMut(&str)> HttpReplayServer<'_, L> {
    fn due(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|session| session.server.due()).min()
    }

    fn take(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Closed { number } => {
                if let Some(exchange) = self.exchanges.remove(&number)
                    && let Some(session) = self.sessions.get_mut(&exchange.session)
                {
                    session.server.close_exchange(number);
                }
            }
            ConnectionEvent::Request { number, request, response } => {
                if let Err((status, why)) = self.handle_request(number, &request, &response) {
                    // Sending fails if the client has disconnected.
                    let _ = response.try_send(ResponsePart::Status(status, why));
                }
            }
        }
    }

    /// Handles a request, or returns the status and the text to respond with.
    fn handle_request(
        &mut self,
        number: u64,
        request: &ReceivedRequest,
        response: &Sender<ResponsePart>,
    ) -> Result<(), (&'static str, String)> {
        let mut id = request.header("mcp-session-id").unwrap_or_default().to_owned();
        if !id.is_empty() && !self.sessions.contains_key(&id) {
            return Err(("404 Not Found", "no such session\n".to_owned()));
        }
        match request.method.as_str() {
            "POST" => {}
            "GET" if !id.is_empty() => {
                let session = self.sessions.get_mut(&id).expect("checked above");
                let _ = response.try_send(ResponsePart::EventsHead(None));
                for message in session.undelivered.drain(..) {
                    let _ = response.try_send(ResponsePart::Event(message));
                }
                session.listener = Some(response.clone());
                return Ok(());
            }
            "DELETE" if !id.is_empty() => {
                if let Some(session) = self.sessions.remove(&id) {
                    self.count(&session.server);
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
            let exchange = PendingExchange { session, response: response.clone(), new_session, is_stream: false };
            self.exchanges.insert(number, exchange);
        } else {
            let _ = response.try_send(ResponsePart::Status("202 Accepted", String::new()));
        }
        let (script, options, now) = (self.script, self.options, Instant::now());
        let server = || ServerReplay::new(script, Framing::Body, options, now);
        let session = self.sessions.entry(id.clone()).or_insert_with(|| ReplaySession {
            server: server(),
            listener: None,
            undelivered: VecDeque::new(),
        });
        let out = session.server.take(&request.body, Arrival { at: now, exchange: number });
        self.perform(&id, out);
        // If no part of the body is a valid message, no final response will come, so the exchange ends here.
        let is_invalid = all.iter().all(|message| message.kind == MessageKind::Invalid);
        if is_invalid && let Some(exchange) = self.exchanges.remove(&number) {
            let last = ResponsePart::Status("400 Bad Request", String::new());
            let _ = exchange.response.try_send(if exchange.is_stream { ResponsePart::EventsEnd } else { last });
        }
        Ok(())
    }

    /// Performs every step that is due, in all sessions.
    fn run(&mut self) {
        let now = Instant::now();
        let all: Vec<(String, Vec<ServerOutput>)> =
            self.sessions.iter_mut().map(|(id, session)| (id.clone(), session.server.run(now))).collect();
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

    /// Sends a message in the exchange of its request, or in the session's stream if that exchange has ended. Sends
    /// nothing if the client has disconnected.
    fn send(&mut self, session: &str, bytes: Vec<u8>, number: u64, is_last: bool) {
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            if is_last && !exchange.is_stream {
                let is_orphan =
                    matches!(Message::in_frame(&bytes).as_slice(), [Message { kind: MessageKind::OrphanError, .. }]);
                let _ = exchange.response.try_send(match is_orphan {
                    true => ResponsePart::OrphanError(bytes),
                    false => ResponsePart::Message(bytes, exchange.new_session.take()),
                });
            } else {
                if !exchange.is_stream {
                    exchange.is_stream = true;
                    let _ = exchange.response.try_send(ResponsePart::EventsHead(exchange.new_session.take()));
                }
                let _ = exchange.response.try_send(ResponsePart::Event(bytes));
                if is_last {
                    let _ = exchange.response.try_send(ResponsePart::EventsEnd);
                }
            }
            if is_last {
                self.exchanges.remove(&number);
            }
            return;
        }
        let Some(session) = self.sessions.get_mut(session) else { return };
        session.listener.take_if(|listener| listener.is_closed());
        if let Some(listener) = &session.listener {
            let _ = listener.try_send(ResponsePart::Event(bytes));
        } else if session.undelivered.len() < MAX_UNDELIVERED {
            session.undelivered.push_back(bytes);
        }
    }

    /// Adds the counts of a session that has ended to the totals.
    fn count(&mut self, server: &ServerReplay<'_>) {
        self.matched += server.matched;
        self.unmatched += server.unmatched;
        let unused = server.unused();
        self.unused = Some(match self.unused.take() {
            Some(others) => others.intersection(&unused).copied().collect(),
            None => unused,
        });
    }

    fn end(mut self) -> ServeReport {
        for (_, session) in std::mem::take(&mut self.sessions) {
            self.count(&session.server);
        }
        let unused = || ServerReplay::new(self.script, Framing::Body, self.options, Instant::now()).unused();
        let unused = self.unused.unwrap_or_else(unused).len();
        ServeReport { matched: self.matched, unmatched: self.unmatched, unused }
    }
}

/// The maximum number of connections, as for a tap. Further clients wait until another connection ends.
const MAX_CONNECTIONS: usize = 1000;

/// The maximum number of open sessions: more than a test of a client needs.
const MAX_SESSIONS: usize = 1000;

/// The maximum number of messages that are kept for a client without an open stream.
const MAX_UNDELIVERED: usize = 10_000;
