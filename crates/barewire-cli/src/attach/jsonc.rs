//! JSON with comments and trailing commas -> the places of its values. The text itself is never changed and no tree is built.

use std::ops::Range;

/// A text that is known to be one value of JSON, with what editors allow besides: comments, commas before a closing bracket, and a
/// byte order mark.
pub(super) struct Document<'a> {
    text: &'a str,
    root: Range<usize>,
}

/// A member of an object or an element of an array.
#[derive(Clone)]
pub(super) struct Child {
    /// Where its name stands, with its quotes; empty for an element.
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// Why a text is no JSON.
#[derive(Debug, PartialEq)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

impl<'a> Document<'a> {
    /// Looks at every byte once. What is open is kept on a stack of our own, so that no depth can exhaust the program's.
    pub(super) fn parse(text: &'a str) -> Result<Self, SyntaxError> {
        let mut lexer = Lexer::new(text, if text.starts_with('\u{feff}') { 3 } else { 0 });
        let (mut open, mut expected, mut root) = (Vec::new(), Expected::Value, None::<usize>);
        loop {
            let token = lexer.next()?;
            let at = token.span.start;
            let is_value = matches!(expected, Expected::Value | Expected::ValueOrEnd);
            expected = match token.kind {
                TokenKind::Open(bracket) if is_value => {
                    open.push(bracket);
                    match bracket {
                        Bracket::Object => Expected::KeyOrEnd,
                        Bracket::Array => Expected::ValueOrEnd,
                    }
                }
                TokenKind::String if expected == Expected::KeyOrEnd => Expected::Colon,
                TokenKind::String | TokenKind::Word if is_value => Expected::CommaOrEnd,
                TokenKind::Colon if expected == Expected::Colon => Expected::Value,
                TokenKind::Comma if expected == Expected::CommaOrEnd => match open.last() {
                    Some(Bracket::Object) => Expected::KeyOrEnd,
                    Some(Bracket::Array) => Expected::ValueOrEnd,
                    None => return Err(SyntaxError { at, what: "there is more after the end of the value" }),
                },
                TokenKind::Close(bracket) if expected.allows_end() && open.last() == Some(&bracket) => {
                    open.pop();
                    Expected::CommaOrEnd
                }
                TokenKind::End if expected == Expected::CommaOrEnd && open.is_empty() => {
                    let start = root.expect("a value was there");
                    return Ok(Self { text, root: start..lexer.last });
                }
                _ => return Err(SyntaxError { at, what: expected.wanted(open.last().copied()) }),
            };
            root.get_or_insert(at);
            lexer.last = token.span.end;
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn root(&self) -> Range<usize> {
        self.root.clone()
    }

    pub(super) fn is_object(&self, value: &Range<usize>) -> bool {
        self.text[value.clone()].starts_with('{')
    }

    pub(super) fn is_array(&self, value: &Range<usize>) -> bool {
        self.text[value.clone()].starts_with('[')
    }

    /// What a string says. `None` for what is no string, and for one that is no text: half of a surrogate pair.
    pub(super) fn string(&self, value: &Range<usize>) -> Option<String> {
        serde_json::from_str(&self.text[value.clone()]).ok()
    }

    /// The members of an object or elements of an array; none of anything else.
    pub(super) fn children(&self, value: &Range<usize>) -> Vec<Child> {
        let mut children = Vec::new();
        if !self.is_object(value) && !self.is_array(value) {
            return children;
        }
        let mut lexer = Lexer::new(self.text, value.start + 1);
        let is_object = self.is_object(value);
        loop {
            let token = lexer.next_valid();
            match token.kind {
                TokenKind::Close(_) | TokenKind::End => return children,
                TokenKind::Comma => {}
                _ if is_object => {
                    lexer.next_valid();
                    let first = lexer.next_valid();
                    children.push(Child { key: token.span, value: lexer.rest_of(&first) });
                }
                _ => {
                    let start = token.span.start;
                    children.push(Child { key: start..start, value: lexer.rest_of(&token) });
                }
            }
        }
    }

    /// Where the comma ends that follows a value which ends at `end`, if one does. Comments may stand before it.
    pub(super) fn comma_after(&self, end: usize) -> Option<usize> {
        let token = Lexer::new(self.text, end).next_valid();
        (token.kind == TokenKind::Comma).then_some(token.span.end)
    }

    /// The member of this name. Of several it is the last: that is the one that hosts take.
    pub(super) fn member(&self, object: &Range<usize>, name: &str) -> Option<Child> {
        if !self.is_object(object) {
            return None;
        }
        self.children(object).into_iter().rfind(|child| self.is_named(child, name))
    }

    /// Whether there are several members of this name.
    pub(super) fn has_several(&self, object: &Range<usize>, name: &str) -> bool {
        self.is_object(object) && self.children(object).iter().filter(|child| self.is_named(child, name)).count() > 1
    }

    fn is_named(&self, member: &Child, name: &str) -> bool {
        self.string(&member.key).as_deref() == Some(name)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Value,
    ValueOrEnd,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

impl Expected {
    fn allows_end(self) -> bool {
        matches!(self, Self::ValueOrEnd | Self::KeyOrEnd | Self::CommaOrEnd)
    }

    fn wanted(self, inside: Option<Bracket>) -> &'static str {
        match (self, inside) {
            (Self::Value, _) => "expected a value",
            (Self::ValueOrEnd, _) => "expected a value or ]",
            (Self::KeyOrEnd, _) => "expected a name in double quotes, or }",
            (Self::Colon, _) => "expected a colon",
            (Self::CommaOrEnd, Some(Bracket::Object)) => "expected a comma or }",
            (Self::CommaOrEnd, Some(Bracket::Array)) => "expected a comma or ]",
            (Self::CommaOrEnd, None) => "there is more after the end of the value",
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Bracket {
    Object,
    Array,
}

#[derive(Clone, Copy, PartialEq)]
enum TokenKind {
    Open(Bracket),
    Close(Bracket),
    Colon,
    Comma,
    String,
    /// A number, `true`, `false` or `null`.
    Word,
    End,
}

struct Token {
    kind: TokenKind,
    span: Range<usize>,
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the last token ended.
    last: usize,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str, at: usize) -> Self {
        Self { bytes: text.as_bytes(), at, last: at }
    }

    fn next(&mut self) -> Result<Token, SyntaxError> {
        self.skip_space()?;
        let start = self.at;
        let kind = match self.bytes.get(start) {
            None => return Ok(Token { kind: TokenKind::End, span: start..start }),
            Some(b'{') => TokenKind::Open(Bracket::Object),
            Some(b'[') => TokenKind::Open(Bracket::Array),
            Some(b'}') => TokenKind::Close(Bracket::Object),
            Some(b']') => TokenKind::Close(Bracket::Array),
            Some(b':') => TokenKind::Colon,
            Some(b',') => TokenKind::Comma,
            Some(b'"') => return self.string(),
            Some(_) => return self.word(),
        };
        self.at += 1;
        Ok(Token { kind, span: start..self.at })
    }

    /// The next token of a text that has been parsed before.
    fn next_valid(&mut self) -> Token {
        self.next().expect("the document was parsed")
    }

    /// The whole value that begins with `first`.
    fn rest_of(&mut self, first: &Token) -> Range<usize> {
        let mut depth = usize::from(matches!(first.kind, TokenKind::Open(_)));
        let mut end = first.span.end;
        while depth > 0 {
            let token = self.next_valid();
            match token.kind {
                TokenKind::Open(_) => depth += 1,
                TokenKind::Close(_) => depth -= 1,
                _ => {}
            }
            end = token.span.end;
        }
        first.span.start..end
    }

    fn skip_space(&mut self) -> Result<(), SyntaxError> {
        loop {
            match &self.bytes[self.at..] {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.at += 1,
                [b'/', b'/', rest @ ..] => {
                    let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
                    self.at += 2 + end;
                }
                [b'/', b'*', rest @ ..] => match rest.windows(2).position(|pair| pair == b"*/") {
                    Some(end) => self.at += end + 4,
                    None => return Err(SyntaxError { at: self.at, what: "a comment that does not end" }),
                },
                _ => return Ok(()),
            }
        }
    }

    fn string(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let mut at = start + 1;
        loop {
            match &self.bytes[at..] {
                [b'"', ..] => break,
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => at += 2,
                [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_hexdigit()) => {
                    at += 6;
                }
                [b'\\', ..] => return Err(SyntaxError { at, what: "a backslash that begins no escape of JSON" }),
                [b'\n' | b'\r', ..] | [] => {
                    return Err(SyntaxError { at: start, what: "a string that does not end in its line" });
                }
                [..0x20, ..] => return Err(SyntaxError { at, what: "a control character in a string" }),
                [_, ..] => at += 1,
            }
        }
        self.at = at + 1;
        Ok(Token { kind: TokenKind::String, span: start..self.at })
    }

    fn word(&mut self) -> Result<Token, SyntaxError> {
        let start = self.at;
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.' | b'_');
        let length = self.bytes[start..].iter().take_while(|b| is_part(b)).count();
        self.at += length;
        let word = std::str::from_utf8(&self.bytes[start..self.at]).expect("ASCII");
        let is_value = matches!(word, "true" | "false" | "null")
            || word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
                && serde_json::from_str::<&serde_json::value::RawValue>(word).is_ok();
        if is_value {
            return Ok(Token { kind: TokenKind::Word, span: start..self.at });
        }
        let what = match self.bytes.get(start) {
            Some(b'\'') => "strings stand in double quotes",
            Some(b'/') => "neither a value nor a comment",
            _ => "no value of JSON",
        };
        Err(SyntaxError { at: start, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(text: &str) -> (usize, &'static str) {
        Document::parse(text).map(|_| ()).map_err(|bad| (bad.at, bad.what)).expect_err("it is bad")
    }

    #[test]
    fn what_editors_allow_is_read_and_what_is_broken_has_a_place() {
        for good in [
            "{}",
            "[]",
            " 1 ",
            "\u{feff}{}",
            "{\"a\":1,}",
            "[1,2,]",
            "// c\n{/**/\"a\"//x\r:/* */1}//",
            "[[],{},]",
            "\"\\u00e9\\n\"",
            "-1.5e+3",
            "{\"a\":{\"b\":[null,true,false]}}",
        ] {
            assert!(Document::parse(good).is_ok(), "{good}");
        }
        assert_eq!(bad(""), (0, "expected a value"));
        assert_eq!(bad("{,}"), (1, "expected a name in double quotes, or }"));
        assert_eq!(bad("[,]"), (1, "expected a value or ]"));
        assert_eq!(bad("{\"a\" 1}"), (5, "expected a colon"));
        assert_eq!(bad("{\"a\":}"), (5, "expected a value"));
        assert_eq!(bad("{\"a\":1 \"b\":2}"), (7, "expected a comma or }"));
        assert_eq!(bad("[1 2]"), (3, "expected a comma or ]"));
        assert_eq!(bad("{\"a\":1]"), (6, "expected a comma or }"));
        assert_eq!(bad("{} {}"), (3, "there is more after the end of the value"));
        assert_eq!(bad("{},"), (2, "there is more after the end of the value"));
        assert_eq!(bad("{"), (1, "expected a name in double quotes, or }"));
        assert_eq!(bad("{'a':1}"), (1, "strings stand in double quotes"));
        assert_eq!(bad("[tru]"), (1, "no value of JSON"));
        assert_eq!(bad("[01]"), (1, "no value of JSON"));
        assert_eq!(bad("[\"a\nb\"]"), (1, "a string that does not end in its line"));
        assert_eq!(bad("[\"\\x\"]"), (2, "a backslash that begins no escape of JSON"));
        assert_eq!(bad("[/* ]"), (1, "a comment that does not end"));
        assert_eq!(bad("[/ ]"), (1, "neither a value nor a comment"));
        assert_eq!(bad("[é]"), (1, "no value of JSON"));
    }

    #[test]
    fn children_are_where_they_stand() {
        let text = "{ \"a\": [1, {\"b\": 2},], /*c*/ \"d\" : \"x\", \"a\": null }";
        let document = Document::parse(text).expect("it is good");
        let members = document.children(&document.root());
        let shown: Vec<_> = members.iter().map(|it| (&text[it.key.clone()], &text[it.value.clone()])).collect();
        assert_eq!(shown, [("\"a\"", "[1, {\"b\": 2},]"), ("\"d\"", "\"x\""), ("\"a\"", "null")]);
        let elements = document.children(&members[0].value);
        let shown: Vec<_> = elements.iter().map(|it| &text[it.value.clone()]).collect();
        assert_eq!(shown, ["1", "{\"b\": 2}"]);
        let last = document.member(&document.root(), "a").expect("it is there");
        assert_eq!(&text[last.value], "null");
    }

    #[test]
    fn no_depth_is_too_deep() {
        let deep = 1_000_000;
        let text = format!("{{\"a\":{}{}}}", "[".repeat(deep), "]".repeat(deep));
        let document = Document::parse(&text).expect("it is good");
        assert_eq!(document.children(&document.root()).len(), 1);
        assert_eq!(bad(&"[".repeat(deep)), (deep, "expected a value or ]"));
        assert_eq!(bad(&"{\"a\":".repeat(deep)).1, "expected a value");
    }

    /// Whatever `serde_json` takes is taken, and what is taken without the liberties is what it takes.
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
            let ours = Document::parse(&text).is_ok();
            let is_liberal = text.contains(",}") || text.contains(",]") || text.contains(", ");
            assert!(ours == theirs || ours && is_liberal, "{text}: {ours}, serde_json {theirs}");
            good += u32::from(theirs);
        }
        assert!(good > 1000, "only {good} were JSON");
    }
}
