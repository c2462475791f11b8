//! What goes over a wire -> what happened, in order, as far as it is drawn.

use std::collections::HashMap;
use std::time::Duration;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Message;
use barewire_proto::transcript::{Note, Stream};

use crate::Failure;
use crate::output::shown;
use crate::read::direction::Directions;
use crate::read::event::status;
use crate::read::filter::Filter;
use crate::read::link::title;
use barewire_workbench::frames::{Sink, WireItem};
use barewire_workbench::operations::{Operation, OperationTracker, Relation, ResponseOutcome, TrackedMessage};

/// All that is drawn. Everything in it is safe to look at.
#[derive(Default)]
pub(super) struct Story {
    pub(super) operations: Vec<Op>,
    pub(super) items: Vec<Item>,
    /// Messages that there was no room for.
    pub(super) left_out: u64,
    /// There is more than one conversation, so that it must be said which one is meant.
    pub(super) several: bool,
}

/// An operation.
pub(super) struct Op {
    pub(super) title: String,
    pub(super) asker: Side,
    pub(super) legs: Vec<Leg>,
    pub(super) ending: Ending,
    pub(super) late: bool,
    pub(super) progress: u64,
    wanted: bool,
}

/// One round.
pub(super) struct Leg {
    /// The conversation. Without a session every round over HTTP is one of its own.
    pub(super) tag: String,
    pub(super) asked: Point,
    pub(super) answered: Option<Point>,
}

#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) frame: u64,
    pub(super) time: Option<Duration>,
}

/// How an operation or one of its rounds ended.
#[derive(Clone, PartialEq)]
pub(super) enum Ending {
    /// It did not.
    Open,
    /// It stays open as long as somebody listens.
    Listening,
    Cancelled,
    Result,
    InputRequired,
    ToolFailed,
    Error(String),
    Unreadable,
}

pub(super) struct Item {
    pub(super) at: Point,
    pub(super) what: What,
}

pub(super) enum What {
    Ask {
        op: usize,
        leg: usize,
    },
    Answer {
        op: usize,
        leg: usize,
        ending: Ending,
    },
    Progress {
        op: usize,
        leg: usize,
        count: u64,
    },
    Cancel {
        op: usize,
        leg: usize,
    },
    /// A notification about nothing else.
    Note {
        from: Side,
        title: String,
        tag: String,
        count: u64,
    },
    /// What belongs to nothing: no message, an answer to nobody.
    Odd {
        from: Side,
        title: String,
        tag: String,
    },
    /// What is no message.
    Happened {
        text: String,
        bad: bool,
    },
    /// The same operation several times, one after the other: from the first request to the last answer.
    Repeat {
        op: usize,
        count: u64,
        least: Option<Duration>,
        most: Option<Duration>,
        until: Point,
    },
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
        }
    }

    pub(super) fn is_bad(&self) -> bool {
        matches!(self, Self::ToolFailed | Self::Error(_) | Self::Unreadable | Self::Open)
    }

    /// Where there is little room.
    pub(super) fn short(&self) -> String {
        match self {
            Self::ToolFailed => "isError".into(),
            Self::Error(error) => error.clone(),
            Self::Unreadable => "no message".into(),
            other => other.words(),
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Open => "no answer".into(),
            Self::Listening => "listening".into(),
            Self::Cancelled => "cancelled".into(),
            Self::Result => "result".into(),
            Self::InputRequired => "input required".into(),
            Self::ToolFailed => "failed (isError)".into(),
            Self::Error(error) => format!("error {error}"),
            Self::Unreadable => "an answer that is no message".into(),
        }
    }
}

impl Leg {
    pub(super) fn latency(&self) -> Option<Duration> {
        Some(self.answered?.time?.saturating_sub(self.asked.time?))
    }
}

impl Op {
    /// What was waited for answers.
    pub(super) fn waited(&self) -> Option<Duration> {
        self.legs.iter().filter_map(Leg::latency).reduce(Duration::saturating_add)
    }

