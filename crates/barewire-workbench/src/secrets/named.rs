//! Finds the secret after a name in a text.
//!
//! The text is not parsed. A word is treated as a name if a sign such as `:`, `=` or `=>` follows it. So the same rules
//! find JSON members, JSON within a JSON string, URL queries, headers, program code and settings, also in malformed
//! lines.

use super::SecretKind;
use super::ending::{EndSearch, SecretEnd};
use super::kubernetes::is_data_member;
use super::names::{self, NameContext, SecretClass};
use super::redact::{REPLACEMENT_PREFIX, is_replacement};
use super::shapes::{self, MAX_PLACEHOLDER, MAX_SCHEME, is_number, is_space, is_token, scheme, separates};
use super::siblings::{SiblingClass, is_value_member};
use super::view::{AfterSecret, MAX_RUN, MAX_SPACES, Quote, SecretMatch, TextView, is_name};
use super::words;

/// The name before a value, and how it is written.
#[derive(Clone, Copy)]
pub(super) struct NamedValue<'a> {
    /// The name; empty if it is not directly before the value.
    pub(super) name: &'a [u8],
    pub(super) place: NameContext,
    pub(super) secret: SecretClass,
    /// The quote of the name, if the name is a string.
    pub(super) quote: Option<Quote>,
}

/// A name and the sign after it.
struct NameBefore {
    start: usize,
    end: usize,
    quote: Option<Quote>,
    place: NameContext,
}

