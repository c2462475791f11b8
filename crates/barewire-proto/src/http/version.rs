//! Reads `MCP-Protocol-Version`, which determines the era of a request.

use super::header::PROTOCOL_VERSION;
use super::rejection::quoted;
use super::{Headers, Rejection, RejectionRule, single};
use crate::mcp::Revision;
use crate::mcp::modern::BadMeta;

/// The value of `MCP-Protocol-Version`, compared with the supported revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version<'h> {
    /// The request has no `MCP-Protocol-Version` header.
    Absent,
    /// A modern revision that is supported.
    Modern(Revision),
    /// A legacy revision that is supported.
    Legacy(Revision),
    /// A revision that is unknown or not supported.
    Unsupported(&'h str),
}

impl<'h> Version<'h> {
    pub(super) fn read(headers: &'h (impl Headers + ?Sized), supported: &[Revision]) -> Result<Self, Rejection> {
        let rule = |modern, legacy| if has_modern(supported) { modern } else { legacy };
        let value = single(headers, PROTOCOL_VERSION).map_err(|_| {
            let rule = rule(RejectionRule::BadHeader, RejectionRule::Repeated);
            Rejection::new(rule, "MCP-Protocol-Version stands more than once: send it once")
        })?;
        let Some(value) = value else { return Ok(Self::Absent) };
        let text = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
        let Some(text) = text else {
            let rule = rule(RejectionRule::BadHeader, RejectionRule::UnknownVersion);
            return Err(Rejection::new(rule, format!("MCP-Protocol-Version {} is not a date", quoted(value))));
        };
        Ok(match Revision::parse(text).filter(|revision| supported.contains(revision)) {
            Some(revision) if revision.is_modern() => Self::Modern(revision),
            Some(revision) => Self::Legacy(revision),
            None => Self::Unsupported(text),
        })
    }

    /// Returns the version exactly as it was written in the header.
    pub(super) fn text(self) -> Option<&'h str> {
        match self {
            Self::Absent => None,
            Self::Modern(revision) | Self::Legacy(revision) => Some(revision.as_str()),
            Self::Unsupported(text) => Some(text),
        }
    }
}

pub(super) fn has_modern(supported: &[Revision]) -> bool {
    supported.iter().any(|revision| revision.is_modern())
}

pub(super) fn has_legacy(supported: &[Revision]) -> bool {
    supported.iter().any(|revision| !revision.is_modern())
}

/// Returns the rejection of an unsupported revision. The newest era that the server supports decides its rule and code.
pub(super) fn unsupported(requested: &str, supported: &[Revision]) -> Rejection {
    if has_modern(supported) {
        let supported = supported.iter().copied().filter(|revision| revision.is_modern()).collect();
        return Rejection::meta(&BadMeta::Unsupported { requested: requested.to_owned(), supported });
    }
    let served = list(supported);
    let requested = quoted(requested.as_bytes());
    Rejection::new(
        RejectionRule::UnknownVersion,
        format!("MCP-Protocol-Version {requested} is not served: use one of {served}"),
    )
}

/// Returns the names of the revisions, separated by commas.
pub(super) fn list(supported: &[Revision]) -> String {
    supported.iter().map(|revision| revision.as_str()).collect::<Vec<_>>().join(", ")
}
