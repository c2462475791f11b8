//! What goes over a wire -> figures, one thing after the other.

use std::collections::HashSet;
use std::time::Duration;

use barewire_proto::mcp::Era;
use barewire_proto::transcript::{Note, Stream};

use super::figures::{Failing, HowFailed, MOST_NAMED, Slow, Summary, Unanswered, Way};
use crate::Failure;
use crate::read::direction::Directions;
use crate::read::event::status;
use crate::read::link::waited;
use barewire_workbench::frames::{FrameFacts, Sink, WireFrame, WireItem};
use barewire_workbench::operations::{
    Conversation, Operation, OperationTracker, Participant, Relation, ResponseOutcome, TrackedMessage,
};

#[derive(Default)]
pub(super) struct Collect {
    watch: OperationTracker,
    directions: Directions,
    summary: Summary,
    conversations: HashSet<String>,
}

impl Sink for Collect {
    fn take(&mut self, sight: &WireItem<'_>) -> Result<bool, Failure> {
        match sight {
            WireItem::Frame(seen) if seen.place.is_none() => {
                let placed = self.directions.guess(seen);
                self.frame(&WireItem::Frame(&placed), &placed);
            }
            WireItem::Frame(seen) => {
                self.summary.has_directions = true;
                self.frame(sight, seen);
            }
            WireItem::Header(header) => {
                let started = header.facts.iter().find(|(key, _)| key.as_str() == "started");
                self.summary.started = started.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
            }
            WireItem::Stderr(bytes) => {
                self.time(bytes.marks.time);
                self.summary.stderr.count += 1;
                self.summary.stderr.bytes += bytes.payload.len() as u64;
            }
            WireItem::Endpoint { .. } => self.watch.take(sight, &mut |_| {}),
            WireItem::Event(event) => {
                self.time(event.marks.time);
                self.event(&event.note);
                self.watch.take(sight, &mut |_| {});
                self.refused(event.channel.as_str());
                // What was said before the session had a name was said in it.
                let channel = event.channel.as_str();
                if self.watch.exchange(channel).is_some_and(|exchange| exchange.session.is_some()) {
                    self.conversations.remove(channel);
                }
            }
        }
        Ok(true)
    }
}

impl Collect {
    pub(super) fn finish(mut self) -> Summary {
        for operation in self.watch.open() {
            let Operation { method, name, rounds, .. } = operation;
            // It was asked for input and did not ask again.
            if operation.answer().is_some() {
                ended(&mut self.summary, operation);
                continue;
            }
            *self.summary.rounds.entry(rounds.len()).or_default() += 1;
            if !operation.is_unanswered() {
                continue;
            }
            self.summary.unanswered += 1;
            if self.summary.unanswered_first.len() < MOST_NAMED {
                let asked = rounds.last().map_or(operation.asked(), |round| round.asked);
                let (method, name) = (method.clone(), name.clone());
                let one = Unanswered { frame: asked.frame, time: asked.time, method, name };
                self.summary.unanswered_first.push(one);
            }
        }
        self.summary.conversations = self.conversations.len() as u64;
        self.summary
    }

    /// A status of HTTP in place of an answer.
    fn refused(&mut self, channel: &str) {
        let status = self.watch.exchange(channel).and_then(|exchange| exchange.code()).unwrap_or_default();
        for operation in self.watch.refused() {
            let failing = failing(operation, HowFailed::Status(status), None);
            self.summary.fail(failing, operation.asked().frame);
            *self.summary.rounds.entry(operation.rounds.len()).or_default() += 1;
        }
    }

    fn time(&mut self, time: Option<Duration>) {
        let Some(time) = time else { return };
        let (first, last) = self.summary.span.unwrap_or((time, time));
        self.summary.span = Some((first.min(time), last.max(time)));
    }

