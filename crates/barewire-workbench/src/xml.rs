//! Escapes text for XML.

use barewire_proto::transcript;

/// Escapes special characters, and replaces characters that XML cannot contain with U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            // Characters that are invisible or change the order of others are shown as in a text.
            c => out.push_str(&transcript::escape(c.encode_utf8(&mut [0; 4]).as_bytes())),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn characters_that_xml_cannot_contain_are_replaced() {
        assert_eq!(
            super::escape("<a b='\"&\u{1b}\u{9b}\u{fffe}\n"),
            "&lt;a b=&#39;&quot;&amp;\u{fffd}\u{fffd}\u{fffd}\n"
        );
        assert_eq!(super::escape("ä\u{202e}→"), r"ä\xe2\x80\xae→");
    }
}
