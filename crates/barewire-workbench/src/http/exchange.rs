//! Sends one HTTP request on its own connection, and reports its response as events.

use barewire::client::http::Dialer;
use barewire_proto::transcript::{CutReason, Framing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::Sender;

use super::decoder::{HttpDecoder, HttpPart};
use super::head::{BodyKind, RequestKind, response};

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

/// Sends the bytes of a request, and passes on the events of its response. The response is read no faster than its
/// events are received. If the receiver no longer exists, the events are dropped.
pub(crate) async fn exchange(
    dial: Dialer,
    bytes: Vec<u8>,
    kind: RequestKind,
    number: u64,
    sender: Sender<(u64, ExchangeEvent)>,
) {
    let events = EventSender { number, sender };
    let event = match carry(&dial, &bytes, kind, &events).await {
        Ok(()) => ExchangeEvent::End,
        Err(why) => ExchangeEvent::Broken(why),
    };
    events.send(event).await;
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

async fn carry(dial: &Dialer, bytes: &[u8], kind: RequestKind, events: &EventSender) -> Result<(), CutReason> {
    let wire = dial.connect().await.map_err(|error| CutReason::failed(error.to_string()))?;
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
                return if is_whole { Ok(()) } else { Err(closed) };
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
                    HttpPart::End if !is_informational => return Ok(()),
                    HttpPart::End | HttpPart::Framing(_) => {}
                }
            }
        }
    };
    tokio::select! {
        read = read => read,
        () = written => Ok(()),
    }
}

const READ_SIZE: usize = 32 * 1024;
/// The maximum length of a response: more than any response that is checked or replayed.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;
