//! A stream of one node, read at another one: the node that has the stream sends each event to the node that has the
//! client.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use barewire_proto::http::{EventId, Rejection, RejectionRule};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::link::SessionLink;
use super::log::log_entry;
use super::message::{NodeMessage, StreamEnd};
use super::node::{ClusterNode, unavailable};
use super::numbers::{is_response, node_of_stream};
use super::store::{NODE_LEASE, StoreError};
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::http::mailbox::{MailboxMessage, StreamItem, StreamReader};
use crate::server::http::response::event_gone;
use crate::server::http::session::Session;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::until::until;

/// A stream of a session, as a client has asked for it.
pub(in super::super) enum OpenedStream {
    /// This node has the stream.
    Here,
    /// Another node has it. It begins with an empty event of this id, if there is one.
    Elsewhere(Option<EventId>, RemoteStream),
    /// The node that had it is dead, or has ended it: all that follows is in the store.
    Stored(Vec<(EventId, Bytes)>),
    /// As before, but it is the stream for unsolicited messages, which this node has now.
    StoredThenHere(Vec<(EventId, Bytes)>),
    /// As before, but another node has that stream now.
    StoredThenElsewhere(Vec<(EventId, Bytes)>, RemoteStream),
}

/// What the node that had a stream says about it.
enum OwnerAnswer {
    /// It sends the stream, which begins with an empty event of this id, if there is one.
    Follows(Option<EventId>, RemoteStream),
    /// It does not have the stream, and all that it has sent is in the store.
    Unknown,
    /// Nothing, because it is dead.
    Dead,
}

/// A stream that another node sends.
pub(in super::super) struct RemoteStream(mpsc::Receiver<StreamItem>);

impl RemoteStream {
    /// Waits for the next part of the stream.
    pub(in super::super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<StreamItem> {
        Poll::Ready(ready!(self.0.poll_recv(context)).unwrap_or(StreamItem::End))
    }
}

/// The streams that this node follows, and those that it sends.
#[derive(Default)]
pub(super) struct Follows {
    following: Mutex<HashMap<u64, FollowedStream>>,
    sending: Mutex<HashMap<(u32, u64), AbortHandle>>,
    last_key: AtomicU64,
}

/// A stream that this node follows.
struct FollowedStream {
    /// The node that has the stream.
    owner: u32,
    items: mpsc::Sender<FollowItem>,
}

/// What the node that has a stream says about it.
enum FollowItem {
    Following(Option<EventId>),
    Event(EventId, Bytes),
    Ended(StreamEnd),
}

impl Follows {
    fn lock_following(&self) -> MutexGuard<'_, HashMap<u64, FollowedStream>> {
        self.following.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sending(&self) -> MutexGuard<'_, HashMap<(u32, u64), AbortHandle>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a message about a stream to the task that follows the stream. If that task is too slow, it is cut off,
    /// and its client resumes.
    pub(super) fn receive(&self, message: NodeMessage, body: Bytes) {
        let event_id = |(stream, sequence)| EventId { stream, sequence };
        let (key, item) = match message {
            NodeMessage::Following { key, priming } => (key, FollowItem::Following(priming.map(event_id))),
            NodeMessage::Event { key, stream, sequence } => {
                (key, FollowItem::Event(event_id((stream, sequence)), body))
            }
            NodeMessage::Ended { key, why } => (key, FollowItem::Ended(why)),
            _ => return,
        };
        let mut following = self.lock_following();
        if following.get(&key).is_some_and(|followed| followed.items.try_send(item).is_err()) {
            following.remove(&key);
        }
    }

    /// Cuts off the clients of the streams of a node, or of all nodes, because messages of it may be lost. They resume,
    /// and get what is stored.
    pub(super) fn cut_off(&self, owner: Option<u32>) {
        self.lock_following().retain(|_, followed| owner.is_some_and(|owner| owner != followed.owner));
    }

