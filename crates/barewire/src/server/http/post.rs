//! Serves POST in three steps: read the message, plan how to serve it, deliver it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use barewire_proto::http::{Plan, Rejection, RejectionRule, header as mcp, mirror, plan, single};
use barewire_proto::mcp::{Era, ParsedMessage, code};
use barewire_proto::rpc::{Code, Message, Parsed};
use bytes::Bytes;
use http::{Response, StatusCode};

use super::body::Body;
use super::capacity::CapacityGuard;
use super::delivered::{DeliveredMessage, deliver, expected_response, open_session};
use super::endpoint::HttpEndpoint;
use super::identify::{answering, auth_refusal};
use super::mailbox::Mailbox;
use super::metrics::{Outcome, RequestMeasure};
use super::receive::ReceivedBody;
use super::response::{Refusal, accepted, event_stream, json_response, refusal, too_many_exchanges};
use super::scopes::TaskScopes;
use super::sender::Sender;
use super::session::{ExpectedResponse, Session, SessionUse};
use super::standalone::{self, StandaloneEvents, StandaloneResponse, StandaloneStart};
use super::{HttpCaller, Principal, receive, scopes};
use crate::headers::HeaderMapView;

/// Reads the message of a POST, delivers it to its handler, and returns the response when it is known whether the
/// response is one message or a stream.
pub(super) async fn post<B>(
    endpoint: &Arc<HttpEndpoint>,
    headers: &HeaderMapView<'_>,
    body: Pin<&mut B>,
    principal: Option<Principal>,
    sender: &Arc<Sender>,
    measure: &mut RequestMeasure,
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
    if let Some(node) = &endpoint.cluster {
        node.prepare(endpoint).await.map_err(refusal)?;
    }
    let received = receive::receive(body, headers.0, endpoint).await.map_err(refusal)?;
    let started = match read(endpoint, headers, received, principal, sender, measure)? {
        ReadPost::Started(started) => started,
        // Boxed, so that only such a request takes the memory.
        ReadPost::Waiting(posted, needs) => Box::pin(posted.start(endpoint, headers, needs, sender, measure)).await?,
    };
    match started {
        StartedPost::Response(response) => Ok(*response),
        StartedPost::Standalone(running) => Ok(standalone_response(running.response().await, measure)),
        StartedPost::Initialize(mailbox, session) => open_session(endpoint, mailbox, session, measure).await,
        StartedPost::InSession(delivered) => delivered.response(endpoint, measure).await,
    }
}

/// A message that was read.
enum ReadPost {
    Started(StartedPost),
    /// The message is delivered when its needs are met.
    Waiting(Box<PostedMessage>, MessageNeeds),
}

/// A message of a client.
struct PostedMessage {
    message: ParsedMessage<Bytes>,
    body: Option<CapacityGuard>,
    principal: Option<Principal>,
}

/// What must be fetched before a message is delivered.
struct MessageNeeds {
    /// The session, from the store of the cluster.
    session: Option<String>,
    /// The scopes of these tasks.
    tasks: Vec<String>,
}

impl MessageNeeds {
    fn of(endpoint: &HttpEndpoint, headers: &HeaderMapView<'_>, message: &ParsedMessage<Bytes>) -> Self {
        let session = endpoint.cluster.as_ref().and_then(|_| match plan(headers, message, endpoint.supported()) {
            Ok(Plan::Session { id, .. }) => Some(id.to_owned()),
            _ => None,
        });
        Self { session, tasks: scopes::tasks_to_check(endpoint, message) }
    }

    fn is_none(&self) -> bool {
        self.session.is_none() && self.tasks.is_empty()
    }
}

/// What was fetched before a message is delivered.
#[derive(Default)]
struct FetchedNeeds {
    /// The session, if the server is in a cluster.
    session: Option<SessionUse>,
    tasks: Vec<TaskScopes>,
}