impl TextView<'_> {
    /// Examines a sign, which may be part of a URL or a token, or separate a name from its value.
    pub(super) fn sign(&self, at: usize) -> SecretMatch {
        if self.text[at] == b':' {
            if let Some(authority) = self.authority(at + 1) {
                return self.url(authority);
            }
            if let Some(found) = self.numbered_token(at) {
                return found;
            }
        }
        match (self.text[at], self.text.get(at + 1)) {
            (b'%', _) => self.encoded(at),
            (b',', _) => self.pair(at),
            (b'>', _) => self.element(at),
            (b'~', _) => self.azure_secret(at),
            (b'$', _) => self.password_hash(at),
            (b'|', _) => self.application_token(at),
            // `:=` is examined at its `=`.
            (b':', Some(b'=')) => SecretMatch::Nothing,
            (b'=', Some(b'>')) => self.separator(at, at + 2),
            _ => self.separator(at, at + 1),
        }
    }

    /// Examines a sign at `at` that separates a name from the value that begins at `from` or after it.
    fn separator(&self, at: usize, from: usize) -> SecretMatch {
        let Some(NameBefore { start, end, quote, place }) = self.name_before(at, from) else {
            return SecretMatch::Nothing;
        };
        let name = &self.text[start..end];
        if let (Some(quote), true) = (quote, is_data_member(name)) {
            let object = self.skip_json_space(from);
            match self.text.get(object) {
                None => return self.wait(),
                Some(b'{') => return self.secret_data(object, quote),
                Some(_) => {}
            }
        }
        if is_value_member(name) {
            let class = match quote {
                Some(quote) if place == NameContext::Member && start > self.floor => {
                    match self.sibling(start - 1, from, quote) {
                        SiblingClass::Wait => return SecretMatch::Wait,
                        SiblingClass::None => None,
                        SiblingClass::Secret(class) => Some(class),
                    }
                }
                _ => self.attribute(start).or_else(|| self.name_line(start)),
            };
            let named = |secret| NamedValue { name: b"", place, secret, quote };
            return class.map_or(SecretMatch::Nothing, |secret| self.value(from, named(secret)));
        }
        let spaced = || quote.and_then(|_| self.spaced_name(start, end, place));
        match names::secret_class(name, place).or_else(spaced) {
            Some(secret) => self.value(from, NamedValue { name, place, secret, quote }),
            None if place == NameContext::Plain && self.text[at] == b':' => self.secret_line(start, from),
            None => SecretMatch::Nothing,
        }
    }

    /// Reads the name before the sign from `at` to `from`.
    fn name_before(&self, at: usize, from: usize) -> Option<NameBefore> {
        let text = self.text;
        let is_colon = text[at] == b':' || from > at + 1;
        let at = if text[at] == b'=' && text[self.floor..at].ends_with(b":") { at - 1 } else { at };
        let blank = self.back_json_space(at);
        let last = blank.checked_sub(1).filter(|last| *last >= self.floor)?;
        if let Some(quote) = self.quote(last) {
            let start = self.back_name(last);
            let place = NameContext::Member;
            return Some(NameBefore { start, end: last, quote: Some(quote), place });
        }
        // `os.environ["NAME"] = …`
        if text[last] == b']' && !is_colon {
            let end = last - usize::from(last > self.floor && self.quote(last - 1).is_some());
            let start = self.back_name(end);
            return Some(NameBefore { start, end, quote: None, place: NameContext::Plain });
        }
        let mut end = self.back(at, MAX_SPACES, is_space);
        let mut start = self.back_name(end);
        // `name: type = …` and `name string = …`
        if !is_colon && TYPE_NAMES.contains(&&text[start..end]) && start > self.floor + 1 {
            end = self.back(start, MAX_SPACES, |b| matches!(b, b' ' | b':' | b'&'));
            start = self.back_name(end);
        }
        let is_query = start > self.floor && matches!(text[start - 1], b'?' | b'&');
        let place = match is_colon {
            true => NameContext::Plain,
            // `name = value`, as in a settings file, is read like `name: value`.
            false if end < at => NameContext::Plain,
            false if is_query => NameContext::Query,
            false => NameContext::Assigned,
        };
        Some(NameBefore { start, end, quote: None, place })
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

    pub(super) fn value(&self, from: usize, named: NamedValue<'_>) -> SecretMatch {
        let text = self.text;
        let NamedValue { place, secret, .. } = named;
        let is_member = place == NameContext::Member;
        let mut at = match place {
            NameContext::Member => self.skip_json_space(from),
            NameContext::Plain => self.skip(from, MAX_SPACES, is_space),
            NameContext::Assigned | NameContext::Query => from,
        };
        let in_array = is_member && text.get(at) == Some(&b'[');
        if let (true, Some(b'{' | b'['), Some(quote)) = (is_member, text.get(at), named.quote)
            && names::is_container(named.name)
        {
            match self.leaves(at, quote) {
                SecretMatch::Nothing => {}
                found => return found,
            }
        }
        if in_array {
            at = self.skip_json_space(at + 1);
        }
        let after = if in_array { AfterSecret::Element } else { AfterSecret::Nothing };
        match text.get(at) {
            None => self.wait(),
            Some(b'"' | b'\'') if place != NameContext::Query => {
                // `"""` and `'''` begin a text of several lines.
                let (mark, depth) = self.quote(at).unwrap_or((b'"', 0));
                let is_triple = (1..3).all(|next| self.quote(at + next) == Some((mark, depth)));
                let start = if is_triple { at + 3 } else { at + 1 };
                self.open(start, SecretEnd::Quote { mark, depth }, named, after)
            }
            Some(b'0'..=b'9' | b'-') if is_member && !in_array => {
                let quote = named.quote.unwrap_or((b'"', 0));
                let number = |start, end| SecretMatch::Number { start, end, quote };
                self.run(at, is_number, |run| secret.fits_number(run), number)
            }
            Some(_) if is_member => SecretMatch::Nothing,
            Some(b'|' | b'>') if place == NameContext::Plain => self.block(at),
            // A long string of Lua.
            Some(b'[') if text[at..].starts_with(b"[[") => self.open(at + 2, SecretEnd::Separator, named, after),
            // The value is a placeholder.
            Some(b'$' | b'{' | b'<' | b'=') => SecretMatch::Nothing,
            Some(_) if place == NameContext::Plain => self.plain_value(at, named),
            Some(byte) if separates(*byte) => SecretMatch::Nothing,
            Some(_) if place == NameContext::Query => self.open(at, SecretEnd::Query, named, after),
            Some(_) => self.open(at, SecretEnd::Separator, named, after),
        }
    }

    /// Examines a value that ends according to `ending`. If the value begins with a scheme such as `Bearer`, the secret
    /// begins after it.
    pub(super) fn open(
        &self,
        start: usize,
        ending: SecretEnd,
        named: NamedValue<'_>,
        after: AfterSecret,
    ) -> SecretMatch {
        let NamedValue { place, secret, quote, .. } = named;
        let rest = &self.text[start..];
        if let SecretEnd::Quote { mark, depth } = ending {
            match quote {
                // A quote of another string ends the string that contains both the name and the value.
                Some(name) if name.1 != depth || name.0 == b'\'' && mark == b'"' => return SecretMatch::Nothing,
                Some(_) => {}
                // If the name is not a string itself, a quote may end the string that contains the name.
                None => match self.text.get(self.skip_json_space(start)) {
                    None => return self.wait(),
                    Some(b',' | b'}' | b']' | b':') => return SecretMatch::Nothing,
                    Some(_) => {}
                },
            }
        }
        let most = match secret {
            _ if secret.depends_on_value() => MAX_EXAMINED_VALUE,
            // The placeholder may follow a scheme.
            SecretClass::Authorization => MAX_SCHEME + MAX_PLACEHOLDER,
            _ => MAX_PLACEHOLDER,
        };
        let end = ending.find_within(self, start, most);
        if end.is_none() && self.more && rest.len() < most {
            return SecretMatch::Wait;
        }
        let value = &self.text[start..end.unwrap_or(self.text.len().min(start + most))];
        let in_array = after == AfterSecret::Element;
        // A value may also end with the text.
        let is_whole = |end: Option<usize>| end.is_some() || !self.more && rest.len() < most;
        let next = || end.and_then(|end| self.text.get(end).copied());
        let is_none = is_whole(end)
            && (shapes::is_placeholder(value)
                || place == NameContext::Member && !in_array && words::is_sign(value)
                || matches!(ending, SecretEnd::Separator | SecretEnd::Query)
                    && words::is_code(named.name, value, next()));
        // In an array of tokens, the other elements may be secrets even if the first one is not.
        let fits = secret.fits(value, place) || in_array && secret == SecretClass::Token;
        if is_none || !fits {
            return SecretMatch::Nothing;
        }
        let start = if let SecretClass::Authorization = secret { start + scheme(rest) } else { start };
        // A value that is a complete replacement text was redacted before, and is not replaced again.
        let end = ending.find_within(self, start, MAX_PLACEHOLDER);
        let value = &self.text[start..end.unwrap_or(self.text.len().min(start + MAX_PLACEHOLDER))];
        // The last byte of a line is its line break.
        let value = value.strip_suffix(b"\n").unwrap_or(value);
        // The scheme before a placeholder made the whole value look like a secret. A text that only resembles a
        // replacement is not ours.
        let is_placeholder =
            is_whole(end) && shapes::is_placeholder(value) && !value.starts_with(REPLACEMENT_PREFIX.as_bytes());
        if is_replacement(value) || is_placeholder {
            return SecretMatch::Nothing;
        }
        SecretMatch::Open { start, ending, after, kind: SecretKind::Named(place) }
    }

    /// Examines a value without quotes after a colon, as in a header or in prose.
    fn plain_value(&self, start: usize, NamedValue { name, place, secret, .. }: NamedValue<'_>) -> SecretMatch {
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
                let (kind, after) = (SecretKind::Named(NameContext::Plain), AfterSecret::Nothing);
                Some(SecretMatch::Open { start: equals + 1, ending, after, kind })
            }
            _ => None,
        }
    }

    /// Examines a block scalar of YAML: `name: |`, and then lines that are indented more than the name.
    pub(super) fn block(&self, at: usize) -> SecretMatch {
        let line_end = self.skip(at + 1, MAX_SPACES, |b| matches!(b, b'+' | b'-' | b' ' | b'\r' | b'0'..=b'9'));
        match self.text.get(line_end) {
            None => return self.wait(),
            Some(b'\n') => {}
            Some(_) => return SecretMatch::Nothing,
        }
        let line_start = self.back(at, names::MAX_WRITTEN_NAME + MAX_SPACES, |b| b != b'\n');
        let indent = self.skip(line_start, MAX_SPACES, |b| matches!(b, b' ' | b'-')) - line_start;
        let text = &self.text[..self.text.len().min(at + MAX_RUN)];
        let (mut start, mut end, mut line) = (None, line_end, line_end + 1);
        loop {
            let word = line + text[line.min(text.len())..].iter().take_while(|b| **b == b' ').count();
            match text.get(word) {
                None if self.more && self.text.len() < at + MAX_RUN => return SecretMatch::Wait,
                None => break,
                Some(b'\n' | b'\r') => line = word + 1,
                Some(b'"') => break,
                Some(_) if word - line <= indent => break,
                Some(_) => {
                    start = start.or(Some(word));
                    let rest = &text[word..];
                    let quote =
                        |at: &usize| rest[*at] == b'\n' || rest[*at] == b'"' && self.plain.depth(word + at) == 0;
                    end = word + (0..rest.len()).find(quote).unwrap_or(rest.len());
                    if text.get(end) != Some(&b'\n') {
                        if end == text.len() && self.more && self.text.len() < at + MAX_RUN {
                            return SecretMatch::Wait;
                        }
                        break;
                    }
                    line = end + 1;
                }
            }
        }
        match start {
            Some(start) if !is_replacement(&text[start..end]) => {
                SecretMatch::whole(start, end, SecretKind::Named(NameContext::Plain))
            }
            _ => SecretMatch::Nothing,
        }
    }

    /// Examines the `>` of `<password>…</password>`.
    fn element(&self, at: usize) -> SecretMatch {
        // The attributes of the element are skipped.
        let open = self.back(at, MAX_TAG, |b| !matches!(b, b'<' | b'>' | b'\n'));
        if open <= self.floor || self.text[open - 1] != b'<' {
            return SecretMatch::Nothing;
        }
        let end = self.skip(open, names::MAX_WRITTEN_NAME, |b| is_name(b) || b == b':');
        let name = &self.text[open..end];
        let name = name.rsplit(|b| *b == b':').next().unwrap_or(name);
        let is_closed = self.text[open..at].ends_with(b"/") || end < at && !self.text[end].is_ascii_whitespace();
        let class = names::secret_class(name, NameContext::Assigned).or_else(|| self.attribute(at));
        let Some(secret) = class.filter(|_| !is_closed) else { return SecretMatch::Nothing };
        let start = self.skip(at + 1, MAX_SPACES, |b| b.is_ascii_whitespace());
        let stop = self.skip(start, MAX_RUN, |b| !matches!(b, b'<' | b'"'));
        let rest = &self.text[stop..];
        if rest.len() < 2 && self.more && stop - start < MAX_RUN {
            return SecretMatch::Wait;
        }
        let value = self.text[start..stop].trim_ascii_end();
        let is_secret = rest.starts_with(b"</")
            && !value.is_empty()
            && !shapes::is_placeholder(value)
            && !is_replacement(value)
            && secret.fits(value, NameContext::Assigned);
        let kind = SecretKind::Named(NameContext::Plain);
        if is_secret { SecretMatch::whole(start, start + value.len(), kind) } else { SecretMatch::Nothing }
    }

    /// Whether the end of the string that begins at `start` is found, and what follows it.
    pub(super) fn after_string(&self, start: usize, (mark, depth): Quote, most: usize) -> Option<(usize, Option<u8>)> {
        let ending = SecretEnd::Quote { mark, depth };
        let end = ending.find_within(self, start, most)?;
        debug_assert_eq!(ending.find(self, start), EndSearch::At(end));
        let next = self.skip_json_space(end + 1);
        Some((end, self.text.get(next).copied()))
    }
}

/// The names of string types that can be between a variable's name and its value.
const TYPE_NAMES: &[&[u8]] = &[b"string", b"str", b"String", b"text", b"any", b"Optional"];

/// The maximum number of bytes of a value that are examined to decide whether it looks generated.
const MAX_EXAMINED_VALUE: usize = 256;

/// The maximum length of an XML tag.
const MAX_TAG: usize = 256;
