//! A URL of the issuer -> its JSON document, within limits of size and time, and without redirects.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

use crate::client::http::Endpoint;
use crate::client::http::fetch::{Fetch, FetchError, HttpUrl};

/// Sends requests to one URL of the issuer. Connections are kept.
pub(super) struct IssuerDocument {
    fetch: Fetch,
    url: HttpUrl,
}

/// The reason why there is no document.
#[derive(Debug)]
pub(super) enum NoDocument {
    /// The response has another status than 200.
    Status(StatusCode),
    /// The request failed.
    Failed(String),
}

impl IssuerDocument {
    /// Checks the URL. `roots` are certificates in PEM format that are trusted besides those of the platform.
    pub(super) fn new(url: &str, roots: &[Vec<u8>]) -> Result<Self, FetchError> {
        let endpoint = roots.iter().fold(Endpoint::new(url), |endpoint, pem| endpoint.trust_pem(pem.clone()));
        Ok(Self { fetch: Fetch::new(&endpoint)?, url: HttpUrl::parse(url)? })
    }

    /// Gets the document.
    pub(super) async fn get(&self) -> Result<Vec<u8>, NoDocument> {
        self.send(Method::GET, HeaderMap::new(), Bytes::new()).await
    }

    /// Posts a form, and returns the document in the response.
    pub(super) async fn post(&self, form: String, authorization: HeaderValue) -> Result<Vec<u8>, NoDocument> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(AUTHORIZATION, authorization);
        self.send(Method::POST, headers, form.into()).await
    }

    async fn send(&self, method: Method, mut headers: HeaderMap, body: Bytes) -> Result<Vec<u8>, NoDocument> {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let failed = |error: FetchError| NoDocument::Failed(error.to_string());
        let exchange = async {
            let mut response =
                self.fetch.send_without_redirects(method, &self.url, &headers, body).await.map_err(failed)?;
            if response.status != StatusCode::OK {
                return Err(NoDocument::Status(response.status));
            }
            response.bytes(MAX_DOCUMENT_BYTES).await.map_err(failed)
        };
        let late = |_| Err(NoDocument::Failed(format!("no answer within {DOCUMENT_TIMEOUT:?}")));
        tokio::time::timeout(DOCUMENT_TIMEOUT, exchange).await.unwrap_or_else(late)
    }
}

impl std::fmt::Display for NoDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(status) if status.is_redirection() => {
                write!(f, "the response has the status {status}: redirects are not followed")
            }
            Self::Status(status) => write!(f, "the response has the status {status}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// The maximum length of a document. Sets of keys with certificates have 20 KiB, metadata has 5 KiB.
const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The time for a whole exchange with the issuer. A request of a client waits for it when its token cannot be checked
/// otherwise.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);
