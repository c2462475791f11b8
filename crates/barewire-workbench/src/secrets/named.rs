//! A name in a text -> the secret behind it.
//!
//! The text is not parsed. A name counts where it is followed by `:` or `=`, or is that of an option, so that members of JSON, JSON
//! within a string of JSON, queries, headers, arguments and variables are found alike, also in a line that is broken.

use super::SecretKind;
use super::ending::{Element, Ending, element};
use super::names::{self, NameContext, Secret};
use super::redact::is_replacement;
use super::shapes::{
    self, LONGEST_PLACEHOLDER, LONGEST_SCHEME, is_key, is_number, is_space, is_token, scheme, separates,
};
use super::view::{Found, LONGEST_RUN, MOST_SLASHES, MOST_SPACES, View, is_name};
use super::words;

/// A name, and where it stands.
#[derive(Clone, Copy)]
struct Named<'a> {
    /// Empty if it stands elsewhere.
    name: &'a [u8],
    place: NameContext,
    secret: Secret,
    /// Backslashes before its quotes.
    slashes: usize,
    /// It stands in quotes of JSON, as a member or as the string before its value.
    is_string: bool,
}

impl View<'_> {
    /// A name and its value; or a URL.
    pub(super) fn separator(&self, at: usize) -> Found {
        let text = self.text;
        if text[at] == b'%' {
            return self.encoded(at);
        }
        let colon = text[at] == b':';
        if colon && let Some(authority) = self.authority(at + 1) {
            return self.userinfo(authority);
        }
        let is_quote = |end: usize| end > self.floor && matches!(text[end - 1], b'"' | b'\'');
        let blank = self.back_blank(at);
        let quoted = is_quote(blank);
        let spaced = if quoted { blank } else { self.back(at, MOST_SPACES, |b| b == b' ') };
        let name_end = if quoted { self.back(spaced - 1, MOST_SLASHES, |b| b == b'\\') } else { spaced };
        let mut name_start = self.back(name_end, names::LONGEST_WRITTEN, is_name);
        // The letter of an escape, as of the end of the line before, is no part of the name.
        let is_escape = text[self.floor..name_start].ends_with(b"\\");
        if !quoted && is_escape && matches!(text[name_start], b'n' | b'r' | b't') {
            name_start += 1;
        }
        let query = name_start > self.floor && matches!(text[name_start - 1], b'?' | b'&');
        let place = match (colon, quoted) {
            (true, true) => NameContext::Member,
            (true, false) => NameContext::Plain,
            // As in a file of settings; it says no less than a colon does.
            (false, false) if spaced < at => NameContext::Plain,
            (false, false) if query => NameContext::Query,
            (false, false) => NameContext::Assigned,
            (false, true) => return Found::Nothing,
        };
        if place == NameContext::Member && &text[name_start..name_end] == b"value" && name_start > self.floor {
            let slashes = spaced - 1 - name_end;
            return match self.sibling(name_start - 1, slashes) {
                Some(secret) => self.value(at + 1, Named { name: b"", place, secret, slashes, is_string: true }),
                None => Found::Nothing,
            };
        }
        let is_escaped = quoted && name_start > self.floor && text[name_start - 1] == b'\\';
        let secret = if is_escaped {
            let start = self.back(name_end, names::LONGEST_WRITTEN, |b| is_name(b) || b == b'\\');
            names::escaped_secret(&text[start..name_end], place)
        } else {
            let spaced = || quoted.then(|| self.spaced_name(name_start, name_end, place)).flatten();
            names::secret(&text[name_start..name_end], place).or_else(spaced)
        };
        match secret {
            Some(secret) => {
                let slashes = if quoted { spaced - 1 - name_end } else { 0 };
                let is_string = quoted && text[spaced - 1] == b'"';
                let name = &text[name_start..name_end];
                self.value(at + 1, Named { name, place, secret, slashes, is_string })
            }
            None => Found::Nothing,
        }
    }

    /// `"api key"`: what a name of many words says. It may be a sentence as well, so not all values are secrets.
    fn spaced_name(&self, last_word: usize, end: usize, place: NameContext) -> Option<Secret> {
        if !self.text[self.floor..last_word].ends_with(b" ") {
            return None;
        }
        let start = self.back(end, names::LONGEST_WRITTEN, |b| is_name(b) || b == b' ');
        names::secret(&self.text[start..end], place).map(|_| Secret::Key)
    }

    /// `{"name": "API_KEY", "value": …}`: what the name says of the value whose own name begins behind this quote. All quotes have so
    /// many backslashes before them.
    fn sibling(&self, quote: usize, slashes: usize) -> Option<Secret> {
        let sign = |end: usize, byte: u8| {
            let end = self.back_blank(end);
            (end > self.floor && self.text[end - 1] == byte).then(|| end - 1)
        };
        let slashed = |quote: usize| {
            let start = self.back(quote, MOST_SLASHES, |b| b == b'\\');
            (quote - start == slashes).then_some(start)
        };
        let end = slashed(sign(sign(slashed(quote)?, b',')?, b'"')?)?;
        let start = self.back(end, names::LONGEST_WRITTEN, is_name);
        let opening = start.checked_sub(1).filter(|at| *at >= self.floor && self.text[*at] == b'"')?;
        let closing = slashed(sign(sign(slashed(opening)?, b':')?, b'"')?)?;
        let before = &self.text[self.floor..closing];
        let is_name = before.ends_with(b"\"name") || before.ends_with(b"\"key");
        let name = &self.text[start..end];
        is_name.then(|| names::secret(name, NameContext::Assigned).or_else(|| names::header(name)))?
    }

    /// The value of a member, behind its colon. That it is a secret is known from elsewhere.
    pub(super) fn secret_value(&self, colon: usize) -> Found {
        let quote = self.back_blank(colon);
        let slashes = quote.saturating_sub(1) - self.back(quote.saturating_sub(1), MOST_SLASHES, |b| b == b'\\');
        self.value(
            colon + 1,
            Named { name: b"", place: NameContext::Member, secret: Secret::Other, slashes, is_string: true },
        )
    }

    fn value(&self, from: usize, named: Named<'_>) -> Found {
        let text = self.text;
        let Named { place, secret, .. } = named;
        let mut at = match place {
            NameContext::Member => self.blank(from),
            NameContext::Plain => self.skip(from, MOST_SPACES, is_space),
            NameContext::Assigned | NameContext::Query => from,
        };
        let in_array = place == NameContext::Member && text.get(at) == Some(&b'[');
        if in_array {
            at = self.blank(at + 1);
        }
        let quote = self.skip(at, MOST_SLASHES, |b| b == b'\\');
        let slashes = quote - at;
        let start = quote + 1;
        match text.get(quote) {
            None => self.wait(),
            Some(b'"') if (slashes + 1).is_power_of_two() => {
                self.open(start, Ending::Quote { slashes }, named, in_array)
            }
            Some(b'\'') if slashes == 0 && place != NameContext::Query => {
                self.open(start, Ending::Apostrophe, named, in_array)
            }
            Some(b'0'..=b'9' | b'-') if place == NameContext::Member && slashes == 0 && !in_array => {
                let Named { slashes, is_string, .. } = named;
                let fits = |run: &[u8]| secret.fits_number(run);
                let quoted = if is_string { b'"' } else { b'\'' };
                let number = |start, end| Found::Number { start, end, quote: quoted, slashes };
                self.run(quote, is_number, fits, number)
            }
            Some(b'{') if place == NameContext::Member && slashes == 0 && !in_array => {
                self.object(quote, named.slashes)
            }
            Some(_) if place == NameContext::Member || slashes > 0 => Found::Nothing,
            // What stands for a value is none.
            Some(b'$' | b'{' | b'<' | b'=') => Found::Nothing,
            Some(_) if place == NameContext::Plain => self.plain(quote, named),
            Some(byte) if separates(*byte) => Found::Nothing,
            Some(_) if place == NameContext::Query => self.open(quote, Ending::Query, named, false),
            Some(_) => self.open(quote, Ending::Separator, named, false),
        }
    }

    /// A secret begins here, behind its scheme if there is one.
    fn open(&self, start: usize, ending: Ending, named: Named<'_>, in_array: bool) -> Found {
        let Named { place, secret, .. } = named;
        let rest = &self.text[start..];
        // Of another depth is the end of the string that all of this is in.
        if let (Ending::Quote { slashes }, true) = (ending, named.is_string)
            && slashes != named.slashes
        {
            return Found::Nothing;
        }
        // Behind a name that is no string itself, a quote may also end the string that the name is in.
        if matches!(ending, Ending::Quote { .. }) && !named.is_string {
            match self.text.get(self.blank(start)) {
                None => return self.wait(),
                Some(b',' | b'}' | b']' | b':') => return Found::Nothing,
                Some(_) => {}
            }
        }
        let most = if secret.is_choosy() { LONGEST_CHOICE } else { LONGEST_PLACEHOLDER };
        let window = &rest[..rest.len().min(most)];
        match ending.find(window, 0) {
            None if self.more && window.len() < most => return Found::Wait,
            end => {
                let value = &window[..end.unwrap_or(window.len())];
                let is_none = end.is_some_and(|end| {
                    shapes::is_placeholder(value)
                        || place == NameContext::Member && !in_array && words::is_sign(value)
                        || matches!(ending, Ending::Separator | Ending::Query)
                            && words::is_code(named.name, value, window.get(end).copied())
                });
                // Of an array of tokens, the first one says nothing about the others.
                let fits = secret.fits(value, place) || in_array && secret == Secret::Word;
                if is_none || !fits {
                    return Found::Nothing;
                }
            }
        }
        let start = match secret {
            Secret::Authorization => start + scheme(rest),
            _ => start,
        };
        // What was redacted before stays as it is, if the replacement text is all of the value.
        let rest = &self.text[start..];
        let window = &rest[..rest.len().min(LONGEST_PLACEHOLDER)];
        let end = ending.find(window, 0).unwrap_or(window.len());
        if is_replacement(window[..end].trim_ascii_end()) {
            return Found::Nothing;
        }
        Found::Open { start, ending, in_array, kind: SecretKind::Named(place) }
    }

    /// A value without quotes behind a colon: perhaps a header, perhaps prose.
    fn plain(&self, start: usize, Named { name, place, secret, .. }: Named<'_>) -> Found {
        let scheme = match secret {
            Secret::Authorization => scheme(&self.text[start..]),
            _ => 0,
        };
        if self.more && self.text.len() - start < LONGEST_SCHEME {
            return Found::Wait;
        }
        let found = |start, end| Found::whole(start, end, SecretKind::Named(place));
        if secret == Secret::Authorization
            && let Some(found) = self.parameters(start, scheme)
        {
            return found;
        }
        if scheme > 0 {
            return self.run(self.gap(start + scheme), is_token, |run| run.len() >= 6, found);
        }
        if let Some(found) = self.cookies(start, name) {
            return found;
        }
        let part = |b| !separates(b);
        let end = self.skip(start, LONGEST_RUN, part);
        let next = self.skip(end, MOST_SPACES, is_space);
        if next >= self.text.len() && self.more && end - start < LONGEST_RUN {
            return Found::Wait;
        }
        // Whether the line, the string or the setting is over.
        let alone = self.text.get(next).is_none_or(|b| separates(*b) || *b == b'#');
        let fits = |run: &[u8]| {
            words::is_value(run, alone, secret == Secret::Password)
                && !words::is_code(name, run, self.text.get(end).copied())
                && secret.fits(run, place)
        };
        self.run(start, part, fits, found)
    }

    /// `Cookie: name=…; name=…`: the names stay. Behind the first one of a Set-Cookie are Path, Domain and the like.
    fn cookies(&self, start: usize, name: &[u8]) -> Option<Found> {
        let is = |cookie: &[u8]| name.eq_ignore_ascii_case(cookie);
        let ending = match () {
            () if is(b"cookie") => Ending::Cookie,
            () if is(b"set-cookie") => Ending::Separator,
            () => return None,
        };
        let equals = self.skip(start, names::LONGEST_WRITTEN, is_name);
        match self.text.get(equals) {
            None if self.more => Some(Found::Wait),
            Some(b'=') => {
                let kind = SecretKind::Named(NameContext::Plain);
                Some(Found::Open { start: equals + 1, ending, in_array: false, kind })
            }
            _ => None,
        }
    }

    /// `{"type": …, "value": …}` as the value of a member that is named like a secret: of what such an object says, only some of it is
    /// one. Schemas are such objects more often, and hold none.
    fn object(&self, from: usize, slashes: usize) -> Found {
        let text = &self.text[..self.text.len().min(from + LONGEST_OBJECT)];
        let (mut at, mut depth) = (from, 0_usize);
        while let Some(byte) = text.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth <= 1 => return Found::Nothing,
                b'}' | b']' => depth -= 1,
                b'"' => {
                    let Some(end) = Ending::Quote { slashes }.find(text, at) else { break };
                    let behind = (end + slashes + 1).min(text.len());
                    let colon = self.blank(behind);
                    if depth == 1 && text.get(colon) == Some(&b':') && VALUES.contains(&&text[at..end]) {
                        return Found::Inside { colon };
                    }
                    at = behind;
                }
                _ => {}
            }
        }
        if self.more && self.text.len() - from < LONGEST_OBJECT { Found::Wait } else { Found::Nothing }
    }

    /// `--password X` in a line of a shell, and `"--password", "X"` in a list of arguments. The sign here is the second dash.
    pub(super) fn option(&self, at: usize) -> Found {
        let text = self.text;
        let is_first = at < self.floor + 2 || !is_key(text[at - 2]);
        if !is_first || text.get(at + 1).is_some_and(|b| !b.is_ascii_alphabetic()) {
            return Found::Nothing;
        }
        let end = self.skip(at + 1, names::LONGEST_WRITTEN, is_name);
        let Some(sign) = text.get(end) else { return self.wait() };
        let Some(secret) = names::secret(&text[at + 1..end], NameContext::Assigned) else { return Found::Nothing };
        let is_argument = at >= self.floor + 2 && text[at - 2] == b'"' && !is_space(*sign);
        let slashes = self.skip(end, MOST_SLASHES, |b| b == b'\\') - end;
        let named = Named { name: b"", place: NameContext::Assigned, secret, slashes, is_string: is_argument };
        if is_argument {
            return self.next_argument(end, named);
        }
        if !is_space(*sign) {
            return Found::Nothing;
        }
        let value = self.skip(end, MOST_SPACES, is_space);
        let quote = self.skip(value, MOST_SLASHES, |b| b == b'\\');
        let slashes = quote - value;
        match text.get(quote) {
            None => self.wait(),
            Some(b'"') if (slashes + 1).is_power_of_two() => {
                self.open(quote + 1, Ending::Quote { slashes }, named, false)
            }
            Some(b'\'') if slashes == 0 => self.open(quote + 1, Ending::Apostrophe, named, false),
            Some(b'-' | b'$' | b'=' | b'\\') => Found::Nothing,
            Some(_) => {
                let fits = |run: &[u8]| {
                    !shapes::is_prose(run) && !shapes::is_placeholder(run) && secret.fits(run, NameContext::Assigned)
                };
                let kind = SecretKind::Named(NameContext::Assigned);
                self.run(value, |b| !separates(b), fits, |start, end| Found::whole(start, end, kind))
            }
        }
    }

    /// What stands behind the option that ends here, in a list of arguments.
    fn next_argument(&self, end: usize, named: Named<'_>) -> Found {
        let slashes = named.slashes;
        match element(&self.text[end..], slashes, self.more) {
            Element::Undecided => Found::Wait,
            Element::No => Found::Nothing,
            Element::Begins(behind) => match self.text.get(end + behind) {
                None => self.wait(),
                Some(b'-') => Found::Nothing,
                Some(_) => match self.is_a_name(end + behind, slashes) {
                    None => Found::Wait,
                    Some(true) => Found::Nothing,
                    Some(false) => self.open(end + behind, Ending::Quote { slashes }, named, false),
                },
            },
        }
    }

    /// Whether the string that begins here is the name of a member, and no argument. `None` if that is not to be seen yet.
    fn is_a_name(&self, start: usize, slashes: usize) -> Option<bool> {
        let rest = &self.text[start..];
        let window = &rest[..rest.len().min(names::LONGEST_WRITTEN)];
        let end = Ending::Quote { slashes }.find(window, 0);
        let next = match end {
            Some(end) => {
                let at = self.blank(start + end + slashes + 1);
                // Backslashes at the end may begin white space, as `\n` does.
                let behind = self.skip(at, MOST_SLASHES, |b| b == b'\\');
                self.text.get(at).filter(|_| behind < self.text.len())
            }
            None if window.len() < rest.len() => return Some(false),
            None => None,
        };
        if next.is_none() && self.more { None } else { Some(next == Some(&b':')) }
    }
}

/// The members of an object under which a secret stands.
const VALUES: &[&[u8]] = &[b"value", b"Value", b"data", b"plaintext"];

/// Whether a longer value is random its beginning says.
const LONGEST_CHOICE: usize = 256;

/// What describes a secret before its value is short, also with every member on a line of its own.
pub(super) const LONGEST_OBJECT: usize = 512;
