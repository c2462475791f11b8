//! Streams of the legacy era that are opened with GET: what a server tells unasked, and the rest of one that broke off.
//!
//! MCP 2025-11-25, basic/transports, "Listening for Messages from the Server" and "Resumability and Redelivery".

use barewire_proto::http::{ResponseKind, header};
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use tokio::time::sleep;

use super::carrier::{Carrier, Opened};
use super::events::{Events, Place};
use super::failure::HttpFailure;
use super::post::reading;

/// Listens as long as the connection lasts and the server lets us.
pub(super) async fn listen(carrier: &Carrier) {
    let mut place = Place::default();
    loop {
        let opened = open(carrier, &place).await;
        carrier.listens();
        match opened {
            Ok(Some(mut events)) => {
                while let Ok(Some(event)) = events.next().await {
                    match event {
                        Ok(event) if event.is_message() => carrier.deliver(event.data).await,
                        Ok(_) => {}
                        Err(error) => drop(carrier.skipped(&events.response, &error)),
                    }
                }
                events.leave(&mut place);
            }
            // MCP has servers that tell nothing unasked.
            Ok(None) | Err(HttpFailure::SessionGone { .. }) => return,
            Err(failure) if failure.is_passing() => place.failed(),
            Err(failure) => {
                let what = "what the server tells unasked is not heard";
                return carrier.log.report(format_args!("{what}: {failure}"));
            }
        }
        sleep(place.pause()).await;
    }
}

/// Takes up a stream that broke off, when the server wants that. `broken` is why it is needed, and why there is no answer if
/// it does not work.
pub(super) async fn resume(carrier: &Carrier, place: &mut Place, broken: HttpFailure) -> Result<Events, HttpFailure> {
    loop {
        sleep(place.pause()).await;
        match open(carrier, place).await {
            Ok(Some(events)) => return Ok(events),
            Err(failure) if failure.is_passing() && place.failures() < MOST_FAILURES => place.failed(),
            // Whether it was done is not known: that the session is over now does not mean that it was not.
            Ok(None) | Err(_) => return Err(broken),
        }
    }
}

/// Opens a stream, or its rest.
async fn open(carrier: &Carrier, place: &Place) -> Opened {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let in_session = carrier.in_session(&mut headers);
    if !place.id.is_empty()
        && let Ok(id) = HeaderValue::from_bytes(place.id.as_bytes())
    {
        headers.insert(header::LAST_EVENT_ID, id);
    }
    let mut response = carrier.fetch.send(Method::GET, carrier.fetch.url(), &headers, Bytes::new(), None).await?;
    match reading(&mut response, in_session).await {
        ResponseKind::Events => Ok(Some(Events::new(response, carrier.limit))),
        _ if response.status.as_u16() == 405 => Ok(None),
        reading => {
            if let ResponseKind::SessionGone = reading {
                carrier.leave();
            }
            Err(HttpFailure::in_answer(&response, reading))
        }
    }
}

/// So often in a row a stream may not be taken up before a call is given up: about a minute.
const MOST_FAILURES: u32 = 6;
