//! The second decision of a server, after the body is read: headers and message of a POST -> [`Plan`] or [`Rejection`].

use super::rejection::quoted;
use super::verb::{no_session, session_id};
use super::version::{Version, has_legacy, has_modern, list, unsupported};
use super::{Headers, Rejection, RejectionRule, standard};
use crate::json::Text;
use crate::mcp::modern::{self, BadMeta};
use crate::mcp::{ParsedMessage, RequestMeta, RequestParams, Revision, key};
use crate::rpc::{Batch, Message, Parsed, Request};

/// The way in which a server handles the message of a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a server must handle every variant")]
pub enum Plan<'h> {
    /// As a modern request, without a session. Its `_meta` is complete, and its headers match its body.
    Modern(Revision),
    /// In a new session: the message is `initialize`.
    Initialize,
    /// In the session with this id, if it exists.
    Session {
        /// The id of the session.
        id: &'h str,
        /// The revision in the header. It should be the revision that the session agreed on, but any revision that the
        /// server supports is accepted.
        revision: Option<Revision>,
    },
    /// The message is accepted but not handled: it is a modern notification, and over HTTP no modern notification has
    /// an effect on a server.
    Accepted,
}

/// Decides how to handle the message of a POST. `supported` are the revisions that the server supports.
///
/// The body is checked first: if it is not a message, the request is rejected with 400, regardless of the headers. Then
/// `MCP-Protocol-Version` is compared with the revision in the `_meta` of the message, if there is one. If the header
/// occurs more than once, the request is rejected with 400.
///
/// | `MCP-Protocol-Version` | `_meta` | message | decision |
/// |---|---|---|---|
/// | absent | modern | request, notification | [`RejectionRule::MissingHeader`], -32020 |
/// | differs from `_meta` | | request, notification | [`RejectionRule::Mismatch`], -32020 |
/// | not supported | none, or the same revision | any | [`RejectionRule::UnsupportedVersion`], -32022 |
/// | modern | none, or incomplete | request | [`RejectionRule::Meta`], -32602 |
/// | modern | complete, with the same revision | request | `Mcp-Method`, then `Mcp-Name` (-32020), then [`Plan::Modern`] |
/// | modern | | notification | [`Plan::Accepted`] |
/// | modern | | response | [`RejectionRule::Response`], -32600 |
/// | modern | | batch | [`RejectionRule::Batch`], -32600 |
/// | legacy | the same revision | request | [`RejectionRule::UnsupportedVersion`], -32022: `_meta` is of the modern era |
/// | legacy | incomplete | request | [`RejectionRule::Meta`], -32602 |
/// | absent, legacy | none | `initialize` | [`Plan::Initialize`], even with an `Mcp-Session-Id` |
/// | absent, legacy | none | other, with a session | [`Plan::Session`] |
/// | absent, legacy | none | other, without a session | [`RejectionRule::NoSession`], -32600 |
/// | absent, legacy | none | batch with `initialize` or a modern message, or without a session | [`RejectionRule::Batch`], -32600 |
///
/// A server that supports no legacy revision rejects the requests and notifications of the last four rows with
/// [`RejectionRule::MissingHeader`], and responses and batches as in the rows for a modern header. A server that
/// supports no modern revision ignores `_meta`, and rejects an unsupported revision with
/// [`RejectionRule::UnknownVersion`] and -32600, because a client would conclude from -32022 that the server is modern.
pub fn plan<'h>(
    headers: &'h (impl Headers + ?Sized),
    body: &ParsedMessage<impl AsRef<[u8]>>,
    supported: &[Revision],
) -> Result<Plan<'h>, Rejection> {
    let params = body.params().unwrap_or_default();
    match &body.parsed() {
        Parsed::Invalid(invalid) => Err(Rejection::invalid(invalid)),
        Parsed::Message(Message::Request(request)) => {
            plan_request(headers, request, &params, supported).map_err(|rejection| rejection.answering(&request.id))
        }
        Parsed::Message(Message::Notification(_)) => {
            let version = checked_version(Version::read(headers, supported)?, &params.meta, supported)?;
            match version {
                Version::Modern(_) => Ok(Plan::Accepted),
                _ if !has_legacy(supported) => Err(no_version(supported)),
                _ => session("A notification", headers, version),
            }
        }
        Parsed::Message(Message::Response(_) | Message::OrphanError(_)) => {
            let version = checked_version(Version::read(headers, supported)?, &RequestMeta::default(), supported)?;
            if matches!(version, Version::Modern(_)) || !has_legacy(supported) {
                let why = "A response answers nothing here: a modern server sends no requests";
                return Err(Rejection::new(RejectionRule::Response, why));
            }
            session("A response", headers, version)
        }
        Parsed::Batch(batch) => plan_batch(headers, *batch, supported),
    }
}

