//! Headers that a user gives -> headers that can be sent, and those that stay at home.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::super::credentials::Secret;
use super::error::FetchError;

/// The user's headers, checked: names and values without line breaks, and none that is the protocol's own.
pub(super) fn custom(given: &[(String, Secret)]) -> Result<HeaderMap, FetchError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let bad = |what| FetchError::Header { name: name.clone(), what };
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad("is not a header's name: letters, digits and - are, without spaces and colons"))?;
        if RESERVED.contains(&key.as_str()) || key.as_str().starts_with("mcp-") {
            return Err(bad("is the protocol's own and cannot be set"));
        }
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| bad("has a value that cannot be sent: is there a line break in it?"))?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

/// `Bearer` with this token.
pub(super) fn bearer(token: &Secret) -> Result<HeaderValue, FetchError> {
    let bad = |what| FetchError::Header { name: header::AUTHORIZATION.to_string(), what };
    let token = token.expose();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad("cannot be sent: the token is empty, or has a space or a line break in it"));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| bad("cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// What of a request's headers may go to another origin: what describes the message, and nothing that says who sends it or
/// which session it belongs to. A list of what may, so that what is added later stays at home.
pub(super) fn cross_origin(headers: &HeaderMap) -> HeaderMap {
    let is_allowed =
        |name: &HeaderName| CROSS_ORIGIN_ALLOWED.contains(&name.as_str()) || name.as_str().starts_with("mcp-param-");
    let kept = headers.iter().filter(|(name, _)| is_allowed(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Set by the protocol, or by HTTP for one connection.
const RESERVED: [&str; 15] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    // In a tunnel it would go to the server. A proxy's credentials are part of its URL.
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const CROSS_ORIGIN_ALLOWED: [&str; 6] =
    ["accept", "content-type", "mcp-method", "mcp-name", "mcp-protocol-version", "user-agent"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_header_is_refused_by_name_and_not_by_value() {
        for (name, value) in [
            ("X-Key", "hunter2\r\nInjected: yes"),
            ("X-Key", "hunter2\n"),
            ("X-Key", "hunter2\0"),
            ("X Key", "hunter2"),
            ("X-Key:", "hunter2"),
            ("X\r\nY", "hunter2"),
            ("", "hunter2"),
            ("Content-Length", "hunter2"),
            ("Host", "hunter2"),
            ("Proxy-Authorization", "hunter2"),
            ("Transfer-Encoding", "hunter2"),
            ("Mcp-Session-Id", "hunter2"),
            ("MCP-Protocol-Version", "hunter2"),
        ] {
            let error = custom(&[(name.to_owned(), value.into())]).unwrap_err();
            assert!(matches!(&error, FetchError::Header { name: named, .. } if named == name), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
            assert!(!error.to_string().contains(['\r', '\n', '\0']), "{error}");
        }
    }

    #[test]
    fn values_are_marked_as_secrets_and_may_come_twice() {
        let given = [("X-Key".to_owned(), "a".into()), ("x-key".to_owned(), "b".into())];
        let headers = custom(&given).unwrap();
        assert_eq!(headers.get_all("x-key").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert!(bearer(&"abc".into()).unwrap().is_sensitive());
    }

    #[test]
    fn a_token_with_a_line_break_is_refused_without_being_shown() {
        for token in ["", "hunter2\n", "hunter2 x", "hunter2\r\nX: y", "hunterß"] {
            let error = bearer(&token.into()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
        }
    }
}
