//! A request of HTTP -> its response: admitted, authenticated, read, planned, served.

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

use super::alone::{self, Outcome};
use super::body::Body;
use super::counter::Counted;
use super::endpoint::Endpoint;
use super::mailbox::{First, Letter};
use super::response::{Refused, event_stream, json, refused, status};
use super::session::{self, Session, SessionEvents};
use super::{Denied, Principal, RequestHead, receive};
use crate::headers::Of;
use crate::peer::{AnyCaller, Sent};

/// A server as a [tower service](tower_service::Service): to be mounted in axum, hyper or anything else that takes one.
///
/// It answers at whatever path it is mounted at. Clones are the same server.
#[derive(Clone)]
pub struct HttpService(pub(super) Arc<Endpoint>);

/// A response under way.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl HttpService {
    /// Begins nothing new from now on, ends streams with what they have to say at the end, and lets what is in flight finish.
    /// A [`HttpListener`](super::HttpListener) does this by itself.
    pub fn close(&self) {
        self.0.close();
    }

    pub(super) fn respond<B>(&self, request: Request<B>) -> ResponseFuture
    where
        B: http_body::Body + Send + 'static,
        B::Data: Send,
        B::Error: fmt::Display,
    {
        let endpoint = Arc::clone(&self.0);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = std::pin::pin!(body);
            Ok(respond(&endpoint, &head, body).await.unwrap_or_else(|refused| *refused))
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
        self.respond(request)
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpService")
    }
}

async fn respond<B>(
    endpoint: &Arc<Endpoint>,
    head: &http::request::Parts,
    body: Pin<&mut B>,
) -> Result<Response<Body>, Refused>
where
    B: http_body::Body,
    B::Error: fmt::Display,
{
    let headers = Of(&head.headers);
    let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    if let Some(metadata) = &endpoint.metadata
        && head.method == http::Method::GET
        && metadata.is_at(head.uri.path())
    {
        endpoint.access.check(target, &headers).map_err(refused)?;
        return Ok(json(StatusCode::OK, metadata.json.clone()));
    }
    let verb = admit(head.method.as_str(), target, &headers, &endpoint.access, endpoint.supported());
    let verb = verb.map_err(refused)?;
    let principal = authenticate(endpoint, head).await?;
    match verb {
        Verb::Post => post(endpoint, &headers, body, principal).await,
        Verb::Get { session, last_event_id } => {
            let session = find(endpoint, session, principal.as_deref())?;
            stream(endpoint, &session, last_event_id).await
        }
        Verb::Delete { session } => {
            let session = find(endpoint, session, principal.as_deref())?;
            endpoint.sessions.end(&session);
            Ok(status(StatusCode::OK))
        }
    }
}

/// Who sends the request, if anybody wants to know.
async fn authenticate(endpoint: &Endpoint, head: &http::request::Parts) -> Result<Option<Arc<Principal>>, Refused> {
    let Some(authenticate) = &endpoint.authenticate else { return Ok(None) };
    let uri = whole(&head.uri, &head.headers, endpoint.scheme);
    let asked = RequestHead { method: &head.method, uri: &uri, headers: &head.headers };
    match authenticate.authenticate(&asked).await {
        Ok(principal) => Ok(Some(Arc::new(principal))),
        Err(denied) => Err(denial(endpoint, &denied)),
    }
}

