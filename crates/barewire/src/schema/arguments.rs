//! Converts the arguments of a call to the type that the handler accepts. The error messages tell a model how to
//! correct the arguments.

use std::error::Error;
use std::fmt;

use barewire_proto::json::{Decimal, Json, Kind};
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use super::constraints::Constraints;
use super::messages::{MAX_REASON_CHARS, describe_value, push_element, push_member, truncate};

/// Deserializes arguments and checks their constraints. Absent arguments are read as an empty object.
pub(crate) fn read<T: DeserializeOwned>(
    arguments: Option<Json<'_>>,
    constraints: &Constraints,
) -> Result<T, BadArguments> {
    let Some(json) = arguments else {
        return read(Some(Json::parse(b"{}").expect("an object is JSON")), constraints);
    };
    // An array is refused, because serde would also deserialize a struct from an array.
    if json.kind() != Kind::Object {
        let what = format!("expected an object, got {}", describe_value(json));
        return Err(BadArguments { path: String::new(), what });
    }
    // serde does not deserialize `()` and unit structs from objects, so they are deserialized from null.
    if size_of::<T>() == 0
        && let Ok(nothing) = serde_json::from_str("null")
    {
        return constraints.check(json).map(|()| nothing);
    }
    match json.to() {
        Ok(read) => constraints.check(json).map(|()| read),
        Err(_) => read_leniently(json, constraints),
    }
}

/// Deserializes arguments that serde refused but JSON Schema accepts, such as 30.0 for an integer. If that fails,
/// returns the reason.
#[cold]
fn read_leniently<T: DeserializeOwned>(json: Json<'_>, constraints: &Constraints) -> Result<T, BadArguments> {
    let text = with_integers(json.as_str());
    if let Some(read) = text.as_deref().and_then(|text| serde_json::from_str(text).ok()) {
        return constraints.check(json).map(|()| read);
    }
    // Violations of the schema are reported first, because the model knows the schema.
    constraints.check_everything(json)?;
    // The type can check more than its schema says.
    let mut source = serde_json::Deserializer::from_str(text.as_deref().unwrap_or(json.as_str()));
    match serde_path_to_error::deserialize(&mut source) {
        Ok(read) => constraints.check(json).map(|()| read),
        Err(error) => {
            let mut path = String::new();
            for segment in error.path() {
                match segment {
                    Segment::Seq { index } => push_element(&mut path, *index),
                    Segment::Map { key } => push_member(&mut path, key),
                    Segment::Enum { variant } => push_member(&mut path, variant),
                    Segment::Unknown => {}
                }
            }
            let text = error.inner().to_string();
            // The line and column are removed from the error text, because they do not help a client that sent one line
            // of JSON.
            let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
            Err(BadArguments { path, what: truncate(what, MAX_REASON_CHARS).into_owned() })
        }
    }
}

/// Returns `text` with integers such as 30.0 and 3e1 rewritten as 30, because JSON Schema accepts them as integers;
/// `None` if `text` has no such integers.
fn with_integers(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = at;
                while bytes.get(at).is_some_and(|b| matches!(b, b'+' | b'-' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
                    at += 1;
                }
                let number = &text[start..at];
                let decimal = || Decimal::from_json(Json::parse(number.as_bytes()).ok()?);
                if number.contains(['.', 'e', 'E'])
                    && let Some(integer) = decimal().and_then(|decimal| decimal.to_integer())
                {
                    out.extend([&text[copied..start], &*integer]);
                    copied = at;
                }
            }
            _ => at += 1,
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// The reason why arguments are invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadArguments {
    /// The path of the argument, such as `a.b[2]`; empty for the arguments as a whole.
    pub(crate) path: String,
    /// The reason: the expected and the actual value.
    pub(crate) what: String,
}

impl fmt::Display for BadArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => write!(f, "arguments: {}", self.what),
            path => write!(f, "argument \"{path}\": {}", self.what),
        }
    }
}

impl Error for BadArguments {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Args {
        #[schemars(range(min = 1, max = 100))]
        limit: u32,
        #[serde(default)]
        nested: Option<NestedArgs>,
        #[serde(default)]
        colour: Option<ArgColour>,
        #[serde(default)]
        address: Option<Address>,
        #[serde(default)]
        tags: BTreeMap<String, Vec<i64>>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct NestedArgs {
        names: Vec<String>,
        #[schemars(range(min = 0))]
        depth: i64,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    enum ArgColour {
        Red,
        Blue,
    }

    /// Checks more than its schema.
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(try_from = "String")]
    struct Address(Ipv4Addr);

