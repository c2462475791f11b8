//! Notifications of a legacy server -> whether the client has asked for them: log messages by the level that it has set,
//! changes of resources by its subscriptions.

use std::collections::{HashMap, HashSet};

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::Side;
use barewire_proto::rpc::{Message, Params};

use super::MessageContext;
use crate::check::catalogue::methods::{LEVEL_SET, SUBSCRIBED, UNASKED_NOTIFICATIONS};
use crate::check::ledger::Ledger;
use crate::operations::{Handshake, Operation, Relation, member};
use crate::text::shown;

#[derive(Default)]
pub(super) struct UnaskedChecks {
    /// Maps the name of each conversation to what its client has asked for.
    conversations: HashMap<String, AskedNotifications>,
}

/// The notifications that the client of a conversation has asked for.
#[derive(Default)]
struct AskedNotifications {
    /// The last confirmed log level, as index of [`LEVELS`].
    level: Option<usize>,
    /// The URIs of the subscriptions that have begun, or may have begun, and have not ended.
    subscribed: HashSet<String>,
    /// Maps the operation number of each unanswered request for a change to the change.
    asked: HashMap<u64, Change>,
    /// The number of the last operation before the last change. Notifications that the server sent before the change
    /// may arrive until a request is answered that was sent after it.
    before: u64,
    is_settled: bool,
    /// The number of the last operation.
    last: u64,
}

/// A change of the notifications that the client asks for.
enum Change {
    Level(usize),
    Subscribe,
    Unsubscribe(String),
}

impl UnaskedChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        let conversation = tracked.conversation;
        // Without the handshake, the client may have asked before the capture began. Over HTTP without a session, a
        // server cannot know which client has asked.
        let has_session = tracked.exchange.is_none_or(|exchange| exchange.session.is_some());
        if conversation.handshake < Handshake::Answered || !has_session || context.is_modern() {
            return;
        }
        if self.conversations.len() >= MAX_CONVERSATIONS && !self.conversations.contains_key(&conversation.name) {
            self.conversations.clear();
        }
        let asked = match self.conversations.get_mut(&conversation.name) {
            Some(asked) => asked,
            None => self
                .conversations
                .entry(conversation.name.clone())
                .or_insert(AskedNotifications { is_settled: true, ..AskedNotifications::default() }),
        };
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(request)), Relation::Request { operation, .. }) if tracked.sender == Side::Client => {
                asked.request(operation, request.params.map(Params::json));
            }
            (Ok(Message::Response(response)), Relation::Response { operation, .. }) if context.by_server() => {
                asked.response(operation, response.outcome.is_ok());
            }
            (Ok(Message::Notification(notification)), _) if context.by_server() => {
                let params = notification.params.map(Params::json);
                asked.notification(context, &notification.method.to_name(), params, ledger);
            }
            _ => {}
        }
    }
}

impl AskedNotifications {
    fn request(&mut self, operation: &Operation, params: Option<Json<'_>>) {
        self.last = operation.number;
        let text = |name| member(params, name).and_then(Text::from_json).map(|text| text.to_name().into_owned());
        let change = match operation.method.as_str() {
            "logging/setLevel" => text("level").and_then(|level| level_index(&level)).map(Change::Level),
            "resources/subscribe" => text("uri").map(|uri| {
                // The server may begin before it answers.
                self.subscribed.insert(uri);
                Change::Subscribe
            }),
            "resources/unsubscribe" => text("uri").map(Change::Unsubscribe),
            _ => None,
        };
        let has_room = self.asked.len() < MAX_CHANGES && self.subscribed.len() < MAX_CHANGES;
        if let (Some(change), true) = (change, has_room) {
            self.asked.insert(operation.number, change);
            self.is_settled = false;
        }
    }

    fn response(&mut self, operation: &Operation, is_result: bool) {
        let Some(change) = self.asked.remove(&operation.number) else {
            self.is_settled |= self.asked.is_empty() && operation.number > self.before;
            return;
        };
        self.before = self.last;
        match change {
            Change::Level(level) if is_result => self.level = Some(level),
            Change::Unsubscribe(uri) if is_result => drop(self.subscribed.remove(&uri)),
            // A refused subscription counts: then nothing is reported that could be right.
            Change::Level(_) | Change::Unsubscribe(_) | Change::Subscribe => {}
        }
    }

    fn notification(&self, context: &MessageContext<'_>, method: &str, params: Option<Json<'_>>, ledger: &mut Ledger) {
        match method {
            "notifications/message" => {
                ledger.inspected(&UNASKED_NOTIFICATIONS);
                let level = member(params, "level").and_then(Text::from_json).map(Text::to_name);
                // `result-shape` reports a level that does not exist.
                let sent = level.as_deref().and_then(level_index);
                if let (Some(sent), Some(least), true) = (sent, self.level, self.is_settled)
                    && sent < least
                {
                    let (sent, least) = (LEVELS[sent], LEVELS[least]);
                    let detail = format!("a log message has the level {sent}, the client has set {least}");
                    let finding = context.finding(&UNASKED_NOTIFICATIONS, 0, detail).at("/params/level");
                    context.note(ledger, finding.under(&LEVEL_SET));
                }
            }
            "notifications/resources/updated" => {
                ledger.inspected(&UNASKED_NOTIFICATIONS);
                // The notification may be about a part of the resource with the subscription, which has any URI.
                if self.subscribed.is_empty() && self.is_settled {
                    let uri = member(params, "uri").and_then(Text::from_json).map(Text::to_name).unwrap_or_default();
                    let uri = shown(uri.as_bytes(), 60);
                    let detail = format!("the client is told that {uri} has changed, but has no subscription");
                    let finding = context.finding(&UNASKED_NOTIFICATIONS, 0, detail).at("/params/uri");
                    context.note(ledger, finding.under(&SUBSCRIBED));
                }
            }
            _ => {}
        }
    }
}

/// Returns the place of a log level among [`LEVELS`].
fn level_index(level: &str) -> Option<usize> {
    LEVELS.iter().position(|known| *known == level)
}

/// All log levels, the least severe first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
/// The maximum number of conversations that are tracked; more than any host has.
const MAX_CONVERSATIONS: usize = 4096;
/// The maximum number of subscriptions, and of unanswered requests for changes, in a conversation; more than any
/// client has.
const MAX_CHANGES: usize = 4096;

#[cfg(test)]
mod tests;
