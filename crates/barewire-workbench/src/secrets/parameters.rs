//! Names and values that are written in other ways -> the secret in them: what an `Authorization` says behind its scheme, and a query
//! within a query.

use super::SecretKind;
use super::ending::Ending;
use super::names::{self, NameContext};
use super::shapes::{self, LONGEST_SCHEME, is_key, separates};
use super::view::{Found, LONGEST_RUN, MOST_SLASHES, View, is_name};

/// What stands where a parameter may.
enum Parameter {
    /// One that ends here.
    Ends(usize),
    No,
    /// Not enough is there to say so.
    Undecided,
}

impl View<'_> {
    /// `Digest username="…", response="…"`: all of the parameters, behind the scheme. What is no scheme that is known may be prose, and
    /// has to have more than one.
    pub(super) fn parameters(&self, start: usize, scheme: usize) -> Option<Found> {
        let most = self.text.len().min(start + LONGEST_RUN);
        let view = View { text: &self.text[..most], floor: self.floor, more: self.more && most < start + LONGEST_RUN };
        let behind = if scheme > 0 { start + scheme } else { self.skip(start, LONGEST_SCHEME, is_key) };
        let first = view.gap(behind);
        let (mut end, mut next, mut count) = (first, first, 0);
        loop {
            end = match view.parameter(next) {
                Parameter::Ends(end) => end,
                Parameter::No => break,
                Parameter::Undecided => return Some(Found::Wait),
            };
            count += 1;
            let comma = view.gap(end);
            match view.text.get(comma) {
                None if view.more => return Some(Found::Wait),
                Some(b',') => next = view.gap(comma + 1),
                _ => break,
            }
        }
        let least = if scheme > 0 { 1 } else { 2 };
        (count >= least).then(|| Found::whole(first, end, SecretKind::Named(NameContext::Plain)))
    }

    /// `name=value` or `name="value"`.
    fn parameter(&self, start: usize) -> Parameter {
        let text = self.text;
        let none = if self.more { Parameter::Undecided } else { Parameter::No };
        let equals = self.skip(start, names::LONGEST_WRITTEN, is_key);
        match text.get(equals) {
            None => return none,
            Some(b'=') if equals > start => {}
            Some(_) => return Parameter::No,
        }
        let value = equals + 1;
        let quote = self.skip(value, MOST_SLASHES, |b| b == b'\\');
        match text.get(quote) {
            None => none,
            Some(b'"') => match text.get(self.blank(quote + 1)) {
                None => none,
                // It ends the string that all of this is in.
                Some(b',' | b'}' | b']' | b':') => Parameter::No,
                Some(_) => self.quoted(quote + 1, &text[value..=quote]),
            },
            // What pads Base64 is no value.
            Some(b'=') => Parameter::No,
            Some(_) => match text[value..].iter().position(|b| separates(*b) && *b != b';') {
                Some(0) => Parameter::No,
                None if self.more => Parameter::Undecided,
                length => Parameter::Ends(length.map_or(text.len(), |length| value + length)),
            },
        }
    }

    /// A value that began with this quote and the backslashes before it.
    fn quoted(&self, start: usize, quote: &[u8]) -> Parameter {
        let ending = Ending::Quote { slashes: quote.len() - 1 };
        match ending.find(self.text, start) {
            None if self.more => Parameter::Undecided,
            None => Parameter::Ends(self.text.len()),
            // Or the string ends that all of this is in.
            Some(end) if self.text[end..].starts_with(quote) => Parameter::Ends(end + quote.len()),
            Some(end) => Parameter::Ends(end),
        }
    }

    /// `%3Ftoken%3D…`: a name and its value in the query of a URL that is itself a value in one.
    pub(super) fn encoded(&self, at: usize) -> Found {
        let text = self.text;
        let Some((b'=', length)) = sign(&text[at..]) else { return Found::Nothing };
        let start = at + length;
        let before = self.back(at, names::LONGEST_WRITTEN, is_name).saturating_sub(1).max(self.floor);
        let Some((b'?' | b'&', length)) = sign(&text[before..at]) else { return Found::Nothing };
        let Some(secret) = names::secret(&text[before + length..at], NameContext::Query) else {
            return Found::Nothing;
        };
        let rest = &text[start..text.len().min(start + LONGEST_RUN)];
        let ends = |at: &usize| match rest[*at] {
            b'%' => matches!(sign(&rest[*at..]), Some((b'&' | b'#', _))),
            byte => separates(byte) || byte == b'#',
        };
        let kind = SecretKind::Named(NameContext::Query);
        match (0..rest.len()).find(ends) {
            None if rest.len() == LONGEST_RUN => Found::Open { start, ending: Ending::Query, in_array: false, kind },
            None if self.more => Found::Wait,
            end => {
                let value = &rest[..end.unwrap_or(rest.len())];
                let is_one = !shapes::is_placeholder(value) && secret.fits(value, NameContext::Query);
                if is_one { Found::whole(start, start + value.len(), kind) } else { Found::Nothing }
            }
        }
    }
}

/// The sign that is written here as in a URL, or in a URL within one, and how long that is.
fn sign(text: &[u8]) -> Option<(u8, usize)> {
    let mut digits = text.strip_prefix(b"%")?;
    // The percent sign of the one is written as in the other.
    while let Some(inner) = digits.strip_prefix(b"25")
        && text.len() - inner.len() < LONGEST_SIGN
    {
        digits = inner;
    }
    let code = std::str::from_utf8(digits.get(..2)?).ok()?;
    Some((u8::from_str_radix(code, 16).ok()?, text.len() - digits.len() + 2))
}

/// `%25253D`
const LONGEST_SIGN: usize = 7;
