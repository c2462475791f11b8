//! A timeline of many operations -> one bar per operation, in sections with their own time scale.

use std::time::Duration;

use barewire_proto::mcp::Side;

use super::timeline::{Ending, ItemKind, Moment, Timeline, TimelineOperation};
use crate::text::took;

pub(super) struct Bars {
    pub(super) sections: Vec<Section>,
    pub(super) in_seconds: bool,
    pub(super) many_conversations: bool,
    /// The number of notifications, which are not drawn.
    pub(super) notifications: u64,
    /// The number of items with an earlier time than the item before them.
    pub(super) goes_back: usize,
}

/// Up to [`SECTION_LENGTH`] bars with a common time scale.
pub(super) struct Section {
    pub(super) bars: Vec<Bar>,
    pub(super) scale: Scale,
}

/// The bar of one operation, or of one message that belongs to no operation.
pub(super) struct Bar {
    pub(super) time: Option<Duration>,
    pub(super) frame: u64,
    pub(super) label: String,
    pub(super) tag: String,
    pub(super) from_server: bool,
    /// The start and end of each round, from 0 to 1 on the scale. The end is `None` if it is beyond the scale, or the
    /// round got no response.
    pub(super) rounds: Vec<(f64, Option<f64>)>,
    /// The latency, and how the operation ended if not with a result.
    pub(super) outcome: String,
    pub(super) style: BarStyle,
}

/// The style of a bar. Styles can be told apart without colour.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum BarStyle {
    Good,
    Bad,
    /// There was no response, or the operation was cancelled.
    Open,
    /// Several equal operations, drawn as one bar.
    Repeated,
    Stray,
}

/// Maps times, or frame numbers if there are no times, to positions from 0 to 1. Pauses are shortened.
pub(super) struct Scale {
    /// The periods in which at least one operation is running: start and end of each, and its position on the scale.
    busy: Vec<(f64, f64, f64)>,
    total: f64,
    in_seconds: bool,
    /// The number of pauses that were shortened.
    pub(super) pauses: usize,
}

impl Bars {
    pub(super) fn of(timeline: &Timeline) -> Self {
        let in_seconds = timeline.items.iter().all(|item| item.at.time.is_some() || item.at.frame == 0);
        let mut bars = Vec::new();
        let mut notifications = 0;
        for item in &timeline.items {
            let at = position(item.at, in_seconds);
            bars.extend(match &item.kind {
                ItemKind::Request { op, round: 0 } => Some(operation(&timeline.operations[*op], in_seconds)),
                ItemKind::Repeat { op, count, latency, until } => {
                    let one = &timeline.operations[*op];
                    let mut bar = operation(one, in_seconds);
                    bar.label = format!("{}, {count} times", one.title);
                    bar.rounds = vec![(at, Some(position(*until, in_seconds)))];
                    bar.outcome = outcome_text(latency.clone(), &one.ending, one.late);
                    bar.style = if bar.style == BarStyle::Good { BarStyle::Repeated } else { bar.style };
                    Some(bar)
                }
                ItemKind::Stray { from, title, tag } => {
                    let from = if *from == Side::Client { "client" } else { "server" };
                    Some(point(item.at, at, format!("{from}: {title}"), tag))
                }
                ItemKind::Event { text, bad: true } => Some(point(item.at, at, text.clone(), "")),
                ItemKind::Notification { count, .. } | ItemKind::Progress { count, .. } => {
                    notifications += count;
                    None
                }
                ItemKind::Request { .. }
                | ItemKind::Response { .. }
                | ItemKind::Cancellation { .. }
                | ItemKind::Event { .. } => None,
            });
        }
        let mut sections = Vec::new();
        let mut rest = bars.into_iter().peekable();
        while rest.peek().is_some() {
            sections.push(Section::of(rest.by_ref().take(SECTION_LENGTH).collect(), in_seconds));
        }
        let times: Vec<Duration> = timeline.items.iter().filter_map(|item| item.at.time).collect();
        let goes_back = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
        Self { sections, in_seconds, many_conversations: timeline.many_conversations, notifications, goes_back }
    }

    pub(super) fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.sections.iter().flat_map(|section| &section.bars)
    }
}

