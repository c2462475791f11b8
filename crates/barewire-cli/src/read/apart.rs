//! One frame, member by member, with what each means.

use std::io::{self, Write};

use barewire_proto::json::{Json, Kind, Member, Text};
use barewire_proto::rpc::{MemberName, Message, Parsed, Response, Rule, Shape};

use super::link::Link;
use super::text;
use crate::explain;
use crate::output::{Output, Tone, shown, size};
use barewire_workbench::frames::{FrameFacts, WireFrame};

pub(super) fn show(output: &mut Output, seen: &WireFrame<'_>, links: &[Link]) -> io::Result<()> {
    let facts = seen.facts();
    let title = output.paint(Tone::Strong, format_args!("frame {}: {}", seen.number, facts.kind));
    writeln!(output, "{title}, {} at byte {}", size(seen.length), seen.offset)?;
    if let Some(place) = seen.place {
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
    text::details(output, seen, &facts, links)?;
    if let Some(bytes) = seen.bytes {
        members(output, &Part { kind: facts.kind, text: bytes, at: 0 })?;
    }
    for (index, (element, text)) in (1..).zip(seen.elements()).take(MOST_ELEMENTS) {
        let part = Part::element(seen, FrameFacts::element(&element, text).kind, text);
        let title = output.paint(Tone::Strong, format_args!("[{index}] {}", part.kind));
        writeln!(output, "\n{title}")?;
        members(output, &part)?;
    }
    writeln!(output)?;
    for line in consequence(seen) {
        writeln!(output, "{line}")?;
    }
    Ok(())
}

/// A message to take apart: a frame, or an element of a batch.
pub(super) struct Part<'a> {
    kind: &'static str,
    text: &'a [u8],
    /// Where in the frame the text begins.
    at: usize,
}

impl<'a> Part<'a> {
    pub(super) fn frame(seen: &WireFrame<'a>) -> Option<Self> {
        Some(Self { kind: seen.facts().kind, text: seen.bytes?, at: 0 })
    }

    pub(super) fn element(seen: &WireFrame<'a>, kind: &'static str, text: &'a [u8]) -> Self {
        let frame = seen.bytes.unwrap_or(text);
        Self { kind, text, at: text.as_ptr().addr() - frame.as_ptr().addr() }
    }

    /// The members with where their values begin in the frame, and what they mean. None if it is no object.
    pub(super) fn members(&self) -> Vec<(Member<'a>, usize, String)> {
        let before = self.text.iter().take_while(|b| b.is_ascii_whitespace()).count();
        let Ok(object) = Json::parse(self.text) else { return Vec::new() };
        let mut count = [0; MemberName::ALL.len()];
        for name in object.members().filter_map(|member| MemberName::of(member.name)) {
            count[name as usize] += 1;
        }
        let told = |member: Member<'a>| {
            let meaning = match MemberName::of(member.name) {
                None => "not a member of JSON-RPC: ignored".into(),
                Some(name) if count[name as usize] > 1 => {
                    "stands twice, so nothing says which of the two is meant".into()
                }
                Some(name) => meaning(self.kind, name, member.value),
            };
            (member, self.at + before + member.value_at, meaning)
        };
        object.members().map(told).collect()
    }
}

fn members(output: &mut Output, part: &Part<'_>) -> io::Result<()> {
    for (index, (member, at, meaning)) in part.members().into_iter().enumerate() {
        if index == 0 {
            writeln!(output)?;
        }
        let name = format!("{:<10}", shown(member.name.raw().as_bytes(), 24));
        let (name, at) = (output.paint(Tone::Strong, name), output.paint(Tone::Faint, format_args!("@{at:<5}")));
        writeln!(output, "  {name} {at} {}", summary(member.value, 60))?;
        writeln!(output, "  {:<17} {meaning}", "")?;
        if let Some(MemberName::Params | MemberName::Result | MemberName::Error) = MemberName::of(member.name) {
            for inner in member.value.members().take(MOST_INNER) {
                let name = shown(inner.name.raw().as_bytes(), 30);
                writeln!(output, "  {:<19} {name}: {}", "", summary(inner.value, 50))?;
            }
            let more = member.value.members().skip(MOST_INNER).count();
            if more > 0 {
                writeln!(output, "  {:<19} and {more} more", "")?;
            }
        }
    }
    Ok(())
}

