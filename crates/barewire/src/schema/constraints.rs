//! The rules of a type's schema that must still be checked after a value has been deserialized as the type.
//!
//! Most types check everything in their schema, so that no rules remain. Types do not check bounds, patterns and
//! lengths that attributes add to the schema, and a `Value` checks nothing.

use barewire_proto::json::Json;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
#[cfg(test)]
use serde_json::value::RawValue;

use super::arguments::BadArguments;
use super::check::Checker;
use super::describe;
use super::rules::Rules;
use super::type_shape::SchemaPlace;

/// The rules for a tool's arguments, compiled once for each tool.
#[derive(Debug)]
pub(crate) struct Constraints {
    /// The rules that the type does not check itself.
    unchecked: Rules,
    /// All rules, to find the reason why the type has refused a value.
    all: Rules,
}

impl Constraints {
    /// Returns the constraints of the schema that [`describe::input_of`] generates for `T`. `Err` describes a mistake
    /// in the schema, such as an invalid pattern.
    pub(crate) fn of<T: JsonSchema + DeserializeOwned>() -> Result<Self, String> {
        let schema = describe::input_value::<T>()?;
        Ok(Self {
            unchecked: Rules::new(&schema, &SchemaPlace::of::<T>())?,
            all: Rules::new(&schema, &SchemaPlace::unknown())?,
        })
    }

    /// Returns the constraints of a hand-written schema, for a type that checks none of them.
    #[cfg(test)]
    pub(crate) fn of_schema(schema: &RawValue) -> Result<Self, String> {
        let schema = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
        Ok(Self {
            unchecked: Rules::new(&schema, &SchemaPlace::unknown())?,
            all: Rules::new(&schema, &SchemaPlace::unknown())?,
        })
    }

    /// Whether the type checks all rules itself.
    pub(crate) fn is_empty(&self) -> bool {
        self.unchecked.root.is_empty()
    }

    /// Checks the rules that the type does not check itself.
    pub(crate) fn check(&self, json: Json<'_>) -> Result<(), BadArguments> {
        if self.is_empty() {
            return Ok(());
        }
        Checker::new(&self.unchecked).check_all(json)
    }

    /// Checks all rules.
    pub(crate) fn check_everything(&self, json: Json<'_>) -> Result<(), BadArguments> {
        Checker::new(&self.all).check_all(json)
    }
}

#[cfg(test)]
mod tests {
    #![expect(dead_code, reason = "the tests only generate schemas for these types")]

    use std::collections::{BTreeMap, HashMap, HashSet};

    use serde::Deserialize;
    use serde_json::{Map, Value};

    use super::*;

    fn is_empty<T: JsonSchema + DeserializeOwned>() -> bool {
        Constraints::of::<T>().expect("constraints").is_empty()
    }

    /// A type without schemars attributes checks everything in its schema.
    #[derive(Deserialize, JsonSchema)]
    struct Plain {
        signed: (i8, u64),
        unsigned: Option<u32>,
        ratio: f64,
        text: String,
        letter: char,
        flag: bool,
        list: Vec<PlainInner>,
        map: HashMap<String, PlainInner>,
        unit: Option<PlainUnit>,
        documented: PlainDocumented,
        shape: PlainShape,
        tagged: PlainTagged,
        untagged: PlainUntagged,
        boxed: Box<PlainInner>,
        anything: Value,
        #[serde(default)]
        defaulted: i16,
        #[serde(rename = "other")]
        renamed: std::path::PathBuf,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct PlainInner {
        a: i64,
        b: Option<i64>,
    }

    #[derive(Deserialize, JsonSchema, PartialEq, Eq, Hash)]
    enum PlainUnit {
        A,
        B,
    }

    #[derive(Deserialize, JsonSchema)]
    enum PlainDocumented {
        /// One.
        A,
        /// Another.
        B,
    }

    #[derive(Deserialize, JsonSchema)]
    enum PlainShape {
        Dot,
        Circle { radius: u8, around: (i32, i32) },
        Line(Vec<PlainInner>),
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind")]
    enum PlainTagged {
        Unit,
        A { x: i64 },
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    enum PlainUntagged {
        Number(u8),
        Text(String),
    }

    #[test]
    fn rules_that_a_type_checks_itself_are_not_checked_again() {
        assert!(is_empty::<Plain>(), "{:#?}", Constraints::of::<Plain>().map(|of| of.unchecked));
        assert!(is_empty::<PlainInner>());
        assert!(is_empty::<Option<PlainInner>>());
        assert!(is_empty::<PlainTagged>());
        assert!(is_empty::<BTreeMap<String, i64>>());
    }

