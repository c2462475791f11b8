//! A story of many operations -> a bar each, in sections with a scale of time of their own.

use std::time::Duration;

use barewire_proto::mcp::Side;

use super::story::{Ending, Op, Point, Story, What};
use crate::output::took;

pub(super) struct Bars {
    pub(super) sections: Vec<Section>,
    pub(super) in_seconds: bool,
    pub(super) several: bool,
    /// Notifications are too many to draw.
    pub(super) notifications: u64,
    /// How often something is earlier than what stands before it.
    pub(super) goes_back: usize,
}

/// So many that they share a scale on which they can be told apart.
pub(super) struct Section {
    pub(super) bars: Vec<Bar>,
    pub(super) scale: Scale,
}

/// An operation, or a point where something is odd.
pub(super) struct Bar {
    pub(super) time: Option<Duration>,
    pub(super) frame: u64,
    pub(super) label: String,
    pub(super) tag: String,
    /// The server asks.
    pub(super) reversed: bool,
    /// From and to, from 0 to 1 on the scale; one a round. What ends beyond the scale, or never, has no end.
    pub(super) legs: Vec<(f64, Option<f64>)>,
    /// How long it took, and how it ended if that is not a result.
    pub(super) told: String,
    pub(super) look: Look,
}

/// Each is drawn differently, also without colour.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Look {
    Good,
    Bad,
    /// Never answered, or given up.
    Open,
    /// Several in one.
    Several,
    /// A point.
    Odd,
}

/// Places from 0 to 1.
pub(super) struct Scale {
    /// When something was under way, and what was before that, both in the unit of the wire.
    busy: Vec<(f64, f64, f64)>,
    total: f64,
    in_seconds: bool,
    /// How often nothing was under way.
    pub(super) pauses: usize,
}

impl Bars {
    pub(super) fn of(story: &Story) -> Self {
        let in_seconds = story.items.iter().all(|item| item.at.time.is_some() || item.at.frame == 0);
        let unit = Unit { in_seconds };
        let mut bars = Vec::new();
        let mut notifications = 0;
        for item in &story.items {
            let at = unit.of(item.at);
            bars.extend(match &item.what {
                What::Ask { op, leg: 0 } => Some(operation(&story.operations[*op], unit)),
                What::Repeat { op, count, least, most, until } => {
                    let one = &story.operations[*op];
                    let mut bar = operation(one, unit);
                    bar.label = format!("{}, {count} times", one.title);
                    bar.legs = vec![(at, Some(unit.of(*until)))];
                    let each = match (least, most) {
                        (Some(least), Some(most)) => format!("{} to {}", took(*least), took(*most)),
                        _ => String::new(),
                    };
                    bar.told = told(each, &one.ending, one.late);
                    bar.look = if bar.look == Look::Good { Look::Several } else { bar.look };
                    Some(bar)
                }
                What::Odd { from, title, tag } => {
                    let from = if *from == Side::Client { "client" } else { "server" };
                    Some(point(item.at, at, format!("{from}: {title}"), tag))
                }
                What::Happened { text, bad: true } => Some(point(item.at, at, text.clone(), "")),
                What::Note { count, .. } | What::Progress { count, .. } => {
                    notifications += count;
                    None
                }
                What::Ask { .. } | What::Answer { .. } | What::Cancel { .. } | What::Happened { .. } => None,
            });
        }
        let mut sections = Vec::new();
        let mut rest = bars.into_iter().peekable();
        while rest.peek().is_some() {
            sections.push(Section::of(rest.by_ref().take(SECTION).collect(), in_seconds));
        }
        let times: Vec<Duration> = story.items.iter().filter_map(|item| item.at.time).collect();
        let goes_back = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
        Self { sections, in_seconds, several: story.several, notifications, goes_back }
    }

    pub(super) fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.sections.iter().flat_map(|section| &section.bars)
    }
}

impl Section {
    fn of(mut bars: Vec<Bar>, in_seconds: bool) -> Self {
        let scale = Scale::of(&bars, in_seconds);
        for (from, to) in bars.iter_mut().flat_map(|bar| &mut bar.legs) {
            *from = scale.place(*from);
            *to = to.filter(|to| *to <= scale.end()).map(|to| scale.place(to));
        }
        Self { bars, scale }
    }
}

#[derive(Clone, Copy)]
struct Unit {
    in_seconds: bool,
}

impl Unit {
    fn of(self, at: Point) -> f64 {
        match (self.in_seconds, at.time) {
            (true, Some(time)) => time.as_secs_f64(),
            (true, None) => 0.0,
            #[allow(clippy::cast_precision_loss, reason = "a place in a picture")]
            (false, _) => at.frame as f64,
        }
    }
}