    /// From the first request to the last answer.
    pub(super) fn total(&self) -> Option<Duration> {
        let last = self.legs.last()?.answered?.time?;
        Some(last.saturating_sub(self.legs.first()?.asked.time?))
    }
}

impl Story {
    /// How many rows it takes to draw every message.
    pub(super) fn height(&self) -> usize {
        let rows = self.items.iter().map(|item| if let What::Repeat { .. } = item.what { 2 } else { 1 });
        rows.sum()
    }

    /// Makes one of the same operation over and over.
    pub(super) fn gather(&mut self) {
        let mut items = Vec::new();
        let mut rest = std::mem::take(&mut self.items).into_iter().peekable();
        // The operations of a run so far, and their items in case that there are too few.
        let mut run: Vec<usize> = Vec::new();
        let mut kept: Vec<Item> = Vec::new();
        while let Some(item) = rest.next() {
            let op = match &item.what {
                What::Ask { op, .. } if self.operations[*op].legs.len() == 1 => Some(*op),
                _ => None,
            };
            let mut piece = vec![item];
            let mut whole = None;
            while let (Some(op), None, Some(next)) = (op, whole, rest.peek()) {
                match &next.what {
                    What::Progress { op: same, .. } if *same == op => {}
                    What::Answer { op: same, .. } if *same == op => whole = Some(op),
                    _ => break,
                }
                piece.extend(rest.next());
            }
            let fits = whole.is_some_and(|op| run.first().is_none_or(|first| self.same(*first, op)));
            if !fits {
                self.end_run(&mut run, &mut kept, &mut items);
            }
            match whole {
                Some(op) => {
                    run.push(op);
                    kept.extend(piece);
                }
                None => items.extend(piece),
            }
        }
        self.end_run(&mut run, &mut kept, &mut items);
        self.items = items;
    }

    fn same(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.operations[one], &self.operations[other]);
        let what = |op: &Op| (op.asker, op.late, op.legs.len());
        what(one) == what(other)
            && one.title == other.title
            && one.legs[0].tag == other.legs[0].tag
            && one.ending == other.ending
    }

    fn end_run(&self, run: &mut Vec<usize>, kept: &mut Vec<Item>, items: &mut Vec<Item>) {
        let run = std::mem::take(run);
        let kept = std::mem::take(kept);
        let (Some(first), Some(last), true) = (kept.first(), kept.last(), run.len() >= LEAST_RUN) else {
            items.extend(kept);
            return;
        };
        let latencies = || run.iter().filter_map(|op| self.operations[*op].legs[0].latency());
        let (least, most, count) = (latencies().min(), latencies().max(), run.len() as u64);
        let what = What::Repeat { op: run[0], count, least, most, until: last.at };
        items.push(Item { at: first.at, what });
    }
}

/// Fewer are not worth it.
const LEAST_RUN: usize = 3;

/// Writes the story while the wire is read.
pub(super) struct Teller<'a> {
    filter: &'a Filter,
    events: bool,
    watch: OperationTracker,
    directions: Directions,
    story: Story,
    known: Known,
}

/// What was met so far.
#[derive(Default)]
struct Known {
    /// Where each operation stands.
    operations: HashMap<u64, usize>,
    /// The sessions over HTTP by their ids, each with a number.
    sessions: HashMap<String, usize>,
}

impl Known {
    /// Sessions have ids that nobody can tell apart, so they are numbered. All else is named after its channel.
    fn look(&mut self, watched: &TrackedMessage<'_>) {
        let conversation = watched.conversation;
        let is_channel = watched.frame.place.is_some_and(|place| place.channel == conversation.name);
        if conversation.over_http && !is_channel && !self.sessions.contains_key(&conversation.name) {
            self.sessions.insert(conversation.name.clone(), self.sessions.len() + 1);
        }
    }

    /// What a conversation is called in the picture.
    fn tag(&self, conversation: &str) -> String {
        match self.sessions.get(conversation) {
            Some(number) => format!("s{number}"),
            None => shown(conversation.as_bytes(), 12),
        }
    }
}

