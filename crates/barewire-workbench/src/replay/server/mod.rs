//! Replays the server of a script: answers the frames of a client with the frames that the server sent in the capture.
//! Uses no I/O, and gets the time as an argument.

mod batches;
mod matching;
mod no_match;
mod reactions;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use barewire_proto::json::Json;
use barewire_proto::rpc::{Id, Invalid, Parsed, parse, write};
use barewire_proto::transcript::Framing;

use super::framing::framed;
use super::message::{Message, MessageKind, SUBSCRIPTION};
use super::rewrite::rewrite;
use super::script::{MessageIndex, Script};
use super::serve::ServeOptions;
use crate::text::shown;
use batches::Batches;
use matching::Matcher;
use no_match::NoMatch;
use reactions::ReactionStep;

/// The replayed server, for one client.
pub(super) struct ServerReplay<'a> {
    script: &'a Script,
    framing: Framing,
    options: &'a ServeOptions,
    matcher: Matcher<'a>,
    active: Vec<ActiveReaction>,
    batches: Batches,
    /// The ids of requests that were sent to the client, and of those that the client has answered.
    sent_ids: HashSet<Id<'static>>,
    answered_ids: HashSet<Id<'static>>,
    /// The number of ids that were generated because the recorded id was already used.
    made_ids: u64,
    out: Vec<ServerOutput>,
    pub(super) matched: usize,
    pub(super) unmatched: usize,
}

/// The time and the HTTP exchange of a received message. A stream has only one exchange, 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Instant,
    pub(super) exchange: u64,
}

struct ActiveReaction {
    /// The index of the reaction; `None` for the messages before the client's first message.
    reaction: Option<usize>,
    step: usize,
    /// The id and the progress token of the client's request.
    id: Option<Id<'static>>,
    token: Option<Id<'static>>,
    arrival: Arrival,
    /// Maps each request that this reaction has sent to the client to the id that was used for it.
    sent_requests: HashMap<MessageIndex, Id<'static>>,
    /// The batch of the request, until the request is finished.
    batch: Option<u64>,
}

/// An action for the caller.
#[derive(Debug, PartialEq)]
pub(super) enum ServerOutput {
    /// Send a message in this exchange. `is_last` means that the message ends the exchange.
    Send { bytes: Vec<u8>, exchange: u64, is_last: bool },
    /// Log a line for the user.
    Log(String),
}

impl<'a> ServerReplay<'a> {
    pub(super) fn new(script: &'a Script, framing: Framing, options: &'a ServeOptions, now: Instant) -> Self {
        let mut server = Self {
            script,
            framing,
            options,
            matcher: Matcher::new(script, options),
            active: Vec::new(),
            batches: Batches::default(),
            sent_ids: HashSet::new(),
            answered_ids: HashSet::new(),
            made_ids: 0,
            out: Vec::new(),
            matched: 0,
            unmatched: 0,
        };
        server.start(None, None, Arrival { at: now, exchange: 0 }, None);
        server
    }

    pub(super) fn take(&mut self, frame: &[u8], arrival: Arrival) -> Vec<ServerOutput> {
        let messages = Message::in_frame(frame);
        let is_batch = matches!(parse(frame, usize::MAX), Parsed::Batch(_));
        let requests = messages.iter().filter(|message| message.is_request()).count();
        let batch = (is_batch && requests > 0).then(|| self.batches.add(requests));
        for message in &messages {
            match &message.kind {
                MessageKind::Request { id, .. } => self.handle_request(id, message, arrival, batch),
                MessageKind::Notification { .. } => self.handle_notification(message, arrival),
                MessageKind::Response { id } if self.sent_ids.contains(id) => {
                    self.answered_ids.insert(id.clone());
                }
                MessageKind::Response { .. } | MessageKind::OrphanError => {}
                MessageKind::Invalid => self.handle_invalid(message, arrival),
            }
        }
        self.run(arrival.at)
    }

    /// Drops the reactions in an exchange whose connection the client has closed.
    pub(super) fn close_exchange(&mut self, exchange: u64) {
        self.active.retain(|active| active.arrival.exchange != exchange);
    }

