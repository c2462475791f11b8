//! The id of a request: kept as the text that the peer wrote, and compared by value.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::json::{Decimal, Json, Kind, integer, unescape};

/// The id of a request: a string or a number, kept as the text that the peer wrote.
///
/// The id is sent back byte for byte and compared by value: `"a"` equals `"\u0061"`, and 1 equals 1.0 and 1e0. Numbers
/// are compared exactly, not as floats. 5 and `"5"` are different ids. An absent, null or invalid id is not an `Id`.
#[derive(Clone)]
pub struct Id<'a> {
    /// Invariant: a JSON string or number without white space around it.
    text: Cow<'a, str>,
}

impl<'a> Id<'a> {
    /// Returns `json` as an id, or `None` if `json` is neither a string nor a number.
    pub fn from_json(json: Json<'a>) -> Option<Self> {
        matches!(json.kind(), Kind::String | Kind::Number).then(|| Self { text: Cow::Borrowed(json.as_str()) })
    }

    /// Returns `text` as an id, or `None` if `text` is neither a JSON string nor a JSON number.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        Self::from_json(Json::parse(text).ok()?)
    }

    /// Returns the id exactly as the peer wrote it, with quotes and escapes.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Copies the id, so that it does not borrow from its frame.
    pub fn into_owned(self) -> Id<'static> {
        Id { text: Cow::Owned(self.text.into_owned()) }
    }

    /// Returns a copy of the id that borrows its text from `self`.
    pub fn borrow(&self) -> Id<'_> {
        Id { text: Cow::Borrowed(&self.text) }
    }

    /// Returns the id as an integer, or `None` if the id is not an integer or does not fit in an `i64`. 1, 1.0 and 1e0
    /// are the same integer.
    pub fn integer(&self) -> Option<i64> {
        match self.text.as_bytes() {
            [b'"', ..] => None,
            number => integer(number),
        }
    }

    fn value(&self) -> IdValue<'_> {
        let text = self.text.as_bytes();
        if let [b'"', inner @ .., b'"'] = text {
            return IdValue::String(unescape(inner));
        }
        match integer(text) {
            Some(integer) => IdValue::Integer(integer),
            None => IdValue::Number(Decimal::new(text)),
        }
    }
}

/// The value of an id. Each number has only one form in this type, so the derived comparison compares by value.
#[derive(PartialEq, Eq, Hash)]
enum IdValue<'a> {
    String(Cow<'a, [u8]>),
    Integer(i64),
    Number(Decimal),
}

impl From<i64> for Id<'static> {
    fn from(id: i64) -> Self {
        Self { text: Cow::Owned(id.to_string()) }
    }
}

impl From<&str> for Id<'static> {
    fn from(id: &str) -> Self {
        Self { text: Cow::Owned(serde_json::to_string(id).expect("a string is always JSON")) }
    }
}

impl PartialEq for Id<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text || self.value() == other.value()
    }
}

impl Eq for Id<'_> {}

impl Hash for Id<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl fmt::Debug for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn id(text: &str) -> Id<'_> {
        Id::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn ids_are_equal_by_value_and_kept_as_written() {
        let different = ["1", "\"1\"", "1.5", "18446744073709551616", "18446744073709551617", "\"\"", "-1"];
        for same in [
            &["1", "1.0", "1e0", "10e-1"][..],
            &["\"a\"", r#""\u0061""#],
            &[r#""\ud800""#, r#""\uD800""#],
            &["18446744073709551616", "1.8446744073709551616e19"],
        ] {
            let set: HashSet<Id<'_>> = same.iter().map(|text| id(text)).collect();
            assert_eq!(set.len(), 1, "{same:?}");
            for text in same {
                assert_eq!(id(text).into_owned().as_str(), *text);
            }
        }
        let set: HashSet<Id<'_>> = different.iter().map(|text| id(text)).collect();
        assert_eq!(set.len(), different.len());
    }

    #[test]
    fn only_strings_and_numbers_are_ids() {
        for text in ["null", "true", "{}", "[1]", "", "01", "\"", "1 2", "\"\u{1}\""] {
            assert!(Id::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert_eq!(Id::from(5), id("5.0"));
        assert_eq!(Id::from("a\"b"), id(r#""a\"b""#));
    }
}
