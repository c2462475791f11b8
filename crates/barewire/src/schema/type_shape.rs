//! Finds the shape that a type's `Deserialize` expects at a path: a struct, a map, an integer and so on.
//!
//! The type is deserialized from a probe, which records the method that it calls (`deserialize_struct`,
//! `deserialize_u8`, …) and then fails. This needs no valid value of the type.

use std::cell::Cell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// One step of a path into a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceStep<'a> {
    /// A step to the member of this name, in a struct or a map.
    Member(&'a str),
    /// A step to the first element of an array.
    Element,
}

/// The shape that a type expects at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlaceShape {
    pub(super) shape: TypeShape,
    /// Whether the type is an `Option`, so that the value can be null or absent.
    pub(super) optional: bool,
}

/// The shape of a type: the kind of value that the type requests from its deserializer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeShape {
    /// A struct with these members, in the order of declaration.
    Struct(&'static [&'static str]),
    Map,
    Seq,
    Tuple(usize),
    /// One of several shapes: an enum, or a type that looks at the value before it decides how to read it.
    Choice,
    /// An integer within these bounds.
    Integer(i128, u128),
    Float,
    Bool,
    Char,
    Str,
    /// A value of any kind, as `serde_json::Value` accepts.
    Any,
    /// A value that the type skips.
    Ignored,
}

/// The function [`shape_at`] for one type.
type ShapeFn = fn(&[PlaceStep<'_>]) -> Option<PlaceShape>;

/// A place in a schema, and in the values that it describes.
#[derive(Debug, Clone)]
pub(super) struct SchemaPlace<'a> {
    /// The function that returns the shape at a path; `None` if the type that reads this place is not known.
    shape_fn: Option<ShapeFn>,
    path: Vec<PlaceStep<'a>>,
}

impl<'a> SchemaPlace<'a> {
    /// Returns the root of the value that `T` deserializes.
    pub(super) fn of<T: DeserializeOwned>() -> Self {
        Self { shape_fn: Some(shape_at::<T>), path: Vec::new() }
    }

    /// Returns a place whose type is not known.
    pub(super) fn unknown() -> Self {
        Self { shape_fn: None, path: Vec::new() }
    }

    /// Returns the shape that the type expects at this place; `None` if the shape is not known.
    pub(super) fn shape(&self) -> Option<PlaceShape> {
        self.shape_fn.and_then(|shape_at| shape_at(&self.path))
    }

    pub(super) fn member(&self, name: &'a str) -> Self {
        self.step(PlaceStep::Member(name))
    }

    pub(super) fn element(&self) -> Self {
        self.step(PlaceStep::Element)
    }

    fn step(&self, step: PlaceStep<'a>) -> Self {
        if self.shape_fn.is_none() {
            return Self::unknown();
        }
        let path = self.path.iter().copied().chain([step]).collect();
        Self { shape_fn: self.shape_fn, path }
    }
}

/// Returns the shape that `T` expects at `path`; `None` if the probe cannot find it.
fn shape_at<T: DeserializeOwned>(path: &[PlaceStep<'_>]) -> Option<PlaceShape> {
    let found = Cell::new(None);
    let probe = Probe { path, optional: false, found: &found };
    if T::deserialize(probe).is_ok() {
        takes_anything(&found);
    }
    found.get()
}

/// Changes the recorded shape to `Any`, because the type accepted the probe's value.
fn takes_anything(found: &Cell<Option<PlaceShape>>) {
    found.set(found.get().map(|place| PlaceShape { shape: TypeShape::Any, ..place }));
}

/// A deserializer that follows the path and records the shape at its end. It returns a value only to types that request
/// a value of any kind.
struct Probe<'p> {
    path: &'p [PlaceStep<'p>],
    optional: bool,
    found: &'p Cell<Option<PlaceShape>>,
}

impl Probe<'_> {
    fn note<T>(self, shape: TypeShape) -> Result<T, Stop> {
        if self.path.is_empty() {
            self.found.set(Some(PlaceShape { shape, optional: self.optional }));
        }
        Err(Stop)
    }
}

macro_rules! note {
    ($($method:ident => $shape:expr,)*) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
            self.note($shape)
        })*
    };
}

