//! A text -> what is there at a place of it: what both kinds of rules, by name and by shape, look with.

use super::Kind;
use super::ending::Ending;
use super::names;
use super::shapes::is_key;

/// What there is at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// A secret, from here to there.
    Whole {
        start: usize,
        end: usize,
        kind: Kind,
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
        kind: Kind,
    },
    /// The value of the member whose colon is here is a secret: it stands in an object that is named like one.
    Inside {
        colon: usize,
    },
    /// More has to be there before it can be said.
    Wait,
}

impl Found {
    pub(super) const fn whole(start: usize, end: usize, kind: Kind) -> Self {
        Self::Whole { start, end, kind }
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

    pub(super) fn back(&self, mut end: usize, most: usize, part: impl Fn(u8) -> bool) -> usize {
        let least = end.saturating_sub(most).max(self.floor);
        while end > least && part(self.text[end - 1]) {
            end -= 1;
        }
        end
    }
}

/// What names of members, options and variables are made of.
pub(super) fn is_name(byte: u8) -> bool {
    is_key(byte) || byte == b'.'
}

pub(super) const MOST_SPACES: usize = 32;

/// Of JSON in a string of JSON, five times over.
pub(super) const MOST_SLASHES: usize = 31;

/// Nobody makes tokens of more than that; a JWT with all groups of a company in it has 4 KiB.
pub(super) const LONGEST_RUN: usize = 8 * 1024;

/// How far before a hit is looked at most: spaces, quote, backslashes, a name and the sign before it.
pub(super) const BEHIND: usize = MOST_SPACES + 1 + MOST_SLASHES + names::LONGEST_WRITTEN + 1;
