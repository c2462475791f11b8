//! Replays the client of a script: chooses the frames to send, and finds differences from the capture. Uses no I/O.

mod compare;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use barewire_proto::rpc::{Code, ErrorObject, Id, write};
use barewire_proto::transcript::{Framing, SafeText};
use serde_json::json;

use super::difference::{Difference, DifferenceKind};
use super::framing::framed;
use super::generated::GeneratedValues;
use super::message::{Message, MessageKind};
use super::play::{PlayOptions, PlayReport};
use super::play_plan::{ExpectedKind, PlayPlan};
use super::rewrite::rewrite;
use super::script::{MessageIndex, Script};
use super::value::{are_same, is_same};
use crate::frames::ExitStatus;

/// The client of a script during a replay.
pub(super) struct ClientReplay<'a> {
    script: &'a Script,
    framing: Framing,
    plan: PlayPlan,
    options: &'a PlayOptions,
    generated: GeneratedValues,
    next_send: usize,
    sent: usize,
    expected: Vec<ExpectedState>,
    /// All expected messages before this index were received or missed.
    first_open: usize,
    /// The number of responses to each request so far.
    responses: Vec<usize>,
    /// Maps each request of the server (by its index among the expected messages) to its id in this replay.
    server_ids: HashMap<usize, Id<'static>>,
    /// The recorded messages that the client does not wait for and that were not received yet.
    strays: Vec<MessageIndex>,
    /// The number of expected messages that were received.
    received: usize,
    /// The received notifications, and their total length in bytes.
    notifications: Vec<Message>,
    notification_bytes: usize,
    is_closed: bool,
    differences: Vec<Difference>,
    /// The length of the received messages without a recorded counterpart that are in `differences`.
    stray_bytes: usize,
    notes: BTreeSet<SafeText>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ExpectedState {
    Open,
    Received,
    Missed,
}

