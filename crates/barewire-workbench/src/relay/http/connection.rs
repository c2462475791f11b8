//! One connection of a client -> one of its own to the server, and the bytes between them as they come.
//!
//! ```text
//! client ── requests: heads checked and rewritten, the rest as it is ──> server
//!        <── responses: as they are ───────────────────────────────────
//! ```
//!
//! Each client's connection has the server's all to itself. So whatever HTTP says from hop to hop (keep-alive, chunks, `100 Continue`,
//! an upgrade, the end of either side) means the same on both, and needs no translation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::transcript::CutReason;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::exchanges::{Exchanges, Eyes, Numbers};
use crate::http::decoder::{HttpDecoder, HttpPart};
use crate::http::head::{Asks, Passage, Refusal, response};

/// What all connections share.
pub(super) struct Shared {
    pub(super) dial: Dialer,
    pub(super) passage: Passage,
    pub(super) eyes: Arc<dyn Eyes>,
    pub(super) numbers: Arc<Numbers>,
}

/// Serves a client until it or the server goes.
pub(super) async fn serve(mut client: TcpStream, shared: Arc<Shared>) {
    // A message is passed on as it comes, so there is nothing to wait for that would go into the same packet.
    let _ = client.set_nodelay(true);
    let exchanges = Exchanges::new(Arc::clone(&shared.eyes), Arc::clone(&shared.numbers));
    if let Err(refusal) = passed(&mut client, &shared, &exchanges).await {
        let text = format!("barewire tap: {}\n", refusal.why);
        let head = format!(
            "HTTP/1.1 {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            refusal.status,
            text.len()
        );
        let _ = client.write_all(format!("{head}{text}").as_bytes()).await;
    }
    drop(exchanges);
    linger(client).await;
}

/// Passes on what comes until one of the two closes; or says what the client is to be told before it is closed.
async fn passed(client: &mut TcpStream, shared: &Shared, exchanges: &Exchanges) -> Result<(), Refusal> {
    let (mut from_client, mut to_client) = client.split();
    let mut requests = Requests::new(shared, exchanges);
    // Nobody is connected to who has not asked anything.
    let Some(first) = requests.first(&mut from_client).await? else { return Ok(()) };
    let wire = shared.dial.connect().await.map_err(|error| {
        let told = Some(BAD_GATEWAY.into());
        exchanges.end(CutReason::Failed { error: error.to_string().into_bytes(), told });
        Refusal::new(BAD_GATEWAY, format!("the request was not passed on: {error}"))
    })?;
    let (from_server, mut to_server) = tokio::io::split(wire);
    let mut responses = Responses::new(exchanges);
    let ended = {
        let asking = requests.pass_on(first, &mut from_client, &mut to_server);
        let answering = responses.pass_on(from_server, &mut to_client);
        tokio::pin!(asking, answering);
        tokio::select! {
            biased;
            end = &mut asking => match end {
                // The server is told; what it still has to say is passed on.
                Asked::ClientClosed | Asked::ServerClosed => answering.await,
                Asked::ClientGone(error) => Answered::ClientGone(error),
                Asked::Refused(refusal) => Answered::Refused(refusal),
            },
            end = &mut answering => end,
        }
    };
    match ended {
        Answered::Refused(refusal) => {
            exchanges.end(not_passed_on(&refusal));
            Err(refusal)
        }
        Answered::ClientGone(error) => {
            let error = error.map(|error| error.to_string().into_bytes());
            exchanges.end(CutReason::ClientClosed { error });
            Ok(())
        }
        Answered::ServerClosed(error) => {
            let error = error.map(|error| error.to_string());
            // On a connection that has been answered on, a client knows what that means and asks again.
            let tell = responses.is_silent && exchanges.unanswered() > 0;
            let told = tell.then(|| BAD_GATEWAY.into());
            exchanges.end(CutReason::ServerClosed { error: error.clone().map(String::into_bytes), told });
            if !tell {
                return Ok(());
            }
            let how = error.map_or(String::new(), |error| format!(": {error}"));
            let why = format!("the server closed the connection without an answer{how}");
            Err(Refusal::new(BAD_GATEWAY, why))
        }
    }
}

