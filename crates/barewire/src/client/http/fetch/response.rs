//! What a server answers, a chunk of its body after the other.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::error::FetchError;
use super::url::Url;

/// The head of an answer, and the stream of its body. Dropping it before its end closes the connection, and the server sees
/// that nobody listens any more.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Who answered, after redirects.
    pub(crate) url: Url,
    /// Whether that is the origin of the endpoint, and none but it was asked on the way.
    pub(crate) same_origin: bool,
    body: Incoming,
}

impl Response {
    pub(super) fn new(answer: http::Response<Incoming>, url: Url, same_origin: bool) -> Self {
        let (head, body) = answer.into_parts();
        Self { status: head.status, headers: head.headers, url, same_origin, body }
    }

    /// The next bytes of the body, never none of them; `None` at its end. How long to wait is the caller's to say; giving up
    /// loses nothing, so it can be in a `select!`.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| FetchError::of_exchange(&self.url.origin(), &error))?;
            // What is no data is trailers, which nothing here uses.
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// All of the body, which is at most `limit` bytes long.
    pub(crate) async fn bytes(&mut self, limit: usize) -> Result<Vec<u8>, FetchError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > limit {
                return Err(FetchError::TooLong { origin: self.url.origin().to_string(), limit });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// The beginning of the body, as text to be shown: at most `limit` bytes, what is no UTF-8 replaced. What came before the
    /// stream broke is good enough for that.
    pub(crate) async fn text_up_to(&mut self, limit: usize) -> String {
        let mut text = Vec::new();
        while text.len() < limit
            && let Ok(Some(chunk)) = self.chunk().await
        {
            text.extend_from_slice(&chunk[..chunk.len().min(limit - text.len())]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
