//! JSON values that are compared in their text: members may be in any order, and numbers are compared exactly instead
//! of as floating-point numbers.
//!
//! No tree is built, because a tree takes up to 290 times the memory of its text. Only the offsets of an object's
//! members are sorted, while that object is compared or written.

use std::io::{self, Write};

use barewire_proto::json::{Decimal, Json, Kind, Member, Text};

/// Parses the text of a message. Returns `None` if the text is not JSON or exceeds [`MAX_DEPTH`] or [`MAX_LENGTH`]:
/// such texts are compared byte by byte.
pub(super) fn comparable(text: &[u8]) -> Option<Json<'_>> {
    let json = Json::parse(text).ok()?;
    (text.len() <= MAX_LENGTH && !json.is_deeper_than(MAX_DEPTH)).then_some(json)
}

/// Whether two values are equal. Recursion is safe: a comparable value has at most [`MAX_DEPTH`] levels.
pub(super) fn is_same(one: Json<'_>, other: Json<'_>) -> bool {
    if one.as_bytes() == other.as_bytes() {
        return true;
    }
    match (one.kind(), other.kind()) {
        (Kind::Object, Kind::Object) => {
            let (one, other) = (SortedMembers::of(one), SortedMembers::of(other));
            let is_same_member = |(a, b): (Member<'_>, Member<'_>)| a.name == b.name && is_same(a.value, b.value);
            one.offsets.len() == other.offsets.len() && one.iter().zip(other.iter()).all(is_same_member)
        }
        (Kind::Array, Kind::Array) => {
            let (mut one, mut other) = (one.elements(), other.elements());
            loop {
                match (one.next(), other.next()) {
                    (None, None) => return true,
                    (Some(a), Some(b)) if is_same(a, b) => {}
                    _ => return false,
                }
            }
        }
        (Kind::String, Kind::String) => Text::from_json(one) == Text::from_json(other),
        (Kind::Number, Kind::Number) => Decimal::from_json(one) == Decimal::from_json(other),
        (one, other) => one == other,
    }
}

/// Whether two values that may be absent are equal.
pub(super) fn are_same(one: Option<Json<'_>>, other: Option<Json<'_>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The members of an object by name. If a name occurs twice, only its last member counts.
pub(super) struct SortedMembers<'a> {
    object: Json<'a>,
    /// The offset of each member's name in the text of the object.
    offsets: Vec<u32>,
}

impl<'a> SortedMembers<'a> {
    pub(super) fn of(object: Json<'a>) -> Self {
        let offset = |member: Member<'_>| u32::try_from(member.name_at).expect("a comparable text is short enough");
        let mut offsets: Vec<u32> = object.members().map(offset).collect();
        let name = |at: u32| object.name_at(at as usize).to_bytes();
        offsets.sort_unstable_by(|a, b| name(*a).cmp(&name(*b)).then(b.cmp(a)));
        offsets.dedup_by(|next, kept| name(*next) == name(*kept));
        Self { object, offsets }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Member<'a>> {
        self.offsets.iter().map(|at| self.object.member_at(*at as usize))
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Json<'a>> {
        let at = self.offsets.binary_search_by(|at| (*self.object.name_at(*at as usize).to_bytes()).cmp(name)).ok()?;
        Some(self.object.member_at(self.offsets[at] as usize).value)
    }
}

/// Returns the text of a value in its canonical form, see [`write_canonical`].
pub(super) fn canonical(value: Json<'_>) -> String {
    // The canonical form is never longer than the text as written.
    let mut text = Vec::with_capacity(value.as_bytes().len());
    write_canonical(&mut text, value, &|_| true).expect("writing to a Vec cannot fail");
    String::from_utf8(text).expect("a part of a text that is UTF-8")
}