fn plan_request<'h>(
    headers: &'h (impl Headers + ?Sized),
    request: &Request<'_>,
    params: &RequestParams<'_>,
    supported: &[Revision],
) -> Result<Plan<'h>, Rejection> {
    let version = checked_version(Version::read(headers, supported)?, &params.meta, supported)?;
    let check_meta = || modern::check_meta(&request.method.to_name(), &params.meta, supported);
    match version {
        Version::Modern(_) => match check_meta() {
            Ok(Some(meta)) => {
                standard::check(headers, request.method, params)?;
                Ok(Plan::Modern(meta.revision))
            }
            Ok(None) => Err(Rejection::meta(&BadMeta::Missing(key::PROTOCOL_VERSION))),
            Err(bad) => Err(Rejection::meta(&bad)),
        },
        // `check_meta` always fails here: a `_meta` with a modern revision would differ from the legacy header and was
        // rejected above.
        Version::Legacy(_) if is_modern(&params.meta) && has_modern(supported) => match check_meta() {
            Err(bad) => Err(Rejection::meta(&bad)),
            Ok(_) => Err(Rejection::meta(&BadMeta::Missing(key::PROTOCOL_VERSION))),
        },
        _ if !has_legacy(supported) => Err(no_version(supported)),
        _ if request.method == "initialize" => Ok(Plan::Initialize),
        _ => session("The request", headers, version),
    }
}

/// Decides how to handle a batch. The session checks its elements later, but `initialize` and modern messages are
/// rejected here.
fn plan_batch<'h>(
    headers: &'h (impl Headers + ?Sized),
    batch: Batch<'_>,
    supported: &[Revision],
) -> Result<Plan<'h>, Rejection> {
    let refuse = |why| Err(Rejection::new(RejectionRule::Batch, why));
    let version = checked_version(Version::read(headers, supported)?, &RequestMeta::default(), supported)?;
    if matches!(version, Version::Modern(_)) || !has_legacy(supported) {
        return refuse("A modern message is posted by itself: send each in a request of its own");
    }
    let Some(id) = session_id(headers)? else {
        return refuse("A batch needs a session: send initialize by itself, then repeat its Mcp-Session-Id");
    };
    for element in batch.elements().filter_map(Result::ok) {
        let params = match element {
            Message::Request(request) if request.method == "initialize" => {
                return refuse("initialize must not stand in a batch: send it by itself");
            }
            Message::Request(request) => request.params,
            Message::Notification(notification) => notification.params,
            Message::Response(_) | Message::OrphanError(_) => None,
        };
        if has_modern(supported) && is_modern(&RequestParams::read(params).meta) {
            return refuse("A modern message must not stand in a batch: send it by itself");
        }
    }
    Ok(in_session(id, version))
}

/// Returns `version`, the value of the header, if it matches `_meta` and is supported; otherwise a rejection.
fn checked_version<'h>(
    version: Version<'h>,
    meta: &RequestMeta<'_>,
    supported: &[Revision],
) -> Result<Version<'h>, Rejection> {
    if has_modern(supported) {
        let Some(header) = version.text() else {
            return if is_modern(meta) { Err(no_version(supported)) } else { Ok(version) };
        };
        // A revision that is not a string is rejected later, by `check_meta`.
        let written = meta.protocol_version.and_then(Text::from_json);
        if let Some(written) = written.filter(|written| *written != header) {
            let (header, written) = (quoted(header.as_bytes()), quoted(&written.to_bytes()));
            let why = format!("MCP-Protocol-Version is {header} and the revision in _meta is {written}: send the same");
            return Err(Rejection::new(RejectionRule::Mismatch, why));
        }
    }
    match version {
        Version::Unsupported(requested) => Err(unsupported(requested, supported)),
        version => Ok(version),
    }
}

/// Whether `_meta` has a member that only modern messages have.
fn is_modern(meta: &RequestMeta<'_>) -> bool {
    meta.protocol_version.is_some() || meta.client_capabilities.is_some()
}

/// Returns the rejection of a message without the version header. Its message can be all that the user of a legacy
/// client sees.
fn no_version(supported: &[Revision]) -> Rejection {
    let served = list(supported);
    Rejection::new(
        RejectionRule::MissingHeader,
        format!("MCP-Protocol-Version is missing: this server speaks {served}"),
    )
}

fn session<'h>(what: &str, headers: &'h (impl Headers + ?Sized), version: Version<'_>) -> Result<Plan<'h>, Rejection> {
    let id = session_id(headers)?.ok_or_else(|| no_session(what))?;
    Ok(in_session(id, version))
}

fn in_session<'h>(id: &'h str, version: Version<'_>) -> Plan<'h> {
    let revision = match version {
        Version::Legacy(revision) => Some(revision),
        Version::Absent | Version::Modern(_) | Version::Unsupported(_) => None,
    };
    Plan::Session { id, revision }
}