impl Sink for Teller<'_> {
    fn take(&mut self, sight: &WireItem<'_>) -> Result<bool, Failure> {
        let placed;
        let sight = match sight {
            WireItem::Frame(seen) if seen.place.is_none() => {
                crate::read::refuse_without_places(self.filter)?;
                placed = self.directions.guess(seen);
                &WireItem::Frame(&placed)
            }
            sight => sight,
        };
        let Self { filter, watch, story, known, .. } = self;
        watch.take(sight, &mut |watched| message(story, known, filter, watched));
        self.happened(sight);
        Ok(true)
    }
}

impl<'a> Teller<'a> {
    pub(super) fn new(filter: &'a Filter, events: bool) -> Self {
        Self {
            filter,
            events,
            watch: OperationTracker::new(),
            directions: Directions::default(),
            story: Story::default(),
            known: Known::default(),
        }
    }

    pub(super) fn finish(self) -> Story {
        let Self { filter, mut story, .. } = self;
        if filter.wants_unanswered() {
            for op in &mut story.operations {
                op.wanted &= op.ending == Ending::Open;
            }
        }
        let operations = &story.operations;
        story.items.retain(|item| match &item.what {
            What::Ask { op, .. }
            | What::Answer { op, .. }
            | What::Progress { op, .. }
            | What::Cancel { op, .. }
            | What::Repeat { op, .. } => operations[*op].wanted,
            What::Note { .. } | What::Odd { .. } | What::Happened { .. } => true,
        });
        let mut tags = story.items.iter().filter_map(|item| match &item.what {
            What::Ask { op, leg } => Some(&story.operations[*op].legs[*leg].tag),
            What::Note { tag, .. } | What::Odd { tag, .. } => Some(tag),
            _ => None,
        });
        let first = tags.next();
        story.several = tags.any(|tag| Some(tag) != first);
        story
    }

    fn happened(&mut self, sight: &WireItem<'_>) {
        let (time, text, bad, stream, raw): (_, _, _, _, &[u8]) = match sight {
            WireItem::Stderr(bytes) if self.events => {
                let text = format!("stderr: {}", shown(&bytes.payload, 60));
                (bytes.marks.time, text, false, Stream::Stderr, &bytes.payload)
            }
            WireItem::Event(event) => match &event.note {
                Note::ExitCode(code) => {
                    (event.marks.time, format!("exit code {code}"), *code != 0, Stream::Stderr, b"")
                }
                Note::ExitSignal(signal) => {
                    (event.marks.time, format!("ended by signal {signal}"), true, Stream::Stderr, b"")
                }
                Note::Head(Stream::ToClient, line) if status(line).is_some_and(|status| status >= 400) => {
                    let channel = event.channel.as_str();
                    let text = format!("{} {channel}", shown(line, 60)).trim_end().to_owned();
                    (event.marks.time, text, true, Stream::ToClient, line)
                }
                _ => return,
            },
            _ => return,
        };
        if self.story.items.len() < MOST_ITEMS && self.filter.wants_event(Some(stream), raw, bad) {
            let at = Point { frame: 0, time };
            self.story.items.push(Item { at, what: What::Happened { text, bad } });
        }
    }
}

