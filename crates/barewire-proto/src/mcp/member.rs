//! How members are read and written that several types share.

use std::fmt;

use serde::de::{DeserializeOwned, Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// For `skip_serializing_if`: false is what an absent member means.
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

/// An explicit null where a member was left out: some serialisers write all their fields.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// An object, and not an array of the values of its members in their order, which would do for a derived type.
pub(super) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let members = serde_json::Map::deserialize(from)?;
    serde_json::from_value(Value::Object(members)).map_err(D::Error::custom)
}

/// The same, or nothing.
pub(super) fn optional_object<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let members = Option::<serde_json::Map<String, Value>>::deserialize(from)?;
    members.map(|members| serde_json::from_value(Value::Object(members)).map_err(D::Error::custom)).transpose()
}

/// A null that is a value of its own, unlike the absence of the member.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

/// One of a few words. A word of a later revision is read as absent: a hint must not cost the whole message.
pub(super) fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

/// A number without a fraction and not below zero, also when written as `1e3` or `5.0`.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_option(Whole { negative_is_zero: false })
}

/// As [`whole`], but what is below zero is zero: MCP 2026-07-28, caching, "ignore it and treat it as 0".
pub(super) fn whole_or_zero<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_option(Whole { negative_is_zero: true })
}

struct Whole {
    negative_is_zero: bool,
}

impl<'de> Visitor<'de> for Whole {
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
        // Written out and read again: a cast would round what does not fit.
        let whole = (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten();
        whole.map(Some).ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }
}

/// A string or number that is compared and sent back as it was written.
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

/// One value, or an array of them. One is written without the array, as the revisions before 2025-11-25 have it.
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
