//! Checks a tool's arguments against a schema that is not generated from a type, and says where and why invalid
//! arguments violate the schema.

use barewire_proto::json::Json;
use serde_json::Value;
use serde_json::value::RawValue;

use super::any_schema::{PathSegment, SchemaError, SchemaValidator, Violation};
use super::arguments::BadArguments;
use super::check::Checker;
use super::messages::{MAX_REASON_CHARS, push_element, push_member, truncate};
use super::rules::Rules;
use super::type_shape::SchemaPlace;

/// The validator of one schema.
#[derive(Debug)]
pub(crate) struct Validator {
    schema: SchemaValidator,
    /// The rules of the keywords that this crate supports. Their error messages are better than the library's.
    own_rules: Option<Rules>,
}

impl Validator {
    /// Compiles a schema. `Err` is the reason why it cannot be used.
    pub(crate) fn new(schema: &RawValue) -> Result<Self, String> {
        if schema.get().len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema is longer than {MAX_SCHEMA_BYTES} bytes"));
        }
        let value: Value = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
        let schema = SchemaValidator::new(&value, MAX_SCHEMA_DEPTH).map_err(|error| match error {
            SchemaError::TooDeep(levels) => format!("the schema is nested deeper than {levels} levels"),
            SchemaError::Dialect(named) => {
                format!("the schema dialect {named} is not supported: use https://json-schema.org/draft/2020-12/schema")
            }
            SchemaError::Invalid { reason, .. } => {
                format!("not a valid schema: {}", truncate(&reason, MAX_REASON_CHARS))
            }
        })?;
        // In older dialects, some of the keywords that this crate supports have another meaning.
        let own_rules = schema.is_current().then(|| Rules::new(&value, &SchemaPlace::unknown()).ok()).flatten();
        Ok(Self { schema, own_rules })
    }

    /// Checks a value. `Err` has the path of the first violation, and the reason.
    pub(crate) fn check(&self, json: Json<'_>) -> Result<(), BadArguments> {
        let whole = |what: String| BadArguments { path: String::new(), what };
        if json.has_more_values_than(MAX_ARGUMENT_VALUES) {
            return Err(whole(format!("have more than {MAX_ARGUMENT_VALUES} values")));
        }
        let value: Value = json.to().map_err(|error| whole(error.to_string()))?;
        if self.schema.is_valid(&value) {
            return Ok(());
        }
        if let Some(own_rules) = &self.own_rules {
            Checker::new(own_rules).check_all(json)?;
        }
        Err(match self.schema.violation(&value) {
            // The library quotes whole values, so its reason is shortened.
            Some(Violation { path, reason, .. }) => {
                BadArguments { path: argument(&path), what: truncate(&reason, MAX_REASON_CHARS).into_owned() }
            }
            None => whole("do not match the schema".into()),
        })
    }
}

fn argument(segments: &[PathSegment]) -> String {
    let mut path = String::new();
    for segment in segments {
        match segment {
            PathSegment::Member(name) => push_member(&mut path, name),
            PathSegment::Element(index) => push_element(&mut path, *index),
        }
    }
    path
}

/// The maximum length of a schema in bytes. A schema becomes part of a model's context, and this limit amounts to tens
/// of thousands of tokens, more than the schema of any tool in use.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// The maximum nesting depth of a schema, because compiling and checking use stack space for each level. Schemas in use
/// have less than half as many levels.
const MAX_SCHEMA_DEPTH: usize = 64;

