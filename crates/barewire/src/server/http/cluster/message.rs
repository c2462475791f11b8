//! What the nodes of a cluster say to each other <-> bytes: a line of JSON, and a message of a client or to one.

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::server::registry::RegistryChange;

/// What one node says to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(super) enum NodeMessage {
    /// A message of the client, for the handlers that run here: an answer, or a notification.
    Deliver { session: String },
    /// A message to the client that belongs to no request, for the node that has the stream for such messages.
    Unsolicited {
        session: String,
        /// The node that has written the message, and its number there: if the message is sent again because the
        /// store did not say whether it has it, it counts once.
        from: u32,
        number: u64,
        /// How often the message was passed on. It is dropped if the nodes do not agree about where it belongs.
        hops: u8,
    },
    /// The record of the session has changed. The new one follows.
    Changed { session: String, version: u64 },
    /// The session has ended.
    End { session: String },
    /// The asking node has a client that wants this stream after this event. Without an id, it wants the stream for
    /// unsolicited messages from now on.
    Follow { session: String, after: Option<(u64, u64)>, node: u32, key: u64 },
    /// The client of the asking node has gone.
    Unfollow { node: u32, key: u64 },
    /// The stream is there. If `priming` is set, it begins with an empty event of this id.
    Following { key: u64, priming: Option<(u64, u64)> },
    /// An event of the stream.
    Event { key: u64, stream: u64, sequence: u64 },
    /// The stream has ended.
    Ended { key: u64, why: StreamEnd },
    /// Messages of this node to the one that reads it are lost.
    Lost { node: u32 },
    /// A task has changed: it has so many changes now.
    Task { task: String, changes: u64 },
    /// A list has changed, or a resource, in the registry with this name.
    Change { registry: String, change: RegistryChange },
}

/// The reason why a stream of another node has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StreamEnd {
    /// It is complete, or another connection reads it now.
    Complete,
    /// The client is asked to reconnect after this time.
    HangUp { retry_ms: u64 },
    /// That node does not have it. All that it has sent is in the store.
    Unknown,
    /// As before, but the node could not write to the store all that it has sent.
    NotWritten,
}

impl NodeMessage {
    /// Writes the message, followed by `body`.
    pub(super) fn write(&self, body: &[u8]) -> Bytes {
        let head = serde_json::to_vec(self).expect("numbers and text are JSON");
        let mut out = BytesMut::with_capacity(head.len() + 1 + body.len());
        out.extend_from_slice(&head);
        out.extend_from_slice(b"\n");
        out.extend_from_slice(body);
        out.freeze()
    }

    /// Reads a message and its body. Returns `None` for one that this version does not know.
    pub(super) fn read(bytes: &Bytes) -> Option<(Self, Bytes)> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        Some((serde_json::from_slice(&bytes[..end]).ok()?, bytes.slice(end + 1..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::registry::ListKind;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let session = "s".to_owned();
        let all = [
            NodeMessage::Deliver { session: session.clone() },
            NodeMessage::Follow { session, after: Some((7, u64::MAX)), node: 3, key: 9 },
            NodeMessage::Ended { key: 1, why: StreamEnd::HangUp { retry_ms: 5 } },
            NodeMessage::Task { task: "t".to_owned(), changes: u64::MAX },
            NodeMessage::Change { registry: "r".to_owned(), change: RegistryChange::Resource("file:///\n".to_owned()) },
            NodeMessage::Change { registry: String::new(), change: RegistryChange::List(ListKind::Tools) },
        ];
        for message in all {
            let body = Bytes::from_static(b"{}\n\xff");
            assert_eq!(NodeMessage::read(&message.write(&body)), Some((message, body)));
        }
        assert_eq!(NodeMessage::read(&Bytes::from_static(b"{\"what\":\"news\"}\n")), None);
        assert_eq!(NodeMessage::read(&Bytes::from_static(b"{}")), None);
    }
}
