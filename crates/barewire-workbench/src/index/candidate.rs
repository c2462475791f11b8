//! A row of an index as a filter sees it.

use std::borrow::Cow;
use std::time::Duration;

use barewire_proto::rpc::Id;
use barewire_proto::transcript::Stream;

use super::record::{EntryKind, EntryRecord, Flags};
use super::{IndexData, OperationState};
use crate::filter::{Filter, FilteredMessage, IdPattern};
use crate::frames::FrameKind;
use crate::rows::Role;

/// A row, with the tables that its numbers refer to. Its text is not known: the caller looks for texts itself.
pub(crate) struct Candidate<'a> {
    data: &'a IndexData,
    entry: &'a EntryRecord,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(data: &'a IndexData, entry: &'a EntryRecord) -> Self {
        Self { data, entry }
    }

    /// Whether the row matches a filter without texts.
    pub(super) fn matches(&self, filter: &Filter) -> bool {
        match self.entry.kind {
            EntryKind::Event => filter.matches_event(self.stream(), b"", self.entry.flags.has(Flags::FAILURE)),
            // A batch matches if one of its elements does, which have rows of their own.
            EntryKind::Frame(FrameKind::Batch) => {
                !filter.is_set() || filter.kinds.contains(&FrameKind::Batch) && filter.matches(self)
            }
            _ => filter.matches(self),
        }
    }

    /// Whether the row matches a filter, its texts left aside.
    pub(super) fn may_match(&self, filter: &Filter) -> bool {
        let without_texts = Filter { texts: Vec::new(), ..filter.clone() };
        self.entry.text.is_kept() && self.matches(&without_texts)
    }
}

impl Candidate<'_> {
    /// Returns the id of the message, or those of the requests that a progress or a cancellation is about, as written.
    pub(crate) fn ids(&self) -> Vec<String> {
        let text = |entry: &EntryRecord| self.data.ids.text(entry.id);
        match self.entry.role {
            Role::Progress | Role::Cancellation => {
                let rows = self.data.rows_of(self.entry.operation).into_iter();
                let entries = rows.map(|row| &self.data.entries[row as usize]);
                entries.filter(|it| matches!(it.role, Role::Request { .. })).filter_map(text).collect()
            }
            _ => text(self.entry).into_iter().collect(),
        }
    }
}

impl FilteredMessage for Candidate<'_> {
    fn kind(&self) -> FrameKind {
        match self.entry.kind {
            EntryKind::Frame(kind) => kind,
            EntryKind::Event => FrameKind::Invalid,
        }
    }

    fn is_in_batch(&self) -> bool {
        self.entry.element > 0
    }

    fn stream(&self) -> Option<Stream> {
        self.entry.flags.stream()
    }

    fn method(&self) -> Option<Cow<'_, str>> {
        let own = self.data.names.get(self.entry.method);
        let answered = || match self.entry.role {
            Role::Response { .. } => self.data.names.get(self.data.operation(self.entry.operation)?.method),
            _ => None,
        };
        own.or_else(answered).map(Cow::Borrowed)
    }

    fn tool(&self) -> Option<Cow<'_, str>> {
        let operation = self.data.operation(self.entry.operation)?;
        let is_call = self.data.names.get(operation.method) == Some("tools/call");
        if is_call { self.data.names.get(operation.name).map(Cow::Borrowed) } else { None }
    }

    fn has_id(&self, wanted: &IdPattern) -> bool {
        self.ids().iter().any(|text| Id::parse(text.as_bytes()).is_some_and(|id| wanted.matches(&id)))
    }

    fn latency(&self) -> Option<Duration> {
        let request = self.data.entries.get((self.entry.request as usize).checked_sub(1)?)?;
        self.entry.time.since(request.time)
    }

    fn is_failure(&self) -> bool {
        self.entry.outcome.is_failure()
    }

    fn is_unanswered(&self) -> bool {
        let operation = self.data.operation(self.entry.operation);
        matches!(self.entry.role, Role::Request { .. }) && operation.is_some_and(|it| it.state == OperationState::Open)
    }

    fn text(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(b"")
    }
}
