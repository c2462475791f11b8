//! Compiles a pattern of JSON Schema (ECMA-262) to a regex that matches in linear time.
//!
//! Look-around, back references and Unicode classes (`\p`) are refused, because no small regex engine with linear time
//! supports them.

use regex_lite::Regex;

/// Compiles a pattern. `Err` is the reason why it cannot be used.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    Regex::new(&with_all_white_space(pattern)).map_err(|error| format!("the pattern {pattern} cannot be used: {error}"))
}

/// Replaces `\s` and `\S` with explicit character classes. In the specification, `\s` means all white space of Unicode,
/// but in the regex engine only that of ASCII.
fn with_all_white_space(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match (c, in_class) {
            ('\\', _) => match (chars.next(), in_class) {
                (Some('s'), true) => out.push_str(WHITE_SPACE),
                (Some('s'), false) => out.extend(["[", WHITE_SPACE, "]"]),
                (Some('S'), false) => out.extend(["[^", WHITE_SPACE, "]"]),
                (escaped, _) => out.extend(['\\'].into_iter().chain(escaped)),
            },
            ('[', true) => out.push_str("\\["),
            ('[' | ']', _) => {
                in_class = c == '[';
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// The characters that `\s` matches: WhiteSpace and LineTerminator in ECMA-262.
const WHITE_SPACE: &str = r"\t-\r \u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compiled(pattern).expect("a pattern").is_match(text)
    }

    #[test]
    fn a_pattern_matches_anywhere_in_the_text() {
        assert!(matches("b+", "abbc") && matches("^a", "abc") && !matches("^b", "abc"));
        assert!(matches("^[a-z]+$", "abc") && !matches("^[a-z]+$", "abc\n"));
        assert!(matches("^.$", "é") && matches("^.{2}$", "é😀"));
        assert!(matches(r"^\/\-\.$", "/-.") && matches(r"^\u0041\x42$", "AB"));
    }

    #[test]
    fn white_space_is_that_of_unicode() {
        for space in ["\t", "\n", "\u{b}", "\u{c}", "\r", " ", "\u{a0}", "\u{2003}", "\u{2029}", "\u{feff}"] {
            for (pattern, expected) in
                [(r"^\s$", true), (r"^[\s]$", true), (r"^[x\sy]$", true), (r"^[^\s]$", false), (r"^\S$", false)]
            {
                assert_eq!(matches(pattern, space), expected, "{pattern} {space:?}");
            }
        }
        assert!(matches(r"^\S+$", "é-1") && !matches(r"^\s$", "x") && matches(r"^\\s$", r"\s"));
        assert!(matches(r"^[[\]]+$", "[]") && matches(r"^\[\s\]$", "[ ]"));
    }

    #[test]
    fn patterns_without_linear_time_are_refused() {
        for pattern in ["(?=a)b", r"(a)\1", "(", r"\p{L}"] {
            let why = compiled(pattern).expect_err("refused");
            assert!(why.starts_with(&format!("the pattern {pattern} cannot be used: ")), "{why}");
        }
        // This would take exponential time with backtracking.
        assert!(!matches("^(a+)+$", &format!("{}!", "a".repeat(5000))));
    }
}
