//! Tests against servers and proxies on real sockets.

mod bodies;
mod credentials;
mod dial;
mod net;
#[cfg(feature = "oauth")]
mod plain;
mod proxies;
mod redirects;
mod tls;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};

use super::super::endpoint::Endpoint;
use super::{Fetch, FetchError, FetchResponse};

fn fetch(endpoint: &Endpoint) -> Fetch {
    Fetch::new(endpoint).unwrap()
}

/// Returns the headers that an MCP client sends with a message.
fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
    headers.insert("mcp-session-id", HeaderValue::from_static("session-1"));
    headers.insert("last-event-id", HeaderValue::from_static("event-1"));
    headers
}

async fn send(fetch: &Fetch, method: Method) -> Result<FetchResponse, FetchError> {
    let body = if method == Method::POST { Bytes::from_static(b"{\"jsonrpc\":\"2.0\"}") } else { Bytes::new() };
    fetch.send(method, fetch.url(), &headers(), body, Some(Duration::from_secs(20))).await
}

async fn post(fetch: &Fetch) -> Result<FetchResponse, FetchError> {
    send(fetch, Method::POST).await
}

async fn refused(fetch: &Fetch) -> FetchError {
    match post(fetch).await {
        Ok(response) => panic!("answered {}", response.status),
        Err(error) => error,
    }
}