    fn event(&mut self, note: &Note) {
        match note {
            Note::ExitCode(code) => self.exit(format!("exit code {code}")),
            Note::ExitSignal(signal) => self.exit(format!("ended by signal {signal}")),
            Note::Head(Stream::ToClient, line) => {
                if let Some(status) = status(line) {
                    *self.summary.statuses.entry(status).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn exit(&mut self, how: String) {
        if self.summary.exits.len() < MOST_NAMED {
            self.summary.exits.push(how);
        }
    }

    fn frame(&mut self, sight: &WireItem<'_>, seen: &WireFrame<'_>) {
        let place = seen.place;
        self.time(place.and_then(|place| place.time));
        let Self { watch, summary, conversations, .. } = self;
        summary.frames += 1;
        let way = usize::from(place.is_some_and(|place| place.stream == Stream::ToClient));
        let Way { frames, kinds } = &mut summary.ways[way];
        frames.count += 1;
        frames.bytes += seen.length;
        if seen.facts().kind == "batch" {
            *kinds.entry("batch").or_default() += 1;
        }
        watch.take(sight, &mut |watched| {
            let kind = FrameFacts::element(watched.message, watched.text.unwrap_or_default()).kind;
            *summary.ways[way].kinds.entry(kind).or_default() += 1;
            message(summary, watched);
            who(summary, watched.conversation);
            // What is only asked for, as to find out the era of a server, is not what is spoken.
            if let Relation::Response { operation, .. } = watched.relation
                && operation.answer().is_some_and(|answer| answer.outcome.is_result())
            {
                version(summary, watched.conversation);
            }
            let name = &watched.conversation.name;
            if !conversations.contains(name) && conversations.len() < MOST_CONVERSATIONS {
                conversations.insert(name.clone());
            }
        });
    }
}

fn message(summary: &mut Summary, watched: &TrackedMessage<'_>) {
    match watched.relation {
        Relation::None | Relation::RefusesUnidentified => {}
        Relation::Request { operation, id_in_use } => {
            summary.ids_in_use += u64::from(id_in_use);
            if operation.rounds.len() == 1 {
                summary.operations += 1;
                summary.method(&operation.method).asked += 1;
            }
        }
        Relation::Response { operation, late, .. } => {
            summary.round_trips += 1;
            summary.late += u64::from(late);
            answered(summary, operation);
        }
        Relation::Progress { .. } => summary.progress += 1,
        Relation::Cancellation { .. } => summary.cancelled += 1,
        Relation::Duplicate => summary.second_answers += 1,
        Relation::Unsolicited => summary.to_nobody += 1,
    }
}

fn answered(summary: &mut Summary, operation: &Operation) {
    let Some(answer) = operation.answer() else { return };
    let failed = match &answer.outcome {
        // It is not over.
        ResponseOutcome::InputRequired => return,
        ResponseOutcome::Result => None,
        ResponseOutcome::ToolFailed => Some((HowFailed::IsError, None)),
        ResponseOutcome::Error { code, message } => Some((HowFailed::Code(*code), Some(message.clone()))),
        ResponseOutcome::Unreadable => Some((HowFailed::Unreadable, None)),
    };
    if let Some((how, message)) = failed {
        summary.fail(failing(operation, how, message), operation.asked().frame);
    }
    ended(summary, operation);
}

fn failing(operation: &Operation, how: HowFailed, message: Option<String>) -> Failing {
    let Operation { method, name, .. } = operation;
    Failing { method: method.clone(), how, name: name.clone(), message }
}

/// No more rounds follow.
fn ended(summary: &mut Summary, operation: &Operation) {
    let (method, frame) = (&operation.method, operation.asked().frame);
    *summary.rounds.entry(operation.rounds.len()).or_default() += 1;
    let figures = summary.method(method);
    figures.answered += 1;
    if let Some(waited) = waited(operation) {
        figures.latencies.add(waited);
        summary.slow(Slow {
            waited,
            total: operation.latency(),
            frame,
            rounds: operation.rounds.len(),
            method: method.clone(),
            name: operation.name.clone(),
        });
    }
}

fn who(summary: &mut Summary, conversation: &Conversation) {
    let add = |known: &mut Vec<Participant>, who: &Option<Participant>| {
        if let Some(who) = who
            && !known.contains(who)
            && known.len() < MOST_NAMED
        {
            known.push(who.clone());
        }
    };
    add(&mut summary.clients, &conversation.client);
    add(&mut summary.servers, &conversation.server);
}

fn version(summary: &mut Summary, conversation: &Conversation) {
    let Some(version) = &conversation.version else { return };
    let is_new = !summary.versions.iter().any(|(known, _)| known == version);
    if is_new && summary.versions.len() < MOST_NAMED {
        let era = conversation.era().map(|era| match era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        });
        summary.versions.push((version.clone(), era));
    }
}

/// More are not told apart.
const MOST_CONVERSATIONS: usize = 65_536;
