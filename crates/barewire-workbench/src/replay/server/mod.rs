//! Messages of a client and a script -> what the server said to them in the capture. No I/O, and time is an argument.

mod no_match;
mod reactions;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use barewire_proto::json::Json;
use barewire_proto::rpc::{Id, Invalid, Parsed, parse, write};
use barewire_proto::transcript::Framing;

use super::diff::{Change, diff};
use super::framing::framed;
use super::message::{Message, MessageKind, SUBSCRIPTION};
use super::play_plan::MessageIndex;
use super::rewrite::rewrite;
use super::script::Script;
use super::serve::ServeOptions;
use super::value::Value;
use crate::text::shown;
use no_match::NoMatch;
use reactions::{ReactionStep, Reactions};

/// Plays the server's part.
pub(super) struct ServerReplay<'a> {
    script: &'a Script,
    /// The framing of messages to the client.
    framing: Framing,
    reactions: Reactions,
    /// The reactions by the exact text of the messages that they answer, in order.
    exact: HashMap<String, Vec<usize>>,
    options: &'a ServeOptions,
    /// How often each reaction was used.
    uses: Vec<usize>,
    /// The first reaction behind all that were used.
    next: usize,
    active: Vec<ActiveReaction>,
    /// Batches that are not answered yet.
    batches: HashMap<u64, PendingBatch>,
    last_batch: u64,
    /// The ids of requests to the client, and of those that it has answered.
    sent_ids: HashSet<Id<'static>>,
    answered_ids: HashSet<Id<'static>>,
    new_ids: u64,
    pub(super) matched: usize,
    pub(super) unmatched: usize,
}

/// A batch of requests, which is answered with a batch.
struct PendingBatch {
    /// Requests that are not answered yet.
    left: usize,
    answers: Vec<Vec<u8>>,
    exchange: u64,
}

/// The time and the exchange of a message that came. A stream has only one exchange, 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Instant,
    pub(super) exchange: u64,
}

/// A reaction under way.
struct ActiveReaction {
    /// `None` for the prologue.
    reaction: Option<usize>,
    step: usize,
    /// The id and the progress token of the client's request.
    id: Option<Id<'static>>,
    token: Option<Id<'static>>,
    arrival: Arrival,
    /// The ids of the requests to the client that were sent in it.
    asked: HashMap<MessageIndex, Id<'static>>,
    batch: Option<u64>,
}

/// Something to be done by the caller.
#[derive(Debug, PartialEq)]
pub(super) enum ServerOutput {
    /// A message is sent in this exchange, as its last one or not.
    Send { bytes: Vec<u8>, exchange: u64, is_last: bool },
    /// A line for people.
    Log(String),
}

