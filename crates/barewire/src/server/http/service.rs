//! Answers an HTTP request in five steps: check the head, authenticate the sender, read the body, plan how to serve the
//! message, serve it.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use barewire_proto::http::{EventId, Plan, Rejection, RejectionRule, Verb, admit, header as mcp, mirror, plan, single};
use barewire_proto::mcp::{ParsedMessage, Revision, code};
use barewire_proto::rpc::{Code, Message, Parsed};
use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri};

use super::body::Body;
use super::capacity::CapacityGuard;
use super::endpoint::HttpEndpoint;
use super::mailbox::{Mailbox, MailboxMessage, ResponseStart};
use super::receive::ReceivedBody;
use super::response::{Refusal, empty_response, event_stream, json_response, refusal};
use super::sender::{ExchangeGuard, ExchangeLimit, Sender};
use super::session::{self, ExpectedResponse, Session, SessionEvents, SessionUse};
use super::standalone::{self, StandaloneEvents, StandaloneResponse, StandaloneStart};
use super::{AuthError, HttpCaller, Principal, RequestHead, receive};
use crate::headers::HeaderMapView;
use crate::peer::MessageKind;

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

    /// Answers a request. `from` is the sender, unless the request is authenticated.
    pub(super) fn respond<B>(&self, request: Request<B>, from: Arc<Sender>) -> ResponseFuture
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let endpoint = Arc::clone(&self.0);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = std::pin::pin!(body);
            Ok(respond(&endpoint, &head, body, from).await.unwrap_or_else(|refusal| *refusal))
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
        return Ok(json_response(StatusCode::OK, metadata.json.clone()));
    }
    let verb = admit(head.method.as_str(), target, &headers, &endpoint.access, endpoint.supported());
    let verb = verb.map_err(refusal)?;
    let principal = authenticate(endpoint, head).await?;
    let sender = principal.as_ref().map_or(from, |principal| endpoint.senders.principal(principal));
    match verb {
        Verb::Post => post(endpoint, &headers, body, principal, &sender).await,
        Verb::Get { session, last_event_id } => {
            let session = find_session(endpoint, session, principal.as_ref())?;
            open_stream(endpoint, session.session(), last_event_id, &sender).await
        }
        Verb::Delete { session } => {
            let session = find_session(endpoint, session, principal.as_ref())?;
            endpoint.sessions.end(session.session());
            Ok(empty_response(StatusCode::OK))
        }
    }
}

/// Identifies the sender of a request. Returns `None` if the server has no authentication.
async fn authenticate(endpoint: &HttpEndpoint, head: &http::request::Parts) -> Result<Option<Principal>, Refusal> {
    let Some(authenticate) = &endpoint.authenticate else { return Ok(None) };
    let uri = absolute_uri(&head.uri, &head.headers, endpoint.scheme);
    let request_head = RequestHead { method: &head.method, uri: &uri, headers: &head.headers };
    match authenticate.authenticate(&request_head).await {
        Ok(principal) => Ok(Some(principal)),
        Err(error) => Err(auth_refusal(endpoint, &error)),
    }
}

