//! A frame -> one JSON object on one line, for scripts.

use std::io;
use std::time::Duration;

use barewire_proto::rpc::Parsed;
use barewire_proto::transcript::Stream;
use serde_json::Value;

use super::detail::MessageDetail;
use crate::output::{Output, safe_json};
use barewire_workbench::frames::{FrameFacts, WireFrame};
use barewire_workbench::rows::{MessageRelation, OperationFacts, Role, reply};

/// Writes a frame as an object. `file` is the name of its file, if the output has to say it. `with_members` adds
/// details about each member.
pub(super) fn write(
    output: &mut Output,
    file: Option<&str>,
    frame: &WireFrame<'_>,
    links: &[MessageRelation],
    with_members: bool,
) -> io::Result<()> {
    begin(output, file)?;
    write!(output, "\"frame\":{},\"offset\":{},\"length\":{}", frame.number, frame.offset, frame.length)?;
    if let Some(place) = frame.place {
        write_place(output, Some(place.stream), place.channel, place.time)?;
        if place.redacted {
            write!(output, ",\"redacted\":true")?;
        }
    }
    write!(output, ",")?;
    facts(output, &frame.facts())?;
    if let (Parsed::Message(_) | Parsed::Invalid(_), Some(link)) = (&frame.parsed, links.first()) {
        relation(output, link)?;
    }
    if let (true, Some(part)) = (with_members, MessageDetail::frame(frame)) {
        member_list(output, &part)?;
    }
    for (index, (element, text)) in frame.elements().enumerate() {
        write!(output, "{}{{", if index == 0 { ",\"elements\":[" } else { "," })?;
        let about = FrameFacts::element(&element, text);
        facts(output, &about)?;
        if let Some(link) = links.get(index) {
            relation(output, link)?;
        }
        if with_members {
            member_list(output, &MessageDetail::element(frame, about.kind, text))?;
        }
        write!(output, "}}")?;
    }
    if let Parsed::Batch(_) = frame.parsed {
        write!(output, "]")?;
    }
    if let Some(deep) = frame.too_deep {
        write!(output, ",\"note\":\"nested deeper than {} levels\",\"deep_at\":{}", deep.limit, deep.at)?;
    }
    if let (true, Some(answer)) = (with_members, reply(frame)) {
        write!(output, ",\"answer\":{}", safe_json(&answer))?;
    }
    writeln!(output, "}}")
}

/// Begins an object, with the name of the file if there is one.
pub(super) fn begin(output: &mut Output, file: Option<&str>) -> io::Result<()> {
    write!(output, "{{")?;
    file.map_or(Ok(()), |file| write!(output, "\"file\":{},", safe_json(&text(file).to_string())))
}

/// Writes the stream, channel and time of a frame or event in a transcript.
pub(super) fn write_place(
    output: &mut Output,
    stream: Option<Stream>,
    channel: &str,
    time: Option<Duration>,
) -> io::Result<()> {
    if let Some(stream) = stream {
        write!(output, ",\"stream\":\"{}\"", stream.sigil())?;
    }
    if !channel.is_empty() {
        write!(output, ",\"channel\":\"{channel}\"")?;
    }
    time.map_or(Ok(()), |time| write!(output, ",\"time\":{:.6}", time.as_secs_f64()))
}

fn facts(output: &mut Output, facts: &FrameFacts<'_>) -> io::Result<()> {
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

fn relation(output: &mut Output, link: &MessageRelation) -> io::Result<()> {
    let tie = match link.role {
        Role::None => return Ok(()),
        Role::Request { .. } => "asks",
        Role::Response { .. } => "answers",
        Role::Progress => "progress",
        Role::Cancellation => "cancels",
        Role::RefusesUnidentified => "refuses",
        Role::Duplicate => "again",
        Role::Unsolicited => "nobody",
    };
    write!(output, ",\"tie\":\"{tie}\"")?;
    if let Some(operation) = &link.operation {
        let OperationFacts { number, frame, round, .. } = operation;
        write!(output, ",\"operation\":{{\"number\":{number},\"frame\":{frame},\"round\":{round}")?;
        write!(output, ",\"method\":{}", safe_json(&text(&operation.method).to_string()))?;
        if let Some(name) = &operation.name {
            write!(output, ",\"name\":{}", safe_json(&text(name).to_string()))?;
        }
        write!(output, "}}")?;
    }
    if let Some(latency) = link.latency {
        write!(output, ",\"latency\":{:.6}", latency.as_secs_f64())?;
    }
    let flags: &[(&str, bool)] = match link.role {
        Role::Request { id_in_use } => &[("id_in_use", id_in_use)],
        Role::Response { late, is_error, input_required } => {
            &[("is_error", is_error), ("input_required", input_required), ("late", late)]
        }
        _ => return Ok(()),
    };
    flags.iter().filter(|(_, is_set)| *is_set).try_for_each(|(name, _)| write!(output, ",\"{name}\":true"))
}

fn member_list(output: &mut Output, part: &MessageDetail<'_>) -> io::Result<()> {
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