fn not_passed_on(refusal: &Refusal) -> CutReason {
    CutReason::ClientRefused(refusal.why.clone().into_bytes())
}

/// Closes a connection so that what was written last arrives: whoever closes while there is something unread takes it back.
async fn linger(mut client: TcpStream) {
    if client.shutdown().await.is_err() {
        return;
    }
    let mut rest = vec![0; 4096];
    let drained = async { while matches!(client.read(&mut rest).await, Ok(1..)) {} };
    let _ = tokio::time::timeout(LINGER, drained).await;
}

/// From the client to the server.
struct Requests<'a> {
    shared: &'a Shared,
    exchanges: &'a Exchanges,
    messages: HttpDecoder,
    buffer: Vec<u8>,
    /// What of the buffer is to be passed on, as it is to be passed on.
    out: Vec<u8>,
    /// How much of that is up to the end of a request.
    whole: usize,
    /// Something came that does not go on. What comes behind it is not looked at.
    is_refused: bool,
}

/// How requests ended.
enum Asked {
    /// The client says nothing more. It may still listen.
    ClientClosed,
    /// The server takes nothing more. It may still answer.
    ServerClosed,
    ClientGone(Option<io::Error>),
    Refused(Refusal),
}

impl<'a> Requests<'a> {
    fn new(shared: &'a Shared, exchanges: &'a Exchanges) -> Self {
        let messages = HttpDecoder::new();
        let (buffer, out) = (vec![0; BUFFER], Vec::new());
        Self { shared, exchanges, messages, buffer, out, whole: 0, is_refused: false }
    }

    /// Waits for the first request; what is given back is the beginning of what goes to the server.
    async fn first(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, Refusal> {
        while self.out.is_empty() {
            match from.read(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(count) => self.take(count),
            }
            if let Some(refusal) = self.exchanges.refusal() {
                self.exchanges.end(not_passed_on(&refusal));
                return Err(refusal);
            }
        }
        Ok(Some(std::mem::take(&mut self.out)))
    }

    async fn pass_on(
        &mut self,
        first: Vec<u8>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Asked {
        self.out = first;
        loop {
            if to.write_all(&self.out).await.is_err() || to.flush().await.is_err() {
                return Asked::ServerClosed;
            }
            self.out.clear();
            self.out.shrink_to(BUFFER);
            if let Some(refusal) = self.exchanges.refusal() {
                return Asked::Refused(refusal);
            }
            let count = match from.read(&mut self.buffer).await {
                Err(error) => return Asked::ClientGone(Some(error)),
                Ok(0) => {
                    if self.exchanges.unanswered() == 0 {
                        return Asked::ClientGone(None);
                    }
                    // Just as the server would have seen it: for a request of the modern era that is a cancel.
                    self.exchanges.client_closed();
                    return match to.shutdown().await {
                        Ok(()) => Asked::ClientClosed,
                        Err(_) => Asked::ServerClosed,
                    };
                }
                Ok(count) => count,
            };
            self.take(count);
        }
    }

    /// Takes what was read. What stands before something that is refused goes on, and is answered first.
    fn take(&mut self, count: usize) {
        if !self.is_refused
            && let Err(refusal) = self.rewrite(count)
        {
            self.is_refused = true;
            self.out.truncate(self.whole);
            self.exchanges.refuse(refusal);
        }
    }

    /// Makes of what was read what goes to the server.
    fn rewrite(&mut self, count: usize) -> Result<(), Refusal> {
        self.whole = 0;
        let mut input = &self.buffer[..count];
        if self.exchanges.is_switched() {
            self.out.extend_from_slice(input);
            return Ok(());
        }
        loop {
            let part = self.messages.next(&mut input).map_err(|broken| {
                let refusal = Refusal::bad(broken.why());
                self.exchanges.refused(&refusal.why);
                refusal
            })?;
            match part {
                None => return Ok(()),
                Some(HttpPart::Head(head)) => {
                    let asks = self.shared.passage.request(&head).inspect_err(|refusal| {
                        self.exchanges.refused(&refusal.why);
                    })?;
                    self.exchanges.asks(&asks);
                    let Asks { head, follows, .. } = asks;
                    self.messages.set_body(follows);
                    self.out.extend_from_slice(&head);
                }
                Some(HttpPart::Body(bytes)) => {
                    self.exchanges.asked_more(bytes);
                    self.out.extend_from_slice(bytes);
                }
                // Empty lines between requests mean nothing to anybody, and before the first one there is nobody yet.
                Some(HttpPart::Framing(_)) if self.messages.is_between() => {}
                Some(HttpPart::Framing(bytes)) => self.out.extend_from_slice(bytes),
                Some(HttpPart::End) => {
                    self.exchanges.asked_all();
                    self.whole = self.out.len();
                }
            }
        }
    }
}

/// From the server to the client.
struct Responses<'a> {
    exchanges: &'a Exchanges,
    /// `None` if what the server sends cannot be understood.
    messages: Option<HttpDecoder>,
    /// The server has sent nothing yet.
    is_silent: bool,
}

/// How responses ended.
enum Answered {
    ServerClosed(Option<io::Error>),
    ClientGone(Option<io::Error>),
    Refused(Refusal),
}

impl<'a> Responses<'a> {
    fn new(exchanges: &'a Exchanges) -> Self {
        Self { exchanges, messages: Some(HttpDecoder::new()), is_silent: true }
    }

