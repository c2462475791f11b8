//! Deserializes named strings into a Rust type. On the wire, the arguments of a prompt and the variables of a URI are
//! always strings, even if the handler takes numbers.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

/// Names and their values, all as text.
pub(super) type TextArguments<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Deserializes a type from named strings. If a field is a number or a `bool`, its string is parsed.
pub(super) fn read<T: DeserializeOwned>(strings: TextArguments<'_>) -> Result<T, TextArgumentsError> {
    let strings: Vec<(Cow<'_, str>, TextValue<'_>)> =
        strings.into_iter().map(|(name, text)| (name, TextValue(text))).collect();
    let nothing = strings.is_empty();
    let read = T::deserialize(MapDeserializer::new(strings.into_iter()));
    read.or_else(|error: Error| {
        // Without any strings, a type without fields, such as `()`, can still be deserialized.
        let unit = || T::deserialize(IntoDeserializer::<Error>::into_deserializer(())).ok();
        nothing.then(unit).flatten().ok_or_else(|| TextArgumentsError(error.to_string()))
    })
}

/// The reason why the strings cannot be deserialized into the type.
#[derive(Debug)]
pub(super) struct TextArgumentsError(String);

impl fmt::Display for TextArgumentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The deserializer of one string.
struct TextValue<'a>(Cow<'a, str>);

impl<'de> IntoDeserializer<'de, Error> for TextValue<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(value) => visitor.$visit(value),
                // Given a string, the visitor fails with an error that names the type it expected.
                Err(_) => visitor.visit_str(&self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for TextValue<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0.into_owned())
    }

    parsed! {
        deserialize_bool visit_bool
        deserialize_i8 visit_i8 deserialize_i16 visit_i16 deserialize_i32 visit_i32 deserialize_i64 visit_i64
        deserialize_i128 visit_i128
        deserialize_u8 visit_u8 deserialize_u16 visit_u16 deserialize_u32 visit_u32 deserialize_u64 visit_u64
        deserialize_u128 visit_u128
        deserialize_f32 visit_f32 deserialize_f64 visit_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> EnumAccess<'de> for TextValue<'_> {
    type Error = Error;
    type Variant = UnitVariant;

    fn variant_seed<V: serde::de::DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, UnitVariant), Error> {
        Ok((seed.deserialize(self)?, UnitVariant))
    }
}

/// The content of an enum variant, which must be empty: the string only names the variant.
struct UnitVariant;

impl<'de> VariantAccess<'de> for UnitVariant {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: serde::de::DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Error> {
        Err(serde::de::Error::custom(ONLY_UNIT_VARIANTS))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom(ONLY_UNIT_VARIANTS))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom(ONLY_UNIT_VARIANTS))
    }
}

const ONLY_UNIT_VARIANTS: &str = "a string can only name a variant without fields";

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct TextFields {
        id: u64,
        name: String,
        on: Option<bool>,
        way: Direction,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Direction {
        Up,
    }

    fn read_strings<T: DeserializeOwned>(strings: &[(&str, &str)]) -> Result<T, String> {
        let strings = strings.iter().map(|(name, text)| (Cow::from(*name), Cow::from(*text)));
        read(strings.collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn strings_become_the_field_types() {
        let read = read_strings(&[("id", "7"), ("name", "7"), ("way", "up")]);
        assert_eq!(read, Ok(TextFields { id: 7, name: "7".into(), on: None, way: Direction::Up }));
        let read = read_strings(&[("id", "7"), ("name", ""), ("way", "up"), ("on", "true"), ("more", "x")]);
        assert_eq!(read, Ok(TextFields { id: 7, name: String::new(), on: Some(true), way: Direction::Up }));
        assert_eq!(read_strings(&[]), Ok(()));
    }

    #[test]
    fn errors_name_the_field_or_value() {
        let missing = read_strings::<TextFields>(&[("id", "7")]).expect_err("no name");
        assert!(missing.contains("name"), "{missing}");
        let wrong = read_strings::<TextFields>(&[("id", "x"), ("name", ""), ("way", "up")]).expect_err("no number");
        assert!(wrong.contains("\"x\"") && wrong.contains("u64"), "{wrong}");
        assert!(read_strings::<TextFields>(&[("id", "7"), ("name", ""), ("way", "down")]).is_err());
    }
}
