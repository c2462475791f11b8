//! A text to search for, and the bytes of a message -> whether it occurs in them, ignoring case.

use std::fmt;

/// A text to search for, ignoring case.
#[derive(Debug, Clone, PartialEq)]
pub struct TextPattern {
    text: String,
    folded: String,
}

impl TextPattern {
    /// Creates a pattern. Every text is one; the empty text is in all texts.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { folded: folded(&text), text }
    }

    /// Returns the text as typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the text occurs in these bytes.
    pub fn is_in(&self, text: &[u8]) -> bool {
        let wanted = self.folded.as_bytes();
        let Some(first) = wanted.first() else { return true };
        // Most frames are ASCII and can be compared without a copy.
        if text.is_ascii() {
            let is_here = |at: usize| text.get(at..at + wanted.len()).is_some_and(|it| it.eq_ignore_ascii_case(wanted));
            return memchr::memchr2_iter(*first, first.to_ascii_uppercase(), text).any(is_here);
        }
        folded(&String::from_utf8_lossy(text)).contains(&self.folded)
    }
}

impl fmt::Display for TextPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Folds case for comparison. It converts to upper case first, because some letters have two lower case forms.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::TextPattern;

    #[test]
    fn case_does_not_matter_in_text() {
        let cases = [
            ("hELLO", "Hello", true),
            ("", "x", true),
            ("", "", true),
            ("x", "", false),
            ("xy", "x", false),
            ("xxy", "xxxy", true),
            ("ärger", "viel ÄRGER", true),
            ("ÄRGER", "viel ärger", true),
            ("ärger", "viel Arger", false),
            ("hello", "ä HELLO", true),
            ("ΟΔΟΣ", "οδος", true),
        ];
        for (wanted, text, is) in cases {
            assert_eq!(TextPattern::new(wanted).is_in(text.as_bytes()), is, "{text}");
        }
        assert!(TextPattern::new("ärger").is_in(b"\xff \xc3\x84RGER"));
    }
}
