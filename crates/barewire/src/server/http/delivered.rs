//! A message of a legacy session -> its handler, and the other nodes of the cluster that it is for -> the response.

use std::sync::Arc;

use barewire_proto::http::{Rejection, RejectionRule, header as mcp};
use barewire_proto::mcp::{ParsedMessage, Revision};
use barewire_proto::rpc::{Message, Parsed};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::body::Body;
use super::cluster::ClientRoute;
use super::endpoint::HttpEndpoint;
use super::mailbox::{Mailbox, MailboxMessage, ResponseStart};
use super::metrics::{Outcome, RequestMeasure};
use super::response::{Refusal, accepted, event_stream, json_response, no_room_for_session, refusal};
use super::session::{self, ExpectedResponse, Session, SessionUse};
use super::session_events::SessionEvents;
use crate::peer::{AnyCaller, MessageKind};

/// Returns whether and how a message must be answered. Returns a refusal for a batch if the session's revision has no
/// batches.
pub(super) fn expected_response(parsed: &Parsed<'_>, session: &Session) -> Result<ExpectedResponse<()>, Refusal> {
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

/// A message of a session that was delivered to its handler, if it is for this node.
pub(super) struct DeliveredMessage {
    /// Where the response is added, if there is one.
    mailbox: Option<Arc<Mailbox>>,
    session_use: SessionUse,
    /// What the message means for other nodes of the cluster, if it means anything.
    elsewhere: Option<Box<(ClientRoute, Bytes)>>,
}

/// Delivers a message of a session to its handler, if it is for this node.
pub(super) fn deliver(
    endpoint: &HttpEndpoint,
    message: ParsedMessage<Bytes>,
    caller: Option<AnyCaller>,
    expected: ExpectedResponse,
    session_use: SessionUse,
) -> DeliveredMessage {
    let session = session_use.session();
    let Some(node) = &endpoint.cluster else {
        let mailbox = session.post(message, caller, expected, Bytes::new());
        return DeliveredMessage { mailbox, session_use, elsewhere: None };
    };
    let route = node.route(&message);
    let frame = (!route.is_only_for_here()).then(|| Bytes::copy_from_slice(message.bytes()));
    let mailbox = match route.is_for_here {
        true => session.post(message, caller, expected, route.requests.clone()),
        false => None,
    };
    let elsewhere = frame.map(|frame| Box::new((route, frame)));
    DeliveredMessage { mailbox, session_use, elsewhere }
}

impl DeliveredMessage {
    /// Passes the message on to the other nodes that it is for, and returns the response when it is known whether the
    /// response is one message or a stream.
    pub(super) async fn response(
        self,
        endpoint: &Arc<HttpEndpoint>,
        measure: &mut RequestMeasure,
    ) -> Result<Response<Body>, Refusal> {
        let Self { mailbox, session_use, elsewhere } = self;
        let session = session_use.session();
        let elsewhere = endpoint.cluster.as_ref().zip(elsewhere);
        if let Some((node, elsewhere)) = &elsewhere {
            let (route, frame) = &**elsewhere;
            node.deliver_elsewhere(session, route, frame).await.map_err(refusal)?;
        }
        let start = match &mailbox {
            Some(mailbox) => Some(session::response_start(mailbox, endpoint).await),
            None => None,
        };
        let is_refused =
            matches!(&start, Some(ResponseStart::Answer(answer)) if answer.sent != MessageKind::Answer(None));
        if let Some((node, elsewhere)) = elsewhere.filter(|_| !is_refused) {
            // A change is acknowledged when every node will see it.
            node.save(endpoint, session, &elsewhere.0.changes).await.map_err(refusal)?;
        }
        Ok(match (start, mailbox) {
            (Some(start), Some(mailbox)) => session_response(endpoint, start, mailbox, &session_use, measure),
            _ => accepted(measure),
        })
    }
}

fn session_response(
    endpoint: &Arc<HttpEndpoint>,
    start: ResponseStart,
    mailbox: Arc<Mailbox>,
    session_use: &SessionUse,
    measure: &mut RequestMeasure,
) -> Response<Body> {
    match start {
        ResponseStart::Answer(MailboxMessage { message, sent, .. }) => {
            measure.set_outcome(Outcome::of_answer(sent));
            let status = if sent == MessageKind::AnswerWithoutId { StatusCode::BAD_REQUEST } else { StatusCode::OK };
            json_response(status, message)
        }
        ResponseStart::Stream(reader) => {
            let events = SessionEvents::begin(mailbox, reader, session_use.session(), endpoint, None);
            event_stream(Body::session(events))
        }
    }
}

/// Returns the response to `initialize`, and opens the session if it was accepted.
pub(super) async fn open_session(
    endpoint: &Arc<HttpEndpoint>,
    mailbox: Arc<Mailbox>,
    session: Arc<Session>,
    measure: &mut RequestMeasure,
) -> Result<Response<Body>, Refusal> {
    let ResponseStart::Answer(answer) = session::response_start(&mailbox, endpoint).await else {
        unreachable!("initialize is answered at once, with no message before")
    };
    measure.set_outcome(Outcome::of_answer(answer.sent));
    let mut response = json_response(StatusCode::OK, answer.message);
    // A session takes a place only now: a handshake that fails must not end another session.
    if session.revision().is_some() {
        let admit = || endpoint.sessions.admit(&session, &endpoint.log);
        // Until it is in the store of the cluster, it is in use.
        let _use = match &endpoint.cluster {
            Some(node) => node.with_room(endpoint, admit).await,
            None => admit(),
        }
        .ok_or_else(|| refusal(no_room_for_session()))?;
        if let Some(node) = &endpoint.cluster
            && let Err(rejection) = node.create(endpoint, &session).await
        {
            endpoint.sessions.end(&session);
            return Err(refusal(rejection));
        }
        let id = HeaderValue::from_str(&session.id).expect("Base64 is a valid header value");
        response.headers_mut().insert(SESSION_ID, id);
        tokio::spawn(session.run(Arc::downgrade(endpoint)));
    }
    Ok(response)
}

const SESSION_ID: HeaderName = HeaderName::from_static(mcp::SESSION_ID);
