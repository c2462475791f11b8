//! A frame -> one JSON object on a line, for scripts.

use std::io::{self, Write};

use barewire::proto::rpc::Parsed;
use serde_json::{Value, json};

use super::apart;
use super::verdict::{Facts, Seen};
use crate::output::{Output, safe_json};

/// The object of a frame.
pub(super) fn line(output: &mut Output, seen: &Seen<'_>) -> io::Result<()> {
    head(output, seen)?;
    writeln!(output, "}}")
}

/// The object of a frame with its members taken apart.
pub(super) fn members(output: &mut Output, seen: &Seen<'_>) -> io::Result<()> {
    head(output, seen)?;
    if let Some((object, before)) = seen.json() {
        write!(output, ",\"members\":[")?;
        for (index, member) in object.members().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(
                output,
                "{comma}{{\"name\":{},\"at\":{}",
                safe_json(member.name.raw()),
                before + member.value_at
            )?;
            write!(output, ",\"length\":{}", member.value.as_bytes().len())?;
            write!(output, ",\"value\":{}", safe_json(member.value.as_str()))?;
            write!(output, ",\"meaning\":{}}}", text(&apart::meaning(seen, member.name, member.value)))?;
        }
        write!(output, "]")?;
    }
    let answer = apart::answer(seen).map_or(Value::Null, |answer| json!(answer));
    if let Parsed::Invalid(_) = seen.parsed {
        write!(output, ",\"answer\":{answer}")?;
    }
    writeln!(output, "}}")
}

/// The object, still open.
fn head(output: &mut Output, seen: &Seen<'_>) -> io::Result<()> {
    write!(output, "{{\"frame\":{},\"offset\":{},\"length\":{},", seen.number, seen.offset, seen.length)?;
    if let Some(place) = seen.place {
        write!(output, "\"stream\":\"{}\",", place.stream.sigil())?;
        if !place.channel.is_empty() {
            write!(output, "\"channel\":\"{}\",", place.channel)?;
        }
        if let Some(time) = place.time {
            write!(output, "\"time\":{:.6},", time.as_secs_f64())?;
        }
    }
    facts(output, &seen.facts())?;
    let mut elements = seen.elements().peekable();
    if elements.peek().is_some() {
        write!(output, ",\"elements\":[")?;
        for (index, (element, text)) in elements.enumerate() {
            write!(output, "{}{{", if index > 0 { "," } else { "" })?;
            match &element {
                Ok(message) => facts(output, &Facts::message(message, text))?,
                Err(invalid) => facts(output, &Facts::invalid(invalid, text))?,
            }
            write!(output, "}}")?;
        }
        write!(output, "]")?;
    }
    if let Some(deep) = seen.too_deep {
        write!(output, ",\"note\":\"nested deeper than {} levels\",\"deep_at\":{}", deep.limit, deep.at)?;
    }
    Ok(())
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

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}
