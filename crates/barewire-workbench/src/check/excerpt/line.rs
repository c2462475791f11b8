//! A redacted line in three parts, before, in and after its fault -> text that is cut around the fault.

use std::ops::Range;

use barewire_proto::transcript::escape;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A line of an excerpt, escaped.
#[derive(Debug, Clone)]
pub(super) struct ExcerptLine {
    before: String,
    fault: String,
    after: String,
    /// Whether the line has a fault. It may have no length: something is missing there.
    is_marked: bool,
}

/// A line that is cut to a width.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutLine {
    /// The text.
    pub text: String,
    /// The range of the fault in the text, in characters.
    pub fault: Option<Range<usize>>,
    /// The spaces and carets that mark the fault in a line below the text.
    pub marks: Option<String>,
}

impl ExcerptLine {
    /// Takes the redacted bytes before, in and after the fault.
    pub(super) fn new(parts: [Vec<u8>; 3], is_marked: bool, is_cut_before: bool, is_cut_after: bool) -> Self {
        let [before, fault, after] = parts.map(|part| escape(&part).into_owned());
        let ellipsis = |is_cut| if is_cut { ELLIPSIS } else { "" };
        let before = format!("{}{before}", ellipsis(is_cut_before));
        let after = format!("{after}{}", ellipsis(is_cut_after));
        // More than this is never shown, and findings are kept for the whole run.
        let [before, fault, after] =
            [end(&before, MAX_PART_WIDTH), middle(&fault, MAX_PART_WIDTH), start(&after, MAX_PART_WIDTH)];
        Self { before, fault, after, is_marked }
    }

    /// Cuts the line to `most` columns, around its fault.
    pub(super) fn cut(&self, most: usize) -> CutLine {
        let Self { before, fault, after, is_marked } = self;
        let fault = middle(fault, (most * 2 / 3).max(1));
        let left = most.saturating_sub(fault.width());
        // The sides share the columns; what one does not need, the other gets.
        let room = before.width().min((left / 2).max(left.saturating_sub(after.width())));
        let (before, after) = (end(before, room), start(after, left - room));
        let marks = is_marked.then(|| " ".repeat(before.width()) + &"^".repeat(fault.width().max(1)));
        let from = before.chars().count();
        let range = is_marked.then(|| from..from + fault.chars().count());
        CutLine { text: format!("{before}{fault}{after}"), fault: range, marks }
    }
}

/// Returns the start of a text, at most `most` columns wide.
fn start(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let cut = &text[..prefix(text.char_indices(), room).map_or(text.len(), |(at, _)| at)];
    if most == 0 { String::new() } else { format!("{cut}{ELLIPSIS}") }
}

/// Returns the end of a text, at most `most` columns wide.
fn end(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(1);
    let cut = prefix(text.char_indices().rev(), room).map_or(0, |(at, c)| at + c.len_utf8());
    if most == 0 { String::new() } else { format!("{ELLIPSIS}{}", &text[cut..]) }
}

/// Returns the start and the end of a text, at most `most` columns wide together. The end gets more room, because the
/// last lines of a traceback have the cause.
fn middle(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let first = start(text, most / 3);
    let last = end(text, most - first.width() + usize::from(!first.is_empty()));
    format!("{first}{}", last.strip_prefix(ELLIPSIS).filter(|_| !first.is_empty()).unwrap_or(&last))
}

/// Returns the first character that is beyond this many columns, if there is one.
fn prefix(chars: impl Iterator<Item = (usize, char)>, room: usize) -> Option<(usize, char)> {
    let mut width = 0;
    chars.into_iter().find(|(_, c)| {
        width += c.width().unwrap_or(0);
        width > room
    })
}

const ELLIPSIS: &str = "…";
/// The maximum width of each part that is kept, in columns: more than the widest terminal shows.
const MAX_PART_WIDTH: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(before: &str, fault: &str, after: &str) -> ExcerptLine {
        ExcerptLine::new([before, fault, after].map(|part| part.as_bytes().to_vec()), true, false, false)
    }

    #[test]
    fn a_short_line_is_whole() {
        let cut = line("{\"id\":", "7", "}").cut(80);
        assert_eq!((cut.text.as_str(), cut.marks.as_deref()), ("{\"id\":7}", Some("      ^")));
        assert_eq!(cut.fault, Some(6..7));
    }

    #[test]
    fn a_long_line_is_cut_on_both_sides_of_its_fault() {
        let cut = line(&"a".repeat(100), "HERE", &"b".repeat(100)).cut(24);
        assert_eq!(cut.text, "…aaaaaaaaaHEREbbbbbbbbb…");
        assert_eq!(cut.marks.as_deref(), Some("          ^^^^"));
    }

    #[test]
    fn a_side_that_needs_less_leaves_its_room_to_the_other() {
        assert_eq!(line("{", "HERE", &"b".repeat(100)).cut(20).text, "{HEREbbbbbbbbbbbbbb…");
        assert_eq!(line(&"a".repeat(100), "HERE", "}").cut(20).text, "…aaaaaaaaaaaaaaHERE}");
    }

    #[test]
    fn a_long_fault_keeps_its_start_and_more_of_its_end() {
        let trace = format!("Traceback{}ValueError: no", ".".repeat(100));
        let cut = line("{", &trace, "}").cut(40);
        assert!(cut.text.contains("Traceba…") && cut.text.ends_with("ValueError: no}"), "{cut:?}");
        assert!(cut.text.width() <= 40, "{cut:?}");
    }

    #[test]
    fn something_missing_is_marked_at_its_place() {
        assert_eq!(line("{\"id\":", "", "").cut(80).marks.as_deref(), Some("      ^"));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let cut = line(&"東".repeat(30), "X", &"京".repeat(30)).cut(20);
        assert!(cut.text.width() <= 20, "{cut:?}");
        assert_eq!(cut.marks.map(|it| it.width()), Some(cut.text.split('X').next().map_or(0, |it| it.width()) + 1));
    }
}
