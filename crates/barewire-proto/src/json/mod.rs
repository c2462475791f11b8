//! JSON kept as text: the kind and position of each value, and the exact meaning of strings and numbers.

mod syntax;
mod nesting;
mod scan;
mod string;
mod number;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

pub use number::Decimal;
pub(crate) use number::integer;
pub(crate) use scan::{Place, Scanner, ValueSpan};
pub(crate) use string::{match_name, unescape};
pub use syntax::{Expected, Kind, SyntaxError};

/// One JSON value as the peer wrote it: checked against RFC 8259, not yet deserialized.
///
/// A `Json` borrows from its frame, so copying it only copies a pointer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a> {
    /// Invariant: exactly one JSON value, valid UTF-8, no white space around it.
    text: &'a [u8],
    kind: Kind,
}

impl<'a> Json<'a> {
    /// Borrows the value at the span `value` of `text`. The scanner has accepted it and found no invalid UTF-8.
    pub(crate) fn scanned(text: &'a [u8], value: ValueSpan) -> Self {
        Self { text: &text[value.start..value.end], kind: value.kind }
    }

    /// Checks that `text` is one JSON value of any depth, and borrows the value without the white space around it.
    pub fn parse(text: &'a [u8]) -> Result<Self, SyntaxError> {
        let mut scanner = Scanner::new(text, usize::MAX);
        let value = scanner.only_value()?;
        match scanner.bad_utf8() {
            Some(at) => Err(SyntaxError { at, expected: Expected::Utf8 }),
            None => Ok(Self::scanned(text, value)),
        }
    }

    /// Returns the text of the value, exactly as the peer wrote it.
    pub fn as_bytes(self) -> &'a [u8] {
        self.text
    }

    /// Returns the text of the value, exactly as the peer wrote it.
    pub fn as_str(self) -> &'a str {
        std::str::from_utf8(self.text).expect("a Json is checked for UTF-8 when it is made")
    }

    /// Returns the kind of the value.
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// Deserializes the value.
    pub fn to<T: Deserialize<'a>>(self) -> Result<T, serde_json::Error> {
        // `as_str` checks UTF-8 once for the whole text; `from_slice` would check it for each string.
        serde_json::from_str(self.as_str())
    }

    /// Returns the members of an object in the order they were written. A value that is not an object has no members.
    pub fn members(self) -> Members<'a> {
        let mut scanner = Scanner::new(self.text, usize::MAX);
        let ahead = (self.kind == Kind::Object).then(|| {
            scanner.enter();
            Place::First
        });
        Members { text: self.text, scanner, ahead }
    }

    /// Returns the value of the member with this name. If the name occurs twice, the last value is returned, as in a
    /// `serde_json` map.
    pub fn member(self, name: &str) -> Option<Self> {
        self.members().filter(|member| member.name == name).last().map(|member| member.value)
    }

    /// Returns the value at the end of a path of member names.
    pub fn at(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |value, name| value.member(name))
    }

    /// Returns the member whose name begins at this offset of the object's text, see [`Member::name_at`].
    ///
    /// An object with many members can so be sorted as a list of offsets, which takes less memory than its text.
    ///
    /// # Panics
    ///
    /// If no member begins at the offset.
    pub fn member_at(self, name_at: usize) -> Member<'a> {
        let mut scanner = Scanner::starting_at(self.text, name_at);
        let name = scanner.member(Place::First).ok().flatten().expect(NO_MEMBER);
        let value = scanner.value().expect(NO_MEMBER);
        Member::scanned(self.text, name, value)
    }

    /// Returns the name that begins at this offset of the object's text. Unlike [`Self::member_at`], this does not read
    /// the value.
    ///
    /// # Panics
    ///
    /// If no member begins at the offset.
    pub fn name_at(self, name_at: usize) -> Text<'a> {
        let mut scanner = Scanner::starting_at(self.text, name_at);
        let name = scanner.member(Place::First).ok().flatten().expect(NO_MEMBER);
        Text { raw: &self.text[name.start..name.end] }
    }

    /// Returns the value of a string, or `None` for any other value and for an unpaired surrogate.
    pub fn string(self) -> Option<Cow<'a, str>> {
        Text::from_json(self)?.to_str()
    }

    /// Returns the value of an integer in any notation, or `None` for any other value and if it does not fit in an
    /// `i64`.
    pub fn integer(self) -> Option<i64> {
        (self.kind == Kind::Number).then(|| integer(self.text))?
    }

    /// Whether the value has more than this number of levels. A value that is neither an object nor an array has none.
    pub fn is_deeper_than(self, levels: usize) -> bool {
        let mut scanner = Scanner::new(self.text, levels);
        scanner.value().expect(SCANNED);
        scanner.too_deep().is_some()
    }

    /// Whether the value consists of more than this number of values: itself, its members and elements, and theirs. The
    /// memory of a tree of values depends on this number more than on the length of the text.
    pub fn has_more_values_than(self, limit: usize) -> bool {
        // Every value but the outermost is the first of its container or follows a comma, so commas and opening
        // brackets outside strings are counted. An empty container counts twice.
        let mut is_string = false;
        let mut rest = self.text;
        let mut count = 1_usize;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | b',' | b'[' | b'{')) {
            let length = match (rest[at], is_string) {
                (b'"', _) => {
                    is_string = !is_string;
                    1
                }
                (b'\\', _) => 2,
                (_, true) => 1,
                (_, false) => {
                    count += 1;
                    1
                }
            };
            if count > limit {
                return true;
            }
            rest = &rest[at + length..];
        }
        false
    }

    /// Returns the elements of an array. A value that is not an array has no elements.
    pub fn elements(self) -> Elements<'a> {
        let mut scanner = Scanner::new(self.text, usize::MAX);
        let ahead = (self.kind == Kind::Array).then(|| {
            scanner.enter();
            Place::First
        });
        Elements { text: self.text, scanner, ahead }
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The members of one object. See [`Json::members`].
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a [u8],
    scanner: Scanner<'a>,
    /// The position of the next member; `None` after the closing brace.
    ahead: Option<Place>,
}

