//! Finds secrets in the parameters of an `Authorization` header, and in a URL query within a query.

use super::SecretKind;
use super::ending::{EndSearch, SecretEnd};
use super::names::{self, NameContext};
use super::shapes::{self, MAX_SCHEME, is_key, separates};
use super::view::{AfterSecret, MAX_RUN, SecretMatch, TextView, is_name};

enum Parameter {
    /// A parameter that ends at this offset.
    Ends(usize),
    No,
    /// The text is too short to decide.
    Undecided,
}

impl TextView<'_> {
    /// Examines `Digest username="…", response="…"`: all parameters after the scheme are one secret. A word that is not
    /// a known scheme may be prose, so at least two parameters must follow it.
    pub(super) fn parameters(&self, start: usize, scheme: usize) -> Option<SecretMatch> {
        let most = self.text.len().min(start + MAX_RUN);
        let view = TextView { text: &self.text[..most], more: self.more && most < start + MAX_RUN, ..*self };
        let behind = if scheme > 0 { start + scheme } else { self.skip(start, MAX_SCHEME, is_key) };
        let first = view.gap(behind);
        let (mut end, mut next, mut count) = (first, first, 0);
        loop {
            end = match view.parameter(next) {
                Parameter::Ends(end) => end,
                Parameter::No => break,
                Parameter::Undecided => return Some(SecretMatch::Wait),
            };
            count += 1;
            let comma = view.gap(end);
            match view.text.get(comma) {
                None if view.more => return Some(SecretMatch::Wait),
                Some(b',') => next = view.gap(comma + 1),
                _ => break,
            }
        }
        let least = if scheme > 0 { 1 } else { 2 };
        (count >= least).then(|| SecretMatch::whole(first, end, SecretKind::Named(NameContext::Plain)))
    }

    /// Reads `name=value` or `name="value"`.
    fn parameter(&self, start: usize) -> Parameter {
        let text = self.text;
        let none = if self.more { Parameter::Undecided } else { Parameter::No };
        let equals = self.skip(start, names::MAX_WRITTEN_NAME, is_key);
        match text.get(equals) {
            None => return none,
            Some(b'=') if equals > start => {}
            Some(_) => return Parameter::No,
        }
        let value = equals + 1;
        match text.get(value) {
            None => none,
            Some(b'"') => match text.get(self.skip_json_space(value + 1)) {
                None => none,
                // This quote ends the string that contains the parameter.
                Some(b',' | b'}' | b']' | b':') => Parameter::No,
                Some(_) => self.quoted(value),
            },
            // The `=` is the padding of Base64.
            Some(b'=') => Parameter::No,
            Some(_) => match text[value..].iter().position(|b| separates(*b) && *b != b';') {
                Some(0) => Parameter::No,
                None if self.more => Parameter::Undecided,
                length => Parameter::Ends(length.map_or(text.len(), |length| value + length)),
            },
        }
    }

    /// Reads a value in the quotes that begin at `quote`.
    fn quoted(&self, quote: usize) -> Parameter {
        let depth = self.plain.depth(quote);
        match (SecretEnd::Quote { mark: b'"', depth }).find(self, quote + 1) {
            EndSearch::After(_) if self.more => Parameter::Undecided,
            EndSearch::After(end) => Parameter::Ends(end),
            EndSearch::At(end) if self.plain.depth(end) == depth => Parameter::Ends(end + 1),
            // Any other quote ends the string that contains the parameter.
            EndSearch::At(end) => Parameter::Ends(end),
        }
    }

    /// Examines `%3Ftoken%3D…`: a name and its value in the query of a URL that is itself a query value.
    pub(super) fn encoded(&self, at: usize) -> SecretMatch {
        let text = self.text;
        let Some((b'=', length)) = sign(&text[at..]) else { return SecretMatch::Nothing };
        let start = at + length;
        let before = self.back(at, names::MAX_WRITTEN_NAME, is_name).saturating_sub(1).max(self.floor);
        let Some((b'?' | b'&', length)) = sign(&text[before..at]) else { return SecretMatch::Nothing };
        let Some(secret) = names::secret_class(&text[before + length..at], NameContext::Query) else {
            return SecretMatch::Nothing;
        };
        let rest = &text[start..text.len().min(start + MAX_RUN)];
        let ends = |at: &usize| match rest[*at] {
            b'%' => matches!(sign(&rest[*at..]), Some((b'&' | b'#', _))),
            byte => separates(byte) || byte == b'#',
        };
        let kind = SecretKind::Named(NameContext::Query);
        match (0..rest.len()).find(ends) {
            None if rest.len() == MAX_RUN => {
                SecretMatch::Open { start, ending: SecretEnd::Query, after: AfterSecret::Nothing, kind }
            }
            None if self.more => SecretMatch::Wait,
            end => {
                let value = &rest[..end.unwrap_or(rest.len())];
                let is_one = !shapes::is_placeholder(value) && secret.fits(value, NameContext::Query);
                if is_one { SecretMatch::whole(start, start + value.len(), kind) } else { SecretMatch::Nothing }
            }
        }
    }
}

/// Reads a percent-encoded character, also one that is encoded several times. Returns the character and the length of
/// its encoding.
fn sign(text: &[u8]) -> Option<(u8, usize)> {
    let mut digits = text.strip_prefix(b"%")?;
    // `%25` is an encoded percent sign.
    while let Some(inner) = digits.strip_prefix(b"25")
        && text.len() - inner.len() < MAX_ENCODED_SIGN
    {
        digits = inner;
    }
    let code = std::str::from_utf8(digits.get(..2)?).ok()?;
    Some((u8::from_str_radix(code, 16).ok()?, text.len() - digits.len() + 2))
}

/// The maximum length of an encoded character: `%25253D`.
const MAX_ENCODED_SIGN: usize = 7;