fn denial(endpoint: &Endpoint, denied: &Denied) -> Refused {
    let rule =
        if denied.status == StatusCode::FORBIDDEN { RejectionRule::Forbidden } else { RejectionRule::Unauthorized };
    let mut response = refused(Rejection::new(rule, denied.what.clone()));
    *response.status_mut() = denied.status;
    let url = endpoint.metadata.as_ref().map(|metadata| metadata.url.as_str());
    for challenge in denied.www_authenticate(url) {
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The URI with its scheme and host.
fn whole(uri: &Uri, headers: &HeaderMap, scheme: &str) -> Uri {
    if uri.authority().is_some() {
        return uri.clone();
    }
    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder().scheme(scheme).authority(host).path_and_query(path).build().unwrap_or_else(|_| uri.clone())
}

async fn post<B>(
    endpoint: &Arc<Endpoint>,
    headers: &Of<'_>,
    body: Pin<&mut B>,
    principal: Option<Arc<Principal>>,
) -> Result<Response<Body>, Refused>
where
    B: http_body::Body,
    B::Error: fmt::Display,
{
    if endpoint.closing.is_closed() {
        return Err(refused(Rejection::new(RejectionRule::Busy, "The server is shutting down: ask again later")));
    }
    let received = receive::receive(body, headers.0, endpoint).await.map_err(refused)?;
    // The only place that parses the body: everything behind it takes what was read.
    let message = ParsedMessage::read(received.bytes.clone(), endpoint.limits.engine.depth);
    let plan = plan(headers, &message, endpoint.supported()).map_err(|rejection| {
        if let Parsed::Invalid(invalid) = &message.parsed() {
            endpoint.log.refused(0, message.bytes(), invalid);
        }
        refused(rejection)
    })?;
    let caller = principal.clone().map(|principal| principal as AnyCaller);
    // Before anything is begun, so that whoever is told to ask again can do so without harm.
    let counted = endpoint.exchanges.enter().ok_or_else(full)?;
    match plan {
        Plan::Modern(_) => {
            check_params(endpoint, headers, &message)?;
            match alone::serve(endpoint, caller, &message, counted).await {
                Outcome::Answer(message, code) => Ok(json(modern_status(code), message)),
                Outcome::Events(events) => Ok(event_stream(Body::alone(events))),
            }
        }
        Plan::Accepted => Ok(status(StatusCode::ACCEPTED)),
        Plan::Initialize => initialize(endpoint, message, principal.as_deref(), caller, counted).await,
        Plan::Session { id, .. } => {
            let session = endpoint.sessions.find(id, principal.as_deref());
            let session = session.ok_or_else(|| refused(gone(&message.parsed())))?;
            let counted = expects(&message.parsed(), &session)?.then_some(counted);
            in_session(endpoint, &session, message, caller, counted).await
        }
    }
}

/// Headers that repeat arguments of a tool.
fn check_params(endpoint: &Endpoint, headers: &Of<'_>, message: &ParsedMessage<Bytes>) -> Result<(), Refused> {
    let Parsed::Message(Message::Request(request)) = message.parsed() else { return Ok(()) };
    if request.method != "tools/call" {
        return Ok(());
    }
    // It says what the body says: that has been checked.
    let name = single(headers, mcp::NAME).ok().flatten().and_then(|name| mirror::decode(name).ok());
    let offer = endpoint.shared.registry.offer();
    let known = name.and_then(|name| offer.tools.find(&name)?.header_params());
    match known {
        Some(known) => known
            .check(message.params().and_then(|params| params.arguments), headers)
            .map_err(|rejection| refused(rejection.answering(&request.id))),
        None => Ok(()),
    }
}

/// The status of a modern answer: MCP 2026-07-28, basic/transports/streamable-http, "Protocol Version Header" and "Server
/// Validation". For all other errors none is said, and the request was one that could be served.
fn modern_status(error: Option<Code>) -> StatusCode {
    match error {
        Some(Code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

fn find(endpoint: &Endpoint, id: &str, principal: Option<&Principal>) -> Result<Arc<Session>, Refused> {
    endpoint.sessions.find(id, principal).ok_or_else(|| refused(Rejection::session_gone()))
}

/// The refusal of a message whose session is over, or never was.
fn gone(parsed: &Parsed<'_>) -> Rejection {
    let gone = Rejection::session_gone();
    match parsed {
        Parsed::Message(Message::Request(request)) => gone.answering(&request.id),
        _ => gone,
    }
}

async fn initialize(
    endpoint: &Arc<Endpoint>,
    message: ParsedMessage<Bytes>,
    principal: Option<&Principal>,
    caller: Option<AnyCaller>,
    counted: Counted,
) -> Result<Response<Body>, Refused> {
    let Some(session) = Session::new(endpoint, principal) else {
        let why = "There are as many sessions as this server has room for: end those that are not needed with DELETE";
        return Err(refused(Rejection::new(RejectionRule::Busy, why)));
    };
    let answer = match session.post(message, caller, Some(counted)) {
        Some(mailbox) => session::first(&mailbox, endpoint).await,
        None => unreachable!("it expects an answer"),
    };
    let First::Answer(Letter { message, .. }) = answer else {
        unreachable!("initialize is answered at once, and nothing is said before")
    };
    let mut response = json(StatusCode::OK, message);
    if session.revision().is_some() {
        let id = HeaderValue::from_str(&session.id).expect("Base64 can stand in a header");
        response.headers_mut().insert(SESSION_ID, id);
        endpoint.sessions.add(&session);
        tokio::spawn(session.live(Arc::downgrade(endpoint)));
    }
    Ok(response)
}

/// Whether something comes back for a message.
fn expects(parsed: &Parsed<'_>, session: &Session) -> Result<bool, Refused> {
    match parsed {
        Parsed::Message(message) => Ok(matches!(message, Message::Request(_))),
        Parsed::Invalid(_) => Ok(true),
        Parsed::Batch(batch) => {
            if !session.revision().is_some_and(Revision::has_batches) {
                let why = "The revision of this session has no batches: send each message in a request of its own";
                return Err(refused(Rejection::new(RejectionRule::Batch, why)));
            }
            Ok(batch.elements().any(|element| matches!(element, Ok(Message::Request(_)) | Err(_))))
        }
    }
}

async fn in_session(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    message: ParsedMessage<Bytes>,
    caller: Option<AnyCaller>,
    expected: Option<Counted>,
) -> Result<Response<Body>, Refused> {
    let _busy = session.enter();
    let Some(mailbox) = session.post(message, caller, expected) else {
        return Ok(status(StatusCode::ACCEPTED));
    };
    match session::first(&mailbox, endpoint).await {
        First::Answer(Letter { message, sent, .. }) => {
            let status = if sent == Sent::Unnamed { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            Ok(json(status, message))
        }
        First::Stream(reader) => {
            let events = SessionEvents::begin(mailbox, reader, session, endpoint, None);
            Ok(event_stream(Body::session(events)))
        }
    }
}

/// The stream of a session, or what is left of one.
async fn stream(
    endpoint: &Arc<Endpoint>,
    session: &Arc<Session>,
    last_event_id: Option<&[u8]>,
) -> Result<Response<Body>, Refused> {
    let counted = Some(endpoint.exchanges.enter().ok_or_else(full)?);
    let Some(last) = last_event_id else {
        let mailbox = session.unasked();
        let reader = mailbox.open();
        let events = SessionEvents::begin(mailbox, reader, session, endpoint, counted);
        return Ok(event_stream(Body::session(events)));
    };
    let unknown = || {
        let why = "Last-Event-ID is none of this session, or what followed it is no longer kept: ask again";
        refused(Rejection::new(RejectionRule::EventGone, why))
    };
    let id = EventId::parse(last).ok_or_else(unknown)?;
    // Before the stream is taken over, which may be read by somebody else.
    let before = endpoint.events.after(&session.id, id).await;
    let mailbox = session.stream(id.stream).filter(|mailbox| mailbox.is_stream());
    let mut again = match (before, &mailbox) {
        (Some(before), _) => before,
        // Nothing followed, so that nothing need be kept.
        (None, Some(mailbox)) if mailbox.last_taken() == id.sequence => Vec::new(),
        (None, _) => return Err(unknown()),
    };
    let last = again.last().map_or(id, |(last, _)| *last);
    let is_open = mailbox.is_some();
    let events = SessionEvents::resume(mailbox, id, session, endpoint, counted);
    if is_open {
        // What came in between. From now on it comes on this stream.
        again.extend(endpoint.events.after(&session.id, last).await.unwrap_or_default());
    }
    Ok(event_stream(Body::session(events.again(again))))
}

fn full() -> Refused {
    let why = "As many requests are under way as this server has room for: ask again later";
    refused(Rejection::new(RejectionRule::Busy, why))
}

const SESSION_ID: HeaderName = HeaderName::from_static(mcp::SESSION_ID);
