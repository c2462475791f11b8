//! A response whose body is read chunk by chunk.

use std::net::IpAddr;

use barewire_proto::auth::SecretText;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::connect::RemoteAddress;
use super::error::FetchError;
use super::url::HttpUrl;

/// The status and headers of a response, and its body as a stream. Dropping the response before the end of the body
/// closes the connection, so the server notices that the client has stopped reading.
pub(crate) struct FetchResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The URL that responded, after redirects.
    pub(crate) url: HttpUrl,
    /// Whether the endpoint's origin responded and no redirect led through another origin.
    pub(crate) same_origin: bool,
    /// The address that responded, if there was no proxy.
    #[cfg_attr(not(feature = "oauth"), allow(dead_code, reason = "only a sign-in needs the address"))]
    pub(crate) address: Option<IpAddr>,
    /// The secrets that the request had.
    secrets: Vec<SecretText>,
    body: Incoming,
}

impl FetchResponse {
    pub(super) fn new(answer: http::Response<Incoming>, url: HttpUrl, same_origin: bool) -> Self {
        let (head, body) = answer.into_parts();
        let address = head.extensions.get::<RemoteAddress>().map(|address| address.0);
        let (status, headers) = (head.status, head.headers);
        Self { status, headers, url, same_origin, address, secrets: Vec::new(), body }
    }

    /// Remembers the secrets that the request had.
    pub(super) fn with_secrets(self, secrets: Vec<SecretText>) -> Self {
        Self { secrets, ..self }
    }

    /// Returns a text of the server without the secrets of the request, which the server may have repeated.
    pub(crate) fn without_secrets(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.hide_in(&text))
    }

    /// Returns the next bytes of the body, never an empty chunk; `None` at the end of the body. Has no timeout. This
    /// function is cancel safe, so it can be used in `select!`.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, FetchError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| FetchError::of_exchange(&self.url.origin(), &error))?;
            // A frame without data holds trailers, which are ignored.
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads the whole body. A body longer than `limit` bytes is an error.
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

    /// Reads up to `limit` bytes of the body as text for an error message, without the secrets of the request. Invalid
    /// UTF-8 is replaced. If the stream breaks off, the text up to that point is returned.
    pub(crate) async fn text_up_to(&mut self, limit: usize) -> String {
        let mut text = Vec::new();
        while text.len() < limit
            && let Ok(Some(chunk)) = self.chunk().await
        {
            text.extend_from_slice(&chunk[..chunk.len().min(limit - text.len())]);
        }
        self.without_secrets(&String::from_utf8_lossy(&text))
    }
}
