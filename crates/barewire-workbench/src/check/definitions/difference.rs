//! An old and a new text -> the parts of both that differ, short enough for a report.

/// Returns the parts of two texts that differ, each with some text around it, and with `…` where text is left out.
pub(in crate::check) fn excerpts(old: &str, new: &str) -> (String, String) {
    let same_start = old.chars().zip(new.chars()).take_while(|(one, other)| one == other).count();
    let (old_length, new_length) = (old.chars().count(), new.chars().count());
    let room = old_length.min(new_length) - same_start;
    let same_end = old.chars().rev().zip(new.chars().rev()).take(room).take_while(|(one, other)| one == other).count();
    (excerpt(old, old_length, same_start, same_end), excerpt(new, new_length, same_start, same_end))
}

fn excerpt(text: &str, length: usize, same_start: usize, same_end: usize) -> String {
    // Texts that fit are shown as a whole.
    let (start, end) = match length <= MAX_EXCERPT {
        true => (0, length),
        false => {
            let start = same_start.saturating_sub(CONTEXT);
            (start, (length - same_end + CONTEXT).min(start + MAX_EXCERPT).min(length))
        }
    };
    let before = if start > 0 { "…" } else { "" };
    let after = if end < length { "…" } else { "" };
    let part: String = text.chars().skip(start).take(end - start).collect();
    format!("\"{before}{part}{after}\"")
}

/// The number of characters that are shown before and after a difference.
const CONTEXT: usize = 24;
/// The maximum number of characters of an excerpt: two lines of a terminal.
const MAX_EXCERPT: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown_with_the_text_around_it() {
        let pair = |one: &str, other: &str| (format!("\"{one}\""), format!("\"{other}\""));
        assert_eq!(excerpts("Adds", "Adds two"), pair("Adds", "Adds two"));
        assert_eq!(excerpts("", "x"), pair("", "x"));
        let long = |middle: &str| format!("{} {middle} {}", "a".repeat(500), "b".repeat(500));
        let (old, new) = excerpts(&long("one"), &long("two and three"));
        // The last letter of the difference is the same in both.
        assert_eq!(old, format!("\"…{} one {}…\"", "a".repeat(23), "b".repeat(22)));
        assert_eq!(new, format!("\"…{} two and three {}…\"", "a".repeat(23), "b".repeat(22)));
        // A long difference is cut, and nothing overlaps in texts that repeat.
        let (old, new) = excerpts(&"x".repeat(400), &"x".repeat(900));
        assert!(old.chars().count() <= MAX_EXCERPT + 4 && new.chars().count() <= MAX_EXCERPT + 4, "{old} {new}");
        assert_ne!(old, new);
    }
}
