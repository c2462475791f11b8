//! An `http` or `https` URL -> its normal form without query and fragment, in which two URLs of one resource are equal.
//! RFC 3986, sections 6.2.2 and 6.2.3, as RFC 9449, section 4.3, asks for.

use crate::http::Authority;

/// Returns the normal form of a URL: scheme and host in lower case, no default port, no dot segments, percent-encoding
/// only where it is needed, `/` for an empty path, and neither query nor fragment. `None` means that the text is not an
/// absolute `http` or `https` URL, or that it has a user name.
pub fn normal_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (scheme, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => ("http", 80),
        "https" => ("https", 443),
        _ => return None,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let mut authority = Authority::parse(authority.as_bytes()).ok()?;
    authority.port = authority.port.filter(|port| *port != default_port);
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    Some(format!("{scheme}://{authority}{}", without_dots(&normal_escapes(path)?)))
}

/// Writes each escape in upper case, and each escaped letter that needs no escape as itself. `None` means that an escape
/// is incomplete, or that there is a character that a path cannot have.
fn normal_escapes(path: &str) -> Option<String> {
    let mut out = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let byte = digit()? << 4 | digit()?;
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    out.push(char::from(byte));
                } else {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
            b'!'..=b'~' if !b"\"<>\\^`{|}".contains(&byte) => out.push(char::from(byte)),
            _ => return None,
        }
    }
    Some(out)
}

/// Removes the segments `.` and `..` of a path (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
        if matches!(segment, "." | "..") && segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_resource_are_equal() {
        for (text, normal) in [
            ("https://mcp.example.com/mcp", "https://mcp.example.com/mcp"),
            ("HTTPS://MCP.Example.COM/mcp", "https://mcp.example.com/mcp"),
            ("https://mcp.example.com:443/mcp", "https://mcp.example.com/mcp"),
            ("http://mcp.example.com:80/mcp", "http://mcp.example.com/mcp"),
            ("https://mcp.example.com:80/mcp", "https://mcp.example.com:80/mcp"),
            ("https://mcp.example.com/mcp?a=b#c", "https://mcp.example.com/mcp"),
            ("https://mcp.example.com", "https://mcp.example.com/"),
            ("https://mcp.example.com?a", "https://mcp.example.com/"),
            ("https://mcp.example.com/a/../mcp", "https://mcp.example.com/mcp"),
            ("https://mcp.example.com/../../mcp/.", "https://mcp.example.com/mcp/"),
            ("https://mcp.example.com/%6d%63p", "https://mcp.example.com/mcp"),
            ("https://mcp.example.com/a%2fb", "https://mcp.example.com/a%2Fb"),
            ("https://mcp.example.com/%2e%2E/mcp", "https://mcp.example.com/mcp"),
            ("https://[::1]:8443/mcp", "https://[::1]:8443/mcp"),
            ("https://[0:0:0:0:0:0:0:1]/mcp", "https://[::1]/mcp"),
            ("https://mcp.example.com/MCP", "https://mcp.example.com/MCP"),
            ("https://mcp.example.com/mcp/", "https://mcp.example.com/mcp/"),
        ] {
            assert_eq!(normal_url(text).as_deref(), Some(normal), "{text}");
            assert_eq!(normal_url(normal).as_deref(), Some(normal), "the normal form is its own: {normal}");
        }
    }

    #[test]
    fn other_texts_have_no_normal_form() {
        for text in [
            "",
            "mcp",
            "/mcp",
            "//mcp.example.com/mcp",
            "ftp://mcp.example.com/",
            "https:/mcp.example.com",
            "https://",
            "https:///mcp",
            "https://user@mcp.example.com/",
            "https://mcp.example.com:99999/",
            "https://mcp.example.com/%2",
            "https://mcp.example.com/%zz",
            "https://mcp.example.com/a b",
            "https://mcp.example.com/\u{e9}",
            "https://mcp.example.com\\@evil.example/",
        ] {
            assert_eq!(normal_url(text), None, "{text}");
        }
    }
}
