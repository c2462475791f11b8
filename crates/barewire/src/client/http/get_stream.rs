//! Streams of the legacy era that are opened with GET: the stream for unsolicited messages, and the continuation of a
//! stream that broke off.
//!
//! MCP 2025-11-25, basic/transports, "Listening for Messages from the Server" and "Resumability and Redelivery".

use barewire_proto::http::{ResponseKind, header};
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use tokio::time::sleep;

use super::connection::{GetStreamResult, HttpConnection};
use super::events::{EventStream, ResumePoint};
use super::failure::HttpFailure;
use super::post::classify;

/// Reads unsolicited messages as long as the connection lasts and the server offers the stream.
pub(super) async fn read_messages(connection: &HttpConnection) {
    let mut point = ResumePoint::default();
    loop {
        let opened = open_stream(connection, &point).await;
        connection.mark_get_stream_answered();
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
            // The server offers no stream for unsolicited messages, which is allowed, or the session has ended.
            Ok(None) | Err(HttpFailure::SessionGone { .. }) => return,
            Err(failure) if failure.is_temporary() => point.record_failure(),
            Err(failure) => {
                let what = "unsolicited messages of the server are not received";
                return connection.log.report(format_args!("{what}: {failure}"));
            }
        }
        sleep(point.pause()).await;
    }
}

/// Resumes a stream that broke off, after the pause that the server has requested. If the stream cannot be resumed,
/// returns `broken`, the reason why it broke off.
pub(super) async fn resume(
    connection: &HttpConnection,
    point: &mut ResumePoint,
    broken: HttpFailure,
) -> Result<EventStream, HttpFailure> {
    loop {
        sleep(point.pause()).await;
        match open_stream(connection, point).await {
            Ok(Some(events)) => return Ok(events),
            Err(failure) if failure.is_temporary() && point.may_try_again() => point.record_failure(),
            // The outcome of the call is unknown. Even if the session has ended now, the server might have carried out
            // the call before that.
            Ok(None) | Err(_) => return Err(broken),
        }
    }
}

/// Opens the stream for unsolicited messages, or resumes a stream after the last event of `point`.
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
        ResponseKind::Events => Ok(Some(EventStream::new(response, connection.limit))),
        _ if response.status.as_u16() == 405 => Ok(None),
        reading => {
            if let ResponseKind::SessionGone = reading {
                connection.end_session();
            }
            Err(HttpFailure::from_response(&response, reading))
        }
    }
}
