//! Decides by the name of a header, member, parameter or variable whether its value is a secret.

use super::shapes::{is_mixed_word, is_path, looks_generated, looks_random};
use super::words::{is_kind_of_authentication, is_language_token, is_path_of_words};

/// The place where a name occurs. Some rules apply only in some places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameContext {
    /// `"name": …` in JSON, also in JSON within a string of JSON.
    Member,
    /// `NAME=…`, `--name=…` and `--name …`
    Assigned,
    /// `?name=…` and `&name=…`
    Query,
    /// `name: …`, as in a header, in YAML, or in prose.
    Plain,
}

/// The kind of value that is expected after a secret name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretClass {
    /// A scheme and credentials: `Bearer …`.
    Authorization,
    /// A password, which may be all digits.
    Password,
    /// `pwd`: a password, or the current directory.
    PasswordOrFolder,
    /// `auth` and `credentials`: a user name and password, or the kind of authentication.
    Credentials,
    /// A key: a secret only if the value looks generated, because tables and caches also have keys.
    Key,
    /// `token`: a secret, or a token of a parser.
    Token,
    /// Any other secret.
    Other,
}

impl SecretClass {
    /// Whether only some values under such a name are secrets, so that the whole value must be read.
    pub(super) const fn depends_on_value(self) -> bool {
        matches!(self, Self::PasswordOrFolder | Self::Credentials | Self::Key)
    }

    /// Whether this value, under a name of this class, is a secret.
    pub(super) fn fits(self, value: &[u8], place: NameContext) -> bool {
        let is_sure = matches!(place, NameContext::Assigned | NameContext::Query);
        match self {
            Self::PasswordOrFolder => !is_path(value),
            Self::Credentials if place == NameContext::Member => !is_kind_of_authentication(value),
            Self::Credentials => value.contains(&b':') || looks_generated(value) || is_mixed_word(value),
            Self::Key => looks_generated(value) && (is_sure || looks_random(value)) && !is_path_of_words(value),
            Self::Token => place != NameContext::Member || !is_language_token(value),
            Self::Authorization | Self::Password | Self::Other => true,
        }
    }

    /// Whether a JSON number, under a name of this class, is a secret. One-time codes have at least four digits.
    pub(super) fn fits_number(self, digits: &[u8]) -> bool {
        match self {
            Self::Password => digits.iter().any(u8::is_ascii_digit),
            Self::Authorization | Self::Token | Self::Credentials | Self::Other => {
                digits.len() >= 4 && digits.iter().all(u8::is_ascii_digit)
            }
            Self::PasswordOrFolder | Self::Key => false,
        }
    }
}

/// Returns the class of a secret name, or `None` if the name is not that of a secret.
///
/// Protocol members whose names only look secret are excluded: `progressToken` and cursors identify calls and pages,
/// and without `requestState` a capture could not be replayed.
pub(super) fn secret_class(name: &[u8], place: NameContext) -> Option<SecretClass> {
    if may_be_secret(name) { class_of_plain_name(name, place) } else { None }
}

/// Whether all values in an object under this name are secrets.
pub(super) fn is_container(name: &[u8]) -> bool {
    let ends = |end: &[u8]| name.len() >= end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end);
    ends(b"secret") || ends(b"secrets") || ends(b"credential") || ends(b"credentials")
}

/// Whether the last two letters can end a secret name, or a name that makes another value a secret. This quick test
/// comes first because almost no name in a message is secret.
pub(super) fn may_be_secret(name: &[u8]) -> bool {
    let [.., first, second] = name else { return false };
    SECOND_LETTERS[usize::from(*second)] & FIRST_LETTERS[usize::from(*first)] != 0
}

