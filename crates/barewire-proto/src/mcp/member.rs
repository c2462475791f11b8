//! Serde helpers for members that several types share.

use std::fmt;

use serde::de::{DeserializeOwned, Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Used in `skip_serializing_if`: a flag that is false is omitted, because an absent member means false.
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

/// Reads null as the default value, like an absent member, because some serializers write absent members as null.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// Reads an object, and refuses an array. A derived `Deserialize` would also accept an array of the member values.
pub(super) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let members = serde_json::Map::deserialize(from)?;
    serde_json::from_value(Value::Object(members)).map_err(D::Error::custom)
}

/// Reads an object like [`object`], or null.
pub(super) fn optional_object<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let members = Option::<serde_json::Map<String, Value>>::deserialize(from)?;
    members.map(|members| serde_json::from_value(Value::Object(members)).map_err(D::Error::custom)).transpose()
}

/// Reads null as a value that is present, to tell null apart from an absent member.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// Reads an enum. A value that this crate does not know, for example of a later revision, is read as absent, because an
/// unknown hint must not make the whole message invalid.
pub(super) fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

/// Reads an integer that is not negative. It can be written as `1e3` or `5.0`.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_option(WholeNumberVisitor { negative_is_zero: false })
}

/// Does the same as [`whole`], but reads negative numbers as 0: MCP 2026-07-28, caching, "ignore it and treat it as 0".
pub(super) fn whole_or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_option(WholeNumberVisitor { negative_is_zero: true })
}

struct WholeNumberVisitor {
    negative_is_zero: bool,
}

impl<'de> Visitor<'de> for WholeNumberVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        match u64::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) if self.negative_is_zero => Ok(Some(0)),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        if number < 0.0 && self.negative_is_zero {
            return Ok(Some(0));
        }
        // The number is formatted and parsed again, because a cast to `u64` would silently clamp it to the range.
        let whole = (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten();
        whole.map(Some).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// Reads and writes an id, keeping the exact text that the peer wrote.
pub(super) mod id {
    use super::{Deserialize, Deserializer, Error, RawValue, Serializer};
    use crate::rpc::Id;

    pub(in crate::mcp) fn serialize<S: Serializer>(id: &Id<'_>, to: S) -> Result<S::Ok, S::Error> {
        use serde::Serialize;
        let raw: &RawValue = serde_json::from_str(id.as_str()).map_err(serde::ser::Error::custom)?;
        raw.serialize(to)
    }

    pub(in crate::mcp) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Id<'static>, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        let id = Id::parse(raw.get().as_bytes()).map(Id::into_owned);
        id.ok_or_else(|| D::Error::custom("expected a string or a number"))
    }
}

/// Reads and writes a list that is a single value or an array on the wire. A list of one value is written as this
/// value, because revisions before 2025-11-25 do not allow an array.
pub(super) mod one_or_many {
    use serde::Serialize;

    use super::{Deserialize, DeserializeOwned, Deserializer, Error, Serializer, Value};

    pub(in crate::mcp) fn serialize<S: Serializer, T: Serialize>(
        values: &Vec<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match values.as_slice() {
            [one] => one.serialize(to),
            many => many.serialize(to),
        }
    }

    pub(in crate::mcp) fn deserialize<'de, D: Deserializer<'de>, T: DeserializeOwned>(
        from: D,
    ) -> Result<Vec<T>, D::Error> {
        let read = match Value::deserialize(from)? {
            many @ Value::Array(_) => serde_json::from_value(many),
            one => serde_json::from_value(one).map(|one| vec![one]),
        };
        read.map_err(D::Error::custom)
    }
}
