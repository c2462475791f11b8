//! Serves GET: the stream for unsolicited messages, or the rest of a stream that broke.

use std::sync::Arc;

use barewire_proto::http::{EventId, Rejection, RejectionRule};
use http::Response;

use super::body::Body;
use super::cluster::OpenedStream;
use super::endpoint::HttpEndpoint;
use super::mailbox::StreamReader;
use super::mailboxes::ResumedStream;
use super::response::{Refusal, event_gone, event_stream, refusal, too_many_exchanges};
use super::sender::Sender;
use super::session::Session;
use super::session_events::SessionEvents;

/// Opens the GET stream of a session, or resumes the stream that `last_event_id` belongs to.
pub(super) async fn open_stream(
    endpoint: &Arc<HttpEndpoint>,
    session: &Arc<Session>,
    last_event_id: Option<&[u8]>,
    sender: &Arc<Sender>,
) -> Result<Response<Body>, Refusal> {
    let guard = Some(sender.begin_exchange(Some(&session.running)).map_err(too_many_exchanges)?);
    let id = match last_event_id {
        Some(last) => Some(EventId::parse(last).ok_or_else(|| refusal(event_gone()))?),
        None => None,
    };
    let opened = match (&endpoint.cluster, &session.link) {
        (Some(node), Some(link)) => node.open_stream(endpoint, session, link, id).await.map_err(refusal)?,
        _ => OpenedStream::Here,
    };
    let events = match (opened, id) {
        (OpenedStream::Here, None) => {
            let mailbox = session.unsolicited();
            let reader = mailbox.open_stream();
            SessionEvents::begin(mailbox, reader, session, endpoint, guard)
        }
        (OpenedStream::Here, Some(id)) => {
            let Some(resumed) = session.resume(id).await else {
                return Err(refusal(not_resumed(endpoint, session, id).await));
            };
            SessionEvents::resume(resumed, id, session, endpoint, guard)
        }
        (OpenedStream::Elsewhere(priming, stream), id) => {
            SessionEvents::remote(stream, priming, id, session, endpoint, guard)
        }
        (OpenedStream::Stored(replay), id) => {
            let resumed = ResumedStream { reader: None, replay };
            SessionEvents::resume(resumed, id.unwrap_or_default(), session, endpoint, guard)
        }
        (OpenedStream::StoredThenHere(replay), id) => {
            let resumed = ResumedStream { reader: Some(StreamReader::open(session.unsolicited())), replay };
            SessionEvents::resume(resumed, id.unwrap_or_default(), session, endpoint, guard)
        }
        (OpenedStream::StoredThenElsewhere(replay, stream), id) => {
            SessionEvents::remote(stream, None, id, session, endpoint, guard).after(replay)
        }
    };
    Ok(event_stream(Body::session(events)))
}

/// Returns the refusal of a client that resumes a stream of which events are missing, or could not be read just now.
async fn not_resumed(endpoint: &HttpEndpoint, session: &Session, id: EventId) -> Rejection {
    match &endpoint.cluster {
        Some(node) if !node.has_lost_events(&session.id, id).await => Rejection::new(RejectionRule::Busy, STORE_AWAY),
        _ => event_gone(),
    }
}

const STORE_AWAY: &str = "This server cannot reach the store of its sessions: try again later";