    fn handle_request(&mut self, id: &Id<'static>, message: &Message, arrival: Arrival, batch: Option<u64>) {
        let found = if self.is_busy() { Err(NoMatch::Busy) } else { self.matcher.find(message) };
        match found {
            Ok(reaction) => {
                self.matched += 1;
                let again = if self.matcher.mark_used(reaction) > 1 { ", again" } else { "" };
                let number = self.script.frame_number(self.matcher.index(reaction));
                self.log(message, id, &format!("as frame {number}{again}"));
                let mut steps = self.matcher.steps(Some(reaction)).iter();
                let has_response = steps.any(|step| matches!(step, ReactionStep::Respond(_)));
                self.start(Some(reaction), Some((id, message)), arrival, batch.filter(|_| has_response));
                if !has_response {
                    self.finish_request(batch, arrival.exchange, None);
                }
            }
            Err(_) if message.method() == Some("ping") => {
                let response = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.as_str());
                self.finish_request(batch, arrival.exchange, Some(response.into_bytes()));
            }
            Err(no_match) => {
                self.unmatched += 1;
                self.log(message, id, &no_match.sentence());
                let mut response = Vec::new();
                write::error(&mut response, Some(id), &no_match.error());
                self.finish_request(batch, arrival.exchange, Some(response));
            }
        }
    }

    fn handle_notification(&mut self, message: &Message, arrival: Arrival) {
        if let Some(id) = message.cancelled_id() {
            // A cancelled request gets no response.
            let is_cancelled = |active: &mut ActiveReaction| active.id.as_ref() == Some(&id);
            let cancelled: Vec<ActiveReaction> = self.active.extract_if(.., is_cancelled).collect();
            for active in cancelled {
                self.forget_made_ids(&active);
                self.finish_request(active.batch, active.arrival.exchange, None);
            }
        }
        if !self.is_busy()
            && let Ok(reaction) = self.matcher.find(message)
        {
            self.matcher.mark_used(reaction);
            self.start(Some(reaction), None, arrival, None);
        }
    }

    fn handle_invalid(&mut self, message: &Message, arrival: Arrival) {
        if let Some(reaction) = self.matcher.find_invalid(message).filter(|_| !self.is_busy()) {
            self.matcher.mark_used(reaction);
            self.start(Some(reaction), None, arrival, None);
        } else if let Parsed::Invalid(invalid) = parse(&message.text, usize::MAX) {
            self.reject(&invalid, arrival.exchange);
        }
    }

    /// Whether so many reactions are not finished that no other is started.
    fn is_busy(&self) -> bool {
        self.active.len() >= MAX_ACTIVE_REACTIONS
    }

    /// Responds to an invalid frame with an error, if the frame may be a request.
    fn reject(&mut self, invalid: &Invalid<'_>, exchange: u64) {
        let Some(reply) = invalid.reply() else { return };
        self.unmatched += 1;
        self.out.push(ServerOutput::Log(format!("not a message: {invalid}")));
        let mut response = Vec::new();
        reply.error(&mut response, &invalid.error());
        self.send(&response, exchange, true);
    }

    /// Handles bytes on a stream that are not a frame.
    pub(super) fn reject_bytes(&mut self, invalid: &Invalid<'_>) -> Vec<ServerOutput> {
        self.reject(invalid, 0);
        std::mem::take(&mut self.out)
    }

    /// Starts a reaction to a message. `request` is the id and the message, if the message is a request.
    fn start(
        &mut self,
        reaction: Option<usize>,
        request: Option<(&Id<'static>, &Message)>,
        arrival: Arrival,
        batch: Option<u64>,
    ) {
        let id = request.map(|(id, _)| id.clone());
        let token = request.and_then(|(_, message)| message.requested_progress_token());
        let sent_requests = HashMap::new();
        self.active.push(ActiveReaction { reaction, step: 0, id, token, arrival, sent_requests, batch });
    }

    /// Performs every step that is due.
    pub(super) fn run(&mut self, now: Instant) -> Vec<ServerOutput> {
        let mut running = std::mem::take(&mut self.active);
        running.retain_mut(|active| {
            while let Some(step) = self.matcher.steps(active.reaction).get(active.step).copied() {
                if self.due_time(active, step) > now || !self.take_step(active, step) {
                    return true;
                }
                active.step += 1;
            }
            self.forget_made_ids(active);
            false
        });
        running.append(&mut self.active);
        self.active = running;
        std::mem::take(&mut self.out)
    }

    /// Performs one step of a reaction. Returns `false` if the client must first answer a request.
    fn take_step(&mut self, active: &mut ActiveReaction, step: ReactionStep) -> bool {
        let exchange = active.arrival.exchange;
        match step {
            ReactionStep::AwaitResponse(index) => {
                return active.sent_requests.get(&index).is_none_or(|id| self.answered_ids.contains(id));
            }
            ReactionStep::Request(index) => {
                let MessageKind::Request { id, .. } = &self.script.message(index).kind else { return true };
                let id = self.unused_id(id);
                active.sent_requests.insert(index, id);
                self.send(&self.text(active, index), exchange, false);
            }
            ReactionStep::Send(index) => {
                // A client that requested no progress notifications gets none.
                if self.script.message(index).progress_token().is_none() || active.token.is_some() {
                    self.send(&self.text(active, index), exchange, false);
                }
            }
            ReactionStep::Respond(index) => {
                let response = self.text(active, index);
                self.finish_request(active.batch.take(), exchange, Some(response));
            }
        }
        true
    }

    /// Returns the time of the next step that does not wait for the client.
    pub(super) fn due(&self) -> Option<Instant> {
        let next = |active: &ActiveReaction| match self.matcher.steps(active.reaction).get(active.step)? {
            ReactionStep::AwaitResponse(_) => None,
            step => Some(self.due_time(active, *step)),
        };
        self.active.iter().filter_map(next).min()
    }

    fn due_time(&self, active: &ActiveReaction, step: ReactionStep) -> Instant {
        let recorded_delay = || match step {
            ReactionStep::AwaitResponse(_) => None,
            ReactionStep::Respond(index) | ReactionStep::Send(index) | ReactionStep::Request(index) => {
                let client_frame = &self.script.frames[self.matcher.index(active.reaction?).frame];
                Some(self.script.frames[index.frame].time?.saturating_sub(client_frame.time?))
            }
        };
        let delay = self.options.real_time.then(recorded_delay).flatten();
        active.arrival.at + delay.unwrap_or_default()
    }

    /// Returns the recorded id of a server request, or a new id if the recorded one was already sent.
    fn unused_id(&mut self, recorded: &Id<'static>) -> Id<'static> {
        let mut id = recorded.clone();
        while !self.sent_ids.insert(id.clone()) {
            self.made_ids += 1;
            let text = format!("{MADE_ID_PREFIX}{}\"", self.made_ids);
            id = Id::parse(text.as_bytes()).expect("a string").into_owned();
        }
        id
    }

    /// Forgets the generated ids of a finished reaction. They are never used again.
    fn forget_made_ids(&mut self, finished: &ActiveReaction) {
        for id in finished.sent_requests.values().filter(|id| id.as_str().starts_with(MADE_ID_PREFIX)) {
            self.sent_ids.remove(id);
            self.answered_ids.remove(id);
        }
    }

    /// Returns the text of a recorded server message, with the ids and tokens of this client.
    fn text(&self, active: &ActiveReaction, index: MessageIndex) -> Vec<u8> {
        let message = self.script.message(index);
        let client_message = active.reaction.map(|reaction| self.script.message(self.matcher.index(reaction)));
        let recorded_id = client_message.filter(|message| message.is_request()).and_then(Message::id).cloned();
        let recorded_token = client_message.and_then(Message::requested_progress_token);
        let is = |value: Json<'_>, id: &Option<Id<'static>>| Id::from_json(value) == *id;
        let rewritten = rewrite(&message.text, &mut |path, value| {
            let live = match (&message.kind, path) {
                (MessageKind::Response { .. }, [id]) if id == "id" => active.id.as_ref(),
                (MessageKind::Request { .. }, [id]) if id == "id" => active.sent_requests.get(&index),
                (_, [_, token]) if token == "progressToken" && is(value, &recorded_token) => active.token.as_ref(),
                (_, [.., name]) if name == SUBSCRIPTION && is(value, &recorded_id) => active.id.as_ref(),
                _ => None,
            };
            live.map(|id| id.as_str().to_owned())
        });
        rewritten.unwrap_or_else(|| message.text.clone())
    }

    /// Finishes a request, with or without a response. When the last request of a batch is finished, sends the
    /// responses to all of them.
    fn finish_request(&mut self, batch: Option<u64>, exchange: u64, response: Option<Vec<u8>>) {
        let response = match batch {
            Some(batch) => self.batches.finish_request(batch, response),
            None => response,
        };
        if let Some(response) = response {
            self.send(&response, exchange, true);
        }
    }

    fn send(&mut self, text: &[u8], exchange: u64, is_last: bool) {
        self.out.push(ServerOutput::Send { bytes: framed(self.framing, text), exchange, is_last });
    }

    /// Logs a line about a request, such as `tools/call add, id 3: as frame 7`.
    fn log(&mut self, message: &Message, id: &Id<'_>, what: &str) {
        let method = shown(message.method().unwrap_or_default().as_bytes(), 60);
        let name = message.name().map_or(String::new(), |name| format!(" {}", shown(name.as_bytes(), 60)));
        let id = shown(id.as_str().as_bytes(), 40);
        self.out.push(ServerOutput::Log(format!("{method}{name}, id {id}: {what}")));
    }

    /// Returns the reactions to recorded requests that the client has not sent.
    pub(super) fn unused(&self) -> HashSet<usize> {
        self.matcher.unused()
    }
}

/// The beginning of the ids that are generated for requests to the client.
const MADE_ID_PREFIX: &str = "\"replay-";

/// The maximum number of reactions that are not finished, because they wait for their time or for an answer of the
/// client: as many as requests that a server of the library has in flight.
const MAX_ACTIVE_REACTIONS: usize = 1024;
