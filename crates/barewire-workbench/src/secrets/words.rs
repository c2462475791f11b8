//! Decides whether a value under a secret name is prose, program code or a token of a parser instead of a secret.

use super::names::{self, NameContext};
use super::shapes;

/// Whether a word after `name: ` is a value, not prose. `alone` means that nothing follows the word in its line.
pub(super) fn is_value(word: &[u8], alone: bool, is_password: bool) -> bool {
    let end = word.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |last| last + 1);
    let bare = &word[..end];
    let has = |part: fn(&u8) -> bool| bare.iter().any(part);
    let (digits, letters) = (has(u8::is_ascii_digit), has(u8::is_ascii_alphabetic));
    // Random text may also begin with a slash, but then it contains capital letters.
    let is_path = shapes::is_path(word) && !has(u8::is_ascii_uppercase);
    if is_path || word.starts_with(b":") || memchr::memmem::find(word, b"://").is_some() {
        return false;
    }
    if !alone {
        return digits && letters && bare.len() >= 7;
    }
    match (digits, letters) {
        (true, true) => bare.len() >= 6,
        (true, false) => is_password && bare.len() >= 4,
        _ if bare.iter().all(|b| b.is_ascii_uppercase() || *b == b'_') => false,
        _ => bare.len() >= 16 || bare.len() >= 8 && (!is_capitalized_normally(bare) || has(is_odd)),
    }
}

/// Whether this byte occurs in passwords but not in words.
fn is_odd(byte: &u8) -> bool {
    matches!(byte, b'@' | b'!' | b'#' | b'$' | b'%' | b'^' | b'*' | b'~' | b'+' | b'=' | b'?')
}

/// Whether the capital letters of a word only begin its parts, as in `StringLiteral`, or the word has no lower-case
/// letters.
fn is_capitalized_normally(word: &[u8]) -> bool {
    let is_small = |at: usize| word.get(at).is_some_and(u8::is_ascii_lowercase);
    let begins = |at: usize| !word[at].is_ascii_uppercase() || is_small(at + 1) && is_small(at + 2);
    (0..word.len()).all(begins) || !word.iter().any(u8::is_ascii_lowercase)
}

/// Whether the value is a token of a parser: punctuation, or the name of a kind of token.
pub(super) fn is_language_token(value: &[u8]) -> bool {
    value.len() <= 20 && value.iter().all(|b| b.is_ascii_lowercase() || *b == b'_') || is_sign(value)
}

/// Whether the value says how to authenticate, not with what: `oauth2`, or `include` as in a browser's `fetch`.
pub(super) fn is_kind_of_authentication(value: &[u8]) -> bool {
    KINDS_OF_AUTHENTICATION.iter().any(|kind| value.eq_ignore_ascii_case(kind))
}

#[rustfmt::skip] // a table
const KINDS_OF_AUTHENTICATION: &[&[u8]] = &[
    b"api-key", b"api_key", b"apikey", b"basic", b"bearer", b"client_credentials", b"digest", b"dpop", b"false",
    b"include", b"jwt", b"kerberos", b"mtls", b"none", b"oauth", b"oauth2", b"oidc", b"omit", b"openid", b"optional",
    b"required", b"same-origin", b"saml", b"session", b"token", b"true",
];

/// Whether the value is too short to be a secret.
pub(super) fn is_sign(value: &[u8]) -> bool {
    value.len() == 1 || value.len() <= 3 && value.iter().all(u8::is_ascii_punctuation)
}

/// Whether an assigned value is program code: a keyword, a call or another variable. `next` is the byte after the
/// value.
pub(super) fn is_code(name: &[u8], value: &[u8], next: Option<u8>) -> bool {
    if KEYWORDS.contains(&value) || name_of(name).eq_ignore_ascii_case(value) {
        return true;
    }
    let is_path = value.split(|b| *b == b'.').all(is_identifier);
    let is_member = name_of(value).len() < value.len()
        && (RECEIVERS.contains(&value.split(|b| *b == b'.').next().unwrap_or_default())
            || names::secret_class(name_of(value), NameContext::Assigned).is_some());
    is_path && (next == Some(b'(') || is_member)
}

fn is_identifier(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|b| b.is_ascii_alphabetic() || *b == b'_')
}

/// Returns the part after the last dot.
fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'.').next().unwrap_or(path)
}

/// Whether the value of an environment variable is common text: a method or member name of the protocol, a path, or a
/// number.
pub(super) fn is_common_text(value: &[u8]) -> bool {
    let is_number = value.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+'));
    let is_part = |part: &[u8]| {
        part.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.' | b'~'))
            && is_capitalized_normally(part)
    };
    let is_method = value.contains(&b'/') && value.split(|b| *b == b'/').all(is_part);
    // Random text may also contain slashes, even at its start.
    let is_path = is_method || shapes::is_path(value) && is_path_of_words(value);
    is_number || is_path || PROTOCOL_WORDS.contains(&value)
}

