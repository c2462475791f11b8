//! Finds the secret after a name without a sign between them: in a list, as arguments of a function or a command, or in
//! a netrc file.

use super::SecretKind;
use super::ending::{NextElement, SecretEnd, element};
use super::named::NamedValue;
use super::names::{self, NameContext, SecretClass};
use super::shapes::{self, is_key, is_space, scheme, separates};
use super::view::{AfterSecret, MAX_RUN, MAX_SPACES, Quote, SecretMatch, TextView, is_name};
use super::words;

impl TextView<'_> {
    /// Examines the comma of `"NAME", "value"`: two strings in a list, or the arguments of a function.
    pub(super) fn pair(&self, comma: usize) -> SecretMatch {
        let closing = self.back_json_space(comma);
        let Some(quote) = closing.checked_sub(1).filter(|at| *at >= self.floor).and_then(|at| self.quote(at)) else {
            return SecretMatch::Nothing;
        };
        let end = closing - 1;
        if !names::may_be_secret(&self.text[self.floor..end]) {
            return SecretMatch::Nothing;
        }
        let start = self.back_name(end);
        let name = &self.text[start..end];
        // Only one header of the protocol is no secret as a variable.
        let is_header = matches!(name, [b'm' | b'M', b'c' | b'C', ..]);
        let header = || is_header.then(|| names::header_class(name)).flatten();
        let class = names::secret_class(name, NameContext::Assigned).or_else(header);
        let Some(secret) = class.filter(|_| !name.starts_with(b"-")) else { return SecretMatch::Nothing };
        let opening = start.checked_sub(1).filter(|at| *at >= self.floor && self.quote(*at) == Some(quote));
        let Some(opening) = opening else { return SecretMatch::Nothing };
        let value = match element(self, end) {
            NextElement::Undecided => return SecretMatch::Wait,
            NextElement::No => return SecretMatch::Nothing,
            NextElement::Begins(value) => value,
        };
        let Some((value_end, next)) = self.after_string(value, quote, MAX_PAIR_VALUE) else {
            return if self.text.len() - value < MAX_PAIR_VALUE { self.wait() } else { SecretMatch::Nothing };
        };
        if next.is_none() && self.more {
            return SecretMatch::Wait;
        }
        let text = &self.text[value..value_end];
        let begin = self.text[..self.back_json_space(opening)].last();
        let is_call = begin == Some(&b'(') && next == Some(b')');
        // The bracket may be in the next line.
        let is_pair = begin == Some(&b'[') && matches!(next, Some(b']') | None);
        let is_value = match () {
            () if shapes::is_placeholder(text) || next == Some(b':') => false,
            () if is_call => !text.is_empty() && secret.fits(text, NameContext::Assigned),
            () if scheme(text) > 0 => true,
            () if is_pair => words::is_value(text, true, secret == SecretClass::Password) && !text.contains(&b' '),
            () => shapes::looks_random(text) && !text.contains(&b' '),
        };
        if !is_value {
            return SecretMatch::Nothing;
        }
        let named = NamedValue { name: b"", place: NameContext::Assigned, secret, quote: Some(quote) };
        self.open(value, SecretEnd::Quote { mark: quote.0, depth: quote.1 }, named, AfterSecret::Nothing)
    }

    /// Examines the second dash of `--password X` in a shell command, or of `"--password", "X"` in a list of arguments.
    pub(super) fn option(&self, at: usize) -> SecretMatch {
        let text = self.text;
        if text.get(at + 1).is_some_and(|b| !b.is_ascii_alphabetic()) {
            return SecretMatch::Nothing;
        }
        let end = self.skip(at + 1, names::MAX_WRITTEN_NAME, is_name);
        let Some(sign) = text.get(end) else { return self.wait() };
        if is_space(*sign) && matches!(&text[at + 1..end], b"user" | b"proxy-user") {
            return self.user_option(end);
        }
        let Some(secret) = names::secret_class(&text[at + 1..end], NameContext::Assigned) else {
            return SecretMatch::Nothing;
        };
        let named = |quote| NamedValue { name: b"", place: NameContext::Assigned, secret, quote };
        let opening = at.checked_sub(2).filter(|at| *at >= self.floor).and_then(|at| self.quote(at));
        if let Some(quote) = opening.filter(|_| !is_space(*sign)) {
            return self.next_argument(end, quote, named(Some(quote)));
        }
        if !is_space(*sign) {
            return SecretMatch::Nothing;
        }
        let value = self.gap(end);
        match text.get(value) {
            None => self.wait(),
            Some(b'"' | b'\'') => {
                let (mark, depth) = self.quote(value).unwrap_or((b'"', 0));
                self.open(value + 1, SecretEnd::Quote { mark, depth }, named(None), AfterSecret::Nothing)
            }
            Some(b'-' | b'$' | b'=') => SecretMatch::Nothing,
            Some(_) => self.shell_word(value, secret),
        }
    }

    /// Examines a value without quotes in a shell command.
    fn shell_word(&self, value: usize, secret: SecretClass) -> SecretMatch {
        let fits = |run: &[u8]| {
            !shapes::is_prose(run) && !shapes::is_placeholder(run) && secret.fits(run, NameContext::Assigned)
        };
        let kind = SecretKind::Named(NameContext::Assigned);
        self.run(value, |b| !separates(b), fits, |start, end| SecretMatch::whole(start, end, kind))
    }

    /// Examines the argument after the option that ends at `end`, in a list of arguments.
    fn next_argument(&self, end: usize, quote: Quote, named: NamedValue<'_>) -> SecretMatch {
        if self.quote(end) != Some(quote) {
            return SecretMatch::Nothing;
        }
        let (mark, depth) = quote;
        match element(self, end) {
            NextElement::Undecided => SecretMatch::Wait,
            NextElement::No => SecretMatch::Nothing,
            NextElement::Begins(value) => match self.text.get(value) {
                None => self.wait(),
                Some(b'-') => SecretMatch::Nothing,
                Some(_) => match self.after_string(value, quote, names::MAX_WRITTEN_NAME) {
                    // The string is the name of a member.
                    Some((_, Some(b':'))) => SecretMatch::Nothing,
                    Some((_, None)) if self.more => SecretMatch::Wait,
                    None if self.more && self.text.len() - value < names::MAX_WRITTEN_NAME => SecretMatch::Wait,
                    _ => self.open(value, SecretEnd::Quote { mark, depth }, named, AfterSecret::Nothing),
                },
            },
        }
    }

    /// Examines `setenv NAME value` and similar commands; options may be before the name.
    pub(super) fn setter(&self, behind: usize) -> SecretMatch {
        let mut name = self.gap(behind);
        // `set -gx NAME value`; the dash is part of the keyword.
        if self.text[..behind].ends_with(b"-") {
            name = self.gap(self.skip(behind, 8, is_key));
        }
        let end = self.skip(name, names::MAX_WRITTEN_NAME, is_name);
        let value = self.gap(end);
        let Some(byte) = self.text.get(value) else { return self.wait() };
        let class = names::secret_class(&self.text[name..end], NameContext::Assigned);
        let Some(secret) = class.filter(|_| value > end) else { return SecretMatch::Nothing };
        match byte {
            b'"' | b'\'' => {
                let (mark, depth) = self.quote(value).unwrap_or((b'"', 0));
                let named = NamedValue { name: b"", place: NameContext::Assigned, secret, quote: None };
                self.open(value + 1, SecretEnd::Quote { mark, depth }, named, AfterSecret::Nothing)
            }
            b'-' | b'$' | b'=' => SecretMatch::Nothing,
            _ => self.shell_word(value, secret),
        }
    }

    /// Examines `login NAME password X` and `machine HOST password X`.
    pub(super) fn netrc(&self, at: usize, behind: usize) -> SecretMatch {
        let word_before = |end: usize| {
            let end = self.back(end, MAX_SPACES, |b| b.is_ascii_whitespace());
            (self.back(end, MAX_HOST, |b| b > b' ' && b != b'"'), end)
        };
        let (start, end) = word_before(at);
        let (first, last) = word_before(start);
        let is_netrc = start < end && matches!(&self.text[first..last], b"login" | b"machine" | b"user" | b"account");
        // A whole entry is certain; a part of one may also be prose.
        let is_entry = {
            let (host, host_end) = word_before(first);
            let (start, end) = word_before(host);
            host < host_end && &self.text[start..end] == b"machine"
        };
        let value = self.skip(behind, MAX_SPACES, |b| b.is_ascii_whitespace());
        if !is_netrc || value == behind {
            return SecretMatch::Nothing;
        }
        let kind = SecretKind::Named(NameContext::Plain);
        let fits = |run: &[u8]| !shapes::is_placeholder(run) && (is_entry || words::is_value(run, true, true));
        self.run(value, |b| b > b' ' && b != b'"', fits, |start, end| SecretMatch::whole(start, end, kind))
    }

    /// Examines the password after an option that is known to be one.
    pub(super) fn shell_password(&self, behind: usize) -> SecretMatch {
        self.shell_password_at(self.gap(behind))
    }

    fn shell_password_at(&self, at: usize) -> SecretMatch {
        let start = at + usize::from(self.quote(at).is_some());
        let kind = SecretKind::Named(NameContext::Assigned);
        let fits = |run: &[u8]| !run.starts_with(b"$") && !shapes::is_placeholder(run);
        self.run(
            start,
            |b| b > b' ' && !matches!(b, b'"' | b'\''),
            fits,
            |start, end| SecretMatch::whole(start, end, kind),
        )
    }

    /// Examines the options of a client of MySQL: the password follows `-p` without a space.
    pub(super) fn client_password(&self, behind: usize) -> SecretMatch {
        let command = self.skip(behind, MAX_CLIENT_NAME, is_key);
        match self.text.get(command) {
            None => return self.wait(),
            Some(b' ') => {}
            Some(_) => return SecretMatch::Nothing,
        }
        let end = self.skip(command, MAX_CLIENT_OPTIONS, |b| !matches!(b, b'\n' | b'|' | b';' | b'&' | b'"'));
        let options = &self.text[command..end];
        let Some(option) = memchr::memmem::find(options, b" -p") else {
            let is_cut = end >= self.text.len() && end - command < MAX_CLIENT_OPTIONS;
            return if is_cut { self.wait() } else { SecretMatch::Nothing };
        };
        self.shell_password_at(command + option + b" -p".len())
    }

    /// Examines `-u user:password`.
    pub(super) fn user_option(&self, behind: usize) -> SecretMatch {
        let start = self.gap(behind);
        let start = start + usize::from(self.quote(start).is_some());
        let end = self.skip(start, MAX_RUN, |b| b > b' ' && !matches!(b, b'"' | b'\''));
        if end >= self.text.len() && self.more && end - start < MAX_RUN {
            return SecretMatch::Wait;
        }
        let Some(colon) = memchr::memchr(b':', &self.text[start..end]) else { return SecretMatch::Nothing };
        let password = &self.text[start + colon + 1..end];
        let is_id = password.iter().all(u8::is_ascii_digit);
        if is_id || password.starts_with(b"$") || password.starts_with(b"//") || shapes::is_placeholder(password) {
            return SecretMatch::Nothing;
        }
        SecretMatch::whole(start + colon + 1, end, SecretKind::Named(NameContext::Assigned))
    }
}

/// The maximum length of the second string of a pair.
const MAX_PAIR_VALUE: usize = 4096;

/// The maximum length of the rest of a client's name, as in `mysqldump`.
const MAX_CLIENT_NAME: usize = 16;

/// The maximum length of the options of such a client that are searched for its password.
const MAX_CLIENT_OPTIONS: usize = 256;

/// The maximum length of a host or a user in a netrc file.
const MAX_HOST: usize = 128;
