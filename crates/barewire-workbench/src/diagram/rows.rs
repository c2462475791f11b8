//! A timeline -> rows between two lifelines: one arrow per message.

use std::time::Duration;

use barewire_proto::mcp::Side;

use super::timeline::{Ending, ItemKind, Timeline, TimelineItem, TimelineOperation};
use crate::text::took;

pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// The operations as spans, ordered by their first row.
    pub(super) spans: Vec<Span>,
    /// The maximum number of brackets next to each other.
    pub(super) lanes: usize,
    pub(super) many_conversations: bool,
}

pub(super) struct Row {
    pub(super) time: Option<Duration>,
    pub(super) content: RowContent,
}

pub(super) enum RowContent {
    /// A message.
    Arrow(Arrow),
    /// Text across both lifelines.
    Note { text: String, bad: bool },
    /// The length of a pause before the next row.
    Pause(Duration),
}

pub(super) struct Arrow {
    pub(super) from: Side,
    pub(super) label: String,
    pub(super) kind: ArrowKind,
    pub(super) latency: String,
    /// The name of the conversation; empty if the previous arrow belongs to the same conversation.
    pub(super) tag: String,
    conversation: String,
    /// The index of the span that the arrow is part of, and its position in that span.
    pub(super) span: Option<(usize, SpanPosition)>,
}

/// The kind of an arrow. Kinds can be told apart without colour.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ArrowKind {
    Request,
    Response,
    /// An error, a result with `isError`, or an invalid response.
    Failure,
    Notification,
    /// A message that is not expected, such as a response without a request.
    Stray,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum SpanPosition {
    First,
    Inner,
    Last,
}

/// An operation from its first request to its last response, drawn as a bar on the lifeline of the side that handles
/// it.
pub(super) struct Span {
    pub(super) on: Side,
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) last_arrow: usize,
    pub(super) rounds: usize,
    pub(super) total: Option<Duration>,
    pub(super) end: SpanEnd,
    /// The column of the bar: the number of other bars between this bar and the lifeline.
    pub(super) slot: usize,
    /// The column of the bracket around the rounds, if there is more than one round.
    pub(super) lane: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum SpanEnd {
    Answered,
    /// There was no response, or the operation was cancelled.
    Never,
    /// A listen request, which is meant to stay open.
    Listening,
}

impl Span {
    pub(super) fn is_open(&self) -> bool {
        self.end != SpanEnd::Answered
    }

    /// Whether the operation has more than one round, and so gets a bracket around its rounds.
    pub(super) fn has_bracket(&self) -> bool {
        self.rounds > 1
    }

    pub(super) fn bracket_label(&self) -> String {
        let total = self.total.map_or(String::new(), |total| format!(", {}", took(total)));
        format!("{} rounds{total}", self.rounds)
    }
}

impl Arrow {
    fn new(from: Side, kind: ArrowKind, label: String, conversation: &str) -> Self {
        let conversation = conversation.to_owned();
        Self { from, label, kind, latency: String::new(), tag: String::new(), conversation, span: None }
    }
}

impl RowContent {
    pub(super) fn arrow(&self) -> Option<&Arrow> {
        if let Self::Arrow(arrow) = self { Some(arrow) } else { None }
    }
}

impl Rows {
    pub(super) fn of(timeline: &Timeline) -> Self {
        let span_of = vec![None; timeline.operations.len()];
        let mut builder = RowBuilder { timeline, rows: Vec::new(), spans: Vec::new(), span_of };
        for item in &timeline.items {
            builder.item(item);
        }
        builder.finish()
    }
}

struct RowBuilder<'a> {
    timeline: &'a Timeline,
    rows: Vec<Row>,
    spans: Vec<Span>,
    span_of: Vec<Option<usize>>,
}

