//! The conversations of a capture: their participants, and which of them a row belongs to.

use std::collections::HashMap;

use barewire_proto::mcp::Era;

use super::data::{ConversationRecord, IndexData};
use super::record::EntryKind;
use crate::operations::{Conversation, HttpExchange, Participant};
use crate::secrets::Redactor;

/// The conversations by name.
#[derive(Default)]
pub(super) struct ConversationNumbers(HashMap<String, u32>);

impl ConversationNumbers {
    /// Returns the number of the conversation that a message is part of. Over HTTP, all exchanges without a session
    /// are one conversation.
    pub(super) fn of_message(
        &mut self,
        conversation: &Conversation,
        exchange: Option<&HttpExchange>,
        redactor: &mut Redactor,
        data: &mut IndexData,
    ) -> u32 {
        let number = match exchange {
            Some(exchange) => self.of_exchange(exchange, redactor, data),
            None => self.named(&conversation.name, data),
        };
        let Some(record) = data.conversations.get_mut(number as usize) else { return number };
        record.is_over_http = conversation.over_http;
        update(&mut record.client, conversation.client.as_ref());
        update(&mut record.server, conversation.server.as_ref());
        if let Some(revision) = &conversation.version
            && record.revision.as_ref() != Some(revision)
        {
            record.revision = Some(revision.clone());
        }
        record.era = conversation.era().map(|era| if era == Era::Modern { "modern" } else { "legacy" }).or(record.era);
        number
    }

    /// Returns the number of the conversation that an exchange is part of. Whoever has the id of a session can use it,
    /// so it is redacted like a token.
    pub(super) fn of_exchange(
        &mut self,
        exchange: &HttpExchange,
        redactor: &mut Redactor,
        data: &mut IndexData,
    ) -> u32 {
        match &exchange.session {
            None => self.without_session(data),
            Some(stream) if exchange.is_sse_transport => self.named(stream, data),
            Some(session) => {
                let (line, _) = redactor.secret_header("", session);
                let shown = String::from_utf8_lossy(line.strip_prefix(b": ").unwrap_or(&line)).into_owned();
                self.named(&shown, data)
            }
        }
    }

    /// Returns the number of the conversation of all exchanges without a session.
    pub(super) fn without_session(&mut self, data: &mut IndexData) -> u32 {
        self.named(NO_SESSION, data)
    }

    /// Returns the number of the conversation with this name, which is added if it is new.
    pub(super) fn named(&mut self, name: &str, data: &mut IndexData) -> u32 {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let name = if self.0.len() >= MAX_CONVERSATIONS { OTHERS } else { name };
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = u32::try_from(data.conversations.len()).unwrap_or(u32::MAX);
        data.conversations.push(ConversationRecord { name: name.to_owned(), ..ConversationRecord::default() });
        self.0.insert(name.to_owned(), number);
        number
    }
}

/// Moves rows and their operations to another conversation.
pub(super) fn move_rows(rows: &[u32], to: u32, data: &mut IndexData) {
    for row in rows {
        let Some(entry) = data.entries.get_mut(*row as usize) else { continue };
        let from = std::mem::replace(&mut entry.conversation, to);
        let (is_frame, is_failure) = (entry.kind != EntryKind::Event && entry.element == 0, entry.outcome.is_failure());
        let (time, operation) = (entry.time.micros().map(|_| entry.time), entry.operation);
        if let Some(operation) = data.operation_mut(operation) {
            operation.conversation = to;
        }
        for (number, adds) in [(from, false), (to, true)] {
            let Some(it) = data.conversations.get_mut(number as usize) else { continue };
            let change = |count: u64, by: bool| {
                let by = u64::from(by);
                if adds { count + by } else { count.saturating_sub(by) }
            };
            (it.frames, it.failures) = (change(it.frames, is_frame), change(it.failures, is_failure));
            if adds {
                it.first = it.first.min(time).or(time);
                it.last = it.last.max(time);
            }
        }
    }
}

fn update(known: &mut Option<(String, String)>, now: Option<&Participant>) {
    let Some(Participant { name, version, .. }) = now else { return };
    if known.as_ref().is_none_or(|known| known.0 != *name || known.1 != *version) {
        *known = Some((name.clone(), version.clone()));
    }
}

/// The name of all exchanges without a session together.
const NO_SESSION: &str = "without a session";
/// The name of all conversations for which there is no room.
const OTHERS: &str = "others";
/// The maximum number of conversations that are listed: more than a person looks at.
const MAX_CONVERSATIONS: usize = 500;