impl PostedMessage {
    /// Fetches what the message needs, and delivers it to its handler.
    async fn start(
        self: Box<Self>,
        endpoint: &Arc<HttpEndpoint>,
        headers: &HeaderMapView<'_>,
        needs: MessageNeeds,
        sender: &Arc<Sender>,
        measure: &mut RequestMeasure,
    ) -> Result<StartedPost, Refusal> {
        let mut entered = None;
        if let (Some(node), Some(session)) = (&endpoint.cluster, &needs.session) {
            let found = node.enter(endpoint, session, self.principal.as_ref(), sender).await;
            entered = Some(found.map_err(|rejection| refusal(answering(rejection, &self.message.parsed())))?);
        }
        let tasks = scopes::of_tasks(endpoint, needs.tasks, self.principal.as_ref())
            .await
            .map_err(|error| auth_refusal(endpoint, &error, Some(&self.message.parsed())))?;
        start(endpoint, headers, *self, FetchedNeeds { session: entered, tasks }, sender, measure)
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
    /// A later message of a session.
    InSession(DeliveredMessage),
}

/// Parses a message and delivers it to its handler, if it needs nothing.
///
/// This function is not async: an async function would keep the message in its future until the response starts, and
/// every open stream would take that memory.
fn read(
    endpoint: &Arc<HttpEndpoint>,
    headers: &HeaderMapView<'_>,
    received: ReceivedBody,
    principal: Option<Principal>,
    sender: &Arc<Sender>,
    measure: &mut RequestMeasure,
) -> Result<ReadPost, Refusal> {
    let ReceivedBody { bytes, guard: body } = received;
    // The body is parsed only here. All later steps use this result.
    let message = ParsedMessage::read(bytes, endpoint.limits.engine.depth);
    let needs = MessageNeeds::of(endpoint, headers, &message);
    let posted = PostedMessage { message, body, principal };
    if needs.is_none() {
        start(endpoint, headers, posted, FetchedNeeds::default(), sender, measure).map(ReadPost::Started)
    } else {
        Ok(ReadPost::Waiting(Box::new(posted), needs))
    }
}

/// Delivers a message to its handler.
fn start(
    endpoint: &Arc<HttpEndpoint>,
    headers: &HeaderMapView<'_>,
    posted: PostedMessage,
    fetched: FetchedNeeds,
    sender: &Arc<Sender>,
    measure: &mut RequestMeasure,
) -> Result<StartedPost, Refusal> {
    let PostedMessage { message, body, principal } = posted;
    let plan = plan(headers, &message, endpoint.supported()).map_err(|rejection| {
        if let Parsed::Invalid(invalid) = &message.parsed() {
            endpoint.log.refused(0, message.bytes(), invalid);
        }
        refusal(rejection)
    })?;
    measure.set_era(if let Plan::Modern(_) = plan { Era::Modern } else { Era::Legacy });
    scopes::check(endpoint, &message, &fetched.tasks, principal.as_ref())
        .map_err(|error| auth_refusal(endpoint, &error, Some(&message.parsed())))?;
    // The capacity is reserved before any work starts, so a client that is refused here can safely send the request
    // again.
    let reserve = |session| sender.begin_exchange(session).map_err(too_many_exchanges);
    let response = match plan {
        Plan::Modern(_) => {
            check_params(endpoint, headers, &message)?;
            match standalone::start(endpoint, HttpCaller::of(principal, body), &message, reserve(None)?) {
                StandaloneStart::Answered(answer) => standalone_response(answer, measure),
                StandaloneStart::Running(running) => {
                    if is_listen(&message) {
                        measure.set_outcome(Outcome::Accepted);
                    }
                    return Ok(StartedPost::Standalone(running));
                }
            }
        }
        Plan::Accepted => accepted(measure),
        Plan::Initialize => {
            let session = Session::new(endpoint, principal.as_ref(), sender).ok_or_else(no_session_id)?;
            let expected = ExpectedResponse::Counted(reserve(None)?);
            let mailbox = session.post(message, HttpCaller::of(principal, body), expected, Bytes::new());
            let mailbox = mailbox.expect("initialize expects a response");
            return Ok(StartedPost::Initialize(mailbox, session));
        }
        Plan::Session { id, .. } => {
            let session_use = fetched.session.or_else(|| endpoint.sessions.find(id, principal.as_ref()));
            let gone = || refusal(answering(Rejection::session_gone(), &message.parsed()));
            let session_use = session_use.ok_or_else(gone)?;
            let expected = match expected_response(&message.parsed(), session_use.session())? {
                ExpectedResponse::Counted(()) => {
                    ExpectedResponse::Counted(reserve(Some(&session_use.session().running))?)
                }
                ExpectedResponse::Ping => ExpectedResponse::Ping,
                ExpectedResponse::None => ExpectedResponse::None,
            };
            let caller = HttpCaller::of(principal, body);
            return Ok(StartedPost::InSession(deliver(endpoint, message, caller, expected, session_use)));
        }
    };
    Ok(StartedPost::Response(Box::new(response)))
}

/// Whether the message opens a stream that lasts as long as its client wants, so that its duration says nothing about
/// the server.
fn is_listen(message: &ParsedMessage<Bytes>) -> bool {
    matches!(message.parsed(), Parsed::Message(Message::Request(request)) if request.method == "subscriptions/listen")
}

fn standalone_response(response: StandaloneResponse, measure: &mut RequestMeasure) -> Response<Body> {
    match response {
        StandaloneResponse::Answer(message, code) => {
            measure.set_outcome(Outcome::of_code(code));
            json_response(modern_status(code), message)
        }
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

fn no_session_id() -> Refusal {
    refusal(Rejection::new(RejectionRule::Busy, "This server cannot create a session id now: try again later"))
}
