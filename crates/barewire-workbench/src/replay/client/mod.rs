//! A script and messages of a server -> what is sent next, and where the two differ. No I/O, and no clock.

mod compare;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use barewire_proto::rpc::{Code, ErrorObject, Id, write};
use barewire_proto::transcript::Framing;
use serde_json::json;

use super::difference::{Difference, DifferenceKind};
use super::framing::framed;
use super::generated::GeneratedValues;
use super::message::{Message, MessageKind};
use super::play::{PlayOptions, PlayReport};
use super::play_plan::{ClientRequest, ExpectedKind, MessageIndex, PlayPlan};
use super::rewrite::rewrite;
use super::script::{ExitStatus, Script};

/// Plays the client's part.
pub(super) struct ClientReplay<'a> {
    script: &'a Script,
    /// The framing of messages to the server.
    framing: Framing,
    plan: PlayPlan,
    options: &'a PlayOptions,
    generated: GeneratedValues,
    /// The index of the next planned send.
    at: usize,
    sent: usize,
    /// The state of each expected message.
    expected: Vec<ExpectedState>,
    /// All expected messages before this one have come or are missed.
    first_open: usize,
    /// The number of responses that came, by request.
    got: Vec<usize>,
    /// The ids of the server's requests this time, by expected message.
    ids: HashMap<usize, Id<'static>>,
    /// The strays of the capture that have not come.
    strays: Vec<MessageIndex>,
    /// The number of expected messages that came.
    come: usize,
    /// The notifications that came, and their length in bytes.
    notifications: Vec<Message>,
    notification_bytes: usize,
    closed: bool,
    differences: Vec<Difference>,
    notes: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ExpectedState {
    Open,
    Received,
    Missed,
}

/// The next thing to do.
#[derive(Debug, PartialEq)]
pub(super) enum NextAction {
    /// These bytes are sent, no earlier than this time of the capture. `at` is the index of the planned send.
    Send { bytes: Vec<u8>, time: Option<Duration>, at: usize },
    /// Something has to come first.
    Wait,
    /// All is sent, and all has come.
    Done,
}

impl<'a> ClientReplay<'a> {
    pub(super) fn new(script: &'a Script, framing: Framing, options: &'a PlayOptions) -> Self {
        let plan = PlayPlan::of(script);
        let generated = GeneratedValues::new(script, options.generated.clone());
        Self {
            script,
            framing,
            options,
            generated,
            at: 0,
            sent: 0,
            expected: vec![ExpectedState::Open; plan.expected.len()],
            first_open: 0,
            got: vec![0; plan.requests.len()],
            ids: HashMap::new(),
            strays: plan.strays.clone(),
            come: 0,
            notifications: Vec::new(),
            notification_bytes: 0,
            closed: false,
            differences: Vec::new(),
            notes: BTreeSet::new(),
            plan,
        }
    }

    pub(super) fn next(&mut self) -> NextAction {
        while self.expected.get(self.first_open).is_some_and(|state| *state != ExpectedState::Open) {
            self.first_open += 1;
        }
        while let Some(send) = self.plan.sends.get(self.at) {
            if send.needs > self.first_open {
                return NextAction::Wait;
            }
            self.at += 1;
            // A response to a request that the server did not make this time is not sent.
            let messages = &self.script.frames[send.frame].messages;
            let is_unasked = |(_, request): &(usize, usize)| !self.ids.contains_key(request);
            if messages.len() == 1 && send.answers.iter().any(is_unasked) {
                continue;
            }
            let time = self.script.frames[send.frame].time;
            self.sent += 1;
            return NextAction::Send { bytes: self.bytes(self.at - 1), time, at: self.at - 1 };
        }
        let is_told = !self.options.compare_notifications || self.notifications.len() >= self.plan.notifications.len();
        if self.first_open == self.expected.len() && is_told { NextAction::Done } else { NextAction::Wait }
    }

