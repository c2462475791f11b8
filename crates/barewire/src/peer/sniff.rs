//! The first bytes of a stream that anybody can open -> whether a browser is behind it.
//!
//! A web page can make a browser open a connection to any port of the machine and send an HTTP request with a body of the
//! page's choice. Were the lines of that body taken for messages, a page could drive the program behind the port.

/// What the first bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing yet.
    More,
    /// The first line is no HTTP request.
    Fine,
    /// It is one.
    Http,
}

/// Judges the beginning of a stream.
pub(super) fn judge(begins: &[u8]) -> Verdict {
    // An HTTP server has to skip line breaks before a request, so a careful attacker may send some.
    let start = begins.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(begins.len());
    let begins = &begins[start..];
    let end = begins.iter().position(|byte| *byte == b'\n');
    let line = &begins[..end.unwrap_or(begins.len())];
    let mut words = line.trim_ascii_end().split(|byte| *byte == b' ');
    let method = words.next().unwrap_or_default();
    if !begins.is_empty() && (method.is_empty() || !method.iter().all(u8::is_ascii_alphanumeric)) {
        return Verdict::Fine;
    }
    let is_request = line.contains(&b' ') && words.next_back().is_some_and(|last| last.starts_with(b"HTTP/"));
    match end {
        Some(_) if is_request => Verdict::Http,
        Some(_) => Verdict::Fine,
        None if begins.len() < LONGEST => Verdict::More,
        // A target longer than any server takes, in the hope that we stop looking.
        None if METHODS.contains(&method) => Verdict::Http,
        None => Verdict::Fine,
    }
}

/// As much as HTTP servers commonly allow a request line.
const LONGEST: usize = 8 * 1024;

/// What a browser can be made to send.
const METHODS: [&[u8]; 8] = [b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"PATCH", b"PRI"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_told_from_messages_by_the_first_line() {
        let long = format!("POST /{}", "a".repeat(LONGEST));
        for (begins, verdict) in [
            ("", Verdict::More),
            ("\r\n", Verdict::More),
            ("P", Verdict::More),
            ("POST / HTTP/1.1", Verdict::More),
            ("POST / HTTP/1.1\r\n", Verdict::Http),
            ("\r\n\nGET /x?y HTTP/1.0\n", Verdict::Http),
            ("PRI * HTTP/2.0\r\n", Verdict::Http),
            ("foo / HTTP/1.1\r\n", Verdict::Http),
            (&long, Verdict::Http),
            ("{", Verdict::Fine),
            ("{\"method\":\"GET / HTTP/1.1\"}\n", Verdict::Fine),
            ("[", Verdict::Fine),
            (" {", Verdict::Fine),
            ("HELLO there\n", Verdict::Fine),
            ("Content-Length: 2\r\n", Verdict::Fine),
            ("HTTP/1.1\n", Verdict::Fine),
        ] {
            assert_eq!(judge(begins.as_bytes()), verdict, "{begins}");
        }
    }
}
