//! Finds the secret after a name in a text.
//!
//! The text is not parsed. A word is treated as a name if `:` or `=` follows it, or if it is an option. So the same
//! rules find JSON members, JSON within a JSON string, URL queries, headers, arguments and variables, also in malformed
//! lines.

use super::SecretKind;
use super::ending::{NextElement, SecretEnd, element};
use super::names::{self, NameContext, SecretClass};
use super::redact::is_replacement;
use super::shapes::{self, MAX_PLACEHOLDER, MAX_SCHEME, is_key, is_number, is_space, is_token, scheme, separates};
use super::view::{MAX_BACKSLASHES, MAX_RUN, MAX_SPACES, SecretMatch, TextView, is_name};
use super::words;

/// The name before a value, and how it is written.
#[derive(Clone, Copy)]
struct NamedValue<'a> {
    /// The name; empty if it is not directly before the value.
    name: &'a [u8],
    place: NameContext,
    secret: SecretClass,
    /// The number of backslashes before the name's quotes.
    slashes: usize,
    /// Whether the name is a JSON string: a member name, or the array element before its value.
    is_string: bool,
}

impl TextView<'_> {
    /// Examines a `:` or `=`, which may be part of a URL, or separate a name from its value.
    pub(super) fn separator(&self, at: usize) -> SecretMatch {
        let text = self.text;
        if text[at] == b'%' {
            return self.encoded(at);
        }
        let colon = text[at] == b':';
        if colon && let Some(authority) = self.authority(at + 1) {
            return self.userinfo(authority);
        }
        let is_quote = |end: usize| end > self.floor && matches!(text[end - 1], b'"' | b'\'');
        let blank = self.back_json_space(at);
        let quoted = is_quote(blank);
        let spaced = if quoted { blank } else { self.back(at, MAX_SPACES, |b| b == b' ') };
        let name_end = if quoted { self.back(spaced - 1, MAX_BACKSLASHES, |b| b == b'\\') } else { spaced };
        let mut name_start = self.back(name_end, names::MAX_WRITTEN_NAME, is_name);
        // The letter of an escape such as `\n` is not part of the name.
        let is_escape = text[self.floor..name_start].ends_with(b"\\");
        if !quoted && is_escape && matches!(text[name_start], b'n' | b'r' | b't') {
            name_start += 1;
        }
        let query = name_start > self.floor && matches!(text[name_start - 1], b'?' | b'&');
        let place = match (colon, quoted) {
            (true, true) => NameContext::Member,
            (true, false) => NameContext::Plain,
            // `name = value`, as in a settings file, is read like `name: value`.
            (false, false) if spaced < at => NameContext::Plain,
            (false, false) if query => NameContext::Query,
            (false, false) => NameContext::Assigned,
            (false, true) => return SecretMatch::Nothing,
        };
        if place == NameContext::Member && &text[name_start..name_end] == b"value" && name_start > self.floor {
            let slashes = spaced - 1 - name_end;
            return match self.sibling(name_start - 1, slashes) {
                Some(secret) => self.value(at + 1, NamedValue { name: b"", place, secret, slashes, is_string: true }),
                None => SecretMatch::Nothing,
            };
        }
        let is_escaped = quoted && name_start > self.floor && text[name_start - 1] == b'\\';
        let secret = if is_escaped {
            let start = self.back(name_end, names::MAX_WRITTEN_NAME, |b| is_name(b) || b == b'\\');
            names::escaped_class(&text[start..name_end], place)
        } else {
            let spaced = || quoted.then(|| self.spaced_name(name_start, name_end, place)).flatten();
            names::secret_class(&text[name_start..name_end], place).or_else(spaced)
        };
        match secret {
            Some(secret) => {
                let slashes = if quoted { spaced - 1 - name_end } else { 0 };
                let is_string = quoted && text[spaced - 1] == b'"';
                let name = &text[name_start..name_end];
                self.value(at + 1, NamedValue { name, place, secret, slashes, is_string })
            }
            None => SecretMatch::Nothing,
        }
    }

    /// Returns the secret class of a name of several words, such as `"api key"`. Such words may also be ordinary prose,
    /// so the value counts as a secret only if it looks randomly generated.
    fn spaced_name(&self, last_word: usize, end: usize, place: NameContext) -> Option<SecretClass> {
        if !self.text[self.floor..last_word].ends_with(b" ") {
            return None;
        }
        let start = self.back(end, names::MAX_WRITTEN_NAME, |b| is_name(b) || b == b' ');
        names::secret_class(&self.text[start..end], place).map(|_| SecretClass::Key)
    }

    /// Returns the class of the value in `{"name": "API_KEY", "value": …}`. `quote` is the offset of the quote before
    /// `value`; `slashes` is the number of backslashes before every quote.
    fn sibling(&self, quote: usize, slashes: usize) -> Option<SecretClass> {
        // The name may contain a secret that was already found, so the text before `floor` is read too.
        let view = TextView { floor: 0, ..*self };
        let sign = |end: usize, byte: u8| {
            let end = view.back_json_space(end);
            view.text[..end].ends_with(&[byte]).then(|| end - 1)
        };
        let slashed = |quote: usize| {
            let start = view.back(quote, MAX_BACKSLASHES, |b| b == b'\\');
            (quote - start == slashes).then_some(start)
        };
        let end = slashed(sign(sign(slashed(quote)?, b',')?, b'"')?)?;
        let start = view.back(end, names::MAX_WRITTEN_NAME, is_name);
        let opening = start.checked_sub(1).filter(|at| view.text[*at] == b'"')?;
        let closing = slashed(sign(sign(slashed(opening)?, b':')?, b'"')?)?;
        let before = &view.text[..closing];
        let is_name = before.ends_with(b"\"name") || before.ends_with(b"\"key");
        let name = &view.text[start..end];
        is_name.then(|| names::secret_class(name, NameContext::Assigned).or_else(|| names::header_class(name)))?
    }

    /// Examines the value after the colon of a member that is known to be a secret.
    pub(super) fn secret_value(&self, colon: usize) -> SecretMatch {
        let quote = self.back_json_space(colon);
        let slashes = quote.saturating_sub(1) - self.back(quote.saturating_sub(1), MAX_BACKSLASHES, |b| b == b'\\');
        self.value(
            colon + 1,
            NamedValue { name: b"", place: NameContext::Member, secret: SecretClass::Other, slashes, is_string: true },
        )
    }

    fn value(&self, from: usize, named: NamedValue<'_>) -> SecretMatch {
        let text = self.text;
        let NamedValue { place, secret, .. } = named;
        let mut at = match place {
            NameContext::Member => self.skip_json_space(from),
            NameContext::Plain => self.skip(from, MAX_SPACES, is_space),
            NameContext::Assigned | NameContext::Query => from,
        };
        let in_array = place == NameContext::Member && text.get(at) == Some(&b'[');
        if in_array {
            at = self.skip_json_space(at + 1);
        }
        let quote = self.skip(at, MAX_BACKSLASHES, |b| b == b'\\');
        let slashes = quote - at;
        let start = quote + 1;
        match text.get(quote) {
            None => self.wait(),
            Some(b'"') if (slashes + 1).is_power_of_two() => {
                self.open(start, SecretEnd::Quote { slashes }, named, in_array)
            }
            Some(b'\'') if slashes == 0 && place != NameContext::Query => {
                self.open(start, SecretEnd::Apostrophe, named, in_array)
            }
            Some(b'0'..=b'9' | b'-') if place == NameContext::Member && slashes == 0 && !in_array => {
                let NamedValue { slashes, is_string, .. } = named;
                let fits = |run: &[u8]| secret.fits_number(run);
                let quoted = if is_string { b'"' } else { b'\'' };
                let number = |start, end| SecretMatch::Number { start, end, quote: quoted, slashes };
                self.run(quote, is_number, fits, number)
            }
            Some(b'{') if place == NameContext::Member && slashes == 0 && !in_array => {
                self.object(quote, named.slashes)
            }
            Some(_) if place == NameContext::Member || slashes > 0 => SecretMatch::Nothing,
            // The value is a placeholder.
            Some(b'$' | b'{' | b'<' | b'=') => SecretMatch::Nothing,
            Some(_) if place == NameContext::Plain => self.plain(quote, named),
            Some(byte) if separates(*byte) => SecretMatch::Nothing,
            Some(_) if place == NameContext::Query => self.open(quote, SecretEnd::Query, named, false),
            Some(_) => self.open(quote, SecretEnd::Separator, named, false),
        }
    }

    /// Examines a value that ends according to `ending`. If the value begins with a scheme such as `Bearer`, the secret
    /// begins after it.
    fn open(&self, start: usize, ending: SecretEnd, named: NamedValue<'_>, in_array: bool) -> SecretMatch {
        let NamedValue { place, secret, .. } = named;
        let rest = &self.text[start..];
        // A quote with a different number of backslashes ends the string that contains both the name and the value.
        if let (SecretEnd::Quote { slashes }, true) = (ending, named.is_string)
            && slashes != named.slashes
        {
            return SecretMatch::Nothing;
        }
        // If the name is not a string itself, a quote may end the string that contains the name.
        if matches!(ending, SecretEnd::Quote { .. }) && !named.is_string {
            match self.text.get(self.skip_json_space(start)) {
                None => return self.wait(),
                Some(b',' | b'}' | b']' | b':') => return SecretMatch::Nothing,
                Some(_) => {}
            }
        }
        let most = if secret.depends_on_value() { MAX_EXAMINED_VALUE } else { MAX_PLACEHOLDER };
        let window = &rest[..rest.len().min(most)];
        match ending.find(window, 0) {
            None if self.more && window.len() < most => return SecretMatch::Wait,
            end => {
                let value = &window[..end.unwrap_or(window.len())];
                let is_none = end.is_some_and(|end| {
                    shapes::is_placeholder(value)
                        || place == NameContext::Member && !in_array && words::is_sign(value)
                        || matches!(ending, SecretEnd::Separator | SecretEnd::Query)
                            && words::is_code(named.name, value, window.get(end).copied())
                });
                // In an array of tokens, the other elements may be secrets even if the first one is not.
                let fits = secret.fits(value, place) || in_array && secret == SecretClass::Token;
                if is_none || !fits {
                    return SecretMatch::Nothing;
                }
            }
        }
        let start = if let SecretClass::Authorization = secret { start + scheme(rest) } else { start };
        // A value that is a complete replacement text was redacted before, and is not replaced again.
        let rest = &self.text[start..];
        let window = &rest[..rest.len().min(MAX_PLACEHOLDER)];
        let end = ending.find(window, 0).unwrap_or(window.len());
        let value = &window[..end];
        // The last byte of a line is its line break.
        if is_replacement(value.strip_suffix(b"\n").unwrap_or(value)) {
            return SecretMatch::Nothing;
        }
        SecretMatch::Open { start, ending, in_array, kind: SecretKind::Named(place) }
    }

    /// Examines a value without quotes after a colon, as in a header or in prose.
    fn plain(&self, start: usize, NamedValue { name, place, secret, .. }: NamedValue<'_>) -> SecretMatch {
        let scheme = if let SecretClass::Authorization = secret { scheme(&self.text[start..]) } else { 0 };
        if self.more && self.text.len() - start < MAX_SCHEME {
            return SecretMatch::Wait;
        }
        let found = |start, end| SecretMatch::whole(start, end, SecretKind::Named(place));
        if secret == SecretClass::Authorization
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
        let end = self.skip(start, MAX_RUN, part);
        let next = self.skip(end, MAX_SPACES, is_space);
        if next >= self.text.len() && self.more && end - start < MAX_RUN {
            return SecretMatch::Wait;
        }
        // Whether nothing follows the value in its line, string or setting.
        let alone = self.text.get(next).is_none_or(|b| separates(*b) || *b == b'#');
        let fits = |run: &[u8]| {
            words::is_value(run, alone, secret == SecretClass::Password)
                && !words::is_code(name, run, self.text.get(end).copied())
                && secret.fits(run, place)
        };
        self.run(start, part, fits, found)
    }

    /// Examines `Cookie: name=…; name=…`. The names are not secrets. In a Set-Cookie header only the first value is a
    /// secret; attributes such as Path and Domain follow it.
    fn cookies(&self, start: usize, name: &[u8]) -> Option<SecretMatch> {
        let is = |cookie: &[u8]| name.eq_ignore_ascii_case(cookie);
        let ending = match () {
            () if is(b"cookie") => SecretEnd::Cookie,
            () if is(b"set-cookie") => SecretEnd::Separator,
            () => return None,
        };
        let equals = self.skip(start, names::MAX_WRITTEN_NAME, is_name);
        match self.text.get(equals) {
            None if self.more => Some(SecretMatch::Wait),
            Some(b'=') => {
                let kind = SecretKind::Named(NameContext::Plain);
                Some(SecretMatch::Open { start: equals + 1, ending, in_array: false, kind })
            }
            _ => None,
        }
    }

    /// Examines an object such as `{"type": …, "value": …}` under a secret name: only its `value` is a secret. Most
    /// objects under such names are schemas, which contain no secret.
    fn object(&self, from: usize, slashes: usize) -> SecretMatch {
        let text = &self.text[..self.text.len().min(from + MAX_OBJECT)];
        let (mut at, mut depth) = (from, 0_usize);
        while let Some(byte) = text.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth <= 1 => return SecretMatch::Nothing,
                b'}' | b']' => depth -= 1,
                b'"' => {
                    let Some(end) = SecretEnd::Quote { slashes }.find(text, at) else { break };
                    let behind = (end + slashes + 1).min(text.len());
                    let colon = self.skip_json_space(behind);
                    if depth == 1 && text.get(colon) == Some(&b':') && VALUE_MEMBERS.contains(&&text[at..end]) {
                        return SecretMatch::Inside { colon };
                    }
                    at = behind;
                }
                _ => {}
            }
        }
        if self.more && self.text.len() - from < MAX_OBJECT { SecretMatch::Wait } else { SecretMatch::Nothing }
    }

    /// Examines the second dash of `--password X` in a shell command, or of `"--password", "X"` in a list of arguments.
    pub(super) fn option(&self, at: usize) -> SecretMatch {
        let text = self.text;
        let is_first = at < self.floor + 2 || !is_key(text[at - 2]);
        if !is_first || text.get(at + 1).is_some_and(|b| !b.is_ascii_alphabetic()) {
            return SecretMatch::Nothing;
        }
        let end = self.skip(at + 1, names::MAX_WRITTEN_NAME, is_name);
        let Some(sign) = text.get(end) else { return self.wait() };
        let Some(secret) = names::secret_class(&text[at + 1..end], NameContext::Assigned) else {
            return SecretMatch::Nothing;
        };
        let is_argument = at >= self.floor + 2 && text[at - 2] == b'"' && !is_space(*sign);
        let slashes = self.skip(end, MAX_BACKSLASHES, |b| b == b'\\') - end;
        let named = NamedValue { name: b"", place: NameContext::Assigned, secret, slashes, is_string: is_argument };
        if is_argument {
            return self.next_argument(end, named);
        }
        if !is_space(*sign) {
            return SecretMatch::Nothing;
        }
        let value = self.skip(end, MAX_SPACES, is_space);
        let quote = self.skip(value, MAX_BACKSLASHES, |b| b == b'\\');
        let slashes = quote - value;
        match text.get(quote) {
            None => self.wait(),
            Some(b'"') if (slashes + 1).is_power_of_two() => {
                self.open(quote + 1, SecretEnd::Quote { slashes }, named, false)
            }
            Some(b'\'') if slashes == 0 => self.open(quote + 1, SecretEnd::Apostrophe, named, false),
            Some(b'-' | b'$' | b'=' | b'\\') => SecretMatch::Nothing,
            Some(_) => {
                let fits = |run: &[u8]| {
                    !shapes::is_prose(run) && !shapes::is_placeholder(run) && secret.fits(run, NameContext::Assigned)
                };
                let kind = SecretKind::Named(NameContext::Assigned);
                self.run(value, |b| !separates(b), fits, |start, end| SecretMatch::whole(start, end, kind))
            }
        }
    }

    /// Examines the argument after the option that ends at `end`, in a list of arguments.
    fn next_argument(&self, end: usize, named: NamedValue<'_>) -> SecretMatch {
        let slashes = named.slashes;
        match element(&self.text[end..], slashes, self.more) {
            NextElement::Undecided => SecretMatch::Wait,
            NextElement::No => SecretMatch::Nothing,
            NextElement::Begins(behind) => match self.text.get(end + behind) {
                None => self.wait(),
                Some(b'-') => SecretMatch::Nothing,
                Some(_) => match self.is_a_name(end + behind, slashes) {
                    None => SecretMatch::Wait,
                    Some(true) => SecretMatch::Nothing,
                    Some(false) => self.open(end + behind, SecretEnd::Quote { slashes }, named, false),
                },
            },
        }
    }

    /// Whether the string that begins at `start` is the name of a member, not an argument; `None` if the text is too
    /// short to decide.
    fn is_a_name(&self, start: usize, slashes: usize) -> Option<bool> {
        let rest = &self.text[start..];
        let window = &rest[..rest.len().min(names::MAX_WRITTEN_NAME)];
        let end = SecretEnd::Quote { slashes }.find(window, 0);
        let next = match end {
            Some(end) => {
                let at = self.skip_json_space(start + end + slashes + 1);
                // Backslashes at the end of the text may begin white space such as `\n`.
                let behind = self.skip(at, MAX_BACKSLASHES, |b| b == b'\\');
                self.text.get(at).filter(|_| behind < self.text.len())
            }
            None if window.len() < rest.len() => return Some(false),
            None => None,
        };
        if next.is_none() && self.more { None } else { Some(next == Some(&b':')) }
    }
}

/// The members that hold the secret in an object under a secret name.
const VALUE_MEMBERS: &[&[u8]] = &[b"value", b"Value", b"data", b"plaintext"];

/// The maximum number of bytes of a value that are examined to decide whether it looks generated.
const MAX_EXAMINED_VALUE: usize = 256;

/// The maximum length of the text in an object before its `value`. Other members are short, even with each on its own
/// line.
pub(super) const MAX_OBJECT: usize = 512;
