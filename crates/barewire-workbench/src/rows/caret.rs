//! A text and a byte offset -> the part of the text around the byte that fits on one line, and the column of the byte.

use barewire_proto::transcript::escape;
use unicode_width::UnicodeWidthStr;

/// The text around a byte, escaped.
#[non_exhaustive]
pub struct CaretLine {
    /// The text, escaped, with an ellipsis where it is cut.
    pub line: String,
    /// The column of the byte in `line`, from 0.
    pub column: usize,
}

impl CaretLine {
    /// Returns the text around the byte at `at`.
    pub fn around(text: &[u8], at: usize) -> Self {
        let at = at.min(text.len());
        let from = char_start(text, at.saturating_sub(BYTES_BEFORE));
        let to = char_start(text, text.len().min(at + BYTES_AFTER)).max(at);
        let (start, end) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        let (before, after) = (escape(&text[from..at]), escape(&text[at..to]));
        let column = start.width() + before.width();
        Self { line: format!("{start}{before}{after}{end}"), column }
    }
}

/// Returns the start of the character that contains byte `at`, so that an excerpt does not split a character.
fn char_start(bytes: &[u8], at: usize) -> usize {
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|b| b & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_continuation(*at)).unwrap_or(at)
}

/// The number of bytes shown before and after the position.
const BYTES_BEFORE: usize = 40;
const BYTES_AFTER: usize = 30;
