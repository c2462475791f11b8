//! A frame -> one JSON object on a line, for scripts.

use std::io::{self, Write};

use barewire::proto::rpc::Parsed;
use serde_json::Value;

use super::apart::{self, Part};
use super::verdict::{Facts, Seen};
use crate::output::{Output, safe_json};

/// The object of a frame.
pub(super) fn line(output: &mut Output, seen: &Seen<'_>) -> io::Result<()> {
    object(output, seen, Detail::Line)
}

/// The object of a frame with its members taken apart.
pub(super) fn members(output: &mut Output, seen: &Seen<'_>) -> io::Result<()> {
    object(output, seen, Detail::Members)
}

#[derive(Clone, Copy, PartialEq)]
enum Detail {
    Line,
    Members,
}

fn object(output: &mut Output, seen: &Seen<'_>, detail: Detail) -> io::Result<()> {
    write!(output, "{{\"frame\":{},\"offset\":{},\"length\":{},", seen.number, seen.offset, seen.length)?;
    if let Some(place) = seen.place {
        write!(output, "\"stream\":\"{}\",", place.stream.sigil())?;
        if !place.channel.is_empty() {
            write!(output, "\"channel\":\"{}\",", place.channel)?;
        }
        if let Some(time) = place.time {
            write!(output, "\"time\":{:.6},", time.as_secs_f64())?;
        }
        if place.redacted {
            write!(output, "\"redacted\":true,")?;
        }
    }
    facts(output, &seen.facts())?;
    if let (Detail::Members, Some(part)) = (detail, Part::frame(seen)) {
        member_list(output, &part)?;
    }
    for (index, (element, text)) in seen.elements().enumerate() {
        write!(output, "{}{{", if index == 0 { ",\"elements\":[" } else { "," })?;
        let about = Facts::element(&element, text);
        facts(output, &about)?;
        if detail == Detail::Members {
            member_list(output, &Part::element(seen, about.kind, text))?;
        }
        write!(output, "}}")?;
    }
    if let Parsed::Batch(_) = seen.parsed {
        write!(output, "]")?;
    }
    if let Some(deep) = seen.too_deep {
        write!(output, ",\"note\":\"nested deeper than {} levels\",\"deep_at\":{}", deep.limit, deep.at)?;
    }
    if let (Detail::Members, Some(answer)) = (detail, apart::answer(seen)) {
        write!(output, ",\"answer\":{}", safe_json(&answer))?;
    }
    writeln!(output, "}}")
}

fn facts(output: &mut Output, facts: &Facts<'_>) -> io::Result<()> {
    write!(output, "\"kind\":\"{}\"", facts.kind)?;
    if let Some(id) = &facts.id {
        write!(output, ",\"id\":{}", safe_json(id))?;
    }
    if let Some(method) = facts.method {
        write!(output, ",\"method\":{}", safe_json(method))?;
    }
    if let Some(code) = facts.code {
        write!(output, ",\"code\":{code}")?;
    }
    if let Some(error) = facts.error {
        write!(output, ",\"message\":{}", safe_json(error.message.raw()))?;
    }
    if let Some(invalid) = facts.invalid {
        write!(output, ",\"reason\":\"{}\",\"at\":{}", invalid.rule.name(), invalid.at)?;
        write!(output, ",\"detail\":{}", text(&invalid.rule.to_string()))?;
    }
    Ok(())
}

fn member_list(output: &mut Output, part: &Part<'_>) -> io::Result<()> {
    write!(output, ",\"members\":[")?;
    for (index, (member, at, meaning)) in part.members().into_iter().enumerate() {
        write!(output, "{}{{", if index > 0 { "," } else { "" })?;
        write!(output, "\"name\":{},\"at\":{at}", safe_json(member.name.raw()))?;
        write!(output, ",\"length\":{}", member.value.as_bytes().len())?;
        write!(output, ",\"value\":{}", safe_json(member.value.as_str()))?;
        write!(output, ",\"meaning\":{}}}", text(&meaning))?;
    }
    write!(output, "]")
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}