    macro_rules! states {
        ($($name:ident { $(#[$attribute:meta])* $type:ty })*) => {
            $({
                #[derive(Deserialize, JsonSchema)]
                struct $name {
                    $(#[$attribute])*
                    x: $type,
                }
                assert!(!is_empty::<$name>(), stringify!($name));
            })*
        };
    }

    fn odd(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer" })
    }

    #[test]
    fn rules_that_a_type_does_not_check_are_checked() {
        states! {
            AtLeast { #[schemars(range(min = 1))] u32 }
            AtMost { #[schemars(range(max = 254))] u8 }
            Negative { #[schemars(range(min = 0))] i64 }
            Between { #[schemars(range(min = 0.0, max = 1.0))] Option<f64> }
            Long { #[schemars(length(min = 1))] String }
            Pattern { #[schemars(regex(pattern = "^a"))] String }
            Many { #[schemars(length(max = 3))] Vec<i64> }
            Inside { #[schemars(inner(range(min = 1)))] Vec<i64> }
            Set { HashSet<i64> }
            Listed { #[schemars(extend("enum" = ["a", "b"]))] String }
            Fixed { #[schemars(extend("const" = 7))] i64 }
            Needed { #[schemars(required)] Option<i64> }
            Stepped { #[schemars(extend("multipleOf" = 5))] i64 }
            Exclusive { #[schemars(extend("exclusiveMinimum" = 0))] f64 }
            Described { #[schemars(schema_with = "odd")] Value }
            Numbered { HashMap<u32, bool> }
            Whole { #[schemars(extend("additionalProperties" = false))] OpenStruct }
        }
        #[derive(Deserialize, JsonSchema)]
        struct OpenStruct {
            y: i64,
        }
        // An enum whose variants have rules that it does not check.
        #[derive(Deserialize, JsonSchema)]
        enum Bounded {
            A {
                #[schemars(range(min = 1))]
                x: i64,
            },
        }
        #[derive(Deserialize, JsonSchema)]
        struct Holds {
            bounded: Bounded,
        }
        assert!(!is_empty::<Holds>());
        assert!(!is_empty::<()>());
    }

    #[test]
    fn a_mistake_in_a_schema_is_an_error_when_it_is_compiled() {
        #[derive(Deserialize, JsonSchema)]
        struct Bad {
            #[schemars(regex(pattern = "("))]
            name: String,
        }
        let why = Constraints::of::<Bad>().expect_err("no pattern");
        assert!(why.starts_with("#/properties/name/pattern: the pattern ( cannot be used: "), "{why}");
        let why = Constraints::of::<Vec<i64>>().expect_err("no object");
        assert!(why.starts_with("arguments must be a JSON object, "), "{why}");

        for (schema, expected) in [
            (r#"{"type":"text"}"#, r##"#/type: "text" is not a type of JSON Schema"##),
            (r#"{"minimum":"1"}"#, "#/minimum: expected a number"),
            (r#"{"minLength":-1}"#, "#/minLength: expected an integer of at least 0"),
            (r#"{"properties":[]}"#, "#: expected an object"),
            (r#"{"items":[{}]}"#, "#/items: a schema is an object, true or false"),
            (r#"{"required":"a"}"#, "#/required: expected an array"),
            (r#"{"required":[1]}"#, "#/required: expected a string"),
            (r##"{"$ref":"#/$defs/a"}"##, "#/$ref: #/$defs/a does not exist in this schema"),
            (r#"{"$ref":"https://example.com/a"}"#, "#/$ref: https://example.com/a does not exist in this schema"),
            (
                r##"{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
                "a $ref refers back to itself without going deeper into the value",
            ),
            (r##"{"anyOf":[{"$ref":"#"}]}"##, "a $ref refers back to itself without going deeper into the value"),
            ("7", "#: a schema is an object, true or false"),
        ] {
            let raw = RawValue::from_string(schema.into()).expect("JSON");
            assert_eq!(Constraints::of_schema(&raw).expect_err(schema), expected, "{schema}");
        }
    }

    #[test]
    fn a_map_of_any_values_has_no_rules() {
        assert!(!is_empty::<Value>(), "a Value is read from any JSON, but arguments must be an object");
        assert!(is_empty::<Map<String, Value>>());
    }
}