fn message(story: &mut Story, known: &mut Known, filter: &Filter, watched: &TrackedMessage<'_>) {
    known.look(watched);
    let at = Point { frame: watched.frame.number, time: watched.frame.place.and_then(|place| place.time) };
    let wanted = !filter.is_set() || filter.wants(watched);
    let is_full = story.items.len() >= MOST_ITEMS;
    // What is drawn is also drawn to its end.
    if is_full && !matches!(watched.relation, Relation::Response { .. } | Relation::Cancellation { .. }) {
        story.left_out += 1;
        return;
    }
    let (operation, what) = match watched.relation {
        Relation::Request { operation, .. } => {
            let tag = known.tag(&operation.conversation);
            let op = *known.operations.entry(operation.number).or_insert_with(|| {
                story.operations.push(begin(operation));
                story.operations.len() - 1
            });
            story.operations[op].legs.push(Leg { tag, asked: at, answered: None });
            story.operations[op].ending = if operation.is_listen() { Ending::Listening } else { Ending::Open };
            (op, What::Ask { op, leg: story.operations[op].legs.len() - 1 })
        }
        Relation::Response { operation, late, .. } => {
            let Some(op) = known.operations.get(&operation.number).copied() else {
                story.left_out += 1;
                return;
            };
            let ending = operation.answer().map_or(Ending::Unreadable, |answer| Ending::of(&answer.outcome));
            let one = &mut story.operations[op];
            one.ending = ending.clone();
            one.late = late;
            let leg = one.legs.len() - 1;
            // Its session may have been named only by the answer.
            one.legs[leg].tag = known.tag(&operation.conversation);
            one.legs[leg].answered = Some(at);
            (op, What::Answer { op, leg, ending })
        }
        Relation::Progress { operation } => {
            let Some(op) = known.operations.get(&operation.number).copied() else { return };
            story.operations[op].progress += 1;
            story.operations[op].wanted |= wanted;
            if let Some(Item { what: What::Progress { op: last, count, .. }, .. }) = story.items.last_mut()
                && *last == op
            {
                *count += 1;
                return;
            }
            (op, What::Progress { op, leg: story.operations[op].legs.len() - 1, count: 1 })
        }
        Relation::Cancellation { operation } => {
            let Some(op) = known.operations.get(&operation.number).copied() else { return };
            story.operations[op].ending = Ending::Cancelled;
            (op, What::Cancel { op, leg: story.operations[op].legs.len() - 1 })
        }
        Relation::None | Relation::RefusesUnidentified | Relation::Duplicate | Relation::Unsolicited => {
            if wanted {
                let tag = known.tag(&watched.conversation.name);
                alone(story, watched, at, tag);
            }
            return;
        }
    };
    story.operations[operation].wanted |= wanted;
    if is_full {
        story.left_out += 1;
    } else {
        story.items.push(Item { at, what });
    }
}

fn begin(operation: &Operation) -> Op {
    Op {
        title: title(&operation.method, operation.name.as_deref()),
        asker: operation.asker,
        legs: Vec::new(),
        ending: Ending::Open,
        late: false,
        progress: 0,
        wanted: false,
    }
}

/// What is part of no operation.
fn alone(story: &mut Story, watched: &TrackedMessage<'_>, at: Point, tag: String) {
    let from = watched.sender;
    let id = |id: &str| shown(id.as_bytes(), 20);
    let title = match watched.message {
        Ok(Message::Notification(notification)) => {
            let title = shown(notification.method.to_name().as_bytes(), 60);
            if let Some(Item { what: What::Note { from: sender, title: same, tag: here, count }, .. }) =
                story.items.last_mut()
                && *sender == from
                && *same == title
                && *here == tag
            {
                *count += 1;
                return;
            }
            story.items.push(Item { at, what: What::Note { from, title, tag, count: 1 } });
            return;
        }
        Ok(Message::Response(response)) if matches!(watched.relation, Relation::Duplicate) => {
            format!("a second answer to id {}", id(response.id.as_str()))
        }
        Ok(Message::Response(response)) => format!("an answer to nobody, id {}", id(response.id.as_str())),
        Ok(Message::OrphanError(error)) => {
            format!("error {} {}", error.code, shown(error.message.to_name().as_bytes(), 40))
        }
        Ok(Message::Request(request)) => shown(request.method.to_name().as_bytes(), 60),
        Err(invalid) => format!("no message: {}", invalid.rule.name()),
    };
    story.items.push(Item { at, what: What::Odd { from, title, tag } });
}

/// More than a picture can show, and a few megabytes.
const MOST_ITEMS: usize = 20_000;
