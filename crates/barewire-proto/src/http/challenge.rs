//! The `WWW-Authenticate` header: the challenge of a server that requires authorization. RFC 9110, section 11.6.1, and
//! RFC 6750, section 3.

use std::fmt;

use super::Headers;
use super::header::is_tchar;

/// The name of the header.
pub const WWW_AUTHENTICATE: &str = "www-authenticate";

/// A `Bearer` challenge, which asks the client for an access token.
///
/// ```
/// use barewire_proto::http::challenge::Bearer;
///
/// let bearer = Bearer::default()
///     .resource_metadata("https://mcp.example.com/.well-known/oauth-protected-resource")
///     .scope("files:read");
/// let value = bearer.value()?;
/// assert!(value.starts_with("Bearer resource_metadata=\"https://mcp.example.com/"));
/// # Ok::<(), barewire_proto::http::challenge::BadValue>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bearer<'a> {
    /// The name of the protected area, to display to people.
    pub realm: Option<&'a str>,
    /// The URL of the metadata document that describes the protected resource.
    pub resource_metadata: Option<&'a str>,
    /// The error code: `invalid_request`, `invalid_token` or `insufficient_scope`; `None` if the request had no token.
    pub error: Option<&'a str>,
    /// The required scopes, separated by spaces.
    pub scope: Option<&'a str>,
    /// The description of the error, to display to people. Characters that the header does not allow are replaced.
    pub error_description: Option<&'a str>,
}

setters! { Bearer<'a> {
    realm: Option<&'a str>, resource_metadata: Option<&'a str>, error: Option<&'a str>, scope: Option<&'a str>,
    error_description: Option<&'a str>,
} }

impl Bearer<'_> {
    /// Returns the value of the header.
    pub fn value(&self) -> Result<String, BadValue> {
        self.write("Bearer", None)
    }

    fn write(&self, scheme: &str, algs: Option<&str>) -> Result<String, BadValue> {
        // RFC 6750 does not allow characters that need escapes in the description, and many parsers do not handle
        // escapes.
        let description: Option<String> = self.error_description.map(|text| {
            let letter = |letter| match letter {
                '"' => '\'',
                '\\' => '/',
                ' '..='~' => letter,
                letter if letter.is_control() => ' ',
                _ => '?',
            };
            text.chars().map(letter).collect()
        });
        let mut out = String::from(scheme);
        let mut separator = " ";
        for (name, value) in [
            ("algs", algs),
            ("realm", self.realm),
            ("resource_metadata", self.resource_metadata),
            ("error", self.error),
            ("scope", self.scope),
            ("error_description", description.as_deref()),
        ] {
            let Some(value) = value else { continue };
            out.push_str(separator);
            out.push_str(name);
            out.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '"' | '\\' if name == "realm" => out.extend(['\\', letter]),
                    ' '..='~' if !matches!(letter, '"' | '\\') => out.push(letter),
                    _ => return Err(BadValue { name }),
                }
            }
            out.push('"');
            separator = ", ";
        }
        Ok(out)
    }
}

/// A `DPoP` challenge, which asks the client for an access token that is bound to a key, and for a proof that the client
/// has this key. RFC 9449, section 7.1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dpop<'a> {
    /// The algorithms of proofs that the server accepts, separated by spaces.
    pub algs: Option<&'a str>,
    /// The parameters that the challenge has in common with a `Bearer` challenge.
    pub params: Bearer<'a>,
}

impl Dpop<'_> {
    /// Returns the value of the header.
    pub fn value(&self) -> Result<String, BadValue> {
        self.params.write("DPoP", self.algs)
    }
}

/// The error for a parameter that a challenge cannot hold: it contains quotes, backslashes, or characters that are not
/// printable ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadValue {
    /// The name of the parameter.
    pub name: &'static str,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of a challenge must be printable ASCII, without quotes and backslashes", self.name)
    }
}

impl std::error::Error for BadValue {}

/// A challenge of any scheme, as received in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme as the server wrote it. Schemes are compared without regard to case.
    pub scheme: String,
    /// The token that a few schemes use instead of parameters.
    pub token68: Option<String>,
    /// The parameters: names in lower case, values without their quotes.
    pub params: Vec<(String, String)>,
}

impl Challenge {
    /// Whether the challenge has this scheme, compared without regard to case.
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Returns a parameter by its name in lower case. If the name occurs twice, the first value is returned.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }
}

/// The maximum number of bytes of one `WWW-Authenticate` header that are read.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The maximum number of challenges that are read, and of parameters per challenge.
const MAX_ITEMS: usize = 32;

/// Returns the challenges of a response, in order.
///
/// A syntax error ends the parsing of its header. The challenges before the error are kept, because many servers send
/// malformed headers. At most 32 challenges with 32 parameters each and 16 KiB of each header are read.
pub fn parse(headers: &(impl Headers + ?Sized)) -> Vec<Challenge> {
    let mut found = Vec::new();
    for value in headers.values(WWW_AUTHENTICATE) {
        let mut reader = ChallengeReader { rest: &value[..value.len().min(MAX_HEADER_BYTES)] };
        // `None` means a syntax error. The challenges before the error are already in `found`.
        let _ = reader.challenges(&mut found);
    }
    found
}

