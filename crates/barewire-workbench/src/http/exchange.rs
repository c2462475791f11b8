//! One exchange on a connection of its own: bytes to the server, and what comes back, as it comes.

use barewire::client::http::Dialer;
use barewire_proto::transcript::{CutReason, Framing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedSender;

use super::decoder::{HttpDecoder, HttpPart};
use super::head::{Body, Kind, response};

/// A part of a response, as it comes.
pub(crate) enum ExchangeEvent {
    /// The head of the response.
    Head {
        /// Its lines as they came.
        bytes: Vec<u8>,
        /// The framing of the messages in the body, if there are any that can be read.
        framing: Option<Framing>,
        /// Its status code.
        status: u16,
    },
    /// The body that follows cannot be read: it has this `Content-Encoding`.
    Encoded(String),
    /// A piece of the body.
    Body(Vec<u8>),
    /// The response is complete.
    End,
    /// There is no response, or not all of it, for this reason.
    Broken(CutReason),
}

/// Sends the bytes of a request, and tells what comes of it.
pub(crate) async fn exchange(
    dial: Dialer,
    bytes: Vec<u8>,
    kind: Kind,
    number: u64,
    sender: UnboundedSender<(u64, ExchangeEvent)>,
) {
    let event = match carry(&dial, &bytes, kind, number, &sender).await {
        Ok(()) => ExchangeEvent::End,
        Err(why) => ExchangeEvent::Broken(why),
    };
    // The receiver is gone when the run is over.
    let _ = sender.send((number, event));
}

async fn carry(
    dial: &Dialer,
    bytes: &[u8],
    kind: Kind,
    number: u64,
    sender: &UnboundedSender<(u64, ExchangeEvent)>,
) -> Result<(), CutReason> {
    let wire = dial.connect().await.map_err(|error| CutReason::failed(error.to_string()))?;
    let (mut from, mut to) = tokio::io::split(wire);
    // A server may refuse a request before it has read all of it: then what it says is still there.
    let written = async {
        let _ = to.write_all(bytes).await;
        let _ = to.flush().await;
        std::future::pending::<()>().await;
    };
    let read = async {
        let mut messages = HttpDecoder::new();
        let mut buffer = vec![0; CHUNK];
        let mut is_informational = false;
        let mut length = 0_usize;
        loop {
            let count = match from.read(&mut buffer).await {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
                Err(error) => return Err(CutReason::failed(format!("the connection broke: {error}"))),
            };
            if count == 0 {
                let is_whole = messages.may_end() && !messages.is_between();
                let closed = CutReason::ServerClosed { error: None, told: None };
                return if is_whole { Ok(()) } else { Err(closed) };
            }
            let mut input = &buffer[..count];
            while let Some(part) = messages.next(&mut input).map_err(|broken| CutReason::failed(broken.why()))? {
                match part {
                    HttpPart::Head(head) => {
                        let answers = response(&head, kind).map_err(CutReason::failed)?;
                        is_informational = (100..=199).contains(&answers.status);
                        messages.set_body(answers.follows);
                        let (framing, coding) = match answers.body {
                            Body::Read(framing) if answers.follows.is_body() => (Some(framing), None),
                            Body::Read(_) => (None, None),
                            Body::Encoded(coding) => (None, Some(coding)),
                        };
                        if !is_informational {
                            let (bytes, status) = (head, answers.status);
                            let _ = sender.send((number, ExchangeEvent::Head { bytes, framing, status }));
                            if let Some(coding) = coding {
                                let _ = sender.send((number, ExchangeEvent::Encoded(coding)));
                            }
                        }
                    }
                    HttpPart::Body(bytes) => {
                        length += bytes.len();
                        if length > MAX_RESPONSE {
                            return Err(CutReason::failed("the response is too long"));
                        }
                        let _ = sender.send((number, ExchangeEvent::Body(bytes.to_vec())));
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

const CHUNK: usize = 32 * 1024;
/// More than any answer that is looked at here.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;
