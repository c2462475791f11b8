//! A message and its relation to other messages -> the violation of JSON-RPC, and the check that reports the violation.

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::rpc::{Code, Invalid, Message, Rule, Shape};

use super::MessageContext;
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::{ANSWERED_ONCE, ID_FIDELITY, JSONRPC_MESSAGES, NOTIFICATION_SILENCE};
use crate::check::catalogue::framing::STDOUT_PURITY;
use crate::check::excerpt::Fault;
use crate::check::finding::LAST_REQUEST;
use crate::operations::Relation;
use crate::text::shown;

/// A violation of JSON-RPC, and the check that reports the violation.
pub(super) struct EnvelopeViolation {
    pub(super) check: &'static Check,
    pub(super) at: usize,
    pub(super) fault: Fault<'static>,
    pub(super) detail: String,
    /// The number of the operation whose request shows the violation, with its id.
    pub(super) request: Option<u64>,
    /// Whether the transport lost a part of the message, so that the sender is not at fault.
    pub(super) by_carrier: bool,
}

/// The last request of a side.
pub(super) struct LastRequest {
    /// The id, as JSON text.
    pub(super) id: String,
    /// The number of the request's operation.
    pub(super) operation: u64,
}

/// Returns the violation of a message, if there is one. `was_notified` is true if the receiver has sent a notification
/// before. `last_request` is the receiver's last request, unless that request is answered.
pub(super) fn violation(
    context: &MessageContext<'_>,
    was_notified: bool,
    last_request: Option<&LastRequest>,
) -> Option<EnvelopeViolation> {
    let tracked = context.tracked;
    let violation = |check, at, detail: String| {
        let fault = Fault::Byte(at);
        Some(EnvelopeViolation { check, at, fault, detail, request: None, by_carrier: false })
    };
    let of_id = |check, at, request, detail: String| {
        let fault = Fault::Member("/id");
        Some(EnvelopeViolation { check, at, fault, detail, request, by_carrier: false })
    };
    // A response without an id is for a notification or for a request. `EnvelopeChecks` decides which, after the other
    // requests are answered.
    let without_id = |at| match was_notified {
        true => of_id(&NOTIFICATION_SILENCE, at, None, AFTER_NOTIFICATION.to_owned()),
        false => of_id(&ID_FIDELITY, at, None, WITHOUT_ID.to_owned()),
    };
    match (tracked.message, tracked.relation) {
        (Err(invalid), relation) => {
            let is_truncated = matches!(invalid.rule, Rule::Truncated);
            let is_redacted = tracked.frame.place.is_some_and(|place| place.redacted);
            let too_long = matches!(invalid.rule, Rule::TooLong { .. } | Rule::BatchTooLong { .. });
            // A probe that sends an empty array judges the response itself.
            let is_judged = matches!(invalid.rule, Rule::EmptyBatch)
                && context.state.misuse_channels.contains(&tracked.conversation.name);
            if is_truncated && tracked.text.is_some() || is_redacted || too_long || is_judged {
                return None;
            }
            let text = tracked.text.unwrap_or_default();
            if is_line(context) && is_noise(invalid) {
                return violation(&STDOUT_PURITY, invalid.at, describe_noise(text, invalid));
            }
            if is_line(context) && is_other_object(text) {
                let detail = "the line is a JSON object, but has no jsonrpc, method, id, result or error";
                return violation(&STDOUT_PURITY, 0, detail.to_owned());
            }
            let lacks_id = matches!(invalid.rule, Rule::NullId | Rule::NoId) && invalid.shape == Shape::Response;
            if lacks_id && matches!(relation, Relation::None | Relation::Unsolicited) {
                return without_id(invalid.at);
            }
            // The stream ended inside the message, so the carrier lost the rest.
            let by_carrier = is_truncated;
            let violation = violation(&JSONRPC_MESSAGES, invalid.at, invalid.rule.to_string())?;
            Some(EnvelopeViolation { by_carrier, ..violation })
        }
        (Ok(_), Relation::Response { operation, .. }) => {
            let round = operation.rounds.last()?;
            let ids = [round.id.as_str(), round.other_id()?.as_str()];
            let [requested, answered] = ids.map(|id| shown(id.as_bytes(), 60));
            let detail = format!("the response has id {answered}, the request has id {requested}");
            of_id(&ID_FIDELITY, 0, Some(operation.number), detail)
        }
        (Ok(_), Relation::Duplicate) => {
            of_id(&ANSWERED_ONCE, 0, None, "the request with this id is already answered".to_owned())
        }
        (Ok(Message::OrphanError(_)), Relation::Unsolicited) => without_id(0),
        (Ok(Message::Response(response)), Relation::Unsolicited) => {
            let mut detail = format!("response id {} matches no request", shown(response.id.as_str().as_bytes(), 60));
            if let Some(LastRequest { id, .. }) = last_request {
                detail.push_str(&format!("{LAST_REQUEST}{}", shown(id.as_bytes(), 60)));
            }
            of_id(&ID_FIDELITY, 0, last_request.map(|request| request.operation), detail)
        }
        _ => None,
    }
}

/// Whether a line is neither a JSON object nor a JSON array.
fn is_noise(invalid: &Invalid<'_>) -> bool {
    invalid.rule.code() == Code::PARSE_ERROR || matches!(invalid.rule, Rule::NotAnObject)
}

/// Whether a line is a JSON object without any member of a message, such as a log entry.
fn is_other_object(text: &[u8]) -> bool {
    let is_ours =
        |name: Text<'_>| ["jsonrpc", "method", "id", "result", "error", "params"].iter().any(|known| name == *known);
    let json = Json::parse(text).ok().filter(|json| json.kind() == Kind::Object);
    json.is_some_and(|json| !json.members().any(|member| is_ours(member.name)))
}

fn describe_noise(text: &[u8], invalid: &Invalid<'_>) -> String {
    let begins = |start: &str| text.len() >= start.len() && text[..start.len()].eq_ignore_ascii_case(start.as_bytes());
    if begins("content-length:") {
        return "the line is a header of LSP framing; MCP has one message per line".to_owned();
    }
    if text.starts_with(b"\xef\xbb\xbf") {
        return "the line begins with a byte order mark".to_owned();
    }
    // UTF-16 text that is split at newline bytes has lines that begin in the middle of a character.
    if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") || text.windows(4).any(is_utf16) {
        return "the line is UTF-16; messages are UTF-8".to_owned();
    }
    format!("{} at byte {} of the line", invalid.rule, invalid.at)
}

/// Whether these bytes are two ASCII characters in UTF-16.
fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [a, 0, b, 0] | [0, a, 0, b] if a.is_ascii_graphic() && b.is_ascii_graphic())
}

/// Whether the message is a line on the server's stdout.
pub(super) fn is_line(context: &MessageContext<'_>) -> bool {
    context.by_server() && !context.tracked.conversation.over_http && context.tracked.element.is_none()
}

const AFTER_NOTIFICATION: &str = "a response without an id follows a notification";
pub(super) const WITHOUT_ID: &str = "the response has no id, although all requests were readable";
