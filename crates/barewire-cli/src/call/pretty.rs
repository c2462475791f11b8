//! JSON text -> the same text, indented. It is not parsed into values, so numbers and keys keep their spelling.

/// Indents valid JSON, with one line per member and element.
pub(super) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                match chars.next_if(|c| matches!(c, '}' | ']')) {
                    Some(close) => out.push(close),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::indented;

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
    }
}
