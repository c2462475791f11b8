//! Streams of the legacy era that are opened with GET: what a server tells unasked, and the rest of one that broke off.
//!
//! MCP 2025-11-25, basic/transports, "ListenHandle for Messages from the Server" and "Resumability and Redelivery".

use barewire_proto::http::{Reading, header};
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use tokio::time::sleep;

use super::connection::{GetStreamResult, HttpConnection};
use super::events::{EventStream, ResumePoint};
use super::failure::HttpFailure;
use super::post::classify;

/// Listens as long as the connection lasts and the server lets us.
pub(super) async fn listen(connection: &HttpConnection) {
    let mut point = ResumePoint::default();
    loop {
        let opened = open_stream(connection, &point).await;
        connection.get_stream_answered();
        match opened {
            Ok(Some(mut events)) => {
                while let Ok(Some(event)) = events.next().await {
                    match event {
                        Ok(event) if event.is_message() => connection.deliver(event.data).await,
                        Ok(_) => {}
                        Err(error) => drop(connection.report_skipped_event(&events.response, &error)),
                    }
                }
                events.save_position(&mut point);
            }
            // MCP has servers that tell nothing unasked.
            Ok(None) | Err(HttpFailure::SessionGone { .. }) => return,
            Err(failure) if failure.is_temporary() => point.record_failure(),
            Err(failure) => {
                let what = "what the server tells unasked is not heard";
                return connection.log.report(format_args!("{what}: {failure}"));
            }
        }
        sleep(point.pause()).await;
    }
}

/// Takes up a stream that broke off, when the server wants that. `broken` is why it is needed, and why there is no answer if
/// it does not work.
pub(super) async fn resume(
    connection: &HttpConnection,
    point: &mut ResumePoint,
    broken: HttpFailure,
) -> Result<EventStream, HttpFailure> {
    loop {
        sleep(point.pause()).await;
        match open_stream(connection, point).await {
            Ok(Some(events)) => return Ok(events),
            Err(failure) if failure.is_temporary() && point.failures() < MAX_RESUME_FAILURES => point.record_failure(),
            // Whether it was done is not known: that the session is over now does not mean that it was not.
            Ok(None) | Err(_) => return Err(broken),
        }
    }
}

/// Opens a stream, or its rest.
async fn open_stream(connection: &HttpConnection, point: &ResumePoint) -> GetStreamResult {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let in_session = connection.add_session_headers(&mut headers);
    if !point.id.is_empty()
        && let Ok(id) = HeaderValue::from_bytes(point.id.as_bytes())
    {
        headers.insert(header::LAST_EVENT_ID, id);
    }
    let mut response = connection.fetch.send(Method::GET, connection.fetch.url(), &headers, Bytes::new(), None).await?;
    match classify(&mut response, in_session).await {
        Reading::Events => Ok(Some(EventStream::new(response, connection.limit))),
        _ if response.status.as_u16() == 405 => Ok(None),
        reading => {
            if let Reading::SessionGone = reading {
                connection.end_session();
            }
            Err(HttpFailure::from_response(&response, reading))
        }
    }
}

/// So often in a row a stream may not be taken up before a call is given up: about a minute.
const MAX_RESUME_FAILURES: u32 = 6;
