//! Differences -> text, or one JSON object per line.

use std::io;

use barewire_proto::json::Json;
use barewire_workbench::replay::{Change, Difference, PlayReport};
use serde_json::json;

use crate::output::{Output, SafeJson, Tone, safe_json, shown};

/// Prints a difference as text: the message, its frames in the capture, and the values that differ.
pub(super) fn text(output: &mut Output, difference: &Difference) -> io::Result<()> {
    let about = about(difference);
    let about = if about.is_empty() { String::new() } else { format!("{}: ", output.paint(Tone::Strong, about)) };
    let frames: Vec<String> =
        [difference.frame, difference.answer_frame].iter().flatten().map(u64::to_string).collect();
    let frames = match frames.as_slice() {
        [] => String::new(),
        [one] => format!(" (frame {one})"),
        [one, other] if one == other => format!(" (frame {one})"),
        several => format!(" (frames {})", several.join(", ")),
    };
    let sentence = output.paint(Tone::Bad, &difference.kind);
    writeln!(output, "{about}{sentence}{}", output.paint(Tone::Faint, frames))?;
    for change in difference.changes.iter().take(MAX_SHOWN_CHANGES) {
        self::change(output, change)?;
    }
    if let Some(more) = difference.changes.len().checked_sub(MAX_SHOWN_CHANGES).filter(|more| *more > 0) {
        writeln!(output, "  and {more} more")?;
    }
    if let Some(came) = &difference.received {
        let line = match std::str::from_utf8(came) {
            Ok(text) if Json::parse(text.as_bytes()).is_ok() => cut(&safe_json(text), 0),
            _ => shown(came, VALUE_WIDTH),
        };
        writeln!(output, "    {}", output.paint(Tone::Good, format_args!("+ {line}")))?;
    }
    Ok(())
}

/// Returns a text that names the request, such as `tools/call add, id 3`.
fn about(difference: &Difference) -> String {
    let name = |text: &String| shown(text.as_bytes(), 60);
    let mut about = difference.method.as_ref().map(name).unwrap_or_default();
    if let Some(named) = &difference.name {
        about = format!("{about} {}", name(named));
    }
    match &difference.id {
        Some(id) if about.is_empty() => format!("id {}", shown(id.as_bytes(), 40)),
        Some(id) => format!("{about}, id {}", shown(id.as_bytes(), 40)),
        None => about,
    }
}

fn change(output: &mut Output, change: &Change) -> io::Result<()> {
    let path = change.pointer();
    writeln!(output, "  {}", if path.is_empty() { "the whole message".into() } else { shown(path.as_bytes(), 200) })?;
    let (was, is) = (change.recorded(), change.received());
    let at = match (was, is) {
        (Some(was), Some(is)) => was.bytes().zip(is.bytes()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    // The text is escaped after it is cut, because escaping can make it six times as long.
    let line = |text: Option<&str>| text.map_or("nothing".to_owned(), |text| safe_json(&cut(text, at)).into_owned());
    let (was, is) = (line(was), line(is));
    writeln!(output, "    {}", output.paint(Tone::Bad, format_args!("- {was}")))?;
    writeln!(output, "    {}", output.paint(Tone::Good, format_args!("+ {is}")))
}

/// Cuts a text to the length of a line. From a longer text, keeps the part around byte `at`.
fn cut(text: &str, at: usize) -> String {
    if text.chars().count() <= VALUE_WIDTH {
        return text.to_owned();
    }
    let before = text.char_indices().take_while(|(index, _)| *index < at).count();
    let from = before.saturating_sub(VALUE_WIDTH / 3);
    let start = if from > 0 { "…" } else { "" };
    let piece: String = text.chars().skip(from).take(VALUE_WIDTH).collect();
    let end = if from + VALUE_WIDTH < text.chars().count() { "…" } else { "" };
    format!("{start}{piece}{end}")
}

pub(super) fn json(output: &mut Output, difference: &Difference) -> io::Result<()> {
    writeln!(output, "{}", SafeJson(&serde_json::to_string(difference)?))
}

pub(super) fn json_summary(output: &mut Output, report: &PlayReport) -> io::Result<()> {
    let summary = json!({
        "kind": "summary",
        "sent": report.sent,
        "compared": report.compared,
        "differences": report.differences.len(),
        "notes": report.notes,
    });
    writeln!(output, "{}", safe_json(&summary.to_string()))
}

pub(super) fn summary(report: &PlayReport) -> String {
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let result = match report.differences.len() {
        0 => "no difference".to_owned(),
        differences => count(differences, "difference"),
    };
    format!("{} sent, {} compared: {result}", count(report.sent, "message"), report.compared)
}

/// The maximum number of differing values to show: about a screen. `--json` shows all.
const MAX_SHOWN_CHANGES: usize = 20;

/// The maximum number of characters of a value to show.
const VALUE_WIDTH: usize = 120;