    /// The bytes of a frame as they were recorded, with this time's ids of the server and values that it made up.
    fn bytes(&self, send: usize) -> Vec<u8> {
        let send = &self.plan.sends[send];
        let recorded = &self.script.frames[send.frame];
        let is_batch = recorded.text.trim_ascii_start().first() == Some(&b'[');
        let rewritten = rewrite(&recorded.text, &mut |path, value| {
            let (index, path) = match path {
                [index, path @ ..] if is_batch => (Some(index), path),
                path => (None, path),
            };
            let answered = send
                .answers
                .iter()
                .find(|(at, _)| path == ["id"] && index.is_none_or(|index| *index == at.to_string()));
            match answered.and_then(|(_, request)| self.ids.get(request)) {
                Some(id) => (id.as_str() != value.as_str()).then(|| id.as_str().to_owned()),
                None if path.len() > 1 => self.generated.instead(path, value),
                None => None,
            }
        });
        if self.framing != self.script.framing {
            return framed(self.framing, rewritten.as_deref().unwrap_or(&recorded.text));
        }
        let Some(text) = rewritten else { return recorded.raw.clone() };
        if self.framing == Framing::ContentLength {
            return framed(self.framing, &text);
        }
        let (raw, length) = (&recorded.raw, recorded.text.len());
        let at = (0..=raw.len().saturating_sub(length)).rev().find(|at| raw[*at..].starts_with(&recorded.text));
        match at {
            Some(at) => [&raw[..at], &text, &raw[at + length..]].concat(),
            None => framed(self.framing, &text),
        }
    }

