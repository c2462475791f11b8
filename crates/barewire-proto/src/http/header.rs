//! The names of the HTTP headers of MCP, and functions that read header values.

use std::fmt;

/// The header with the protocol revision of a message or of its session.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The header with the session id of a legacy message.
pub const SESSION_ID: &str = "mcp-session-id";
/// The header with the method of the request in the body.
pub const METHOD: &str = "mcp-method";
/// The header with the name or URI that the request in the body is about.
pub const NAME: &str = "mcp-name";
/// The prefix of the headers that repeat an argument of a tool call.
pub const PARAM: &str = "mcp-param-";
/// The header with the id of the last event that the client received on a stream.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// The headers of one HTTP request or response.
pub trait Headers {
    /// Returns the values of a header, in order. `name` is in lower case; header names are compared without regard to
    /// case.
    fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]>;
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Headers for [(N, V)] {
    fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let named = move |(found, _): &&(N, V)| found.as_ref().eq_ignore_ascii_case(name);
        self.iter().filter(named).map(|(_, value)| value.as_ref())
    }
}

/// The error for a header that occurs more than once although it must occur at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepeatedHeader;

impl fmt::Display for RepeatedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the header occurs more than once")
    }
}

impl std::error::Error for RepeatedHeader {}

/// Returns the value of a header that must not be repeated, without the white space around it (RFC 9110, section 5.5).
///
/// Two values are refused even if they are equal, because an intermediary could have read only one of them.
pub fn single<'a>(headers: &'a (impl Headers + ?Sized), name: &str) -> Result<Option<&'a [u8]>, RepeatedHeader> {
    let mut values = headers.values(name);
    let value = values.next();
    match values.next() {
        Some(_) => Err(RepeatedHeader),
        None => Ok(value.map(trim)),
    }
}

/// Strips the spaces and tabs around a value.
pub(super) fn trim(value: &[u8]) -> &[u8] {
    let is_value = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_value).unwrap_or(value.len());
    let end = value.iter().rposition(is_value).map_or(start, |last| last + 1);
    &value[start..end]
}

/// Whether the byte can occur in a token, such as the name of a header or parameter: RFC 9110, section 5.6.2.
pub(super) fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Splits a value at each separator outside quotes, and strips the white space around the parts.
pub(super) fn split(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut quoted, mut escaped) = (false, false);
        let end = text.iter().position(|byte| {
            match (quoted, escaped, byte) {
                (true, true, _) => escaped = false,
                (true, false, b'\\') => escaped = true,
                (_, false, b'"') => quoted = !quoted,
                (false, _, byte) => return *byte == separator,
                _ => {}
            }
            false
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(trim(&text[..end.unwrap_or(text.len())]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case_and_values_are_trimmed() {
        let headers = [("Mcp-Name", " \t a b\t"), ("MCP-NAME", "c"), ("mcp-method", ""), ("x", "  ")];
        assert_eq!(headers[..].values(NAME).count(), 2);
        assert_eq!(single(&headers[..], NAME), Err(RepeatedHeader));
        assert_eq!(single(&headers[..1], NAME), Ok(Some(&b"a b"[..])));
        assert_eq!(single(&headers[..], METHOD), Ok(Some(&b""[..])));
        assert_eq!(single(&headers[..], "x"), Ok(Some(&b""[..])));
        assert_eq!(single(&headers[..], SESSION_ID), Ok(None));
    }

    #[test]
    fn separators_in_quotes_are_ignored() {
        let parts = |value: &'static str| {
            split(value.as_bytes(), b',').map(|part| std::str::from_utf8(part).expect("ASCII")).collect::<Vec<_>>()
        };
        assert_eq!(parts(r#"a, b="c,d" ,e"#), ["a", r#"b="c,d""#, "e"]);
        assert_eq!(parts(r#"a="\",",b"#), [r#"a="\",""#, "b"]);
        assert_eq!(parts(r#"a="b,c"#), [r#"a="b,c"#]);
        assert_eq!(parts(""), [""]);
        assert_eq!(parts(",,"), ["", "", ""]);
    }
}
