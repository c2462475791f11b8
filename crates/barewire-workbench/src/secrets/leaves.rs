//! Walks through an object or array under a name such as `credentials`, in which all values are secrets.
//!
//! The text may arrive in pieces, so the walk keeps its place. It needs no stack of its own: a bit for each open
//! bracket says whether the bracket is an array.

use super::ending::SecretEnd;
use super::names::MAX_WRITTEN_NAME;
use super::redact::is_replacement;
use super::shapes::{MAX_PLACEHOLDER, is_number, is_placeholder};
use super::view::{Quote, SecretMatch, TextView};

/// The place of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafWalk {
    /// The quotes of the strings.
    pub(super) quote: Quote,
    /// For each open bracket, from the innermost, whether it is an array.
    arrays: u64,
    open: u8,
    /// Whether a value follows, not a name.
    is_value: bool,
    /// Whether the last name is that of a description.
    is_description: bool,
}

/// The next step of a walk.
pub(super) enum LeafStep {
    /// A secret string begins at this offset.
    String(usize),
    /// A secret number.
    Number(usize, usize),
    /// The object or array ended before this offset, or is not JSON.
    End(usize),
    /// The text is too short to decide what is at this offset.
    Wait(usize),
}

impl LeafWalk {
    /// Walks from `at` to the next secret.
    pub(super) fn next(&mut self, view: &TextView<'_>, mut at: usize) -> LeafStep {
        while let Some(byte) = view.text.get(at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {
                    let end = view.skip_json_space(at);
                    // The field name of a server-sent event may follow a line break.
                    if end >= view.text.len() {
                        return LeafStep::Wait(at);
                    }
                    at = end;
                }
                b'{' | b'[' if self.open < MAX_OPEN => {
                    self.arrays = self.arrays << 1 | u64::from(*byte == b'[');
                    self.open += 1;
                    self.is_value = *byte == b'[';
                    at += 1;
                }
                b'}' | b']' => {
                    self.arrays >>= 1;
                    self.open = self.open.saturating_sub(1);
                    at += 1;
                    if self.open == 0 {
                        return LeafStep::End(at);
                    }
                }
                b',' => {
                    self.is_value = self.arrays & 1 == 1;
                    at += 1;
                }
                b':' => {
                    self.is_value = true;
                    at += 1;
                }
                b'"' | b'\'' if view.quote(at) == Some(self.quote) => {
                    let (mark, depth) = self.quote;
                    let most = if self.is_value { MAX_PLACEHOLDER } else { MAX_WRITTEN_NAME };
                    let end = SecretEnd::Quote { mark, depth }.find_within(view, at + 1, most);
                    let start = at + 1;
                    match end {
                        None if view.more && view.text.len() - start < most => return LeafStep::Wait(at),
                        Some(end) if !self.is_value => {
                            self.is_description = DESCRIPTIONS.contains(&&view.text[start..end]);
                            at = end + 1;
                        }
                        Some(end) if self.is_harmless(&view.text[start..end]) => at = end + 1,
                        _ => return LeafStep::String(start),
                    }
                }
                b'0'..=b'9' | b'-' => {
                    let end = view.skip(at, MAX_PLACEHOLDER, is_number);
                    match () {
                        () if end >= view.text.len() && view.more && end - at < MAX_PLACEHOLDER => {
                            return LeafStep::Wait(at);
                        }
                        () if self.is_description => at = end,
                        () => return LeafStep::Number(at, end),
                    }
                }
                // `true`, `false` and `null`.
                b'a'..=b'z' => at += 1,
                _ => return LeafStep::End(at),
            }
        }
        LeafStep::Wait(at)
    }

    fn is_harmless(&self, value: &[u8]) -> bool {
        self.is_description || is_placeholder(value) || is_replacement(value)
    }
}

impl TextView<'_> {
    /// Examines the object or array at `at`, under a name of secrets.
    pub(super) fn leaves(&self, at: usize, quote: Quote) -> SecretMatch {
        let walk = LeafWalk { quote, arrays: 0, open: 0, is_value: true, is_description: false };
        if self.text[at] == b'{' {
            return SecretMatch::Leaves { start: at, walk };
        }
        let first = self.skip_json_space(at + 1);
        match self.text.get(first) {
            None => self.wait(),
            Some(b'{' | b'[') => SecretMatch::Leaves { start: first, walk: LeafWalk { arrays: 1, open: 1, ..walk } },
            // An array of strings is examined by its first string.
            Some(_) => SecretMatch::Nothing,
        }
    }
}

/// Members that describe a secret and do not hold it; also those of a JSON Schema, which describes a member.
#[rustfmt::skip] // a table
const DESCRIPTIONS: &[&[u8]] = &[
    b"type", b"kind", b"name", b"description", b"title", b"version", b"provider", b"created", b"updated", b"createdAt",
    b"updatedAt", b"expires", b"expiresAt", b"enabled", b"required", b"header", b"namespace", b"apiVersion", b"$ref",
    b"$schema", b"format", b"pattern", b"default", b"enum", b"const", b"examples", b"minLength", b"maxLength",
    b"minimum", b"maximum", b"minItems", b"maxItems", b"x-order",
];

/// The maximum number of open brackets: one for each bit.
const MAX_OPEN: u8 = 64;
