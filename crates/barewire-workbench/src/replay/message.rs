//! Splits a frame into its messages: one message, or the elements of a batch.

use std::borrow::Cow;

use barewire_proto::json::{Json, Text};
use barewire_proto::rpc::{self, Id, Invalid, Parsed, Shape, parse};

use super::value::comparable;

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: MessageKind,
    pub(super) text: Vec<u8>,
}

/// The kind of a message. A malformed message with a usable id counts as the request or response that it looks like.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MessageKind {
    Request {
        id: Id<'static>,
        method: String,
    },
    Notification {
        method: String,
    },
    Response {
        id: Id<'static>,
    },
    /// An error without an id.
    OrphanError,
    Invalid,
}

impl Message {
    pub(super) fn in_frame(frame: &[u8]) -> Vec<Self> {
        match parse(frame, usize::MAX) {
            Parsed::Message(message) => vec![Self::new(MessageKind::of(&Ok(message)), frame)],
            Parsed::Invalid(invalid) => vec![Self::new(MessageKind::of(&Err(invalid)), frame)],
            // A message takes many times the memory of a short element.
            Parsed::Batch(batch) if batch.elements().nth(MAX_BATCH).is_some() => {
                vec![Self::new(MessageKind::Invalid, frame)]
            }
            Parsed::Batch(batch) => {
                let elements = batch.elements().zip(batch.texts());
                elements.map(|(element, text)| Self::new(MessageKind::of(&element), text)).collect()
            }
        }
    }

    fn new(kind: MessageKind, text: &[u8]) -> Self {
        Self { kind, text: text.to_vec() }
    }

    /// Returns the message as a value that can be compared; `None` if it must be compared byte by byte.
    pub(super) fn json(&self) -> Option<Json<'_>> {
        comparable(&self.text)
    }

    pub(super) fn is_request(&self) -> bool {
        matches!(self.kind, MessageKind::Request { .. })
    }

    pub(super) fn is_response(&self) -> bool {
        matches!(self.kind, MessageKind::Response { .. })
    }

    pub(super) fn id(&self) -> Option<&Id<'static>> {
        match &self.kind {
            MessageKind::Request { id, .. } | MessageKind::Response { id } => Some(id),
            _ => None,
        }
    }

    pub(super) fn method(&self) -> Option<&str> {
        match &self.kind {
            MessageKind::Request { method, .. } | MessageKind::Notification { method } => Some(method),
            _ => None,
        }
    }

    pub(super) fn params(&self) -> Option<Json<'_>> {
        self.json()?.member("params")
    }

    /// Returns the name of the tool or prompt, the URI of the resource, or the id of the task in the params.
    pub(super) fn name(&self) -> Option<Cow<'_, str>> {
        let params = self.params()?;
        ["name", "uri", "taskId"].iter().find_map(|member| params.member(member)?.string())
    }

    pub(super) fn requested_progress_token(&self) -> Option<Id<'static>> {
        token(self.params()?.at(&["_meta", "progressToken"])?)
    }

    pub(super) fn progress_token(&self) -> Option<Id<'static>> {
        self.notification_token("notifications/progress", "progressToken")
    }

    pub(super) fn cancelled_id(&self) -> Option<Id<'static>> {
        self.notification_token("notifications/cancelled", "requestId")
    }

    fn notification_token(&self, method: &str, member: &str) -> Option<Id<'static>> {
        let MessageKind::Notification { method: own } = &self.kind else { return None };
        (own == method).then(|| token(self.params()?.member(member)?)).flatten()
    }

    /// Returns the id of the `subscriptions/listen` request that this notification belongs to.
    pub(super) fn subscription(&self) -> Option<Id<'static>> {
        token(self.params()?.at(&["_meta", SUBSCRIPTION])?)
    }
}

impl MessageKind {
    fn of(message: &Result<rpc::Message<'_>, Invalid<'_>>) -> Self {
        let named = |method: Text<'_>| method.to_name().into_owned();
        match message {
            Ok(rpc::Message::Request(request)) => {
                Self::Request { id: request.id.clone().into_owned(), method: named(request.method) }
            }
            Ok(rpc::Message::Notification(notification)) => Self::Notification { method: named(notification.method) },
            Ok(rpc::Message::Response(response)) => Self::Response { id: response.id.clone().into_owned() },
            Ok(rpc::Message::OrphanError(_)) => Self::OrphanError,
            Err(Invalid { shape, id: Some(id), method, .. }) => match shape {
                Shape::Response => Self::Response { id: id.clone().into_owned() },
                Shape::Request | Shape::Unknown => {
                    Self::Request { id: id.clone().into_owned(), method: method.map(named).unwrap_or_default() }
                }
                Shape::Notification => Self::Invalid,
            },
            Err(_) => Self::Invalid,
        }
    }
}

/// Reads a string or number as an id.
fn token(value: Json<'_>) -> Option<Id<'static>> {
    Id::from_json(value).map(Id::into_owned)
}

/// The maximum number of messages in a batch, as for a connection. A longer batch counts as one invalid message.
const MAX_BATCH: usize = 1000;

/// The member of `_meta` that names the subscription of a notification, since revision 2026-07-28.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_more_than_1000_messages_is_one_invalid_message() {
        let batch = |count: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"x"}"#; count].join(","));
        assert_eq!(Message::in_frame(batch(1000).as_bytes()).len(), 1000);
        let messages = Message::in_frame(batch(1001).as_bytes());
        assert!(matches!(&messages[..], [Message { kind: MessageKind::Invalid, .. }]), "{}", messages.len());
    }
}