#[derive(Debug, PartialEq)]
pub(super) enum NextAction {
    /// Send these bytes, no earlier than this time of the capture. `send` is the index of the planned send.
    Send { bytes: Vec<u8>, time: Option<Duration>, send: usize },
    /// Wait for a message from the server.
    Wait,
    /// Everything was sent, and every expected message was received or counted as missed.
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
            next_send: 0,
            sent: 0,
            expected: vec![ExpectedState::Open; plan.expected.len()],
            first_open: 0,
            responses: vec![0; plan.requests.len()],
            server_ids: HashMap::new(),
            strays: plan.strays.clone(),
            received: 0,
            notifications: Vec::new(),
            notification_bytes: 0,
            is_closed: false,
            differences: Vec::new(),
            stray_bytes: 0,
            notes: BTreeSet::new(),
            plan,
        }
    }

    pub(super) fn next(&mut self) -> NextAction {
        while self.expected.get(self.first_open).is_some_and(|state| *state != ExpectedState::Open) {
            self.first_open += 1;
        }
        while let Some(planned) = self.plan.sends.get(self.next_send) {
            if planned.needs > self.first_open {
                return NextAction::Wait;
            }
            let send = self.next_send;
            self.next_send += 1;
            let frame = &self.script.frames[planned.frame];
            // If the server did not send a request in this replay, the recorded response to it is left out.
            let is_unrequested = |(_, request): &(usize, usize)| !self.server_ids.contains_key(request);
            if frame.messages.len() == 1 && planned.answers.iter().any(is_unrequested) {
                continue;
            }
            self.sent += 1;
            return NextAction::Send { bytes: self.bytes(send), time: frame.time, send };
        }
        let expected = self.plan.notifications.partition_point(|index| index.frame < self.script.last_words);
        let has_notifications = !self.options.compare_notifications || self.notifications.len() >= expected;
        if self.first_open == self.expected.len() && has_notifications { NextAction::Done } else { NextAction::Wait }
    }

    /// Returns the recorded bytes of a send, in which the ids of the server's requests and the values that the server
    /// generates are replaced by those of this replay.
    fn bytes(&self, send: usize) -> Vec<u8> {
        let send = &self.plan.sends[send];
        let recorded = &self.script.frames[send.frame];
        let is_batch = recorded.text.trim_ascii_start().first() == Some(&b'[');
        let rewritten = rewrite(&recorded.text, &mut |path, value| {
            let (index, path) = match path {
                [index, path @ ..] if is_batch => (Some(index), path),
                path => (None, path),
            };
            let is_answer = |(at, _): &&(usize, usize)| path == ["id"] && index.is_none_or(|it| *it == at.to_string());
            let answered = send.answers.iter().find(is_answer);
            match answered.and_then(|(_, request)| self.server_ids.get(request)) {
                Some(id) => (id.as_str() != value.as_str()).then(|| id.as_str().to_owned()),
                None if path.len() > 1 => self.generated.replacement(path, value),
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

    /// Returns the number of planned sends that are done, and the number of expected messages that were received.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.next_send, self.received)
    }

    /// Handles a frame from the server. Returns the responses to send that are not in the capture, one frame each.
    /// `send` is the planned send in whose HTTP response the frame came.
    pub(super) fn take(&mut self, frame: &[u8], send: Option<usize>) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        for message in Message::in_frame(frame) {
            match &message.kind {
                MessageKind::Response { id } => self.handle_response(id, &message, send),
                MessageKind::OrphanError => match self.open_orphan_error() {
                    Some(expected) => self.compare(expected, &message),
                    None => self.add_difference(DifferenceKind::StrayAnswer, None, Some(&message)),
                },
                MessageKind::Request { id, method } => replies.extend(self.handle_request(id, method, &message)),
                MessageKind::Notification { .. } => {
                    let has_room = self.notifications.len() < self.plan.notifications.len() + MAX_EXTRA_NOTIFICATIONS
                        && self.notification_bytes < MAX_NOTIFICATION_BYTES;
                    if self.options.compare_notifications && has_room {
                        self.notification_bytes += message.text.len() + size_of::<Message>();
                        self.notifications.push(message);
                    }
                }
                MessageKind::Invalid => self.handle_stray(DifferenceKind::NoMessage, &message),
            }
        }
        replies
    }

    /// Handles bytes from the server that are not a frame.
    pub(super) fn handle_unreadable(&mut self, why: &str) {
        let message = Message { kind: MessageKind::Invalid, text: why.as_bytes().to_vec() };
        self.add_difference(DifferenceKind::NoMessage, None, Some(&message));
    }

    fn handle_response(&mut self, id: &Id<'_>, message: &Message, send: Option<usize>) {
        let sent_frames = self.next_send.checked_sub(1).map_or(0, |last| self.plan.sends[last].frame + 1);
        let frame_of = |request: &usize| self.plan.requests[*request].index.frame;
        let same_id = self.plan.ids.get(id).into_iter().flatten().copied();
        let mut requests: Vec<usize> = same_id.filter(|request| frame_of(request) < sent_frames).collect();
        let is_in_send = |request: &usize| send.is_some_and(|send| frame_of(request) == self.plan.sends[send].frame);
        if requests.iter().any(is_in_send) {
            requests.retain(is_in_send);
        }
        let is_open = |request: &&usize| self.responses[**request] < self.plan.requests[**request].answers.len();
        if let Some(request) = requests.iter().find(is_open).copied() {
            let expected = self.plan.requests[request].answers[self.responses[request]];
            self.responses[request] += 1;
            return self.compare(expected, message);
        }
        let Some(last) = requests.last().copied() else {
            return self.handle_stray(DifferenceKind::StrayAnswer, message);
        };
        self.responses[last] += 1;
        let request = &self.plan.requests[last];
        let kind = match (request.answers.len(), self.responses[last]) {
            // The server may have sent the response before it saw the cancellation, or because the client closed its
            // side. In the capture, the host may have ended the server before it could respond.
            (0, 1) if request.cancelled || self.is_closed || self.script.is_ended_by_host => return,
            (0, 1) => DifferenceKind::UnexpectedAnswer,
            _ => DifferenceKind::AnsweredAgain,
        };
        self.add_difference(kind, Some(request.index), Some(message));
    }

    /// Matches a request of the server with a recorded request of the same method, if possible with the same params.
    fn handle_request(&mut self, id: &Id<'static>, method: &str, message: &Message) -> Option<Vec<u8>> {
        let recorded = |expected: &usize| self.script.message(self.plan.expected[*expected].index);
        let is_same_method = |expected: &usize| {
            let is_request = matches!(self.plan.expected[*expected].kind, ExpectedKind::Request { .. });
            is_request && recorded(expected).method() == Some(method)
        };
        let same_method: Vec<usize> = self.open().filter(is_same_method).collect();
        let same_params = same_method.iter().find(|expected| are_same(recorded(expected).params(), message.params()));
        if let Some(expected) = same_params.or(same_method.first()).copied() {
            self.server_ids.insert(expected, id.clone());
            self.compare(expected, message);
            return None;
        }
        let mut response = Vec::new();
        if method == "ping" {
            // Servers may send a ping at any time.
            response = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_str()).into_bytes();
        } else {
            self.add_difference(DifferenceKind::UnexpectedRequest, None, Some(message));
            let data = json!({ "reason": "nothing in the capture answers this" });
            let error = ErrorObject::standard(Code::METHOD_NOT_FOUND).with_data(&data);
            write::error(&mut response, Some(id), &error);
        }
        Some(framed(self.framing, &response))
    }

    /// Handles a message that the client does not wait for. It is a difference unless the capture has the same message.
    fn handle_stray(&mut self, kind: DifferenceKind, message: &Message) {
        let is_same = |index: &MessageIndex| {
            let recorded = self.script.message(*index);
            let is_equal = || matches!((recorded.json(), message.json()), (Some(was), Some(is)) if is_same(was, is));
            recorded.kind == message.kind && (recorded.text == message.text || is_equal())
        };
        match self.strays.iter().position(is_same) {
            Some(at) => {
                self.strays.remove(at);
            }
            None => self.add_difference(kind, None, Some(message)),
        }
    }

    /// Returns the indices of the expected messages that are still open.
    fn open(&self) -> impl Iterator<Item = usize> {
        (self.first_open..self.expected.len()).filter(|at| self.expected[*at] == ExpectedState::Open)
    }

    fn open_orphan_error(&self) -> Option<usize> {
        self.open().find(|expected| self.plan.expected[*expected].kind == ExpectedKind::OrphanError)
    }

    /// Marks the messages that the next send waits for as missed, and returns their number.
    pub(super) fn give_up(&mut self, why: &str) -> usize {
        let needs = self.plan.sends.get(self.next_send).map_or(self.expected.len(), |send| send.needs);
        let missed: Vec<usize> = self.open().take_while(|expected| *expected < needs).collect();
        self.mark_missed(&missed, why);
        missed.len()
    }

    /// Marks the responses to a planned send as missed, because its HTTP exchange has ended.
    pub(super) fn give_up_send(&mut self, send: usize, why: &str) {
        let missed: Vec<usize> = self.open_responses(send).collect();
        self.mark_missed(&missed, why);
    }

    /// If a frame is an error without an id, sent instead of the response to a planned send, returns the error's
    /// message.
    pub(super) fn error_instead(&self, frame: &[u8], send: usize) -> Option<String> {
        let messages = Message::in_frame(frame);
        let [message @ Message { kind: MessageKind::OrphanError, .. }] = messages.as_slice() else { return None };
        let text = message.json()?.at(&["error", "message"])?.string()?;
        (self.is_waiting_for(send) && self.open_orphan_error().is_none()).then(|| text.into_owned())
    }

    /// Whether a response to a planned send is still expected.
    pub(super) fn is_waiting_for(&self, send: usize) -> bool {
        self.open_responses(send).next().is_some()
    }

    fn open_responses(&self, send: usize) -> impl Iterator<Item = usize> {
        let frame = self.plan.sends[send].frame;
        self.open().filter(move |expected| match self.plan.expected[*expected].kind {
            ExpectedKind::Response { request } => self.plan.requests[request].index.frame == frame,
            ExpectedKind::Request { .. } | ExpectedKind::OrphanError => false,
        })
    }

    fn mark_missed(&mut self, missed: &[usize], why: &str) {
        for expected in missed {
            self.expected[*expected] = ExpectedState::Missed;
            let index = self.plan.expected[*expected].index;
            let (about, kind) = match self.plan.expected[*expected].kind {
                ExpectedKind::Response { request } => {
                    let is_second = self.plan.requests[request].answers.first() != Some(expected);
                    let unanswered = || DifferenceKind::Unanswered(why.to_owned());
                    let kind = if is_second { DifferenceKind::AnsweredOnce } else { unanswered() };
                    (self.plan.requests[request].index, kind)
                }
                ExpectedKind::Request { .. } => (index, DifferenceKind::MissingRequest),
                ExpectedKind::OrphanError => (index, DifferenceKind::Unanswered(why.to_owned())),
            };
            let answer_frame = Some(self.script.frame_number(index));
            let difference = Difference { answer_frame, ..self.difference(kind, Some(about), None) };
            self.differences.push(difference);
        }
    }

    /// Marks all open messages as missed, because the server has ended. `how` begins the sentence in the difference.
    pub(super) fn handle_end(&mut self, how: &str) {
        let unsent = self.plan.sends.len() - self.next_send;
        if unsent > 0 {
            let last = self.next_send.checked_sub(1).map(|last| self.plan.sends[last].frame);
            let frame = last.map(|frame| self.script.frames[frame].number);
            let kind = DifferenceKind::Ended { how: how.to_owned(), unsent };
            let difference = Difference { frame, ..self.difference(kind, None, None) };
            self.differences.push(difference);
        }
        self.give_up(how);
        self.next_send = self.plan.sends.len();
        // The difference above also covers the responses to messages that were never sent.
        for state in self.expected.iter_mut().filter(|state| **state == ExpectedState::Open) {
            *state = ExpectedState::Missed;
        }
        self.first_open = self.expected.len();
    }

    /// Notes that nothing more will be sent. Later messages from the server may be a reaction to this.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Compares the exit status of the server with the recorded one, if the recorded server ended by itself.
    pub(super) fn handle_exit(&mut self, received: ExitStatus) {
        if let Some(recorded) = self.script.server_exit.filter(|recorded| *recorded != received) {
            self.add_difference(DifferenceKind::Exit { recorded, received }, None, None);
        }
    }

    pub(super) fn report(mut self) -> PlayReport {
        let last_words = self.script.last_words;
        for index in std::mem::take(&mut self.strays).into_iter().filter(|index| index.frame < last_words) {
            let kind = match self.script.message(index).kind {
                MessageKind::Response { .. } => DifferenceKind::MissingStrayAnswer,
                _ => DifferenceKind::MissingNoMessage,
            };
            self.add_difference(kind, Some(index), None);
        }
        if self.options.compare_notifications {
            self.compare_notifications();
        }
        PlayReport { differences: self.differences, notes: self.notes, sent: self.sent, compared: self.received }
    }
}

/// The maximum length of all kept notifications: a server that never stops sending must not fill the memory.
const MAX_NOTIFICATION_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of kept notifications beyond those of the capture: as many as there are differences without a
/// recorded counterpart.
const MAX_EXTRA_NOTIFICATIONS: usize = 10_000;
