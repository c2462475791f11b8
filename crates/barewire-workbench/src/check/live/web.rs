//! Requests over HTTP, as a client writes them or with something changed -> exchanges, each on a channel of its own, and what comes in
//! them.
//!
//! The bytes go and come in tasks; everything that is known of them is kept here, so that it is recorded in the order in which it came.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use barewire::client::http::Dialer;
use barewire_proto::mcp::{Era, Revision};
use barewire_proto::transcript::{Channel, Closed, Framing, Note, Stream, UnreadReason, Word};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::timeout_at;

use super::answer::Refusal;
use super::tape::{Line, Shared};
use crate::check::finding::Spot;
use crate::http::{ExchangeEvent, ToolHeaders, exchange};

pub(super) use crate::http::HttpRequest;

/// A server at a URL, for all conversations with it.
pub(super) struct Site {
    pub(super) dial: Dialer,
    /// What the user wants to be sent along. It may be secret.
    pub(super) headers: Vec<(String, String)>,
    /// Exchanges so far.
    last: Cell<u64>,
}

impl Site {
    pub(super) fn new(dial: Dialer, headers: Vec<(String, String)>) -> Self {
        Self { dial, headers, last: Cell::new(0) }
    }

    /// How many exchanges there were.
    pub(super) fn count(&self) -> u64 {
        self.last.get()
    }
}

/// One client of a site, and its session.
pub(super) struct Web {
    site: Rc<Site>,
    tape: Shared,
    sender: UnboundedSender<(u64, ExchangeEvent)>,
    receiver: UnboundedReceiver<(u64, ExchangeEvent)>,
    exchanges: HashMap<u64, Exchange>,
    /// The exchange of each request, by the text of its id.
    asked: HashMap<String, u64>,
    /// Requests whose silence is told by somebody else, and that may not be sent yet.
    claimed: HashSet<String>,
    /// The session that the server gave.
    pub(super) session: Option<String>,
    /// What tools want to have repeated in headers.
    tools: ToolHeaders,
}

/// A request and its response, as far as it has come.
struct Exchange {
    channel: Channel,
    task: AbortHandle,
    is_initialize: bool,
    /// It is a stream that nobody may ever write to.
    is_get: bool,
    is_done: bool,
    /// The bytes of a body that is encoded: nobody sees what is in it, nor the secrets in it.
    unread: Option<u64>,
    reply: Reply,
}

/// A response.
#[derive(Clone, Default)]
pub(super) struct Reply {
    pub(super) channel: String,
    /// `None` as long as there is none.
    pub(super) status: Option<u16>,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) lines: Vec<Line>,
    /// Why it is not complete.
    pub(super) why: String,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// What the first message in it says.
    pub(super) fn message(&self) -> Value {
        let first = self.lines.first().map(|line| serde_json::from_slice(&line.bytes).unwrap_or_default());
        first.unwrap_or_default()
    }

    /// The code of the error in it.
    pub(super) fn code(&self) -> Option<i64> {
        self.message()["error"]["code"].as_i64()
    }

    pub(super) fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| (200..=299).contains(&status))
    }

    pub(super) fn told(&self) -> String {
        match (self.status, self.code()) {
            (Some(status), Some(code)) => format!("the status {status} and the error {code}"),
            (Some(status), None) => format!("the status {status}"),
            (None, _) if self.why.is_empty() => "nothing".to_owned(),
            (None, _) => format!("nothing: {}", self.why),
        }
    }

    pub(super) fn spot(&self) -> Spot {
        self.lines.first().map_or_else(|| Spot::channel(&self.channel), |line| line.spot.clone())
    }
}