    pub(super) fn add_sending(&self, follower: u32, key: u64, task: AbortHandle) {
        let mut sending = self.lock_sending();
        sending.retain(|_, task| !task.is_finished());
        sending.insert((follower, key), task);
    }

    pub(super) fn stop_sending(&self, follower: u32, key: u64) {
        if let Some(task) = self.lock_sending().remove(&(follower, key)) {
            task.abort();
        }
    }
}

/// The messages about one stream, as they arrive from its node. Dropping it tells that node to stop.
struct Follower {
    node: Arc<ClusterNode>,
    owner: u32,
    key: u64,
    items: mpsc::Receiver<FollowItem>,
}

impl Follower {
    /// Asks the owner of a stream for it.
    fn start(node: &Arc<ClusterNode>, owner: u32, session: &str, after: Option<EventId>) -> Self {
        let key = node.follows.last_key.fetch_add(1, Ordering::Relaxed) + 1;
        let (follower, items) = mpsc::channel(MAX_WAITING_EVENTS);
        node.follows.lock_following().insert(key, FollowedStream { owner, items: follower });
        let after = after.map(|id| (id.stream, id.sequence));
        let message = NodeMessage::Follow { session: session.to_owned(), after, node: node.number, key };
        node.outbox.send(owner, message.write(b""));
        Self { node: Arc::clone(node), owner, key, items }
    }

