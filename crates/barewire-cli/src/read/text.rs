//! A frame -> a line of text. For an invalid frame, lines below show where the error is.

use std::io;

use crate::output::{Output, Tone, pad, shown, size};
use barewire_workbench::frames::{FrameFacts, WireFrame};
use barewire_workbench::rows::{CaretLine, MessageRelation, OperationFacts, Role};

/// The column with the direction and the channel. It is as wide as the widest cell so far, because later frames are not
/// known yet.
#[derive(Default)]
pub(super) struct DirectionColumn {
    width: usize,
}

impl DirectionColumn {
    pub(super) fn cell(&mut self, sigil: char, channel: &str) -> String {
        if !channel.is_empty() {
            self.width = self.width.max(channel.len().clamp(MIN_CHANNEL, MAX_CHANNEL));
        }
        format!("{sigil}{channel:<0$} ", self.width)
    }
}

/// The minimum width of a channel name: that of `x99`.
const MIN_CHANNEL: usize = 3;
/// The maximum width of the column. A longer channel name does not make it wider.
const MAX_CHANNEL: usize = 12;

/// Writes number, offset, kind, id, method, size and relation to other messages. Errors are on the lines below.
pub(super) fn line(
    output: &mut Output,
    directions: &mut DirectionColumn,
    frame: &WireFrame<'_>,
    links: &[MessageRelation],
) -> io::Result<()> {
    let facts = frame.facts();
    let number = output.paint(Tone::Faint, format_args!("{:>5}", frame.number));
    let offset = output.paint(Tone::Faint, format_args!("{:>9}", format!("@{}", frame.offset)));
    let place = frame.place.map_or(String::new(), |place| {
        let time = place.time.map_or(String::new(), |time| format!("{:>10.6} ", time.as_secs_f64()));
        format!("{time}{}", directions.cell(place.stream.sigil(), place.channel))
    });
    let link = if facts.kind == "batch" { None } else { links.first() };
    let (columns, size, words) = (columns(output, &facts, link), size(frame.length), words(output, link, &facts));
    if words.is_empty() {
        writeln!(output, "{number} {offset}  {place}{columns}  {size}")?;
    } else {
        writeln!(output, "{number} {offset}  {place}{columns}  {size:<9} {words}")?;
    }
    details(output, frame, &facts, links)
}

/// Returns the columns about the message itself: kind, id, and method or error code.
fn columns(output: &Output, facts: &FrameFacts<'_>, link: Option<&MessageRelation>) -> String {
    let kind = output.paint(tone(facts.kind), format_args!("{:<12}", facts.kind));
    let id = pad(&facts.id.as_deref().map_or(String::new(), |id| shown(id.as_bytes(), 20)), 10);
    let method = facts.method.map(|method| shown(unquoted(method).as_bytes(), 40));
    let what = match (facts.invalid, facts.error, method) {
        (Some(_), _, method) if facts.kind == "cut" => {
            method.or_else(|| link.and_then(MessageRelation::request_title)).unwrap_or_default()
        }
        (Some(invalid), _, None) => invalid.rule.name().to_owned(),
        (Some(invalid), _, Some(method)) => format!("{}: {method}", invalid.rule.name()),
        (None, Some(error), _) => {
            format!("{} {}", error.code, shown(unquoted(error.message.raw()).as_bytes(), 32))
        }
        (None, None, Some(method)) => match link.and_then(|link| link.operation.as_ref()) {
            Some(operation @ OperationFacts { name: Some(_), .. }) if facts.kind == "request" => operation.title(),
            _ => method,
        },
        (None, None, None) => link.and_then(MessageRelation::request_title).unwrap_or_default(),
    };
    format!("{kind}  {id}  {}", pad(&what, 30))
}

