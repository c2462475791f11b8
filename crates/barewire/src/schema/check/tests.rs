//! Tests of checking values against schemas, and of the messages for invalid values.

use serde_json::value::RawValue;

use super::*;
use crate::schema::constraints::Constraints;

fn check(schema: &str, value: &str) -> Result<(), String> {
    let schema = RawValue::from_string(schema.into()).expect("JSON");
    let constraints = Constraints::of_schema(&schema).expect("a schema");
    let json = Json::parse(value.as_bytes()).expect("JSON");
    constraints
        .check(json)
        .map_err(|bad| if bad.path.is_empty() { bad.what } else { format!("{}: {}", bad.path, bad.what) })
}

/// A table of schemas, each with valid values, and with invalid values and their messages.
#[test]
#[rustfmt::skip] // a table
fn keywords_mean_what_json_schema_says() {
    for (schema, valid, invalid) in [
        ("true", &["1", "null"][..], &[][..]),
        ("false", &[], &[("1", "must be absent")]),
        (r#"{"type":"integer"}"#, &["1", "-30.0", "3e1", "1e400"], &[
            ("1.5", "expected an integer, got 1.5"),
            (r#""5""#, r#"expected an integer, got "5""#),
            ("[]", "expected an integer, got an array"),
        ]),
        (r#"{"type":["number","null"]}"#, &["1", "1.5", "null"], &[("true", "expected null or a number, got true")]),
        (r#"{"minimum":1}"#, &["1", "1.0", r#""0""#], &[("0.999", "must be at least 1, got 0.999")]),
        (r#"{"maximum":9007199254740992}"#, &["9007199254740992"], &[
            ("9007199254740993", "must be at most 9007199254740992, got 9007199254740993"),
            ("1e400", "must be at most 9007199254740992, got 1e400"),
        ]),
        (r#"{"maximum":18446744073709551615}"#, &["18446744073709551615"], &[
            ("18446744073709551616", "must be at most 18446744073709551615, got 18446744073709551616"),
        ]),
        (r#"{"exclusiveMinimum":0.5}"#, &["0.51"], &[("0.5", "must be more than 0.5, got 0.5")]),
        (r#"{"exclusiveMaximum":-9223372036854775808}"#, &["-9223372036854775809"], &[
            ("-9223372036854775808", "must be less than -9223372036854775808, got -9223372036854775808"),
        ]),
        (r#"{"multipleOf":0.01}"#, &["0.07", "19.99", "0"], &[("0.075", "must be a multiple of 0.01, got 0.075")]),
        (r#"{"minLength":2,"maxLength":3}"#, &[r#""é😀""#, r#""\u0061bc""#, "1"], &[
            (r#""😀""#, "must have at least 2 characters, has 1"),
            (r#""abcd""#, "must have at most 3 characters, has 4"),
        ]),
        (r#"{"pattern":"^a\\d+$"}"#, &[r#""a1""#, r#""\u00611""#], &[
            (r#""b""#, r#"must match the pattern ^a\d+$, got "b""#),
        ]),
        (r#"{"minItems":1,"maxItems":2}"#, &["[1]", "[[],[]]", "{}"], &[
            ("[]", "must have at least 1 element, has 0"),
            ("[1,2,3]", "must have at most 2 elements, has 3"),
        ]),
        (r#"{"uniqueItems":true}"#, &["[1,2]", r#"[1,"1",true]"#, r#"[{"a":1},{"a":2}]"#], &[
            ("[1,2,1.0]", "elements 0 and 2 are equal, all must differ"),
            (r#"[3,{"a":1,"b":2},{"b":2,"a":1.0}]"#, "elements 1 and 2 are equal, all must differ"),
        ]),
        (r#"{"uniqueItems":false}"#, &["[1,1]"], &[]),
        (r#"{"items":{"type":"string"}}"#, &["[]", r#"["a"]"#], &[(r#"["a",1]"#, "[1]: expected a string, got 1")]),
        (r#"{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}"#, &["[]", r#"["a",1]"#], &[
            ("[1]", "[0]: expected a string, got 1"),
            (r#"["a","b"]"#, r#"[1]: expected an integer, got "b""#),
        ]),
        (r#"{"minProperties":2}"#, &[r#"{"a":1,"b":1}"#], &[
            (r#"{"a":1,"a":2}"#, "must have at least 2 members, has 1"),
        ]),
        (r#"{"maxProperties":1}"#, &[r#"{"a":1}"#, "{}"], &[
            (r#"{"a":1,"b":2}"#, "must have at most 1 member, has 2"),
        ]),
        (r#"{"required":["a","b"]}"#, &[r#"{"\u0061":1,"b":null}"#, "[]"], &[
            (r#"{"b":1}"#, r#"missing "a""#),
            ("{}", r#"missing "a", "b""#),
        ]),
        (r#"{"properties":{"a":{"properties":{"b":{"items":{"type":"string"}}}}}}"#, &["{}", r#"{"a":{"c":1}}"#], &[
            (r#"{"a":{"b":["x","y",3]}}"#, "a.b[2]: expected a string, got 3"),
            (r#"{"\u0061":{"b":[null]}}"#, "a.b[0]: expected a string, got null"),
        ]),
        (r#"{"properties":{"a":true},"additionalProperties":false}"#, &["{}", r#"{"a":1}"#], &[
            (r#"{"a":1,"odd name":2}"#, r#"["odd name"]: is not a known member; the known members are "a""#),
        ]),
        (r#"{"additionalProperties":{"type":"integer"}}"#, &[r#"{"a":1}"#], &[
            (r#"{"a":"x"}"#, r#"a: expected an integer, got "x""#),
        ]),
        (r#"{"patternProperties":{"^\\d+$":{"type":"integer"}},"additionalProperties":false}"#, &[r#"{"7":1}"#], &[
            (r#"{"7":"x"}"#, r#"7: expected an integer, got "x""#),
            (r#"{"x":1}"#, "x: is not a known member"),
        ]),
        (r#"{"enum":["a",1,null,{"b":[2]}]}"#, &[r#""a""#, r#""\u0061""#, "1.0", "null", r#"{"b":[2e0]}"#], &[
            (r#""b""#, r#"expected one of "a", 1, null, {"b":[2]}, got "b""#),
            ("2", r#"expected one of "a", 1, null, {"b":[2]}, got 2"#),
        ]),
        (r#"{"const":"a"}"#, &[r#""a""#], &[(r#""b""#, r#"expected "a", got "b""#)]),
        (r#"{"allOf":[{"minimum":1},{"maximum":2}]}"#, &["1", "2"], &[("3", "must be at most 2, got 3")]),
        (r#"{"not":{"const":0}}"#, &["1", "null"], &[("0.0", "0.0 is excluded")]),
    ] {
        for value in valid {
            assert_eq!(check(schema, value), Ok(()), "{schema} {value}");
        }
        for (value, what) in invalid {
            assert_eq!(check(schema, value), Err((*what).to_owned()), "{schema} {value}");
        }
    }
}

#[test]
fn the_message_is_that_of_the_intended_alternative() {
    let optional =
        r#"{"anyOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}},{"type":"null"}]}"#;
    assert_eq!(check(optional, "null"), Ok(()));
    assert_eq!(check(optional, r#"{"a":1}"#), Ok(()));
    assert_eq!(check(optional, r#"{"a":"x"}"#), Err(r#"a: expected an integer, got "x""#.into()));
    assert_eq!(check(optional, "7"), Err("expected null or an object, got 7".into()));

    let documented = r#"{"oneOf":[{"type":"string","const":"red"},{"type":"string","enum":["blue","green"]}]}"#;
    assert_eq!(check(documented, r#""green""#), Ok(()));
    assert_eq!(check(documented, r#""pink""#), Err(r#"expected one of "red", "blue", "green", got "pink""#.into()));

    let tagged = r#"{"oneOf":[
        {"type":"object","properties":{"do":{"const":"go"},"to":{"type":"string"}},"required":["do","to"]},
        {"type":"object","properties":{"do":{"const":"stop"},"at":{"type":"integer"}},"required":["do"]}]}"#;
    assert_eq!(check(tagged, r#"{"do":"go","to":"x"}"#), Ok(()));
    assert_eq!(check(tagged, r#"{"do":"go"}"#), Err(r#"missing "to""#.into()));
    assert_eq!(check(tagged, r#"{"do":"stop","at":"x"}"#), Err(r#"at: expected an integer, got "x""#.into()));
    assert_eq!(check(tagged, r#"{"do":"jump"}"#), Err("matches none of the allowed alternatives".into()));

    let external = r#"{"oneOf":[
        {"type":"object","properties":{"Go":{"type":"string"}},"required":["Go"],"additionalProperties":false},
        {"type":"object","properties":{"Wait":{"type":"integer"}},"required":["Wait"],"additionalProperties":false}]}"#;
    assert_eq!(check(external, r#"{"Wait":"x"}"#), Err(r#"Wait: expected an integer, got "x""#.into()));
    assert_eq!(check(external, r#"{"Wait":1}"#), Ok(()));

    assert_eq!(check(r#"{"oneOf":[{"minimum":1},{"minimum":2}]}"#, "1"), Ok(()));
    assert_eq!(
        check(r#"{"oneOf":[{"minimum":1},{"minimum":2}]}"#, "2"),
        Err("matches more than one of the allowed alternatives".into())
    );
}

#[test]
fn unsupported_keywords_refuse_nothing() {
    let unknown = r#"{"oneOf":[{"type":"array","contains":{"const":1}},{"type":"array","contains":{"const":2}}]}"#;
    assert_eq!(check(unknown, "[1]"), Ok(()));
    assert_eq!(check(unknown, "[2]"), Ok(()));
    assert_eq!(check(unknown, "{}"), Err("expected an array, got an object".into()));
    assert_eq!(check(r#"{"not":{"contains":{"const":1}}}"#, "[2]"), Ok(()));
    assert_eq!(check(r#"{"if":{"const":1},"then":false,"minimum":0}"#, "2"), Ok(()));
}

#[test]
fn references_are_followed_as_deep_as_the_value_goes() {
    let tree = r##"{"$defs":{"a/b %":{"type":"object","properties":{
        "value":{"type":"integer","minimum":1},"children":{"items":{"$ref":"#/$defs/a~1b%20%25"}}}}},
        "properties":{"root":{"$ref":"#/$defs/a~1b%20%25"}}}"##;
    assert_eq!(check(tree, r#"{"root":{"value":1,"children":[{"value":2},{"children":[{"value":3}]}]}}"#), Ok(()));
    assert_eq!(
        check(tree, r#"{"root":{"children":[{},{"children":[{"value":0}]}]}}"#),
        Err("root.children[1].children[0].value: must be at least 1, got 0".into())
    );
}

#[test]
fn alternatives_that_refer_back_do_not_double_the_work() {
    let schema = r##"{"anyOf":[
        {"type":"array","items":{"$ref":"#"},"maxItems":1},
        {"type":"array","items":{"$ref":"#"},"minItems":2},
        {"type":"integer"}]}"##;
    let nested = |inner: &str| format!("{}{inner}{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(check(schema, &nested("1")), Ok(()));
    assert!(check(schema, &nested("\"x\"")).is_err());
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let why = check(r##"{"items":{"$ref":"#"}}"##, &deep).expect_err("too deep");
    assert!(why.ends_with("[0]: is nested too deep"), "{why}");
}

#[test]
fn quoted_values_are_short() {
    let long = format!("\"{}\"", "é".repeat(1000));
    let why = check(r#"{"type":"integer"}"#, &long).expect_err("a string");
    assert_eq!(why, format!("expected an integer, got \"{}…", "é".repeat(59)));
    let name = format!("{{\"{}\":1}}", "x".repeat(1000));
    let why = check(r#"{"additionalProperties":false}"#, &name).expect_err("unknown");
    assert_eq!(why, format!("[\"{}…\"]: is not a known member", "x".repeat(60)));
}
