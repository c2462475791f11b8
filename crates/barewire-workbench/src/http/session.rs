//! One client of a server at a URL: sends requests, each on its own connection, and receives the events of their
//! responses.
//!
//! Each exchange runs in a task. The client keeps the session id, the revision, and the tool arguments that are
//! repeated in headers. The caller records, decodes and retries.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::json::Json;
use barewire_proto::mcp::{Era, Revision};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::exchange::{ExchangeEvent, exchange};
use super::request::{HttpRequest, ToolHeaders};

/// A server at a URL, shared by all its clients.
pub(crate) struct HttpTarget {
    pub(crate) dialer: Dialer,
    /// Headers that every request carries, whose values may be secret.
    pub(crate) headers: Vec<(String, String)>,
    /// The name of this program in the `User-Agent` header.
    agent: &'static str,
    /// The number of exchanges so far, with all credentials.
    exchanges: Arc<AtomicU64>,
}

impl HttpTarget {
    pub(crate) fn new(dialer: Dialer, headers: Vec<(String, String)>, agent: &'static str) -> Self {
        Self { dialer, headers, agent, exchanges: Arc::default() }
    }

    /// Returns the same server for requests with these credentials instead of those of the user. The exchanges are
    /// counted together.
    pub(crate) fn with_credentials(&self, credentials: Vec<(String, String)>) -> Self {
        let is_kept = |(name, _): &&(String, String)| !CREDENTIALS.iter().any(|it| name.eq_ignore_ascii_case(it));
        let headers = self.headers.iter().filter(is_kept).cloned().chain(credentials).collect();
        let exchanges = Arc::clone(&self.exchanges);
        Self { dialer: self.dialer.without_sign_in(), headers, agent: self.agent, exchanges }
    }

    /// Returns the number of exchanges so far, which is also the number of the last exchange.
    pub(crate) fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Relaxed)
    }

    /// Returns the lines of a request's head, without the headers in `self.headers`.
    pub(crate) fn head(&self, request: &HttpRequest) -> Vec<String> {
        request.head(&self.dialer, self.agent)
    }
}

/// One client of a server at a URL.
pub(crate) struct SessionClient {
    target: Arc<HttpTarget>,
    sender: Sender<(u64, ExchangeEvent)>,
    receiver: Receiver<(u64, ExchangeEvent)>,
    /// Maps the number of each open exchange to the exchange. Events of other exchanges are dropped.
    open: HashMap<u64, OpenExchange>,
    /// The session id in the server's response to `initialize`.
    pub(crate) session: Option<String>,
    /// The revision in the server's response to `initialize`.
    pub(crate) revision: Option<Revision>,
    tools: ToolHeaders,
}

struct OpenExchange {
    task: AbortHandle,
    is_initialize: bool,
}

impl SessionClient {
    pub(crate) fn new(target: Arc<HttpTarget>) -> Self {
        let (sender, receiver) = channel(MAX_WAITING_EVENTS);
        let (open, tools) = (HashMap::new(), ToolHeaders::default());
        Self { target, sender, receiver, open, session: None, revision: None, tools }
    }

    /// Makes the request with which a client of this era sends a message.
    pub(crate) fn request(&self, body: &[u8], era: Era, revision: Revision) -> HttpRequest {
        match era {
            Era::Legacy => HttpRequest::legacy(body, revision, self.session.as_deref()),
            Era::Modern => HttpRequest::modern(body, &self.tools),
        }
    }

    /// Makes a GET request: for the stream of messages that are not responses, or, if `last_event_id` is given, for the
    /// rest of a stream after that event.
    pub(crate) fn listen(&self, last_event_id: Option<&str>) -> HttpRequest {
        let request = HttpRequest::of_session("GET", self.session.as_deref(), self.revision);
        request.with("last-event-id", last_event_id)
    }

    /// Forgets the session. Returns the request that ends it, if there was a session.
    pub(crate) fn leave(&mut self) -> Option<HttpRequest> {
        let session = self.session.take()?;
        Some(HttpRequest::of_session("DELETE", Some(&session), self.revision))
    }

    /// Sends a request on its own connection, after a delay. Returns the number of the exchange.
    pub(crate) fn send(&mut self, request: &HttpRequest, delay: Duration) -> u64 {
        let number = self.target.exchanges.fetch_add(1, Ordering::Relaxed) + 1;
        let head = self.target.head(request);
        let carried = exchange(Arc::clone(&self.target), request.clone(), head, number, self.sender.clone());
        let task = tokio::spawn(async move {
            if !delay.is_zero() {
                sleep(delay).await;
            }
            carried.await;
        });
        let opened = OpenExchange { task: task.abort_handle(), is_initialize: request.is_initialize() };
        self.open.insert(number, opened);
        number
    }

    /// Waits for the next event of any open exchange.
    pub(crate) async fn next(&mut self) -> (u64, ExchangeEvent) {
        loop {
            let (number, event) = self.receiver.recv().await.expect("the client holds a sender itself");
            let Some(exchange) = self.open.get(&number) else { continue };
            if let (ExchangeEvent::Head { bytes, .. }, true) = (&event, exchange.is_initialize) {
                let mut headers = headers(bytes);
                let found = headers.find(|(name, _)| name == "mcp-session-id");
                self.session = found.map(|(_, value)| value);
            }
            return (number, event);
        }
    }

    /// Reads the revision and the tool headers from a message in an open exchange.
    pub(crate) fn learn(&mut self, number: u64, message: &[u8]) {
        self.tools.learn(message);
        if self.open.get(&number).is_some_and(|exchange| exchange.is_initialize) {
            let version = Json::parse(message).ok().and_then(|it| it.at(&["result", "protocolVersion"])?.string());
            self.revision = version.and_then(|version| Revision::parse(&version)).or(self.revision);
        }
    }

    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Closes the connection of an exchange and drops its further events. Must also be called when the exchange has
    /// ended.
    pub(crate) fn close(&mut self, number: u64) {
        if let Some(exchange) = self.open.remove(&number) {
            exchange.task.abort();
        }
    }

    pub(crate) fn close_all(&mut self) {
        for (_, exchange) in self.open.drain() {
            exchange.task.abort();
        }
    }
}

/// Returns the headers in a response head, with names in lower case.
pub(crate) fn headers(head: &[u8]) -> impl Iterator<Item = (String, String)> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    })
}

/// The headers that carry a token and its proof.
const CREDENTIALS: [&str; 2] = ["authorization", "dpop"];

/// The maximum number of events that wait to be received, in all exchanges of a client: half a megabyte of bodies.
/// While so many wait, responses are not read.
const MAX_WAITING_EVENTS: usize = 16;

/// The maximum wait for the response to the request that ends a session.
pub(crate) const SESSION_END_TIMEOUT: Duration = Duration::from_secs(2);