fn class_of_plain_name(name: &[u8], place: NameContext) -> Option<SecretClass> {
    let mut plain = [0; MAX_NAME];
    // The last words of a name decide its class.
    let tail = &name[name.len().saturating_sub(MAX_NAME)..];
    // `word` is the start of the last word, which follows a separator or begins with a capital letter.
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
    if place == NameContext::Query && (QUERY_NAMES.contains(&plain) || plain.ends_with(b"signature")) {
        return Some(SecretClass::Other);
    }
    if place == NameContext::Member && plain == b"jwt" {
        return Some(SecretClass::Other);
    }
    let ends_in = |ends: &[&[u8]]| ends.iter().any(|end| plain.ends_with(end));
    match plain.last()? {
        b'n' if plain.ends_with(b"authorization") => Some(SecretClass::Authorization),
        b'd' if ends_in(&[b"password", b"passwd"]) => Some(SecretClass::Password),
        b'd' if last == b"pwd" => Some(SecretClass::PasswordOrFolder),
        b'e' if ends_in(&[b"passcode", b"passphrase"]) => Some(SecretClass::Password),
        b's' if ends_in(&[b"passwords"]) => Some(SecretClass::Password),
        // `pass` may also be the number of tests that passed.
        b's' if last == b"pass" && place == NameContext::Member => Some(SecretClass::Other),
        b's' if last == b"pass" && place != NameContext::Plain => Some(SecretClass::Password),
        b'p' if matches!(last, b"otp" | b"totp") && place != NameContext::Plain => Some(SecretClass::Password),
        b'r' if last == b"bearer" && place != NameContext::Plain => Some(SecretClass::Other),
        b'h' if plain == b"auth" && matches!(place, NameContext::Assigned | NameContext::Member) => {
            Some(SecretClass::Credentials)
        }
        b'l' | b's' if ends_in(&[b"credential", b"credentials"]) && place == NameContext::Member => {
            Some(SecretClass::Credentials)
        }
        // Other languages.
        b't' if ends_in(&[b"passwort", b"kennwort"]) => Some(SecretClass::Password),
        b'e' if ends_in(&[b"motdepasse"]) => Some(SecretClass::Password),
        b'a' if last == b"senha" || plain.ends_with(b"contrasena") => Some(SecretClass::Password),
        // `tokens` is usually a number of tokens.
        b's' if ends_in(&[b"tokens"]) && place != NameContext::Member => None,
        b'n' if last == b"token"
            && (first.is_empty() || PARSER_TOKEN_PREFIXES.iter().any(|it| first.ends_with(it))) =>
        {
            Some(SecretClass::Token)
        }
        b'n' | b't' | b'y' | b's' | b'e' | b'l' | b'd' | b'r' | b'a'
            if ends_in(SECRET_SUFFIXES) && !ends_in(HARMLESS_TOKENS) && plain != b"tokens" =>
        {
            Some(SecretClass::Other)
        }
        b't' if last == b"pat" && place != NameContext::Plain => Some(SecretClass::Key),
        b'y' if last == b"key" && first.is_empty() => (place == NameContext::Assigned).then_some(SecretClass::Key),
        b'y' if last == b"key" && !HARMLESS_KEY_PREFIXES.iter().any(|end| first.ends_with(end)) => {
            Some(SecretClass::Key)
        }
        _ => None,
    }
}

pub(super) fn header_class(name: &[u8]) -> Option<SecretClass> {
    let bare = strip_ignoring_case(name, b"mcp-param-").unwrap_or(name);
    match secret_class(bare, NameContext::Member) {
        None if name.eq_ignore_ascii_case(b"mcp-session-id") => Some(SecretClass::Other),
        class => class,
    }
}

fn strip_ignoring_case<'a>(text: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    text.get(..start.len()).filter(|begin| begin.eq_ignore_ascii_case(start)).map(|_| &text[start.len()..])
}

/// The maximum number of bytes at the end of a name that are compared.
const MAX_NAME: usize = 64;

/// The maximum length of a name that is read.
pub(super) const MAX_WRITTEN_NAME: usize = 160;

/// The endings of secret names, in lower case and without separators.
#[rustfmt::skip] // a table
const SECRET_SUFFIXES: &[&[u8]] = &[
    b"token", b"secret", b"secrets", b"apikey", b"apikeys", b"accesskey", b"secretkey", b"privatekey", b"authkey",
    b"signingkey", b"encryptionkey", b"masterkey", b"sessionkey", b"sshkey", b"cookie", b"cookies", b"credential",
    b"credentials", b"sessionid", b"codeverifier", b"clientassertion",
    b"clientkeydata", b"secretkeybase",
];

/// Names of tokens that are not secrets: positions in a list, progress, and token counts.
#[rustfmt::skip] // a table
const HARMLESS_TOKENS: &[&[u8]] = &[
    b"progresstoken",
    // Numbers of tokens that language models report.
    b"inputtoken", b"outputtoken", b"prompttoken", b"completiontoken", b"totaltoken", b"maxtoken", b"pagetoken",
    b"nexttoken", b"continuationtoken", b"synctoken", b"stoptoken", b"eostoken", b"bostoken", b"padtoken",
    b"pertoken",
];

/// Words before `token` that make it a token of a parser.
#[rustfmt::skip] // a table
const PARSER_TOKEN_PREFIXES: &[&[u8]] = &[
    b"bad", b"current", b"end", b"expected", b"first", b"found", b"illegal", b"invalid", b"last", b"lookahead",
    b"missing", b"offending", b"previous", b"start", b"unexpected", b"unknown",
];

/// Words before `key` that make it a public key, or a key of a table, a cache or a keyboard.
#[rustfmt::skip] // a table
const HARMLESS_KEY_PREFIXES: &[&[u8]] = &[
    b"cache", b"composite", b"dedup", b"dedupe", b"foreign", b"group", b"hot", b"idempotency", b"index", b"issue",
    b"item", b"lookup", b"map", b"natural", b"object", b"parent", b"partition", b"primary", b"project", b"public",
    b"record", b"registry", b"routing", b"row", b"shortcut", b"sort", b"storage", b"surrogate", b"translation",
    b"unique", b"websocket",
];