    /// The number of frames that were sent, and of expected messages that came.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.at, self.come)
    }

    /// Takes a frame of the server; returns answers that are not in the capture, a frame each. `to` is the planned send that it comes
    /// for, where that is known.
    pub(super) fn take(&mut self, frame: &[u8], to: Option<usize>) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for message in Message::in_frame(frame) {
            match &message.kind {
                MessageKind::Response { id } => self.answer(id, &message, to),
                MessageKind::OrphanError => match self.open(|what| *what == ExpectedKind::OrphanError) {
                    Some(expected) => self.compare(expected, &message),
                    None => self.differs(DifferenceKind::StrayAnswer, None, Some(&message)),
                },
                MessageKind::Request { id, method } => out.extend(self.request(id, method, &message)),
                MessageKind::Notification { .. } => {
                    if self.options.compare_notifications && self.notification_bytes < MAX_NOTIFICATION_BYTES {
                        self.notification_bytes += message.text.len() + size_of::<Message>();
                        self.notifications.push(message);
                    }
                }
                MessageKind::Invalid => self.stray(DifferenceKind::NoMessage, &message),
            }
        }
        out
    }

    /// Takes bytes of the server that could not be cut into a frame.
    pub(super) fn unreadable(&mut self, why: &str) {
        let noise = Message { kind: MessageKind::Invalid, text: why.as_bytes().to_vec(), value: None };
        self.differs(DifferenceKind::NoMessage, None, Some(&noise));
    }

    fn answer(&mut self, id: &Id<'_>, message: &Message, to: Option<usize>) {
        let sent = self.at.checked_sub(1).map_or(0, |last| self.plan.sends[last].frame + 1);
        let is_sent = |request: &usize| self.plan.requests[*request].index.frame < sent;
        let same = self.plan.ids.get(id).map_or(&[][..], Vec::as_slice);
        let mut all: Vec<usize> = same.iter().copied().filter(is_sent).collect();
        let is_for = |request: &usize| {
            to.is_some_and(|to| self.plan.requests[*request].index.frame == self.plan.sends[to].frame)
        };
        if all.iter().any(is_for) {
            all.retain(is_for);
        }
        let is_expected = |request: &&usize| self.got[**request] < self.plan.requests[**request].answers.len();
        if let Some(request) = all.iter().find(is_expected).copied() {
            let expected = self.plan.requests[request].answers[self.got[request]];
            self.got[request] += 1;
            return self.compare(expected, message);
        }
        let Some(last) = all.last().copied() else { return self.stray(DifferenceKind::StrayAnswer, message) };
        self.got[last] += 1;
        let request = &self.plan.requests[last];
        let index = request.index;
        match (request.answers.len(), self.got[last]) {
            // A response may cross a cancellation, or come only because the client has closed its side.
            (0, 1) if request.cancelled || self.closed => {}
            (0, 1) => self.differs(DifferenceKind::UnexpectedAnswer, Some(index), Some(message)),
            _ => self.differs(DifferenceKind::AnsweredAgain, Some(index), Some(message)),
        }
    }

    /// Takes a request of the server: the one of the capture with the same params, or else the first with the same method.
    fn request(&mut self, id: &Id<'static>, method: &str, message: &Message) -> Option<Vec<u8>> {
        let open = |expected: &usize| {
            let index = self.plan.expected[*expected].index;
            let is_request = matches!(self.plan.expected[*expected].kind, ExpectedKind::Request { .. });
            is_request
                && self.expected[*expected] == ExpectedState::Open
                && self.message(index).method() == Some(method)
        };
        let all: Vec<usize> = (self.first_open..self.expected.len()).filter(open).collect();
        let same = |expected: &&usize| self.message(self.plan.expected[**expected].index).params() == message.params();
        if let Some(expected) = all.iter().find(same).or(all.first()).copied() {
            self.ids.insert(expected, id.clone());
            self.compare(expected, message);
            return None;
        }
        let mut answer = Vec::new();
        if method == "ping" {
            // Servers ping when they like.
            answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_str()).into_bytes();
        } else {
            self.differs(DifferenceKind::UnexpectedRequest, None, Some(message));
            let data = json!({ "reason": "nothing in the capture answers this" });
            let error = ErrorObject::standard(Code::METHOD_NOT_FOUND).with_data(&data);
            write::error(&mut answer, Some(id), &error);
        }
        Some(framed(self.framing, &answer))
    }

    /// Takes what the client does not wait for: no difference if the capture has the same.
    fn stray(&mut self, kind: DifferenceKind, message: &Message) {
        let same = |index: &MessageIndex| {
            let recorded = self.message(*index);
            let is_equal = recorded.value.is_some() && recorded.value == message.value;
            recorded.kind == message.kind && (is_equal || recorded.text == message.text)
        };
        match self.strays.iter().position(same) {
            Some(at) => {
                self.strays.remove(at);
            }
            None => self.differs(kind, None, Some(message)),
        }
    }

    fn open(&self, is: impl Fn(&ExpectedKind) -> bool) -> Option<usize> {
        let open = |at: &usize| self.expected[*at] == ExpectedState::Open && is(&self.plan.expected[*at].kind);
        (self.first_open..self.expected.len()).find(open)
    }

    /// Marks what the next send waits for as missed; returns the number of messages.
    pub(super) fn give_up(&mut self, why: &str) -> usize {
        let needs = self.plan.sends.get(self.at).map_or(self.expected.len(), |send| send.needs);
        let missed: Vec<usize> =
            (self.first_open..needs).filter(|at| self.expected[*at] == ExpectedState::Open).collect();
        self.miss(&missed, why);
        missed.len()
    }

    /// Marks the responses to a planned send as missed: nothing more can come for it.
    pub(super) fn unanswered(&mut self, sent: usize, why: &str) {
        let frame = self.plan.sends[sent].frame;
        let is_missed = |at: &usize| match self.plan.expected[*at].kind {
            ExpectedKind::Response { request } => self.plan.requests[request].index.frame == frame,
            ExpectedKind::Request { .. } | ExpectedKind::OrphanError => false,
        };
        let open = (self.first_open..self.expected.len()).filter(|at| self.expected[*at] == ExpectedState::Open);
        let missed: Vec<usize> = open.filter(is_missed).collect();
        self.miss(&missed, why);
    }

    /// The message of an error without an id that comes instead of the response to a planned send.
    pub(super) fn refusal(&self, frame: &[u8], sent: usize) -> Option<String> {
        let all = Message::in_frame(frame);
        let [message @ Message { kind: MessageKind::OrphanError, .. }] = all.as_slice() else { return None };
        let is_recorded = self.open(|what| *what == ExpectedKind::OrphanError).is_some();
        let text = message.value.as_ref()?.get("error")?.get("message")?.as_str()?;
        (self.is_waiting_for(sent) && !is_recorded).then(|| text.to_owned())
    }

    /// Whether a response to a planned send is still waited for.
    pub(super) fn is_waiting_for(&self, sent: usize) -> bool {
        let frame = self.plan.sends[sent].frame;
        let is_open =
            |request: &ClientRequest| request.answers.iter().any(|at| self.expected[*at] == ExpectedState::Open);
        self.plan.requests.iter().any(|request| request.index.frame == frame && is_open(request))
    }

    fn miss(&mut self, missed: &[usize], why: &str) {
        for expected in missed {
            self.expected[*expected] = ExpectedState::Missed;
            let index = self.plan.expected[*expected].index;
            let (about, kind) = match self.plan.expected[*expected].kind {
                ExpectedKind::Response { request } => {
                    let again = self.plan.requests[request].answers.first() != Some(expected);
                    let kind =
                        if again { DifferenceKind::AnsweredOnce } else { DifferenceKind::Unanswered(why.to_owned()) };
                    (self.plan.requests[request].index, kind)
                }
                ExpectedKind::Request { .. } => (index, DifferenceKind::MissingRequest),
                ExpectedKind::OrphanError => (index, DifferenceKind::Unanswered(why.to_owned())),
            };
            let mut difference = self.difference(kind, Some(about), None);
            difference.answer_frame = Some(self.script.frames[index.frame].number);
            self.differences.push(difference);
        }
    }

    /// Marks everything that is left as missed: the server has ended in this way.
    pub(super) fn ended(&mut self, how: &str) {
        let unsent = self.plan.sends.len() - self.at;
        if unsent > 0 {
            let last = self.at.checked_sub(1).map(|last| self.plan.sends[last].frame);
            let kind = DifferenceKind::Ended { how: how.to_owned(), unsent };
            let mut difference = self.difference(kind, None, None);
            difference.frame = last.map(|frame| self.script.frames[frame].number);
            self.differences.push(difference);
        }
        self.give_up(how);
        self.at = self.plan.sends.len();
        // Answers to what was never sent are missed as well; the difference above stands for all of them.
        for state in self.expected.iter_mut().filter(|state| **state == ExpectedState::Open) {
            *state = ExpectedState::Missed;
        }
        self.first_open = self.expected.len();
    }

    /// Notes that nothing more is sent: what comes from now on may come because of that.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Compares the exit status of the server with that of the capture, if there is one.
    pub(super) fn exited(&mut self, came: ExitStatus) {
        if let Some(recorded) = self.script.ended.filter(|recorded| *recorded != came) {
            self.differs(DifferenceKind::Exit { recorded, came }, None, None);
        }
    }

    pub(super) fn played(mut self) -> PlayReport {
        for index in std::mem::take(&mut self.strays) {
            let kind = match self.message(index).kind {
                MessageKind::Response { .. } => DifferenceKind::MissingStrayAnswer,
                _ => DifferenceKind::MissingNoMessage,
            };
            self.differs(kind, Some(index), None);
        }
        if self.options.compare_notifications {
            self.notifications();
        }
        PlayReport { differences: self.differences, notes: self.notes, sent: self.sent, compared: self.come }
    }

    fn message(&self, index: MessageIndex) -> &'a Message {
        let script: &'a Script = self.script;
        &script.frames[index.frame].messages[index.message]
    }
}

/// Bytes of notifications that are kept for the comparison: a server that never stops sending must not fill the memory.
const MAX_NOTIFICATION_BYTES: usize = 64 * 1024 * 1024;
