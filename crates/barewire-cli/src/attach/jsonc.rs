//! JSON with comments and trailing commas -> the byte ranges of its values. No tree is built.

use std::ops::Range;

use barewire_proto::json::{Json, Text};

use super::node::{ListNode, Member, Node, NodeKind, TableNode};

/// A text with one JSON value. As in many editors, comments, trailing commas and a byte order mark are allowed.
pub(super) struct JsoncDocument {
    /// The text as plain JSON: spaces replace a byte order mark, comments and trailing commas. All other bytes have the
    /// same offsets as in the text.
    plain: Vec<u8>,
    /// The offsets of the trailing commas.
    trailing_commas: Vec<usize>,
    pub(super) root: Range<usize>,
}

/// A member of an object or an element of an array.
#[derive(Clone)]
pub(super) struct Child {
    /// The byte range of the name with its quotes; empty for an array element.
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// The reason why a text is not JSON, and the offset of the error.
#[derive(Debug, PartialEq)]
pub(super) struct ParseError {
    pub(super) at: usize,
    pub(super) message: String,
}

impl JsoncDocument {
    pub(super) fn parse(text: &str) -> Result<Self, ParseError> {
        let (plain, trailing_commas) = plain_json(text);
        let mut document = Self { plain, trailing_commas, root: 0..0 };
        document.root = match Json::parse(&document.plain) {
            Ok(root) => document.range_of(root.as_bytes()),
            Err(error) => {
                let message = match &text.as_bytes()[error.at..] {
                    [b'/', b'*', ..] => "a comment that does not end".to_owned(),
                    [b'\'', ..] => "strings need double quotes".to_owned(),
                    _ => error.expected.to_string(),
                };
                return Err(ParseError { at: error.at, message });
            }
        };
        Ok(document)
    }

    pub(super) fn is_object(&self, value: &Range<usize>) -> bool {
        self.plain[value.start] == b'{'
    }

    /// Returns the text of a JSON string; `None` if the value is not a string, or has an unpaired surrogate.
    pub(super) fn string(&self, value: &Range<usize>) -> Option<String> {
        Some(Text::from_json(self.json(value))?.to_str()?.into_owned())
    }

    /// Returns the members of an object or the elements of an array; empty for any other value.
    pub(super) fn children(&self, value: &Range<usize>) -> Vec<Child> {
        let json = self.json(value);
        let members = json.members().map(|member| Child {
            key: self.range_of(member.name.raw().as_bytes()),
            value: self.range_of(member.value.as_bytes()),
        });
        let elements = json.elements().map(|element| {
            let value = self.range_of(element.as_bytes());
            Child { key: value.start..value.start, value }
        });
        members.chain(elements).collect()
    }

    /// Returns a value with its parts, down to a depth: no entry of a server has parts that are deeper.
    pub(super) fn node(&self, value: &Range<usize>, depth: usize) -> Node {
        let parts = || self.children(value).into_iter();
        let kind = match self.plain[value.start] {
            b'"' => self.string(value).map_or(NodeKind::Other, NodeKind::Text),
            b'[' if depth > 0 => {
                let elements: Vec<Node> = parts().map(|part| self.node(&part.value, depth - 1)).collect();
                let trailing_comma = elements.last().and_then(|last| self.trailing_comma_after(last.span.end));
                NodeKind::List(ListNode { elements, trailing_comma, has_dashes: false })
            }
            b'{' if depth > 0 => {
                let member = |part: Child| {
                    let value = self.node(&part.value, depth - 1);
                    Some(Member { name: self.string(&part.key)?, key: part.key, value })
                };
                NodeKind::Table(TableNode { members: parts().filter_map(member).collect(), has_lines: false })
            }
            _ => NodeKind::Other,
        };
        Node { span: value.clone(), kind }
    }

    fn json(&self, value: &Range<usize>) -> Json<'_> {
        Json::parse(&self.plain[value.clone()]).expect("the document was parsed")
    }

    /// Returns the byte range of a slice of `plain`.
    fn range_of(&self, part: &[u8]) -> Range<usize> {
        let start = part.as_ptr() as usize - self.plain.as_ptr() as usize;
        start..start + part.len()
    }

    /// Returns the end of the trailing comma after a value that ends at `end`. Comments between the two are skipped.
    fn trailing_comma_after(&self, end: usize) -> Option<usize> {
        let is_next = |comma: &usize| self.plain[end..*comma].trim_ascii().is_empty();
        self.trailing_commas.iter().copied().find(|comma| *comma >= end).filter(is_next).map(|comma| comma + 1)
    }

    /// Returns the member with this name; if there are several, the last one, because hosts use the last one.
    pub(super) fn member(&self, object: &Range<usize>, name: &str) -> Option<Child> {
        self.members_named(object, name).pop()
    }

    pub(super) fn has_several(&self, object: &Range<usize>, name: &str) -> bool {
        self.members_named(object, name).len() > 1
    }

    fn members_named(&self, object: &Range<usize>, name: &str) -> Vec<Child> {
        let children = if self.is_object(object) { self.children(object) } else { Vec::new() };
        children.into_iter().filter(|child| self.string(&child.key).as_deref() == Some(name)).collect()
    }
}

