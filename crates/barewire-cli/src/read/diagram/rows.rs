//! A story -> rows between two lifelines: an arrow a message.

use std::time::Duration;

use barewire_proto::mcp::Side;

use super::story::{Ending, Item, Op, Story, What};
use crate::output::took;

pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// The operations as spans, by their first row.
    pub(super) spans: Vec<Span>,
    /// How many brackets stand beside each other where they are most.
    pub(super) lanes: usize,
    pub(super) several: bool,
}

pub(super) struct Row {
    pub(super) time: Option<Duration>,
    pub(super) what: Drawn,
}

pub(super) enum Drawn {
    Arrow(Arrow),
    /// Across both lifelines.
    Said {
        text: String,
        bad: bool,
    },
    /// Nothing happened for so long.
    Later(Duration),
}

pub(super) struct Arrow {
    pub(super) from: Side,
    pub(super) label: String,
    pub(super) head: Head,
    /// How long it took.
    pub(super) aside: String,
    /// The conversation, where another one than before goes on and it must be said.
    pub(super) tag: String,
    conversation: String,
    /// The span that it is part of, and what it is to it.
    pub(super) span: Option<(usize, Part)>,
}

/// What an arrow means; each is drawn differently, also without colour.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Head {
    Ask,
    Answer,
    /// An answer that says no.
    Failure,
    Note,
    /// What should not be there.
    Odd,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    Begins,
    Within,
    Ends,
}

/// An operation from its first request to its last answer: a bar on the lifeline of whoever was asked.
pub(super) struct Span {
    pub(super) on: Side,
    pub(super) first: usize,
    pub(super) last: usize,
    /// The row of its last arrow.
    pub(super) last_arrow: usize,
    pub(super) rounds: usize,
    pub(super) total: Option<Duration>,
    pub(super) end: End,
    /// How many other spans lie below it on the lifeline.
    pub(super) slot: usize,
    /// How many brackets of others stand before its own, if it has several rounds.
    pub(super) lane: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum End {
    Answered,
    /// Nobody answered, or nobody waited for it.
    Never,
    /// It stays open, as it should.
    Listening,
}

impl Span {
    pub(super) fn is_open(&self) -> bool {
        self.end != End::Answered
    }

    /// Whether a bracket holds its rounds together.
    pub(super) fn has_bracket(&self) -> bool {
        self.rounds > 1
    }

    /// What is said beside the bracket.
    pub(super) fn told(&self) -> String {
        let total = self.total.map_or(String::new(), |total| format!(", {}", took(total)));
        format!("{} rounds{total}", self.rounds)
    }
}

impl Rows {
    pub(super) fn of(story: &Story) -> Self {
        let mut drawing =
            Drawing { story, rows: Vec::new(), spans: Vec::new(), of: vec![None; story.operations.len()] };
        for item in &story.items {
            drawing.item(item);
        }
        drawing.end();
        let Drawing { rows, mut spans, .. } = drawing;
        let lanes = lay(&mut spans);
        Self { rows, spans, lanes, several: story.several }
    }
}

struct Drawing<'a> {
    story: &'a Story,
    rows: Vec<Row>,
    spans: Vec<Span>,
    /// The span of each operation.
    of: Vec<Option<usize>>,
}