fn auth_refusal(endpoint: &HttpEndpoint, error: &AuthError) -> Refusal {
    let rule =
        if error.status == StatusCode::FORBIDDEN { RejectionRule::Forbidden } else { RejectionRule::Unauthorized };
    let mut response = refusal(Rejection::new(rule, error.what.clone()));
    *response.status_mut() = error.status;
    let url = endpoint.metadata.as_ref().map(|metadata| metadata.url.as_str());
    for challenge in error.www_authenticate(url) {
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Returns the URI of a request with scheme and host, taken from `scheme` and the `Host` header if the URI has no host.
fn absolute_uri(uri: &Uri, headers: &HeaderMap, scheme: &str) -> Uri {
    if uri.authority().is_some() {
        return uri.clone();
    }
    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder().scheme(scheme).authority(host).path_and_query(path).build().unwrap_or_else(|_| uri.clone())
}

async fn post<B>(
    endpoint: &Arc<HttpEndpoint>,
    headers: &HeaderMapView<'_>,
    body: Pin<&mut B>,
    principal: Option<Principal>,
    sender: &Arc<Sender>,
) -> Result<Response<Body>, Refusal>
where
    B: http_body::Body,
    B::Error: fmt::Display,
{
    if endpoint.shutdown.has_begun() {
        return Err(refusal(Rejection::new(
            RejectionRule::Busy,
            "The server is shutting down: send the request again later",
        )));
    }
    let received = receive::receive(body, headers.0, endpoint).await.map_err(refusal)?;
    match start(endpoint, headers, received, principal, sender)? {
        StartedPost::Response(response) => Ok(*response),
        StartedPost::Standalone(running) => Ok(standalone_response(running.response().await)),
        StartedPost::Initialize(mailbox, session) => new_session(endpoint, mailbox, session).await,
        StartedPost::InSession(mailbox, session_use) => Ok(in_session(endpoint, mailbox, session_use).await),
    }
}

/// A message that was delivered to its handler.
enum StartedPost {
    /// The response is complete.
    Response(Box<Response<Body>>),
    /// A modern request that is not answered yet.
    Standalone(Box<StandaloneEvents>),
    /// The first request of a session. Its response is added to the mailbox.
    Initialize(Arc<Mailbox>, Arc<Session>),
    /// A later message of a session. Its response is added to the mailbox.
    InSession(Arc<Mailbox>, SessionUse),
}

/// Delivers a message to its handler.
///
/// This function is not async: an async function would keep the message in its future until the response starts, and
/// every open stream would take that memory.
fn start(
    endpoint: &Arc<HttpEndpoint>,
    headers: &HeaderMapView<'_>,
    received: ReceivedBody,
    principal: Option<Principal>,
    sender: &Arc<Sender>,
) -> Result<StartedPost, Refusal> {
    let ReceivedBody { bytes, guard: body } = received;
    // The body is parsed only here. All later steps use this result.
    let message = ParsedMessage::read(bytes, endpoint.limits.engine.depth);
    let plan = plan(headers, &message, endpoint.supported()).map_err(|rejection| {
        if let Parsed::Invalid(invalid) = &message.parsed() {
            endpoint.log.refused(0, message.bytes(), invalid);
        }
        refusal(rejection)
    })?;
    // The capacity is reserved before any work starts, so a client that is refused here can safely send the request
    // again.
    let reserve = |session| sender.begin_exchange(session).map_err(too_many_exchanges);
    let response = match plan {
        Plan::Modern(_) => {
            check_params(endpoint, headers, &message)?;
            match standalone::start(endpoint, HttpCaller::of(principal, body), &message, reserve(None)?) {
                StandaloneStart::Answered(answer) => standalone_response(answer),
                StandaloneStart::Running(running) => return Ok(StartedPost::Standalone(running)),
            }
        }
        Plan::Accepted => empty_response(StatusCode::ACCEPTED),
        Plan::Initialize => return initialize(endpoint, message, principal, body, sender, reserve(None)?),
        Plan::Session { id, .. } => {
            let session_use = endpoint.sessions.find(id, principal.as_ref());
            let session_use = session_use.ok_or_else(|| refusal(session_gone_refusal(&message.parsed())))?;
            let session = session_use.session();
            let expected = match expected_response(&message.parsed(), session)? {
                ExpectedResponse::Counted(()) => ExpectedResponse::Counted(reserve(Some(&session.running))?),
                ExpectedResponse::Ping => ExpectedResponse::Ping,
                ExpectedResponse::None => ExpectedResponse::None,
            };
            match session.post(message, HttpCaller::of(principal, body), expected) {
                Some(mailbox) => return Ok(StartedPost::InSession(mailbox, session_use)),
                None => empty_response(StatusCode::ACCEPTED),
            }
        }
    };
    Ok(StartedPost::Response(Box::new(response)))
}

fn standalone_response(response: StandaloneResponse) -> Response<Body> {
    match response {
        StandaloneResponse::Answer(message, code) => json_response(modern_status(code), message),
        StandaloneResponse::Events(events) => event_stream(Body::standalone(events)),
    }
}

/// Checks that the `Mcp-Param-*` headers match the arguments of the tool call.
fn check_params(
    endpoint: &HttpEndpoint,
    headers: &HeaderMapView<'_>,
    message: &ParsedMessage<Bytes>,
) -> Result<(), Refusal> {
    let Parsed::Message(Message::Request(request)) = message.parsed() else { return Ok(()) };
    if request.method != "tools/call" {
        return Ok(());
    }
    // `plan` has checked that the `Mcp-Name` header matches the body.
    let name = single(headers, mcp::NAME).ok().flatten().and_then(|name| mirror::decode(name).ok());
    let entries = endpoint.shared.registry.entries();
    let header_params = name.and_then(|name| entries.tools.find(&name)?.header_params());
    match header_params {
        Some(header_params) => header_params
            .check(message.params().and_then(|params| params.arguments), headers)
            .map_err(|rejection| refusal(rejection.answering(&request.id))),
        None => Ok(()),
    }
}

/// Returns the status of a modern response: MCP 2026-07-28, basic/transports/streamable-http, "Protocol Version Header"
/// and "Server Validation". Other errors have the status 200, because the specification names no status for them.
fn modern_status(error: Option<Code>) -> StatusCode {
    match error {
        Some(Code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

fn find_session(endpoint: &HttpEndpoint, id: &str, principal: Option<&Principal>) -> Result<SessionUse, Refusal> {
    endpoint.sessions.find(id, principal).ok_or_else(|| refusal(Rejection::session_gone()))
}

/// Returns the rejection of a message with the id of a session that has ended or never existed.
fn session_gone_refusal(parsed: &Parsed<'_>) -> Rejection {
    let rejection = Rejection::session_gone();
    match parsed {
        Parsed::Message(Message::Request(request)) => rejection.answering(&request.id),
        _ => rejection,
    }
}

/// Creates a session and delivers `initialize` to it.
fn initialize(
    endpoint: &Arc<HttpEndpoint>,
    message: ParsedMessage<Bytes>,
    principal: Option<Principal>,
    body: Option<CapacityGuard>,
    sender: &Arc<Sender>,
    guard: ExchangeGuard,
) -> Result<StartedPost, Refusal> {
    let session = Session::new(endpoint, principal.as_ref(), sender).ok_or_else(|| {
        refusal(Rejection::new(RejectionRule::Busy, "This server cannot create a session id now: try again later"))
    })?;
    match session.post(message, HttpCaller::of(principal, body), ExpectedResponse::Counted(guard)) {
        Some(mailbox) => Ok(StartedPost::Initialize(mailbox, session)),
        None => unreachable!("initialize expects a response"),
    }
}

/// Returns the response to `initialize`, and opens the session if it was accepted.
async fn new_session(
    endpoint: &Arc<HttpEndpoint>,
    mailbox: Arc<Mailbox>,
    session: Arc<Session>,
) -> Result<Response<Body>, Refusal> {
    let ResponseStart::Answer(answer) = session::response_start(&mailbox, endpoint).await else {
        unreachable!("initialize is answered at once, with no message before")
    };
    let mut response = json_response(StatusCode::OK, answer.message);
    // A session takes a place only now: a handshake that fails must not end another session.
    if session.revision().is_some() {
        if !endpoint.sessions.admit(&session, &endpoint.log) {
            let why = "This server has no room for another session: end unused sessions with DELETE";
            return Err(refusal(Rejection::new(RejectionRule::Busy, why)));
        }
        let id = HeaderValue::from_str(&session.id).expect("Base64 is a valid header value");
        response.headers_mut().insert(SESSION_ID, id);
        tokio::spawn(session.run(Arc::downgrade(endpoint)));
    }
    Ok(response)
}

/// Returns whether and how a message must be answered. Returns a refusal for a batch if the session's revision has no
/// batches.
fn expected_response(parsed: &Parsed<'_>, session: &Session) -> Result<ExpectedResponse<()>, Refusal> {
    let is_expected = match parsed {
        Parsed::Message(Message::Request(request)) if request.method == "ping" => return Ok(ExpectedResponse::Ping),
        Parsed::Message(message) => matches!(message, Message::Request(_)),
        Parsed::Invalid(_) => true,
        Parsed::Batch(batch) => {
            if !session.revision().is_some_and(Revision::has_batches) {
                let why = "The revision of this session has no batches: send each message in a request of its own";
                return Err(refusal(Rejection::new(RejectionRule::Batch, why)));
            }
            batch.elements().any(|element| matches!(element, Ok(Message::Request(_)) | Err(_)))
        }
    };
    Ok(if is_expected { ExpectedResponse::Counted(()) } else { ExpectedResponse::None })
}

/// Returns the response to a message of a session, when it is known whether the response is one message or a stream.
async fn in_session(endpoint: &Arc<HttpEndpoint>, mailbox: Arc<Mailbox>, session_use: SessionUse) -> Response<Body> {
    match session::response_start(&mailbox, endpoint).await {
        ResponseStart::Answer(MailboxMessage { message, sent, .. }) => {
            let status = if sent == MessageKind::AnswerWithoutId { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            json_response(status, message)
        }
        ResponseStart::Stream(reader) => {
            let events = SessionEvents::begin(mailbox, reader, session_use.session(), endpoint, None);
            event_stream(Body::session(events))
        }
    }
}

/// Opens the GET stream of a session, or resumes the stream that `last_event_id` belongs to.
async fn open_stream(
    endpoint: &Arc<HttpEndpoint>,
    session: &Arc<Session>,
    last_event_id: Option<&[u8]>,
    sender: &Arc<Sender>,
) -> Result<Response<Body>, Refusal> {
    let guard = Some(sender.begin_exchange(Some(&session.running)).map_err(too_many_exchanges)?);
    let Some(last) = last_event_id else {
        let mailbox = session.unsolicited();
        let reader = mailbox.open_stream();
        let events = SessionEvents::begin(mailbox, reader, session, endpoint, guard);
        return Ok(event_stream(Body::session(events)));
    };
    let unknown = || {
        let why = "Last-Event-ID is unknown, or the events after it are no longer stored: send the request again";
        refusal(Rejection::new(RejectionRule::EventGone, why))
    };
    let id = EventId::parse(last).ok_or_else(unknown)?;
    let resumed = session.resume(id).await.ok_or_else(unknown)?;
    Ok(event_stream(Body::session(SessionEvents::resume(resumed, id, session, endpoint, guard))))
}

fn too_many_exchanges(limit: ExchangeLimit) -> Refusal {
    refusal(Rejection::new(RejectionRule::Busy, limit.reason()))
}

const SESSION_ID: HeaderName = HeaderName::from_static(mcp::SESSION_ID);
