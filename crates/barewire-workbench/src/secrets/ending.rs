//! Finds the end of a secret whose start is known, and the start of the next secret in the same array or cookie header.

use memchr::{memchr_iter, memchr2};

use super::shapes::{is_token, separates};
use super::view::{MAX_BACKSLASHES, json_space};

/// The rule that determines where a secret ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretEnd {
    /// At a quote with this number of backslashes before it: 0 in JSON, 1 in JSON within a JSON string, then 3 and 7.
    Quote { slashes: usize },
    /// At `'`, or at the `"` that ends the surrounding string.
    Apostrophe,
    /// At white space or a separator such as a comma.
    Separator,
    /// At the same bytes as `Separator`, and at `#`, which ends a URL query.
    Query,
    /// At a byte that cannot be part of a cookie value. Another cookie may follow.
    Cookie,
    /// At any byte that is not part of Base64.
    Pem,
}

impl SecretEnd {
    /// Returns the end of the secret that begins at `start`, or `None` if the text does not contain the end.
    pub(super) fn find(self, text: &[u8], start: usize) -> Option<usize> {
        let rest = &text[start..];
        let end = match self {
            Self::Quote { slashes } => memchr_iter(b'"', rest).find_map(|quote| {
                let before = rest[..quote].iter().rev().take_while(|b| **b == b'\\').count();
                // The secret ends at its own closing quote or at that of a surrounding string. Before the outermost
                // string's closing quote, backslashes occur only in pairs.
                let depths = std::iter::successors(Some(0), |depth| Some(2 * depth + 1));
                let closing = depths.take_while(|it| *it <= slashes).find(|it| before % (2 * it + 2) == *it);
                closing.map(|slashes| quote - slashes)
            }),
            Self::Apostrophe => Some(without_slashes(rest, memchr2(b'\'', b'"', rest)?)),
            Self::Separator => rest.iter().position(|b| separates(*b)),
            Self::Query => rest.iter().position(|b| separates(*b) || *b == b'#'),
            Self::Cookie => rest.iter().position(|b| *b <= b' ' || matches!(b, b'"' | b'\'' | b',' | b';' | b'\\')),
            Self::Pem => {
                let part = |b: &u8| {
                    b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || matches!(b, b'+' | b'/' | b'=' | b'\\')
                };
                rest.iter().position(|b| !part(b)).map(|end| without_slashes(rest, end))
            }
        };
        end.map(|end| start + end)
    }
}

/// Returns `end` moved back over the backslashes before it, which belong to the quote at `end`. No quote has more than
/// `MAX_BACKSLASHES`; more need not be in memory when a secret arrives in pieces.
fn without_slashes(text: &[u8], end: usize) -> usize {
    end - text[..end].iter().rev().take(MAX_BACKSLASHES).take_while(|b| **b == b'\\').count()
}

/// Says whether another array element follows a string, or another cookie follows a cookie.
pub(super) enum NextElement {
    /// The next element or cookie value begins at this offset.
    Begins(usize),
    No,
    /// The text is too short to decide.
    Undecided,
}

/// Reads the separator of two strings in an array: a quote, a comma and a quote. Each quote has `slashes` backslashes
/// before it.
pub(super) fn element(text: &[u8], slashes: usize, more: bool) -> NextElement {
    let mut at = 0;
    for (spaced, slashes, sign) in [(false, slashes, b'"'), (true, 0, b','), (true, slashes, b'"')] {
        let rest = &text[at..];
        let blank = if spaced { json_space(rest) } else { 0 };
        let slashed = rest[blank..].iter().take_while(|b| **b == b'\\').count();
        match rest.get(blank + slashed) {
            // Backslashes at the end of the text may belong to the expected character, or begin white space such as
            // `\n`.
            None if more && slashed <= MAX_BACKSLASHES => return NextElement::Undecided,
            Some(byte) if *byte == sign && slashed == slashes => at += blank + slashed + 1,
            _ => return NextElement::No,
        }
    }
    NextElement::Begins(at)
}

/// Reads the text between two cookie values: a semicolon, the name of the second cookie and `=`.
pub(super) fn cookie(text: &[u8], more: bool) -> NextElement {
    let signs = text.iter().take(MAX_COOKIE_SEPARATORS);
    let between = signs.take_while(|b| matches!(b, b';' | b' ')).count();
    if text.first().is_some_and(|b| *b != b';') {
        return NextElement::No;
    }
    let name = text[between..].iter().take(MAX_COOKIE_NAME).take_while(|b| is_token(**b) && **b != b'=').count();
    match text.get(between + name) {
        None if more => NextElement::Undecided,
        Some(b'=') if name > 0 => NextElement::Begins(between + name + 1),
        _ => NextElement::No,
    }
}

/// The maximum length of a cookie name.
const MAX_COOKIE_NAME: usize = 128;

/// The maximum number of semicolons and spaces between two cookies.
const MAX_COOKIE_SEPARATORS: usize = 32;