/// One member of an object.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Member<'a> {
    /// The name, exactly as the peer wrote it.
    pub name: Text<'a>,
    /// The offset of the name's opening quote in the object's text.
    pub name_at: usize,
    /// The value, exactly as the peer wrote it.
    pub value: Json<'a>,
    /// The offset of the value in the object's text.
    pub value_at: usize,
}

impl<'a> Member<'a> {
    /// Borrows a member of the object `text` at these spans.
    fn scanned(text: &'a [u8], name: ValueSpan, value: ValueSpan) -> Self {
        Self {
            name: Text { raw: &text[name.start..name.end] },
            name_at: name.start,
            value: Json::scanned(text, value),
            value_at: value.start,
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let place = self.ahead.take()?;
        let name = self.scanner.member(place).expect(SCANNED)?;
        let value = self.scanner.value().expect(SCANNED);
        self.ahead = Some(Place::Next);
        Some(Member::scanned(self.text, name, value))
    }
}

/// The elements of one array. See [`Json::elements`].
#[derive(Debug)]
pub struct Elements<'a> {
    text: &'a [u8],
    scanner: Scanner<'a>,
    /// The position of the next element; `None` after the closing bracket.
    ahead: Option<Place>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        let place = self.ahead.take()?;
        if !self.scanner.element(place).expect(SCANNED) {
            return None;
        }
        let value = self.scanner.value().expect(SCANNED);
        self.ahead = Some(Place::Next);
        Some(Json::scanned(self.text, value))
    }
}

/// The panic message if the second scan of a `Json` fails. It cannot fail, because the first scan succeeded.
const SCANNED: &str = "a Json was scanned without an error when it was made";

/// The panic message if a caller gives an offset at which no member begins.
const NO_MEMBER: &str = "the offset is that of a member";

/// A JSON string as the peer wrote it, with quotes and escapes. Strings are compared by value: `"a"` equals `"\u0061"`.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// Invariant: a JSON string, valid UTF-8, with its quotes.
    raw: &'a [u8],
}

impl<'a> Text<'a> {
    /// Returns `json` as a string, or `None` if `json` is not a string.
    pub fn from_json(json: Json<'a>) -> Option<Self> {
        (json.kind == Kind::String).then_some(Self { raw: json.text })
    }

