//! Rows and bars -> a `sequenceDiagram` of Mermaid, for Markdown.

use std::fmt::Write;

use barewire_proto::mcp::Side;

use super::bars::{Bar, Bars, Look};
use super::rows::{Arrow, Drawn, Head, Part, Row, Rows, Span};
use super::text::{footnotes, seconds};
use crate::output::{shown, took};

/// Every message.
pub(super) fn rows(rows: &Rows) -> String {
    let mut out = begin();
    // What has several rounds and nothing else between them stands in a box; boxes cannot overlap.
    let is_boxed = |(number, span): (usize, &Span)| {
        span.has_bracket() && !span.is_open() && is_alone(&rows.rows[span.first..=span.last], number)
    };
    let boxed: Vec<bool> = rows.spans.iter().enumerate().map(is_boxed).collect();
    let boxes = || rows.spans.iter().zip(&boxed).filter(|(_, boxed)| **boxed).map(|(span, _)| span);
    for (index, row) in rows.rows.iter().enumerate() {
        if let Some(span) = boxes().find(|span| span.first == index) {
            line(&mut out, "rect rgb(238, 242, 247)");
            line(&mut out, &format!("Note right of S: {}", span.told()));
        }
        match &row.what {
            Drawn::Arrow(one) => {
                let span = one.span.filter(|(span, _)| !boxed[*span]).map(|(span, _)| &rows.spans[span]);
                let ends = span.filter(|span| span.has_bracket() && span.last_arrow == index);
                arrow(&mut out, one, row, ends.map(Span::told));
            }
            Drawn::Said { text, bad } => {
                let mark = if *bad { "! " } else { "" };
                line(&mut out, &format!("Note over C,S: {mark}{}", escaped(text)));
            }
            Drawn::Later(time) => line(&mut out, &format!("Note over C,S: {} later", took(*time))),
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
    rows.iter().all(|row| match &row.what {
        Drawn::Arrow(arrow) => arrow.span.is_some_and(|(span, _)| span == number),
        Drawn::Said { .. } => false,
        Drawn::Later(_) => true,
    })
}

/// `told` is what stands beside a box where there is one.
fn arrow(out: &mut String, arrow: &Arrow, row: &Row, told: Option<String>) {
    let (from, to) = if arrow.from == Side::Client { ('C', 'S') } else { ('S', 'C') };
    let shaft = match arrow.head {
        Head::Ask => "->>",
        Head::Answer => "-->>",
        Head::Failure | Head::Odd => "--x",
        Head::Note => "-)",
    };
    let span = match arrow.span {
        Some((_, Part::Begins)) => "+",
        Some((_, Part::Ends)) => "-",
        Some((_, Part::Within)) | None => "",
    };
    let mut label = row.time.map_or(String::new(), |time| format!("{} s  ", seconds(time)));
    label.push_str(&shown(arrow.label.as_bytes(), MOST_LABEL));
    if !arrow.aside.is_empty() {
        label = format!("{label}, {}", arrow.aside);
    }
    if let Some(told) = told {
        label = format!("{label} ({told} in all)");
    }
    if !arrow.tag.is_empty() {
        label = format!("{label} [{}]", arrow.tag);
    }
    line(out, &format!("{from}{shaft}{span}{to}: {}", escaped(&label)));
}

/// Every operation, an arrow each: what came of it is said beside what was asked.
pub(super) fn bars(bars: &Bars) -> String {
    let mut out = begin();
    for (at, bar) in bars.bars().enumerate() {
        let text = bar_label(bar, bars.several);
        let (from, to) = if bar.reversed { ('S', 'C') } else { ('C', 'S') };
        let shaft = match bar.look {
            Look::Good | Look::Several => "->>",
            Look::Open => "-)",
            Look::Bad => "--x",
            Look::Odd => "",
        };
        if bar.look == Look::Odd {
            line(&mut out, &format!("Note over C,S: ! {text}"));
        } else {
            line(&mut out, &format!("{from}{shaft}{to}: {text}"));
        }
        if out.len() > LONGEST {
            let rest = bars.bars().count() - at - 1;
            line(&mut out, &format!("Note over C,S: and {rest} more, which --diagram svg draws"));
            break;
        }
    }
    for note in footnotes(bars).iter().filter(|note| note.contains("notifications")) {
        line(&mut out, &format!("Note over C,S: {}", escaped(note)));
    }
    out
}

fn bar_label(bar: &Bar, several: bool) -> String {
    let mut label = bar.time.map_or(String::new(), |time| format!("{} s  ", seconds(time)));
    label.push_str(&shown(bar.label.as_bytes(), MOST_LABEL));
    if !bar.told.is_empty() {
        let _ = write!(label, ": {}", bar.told);
    }
    if several && !bar.tag.is_empty() {
        let _ = write!(label, " [{}]", bar.tag);
    }
    escaped(&label)
}

fn begin() -> String {
    "sequenceDiagram\n    participant C as Client\n    participant S as Server\n".to_owned()
}

fn line(out: &mut String, text: &str) {
    out.push_str("    ");
    out.push_str(text);
    out.push('\n');
}

/// Text in which nothing means anything to Mermaid, to Markdown around it or to HTML.
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

const MOST_LABEL: usize = 60;
/// Mermaid draws no text of more than 50 000 characters unless it is told to.
const LONGEST: usize = 48_000;