struct ChallengeReader<'a> {
    rest: &'a [u8],
}

impl<'a> ChallengeReader<'a> {
    fn challenges(&mut self, found: &mut Vec<Challenge>) -> Option<()> {
        self.commas();
        while !self.rest.is_empty() && found.len() < MAX_ITEMS {
            let scheme = self.token()?;
            if !matches!(self.rest, [] | [b' ' | b'\t' | b',', ..]) {
                return None;
            }
            found.push(Challenge { scheme, token68: None, params: Vec::new() });
            let challenge = found.last_mut()?;
            if self.spaces() {
                challenge.token68 = self.token68();
                if challenge.token68.is_none() {
                    self.params(challenge)?;
                }
            }
            self.end_of_element()?;
        }
        Some(())
    }

    /// Reads parameters up to the scheme of the next challenge or the end of the header.
    fn params(&mut self, challenge: &mut Challenge) -> Option<()> {
        loop {
            let before = self.rest;
            self.commas();
            let Some(name) = self.token() else {
                self.rest = before;
                return Some(());
            };
            self.spaces();
            if !self.eat(b'=') {
                // A token without `=` is the next scheme.
                self.rest = before;
                return Some(());
            }
            self.spaces();
            let value = if self.eat(b'"') { self.quoted()? } else { self.token()? };
            let is_new = challenge.param(&name.to_ascii_lowercase()).is_none();
            if is_new && challenge.params.len() < MAX_ITEMS {
                challenge.params.push((name.to_ascii_lowercase(), value));
            }
            self.spaces();
            if !self.rest.is_empty() && self.rest.first() != Some(&b',') {
                return None;
            }
        }
    }

    /// Consumes the comma after a challenge and the empty elements after it; at the end of the header, nothing.
    fn end_of_element(&mut self) -> Option<()> {
        self.spaces();
        if !self.rest.is_empty() && self.rest.first() != Some(&b',') {
            return None;
        }
        self.commas();
        Some(())
    }

    fn token(&mut self) -> Option<String> {
        let token = self.take(is_tchar);
        (!token.is_empty()).then(|| String::from_utf8_lossy(token).into_owned())
    }