impl RowBuilder<'_> {
    fn item(&mut self, item: &TimelineItem) {
        if let (Some(time), Some(before)) = (item.at.time, self.rows.last().and_then(|row| row.time))
            && time.saturating_sub(before) >= MIN_PAUSE
        {
            self.push(None, RowContent::Pause(time.saturating_sub(before)));
        }
        if let (Some(time), Some(before)) = (item.at.time, self.rows.iter().rev().find_map(|row| row.time))
            && time < before
        {
            let text = format!("the time goes back by {}", took(before.saturating_sub(time)));
            self.push(None, RowContent::Note { text, bad: true });
        }
        let time = item.at.time;
        match &item.kind {
            ItemKind::Request { op, round } => {
                let operation = &self.timeline.operations[*op];
                let (label, span) = if *round == 0 {
                    (operation.title.clone(), Some((self.begin_span(operation, *op), SpanPosition::First)))
                } else {
                    (format!("{}, round {}", operation.title, round + 1), self.in_span(*op, SpanPosition::Inner))
                };
                let tag = &operation.rounds[*round].tag;
                self.push_arrow(time, Arrow { span, ..Arrow::new(operation.asker, ArrowKind::Request, label, tag) });
            }
            ItemKind::Response { op, round, ending } => self.response(time, *op, *round, ending),
            ItemKind::Progress { op, round, count } => {
                let operation = &self.timeline.operations[*op];
                let label = if *count == 1 { "progress".to_owned() } else { format!("{count} progress") };
                let label = format!("{label}{}", self.of_operation(*op));
                let (from, span) = (operation.asker.other(), self.in_span(*op, SpanPosition::Inner));
                let tag = &operation.rounds[*round].tag;
                self.push_arrow(time, Arrow { span, ..Arrow::new(from, ArrowKind::Notification, label, tag) });
            }
            ItemKind::Cancellation { op, round } => {
                let operation = &self.timeline.operations[*op];
                let label = format!("cancels {}", operation.title);
                let (tag, span) = (&operation.rounds[*round].tag, self.in_span(*op, SpanPosition::Inner));
                self.push_arrow(
                    time,
                    Arrow { span, ..Arrow::new(operation.asker, ArrowKind::Notification, label, tag) },
                );
            }
            ItemKind::Notification { from, title, tag, count } => {
                let label = if *count == 1 { title.clone() } else { format!("{title}, {count} times") };
                self.push_arrow(time, Arrow::new(*from, ArrowKind::Notification, label, tag));
            }
            ItemKind::Stray { from, title, tag } => {
                self.push_arrow(time, Arrow::new(*from, ArrowKind::Stray, title.clone(), tag));
            }
            ItemKind::Event { text, bad } => self.push(time, RowContent::Note { text: text.clone(), bad: *bad }),
            ItemKind::Repeat { op, count, latency, until } => {
                let operation = &self.timeline.operations[*op];
                let tag = &operation.rounds[0].tag;
                let span = self.begin_span(operation, *op);
                let (label, first) = (format!("{}, {count} times", operation.title), Some((span, SpanPosition::First)));
                self.push_arrow(
                    time,
                    Arrow { span: first, ..Arrow::new(operation.asker, ArrowKind::Request, label, tag) },
                );
                let label = format!("{}, {count} times", operation.ending.words());
                let (from, last) = (operation.asker.other(), Some((span, SpanPosition::Last)));
                let arrow = Arrow::new(from, response_kind(&operation.ending), label, tag);
                self.push_arrow(until.time, Arrow { span: last, latency: latency.clone(), ..arrow });
            }
        }
    }

    fn push(&mut self, time: Option<Duration>, content: RowContent) {
        self.rows.push(Row { time, content });
    }

    fn push_arrow(&mut self, time: Option<Duration>, mut arrow: Arrow) {
        let is_same = self.last_arrow().is_some_and(|last| last.conversation == arrow.conversation);
        if self.timeline.many_conversations && !is_same {
            arrow.tag.clone_from(&arrow.conversation);
        }
        self.push(time, RowContent::Arrow(arrow));
    }

    fn last_arrow(&self) -> Option<&Arrow> {
        self.rows.iter().rev().find_map(|row| row.content.arrow())
    }

    fn begin_span(&mut self, operation: &TimelineOperation, op: usize) -> usize {
        let at = self.rows.len();
        let end = match operation.ending {
            Ending::Open | Ending::Cancelled => SpanEnd::Never,
            Ending::Listening => SpanEnd::Listening,
            _ => SpanEnd::Answered,
        };
        let (on, rounds, total) = (operation.asker.other(), operation.rounds.len(), operation.total());
        self.spans.push(Span { on, first: at, last: at, last_arrow: at, rounds, total, end, slot: 0, lane: 0 });
        self.span_of[op] = Some(self.spans.len() - 1);
        self.spans.len() - 1
    }

    fn response(&mut self, time: Option<Duration>, op: usize, round: usize, ending: &Ending) {
        let operation = &self.timeline.operations[op];
        let is_last = round + 1 == operation.rounds.len();
        let late = if operation.late && is_last { "late " } else { "" };
        let of = self.of_operation(op);
        let label = match ending {
            Ending::Error(error) if !of.is_empty() => format!("{late}error{of}: {error}"),
            ending => format!("{late}{}{of}", ending.words()),
        };
        let (latency, tag) =
            (operation.rounds[round].latency().map_or(String::new(), took), &operation.rounds[round].tag);
        let span = self.in_span(op, if is_last { SpanPosition::Last } else { SpanPosition::Inner });
        let arrow = Arrow::new(operation.asker.other(), response_kind(ending), label, tag);
        self.push_arrow(time, Arrow { span, latency, ..arrow });
    }

    /// Returns " of " and the title of an operation; empty if the previous arrow belongs to the same operation.
    fn of_operation(&self, op: usize) -> String {
        let before = self.last_arrow().and_then(|arrow| arrow.span);
        let is_same = before.is_some_and(|(span, _)| self.span_of[op] == Some(span));
        if is_same { String::new() } else { format!(" of {}", self.timeline.operations[op].title) }
    }

    fn in_span(&self, op: usize, position: SpanPosition) -> Option<(usize, SpanPosition)> {
        self.span_of[op].map(|span| (span, position))
    }

    /// Adds a note for each operation without a response, and ends all spans.
    fn finish(mut self) -> Rows {
        for (op, operation) in self.timeline.operations.iter().enumerate() {
            if operation.ending == Ending::Open
                && let (Some(_), Some(round)) = (self.span_of[op], operation.rounds.last())
            {
                // The title is cut, so that the frame number after it stays visible in a narrow diagram.
                let mut title: String = operation.title.chars().take(MAX_TITLE).collect();
                if title.len() < operation.title.len() {
                    title.push('…');
                }
                let text = format!("no response to {title} (frame {})", round.asked.frame);
                self.push(None, RowContent::Note { text, bad: true });
            }
        }
        let Self { timeline, rows, mut spans, .. } = self;
        for (index, row) in rows.iter().enumerate() {
            if let Some((span, _)) = row.content.arrow().and_then(|arrow| arrow.span) {
                (spans[span].last, spans[span].last_arrow) = (index, index);
            }
        }
        for span in spans.iter_mut().filter(|span| span.is_open()) {
            span.last = rows.len().saturating_sub(1).max(span.first);
        }
        let lanes = assign_columns(&mut spans);
        Rows { rows, spans, lanes, many_conversations: timeline.many_conversations }
    }
}

