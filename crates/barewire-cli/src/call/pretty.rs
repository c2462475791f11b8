//! JSON text -> the same text, indented. It is not parsed into values, so numbers and keys keep their spelling.

use std::fmt;

use crate::output::SafeJson;

/// Valid JSON from a peer, which is written escaped and indented, with one line per member and element. The indented
/// text can be many times as long, so it is never in memory as a whole.
pub(super) struct Indented<'a> {
    json: &'a str,
    margin: usize,
}

impl<'a> Indented<'a> {
    /// Every line but the first begins with `margin` spaces.
    pub(super) fn new(json: &'a str, margin: usize) -> Self {
        Self { json, margin }
    }

    fn new_line(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "\n{:1$}", "", self.margin + 2 * depth)
    }
}

impl fmt::Display for Indented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut depth = 0_usize;
        let mut rest = self.json;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '"' => string_length(rest),
                '{' | '[' => match rest[1..].trim_start_matches(is_space) {
                    inner if inner.starts_with(['}', ']']) => rest.len() - inner.len() + 1,
                    _ => 1,
                },
                '}' | ']' | ',' | ':' => 1,
                space if is_space(space) => 1,
                _ => rest.find(ends_token).unwrap_or(rest.len()),
            };
            let (token, tail) = rest.split_at(length);
            rest = tail;
            match first {
                '{' | '[' if length > 1 => write!(f, "{first}{}", &token[length - 1..])?,
                '{' | '[' => {
                    depth += 1;
                    f.write_str(token)?;
                    self.new_line(f, depth)?;
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    self.new_line(f, depth)?;
                    f.write_str(token)?;
                }
                ',' => {
                    f.write_str(token)?;
                    self.new_line(f, depth)?;
                }
                ':' => f.write_str(": ")?,
                space if is_space(space) => {}
                _ if token.bytes().all(|byte| byte.is_ascii_graphic()) => f.write_str(token)?,
                _ => write!(f, "{}", SafeJson(token))?,
            }
        }
        Ok(())
    }
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace()
}

fn ends_token(c: char) -> bool {
    is_space(c) || matches!(c, '{' | '}' | '[' | ']' | ',' | ':' | '"')
}

/// Returns the length of the string at the start of a text, with its quotes.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::Indented;

    fn indented(text: &str) -> String {
        Indented::new(text, 0).to_string()
    }

    #[test]
    fn indented_text_is_otherwise_unchanged() {
        let text = r#"{ "a" :[1.0e2, {},[ ] ],"b":"{\"x\":[1,2]}\\","a":null}"#;
        let lines = r#"{
  "a": [
    1.0e2,
    {},
    []
  ],
  "b": "{\"x\":[1,2]}\\",
  "a": null
}"#;
        assert_eq!(indented(text), lines);
        assert_eq!(indented(lines), lines);
        assert_eq!(indented("12345678901234567890.10"), "12345678901234567890.10");
        assert_eq!(indented("\"\u{7f}\u{e9}\""), "\"\\u007fé\"");
    }
}
