//! Rows and bars -> lines of text for a terminal.

use std::time::Duration;

use barewire_proto::mcp::Side;
use unicode_width::UnicodeWidthStr;

use super::bars::{Bar, BarStyle, Bars};
use super::rows::{Arrow, ArrowKind, RowContent, Rows, Span};
use crate::text::{shown, took, wrap};

/// Draws two lifelines with arrows between them.
pub(super) fn rows(rows: &Rows, width: usize) -> String {
    let times = time_width(rows.rows.iter().filter_map(|row| row.time));
    let tag = if rows.many_conversations { 13 } else { 0 };
    let most_lanes = width.saturating_sub(times + 4 + tag + MIN_ROOM + 1);
    let lanes = rows.lanes.min(most_lanes).min(MAX_LANES);
    let right = if lanes > 0 { lanes + 1 } else { 0 };
    let room = width.saturating_sub(times + 4 + tag + right).max(MIN_ROOM);
    let mut out = String::new();
    let unit = if rows.rows.iter().any(|row| row.time.is_some()) { "seconds" } else { "" };
    push(&mut out, &format!("{unit:>times$}  {:<1$}Server", "Client", room + 2 - 6));
    for (index, row) in rows.rows.iter().enumerate() {
        let is_active =
            |side| rows.spans.iter().any(|span| span.on == side && (span.first..=span.last).contains(&index));
        let line = |side| if is_active(side) { '┃' } else { '│' };
        let (client, server) = (line(Side::Client), line(Side::Server));
        let middle = match &row.content {
            RowContent::Arrow(arrow) => arrow_text(arrow, room),
            RowContent::Note { text, bad } => {
                let mark = if *bad { "! " } else { "" };
                centred(&format!("{mark}{text}"), room)
            }
            RowContent::Pause(time) => centred(&format!("· · · {} later · · ·", took(*time)), room),
        };
        let time = row.time.map_or(String::new(), seconds);
        let brackets = brackets(rows, index, lanes);
        let tag = row.content.arrow().map_or("", |arrow| &arrow.tag);
        push(&mut out, &format!("{time:>times$}  {client}{middle}{server}{brackets} {tag}"));
    }
    out
}

/// Returns the brackets in row `index`, one column per bracket, with a tick at each arrow of the operation. Brackets
/// for which there is no room are not drawn.
fn brackets(rows: &Rows, index: usize, lanes: usize) -> String {
    let mut columns = vec![' '; lanes];
    let here = |span: &Span| span.has_bracket() && span.first <= index && index <= span.last;
    let of = rows.rows[index].content.arrow().and_then(|arrow| arrow.span).map(|(span, _)| span);
    for (number, span) in rows.spans.iter().enumerate().filter(|(_, span)| here(span) && span.lane < lanes) {
        columns[span.lane] = match index {
            _ if index == span.first => '┐',
            _ if index == span.last => '┘',
            _ if of == Some(number) => '┤',
            _ => '│',
        };
    }
    let space = if lanes > 0 { Some(' ') } else { None };
    space.into_iter().chain(columns).collect()
}

fn arrow_text(arrow: &Arrow, room: usize) -> String {
    // Requests have solid lines, responses dashed ones. A notification has an open arrow head, and a failure a cross.
    let (dash, point) = match (arrow.kind, arrow.from) {
        (ArrowKind::Request, Side::Client) => ('─', '>'),
        (ArrowKind::Request, Side::Server) => ('─', '<'),
        (ArrowKind::Response, Side::Client) => ('╌', '>'),
        (ArrowKind::Response, Side::Server) => ('╌', '<'),
        (ArrowKind::Failure | ArrowKind::Stray, _) => ('╌', 'x'),
        (ArrowKind::Notification, Side::Client) => ('─', ')'),
        (ArrowKind::Notification, Side::Server) => ('─', '('),
    };
    let latency = if arrow.latency.is_empty() { String::new() } else { format!(" {} ", arrow.latency) };
    let label = shown(arrow.label.as_bytes(), room.saturating_sub(latency.width() + 8));
    let fill = room.saturating_sub(label.width() + latency.width() + 7);
    let dashes: String = std::iter::repeat_n(dash, fill).collect();
    match arrow.from {
        Side::Client => format!("{dash}{dash} {label} {dashes}{latency}{dash}{dash}{point}"),
        Side::Server => format!("{point}{dash}{dash} {label} {dashes}{latency}{dash}{dash}"),
    }
}

