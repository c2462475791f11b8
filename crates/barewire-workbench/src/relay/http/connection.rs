//! Opens a server connection for each client connection, and relays the bytes between them.
//!
//! ```text
//! client ── requests: heads checked and rewritten, the rest as it is ──> server
//!        <── responses: as they are ───────────────────────────────────
//! ```
//!
//! Each client connection has its own server connection. So everything that HTTP defines hop by hop (keep-alive,
//! chunks, `100 Continue`, an upgrade, the closing of either side) means the same on both connections and needs no
//! translation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use barewire::client::http::{Dialer, Secret};
use barewire_proto::transcript::{CutReason, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::RelayObserver;
use super::exchanges::ConnectionExchanges;
use super::sent_credentials::SentCredentials;
use crate::http::decoder::{HttpDecoder, HttpPart};
use crate::http::head::{HeadRewriter, RequestHead, RequestRefusal, response};
use crate::http::linger;

/// The settings and the observer that all connections share.
pub(super) struct RelayContext {
    pub(super) dialer: Dialer,
    pub(super) rewriter: HeadRewriter,
    pub(super) first_head: Duration,
    pub(super) observer: Arc<RelayObserver>,
}

/// Serves a client until the client or the server closes the connection.
pub(super) async fn serve(mut client: TcpStream, context: Arc<RelayContext>) {
    // Bytes are passed on immediately, so waiting for more bytes to fill a packet would only delay them.
    let _ = client.set_nodelay(true);
    let exchanges = ConnectionExchanges::new(Arc::clone(&context.observer));
    if let Err(refusal) = relay(&mut client, &context, &exchanges).await {
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

/// Relays until the client or the server closes its connection. An error is the response that the client gets before
/// its connection is closed.
async fn relay(
    client: &mut TcpStream,
    context: &RelayContext,
    exchanges: &ConnectionExchanges,
) -> Result<(), RequestRefusal> {
    let (mut from_client, mut to_client) = client.split();
    let credentials = SentCredentials::default();
    let mut requests = Requests::new(context, exchanges, &credentials);
    // We connect to the server only after the first request was received.
    let first = timeout(context.first_head, requests.first(&mut from_client)).await;
    let Some(first) = first.unwrap_or(Ok(None))? else { return Ok(()) };
    let wire = context.dialer.connect().await.map_err(|error| {
        let client_status = Some(BAD_GATEWAY.into());
        exchanges.end(CutReason::Failed { error: error.to_string().into_bytes(), client_status });
        RequestRefusal::new(BAD_GATEWAY, format!("the request was not passed on: {error}"))
    })?;
    let (from_server, mut to_server) = tokio::io::split(wire);
    let decoder = Some(HttpDecoder::new());
    let mut responses = Responses { context, exchanges, credentials: &credentials, decoder, is_silent: true };
    let ended = {
        let sending = requests.pass_on(first, &mut from_client, &mut to_server);
        let receiving = responses.pass_on(from_server, &mut to_client);
        tokio::pin!(sending, receiving);
        tokio::select! {
            biased;
            end = &mut sending => match end {
                // The server's remaining responses are still passed on.
                RequestsEnd::ClientClosed | RequestsEnd::ServerClosed => receiving.await,
                RequestsEnd::ClientGone(error) => ResponsesEnd::ClientGone(error),
                RequestsEnd::Refused(refusal) => ResponsesEnd::Refused(refusal),
            },
            end = &mut receiving => end,
        }
    };
    match ended {
        ResponsesEnd::Refused(refusal) => {
            exchanges.end(not_passed_on(&refusal));
            Err(refusal)
        }
        ResponsesEnd::ClientGone(error) => {
            let error = error.map(|error| error.to_string().into_bytes());
            exchanges.end(CutReason::ClientClosed { error });
            Ok(())
        }
        ResponsesEnd::ServerClosed(error) => {
            let error = error.map(|error| error.to_string());
            // If the connection has already carried a response, clients expect that the server may close it, and they
            // retry.
            let tell = responses.is_silent && exchanges.unanswered() > 0;
            let told = tell.then(|| BAD_GATEWAY.into());
            exchanges
                .end(CutReason::ServerClosed { error: error.clone().map(String::into_bytes), client_status: told });
            if !tell {
                return Ok(());
            }
            let how = error.map_or(String::new(), |error| format!(": {error}"));
            Err(RequestRefusal::new(BAD_GATEWAY, format!("the server closed the connection without an answer{how}")))
        }
    }
}

fn not_passed_on(refusal: &RequestRefusal) -> CutReason {
    CutReason::ClientRefused(refusal.why.clone().into_bytes())
}

struct Requests<'a> {
    context: &'a RelayContext,
    exchanges: &'a ConnectionExchanges,
    credentials: &'a SentCredentials,
    decoder: HttpDecoder,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// The length of the part of `out` that ends with a complete request.
    whole: usize,
    /// Whether a request was refused. All later bytes are ignored.
    is_refused: bool,
}

/// The reason why no more requests are passed on.
enum RequestsEnd {
    /// The client has closed its sending side. It may still read.
    ClientClosed,
    /// The server has closed its receiving side. It may still write.
    ServerClosed,
    ClientGone(Option<io::Error>),
    Refused(RequestRefusal),
}

impl<'a> Requests<'a> {
    fn new(context: &'a RelayContext, exchanges: &'a ConnectionExchanges, credentials: &'a SentCredentials) -> Self {
        let (decoder, buffer) = (HttpDecoder::new(), vec![0; BUFFER_SIZE]);
        Self { context, exchanges, credentials, decoder, buffer, out: Vec::new(), whole: 0, is_refused: false }
    }

    /// Waits for the first request. Returns its first bytes for the server.
    async fn first(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Vec<u8>>, RequestRefusal> {
        while self.out.is_empty() {
            match from.read(&mut self.buffer).await {
                Ok(0) | Err(_) => return Ok(None),
                Ok(count) => self.take(count).await,
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
    ) -> RequestsEnd {
        self.out = first;
        loop {
            if to.write_all(&self.out).await.is_err() || to.flush().await.is_err() {
                return RequestsEnd::ServerClosed;
            }
            self.out.clear();
            self.out.shrink_to(BUFFER_SIZE);
            if let Some(refusal) = self.exchanges.refusal() {
                return RequestsEnd::Refused(refusal);
            }
            let count = match from.read(&mut self.buffer).await {
                Err(error) => return RequestsEnd::ClientGone(Some(error)),
                Ok(0) => {
                    if self.exchanges.unanswered() == 0 {
                        return RequestsEnd::ClientGone(None);
                    }
                    // The server sees the close as it would without a relay. In the modern era, a close is a cancel.
                    self.exchanges.client_closed();
                    return match to.shutdown().await {
                        Ok(()) => RequestsEnd::ClientClosed,
                        Err(_) => RequestsEnd::ServerClosed,
                    };
                }
                Ok(count) => count,
            };
            self.take(count).await;
        }
    }

    /// Handles bytes from the client. Complete requests before a refused one are passed on and answered first.
    async fn take(&mut self, count: usize) {
        if !self.is_refused
            && let Err(refusal) = self.rewrite(count).await
        {
            self.is_refused = true;
            self.out.truncate(self.whole);
            self.exchanges.refuse(refusal);
        }
    }

    /// Checks and rewrites the received bytes, and appends them to `out`.
    async fn rewrite(&mut self, count: usize) -> Result<(), RequestRefusal> {
        self.whole = 0;
        let mut input = &self.buffer[..count];
        if self.exchanges.is_upgraded() {
            self.out.extend_from_slice(input);
            return Ok(());
        }
        loop {
            let part = self.decoder.next(&mut input).map_err(|broken| {
                let refusal = RequestRefusal::bad(broken.why());
                self.exchanges.refused(&refusal.why);
                refusal
            })?;
            match part {
                None => return Ok(()),
                Some(HttpPart::Head(head)) => {
                    let request = self.context.rewriter.request(&head);
                    let mut request = request.inspect_err(|refusal| self.exchanges.refused(&refusal.why))?;
                    let authorized = authorize(&mut request, &self.context.dialer).await;
                    let credentials = authorized.inspect_err(|refusal| self.exchanges.refused(&refusal.why))?;
                    self.credentials.sent(credentials);
                    self.exchanges.request_head(&request);
                    self.decoder.set_body(request.follows);
                    self.out.extend_from_slice(&request.head);
                }
                Some(HttpPart::Body(bytes)) => {
                    self.exchanges.body(Stream::ToServer, bytes);
                    self.out.extend_from_slice(bytes);
                }
                // Empty lines between requests have no meaning, so they are dropped.
                Some(HttpPart::Framing(_)) if self.decoder.is_between() => {}
                Some(HttpPart::Framing(bytes)) => self.out.extend_from_slice(bytes),
                Some(HttpPart::End) => {
                    self.exchanges.body_end(Stream::ToServer);
                    self.whole = self.out.len();
                }
            }
        }
    }
}

/// Adds the credentials of the server's sign-in to a request that has none, if it is meant for the server's URL. Returns
/// them.
async fn authorize(request: &mut RequestHead, dialer: &Dialer) -> Result<Vec<(String, Secret)>, RequestRefusal> {
    if request.has_authorization || request.target != dialer.path_and_query() {
        return Ok(Vec::new());
    }
    let authorization = dialer.authorization(&request.method).await;
    let failed = |error| RequestRefusal::new(BAD_GATEWAY, format!("the request was not passed on: {error}"));
    let authorization = authorization.map_err(failed)?;
    for (name, value) in &authorization {
        request.add(name, value.expose());
    }
    Ok(authorization)
}

struct Responses<'a> {
    context: &'a RelayContext,
    exchanges: &'a ConnectionExchanges,
    credentials: &'a SentCredentials,
    /// `None` after the server has sent bytes that are not HTTP.
    decoder: Option<HttpDecoder>,
    /// Whether the server has sent nothing yet.
    is_silent: bool,
}

/// The reason why no more responses are passed on.
enum ResponsesEnd {
    ServerClosed(Option<io::Error>),
    ClientGone(Option<io::Error>),
    Refused(RequestRefusal),
}

impl Responses<'_> {
    async fn pass_on(&mut self, mut from: impl AsyncRead + Unpin, to: &mut (impl AsyncWrite + Unpin)) -> ResponsesEnd {
        let mut buffer = vec![0; BUFFER_SIZE];
        loop {
            let count = match from.read(&mut buffer).await {
                Ok(count) => count,
                // Many servers close a TLS connection without the close message of TLS.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return ResponsesEnd::ServerClosed(Some(error)),
            };
            if count == 0 {
                self.finish();
                return ResponsesEnd::ServerClosed(None);
            }
            self.is_silent = false;
            // The bytes are sent to the client before they are decoded.
            if let Err(error) = to.write_all(&buffer[..count]).await {
                return ResponsesEnd::ClientGone(Some(error));
            }
            if let Some(decoder) = &mut self.decoder
                && let Err(why) =
                    observe(decoder, &buffer[..count], self.exchanges, (&self.context.dialer, self.credentials))
            {
                self.exchanges.not_http(why);
                self.decoder = None;
            }
            if let Some(refusal) = self.exchanges.refusal() {
                return ResponsesEnd::Refused(refusal);
            }
        }
    }

    /// Handles the closing of the connection by the server, which ends some kinds of body.
    fn finish(&mut self) {
        if self.decoder.as_ref().is_some_and(HttpDecoder::may_end) {
            self.exchanges.body_end(Stream::ToClient);
        }
    }
}

fn observe(
    decoder: &mut HttpDecoder,
    mut input: &[u8],
    exchanges: &ConnectionExchanges,
    (dialer, credentials): (&Dialer, &SentCredentials),
) -> Result<(), &'static str> {
    loop {
        match decoder.next(&mut input).map_err(|broken| broken.why())? {
            None => return Ok(()),
            Some(HttpPart::Head(head)) => {
                let response = response(&head, exchanges.next_kind())?;
                exchanges.response_head(&response, &head);
                credentials.responded(dialer, response.status, &head);
                decoder.set_body(response.follows);
            }
            Some(HttpPart::Body(bytes)) => exchanges.body(Stream::ToClient, bytes),
            Some(HttpPart::Framing(_)) => {}
            Some(HttpPart::End) => exchanges.body_end(Stream::ToClient),
        }
    }
}

const BAD_GATEWAY: &str = "502 Bad Gateway";

/// The size of the buffer for each direction of each connection.
const BUFFER_SIZE: usize = 32 * 1024;
