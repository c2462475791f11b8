//! The body of a request, read up to its limits: of length, of all bodies together, and of time.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use barewire_proto::http::{Rejection, RejectionRule};
use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use tokio::time::Sleep;

use super::counter::Counted;
use super::endpoint::Endpoint;

/// A body, which counts as long as it is needed.
pub(super) struct Received {
    pub(super) bytes: Bytes,
    _counted: Option<Counted>,
}

/// Reads a body.
pub(super) async fn receive<B>(
    mut body: Pin<&mut B>,
    headers: &HeaderMap,
    endpoint: &Endpoint,
) -> Result<Received, Rejection>
where
    B: http_body::Body,
    B::Error: fmt::Display,
{
    let limits = &endpoint.limits;
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > limits.body) {
        return Err(Rejection::too_long(limits.body));
    }
    // What is announced costs nothing: only what has come counts, unless it is short.
    let mut counted = None;
    // Only what does not come at once needs a clock.
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    let mut first: Option<Bytes> = None;
    let mut all = BytesMut::new();
    let read = poll_fn(|context| {
        loop {
            match body.as_mut().poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(mut data) = frame.into_data() else { continue };
                    let so_far = first.as_ref().map_or(0, Bytes::len) + all.len();
                    if so_far + data.remaining() > limits.body {
                        return Poll::Ready(Err(Rejection::too_long(limits.body)));
                    }
                    let long = so_far + data.remaining();
                    if long > SHORT && !endpoint.bodies.grow(&mut counted, long.next_multiple_of(SHORT)) {
                        let why = "This server has no room for another long body now: ask again later";
                        return Poll::Ready(Err(Rejection::new(RejectionRule::Busy, why)));
                    }
                    let data = data.copy_to_bytes(data.remaining());
                    match (&mut first, all.is_empty()) {
                        (none @ None, true) => *none = Some(data),
                        (some, _) => {
                            // A body in several pieces is put together.
                            if let Some(first) = some.take() {
                                all.extend_from_slice(&first);
                            }
                            all.extend_from_slice(&data);
                        }
                    }
                    if body.is_end_stream() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(error))) => {
                    let why = format!("The body broke off: {error}");
                    return Poll::Ready(Err(Rejection::new(RejectionRule::Broken, why)));
                }
                Poll::Pending => {
                    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limits.body_timeout)));
                    return timer.as_mut().poll(context).map(|()| {
                        let why = format!("The body did not come within {:?}", limits.body_timeout);
                        Err(Rejection::new(RejectionRule::TooSlow, why))
                    });
                }
            }
        }
    });
    read.await?;
    let bytes = first.unwrap_or_else(|| all.freeze());
    Ok(Received { bytes, _counted: counted })
}

/// So long a body is that is not worth counting: hardly more than its connection takes.
const SHORT: usize = 64 * 1024;
