//! Rows and bars -> a Mermaid `sequenceDiagram`, for Markdown.

use std::fmt::Write;
use std::time::Duration;

use barewire_proto::mcp::Side;

use super::bars::{Bar, BarStyle, Bars};
use super::rows::{Arrow, ArrowKind, Row, RowContent, Rows, Span, SpanPosition};
use super::text::{footnotes, seconds};
use crate::text::{shown, took};

/// Draws an arrow for every message.
pub(super) fn rows(rows: &Rows) -> String {
    let mut out = begin();
    // An operation of several rounds gets a box if no other message lies between its rounds, because boxes cannot
    // overlap.
    let is_boxed = |(number, span): (usize, &Span)| {
        span.has_bracket() && !span.is_open() && is_alone(&rows.rows[span.first..=span.last], number)
    };
    let boxed: Vec<bool> = rows.spans.iter().enumerate().map(is_boxed).collect();
    let boxes = || rows.spans.iter().zip(&boxed).filter(|(_, boxed)| **boxed).map(|(span, _)| span);
    for (index, row) in rows.rows.iter().enumerate() {
        if let Some(span) = boxes().find(|span| span.first == index) {
            line(&mut out, "rect rgb(238, 242, 247)");
            line(&mut out, &format!("Note right of S: {}", span.bracket_label()));
        }
        match &row.content {
            RowContent::Arrow(one) => {
                let span = one.span.filter(|(span, _)| !boxed[*span]).map(|(span, _)| &rows.spans[span]);
                let ends = span.filter(|span| span.has_bracket() && span.last_arrow == index);
                arrow(&mut out, one, row, ends.map(Span::bracket_label));
            }
            RowContent::Note { text, bad } => {
                let mark = if *bad { "! " } else { "" };
                line(&mut out, &format!("Note over C,S: {mark}{}", escaped(text)));
            }
            RowContent::Pause(time) => line(&mut out, &format!("Note over C,S: {} later", took(*time))),
        }
        if boxes().any(|span| span.last == index) {
            line(&mut out, "end");
        }
    }
    for span in rows.spans.iter().filter(|span| span.is_open()) {
        line(&mut out, if span.on == Side::Server { "deactivate S" } else { "deactivate C" });
    }
    out
}

fn is_alone(rows: &[Row], number: usize) -> bool {
    rows.iter().all(|row| match &row.content {
        RowContent::Arrow(arrow) => arrow.span.is_some_and(|(span, _)| span == number),
        RowContent::Note { .. } => false,
        RowContent::Pause(_) => true,
    })
}

/// Draws one arrow. `bracket` is the label of an operation of several rounds that ends with this arrow and has no box.
fn arrow(out: &mut String, arrow: &Arrow, row: &Row, bracket: Option<String>) {
    let (from, to) = if arrow.from == Side::Client { ('C', 'S') } else { ('S', 'C') };
    let shaft = match arrow.kind {
        ArrowKind::Request => "->>",
        ArrowKind::Response => "-->>",
        ArrowKind::Failure | ArrowKind::Stray => "--x",
        ArrowKind::Notification => "-)",
    };
    let span = match arrow.span {
        Some((_, SpanPosition::First)) => "+",
        Some((_, SpanPosition::Last)) => "-",
        Some((_, SpanPosition::Inner)) | None => "",
    };
    let mut label = label(row.time, &arrow.label);
    if !arrow.latency.is_empty() {
        label = format!("{label}, {}", arrow.latency);
    }
    if let Some(bracket) = bracket {
        label = format!("{label} ({bracket} in all)");
    }
    if !arrow.tag.is_empty() {
        label = format!("{label} [{}]", arrow.tag);
    }
    line(out, &format!("{from}{shaft}{span}{to}: {}", escaped(&label)));
}

/// Draws one arrow per operation, with its outcome in the label.
pub(super) fn bars(bars: &Bars, complete_form: &str) -> String {
    let mut out = begin();
    for (at, bar) in bars.bars().enumerate() {
        let text = bar_label(bar, bars.many_conversations);
        let (from, to) = if bar.from_server { ('S', 'C') } else { ('C', 'S') };
        let start = match bar.style {
            BarStyle::Good | BarStyle::Repeated => format!("{from}->>{to}: "),
            BarStyle::Open => format!("{from}-){to}: "),
            BarStyle::Bad => format!("{from}--x{to}: "),
            BarStyle::Stray => "Note over C,S: ! ".to_owned(),
        };
        line(&mut out, &format!("{start}{text}"));
        if out.len() > MAX_LENGTH {
            let rest = bars.bars().count() - at - 1;
            line(&mut out, &format!("Note over C,S: and {rest} more: {complete_form} draws them"));
            break;
        }
    }
    for note in footnotes(bars).iter().filter(|note| note.contains("notifications")) {
        line(&mut out, &format!("Note over C,S: {}", escaped(note)));
    }
    out
}

fn bar_label(bar: &Bar, many_conversations: bool) -> String {
    let mut label = label(bar.time, &bar.label);
    if !bar.outcome.is_empty() {
        let _ = write!(label, ": {}", bar.outcome);
    }
    if many_conversations && !bar.tag.is_empty() {
        let _ = write!(label, " [{}]", bar.tag);
    }
    escaped(&label)
}

fn label(time: Option<Duration>, text: &str) -> String {
    let time = time.map_or(String::new(), |time| format!("{} s  ", seconds(time)));
    format!("{time}{}", shown(text.as_bytes(), MAX_LABEL))
}

fn begin() -> String {
    "sequenceDiagram\n    participant C as Client\n    participant S as Server\n".to_owned()
}

fn line(out: &mut String, text: &str) {
    out.push_str("    ");
    out.push_str(text);
    out.push('\n');
}

/// Escapes all characters that have a meaning in Mermaid, Markdown or HTML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | ' ' | '/' | '.' | ',' | '_' | '-' | '(' | ')' | '!' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => {
                let _ = write!(out, "#{};", u32::from(c));
            }
        }
    }
    out
}

const MAX_LABEL: usize = 60;
/// The maximum length of a diagram. By default, Mermaid refuses texts of more than 50 000 characters.
const MAX_LENGTH: usize = 48_000;
