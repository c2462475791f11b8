//! One frame in detail: each member, with its meaning.

use std::io;

use barewire_proto::json::{Json, Kind, Member, Text};
use barewire_proto::mcp::Method;
use barewire_proto::rpc::{MemberName, Message, Parsed, Response, Rule, Shape};

use super::link::Link;
use super::text;
use crate::output::{Output, Tone, shown, size};
use barewire_workbench::frames::{FrameFacts, WireFrame};

pub(super) fn show(output: &mut Output, frame: &WireFrame<'_>, links: &[Link]) -> io::Result<()> {
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
        members(output, &part)?;
    }
    for (index, (element, text)) in (1..).zip(frame.elements()).take(MAX_ELEMENTS) {
        let part = MessageDetail::element(frame, FrameFacts::element(&element, text).kind, text);
        let title = output.paint(Tone::Strong, format_args!("[{index}] {}", part.kind));
        writeln!(output, "\n{title}")?;
        members(output, &part)?;
    }
    writeln!(output, "\n{}", consequence(frame))
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
                Some(name) => meaning(self.kind, name, member.value),
            };
            (member, self.at + before + member.value_at, meaning)
        };
        object.members().map(detail).collect()
    }
}

fn members(output: &mut Output, part: &MessageDetail<'_>) -> io::Result<()> {
    for (index, (member, at, meaning)) in part.members().into_iter().enumerate() {
        if index == 0 {
            writeln!(output)?;
        }
        let name = format!("{:<10}", shown(member.name.raw().as_bytes(), 24));
        let (name, at) = (output.paint(Tone::Strong, name), output.paint(Tone::Faint, format_args!("@{at:<5}")));
        writeln!(output, "  {name} {at} {}", summary(member.value, 60))?;
        writeln!(output, "  {:<17} {meaning}", "")?;
        if let Some(MemberName::Params | MemberName::Result | MemberName::Error) = MemberName::of(member.name) {
            for inner in member.value.members().take(MAX_INNER) {
                let name = shown(inner.name.raw().as_bytes(), 30);
                writeln!(output, "  {:<19} {name}: {}", "", summary(inner.value, 50))?;
            }
            let more = member.value.members().skip(MAX_INNER).count();
            if more > 0 {
                writeln!(output, "  {:<19} and {more} more", "")?;
            }
        }
    }
    Ok(())
}

fn meaning(kind: &str, name: MemberName, value: Json<'_>) -> String {
    match (name, value.kind()) {
        (MemberName::Jsonrpc, _) if Text::from_json(value).is_some_and(|text| text == "2.0") => {
            "the version of JSON-RPC: always this string, in every message".into()
        }
        (MemberName::Jsonrpc, _) => "must be the string \"2.0\"".into(),
        (MemberName::Id, Kind::Number | Kind::String) => match kind {
            "result" | "error" => "the id of the request that this answers".into(),
            _ => "the response repeats it, byte for byte".into(),
        },
        (MemberName::Id, Kind::Null) => match kind {
            "error" => "the sender could not read the id of the request".into(),
            _ => "null is not an id: leave it out for a notification".into(),
        },
        (MemberName::Id, kind) => format!("must be a string or a number, is {kind}"),
        (MemberName::Method, Kind::String) => {
            let known = Text::from_json(value).and_then(Text::to_str).and_then(|name| Method::find(&name));
            known.map_or("the method to call", |method| method.summary).to_owned()
        }
        (MemberName::Method, kind) => format!("must be a string, is {kind}"),
        (MemberName::Params, Kind::Object) => "the parameters, by name".into(),
        (MemberName::Params, Kind::Array) => "the parameters, by position".into(),
        (MemberName::Params, kind) => {
            format!("must be an object or an array, is {kind}: leave it out if there are none")
        }
        (MemberName::Result, _) => "the request succeeded with this result".into(),
        (MemberName::Error, Kind::Object) => "the request failed: code, message, perhaps data".into(),
        (MemberName::Error, kind) => format!("must be an object with code and message, is {kind}"),
    }
}

/// Explains which response the frame gets, if any.
fn consequence(frame: &WireFrame<'_>) -> String {
    let invalid = match &frame.parsed {
        Parsed::Message(Message::Request(request)) => {
            let id = shown(request.id.as_str().as_bytes(), 40);
            return format!("Its sender expects one response, a result or an error, with the id {id}.");
        }
        Parsed::Message(Message::Notification(_)) => return "It gets no response, not even if it fails.".to_owned(),
        Parsed::Message(Message::Response(Response { outcome: Ok(_), .. })) => {
            return "It completes its request, and gets no response itself.".to_owned();
        }
        Parsed::Message(Message::Response(Response { outcome: Err(error), .. }) | Message::OrphanError(error)) => {
            return format!("It gets no response. More: barewire explain {}", error.code);
        }
        Parsed::Batch(_) => {
            return "Its responses come in one array, in any order. Where batches are not allowed, the batch is refused."
                .to_owned();
        }
        Parsed::Invalid(invalid) => invalid,
    };
    let effect = match (reply(frame), invalid.rule, invalid.shape) {
        (Some(reply), ..) => format!("A server answers:\n  {}", shown(reply.as_bytes(), 400)),
        (None, Rule::Truncated, _) => "The rest of the frame is missing, so it cannot be checked.".to_owned(),
        (None, _, Shape::Notification) => "It gets no response: it has the shape of a notification.".to_owned(),
        (None, ..) => "It gets no response: it has the shape of a response.".to_owned(),
    };
    format!("{effect}\nMore: barewire explain {}", invalid.rule.name())
}

pub(super) fn reply(frame: &WireFrame<'_>) -> Option<String> {
    let Parsed::Invalid(invalid) = &frame.parsed else { return None };
    if invalid.rule == Rule::Truncated {
        return None;
    }
    let mut reply = Vec::new();
    invalid.reply()?.error(&mut reply, &invalid.error());
    String::from_utf8(reply).ok()
}

/// Returns a value if it is short, otherwise its kind, size and start.
fn summary(value: Json<'_>, most: usize) -> String {
    let bytes = value.as_bytes();
    let short = shown(bytes, most);
    match value.kind() {
        Kind::Object | Kind::Array if bytes.len() > most => {
            let what = value.kind();
            format!("{what} of {}: {short}", size(bytes.len() as u64))
        }
        _ => short,
    }
}

/// The maximum number of members of params, a result or an error to show.
const MAX_INNER: usize = 20;
/// The maximum number of batch elements to show.
const MAX_ELEMENTS: usize = 50;
