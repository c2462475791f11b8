//! One client of a server at a URL: requests, each on a connection of its own -> the events of their responses.
//!
//! Each exchange runs in a task. The client keeps the session, the revision, and the tool arguments that are repeated in
//! headers. Recording, decoding messages and retrying are left to the caller.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::mcp::{Era, Revision};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::exchange::{ExchangeEvent, exchange};
use super::request::{HttpRequest, ToolHeaders};

/// A server at a URL, shared by all its clients.
pub(crate) struct HttpTarget {
    pub(crate) dialer: Dialer,
    /// Headers that every request carries. They may be secret.
    pub(crate) headers: Vec<(String, String)>,
    /// The name of the program in `User-Agent`.
    agent: &'static str,
    /// The number of exchanges so far.
    exchanges: AtomicU64,
}

impl HttpTarget {
    pub(crate) fn new(dialer: Dialer, headers: Vec<(String, String)>, agent: &'static str) -> Self {
        Self { dialer, headers, agent, exchanges: AtomicU64::new(0) }
    }

    /// The number of exchanges so far. The first has the number 1.
    pub(crate) fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Relaxed)
    }

    /// The lines of a request's head, without the headers that every request carries.
    pub(crate) fn head(&self, request: &HttpRequest) -> Vec<String> {
        request.head(&self.dialer, self.agent)
    }
}

/// One client of a server at a URL.
pub(crate) struct SessionClient {
    target: Arc<HttpTarget>,
    sender: UnboundedSender<(u64, ExchangeEvent)>,
    receiver: UnboundedReceiver<(u64, ExchangeEvent)>,
    /// The open exchanges by number. Events of others are dropped.
    open: HashMap<u64, OpenExchange>,
    /// The session that the server gave in its response to `initialize`.
    pub(crate) session: Option<String>,
    /// The revision that the server gave in its answer to `initialize`.
    pub(crate) revision: Option<Revision>,
    tools: ToolHeaders,
}

struct OpenExchange {
    task: AbortHandle,
    is_initialize: bool,
}

impl SessionClient {
    pub(crate) fn new(target: Arc<HttpTarget>) -> Self {
        let (sender, receiver) = unbounded_channel();
        let (open, tools) = (HashMap::new(), ToolHeaders::default());
        Self { target, sender, receiver, open, session: None, revision: None, tools }
    }

    /// The request with which a client of this era sends a message.
    pub(crate) fn request(&self, body: &[u8], era: Era, revision: Revision) -> HttpRequest {
        match era {
            Era::Legacy => HttpRequest::legacy(body, revision, self.session.as_deref()),
            Era::Modern => HttpRequest::modern(body, &self.tools),
        }
    }

    /// The request for the stream of messages that belong to no request, or for the rest of a stream after this event.
    pub(crate) fn listen(&self, last_event_id: Option<&str>) -> HttpRequest {
        let request = HttpRequest::of_session("GET", self.session.as_deref(), self.revision);
        request.with("last-event-id", last_event_id)
    }

    /// Forgets the session; returns the request that ends it, if there is one.
    pub(crate) fn leave(&mut self) -> Option<HttpRequest> {
        let session = self.session.take()?;
        Some(HttpRequest::of_session("DELETE", Some(&session), self.revision))
    }

    /// Sends a request on a connection of its own, after a delay; returns the number of the exchange.
    pub(crate) fn send(&mut self, request: &HttpRequest, delay: Duration) -> u64 {
        let number = self.target.exchanges.fetch_add(1, Ordering::Relaxed) + 1;
        let HttpTarget { dialer, headers, .. } = &*self.target;
        let bytes = request.bytes(self.target.head(request), headers, dialer);
        let carried = exchange(dialer.clone(), bytes, request.kind(), number, self.sender.clone());
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

    /// Takes the revision and the tool headers from a message of an open exchange.
    pub(crate) fn learn(&mut self, number: u64, message: &[u8]) {
        self.tools.learn(message);
        if self.open.get(&number).is_some_and(|exchange| exchange.is_initialize) {
            let message: Value = serde_json::from_slice(message).unwrap_or_default();
            let version = message["result"]["protocolVersion"].as_str();
            self.revision = version.and_then(Revision::parse).or(self.revision);
        }
    }

    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Closes the connection of an exchange, and drops its further events. To be called at its end as well.
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

/// The headers in the head of a response, names in lower case.
pub(crate) fn headers(head: &[u8]) -> impl Iterator<Item = (String, String)> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    })
}

/// The longest wait for the response to the end of a session.
pub(crate) const SESSION_END_TIMEOUT: Duration = Duration::from_secs(2);