fn operation(op: &Op, unit: Unit) -> Bar {
    let asked = op.legs.first().map_or(Point { frame: 0, time: None }, |leg| leg.asked);
    let legs = op.legs.iter().map(|leg| (unit.of(leg.asked), leg.answered.map(|at| unit.of(at)))).collect();
    let look = match op.ending {
        Ending::Open | Ending::Cancelled | Ending::InputRequired => Look::Open,
        // It goes on, as it should.
        Ending::Result | Ending::Listening => Look::Good,
        Ending::ToolFailed | Ending::Error(_) | Ending::Unreadable => Look::Bad,
    };
    let mut took = op.waited().map_or(String::new(), took);
    if op.legs.len() > 1 {
        took = format!("{took}, {} rounds", op.legs.len());
    }
    Bar {
        time: asked.time,
        frame: asked.frame,
        label: if op.asker == Side::Server { format!("server asks {}", op.title) } else { op.title.clone() },
        tag: op.legs.first().map_or(String::new(), |leg| leg.tag.clone()),
        reversed: op.asker == Side::Server,
        legs,
        told: told(took, &op.ending, op.late),
        look,
    }
}

fn told(took: String, ending: &Ending, late: bool) -> String {
    let mut parts = vec![took];
    parts.extend(late.then(|| "late".to_owned()));
    parts.extend((*ending != Ending::Result).then(|| ending.short()));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn point(at: Point, place: f64, label: String, tag: &str) -> Bar {
    let (time, frame) = (at.time, at.frame);
    let legs = vec![(place, Some(place))];
    Bar { time, frame, label, tag: tag.to_owned(), reversed: false, legs, told: String::new(), look: Look::Odd }
}

impl Scale {
    fn of(bars: &[Bar], in_seconds: bool) -> Self {
        let all = || bars.iter().flat_map(|bar| bar.legs.iter());
        let mut ends: Vec<f64> = all().filter_map(|(_, to)| *to).collect();
        ends.sort_by(f64::total_cmp);
        let last = all().map(|(from, _)| *from).fold(f64::NEG_INFINITY, f64::max);
        // The few that go on for longest are cut off, so that they do not take the room of all others.
        let cut = ends.get((ends.len() * 19 / 20).min(ends.len().saturating_sub(1))).copied().unwrap_or(last);
        let cut = cut.max(last);
        let mut legs: Vec<(f64, f64)> = all().map(|(from, to)| (*from, to.map_or(*from, |to| to.min(cut)))).collect();
        legs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut merged: Vec<(f64, f64)> = Vec::new();
        for (from, to) in legs {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        let work: f64 = merged.iter().map(|(from, to)| to - from).sum();
        // A pause takes no more room than this: enough to see that there is one.
        let most = if merged.len() > 1 { work.max(f64::MIN_POSITIVE) / 50.0 } else { 0.0 };
        let (mut busy, mut before, mut pauses) = (Vec::new(), 0.0, 0);
        let mut ended: Option<f64> = None;
        for (from, to) in merged {
            if let Some(ended) = ended {
                let pause: f64 = from - ended;
                pauses += usize::from(pause > most);
                before += pause.min(most);
            }
            busy.push((from, to, before));
            before += to - from;
            ended = Some(to);
        }
        Self { busy, total: before, in_seconds, pauses }
    }

    /// The last that is on it.
    fn end(&self) -> f64 {
        self.busy.last().map_or(0.0, |(_, to, _)| *to)
    }

    fn place(&self, at: f64) -> f64 {
        let index = self.busy.partition_point(|(from, _, _)| *from <= at).saturating_sub(1);
        let Some((from, to, before)) = self.busy.get(index) else { return 0.0 };
        let place = before + (at.min(*to) - from).max(0.0);
        if self.total > 0.0 { (place / self.total).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// A round length for a ruler of at most a quarter of the scale, and its share of the scale.
    pub(super) fn ruler(&self) -> Option<(String, f64)> {
        let most = self.total / 4.0;
        if !self.in_seconds || most <= 1e-9 {
            return None;
        }
        let power = 10f64.powf(most.log10().floor());
        let length = [5.0, 2.0, 1.0].into_iter().map(|times| times * power).find(|length| *length <= most)?;
        let name = Duration::try_from_secs_f64(length).ok().map(took)?;
        let name = name.replace(".00 ", " ").replace(".0 ", " ");
        Some((name, length / self.total))
    }
}

/// As many as fit a screen, and few enough to have room beside each other.
const SECTION: usize = 40;
