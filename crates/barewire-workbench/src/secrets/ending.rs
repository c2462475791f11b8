//! A secret that has begun -> its end, and the start of the next one in its array.

use memchr::{memchr_iter, memchr2};

use super::shapes::{is_token, separates};
use super::view::{MAX_BACKSLASHES, json_space};

/// The rule for the end of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretEnd {
    /// A quote after this many backslashes: 0 in JSON, 1 in JSON within a string of JSON, then 3 and 7.
    Quote { slashes: usize },
    /// `'`, or the end of the string around it.
    Apostrophe,
    /// White space, or a sign that separates.
    Separator,
    /// The same, or `#`, which ends a query.
    Query,
    /// A byte that cannot be part of a cookie; another cookie may follow.
    Cookie,
    /// Any byte that is not part of Base64.
    Pem,
}

impl SecretEnd {
    /// Returns the end of a secret that begins at `start`, if the text has it.
    pub(super) fn find(self, text: &[u8], start: usize) -> Option<usize> {
        let rest = &text[start..];
        let end = match self {
            Self::Quote { slashes } => memchr_iter(b'"', rest).find_map(|quote| {
                let before = rest[..quote].iter().rev().take_while(|b| **b == b'\\').count();
                // Its own quote, or that of a string around it. Before the outermost quote, only pairs of backslashes can stand.
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

/// Returns the end of a value without the backslashes that belong to the quote after it.
fn without_slashes(text: &[u8], end: usize) -> usize {
    end - text[..end].iter().rev().take_while(|b| **b == b'\\').count()
}

/// The element after a string of an array, or after a cookie.
pub(super) enum NextElement {
    /// Another one begins at this offset.
    Begins(usize),
    No,
    /// The text is too short to decide.
    Undecided,
}

/// Reads what separates two strings of an array: a quote, a comma, a quote; each quote after this many backslashes.
pub(super) fn element(text: &[u8], slashes: usize, more: bool) -> NextElement {
    let mut at = 0;
    for (spaced, slashes, sign) in [(false, slashes, b'"'), (true, 0, b','), (true, slashes, b'"')] {
        let rest = &text[at..];
        let blank = if spaced { json_space(rest) } else { 0 };
        let slashed = rest[blank..].iter().take_while(|b| **b == b'\\').count();
        match rest.get(blank + slashed) {
            // Backslashes at the end may belong to the sign, or begin white space, as `\n` does.
            None if more && slashed <= MAX_BACKSLASHES => return NextElement::Undecided,
            Some(byte) if *byte == sign && slashed == slashes => at += blank + slashed + 1,
            _ => return NextElement::No,
        }
    }
    NextElement::Begins(at)
}

/// Reads what separates two cookie values: a semicolon, the name of the second cookie and `=`.
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

/// A longer text is not taken for the name of a cookie.
const MAX_COOKIE_NAME: usize = 128;

/// The most semicolons and spaces between two cookies.
const MAX_COOKIE_SEPARATORS: usize = 32;
