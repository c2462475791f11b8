//! The HTTP headers that repeat parts of an outgoing message.

use std::borrow::Cow;

use barewire_proto::http::{header, mcp_name_source, mirror};
use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::RequestParams;
use barewire_proto::rpc::{DEFAULT_DEPTH, Message, Params, Parsed, parse};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use crate::peer::CallError;

/// The parts of a request that its headers repeat.
pub(super) struct MirroredFields<'a> {
    pub(super) method: Cow<'a, str>,
    pub(super) params: RequestParams<'a>,
    /// The revision in the request's `_meta`; `None` in a legacy request.
    version: Option<Cow<'a, str>>,
    /// The name, URI or task id that the request is about.
    name: Option<Cow<'a, str>>,
}

impl<'a> MirroredFields<'a> {
    /// Reads a request or a notification; `None` for anything else.
    pub(super) fn read(message: &'a [u8]) -> Option<Self> {
        let (method, params) = match parse(message, DEFAULT_DEPTH) {
            Parsed::Message(Message::Request(request)) => (request.method, request.params),
            Parsed::Message(Message::Notification(notification)) => (notification.method, notification.params),
            _ => return None,
        };
        let (method, json) = (method.to_name(), params.map(Params::json));
        let params = RequestParams::read(params);
        let text = |json: Option<Json<'a>>| json.and_then(Text::from_json).and_then(Text::to_str);
        let name = match &*method {
            // In the tasks extension, the name header repeats the task id.
            "tasks/get" | "tasks/update" | "tasks/cancel" => {
                json.and_then(|json| json.members().find(|member| member.name == "taskId")).map(|id| id.value)
            }
            method => mcp_name_source(method, &params).and_then(|(_, name)| name),
        };
        Some(Self { method, version: text(params.meta.protocol_version), name: text(name), params })
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version.is_some()
    }

    /// Returns the name of the called tool if the request is a modern `tools/call`. Only for such requests do headers
    /// repeat arguments.
    pub(super) fn tool(&self) -> Option<&str> {
        self.name.as_deref().filter(|_| self.is_modern() && self.method == "tools/call")
    }

    /// Adds the headers that repeat parts of a modern request. Adds none for a legacy request.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) -> Result<(), CallError> {
        let Some(version) = &self.version else { return Ok(()) };
        insert_header(headers, header::PROTOCOL_VERSION, version)?;
        insert_header(headers, header::METHOD, &self.method)?;
        match &self.name {
            Some(name) => insert_header(headers, header::NAME, &mirror::encode(name)),
            None => Ok(()),
        }
    }
}

/// Returns the headers that every POST request has.
pub(super) fn post_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers
}

/// Adds a header. Returns an error if the name or the value is not allowed in HTTP.
pub(super) fn insert_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), CallError> {
    let bad = || CallError::Params(format!("the value for the header {name} cannot be sent in a header"));
    let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    headers.insert(key, HeaderValue::from_str(value).map_err(|_| bad())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(message: &str) -> Vec<String> {
        let mut headers = HeaderMap::new();
        MirroredFields::read(message.as_bytes()).expect("a request").add_headers(&mut headers).expect("can be sent");
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII"))).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_modern_request_is_mirrored_and_a_legacy_one_is_not() {
        let request = |method: &str, params: &str, meta: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}"_meta":{{{meta}}}}}}}"#)
        };
        let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let version = "mcp-protocol-version: 2026-07-28";
        for (method, params, name) in [
            ("tools/list", "", None),
            ("tools/list", r#""name":"a","#, None),
            ("tools/call", r#""name":"a b","#, Some("a b")),
            ("tools/call", r#""name":"\u00e9","#, Some("=?base64?w6k=?=")),
            ("prompts/get", r#""name":"p","uri":"u","#, Some("p")),
            ("resources/read", r#""name":"p","uri":"file:///x","#, Some("file:///x")),
            ("tasks/get", r#""taskId":"7","#, Some("7")),
        ] {
            let mut expected = vec![format!("mcp-method: {method}")];
            expected.extend(name.map(|name| format!("mcp-name: {name}")));
            expected.push(version.to_owned());
            assert_eq!(headers(&request(method, params, meta)), expected);
            assert!(headers(&request(method, params, "")).is_empty());
        }
        let injected = request("a\\r\\nX: y", "", meta);
        let injected = MirroredFields::read(injected.as_bytes()).expect("a request").add_headers(&mut HeaderMap::new());
        assert!(matches!(injected, Err(CallError::Params(_))));
    }
}