    async fn pass_on(&mut self, mut from: impl AsyncRead + Unpin, to: &mut (impl AsyncWrite + Unpin)) -> Answered {
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = match from.read(&mut buffer).await {
                Ok(0) => {
                    self.finish();
                    return Answered::ServerClosed(None);
                }
                // TLS has an end of its own, and many do not say it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.finish();
                    return Answered::ServerClosed(None);
                }
                Err(error) => return Answered::ServerClosed(Some(error)),
                Ok(count) => count,
            };
            self.is_silent = false;
            // First it is passed on, and then it is looked at.
            if let Err(error) = to.write_all(&buffer[..count]).await {
                return Answered::ClientGone(Some(error));
            }
            if let Some(messages) = &mut self.messages
                && let Err(why) = look(messages, &buffer[..count], self.exchanges)
            {
                self.exchanges.unread(why);
                self.messages = None;
            }
            if let Some(refusal) = self.exchanges.refusal() {
                return Answered::Refused(refusal);
            }
        }
    }

    /// The server has closed the connection, which is how some bodies end.
    fn finish(&mut self) {
        if self.messages.as_ref().is_some_and(HttpDecoder::may_end) {
            self.exchanges.answered_all();
        }
    }
}

fn look(messages: &mut HttpDecoder, mut input: &[u8], exchanges: &Exchanges) -> Result<(), &'static str> {
    loop {
        match messages.next(&mut input).map_err(|broken| broken.why())? {
            None => return Ok(()),
            Some(HttpPart::Head(head)) => {
                let answers = response(&head, exchanges.asked())?;
                exchanges.answers(&answers, &head);
                messages.set_body(answers.follows);
            }
            Some(HttpPart::Body(bytes)) => exchanges.answered_more(bytes),
            Some(HttpPart::Framing(_)) => {}
            Some(HttpPart::End) => exchanges.answered_all(),
        }
    }
}

const BAD_GATEWAY: &str = "502 Bad Gateway";

/// Each direction of each connection has one.
const BUFFER: usize = 32 * 1024;

/// Long enough for a client on this machine to have read what it was told.
const LINGER: Duration = Duration::from_secs(1);