    /// Consumes a token68 (RFC 9110, section 11.2) if the challenge ends after it; otherwise consumes nothing.
    fn token68(&mut self) -> Option<String> {
        let before = self.rest;
        let letters = self.take(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte));
        let padding = self.take(|byte| byte == b'=');
        let token = &before[..letters.len() + padding.len()];
        self.spaces();
        if !letters.is_empty() && matches!(self.rest, [] | [b',', ..]) {
            return Some(String::from_utf8_lossy(token).into_owned());
        }
        self.rest = before;
        None
    }

    /// Consumes a quoted string up to its closing quote, and removes the backslashes of escapes.
    fn quoted(&mut self) -> Option<String> {
        let mut value = Vec::new();
        loop {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            match byte {
                b'"' => return Some(String::from_utf8_lossy(&value).into_owned()),
                b'\\' => {
                    let (escaped, rest) = rest.split_first()?;
                    self.rest = rest;
                    value.push(*escaped);
                }
                byte => value.push(*byte),
            }
        }
    }

    fn take(&mut self, keeps: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !keeps(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn spaces(&mut self) -> bool {
        !self.take(|byte| matches!(byte, b' ' | b'\t')).is_empty()
    }

    fn commas(&mut self) {
        self.take(|byte| matches!(byte, b' ' | b'\t' | b','));
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.strip_prefix(&[byte]);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns each challenge as text: `Scheme token68 name=value …`.
    fn read(values: &[&[u8]]) -> Vec<String> {
        let headers: Vec<_> = values.iter().map(|value| ("WWW-Authenticate", *value)).collect();
        let line = |challenge: &Challenge| {
            let token68 = challenge.token68.iter().map(|token| format!(" {token}"));
            let params = challenge.params.iter().map(|(name, value)| format!(" {name}={value:?}"));
            challenge.scheme.clone() + &token68.chain(params).collect::<String>()
        };
        parse(&headers[..]).iter().map(line).collect()
    }

    #[test]
    fn a_bearer_challenge_is_written_and_read() {
        let bearer = Bearer {
            realm: Some(r#"a "b" \c"#),
            resource_metadata: Some("https://mcp.example.com/.well-known/oauth-protected-resource"),
            error: Some("insufficient_scope"),
            scope: Some("files:read files:write"),
            error_description: Some("No \"write\"\r\nX-Evil: ü\\"),
        };
        let value = bearer.value().expect("can be written");
        assert!(!value.contains(['\r', '\n']));
        assert_eq!(
            read(&[value.as_bytes()]),
            [concat!(
                r#"Bearer realm="a \"b\" \\c" "#,
                r#"resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource" "#,
                r#"error="insufficient_scope" scope="files:read files:write" "#,
                r#"error_description="No 'write'  X-Evil: ?/""#
            )]
        );
        assert_eq!(Bearer::default().value().as_deref(), Ok("Bearer"));
    }

    #[test]
    fn no_value_can_leave_its_quotes() {
        for bad in ["a\r\nSet-Cookie: b", "a\"", "a\\", "ü", "a\0", "\x7f", "a\tb"] {
            let some = Some(bad);
            assert_eq!(Bearer { error: some, ..Bearer::default() }.value(), Err(BadValue { name: "error" }));
            assert_eq!(Bearer { scope: some, ..Bearer::default() }.value(), Err(BadValue { name: "scope" }));
            let metadata = Bearer { resource_metadata: some, ..Bearer::default() };
            assert_eq!(metadata.value(), Err(BadValue { name: "resource_metadata" }));
            let described = Bearer { error_description: some, ..Bearer::default() }.value().expect("replaced");
            assert!(described.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        }
        for bad in ["a\nb", "ü", "\x7f"] {
            assert!(Bearer { realm: Some(bad), ..Bearer::default() }.value().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn challenges_are_read_by_the_grammar() {
        for (values, expected) in [
            (&[&b""[..]][..], &[][..]),
            (&[b" , ,"], &[]),
            (&[b"Bearer"], &["Bearer"]),
            (&[b"Bearer "], &["Bearer"]),
            (&[b"bearer scope=a"], &[r#"bearer scope="a""#]),
            (&[br#"Bearer SCOPE = "a b" , error="x""#], &[r#"Bearer scope="a b" error="x""#]),
            (&[br#"Bearer scope="a, b=\"c\", D e", error=x"#], &[r#"Bearer scope="a, b=\"c\", D e" error="x""#]),
            (&[br#"Bearer ,, scope="a",,error=x,"#], &[r#"Bearer scope="a" error="x""#]),
            // RFC 9110, section 11.6.1.
            (
                &[br#"Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\"""#],
                &[r#"Basic realm="simple""#, r#"Newauth realm="apps" type="1" title="Login to \"apps\"""#],
            ),
            (&[b"Negotiate, Bearer, Basic realm=x"], &["Negotiate", "Bearer", r#"Basic realm="x""#]),
            (&[b"Negotiate YWJj==, Bearer scope=a"], &["Negotiate YWJj==", r#"Bearer scope="a""#]),
            (&[b"Negotiate a-b._~+/=", b"Bearer error=x"], &["Negotiate a-b._~+/=", r#"Bearer error="x""#]),
            (&[b"Digest abc"], &["Digest abc"]),
            // If two parameters have the same name, the first is used.
            (&[b"Bearer scope=a, Scope=b"], &[r#"Bearer scope="a""#]),
            // A syntax error ends the parsing of its own header, but not of the next one.
            (&[b"Bearer scope=\"a", b"Basic realm=x"], &["Bearer", r#"Basic realm="x""#]),
            (&[b"Bearer error=x, scope=\"a\\"], &[r#"Bearer error="x""#]),
            (&[b"Bearer error=x scope=y"], &[r#"Bearer error="x""#]),
            (&[b"Bearer error=, scope=y"], &["Bearer error="]),
            (&[b"Bearer =x"], &["Bearer"]),
            (&[b"Bearer error=x, =y"], &[r#"Bearer error="x""#]),
            (&[b"\"Bearer\""], &[]),
            (&[b"Bearer/1 error=x"], &[]),
            (&[b"Bearer error=\"\xff\""], &["Bearer error=\"\u{fffd}\""]),
        ] {
            assert_eq!(
                read(values),
                expected,
                "{:?}",
                values.iter().map(|v| v.escape_ascii().to_string()).collect::<Vec<_>>()
            );
        }
        assert_eq!(read(&[]), [""; 0]);
    }

    #[test]
    fn the_size_of_challenges_is_limited() {
        let many = "A, ".repeat(1000);
        assert_eq!(read(&[many.as_bytes(), many.as_bytes()]).len(), MAX_ITEMS);
        let rich = format!("A {}", (0..1000).map(|at| format!("p{at}=1")).collect::<Vec<_>>().join(","));
        let challenges = parse(&[(WWW_AUTHENTICATE, &rich)][..]);
        assert_eq!(challenges.iter().map(|challenge| challenge.params.len()).collect::<Vec<_>>(), [MAX_ITEMS]);
        let long = format!("A p=\"{}\"", "x".repeat(MAX_HEADER_BYTES));
        assert_eq!(read(&[long.as_bytes()]), ["A"]);
    }

    proptest! {
        #[test]
        fn parse_does_not_panic_on_any_bytes(value in any::<Vec<u8>>()) {
            parse(&[(WWW_AUTHENTICATE, value)][..]);
        }

        #[test]
        fn parse_does_not_panic_on_text_like_challenges(value in "[Aa=\", \\\\]{0,40}") {
            parse(&[(WWW_AUTHENTICATE, value)][..]);
        }
    }
}
