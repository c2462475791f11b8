//! Where the messages of a session go: those of its client to the node that waits for them, and those of other nodes to
//! the session here.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use barewire_proto::http::Rejection;
use barewire_proto::mcp::ParsedMessage;
use barewire_proto::rpc::Message;
use bytes::Bytes;

use super::enter::update;
use super::log::request_ids;
use super::message::NodeMessage;
use super::node::{ClusterNode, unavailable};
use super::numbers::node_of_call;
use super::record::{RecordChange, messages};
use super::store::Record;
use crate::server::http::endpoint::HttpEndpoint;
use crate::server::http::session::Session;

/// Where a frame of a client goes, and what it changes.
///
/// | message | goes to |
/// |---|---|
/// | request | this node |
/// | answer to a question | the node that has asked, which the id contains |
/// | notification, such as a cancellation | all nodes that have served the session |
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct ClientRoute {
    /// Whether it is handled here.
    pub(in super::super) is_for_here: bool,
    /// Whether other nodes handle it too.
    is_for_all: bool,
    /// The other nodes that have asked the questions that it answers.
    askers: BTreeSet<u32>,
    /// What it changes, if it is accepted.
    pub(in super::super) changes: Vec<RecordChange>,
    /// The ids of its requests, as a JSON array.
    pub(in super::super) requests: Bytes,
}

impl ClusterNode {
    pub(in super::super) fn route(&self, message: &ParsedMessage<Bytes>) -> ClientRoute {
        ClientRoute::of(&messages(message), self.number)
    }

    /// Sends a frame of a client to the other nodes that it is for. When this returns, it is not lost.
    pub(in super::super) async fn deliver_elsewhere(
        &self,
        session: &Session,
        route: &ClientRoute,
        frame: &[u8],
    ) -> Result<(), Rejection> {
        let mut nodes = BTreeSet::new();
        if route.is_for_all
            && let Some(known) = session.link.as_ref().and_then(|link| link.known())
        {
            nodes.extend(known.record.nodes.into_iter().filter(|node| *node != self.number));
        }
        if nodes.is_empty() && route.askers.is_empty() {
            return Ok(());
        }
        let message = NodeMessage::Deliver { session: session.id.to_string() }.write(frame);
        for node in route.askers.union(&nodes) {
            // A node that seems dead may only have been stopped, and its handler still waits for an answer. What a dead
            // node has run ended with it.
            if route.askers.contains(node) || self.is_alive(*node).await {
                self.watch(self.store.send(*node, message.clone()).await).map_err(|error| unavailable(&error))?;
            }
        }
        Ok(())
    }

    /// Handles a message of another node. Nothing here waits: the next message may free what this one waits for.
    pub(super) fn handle(self: &Arc<Self>, endpoint: &Arc<HttpEndpoint>, message: NodeMessage, body: Bytes) {
        let node = Arc::clone(self);
        match message {
            // Nothing waits for these on a node without a copy of the session.
            NodeMessage::Deliver { session } => {
                if let Some(here) = endpoint.sessions.find_for_node(&session) {
                    here.session().deliver(body);
                }
            }
            NodeMessage::Changed { session, version } => {
                if let Some(here) = endpoint.sessions.find_for_node(&session) {
                    update(here.session(), &Record { version, value: body });
                }
            }
            NodeMessage::End { session } => {
                if let Some(here) = endpoint.sessions.find_for_node(&session) {
                    endpoint.sessions.end(here.session());
                }
            }
            NodeMessage::Unsolicited { session, from, number, hops } => {
                if self.is_new(from, number) {
                    let endpoint = Arc::clone(endpoint);
                    let origin = (from, number, hops);
                    tokio::spawn(async move { node.push_unsolicited(&endpoint, session, origin, body).await });
                }
            }
            NodeMessage::Follow { session, after, node: follower, key } => {
                let endpoint = Arc::clone(endpoint);
                let sending =
                    tokio::spawn(async move { node.send_stream(&endpoint, &session, after, follower, key).await });
                self.follows.add_sending(follower, key, sending.abort_handle());
            }
            NodeMessage::Unfollow { node: follower, key } => self.follows.stop_sending(follower, key),
            NodeMessage::Following { .. } | NodeMessage::Event { .. } | NodeMessage::Ended { .. } => {
                self.follows.receive(message, body);
            }
            NodeMessage::Lost { node: owner } => self.follows.cut_off(Some(owner)),
            NodeMessage::Task { task, changes } => self.tasks.changed(&task, changes),
            NodeMessage::Change { registry, change } => {
                let own = &endpoint.shared.registry;
                if own.name() != registry {
                    own.notify(&change);
                }
            }
        }
    }

