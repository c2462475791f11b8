//! Messages and events of a wire -> the operations and items that a diagram shows, in order.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Note, Stream};

use super::Diagram;
use crate::filter::Filter;
use crate::frames::WireItem;
use crate::operations::{OperationTracker, Relation, ResponseOutcome, TrackedMessage};
use crate::pipeline::Observer;
use crate::rows::{status, title};
use crate::text::{shown, took};

/// The content of a diagram. All texts in it are already escaped.
#[derive(Default)]
pub(super) struct Timeline {
    pub(super) operations: Vec<TimelineOperation>,
    pub(super) items: Vec<TimelineItem>,
    /// The number of messages that are not shown because of [`MAX_ITEMS`].
    pub(super) left_out: u64,
    /// Whether there is more than one conversation. If so, the diagram names the conversation of each message.
    pub(super) many_conversations: bool,
}

pub(super) struct TimelineOperation {
    pub(super) title: String,
    pub(super) asker: Side,
    pub(super) rounds: Vec<TimelineRound>,
    pub(super) ending: Ending,
    pub(super) late: bool,
    wanted: bool,
}

pub(super) struct TimelineRound {
    /// The name of the conversation. Over HTTP without a session, every round is its own conversation.
    pub(super) tag: String,
    pub(super) asked: Moment,
    pub(super) answered: Option<Moment>,
}

#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) frame: u64,
    pub(super) time: Option<Duration>,
}

/// The way in which an operation or one of its rounds ended.
#[derive(Clone, PartialEq)]
pub(super) enum Ending {
    /// There was no response.
    Open,
    /// A `subscriptions/listen`, which stays open while the client listens.
    Listening,
    Cancelled,
    Result,
    InputRequired,
    ToolFailed,
    Error(String),
    Unreadable,
    /// Only the beginning of the response is in the transcript.
    Cut,
}

pub(super) struct TimelineItem {
    pub(super) at: Moment,
    pub(super) kind: ItemKind,
}

/// The kind of an item. `op` and `round` are indexes in [`Timeline::operations`] and [`TimelineOperation::rounds`].
pub(super) enum ItemKind {
    /// The request of a round.
    Request { op: usize, round: usize },
    /// The response to a round.
    Response { op: usize, round: usize, ending: Ending },
    /// One or more consecutive progress notifications.
    Progress { op: usize, round: usize, count: u64 },
    /// The cancellation of a round.
    Cancellation { op: usize, round: usize },
    /// One or more consecutive equal notifications that belong to no operation.
    Notification { from: Side, title: String, tag: String, count: u64 },
    /// A frame that is not a message, or a response that matches no open request.
    Stray { from: Side, title: String, tag: String },
    /// Output on stderr, the exit of the program, or an HTTP status of 400 or more.
    Event { text: String, bad: bool },
    /// The same operation several times in a row, from the first request to the last response.
    Repeat { op: usize, count: u64, latency: String, until: Moment },
}

impl Ending {
    fn of(outcome: &ResponseOutcome) -> Self {
        match outcome {
            ResponseOutcome::Result => Self::Result,
            ResponseOutcome::ToolFailed => Self::ToolFailed,
            ResponseOutcome::InputRequired => Self::InputRequired,
            ResponseOutcome::Error { code, message } => {
                Self::Error(format!("{code} {}", shown(message.as_bytes(), 40)).trim_end().to_owned())
            }
            ResponseOutcome::Unreadable => Self::Unreadable,
            ResponseOutcome::Cut => Self::Cut,
        }
    }

    pub(super) fn is_bad(&self) -> bool {
        matches!(self, Self::ToolFailed | Self::Error(_) | Self::Unreadable | Self::Open)
    }

    /// Returns a short description for a narrow column.
    pub(super) fn short(&self) -> String {
        match self {
            Self::ToolFailed => "isError".into(),
            Self::Error(error) => error.clone(),
            Self::Unreadable => "invalid".into(),
            other => other.words(),
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Open => "no response".into(),
            Self::Listening => "listening".into(),
            Self::Cancelled => "cancelled".into(),
            Self::Result => "result".into(),
            Self::InputRequired => "input required".into(),
            Self::ToolFailed => "failed (isError)".into(),
            Self::Error(error) => format!("error {error}"),
            Self::Unreadable => "invalid response".into(),
            Self::Cut => "cut response".into(),
        }
    }
}

