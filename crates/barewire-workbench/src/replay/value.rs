//! JSON values for comparison: members may be in any order, and numbers are compared exactly instead of as
//! floating-point numbers.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use barewire_proto::json::{Decimal, Json, Kind, Text};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

/// A number as written, compared by its exact value: 1, 1.0 and 10e-1 are equal.
#[derive(Debug, Clone)]
pub(super) struct Number(String);

impl Value {
    /// Parses JSON. Returns `None` if the text is invalid, has half of a surrogate pair, or exceeds [`MAX_DEPTH`].
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        Self::of(Json::parse(text).ok()?, MAX_DEPTH)
    }

    /// Converts a string, number, boolean or null. Returns `None` for an array or object.
    pub(super) fn leaf(json: Json<'_>) -> Option<Self> {
        Self::of(json, 0)
    }

    fn of(json: Json<'_>, levels: usize) -> Option<Self> {
        Some(match json.kind() {
            Kind::Null => Self::Null,
            Kind::True => Self::Bool(true),
            Kind::False => Self::Bool(false),
            Kind::Number => Self::Number(Number(json.as_str().to_owned())),
            Kind::String => Self::String(text(Text::from_json(json)?)?),
            Kind::Array => {
                let below = levels.checked_sub(1)?;
                Self::Array(json.elements().map(|element| Self::of(element, below)).collect::<Option<_>>()?)
            }
            Kind::Object => {
                let below = levels.checked_sub(1)?;
                let members = json.members();
                let members = members.map(|it| Some((text(it.name)?, Self::of(it.value, below)?)));
                Self::Object(members.collect::<Option<_>>()?)
            }
        })
    }

    pub(super) fn get(&self, member: &str) -> Option<&Self> {
        if let Self::Object(members) = self { members.get(member) } else { None }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }
}

impl Number {
    pub(super) fn exact(&self) -> Option<Decimal> {
        Decimal::from_json(Json::parse(self.0.as_bytes()).ok()?)
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.exact() == other.exact()
    }
}

/// Formats the value as JSON without spaces, with every number as it was written.
impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => value.serialize(serializer),
            Self::Number(Number(text)) => {
                RawValue::from_string(text.clone()).map_err(serde::ser::Error::custom)?.serialize(serializer)
            }
            Self::String(text) => text.serialize(serializer),
            Self::Array(elements) => elements.serialize(serializer),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

fn text(text: Text<'_>) -> Option<String> {
    Some(text.to_str()?.into_owned())
}

/// The maximum number of levels in a value, as in serde_json. Deep texts take long: each level is scanned again.
pub(super) const MAX_DEPTH: usize = 128;

#[cfg(test)]
impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        Self::parse(json.to_string().as_bytes()).expect("JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn numbers_are_compared_exactly() {
        for (a, b) in [("1", "1.0"), ("1e2", "100"), ("[-0]", "[0.0]"), ("1e400", "10e399")] {
            assert_eq!(value(a), value(b), "{a} {b}");
        }
        // Each pair would be equal as floating-point numbers.
        for (a, b) in [
            ("18446744073709551616", "18446744073709551615"),
            ("12345678901234567890123", "12345678901234567890124"),
            ("9007199254740993", "9007199254740992.0"),
            ("1e400", "1e401"),
        ] {
            assert_ne!(value(a), value(b), "{a} {b}");
        }
    }

    #[test]
    fn the_text_is_the_same_but_for_order_and_spaces() {
        let text = r#"{"a":[1.0,12345678901234567890123,null,true],"b\"":"\n\u0001é"}"#;
        let spaced = text.replace(',', " , ").replace(':', ": ");
        assert_eq!(value(&spaced).to_string(), text);
        assert_eq!(serde_json::to_string(&value(text)).expect("JSON"), text);
        assert_eq!(value(r#"{"a":1,"b":2}"#), value(r#"{"b":2,"a":1.0}"#));
    }

    #[test]
    fn texts_that_are_no_value_are_none() {
        let nested = |levels| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(Value::parse(&nested(MAX_DEPTH)).is_some());
        for text in [&nested(MAX_DEPTH + 1)[..], br#""\ud800""#, b"nonsense"] {
            assert_eq!(Value::parse(text), None);
        }
    }
}