/// Writes a value without spaces and with its members in order, so that equal values have the same text except for the
/// spelling of numbers. Of the outermost object, only the members whose name is `wanted` are written.
pub(super) fn write_canonical(
    out: &mut dyn Write,
    value: Json<'_>,
    wanted: &dyn Fn(Text<'_>) -> bool,
) -> io::Result<()> {
    match value.kind() {
        Kind::Object => {
            let mut separator: &[u8] = b"{";
            for member in SortedMembers::of(value).iter().filter(|member| wanted(member.name)) {
                out.write_all(separator)?;
                write_string(out, member.name)?;
                out.write_all(b":")?;
                write_canonical(out, member.value, &|_| true)?;
                separator = b",";
            }
            out.write_all(if separator == b"{" { b"{}" } else { b"}" })
        }
        Kind::Array => {
            let mut separator: &[u8] = b"[";
            for element in value.elements() {
                out.write_all(separator)?;
                write_canonical(out, element, &|_| true)?;
                separator = b",";
            }
            out.write_all(if separator == b"[" { b"[]" } else { b"]" })
        }
        Kind::String => write_string(out, Text::from_json(value).expect("its kind is a string")),
        Kind::Number | Kind::True | Kind::False | Kind::Null => out.write_all(value.as_bytes()),
    }
}

/// Writes a string with as few escapes as possible; one with an unpaired surrogate is written as it was.
fn write_string(out: &mut dyn Write, text: Text<'_>) -> io::Result<()> {
    match text.to_str() {
        Some(value) if text.raw().contains('\\') => serde_json::to_writer(out, &value).map_err(io::Error::from),
        _ => out.write_all(text.raw().as_bytes()),
    }
}

/// The maximum number of levels in a value, as in serde_json. Deep texts take long: each level is scanned again.
pub(super) const MAX_DEPTH: usize = 128;

/// The maximum length of a comparable text, so that an offset takes four bytes.
const MAX_LENGTH: usize = u32::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Json<'_> {
        comparable(text.as_bytes()).expect(text)
    }

    #[test]
    fn numbers_are_compared_exactly() {
        for (a, b) in [("1", "1.0"), ("1e2", "100"), ("[-0]", "[0.0]"), ("1e400", "10e399")] {
            assert!(is_same(value(a), value(b)), "{a} {b}");
        }
        // Each pair would be equal as floating-point numbers.
        for (a, b) in [
            ("18446744073709551616", "18446744073709551615"),
            ("12345678901234567890123", "12345678901234567890124"),
            ("9007199254740993", "9007199254740992.0"),
            ("1e400", "1e401"),
        ] {
            assert!(!is_same(value(a), value(b)), "{a} {b}");
        }
    }

    #[test]
    fn members_have_no_order_and_the_last_of_a_name_counts() {
        for (a, b) in [
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1.0}"#),
            (r#"{"a":0,"\u0061":1}"#, r#"{"a":1}"#),
            (r#"{"b":0,"a":{},"b":[ ]}"#, r#"{"a":{ },"b":[]}"#),
            (r#""\ud800""#, r#""\uD800""#),
        ] {
            assert!(is_same(value(a), value(b)), "{a} {b}");
        }
        for (a, b) in [(r#"{"a":1}"#, r#"{"a":1,"b":null}"#), (r#"{"a":1,"a":2}"#, r#"{"a":1}"#), ("[1]", "[1,1]")] {
            assert!(!is_same(value(a), value(b)) && !is_same(value(b), value(a)), "{a} {b}");
        }
        let object = SortedMembers::of(value(r#"{"b":0,"a":1,"\u0062":2}"#));
        assert_eq!(object.get(b"b").map(Json::as_str), Some("2"));
        assert_eq!(object.get(b"c"), None);
    }

    #[test]
    fn the_text_is_the_same_but_for_order_and_spaces() {
        let text = r#"{"a":[1.0,12345678901234567890123,null,true,[],{}],"b\"":"\n\u0001é","c":"\ud800"}"#;
        let spaced = text.replace(',', " , ").replace(':', ": ");
        assert_eq!(canonical(value(&spaced)), text);
        assert_eq!(canonical(value(r#"{"b":"\u00e9\/","a":0,"a":1}"#)), r#"{"a":1,"b":"é/"}"#);
    }

    #[test]
    fn texts_that_are_no_value_are_none() {
        let nested = |levels| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(comparable(&nested(MAX_DEPTH)).is_some());
        for text in [&nested(MAX_DEPTH + 1)[..], b"nonsense"] {
            assert_eq!(comparable(text), None);
        }
    }
}