impl TimelineRound {
    pub(super) fn latency(&self) -> Option<Duration> {
        Some(self.answered?.time?.saturating_sub(self.asked.time?))
    }
}

impl TimelineOperation {
    /// Returns the sum of the latencies of all rounds.
    pub(super) fn waited(&self) -> Option<Duration> {
        self.rounds.iter().filter_map(TimelineRound::latency).reduce(Duration::saturating_add)
    }

    /// Returns the time from the first request to the last response.
    pub(super) fn total(&self) -> Option<Duration> {
        let last = self.rounds.last()?.answered?.time?;
        Some(last.saturating_sub(self.rounds.first()?.asked.time?))
    }

    /// Whether `other` looks the same in a diagram. Both operations must have exactly one round.
    fn repeats(&self, other: &Self) -> bool {
        let facts = |op: &Self| (op.asker, op.late, op.rounds.len());
        facts(self) == facts(other)
            && self.title == other.title
            && self.rounds[0].tag == other.rounds[0].tag
            && self.ending == other.ending
    }
}

impl Timeline {
    /// Returns the number of rows needed to draw every item.
    pub(super) fn height(&self) -> usize {
        self.items.iter().map(|item| if let ItemKind::Repeat { .. } = item.kind { 2 } else { 1 }).sum()
    }

    /// Replaces `MIN_RUN` or more equal operations in a row by one item.
    pub(super) fn merge_repeats(&mut self) {
        let mut items = Vec::new();
        let mut rest = std::mem::take(&mut self.items).into_iter().peekable();
        // The operations of the current run, and their items, which are restored if the run is too short to merge.
        let mut run: Vec<usize> = Vec::new();
        let mut run_items: Vec<TimelineItem> = Vec::new();
        while let Some(item) = rest.next() {
            let op = match &item.kind {
                ItemKind::Request { op, .. } if self.operations[*op].rounds.len() == 1 => Some(*op),
                _ => None,
            };
            let mut piece = vec![item];
            let mut whole = None;
            while let (Some(op), None, Some(next)) = (op, whole, rest.peek()) {
                match &next.kind {
                    ItemKind::Progress { op: same, .. } if *same == op => {}
                    ItemKind::Response { op: same, .. } if *same == op => whole = Some(op),
                    _ => break,
                }
                piece.extend(rest.next());
            }
            let fits = whole.is_some_and(|op| {
                run.first().is_none_or(|first| self.operations[*first].repeats(&self.operations[op]))
            });
            if !fits {
                self.end_run(&mut run, &mut run_items, &mut items);
            }
            match whole {
                Some(op) => {
                    run.push(op);
                    run_items.extend(piece);
                }
                None => items.extend(piece),
            }
        }
        self.end_run(&mut run, &mut run_items, &mut items);
        self.items = items;
    }

    fn end_run(&self, run: &mut Vec<usize>, run_items: &mut Vec<TimelineItem>, items: &mut Vec<TimelineItem>) {
        let (run, run_items) = (std::mem::take(run), std::mem::take(run_items));
        let (Some(first), Some(last), true) = (run_items.first(), run_items.last(), run.len() >= MIN_RUN) else {
            items.extend(run_items);
            return;
        };
        let latencies = || run.iter().filter_map(|op| self.operations[*op].rounds[0].latency());
        let range = latencies().min().zip(latencies().max());
        let latency = range.map_or(String::new(), |(least, most)| format!("{} to {}", took(least), took(most)));
        let kind = ItemKind::Repeat { op: run[0], count: run.len() as u64, latency, until: last.at };
        items.push(TimelineItem { at: first.at, kind });
    }
}

/// The minimum number of equal operations in a row that are merged.
const MIN_RUN: usize = 3;

/// Builds a diagram from the messages of a wire, one by one.
pub struct DiagramBuilder<'a> {
    filter: &'a Filter,
    with_events: bool,
    timeline: Timeline,
    /// Maps each operation's number to its index in the timeline.
    places: HashMap<u64, usize>,
    /// Maps each HTTP session id to a number. The diagram shows the number, because session ids are too long to tell
    /// apart.
    sessions: HashMap<String, usize>,
}

