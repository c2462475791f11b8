//! Reads the body of a request, within the limits for its length, for the total length of all bodies, and for the time
//! until it has arrived.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use barewire_proto::http::{Rejection, RejectionRule};
use bytes::{Buf, Bytes};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use tokio::time::Sleep;

use super::capacity::CapacityGuard;
use super::endpoint::HttpEndpoint;

/// The body of a request.
pub(super) struct ReceivedBody {
    pub(super) bytes: Bytes,
    /// Makes a long body count towards the limit for all bodies together, as long as its bytes or what was read from
    /// them is in memory.
    pub(super) guard: Option<CapacityGuard>,
}

/// Reads the body of a request, or returns the reason why the request is refused.
pub(super) async fn receive<B>(
    mut body: Pin<&mut B>,
    headers: &HeaderMap,
    endpoint: &HttpEndpoint,
) -> Result<ReceivedBody, Rejection>
where
    B: http_body::Body,
    B::Error: fmt::Display,
{
    let limits = &endpoint.limits;
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > limits.body) {
        return Err(Rejection::too_long(limits.body));
    }
    if length.is_some_and(|length| length > UNCOUNTED_BODY_BYTES && !endpoint.bodies.has_room(length)) {
        return Err(no_room());
    }
    // Counts a long body towards the limit for all bodies: the bytes that have arrived, not the announced length.
    let mut guard = None;
    // The timer is created only if the body has not arrived completely at the first poll.
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    let mut first: Option<Bytes> = None;
    let mut all = Vec::new();
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
                    if long > UNCOUNTED_BODY_BYTES
                        && !endpoint.bodies.grow_to(&mut guard, long.next_multiple_of(UNCOUNTED_BODY_BYTES))
                    {
                        return Poll::Ready(Err(no_room()));
                    }
                    let data = data.copy_to_bytes(data.remaining());
                    match (&mut first, all.is_empty()) {
                        (none @ None, true) => *none = Some(data),
                        (some, _) => {
                            if all.capacity() < long {
                                // Never more than the announced length, so that a complete body wastes no memory.
                                let announced = length.filter(|length| *length >= long);
                                let capacity = announced.map_or(long + long / 4, |announced| announced.min(2 * long));
                                all.reserve_exact(capacity - all.len());
                            }
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
                    let why = format!("The body ended early: {error}");
                    return Poll::Ready(Err(Rejection::new(RejectionRule::Broken, why)));
                }
                Poll::Pending => {
                    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limits.body_timeout)));
                    return timer.as_mut().poll(context).map(|()| {
                        let why = format!("The body did not arrive within {:?}", limits.body_timeout);
                        Err(Rejection::new(RejectionRule::TooSlow, why))
                    });
                }
            }
        }
    });
    read.await?;
    let bytes = first.unwrap_or_else(|| all.into());
    Ok(ReceivedBody { bytes, guard })
}

fn no_room() -> Rejection {
    let why = "This server has no room for another long body now: send the request again later";
    Rejection::new(RejectionRule::Busy, why)
}

/// Bodies up to this length do not count towards the limit for all bodies: they need hardly more memory than their
/// connection does.
const UNCOUNTED_BODY_BYTES: usize = 64 * 1024;
