//! The modern era: a request's `_meta` -> whether it is modern at all, and whether it may be served.
//!
//! There is no handshake and no state: MCP 2026-07-28, basic/index, "Statelessness". Each request says which revision it is
//! written in and what its sender can do, and is judged by that alone.

use serde::Serialize;

use super::{LoggingLevel, RequestMeta, Revision, code, key};
use crate::json::{Json, Kind, Text};
use crate::rpc::{Code, ErrorObject};

/// What a modern request says about itself, found to be in order.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ModernMeta<'a> {
    /// The revision it is written in.
    pub revision: Revision,
    /// What its sender can do: an object.
    pub client_capabilities: Json<'a>,
    /// From which level on it wants log messages; none at all without.
    pub log_level: Option<LoggingLevel>,
}

/// Why a request of the modern era is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadMeta {
    /// A member that every request must have is missing.
    Missing(&'static str),
    /// A member is not what it has to be.
    Wrong(&'static str, &'static str),
    /// The revision is none that is served.
    Unsupported {
        /// What the request is written in.
        requested: String,
        /// What is served.
        supported: Vec<Revision>,
    },
}

/// Judges a request: `None` if it is none of the modern era.
///
/// A server of no modern revision takes all requests for legacy ones. To a client that looks for the era of a server, -32022
/// would be the sign of a modern one, to which it must not fall back with `initialize`: MCP 2026-07-28,
/// basic/transports/stdio, "Backward Compatibility".
///
/// | `protocolVersion` | `clientCapabilities` | the request |
/// |---|---|---|
/// | absent | absent | is legacy, unless only the modern era has its method |
/// | absent | there | lacks the revision: -32602 |
/// | no string | | is malformed: -32602 |
/// | not served | | -32022 with those that are |
/// | served | absent, or no object | is malformed: -32602 |
/// | served | an object | is served |
#[inline]
pub fn check_meta<'a>(
    method: &str,
    meta: &RequestMeta<'a>,
    supported: &[Revision],
) -> Result<Option<ModernMeta<'a>>, BadMeta> {
    if !supported.iter().rev().any(|revision| revision.is_modern()) {
        return Ok(None);
    }
    let is_modern_only = matches!(method, "server/discover" | "subscriptions/listen");
    let version = match (meta.protocol_version, meta.client_capabilities) {
        (None, None) if !is_modern_only => return Ok(None),
        (None, _) => return Err(BadMeta::Missing(key::PROTOCOL_VERSION)),
        (Some(version), _) => Text::from_json(version).and_then(Text::to_str),
    };
    let Some(version) = version else { return Err(BadMeta::Wrong(key::PROTOCOL_VERSION, "a string")) };
    let served = |revision: &Revision| revision.is_modern() && supported.contains(revision);
    let Some(revision) = Revision::parse(&version).filter(served) else {
        let supported = supported.iter().copied().filter(|it| it.is_modern()).collect();
        return Err(BadMeta::Unsupported { requested: version.into_owned(), supported });
    };
    let client_capabilities = match meta.client_capabilities {
        None => return Err(BadMeta::Missing(key::CLIENT_CAPABILITIES)),
        Some(capabilities) if capabilities.kind() == Kind::Object => capabilities,
        Some(_) => return Err(BadMeta::Wrong(key::CLIENT_CAPABILITIES, "an object")),
    };
    let log_level = match meta.log_level.map(Json::to) {
        None => None,
        Some(Ok(level)) => Some(level),
        Some(Err(_)) => return Err(BadMeta::Wrong(key::LOG_LEVEL, "a log level")),
    };
    Ok(Some(ModernMeta { revision, client_capabilities, log_level }))
}

