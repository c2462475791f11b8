//! Messages and events of a wire -> the figures of its summary.

use std::collections::HashSet;
use std::time::Duration;

use barewire_proto::mcp::Era;
use barewire_proto::transcript::{Note, Stream};

use super::figures::{FailureKey, FailureKind, MAX_NAMED, Summary};
use barewire_workbench::frames::{FrameFacts, WireFrame, WireItem};
use barewire_workbench::operations::{
    Conversation, MessagePosition, Operation, OperationTracker, Participant, Relation, ResponseOutcome, Round,
    TrackedMessage,
};
use barewire_workbench::pipeline::Observer;
use barewire_workbench::rows::status;

#[derive(Default)]
pub(super) struct SummaryCollector {
    summary: Summary,
    conversations: HashSet<String>,
}

impl Observer for SummaryCollector {
    fn message(&mut self, tracked: &TrackedMessage<'_>) {
        let Self { summary, conversations } = self;
        let kind = FrameFacts::element(tracked.message, tracked.text.unwrap_or_default()).kind;
        *summary.directions[direction(tracked.frame)].kinds.entry(kind).or_default() += 1;
        relation(summary, tracked);
        participants(summary, tracked.conversation);
        // Only the revision in a result counts: a client may first ask for another revision, to find out the server's
        // era.
        if let Relation::Response { operation, .. } = tracked.relation
            && operation.answer().is_some_and(|answer| answer.outcome.is_result())
        {
            version(summary, tracked.conversation);
        }
        let name = &tracked.conversation.name;
        if !conversations.contains(name) && conversations.len() < MAX_CONVERSATIONS {
            conversations.insert(name.clone());
        }
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        match item {
            WireItem::Frame(frame) => {
                self.time(frame.place.and_then(|place| place.time));
                self.summary.frames += 1;
                let figures = &mut self.summary.directions[direction(frame)];
                figures.frames.count += 1;
                figures.frames.bytes += frame.length;
                if frame.facts().kind == "batch" {
                    *figures.kinds.entry("batch").or_default() += 1;
                }
            }
            WireItem::Header(header) => {
                let fact = |name| header.facts.iter().find(|(key, _)| key.as_str() == name);
                let text = |(_, value): &(_, Vec<u8>)| String::from_utf8_lossy(value).into_owned();
                let local = || fact("started-local").map(|fact| format!("{} local time", text(fact)));
                self.summary.started = fact("started").map(text).or_else(local);
            }
            WireItem::Stderr(bytes) => {
                self.time(bytes.marks.time);
                self.summary.stderr.count += 1;
                self.summary.stderr.bytes += bytes.payload.len() as u64;
            }
            WireItem::Endpoint { .. } => {}
            WireItem::Event(event) => {
                self.time(event.marks.time);
                self.event(&event.note);
                let channel = event.channel.as_str();
                let exchange = operations.exchange(channel);
                let status = exchange.and_then(|exchange| exchange.code()).unwrap_or_default();
                for operation in operations.refused() {
                    let key = failure(operation, FailureKind::Status(status), None);
                    self.summary.fail(key, operation.asked().frame);
                    *self.summary.rounds.entry(operation.rounds.len()).or_default() += 1;
                }
                // Messages from before the session id was known are part of the session, so their channel is not a
                // conversation.
                if exchange.is_some_and(|exchange| exchange.session.is_some()) {
                    self.conversations.remove(channel);
                }
            }
        }
    }

    fn end(&mut self, operations: &OperationTracker) {
        let summary = &mut self.summary;
        for operation in operations.open() {
            // The server asked for input, but the client did not send any, so the server's response was the last.
            if operation.answer().is_some() {
                ended(summary, operation);
                continue;
            }
            *summary.rounds.entry(operation.rounds.len()).or_default() += 1;
            if !operation.is_unanswered() {
                continue;
            }
            summary.unanswered += 1;
            if summary.unanswered_first.len() < MAX_NAMED {
                summary.unanswered_first.push(operation.clone());
            }
        }
        summary.conversations = self.conversations.len() as u64;
    }
}

