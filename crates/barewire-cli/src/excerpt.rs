//! A text and a byte offset -> a part of the text that fits a line, and the column of the byte.

use barewire_proto::transcript::escape;
use unicode_width::UnicodeWidthStr;

/// The text around a byte, escaped.
pub(crate) struct Excerpt {
    pub(crate) line: String,
    /// The columns of the line before the byte.
    pub(crate) column: usize,
}

impl Excerpt {
    pub(crate) fn around(text: &[u8], at: usize) -> Self {
        let at = at.min(text.len());
        let from = char_start(text, at.saturating_sub(BYTES_BEFORE));
        let to = char_start(text, text.len().min(at + BYTES_AFTER)).max(at);
        let (start, end) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        let (before, after) = (escape(&text[from..at]), escape(&text[at..to]));
        let column = start.width() + before.width();
        Self { line: format!("{start}{before}{after}{end}"), column }
    }
}

/// Returns the start of the character that byte `at` is in, so that an excerpt cuts no character.
fn char_start(bytes: &[u8], at: usize) -> usize {
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|b| b & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_continuation(*at)).unwrap_or(at)
}

/// The bytes shown before and after a place.
const BYTES_BEFORE: usize = 40;
const BYTES_AFTER: usize = 30;
