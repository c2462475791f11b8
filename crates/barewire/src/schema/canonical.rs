//! Converts a JSON value to bytes that are equal if and only if the values are equal, regardless of the order of
//! members, the notation of numbers, escapes in strings, and white space.

use barewire_proto::json::{Decimal, Json, Kind, Text};

/// Appends the canonical bytes of `json` to `out`.
pub(crate) fn push(out: &mut Vec<u8>, json: Json<'_>) {
    push_within(out, json, MAX_DEPTH);
}

/// Appends the length of `bytes`, and then `bytes`. The length shows where `bytes` ends when more bytes follow.
pub(crate) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes.len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(bytes);
}

fn push_within(out: &mut Vec<u8>, json: Json<'_>, levels: usize) {
    match json.kind() {
        Kind::Null => out.push(b'n'),
        Kind::True => out.push(b't'),
        Kind::False => out.push(b'f'),
        Kind::Number => {
            let number = Decimal::from_json(json).expect("the kind is a number");
            out.push(b'#');
            push_bytes(out, number.to_string().as_bytes());
        }
        Kind::String => {
            let text = Text::from_json(json).expect("the kind is a string");
            out.push(b'"');
            push_bytes(out, &text.to_bytes());
        }
        // Values nested this deep cannot be deserialized anyway. Only their text is compared, so equal values can be
        // considered different, but different values are never considered equal.
        Kind::Array | Kind::Object if levels == 0 => {
            out.push(b'!');
            push_bytes(out, json.as_bytes());
        }
        Kind::Array => {
            out.push(b'[');
            json.elements().for_each(|element| push_within(out, element, levels - 1));
            out.push(b']');
        }
        Kind::Object => {
            let mut members: Vec<_> = json.members().map(|member| (member.name.to_bytes(), member.value)).collect();
            // The sort is stable, because the order of members with the same name matters: most readers use the last of
            // them.
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            out.push(b'{');
            for (name, value) in members {
                push_bytes(out, &name);
                push_within(out, value, levels - 1);
            }
            out.push(b'}');
        }
    }
}

/// The maximum depth that `serde_json` accepts, in levels. It limits the stack space that a value can use.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn canonical(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, Json::parse(text.as_bytes()).expect("JSON"));
        out
    }

    #[test]
    fn spelling_does_not_matter() {
        for (a, b) in [
            (r#"{"a":1,"b":2.0}"#, r#" { "b" : 2 , "a" : 1.0 } "#),
            (r#"{"a":{"x":[1,{"p":1,"q":2}],"y":0}}"#, r#"{"\u0061":{"y":-0.0,"x":[1e0,{"q":20e-1,"p":1}]}}"#),
            (r#""\u00e9\/""#, r#""é/""#),
            ("18446744073709551616", "1.8446744073709551616e19"),
            ("[ ]", "[]"),
        ] {
            assert_eq!(canonical(a), canonical(b), "{a} {b}");
        }
    }

    #[test]
    fn values_do_matter() {
        let values = [
            "null",
            "true",
            "false",
            "0",
            "1",
            "-1",
            "10",
            "\"\"",
            "\"1\"",
            "\"null\"",
            "[]",
            "[[]]",
            "[1]",
            "[1,0]",
            "[10]",
            "[\"1\"]",
            "[[1],0]",
            "[[1,0]]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":2,"b":1}"#,
            r#"{"a":{"b":2}}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
            r#"{"":{}}"#,
            "[{}]",
            // Numbers that are equal as doubles, and lone surrogates, which no Rust string can hold.
            "9007199254740992",
            "9007199254740993",
            "1e400",
            "1e401",
            r#""\ud800""#,
            r#""\ud801""#,
            r#""\ufffd""#,
        ];
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                assert_eq!(canonical(a) == canonical(b), i == j, "{a} {b}");
            }
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(canonical(&deep("1")), canonical(&deep("1")));
        assert_ne!(canonical(&deep("1")), canonical(&deep("2")));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-3..3i64).prop_map(Value::from),
            "[a-c\"\\\\é]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[a-c]{0,2}", inner), 0..4).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    /// Returns JSON text of the same value, written in another way.
    fn rewritten(value: &Value) -> String {
        match value {
            Value::Number(number) => format!("{number}.0e0"),
            Value::String(text) => {
                let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
                format!("\"{units}\"")
            }
            Value::Array(elements) => {
                format!("[ {} ]", elements.iter().map(rewritten).collect::<Vec<_>>().join(" ,"))
            }
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    format!("{} : {}", rewritten(&Value::from(&**name)), rewritten(value))
                };
                let members: Vec<_> = members.iter().rev().map(member).collect();
                format!("{{ {} }}", members.join(" , "))
            }
            literal => literal.to_string(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn equal_exactly_if_the_values_are(a in json(), b in json()) {
            prop_assert_eq!(canonical(&a.to_string()), canonical(&rewritten(&a)));
            prop_assert_eq!(canonical(&a.to_string()) == canonical(&b.to_string()), a == b);
        }
    }
}
