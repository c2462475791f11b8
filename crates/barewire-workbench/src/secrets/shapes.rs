//! Decides by its shape whether a word looks like a secret, because it looks random or has the form of one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::SecretKind;

pub(super) const JWT: SecretKind = SecretKind::Shaped { what: "a JSON Web Token", begins: "eyJ" };
pub(super) const BEARER: SecretKind = SecretKind::Shaped { what: "a bearer token", begins: "" };
pub(super) const BASIC: SecretKind = SecretKind::Shaped { what: "a user and a password in Base64", begins: "" };
pub(super) const PRIVATE_KEY: SecretKind = SecretKind::Shaped { what: "a private key", begins: "" };
pub(super) const WEBHOOK: SecretKind = SecretKind::Shaped { what: "the secret part of a webhook's URL", begins: "" };
pub(super) const BOT_TOKEN: SecretKind = SecretKind::Shaped { what: "a token of a bot", begins: "" };
pub(super) const APPLICATION_TOKEN: SecretKind = SecretKind::Shaped { what: "a token of Facebook", begins: "" };
pub(super) const AZURE: SecretKind = SecretKind::Shaped { what: "a client secret of Azure", begins: "" };
pub(super) const PASSWORD_HASH: SecretKind = SecretKind::Shaped { what: "the hash of a password", begins: "" };
pub(crate) const PASSWORD_IN_URL: SecretKind = SecretKind::Shaped { what: "a password in a URL", begins: "" };

/// Returns the length of the scheme at the start of an `Authorization` value, including the space after it; 0 without a
/// scheme.
pub(super) fn scheme(value: &[u8]) -> usize {
    let word = value.iter().take(MAX_SCHEME).take_while(|b| is_key(**b)).count();
    let is_one = SCHEMES.iter().any(|scheme| value[..word].eq_ignore_ascii_case(scheme));
    if is_one && value.get(word).is_some_and(|b| is_space(*b)) { word + 1 } else { 0 }
}

const SCHEMES: &[&[u8]] =
    &[b"bearer", b"basic", b"token", b"apikey", b"digest", b"negotiate", b"dpop", b"aws4-hmac-sha256"];

/// The maximum length of a scheme: longer than the longest one, `AWS4-HMAC-SHA256`.
pub(super) const MAX_SCHEME: usize = 24;

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

pub(super) fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(super) fn is_token(byte: u8) -> bool {
    is_key(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=' | b'%')
}

/// Whether this byte ends a value without quotes.
pub(super) fn separates(byte: u8) -> bool {
    byte <= b' '
        || matches!(byte, b'"' | b'\'' | b'`' | b'&' | b',' | b';' | b'<' | b'>' | b'(' | b')' | b'{' | b'}')
        || matches!(byte, b'[' | b']' | b'|')
}

pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Whether a word is long and mixes letters and digits, unlike a word of prose.
pub(super) fn looks_random(run: &[u8]) -> bool {
    run.len() >= 12 && is_letters_and_digits(run)
}

/// Whether the value under a suspicious name looks generated: it has letters and digits, and is neither a path nor a
/// URL.
pub(crate) fn looks_generated(value: &[u8]) -> bool {
    value.len() >= 8
        && is_letters_and_digits(value)
        && !is_path(value)
        && !value.contains(&b' ')
        && memchr::memmem::find(value, b"://").is_none()
}

/// Whether a value is one long word of Base64 with letters of both cases, as a user and a password in Base64 are.
pub(super) fn is_mixed_word(value: &[u8]) -> bool {
    let has = |part: fn(&u8) -> bool| value.iter().any(part);
    value.len() >= 16
        && value.iter().all(|b| is_base64(*b))
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

pub(super) fn is_path(value: &[u8]) -> bool {
    matches!(value, [b'/' | b'~' | b'.', ..] | [_, b':', b'\\' | b'/', ..])
}

/// Whether a word in the text has a digit and at least ten characters, which is rare in ordinary names.
pub(super) fn has_random_word(run: &[u8]) -> bool {
    run.split(|b| matches!(b, b'-' | b'_' | b'/' | b'.')).any(is_long_with_digit)
}

fn is_long_with_digit(word: &[u8]) -> bool {
    word.len() >= 10 && word.iter().any(u8::is_ascii_digit)
}

fn is_letters_and_digits(run: &[u8]) -> bool {
    run.iter().any(u8::is_ascii_digit) && run.iter().any(u8::is_ascii_alphabetic)
}

/// Whether the text is `user:password` in Base64.
pub(super) fn is_basic(run: &[u8]) -> bool {
    let text = run.strip_suffix(b"==").or_else(|| run.strip_suffix(b"=")).unwrap_or(run);
    let plain = STANDARD_NO_PAD.decode(text).ok().and_then(|plain| String::from_utf8(plain).ok());
    plain.is_some_and(|plain| plain.contains(':') && !plain.contains(char::is_control))
}

/// Whether the value is only a placeholder: `***`, `<your token>`, `${TOKEN}`, `YOUR_API_KEY`.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    match value {
        [] => true,
        [b'y' | b'Y', ..] if is_request_for_a_value(value) => true,
        [b'<', .., b'>'] | [b'$', b'{', .., b'}'] | [b'{', b'{', .., b'}', b'}'] => true,
        _ => {
            let is_mask = |c: char| matches!(c, '*' | '.' | 'x' | 'X' | '\u{2022}' | '\u{2026}');
            let masks = |text: &str| text.chars().all(is_mask) && text.chars().nth(2).is_some();
            std::str::from_utf8(value).is_ok_and(masks) || value.eq_ignore_ascii_case(b"[redacted]")
        }
    }
}

/// Whether the value asks for the reader's own: `your` and the name of a secret, in letters only.
fn is_request_for_a_value(value: &[u8]) -> bool {
    let is = |part: &[u8], word: &[u8]| part.eq_ignore_ascii_case(word);
    let parts = || value.split(|b| matches!(b, b'_' | b'-' | b' '));
    parts().all(|part| part.iter().all(u8::is_ascii_alphabetic))
        && parts().next().is_some_and(|first| is(first, b"your"))
        && parts().skip(1).last().is_some_and(|last| REQUESTED.iter().any(|word| is(last, word)))
}

/// The words that end the name of what a placeholder asks for.
const REQUESTED: &[&[u8]] = &[b"here", b"key", b"token", b"secret", b"password", b"id", b"credentials", b"pat", b"jwt"];

/// The maximum length of a placeholder.
pub(super) const MAX_PLACEHOLDER: usize = 64;

/// Whether the word after an option is prose, as in `--token is missing`, or a placeholder, as in `--token TOKEN`.
pub(super) fn is_prose(word: &[u8]) -> bool {
    let word = word.trim_ascii_end();
    let end = word.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |last| last + 1);
    let word = &word[..end];
    let is_capital = |b: &u8| b.is_ascii_uppercase() || *b == b'_';
    word.len() < 2 || word.iter().all(is_capital) || PROSE_WORDS.contains(&word)
}

#[rustfmt::skip] // a table
const PROSE_WORDS: &[&[u8]] = &[
    b"and", b"are", b"argument", b"as", b"at", b"be", b"by", b"can", b"cannot", b"does", b"env", b"environment",
    b"file", b"flag", b"for", b"from", b"given", b"has", b"here", b"if", b"in", b"instead", b"is", b"it", b"may",
    b"missing", b"must", b"needs", b"not", b"on", b"option", b"or", b"parameter", b"required", b"requires", b"set",
    b"should", b"string", b"that", b"the", b"this", b"to", b"value", b"was", b"when", b"which", b"will", b"with",
];
