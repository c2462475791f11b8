//! Validates the headers that the user has set for an endpoint, and selects the headers that may be sent to another
//! origin.

use barewire_proto::auth::{DPOP, SecretText};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::super::credentials::Secret;
use super::error::FetchError;

/// Validates the endpoint's headers: no line breaks, and no header that the protocol itself sends.
pub(super) fn custom(given: &[(String, Secret)]) -> Result<HeaderMap, FetchError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let bad = |what| FetchError::Header { name: name.clone(), what };
        let key = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad("is not a valid header name: use letters, digits and -, without spaces and colons"))?;
        if RESERVED.contains(&key.as_str()) || key.as_str().starts_with("mcp-") {
            return Err(bad("is set by the protocol and cannot be changed"));
        }
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| bad("has a value that cannot be sent; does it contain a line break?"))?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

/// Returns the `Authorization` value for this token.
pub(super) fn bearer(token: &Secret) -> Result<HeaderValue, FetchError> {
    let bad = |what| FetchError::Header { name: header::AUTHORIZATION.to_string(), what };
    let token = token.expose();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad(
            "cannot be sent: the token is empty or contains a space, a line break or a character outside of ASCII",
        ));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| bad("cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the token and the proof of a request, without the scheme of the token, which a server may leave out.
pub(super) fn secrets(headers: &HeaderMap) -> Vec<SecretText> {
    let values = [header::AUTHORIZATION.as_str(), DPOP].into_iter().filter_map(|name| headers.get(name)?.to_str().ok());
    values.map(|text| SecretText::new(text.split_once(' ').map_or(text, |(_, token)| token))).collect()
}

/// Returns the headers that may be sent to another origin: headers that describe the message, but no headers that
/// identify the sender or its session. Only listed headers are allowed, so that headers added later are not leaked.
pub(super) fn cross_origin(headers: &HeaderMap) -> HeaderMap {
    let is_allowed =
        |name: &HeaderName| CROSS_ORIGIN_ALLOWED.contains(&name.as_str()) || name.as_str().starts_with("mcp-param-");
    let kept = headers.iter().filter(|(name, _)| is_allowed(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Headers that the user cannot set for an endpoint, because the protocol or the HTTP connection sets them.
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
    // Through a tunnel, this header would reach the server. Credentials for a proxy belong in the proxy's URL.
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
    fn invalid_headers_are_refused_without_showing_the_value() {
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
    fn values_are_marked_as_sensitive_and_may_be_repeated() {
        let given = [("X-Key".to_owned(), "a".into()), ("x-key".to_owned(), "b".into())];
        let headers = custom(&given).unwrap();
        assert_eq!(headers.get_all("x-key").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(headers.values().all(HeaderValue::is_sensitive));
        assert!(bearer(&"abc".into()).unwrap().is_sensitive());
    }

    #[test]
    fn an_invalid_token_is_refused_without_being_shown() {
        for token in ["", "hunter2\n", "hunter2 x", "hunter2\r\nX: y", "hunterß"] {
            let error = bearer(&token.into()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
        }
    }
}
