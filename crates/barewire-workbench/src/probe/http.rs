//! The probe over Streamable HTTP: requests of clients -> responses, streams of events and sessions.
//!
//! The capture is made by a relay in front, so this server only answers.

use std::collections::HashMap;
use std::time::Instant;

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::mcp::RequestParams;
use barewire_proto::rpc::{DEFAULT_DEPTH, Message, Parsed, parse};
use tokio::net::TcpListener;
use tokio::sync::mpsc::Sender;

use super::server::{ProbeOutput, ProbeServer};
use crate::check::Scenario;
use crate::replay::serve::connection::{ConnectionEvent, ReceivedRequest, ResponsePart};
use crate::replay::serve::delivery::{HttpResponder, PendingExchange, SessionStream, respond};

pub(super) use crate::replay::HTTP_PATH;

/// Serves clients at [`HTTP_PATH`] until `stop` is ready. Requests whose `Host` is not a loopback name are refused.
pub(super) async fn serve_http(scenario: Scenario, listener: TcpListener, stop: impl Future<Output = ()>) {
    let mut probe = HttpProbe { scenario, sessions: HashMap::new(), exchanges: HashMap::new(), session_count: 0 };
    respond(listener, DEFAULT_LIMIT, &mut probe, stop).await;
}

/// The probe, with the sessions of all clients.
struct HttpProbe {
    scenario: Scenario,
    /// Maps each session id to its session. The empty id is for all requests without a session id.
    sessions: HashMap<String, ProbeSession>,
    /// Maps the number of each connection to its exchange, until the final response is sent.
    exchanges: HashMap<u64, PendingExchange>,
    session_count: u64,
}

struct ProbeSession {
    server: ProbeServer,
    stream: SessionStream,
}

impl HttpResponder for HttpProbe {
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
                if let Err((status, why)) = self.handle(number, &request, &response) {
                    // Sending fails if the client has disconnected.
                    let _ = response.try_send(ResponsePart::Status(status, why));
                }
            }
        }
    }

    /// Performs every step that is due, in all sessions.
    fn run(&mut self) {
        let now = Instant::now();
        let all: Vec<(String, Vec<ProbeOutput>)> =
            self.sessions.iter_mut().map(|(id, session)| (id.clone(), session.server.run(now))).collect();
        for (id, out) in all {
            self.perform(&id, out);
        }
    }
}

impl HttpProbe {
    /// Handles a request, or returns the status and the text to respond with.
    fn handle(
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
                self.sessions.remove(&id);
                return Err(("200 OK", String::new()));
            }
            _ => return Err(("405 Method Not Allowed", String::new())),
        }
        let kind = PostedKind::of(&request.body);
        let begins = kind == PostedKind::Handshake;
        if begins {
            self.session_count += 1;
            id = format!("probe-{}-{}", std::process::id(), self.session_count);
        }
        if self.sessions.len() >= MAX_SESSIONS && !self.sessions.contains_key(&id) {
            return Err(("503 Service Unavailable", "too many sessions\n".to_owned()));
        }
        match kind {
            PostedKind::Invalid => return Err(("400 Bad Request", "not a message\n".to_owned())),
            PostedKind::Other => {
                let _ = response.try_send(ResponsePart::Status("202 Accepted", String::new()));
            }
            PostedKind::Handshake | PostedKind::Request => {
                let (session, new_session) = (id.clone(), begins.then(|| id.clone()));
                let exchange = PendingExchange { session, response: response.clone(), new_session, is_stream: false };
                self.exchanges.insert(number, exchange);
            }
        }
        let scenario = self.scenario;
        let session = self
            .sessions
            .entry(id.clone())
            .or_insert_with(|| ProbeSession { server: ProbeServer::new(scenario), stream: SessionStream::default() });
        let out = session.server.take(&request.body, number, Instant::now());
        self.perform(&id, out);
        Ok(())
    }

    fn perform(&mut self, session: &str, all: Vec<ProbeOutput>) {
        for out in all {
            match out {
                ProbeOutput::Send { bytes, exchange, is_last, .. } => self.send(session, bytes, exchange, is_last),
                // Without a session there is nothing to end.
                ProbeOutput::Exit if session.is_empty() => {}
                ProbeOutput::Exit => {
                    self.sessions.remove(session);
                }
            }
        }
    }

    /// Sends a message in the exchange of its request, or in the session's stream. Sends nothing if the client has
    /// disconnected.
    fn send(&mut self, session: &str, bytes: Vec<u8>, number: u64, is_last: bool) {
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            exchange.send(bytes, is_last);
            if is_last {
                self.exchanges.remove(&number);
            }
            return;
        }
        if let Some(session) = self.sessions.get_mut(session) {
            session.stream.send(bytes);
        }
    }
}

/// The kind of a posted body.
#[derive(PartialEq)]
enum PostedKind {
    /// `initialize` of a legacy client.
    Handshake,
    /// A request, or a batch that may have one.
    Request,
    /// A notification or a response.
    Other,
    Invalid,
}

impl PostedKind {
    fn of(body: &[u8]) -> Self {
        match parse(body, DEFAULT_DEPTH) {
            Parsed::Message(Message::Request(request)) => {
                let is_modern = RequestParams::read(request.params).meta.protocol_version.is_some();
                if request.method == "initialize" && !is_modern { Self::Handshake } else { Self::Request }
            }
            Parsed::Message(_) => Self::Other,
            Parsed::Batch(_) => Self::Request,
            Parsed::Invalid(_) => Self::Invalid,
        }
    }
}

/// The maximum number of open sessions: more than a host has with one server.
const MAX_SESSIONS: usize = 1000;
