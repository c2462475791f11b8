//! Text that may quote a peer -> the same text, safe to show: lines and tabs are kept, everything else that could
//! control a terminal or hide text is escaped.

use std::fmt::{self, Write};
use std::ops::Deref;

use serde::{Serialize, Serializer};

use crate::escape::{escape, is_clean};

/// A text for people: an error, a note or a line of a log, which may quote a peer.
///
/// Every way to make one escapes it, so no value of this type can control a terminal, whatever a peer has sent:
///
/// ```
/// use barewire_proto::transcript::SafeText;
///
/// let version = "1.0\u{9b}2J";
/// assert_eq!(*SafeText::new(format_args!("the version is {version}")), *r"the version is 1.0\xc2\x9b2J");
/// ```
///
/// A `String` is not a `SafeText`, and the text inside cannot be set:
///
/// ```compile_fail
/// let note: barewire_proto::transcript::SafeText = String::from("1.0\u{9b}2J");
/// ```
///
/// ```compile_fail
/// let note = barewire_proto::transcript::SafeText(String::from("1.0\u{9b}2J"));
/// ```
///
/// ```compile_fail
/// let mut note = barewire_proto::transcript::SafeText::default();
/// note.push_str("1.0\u{9b}2J");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Invariant: escaping does not change it.
pub struct SafeText(String);

impl SafeText {
    /// Escapes a text.
    pub fn new(text: impl fmt::Display) -> Self {
        Self(Escaped::new(text).to_string())
    }

    /// Escapes a text and appends it.
    pub fn push(&mut self, text: impl fmt::Display) {
        write!(self.0, "{}", Escaped::new(text)).expect("writing to a String cannot fail");
    }
}

/// What is inside is safe to show, so it can be used like any other text.
impl Deref for SafeText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SafeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// A value whose text is escaped when it is displayed.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<T>(T);

impl<T: fmt::Display> Escaped<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(EscapeWriter::new(f), "{}", self.0)
    }
}

/// A writer that escapes all text that is written to it. An error type that quotes a peer displays itself through one.
#[derive(Debug)]
pub struct EscapeWriter<W>(W);

impl<W: Write> EscapeWriter<W> {
    /// Wraps a writer.
    pub fn new(inner: W) -> Self {
        Self(inner)
    }
}

impl<W: Write> Write for EscapeWriter<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.split_inclusive(['\n', '\t']) {
            let line = piece.strip_suffix(['\n', '\t']).unwrap_or(piece);
            match is_clean(line.as_bytes()) {
                true => self.0.write_str(piece)?,
                false => {
                    self.0.write_str(&escape(line.as_bytes()))?;
                    self.0.write_str(&piece[line.len()..])?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Escaped, SafeText};

    #[test]
    fn only_lines_and_tabs_are_kept() {
        let text = "a\tb\r\nc\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{7}\u{2028}\u{85}\u{feff}\u{fdd0}\u{10ffff}\n\n\t";
        let safe = SafeText::new(text);
        assert_eq!(
            &*safe,
            "a\tb\\x0d\nc\\x1b[2J\\xc2\\x9b2J\\xe2\\x80\\xae\\xe2\\x81\\xa6\\x07\\xe2\\x80\\xa8\\xc2\\x85\\xef\\xbb\\xbf\
             \\xef\\xb7\\x90\\xf4\\x8f\\xbf\\xbf\n\n\t"
        );
        assert_eq!(SafeText::new(&safe), safe, "a safe text is not changed");
        assert_eq!(Escaped::new("größer → 日本 👩‍💻 שלום").to_string(), "größer → 日本 👩‍💻 שלום");
    }
}