/// Writes the lines below a frame: batch elements, notes, and the position of an error.
pub(super) fn details(
    output: &mut Output,
    frame: &WireFrame<'_>,
    facts: &FrameFacts<'_>,
    links: &[MessageRelation],
) -> io::Result<()> {
    let mut left_out = (0, 0);
    for (index, (element, text)) in (1u64..).zip(frame.elements()) {
        if index > MAX_ELEMENTS {
            left_out.0 += 1;
            left_out.1 += u64::from(element.is_err());
            continue;
        }
        let facts = FrameFacts::element(&element, text);
        let link = usize::try_from(index - 1).ok().and_then(|index| links.get(index));
        let line = format!("{}  {}", columns(output, &facts, link), words(output, link, &facts));
        writeln!(output, "{:>15}  {}", format!("[{index}]"), line.trim_end())?;
        if let (Err(invalid), Some(bytes)) = (&element, frame.bytes) {
            fault(output, &invalid.to_string(), bytes, invalid.at)?;
        }
    }
    if left_out.0 > 0 {
        writeln!(output, "{MARGIN}and {} more, {} of them bad", left_out.0, left_out.1)?;
    }
    if frame.place.is_some_and(|place| place.redacted) {
        writeln!(output, "{MARGIN}note: {} in the transcript", output.paint(Tone::Noted, "redacted"))?;
    }
    if let Some(deep) = frame.too_deep {
        let note = output.paint(Tone::Noted, format_args!("nested deeper than {} levels", deep.limit));
        writeln!(output, "{MARGIN}note: {note} from byte {} on", deep.at)?;
    }
    match (facts.invalid, frame.bytes) {
        (Some(_), Some(bytes)) if frame.is_cut() => {
            let note = output.paint(Tone::Noted, "the rest of the frame is missing");
            writeln!(output, "{MARGIN}note: {note} in the recording")?;
            writeln!(output, "{MARGIN}{}", CaretLine::around(bytes, bytes.len()).line)
        }
        (Some(invalid), Some(bytes)) => fault(output, &invalid.to_string(), bytes, invalid.at),
        (Some(invalid), None) => writeln!(output, "{MARGIN}{}", output.paint(Tone::Bad, invalid.rule)),
        (None, _) => Ok(()),
    }
}

/// Returns the words about a message's relation to other messages, in colour.
pub(super) fn words(output: &Output, link: Option<&MessageRelation>, facts: &FrameFacts<'_>) -> String {
    let Some(link) = link else { return String::new() };
    let tone = match link.role {
        Role::Unsolicited | Role::Duplicate | Role::Request { id_in_use: true } => Tone::Bad,
        Role::Response { late: true, .. } | Role::Response { is_error: true, .. } => Tone::Noted,
        _ => Tone::Faint,
    };
    let words = link.words(matches!(facts.kind, "result" | "cut"));
    if words.is_empty() { String::new() } else { output.paint(tone, words.join("  ")) }
}

/// Writes the error, the part of the frame around it, and a caret below its position.
fn fault(output: &mut Output, what: &str, bytes: &[u8], at: usize) -> io::Result<()> {
    writeln!(output, "{MARGIN}{}", output.paint(Tone::Bad, what))?;
    let CaretLine { line, column, .. } = CaretLine::around(bytes, at);
    writeln!(output, "{MARGIN}{line}")?;
    writeln!(output, "{MARGIN}{:column$}{}", "", output.paint(Tone::Bad, "^"))
}

fn tone(kind: &str) -> Tone {
    match kind {
        "request" => Tone::Request,
        "notification" => Tone::Notification,
        "result" => Tone::Good,
        "error" => Tone::Noted,
        "invalid" => Tone::Bad,
        "cut" => Tone::Noted,
        _ => Tone::Strong,
    }
}

/// Returns a JSON string without its quotes. Its escapes are kept.
fn unquoted(text: &str) -> &str {
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// The indentation that aligns text with the kind column.
const MARGIN: &str = "                 ";

/// The maximum number of batch elements to show. `--json` shows all.
const MAX_ELEMENTS: u64 = 50;