    impl TryFrom<String> for Address {
        type Error = String;

        fn try_from(text: String) -> Result<Self, String> {
            text.parse().map(Self).map_err(|_| format!("{text} is no address"))
        }
    }

    fn read_as<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<T, String> {
        let constraints = Constraints::of::<T>().expect("constraints");
        let json = Json::parse(text.as_bytes()).expect("JSON");
        read(Some(json), &constraints).map_err(|bad| bad.to_string())
    }

    #[test]
    fn good_arguments_are_read() {
        let args = read_as::<Args>(
            r#"{"limit":5,"nested":{"names":["a"],"depth":2},"colour":"blue","address":"127.0.0.1","tags":{"x":[1]},"more":1}"#,
        )
        .expect("good");
        assert_eq!(args.nested, Some(NestedArgs { names: vec!["a".into()], depth: 2 }));
        assert_eq!(args.tags["x"], [1]);
    }

    #[test]
    fn an_error_names_the_argument_and_the_expected_and_actual_values() {
        for (text, what) in [
            ("{}", r#"arguments: missing "limit""#),
            (r#"{"limit":"5"}"#, r#"argument "limit": expected an integer, got "5""#),
            (r#"{"limit":null}"#, r#"argument "limit": expected an integer, got null"#),
            (r#"{"limit":1.5}"#, r#"argument "limit": expected an integer, got 1.5"#),
            (r#"{"limit":0}"#, r#"argument "limit": must be at least 1, got 0"#),
            (r#"{"limit":-1}"#, r#"argument "limit": must be at least 1, got -1"#),
            (r#"{"limit":101}"#, r#"argument "limit": must be at most 100, got 101"#),
            (r#"{"limit":1,"nested":{"depth":1}}"#, r#"argument "nested": missing "names""#),
            (
                r#"{"limit":1,"nested":{"names":["a",2],"depth":1}}"#,
                r#"argument "nested.names[1]": expected a string, got 2"#,
            ),
            (
                r#"{"limit":1,"nested":{"names":[],"depth":1,"size":1}}"#,
                r#"argument "nested.size": is not a known member; the known members are "depth", "names""#,
            ),
            (r#"{"limit":1,"colour":"pink"}"#, r#"argument "colour": expected one of "red", "blue", null, got "pink""#),
            (r#"{"limit":1,"address":"here"}"#, r#"argument "address": here is no address"#),
            (r#"{"limit":1,"tags":{"a b":[1,"x"]}}"#, r#"argument "tags["a b"][1]": expected an integer, got "x""#),
            (r#"{"limit":1,"limit":2}"#, "arguments: duplicate field `limit`"),
            ("[1]", "arguments: expected an object, got an array"),
            ("null", "arguments: expected an object, got null"),
        ] {
            assert_eq!(read_as::<Args>(text).expect_err(text), what, "{text}");
        }
    }

    /// serde also deserializes a struct from an array, which must not bypass the struct's constraints.
    #[test]
    fn positional_members_do_not_bypass_constraints() {
        let positional = r#"{"limit":1,"nested":[["a"],-1]}"#;
        assert!(serde_json::from_str::<Args>(positional).is_ok());
        assert_eq!(
            read_as::<Args>(positional).expect_err("an array"),
            r#"argument "nested": expected null or an object, got an array"#
        );
    }

    #[test]
    fn integers_may_be_written_with_point_and_exponent() {
        let args = read_as::<Args>(
            r#"{"limit":30.0,"nested":{"names":["1.0","\"2.0"],"depth":2e0},"tags":{"3.0":[1,-4.0e0]}}"#,
        );
        let args = args.expect("integers");
        assert_eq!((args.limit, args.tags["3.0"][1]), (30, -4));
        assert_eq!(args.nested, Some(NestedArgs { names: vec!["1.0".into(), "\"2.0".into()], depth: 2 }));
        assert_eq!(read_as::<Args>(r#"{"limit":3e1}"#).map(|args| args.limit), Ok(30));
        assert_eq!(
            read_as::<Args>(r#"{"limit":1.01e2}"#).expect_err("too large"),
            r#"argument "limit": must be at most 100, got 1.01e2"#
        );
        #[derive(Deserialize, JsonSchema)]
        struct WideNumbers {
            a: u64,
            b: i64,
            c: f64,
        }
        let wide = read_as::<WideNumbers>(r#"{"a":1.8446744073709551615e19,"b":-9.223372036854775808e18,"c":2.0}"#)
            .expect("fits");
        assert_eq!((wide.a, wide.b, wide.c.to_bits()), (u64::MAX, i64::MIN, 2f64.to_bits()));
        assert_eq!(
            read_as::<WideNumbers>(r#"{"a":1e20,"b":0,"c":0}"#).err().as_deref(),
            Some(r#"argument "a": invalid type: floating point `1e+20`, expected u64"#)
        );
    }

    #[test]
    fn absent_arguments_are_an_object_without_members() {
        #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
        struct Optional {
            a: Option<i64>,
        }
        #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
        struct UnitArgs;
        #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
        struct EmptyArgs {}

        let optional = Constraints::of::<Optional>().expect("constraints");
        assert_eq!(read::<Optional>(None, &optional), Ok(Optional { a: None }));
        let args = Constraints::of::<Args>().expect("constraints");
        assert_eq!(read::<Args>(None, &args).expect_err("missing").what, r#"missing "limit""#);
        let unit = Constraints::of::<UnitArgs>().expect("constraints");
        assert_eq!(read::<UnitArgs>(None, &unit), Ok(UnitArgs));

        assert_eq!(read_as::<()>("{}"), Ok(()));
        assert_eq!(read_as::<()>(" { } "), Ok(()));
        assert_eq!(read_as::<UnitArgs>("{}"), Ok(UnitArgs));
        assert_eq!(read_as::<EmptyArgs>(r#"{"x":1}"#), Ok(EmptyArgs {}));
        assert_eq!(read_as::<()>(r#"{"x":1}"#), Err(r#"argument "x": is not a known member"#.into()));
        assert_eq!(read_as::<()>("null"), Err("arguments: expected an object, got null".into()));
    }

    #[test]
    fn a_schema_written_by_hand_is_checked_for_a_value() {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer","maximum":5}},"required":["n"]}"#;
        let schema = serde_json::value::RawValue::from_string(schema.into()).expect("JSON");
        let constraints = Constraints::of_schema(&schema).expect("constraints");
        let read = |text: &str| {
            let json = Json::parse(text.as_bytes()).expect("JSON");
            read::<Value>(Some(json), &constraints).map_err(|bad| bad.to_string())
        };
        assert_eq!(read(r#"{"n":5.0,"more":[]}"#), Ok(serde_json::json!({"n": 5.0, "more": []})));
        assert_eq!(read("{}"), Err(r#"arguments: missing "n""#.into()));
        assert_eq!(read(r#"{"n":6}"#), Err(r#"argument "n": must be at most 5, got 6"#.into()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn only_the_spelling_of_integers_changes(
            elements in prop::collection::vec("-?(0|[1-9][0-9]{0,2})(\\.[05]{1,2})?(e[+-]?[0-2])?|\"(1\\.0|\\\\[\"\\\\])*\"", 0..6),
        ) {
            let text = format!("[{}]", elements.join(" ,"));
            let canonical = |text: &str| {
                let mut bytes = Vec::new();
                crate::schema::canonical::push(&mut bytes, Json::parse(text.as_bytes()).expect("JSON"));
                bytes
            };
            let rewritten = with_integers(&text).unwrap_or_else(|| text.clone());
            prop_assert_eq!(canonical(&text), canonical(&rewritten));
            for element in Json::parse(rewritten.as_bytes()).expect("JSON").elements() {
                let is_integer = Decimal::from_json(element).is_some_and(|number| number.is_integer());
                prop_assert!(!is_integer || !element.as_str().contains(['.', 'e']), "{}", element);
            }
        }

        #[test]
        fn a_number_is_read_alike_however_it_is_written(n in any::<i32>(), zeros in 0usize..4, shift in 0u32..5) {
            let written = format!("{{\"n\":{n}{}.{}e-{shift}}}", "0".repeat(shift as usize), "0".repeat(zeros + 1));
            #[derive(Deserialize, JsonSchema)]
            struct Number {
                n: i32,
            }
            prop_assert_eq!(read_as::<Number>(&written).map(|number| number.n), Ok(n));
        }
    }
}
