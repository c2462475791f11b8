//! A frame -> one JSON object on a line, for scripts.

use std::io::{self, Write};

use barewire_proto::rpc::Parsed;
use serde_json::Value;

use super::apart::{self, Part};
use super::link::{About, Answer, How, Link};
use crate::output::{Output, safe_json};
use barewire_workbench::frames::{FrameFacts, WireFrame};

/// The object of a frame.
pub(super) fn line(output: &mut Output, seen: &WireFrame<'_>, links: &[Link]) -> io::Result<()> {
    object(output, seen, links, Detail::Line)
}

/// The object of a frame with its members taken apart.
pub(super) fn members(output: &mut Output, seen: &WireFrame<'_>, links: &[Link]) -> io::Result<()> {
    object(output, seen, links, Detail::Members)
}

#[derive(Clone, Copy, PartialEq)]
enum Detail {
    Line,
    Members,
}

fn object(output: &mut Output, seen: &WireFrame<'_>, links: &[Link], detail: Detail) -> io::Result<()> {
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
    if let (Parsed::Message(_) | Parsed::Invalid(_), Some(link)) = (&seen.parsed, links.first()) {
        tie(output, link)?;
    }
    if let (Detail::Members, Some(part)) = (detail, Part::frame(seen)) {
        member_list(output, &part)?;
    }
    for (index, (element, text)) in seen.elements().enumerate() {
        write!(output, "{}{{", if index == 0 { ",\"elements\":[" } else { "," })?;
        let about = FrameFacts::element(&element, text);
        facts(output, &about)?;
        if let Some(link) = links.get(index) {
            tie(output, link)?;
        }
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

/// What a message has to do with others.
fn tie(output: &mut Output, link: &Link) -> io::Result<()> {
    let tie = match link.how {
        How::None => return Ok(()),
        How::Asks { .. } => "asks",
        How::Answers { .. } => "answers",
        How::Progress => "progress",
        How::Cancels => "cancels",
        How::Refuses => "refuses",
        How::Again => "again",
        How::Nobody => "nobody",
    };
    write!(output, ",\"tie\":\"{tie}\"")?;
    if let Some(about) = &link.about {
        let About { number, frame, round, .. } = about;
        write!(output, ",\"operation\":{{\"number\":{number},\"frame\":{frame},\"round\":{round}")?;
        write!(output, ",\"method\":{}", safe_json(&text(&about.method).to_string()))?;
        if let Some(name) = &about.name {
            write!(output, ",\"name\":{}", safe_json(&text(name).to_string()))?;
        }
        write!(output, "}}")?;
    }
    if let Some(latency) = link.latency {
        write!(output, ",\"latency\":{:.6}", latency.as_secs_f64())?;
    }
    let flag = match link.how {
        How::Asks { id_in_use: true } => ",\"id_in_use\":true",
        How::Answers { answer: Answer::ToolFailed, .. } => ",\"is_error\":true",
        How::Answers { answer: Answer::InputRequired, .. } => ",\"input_required\":true",
        _ => "",
    };
    let late = if let How::Answers { late: true, .. } = link.how { ",\"late\":true" } else { "" };
    write!(output, "{flag}{late}")
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