/// Whether the value is a path of ordinary file names, with digits only at the start or the end of a word.
pub(super) fn is_path_of_words(value: &[u8]) -> bool {
    let path = match value {
        [_, b':', path @ ..] if shapes::is_path(value) => path,
        path => path,
    };
    let is_slash = |b: &u8| matches!(b, b'/' | b'\\');
    let is_word = |word: &[u8]| {
        let changes = word.windows(2).filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit());
        word.iter().all(u8::is_ascii_alphanumeric)
            && changes.count() <= 1
            && (word.len() < MAX_UNCHECKED_WORD || is_capitalized_normally(word))
    };
    let is_sign = |b: &u8| matches!(b, b'.' | b'-' | b'_' | b'~' | b' ' | b'@');
    path.iter().any(is_slash) && path.split(|b| is_slash(b) || is_sign(b)).all(is_word)
}

/// Words that are shorter than this may have capital letters anywhere.
const MAX_UNCHECKED_WORD: usize = 8;

/// Keywords of programming languages that may follow `=`.
#[rustfmt::skip] // a table
const KEYWORDS: &[&[u8]] = &[
    b"async", b"await", b"false", b"function", b"lambda", b"new", b"nil", b"none", b"None", b"not", b"null",
    b"true", b"True", b"False", b"typeof", b"undefined", b"yield",
];

/// Names of objects whose members are read in program code.
const RECEIVERS: &[&[u8]] = &[b"this", b"self", b"process", b"os", b"config", b"settings", b"options", b"args"];

/// Words that occur in almost every message, so they are not treated as known secrets even if an environment variable
/// has such a value.
#[rustfmt::skip] // a table
const PROTOCOL_WORDS: &[&[u8]] = &[
    b"arguments", b"capabilities", b"clientInfo", b"completion", b"completions", b"description", b"elicitation",
    b"experimental", b"initialize", b"inputSchema", b"instructions", b"isError", b"listChanged", b"localhost",
    b"mimeType", b"nextCursor", b"outputSchema", b"password", b"progress", b"progressToken", b"properties",
    b"protocolVersion", b"requestState", b"required", b"resource", b"resources", b"sampling", b"serverInfo",
    b"structuredContent", b"subscribe",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_prose() {
        for (word, alone, expected) in [
            ("aaa11bbb", true, true),
            ("aaa11bbb", false, true),
            ("hunter2", true, true),
            ("QwErTyUi", true, true),
            ("p@ssword", true, true),
            ("correct-horse-battery", true, true),
            ("see", false, false),
            ("required", true, false),
            ("required.", true, false),
            ("StringLiteral", true, false),
            ("sha256", false, false),
            ("what", false, false),
            ("/run/secrets/1", true, false),
            ("https://h/a1b2c3d4", true, false),
            ("API_TOKEN", true, false),
            ("12345", true, false),
        ] {
            assert_eq!(is_value(word.as_bytes(), alone, false), expected, "{word}");
        }
        assert!(is_value(b"12345", true, true));
    }

    #[test]
    fn code_and_values() {
        for (name, value, next, expected) in [
            ("token", "await", Some(b' '), true),
            ("this.token", "token", None, true),
            ("token", "getToken", Some(b'('), true),
            ("apiKey", "process.env.OPENAI_API_KEY", None, true),
            ("token", "a.token", Some(b','), true),
            ("token", "abc", None, false),
            ("password", "mysecret", None, false),
            ("password", "S3cr", Some(b'('), false),
            ("token", "correct.horse", None, false),
        ] {
            assert_eq!(is_code(name.as_bytes(), value.as_bytes(), next), expected, "{name} {value}");
        }
    }

    #[test]
    fn common_text_is_recognized() {
        for value in [
            "tools/call",
            "logging/setLevel",
            "/run/secrets/token",
            "20261116",
            "initialize",
            "/usr/bin/python3",
            "/home/me/x12",
            "~/MyApp2/2026-01-02/v1.2.3",
            "./lib64/libc.so.6",
            r"C:\Users\me\t12",
        ] {
            assert!(is_common_text(value.as_bytes()), "{value}");
        }
        for value in [
            "changemenow",
            "/AbCDefghij+klm=",
            "a1b2/c3d4",
            "from-the-environment",
            "/K7MDENG/bPxRfiCYEXAMPLEKEY1wJalrXUtnFEMI",
            "/9a8b7c6d5e4f",
        ] {
            assert!(!is_common_text(value.as_bytes()), "{value}");
        }
    }
}