impl Observer for DiagramBuilder<'_> {
    fn message(&mut self, tracked: &TrackedMessage<'_>) {
        let conversation = tracked.conversation;
        let is_channel = tracked.frame.place.is_some_and(|place| place.channel == conversation.name);
        if conversation.over_http && !is_channel && !self.sessions.contains_key(&conversation.name) {
            self.sessions.insert(conversation.name.clone(), self.sessions.len() + 1);
        }
        let at = Moment { frame: tracked.frame.number, time: tracked.frame.place.and_then(|place| place.time) };
        let is_full = self.timeline.items.len() >= MAX_ITEMS;
        // When the timeline is full, only responses and cancels are still added, so that operations already in it are
        // complete.
        if is_full && !matches!(tracked.relation, Relation::Response { .. } | Relation::Cancellation { .. }) {
            self.timeline.left_out += 1;
            return;
        }
        let wanted = !self.filter.is_set() || self.filter.matches(tracked);
        let Some((op, kind)) = self.operation_item(tracked, at, wanted) else { return };
        self.timeline.operations[op].wanted |= wanted;
        if is_full {
            self.timeline.left_out += 1;
        } else {
            self.timeline.items.push(TimelineItem { at, kind });
        }
    }

    fn item(&mut self, item: &WireItem<'_>, _: &OperationTracker) {
        let (time, text, bad, stream, raw): (_, _, _, _, &[u8]) = match item {
            WireItem::Stderr(bytes) if self.with_events => {
                let text = format!("stderr: {}", shown(&bytes.payload, 60));
                (bytes.marks.time, text, false, Stream::Stderr, &bytes.payload)
            }
            WireItem::Event(event) => {
                let time = event.marks.time;
                match &event.note {
                    Note::ExitCode(code) => (time, format!("exit code {code}"), *code != 0, Stream::Stderr, b""),
                    Note::ExitSignal(signal) => (time, format!("ended by signal {signal}"), true, Stream::Stderr, b""),
                    Note::Head(Stream::ToClient, line) if status(line).is_some_and(|status| status >= 400) => {
                        let text = format!("{} {}", shown(line, 60), event.channel.as_str());
                        (time, text.trim_end().to_owned(), true, Stream::ToClient, line)
                    }
                    _ => return,
                }
            }
            _ => return,
        };
        if self.timeline.items.len() < MAX_ITEMS && self.filter.matches_event(Some(stream), raw, bad) {
            let kind = ItemKind::Event { text, bad };
            self.timeline.items.push(TimelineItem { at: Moment { frame: 0, time }, kind });
        }
    }

    fn end(&mut self, _: &OperationTracker) {}
}

impl<'a> DiagramBuilder<'a> {
    /// Creates a builder for the operations of which at least one message matches. With `with_events`, also draws
    /// the stderr of the server.
    pub fn new(filter: &'a Filter, with_events: bool) -> Self {
        let timeline = Timeline::default();
        Self { filter, with_events, timeline, places: HashMap::new(), sessions: HashMap::new() }
    }

    /// Ends the diagram.
    pub fn finish(self) -> Diagram {
        Diagram::of(self.timeline())
    }