impl BadMeta {
    /// What the sender is told.
    pub fn error(&self) -> ErrorObject {
        match self {
            Self::Missing(name) => {
                ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: _meta lacks {name}"))
            }
            Self::Wrong(name, what) => {
                ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: _meta's {name} must be {what}"))
            }
            Self::Unsupported { requested, supported } => {
                ErrorObject::new(code::UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version")
                    .with_data(&Unsupported { supported, requested })
            }
        }
    }
}

#[derive(Serialize)]
struct Unsupported<'a> {
    supported: &'a [Revision],
    requested: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(method: &str, meta: &str) -> Result<Option<Revision>, BadMeta> {
        let meta = RequestMeta::read(Json::parse(meta.as_bytes()).expect("JSON"));
        check_meta(method, &meta, &Revision::ALL).map(|modern| modern.map(|modern| modern.revision))
    }

    const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion""#;
    const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities""#;

    #[test]
    fn all_of_the_table() {
        let modern = Ok(Some(Revision::V2026_07_28));
        let unsupported = |requested: &str| {
            let supported = vec![Revision::V2026_07_28];
            Err(BadMeta::Unsupported { requested: requested.to_owned(), supported })
        };
        for (meta, expected) in [
            ("{}".to_owned(), Ok(None)),
            ("7".to_owned(), Ok(None)),
            (r#"{"progressToken":1}"#.to_owned(), Ok(None)),
            (format!("{{{CAPABILITIES}:{{}}}}"), Err(BadMeta::Missing(key::PROTOCOL_VERSION))),
            (format!("{{{VERSION}:7,{CAPABILITIES}:{{}}}}"), Err(BadMeta::Wrong(key::PROTOCOL_VERSION, "a string"))),
            (format!("{{{VERSION}:\"v9\",{CAPABILITIES}:{{}}}}"), unsupported("v9")),
            (format!("{{{VERSION}:\"2025-11-25\",{CAPABILITIES}:{{}}}}"), unsupported("2025-11-25")),
            (format!("{{{VERSION}:\"v9\"}}"), unsupported("v9")),
            (format!("{{{VERSION}:\"2026-07-28\"}}"), Err(BadMeta::Missing(key::CLIENT_CAPABILITIES))),
            (
                format!("{{{VERSION}:\"2026-07-28\",{CAPABILITIES}:[]}}"),
                Err(BadMeta::Wrong(key::CLIENT_CAPABILITIES, "an object")),
            ),
            (format!("{{{VERSION}:\"2026-07-28\",{CAPABILITIES}:{{}}}}"), modern.clone()),
            (format!("{{{VERSION}:\"2026-07-2\\u0038\",{CAPABILITIES}:{{\"x\":{{}}}}}}"), modern),
        ] {
            assert_eq!(judged("tools/list", &meta), expected, "{meta}");
        }
    }

    #[test]
    fn a_method_of_the_modern_era_needs_its_metadata() {
        for method in ["server/discover", "subscriptions/listen"] {
            assert_eq!(judged(method, "{}"), Err(BadMeta::Missing(key::PROTOCOL_VERSION)));
        }
    }

    #[test]
    fn a_server_of_the_legacy_era_sees_no_modern_requests() {
        let meta = format!("{{{VERSION}:\"2026-07-28\",{CAPABILITIES}:{{}}}}");
        let meta = RequestMeta::read(Json::parse(meta.as_bytes()).expect("JSON"));
        for method in ["tools/list", "server/discover"] {
            assert!(check_meta(method, &meta, &[Revision::V2025_06_18]).expect("not refused").is_none());
        }
    }

    #[test]
    fn a_log_level_must_be_one() {
        let with = |level: &str| {
            let level = format!("\"io.modelcontextprotocol/logLevel\":{level}");
            judged("tools/list", &format!("{{{VERSION}:\"2026-07-28\",{CAPABILITIES}:{{}},{level}}}"))
        };
        assert_eq!(with("\"warning\""), Ok(Some(Revision::V2026_07_28)));
        for bad in ["\"loud\"", "7", "null"] {
            assert_eq!(with(bad), Err(BadMeta::Wrong(key::LOG_LEVEL, "a log level")), "{bad}");
        }
    }
}
