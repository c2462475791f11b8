//! The facts about a message that a filter asks for, and where a message that is being read has them.

use std::borrow::Cow;
use std::time::Duration;

use barewire_proto::json::Text;
use barewire_proto::rpc::Message;
use barewire_proto::transcript::Stream;

use super::IdPattern;
use crate::frames::FrameKind;
use crate::operations::{Operation, Relation, ResponseOutcome, TrackedMessage};

/// A message that a [`Filter`](super::Filter) can be applied to: a whole frame, or an element of a batch.
pub trait FilteredMessage {
    /// Returns the kind of the message.
    fn kind(&self) -> FrameKind;

    /// Whether the message is an element of a batch.
    fn is_in_batch(&self) -> bool;

    /// Returns the direction; `None` if it is not known.
    fn stream(&self) -> Option<Stream>;

    /// Returns the method of the message or, for a response, that of the request it answers.
    fn method(&self) -> Option<Cow<'_, str>>;

    /// Returns the name of the tool, if the message is part of a `tools/call`.
    fn tool(&self) -> Option<Cow<'_, str>>;

    /// Whether the message, or the request that a progress or cancel is about, has this id.
    fn has_id(&self, wanted: &IdPattern) -> bool;

    /// Returns the time since the request in this round, if the message is a response.
    fn latency(&self) -> Option<Duration>;

    /// Whether the message is an error, a result with `isError`, or invalid.
    fn is_failure(&self) -> bool;

    /// Whether the message is a request without a response. While messages are being read, this holds for every
    /// request, because its response may still follow.
    fn is_unanswered(&self) -> bool;

    /// Returns the text of the message; empty if it was too long to keep.
    fn text(&self) -> Cow<'_, [u8]>;
}

impl FilteredMessage for TrackedMessage<'_> {
    fn kind(&self) -> FrameKind {
        FrameKind::of(self.message, self.text.is_some())
    }

    fn is_in_batch(&self) -> bool {
        self.element.is_some()
    }

    fn stream(&self) -> Option<Stream> {
        self.frame.place.map(|place| place.stream)
    }

    fn method(&self) -> Option<Cow<'_, str>> {
        let own = match self.message {
            Ok(Message::Request(request)) => Some(request.method),
            Ok(Message::Notification(notification)) => Some(notification.method),
            Ok(Message::Response(_) | Message::OrphanError(_)) => None,
            Err(invalid) => invalid.method,
        };
        match (own, self.relation) {
            (Some(method), _) => Some(Text::to_name(method)),
            (None, Relation::Response { operation, .. }) => Some(Cow::Borrowed(&operation.method)),
            (None, _) => None,
        }
    }

    fn tool(&self) -> Option<Cow<'_, str>> {
        let operation = self.operation().filter(|operation| operation.method == "tools/call")?;
        operation.name.as_deref().map(Cow::Borrowed)
    }

    fn has_id(&self, wanted: &IdPattern) -> bool {
        let own = match self.message {
            Ok(Message::Request(request)) => Some(&request.id),
            Ok(Message::Response(response)) => Some(&response.id),
            Ok(Message::Notification(_) | Message::OrphanError(_)) => None,
            Err(invalid) => invalid.id.as_ref(),
        };
        match (own, self.relation) {
            (Some(id), _) => wanted.matches(id),
            (None, Relation::Progress { operation } | Relation::Cancellation { operation }) => {
                operation.rounds.iter().any(|round| wanted.matches(&round.id))
            }
            (None, _) => false,
        }
    }

    fn latency(&self) -> Option<Duration> {
        if let Relation::Response { latency, .. } = self.relation { latency } else { None }
    }

    fn is_failure(&self) -> bool {
        match self.message {
            Err(_) => !self.frame.is_cut(),
            Ok(Message::OrphanError(_)) => true,
            Ok(Message::Response(response)) => ResponseOutcome::of(response).is_failure(),
            Ok(Message::Request(_) | Message::Notification(_)) => false,
        }
    }

    fn is_unanswered(&self) -> bool {
        matches!(self.relation, Relation::Request { operation, .. } if !operation.is_listen())
    }

    fn text(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.text.unwrap_or_default())
    }
}

impl TrackedMessage<'_> {
    /// Returns the operation that the message is part of.
    fn operation(&self) -> Option<&Operation> {
        match self.relation {
            Relation::Request { operation, .. }
            | Relation::Response { operation, .. }
            | Relation::Progress { operation }
            | Relation::Cancellation { operation } => Some(operation),
            Relation::None | Relation::RefusesUnidentified | Relation::Duplicate | Relation::Unsolicited => None,
        }
    }
}
