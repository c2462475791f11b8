//! Reads a plain text around a place that may be a secret. The rules by name and the rules by shape both read the text
//! through this view.

use super::SecretKind;
use super::decode::PlainText;
use super::ending::SecretEnd;
use super::leaves::LeafWalk;
use super::names;
use super::shapes::{is_key, is_space};

#[derive(Debug, PartialEq, Eq)]
#[rustfmt::skip] // a variant is a line
pub(super) enum SecretMatch {
    Nothing,
    /// A secret from `start` to `end`.
    Whole { start: usize, end: usize, kind: SecretKind },
    /// A secret number. Its replacement becomes a string in the same quotes as its name.
    Number { start: usize, end: usize, quote: Quote },
    /// A secret that begins at `start` and continues until `ending` is found.
    Open { start: usize, ending: SecretEnd, after: AfterSecret, kind: SecretKind },
    /// An object or array in which all values are secrets begins at `start`.
    Leaves { start: usize, walk: LeafWalk },
    /// Undecided: more of the text is needed.
    Wait,
}

impl SecretMatch {
    pub(super) const fn whole(start: usize, end: usize, kind: SecretKind) -> Self {
        Self::Whole { start, end, kind }
    }

    pub(super) fn starts_at_or_after(&self, at: usize) -> bool {
        match self {
            Self::Whole { start, .. }
            | Self::Number { start, .. }
            | Self::Open { start, .. }
            | Self::Leaves { start, .. } => *start >= at,
            Self::Nothing | Self::Wait => false,
        }
    }
}

/// What may follow a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterSecret {
    Nothing,
    /// Another string of an array of secrets.
    Element,
    /// Another value of an object in which all values are secrets.
    Leaf(LeafWalk),
    /// Another string with a line of the same private key.
    KeyLine,
}

/// A text, of which only the part from `floor` on is read. `more` means that the text is not complete.
#[derive(Clone, Copy)]
pub(super) struct TextView<'a> {
    pub(super) plain: &'a PlainText<'a>,
    /// The plain text, or the beginning of it.
    pub(super) text: &'a [u8],
    pub(super) floor: usize,
    pub(super) more: bool,
}

/// A quotation mark and the number of strings around the string that it delimits.
pub(super) type Quote = (u8, u8);

impl TextView<'_> {
    /// Returns the result if the text ends too early for a decision.
    pub(super) fn wait(&self) -> SecretMatch {
        if self.more { SecretMatch::Wait } else { SecretMatch::Nothing }
    }

    /// Returns the quotation mark at this offset, if there is one.
    pub(super) fn quote(&self, at: usize) -> Option<Quote> {
        match self.text.get(at) {
            Some(mark @ (b'"' | b'\'')) => Some((*mark, self.plain.depth(at))),
            _ => None,
        }
    }

    /// Examines the longest run of `part` bytes from `start`, and returns `found` if the run `fits`. If the run is too
    /// long to be read whole, only its beginning is examined.
    pub(super) fn run(
        &self,
        start: usize,
        part: fn(u8) -> bool,
        fits: impl Fn(&[u8]) -> bool,
        found: impl Fn(usize, usize) -> SecretMatch,
    ) -> SecretMatch {
        let end = self.skip(start, MAX_RUN, part);
        let run = self.text.get(start..end).unwrap_or_default();
        if run.len() == MAX_RUN {
            return match (fits(run), found(start, end)) {
                (true, SecretMatch::Whole { kind, .. }) => {
                    SecretMatch::Open { start, ending: SecretEnd::Separator, after: AfterSecret::Nothing, kind }
                }
                _ => SecretMatch::Nothing,
            };
        }
        if end >= self.text.len() && self.more {
            return SecretMatch::Wait;
        }
        if !run.is_empty() && fits(run) { found(start, end) } else { SecretMatch::Nothing }
    }

    pub(super) fn skip(&self, from: usize, most: usize, part: impl Fn(u8) -> bool) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        from + rest.iter().take(most).take_while(|b| part(**b)).count()
    }

    /// Returns the offset after the spaces and tabs that begin at `from`.
    pub(super) fn gap(&self, from: usize) -> usize {
        self.skip(from, MAX_SPACES, is_space)
    }

    /// Returns the offset after the JSON white space that begins at `from`: also a line break followed by the `data:`
    /// of a server-sent event.
    pub(super) fn skip_json_space(&self, from: usize) -> usize {
        let mut at = from;
        while at < from + MAX_JSON_SPACE {
            at += match self.text.get(at..).unwrap_or_default() {
                [b' ' | b'\t' | b'\r', ..] => 1,
                [b'\n', rest @ ..] if rest.starts_with(SSE_DATA_FIELD) => 1 + SSE_DATA_FIELD.len(),
                [b'\n', rest @ ..] if SSE_DATA_FIELD.starts_with(rest) => 1 + rest.len(),
                [b'\n', ..] => 1,
                _ => break,
            };
        }
        at
    }

    /// Returns the start of the JSON white space that ends at `end`.
    pub(super) fn back_json_space(&self, end: usize) -> usize {
        let least = end.saturating_sub(MAX_JSON_SPACE).max(self.floor);
        let mut at = end;
        while at > least {
            at = match &self.text[self.floor..at] {
                [.., b' ' | b'\t' | b'\r' | b'\n'] => at - 1,
                [.., b'\n', b'd', b'a', b't', b'a', b':'] => at - SSE_DATA_FIELD.len(),
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

    /// Returns the start of the name that ends at `end`.
    pub(super) fn back_name(&self, end: usize) -> usize {
        self.back(end, names::MAX_WRITTEN_NAME, is_name)
    }
}

/// Whether this byte can be part of the name of a member, an option or a variable.
pub(super) fn is_name(byte: u8) -> bool {
    is_key(byte) || byte == b'.'
}

pub(super) const MAX_SPACES: usize = 32;

/// The maximum length of white space between tokens of JSON: enough for a line break and any usual indentation.
pub(super) const MAX_JSON_SPACE: usize = 256;

/// The field name of a data line in a server-sent event.
const SSE_DATA_FIELD: &[u8] = b"data:";

/// The maximum length of a token that is read whole. A JWT that lists all groups in a company has 4 KiB.
pub(super) const MAX_RUN: usize = 8 * 1024;

/// The maximum number of bytes before a hit that are read. The colon of a `value` needs the most: the members before
/// it in the same object are read.
pub(super) const LOOKBEHIND: usize =
    super::siblings::MAX_OBJECT_BEFORE + 2 * (MAX_JSON_SPACE + names::MAX_WRITTEN_NAME);
