//! One frame in detail: each member, with its meaning.

use std::cell::Cell;
use std::fmt::{self, Display};
use std::io;

use barewire_proto::json::{Json, Kind, Member};
use barewire_proto::rpc::{MemberName, Parsed};
use barewire_proto::transcript::escape;

use super::text;
use crate::output::{Output, Tone, shown, size};
use barewire_workbench::frames::{FrameFacts, WireFrame};
use barewire_workbench::rows::{Consequence, MessageRelation, consequence, member_meaning};
use barewire_workbench::text::SafeJson;

/// Shows a frame. With `full`, all of its bytes are shown.
pub(super) fn show(
    output: &mut Output,
    frame: &WireFrame<'_>,
    links: &[MessageRelation],
    full: bool,
) -> io::Result<()> {
    let view = DetailView { full, is_cut: Cell::new(false) };
    let facts = frame.facts();
    let title = output.paint(Tone::Strong, format_args!("frame {}: {}", frame.number, facts.kind));
    writeln!(output, "{title}, {} at byte {}", size(frame.length), frame.offset)?;
    if let Some(place) = frame.place {
        let way = format!("{}{}", place.stream.sigil(), place.channel);
        let time = place.time.map_or(String::new(), |time| format!(" at {:.6} s", time.as_secs_f64()));
        writeln!(output, "on {way}{time}")?;
    }
    if let (false, Some(link)) = (facts.kind == "batch", links.first()) {
        let words = link.words(false);
        if !words.is_empty() {
            writeln!(output, "{}", words.join("  "))?;
        }
    }
    text::details(output, frame, &facts, links)?;
    if let Some(part) = MessageDetail::frame(frame) {
        members(output, &part, &view)?;
    }
    if let (true, Parsed::Invalid(_), Some(bytes)) = (full, &frame.parsed, frame.bytes) {
        // The text may not be JSON, so that it has no members.
        writeln!(output)?;
        for chunk in bytes.utf8_chunks() {
            write!(output, "{}{}", chunk.valid(), escape(chunk.invalid()))?;
        }
        writeln!(output)?;
    }
    for (index, (element, text)) in (1..).zip(frame.elements()) {
        if index > MAX_ELEMENTS && !full {
            view.is_cut.set(true);
            break;
        }
        let part = MessageDetail::element(frame, FrameFacts::element(&element, text).kind, text);
        let title = output.paint(Tone::Strong, format_args!("[{index}] {}", part.kind));
        writeln!(output, "\n{title}")?;
        members(output, &part, &view)?;
    }
    let Consequence { text, topic, .. } = consequence(frame);
    let more = topic.map(|topic| format!("More: barewire explain {topic}"));
    let gap = if let Parsed::Invalid(_) = frame.parsed { '\n' } else { ' ' };
    writeln!(output, "\n{text}{}", more.map_or(String::new(), |more| format!("{gap}{more}")))?;
    if view.is_cut.get() {
        writeln!(output, "Some values are cut. To see them as a whole, add --full.")?;
    }
    Ok(())
}

/// How much of the values is shown.
struct DetailView {
    full: bool,
    /// Whether a value was not shown as a whole.
    is_cut: Cell<bool>,
}

impl DetailView {
    /// Returns a value if it is short, otherwise its kind, size and start; with `full`, always the value.
    fn value<'a>(&self, value: Json<'a>, most: usize) -> ShownValue<'a> {
        let bytes = value.as_bytes();
        if self.full {
            return ShownValue::Whole(value);
        }
        let short = shown(bytes, most);
        self.is_cut.set(self.is_cut.get() || short.ends_with('…') && !bytes.ends_with("…".as_bytes()));
        ShownValue::Cut(match value.kind() {
            Kind::Object | Kind::Array if bytes.len() > most => {
                format!("{} of {}: {short}", value.kind(), size(bytes.len() as u64))
            }
            _ => short,
        })
    }
}