fn centred(text: &str, room: usize) -> String {
    let text = shown(text.as_bytes(), room);
    let space = room - text.width();
    format!("{:2$}{text}{:3$}", "", "", space / 2, space - space / 2)
}

/// Draws one bar per operation.
pub(super) fn bars(bars: &Bars, width: usize) -> String {
    let tag = if bars.many_conversations { 13 } else { 0 };
    let times = time_width(bars.bars().filter_map(|bar| bar.time));
    let room = width.saturating_sub(times + 2 + tag + 3);
    let label = room * 2 / 5;
    let scale = room * 3 / 10;
    let outcome = room - label - scale;
    let mut out = String::new();
    let unit = if bars.in_seconds { "seconds" } else { "frame" };
    for section in &bars.sections {
        let ruler = section.scale.ruler().map_or(String::new(), |(name, share)| {
            let length = cells(share, scale).max(2);
            format!("├{}┤ {name}", "─".repeat(length - 2))
        });
        if !out.is_empty() {
            out.push('\n');
        }
        push(&mut out, &format!("{unit:>times$}  {:label$} {ruler}", ""));
        for bar in &section.bars {
            let time = bar.time.map_or_else(|| bar.frame.to_string(), seconds);
            let name = shown(bar.label.as_bytes(), label);
            let space = label - name.width();
            let ends = shown(bar.outcome.as_bytes(), outcome);
            let drawn = bar_text(bar, scale);
            let behind = if bars.many_conversations {
                format!("{:1$} {2}", "", outcome - ends.width(), bar.tag)
            } else {
                String::new()
            };
            push(&mut out, &format!("{time:>times$}  {name}{:space$} {drawn} {ends}{behind}", ""));
        }
    }
    for line in footnotes(bars).iter().flat_map(|note| wrap(note, width.saturating_sub(times + 2))) {
        push(&mut out, &format!("{:times$}  {line}", ""));
    }
    out
}

/// Returns notes about everything that the bars do not show.
pub(super) fn footnotes(bars: &Bars) -> Vec<String> {
    let mut lines = Vec::new();
    if bars.sections.iter().any(|section| section.scale.pauses > 0) {
        lines.push("Pauses in which no operation is running are shortened.".to_owned());
    }
    if !bars.in_seconds {
        lines.push("The input has no times: the scale is in frames.".to_owned());
    }
    if bars.goes_back > 0 {
        lines.push(format!("! The time goes back {} times.", bars.goes_back).replace(" 1 times", " once"));
    }
    if bars.notifications > 0 {
        lines.push(format!("{} notifications are not drawn.", bars.notifications));
    }
    lines
}

fn bar_text(bar: &Bar, scale: usize) -> String {
    let mut cells_of = vec![' '; scale];
    let first = bar.rounds.first().map_or(0, |round| cell(round.0, scale));
    let end = |to: Option<f64>| to.map_or(scale.saturating_sub(1), |to| cell(to, scale));
    let last = bar.rounds.last().map_or(0, |round| end(round.1)).max(first);
    if bar.rounds.len() > 1 {
        cells_of[first..=last].fill('─');
    }
    let fill = match bar.style {
        BarStyle::Good => '█',
        BarStyle::Bad => 'x',
        BarStyle::Open => '░',
        BarStyle::Repeated => '▒',
        BarStyle::Stray => '!',
    };
    for (from, to) in &bar.rounds {
        let (from, till) = (cell(*from, scale), end(*to));
        cells_of[from..=till.max(from)].fill(fill);
        if to.is_none() && bar.style != BarStyle::Open {
            cells_of[scale - 1] = '>';
        }
    }
    cells_of.into_iter().collect()
}

fn cell(place: f64, scale: usize) -> usize {
    cells(place, scale).min(scale.saturating_sub(1))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place from 0 to 1 in a line of a terminal"
)]
fn cells(share: f64, scale: usize) -> usize {
    (share * scale as f64) as usize
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

fn push(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

/// The minimum width between the lifelines.
const MIN_ROOM: usize = 20;
/// The maximum number of bracket columns. More would be hard to follow.
const MAX_LANES: usize = 12;

/// Returns the width of the time column: at least eight characters.
fn time_width(times: impl Iterator<Item = Duration>) -> usize {
    times.max().map_or(0, |time| seconds(time).len()).max(8)
}