/// The maximum number of values in arguments. They are checked as a tree of values, which takes up to 25 MiB for this
/// many; a model writes far fewer.
const MAX_ARGUMENT_VALUES: usize = 65_536;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::schema::constraints::Constraints;

    fn validator(schema: &str) -> Result<Validator, String> {
        Validator::new(&RawValue::from_string(schema.into()).expect("JSON"))
    }

    fn check(schema: &str, value: &str) -> Result<(), String> {
        let json = Json::parse(value.as_bytes()).expect("JSON");
        validator(schema).expect("a schema").check(json).map_err(|bad| bad.to_string())
    }

    #[test]
    fn arguments_with_too_many_values_are_refused() {
        let validator = Validator::new(&RawValue::from_string("{}".into()).expect("JSON")).expect("a schema");
        let many = format!("[{}0]", "0,".repeat(MAX_ARGUMENT_VALUES));
        let refused = validator.check(Json::parse(many.as_bytes()).expect("JSON")).expect_err("too many");
        assert_eq!(refused.what, "have more than 65536 values");
        assert!(validator.check(Json::parse(b"[0]").expect("JSON")).is_ok());
    }

    #[test]
    fn an_error_names_the_place_and_the_reason() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}}}"#;
        assert_eq!(check(schema, r#"{"a":[1,2.0]}"#), Ok(()));
        assert_eq!(check(schema, r#"{"a":[1,"x"]}"#), Err(r#"argument "a[1]": expected an integer, got "x""#.into()));
        // Keywords that only the library supports.
        let contains = r#"{"properties":{"a b":{"contains":{"const":1}}}}"#;
        let why = check(contains, r#"{"a b":[2]}"#).expect_err("contains no 1");
        assert!(why.starts_with(r#"argument "["a b"]": "#), "{why}");
        let unevaluated = r#"{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}"#;
        assert_eq!(check(unevaluated, r#"{"a":1}"#), Ok(()));
        let long = format!("{{\"b\":\"{}\"}}", "x".repeat(1000));
        assert!(check(unevaluated, &long).expect_err("unknown").chars().count() < MAX_REASON_CHARS + 20);
        assert!(check("true", "1e400").expect_err("no double").contains("out of range"));
    }

    #[test]
    fn the_dialect_is_the_one_that_is_named() {
        let tuple = |schema: &str| check(&format!(r#"{{{schema}"items":[{{"type":"integer"}}]}}"#), r#"["x"]"#);
        for old in ["draft-04", "draft-06", "draft-07"] {
            let why = tuple(&format!(r#""$schema":"http://json-schema.org/{old}/schema#","#)).expect_err(old);
            assert!(why.starts_with("argument \"[0]\": "), "{why}");
        }
        assert!(tuple(r#""$schema":"https://json-schema.org/draft/2019-09/schema","#).is_err());
        // In 2020-12, `items` must not be an array.
        let why = validator(r#"{"items":[{"type":"integer"}]}"#).expect_err("not a schema");
        assert!(why.starts_with("not a valid schema: "));
        for other in ["https://example.com/dialect", "http://json-schema.org/draft-03/schema#"] {
            let why = validator(&format!(r#"{{"$schema":"{other}"}}"#)).expect_err(other);
            assert!(why.starts_with(&format!("the schema dialect \"{other}\" is not supported: ")), "{why}");
        }
        assert!(validator(r#"{"$schema":7}"#).is_err());
    }

    #[test]
    fn nothing_is_fetched() {
        for reference in ["https://example.com/schema.json", "file:///etc/passwd", "other.json", "#/$defs/none"] {
            assert!(validator(&format!(r#"{{"$ref":"{reference}"}}"#)).is_err(), "{reference}");
        }
        assert_eq!(check(r##"{"$defs":{"a":{"type":"null"}},"$ref":"#/$defs/a"}"##, "null"), Ok(()));
    }

    #[test]
    fn schemas_beyond_the_limits_are_refused() {
        let deep = |levels| format!("{}true{}", r#"{"not":"#.repeat(levels), "}".repeat(levels));
        assert!(validator(&deep(MAX_SCHEMA_DEPTH)).is_ok());
        assert_eq!(
            validator(&deep(MAX_SCHEMA_DEPTH + 1)).expect_err("deep"),
            "the schema is nested deeper than 64 levels"
        );
        let long = format!(r#"{{"description":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES));
        assert_eq!(validator(&long).expect_err("long"), "the schema is longer than 262144 bytes");
        assert!(validator(r#"{"pattern":"(?=a)"}"#).is_err(), "a pattern that needs backtracking");
    }

    #[test]
    fn no_value_makes_the_work_double_with_every_level() {
        let nested = |inner: &str| format!("{}{inner}{}", "[".repeat(100), "]".repeat(100));
        for schema in [
            r##"{"anyOf":[{"type":"array","items":{"$ref":"#"},"maxItems":1},
                {"type":"array","items":{"$ref":"#"},"minItems":2},{"type":"integer"}]}"##,
            r##"{"$dynamicAnchor":"node","anyOf":[{"type":"array","items":{"$dynamicRef":"#node"},"contains":true},
                {"type":"array","items":{"$dynamicRef":"#node"},"minItems":2},{"type":"integer"}]}"##,
        ] {
            assert_eq!(check(schema, &nested("1")), Ok(()));
            assert!(check(schema, &nested("\"x\"")).is_err());
        }
    }

    /// Generates schemas with the keywords that [`Constraints`] supports.
    fn schema() -> impl Strategy<Value = Value> {
        let small = || 0..4i64;
        let kind = prop::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!(false)),
            kind.prop_map(|kind| json!({ "type": kind })),
            small().prop_map(|n| json!({ "minimum": n })),
            small().prop_map(|n| json!({ "exclusiveMaximum": n })),
            (1..4i64).prop_map(|n| json!({ "multipleOf": n })),
            small().prop_map(|n| json!({ "minLength": n, "maxLength": n + 1 })),
            small().prop_map(|n| json!({ "minItems": n, "maxItems": n + 1 })),
            small().prop_map(|n| json!({ "minProperties": n, "maxProperties": n + 1 })),
            Just(json!({ "uniqueItems": true })),
            Just(json!({ "pattern": "^a*$" })),
            Just(json!({ "required": ["a"] })),
            prop::collection::vec(value(), 1..3).prop_map(|values| json!({ "enum": values })),
            value().prop_map(|value| json!({ "const": value })),
            Just(json!({ "$ref": "#/$defs/d" })),
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            let several = prop::collection::vec(inner.clone(), 1..3);
            prop_oneof![
                several.clone().prop_map(|all| json!({ "allOf": all })),
                several.clone().prop_map(|any| json!({ "anyOf": any })),
                several.clone().prop_map(|one| json!({ "oneOf": one })),
                inner.clone().prop_map(|not| json!({ "not": not })),
                (several, inner.clone()).prop_map(|(first, rest)| json!({ "prefixItems": first, "items": rest })),
                (inner.clone(), inner.clone(), inner)
                    .prop_map(|(a, b, rest)| json!({ "properties": { "a": a }, "patternProperties": { "^b": b },
                        "additionalProperties": rest })),
            ]
        })
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-1..5i64).prop_map(Value::from),
            Just(json!(1.5)),
            Just(json!(2.0)),
            "[ab]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[abc]b?", inner, 0..3).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Our own rules and the library accept the same values.
        #[test]
        fn our_rules_and_the_library_agree(schema in schema(), of in schema(), value in value()) {
            let mut whole = json!({ "$defs": { "d": of } });
            match schema {
                Value::Object(mut schema) => whole.as_object_mut().expect("an object").append(&mut schema),
                other => whole["allOf"] = json!([other]),
            }
            let raw = RawValue::from_string(whole.to_string()).expect("JSON");
            // A definition that refers to itself is refused.
            let Ok(own_rules) = Constraints::of_schema(&raw) else { return Ok(()) };
            let text = value.to_string();
            let json = Json::parse(text.as_bytes()).expect("JSON");
            let library = Validator::new(&raw).expect("a schema").schema.is_valid(&value);
            prop_assert_eq!(own_rules.check(json).is_ok(), library, "{} {}", whole, value);
        }
    }
}
