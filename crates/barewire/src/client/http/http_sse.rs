//! HTTP+SSE, the transport of 2024-11-05: one stream for all messages of the server, and a separate URL for the
//! client's messages.

use std::time::Duration;

use barewire_proto::http::ResponseKind;
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use tokio::time::timeout;

use super::connection::{BackgroundTask, HttpConnection};
use super::events::EventStream;
use super::failure::{HttpFailure, origin};
use super::fetch::FetchError;
use super::post::classify;
use crate::peer::EndReason;

impl HttpConnection {
    /// Opens the SSE stream and waits for its first event, which holds the URL for messages. After that, messages are
    /// sent to that URL.
    pub(super) async fn open_http_sse(&self, call_timeout: Option<Duration>) -> Result<(), HttpFailure> {
        let after = call_timeout.map_or(MAX_OPEN_TIME, |timeout| timeout.min(MAX_OPEN_TIME));
        let late = |_| {
            let origin = self.fetch.url().origin().to_string();
            Err(FetchError::TimedOut { origin, after }.into())
        };
        timeout(after, self.connect_http_sse()).await.unwrap_or_else(late)
    }

    async fn connect_http_sse(&self) -> Result<(), HttpFailure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let url = self.fetch.url();
        let mut response = self.fetch.send(Method::GET, url, &headers, Bytes::new(), None).await?;
        match classify(&mut response, false).await {
            ResponseKind::Events => {}
            reading => return Err(HttpFailure::from_response(&response, reading)),
        }
        let mut events = EventStream::new(response, self.limit);
        let endpoint_origin = url.origin();
        let bad_endpoint = |why: String| HttpFailure::Endpoint { origin: endpoint_origin.to_string(), why };
        let event = events.next().await?;
        let Some(Ok(event)) = event.filter(|event| event.as_ref().is_ok_and(|event| event.name == "endpoint")) else {
            return Err(bad_endpoint("its first event is not `endpoint`".to_owned()));
        };
        let to =
            std::str::from_utf8(&event.data).map_err(|_| bad_endpoint("its endpoint is not UTF-8 text".to_owned()))?;
        let to = events.response.url.join(to.trim()).map_err(|what| bad_endpoint(format!("its endpoint {what}")))?;
        // An attacker who can write to the stream must not be able to redirect the client's messages to another server.
        if to.origin() != endpoint_origin {
            return Err(bad_endpoint(format!("its endpoint is at another origin, {}", to.origin())));
        }
        if self.message_url.set(to).is_ok() {
            self.start(BackgroundTask::HttpSse(Box::new(events)));
        }
        Ok(())
    }
}

/// Reads the messages of the stream. The end of the stream ends the connection.
pub(super) async fn read_messages(connection: &HttpConnection, mut events: EventStream) {
    let reason = loop {
        match events.next().await {
            Ok(Some(Ok(event))) if event.is_message() => connection.deliver(event.data).await,
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => drop(connection.report_skipped_event(&events.response, &error)),
            Ok(None) => break EndReason::Eof,
            Err(error) => {
                let why = format!("{} ({error})", origin(&events.response));
                break EndReason::Read(std::sync::Arc::new(std::io::Error::other(why)));
            }
        }
    };
    connection.exchanges.end(reason);
}

/// The maximum time to wait until the SSE stream is open and its first event has arrived.
const MAX_OPEN_TIME: Duration = Duration::from_secs(30);
