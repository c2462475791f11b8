//! A script and what comes from a server -> what is sent next, and where the two differ. Nothing here touches the world.

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
use super::generated::Minted;
use super::message::{Kind, Said};
use super::plan::{Asked, Line, Plan, What};
use super::play::{PlayOptions, Played};
use super::rewrite::rewrite;
use super::script::{ExitStatus, Script};

/// Plays the client's part.
pub(super) struct Player<'a> {
    script: &'a Script,
    /// How the server wants to have its messages.
    framing: Framing,
    plan: Plan,
    options: &'a PlayOptions,
    minted: Minted,
    /// The next frame that is sent.
    at: usize,
    sent: usize,
    /// What is awaited, and has come or not.
    awaited: Vec<State>,
    /// All before it have come, or are no longer waited for.
    first_open: usize,
    /// How many answers have come, by request.
    got: Vec<usize>,
    /// The ids under which the server asks this time, by what is awaited.
    ids: HashMap<usize, Id<'static>>,
    /// What of the capture's strays has not come.
    strays: Vec<Line>,
    /// How much of what is awaited has come.
    come: usize,
    /// What the server has told, and how many bytes that is.
    told: Vec<Said>,
    told_bytes: usize,
    closed: bool,
    differences: Vec<Difference>,
    notes: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Open,
    Come,
    Missed,
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// This is sent, not before this time of the capture. It is the so many-th of all that there are to send.
    Send { bytes: Vec<u8>, time: Option<Duration>, at: usize },
    /// Something has to come first.
    Wait,
    /// All is sent, and all has come.
    Done,
}

impl<'a> Player<'a> {
    pub(super) fn new(script: &'a Script, framing: Framing, options: &'a PlayOptions) -> Self {
        let plan = Plan::of(script);
        let minted = Minted::new(script, options.generated.clone());
        Self {
            script,
            framing,
            options,
            minted,
            at: 0,
            sent: 0,
            awaited: vec![State::Open; plan.awaited.len()],
            first_open: 0,
            got: vec![0; plan.asked.len()],
            ids: HashMap::new(),
            strays: plan.strays.clone(),
            come: 0,
            told: Vec::new(),
            told_bytes: 0,
            closed: false,
            differences: Vec::new(),
            notes: BTreeSet::new(),
            plan,
        }
    }

    pub(super) fn next(&mut self) -> Next {
        while self.awaited.get(self.first_open).is_some_and(|state| *state != State::Open) {
            self.first_open += 1;
        }
        while let Some(send) = self.plan.sends.get(self.at) {
            if send.needs > self.first_open {
                return Next::Wait;
            }
            self.at += 1;
            // An answer to what was not asked this time is for nobody.
            let said = &self.script.frames[send.frame].said;
            let is_for_nobody = |(_, asked): &(usize, usize)| !self.ids.contains_key(asked);
            if said.len() == 1 && send.answers.iter().any(is_for_nobody) {
                continue;
            }
            let time = self.script.frames[send.frame].time;
            self.sent += 1;
            return Next::Send { bytes: self.bytes(self.at - 1), time, at: self.at - 1 };
        }
        let is_told = !self.options.compare_notifications || self.told.len() >= self.plan.told.len();
        if self.first_open == self.awaited.len() && is_told { Next::Done } else { Next::Wait }
    }

    /// The bytes of a frame as they were recorded, but for ids of the server and what it has made up.
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
            match answered.and_then(|(_, asked)| self.ids.get(asked)) {
                Some(id) => (id.as_str() != value.as_str()).then(|| id.as_str().to_owned()),
                None if path.len() > 1 => self.minted.instead(path, value),
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
        let at =
            (0..=raw.len().saturating_sub(length)).rev().find(|at| raw[*at..].starts_with(&recorded.text));
        match at {
            Some(at) => [&raw[..at], &text, &raw[at + length..]].concat(),
            None => framed(self.framing, &text),
        }
    }

