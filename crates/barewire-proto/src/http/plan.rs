//! The second decision: headers and the message of a POST -> who serves it, or a refusal.

use super::rejection::quoted;
use super::verb::{no_session, session_id};
use super::version::{Version, has_legacy, has_modern, list, unsupported};
use super::{Headers, Rejection, RejectionRule, standard};
use crate::json::Text;
use crate::mcp::modern::{self, BadMeta};
use crate::mcp::{ParsedMessage, RequestMeta, RequestParams, Revision, key};
use crate::rpc::{Batch, Message, Parsed, Request};

/// Who serves the message of a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a server must act on each")]
pub enum Plan<'h> {
    /// Nobody but the request itself is needed: it is modern, its `_meta` is complete, and its headers say what its body says.
    Modern(Revision),
    /// A new session: the message is `initialize`.
    Initialize,
    /// A session, if there is one of this id.
    Session {
        /// Which one.
        id: &'h str,
        /// What the request says the session has agreed on. It should be so and need not be: that another is served is enough.
        revision: Option<Revision>,
    },
    /// A modern notification. There is none that a server of HTTP acts upon, so it is accepted and that is all.
    Accepted,
}

/// Decides what to do with the message of a POST, by its headers and what it is; `supported` are the revisions that are served.
///
/// The body is judged first: what is no message is refused with 400, whatever its headers are. Then `MCP-Protocol-Version`
/// is read, which may stand once (400), and compared with the revision in the `_meta` of the message, if it has one:
///
/// | `MCP-Protocol-Version` | `_meta` | message | |
/// |---|---|---|---|
/// | absent | modern | request, notification | [`RejectionRule::MissingHeader`], -32020 |
/// | differs from `_meta` | | request, notification | [`RejectionRule::Mismatch`], -32020 |
/// | not served | none, or the same | any | [`RejectionRule::UnsupportedVersion`], -32022 |
/// | modern | none, or incomplete | request | [`RejectionRule::Meta`], -32602 |
/// | modern | complete, the same | request | `Mcp-Method`, then `Mcp-Name` (-32020), then [`Plan::Modern`] |
/// | modern | | notification | [`Plan::Accepted`] |
/// | modern | | response | [`RejectionRule::Response`], -32600 |
/// | modern | | batch | [`RejectionRule::Batch`], -32600 |
/// | legacy | the same | request | [`RejectionRule::UnsupportedVersion`], -32022: `_meta` is of the modern era |
/// | legacy | incomplete | request | [`RejectionRule::Meta`], -32602 |
/// | absent, legacy | none | `initialize` | [`Plan::Initialize`], whatever session it names |
/// | absent, legacy | none | other, with a session | [`Plan::Session`] |
/// | absent, legacy | none | other, without | [`RejectionRule::NoSession`], -32600 |
/// | absent, legacy | none | batch with `initialize` or a modern message, or without a session | [`RejectionRule::Batch`], -32600 |
///
/// Of a server without a legacy revision the last four are refused: with [`RejectionRule::MissingHeader`], a response and a batch as
/// above. To a server without a modern revision `_meta` says nothing, and a revision that is not served is
/// [`RejectionRule::UnknownVersion`] with -32600, as -32022 would tell a client that the server is modern.
pub fn plan<'h>(
    headers: &'h (impl Headers + ?Sized),
    body: &ParsedMessage<impl AsRef<[u8]>>,
    supported: &[Revision],
) -> Result<Plan<'h>, Rejection> {
    let params = body.params().unwrap_or_default();
    match &body.parsed() {
        Parsed::Invalid(invalid) => Err(Rejection::invalid(invalid)),
        Parsed::Message(Message::Request(asked)) => {
            request(headers, asked, &params, supported).map_err(|rejection| rejection.answering(&asked.id))
        }
        Parsed::Message(Message::Notification(_)) => {
            let version = agreed(Version::read(headers, supported)?, &params.meta, supported)?;
            match version {
                Version::Modern(_) => Ok(Plan::Accepted),
                _ if !has_legacy(supported) => Err(no_version(supported)),
                _ => session("A notification", headers, version),
            }
        }
        Parsed::Message(Message::Response(_) | Message::OrphanError(_)) => {
            let version = agreed(Version::read(headers, supported)?, &RequestMeta::default(), supported)?;
            if matches!(version, Version::Modern(_)) || !has_legacy(supported) {
                let why = "A response answers nothing here: a modern server sends no requests";
                return Err(Rejection::new(RejectionRule::Response, why));
            }
            session("A response", headers, version)
        }
        Parsed::Batch(batch) => several(headers, *batch, supported),
    }
}

fn request<'h>(
    headers: &'h (impl Headers + ?Sized),
    asked: &Request<'_>,
    params: &RequestParams<'_>,
    supported: &[Revision],
) -> Result<Plan<'h>, Rejection> {
    let version = agreed(Version::read(headers, supported)?, &params.meta, supported)?;
    let judge = || modern::check_meta(&asked.method.to_name(), &params.meta, supported);
    match version {
        Version::Modern(_) => match judge() {
            Ok(Some(judged)) => {
                standard::check(headers, asked.method, params)?;
                Ok(Plan::Modern(judged.revision))
            }
            Ok(None) => Err(Rejection::meta(&BadMeta::Missing(key::PROTOCOL_VERSION))),
            Err(bad) => Err(Rejection::meta(&bad)),
        },
        // What can be judged has a modern `_meta`, which a legacy header cannot be the same as.
        Version::Legacy(_) if is_modern(&params.meta) && has_modern(supported) => match judge() {
            Err(bad) => Err(Rejection::meta(&bad)),
            Ok(_) => Err(Rejection::meta(&BadMeta::Missing(key::PROTOCOL_VERSION))),
        },
        _ if !has_legacy(supported) => Err(no_version(supported)),
        _ if asked.method == "initialize" => Ok(Plan::Initialize),
        _ => session("The request", headers, version),
    }
}

/// A batch: each of its elements is for the session to judge, but none of them may be what makes no sense in one.
fn several<'h>(
    headers: &'h (impl Headers + ?Sized),
    batch: Batch<'_>,
    supported: &[Revision],
) -> Result<Plan<'h>, Rejection> {
    let refuse = |why| Err(Rejection::new(RejectionRule::Batch, why));
    let version = agreed(Version::read(headers, supported)?, &RequestMeta::default(), supported)?;
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

/// The header, found not to contradict `_meta`, and to name something that is served.
fn agreed<'h>(version: Version<'h>, meta: &RequestMeta<'_>, supported: &[Revision]) -> Result<Version<'h>, Rejection> {
    if has_modern(supported) {
        let Some(header) = version.text() else {
            return if is_modern(meta) { Err(no_version(supported)) } else { Ok(version) };
        };
        // What is no string is judged where it is needed.
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

/// Whether it says anything that only a modern message says.
fn is_modern(meta: &RequestMeta<'_>) -> bool {
    meta.protocol_version.is_some() || meta.client_capabilities.is_some()
}

/// The refusal of what must have the header. For a legacy client it may be the only thing that its user gets to see.
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
