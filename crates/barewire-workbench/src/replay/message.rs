//! The bytes of a frame -> what they say, kept: one message, or the elements of a batch.

use barewire_proto::json::Text;
use barewire_proto::rpc::{Id, Invalid, Message, Parsed, Shape, parse};

use super::value::Value;

/// One message.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) kind: Kind,
    /// Its own text.
    pub(super) text: Vec<u8>,
    /// `None` if it is no JSON, or holds what a `Value` cannot: such texts are compared byte by byte.
    pub(super) value: Option<Value>,
}

/// What a message is, also if it is malformed: what somebody answers under an id is a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Request {
        id: Id<'static>,
        method: String,
    },
    Notification {
        method: String,
    },
    Answer {
        id: Id<'static>,
    },
    /// An error without an id.
    Orphan,
    /// No message.
    Noise,
}

impl Said {
    /// All that a frame says, in order.
    pub(super) fn all(frame: &[u8]) -> Vec<Self> {
        match parse(frame, usize::MAX) {
            Parsed::Message(message) => vec![Self::new(Kind::of(&Ok(message)), frame)],
            Parsed::Invalid(invalid) => vec![Self::new(Kind::of(&Err(invalid)), frame)],
            Parsed::Batch(batch) => batch
                .elements()
                .zip(batch.texts())
                .map(|(element, text)| Self::new(Kind::of(&element), text))
                .collect(),
        }
    }

    fn new(kind: Kind, text: &[u8]) -> Self {
        Self { kind, text: text.to_vec(), value: Value::parse(text) }
    }

    /// The method of a request or notification.
    pub(super) fn method(&self) -> Option<&str> {
        match &self.kind {
            Kind::Request { method, .. } | Kind::Notification { method } => Some(method),
            Kind::Answer { .. } | Kind::Orphan | Kind::Noise => None,
        }
    }

    pub(super) fn params(&self) -> Option<&Value> {
        self.value.as_ref()?.get("params")
    }

    /// The tool, prompt or resource that it is about.
    pub(super) fn name(&self) -> Option<&str> {
        let params = self.params()?;
        ["name", "uri", "taskId"].iter().find_map(|member| params.get(member)?.as_str())
    }

    /// The token under which whoever asks wants to be told of progress.
    pub(super) fn wanted_token(&self) -> Option<Id<'static>> {
        token(self.params()?.get("_meta")?.get("progressToken")?)
    }

    /// The token under which it tells of progress.
    pub(super) fn told_token(&self) -> Option<Id<'static>> {
        match &self.kind {
            Kind::Notification { method } if method == "notifications/progress" => {
                token(self.params()?.get("progressToken")?)
            }
            _ => None,
        }
    }

    /// The request that listens to what this tells.
    pub(super) fn subscription(&self) -> Option<Id<'static>> {
        token(self.params()?.get("_meta")?.get(SUBSCRIPTION)?)
    }

    /// The request that it gives up.
    pub(super) fn cancels(&self) -> Option<Id<'static>> {
        match &self.kind {
            Kind::Notification { method } if method == "notifications/cancelled" => {
                token(self.params()?.get("requestId")?)
            }
            _ => None,
        }
    }
}

impl Kind {
    fn of(message: &Result<Message<'_>, Invalid<'_>>) -> Self {
        let named = |method: Text<'_>| method.to_name().into_owned();
        match message {
            Ok(Message::Request(request)) => {
                Self::Request { id: request.id.clone().into_owned(), method: named(request.method) }
            }
            Ok(Message::Notification(notification)) => {
                Self::Notification { method: named(notification.method) }
            }
            Ok(Message::Response(response)) => Self::Answer { id: response.id.clone().into_owned() },
            Ok(Message::OrphanError(_)) => Self::Orphan,
            Err(Invalid { shape, id: Some(id), method, .. }) => match shape {
                Shape::Response => Self::Answer { id: id.clone().into_owned() },
                Shape::Request | Shape::Unknown => Self::Request {
                    id: id.clone().into_owned(),
                    method: method.map(named).unwrap_or_default(),
                },
                Shape::Notification => Self::Noise,
            },
            Err(_) => Self::Noise,
        }
    }
}

/// A string or number that stands for something.
pub(super) fn token(value: &Value) -> Option<Id<'static>> {
    Id::parse(value.to_string().as_bytes()).map(Id::into_owned)
}

/// Where a notification names the request that listens, from 2026-07-28 on.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
