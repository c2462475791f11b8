//! Answers an HTTP request: checks the head, identifies the sender, and serves the request by its method.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use barewire_proto::http::{Rejection, Verb, admit};
use barewire_proto::mcp::Era;
use http::{Request, Response, StatusCode};

use super::Principal;
use super::auth::AddedHeaders;
use super::body::Body;
use super::endpoint::HttpEndpoint;
use super::get::open_stream;
use super::identify::{auth_refusal, authenticate};
use super::metrics::{Outcome, RequestMeasure};
use super::monitoring::{self, MonitoringRequest};
use super::post::post;
use super::readiness::NotReady;
use super::response::{Refusal, empty_response, json_response, refusal};
use super::scopes;
use super::sender::Sender;
use super::session::SessionUse;
use crate::headers::{HeaderMapView, hide_secrets};

/// A server as a [tower service](tower_service::Service), to be mounted in axum, hyper or any other HTTP server that
/// accepts tower services.
///
/// The service answers at the path where it is mounted. Clones share the same server and sessions.
#[derive(Clone)]
pub struct HttpService(pub(super) Arc<HttpEndpoint>);

/// The future of a response.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl HttpService {
    /// Shuts the service down: it accepts no new requests, ends streams after their final messages, and lets running
    /// requests finish. With a [`HttpListener`](super::HttpListener), use its [`StopHandle`](super::StopHandle)
    /// instead.
    pub fn close(&self) {
        self.0.close();
    }

    /// Makes [`/readyz`](super::HttpBuilder::health) answer 503, and nothing else: see
    /// [`StopHandle::drain`](super::StopHandle::drain).
    pub fn drain(&self) {
        self.0.readiness.set(NotReady::Draining, true);
    }

    /// Answers a request. `from` is the sender, unless the request is authenticated.
    pub(super) fn respond<B>(&self, request: Request<B>, from: Arc<Sender>) -> ResponseFuture
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let endpoint = Arc::clone(&self.0);
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            hide_secrets(&mut head.headers);
            if let Some(request) = endpoint.monitoring.at(head.uri.path()) {
                return Ok(monitor(&endpoint, &head, request).await.unwrap_or_else(|refusal| *refusal));
            }
            let body = std::pin::pin!(body);
            let mut measure = RequestMeasure::begin(endpoint.monitoring.metrics());
            let added = AddedHeaders::default();
            let mut response = respond(&endpoint, &head, body, from, &mut measure, &added).await;
            if measure.is_on() {
                end_measure(measure, &mut response);
            }
            let mut response = response.unwrap_or_else(|refusal| *refusal);
            added.add_to(response.headers_mut());
            Ok(response)
        })
    }
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let from = self.0.senders.at(request.extensions().get().copied());
        self.respond(request, from)
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpService")
    }
}

async fn respond<B>(
    endpoint: &Arc<HttpEndpoint>,
    head: &http::request::Parts,
    body: Pin<&mut B>,
    from: Arc<Sender>,
    measure: &mut RequestMeasure,
    added: &AddedHeaders,
) -> Result<Response<Body>, Refusal>
where
    B: http_body::Body,
    B::Error: fmt::Display,
{
    let headers = HeaderMapView(&head.headers);
    let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    if let Some(metadata) = &endpoint.metadata
        && head.method == http::Method::GET
        && metadata.is_at(head.uri.path())
    {
        endpoint.access.check(target, &headers).map_err(refusal)?;
        measure.set_outcome(Outcome::Accepted);
        return Ok(json_response(StatusCode::OK, metadata.json.clone()));
    }
    let verb = admit(head.method.as_str(), target, &headers, &endpoint.access, endpoint.supported());
    let verb = verb.map_err(refusal)?;
    let principal = authenticate(endpoint, head, added).await?;
    let sender = principal.as_ref().map_or(from, |principal| endpoint.senders.principal(principal));
    match verb {
        Verb::Post => post(endpoint, &headers, body, principal, &sender, measure).await,
        Verb::Get { session, last_event_id } => {
            measure.set_era(Era::Legacy);
            scopes::check_base(endpoint, principal.as_ref()).map_err(|error| auth_refusal(endpoint, &error, None))?;
            let session = find_session(endpoint, session, principal.as_ref(), &sender).await?;
            let stream = open_stream(endpoint, session.session(), last_event_id, &sender).await?;
            measure.set_outcome(Outcome::Accepted);
            Ok(stream)
        }
        Verb::Delete { session } => {
            measure.set_era(Era::Legacy);
            let session = find_session(endpoint, session, principal.as_ref(), &sender).await?;
            match &endpoint.cluster {
                Some(node) => node.end(endpoint, session.session()).await.map_err(refusal)?,
                None => endpoint.sessions.end(session.session()),
            }
            measure.set_outcome(Outcome::Accepted);
            Ok(empty_response(StatusCode::OK))
        }
    }
}

/// Ends the measurement of a request, or moves it into the stream that is the response.
fn end_measure(mut measure: RequestMeasure, response: &mut Result<Response<Body>, Refusal>) {
    match response {
        Ok(response) if response.body().is_stream() => response.body_mut().measured(measure.into_stream()),
        Ok(_) => {}
        Err(refusal) if refusal.status().is_server_error() => measure.set_outcome(Outcome::Unavailable),
        Err(_) => measure.set_outcome(Outcome::Refused),
    }
}

/// Answers a request for health or metrics. Health is told to anybody: a load balancer sends a `Host` of its own and no
/// token, and learns only whether the server is up, which every connection shows.
async fn monitor(
    endpoint: &HttpEndpoint,
    head: &http::request::Parts,
    request: MonitoringRequest<'_>,
) -> Result<Response<Body>, Refusal> {
    if let MonitoringRequest::Metrics(_) = request {
        let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        endpoint.access.check(target, &HeaderMapView(&head.headers)).map_err(refusal)?;
        let principal = authenticate(endpoint, head, &AddedHeaders::default()).await?;
        scopes::check_base(endpoint, principal.as_ref()).map_err(|error| auth_refusal(endpoint, &error, None))?;
    }
    monitoring::check_method(&head.method)?;
    Ok(monitoring::respond(request, endpoint))
}

/// Returns the session with this id, marked as in use. A node of a cluster takes it from the store in its latest state.
async fn find_session(
    endpoint: &Arc<HttpEndpoint>,
    id: &str,
    principal: Option<&Principal>,
    sender: &Arc<Sender>,
) -> Result<SessionUse, Refusal> {
    let Some(node) = &endpoint.cluster else {
        return endpoint.sessions.find(id, principal).ok_or_else(|| refusal(Rejection::session_gone()));
    };
    node.prepare(endpoint).await.map_err(refusal)?;
    node.enter(endpoint, id, principal, sender).await.map_err(refusal)
}
