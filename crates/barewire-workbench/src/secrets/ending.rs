//! A secret that has begun -> where it ends, and where the next one of its array begins.

use memchr::{memchr_iter, memchr2};

use super::shapes::{is_token, separates};
use super::view::{MOST_SLASHES, blank};

/// What ends a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// A quote behind so many backslashes: 0 in JSON, 1 in JSON within a string of JSON, then 3 and 7.
    Quote { slashes: usize },
    /// `'`, or the end of the string around it.
    Apostrophe,
    /// White space, or a sign that separates.
    Separator,
    /// The same, or `#`, which ends a query.
    Query,
    /// What cannot be part of a cookie; another one may follow.
    Cookie,
    /// Any byte that is not part of Base64.
    Pem,
}

impl Ending {
    /// Where a secret that begins at `start` ends, if it does.
    pub(super) fn find(self, text: &[u8], start: usize) -> Option<usize> {
        let rest = &text[start..];
        let end = match self {
            Self::Quote { slashes } => memchr_iter(b'"', rest).find_map(|quote| {
                let before = rest[..quote].iter().rev().take_while(|b| **b == b'\\').count();
                // Its own quote, or that of a string around it: the outermost has none before it but those that are meant as such.
                let depths = std::iter::successors(Some(0), |depth| Some(2 * depth + 1));
                let closing = depths.take_while(|it| *it <= slashes).find(|it| before % (2 * it + 2) == *it);
                closing.map(|slashes| quote - slashes)
            }),
            Self::Apostrophe => {
                let quote = memchr2(b'\'', b'"', rest)?;
                Some(without_slashes(rest, quote))
            }
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

/// The end of a value without the backslashes that belong to the quote behind it.
fn without_slashes(text: &[u8], end: usize) -> usize {
    end - text[..end].iter().rev().take_while(|b| **b == b'\\').count()
}

/// What follows a string of an array, or a cookie.
pub(super) enum Element {
    /// Another one begins so far behind.
    Begins(usize),
    No,
    /// Not enough is there to say so.
    Undecided,
}

/// What stands between two strings of an array: a quote, a comma, a quote; either behind so many backslashes.
pub(super) fn element(text: &[u8], slashes: usize, more: bool) -> Element {
    let mut at = 0;
    for (spaced, slashes, sign) in [(false, slashes, b'"'), (true, 0, b','), (true, slashes, b'"')] {
        let rest = &text[at..];
        let blank = if spaced { blank(rest) } else { 0 };
        let slashed = rest[blank..].iter().take_while(|b| **b == b'\\').count();
        match rest.get(blank + slashed) {
            // Backslashes at the end may belong to the sign, or begin white space, as `\n` does.
            None if more && slashed <= MOST_SLASHES => return Element::Undecided,
            Some(byte) if *byte == sign && slashed == slashes => at += blank + slashed + 1,
            _ => return Element::No,
        }
    }
    Element::Begins(at)
}

/// What stands between two cookies: a semicolon and the name of the second.
pub(super) fn cookie(text: &[u8], more: bool) -> Element {
    let signs = text.iter().take(MOST_BETWEEN);
    let between = signs.take_while(|b| matches!(b, b';' | b' ')).count();
    if text.first().is_some_and(|b| *b != b';') {
        return Element::No;
    }
    let name = text[between..].iter().take(LONGEST_COOKIE).take_while(|b| is_token(**b) && **b != b'=').count();
    match text.get(between + name) {
        None if more => Element::Undecided,
        Some(b'=') if name > 0 => Element::Begins(between + name + 1),
        _ => Element::No,
    }
}

/// Longer names are none.
const LONGEST_COOKIE: usize = 128;

/// Signs between two cookies.
const MOST_BETWEEN: usize = 32;
