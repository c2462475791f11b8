//! A tracked message -> what its row shows.

use std::sync::Arc;

use barewire_proto::json::Text;
use barewire_proto::mcp::Side;
use barewire_proto::rpc::Message;

use super::super::record::{EntryKind, RowOutcome};
use super::IndexWriter;
use crate::frames::{FrameFacts, FrameKind};
use crate::operations::{Operation, Relation, ResponseOutcome, TrackedMessage};
use crate::rows::{MessageRelation, Role};

/// A message of the current frame.
pub(super) struct MessageFacts {
    pub(super) kind: EntryKind,
    pub(super) id: Option<String>,
    pub(super) method: u32,
    pub(super) detail: u32,
    pub(super) code: i32,
    /// The place of the message in its frame.
    pub(super) at: usize,
    pub(super) length: u64,
    pub(super) element: u16,
    pub(super) role: Role,
    pub(super) outcome: RowOutcome,
    pub(super) conversation: u32,
    pub(super) has_other_id: bool,
    pub(super) operation: Option<OperationFacts>,
}

/// The state of an operation after a message.
pub(super) struct OperationFacts {
    /// The number that the tracker gives it.
    pub(super) number: u64,
    pub(super) rounds: u16,
    pub(super) method: u32,
    pub(super) name: u32,
    pub(super) is_of_server: bool,
    pub(super) is_listen: bool,
    pub(super) is_ping: bool,
}

impl IndexWriter {
    /// Returns what the row of a message shows.
    pub(super) fn facts(&mut self, tracked: &TrackedMessage<'_>) -> MessageFacts {
        let facts = FrameFacts::element(tracked.message, tracked.text.unwrap_or_default());
        let relation = MessageRelation::of(tracked);
        let kind = EntryKind::Frame(match tracked.frame.is_cut() {
            true => FrameKind::Cut,
            false => FrameKind::of(tracked.message, tracked.text.is_some()),
        });
        let outcome = outcome(kind, tracked);
        let detail = match (facts.invalid, facts.error) {
            (Some(invalid), _) => self.name(invalid.rule.name()),
            (None, Some(error)) => self.name(&error.message.to_name()),
            (None, None) => 0,
        };
        let method = match tracked.message {
            Ok(Message::Request(request)) => Some(request.method),
            Ok(Message::Notification(notification)) => Some(notification.method),
            Ok(Message::Response(_) | Message::OrphanError(_)) => None,
            Err(invalid) => invalid.method,
        };
        let method = method.map_or(0, |method| self.name(&Text::to_name(method)));
        // A long id may be a token.
        let id = facts.id.map(|id| if id.len() > MAX_PLAIN_ID { self.redactor.text(&id) } else { id });
        let operation = match tracked.relation {
            Relation::Request { operation, .. }
            | Relation::Response { operation, .. }
            | Relation::Progress { operation }
            | Relation::Cancellation { operation } => Some(operation),
            _ => None,
        };
        let round = operation.and_then(|operation| operation.rounds.last());
        let has_other_id =
            matches!(relation.role, Role::Response { .. }) && round.is_some_and(|it| it.other_id().is_some());
        let operation = operation.map(|operation| self.operation(operation));
        let index = Arc::clone(&self.index);
        let Self { conversations, redactor, .. } = self;
        let (conversation, exchange) = (tracked.conversation, tracked.exchange);
        let conversation = conversations.of_message(conversation, exchange, redactor, &mut index.data_mut());
        let at = match (tracked.text, tracked.frame.bytes) {
            (Some(text), Some(frame)) => text.as_ptr().addr().saturating_sub(frame.as_ptr().addr()),
            _ => 0,
        };
        MessageFacts {
            kind,
            id,
            method,
            detail,
            code: facts.code.and_then(|code| i32::try_from(code).ok()).unwrap_or_default(),
            at,
            length: tracked.text.map_or(tracked.frame.length, |text| text.len() as u64),
            element: tracked.element.map_or(0, |element| u16::try_from(element + 1).unwrap_or(u16::MAX)),
            role: relation.role,
            outcome,
            conversation,
            has_other_id,
            operation,
        }
    }

    fn operation(&mut self, operation: &Operation) -> OperationFacts {
        OperationFacts {
            number: operation.number,
            rounds: u16::try_from(operation.rounds.len()).unwrap_or(u16::MAX),
            method: self.name(&operation.method),
            name: operation.name.as_deref().map_or(0, |name| self.name(name)),
            is_of_server: operation.asker == Side::Server,
            is_listen: operation.is_listen(),
            is_ping: operation.method == "ping",
        }
    }
}

fn outcome(kind: EntryKind, tracked: &TrackedMessage<'_>) -> RowOutcome {
    match (kind, tracked.message) {
        (EntryKind::Frame(FrameKind::Cut), _) => RowOutcome::Cut,
        (_, Err(_)) => RowOutcome::Invalid,
        (_, Ok(Message::OrphanError(_))) => RowOutcome::Error,
        (_, Ok(Message::Response(response))) => match ResponseOutcome::of(response) {
            ResponseOutcome::Result => RowOutcome::Ok,
            ResponseOutcome::ToolFailed => RowOutcome::ToolError,
            ResponseOutcome::InputRequired => RowOutcome::InputRequired,
            ResponseOutcome::Error { .. } => RowOutcome::Error,
            ResponseOutcome::Unreadable => RowOutcome::Invalid,
            ResponseOutcome::Cut => RowOutcome::Cut,
        },
        (_, Ok(Message::Request(_) | Message::Notification(_))) => RowOutcome::None,
    }
}

/// The length up to which an id is no secret.
const MAX_PLAIN_ID: usize = 16;