impl SummaryCollector {
    pub(super) fn finish(self) -> Summary {
        self.summary
    }

    fn time(&mut self, time: Option<Duration>) {
        let Some(time) = time else { return };
        let (first, last) = self.summary.span.unwrap_or((time, time));
        self.summary.span = Some((first.min(time), last.max(time)));
    }

    fn event(&mut self, note: &Note) {
        let exits = &mut self.summary.exits;
        match note {
            Note::ExitCode(_) | Note::ExitSignal(_) if exits.len() >= MAX_NAMED => {}
            Note::ExitCode(code) => exits.push(format!("exit code {code}")),
            Note::ExitSignal(signal) => exits.push(format!("ended by signal {signal}")),
            Note::Head(Stream::ToClient, line) => {
                if let Some(status) = status(line) {
                    *self.summary.statuses.entry(status).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}

/// Returns the index of the frame's direction in [`Summary::directions`].
fn direction(frame: &WireFrame<'_>) -> usize {
    usize::from(frame.place.is_some_and(|place| place.stream == Stream::ToClient))
}

fn relation(summary: &mut Summary, tracked: &TrackedMessage<'_>) {
    match tracked.relation {
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
        Relation::Unsolicited => summary.unsolicited += 1,
    }
}

fn answered(summary: &mut Summary, operation: &Operation) {
    let Some(answer) = operation.answer() else { return };
    let failed = match &answer.outcome {
        // The operation continues with another round.
        ResponseOutcome::InputRequired => return,
        ResponseOutcome::Result | ResponseOutcome::Cut => None,
        ResponseOutcome::ToolFailed => Some((FailureKind::IsError, None)),
        ResponseOutcome::Error { code, message } => Some((FailureKind::Code(*code), Some(message.clone()))),
        ResponseOutcome::Unreadable => Some((FailureKind::Unreadable, None)),
    };
    if let Some((kind, message)) = failed {
        summary.fail(failure(operation, kind, message), operation.asked().frame);
    }
    ended(summary, operation);
}

fn failure(operation: &Operation, kind: FailureKind, message: Option<String>) -> FailureKey {
    let Operation { method, name, .. } = operation;
    FailureKey { method: method.clone(), kind, name: name.clone(), message }
}

/// Counts an operation that got its last response.
fn ended(summary: &mut Summary, operation: &Operation) {
    *summary.rounds.entry(operation.rounds.len()).or_default() += 1;
    let figures = summary.method(&operation.method);
    figures.answered += 1;
    let latencies = operation.rounds.iter().filter_map(Round::latency);
    if let Some(waited) = latencies.reduce(Duration::saturating_add) {
        figures.latencies.add(waited);
        summary.add_slow(waited, operation);
    }
}

fn participants(summary: &mut Summary, conversation: &Conversation) {
    let add = |known: &mut Vec<Participant>, participant: &Option<Participant>| {
        if let Some(participant) = participant
            && !known.contains(participant)
            && known.len() < MAX_NAMED
        {
            known.push(participant.clone());
        }
    };
    add(&mut summary.clients, &conversation.client);
    add(&mut summary.servers, &conversation.server);
}

fn version(summary: &mut Summary, conversation: &Conversation) {
    let Some(version) = &conversation.version else { return };
    let is_new = !summary.versions.iter().any(|(known, _)| known == version);
    if is_new && summary.versions.len() < MAX_NAMED {
        let era = conversation.era().map(|era| match era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        });
        summary.versions.push((version.clone(), era));
    }
}

pub(super) fn last_request(operation: &Operation) -> MessagePosition {
    operation.rounds.last().map_or(operation.asked(), |round| round.asked)
}

/// The maximum number of conversations to count.
const MAX_CONVERSATIONS: usize = 65_536;
