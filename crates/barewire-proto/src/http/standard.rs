//! `Mcp-Method` and `Mcp-Name`: the headers of a modern request must match its body.
//!
//! An intermediary acts on the headers, and the server acts on the body. If headers and body differed, intermediary and
//! server would handle different requests: MCP 2026-07-28, basic/transports/streamable-http, "Server Validation".

use super::header::{METHOD, NAME};
use super::mirror::decode;
use super::rejection::quoted;
use super::{Headers, Rejection, RejectionRule, single};
use crate::json::{Json, Text};
use crate::mcp::RequestParams;

pub(super) fn check(
    headers: &(impl Headers + ?Sized),
    method: Text<'_>,
    params: &RequestParams<'_>,
) -> Result<(), Rejection> {
    // The value of `Mcp-Method` is never encoded.
    let value = required(headers, METHOD, "Mcp-Method")?;
    check_same("Mcp-Method", "method", value, &method.to_bytes())?;
    let Some((source, name)) = mcp_name_source(&method.to_name(), params) else { return Ok(()) };
    let Some(name) = name.and_then(|name: Json<'_>| Text::from_json(name)) else {
        // The request has no value to repeat, so the header must be absent. The handler of the method reports the
        // missing parameter.
        return match single(headers, NAME) {
            Ok(None) => Ok(()),
            _ => Err(Rejection::new(
                RejectionRule::Mismatch,
                format!("Mcp-Name repeats {source}, and the body has no such string"),
            )),
        };
    };
    let value = required(headers, NAME, "Mcp-Name")?;
    let value = decode(value)
        .map_err(|bad| Rejection::new(RejectionRule::BadHeader, format!("Mcp-Name {}: {bad}", quoted(value))))?;
    check_same("Mcp-Name", source, value.as_bytes(), &name.to_bytes())
}

/// Returns the parameter that a request must repeat in `Mcp-Name`: its path in the body, and its value. `None` for
/// methods without this header.
pub fn mcp_name_source<'a>(method: &str, params: &RequestParams<'a>) -> Option<(&'static str, Option<Json<'a>>)> {
    match method {
        "tools/call" | "prompts/get" => Some(("params.name", params.name)),
        "resources/read" => Some(("params.uri", params.uri)),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some(("params.taskId", params.task_id)),
        _ => None,
    }
}

fn required<'h>(headers: &'h (impl Headers + ?Sized), name: &str, spelled: &str) -> Result<&'h [u8], Rejection> {
    match single(headers, name) {
        Err(_) => {
            Err(Rejection::new(RejectionRule::BadHeader, format!("{spelled} stands more than once: send it once")))
        }
        Ok(None) => Err(Rejection::new(
            RejectionRule::MissingHeader,
            format!("{spelled} is missing: repeat there what the body says"),
        )),
        Ok(Some(value)) => Ok(value),
    }
}

fn check_same(header: &str, source: &str, value: &[u8], expected: &[u8]) -> Result<(), Rejection> {
    if value == expected {
        return Ok(());
    }
    let (value, expected) = (quoted(value), quoted(expected));
    Err(Rejection::new(
        RejectionRule::Mismatch,
        format!("{header} is {value} and {source} in the body is {expected}: send the same"),
    ))
}
