//! The name of a header, a member, a parameter or a variable -> whether its value is a secret.

use super::shapes::{is_path, looks_generated, looks_random};
use super::words::{is_of_a_language, is_path_of_words};

/// Where a name stands says how sure one has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameContext {
    /// `"name": …` in JSON, also in JSON within a string of JSON.
    Member,
    /// `NAME=…`, `--name=…` and `--name …`
    Assigned,
    /// `?name=…` and `&name=…`
    Query,
    /// `name: …`, as in a header or in YAML; and as in prose.
    Plain,
}

/// What a secret name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secret {
    /// A scheme and credentials: `Bearer …`.
    Authorization,
    /// A password, which may be all digits.
    Password,
    /// `pwd`: a password, or the folder that one is in.
    Folder,
    /// `auth`: a name and a password, or which kind is wanted.
    Pair,
    /// Some key: a secret if it looks like one, for tables and caches have keys as well.
    Key,
    /// `token`: that of a parser as well.
    Word,
    /// Anything else.
    Other,
}

impl Secret {
    /// Whether only some values are secrets, so that all of it has to be seen.
    pub(super) const fn is_choosy(self) -> bool {
        matches!(self, Self::Folder | Self::Pair | Self::Key)
    }

    /// Whether this is a secret, under such a name.
    pub(super) fn fits(self, value: &[u8], place: NameContext) -> bool {
        let is_sure = matches!(place, NameContext::Assigned | NameContext::Query);
        match self {
            Self::Folder => !is_path(value),
            Self::Pair => value.contains(&b':') || looks_generated(value),
            Self::Key => looks_generated(value) && (is_sure || looks_random(value)) && !is_path_of_words(value),
            Self::Word => place != NameContext::Member || !is_of_a_language(value),
            Self::Authorization | Self::Password | Self::Other => true,
        }
    }

    /// Whether a number of JSON is a secret, under such a name. A code that is sent to somebody has four digits or more.
    pub(super) fn fits_number(self, digits: &[u8]) -> bool {
        match self {
            Self::Password => digits.iter().any(u8::is_ascii_digit),
            Self::Authorization | Self::Word | Self::Other => {
                digits.len() >= 4 && digits.iter().all(u8::is_ascii_digit)
            }
            Self::Folder | Self::Pair | Self::Key => false,
        }
    }
}

/// What the name says, if it says that its value is a secret.
///
/// Members of the protocol that only look like one stay: `progressToken` and cursors are numbers of pages and calls, and without
/// `requestState` a capture could not be replayed.
pub(super) fn secret(name: &[u8], place: NameContext) -> Option<Secret> {
    if may_be_secret(name) { plain_secret(name, place) } else { None }
}

/// The same of a name in which something is written as `\uNNNN`.
pub(super) fn escaped_secret(name: &[u8], place: NameContext) -> Option<Secret> {
    secret(&unescaped(name), place)
}

/// Whether its last two letters are those of a name that is known here. Almost all names of almost all messages are no secrets, and
/// this is asked for each.
fn may_be_secret(name: &[u8]) -> bool {
    let [.., first, second] = name else { return false };
    if !first.is_ascii_alphanumeric() || !second.is_ascii_alphanumeric() {
        return true;
    }
    match (second.to_ascii_lowercase(), first.to_ascii_lowercase()) {
        (b'n', first) => matches!(first, b'e' | b'o'),
        (b'd', first) => matches!(first, b'i' | b'r' | b'w'),
        (b'e', first) => matches!(first, b'd' | b'i' | b'r' | b's'),
        (b's', first) => matches!(first, b'd' | b'e' | b'l' | b'n' | b's' | b't' | b'y'),
        (b't', first) => matches!(first, b'a' | b'e' | b'w'),
        last => matches!(last, (b'g', b'i') | (b'h', b't') | (b'l', b'a') | (b'p', b't') | (b'r', b'e') | (b'y', b'e')),
    }
}

