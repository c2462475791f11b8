//! A text -> what is there at a place of it: what both kinds of rules, by name and by shape, look with.

use super::SecretKind;
use super::ending::Ending;
use super::names;
use super::shapes::{is_key, is_space};

/// What there is at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A secret, from here to there.
    Whole {
        start: usize,
        end: usize,
        kind: SecretKind,
    },
    /// A secret number, which becomes a string in the same quotes as its name: such a one, behind so many backslashes.
    Number {
        start: usize,
        end: usize,
        quote: u8,
        slashes: usize,
    },
    /// A secret that begins here. It goes on until its end is found.
    Open {
        start: usize,
        ending: Ending,
        in_array: bool,
        kind: SecretKind,
    },
    /// The value of the member whose colon is here is a secret: it stands in an object that is named like one.
    Inside {
        colon: usize,
    },
    /// More has to be there before it can be said.
    Wait,
}

impl Found {
    pub(super) const fn whole(start: usize, end: usize, kind: SecretKind) -> Self {
        Self::Whole { start, end, kind }
    }

    /// Whether it is a secret that does not begin before here.
    pub(super) fn begins_behind(&self, at: usize) -> bool {
        match self {
            Self::Whole { start, .. } | Self::Number { start, .. } | Self::Open { start, .. } => *start >= at,
            Self::Nothing | Self::Inside { .. } | Self::Wait => false,
        }
    }
}

/// A text in which nothing before `floor` is looked at; `more` says that it goes on.
pub(super) struct View<'a> {
    pub(super) text: &'a [u8],
    pub(super) floor: usize,
    pub(super) more: bool,
}

impl View<'_> {
    /// Nothing more is there.
    pub(super) fn wait(&self) -> Found {
        if self.more { Found::Wait } else { Found::Nothing }
    }

    /// What stands together from here on, if it fits. Of what is too long to be looked at whole, the beginning decides.
    pub(super) fn run(
        &self,
        start: usize,
        part: fn(u8) -> bool,
        fits: impl Fn(&[u8]) -> bool,
        found: impl Fn(usize, usize) -> Found,
    ) -> Found {
        let end = self.skip(start, LONGEST_RUN, part);
        let run = self.text.get(start..end).unwrap_or_default();
        if run.len() == LONGEST_RUN {
            return match (fits(run), found(start, end)) {
                (true, Found::Whole { kind, .. }) => {
                    Found::Open { start, ending: Ending::Separator, in_array: false, kind }
                }
                _ => Found::Nothing,
            };
        }
        if end >= self.text.len() && self.more {
            return Found::Wait;
        }
        if !run.is_empty() && fits(run) { found(start, end) } else { Found::Nothing }
    }

    pub(super) fn skip(&self, from: usize, most: usize, part: impl Fn(u8) -> bool) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        from + rest.iter().take(most).take_while(|b| part(**b)).count()
    }

    /// Behind the spaces and tabs that begin here; a tab may be written as `\t`.
    pub(super) fn gap(&self, from: usize) -> usize {
        let end = self.skip(from, MOST_SPACES, is_space);
        let letter = self.skip(end, MOST_SLASHES, |b| b == b'\\');
        if letter > end && self.text.get(letter) == Some(&b't') { letter + 1 } else { end }
    }

    /// Behind the white space of JSON that begins here.
    pub(super) fn blank(&self, from: usize) -> usize {
        from + self.text.get(from..).map_or(0, blank)
    }

    /// Where the white space of JSON begins that ends here.
    pub(super) fn back_blank(&self, end: usize) -> usize {
        // As almost always.
        if self.text[self.floor..end].ends_with(b"\"") {
            return end;
        }
        let least = end.saturating_sub(MOST_BLANK).max(self.floor);
        let mut at = end;
        while at > least {
            at = match &self.text[self.floor..at] {
                [.., b' ' | b'\t' | b'\r' | b'\n'] => at - 1,
                [.., b'\\', b'n' | b'r' | b't'] => self.back(at - 1, MOST_SLASHES, |b| b == b'\\'),
                [.., b'\n', b'd', b'a', b't', b'a', b':'] => at - FIELD.len(),
                _ => break,
            };
        }
        at
    }

    pub(super) fn back(&self, mut end: usize, most: usize, part: impl Fn(u8) -> bool) -> usize {
        let least = end.saturating_sub(most).max(self.floor);
        while end > least && part(self.text[end - 1]) {
            end -= 1;
        }
        end
    }
}

/// How much of this is white space of JSON: as it is, as `\n`, `\r` and `\t` in a string however deep, or with the beginning of the next
/// line of an event.
pub(super) fn blank(text: &[u8]) -> usize {
    let mut at = 0;
    while at < MOST_BLANK {
        let rest = &text[at..];
        at += match rest {
            [b' ' | b'\t' | b'\r', ..] => 1,
            [b'\n', rest @ ..] if rest.starts_with(FIELD) => 1 + FIELD.len(),
            [b'\n', rest @ ..] if FIELD.starts_with(rest) => 1 + rest.len(),
            [b'\n', ..] => 1,
            [b'\\', ..] => {
                let slashes = rest.iter().take(MOST_SLASHES).take_while(|b| **b == b'\\').count();
                match rest.get(slashes) {
                    Some(b'n' | b'r' | b't') => slashes + 1,
                    _ => break,
                }
            }
            _ => break,
        };
    }
    at
}

/// What names of members, options and variables are made of.
pub(super) fn is_name(byte: u8) -> bool {
    is_key(byte) || byte == b'.'
}

pub(super) const MOST_SPACES: usize = 32;

/// A line end, and how deep anybody indents.
const MOST_BLANK: usize = 256;

/// What a line of an event begins with.
const FIELD: &[u8] = b"data:";

/// Of JSON in a string of JSON, five times over.
pub(super) const MOST_SLASHES: usize = 31;

/// Nobody makes tokens of more than that; a JWT with all groups of a company in it has 4 KiB.
pub(super) const LONGEST_RUN: usize = 8 * 1024;

/// How far before a hit is looked at most: white space, quote, backslashes and a name; and the same of the member before it.
pub(super) const BEHIND: usize = 2 * (MOST_BLANK + 2 + MOST_SLASHES + names::LONGEST_WRITTEN);