impl Section {
    fn of(mut bars: Vec<Bar>, in_seconds: bool) -> Self {
        let scale = Scale::of(&bars, in_seconds);
        for (from, to) in bars.iter_mut().flat_map(|bar| &mut bar.rounds) {
            *from = scale.place(*from);
            *to = to.filter(|to| *to <= scale.end()).map(|to| scale.place(to));
        }
        Self { bars, scale }
    }
}

/// Returns the time of a moment in seconds or, if `in_seconds` is false, its frame number.
fn position(at: Moment, in_seconds: bool) -> f64 {
    match (in_seconds, at.time) {
        (true, time) => time.unwrap_or_default().as_secs_f64(),
        #[allow(clippy::cast_precision_loss, reason = "exact enough for a picture")]
        (false, _) => at.frame as f64,
    }
}

fn operation(op: &TimelineOperation, in_seconds: bool) -> Bar {
    let asked = op.rounds.first().map_or(Moment { frame: 0, time: None }, |round| round.asked);
    let at = |moment| position(moment, in_seconds);
    let rounds = op.rounds.iter().map(|round| (at(round.asked), round.answered.map(at))).collect();
    let style = match op.ending {
        Ending::Open | Ending::Cancelled | Ending::InputRequired => BarStyle::Open,
        // A listen request is meant to stay open.
        Ending::Result | Ending::Listening | Ending::Cut => BarStyle::Good,
        Ending::ToolFailed | Ending::Error(_) | Ending::Unreadable => BarStyle::Bad,
    };
    let mut took = op.waited().map_or(String::new(), took);
    if op.rounds.len() > 1 {
        took = format!("{took}, {} rounds", op.rounds.len());
    }
    Bar {
        time: asked.time,
        frame: asked.frame,
        label: if op.asker == Side::Server { format!("from server: {}", op.title) } else { op.title.clone() },
        tag: op.rounds.first().map_or(String::new(), |round| round.tag.clone()),
        from_server: op.asker == Side::Server,
        rounds,
        outcome: outcome_text(took, &op.ending, op.late),
        style,
    }
}

fn outcome_text(took: String, ending: &Ending, late: bool) -> String {
    let mut parts = vec![took];
    parts.extend(late.then(|| "late".to_owned()));
    parts.extend((*ending != Ending::Result).then(|| ending.short()));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn point(at: Moment, place: f64, label: String, tag: &str) -> Bar {
    let (time, frame, tag) = (at.time, at.frame, tag.to_owned());
    let rounds = vec![(place, Some(place))];
    Bar { time, frame, label, tag, from_server: false, rounds, outcome: String::new(), style: BarStyle::Stray }
}

impl Scale {
    fn of(bars: &[Bar], in_seconds: bool) -> Self {
        let all = || bars.iter().flat_map(|bar| bar.rounds.iter());
        let mut ends: Vec<f64> = all().filter_map(|(_, to)| *to).collect();
        ends.sort_by(f64::total_cmp);
        let last = all().map(|(from, _)| *from).fold(f64::NEG_INFINITY, f64::max);
        // The scale ends at the 95th percentile of the end times, so that a few long operations do not squeeze all
        // others.
        let cut = ends.get((ends.len() * 19 / 20).min(ends.len().saturating_sub(1))).copied().unwrap_or(last);
        let cut = cut.max(last);
        let mut rounds: Vec<(f64, f64)> = all().map(|(from, to)| (*from, to.map_or(*from, |to| to.min(cut)))).collect();
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut merged: Vec<(f64, f64)> = Vec::new();
        for (from, to) in rounds {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        let work: f64 = merged.iter().map(|(from, to)| to - from).sum();
        // The maximum length of a pause on the scale: just long enough to see it.
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

    /// Returns the time at the end of the scale.
    fn end(&self) -> f64 {
        self.busy.last().map_or(0.0, |(_, to, _)| *to)
    }

    fn place(&self, at: f64) -> f64 {
        let index = self.busy.partition_point(|(from, _, _)| *from <= at).saturating_sub(1);
        let Some((from, to, before)) = self.busy.get(index) else { return 0.0 };
        let place = before + (at.min(*to) - from).max(0.0);
        if self.total > 0.0 { (place / self.total).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the label of a ruler, and its length as a fraction of the scale: at most a quarter.
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

/// The maximum number of bars in a section: as many as fit on a screen.
const SECTION_LENGTH: usize = 40;
