//! The head of a request -> its sender, or the refusal with the challenge that leads the sender to a token.

use barewire_proto::http::{Rejection, RejectionRule};
use barewire_proto::rpc::{Message, Parsed};
use http::header::WWW_AUTHENTICATE;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, StatusCode, Uri};

use super::auth::AddedHeaders;
use super::endpoint::HttpEndpoint;
use super::response::{Refusal, refusal};
use super::{AuthError, Principal, RequestHead};

/// Identifies the sender of a request. Returns `None` if the server has no authentication. `response` takes what the
/// response must have besides.
pub(super) async fn authenticate(
    endpoint: &HttpEndpoint,
    head: &http::request::Parts,
    response: &AddedHeaders,
) -> Result<Option<Principal>, Refusal> {
    let Some(authenticate) = &endpoint.authenticate else { return Ok(None) };
    let uri = absolute_uri(&head.uri, &head.headers, endpoint.scheme);
    let request_head = RequestHead { method: &head.method, uri: &uri, headers: &head.headers, response };
    match authenticate.authenticate(&request_head).await {
        Ok(principal) => Ok(Some(principal)),
        Err(error) => Err(auth_refusal(endpoint, &error, None)),
    }
}

/// Returns the refusal of a request. `parsed` is its message, if the body has been read.
pub(super) fn auth_refusal(endpoint: &HttpEndpoint, error: &AuthError, parsed: Option<&Parsed<'_>>) -> Refusal {
    let rule = match error.status {
        StatusCode::FORBIDDEN => RejectionRule::Forbidden,
        StatusCode::SERVICE_UNAVAILABLE => RejectionRule::Busy,
        _ => RejectionRule::Unauthorized,
    };
    let rejection = Rejection::new(rule, error.what.clone());
    let rejection = match parsed {
        Some(parsed) => answering(rejection, parsed),
        None => rejection,
    };
    let mut response = refusal(rejection);
    *response.status_mut() = error.status;
    let url = endpoint.metadata.as_ref().map(|metadata| metadata.url.as_str());
    for challenge in error.www_authenticate(url) {
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
    for (name, value) in &error.headers {
        response.headers_mut().insert(name, value.clone());
    }
    response
}

/// Returns the URI of a request with scheme and host, taken from `scheme` and the `Host` header if the URI has no host.
fn absolute_uri(uri: &Uri, headers: &HeaderMap, scheme: &str) -> Uri {
    if uri.authority().is_some() {
        return uri.clone();
    }
    let host = headers.get(http::header::HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if scheme == "https" { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = host;
    // The path is shared, not copied.
    parts.path_and_query = uri.path_and_query().cloned().or(Some(PathAndQuery::from_static("/")));
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// Adds the id of the request, if the message is a request, to its rejection.
pub(super) fn answering(rejection: Rejection, parsed: &Parsed<'_>) -> Rejection {
    match parsed {
        Parsed::Message(Message::Request(request)) => rejection.answering(&request.id),
        _ => rejection,
    }
}