/// A value as it is shown. A whole value may be as long as a message, so it is not copied.
enum ShownValue<'a> {
    Whole(Json<'a>),
    Cut(String),
}

impl Display for ShownValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => SafeJson(value.as_str()).fmt(f),
            Self::Cut(text) => f.write_str(text),
        }
    }
}

/// The text of one message: a frame, or an element of a batch.
pub(super) struct MessageDetail<'a> {
    kind: &'static str,
    text: &'a [u8],
    /// The offset of the message in the frame.
    at: usize,
}

impl<'a> MessageDetail<'a> {
    pub(super) fn frame(frame: &WireFrame<'a>) -> Option<Self> {
        Some(Self { kind: frame.facts().kind, text: frame.bytes?, at: 0 })
    }

    pub(super) fn element(frame: &WireFrame<'a>, kind: &'static str, text: &'a [u8]) -> Self {
        let frame = frame.bytes.unwrap_or(text);
        Self { kind, text, at: text.as_ptr().addr() - frame.as_ptr().addr() }
    }

    /// Returns each member with the offset of its value in the frame and its meaning; empty if the message is not an
    /// object.
    pub(super) fn members(&self) -> Vec<(Member<'a>, usize, String)> {
        let before = self.text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let Ok(object) = Json::parse(self.text) else { return Vec::new() };
        let mut count = [0; MemberName::ALL.len()];
        for name in object.members().filter_map(|member| MemberName::of(member.name)) {
            count[name as usize] += 1;
        }
        let detail = |member: Member<'a>| {
            let meaning = match MemberName::of(member.name) {
                None => "not a member of JSON-RPC: ignored".into(),
                Some(name) if count[name as usize] > 1 => "duplicate: JSON does not define which one is used".into(),
                Some(name) => member_meaning(self.kind, name, member.value),
            };
            (member, self.at + before + member.value_at, meaning)
        };
        object.members().map(detail).collect()
    }
}

fn members(output: &mut Output, part: &MessageDetail<'_>, view: &DetailView) -> io::Result<()> {
    for (index, (member, at, meaning)) in part.members().into_iter().enumerate() {
        if index == 0 {
            writeln!(output)?;
        }
        let has_parts =
            matches!(MemberName::of(member.name), Some(MemberName::Params | MemberName::Result | MemberName::Error))
                && member.value.kind() == Kind::Object;
        let name = format!("{:<10}", shown(member.name.raw().as_bytes(), 24));
        let (name, at) = (output.paint(Tone::Strong, name), output.paint(Tone::Faint, format_args!("@{at:<5}")));
        // The lines below have the parts of the value as a whole.
        let value = match view.full && has_parts && member.value.as_bytes().len() > SHORT_VALUE {
            true => ShownValue::Cut(format!("{} of {}", Kind::Object, size(member.value.as_bytes().len() as u64))),
            false => view.value(member.value, SHORT_VALUE),
        };
        writeln!(output, "  {name} {at} {value}")?;
        writeln!(output, "  {:<17} {meaning}", "")?;
        if !has_parts {
            continue;
        }
        let shown_parts = if view.full { usize::MAX } else { MAX_INNER };
        for inner in member.value.members().take(shown_parts) {
            let name = if view.full { inner.name.raw().to_owned() } else { shown(inner.name.raw().as_bytes(), 30) };
            writeln!(output, "  {:<19} {name}: {}", "", view.value(inner.value, 50))?;
        }
        let more = member.value.members().skip(shown_parts).count();
        if more > 0 {
            view.is_cut.set(true);
            writeln!(output, "  {:<19} and {more} more", "")?;
        }
    }
    Ok(())
}

/// The width of a value that is shown as a whole without `full`, in columns.
const SHORT_VALUE: usize = 60;
/// The maximum number of members of params, a result or an error to show.
const MAX_INNER: usize = 20;
/// The maximum number of batch elements to show.
const MAX_ELEMENTS: usize = 50;
