//! The kind of a frame, or of a message in a batch: a closed set of names.

use barewire_proto::rpc::{Message, Rule};

use super::MessageResult;

/// The kind of a frame, or of a message in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has no other kinds of messages")]
#[repr(u8)]
pub enum FrameKind {
    /// A request.
    Request,
    /// A notification.
    Notification,
    /// A response with a result.
    Result,
    /// A response with an error.
    Error,
    /// An array of messages.
    Batch,
    /// A frame that is not a valid message.
    Invalid,
    /// A frame of which the transcript contains only the beginning.
    Cut,
}

impl FrameKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Request, Self::Notification, Self::Result, Self::Error, Self::Batch, Self::Invalid, Self::Cut];

    /// Returns the name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Notification => "notification",
            Self::Result => "result",
            Self::Error => "error",
            Self::Batch => "batch",
            Self::Invalid => "invalid",
            Self::Cut => "cut",
        }
    }

    /// Returns the kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind of a message. `has_text` is false if the message was too long to keep.
    pub fn of(message: &MessageResult<'_>, has_text: bool) -> Self {
        match message {
            Ok(Message::Request(_)) => Self::Request,
            Ok(Message::Notification(_)) => Self::Notification,
            Ok(Message::Response(response)) if response.outcome.is_ok() => Self::Result,
            Ok(Message::Response(_) | Message::OrphanError(_)) => Self::Error,
            Err(invalid) if invalid.rule == Rule::Truncated && has_text => Self::Cut,
            Err(_) => Self::Invalid,
        }
    }
}
