//! Sends one HTTP request on its own connection, and reports its response as events.

use std::sync::Arc;

use barewire::client::http::Secret;
use barewire_proto::transcript::{CutReason, Framing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::Sender;

use super::decoder::{HttpDecoder, HttpPart};
use super::head::{BodyKind, response};
use super::request::HttpRequest;
use super::session::{HttpTarget, headers};

pub(crate) enum ExchangeEvent {
    Head {
        bytes: Vec<u8>,
        /// The framing of the messages in the body, if it has messages that can be read.
        framing: Option<Framing>,
        status: u16,
    },
    /// The body cannot be read because it has this `Content-Encoding`.
    Encoded(String),
    Body(Vec<u8>),
    End,
    /// The response is missing or incomplete, for this reason.
    Broken(CutReason),
}

/// Sends a request with this head, and passes on the events of its response. The response is read no faster than its
/// events are received. If the receiver no longer exists, the events are dropped.
pub(crate) async fn exchange(
    target: Arc<HttpTarget>,
    request: HttpRequest,
    head: Vec<String>,
    number: u64,
    sender: Sender<(u64, ExchangeEvent)>,
) {
    let events = EventSender { number, sender };
    let event = match send(&target, &request, &head, &events).await {
        Ok(()) => ExchangeEvent::End,
        Err(why) => ExchangeEvent::Broken(why),
    };
    events.send(event).await;
}

/// Sends a request with the credentials of the target's sign-in. Sends it once more if they need another nonce, and once
/// more if the token was refused and could be renewed.
async fn send(
    target: &HttpTarget,
    request: &HttpRequest,
    head: &[String],
    events: &EventSender,
) -> Result<(), CutReason> {
    let mut may = MayRepeat { for_nonce: true, for_token: true };
    loop {
        let authorization = target.dialer.authorization(request.verb).await;
        let authorization = authorization.map_err(|error| CutReason::failed(error.to_string()))?;
        let mut along = target.headers.clone();
        along.extend(authorization.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
        let bytes = request.bytes(head.to_vec(), &along, &target.dialer);
        match carry(target, &bytes, request, (may, &authorization), events).await? {
            Carried::Response => return Ok(()),
            Carried::NonceRequired => may.for_nonce = false,
            Carried::TokenRenewed => may.for_token = false,
        }
    }
}

/// The reasons for which a request may be sent once more.
#[derive(Clone, Copy)]
struct MayRepeat {
    for_nonce: bool,
    for_token: bool,
}

/// The end of an exchange that did not break.
enum Carried {
    /// The events of the response were sent.
    Response,
    /// The server requires another nonce. No event was sent.
    NonceRequired,
    /// The server has refused the token, and there is a new one. No event was sent.
    TokenRenewed,
}

/// Passes on the events of one exchange.
struct EventSender {
    number: u64,
    sender: Sender<(u64, ExchangeEvent)>,
}

impl EventSender {
    async fn send(&self, event: ExchangeEvent) {
        let _ = self.sender.send((self.number, event)).await;
    }
}

async fn carry(
    target: &HttpTarget,
    bytes: &[u8],
    request: &HttpRequest,
    (may, sent): (MayRepeat, &[(String, Secret)]),
    events: &EventSender,
) -> Result<Carried, CutReason> {
    let kind = request.kind();
    let wire = target.dialer.connect().await.map_err(|error| CutReason::failed(error.to_string()))?;
    let (mut from, mut to) = tokio::io::split(wire);
    // A server may respond before it has read the whole request, so a failed write is ignored.
    let written = async {
        let _ = to.write_all(bytes).await;
        let _ = to.flush().await;
        std::future::pending::<()>().await;
    };
    let read = async {
        let mut decoder = HttpDecoder::new();
        let mut buffer = vec![0; READ_SIZE];
        let mut is_informational = false;
        let mut length = 0_usize;
        loop {
            let count = match from.read(&mut buffer).await {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(CutReason::failed(format!("the connection broke: {error}"))),
            };
            if count == 0 {
                let is_whole = decoder.may_end() && !decoder.is_between();
                let closed = CutReason::ServerClosed { error: None, client_status: None };
                return if is_whole { Ok(Carried::Response) } else { Err(closed) };
            }
            let mut input = &buffer[..count];
            while let Some(part) = decoder.next(&mut input).map_err(|broken| CutReason::failed(broken.why()))? {
                match part {
                    HttpPart::Head(head) => {
                        let response_head = response(&head, kind).map_err(CutReason::failed)?;
                        is_informational = (100..=199).contains(&response_head.status);
                        decoder.set_body(response_head.follows);
                        let (framing, coding) = match response_head.body {
                            BodyKind::Readable(framing) if response_head.follows.is_body() => (Some(framing), None),
                            BodyKind::Readable(_) => (None, None),
                            BodyKind::Encoded(coding) => (None, Some(coding)),
                        };
                        if !is_informational {
                            if target.dialer.responded(response_head.status, headers(&head)) {
                                if may.for_nonce {
                                    return Ok(Carried::NonceRequired);
                                }
                            } else if response_head.status == UNAUTHORIZED
                                && may.for_token
                                && target.dialer.renew(sent, headers(&head)).await
                            {
                                return Ok(Carried::TokenRenewed);
                            }
                            let (bytes, status) = (head, response_head.status);
                            events.send(ExchangeEvent::Head { bytes, framing, status }).await;
                            if let Some(coding) = coding {
                                events.send(ExchangeEvent::Encoded(coding)).await;
                            }
                        }
                    }
                    HttpPart::Body(bytes) => {
                        length += bytes.len();
                        if length > MAX_RESPONSE {
                            return Err(CutReason::failed("the response is too long"));
                        }
                        events.send(ExchangeEvent::Body(bytes.to_vec())).await;
                    }
                    HttpPart::End if !is_informational => return Ok(Carried::Response),
                    HttpPart::End | HttpPart::Framing(_) => {}
                }
            }
        }
    };
    tokio::select! {
        read = read => read,
        () = written => Ok(Carried::Response),
    }
}

const READ_SIZE: usize = 32 * 1024;

const UNAUTHORIZED: u16 = 401;

/// The maximum length of a response: more than any response that is checked or replayed.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;