    /// Waits for the next message. Returns `None` if the owner is dead.
    async fn next(&mut self) -> Option<FollowItem> {
        loop {
            match until(self.items.recv(), tokio::time::sleep(CHECK_TIME)).await {
                // If this node cannot follow fast enough, or messages may be lost, the client is asked to resume.
                Some(None) => return Some(FollowItem::Ended(StreamEnd::Complete)),
                Some(Some(item)) => return Some(item),
                None if self.node.is_alive(self.owner).await => {}
                None => return None,
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.node.follows.lock_following().remove(&self.key);
        let message = NodeMessage::Unfollow { node: self.node.number, key: self.key };
        self.node.outbox.send(self.owner, message.write(b""));
    }
}

impl ClusterNode {
    /// Finds the stream after an event or, without one, the stream for unsolicited messages.
    pub(in super::super) async fn open_stream(
        self: &Arc<Self>,
        endpoint: &Arc<HttpEndpoint>,
        session: &Arc<Session>,
        link: &Arc<SessionLink>,
        after: Option<EventId>,
    ) -> Result<OpenedStream, Rejection> {
        match after {
            Some(after) if is_response(after.stream) => self.open_response(endpoint, session, after).await,
            _ => self.open_unsolicited(endpoint, session, link, after).await,
        }
    }

    /// Finds the stream of a response after an event.
    async fn open_response(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        session: &Session,
        after: EventId,
    ) -> Result<OpenedStream, Rejection> {
        if session.has_stream(after.stream) {
            return Ok(OpenedStream::Here);
        }
        let unavailable = |error: StoreError| unavailable(&error);
        let answer = self.ask_owner(endpoint, session, node_of_stream(after.stream), Some(after)).await?;
        let is_dead = match answer {
            OwnerAnswer::Follows(priming, stream) => return Ok(OpenedStream::Elsewhere(priming, stream)),
            OwnerAnswer::Unknown => false,
            OwnerAnswer::Dead => true,
        };
        if !self.outbox.flush_session(&session.id).await {
            return Err(unavailable(not_written()));
        }
        let stored = if is_dead {
            self.stored_stream(&session.id, after, endpoint.limits.session_idle).await.map_err(unavailable)?
        } else {
            // If an answer is missing, the store has refused it. The request was not stopped.
            let logged = self.logged_stream(&session.id, after).await.map_err(unavailable)?;
            logged.filter(|stream| stream.unanswered.is_empty()).map(|stream| stream.events)
        };
        Ok(OpenedStream::Stored(stored.ok_or_else(event_gone)?))
    }

    /// Finds the stream for unsolicited messages, or goes on with it after an event.
    async fn open_unsolicited(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        session: &Arc<Session>,
        link: &SessionLink,
        after: Option<EventId>,
    ) -> Result<OpenedStream, Rejection> {
        let unavailable = |error: StoreError| unavailable(&error);
        let mut stored = None;
        if let Some(after) = after {
            if link.is_home() && session.has_stream(after.stream) {
                return Ok(OpenedStream::Here);
            }
            let owner = node_of_stream(after.stream);
            let answer = self.ask_owner(endpoint, session, owner, Some(after)).await?;
            if let OwnerAnswer::Follows(priming, stream) = answer {
                return Ok(OpenedStream::Elsewhere(priming, stream));
            }
            if !self.outbox.flush_session(&session.id).await {
                return Err(unavailable(not_written()));
            }
            let logged = self.logged_stream(&session.id, after).await.map_err(unavailable)?;
            stored = Some(logged.ok_or_else(event_gone)?.events);
        }
        for _ in 0..MAX_HOMES {
            let home = link.home();
            if home == self.number {
                return Ok(stored.map_or(OpenedStream::Here, OpenedStream::StoredThenHere));
            }
            match (self.ask_owner(endpoint, session, home, None).await?, stored.take()) {
                (OwnerAnswer::Follows(_, stream), Some(stored)) => {
                    return Ok(OpenedStream::StoredThenElsewhere(stored, stream));
                }
                (OwnerAnswer::Follows(priming, stream), None) => return Ok(OpenedStream::Elsewhere(priming, stream)),
                (OwnerAnswer::Dead, before) => {
                    stored = before;
                    self.take_home(endpoint, session, home).await.map_err(unavailable)?;
                }
                // Another node has taken its place.
                (OwnerAnswer::Unknown, before) => {
                    stored = before;
                    if !self.read_again(endpoint, session).await {
                        // The session has ended in the meantime, and so does its stream here.
                        return Ok(OpenedStream::Here);
                    }
                }
            }
        }
        Err(Rejection::new(RejectionRule::Busy, NO_ANSWER))
    }

    /// Asks the node that had a stream for it.
    async fn ask_owner(
        self: &Arc<Self>,
        endpoint: &HttpEndpoint,
        session: &Session,
        owner: u32,
        after: Option<EventId>,
    ) -> Result<OwnerAnswer, Rejection> {
        if owner == self.number {
            return Ok(OwnerAnswer::Unknown);
        }
        if !self.is_alive(owner).await {
            return Ok(OwnerAnswer::Dead);
        }
        let mut follower = Follower::start(self, owner, &session.id, after);
        match tokio::time::timeout(ANSWER_TIME, follower.next()).await {
            Ok(Some(FollowItem::Following(priming))) => {
                let (sender, items) = mpsc::channel(1);
                let (node, id, lifetime) = (Arc::clone(self), Arc::clone(&session.id), endpoint.limits.session_idle);
                tokio::spawn(async move { node.follow(follower, &id, after, lifetime, sender).await });
                Ok(OwnerAnswer::Follows(priming, RemoteStream(items)))
            }
            Ok(Some(FollowItem::Ended(StreamEnd::Unknown))) => Ok(OwnerAnswer::Unknown),
            Ok(None) => Ok(OwnerAnswer::Dead),
            // Messages between the nodes may be lost, or the store does not have all of the stream yet.
            Ok(Some(_)) | Err(_) => Err(Rejection::new(RejectionRule::Busy, NO_ANSWER)),
        }
    }

    /// Returns the rest of a stream whose node is dead: what is stored, and an error for each request that it has not
    /// answered. Returns `None` if events are missing.
    async fn stored_stream(
        &self,
        session: &str,
        after: EventId,
        lifetime: Duration,
    ) -> Result<Option<Vec<(EventId, Bytes)>>, StoreError> {
        let Some(mut stream) = self.logged_stream(session, after).await? else { return Ok(None) };
        let errors = stream.answer_for_dead_node(after).into_iter();
        let errors: Vec<_> = errors.map(|entry| log_entry(session, entry, lifetime)).collect();
        if !errors.is_empty() {
            // Another client that resumes the stream gets the same answers.
            self.watch(self.store.append(errors).await)?;
        }
        Ok(Some(stream.events))
    }

    /// Passes a stream of another node on to the connection that wants it, until the stream ends or the client leaves.
    async fn follow(
        self: Arc<Self>,
        mut follower: Follower,
        session: &str,
        after: Option<EventId>,
        lifetime: Duration,
        client: mpsc::Sender<StreamItem>,
    ) {
        let mut last = after;
        loop {
            let Some(next) = until(follower.next(), client.closed()).await else { return };
            let item = match next {
                Some(FollowItem::Following(_)) => continue,
                Some(FollowItem::Event(id, message)) => {
                    match order(last, id) {
                        EventOrder::Next => {}
                        EventOrder::Repeated => continue,
                        // The client resumes, and gets what is stored.
                        EventOrder::AfterGap => return,
                    }
                    last = Some(id);
                    StreamItem::Messages(vec![MailboxMessage::from_elsewhere(id, message)])
                }
                Some(FollowItem::Ended(StreamEnd::HangUp { retry_ms })) => {
                    StreamItem::HangUp(Duration::from_millis(retry_ms))
                }
                Some(FollowItem::Ended(StreamEnd::Complete | StreamEnd::Unknown | StreamEnd::NotWritten)) => return,
                None => {
                    // The stream for unsolicited messages ends: the client opens it again, and another node has it.
                    let Some(after) = last.filter(|id| is_response(id.stream)) else { return };
                    let Ok(Some(stored)) = self.stored_stream(session, after, lifetime).await else { return };
                    let messages = stored.into_iter().map(|(id, message)| MailboxMessage::from_elsewhere(id, message));
                    let _ = client.send(StreamItem::Messages(messages.collect())).await;
                    return;
                }
            };
            if client.send(item).await.is_err() {
                return;
            }
        }
    }

    /// Sends a stream of this node to another node that follows it.
    pub(super) async fn send_stream(
        self: &Arc<Self>,
        endpoint: &Arc<HttpEndpoint>,
        session: &str,
        after: Option<(u64, u64)>,
        follower: u32,
        key: u64,
    ) {
        let send = |message: NodeMessage| self.outbox.send(follower, message.write(b""));
        let end = |why: StreamEnd| send(NodeMessage::Ended { key, why });
        let outgoing = self.outbox.stream(session, follower);
        let event = async |id: EventId, message: &[u8]| {
            let event = NodeMessage::Event { key, stream: id.stream, sequence: id.sequence };
            self.outbox.send_of_stream(&outgoing, event.write(message)).await;
        };
        // The other node reads the store: all that this node has sent must be there.
        let name = session;
        let unknown = async || match self.outbox.flush_session(name).await {
            true => StreamEnd::Unknown,
            false => StreamEnd::NotWritten,
        };
        let Some(session_use) = self.find(endpoint, session).await else { return end(unknown().await) };
        let session = session_use.session();
        let is_home = || session.link.as_ref().is_some_and(|link| link.is_home());
        let is_unsolicited = after.is_none_or(|(stream, _)| !is_response(stream));
        if is_unsolicited && !is_home() {
            // The other node may know it better.
            self.read_again(endpoint, session).await;
        }
        let reader = match after {
            None if !is_home() => return end(StreamEnd::Unknown),
            Some(_) if is_unsolicited && !is_home() => return end(unknown().await),
            None => {
                let mailbox = session.unsolicited();
                let number = mailbox.open_stream();
                let priming = mailbox.take_priming_id().map(|id| (id.stream, id.sequence));
                send(NodeMessage::Following { key, priming });
                StreamReader::attached(mailbox, number)
            }
            Some((stream, sequence)) => {
                let id = EventId { stream, sequence };
                let resumed = if session.has_stream(stream) { session.resume(id).await } else { None };
                let Some(resumed) = resumed else { return end(unknown().await) };
                send(NodeMessage::Following { key, priming: None });
                for (id, message) in &resumed.replay {
                    event(*id, message).await;
                }
                let Some(reader) = resumed.reader else { return end(StreamEnd::Complete) };
                reader
            }
        };
        loop {
            match until(poll_fn(|context| reader.poll_next(context)), tokio::time::sleep(NODE_LEASE)).await {
                Some(StreamItem::Messages(messages)) => {
                    // As with a client of this node, a message counts as waiting until there is room for it.
                    for queued in messages {
                        event(queued.id, &queued.message).await;
                        drop(queued);
                        session.has_written();
                    }
                }
                Some(StreamItem::HangUp(retry)) => {
                    let retry_ms = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
                    return end(StreamEnd::HangUp { retry_ms });
                }
                Some(StreamItem::End) => return end(StreamEnd::Complete),
                None if self.is_alive(follower).await => {}
                None => return,
            }
        }
    }
}

/// Where an event of a stream belongs that another node has sent.
#[derive(Debug, PartialEq, Eq)]
enum EventOrder {
    Next,
    /// It was sent again, because the store did not say whether it has it.
    Repeated,
    /// Events before it are lost.
    AfterGap,
}

fn order(last: Option<EventId>, id: EventId) -> EventOrder {
    match last.filter(|last| last.stream == id.stream) {
        Some(last) if id.sequence <= last.sequence => EventOrder::Repeated,
        // The stream for unsolicited messages may leave out what nobody has read.
        Some(last) if id.sequence > last.sequence + 1 && is_response(id.stream) => EventOrder::AfterGap,
        _ => EventOrder::Next,
    }
}

/// The reason why a stream cannot be read while what this node has written is still on its way to the store.
fn not_written() -> StoreError {
    StoreError::Away("events of this node are not written yet".to_owned())
}

/// The number of nodes that are asked for the stream for unsolicited messages, if each has lost it to another one.
const MAX_HOMES: usize = 4;

const NO_ANSWER: &str = "The machine that has this stream does not answer: try again later";

/// The number of events that wait for a client before it is cut off.
const MAX_WAITING_EVENTS: usize = 1024;

/// The time after which a node that has said nothing is checked for being alive.
const CHECK_TIME: Duration = Duration::from_secs(1);

/// The time that a node has to say whether it has a stream: enough to be taken for dead.
const ANSWER_TIME: Duration = Duration::from_secs(NODE_LEASE.as_secs() + 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_was_sent_twice_counts_once_and_a_gap_is_noticed() {
        let id = |sequence| EventId { stream: 1 << 44 | 1, sequence };
        assert_eq!(order(None, id(7)), EventOrder::Next);
        assert_eq!(order(Some(id(7)), id(8)), EventOrder::Next);
        assert_eq!([id(7), id(3)].map(|next| order(Some(id(7)), next)), [EventOrder::Repeated, EventOrder::Repeated]);
        assert_eq!(order(Some(id(7)), id(9)), EventOrder::AfterGap);
        let unsolicited = |sequence| EventId { stream: 1 << 44, sequence };
        assert_eq!(order(Some(unsolicited(7)), unsolicited(9)), EventOrder::Next);
    }

    #[tokio::test]
    async fn streams_of_a_node_whose_messages_are_lost_are_cut_off() {
        let follows = Follows::default();
        let follow = |key, owner| {
            let (sender, items) = mpsc::channel(1);
            follows.lock_following().insert(key, FollowedStream { owner, items: sender });
            items
        };
        let (mut first, mut second) = (follow(1, 5), follow(2, 6));
        follows.cut_off(Some(5));
        assert!(first.recv().await.is_none());
        assert!(second.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty));
        follows.cut_off(None);
        assert!(second.recv().await.is_none());
    }
}
