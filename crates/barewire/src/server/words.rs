//! Names with text -> a type: the arguments of a prompt and the variables of a URI, which are text on the wire whatever
//! they mean.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;

/// Names with text.
pub(super) type Words<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Reads a type from names with text. Where it wants a number or a truth value, the text must be one.
pub(super) fn read<T: DeserializeOwned>(words: Words<'_>) -> Result<T, BadWords> {
    let words: Vec<(Cow<'_, str>, Word<'_>)> = words.into_iter().map(|(name, text)| (name, Word(text))).collect();
    let nothing = words.is_empty();
    let read = T::deserialize(MapDeserializer::new(words.into_iter()));
    read.or_else(|error: Error| {
        // Whoever takes nothing can be given nothing.
        let unit = || T::deserialize(IntoDeserializer::<Error>::into_deserializer(())).ok();
        nothing.then(unit).flatten().ok_or_else(|| BadWords(error.to_string()))
    })
}

/// Why they are not what they should be.
#[derive(Debug)]
pub(super) struct BadWords(String);

impl fmt::Display for BadWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One text.
struct Word<'a>(Cow<'a, str>);

impl<'de> IntoDeserializer<'de, Error> for Word<'_> {
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
                // Then it is told what it is, and says what it wanted.
                Err(_) => visitor.visit_str(&self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Word<'_> {
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

impl<'de> EnumAccess<'de> for Word<'_> {
    type Error = Error;
    type Variant = Unit;

    fn variant_seed<V: serde::de::DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Unit), Error> {
        Ok((seed.deserialize(self)?, Unit))
    }
}

/// The rest of a variant that is only a name.
struct Unit;

impl<'de> VariantAccess<'de> for Unit {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: serde::de::DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Error> {
        Err(serde::de::Error::custom(NO_MORE))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom(NO_MORE))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom(NO_MORE))
    }
}

const NO_MORE: &str = "a text can only name a variant";

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wanted {
        id: u64,
        name: String,
        on: Option<bool>,
        way: Way,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Way {
        Up,
    }

    fn read_all<T: DeserializeOwned>(words: &[(&str, &str)]) -> Result<T, String> {
        let words = words.iter().map(|(name, text)| (Cow::from(*name), Cow::from(*text)));
        read(words.collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn text_becomes_what_is_wanted() {
        let read = read_all(&[("id", "7"), ("name", "7"), ("way", "up")]);
        assert_eq!(read, Ok(Wanted { id: 7, name: "7".into(), on: None, way: Way::Up }));
        let read = read_all(&[("id", "7"), ("name", ""), ("way", "up"), ("on", "true"), ("more", "x")]);
        assert_eq!(read, Ok(Wanted { id: 7, name: String::new(), on: Some(true), way: Way::Up }));
        assert_eq!(read_all(&[]), Ok(()));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let missing = read_all::<Wanted>(&[("id", "7")]).expect_err("no name");
        assert!(missing.contains("name"), "{missing}");
        let wrong = read_all::<Wanted>(&[("id", "x"), ("name", ""), ("way", "up")]).expect_err("no number");
        assert!(wrong.contains("\"x\"") && wrong.contains("u64"), "{wrong}");
        assert!(read_all::<Wanted>(&[("id", "7"), ("name", ""), ("way", "down")]).is_err());
    }
}
