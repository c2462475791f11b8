//! JSON text -> the same text, indented. It is not parsed into values, so numbers and keys keep their spelling.

use std::io::{self, Write};

use crate::output::SafeJson;

/// Writes valid JSON from a peer, escaped and indented, with one line per member and element. Every line but the first
/// begins with `margin` spaces. The indented text can be many times as long, so it is never in memory as a whole.
pub(super) fn write_indented(out: &mut dyn Write, json: &str, margin: usize) -> io::Result<()> {
    let mut depth = 0_usize;
    let mut rest = json;
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
            '{' | '[' if length > 1 => {
                out.write_all(&token.as_bytes()[..1])?;
                out.write_all(&token.as_bytes()[length - 1..])?;
            }
            '{' | '[' => {
                depth += 1;
                out.write_all(token.as_bytes())?;
                new_line(out, margin, depth)?;
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(out, margin, depth)?;
                out.write_all(token.as_bytes())?;
            }
            ',' => {
                out.write_all(b",")?;
                new_line(out, margin, depth)?;
            }
            ':' => out.write_all(b": ")?,
            space if is_space(space) => {}
            _ if token.bytes().all(|byte| byte.is_ascii_graphic()) => out.write_all(token.as_bytes())?,
            _ => write!(out, "{}", SafeJson(token))?,
        }
    }
    Ok(())
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

fn new_line(out: &mut dyn Write, margin: usize, depth: usize) -> io::Result<()> {
    out.write_all(b"\n")?;
    let mut left = margin + 2 * depth;
    while left > 0 {
        let part = left.min(SPACES.len());
        out.write_all(&SPACES[..part])?;
        left -= part;
    }
    Ok(())
}

const SPACES: [u8; 64] = [b' '; 64];

#[cfg(test)]
mod tests {
    use super::write_indented;

    fn indented(text: &str) -> String {
        let mut out = Vec::new();
        write_indented(&mut out, text, 0).expect("writing to a Vec cannot fail");
        String::from_utf8(out).expect("UTF-8")
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