/// Defines methods that record no shape.
macro_rules! nothing {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
            Err(Stop)
        })*
    };
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Stop;

    note! {
        deserialize_ignored_any => TypeShape::Ignored,
        deserialize_bool => TypeShape::Bool,
        deserialize_char => TypeShape::Char,
        deserialize_str => TypeShape::Str,
        deserialize_string => TypeShape::Str,
        deserialize_f32 => TypeShape::Float,
        deserialize_f64 => TypeShape::Float,
        deserialize_i8 => TypeShape::Integer(i8::MIN.into(), i8::MAX.unsigned_abs().into()),
        deserialize_i16 => TypeShape::Integer(i16::MIN.into(), i16::MAX.unsigned_abs().into()),
        deserialize_i32 => TypeShape::Integer(i32::MIN.into(), i32::MAX.unsigned_abs().into()),
        deserialize_i64 => TypeShape::Integer(i64::MIN.into(), i64::MAX.unsigned_abs().into()),
        deserialize_i128 => TypeShape::Integer(i128::MIN, i128::MAX.unsigned_abs()),
        deserialize_u8 => TypeShape::Integer(0, u8::MAX.into()),
        deserialize_u16 => TypeShape::Integer(0, u16::MAX.into()),
        deserialize_u32 => TypeShape::Integer(0, u32::MAX.into()),
        deserialize_u64 => TypeShape::Integer(0, u64::MAX.into()),
        deserialize_u128 => TypeShape::Integer(0, u128::MAX),
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        match self.path {
            [] => {
                self.found.set(Some(PlaceShape { shape: TypeShape::Choice, optional: self.optional }));
                // A type that accepts `true` here accepts any value. Enums refuse `true`, except an untagged enum with
                // a variant that accepts `true`.
                visitor.visit_bool(true)
            }
            _ => Err(Stop),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_some(Probe { optional: true, ..self })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        match self.path {
            [PlaceStep::Member(name), rest @ ..] => visitor.visit_map(SingleEntry::new(name, rest, self.found)),
            _ => self.note(TypeShape::Struct(fields)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        match self.path {
            [PlaceStep::Member(name), rest @ ..] => visitor.visit_map(SingleEntry::new(name, rest, self.found)),
            _ => self.note(TypeShape::Map),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        match self.path {
            [PlaceStep::Element, rest @ ..] => visitor.visit_seq(SingleEntry::new("", rest, self.found)),
            _ => self.note(TypeShape::Seq),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stop> {
        match self.path {
            [PlaceStep::Element, rest @ ..] => visitor.visit_seq(SingleEntry::new("", rest, self.found)),
            _ => self.note(TypeShape::Tuple(len)),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Stop> {
        self.note(TypeShape::Choice)
    }

    nothing! { deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, _: V) -> Result<V::Value, Stop> {
        Err(Stop)
    }
}

/// A map or sequence with a single entry: the member or element that the path goes through.
struct SingleEntry<'p> {
    name: &'p str,
    inside: Probe<'p>,
    is_given: bool,
}

impl<'p> SingleEntry<'p> {
    fn new(name: &'p str, rest: &'p [PlaceStep<'p>], found: &'p Cell<Option<PlaceShape>>) -> Self {
        Self { name, inside: Probe { path: rest, optional: false, found }, is_given: false }
    }

    fn value<'de, S: DeserializeSeed<'de>>(&self, seed: S) -> Result<S::Value, Stop> {
        let Probe { path, optional, found } = self.inside;
        let taken = seed.deserialize(Probe { path, optional, found })?;
        if path.is_empty() && found.get().is_some() {
            takes_anything(found);
            return Err(Stop);
        }
        Ok(taken)
    }
}

impl<'de> MapAccess<'de> for SingleEntry<'_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stop> {
        if std::mem::replace(&mut self.is_given, true) {
            return Ok(None);
        }
        seed.deserialize(StrDeserializer::new(self.name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        self.value(seed)
    }
}

impl<'de> SeqAccess<'de> for SingleEntry<'_> {
    type Error = Stop;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Stop> {
        // The sequence ends after one element. Otherwise a type that accepts elements without reading them would read
        // forever.
        if std::mem::replace(&mut self.is_given, true) {
            return Ok(None);
        }
        self.value(seed).map(Some)
    }
}

/// The error with which the probe stops the deserialization.
#[derive(Debug)]
struct Stop;

impl de::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the probe has stopped")
    }
}

impl std::error::Error for Stop {}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize)]
    struct Outer {
        _zebra: Option<Vec<ProbedInner>>,
        _apple: BTreeMap<String, u8>,
        _shape: ProbedShape,
        _tagged: ProbedTagged,
        _untagged: Option<ProbedUntagged>,
        _any: Value,
        _pair: (i64, f32),
        _name: Newtype,
        _set: Option<HashSet<char>>,
        _boxed: Box<bool>,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ProbedInner {
        _deep: i32,
    }

    #[derive(Deserialize)]
    #[expect(dead_code)]
    enum ProbedShape {
        Dot,
        Circle { r: f64 },
    }

    #[derive(Deserialize)]
    #[serde(tag = "kind")]
    #[expect(dead_code)]
    enum ProbedTagged {
        A { x: i64 },
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code)]
    enum ProbedUntagged {
        Number(i64),
        Text(String),
    }

    #[derive(Deserialize)]
    struct Newtype(#[expect(dead_code)] String);

    #[derive(Deserialize)]
    struct Flat {
        _own: u16,
        #[serde(flatten)]
        _rest: BTreeMap<String, Value>,
    }

    fn shape<T: DeserializeOwned>(path: &[PlaceStep<'_>]) -> Option<(TypeShape, bool)> {
        shape_at::<T>(path).map(|place| (place.shape, place.optional))
    }

    #[test]
    fn a_derived_type_has_a_shape_at_every_place() {
        use PlaceStep::{Element, Member};
        let fields = ["_zebra", "_apple", "_shape", "_tagged", "_untagged", "_any", "_pair", "_name", "_set", "_boxed"];
        let Some((TypeShape::Struct(declared), false)) = shape::<Outer>(&[]) else { panic!("a struct") };
        assert_eq!(declared, fields);
        for (path, found) in [
            (&[Member("_zebra")][..], Some((TypeShape::Seq, true))),
            (&[Member("_zebra"), Element], Some((TypeShape::Struct(&["_deep"]), false))),
            (
                &[Member("_zebra"), Element, Member("_deep")],
                Some((TypeShape::Integer(i32::MIN.into(), 2_147_483_647), false)),
            ),
            (&[Member("_apple")], Some((TypeShape::Map, false))),
            (&[Member("_apple"), Member("any")], Some((TypeShape::Integer(0, 255), false))),
            (&[Member("_shape")], Some((TypeShape::Choice, false))),
            (&[Member("_tagged")], Some((TypeShape::Choice, false))),
            (&[Member("_untagged")], Some((TypeShape::Choice, true))),
            (&[Member("_any")], Some((TypeShape::Any, false))),
            (&[Member("_pair")], Some((TypeShape::Tuple(2), false))),
            (
                &[Member("_pair"), Element],
                Some((TypeShape::Integer(i64::MIN.into(), 9_223_372_036_854_775_807), false)),
            ),
            (&[Member("_name")], Some((TypeShape::Str, false))),
            (&[Member("_set")], Some((TypeShape::Seq, true))),
            (&[Member("_set"), Element], Some((TypeShape::Char, false))),
            (&[Member("_boxed")], Some((TypeShape::Bool, false))),
            // Unknown members are skipped where they are allowed, and refused where they are not.
            (&[Member("unknown")], Some((TypeShape::Ignored, false))),
            (&[Member("_zebra"), Element, Member("unknown")], None),
            // Places that the type does not read.
            (&[Member("_boxed"), Element], None),
            (&[Element], None),
        ] {
            assert_eq!(shape::<Outer>(path), found, "{path:?}");
        }
    }

    #[test]
    fn a_type_with_its_own_deserialize_has_the_shape_it_asks_for() {
        assert_eq!(shape::<Flat>(&[]), Some((TypeShape::Map, false)));
        assert_eq!(shape::<Flat>(&[PlaceStep::Member("_own")]), Some((TypeShape::Integer(0, 65535), false)));
        assert_eq!(shape::<Flat>(&[PlaceStep::Member("other")]), Some((TypeShape::Any, false)));
        assert_eq!(shape::<Value>(&[]), Some((TypeShape::Any, false)));
        assert_eq!(shape::<Value>(&[PlaceStep::Member("a")]), None);
        assert_eq!(shape::<Option<Value>>(&[]), Some((TypeShape::Any, true)));
        assert_eq!(shape::<serde_json::Number>(&[]), Some((TypeShape::Choice, false)));
        assert_eq!(shape::<Box<serde_json::value::RawValue>>(&[]), None);
        assert_eq!(shape::<()>(&[]), None);
    }
}