fn plain_secret(name: &[u8], place: NameContext) -> Option<Secret> {
    let mut plain = [0; LONGEST];
    // What is left out is at the beginning: a name says at its end what it is.
    let tail = &name[name.len().saturating_sub(LONGEST)..];
    // Where its last word begins: behind a sign, or at a capital.
    let (mut length, mut word, mut before) = (0, 0, b'_');
    for byte in tail {
        if byte.is_ascii_alphanumeric() {
            if !before.is_ascii_alphanumeric() || (!before.is_ascii_uppercase() && byte.is_ascii_uppercase()) {
                word = length;
            }
            plain[length] = byte.to_ascii_lowercase();
            length += 1;
        }
        before = *byte;
    }
    let (plain, last, first) = (&plain[..length], &plain[word..length], &plain[..word]);
    if place == NameContext::Query && IN_A_QUERY.contains(&plain) {
        return Some(Secret::Other);
    }
    if place == NameContext::Member && AS_A_MEMBER.contains(&plain) {
        return Some(Secret::Other);
    }
    let ends_in = |ends: &[&[u8]]| ends.iter().any(|end| plain.ends_with(end));
    match plain.last()? {
        b'n' if plain.ends_with(b"authorization") => Some(Secret::Authorization),
        b'd' if ends_in(&[b"password", b"passwd"]) => Some(Secret::Password),
        b'd' if last == b"pwd" => Some(Secret::Folder),
        b'e' if ends_in(&[b"passcode", b"passphrase"]) => Some(Secret::Password),
        b's' if ends_in(&[b"passwords"]) => Some(Secret::Password),
        // Tests pass as well, and say how many.
        b's' if last == b"pass" && place == NameContext::Member => Some(Secret::Other),
        b's' if last == b"pass" && place != NameContext::Plain => Some(Secret::Password),
        b'p' if matches!(last, b"otp" | b"totp") && place != NameContext::Plain => Some(Secret::Password),
        b'r' if last == b"bearer" && place != NameContext::Plain => Some(Secret::Other),
        b'h' if plain == b"auth" && place == NameContext::Assigned => Some(Secret::Pair),
        // How many tokens there are, or may be.
        b's' if ends_in(&[b"tokens"]) && place != NameContext::Member => None,
        b'n' if last == b"token" && (first.is_empty() || OF_A_PARSER.iter().any(|it| first.ends_with(it))) => {
            Some(Secret::Word)
        }
        b'n' | b't' | b'y' | b's' | b'e' | b'l' | b'd' | b'r'
            if ends_in(ENDS) && !ends_in(HARMLESS) && plain != b"tokens" =>
        {
            Some(Secret::Other)
        }
        b't' if last == b"pat" && place != NameContext::Plain => Some(Secret::Key),
        b'y' if last == b"key" && first.is_empty() => (place == NameContext::Assigned).then_some(Secret::Key),
        b'y' if last == b"key" && !HARMLESS_KEYS.iter().any(|end| first.ends_with(end)) => Some(Secret::Key),
        _ => None,
    }
}

/// A name with the characters that `\uNNNN` stands for, however deep the string is that it is in.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        plain.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let slashes = rest.iter().take_while(|b| **b == b'\\').count();
        rest = &rest[slashes..];
        let digits = rest.strip_prefix(b"u").and_then(|rest| rest.get(..4));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(code) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            plain.push(code);
            rest = &rest[5..];
        }
    }
    plain.extend_from_slice(rest);
    plain
}

/// What the name of a header says of its value.
pub(super) fn header(name: &[u8]) -> Option<Secret> {
    let bare = strip_ignoring_case(name, b"mcp-param-").unwrap_or(name);
    match secret(bare, NameContext::Member) {
        None if name.eq_ignore_ascii_case(b"mcp-session-id") => Some(Secret::Other),
        said => said,
    }
}

fn strip_ignoring_case<'a>(text: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    text.get(..start.len()).filter(|begin| begin.eq_ignore_ascii_case(start)).map(|_| &text[start.len()..])
}

/// Longer names say at their end what they are.
const LONGEST: usize = 64;

/// The same with every character of the longest name here escaped.
pub(super) const LONGEST_WRITTEN: usize = 160;

/// Without signs and in small letters, as all names here.
const ENDS: &[&[u8]] = &[
    b"token",
    b"secret",
    b"secrets",
    b"apikey",
    b"apikeys",
    b"accesskey",
    b"secretkey",
    b"privatekey",
    b"authkey",
    b"signingkey",
    b"encryptionkey",
    b"masterkey",
    b"sessionkey",
    b"sshkey",
    b"cookie",
    b"cookies",
    b"credential",
    b"credentials",
    b"sessionid",
    b"codeverifier",
    b"clientassertion",
];

/// Where one is in a list, how far something has come, and the vocabulary of models.
const HARMLESS: &[&[u8]] = &[
    b"progresstoken",
    // How many there are, as models are told of it.
    b"inputtoken",
    b"outputtoken",
    b"prompttoken",
    b"completiontoken",
    b"totaltoken",
    b"maxtoken",
    b"pagetoken",
    b"nexttoken",
    b"continuationtoken",
    b"synctoken",
    b"stoptoken",
    b"eostoken",
    b"bostoken",
    b"padtoken",
    b"maxtoken",
    b"pertoken",
];

/// What stands before `token` where it is one of a language.
const OF_A_PARSER: &[&[u8]] = &[
    b"bad",
    b"current",
    b"end",
    b"expected",
    b"first",
    b"found",
    b"illegal",
    b"invalid",
    b"last",
    b"lookahead",
    b"missing",
    b"offending",
    b"previous",
    b"start",
    b"unexpected",
    b"unknown",
];

