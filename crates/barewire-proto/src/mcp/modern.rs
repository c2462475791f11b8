//! The modern era: checks the `_meta` of a request to decide whether the request is modern and can be served.
//!
//! The modern era has no handshake and no state between requests: MCP 2026-07-28, basic/index, "Statelessness". Each
//! request states its revision and the capabilities of the client.

use serde::Serialize;

use super::{LoggingLevel, RequestMeta, Revision, code, key};
use crate::json::{Json, Kind, Text};
use crate::rpc::{Code, ErrorObject};

/// The valid `_meta` of a modern request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ModernMeta<'a> {
    /// The revision of the request.
    pub revision: Revision,
    /// The capabilities of the client, which are a JSON object.
    pub client_capabilities: Json<'a>,
    /// The minimum level of the log messages to send; `None` to send no log messages.
    pub log_level: Option<LoggingLevel>,
}

/// The reason why a modern request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadMeta {
    /// A required member is missing. Holds its name.
    Missing(&'static str),
    /// A member has a wrong type or value. Holds the name of the member, and a description of valid values.
    Wrong(&'static str, &'static str),
    /// The revision is not supported.
    Unsupported {
        /// The revision of the request.
        requested: String,
        /// The supported modern revisions.
        supported: Vec<Revision>,
    },
}

/// Checks the `_meta` of a request. Returns `None` if the request is not modern.
///
/// A server that supports no modern revision treats all requests as legacy. It must not send -32022, because a client
/// would conclude from that code that the server is modern, and would not fall back to `initialize`. MCP 2026-07-28,
/// basic/transports/stdio, "Backward Compatibility".
///
/// | `protocolVersion` | `clientCapabilities` | result |
/// |---|---|---|
/// | absent | absent | legacy, unless only the modern era has the method |
/// | absent | present | the revision is missing: -32602 |
/// | not a string | | malformed: -32602 |
/// | not supported | | -32022 with the supported revisions |
/// | supported | absent, or not an object | malformed: -32602 |
/// | supported | an object | valid |
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
    /// Returns the error response for the request.
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
                    .with_data(&UnsupportedData { supported, requested })
            }
        }
    }
}

#[derive(Serialize)]
struct UnsupportedData<'a> {
    supported: &'a [Revision],
    requested: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(method: &str, meta: &str) -> Result<Option<Revision>, BadMeta> {
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
            assert_eq!(checked("tools/list", &meta), expected, "{meta}");
        }
    }

    #[test]
    fn a_modern_method_needs_metadata() {
        for method in ["server/discover", "subscriptions/listen"] {
            assert_eq!(checked(method, "{}"), Err(BadMeta::Missing(key::PROTOCOL_VERSION)));
        }
    }

    #[test]
    fn a_legacy_server_treats_all_requests_as_legacy() {
        let meta = format!("{{{VERSION}:\"2026-07-28\",{CAPABILITIES}:{{}}}}");
        let meta = RequestMeta::read(Json::parse(meta.as_bytes()).expect("JSON"));
        for method in ["tools/list", "server/discover"] {
            assert!(check_meta(method, &meta, &[Revision::V2025_06_18]).expect("not refused").is_none());
        }
    }

    #[test]
    fn the_log_level_must_be_valid() {
        let with = |level: &str| {
            let level = format!("\"io.modelcontextprotocol/logLevel\":{level}");
            checked("tools/list", &format!("{{{VERSION}:\"2026-07-28\",{CAPABILITIES}:{{}},{level}}}"))
        };
        assert_eq!(with("\"warning\""), Ok(Some(Revision::V2026_07_28)));
        for bad in ["\"loud\"", "7", "null"] {
            assert_eq!(with(bad), Err(BadMeta::Wrong(key::LOG_LEVEL, "a log level")), "{bad}");
        }
    }
}
