//! Finds secrets by their shape, around a character in a text: a token, a private key, or a password in a URL.

use memchr::{memchr_iter, memmem};

use super::ending::SecretEnd;
use super::shapes::{
    self, AWS, AWS_SESSION, BASIC, BEARER, GOOGLE, JWT, PASSWORD_IN_URL, PRIVATE_KEY, TokenShape, is_key, is_token,
    looks_random,
};
use super::view::{MAX_BACKSLASHES, MAX_RUN, SecretMatch, TextView};

impl TextView<'_> {
    /// Returns the start of a URL's authority if two slashes, possibly written as `\/`, begin at `at`.
    pub(super) fn authority(&self, at: usize) -> Option<usize> {
        match self.text.get(at..)? {
            [b'/', b'/', ..] => Some(at + 2),
            [b'\\', ..] => {
                let first = self.skip(at, MAX_BACKSLASHES, |b| b == b'\\');
                let second = self.skip(first + 1, MAX_BACKSLASHES, |b| b == b'\\');
                let are_slashes = self.text.get(first) == Some(&b'/') && self.text.get(second) == Some(&b'/');
                are_slashes.then_some(second + 1)
            }
            _ => None,
        }
    }

    /// Examines `user:password@` in a URL. A user name without a password is a secret only if it looks like a token.
    pub(super) fn userinfo(&self, start: usize) -> SecretMatch {
        let end = self.skip(start, MAX_RUN, |b| !matches!(b, b'/' | b'?' | b'#' | b'"' | b'\\') && b > b' ');
        if end == self.text.len() && self.more && end - start < MAX_RUN {
            return SecretMatch::Wait;
        }
        let authority = &self.text[start..end];
        let Some(at) = memchr::memrchr(b'@', authority) else { return SecretMatch::Nothing };
        let from = match memchr_iter(b':', &authority[..at]).next() {
            Some(colon) => colon + 1,
            None if looks_random(&authority[..at]) => 0,
            None => return SecretMatch::Nothing,
        };
        let value = &authority[from..at];
        // In a list of hosts, the text after a colon is a port and the next host.
        let is_port = value.split(|b| *b == b',').next().is_some_and(|port| port.iter().all(u8::is_ascii_digit));
        if value.contains(&b',') && is_port || shapes::is_placeholder(value) || matches!(value[0], b'$' | b'{') {
            return SecretMatch::Nothing;
        }
        SecretMatch::whole(start + from, start + at, PASSWORD_IN_URL)
    }

    /// Examines a character that may end the prefix of a token (`sk-`, `ghp_`, `ya29.`), or be part of an option or of
    /// the first line of a private key.
    pub(super) fn dash(&self, at: usize) -> SecretMatch {
        let before = &self.text[self.floor..at];
        match before.last() {
            Some(b'-') if self.text[at] == b'-' => return self.option(at),
            Some(b'Y') if self.text[at] == b'-' && before.ends_with(b"PRIVATE KEY") => {
                let head = &before[before.len().saturating_sub(MAX_PEM_HEAD)..];
                if memmem::find(head, b"-----BEGIN ").is_some() {
                    let start = at + self.text[at..].iter().take_while(|b| **b == b'-').count();
                    return SecretMatch::Open { start, ending: SecretEnd::Pem, in_array: false, kind: PRIVATE_KEY };
                }
            }
            _ => {}
        }
        let upto = &self.text[self.floor..=at];
        match shapes::prefixed_shape(upto) {
            Some(shape) => self.shaped(at + 1 - shape.begins.len(), shape),
            None => SecretMatch::Nothing,
        }
    }

    /// Examines a capital letter, which may be part of a token or of the scheme before a token.
    pub(super) fn capital(&self, at: usize) -> SecretMatch {
        let (before, rest) = (&self.text[self.floor..at], &self.text[at..]);
        match rest {
            [b'A', b'K', b'I', b'A', ..] => self.shaped(at, &AWS),
            [b'A', b'S', b'I', b'A', ..] => self.shaped(at, &AWS_SESSION),
            [b'A', b'I', b'z', b'a', ..] => self.shaped(at, &GOOGLE),
            [b'B', b'e' | b'E' | b'a' | b'A', ..] => self.scheme(at),
            [b'J', ..] if before.ends_with(b"ey") && !self.is_inside_a_word(at - 2) => {
                let dots = |run: &[u8]| run.len() >= 30 && memchr_iter(b'.', run).count() >= 2;
                let part = |b| is_key(b) || b == b'.';
                self.run(at - 2, part, dots, |start, end| SecretMatch::whole(start, end, JWT))
            }
            _ => SecretMatch::Nothing,
        }
    }

    /// Examines `Bearer …` and `Basic …`, in upper or lower case. An unusual spelling may begin prose, so then the
    /// token must look more random.
    pub(super) fn scheme(&self, at: usize) -> SecretMatch {
        let rest = &self.text[at..];
        let is = |scheme: &[u8]| rest.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
        let behind = |scheme: &[u8]| {
            let end = at + scheme.len();
            let start = self.gap(end);
            (start > end || start == self.text.len()).then_some(start)
        };
        if is(b"bearer")
            && let Some(start) = behind(b"bearer")
        {
            let is_usual = rest.starts_with(b"Bearer");
            let random = |run: &[u8]| match is_usual {
                true => run.len() >= 24 || looks_random(run),
                false => shapes::has_random_word(run),
            };
            return self.run(start, is_token, random, |start, end| SecretMatch::whole(start, end, BEARER));
        }
        if is(b"basic")
            && let Some(start) = behind(b"basic")
        {
            return self.run(start, is_token, shapes::is_basic, |start, end| SecretMatch::whole(start, end, BASIC));
        }
        SecretMatch::Nothing
    }

    /// Examines a possible token of this shape that begins at `start`.
    fn shaped(&self, start: usize, shape: &TokenShape) -> SecretMatch {
        if self.is_inside_a_word(start) {
            return SecretMatch::Nothing;
        }
        let part = if shape.begins.ends_with('.') { |b| is_key(b) || b == b'.' } else { is_key };
        self.run(start, part, |run| shape.fits(run), |start, end| SecretMatch::whole(start, end, shape.kind()))
    }

    /// Whether the character before `at` belongs to the same word. An `n` after a backslash is a line break.
    fn is_inside_a_word(&self, at: usize) -> bool {
        let before = &self.text[self.floor..at];
        let escaped = matches!(before, [.., b'\\', b'n' | b't' | b'r']);
        !escaped && before.last().is_some_and(|b| is_key(*b) || matches!(b, b'+' | b'/' if self.is_base64(at)))
    }

    /// Whether Base64 text ends at `at`, in which `eyJ` and `AKIA` occur by chance; a path or a URL does not count as
    /// Base64.
    fn is_base64(&self, at: usize) -> bool {
        let before = &self.text[at.saturating_sub(24).max(self.floor)..at];
        before.len() == 24 && before.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
    }
}

/// The maximum length of a key's first line: longer than `-----BEGIN ENCRYPTED PRIVATE KEY`.
const MAX_PEM_HEAD: usize = 64;
