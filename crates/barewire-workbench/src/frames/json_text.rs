//! JSON that is read line by line -> where it ends, or that it does not end here.

/// The position in a JSON object or array that is read line by line.
#[derive(Debug, Default)]
pub(super) struct JsonText {
    /// The number of open brackets.
    depth: u64,
    string: StringState,
}

/// The position in a string of JSON.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) enum StringState {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// The end of a line within JSON.
#[derive(Debug, PartialEq)]
pub(super) enum LineEnd {
    /// The JSON ended at this offset of the line.
    Ended(usize),
    /// More JSON may follow in the next line.
    Open,
    /// The line ends within a string. A string contains no line break, so the rest of the JSON is missing.
    Cut,
}

impl JsonText {
    /// Reads the next line.
    pub(super) fn line(&mut self, line: &[u8]) -> LineEnd {
        for (at, byte) in line.iter().enumerate() {
            self.string = match (self.string, byte) {
                (StringState::Escaped, _) => StringState::Inside,
                (StringState::Inside, b'\\') => StringState::Escaped,
                (StringState::Inside, b'"') => StringState::Outside,
                (StringState::Outside, b'"') => StringState::Inside,
                (StringState::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    StringState::Outside
                }
                (StringState::Outside, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return LineEnd::Ended(at + 1);
                    }
                    StringState::Outside
                }
                (string, _) => string,
            };
        }
        if self.string == StringState::Outside { LineEnd::Open } else { LineEnd::Cut }
    }

    /// Returns the text that ends the open string and all brackets but the outermost; `None` if it would be very long.
    /// It does not tell braces from brackets.
    pub(super) fn closing(&self) -> Option<String> {
        let string = match self.string {
            StringState::Outside => "",
            StringState::Inside => "\"",
            StringState::Escaped => "n\"",
        };
        let inner = usize::try_from(self.depth.checked_sub(1)?).ok().filter(|depth| *depth <= MAX_CLOSED)?;
        Some(format!("{string}{}", "}".repeat(inner)))
    }
}

/// The maximum number of brackets to close: deeper than any message.
const MAX_CLOSED: usize = 1 << 16;

/// Whether a line can continue JSON of several lines: it begins with a value, a name or a closing bracket.
pub(super) fn may_continue(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let is_word = [b"true".as_slice(), b"false", b"null"].iter().any(|word| line.starts_with(word));
    is_word || matches!(line.first(), Some(b'"' | b'{' | b'}' | b'[' | b']' | b'-' | b'0'..=b'9'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> LineEnd {
        let mut json = JsonText::default();
        lines.iter().fold(LineEnd::Open, |_, line| json.line(line.as_bytes()))
    }

    #[test]
    fn json_ends_with_its_last_bracket() {
        assert_eq!(read(&["{\"a\":\"}\\\"]\"} { metadata: undefined }"]), LineEnd::Ended(12));
        assert_eq!(read(&["[[],{}]"]), LineEnd::Ended(7));
        assert_eq!(read(&["{", "  \"a\": [1,", "  2]", "}"]), LineEnd::Ended(1));
    }

    #[test]
    fn json_that_is_cut_or_goes_on_does_not_end() {
        assert_eq!(read(&["{\"a\":[1,"]), LineEnd::Open);
        assert_eq!(read(&["{\"a\":\"some te"]), LineEnd::Cut);
        assert_eq!(read(&["{\"a\":\"x\\"]), LineEnd::Cut);
    }
}