/// Replaces a byte order mark, comments and trailing commas by spaces. Returns the text and the offsets of the trailing
/// commas.
///
/// An unterminated comment or string is kept, so that the parser reports it.
fn plain_json(text: &str) -> (Vec<u8>, Vec<usize>) {
    let mut plain = text.as_bytes().to_vec();
    let mut trailing_commas = Vec::new();
    // The offset and first byte of each of the last two tokens.
    let (mut last, mut before_last) = ((0, b' '), (0, b' '));
    let mut at = 0;
    if text.starts_with('\u{feff}') {
        at = 3;
        plain[..at].fill(b' ');
    }
    while at < plain.len() {
        let rest = &text.as_bytes()[at..];
        let comment = match rest {
            [b'/', b'/', ..] => rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).or(Some(rest.len())),
            [b'/', b'*', ..] => rest[2..].windows(2).position(|pair| pair == b"*/").map(|end| end + 4),
            _ => None,
        };
        if let Some(length) = comment {
            plain[at..at + length].fill(b' ');
            at += length;
            continue;
        }
        let length = if rest[0] == b'"' { string_length(rest) } else { 1 };
        if matches!(rest[0], b'}' | b']')
            && last.1 == b','
            && !matches!(before_last.1, b' ' | b',' | b':' | b'{' | b'[')
        {
            plain[last.0] = b' ';
            trailing_commas.push(last.0);
        }
        if !rest[0].is_ascii_whitespace() {
            (before_last, last) = (last, (at, rest[0]));
        }
        at += length;
    }
    (plain, trailing_commas)
}

/// Returns the length of a string with its quotes. An unterminated string ends at the end of its line.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match &text[at..] {
            [b'"', ..] => return at + 1,
            [b'\\', _, ..] => at += 2,
            [b'\n' | b'\r', ..] | [] => return at,
            [_, ..] => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(text: &str) -> (usize, String) {
        let error = JsoncDocument::parse(text).map(|_| ()).expect_err(text);
        (error.at, error.message)
    }

    #[test]
    fn what_editors_allow_is_read_and_errors_have_a_place() {
        let strict = ["{}", "[]", " 1 ", "\"\\u00e9\\n\"", "-1.5e+3", "{\"a\":{\"b\":[null,true,false]}}"];
        let liberal =
            ["\u{feff}{}", "{\"a\":1,}", "[1,2,]", "[[],{},]", "[\"//\",/*,*/]", "// c\n{/**/\"a\"//x\r:/* */1}//"];
        for good in strict.into_iter().chain(liberal) {
            assert!(JsoncDocument::parse(good).is_ok(), "{good}");
        }
        for (text, at, message) in [
            ("", 0, "expected a value"),
            ("{,}", 1, "expected a member name in double quotes"),
            ("[,]", 1, "expected a value"),
            ("[1,,]", 3, "expected a value"),
            ("{\"a\" 1}", 5, "expected a colon after the member name"),
            ("{\"a\":}", 5, "expected a value"),
            ("{\"a\":,}", 5, "expected a value"),
            ("{\"a\":1 \"b\":2}", 7, "expected a comma or a closing brace"),
            ("[1 2]", 3, "expected a comma or a closing bracket"),
            ("{\"a\":1]", 6, "expected a comma or a closing brace"),
            ("[1,}", 3, "expected a comma or a closing bracket"),
            ("{} {}", 3, "expected nothing after the value"),
            ("{},", 2, "expected nothing after the value"),
            ("{", 1, "expected a member name in double quotes"),
            ("{'a':1}", 1, "strings need double quotes"),
            ("[01]", 2, "expected a comma or a closing bracket"),
            ("[\"a\nb\"]", 3, "a control character inside a string must be escaped"),
            ("[\"a", 3, "expected a closing quote"),
            ("[/* ]", 1, "a comment that does not end"),
            ("[/ ]", 1, "expected a value"),
            ("[é]", 1, "expected a value"),
        ] {
            assert_eq!(bad(text), (at, message.to_owned()), "{text}");
        }
    }

    #[test]
    fn children_have_their_places() {
        let text = "{ \"a\": [1, {\"b\": 2},], /*c*/ \"d\" : \"x\", \"a\": null }";
        let document = JsoncDocument::parse(text).expect("it is good");
        let members = document.children(&document.root);
        let shown: Vec<_> = members.iter().map(|it| (&text[it.key.clone()], &text[it.value.clone()])).collect();
        assert_eq!(shown, [("\"a\"", "[1, {\"b\": 2},]"), ("\"d\"", "\"x\""), ("\"a\"", "null")]);
        let elements = document.children(&members[0].value);
        let shown: Vec<_> = elements.iter().map(|it| &text[it.value.clone()]).collect();
        assert_eq!(shown, ["1", "{\"b\": 2}"]);
        let last = document.member(&document.root, "a").expect("it is there");
        assert_eq!(&text[last.value], "null");
    }

    #[test]
    fn no_depth_is_too_deep() {
        let deep = 1_000_000;
        let text = format!("{{\"a\":{}{}}}", "[".repeat(deep), "]".repeat(deep));
        let document = JsoncDocument::parse(&text).expect("it is good");
        assert_eq!(document.children(&document.root).len(), 1);
        assert_eq!(bad(&"[".repeat(deep)), (deep, "expected a value".to_owned()));
        assert_eq!(bad(&"{\"a\":".repeat(deep)).1, "expected a value");
    }

    /// `JsoncDocument` accepts every text that `serde_json` accepts. Of the texts that `serde_json` refuses, it accepts only
    /// those with a trailing comma.
    #[test]
    fn plain_json_is_judged_as_serde_does() {
        let pieces =
            ["{", "}", "[", "]", ",", ":", "\"a\"", "1", "-", "true", " ", "\"", "\\", "0", ".5", "e1", "null"];
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut good = 0;
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..seed % 9 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                text.push_str(pieces[usize::try_from(seed % 17).expect("small")]);
            }
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let ours = JsoncDocument::parse(&text).is_ok();
            let is_liberal = text.contains(",}") || text.contains(",]") || text.contains(", ");
            assert!(ours == theirs || ours && is_liberal, "{text}: {ours}, serde_json {theirs}");
            good += u32::from(theirs);
        }
        assert!(good > 1000, "only {good} were JSON");
    }
}