impl Drawing<'_> {
    fn item(&mut self, item: &Item) {
        if let (Some(time), Some(before)) = (item.at.time, self.rows.last().and_then(|row| row.time))
            && time.saturating_sub(before) >= LONG
        {
            self.rows.push(Row { time: None, what: Drawn::Later(time.saturating_sub(before)) });
        }
        if let (Some(time), Some(before)) = (item.at.time, self.rows.iter().rev().find_map(|row| row.time))
            && time < before
        {
            let text = format!("the time goes back by {}", took(before.saturating_sub(time)));
            self.rows.push(Row { time: None, what: Drawn::Said { text, bad: true } });
        }
        let what = match &item.what {
            What::Ask { op, leg } => self.ask(*op, *leg),
            What::Answer { op, leg, ending } => self.answer(*op, *leg, ending),
            What::Progress { op, leg, count } => {
                let one = &self.story.operations[*op];
                let label = if *count == 1 { "progress".to_owned() } else { format!("{count} progress") };
                let label = format!("{label}{}", self.of_what(*op));
                self.arrow(
                    one.asker.other(),
                    label,
                    Head::Note,
                    String::new(),
                    &one.legs[*leg].tag,
                    self.part(*op, Part::Within),
                )
            }
            What::Cancel { op, leg } => {
                let one = &self.story.operations[*op];
                let label = format!("cancels {}", one.title);
                self.arrow(
                    one.asker,
                    label,
                    Head::Note,
                    String::new(),
                    &one.legs[*leg].tag,
                    self.part(*op, Part::Within),
                )
            }
            What::Note { from, title, tag, count } => {
                let label = if *count == 1 { title.clone() } else { format!("{title}, {count} times") };
                self.arrow(*from, label, Head::Note, String::new(), tag, None)
            }
            What::Odd { from, title, tag } => self.arrow(*from, title.clone(), Head::Odd, String::new(), tag, None),
            What::Happened { text, bad } => Drawn::Said { text: text.clone(), bad: *bad },
            What::Repeat { op, count, least, most, until } => {
                let one = &self.story.operations[*op];
                let span = self.begin(one, *op);
                let label = format!("{}, {count} times", one.title);
                let ask = self.arrow(
                    one.asker,
                    label,
                    Head::Ask,
                    String::new(),
                    &one.legs[0].tag,
                    Some((span, Part::Begins)),
                );
                self.rows.push(Row { time: item.at.time, what: ask });
                self.spans[span].last = self.rows.len();
                let each = match (least, most) {
                    (Some(least), Some(most)) => format!("{} to {}", took(*least), took(*most)),
                    _ => String::new(),
                };
                let head = if one.ending.is_bad() { Head::Failure } else { Head::Answer };
                let label = format!("{}, {count} times", one.ending.words());
                let (part, tag) = (Some((span, Part::Ends)), &one.legs[0].tag);
                let answer = self.arrow(one.asker.other(), label, head, each, tag, part);
                self.rows.push(Row { time: until.time, what: answer });
                return;
            }
        };
        self.rows.push(Row { time: item.at.time, what });
    }

    fn arrow(
        &self,
        from: Side,
        label: String,
        head: Head,
        aside: String,
        tag: &str,
        span: Option<(usize, Part)>,
    ) -> Drawn {
        let before = self.rows.iter().rev().find_map(|row| match &row.what {
            Drawn::Arrow(arrow) => Some(arrow.conversation.as_str()),
            Drawn::Said { .. } | Drawn::Later(_) => None,
        });
        let is_news = self.story.several && before != Some(tag);
        let conversation = tag.to_owned();
        let tag = if is_news { conversation.clone() } else { String::new() };
        Drawn::Arrow(Arrow { from, label, head, aside, tag, conversation, span })
    }

    fn begin(&mut self, one: &Op, op: usize) -> usize {
        let at = self.rows.len();
        let end = match one.ending {
            Ending::Open | Ending::Cancelled => End::Never,
            Ending::Listening => End::Listening,
            _ => End::Answered,
        };
        self.spans.push(Span {
            on: one.asker.other(),
            first: at,
            last: at,
            last_arrow: at,
            rounds: one.legs.len(),
            total: one.total(),
            end,
            slot: 0,
            lane: 0,
        });
        self.of[op] = Some(self.spans.len() - 1);
        self.spans.len() - 1
    }

    fn ask(&mut self, op: usize, leg: usize) -> Drawn {
        let one = &self.story.operations[op];
        let (label, span) = if leg == 0 {
            (one.title.clone(), Some((self.begin(one, op), Part::Begins)))
        } else {
            (format!("{}, round {}", one.title, leg + 1), self.part(op, Part::Within))
        };
        self.arrow(one.asker, label, Head::Ask, String::new(), &one.legs[leg].tag, span)
    }

    fn answer(&mut self, op: usize, leg: usize, ending: &Ending) -> Drawn {
        let one = &self.story.operations[op];
        let is_last = leg + 1 == one.legs.len();
        let late = if one.late && is_last { "late " } else { "" };
        let of = self.of_what(op);
        let label = match ending {
            Ending::Error(error) if !of.is_empty() => format!("{late}error{of}: {error}"),
            ending => format!("{late}{}{of}", ending.words()),
        };
        let aside = one.legs[leg].latency().map_or(String::new(), took);
        let head = if ending.is_bad() { Head::Failure } else { Head::Answer };
        let span = self.part(op, if is_last { Part::Ends } else { Part::Within });
        self.arrow(one.asker.other(), label, head, aside, &one.legs[leg].tag, span)
    }

    /// Says of what, unless the arrow before is of the same operation.
    fn of_what(&self, op: usize) -> String {
        let before = self.rows.iter().rev().find_map(|row| match &row.what {
            Drawn::Arrow(arrow) => Some(arrow.span),
            Drawn::Said { .. } | Drawn::Later(_) => None,
        });
        let is_same = before.flatten().is_some_and(|(span, _)| self.of[op] == Some(span));
        if is_same { String::new() } else { format!(" of {}", self.story.operations[op].title) }
    }

    /// What the next row is to the operation.
    fn part(&self, op: usize, part: Part) -> Option<(usize, Part)> {
        self.of[op].map(|span| (span, part))
    }

    /// Says who was never answered, and ends all spans.
    fn end(&mut self) {
        for (op, one) in self.story.operations.iter().enumerate() {
            if one.ending == Ending::Open
                && let (Some(_), Some(leg)) = (self.of[op], one.legs.last())
            {
                // Cut here, so that the frame stays where there is little room.
                let mut title: String = one.title.chars().take(MOST_TITLE).collect();
                if title.len() < one.title.len() {
                    title.push('…');
                }
                let text = format!("no answer to {title} (frame {})", leg.asked.frame);
                self.rows.push(Row { time: None, what: Drawn::Said { text, bad: true } });
            }
        }
        let end = self.rows.len();
        for (index, row) in self.rows.iter().enumerate() {
            if let Drawn::Arrow(Arrow { span: Some((span, _)), .. }) = row.what {
                (self.spans[span].last, self.spans[span].last_arrow) = (index, index);
            }
        }
        for span in self.spans.iter_mut().filter(|span| span.is_open()) {
            span.last = end.saturating_sub(1).max(span.first);
        }
    }
}

/// Puts spans that overlap on one lifeline beside each other, and so their brackets; says how many of these.
fn lay(spans: &mut [Span]) -> usize {
    let mut lanes = 0;
    for at in 0..spans.len() {
        let (before, rest) = spans.split_at_mut(at);
        let span = &mut rest[0];
        let beside = || before.iter().filter(|other| other.last >= span.first);
        let taken = |slot: usize| beside().any(|other| other.on == span.on && other.slot == slot);
        let slot = (0..MOST_SLOTS).find(|slot| !taken(*slot)).unwrap_or(MOST_SLOTS - 1);
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

/// A pause that is worth a row.
const LONG: Duration = Duration::from_secs(1);
/// As many bars as there is room for beside a lifeline.
pub(super) const MOST_SLOTS: usize = 5;

/// Half of what is between two lifelines.
const MOST_TITLE: usize = 32;
