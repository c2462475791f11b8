//! A text with a marked range -> the text before, in and after the range, redacted.

use std::ops::Range;

use super::{ActiveRedactor, RedactingVisitor, Redactor, is_line_of_a_key};
use crate::secrets::{Continuation, LineScanner, SecretKind, SecretVisitor};

impl Redactor {
    /// Redacts a text, and returns the parts before, in and after a range of it. `context` is JSON text before it, which
    /// is not returned. If `more` text follows, the end is held back because it may be part of a secret.
    pub(crate) fn parts(&mut self, context: &[u8], text: &[u8], range: Range<usize>, more: bool) -> [Vec<u8>; 3] {
        let Some(secrets) = &mut self.0 else {
            return [&text[..range.start], &text[range.clone()], &text[range.end..]].map(<[u8]>::to_vec);
        };
        if is_line_of_a_key(text) {
            return [secrets.value(text).0, Vec::new(), Vec::new()];
        }
        secrets.parts(context, text, range, more).map(|part| secrets.redact_known_prefixes(part))
    }
}

impl ActiveRedactor {
    fn parts(&mut self, context: &[u8], text: &[u8], range: Range<usize>, more: bool) -> [Vec<u8>; 3] {
        let secret = self.numbers.start_hash();
        let out = Vec::with_capacity(context.len() + text.len());
        let inner = RedactingVisitor { numbers: &mut self.numbers, secret, out, redacted: false };
        let marks = [0, range.start, range.end].map(|at| Mark { at: context.len() + at, place: None });
        let mut visitor = MarkingVisitor { inner, read: 0, marks };
        let next = if more { Continuation::Piece } else { Continuation::Nothing };
        LineScanner::default().push(&[context, text].concat(), next, &self.detector, &mut visitor);
        let MarkingVisitor { inner: RedactingVisitor { out, .. }, marks, .. } = visitor;
        let [begin, start, end] = marks.map(|mark| mark.place.unwrap_or(out.len()));
        [&out[begin.min(start)..start], &out[start..end.max(start)], &out[end.max(start)..]].map(<[u8]>::to_vec)
    }
}

/// Finds the places of marks in the redacted text.
struct MarkingVisitor<'a> {
    inner: RedactingVisitor<'a>,
    /// The number of bytes of the original text so far.
    read: usize,
    /// The start of the text, and the start and end of the range.
    marks: [Mark; 3],
}

struct Mark {
    /// The offset in the original text.
    at: usize,
    /// The offset in the redacted text, once it is known.
    place: Option<usize>,
}

impl MarkingVisitor<'_> {
    /// Places the marks in the next `length` bytes, which are written as they are.
    fn place_plain(&mut self, length: usize) {
        let (read, written) = (self.read, self.inner.out.len());
        for mark in self.marks.iter_mut().filter(|mark| mark.place.is_none() && mark.at <= read + length) {
            mark.place = Some(written + mark.at.saturating_sub(read));
        }
        self.read += length;
    }

    /// Places the marks at which something begins in the next `length` bytes, which are part of a secret. A mark at
    /// which something ends is placed after the replacement.
    fn place_secret(&mut self, length: usize) {
        let (end, written) = (self.read + length, self.inner.out.len());
        let [begin, start, _] = &mut self.marks;
        for mark in [begin, start].into_iter().filter(|mark| mark.place.is_none() && mark.at < end) {
            mark.place = Some(written);
        }
        self.read = end;
    }
}

impl SecretVisitor for MarkingVisitor<'_> {
    fn plain(&mut self, bytes: &[u8]) {
        self.place_plain(bytes.len());
        self.inner.plain(bytes);
    }

    fn secret(&mut self, bytes: &[u8], text: &[u8], kind: SecretKind) {
        self.place_secret(bytes.len());
        self.inner.secret(bytes, text, kind);
    }

    fn end(&mut self, kind: SecretKind) {
        self.inner.end(kind);
        self.place_plain(0);
    }

    fn number(&mut self, quote: &[u8], number: &[u8], kind: SecretKind) {
        self.place_secret(number.len());
        self.inner.number(quote, number, kind);
        self.place_plain(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(context: &str, text: &str, fault: &str) -> [String; 3] {
        let start = text.find(fault).expect("the fault is in the text");
        let redactor = &mut Redactor::knowing([]);
        let parts = redactor.parts(context.as_bytes(), text.as_bytes(), start..start + fault.len(), false);
        parts.map(|part| String::from_utf8(part).expect("text"))
    }

    #[test]
    fn the_range_is_found_after_a_secret() {
        let text = r#"{"password":"hunter2hunter2","id":7,"api_key":"k3yk3yk3yk3y"}"#;
        let found = parts("", text, "7");
        assert_eq!(found, [r#"{"password":"<redacted-1>","id":"#, "7", r#","api_key":"<redacted-2>"}"#]);
    }

    #[test]
    fn a_range_in_a_secret_is_its_replacement() {
        let text = r#"{"password":"hunter2hunter2","id":7}"#;
        assert_eq!(parts("", text, "hunter2h"), [r#"{"password":""#, "<redacted-1>", r#"","id":7}"#]);
        assert_eq!(parts("", text, "\"hunter2hunter2\""), [r#"{"password":"#, "\"<redacted-1>\"", r#","id":7}"#]);
    }

    #[test]
    fn names_in_the_context_count_and_are_not_shown() {
        let found = parts(r#"{"credentials":{"#, r#""a":"hunter2hunter2","b":7}}"#, "7");
        assert!(!found.concat().contains("hunter2") && found.concat().starts_with(r#""a":""#), "{found:?}");
    }
}
