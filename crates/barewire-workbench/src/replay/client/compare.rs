//! A recorded message and the one that came -> where they differ.

use super::{ClientReplay, ExpectedKind, ExpectedState, MessageIndex};
use crate::replay::diff::{Change, diff};
use crate::replay::difference::{Difference, DifferenceKind};
use crate::replay::message::{Message, MessageKind};
use crate::replay::value::Value;

impl ClientReplay<'_> {
    pub(super) fn compare(&mut self, expected: usize, came: &Message) {
        self.expected[expected] = ExpectedState::Received;
        self.come += 1;
        let (index, what) = (self.plan.expected[expected].index, self.plan.expected[expected].kind.clone());
        let (method, kind) = match what {
            ExpectedKind::Response { request } => {
                (self.message(self.plan.requests[request].index).method().unwrap_or_default(), DifferenceKind::Answer)
            }
            ExpectedKind::Request { .. } => (came.method().unwrap_or_default(), DifferenceKind::Request),
            ExpectedKind::OrphanError => ("", DifferenceKind::Answer),
        };
        let changes = self.changes(method, index, came, kind == DifferenceKind::Request);
        if !changes.is_empty() {
            let about = match what {
                ExpectedKind::Response { request } => self.plan.requests[request].index,
                _ => index,
            };
            let mut difference = self.difference(kind, Some(about), None);
            difference.answer_frame = Some(self.script.frames[index.frame].number);
            difference.changes = changes;
            self.differences.push(difference);
        }
    }

    /// The places where a recorded message and the one that came differ.
    fn changes(&mut self, method: &str, index: MessageIndex, came: &Message, is_request: bool) -> Vec<Change> {
        let recorded = &self.script.frames[index.frame].messages[index.message];
        let (Some(was), Some(is)) = (&recorded.value, &came.value) else {
            if recorded.text == came.text {
                return Vec::new();
            }
            let text = |message: &Message| Some(Value::String(String::from_utf8_lossy(&message.text).into_owned()));
            return vec![Change { path: Vec::new(), recorded: text(recorded), came: text(came) }];
        };
        let Self { options, generated, notes, .. } = self;
        let mut changes = diff(was, is, &mut |path, was, is| {
            // Values that the server made up are given back, also where they are not compared.
            let both = was.zip(is);
            let is_made_up = both.is_some_and(|(was, is)| generated.excuses(method, path, was, is));
            if is_made_up || options.ignore.iter().any(|pattern| pattern.covers(method, path)) {
                return true;
            }
            match both {
                Some((was, is)) if is_server_version(path) => {
                    notes.insert(format!("the server's version is {is}, in the capture it is {was}"));
                    true
                }
                _ => is_request && path == ["id"],
            }
        });
        let path = ["id".to_owned()];
        if is_spelt_otherwise(recorded, came) && !options.ignore.iter().any(|pattern| pattern.covers(method, &path)) {
            let id = |value: &Value| value.get("id").cloned();
            changes.push(Change { path: path.into(), recorded: id(was), came: id(is) });
        }
        changes
    }

    /// Notifications come in any order. Those that are equal are no difference; of one method, the rest is compared in order.
    pub(super) fn notifications(&mut self) {
        let mut came: Vec<Option<Message>> = std::mem::take(&mut self.notifications).into_iter().map(Some).collect();
        let mut left = Vec::new();
        for index in self.plan.notifications.clone() {
            let method = self.message(index).method().unwrap_or_default().to_owned();
            let is_same = |player: &mut Self, message: &Message| {
                message.method() == Some(&method) && player.changes(&method, index, message, false).is_empty()
            };
            let found = (0..came.len()).find(|at| came[*at].as_ref().is_some_and(|message| is_same(self, message)));
            match found {
                Some(at) => came[at] = None,
                None => left.push((index, method)),
            }
        }
        for (index, method) in left {
            let same =
                |message: &Option<Message>| message.as_ref().is_some_and(|message| message.method() == Some(&method));
            match came.iter_mut().find(|message| same(message)).and_then(Option::take) {
                None => self.differs(DifferenceKind::MissingNotification, Some(index), None),
                Some(message) => {
                    let mut difference = self.difference(DifferenceKind::Notification, Some(index), None);
                    difference.changes = self.changes(&method, index, &message, false);
                    self.differences.push(difference);
                }
            }
        }
        for message in came.into_iter().flatten() {
            self.differs(DifferenceKind::UnexpectedNotification, None, Some(&message));
        }
    }

    pub(super) fn differs(&mut self, kind: DifferenceKind, about: Option<MessageIndex>, came: Option<&Message>) {
        if self.differences.len() < MAX_STRAY_DIFFERENCES {
            let difference = self.difference(kind, about, came);
            self.differences.push(difference);
        }
    }

    pub(super) fn difference(
        &self,
        kind: DifferenceKind,
        about: Option<MessageIndex>,
        came: Option<&Message>,
    ) -> Difference {
        let message = about.map(|index| self.message(index)).or(came);
        let id = match message.map(|message| &message.kind) {
            Some(MessageKind::Request { id, .. } | MessageKind::Response { id }) => Some(id.as_str().to_owned()),
            _ => None,
        };
        Difference {
            kind,
            method: message.and_then(Message::method).map(str::to_owned),
            name: message.and_then(Message::name).map(str::to_owned),
            id,
            frame: about.map(|index| self.script.frames[index.frame].number),
            answer_frame: None,
            came: came.map(|message| message.text[..message.text.len().min(MAX_CAME_BYTES)].to_vec()),
            changes: Vec::new(),
        }
    }
}

/// Whether two responses have the same number as their id, written differently. A client that sent 1 may not recognize 1.0.
fn is_spelt_otherwise(recorded: &Message, came: &Message) -> bool {
    match (&recorded.kind, &came.kind) {
        (MessageKind::Response { id: recorded }, MessageKind::Response { id: came }) => {
            !recorded.as_str().starts_with('"') && recorded == came && recorded.as_str() != came.as_str()
        }
        _ => false,
    }
}

/// The place where a server says its version, in either era.
fn is_server_version(path: &[String]) -> bool {
    matches!(path, [.., info, version] if version == "version"
        && (info == "serverInfo" || info == "io.modelcontextprotocol/serverInfo"))
}

/// Differences that belong to no message of the capture, and bytes of each of those.
const MAX_STRAY_DIFFERENCES: usize = 10_000;
const MAX_CAME_BYTES: usize = 4 * 1024;
