//! A definition -> its leaves in the order of their JSON Pointers, and the SHA-256 of these leaves. Two definitions
//! with the same values have the same leaves, whatever the order of their members and their white space.

use std::fmt::Write;

use barewire_proto::json::{Decimal, Json, Kind, Text};
use ring::digest::{Context, SHA256};

use super::walk::{Part, walk};
use crate::text::safe_json;
use crate::tree::MAX_TREE_VALUES;

/// A part of a definition that has no parts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::check) struct Leaf {
    /// The JSON Pointer in the definition.
    pub(in crate::check) pointer: String,
    /// The value as JSON text, in the form of [`canonical`].
    pub(in crate::check) value: String,
}

/// Returns the leaves of a definition without those that `is_left_out` names by their JSON Pointer, sorted by their
/// pointers. Returns `None` if the definition is too large.
pub(in crate::check) fn leaves(definition: Json<'_>, is_left_out: impl Fn(&str) -> bool) -> Option<Vec<Leaf>> {
    if definition.has_more_values_than(MAX_TREE_VALUES) {
        return None;
    }
    let (mut leaves, mut room) = (Vec::new(), Some(MAX_LEAVES_LENGTH));
    walk(definition, |path, part| {
        let Part::Leaf(leaf) = part else { return };
        // Each leaf has the names of all members that lead to it, so the leaves can be far longer than the text.
        room = room.and_then(|room| room.checked_sub(path.length() + leaf.as_bytes().len()));
        if room.is_none() {
            return;
        }
        let mut pointer = String::new();
        path.push_pointer(&mut pointer);
        if !is_left_out(&pointer) {
            leaves.push(Leaf { pointer, value: canonical(leaf) });
        }
    });
    room?;
    // The sort is stable: two members with the same name keep their order.
    leaves.sort_by(|one, other| one.pointer.cmp(&other.pointer));
    Some(leaves)
}

/// Returns a leaf as JSON text that is the same for the same value: strings with the fewest escapes, integers without
/// fraction and exponent, other numbers as they were written.
pub(in crate::check) fn canonical(leaf: Json<'_>) -> String {
    match leaf.kind() {
        Kind::Object => "{}".to_owned(),
        Kind::Array => "[]".to_owned(),
        Kind::String => match leaf.string() {
            Some(text) => serde_json::Value::from(text.into_owned()).to_string(),
            // An unpaired surrogate has no other form.
            None => leaf.as_str().to_owned(),
        },
        Kind::Number => {
            Decimal::from_json(leaf).and_then(|it| it.to_integer()).unwrap_or_else(|| leaf.as_str().to_owned())
        }
        _ => leaf.as_str().to_owned(),
    }
}

/// Returns the SHA-256 of leaves in hexadecimal: of the JSON object that has a member for each leaf, with the pointer
/// as its name, on one line without white space.
pub(in crate::check) fn sha256(leaves: &[Leaf]) -> String {
    let mut context = Context::new(&SHA256);
    for (index, leaf) in leaves.iter().enumerate() {
        context.update(if index == 0 { b"{" } else { b"," });
        context.update(serde_json::Value::from(leaf.pointer.as_str()).to_string().as_bytes());
        context.update(b":");
        context.update(leaf.value.as_bytes());
    }
    context.update(if leaves.is_empty() { b"{}" } else { b"}" });
    hex(context)
}

/// Returns the SHA-256 of bytes, in hexadecimal.
pub(in crate::check) fn sha256_of_bytes(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    hex(context)
}

fn hex(context: Context) -> String {
    let mut text = String::with_capacity(64);
    for byte in context.finish().as_ref() {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
    text
}

/// Returns the value of a leaf for people: without quotes if it is a string, and with characters that are not shown as
/// escapes.
pub(in crate::check) fn shown_value(value: &str) -> String {
    let json = Json::parse(value.as_bytes()).ok();
    match json.and_then(Text::from_json).and_then(Text::to_str) {
        Some(text) => text.into_owned(),
        None => safe_json(value).into_owned(),
    }
}

/// The maximum total length of the pointers and values of a definition, in bytes: no model reads a longer definition.
const MAX_LEAVES_LENGTH: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Leaf> {
        leaves(Json::parse(text.as_bytes()).expect("JSON"), |pointer| pointer == "/size").expect("it is small")
    }

    #[test]
    fn the_same_value_has_the_same_hash_however_it_is_written() {
        let one = of(r#"{"name":"é","inputSchema":{"type":"object","max":1.0,"x":[]},"size":1}"#);
        let two = of(
            " {\"size\":2,\n\"inputSchema\" : {\"x\":[ ],\"max\":1e0,\"type\":\"obj\\u0065ct\"},\"n\\u0061me\":\"\\u00e9\"}",
        );
        assert_eq!(one, two);
        assert_eq!(sha256(&one), sha256(&two));
        for other in [
            r#"{"name":"e\u0301","inputSchema":{"type":"object","max":1,"x":[]}}"#,
            r#"{"name":"é","inputSchema":{"type":"object","max":1,"x":{}}}"#,
            r#"{"name":"é","inputSchema":{"type":"object","max":1.5,"x":[]}}"#,
            r#"{"name":"é","name":"é","inputSchema":{"type":"object","max":1,"x":[]}}"#,
        ] {
            assert_ne!(sha256(&of(other)), sha256(&one), "{other}");
        }
    }

    /// `printf '{"/a":1,"/b/0":"x"}' | sha256sum`
    #[test]
    fn the_hash_can_be_computed_with_other_programs() {
        let leaves = of(r#"{"b":["x"],"a":1}"#);
        assert_eq!(sha256(&leaves), sha256_of_bytes(br#"{"/a":1,"/b/0":"x"}"#));
        assert_eq!(sha256_of_bytes(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(sha256(&[]), sha256_of_bytes(b"{}"));
    }

    #[test]
    fn a_definition_beyond_the_limits_has_no_leaves() {
        let many = format!("[{}0]", "0,".repeat(MAX_TREE_VALUES));
        assert!(leaves(Json::parse(many.as_bytes()).expect("JSON"), |_| false).is_none());
        // A long name leads to many leaves.
        let long = format!(r#"{{"{}":[{}0]}}"#, "x".repeat(10_000), "0,".repeat(1000));
        assert!(leaves(Json::parse(long.as_bytes()).expect("JSON"), |_| false).is_none());
        let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_LEAVES_LENGTH - 100));
        assert!(leaves(Json::parse(text.as_bytes()).expect("JSON"), |_| false).is_some());
    }
}