    /// How far it is: what was sent, and what has come of what is waited for.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.at, self.come)
    }

    /// Takes a frame of the server; gives what it is to be told at once, because nobody else will, a frame each. Where it is known,
    /// `to` says which of the messages that were sent it comes for.
    pub(super) fn take(&mut self, frame: &[u8], to: Option<usize>) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for said in Said::all(frame) {
            match &said.kind {
                Kind::Answer { id } => self.answer(id, &said, to),
                Kind::Orphan => match self.open(|what| *what == What::Orphan) {
                    Some(awaited) => self.compare(awaited, &said),
                    None => self.differs(DifferenceKind::StrayAnswer, None, Some(&said)),
                },
                Kind::Request { id, method } => out.extend(self.request(id, method, &said)),
                Kind::Notification { .. } => {
                    if self.options.compare_notifications && self.told_bytes < MOST_TOLD {
                        self.told_bytes += said.text.len() + size_of::<Said>();
                        self.told.push(said);
                    }
                }
                Kind::Noise => self.stray(DifferenceKind::NoMessage, &said),
            }
        }
        out
    }

    /// What could not be cut into a frame.
    pub(super) fn unreadable(&mut self, why: &str) {
        let noise = Said { kind: Kind::Noise, text: why.as_bytes().to_vec(), value: None };
        self.differs(DifferenceKind::NoMessage, None, Some(&noise));
    }

    fn answer(&mut self, id: &Id<'_>, said: &Said, to: Option<usize>) {
        let sent = self.at.checked_sub(1).map_or(0, |last| self.plan.sends[last].frame + 1);
        let is_sent = |asked: &usize| self.plan.asked[*asked].line.frame < sent;
        let same = self.plan.ids.get(id).map_or(&[][..], Vec::as_slice);
        let mut all: Vec<usize> = same.iter().copied().filter(is_sent).collect();
        let is_for = |asked: &usize| {
            to.is_some_and(|to| self.plan.asked[*asked].line.frame == self.plan.sends[to].frame)
        };
        if all.iter().any(is_for) {
            all.retain(is_for);
        }
        let expected = |asked: &&usize| self.got[**asked] < self.plan.asked[**asked].answers.len();
        if let Some(asked) = all.iter().find(expected).copied() {
            let awaited = self.plan.asked[asked].answers[self.got[asked]];
            self.got[asked] += 1;
            return self.compare(awaited, said);
        }
        let Some(last) = all.last().copied() else { return self.stray(DifferenceKind::StrayAnswer, said) };
        self.got[last] += 1;
        let asked = &self.plan.asked[last];
        let line = asked.line;
        match (asked.answers.len(), self.got[last]) {
            // Whether an answer or a cancellation is first is not up to anybody, nor is what is answered at the end.
            (0, 1) if asked.cancelled || self.closed => {}
            (0, 1) => self.differs(DifferenceKind::UnexpectedAnswer, Some(line), Some(said)),
            _ => self.differs(DifferenceKind::AnsweredAgain, Some(line), Some(said)),
        }
    }

    /// A request of the server: one that is in the capture, with the same params if there is such a one.
    fn request(&mut self, id: &Id<'static>, method: &str, said: &Said) -> Option<Vec<u8>> {
        let open = |awaited: &usize| {
            let line = self.plan.awaited[*awaited].line;
            let is_request = matches!(self.plan.awaited[*awaited].what, What::Request { .. });
            is_request && self.awaited[*awaited] == State::Open && self.said(line).method() == Some(method)
        };
        let all: Vec<usize> = (self.first_open..self.awaited.len()).filter(open).collect();
        let same = |awaited: &&usize| self.said(self.plan.awaited[**awaited].line).params() == said.params();
        if let Some(awaited) = all.iter().find(same).or(all.first()).copied() {
            self.ids.insert(awaited, id.clone());
            self.compare(awaited, said);
            return None;
        }
        let mut answer = Vec::new();
        if method == "ping" {
            // When somebody asks whether we are there is a matter of time and no difference.
            answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_str()).into_bytes();
        } else {
            self.differs(DifferenceKind::UnexpectedRequest, None, Some(said));
            let data = json!({ "reason": "nothing in the capture answers this" });
            let error = ErrorObject::standard(Code::METHOD_NOT_FOUND).with_data(&data);
            write::error(&mut answer, Some(id), &error);
        }
        Some(framed(self.framing, &answer))
    }

    /// What nobody waits for: no difference if the capture has the same.
    fn stray(&mut self, kind: DifferenceKind, said: &Said) {
        let same = |line: &Line| {
            let recorded = self.said(*line);
            let is_equal = recorded.value.is_some() && recorded.value == said.value;
            recorded.kind == said.kind && (is_equal || recorded.text == said.text)
        };
        match self.strays.iter().position(same) {
            Some(at) => {
                self.strays.remove(at);
            }
            None => self.differs(kind, None, Some(said)),
        }
    }

    fn open(&self, is: impl Fn(&What) -> bool) -> Option<usize> {
        let open = |at: &usize| self.awaited[*at] == State::Open && is(&self.plan.awaited[*at].what);
        (self.first_open..self.awaited.len()).find(open)
    }

    /// What is waited for has not come in time: it is no longer waited for. Says what it was.
    pub(super) fn give_up(&mut self, why: &str) -> usize {
        let needs = self.plan.sends.get(self.at).map_or(self.awaited.len(), |send| send.needs);
        let missed: Vec<usize> =
            (self.first_open..needs).filter(|at| self.awaited[*at] == State::Open).collect();
        self.miss(&missed, why);
        missed.len()
    }

    /// Nothing more can come for what was sent as the so many-th.
    pub(super) fn unanswered(&mut self, sent: usize, why: &str) {
        let frame = self.plan.sends[sent].frame;
        let is_missed = |at: &usize| match self.plan.awaited[*at].what {
            What::Answer { asked } => self.plan.asked[asked].line.frame == frame,
            What::Request { .. } | What::Orphan => false,
        };
        let open = (self.first_open..self.awaited.len()).filter(|at| self.awaited[*at] == State::Open);
        let missed: Vec<usize> = open.filter(is_missed).collect();
        self.miss(&missed, why);
    }

    /// What an error without an id says that comes in the place of an answer to what was sent as the so many-th.
    pub(super) fn refusal(&self, frame: &[u8], sent: usize) -> Option<String> {
        let all = Said::all(frame);
        let [said @ Said { kind: Kind::Orphan, .. }] = all.as_slice() else { return None };
        let is_recorded = self.open(|what| *what == What::Orphan).is_some();
        let message = said.value.as_ref()?.get("error")?.get("message")?.as_str()?;
        (self.is_waiting_for(sent) && !is_recorded).then(|| message.to_owned())
    }

    /// Whether an answer to what was sent as the so many-th is still waited for.
    pub(super) fn is_waiting_for(&self, sent: usize) -> bool {
        let frame = self.plan.sends[sent].frame;
        let is_open = |asked: &Asked| asked.answers.iter().any(|at| self.awaited[*at] == State::Open);
        self.plan.asked.iter().any(|asked| asked.line.frame == frame && is_open(asked))
    }

    fn miss(&mut self, missed: &[usize], why: &str) {
        for awaited in missed {
            self.awaited[*awaited] = State::Missed;
            let line = self.plan.awaited[*awaited].line;
            let (about, kind) = match self.plan.awaited[*awaited].what {
                What::Answer { asked } => {
                    let again = self.plan.asked[asked].answers.first() != Some(awaited);
                    let kind = if again {
                        DifferenceKind::AnsweredOnce
                    } else {
                        DifferenceKind::Unanswered(why.to_owned())
                    };
                    (self.plan.asked[asked].line, kind)
                }
                What::Request { .. } => (line, DifferenceKind::MissingRequest),
                What::Orphan => (line, DifferenceKind::Unanswered(why.to_owned())),
            };
            let mut difference = self.difference(kind, Some(about), None);
            difference.answer_frame = Some(self.script.frames[line.frame].number);
            self.differences.push(difference);
        }
    }

    /// The server says no more. Says what that means for the rest.
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
        // What was never sent is missed as well, and has been told once.
        for state in self.awaited.iter_mut().filter(|state| **state == State::Open) {
            *state = State::Missed;
        }
        self.first_open = self.awaited.len();
    }

    /// Nothing more is sent: what is answered from now on is answered because of that.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// How the server ended, where the capture knows it.
    pub(super) fn exited(&mut self, came: ExitStatus) {
        if let Some(recorded) = self.script.ended.filter(|recorded| *recorded != came) {
            self.differs(DifferenceKind::Exit { recorded, came }, None, None);
        }
    }

    pub(super) fn played(mut self) -> Played {
        for line in std::mem::take(&mut self.strays) {
            let kind = match self.said(line).kind {
                Kind::Answer { .. } => DifferenceKind::MissingStrayAnswer,
                _ => DifferenceKind::MissingNoMessage,
            };
            self.differs(kind, Some(line), None);
        }
        if self.options.compare_notifications {
            self.notifications();
        }
        Played { differences: self.differences, notes: self.notes, sent: self.sent, compared: self.come }
    }

    fn said(&self, line: Line) -> &'a Said {
        let script: &'a Script = self.script;
        &script.frames[line.frame].said[line.said]
    }
}

/// A server that never stops talking is not kept in memory: bytes of notifications.
const MOST_TOLD: usize = 64 * 1024 * 1024;