impl Web {
    pub(super) fn new(site: Rc<Site>, tape: Shared) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            site,
            tape,
            sender,
            receiver,
            exchanges: HashMap::new(),
            asked: HashMap::new(),
            claimed: HashSet::new(),
            session: None,
            tools: ToolHeaders::default(),
        }
    }

    /// Sends a message as a client of this era does.
    pub(super) fn post(&mut self, body: &[u8], era: Era, revision: Revision) {
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        if era == Era::Modern && message["method"] == "notifications/cancelled" {
            let id = message["params"]["requestId"].to_string();
            self.give_up(&id);
            return;
        }
        let number = self.send(self.request(body, era, revision));
        let ids = message.as_array().cloned().unwrap_or_else(|| vec![message]);
        for id in ids.iter().filter(|it| it.get("method").is_some()).filter_map(|it| it.get("id")) {
            let id = id.to_string();
            self.asked.insert(id.clone(), number);
            if self.claimed.contains(&id) {
                self.claim(&id);
            }
        }
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            exchange.is_initialize =
                era == Era::Legacy && ids.first().is_some_and(|it| it["method"] == "initialize");
        }
    }

    /// The request that a client of this era makes of a message.
    pub(super) fn request(&self, body: &[u8], era: Era, revision: Revision) -> HttpRequest {
        match era {
            Era::Legacy => HttpRequest::legacy(body, revision, self.session.as_deref()),
            Era::Modern => HttpRequest::modern(body, &self.tools),
        }
    }

    /// Sends a request, and writes down what is sent.
    pub(super) fn send(&mut self, request: HttpRequest) -> u64 {
        let number = self.site.last.get() + 1;
        self.site.last.set(number);
        let channel: Channel = Word::new(&format!("x{number}")).expect("letters and digits");
        let dial = &self.site.dial;
        let lines = request.head(dial, "barewire-check");
        for line in &lines {
            self.tape.event(&channel, Note::Head(Stream::ToServer, line.clone().into_bytes()));
        }
        for (name, value) in &self.site.headers {
            self.tape.secret_header(&channel, &name.to_ascii_lowercase(), value);
        }
        if let Some(body) = &request.body {
            self.tape.event(&channel, Note::Framing(Framing::Body));
            self.tape.bytes(&channel, Stream::ToServer, body);
        }
        self.tape.event(&channel, Note::Eof(Stream::ToServer));
        let bytes = request.bytes(lines, &self.site.headers, dial);
        let task = tokio::spawn(exchange(dial.clone(), bytes, request.kind(), number, self.sender.clone()));
        let reply = Reply { channel: channel.as_str().to_owned(), ..Reply::default() };
        let exchange = Exchange {
            channel,
            task: task.abort_handle(),
            is_initialize: false,
            is_get: request.verb == "GET",
            is_done: false,
            unread: None,
            reply,
        };
        self.exchanges.insert(number, exchange);
        number
    }

    /// Whether anything can still come; or for this id.
    pub(super) fn is_waiting(&self, id: Option<&str>) -> bool {
        match id.and_then(|id| self.asked.get(id)) {
            // Over the old transport it could come elsewhere; here it cannot.
            Some(number) => self.exchanges.get(number).is_some_and(|it| !it.is_done),
            None => self.exchanges.values().any(|it| !it.is_done),
        }
    }

    /// Waits for what comes next in any exchange, and gives back the frames that are complete with it.
    pub(super) async fn next(&mut self) -> Vec<Line> {
        match self.receiver.recv().await {
            Some((number, event)) => self.take(number, event),
            None => Vec::new(),
        }
    }

    /// What came for a request whose exchange is over.
    pub(super) fn refusal(&self, id: &str) -> Option<Refusal> {
        let exchange = self.exchanges.get(self.asked.get(id)?).filter(|it| it.is_done)?;
        let Reply { status, why, channel, .. } = &exchange.reply;
        Some(Refusal { status: *status, why: why.clone(), spot: Spot::channel(channel) })
    }

    /// Sends a request and waits for its response; of a stream, only for its head.
    pub(super) async fn ask(&mut self, request: HttpRequest, deadline: Instant) -> Reply {
        let number = self.send(request);
        loop {
            let Some(exchange) = self.exchanges.get(&number) else { return Reply::default() };
            let is_stream =
                exchange.reply.header("content-type").is_some_and(|it| it.contains("event-stream"));
            let is_enough = is_stream && (!exchange.reply.lines.is_empty() || exchange.is_get);
            if exchange.is_done || is_enough {
                break;
            }
            if timeout_at(deadline.into(), self.next()).await.is_err() {
                break;
            }
        }
        let reply = self.exchanges.get(&number).map(|it| it.reply.clone()).unwrap_or_default();
        self.close(number);
        reply
    }

    /// That this is not answered is told by whoever asked.
    pub(super) fn claim(&mut self, id: &str) {
        self.claimed.insert(id.to_owned());
        if let Some(exchange) = self.asked.get(id).and_then(|number| self.exchanges.get(number)) {
            self.tape.claim(exchange.channel.as_str(), id);
            if let Some(session) = &self.session {
                self.tape.claim(session, id);
            }
        }
    }

    /// Closes the connection of a request: in the modern era that cancels it.
    fn give_up(&mut self, id: &str) {
        if let Some(number) = self.asked.get(id).copied() {
            self.close(number);
        }
    }

    fn close(&mut self, number: u64) {
        let Some(exchange) = self.exchanges.get_mut(&number).filter(|it| !it.is_done) else { return };
        exchange.is_done = true;
        exchange.task.abort();
        let (channel, unread) = (exchange.channel.clone(), exchange.unread);
        self.tape.event(&channel, Note::Closed(Closed::Connection));
        self.over(&channel, unread);
    }

    /// The body of a response is over.
    fn over(&self, channel: &Channel, unread: Option<u64>) -> Vec<Line> {
        if let Some(bytes) = unread.filter(|bytes| *bytes > 0) {
            self.tape.event(channel, Note::Gap(Stream::ToClient, bytes));
        }
        self.tape.event(channel, Note::Eof(Stream::ToClient))
    }

    /// Ends the session, if there is one, and everything that is open.
    pub(super) async fn end(&mut self, deadline: Instant, revision: Option<Revision>) {
        let open: Vec<u64> = self.exchanges.iter().filter(|(_, it)| !it.is_done).map(|(it, _)| *it).collect();
        for number in open {
            self.close(number);
        }
        if let Some(session) = self.session.take() {
            let request = HttpRequest::of_session("DELETE", Some(&session), revision);
            self.ask(request, deadline.min(Instant::now() + LAST)).await;
        }
    }

    fn take(&mut self, number: u64, event: ExchangeEvent) -> Vec<Line> {
        let Some(exchange) = self.exchanges.get_mut(&number).filter(|it| !it.is_done) else {
            return Vec::new();
        };
        let channel = exchange.channel.clone();
        let mut lines = Vec::new();
        match event {
            ExchangeEvent::Head { bytes: head, framing, status } => {
                let mut heads = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
                for (index, line) in heads.by_ref().filter(|line| !line.is_empty()).enumerate() {
                    self.tape.event(&channel, Note::Head(Stream::ToClient, line.to_vec()));
                    let text = String::from_utf8_lossy(line);
                    if let (1.., Some((name, value))) = (index, text.split_once(':')) {
                        let pair = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
                        exchange.reply.headers.push(pair);
                    }
                }
                exchange.reply.status = Some(status);
                if exchange.is_initialize {
                    self.session = exchange.reply.header("mcp-session-id").map(ToOwned::to_owned);
                }
                if let Some(framing) = framing {
                    lines = self.tape.event(&channel, Note::Framing(framing));
                }
            }
            ExchangeEvent::Encoded(coding) => {
                exchange.unread = Some(0);
                let why = UnreadReason::Encoded(coding.into_bytes());
                self.tape.event(&channel, Note::Unread { stream: Stream::ToClient, why });
            }
            ExchangeEvent::Body(bytes) => match &mut exchange.unread {
                Some(unread) => *unread += bytes.len() as u64,
                None => lines = self.tape.bytes(&channel, Stream::ToClient, &bytes),
            },
            ExchangeEvent::End => {
                exchange.is_done = true;
                let unread = exchange.unread;
                lines = self.over(&channel, unread);
            }
            ExchangeEvent::Broken(why) => {
                exchange.is_done = true;
                let stream = Stream::ToClient;
                exchange.reply.why = String::from_utf8_lossy(&why.text(stream)).into_owned();
                self.tape.event(&channel, Note::Cut { stream, why });
                let unread = exchange.unread;
                lines = self.over(&channel, unread);
            }
        }
        if let Some(exchange) = self.exchanges.get_mut(&number) {
            exchange.reply.lines.extend(lines.iter().cloned());
        }
        for line in &lines {
            self.tools.learn(&line.bytes);
        }
        lines
    }
}

/// Nobody waits long for the end of a session.
const LAST: Duration = Duration::from_secs(2);
