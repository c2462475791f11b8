//! HTTP+SSE, the transport of 2024-11-05: one stream that all messages come on, and a URL that ours go to.

use std::time::Duration;

use barewire_proto::http::ResponseKind;
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use tokio::time::timeout;

use super::carrier::{Carrier, Task};
use super::events::Events;
use super::failure::{HttpFailure, origin};
use super::fetch::FetchError;
use super::post::reading;
use crate::peer::EndReason;

impl Carrier {
    /// Opens the stream, and waits until it says where messages are to be sent. From then on they are sent there.
    pub(super) async fn open_old(&self, patience: Option<Duration>) -> Result<(), HttpFailure> {
        let after = patience.map_or(PATIENCE, |patience| patience.min(PATIENCE));
        let late = |_| {
            let origin = self.fetch.url().origin().to_string();
            Err(FetchError::TimedOut { origin, after }.into())
        };
        timeout(after, self.find_old()).await.unwrap_or_else(late)
    }

    async fn find_old(&self) -> Result<(), HttpFailure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let url = self.fetch.url();
        let mut response = self.fetch.send(Method::GET, url, &headers, Bytes::new(), None).await?;
        match reading(&mut response, false).await {
            ResponseKind::Events => {}
            reading => return Err(HttpFailure::in_answer(&response, reading)),
        }
        let mut events = Events::new(response, self.limit);
        let home = url.origin();
        let wrong = |why: String| HttpFailure::Endpoint { origin: home.to_string(), why };
        let event = events.next().await?;
        let Some(Ok(event)) = event.filter(|event| event.as_ref().is_ok_and(|event| event.name == "endpoint")) else {
            return Err(wrong("its first event is no endpoint".to_owned()));
        };
        let to = std::str::from_utf8(&event.data).map_err(|_| wrong("its endpoint is no text".to_owned()))?;
        let to = events.response.url.join(to.trim()).map_err(|what| wrong(format!("its endpoint {what}")))?;
        // Whoever can write to the stream must not be able to send our messages, and what is in them, elsewhere.
        if to.origin() != home {
            return Err(wrong(format!("its endpoint is at another origin, {}", to.origin())));
        }
        if self.elsewhere.set(to).is_ok() {
            self.start(Task::Old(Box::new(events)));
        }
        Ok(())
    }
}

/// Listens until the stream ends, and with it the connection.
pub(super) async fn listen(carrier: &Carrier, mut events: Events) {
    let reason = loop {
        match events.next().await {
            Ok(Some(Ok(event))) if event.is_message() => carrier.deliver(event.data).await,
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => drop(carrier.skipped(&events.response, &error)),
            Ok(None) => break EndReason::Eof,
            Err(error) => {
                let why = format!("{} ({error})", origin(&events.response));
                break EndReason::Read(std::sync::Arc::new(std::io::Error::other(why)));
            }
        }
    };
    carrier.exchanges.end(reason);
}

/// How long the stream may take to begin, and its first event to come, at the most.
const PATIENCE: Duration = Duration::from_secs(30);
