//! A message and its relation -> what is wrong with it, and under which check that is told.

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::rpc::{Code, Invalid, Message, Rule, Shape};

use super::MessageContext;
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::{ANSWERED_ONCE, ID_FIDELITY, JSONRPC_MESSAGES, NOTIFICATION_SILENCE};
use crate::check::catalogue::framing::STDOUT_PURITY;
use crate::operations::Relation;
use crate::text::shown;

/// What is wrong with a message, and under which check that is told.
pub(super) struct EnvelopeViolation {
    pub(super) check: &'static Check,
    pub(super) at: usize,
    pub(super) detail: String,
    /// It was lost on the way.
    pub(super) by_carrier: bool,
}

fn whole(check: &'static Check, invalid: &Invalid<'_>) -> EnvelopeViolation {
    EnvelopeViolation { check, at: invalid.at, detail: invalid.rule.to_string(), by_carrier: false }
}

pub(super) fn violation(context: &MessageContext<'_>, was_notified: bool) -> Option<EnvelopeViolation> {
    let tracked = context.tracked;
    let violation = |check, at, detail: String| Some(EnvelopeViolation { check, at, detail, by_carrier: false });
    // Which of the two it is shows when the requests that wait are answered, or are not.
    let nobody = || {
        if was_notified { (&NOTIFICATION_SILENCE, FOLLOWS) } else { (&ID_FIDELITY, NAMELESS) }
    };
    match (tracked.message, tracked.relation) {
        (Err(invalid), relation) => {
            let is_cut = matches!(invalid.rule, Rule::Truncated) && tracked.text.is_some();
            let is_changed = tracked.frame.place.is_some_and(|place| place.redacted);
            let too_long = matches!(invalid.rule, Rule::TooLong { .. } | Rule::BatchTooLong { .. });
            if is_cut || is_changed || too_long {
                return None;
            }
            if is_noise(invalid) && is_line(context) {
                return violation(&STDOUT_PURITY, invalid.at, noise(tracked.text.unwrap_or_default(), invalid));
            }
            if is_line(context) && is_other_object(tracked.text.unwrap_or_default()) {
                let detail =
                    "it is an object of JSON and no message: it has neither jsonrpc nor method, id, result or error";
                return violation(&STDOUT_PURITY, 0, detail.to_owned());
            }
            let nameless = matches!(invalid.rule, Rule::NullId | Rule::NoId) && invalid.shape == Shape::Response;
            if nameless && matches!(relation, Relation::None | Relation::Unsolicited) {
                let (check, detail) = nobody();
                return violation(check, invalid.at, detail.to_owned());
            }
            // What a header announced and did not come was lost on the way.
            if matches!(invalid.rule, Rule::Truncated) {
                return Some(EnvelopeViolation { by_carrier: true, ..whole(&JSONRPC_MESSAGES, invalid) });
            }
            Some(whole(&JSONRPC_MESSAGES, invalid))
        }
        (Ok(_), Relation::Response { operation, .. }) => {
            let round = operation.rounds.last()?;
            let (asked, answered) = (round.id.as_str(), round.other_id()?.as_str());
            let [asked, answered] = [asked, answered].map(|id| shown(id.as_bytes(), 60));
            violation(&ID_FIDELITY, 0, format!("the id {asked} is answered as {answered}"))
        }
        (Ok(_), Relation::Duplicate) => {
            violation(&ANSWERED_ONCE, 0, "the request under this id was answered before".to_owned())
        }
        (Ok(Message::OrphanError(_)), Relation::Unsolicited) => {
            let (check, detail) = nobody();
            violation(check, 0, detail.to_owned())
        }
        (Ok(Message::Response(response)), Relation::Unsolicited) => {
            let id = shown(response.id.as_str().as_bytes(), 60);
            violation(&ID_FIDELITY, 0, format!("nobody has asked under the id {id}"))
        }
        _ => None,
    }
}

/// No part of the protocol at all.
fn is_noise(invalid: &Invalid<'_>) -> bool {
    invalid.rule.code() == Code::PARSE_ERROR || matches!(invalid.rule, Rule::NotAnObject)
}

/// Something else that is written as JSON, as a line of a log.
fn is_other_object(text: &[u8]) -> bool {
    let is_ours =
        |name: Text<'_>| ["jsonrpc", "method", "id", "result", "error", "params"].iter().any(|known| name == *known);
    let json = Json::parse(text).ok().filter(|json| json.kind() == Kind::Object);
    json.is_some_and(|json| !json.members().any(|member| is_ours(member.name)))
}

fn noise(text: &[u8], invalid: &Invalid<'_>) -> String {
    let begins = |start: &str| text.len() >= start.len() && text[..start.len()].eq_ignore_ascii_case(start.as_bytes());
    if begins("content-length:") {
        return "it is a header of the framing that LSP has; MCP has a message a line".to_owned();
    }
    if text.starts_with(b"\xef\xbb\xbf") {
        return "it begins with a byte order mark".to_owned();
    }
    // The line break of UTF-16 is two bytes as well: every other line begins with half of one.
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") || text.windows(4).any(is_utf16) {
        return "it is UTF-16; messages are UTF-8".to_owned();
    }
    format!("{} at byte {} of the line", invalid.rule, invalid.at)
}

/// Two letters of ASCII as UTF-16 has them.
fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [a, 0, b, 0] | [0, a, 0, b] if a.is_ascii_graphic() && b.is_ascii_graphic())
}

/// A line that a server writes to stdout.
pub(super) fn is_line(context: &MessageContext<'_>) -> bool {
    context.by_server() && !context.tracked.conversation.over_http && context.tracked.element.is_none()
}

const FOLLOWS: &str = "an answer without an id follows a notification";
pub(super) const NAMELESS: &str = "an answer without an id, though what was sent can be read";
