//! Builds HTTP responses: with a JSON body, without a body, with a stream of events, or a refusal.

use barewire_proto::http::{Rejection, RejectionRule};
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::body::Body;
use super::metrics::{Outcome, RequestMeasure};
use super::sender::ExchangeLimit;

/// A response that refuses the request. Boxed, because a response is large, and most requests are not refused.
pub(super) type Refusal = Box<Response<Body>>;

/// Builds the response that refuses a request.
pub(super) fn refusal(rejection: Rejection) -> Refusal {
    let mut body = Vec::new();
    rejection.body(&mut body);
    let code = StatusCode::from_u16(rejection.status()).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = json_response(code, body.into());
    if let Some(allow) = rejection.allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    if rejection.rule == RejectionRule::Busy {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Box::new(response)
}

/// The rejection of `initialize` when there are as many sessions as the server may have.
pub(super) fn no_room_for_session() -> Rejection {
    Rejection::new(RejectionRule::Busy, "This server has no room for another session: end unused sessions with DELETE")
}

/// Builds the response that refuses a request for which there is no room.
pub(super) fn too_many_exchanges(limit: ExchangeLimit) -> Refusal {
    refusal(Rejection::new(RejectionRule::Busy, limit.reason()))
}

/// The rejection of a request for a stream that cannot be resumed.
pub(super) fn event_gone() -> Rejection {
    let why = "Last-Event-ID is unknown, or the events after it are no longer stored: send the request again";
    Rejection::new(RejectionRule::EventGone, why)
}

pub(super) fn json_response(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn empty_response(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Returns the response to a message that is not answered.
pub(super) fn accepted(measure: &mut RequestMeasure) -> Response<Body> {
    measure.set_outcome(Outcome::Accepted);
    empty_response(StatusCode::ACCEPTED)
}

pub(super) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Tells proxies not to buffer the stream: MCP 2026-07-28, basic/transports/streamable-http, "Receiving Messages".
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
