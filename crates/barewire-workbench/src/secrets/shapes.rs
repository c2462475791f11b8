//! Decides by its shape whether a word looks like a secret: by the token prefixes of well-known services, or because it
//! looks random.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::SecretKind;

/// The shape of a token of a well-known service.
pub(super) struct TokenShape {
    /// The public prefix that all these tokens have.
    pub(super) begins: &'static str,
    pub(super) what: &'static str,
    /// The minimum length, including the prefix.
    least: usize,
}

impl TokenShape {
    pub(super) const fn kind(&self) -> SecretKind {
        SecretKind::Shaped { what: self.what, begins: self.begins }
    }

    /// Whether a text with this prefix is a token of this shape.
    pub(super) fn fits(&self, run: &[u8]) -> bool {
        if run.len() < self.least {
            return false;
        }
        match self.begins.as_bytes().last() {
            // Ordinary names also begin with `sk-`, so plain words with dashes between them are not a token.
            Some(b'-') => run.len() >= 60 || has_random_word(run),
            Some(b'_') => {
                let rest = &run[self.begins.len()..];
                let has = |part: fn(&u8) -> bool| rest.iter().any(part);
                has(u8::is_ascii_digit) || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
            }
            _ => true,
        }
    }
}

const fn token(begins: &'static str, what: &'static str, least: usize) -> TokenShape {
    TokenShape { begins, what, least }
}

/// Returns the shape whose prefix (a word and a separator) ends this text.
pub(super) fn prefixed_shape(text: &[u8]) -> Option<&'static TokenShape> {
    let [.., first, second, _] = text else { return None };
    // Quick test: this function runs for every separator, and almost no separator ends a prefix.
    if !PREFIX_LETTERS[0][usize::from(*first)] || !PREFIX_LETTERS[1][usize::from(*second)] {
        return None;
    }
    PREFIXED_SHAPES.iter().find(|shape| text.ends_with(shape.begins.as_bytes()))
}

/// The bytes that occur as the second-last and the last letter before the separator of a prefix.
static PREFIX_LETTERS: [[bool; 256]; 2] = {
    let (mut letters, mut index) = ([[false; 256]; 2], 0);
    while index < PREFIXED_SHAPES.len() {
        let begins = PREFIXED_SHAPES[index].begins.as_bytes();
        letters[0][begins[begins.len() - 3] as usize] = true;
        letters[1][begins[begins.len() - 2] as usize] = true;
        index += 1;
    }
    letters
};

/// The shapes whose prefix is a word and a separator.
#[rustfmt::skip] // a table
const PREFIXED_SHAPES: &[TokenShape] = &[
    token("sk-", "a key of a model's provider", 20), token("xai-", "a key of a model's provider", 20),
    token("pplx-", "a key of a model's provider", 20), token("gsk_", "a key of a model's provider", 30),
    token("hf_", "a token of Hugging Face", 30), token("tvly-", "a key of Tavily", 20),
    token("sk_live_", "a key of Stripe", 20), token("sk_test_", "a key of Stripe", 20),
    token("rk_live_", "a key of Stripe", 20), token("rk_test_", "a key of Stripe", 20),
    token("whsec_", "a secret of Stripe", 24), token("ghp_", "a token of GitHub", 20),
    token("gho_", "a token of GitHub", 20), token("ghu_", "a token of GitHub", 20),
    token("ghs_", "a token of GitHub", 20), token("ghr_", "a token of GitHub", 20),
    token("github_pat_", "a token of GitHub", 20), token("glpat-", "a token of GitLab", 20),
    token("xoxa-", "a token of Slack", 14), token("xoxb-", "a token of Slack", 14),
    token("xoxe-", "a token of Slack", 14), token("xoxp-", "a token of Slack", 14),
    token("xoxr-", "a token of Slack", 14), token("xoxs-", "a token of Slack", 14),
    token("xapp-", "a token of Slack", 14), token("npm_", "a token of npm", 30),
    token("pypi-", "a token of PyPI", 50), token("dop_v1_", "a token of DigitalOcean", 40),
    token("shpat_", "a token of Shopify", 30), token("ntn_", "a token of Notion", 30),
    token("lin_api_", "a key of Linear", 30), token("figd_", "a token of Figma", 30),
    token("sbp_", "a token of Supabase", 30), token("SG.", "a key of SendGrid", 60),
    token("ya29.", "a token of Google", 30),
];

pub(super) const AWS: TokenShape = token("AKIA", "a key of AWS", 20);
pub(super) const AWS_SESSION: TokenShape = token("ASIA", "a key of AWS", 20);
pub(super) const GOOGLE: TokenShape = token("AIza", "a key of Google", 35);

pub(super) const JWT: SecretKind = SecretKind::Shaped { what: "a JSON Web Token", begins: "eyJ" };
pub(super) const BEARER: SecretKind = SecretKind::Shaped { what: "a bearer token", begins: "" };
pub(super) const BASIC: SecretKind = SecretKind::Shaped { what: "a user and a password in Base64", begins: "" };
pub(super) const PRIVATE_KEY: SecretKind = SecretKind::Shaped { what: "a private key", begins: "" };
pub(super) const PASSWORD_IN_URL: SecretKind = SecretKind::Shaped { what: "a password in a URL", begins: "" };

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
        || matches!(byte, b'[' | b']' | b'|' | b'\\')
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

/// Whether the value is only a placeholder: `***`, `<your token>`, `${TOKEN}`.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    match value {
        [] => true,
        [b'<', .., b'>'] | [b'$', b'{', .., b'}'] | [b'{', b'{', .., b'}', b'}'] => true,
        _ => {
            let is_mask = |c: char| matches!(c, '*' | '.' | 'x' | 'X' | '\u{2022}' | '\u{2026}');
            let masks = |text: &str| text.chars().all(is_mask) && text.chars().nth(2).is_some();
            std::str::from_utf8(value).is_ok_and(masks) || value.eq_ignore_ascii_case(b"[redacted]")
        }
    }
}

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
