//! A text and a byte in it -> a piece of the text that fits a line, and a caret under the byte.

use barewire_proto::transcript::escape;
use unicode_width::UnicodeWidthStr;

/// What stands around a byte, safe to look at.
pub(crate) struct Excerpt {
    pub(crate) line: String,
    /// How many columns of the line stand before the byte.
    pub(crate) column: usize,
}

impl Excerpt {
    pub(crate) fn around(text: &[u8], at: usize) -> Self {
        let at = at.min(text.len());
        let from = char_start(text, at.saturating_sub(BEFORE));
        let to = char_start(text, text.len().min(at + BEHIND)).max(at);
        let (start, end) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        let (before, behind) = (escape(&text[from..at]), escape(&text[at..to]));
        let column = start.width() + before.width();
        Self { line: format!("{start}{before}{behind}{end}"), column }
    }
}

/// The start of the character that byte `at` is in, so that an excerpt does not begin or end inside of one.
fn char_start(bytes: &[u8], at: usize) -> usize {
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|b| b & 0xc0 == 0x80);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_continuation(*at)).unwrap_or(at)
}

/// How much is shown around a byte.
const BEFORE: usize = 40;
const BEHIND: usize = 30;