    /// Returns the text of the string, exactly as the peer wrote it, with its quotes.
    pub fn raw(self) -> &'a str {
        std::str::from_utf8(self.raw).expect("a Text is checked for UTF-8 when it is made")
    }

    /// Returns the string's value, or `None` if it holds an unpaired surrogate, which a Rust string cannot hold.
    pub fn to_str(self) -> Option<Cow<'a, str>> {
        match unescape(self.inner()) {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }

    /// Returns the string's value, or the raw text between its quotes if the value holds an unpaired surrogate. Use
    /// this for names: such a raw text equals no known name, but it can be shown in a message.
    pub fn to_name(self) -> Cow<'a, str> {
        self.to_str().unwrap_or_else(|| {
            let raw = self.raw();
            Cow::Borrowed(&raw[1..raw.len() - 1])
        })
    }

    /// Returns the string's value in UTF-8. An unpaired surrogate becomes three bytes as in WTF-8, so two strings are
    /// equal exactly if their bytes are equal.
    pub fn to_bytes(self) -> Cow<'a, [u8]> {
        unescape(self.inner())
    }

    /// Returns the item of `known` whose name equals the value of this string. The string can contain escapes.
    #[inline]
    pub(crate) fn find<T: Copy>(self, known: &[(&[u8], T)]) -> Option<T> {
        match_name(self.inner(), known)
    }

    /// Returns the bytes between the quotes.
    fn inner(self) -> &'a [u8] {
        &self.raw[1..self.raw.len() - 1]
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        unescape(self.inner()) == unescape(other.inner())
    }
}

impl Eq for Text<'_> {}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        // An escape has at most six bytes for each byte of its value. A text of more than six times the length is not
        // equal.
        let inner = self.inner();
        inner.len() <= 6 * other.len() && *unescape(inner) == *other.as_bytes()
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw())
    }
}

/// Appends `text`, a JSON value, on one line: line breaks in its white space become spaces.
///
/// A JSON string cannot hold a raw line break, so every line break is white space and a space has the same meaning.
pub(crate) fn push_one_line(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    out.extend_from_slice(text);
    flatten(&mut out[start..]);
}

/// Replaces the line breaks in `text` with spaces.
pub(crate) fn flatten(text: &mut [u8]) {
    let mut from = 0;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &text[from..]) {
        text[from + found] = b' ';
        from += found + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_name_path_and_offset() {
        let json = Json::parse(br#" { "a" : 1, "\u0061":{"b":[ "\u00e9" ], "n":-3e1}, "c":"\ud800" } "#).expect("JSON");
        assert_eq!(json.member("a").map(Json::as_str), Some(r#"{"b":[ "\u00e9" ], "n":-3e1}"#));
        assert_eq!(json.at(&["a", "n"]).and_then(Json::integer), Some(-30));
        assert_eq!(json.at(&["a", "b", "c"]), None);
        let element = json.at(&["a", "b"]).and_then(|array| array.elements().next());
        assert_eq!(element.and_then(Json::string).as_deref(), Some("é"));
        assert_eq!(json.member("c").and_then(Json::string), None);
        for member in json.members() {
            let again = json.member_at(member.name_at);
            assert_eq!((again.name, again.value), (member.name, member.value));
            assert_eq!(json.name_at(member.name_at), member.name);
        }
    }

    #[test]
    fn levels_and_values_are_counted() {
        let json = |text: &'static str| Json::parse(text.as_bytes()).expect("JSON");
        assert!(!json("1").is_deeper_than(0) && json("[]").is_deeper_than(0));
        assert!(!json(r#"[{"a":[]}]"#).is_deeper_than(3) && json(r#"[{"a":[]}]"#).is_deeper_than(2));
        let text = r#"[1,"a,\",[{",{"b":[2]}]"#;
        assert!(!json(text).has_more_values_than(6) && json(text).has_more_values_than(4));
        assert!(!json(r#""[[[[,,,,""#).has_more_values_than(1));
    }

    #[test]
    fn elements_come_in_order_and_only_from_an_array() {
        let json = |text: &'static str| Json::parse(text.as_bytes()).expect("JSON");
        let elements = |text| json(text).elements().map(Json::as_str).collect::<Vec<_>>();
        assert_eq!(elements(r#" [1 , [2,[3]], {"a":[4]}, "],[" ] "#), ["1", "[2,[3]]", r#"{"a":[4]}"#, r#""],[""#]);
        assert!(elements("[ ]").is_empty());
        assert!(elements(r#"{"a":1}"#).is_empty());
        assert!(elements("7").is_empty());
    }
}
