//! A sign or a letter in a text -> the secret around it, by its own shape: a token, a private key, a password in a URL.

use memchr::{memchr_iter, memmem};

use super::ending::Ending;
use super::shapes::{
    self, AWS, AWS_SESSION, BASIC, BEARER, GOOGLE, JWT, PASSWORD_IN_URL, PRIVATE_KEY, Shape, is_key, is_token,
    looks_random,
};
use super::view::{Found, LONGEST_RUN, MOST_SLASHES, View};

impl View<'_> {
    /// Where the authority of a URL begins, if two slashes stand here; some write them as `\/`.
    pub(super) fn authority(&self, at: usize) -> Option<usize> {
        match self.text.get(at..)? {
            [b'/', b'/', ..] => Some(at + 2),
            [b'\\', ..] => {
                let first = self.skip(at, MOST_SLASHES, |b| b == b'\\');
                let second = self.skip(first + 1, MOST_SLASHES, |b| b == b'\\');
                let are_slashes = self.text.get(first) == Some(&b'/') && self.text.get(second) == Some(&b'/');
                are_slashes.then_some(second + 1)
            }
            _ => None,
        }
    }

    /// `user:password@` in a URL; the user stays, unless it looks like a token.
    pub(super) fn userinfo(&self, start: usize) -> Found {
        let end = self.skip(start, LONGEST_RUN, |b| !matches!(b, b'/' | b'?' | b'#' | b'"' | b'\\') && b > b' ');
        if end == self.text.len() && self.more && end - start < LONGEST_RUN {
            return Found::Wait;
        }
        let authority = &self.text[start..end];
        let Some(at) = memchr::memrchr(b'@', authority) else { return Found::Nothing };
        let from = match memchr_iter(b':', &authority[..at]).next() {
            Some(colon) => colon + 1,
            None if looks_random(&authority[..at]) => 0,
            None => return Found::Nothing,
        };
        let value = &authority[from..at];
        // A port, and the next one of a list.
        let is_port = value.split(|b| *b == b',').next().is_some_and(|port| port.iter().all(u8::is_ascii_digit));
        if value.contains(&b',') && is_port || shapes::is_placeholder(value) || matches!(value[0], b'$' | b'{') {
            return Found::Nothing;
        }
        Found::whole(start + from, start + at, PASSWORD_IN_URL)
    }

    /// `sk-…`, `ghp_…`, `ya29.…`: the sign at this place may end what such a token begins with. Or a private key begins behind it, or the
    /// name of an option.
    pub(super) fn dash(&self, at: usize) -> Found {
        let before = &self.text[self.floor..at];
        match before.last() {
            Some(b'-') if self.text[at] == b'-' => return self.option(at),
            Some(b'Y') if self.text[at] == b'-' && before.ends_with(b"PRIVATE KEY") => {
                let head = &before[before.len().saturating_sub(LONGEST_HEAD)..];
                if memmem::find(head, b"-----BEGIN ").is_some() {
                    let start = at + self.text[at..].iter().take_while(|b| **b == b'-').count();
                    return Found::Open { start, ending: Ending::Pem, in_array: false, kind: PRIVATE_KEY };
                }
            }
            _ => {}
        }
        let upto = &self.text[self.floor..=at];
        match shapes::signed(upto) {
            Some(shape) => self.shaped(at + 1 - shape.begins.len(), shape),
            None => Found::Nothing,
        }
    }

    /// A word with this letter in it may be a token, or stand before one.
    pub(super) fn capital(&self, at: usize) -> Found {
        let (before, rest) = (&self.text[self.floor..at], &self.text[at..]);
        match rest {
            [b'A', b'K', b'I', b'A', ..] => self.shaped(at, &AWS),
            [b'A', b'S', b'I', b'A', ..] => self.shaped(at, &AWS_SESSION),
            [b'A', b'I', b'z', b'a', ..] => self.shaped(at, &GOOGLE),
            [b'B', b'e' | b'E' | b'a' | b'A', ..] => self.scheme(at),
            [b'J', ..] if before.ends_with(b"ey") && !self.is_inside_a_word(at - 2) => {
                let dots = |run: &[u8]| run.len() >= 30 && memchr_iter(b'.', run).count() >= 2;
                let part = |b| is_key(b) || b == b'.';
                self.run(at - 2, part, dots, |start, end| Found::whole(start, end, JWT))
            }
            _ => Found::Nothing,
        }
    }

    /// `Bearer …` and `Basic …`, in any case. As it is usually not written, it may begin prose, and more is asked of what follows.
    pub(super) fn scheme(&self, at: usize) -> Found {
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
            return self.run(start, is_token, random, |start, end| Found::whole(start, end, BEARER));
        }
        if is(b"basic")
            && let Some(start) = behind(b"basic")
        {
            return self.run(start, is_token, shapes::is_basic, |start, end| Found::whole(start, end, BASIC));
        }
        Found::Nothing
    }

    /// A token that begins here, if it is one.
    fn shaped(&self, start: usize, shape: &Shape) -> Found {
        if self.is_inside_a_word(start) {
            return Found::Nothing;
        }
        let part = if shape.begins.ends_with('.') { |b| is_key(b) || b == b'.' } else { is_key };
        self.run(start, part, |run| shape.fits(run), |start, end| Found::whole(start, end, shape.kind()))
    }

    /// Whether the character before belongs to the same word. An `n` behind a backslash is the end of a line.
    fn is_inside_a_word(&self, at: usize) -> bool {
        let before = &self.text[self.floor..at];
        let escaped = matches!(before, [.., b'\\', b'n' | b't' | b'r']);
        !escaped && before.last().is_some_and(|b| is_key(*b) || matches!(b, b'+' | b'/' if self.is_base64(at)))
    }

    /// `eyJ` and `AKIA` come about in any Base64; a path or a URL may end before them as well.
    fn is_base64(&self, at: usize) -> bool {
        let before = &self.text[at.saturating_sub(24).max(self.floor)..at];
        before.len() == 24 && before.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
    }
}

/// `-----BEGIN ENCRYPTED PRIVATE KEY`, and whatever else there is between.
const LONGEST_HEAD: usize = 64;
