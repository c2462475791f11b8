//! Rows between two lifelines -> SVG.

use barewire_proto::mcp::Side;

use super::rows::{Arrow, Drawn, End, Head, MOST_SLOTS, Rows, Span};
use super::svg::{Anchor, Page, column};
use super::text::seconds;
use crate::output::{shown, took};

pub(super) fn draw(rows: &Rows) -> String {
    let bottom = TOP + ROW * count(rows.rows.len()) + 10.0;
    let width = width(rows);
    let mut page = Page::new(width, pixels(bottom + 34.0));
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
        match &row.what {
            Drawn::Arrow(one) => {
                arrow(&mut page, one, y, rows);
                page.text(f64::from(width) - 8.0, y + 4.0, Anchor::End, "s f", &one.tag);
            }
            Drawn::Said { text, bad } => {
                let class = if *bad { "r" } else { "f" };
                let mark = if *bad { "! " } else { "" };
                page.text((CLIENT + SERVER) / 2.0, y + 4.0, Anchor::Middle, class, &format!("{mark}{text}"));
            }
            Drawn::Later(time) => {
                let text = format!("· · ·  {} later  · · ·", took(*time));
                page.text((CLIENT + SERVER) / 2.0, y + 4.0, Anchor::Middle, "s f", &text);
            }
        }
    }
    page.finish()
}

/// Beside the server stands how many rounds there were, and behind that which conversation it is.
fn width(rows: &Rows) -> u32 {
    let width = match (rows.several, rows.lanes > 0) {
        (true, _) => WIDTH,
        (false, true) => WIDTH - 90,
        (false, false) => WIDTH - 190,
    };
    width + pixels(LANE * count(rows.lanes.saturating_sub(1)))
}

/// An operation, as a bar on the lifeline of whoever was asked.
fn bar(page: &mut Page, span: &Span) {
    let (top, bottom) = (height(span.first), height(span.last) + if span.first == span.last { 8.0 } else { 0.0 });
    let left = bar_edge(span) - if span.on == Side::Server { 0.0 } else { BAR };
    let class = match (span.end, span.has_bracket()) {
        (End::Never, _) => "none",
        (End::Listening, _) => "on",
        (End::Answered, false) => "bar",
        (End::Answered, true) => "many",
    };
    let tall = bottom - top;
    page.shape(&format!(
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{BAR}\" height=\"{tall:.1}\" rx=\"1\" class=\"{class}\"/>"
    ));
}

/// Holds the rounds of an operation together. What it says stands behind all brackets, where its last arrow is: no other has that row.
fn bracket(page: &mut Page, span: &Span, lanes: usize) {
    let (top, bottom, y) = (height(span.first), height(span.last), height(span.last_arrow));
    let behind = |lane: usize| SERVER + BAR * count(MOST_SLOTS) + 14.0 + LANE * count(lane);
    let (x, end) = (behind(span.lane), behind(lanes.saturating_sub(1)) + 4.0);
    page.shape(&format!("<path d=\"M{x:.1} {y:.1}H{end:.1}\" class=\"life\"/>"));
    page.shape(&format!("<path d=\"M{:.1} {top:.1}H{x:.1}V{bottom:.1}h-6\" class=\"l\"/>", x - 6.0));
    page.text(end + 2.0, y + 4.0, Anchor::Start, "s", &span.told());
}

/// The edge of a bar towards its lifeline.
fn bar_edge(span: &Span) -> f64 {
    let away = BAR * count(span.slot);
    if span.on == Side::Server { SERVER + away } else { CLIENT - away }
}

fn arrow(page: &mut Page, arrow: &Arrow, y: f64, rows: &Rows) {
    // It ends at the bar that it belongs to.
    let (mut left, mut right) = (CLIENT, SERVER);
    if let Some((span, _)) = arrow.span {
        match rows.spans[span].on {
            Side::Server => right = bar_edge(&rows.spans[span]),
            Side::Client => left = bar_edge(&rows.spans[span]),
        }
    }
    let (from, to) = if arrow.from == Side::Client { (left, right) } else { (right, left) };
    let (class, head, text) = match arrow.head {
        Head::Ask => ("l", "a", ""),
        Head::Answer => ("l d", "a", ""),
        Head::Note => ("l", "n", ""),
        Head::Failure | Head::Odd => ("l d e", "k", "r"),
    };
    page.shape(&format!("<path d=\"M{from:.1} {y:.1}H{to:.1}\" class=\"{class}\" marker-end=\"url(#{head})\"/>"));
    let aside = shown(arrow.aside.as_bytes(), MOST_ASIDE);
    page.text(CLIENT + 14.0, y - 5.0, Anchor::Start, text, &shown(arrow.label.as_bytes(), MOST_LABEL));
    page.text(SERVER - 14.0, y - 5.0, Anchor::End, "b", &aside);
}

fn height(index: usize) -> f64 {
    TOP + ROW * count(index) + ROW / 2.0
}

#[allow(clippy::cast_precision_loss, reason = "a picture has few hundred rows")]
pub(super) fn count(index: usize) -> f64 {
    index as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a picture has few hundred rows")]
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
/// From one bracket to the next.
const LANE: f64 = 9.0;
/// Two latencies, as in `2.10 ms to 347 ms`.
const MOST_ASIDE: usize = 20;
/// What is left between the lifelines.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seventy")]
const MOST_LABEL: usize = ((SERVER - CLIENT - 40.0) / column(12.0)) as usize - MOST_ASIDE;