fn response_kind(ending: &Ending) -> ArrowKind {
    if ending.is_bad() { ArrowKind::Failure } else { ArrowKind::Response }
}

/// Assigns columns so that bars that overlap on the same lifeline, and overlapping brackets, are next to each other.
/// Returns the number of bracket columns.
fn assign_columns(spans: &mut [Span]) -> usize {
    let mut lanes = 0;
    for at in 0..spans.len() {
        let (before, rest) = spans.split_at_mut(at);
        let span = &mut rest[0];
        let beside = || before.iter().filter(|other| other.last >= span.first);
        let taken = |slot: usize| beside().any(|other| other.on == span.on && other.slot == slot);
        let slot = (0..MAX_SLOTS).find(|slot| !taken(*slot)).unwrap_or(MAX_SLOTS - 1);
        let taken = |lane: usize| beside().any(|other| other.has_bracket() && other.lane == lane);
        let lane = (0..lanes).find(|lane| !taken(*lane)).unwrap_or(lanes);
        if span.has_bracket() {
            lanes = lanes.max(lane + 1);
            span.lane = lane;
        }
        span.slot = slot;
    }
    lanes
}

const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of bars next to each other on a lifeline.
pub(super) const MAX_SLOTS: usize = 5;
/// The maximum number of characters of a title in a note: half of the width between the lifelines.
const MAX_TITLE: usize = 32;
