//! Checks whether a stream that any local program can open begins with an HTTP request.
//!
//! A web page can make a browser open a connection to any port of the machine and send an HTTP request with a body of
//! the page's choice. If the lines of that body were handled as messages, a page could control the program that listens
//! on the port.

/// The result of checking the first bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SniffResult {
    /// More bytes are needed.
    NeedMore,
    /// The first line is not an HTTP request.
    NotHttp,
    /// The first line is an HTTP request.
    Http,
}

/// Checks whether a stream that begins with these bytes is an HTTP request.
pub(super) fn sniff(begins: &[u8]) -> SniffResult {
    // HTTP servers skip line breaks before a request, so an attacker might send line breaks to get past this check.
    let start = begins.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(begins.len());
    let begins = &begins[start..];
    let end = begins.iter().position(|byte| *byte == b'\n');
    let line = &begins[..end.unwrap_or(begins.len())];
    let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
    let method = words.next().unwrap_or_default();
    if !begins.is_empty() && (method.is_empty() || !method.iter().all(u8::is_ascii_alphanumeric)) {
        return SniffResult::NotHttp;
    }
    let is_request = line.contains(&b' ') && words.next_back().is_some_and(|last| last.starts_with(b"HTTP/"));
    match end {
        Some(_) if is_request => SniffResult::Http,
        Some(_) => SniffResult::NotHttp,
        None if begins.len() < MAX_REQUEST_LINE => SniffResult::NeedMore,
        // The request line is longer than servers accept, perhaps to get past this check.
        None if HTTP_METHODS.contains(&method) => SniffResult::Http,
        None => SniffResult::NotHttp,
    }
}

/// The maximum length of a request line that HTTP servers commonly accept, in bytes.
const MAX_REQUEST_LINE: usize = 8 * 1024;

/// The HTTP methods that a web page can make a browser send, and the first word of the HTTP/2 preface.
const HTTP_METHODS: [&[u8]; 8] = [b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH", b"PRI"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_told_from_messages_by_the_first_line() {
        let long = format!("POST /{}", "a".repeat(MAX_REQUEST_LINE));
        for (begins, verdict) in [
            ("", SniffResult::NeedMore),
            ("\r\n", SniffResult::NeedMore),
            ("P", SniffResult::NeedMore),
            ("POST / HTTP/1.1", SniffResult::NeedMore),
            ("POST / HTTP/1.1\r\n", SniffResult::Http),
            ("\r\n\nGET /x?y HTTP/1.0\n", SniffResult::Http),
            ("PRI * HTTP/2.0\r\n", SniffResult::Http),
            ("foo / HTTP/1.1\r\n", SniffResult::Http),
            (&long, SniffResult::Http),
            ("{", SniffResult::NotHttp),
            ("{\"method\":\"GET / HTTP/1.1\"}\n", SniffResult::NotHttp),
            ("[", SniffResult::NotHttp),
            (" {", SniffResult::NotHttp),
            ("HELLO there\n", SniffResult::NotHttp),
            ("Content-Length: 2\r\n", SniffResult::NotHttp),
            ("HTTP/1.1\n", SniffResult::NotHttp),
        ] {
            assert_eq!(sniff(begins.as_bytes()), verdict, "{begins}");
        }
    }
}
