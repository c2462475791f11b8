//! Bars on a time scale -> SVG: a tall page with one narrow row per operation.

use std::fmt::Write;

use super::bars::{Bar, BarStyle, Bars, Section};
use super::svg::{Anchor, SvgPage, column};
use super::svg_rows::{count, pixels};
use super::text::{footnotes, seconds};
use crate::text::shown;

pub(super) fn draw(bars: &Bars) -> String {
    let notes = footnotes(bars);
    let (sections, rows) = (count(bars.sections.len()), count(bars.bars().count()));
    let bottom = TOP + (HEADING + GAP) * sections + ROW * rows;
    let mut page = SvgPage::new(WIDTH, pixels(bottom + 16.0 * count(notes.len()) + 10.0));
    legend(&mut page);
    let mut y = TOP;
    for section in &bars.sections {
        heading(&mut page, section, bars.in_seconds, y);
        y += HEADING;
        grid(&mut page, section, y);
        for bar in &section.bars {
            row(&mut page, bar, y, bars.many_conversations);
            y += ROW;
        }
        y += GAP;
    }
    for (at, note) in notes.iter().enumerate() {
        page.text(LABEL, bottom + 10.0 + 16.0 * count(at), Anchor::Start, "s f", note);
    }
    page.finish()
}

/// Draws stripes behind the rows, and a line at each quarter of the scale.
fn grid(page: &mut SvgPage, section: &Section, top: f64) {
    for at in (0..section.bars.len()).filter(|at| at % 2 == 1) {
        let y = top + ROW * count(at);
        page.shape(&format!("<rect x=\"0\" y=\"{y:.1}\" width=\"{WIDTH}\" height=\"{ROW}\" class=\"z\"/>"));
    }
    let bottom = top + ROW * count(section.bars.len());
    for part in 0..=4 {
        let x = SCALE + LENGTH * count(part) / 4.0;
        page.shape(&format!("<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" class=\"grid\"/>"));
    }
}

/// Draws the column titles and a ruler.
fn heading(page: &mut SvgPage, section: &Section, in_seconds: bool, top: f64) {
    let base = top + 14.0;
    page.text(TIME, base, Anchor::End, "s f", if in_seconds { "seconds" } else { "frame" });
    page.text(LABEL, base, Anchor::Start, "s f", "operation");
    page.text(OUTCOME, base, Anchor::Start, "s f", "took");
    if let Some((name, share)) = section.scale.ruler() {
        let (length, y) = (share * LENGTH, base - 8.0);
        page.shape(&format!("<path d=\"M{SCALE} {y:.1}v8m0-4h{length:.1}m0-4v8\" class=\"l\"/>"));
        page.text(SCALE + length + 6.0, base, Anchor::Start, "s", &name);
    }
}

fn legend(page: &mut SvgPage) {
    let styles = [("good", "result"), ("bad", "failed"), ("open", "no response"), ("run", "several in a row")];
    let mut x = LABEL;
    for (class, name) in styles {
        page.shape(&format!("<rect x=\"{x:.1}\" y=\"9\" width=\"16\" height=\"9\" class=\"{class}\"/>"));
        page.text(x + 22.0, 18.0, Anchor::Start, "s", name);
        x += 50.0 + column(11.0) * count(name.len());
    }
}

fn row(page: &mut SvgPage, bar: &Bar, y: f64, many_conversations: bool) {
    let base = y + 12.0;
    let time = bar.time.map_or_else(|| bar.frame.to_string(), seconds);
    page.text(TIME, base, Anchor::End, "s f", &time);
    let is_odd = bar.style == BarStyle::Stray;
    let class = if is_odd { "s r" } else { "s" };
    page.text(LABEL, base, Anchor::Start, class, &shown(bar.label.as_bytes(), MAX_LABEL));
    let class = if matches!(bar.style, BarStyle::Bad | BarStyle::Stray) { "s r" } else { "s" };
    page.text(OUTCOME, base, Anchor::Start, class, &shown(bar.outcome.as_bytes(), MAX_OUTCOME));
    if many_conversations {
        page.text(f64::from(WIDTH) - 6.0, base, Anchor::End, "s f", &bar.tag);
    }
    let (first, last) = (bar.rounds.first(), bar.rounds.last());
    if let (Some((from, _)), Some((_, to)), true) = (first, last, bar.rounds.len() > 1) {
        let (from, to, middle) = (place(*from), place(to.unwrap_or(1.0)), y + ROW / 2.0);
        page.shape(&format!("<path d=\"M{from:.1} {middle:.1}H{to:.1}\" class=\"thread\"/>"));
    }
    let class = match bar.style {
        BarStyle::Good => "good",
        BarStyle::Bad => "bad",
        BarStyle::Open => "open",
        BarStyle::Repeated => "run",
        BarStyle::Stray => {
            let x = bar.rounds.first().map_or(SCALE, |round| place(round.0));
            page.text(x, base, Anchor::Middle, "r b", "!");
            return;
        }
    };
    let mut rects = String::new();
    for (from, to) in &bar.rounds {
        // At least 3 pixels wide, so that the bar is visible.
        let wide = (place(to.unwrap_or(1.0)) - place(*from)).max(3.0);
        let x = place(*from).min(SCALE + LENGTH - wide);
        let top = y + 4.0;
        let _ = write!(rects, "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"8\" class=\"{class}\"/>");
        // A small arrow shows that the round ends beyond the scale.
        if to.is_none() {
            let (x, middle) = (SCALE + LENGTH + 2.0, y + ROW / 2.0);
            let _ = write!(rects, "<path d=\"M{x:.1} {:.1}l5 4-5 4\" class=\"l\"/>", middle - 4.0);
        }
    }
    page.shape(&rects);
}

fn place(share: f64) -> f64 {
    SCALE + share * LENGTH
}

const WIDTH: u32 = 1120;
const TIME: f64 = 66.0;
const LABEL: f64 = 78.0;
const SCALE: f64 = 370.0;
const LENGTH: f64 = 400.0;
const OUTCOME: f64 = 782.0;
const TOP: f64 = 28.0;
const HEADING: f64 = 20.0;
const GAP: f64 = 14.0;
const ROW: f64 = 16.0;
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is about 40")]
const MAX_LABEL: usize = ((SCALE - LABEL - 6.0) / column(11.0)) as usize;
/// The maximum number of characters of an outcome. Twelve more columns are for the tag, and one for the gap.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is about 40")]
const MAX_OUTCOME: usize = ((1120.0 - OUTCOME - 14.0) / column(11.0)) as usize - 13;
