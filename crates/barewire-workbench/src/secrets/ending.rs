//! Finds the end of a secret whose start is known, and the start of the next secret in the same array or cookie header.

use memchr::{memchr, memchr_iter, memchr2, memchr2_iter, memmem, memrchr};

use super::shapes::{is_base64, is_key, is_token, separates};
use super::view::TextView;

/// The rule that determines where a secret ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretEnd {
    /// At this quote, or at a `"` that ends a surrounding string. `depth` is the number of strings around the secret's.
    Quote { mark: u8, depth: u8 },
    /// At white space or a separator such as a comma.
    Separator,
    /// At the same bytes as `Separator`, and at `#`, which ends a URL query.
    Query,
    /// At a byte that cannot be part of a cookie value. Another cookie may follow.
    Cookie,
    /// At any byte that is not part of Base64 or of the headers before it.
    Pem,
}

/// The end of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndSearch {
    At(usize),
    /// The text does not contain the end, but the secret continues at least up to this offset.
    After(usize),
}

impl SecretEnd {
    /// Finds the end of the secret whose rest begins at `start`.
    pub(super) fn find(self, view: &TextView<'_>, start: usize) -> EndSearch {
        let rest = &view.text[start..];
        let end = match self {
            Self::Quote { mark: b'"', depth } => {
                memchr_iter(b'"', rest).find(|quote| view.plain.depth(start + quote) <= depth)
            }
            Self::Quote { mark, depth } => memchr2_iter(mark, b'"', rest)
                .find(|quote| rest[*quote] == b'"' || view.plain.depth(start + quote) <= depth),
            Self::Separator => rest.iter().position(|b| separates(*b)),
            Self::Query => rest.iter().position(|b| separates(*b) || *b == b'#'),
            Self::Cookie => rest.iter().position(|b| *b <= b' ' || matches!(b, b'"' | b'\'' | b',' | b';' | b'\\')),
            Self::Pem => return end_of_key(view, start),
        };
        end.map_or(EndSearch::After(view.text.len()), |end| EndSearch::At(start + end))
    }

    /// Finds the end of the secret within its first `most` bytes.
    pub(super) fn find_within(self, view: &TextView<'_>, start: usize, most: usize) -> Option<usize> {
        let text = &view.text[..view.text.len().min(start + most)];
        match self.find(&TextView { text, ..*view }, start) {
            EndSearch::At(end) => Some(end),
            EndSearch::After(_) => None,
        }
    }
}

/// Finds the end of a private key. Before its Base64, lines such as `Proc-Type: 4,ENCRYPTED` may describe it.
fn end_of_key(view: &TextView<'_>, start: usize) -> EndSearch {
    let text = view.text;
    let mut at = start;
    loop {
        at += text[at..].iter().take_while(|b| is_base64(**b) || b.is_ascii_whitespace()).count();
        let Some(byte) = text.get(at) else { return EndSearch::After(at) };
        let before = &text[at.saturating_sub(MAX_KEY_HEADER)..at];
        let Some(line) = memrchr(b'\n', before).map(|line| at - before.len() + line + 1) else {
            return EndSearch::At(at);
        };
        let name = line + text[line..].iter().take(MAX_KEY_HEADER_NAME).take_while(|b| is_key(**b)).count();
        // A line that begins before the key is no header of it.
        let is_before = memchr(b'"', &text[line..at]).is_some() || memmem::find(&text[line..at], b"-----").is_some();
        if *byte == b'"' || is_before || line == name || !text[line].is_ascii_uppercase() {
            return EndSearch::At(at);
        }
        match &text[name..] {
            [] | [b':'] if view.more => return EndSearch::After(at),
            [b':', b' ', ..] => {
                let rest = &text[at..text.len().min(line + MAX_KEY_HEADER)];
                match memchr2(b'\n', b'"', rest) {
                    Some(end) => at += end,
                    // A header is taken whole, so that it ends at the same byte however the text is split.
                    None if view.more && text.len() < line + MAX_KEY_HEADER => return EndSearch::After(at),
                    None => at += rest.len(),
                }
            }
            _ => return EndSearch::At(at),
        }
    }
}

/// Says whether another array element follows a string, or another cookie follows a cookie.
pub(super) enum NextElement {
    /// The next element or cookie value begins at this offset.
    Begins(usize),
    No,
    /// The text is too short to decide.
    Undecided,
}

/// Reads the separator of two strings in a list: a quote, a comma and a quote. Both quotes are like the one at `at`.
pub(super) fn element(view: &TextView<'_>, at: usize) -> NextElement {
    let Some(quote) = view.quote(at) else {
        return if at >= view.text.len() && view.more { NextElement::Undecided } else { NextElement::No };
    };
    let comma = view.skip_json_space(at + 1);
    let next = view.skip_json_space(comma + 1);
    match (view.text.get(comma), view.quote(next)) {
        (Some(b','), Some(other)) if other == quote => NextElement::Begins(next + 1),
        (None, _) if view.more => NextElement::Undecided,
        (Some(b','), None) if next >= view.text.len() && view.more => NextElement::Undecided,
        _ => NextElement::No,
    }
}

/// Reads the text between two cookie values: a semicolon, the name of the second cookie and `=`.
pub(super) fn cookie(view: &TextView<'_>, at: usize) -> NextElement {
    if view.text.get(at).is_some_and(|b| *b != b';') {
        return NextElement::No;
    }
    let name = view.skip(at, MAX_COOKIE_SEPARATORS, |b| matches!(b, b';' | b' '));
    let equals = view.skip(name, MAX_COOKIE_NAME, |b| is_token(b) && b != b'=');
    match view.text.get(equals) {
        None if view.more => NextElement::Undecided,
        Some(b'=') if equals > name => NextElement::Begins(equals + 1),
        _ => NextElement::No,
    }
}

/// Reads the text between two strings that hold lines of one private key: `", "` in an array, `" + "` in a program.
pub(super) fn next_line_of_key(view: &TextView<'_>, at: usize) -> NextElement {
    let Some(quote) = view.quote(at) else {
        return if at >= view.text.len() && view.more { NextElement::Undecided } else { NextElement::No };
    };
    let sign = view.skip_json_space(at + 1);
    let is_sign = |b: &u8| matches!(b, b',' | b'+' | b'.');
    let next = match view.text.get(sign) {
        Some(b) if is_sign(b) => view.skip_json_space(sign + 1),
        _ => sign,
    };
    let line = next + 1;
    match view.quote(next) {
        None if next >= view.text.len() && view.more => return NextElement::Undecided,
        Some(other) if other == quote => {}
        _ => return NextElement::No,
    }
    let is_end = view.text.get(line) == Some(&b'-');
    match view.after_string(line, quote, MAX_KEY_LINE) {
        _ if is_end => NextElement::No,
        // The string is the name of a member.
        Some((_, Some(b':'))) => NextElement::No,
        Some((_, None)) if view.more => NextElement::Undecided,
        None if view.more && view.text.len() - line < MAX_KEY_LINE => NextElement::Undecided,
        _ => NextElement::Begins(line),
    }
}

/// The maximum length of a cookie name.
const MAX_COOKIE_NAME: usize = 128;

/// The maximum number of semicolons and spaces between two cookies.
const MAX_COOKIE_SEPARATORS: usize = 32;

/// The maximum length of the name of a header in a private key: longer than `Proc-Type` and `Comment`.
const MAX_KEY_HEADER_NAME: usize = 24;

/// The maximum length of such a header.
const MAX_KEY_HEADER: usize = 160;

/// The maximum length of a string that is read to decide whether it is a line of a private key.
const MAX_KEY_LINE: usize = 160;
