//! The first decision of a server, before the body is read: HTTP method and headers -> [`Verb`] or [`Rejection`].

use super::header::{LAST_EVENT_ID, SESSION_ID};
use super::media::{self, Media};
use super::rejection::quoted;
use super::version::{Version, has_legacy, unsupported};
use super::{Access, Headers, Rejection, RejectionRule, single};
use crate::mcp::Revision;

/// The purpose of an HTTP request, determined by its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a server must handle every variant")]
pub enum Verb<'h> {
    /// POST: handles the message in the body, see [`plan`](super::plan()).
    Post,
    /// GET: opens the stream of a session, or resumes a broken stream.
    Get {
        /// The id of the session.
        session: &'h str,
        /// The id of the last event that the client received, exactly as the client wrote it: see
        /// [`EventId`](super::EventId).
        last_event_id: Option<&'h [u8]>,
    },
    /// DELETE: ends a session.
    Delete {
        /// The id of the session.
        session: &'h str,
    },
}

/// Decides by its method and headers whether a request is admitted.
///
/// | check, in this order | status of the rejection |
/// |---|---|
/// | `Host` and `target`, `Origin`: [`Access::check`] | 403 |
/// | the method: POST; GET and DELETE if a legacy revision is supported | 405 |
/// | POST: `Content-Type` | 415 |
/// | POST: `Accept` for both media types; GET: for event streams | 406 |
/// | GET, DELETE: `MCP-Protocol-Version` is absent or a supported legacy revision | 400; 405 for a modern revision |
/// | GET, DELETE: `Mcp-Session-Id` | 400 |
pub fn admit<'h>(
    method: &str,
    target: Option<&[u8]>,
    headers: &'h (impl Headers + ?Sized),
    access: &Access,
    supported: &[Revision],
) -> Result<Verb<'h>, Rejection> {
    access.check(target, headers)?;
    match method {
        "POST" => {
            media::content_type(headers)?;
            media::accept(headers, &[Media::Json, Media::Events])?;
            Ok(Verb::Post)
        }
        "GET" if has_legacy(supported) => {
            media::accept(headers, &[Media::Events])?;
            let session = session(method, headers, supported)?;
            let last = single(headers, LAST_EVENT_ID).map_err(|_| {
                Rejection::new(RejectionRule::Repeated, "Last-Event-ID stands more than once: send it once")
            })?;
            // In event streams an empty id means that there is no id.
            Ok(Verb::Get { session, last_event_id: last.filter(|id| !id.is_empty()) })
        }
        "DELETE" if has_legacy(supported) => Ok(Verb::Delete { session: session(method, headers, supported)? }),
        _ => Err(not_allowed(method, supported)),
    }
}

/// Returns the session id of a GET or DELETE. Only the legacy era has these two methods.
fn session<'h>(
    method: &str,
    headers: &'h (impl Headers + ?Sized),
    supported: &[Revision],
) -> Result<&'h str, Rejection> {
    match Version::read(headers, supported)? {
        Version::Absent | Version::Legacy(_) => {}
        Version::Modern(_) => return Err(not_allowed(method, &[])),
        Version::Unsupported(text) => return Err(unsupported(text, supported)),
    }
    session_id(headers)?.ok_or_else(|| no_session(method))
}

fn not_allowed(method: &str, supported: &[Revision]) -> Rejection {
    let allow = if has_legacy(supported) { "GET, POST, DELETE" } else { "POST" };
    let message = format!("Method {} is not allowed: use {allow}", quoted(method.as_bytes()));
    Rejection { allow: Some(allow), ..Rejection::new(RejectionRule::Method, message) }
}

pub(super) fn no_session(what: &str) -> Rejection {
    let message = format!("{what} needs a session: send initialize, then repeat its Mcp-Session-Id");
    Rejection::new(RejectionRule::NoSession, message)
}

/// Returns the value of `Mcp-Session-Id`, which must be visible ASCII: MCP 2025-11-25, basic/transports, "Session
/// Management".
pub(super) fn session_id(headers: &(impl Headers + ?Sized)) -> Result<Option<&str>, Rejection> {
    let value = single(headers, SESSION_ID)
        .map_err(|_| Rejection::new(RejectionRule::Repeated, "Mcp-Session-Id stands more than once: send it once"))?;
    let Some(value) = value else { return Ok(None) };
    let is_visible = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
    match std::str::from_utf8(value).ok().filter(|_| is_visible) {
        Some(id) => Ok(Some(id)),
        None => Err(Rejection::new(
            RejectionRule::BadSession,
            "Mcp-Session-Id must be what the server has sent: visible ASCII",
        )),
    }
}
