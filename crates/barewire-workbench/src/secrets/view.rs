//! Reads a text around a place that may be a secret. The rules by name and the rules by shape both read the text
//! through this view.

use super::SecretKind;
use super::ending::SecretEnd;
use super::names;
use super::shapes::{is_key, is_space};

#[derive(Debug, PartialEq, Eq)]
#[rustfmt::skip] // a variant is a line
pub(super) enum SecretMatch {
    Nothing,
    /// A secret from `start` to `end`.
    Whole { start: usize, end: usize, kind: SecretKind },
    /// A secret number. Its replacement becomes a string in the same quotes as its name: `quote` after `slashes`
    /// backslashes.
    Number { start: usize, end: usize, quote: u8, slashes: usize },
    /// A secret that begins at `start` and continues until `ending` is found.
    Open { start: usize, ending: SecretEnd, in_array: bool, kind: SecretKind },
    /// The secret is the value of the member with this colon, in an object with a secret name.
    Inside { colon: usize },
    /// Undecided: more of the text is needed.
    Wait,
}

impl SecretMatch {
    pub(super) const fn whole(start: usize, end: usize, kind: SecretKind) -> Self {
        Self::Whole { start, end, kind }
    }

    pub(super) fn starts_at_or_after(&self, at: usize) -> bool {
        match self {
            Self::Whole { start, .. } | Self::Number { start, .. } | Self::Open { start, .. } => *start >= at,
            Self::Nothing | Self::Inside { .. } | Self::Wait => false,
        }
    }
}

/// A text, of which only the part from `floor` on is read. `more` means that the text is not complete.
pub(super) struct TextView<'a> {
    pub(super) text: &'a [u8],
    pub(super) floor: usize,
    pub(super) more: bool,
}

impl TextView<'_> {
    /// Returns the result if the text ends too early for a decision.
    pub(super) fn wait(&self) -> SecretMatch {
        if self.more { SecretMatch::Wait } else { SecretMatch::Nothing }
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
                    SecretMatch::Open { start, ending: SecretEnd::Separator, in_array: false, kind }
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

    /// Returns the offset after the spaces and tabs that begin at `from`; a tab may be written as `\t`.
    pub(super) fn gap(&self, from: usize) -> usize {
        let end = self.skip(from, MAX_SPACES, is_space);
        let letter = self.skip(end, MAX_BACKSLASHES, |b| b == b'\\');
        if letter > end && self.text.get(letter) == Some(&b't') { letter + 1 } else { end }
    }

    /// Returns the offset after the JSON white space that begins at `from`.
    pub(super) fn skip_json_space(&self, from: usize) -> usize {
        from + self.text.get(from..).map_or(0, json_space)
    }

    /// Returns the start of the JSON white space that ends at `end`.
    pub(super) fn back_json_space(&self, end: usize) -> usize {
        // The common case: no white space.
        if self.text[self.floor..end].ends_with(b"\"") {
            return end;
        }
        let least = end.saturating_sub(MAX_JSON_SPACE).max(self.floor);
        let mut at = end;
        while at > least {
            at = match &self.text[self.floor..at] {
                [.., b' ' | b'\t' | b'\r' | b'\n'] => at - 1,
                [.., b'\\', b'n' | b'r' | b't'] => self.back(at - 1, MAX_BACKSLASHES, |b| b == b'\\'),
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
}

/// Returns the length of the JSON white space at the start of a text: plain, escaped as `\n`, `\r` and `\t` in nested
/// strings, or a line break followed by the `data:` of a server-sent event.
pub(super) fn json_space(text: &[u8]) -> usize {
    let mut at = 0;
    while at < MAX_JSON_SPACE {
        let rest = &text[at..];
        at += match rest {
            [b' ' | b'\t' | b'\r', ..] => 1,
            [b'\n', rest @ ..] if rest.starts_with(SSE_DATA_FIELD) => 1 + SSE_DATA_FIELD.len(),
            [b'\n', rest @ ..] if SSE_DATA_FIELD.starts_with(rest) => 1 + rest.len(),
            [b'\n', ..] => 1,
            [b'\\', ..] => {
                let slashes = rest.iter().take(MAX_BACKSLASHES).take_while(|b| **b == b'\\').count();
                if let Some(b'n' | b'r' | b't') = rest.get(slashes) { slashes + 1 } else { break }
            }
            _ => break,
        };
    }
    at
}

/// Whether this byte can be part of the name of a member, an option or a variable.
pub(super) fn is_name(byte: u8) -> bool {
    is_key(byte) || byte == b'.'
}

pub(super) const MAX_SPACES: usize = 32;

/// The maximum length of white space between tokens of JSON: enough for a line break and any usual indentation.
const MAX_JSON_SPACE: usize = 256;

/// The field name of a data line in a server-sent event.
const SSE_DATA_FIELD: &[u8] = b"data:";

/// The maximum number of backslashes before a quote, reached by JSON that is nested five strings deep.
pub(super) const MAX_BACKSLASHES: usize = 31;

/// The maximum length of a token that is read whole. A JWT that lists all groups in a company has 4 KiB.
pub(super) const MAX_RUN: usize = 8 * 1024;

/// The maximum number of bytes before a hit that are read. The last colon in `"name": "API_KEY", "value":` needs the
/// most: before it are three names, and five times white space, a quote with backslashes, and a punctuation mark.
pub(super) const LOOKBEHIND: usize = 5 * (MAX_JSON_SPACE + MAX_BACKSLASHES + 2) + 3 * names::MAX_WRITTEN_NAME;