/// The last two letters of all names that [`class_of_plain_name`] knows, and of `value`.
const NAME_ENDINGS: &[u8] =
    b"en on id rd wd de ie re se ue ds es ls ns ss ts ys at et wt ta ig th al tp er ey wt rt ha na ";

const DIGIT: u32 = 1 << 26;
const OTHER: u32 = 1 << 27;

/// For each byte, the bit that stands for it as the last but one of a name.
static FIRST_LETTERS: [u32; 256] = {
    let (mut bits, mut byte) = ([OTHER; 256], 0);
    while byte < 26 {
        bits[b'a' as usize + byte] = 1 << byte;
        bits[b'A' as usize + byte] = 1 << byte;
        byte += 1;
    }
    byte = b'0' as usize;
    while byte <= b'9' as usize {
        bits[byte] = DIGIT;
        byte += 1;
    }
    bits
};

/// For each byte that ends a name, the bits of the bytes before it for which the name may be secret.
static SECOND_LETTERS: [u32; 256] = {
    let (mut bits, mut byte) = ([0; 256], 0_u8);
    loop {
        bits[byte as usize] = match byte {
            // No such name ends in a digit, but the `2.0` of every message does.
            b'0'..=b'9' => 0,
            b'a'..=b'z' | b'A'..=b'Z' => OTHER,
            _ => u32::MAX,
        };
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    let mut at = 0;
    while at < NAME_ENDINGS.len() {
        let (first, second) = (NAME_ENDINGS[at] as usize, NAME_ENDINGS[at + 1]);
        bits[second as usize] |= FIRST_LETTERS[first];
        bits[second.to_ascii_uppercase() as usize] |= FIRST_LETTERS[first];
        at += 3;
    }
    bits
};

/// Names that are secret in a query. In most other places they are too short to be certain.
const QUERY_NAMES: &[&[u8]] = &[b"key", b"code", b"sig", b"auth", b"pwd", b"sid", b"jwt"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognized() {
        let names = "token access_token refreshToken api_key apiKey X-Api-Key GITHUB_TOKEN client_secret \
            AWS_SECRET_ACCESS_KEY password Cookie Set-Cookie private_key sessionId session_id authorization \
            Proxy-Authorization credentials pass DB_PASS MYSQL_PWD bearer GITHUB_PAT OPENAI_KEY \
            Ocp-Apim-Subscription-Key";
        for name in names.split(' ') {
            assert!(secret_class(name.as_bytes(), NameContext::Member).is_some(), "{name}");
            assert!(secret_class(name.as_bytes(), NameContext::Assigned).is_some(), "{name}");
        }
    }

    #[test]
    fn names_of_the_protocol_are_no_secrets() {
        let names = "progressToken cursor nextCursor requestState maxTokens id code key uri tokens token_endpoint \
            token_type authorization_endpoint jsonrpc method nextPageToken publicKey primary_key monkey \
            compass format Sec-WebSocket-Key";
        for name in names.split(' ').chain([""]) {
            assert_eq!(secret_class(name.as_bytes(), NameContext::Member), None, "{name}");
        }
        assert_eq!(header_class(b"Mcp-Protocol-Version"), None);
        assert!(header_class(b"mcp-session-id").is_some() && header_class(b"Mcp-Param-Api-Key").is_some());
    }

    #[test]
    fn the_quick_test_accepts_all_names_of_the_tables() {
        let words = "authorization password passwd pwd passcode passphrase passwords pass otp totp bearer auth pat key \
            passwort kennwort motdepasse senha contrasena";
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let others: [&[u8]; 5] = [b"value", b"VALUE", b"val", b"data", b"stringData"];
        for name in [SECRET_SUFFIXES, QUERY_NAMES, &words, &others].concat() {
            assert!(may_be_secret(name), "{}", String::from_utf8_lossy(name));
        }
        for name in ["method", "jsonrpc", "uri", "description", "2.0", "a1", "b2n", "x"] {
            assert_eq!(may_be_secret(name.as_bytes()), name == "description", "{name}");
        }
    }

    #[test]
    fn some_names_depend_on_the_value() {
        let fits = |name: &str, place, value: &str| {
            secret_class(name.as_bytes(), place).is_some_and(|secret| secret.fits(value.as_bytes(), place))
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
    fn short_names_are_secrets_only_in_a_query() {
        for name in ["key", "code", "sig"] {
            assert!(secret_class(name.as_bytes(), NameContext::Query).is_some(), "{name}");
            assert_eq!(secret_class(name.as_bytes(), NameContext::Member), None, "{name}");
        }
    }
}
