//! Rows between two lifelines -> SVG.

use barewire_proto::mcp::Side;

use super::rows::{Arrow, ArrowKind, MAX_SLOTS, RowContent, Rows, Span, SpanEnd};
use super::svg::{Anchor, SvgPage, column};
use super::text::seconds;
use crate::text::{shown, took};

pub(super) fn draw(rows: &Rows) -> String {
    let bottom = TOP + ROW * count(rows.rows.len()) + 10.0;
    let width = width(rows);
    let mut page = SvgPage::new(width, pixels(bottom + 34.0));
    for (x, name) in [(CLIENT, "Client"), (SERVER, "Server")] {
        for y in [24.0, bottom + 20.0] {
            page.text(x, y, Anchor::Middle, "b", name);
        }
        page.shape(&format!("<path d=\"M{x} 32V{bottom:.1}\" class=\"life\"/>"));
    }
    if rows.rows.iter().any(|row| row.time.is_some()) {
        page.text(TIME, 24.0, Anchor::End, "s f", "seconds");
    }
    for span in &rows.spans {
        bar(&mut page, span);
    }
    for span in rows.spans.iter().filter(|span| span.has_bracket()) {
        bracket(&mut page, span, rows.lanes);
    }
    for (index, row) in rows.rows.iter().enumerate() {
        let y = height(index);
        if let Some(time) = row.time {
            page.text(TIME, y + 4.0, Anchor::End, "s f", &seconds(time));
        }
        match &row.content {
            RowContent::Arrow(one) => {
                arrow(&mut page, one, y, rows);
                page.text(f64::from(width) - 8.0, y + 4.0, Anchor::End, "s f", &one.tag);
            }
            RowContent::Note { text, bad } => {
                let class = if *bad { "r" } else { "f" };
                let mark = if *bad { "! " } else { "" };
                page.text((CLIENT + SERVER) / 2.0, y + 4.0, Anchor::Middle, class, &format!("{mark}{text}"));
            }
            RowContent::Pause(time) => {
                let text = format!("· · ·  {} later  · · ·", took(*time));
                page.text((CLIENT + SERVER) / 2.0, y + 4.0, Anchor::Middle, "s f", &text);
            }
        }
    }
    page.finish()
}

/// Returns the width of the page. Right of the server's lifeline are the labels of brackets, and then the names of
/// conversations.
fn width(rows: &Rows) -> u32 {
    let width = match (rows.many_conversations, rows.lanes > 0) {
        (true, _) => WIDTH,
        (false, true) => WIDTH - 90,
        (false, false) => WIDTH - 190,
    };
    width + pixels(LANE * count(rows.lanes.saturating_sub(1)))
}

/// Draws an operation as a bar on the lifeline of the side that handles it.
fn bar(page: &mut SvgPage, span: &Span) {
    let (top, bottom) = (height(span.first), height(span.last) + if span.first == span.last { 8.0 } else { 0.0 });
    let left = bar_edge(span) - if span.on == Side::Server { 0.0 } else { BAR };
    let class = match (span.end, span.has_bracket()) {
        (SpanEnd::Never, _) => "none",
        (SpanEnd::Listening, _) => "on",
        (SpanEnd::Answered, false) => "bar",
        (SpanEnd::Answered, true) => "many",
    };
    let tall = bottom - top;
    page.shape(&format!(
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{BAR}\" height=\"{tall:.1}\" rx=\"1\" class=\"{class}\"/>"
    ));
}

/// Draws the bracket around the rounds of an operation. Its label is to the right of all brackets, in the row of the
/// operation's last arrow.
fn bracket(page: &mut SvgPage, span: &Span, lanes: usize) {
    let (top, bottom, y) = (height(span.first), height(span.last), height(span.last_arrow));
    let behind = |lane: usize| SERVER + BAR * count(MAX_SLOTS) + 14.0 + LANE * count(lane);
    let (x, end) = (behind(span.lane), behind(lanes.saturating_sub(1)) + 4.0);
    page.shape(&format!("<path d=\"M{x:.1} {y:.1}H{end:.1}\" class=\"life\"/>"));
    page.shape(&format!("<path d=\"M{:.1} {top:.1}H{x:.1}V{bottom:.1}h-6\" class=\"l\"/>", x - 6.0));
    page.text(end + 2.0, y + 4.0, Anchor::Start, "s", &span.bracket_label());
}

/// Returns the x coordinate of the edge of a bar that faces its lifeline.
fn bar_edge(span: &Span) -> f64 {
    let away = BAR * count(span.slot);
    if span.on == Side::Server { SERVER + away } else { CLIENT - away }
}

fn arrow(page: &mut SvgPage, arrow: &Arrow, y: f64, rows: &Rows) {
    // An arrow ends at the bar of its operation, not at the lifeline.
    let (mut left, mut right) = (CLIENT, SERVER);
    if let Some((span, _)) = arrow.span {
        match rows.spans[span].on {
            Side::Server => right = bar_edge(&rows.spans[span]),
            Side::Client => left = bar_edge(&rows.spans[span]),
        }
    }
    let (from, to) = if arrow.from == Side::Client { (left, right) } else { (right, left) };
    let (class, head, text) = match arrow.kind {
        ArrowKind::Request => ("l", "a", ""),
        ArrowKind::Response => ("l d", "a", ""),
        ArrowKind::Notification => ("l", "n", ""),
        ArrowKind::Failure | ArrowKind::Stray => ("l d e", "k", "r"),
    };
    page.shape(&format!("<path d=\"M{from:.1} {y:.1}H{to:.1}\" class=\"{class}\" marker-end=\"url(#{head})\"/>"));
    let latency = shown(arrow.latency.as_bytes(), MAX_LATENCY);
    page.text(CLIENT + 14.0, y - 5.0, Anchor::Start, text, &shown(arrow.label.as_bytes(), MAX_LABEL));
    page.text(SERVER - 14.0, y - 5.0, Anchor::End, "b", &latency);
}

fn height(index: usize) -> f64 {
    TOP + ROW * count(index) + ROW / 2.0
}

#[allow(clippy::cast_precision_loss, reason = "a picture has far fewer than 2^52 rows")]
pub(super) fn count(index: usize) -> f64 {
    index as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a picture has far fewer than 2^32 pixels")]
pub(super) fn pixels(length: f64) -> u32 {
    length.ceil() as u32
}

const WIDTH: u32 = 1040;
const TIME: f64 = 76.0;
const CLIENT: f64 = 130.0;
const SERVER: f64 = 770.0;
const TOP: f64 = 40.0;
const ROW: f64 = 26.0;
const BAR: f64 = 7.0;
/// The distance between two brackets, in pixels.
const LANE: f64 = 9.0;
/// The maximum number of characters of a latency, such as `2.10 ms to 347 ms`.
const MAX_LATENCY: usize = 20;
/// The maximum number of characters of a label: the width between the lifelines, less the latency.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is about 60")]
const MAX_LABEL: usize = ((SERVER - CLIENT - 40.0) / column(12.0)) as usize - MAX_LATENCY;
