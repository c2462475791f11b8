//! Compares received messages with the recorded ones.

use std::borrow::Cow;

use barewire_proto::transcript::SafeText;

use super::{ClientReplay, ExpectedKind, ExpectedState, MessageIndex};
use crate::replay::diff::{Change, diff_messages};
use crate::replay::difference::{Difference, DifferenceKind};
use crate::replay::message::{Message, MessageKind};
use crate::replay::value::canonical;

impl ClientReplay<'_> {
    pub(super) fn compare(&mut self, expected: usize, received: &Message) {
        self.expected[expected] = ExpectedState::Received;
        self.received += 1;
        let index = self.plan.expected[expected].index;
        let (about, kind) = match self.plan.expected[expected].kind {
            ExpectedKind::Response { request } => (self.plan.requests[request].index, DifferenceKind::Answer),
            ExpectedKind::Request { .. } => (index, DifferenceKind::Request),
            ExpectedKind::OrphanError => (index, DifferenceKind::Answer),
        };
        let method = self.script.message(about).method().unwrap_or_default();
        let changes = self.changes(method, index, received);
        if !changes.is_empty() {
            let answer_frame = Some(self.script.frame_number(index));
            let difference = Difference { answer_frame, changes, ..self.difference(kind, Some(about), None) };
            self.differences.push(difference);
        }
    }

    /// Returns the places where a recorded and a received message differ. `method` is the method of the request.
    fn changes(&mut self, method: &str, index: MessageIndex, received: &Message) -> Vec<Change> {
        let recorded = self.script.message(index);
        let Self { options, generated, notes, .. } = self;
        let is_ignored = |path: &[String]| options.ignore.iter().any(|pattern| pattern.covers(method, path));
        let mut changes = diff_messages(recorded, received, &mut |path, recorded_value, received_value| {
            let both = recorded_value.zip(received_value);
            // Ignored places are also examined, because later messages of the client return the values that the server
            // generates there.
            let is_generated = both.is_some_and(|(was, is)| generated.accept(method, path, was, is));
            if is_generated || is_ignored(path) {
                return true;
            }
            match both {
                Some((was, is)) if is_server_version(path) => {
                    let (was, is) = (canonical(was), canonical(is));
                    notes.insert(SafeText::new(format_args!(
                        "the server's version is {is}; in the capture it is {was}"
                    )));
                    true
                }
                _ => recorded.is_request() && path == ["id"],
            }
        });
        let path = ["id".to_owned()];
        if is_respelled_id(recorded, received)
            && !is_ignored(&path)
            && let (Some(was), Some(is)) = (recorded.json(), received.json())
        {
            changes.push(Change::new(&path, was.member("id"), is.member("id")));
        }
        changes
    }

    /// Compares notifications, in any order: equal ones first, then the rest of each method in order.
    pub(super) fn compare_notifications(&mut self) {
        let mut received = std::mem::take(&mut self.notifications);
        let mut unequal = Vec::new();
        for index in self.plan.notifications.clone() {
            let method = self.script.message(index).method().unwrap_or_default();
            let equal = received.iter().position(|message| {
                message.method() == Some(method) && self.changes(method, index, message).is_empty()
            });
            if let Some(at) = equal { drop(received.remove(at)) } else { unequal.push((index, method)) }
        }
        for (index, method) in unequal {
            match received.iter().position(|message| message.method() == Some(method)) {
                None if index.frame >= self.script.last_words => {}
                None => self.add_difference(DifferenceKind::MissingNotification, Some(index), None),
                Some(at) => {
                    let changes = self.changes(method, index, &received.remove(at));
                    let difference = self.difference(DifferenceKind::Notification, Some(index), None);
                    self.differences.push(Difference { changes, ..difference });
                }
            }
        }
        for message in received {
            self.add_difference(DifferenceKind::UnexpectedNotification, None, Some(&message));
        }
    }

    pub(super) fn add_difference(&mut self, kind: DifferenceKind, about: Option<MessageIndex>, came: Option<&Message>) {
        if self.differences.len() < MAX_STRAY_DIFFERENCES && self.stray_bytes < MAX_STRAY_BYTES {
            self.stray_bytes += came.map_or(0, |message| message.text.len());
            let difference = self.difference(kind, about, came);
            self.differences.push(difference);
        }
    }

    /// Makes a difference about a recorded message, or about a received message without a recorded counterpart.
    pub(super) fn difference(
        &self,
        kind: DifferenceKind,
        about: Option<MessageIndex>,
        received: Option<&Message>,
    ) -> Difference {
        let message = about.map(|index| self.script.message(index)).or(received);
        Difference {
            kind,
            method: message.and_then(Message::method).map(str::to_owned),
            name: message.and_then(Message::name).map(Cow::into_owned),
            id: message.and_then(Message::id).map(|id| id.as_str().to_owned()),
            frame: about.map(|index| self.script.frame_number(index)),
            answer_frame: None,
            received: received.map(|message| message.text[..message.text.len().min(MAX_RECEIVED_BYTES)].to_vec()),
            changes: Vec::new(),
        }
    }
}

/// Whether the ids of two responses are one number, written differently. A client that sent 1 may not recognize 1.0.
fn is_respelled_id(recorded: &Message, received: &Message) -> bool {
    match (&recorded.kind, &received.kind) {
        (MessageKind::Response { id: recorded }, MessageKind::Response { id: received }) => {
            !recorded.as_str().starts_with('"') && recorded == received && recorded.as_str() != received.as_str()
        }
        _ => false,
    }
}

fn is_server_version(path: &[String]) -> bool {
    matches!(path, [.., info, version] if version == "version"
        && (info == "serverInfo" || info == "io.modelcontextprotocol/serverInfo"))
}

/// The maximum number of differences: beyond it, messages without a recorded counterpart are no longer listed.
const MAX_STRAY_DIFFERENCES: usize = 10_000;

/// The maximum length of the messages without a recorded counterpart in all differences, because a difference also has
/// the id and the method of the message.
const MAX_STRAY_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of received bytes that a difference shows.
const MAX_RECEIVED_BYTES: usize = 4 * 1024;
