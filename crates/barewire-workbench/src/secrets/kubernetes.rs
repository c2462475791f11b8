//! Finds the values of a Kubernetes Secret: all values under `data` and `stringData` of an object whose kind is
//! `Secret`, in JSON and in YAML.

use memchr::memmem;

use super::SecretKind;
use super::names::NameContext;
use super::redact::is_replacement;
use super::shapes::is_space;
use super::view::{MAX_RUN, SecretMatch, TextView, is_name};

impl TextView<'_> {
    /// Examines the object after `"data":`, which begins at `start`.
    pub(super) fn secret_data(&self, start: usize, quote: super::view::Quote) -> SecretMatch {
        match self.is_near_secret_kind(start) {
            None => SecretMatch::Wait,
            Some(true) => self.leaves(start, quote),
            Some(false) => SecretMatch::Nothing,
        }
    }

    /// Examines a line `  name: value` of YAML. `name` is the start of the name, and `value` the end of the colon.
    pub(super) fn secret_line(&self, name: usize, value: usize) -> SecretMatch {
        let view = TextView { floor: name.saturating_sub(MAX_DISTANCE_BEFORE), ..*self };
        let indent = name - view.back(name, MAX_INDENT, |b| b == b' ');
        let start = self.skip(value, MAX_INDENT, is_space);
        if indent == 0 || !is_parent(view.parent_line(name - indent, indent)) {
            return SecretMatch::Nothing;
        }
        match self.is_near_secret_kind(name) {
            None => SecretMatch::Wait,
            Some(false) => SecretMatch::Nothing,
            Some(true) if matches!(self.text.get(start), Some(b'|' | b'>')) => self.block(start),
            Some(true) => {
                let kind = SecretKind::Named(NameContext::Plain);
                let fits = |run: &[u8]| !is_replacement(run);
                self.run(start, |b| b > b' ' && b != b'"', fits, |start, end| SecretMatch::whole(start, end, kind))
            }
        }
    }

    /// Returns the last line before `line` that is indented less.
    fn parent_line(&self, mut line: usize, indent: usize) -> &[u8] {
        while line > self.floor {
            let end = line - 1;
            line = self.back(end, MAX_DISTANCE_BEFORE, |b| b != b'\n');
            let word = self.skip(line, MAX_INDENT, |b| b == b' ');
            if word - line < indent && word < end {
                return &self.text[word..end];
            }
        }
        b""
    }

    /// Whether `kind: Secret` is near this place; `None` if the text is too short to decide.
    fn is_near_secret_kind(&self, at: usize) -> Option<bool> {
        let from = at.saturating_sub(MAX_DISTANCE_BEFORE);
        let end = self.text.len().min(at + MAX_DISTANCE_AFTER);
        let text = &self.text[from..end];
        let is_secret = |place: usize| {
            let rest = text[place + b"kind".len()..].iter();
            let sign = |b: &&u8| matches!(b, b'"' | b'\'' | b':' | b' ' | b'\n' | b'\r');
            let rest: Vec<u8> = rest.skip_while(sign).take(b"Secret".len() + 1).copied().collect();
            rest.starts_with(b"Secret") && !rest.last().is_some_and(|b| rest.len() > 6 && is_name(*b))
        };
        match memmem::find_iter(text, b"kind").any(is_secret) {
            true => Some(true),
            false if self.more && end < at + MAX_DISTANCE_AFTER => None,
            false => Some(false),
        }
    }
}

/// Whether this line, without its indentation, begins the values of a Secret.
fn is_parent(line: &[u8]) -> bool {
    matches!(line.trim_ascii_end(), b"data:" | b"stringData:")
}

/// Whether a member with this name holds the values of a Secret.
pub(super) fn is_data_member(name: &[u8]) -> bool {
    matches!(name, [b'd' | b's', ..] if matches!(name, b"data" | b"stringData"))
}

/// The maximum distance to the kind before the values.
const MAX_DISTANCE_BEFORE: usize = 512;

/// The maximum distance to the kind after the values, in output that is sorted by name.
const MAX_DISTANCE_AFTER: usize = MAX_RUN / 2;

/// The maximum indentation of a line.
const MAX_INDENT: usize = 32;
