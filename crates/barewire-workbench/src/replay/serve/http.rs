//! Answers clients over HTTP with the messages that the server sent in the capture.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use barewire_proto::transcript::Framing;
use tokio::net::TcpListener;
use tokio::sync::mpsc::Sender;

use super::connection::{ConnectionEvent, ReceivedRequest, ResponsePart};
use super::delivery::{HttpResponder, PendingExchange, SessionStream, respond};
use super::{ServeOptions, ServeReport};
use crate::http::is_modern;
use crate::replay::message::{Message, MessageKind};
use crate::replay::script::Script;
use crate::replay::server::{Arrival, ServerOutput, ServerReplay};

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
    respond(listener, options.max_frame, &mut server, stop).await;
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
    stream: SessionStream,
}

impl<L: FnMut(&str)> HttpResponder for HttpReplayServer<'_, L> {
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

    /// Performs every step that is due, in all sessions.
    fn run(&mut self) {
        let now = Instant::now();
        let all: Vec<(String, Vec<ServerOutput>)> =
            self.sessions.iter_mut().map(|(id, session)| (id.clone(), session.server.run(now))).collect();
        for (id, out) in all {
            self.perform(&id, out);
        }
    }
}

impl<L: FnMut(&str)> HttpReplayServer<'_, L> {
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
                session.stream.open(response);
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
        let session = self
            .sessions
            .entry(id.clone())
            .or_insert_with(|| ReplaySession { server: server(), stream: SessionStream::default() });
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
            let is_orphan =
                || matches!(Message::in_frame(&bytes).as_slice(), [Message { kind: MessageKind::OrphanError, .. }]);
            if is_last && !exchange.is_stream && is_orphan() {
                let _ = exchange.response.try_send(ResponsePart::OrphanError(bytes));
            } else {
                exchange.send(bytes, is_last);
            }
            if is_last {
                self.exchanges.remove(&number);
            }
            return;
        }
        if let Some(session) = self.sessions.get_mut(session) {
            session.stream.send(bytes);
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

/// The maximum number of open sessions: more than a test of a client needs.
const MAX_SESSIONS: usize = 1000;