impl<'a> ServerReplay<'a> {
    pub(super) fn new(script: &'a Script, framing: Framing, options: &'a ServeOptions, now: Instant) -> Self {
        let reactions = Reactions::of(script);
        let uses = vec![0; reactions.all.len()];
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, reaction) in reactions.all.iter().enumerate() {
            let message = &script.frames[reaction.index.frame].messages[reaction.index.message];
            if let Some(text) = exact_text(message) {
                exact.entry(text).or_default().push(number);
            }
        }
        let mut stage = Self {
            script,
            framing,
            reactions,
            exact,
            options,
            uses,
            next: 0,
            active: Vec::new(),
            batches: HashMap::new(),
            last_batch: 0,
            sent_ids: HashSet::new(),
            answered_ids: HashSet::new(),
            new_ids: 0,
            matched: 0,
            unmatched: 0,
        };
        stage.start(None, None, Arrival { at: now, exchange: 0 }, None);
        stage
    }

    /// Takes a frame of the client.
    pub(super) fn take(&mut self, frame: &[u8], arrival: Arrival) -> Vec<ServerOutput> {
        let all = Message::in_frame(frame);
        let is_batch = matches!(parse(frame, usize::MAX), Parsed::Batch(_));
        let requests = all.iter().filter(|message| matches!(message.kind, MessageKind::Request { .. })).count();
        let batch = (is_batch && requests > 0).then(|| {
            self.last_batch += 1;
            let batch = PendingBatch { left: requests, answers: Vec::new(), exchange: arrival.exchange };
            self.batches.insert(self.last_batch, batch);
            self.last_batch
        });
        let mut out = Vec::new();
        for message in &all {
            match &message.kind {
                MessageKind::Request { id, .. } => self.request(id, message, arrival, batch, &mut out),
                MessageKind::Notification { .. } => self.notification(message, arrival, &mut out),
                MessageKind::Response { id } => {
                    if self.sent_ids.contains(id) {
                        self.answered_ids.insert(id.clone());
                    }
                }
                MessageKind::OrphanError => {}
                MessageKind::Invalid => self.invalid(message, arrival, &mut out),
            }
        }
        out.extend(self.run(arrival.at));
        out
    }

    /// Ends the reactions in an exchange that the client has closed.
    pub(super) fn close_exchange(&mut self, exchange: u64) {
        self.active.retain(|one| one.arrival.exchange != exchange);
    }

    fn request(
        &mut self,
        id: &Id<'static>,
        message: &Message,
        arrival: Arrival,
        batch: Option<u64>,
        out: &mut Vec<ServerOutput>,
    ) {
        let about = about(message, id);
        match self.find(message) {
            Ok(reaction) => {
                self.matched += 1;
                self.uses[reaction] += 1;
                self.next = self.next.max(reaction + 1);
                let again = if self.uses[reaction] > 1 { ", again" } else { "" };
                out.push(ServerOutput::Log(format!("{about}: as frame {}{again}", self.number(reaction))));
                self.start(Some(reaction), Some((id, message)), arrival, batch);
                let is_answered =
                    self.reactions.all[reaction].steps.iter().any(|step| matches!(step, ReactionStep::Respond(_)));
                if !is_answered {
                    self.settle(batch, None, out);
                }
            }
            Err(_) if message.method() == Some("ping") => {
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_str());
                self.settle_or_send(batch, arrival.exchange, answer.into_bytes(), out);
            }
            Err(miss) => {
                self.unmatched += 1;
                out.push(ServerOutput::Log(format!("{about}: {}", miss.sentence())));
                let mut answer = Vec::new();
                write::error(&mut answer, Some(id), &miss.error());
                self.settle_or_send(batch, arrival.exchange, answer, out);
            }
        }
    }

    fn notification(&mut self, message: &Message, arrival: Arrival, out: &mut Vec<ServerOutput>) {
        if let Some(id) = message.cancelled_id() {
            // A cancelled request is not answered.
            let is_over = |one: &mut ActiveReaction| one.id.as_ref() == Some(&id);
            let over: Vec<ActiveReaction> = self.active.extract_if(.., is_over).collect();
            for one in over {
                self.settle(one.batch, None, out);
            }
        }
        if let Ok(reaction) = self.find(message) {
            self.uses[reaction] += 1;
            self.start(Some(reaction), None, arrival, None);
        }
    }

    fn invalid(&mut self, message: &Message, arrival: Arrival, out: &mut Vec<ServerOutput>) {
        let same = |reaction: &usize| {
            let recorded = self.message(self.reactions.all[*reaction].index);
            recorded.kind == MessageKind::Invalid && recorded.text == message.text
        };
        let all: Vec<usize> = (0..self.reactions.all.len()).filter(same).collect();
        if let Some(reaction) = all.iter().find(|reaction| self.uses[**reaction] == 0).or(all.last()).copied() {
            self.uses[reaction] += 1;
            return self.start(Some(reaction), None, arrival, None);
        }
        if let Parsed::Invalid(invalid) = parse(&message.text, usize::MAX) {
            self.refuse(&invalid, arrival.exchange, out);
        }
    }

    /// Answers an invalid frame with an error, if its sender waits for an answer.
    pub(super) fn refuse(&mut self, invalid: &Invalid<'_>, exchange: u64, out: &mut Vec<ServerOutput>) {
        let Some(reply) = invalid.reply() else { return };
        self.unmatched += 1;
        out.push(ServerOutput::Log(format!("no message: {invalid}")));
        let mut answer = Vec::new();
        reply.error(&mut answer, &invalid.error());
        out.push(self.send(&answer, exchange, true));
    }

    fn send(&self, text: &[u8], exchange: u64, is_last: bool) -> ServerOutput {
        ServerOutput::Send { bytes: framed(self.framing, text), exchange, is_last }
    }

    /// The reaction to a message, or the reason why there is none.
    fn find(&self, message: &Message) -> Result<usize, NoMatch> {
        let method = message.method().unwrap_or_default();
        let is_request = matches!(message.kind, MessageKind::Request { .. });
        let kind = |reaction: &usize| {
            let recorded = self.message(self.reactions.all[*reaction].index);
            matches!(recorded.kind, MessageKind::Request { .. }) == is_request && recorded.method().is_some()
        };
        let all = || (0..self.reactions.all.len()).filter(kind);
        if self.options.in_order && is_request {
            let next = all().find(|reaction| *reaction >= self.next);
            let Some(next) = next else { return Err(NoMatch::NoMoreRequests) };
            let recorded = self.message(self.reactions.all[next].index);
            if recorded.method() != Some(method) {
                let wanted = recorded.method().unwrap_or_default().to_owned();
                return Err(NoMatch::OutOfOrder { frame: self.number(next), wanted });
            }
            let changes = self.changes(recorded, message);
            if changes.is_empty() {
                return Ok(next);
            }
            return Err(NoMatch::OtherParams { frame: self.number(next), changes });
        }
        // Most messages are in the capture word for word.
        let exact = exact_text(message).and_then(|text| self.exact.get(&text)).into_iter().flatten();
        if let Some(exact) = exact.copied().find(|reaction| self.uses[*reaction] == 0) {
            return Ok(exact);
        }
        let mut same = Vec::new();
        let mut nearest: Option<(usize, Vec<Change>)> = None;
        for reaction in all() {
            let recorded = self.message(self.reactions.all[reaction].index);
            if recorded.method() != Some(method) {
                continue;
            }
            let changes = self.changes(recorded, message);
            if changes.is_empty() {
                same.push(reaction);
            } else if nearest.as_ref().is_none_or(|(_, other)| distance(&changes) < distance(other)) {
                nearest = Some((reaction, changes));
            }
        }
        let unused = same.iter().find(|reaction| self.uses[**reaction] == 0).copied();
        match (unused, same.last(), nearest) {
            (Some(reaction), _, _) => Ok(reaction),
            (None, Some(last), _) if !self.options.strict => Ok(*last),
            (None, Some(last), _) => Err(NoMatch::UsedUp { frame: self.number(*last) }),
            (None, None, Some((reaction, changes))) => {
                Err(NoMatch::OtherParams { frame: self.number(reaction), changes })
            }
            (None, None, None) => Err(NoMatch::UnknownMethod),
        }
    }

    /// The places where a message differs from one of the capture, without those that differ each time.
    fn changes(&self, recorded: &Message, came: &Message) -> Vec<Change> {
        let method = recorded.method().unwrap_or_default();
        // Each client describes itself in its own words.
        if matches!(method, "initialize" | "server/discover") {
            return Vec::new();
        }
        let (Some(was), Some(is)) = (&recorded.value, &came.value) else {
            let text = |message: &Message| Some(Value::String(String::from_utf8_lossy(&message.text).into_owned()));
            let change = Change { path: Vec::new(), recorded: text(recorded), came: text(came) };
            return if recorded.text == came.text { Vec::new() } else { vec![change] };
        };
        let is_nothing = |value: Option<&Value>| {
            value.is_none_or(|value| matches!(value, Value::Object(it) if it.keys().all(|name| name == "_meta")))
        };
        diff(was, is, &mut |path, was, is| match path {
            [member] if member == "id" || member == "jsonrpc" => true,
            [params] if params == "params" && is_nothing(was) && is_nothing(is) => true,
            [params, meta, ..] if params == "params" && meta == "_meta" => true,
            path => self.options.ignore.iter().any(|pattern| pattern.covers(method, path)),
        })
    }

    fn start(
        &mut self,
        reaction: Option<usize>,
        asked: Option<(&Id<'static>, &Message)>,
        arrival: Arrival,
        batch: Option<u64>,
    ) {
        let id = asked.map(|(id, _)| id.clone());
        let token = asked.and_then(|(_, message)| message.requested_progress_token());
        self.active.push(ActiveReaction { reaction, step: 0, id, token, arrival, asked: HashMap::new(), batch });
    }

    /// Takes every step that is due.
    pub(super) fn run(&mut self, now: Instant) -> Vec<ServerOutput> {
        let mut out = Vec::new();
        let mut active = std::mem::take(&mut self.active);
        active.retain_mut(|one| {
            loop {
                let Some(step) = self.steps(one.reaction).get(one.step).copied() else { return false };
                if self.when(one, step) > now {
                    return true;
                }
                match step {
                    ReactionStep::AwaitResponse(index) => {
                        if !one.asked.get(&index).is_none_or(|id| self.answered_ids.contains(id)) {
                            return true;
                        }
                    }
                    ReactionStep::Request(index) => self.ask(one, index, &mut out),
                    ReactionStep::Send(index) => {
                        // A client that asked for no progress gets none.
                        let is_wanted = self.message(index).progress_token().is_none() || one.token.is_some();
                        if is_wanted {
                            let text = self.text(one, index);
                            out.push(self.send(&text, one.arrival.exchange, false));
                        }
                    }
                    ReactionStep::Respond(index) => {
                        let text = self.text(one, index);
                        self.settle_or_send(one.batch, one.arrival.exchange, text, &mut out);
                    }
                }
                one.step += 1;
            }
        });
        active.append(&mut self.active);
        self.active = active;
        out
    }

    /// The time of the next step that waits only for its time.
    pub(super) fn due(&self) -> Option<Instant> {
        let next = |one: &ActiveReaction| match self.steps(one.reaction).get(one.step)? {
            ReactionStep::AwaitResponse(_) => None,
            step => Some(self.when(one, *step)),
        };
        self.active.iter().filter_map(next).min()
    }

    fn when(&self, one: &ActiveReaction, step: ReactionStep) -> Instant {
        let (ReactionStep::Respond(index)
        | ReactionStep::Send(index)
        | ReactionStep::Request(index)
        | ReactionStep::AwaitResponse(index)) = step;
        let asked = one.reaction.map(|reaction| self.reactions.all[reaction].index.frame);
        let times = asked.map(|frame| (self.script.frames[frame].time, self.script.frames[index.frame].time));
        match times {
            Some((Some(asked), Some(answered)))
                if self.options.real_time && !matches!(step, ReactionStep::AwaitResponse(_)) =>
            {
                one.arrival.at + answered.checked_sub(asked).unwrap_or(Duration::ZERO)
            }
            _ => one.arrival.at,
        }
    }

    /// Sends a request of the server, under its id in the capture unless that was used.
    fn ask(&mut self, one: &mut ActiveReaction, index: MessageIndex, out: &mut Vec<ServerOutput>) {
        let MessageKind::Request { id, .. } = &self.message(index).kind else { return };
        let mut id = id.clone();
        while !self.sent_ids.insert(id.clone()) {
            self.new_ids += 1;
            let text = format!("\"replay-{}\"", self.new_ids);
            id = Id::parse(text.as_bytes()).expect("a string").into_owned();
        }
        one.asked.insert(index, id);
        let text = self.text(one, index);
        out.push(self.send(&text, one.arrival.exchange, false));
    }

    /// The text of a message of the server, with the ids and tokens of this client.
    fn text(&self, one: &ActiveReaction, index: MessageIndex) -> Vec<u8> {
        let message = self.message(index);
        let reaction = one.reaction.map(|reaction| self.message(self.reactions.all[reaction].index));
        let recorded_id = reaction.and_then(|reaction| match &reaction.kind {
            MessageKind::Request { id, .. } => Some(id.clone()),
            _ => None,
        });
        let recorded_token = reaction.and_then(Message::requested_progress_token);
        let is = |value: Json<'_>, id: &Option<Id<'static>>| Id::from_json(value) == *id;
        let rewritten = rewrite(&message.text, &mut |path, value| {
            let live = match (&message.kind, path) {
                (MessageKind::Response { .. }, [id]) if id == "id" => one.id.as_ref(),
                (MessageKind::Request { .. }, [id]) if id == "id" => one.asked.get(&index),
                (_, [_, token]) if token == "progressToken" && is(value, &recorded_token) => one.token.as_ref(),
                (_, [.., name]) if name == SUBSCRIPTION && is(value, &recorded_id) => one.id.as_ref(),
                _ => None,
            };
            live.map(|id| id.as_str().to_owned())
        });
        rewritten.unwrap_or_else(|| message.text.clone())
    }

    fn settle_or_send(&mut self, batch: Option<u64>, exchange: u64, answer: Vec<u8>, out: &mut Vec<ServerOutput>) {
        match batch {
            Some(_) => self.settle(batch, Some(answer), out),
            None => out.push(self.send(&answer, exchange, true)),
        }
    }

    /// Ends one request of a batch. With the last one the batch is answered.
    fn settle(&mut self, batch: Option<u64>, answer: Option<Vec<u8>>, out: &mut Vec<ServerOutput>) {
        let Some(one) = batch.and_then(|batch| self.batches.get_mut(&batch)) else { return };
        one.left = one.left.saturating_sub(1);
        one.answers.extend(answer);
        if one.left == 0
            && let Some(PendingBatch { answers, exchange, .. }) = batch.and_then(|batch| self.batches.remove(&batch))
            && !answers.is_empty()
        {
            let text = [&b"["[..], &answers.join(&b','), b"]"].concat();
            out.push(self.send(&text, exchange, true));
        }
    }

    /// The requests of the capture that no client made.
    pub(super) fn unused(&self) -> HashSet<usize> {
        let is_request = |reaction: usize| {
            matches!(self.message(self.reactions.all[reaction].index).kind, MessageKind::Request { .. })
        };
        (0..self.uses.len()).filter(|reaction| self.uses[*reaction] == 0 && is_request(*reaction)).collect()
    }

    fn steps(&self, reaction: Option<usize>) -> &[ReactionStep] {
        reaction.map_or(&self.reactions.prologue, |reaction| &self.reactions.all[reaction].steps)
    }

    fn number(&self, reaction: usize) -> u64 {
        self.script.frames[self.reactions.all[reaction].index.frame].number
    }

    fn message(&self, index: MessageIndex) -> &'a Message {
        let script: &'a Script = self.script;
        &script.frames[index.frame].messages[index.message]
    }
}

/// The text of a request or notification, without what differs each time: its id and its metadata.
fn exact_text(message: &Message) -> Option<String> {
    let mut params = message.params().cloned().unwrap_or(Value::Null);
    if let Value::Object(members) = &mut params {
        members.remove("_meta");
    }
    let is_request = matches!(message.kind, MessageKind::Request { .. });
    Some(format!("{is_request} {} {params}", message.method()?))
}

/// The distance of two messages: by the number of places, and the deeper the nearer.
fn distance(changes: &[Change]) -> (usize, Reverse<usize>) {
    (changes.len(), Reverse(changes.iter().map(|change| change.path.len()).sum()))
}

/// `tools/call add, id 3`
fn about(message: &Message, id: &Id<'_>) -> String {
    let method = shown(message.method().unwrap_or_default().as_bytes(), 60);
    let name = message.name().map_or(String::new(), |name| format!(" {}", shown(name.as_bytes(), 60)));
    format!("{method}{name}, id {}", shown(id.as_str().as_bytes(), 40))
}