/// What stands before `key` where it is the key of a table, a cache or a keyboard, or for everybody to see.
const HARMLESS_KEYS: &[&[u8]] = &[
    b"cache",
    b"composite",
    b"dedup",
    b"dedupe",
    b"foreign",
    b"group",
    b"hot",
    b"idempotency",
    b"index",
    b"issue",
    b"item",
    b"lookup",
    b"map",
    b"natural",
    b"object",
    b"parent",
    b"partition",
    b"primary",
    b"project",
    b"public",
    b"record",
    b"registry",
    b"routing",
    b"row",
    b"shortcut",
    b"sort",
    b"storage",
    b"surrogate",
    b"translation",
    b"unique",
    b"websocket",
];

/// Too short to mean the same elsewhere.
const IN_A_QUERY: &[&[u8]] =
    &[b"key", b"code", b"sig", b"signature", b"auth", b"pwd", b"sid", b"xamzsignature", b"jwt"];
const AS_A_MEMBER: &[&[u8]] = &[b"auth", b"jwt"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_say_secret() {
        for name in [
            "token",
            "access_token",
            "refreshToken",
            "api_key",
            "apiKey",
            "X-Api-Key",
            "GITHUB_TOKEN",
            "client_secret",
            "AWS_SECRET_ACCESS_KEY",
            "password",
            "Cookie",
            "Set-Cookie",
            "private_key",
            "sessionId",
            "session_id",
            "authorization",
            "Proxy-Authorization",
            "credentials",
            "pass",
            "DB_PASS",
            "MYSQL_PWD",
            "bearer",
            "GITHUB_PAT",
            "OPENAI_KEY",
            "Ocp-Apim-Subscription-Key",
        ] {
            assert!(secret(name.as_bytes(), NameContext::Member).is_some(), "{name}");
            assert!(secret(name.as_bytes(), NameContext::Assigned).is_some(), "{name}");
        }
    }

    #[test]
    fn escapes_hide_nothing() {
        for name in [r"se\u0063ret", r"\\u0074oken", r"toke\u006E", r"\u0070\u0061\u0073\u0073"] {
            assert!(escaped_secret(name.as_bytes(), NameContext::Member).is_some(), "{name}");
        }
        assert_eq!(escaped_secret(br"na\u006de\", NameContext::Member), None);
    }

    #[test]
    fn names_of_the_protocol_stay() {
        for name in [
            "progressToken",
            "cursor",
            "nextCursor",
            "requestState",
            "maxTokens",
            "id",
            "code",
            "key",
            "uri",
            "tokens",
            "token_endpoint",
            "token_type",
            "authorization_endpoint",
            "jsonrpc",
            "method",
            "nextPageToken",
            "publicKey",
            "primary_key",
            "monkey",
            "compass",
            "format",
            "Sec-WebSocket-Key",
            "",
        ] {
            assert_eq!(secret(name.as_bytes(), NameContext::Member), None, "{name}");
        }
        assert_eq!(header(b"Mcp-Protocol-Version"), None);
        assert!(header(b"mcp-session-id").is_some() && header(b"Mcp-Param-Api-Key").is_some());
    }

    #[test]
    fn all_names_of_the_tables_get_that_far() {
        let words: [&[u8]; 14] = [
            b"authorization",
            b"password",
            b"passwd",
            b"pwd",
            b"passcode",
            b"passphrase",
            b"passwords",
            b"pass",
            b"otp",
            b"totp",
            b"bearer",
            b"auth",
            b"pat",
            b"key",
        ];
        for name in [ENDS, IN_A_QUERY, AS_A_MEMBER, &words].concat() {
            assert!(may_be_secret(name), "{}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn some_names_say_it_of_some_values() {
        let fits = |name: &str, place, value: &str| {
            secret(name.as_bytes(), place).is_some_and(|secret| secret.fits(value.as_bytes(), place))
        };
        for (name, place, value, expected) in [
            ("PWD", NameContext::Assigned, "/home/ada", false),
            ("PWD", NameContext::Member, "/home/ada", false),
            ("pwd", NameContext::Member, "hunter2", true),
            ("--pwd", NameContext::Assigned, "hunter2", true),
            ("--auth", NameContext::Assigned, "ada:hunter2", true),
            ("--auth", NameContext::Assigned, "basic", false),
            ("MY_KEY", NameContext::Assigned, "a1b2c3d4", true),
            ("TLS_KEY", NameContext::Assigned, "/etc/ssl/key1.pem", false),
            ("--key", NameContext::Assigned, "name", false),
            ("subscriptionKey", NameContext::Member, "0123456789abcdef", true),
            ("sectionKey", NameContext::Member, "section-1", false),
            ("s3_key", NameContext::Member, "folder/file1.txt", false),
            ("s3_key", NameContext::Member, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", true),
        ] {
            assert_eq!(fits(name, place, value), expected, "{name} {value}");
        }
    }

    #[test]
    fn short_names_say_it_in_a_query_only() {
        for name in ["key", "code", "sig"] {
            assert!(secret(name.as_bytes(), NameContext::Query).is_some(), "{name}");
            assert_eq!(secret(name.as_bytes(), NameContext::Member), None, "{name}");
        }
    }
}
