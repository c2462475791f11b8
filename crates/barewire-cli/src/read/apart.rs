//! One frame, member by member, with what each means.

use std::io::{self, Write};

use barewire::proto::json::{Json, Kind, Text};
use barewire::proto::rpc::{Invalid, Message, Name, Parsed, Response};

use super::text;
use super::verdict::Seen;
use crate::explain;
use crate::output::{Output, Tone, shown, size};

pub(super) fn show(output: &mut Output, seen: &Seen<'_>) -> io::Result<()> {
    let facts = seen.facts();
    let title = output.paint(Tone::Strong, format_args!("frame {}: {}", seen.number, facts.kind));
    writeln!(output, "{title}, {} at byte {}", size(seen.length), seen.offset)?;
    if let Some(place) = seen.place {
        let way = format!("{}{}", place.stream.sigil(), place.channel);
        let time = place.time.map_or(String::new(), |time| format!(" at {:.6} s", time.as_secs_f64()));
        writeln!(output, "on {way}{time}")?;
    }
    text::details(output, seen, &facts)?;
    if let Some((object, before)) = seen.json() {
        writeln!(output)?;
        for member in object.members() {
            let meaning = meaning(seen, member.name, member.value);
            let name =
                output.paint(Tone::Strong, format_args!("{:<10}", shown(member.name.raw().as_bytes(), 24)));
            let at = output.paint(Tone::Faint, format_args!("@{}", before + member.value_at));
            writeln!(output, "  {name} {at:<6} {}", summary(member.value, 60))?;
            writeln!(output, "  {:<17} {meaning}", "")?;
            if let Some(Name::Params | Name::Result | Name::Error) = Name::of(member.name) {
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
    }
    writeln!(output)?;
    for line in consequence(seen) {
        writeln!(output, "{line}")?;
    }
    Ok(())
}

/// What a member means in this frame.
pub(super) fn meaning(seen: &Seen<'_>, name: Text<'_>, value: Json<'_>) -> String {
    let Some(name) = Name::of(name) else {
        return "not a member of JSON-RPC: ignored".into();
    };
    match (name, value.kind()) {
        (Name::Jsonrpc, _) if Text::from_json(value).is_some_and(|text| text == "2.0") => {
            "the version; on every message, and always this string".into()
        }
        (Name::Jsonrpc, kind) => format!("must be the string \"2.0\", is {kind}"),
        (Name::Id, Kind::Number | Kind::String) => match &seen.parsed {
            Parsed::Message(Message::Response(_)) => "which request this answers".into(),
            _ => "the answer carries it back byte for byte as it stands here".into(),
        },
        (Name::Id, Kind::Null) => match &seen.parsed {
            Parsed::Message(Message::OrphanError(_)) => {
                "the sender could not read the id of what it answers".into()
            }
            _ => "null is no id: leave it out for a notification".into(),
        },
        (Name::Id, kind) => format!("must be a string or a number, is {kind}"),
        (Name::Method, Kind::String) => {
            let known =
                Text::from_json(value).and_then(Text::to_str).and_then(|name| explain::in_a_line(&name));
            known.unwrap_or("what to do").to_owned()
        }
        (Name::Method, kind) => format!("must be a string, is {kind}"),
        (Name::Params, Kind::Object) => "what to do it with, by name".into(),
        (Name::Params, Kind::Array) => "what to do it with, by position".into(),
        (Name::Params, kind) => {
            format!("must be an object or an array, is {kind}: leave it out if there are none")
        }
        (Name::Result, _) => "the request succeeded, and this came of it".into(),
        (Name::Error, Kind::Object) => {
            "the request failed, and this is why: code, message, perhaps data".into()
        }
        (Name::Error, kind) => format!("must be an object with code and message, is {kind}"),
    }
}

/// What the other side does with the frame.
fn consequence(seen: &Seen<'_>) -> Vec<String> {
    match &seen.parsed {
        Parsed::Message(Message::Request(request)) => {
            let id = shown(request.id.as_str().as_bytes(), 40);
            vec![format!("It waits for one answer: a result or an error, under the id {id}.")]
        }
        Parsed::Message(Message::Notification(_)) => vec!["Nobody answers it, not even if it fails.".into()],
        Parsed::Message(Message::Response(Response { outcome: Ok(_), .. })) => {
            vec!["It ends its request. It is not answered.".into()]
        }
        Parsed::Message(
            Message::Response(Response { outcome: Err(error), .. }) | Message::OrphanError(error),
        ) => {
            vec![format!("It is not answered. More: barewire explain {}", error.code)]
        }
        Parsed::Batch(_) => {
            vec![
                "Its answers come in one array, in any order; where batches are not allowed it is refused."
                    .into(),
            ]
        }
        Parsed::Invalid(invalid) => {
            let more = format!("More: barewire explain {}", invalid.rule.name());
            match answer(seen) {
                Some(answer) => {
                    vec!["A server answers:".into(), format!("  {}", shown(answer.as_bytes(), 400)), more]
                }
                None => vec![format!("It is not answered: {}.", why_silent(invalid)), more],
            }
        }
    }
}

fn why_silent(invalid: &Invalid<'_>) -> &'static str {
    match invalid.shape {
        barewire::proto::rpc::Shape::Notification => "it is shaped like a notification",
        _ => "it is shaped like a response",
    }
}

/// What a server answers to a bad frame.
pub(super) fn answer(seen: &Seen<'_>) -> Option<String> {
    let Parsed::Invalid(invalid) = &seen.parsed else { return None };
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

/// More members than a person reads at once.
const MOST_INNER: usize = 20;