    fn timeline(self) -> Timeline {
        let mut timeline = self.timeline;
        if self.filter.unanswered {
            for op in &mut timeline.operations {
                op.wanted &= op.ending == Ending::Open;
            }
        }
        let operations = &timeline.operations;
        timeline.items.retain(|item| match &item.kind {
            ItemKind::Request { op, .. }
            | ItemKind::Response { op, .. }
            | ItemKind::Progress { op, .. }
            | ItemKind::Cancellation { op, .. }
            | ItemKind::Repeat { op, .. } => operations[*op].wanted,
            ItemKind::Notification { .. } | ItemKind::Stray { .. } | ItemKind::Event { .. } => true,
        });
        let mut tags = timeline.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Request { op, round } => Some(&operations[*op].rounds[*round].tag),
            ItemKind::Notification { tag, .. } | ItemKind::Stray { tag, .. } => Some(tag),
            _ => None,
        });
        let first = tags.next();
        timeline.many_conversations = tags.any(|tag| Some(tag) != first);
        timeline
    }

    /// Returns the name that the diagram shows for a conversation: the number of its HTTP session, or its channel.
    fn tag(&self, conversation: &str) -> String {
        match self.sessions.get(conversation) {
            Some(number) => format!("s{number}"),
            None => shown(conversation.as_bytes(), 12),
        }
    }

    /// Updates the operation of a message. Returns the operation's index, and the new item to draw, if there is one.
    fn operation_item(&mut self, tracked: &TrackedMessage<'_>, at: Moment, wanted: bool) -> Option<(usize, ItemKind)> {
        let (Relation::Request { operation, .. }
        | Relation::Response { operation, .. }
        | Relation::Progress { operation }
        | Relation::Cancellation { operation }) = tracked.relation
        else {
            if wanted {
                self.push_unrelated(tracked, at);
            }
            return None;
        };
        let tag = self.tag(&operation.conversation);
        let operations = &mut self.timeline.operations;
        if let Relation::Request { .. } = tracked.relation {
            let op = *self.places.entry(operation.number).or_insert_with(|| {
                let (asker, rounds, ending) = (operation.asker, Vec::new(), Ending::Open);
                let title = title(&operation.method, operation.name.as_deref());
                operations.push(TimelineOperation { title, asker, rounds, ending, late: false, wanted: false });
                operations.len() - 1
            });
            operations[op].rounds.push(TimelineRound { tag, asked: at, answered: None });
            operations[op].ending = if operation.is_listen() { Ending::Listening } else { Ending::Open };
            return Some((op, ItemKind::Request { op, round: operations[op].rounds.len() - 1 }));
        }
        let Some(op) = self.places.get(&operation.number).copied() else {
            self.timeline.left_out += u64::from(matches!(tracked.relation, Relation::Response { .. }));
            return None;
        };
        let drawn = &mut operations[op];
        let round = drawn.rounds.len() - 1;
        let kind = match tracked.relation {
            Relation::Response { late, .. } => {
                let ending = operation.answer().map_or(Ending::Unreadable, |answer| Ending::of(&answer.outcome));
                (drawn.ending, drawn.late) = (ending.clone(), late);
                // The response may be the first message with the session id.
                drawn.rounds[round].tag = tag;
                drawn.rounds[round].answered = Some(at);
                ItemKind::Response { op, round, ending }
            }
            Relation::Progress { .. } => {
                drawn.wanted |= wanted;
                if let Some(TimelineItem { kind: ItemKind::Progress { op: last, count, .. }, .. }) =
                    self.timeline.items.last_mut()
                    && *last == op
                {
                    *count += 1;
                    return None;
                }
                ItemKind::Progress { op, round, count: 1 }
            }
            _ => {
                drawn.ending = Ending::Cancelled;
                ItemKind::Cancellation { op, round }
            }
        };
        Some((op, kind))
    }

    fn push_unrelated(&mut self, tracked: &TrackedMessage<'_>, at: Moment) {
        let (from, tag) = (tracked.sender, self.tag(&tracked.conversation.name));
        let items = &mut self.timeline.items;
        let id = |id: &str| shown(id.as_bytes(), 20);
        let title = match tracked.message {
            Ok(Message::Notification(notification)) => {
                let title = shown(notification.method.to_name().as_bytes(), 60);
                if let Some(TimelineItem {
                    kind: ItemKind::Notification { from: sender, title: same, tag: here, count },
                    ..
                }) = items.last_mut()
                    && (*sender, &*same, &*here) == (from, &title, &tag)
                {
                    *count += 1;
                    return;
                }
                items.push(TimelineItem { at, kind: ItemKind::Notification { from, title, tag, count: 1 } });
                return;
            }
            Ok(Message::Response(response)) if matches!(tracked.relation, Relation::Duplicate) => {
                format!("second response to id {}", id(response.id.as_str()))
            }
            Ok(Message::Response(response)) => {
                format!("response without request, id {}", id(response.id.as_str()))
            }
            Ok(Message::OrphanError(error)) => {
                format!("error {} {}", error.code, shown(error.message.to_name().as_bytes(), 40))
            }
            Ok(Message::Request(request)) => shown(request.method.to_name().as_bytes(), 60),
            Err(invalid) => format!("invalid: {}", invalid.rule.name()),
        };
        items.push(TimelineItem { at, kind: ItemKind::Stray { from, title, tag } });
    }
}

/// The maximum number of items in a timeline: more than a picture can show, and only a few megabytes.
const MAX_ITEMS: usize = 20_000;