/// What a member means in a message of this kind.
fn meaning(kind: &str, name: MemberName, value: Json<'_>) -> String {
    match (name, value.kind()) {
        (MemberName::Jsonrpc, _) if Text::from_json(value).is_some_and(|text| text == "2.0") => {
            "the version; on every message, and always this string".into()
        }
        (MemberName::Jsonrpc, _) => "must be the string \"2.0\"".into(),
        (MemberName::Id, Kind::Number | Kind::String) => match kind {
            "result" | "error" => "which request this answers".into(),
            _ => "the answer carries it back byte for byte as it stands here".into(),
        },
        (MemberName::Id, Kind::Null) => match kind {
            "error" => "the sender could not read the id of what it answers".into(),
            _ => "null is no id: leave it out for a notification".into(),
        },
        (MemberName::Id, kind) => format!("must be a string or a number, is {kind}"),
        (MemberName::Method, Kind::String) => {
            let known = Text::from_json(value).and_then(Text::to_str).and_then(|name| explain::in_a_line(&name));
            known.unwrap_or("what to do").to_owned()
        }
        (MemberName::Method, kind) => format!("must be a string, is {kind}"),
        (MemberName::Params, Kind::Object) => "what to do it with, by name".into(),
        (MemberName::Params, Kind::Array) => "what to do it with, by position".into(),
        (MemberName::Params, kind) => {
            format!("must be an object or an array, is {kind}: leave it out if there are none")
        }
        (MemberName::Result, _) => "the request succeeded, and this came of it".into(),
        (MemberName::Error, Kind::Object) => "the request failed, and this is why: code, message, perhaps data".into(),
        (MemberName::Error, kind) => format!("must be an object with code and message, is {kind}"),
    }
}

/// What the other side does with the frame.
fn consequence(seen: &WireFrame<'_>) -> Vec<String> {
    let invalid = match &seen.parsed {
        Parsed::Message(Message::Request(request)) => {
            let id = shown(request.id.as_str().as_bytes(), 40);
            return vec![format!("It waits for one answer: a result or an error, under the id {id}.")];
        }
        Parsed::Message(Message::Notification(_)) => {
            return vec!["Nobody answers it, not even if it fails.".into()];
        }
        Parsed::Message(Message::Response(Response { outcome: Ok(_), .. })) => {
            return vec!["It ends its request. It is not answered.".into()];
        }
        Parsed::Message(Message::Response(Response { outcome: Err(error), .. }) | Message::OrphanError(error)) => {
            return vec![format!("It is not answered. More: barewire explain {}", error.code)];
        }
        Parsed::Batch(_) => {
            return vec![
                "Its answers come in one array, in any order; where batches are not allowed it is refused.".into(),
            ];
        }
        Parsed::Invalid(invalid) => invalid,
    };
    let more = format!("More: barewire explain {}", invalid.rule.name());
    let silent = match (invalid.rule, invalid.shape) {
        (Rule::Truncated, _) => "The rest of it is missing, so it cannot be judged.",
        (_, Shape::Notification) => "It is not answered: it is shaped like a notification.",
        (_, _) => "It is not answered: it is shaped like a response.",
    };
    match answer(seen) {
        Some(answer) => {
            vec!["A server answers:".into(), format!("  {}", shown(answer.as_bytes(), 400)), more]
        }
        None => vec![silent.into(), more],
    }
}

/// What a server answers to a bad frame.
pub(super) fn answer(seen: &WireFrame<'_>) -> Option<String> {
    let Parsed::Invalid(invalid) = &seen.parsed else { return None };
    if invalid.rule == Rule::Truncated {
        return None;
    }
    let mut answer = Vec::new();
    invalid.reply()?.error(&mut answer, &invalid.error());
    String::from_utf8(answer).ok()
}

/// A value in few words: itself if it is short.
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

/// More members or elements than a person reads at once.
const MOST_INNER: usize = 20;
const MOST_ELEMENTS: usize = 50;