    /// Whether an unsolicited message has not arrived before.
    fn is_new(&self, from: u32, number: u64) -> bool {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        if !arrived.contains_key(&from)
            && let Some(alive) = self.last_alive()
        {
            // What dead nodes have sent is forgotten.
            arrived.retain(|node, _| alive.contains(node));
        }
        arrived.entry(from).or_default().add(number)
    }

    async fn push_unsolicited(
        self: &Arc<Self>,
        endpoint: &Arc<HttpEndpoint>,
        session: String,
        (from, number, hops): (u32, u64, u8),
        body: Bytes,
    ) {
        let Some(found) = self.find(endpoint, &session).await else { return };
        let found = found.session();
        let Some(link) = &found.link else { return };
        if !link.is_home() {
            let home = link.home();
            if !self.is_alive(home).await && self.take_home(endpoint, found, home).await.is_err() {
                return;
            }
            // If it is dead, another node may have taken its place.
            let home = link.home();
            if home != self.number {
                if hops < MAX_HOPS {
                    let message = NodeMessage::Unsolicited { session, from, number, hops: hops + 1 };
                    self.outbox.send(home, message.write(&body));
                }
                return;
            }
        }
        found.push_unsolicited(body);
    }
}

impl ClientRoute {
    /// Whether the frame concerns this node alone, and changes nothing that others know.
    pub(in super::super) fn is_only_for_here(&self) -> bool {
        self.is_for_here && !self.is_for_all && self.askers.is_empty() && self.changes.is_empty()
    }

    fn of(messages: &[Message<'_>], node: u32) -> Self {
        let mut route = Self {
            is_for_here: false,
            is_for_all: false,
            askers: BTreeSet::new(),
            changes: messages.iter().filter_map(RecordChange::of).collect(),
            requests: request_ids(messages),
        };
        for message in messages {
            match message {
                Message::Request(_) | Message::OrphanError(_) => route.is_for_here = true,
                // This includes the one that completes the handshake: the node that has the stream for unsolicited
                // messages begins to send.
                Message::Notification(_) => (route.is_for_here, route.is_for_all) = (true, true),
                Message::Response(response) => match response.id.integer().and_then(node_of_call) {
                    Some(asker) if asker != node => {
                        route.askers.insert(asker);
                    }
                    _ => route.is_for_here = true,
                },
            }
        }
        // A frame without a message is answered here, with what is wrong with it.
        route.is_for_here |= messages.is_empty();
        route
    }
}

/// How often an unsolicited message is passed on.
const MAX_HOPS: u8 = 3;

#[cfg(test)]
mod tests {
    use barewire_proto::mcp::LoggingLevel;

    use super::super::numbers::Numbers;
    use super::*;

    fn route(frame: &str) -> ClientRoute {
        let message = ParsedMessage::read(Bytes::from(frame.to_owned()), 100);
        ClientRoute::of(&messages(&message), 1)
    }

    fn nodes(route: &ClientRoute) -> (bool, bool, Vec<u32>) {
        (route.is_for_here, route.is_for_all, route.askers.iter().copied().collect())
    }

    #[test]
    fn an_answer_goes_to_the_node_that_has_asked() {
        let id = |node| Numbers::of_node(node).calls_after() + 1;
        let answer = |node| format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id(node));
        assert_eq!(nodes(&route(&answer(2))), (false, false, vec![2]));
        assert_eq!(nodes(&route(&answer(1))), (true, false, vec![]));
        assert_eq!(nodes(&route(r#"{"jsonrpc":"2.0","id":"x","result":{}}"#)), (true, false, vec![]));
        let batch = format!(r#"[{},{},{{"jsonrpc":"2.0","id":7,"method":"ping"}}]"#, answer(2), answer(3));
        let batch = route(&batch);
        assert_eq!(nodes(&batch), (true, false, vec![2, 3]));
        assert_eq!(batch.requests, "[7]");
    }

    #[test]
    fn a_cancellation_goes_to_all_nodes_and_a_request_stays() {
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(nodes(&route(cancel)), (true, true, vec![]));
        assert_eq!(nodes(&route(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)), (true, false, vec![]));
        assert_eq!(nodes(&route("{")), (true, false, vec![]));
        let complete = route(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!((nodes(&complete), complete.changes), ((true, true, vec![]), vec![RecordChange::Complete]));
        let level = r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}"#;
        assert_eq!(route(level).changes, [RecordChange::LogLevel(LoggingLevel::Error)]);
        let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}"#;
        assert_eq!(route(subscribe).changes, [RecordChange::Subscribe("a:b".to_owned())]);
    }
}
