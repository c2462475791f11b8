//! A part of a message -> a tree of its values, but only if the part has few values.
//!
//! A tree takes up to 290 times the memory of its text, and a schema that is compiled from it even more. So parts with
//! more values are not read, or only member by member.

use std::borrow::Cow;

use barewire_proto::json::{Json, Kind};
use serde_json::Value;

/// Returns a tree of the values, or `None` if there are too many, or if `serde_json` cannot represent them.
pub(super) fn small_tree(json: Json<'_>) -> Option<Value> {
    if json.has_more_values_than(MAX_TREE_VALUES) { None } else { json.to().ok() }
}

/// Returns the text of a value in which each member with too many values is an empty array or object instead. Returns
/// `None` if there are still too many values.
pub(super) fn pruned(json: Json<'_>) -> Option<Cow<'_, str>> {
    if !json.has_more_values_than(MAX_TREE_VALUES) {
        return Some(Cow::Borrowed(json.as_str()));
    }
    if json.kind() != Kind::Object {
        return Some(Cow::Borrowed(emptied(json)));
    }
    let mut text = String::from("{");
    for (index, member) in json.members().enumerate() {
        if index >= MAX_TREE_VALUES {
            return None;
        }
        let comma = if index > 0 { "," } else { "" };
        for part in [comma, member.name.raw(), ":", emptied(member.value)] {
            text.push_str(part);
        }
    }
    text.push('}');
    let is_small =
        |text: &String| Json::parse(text.as_bytes()).is_ok_and(|it| !it.has_more_values_than(MAX_TREE_VALUES));
    Some(text).filter(is_small).map(Cow::Owned)
}

fn emptied(json: Json<'_>) -> &str {
    match json.kind() {
        _ if !json.has_more_values_than(MAX_TREE_VALUES) => json.as_str(),
        Kind::Array => "[]",
        _ => "{}",
    }
}

/// The maximum number of values in a tree. The largest schemas and results that a model can use have some thousand
/// values; a tree of this many takes about 10 MiB.
pub(super) const MAX_TREE_VALUES: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_with_many_values_are_left_out() {
        let many = format!("[{}0]", "0,".repeat(MAX_TREE_VALUES));
        let text = format!(r#"{{"a":{many},"b":[1],"c":{{"d":{many}}}}}"#);
        let json = Json::parse(text.as_bytes()).expect("JSON");
        assert_eq!(pruned(json).as_deref(), Some(r#"{"a":[],"b":[1],"c":{}}"#));
        assert!(small_tree(json).is_none());
        let small = Json::parse(br#"{"a":[1]}"#).expect("JSON");
        assert_eq!(pruned(small).as_deref(), Some(r#"{"a":[1]}"#));
        assert_eq!(pruned(Json::parse(many.as_bytes()).expect("JSON")).as_deref(), Some("[]"));
        assert!(small_tree(small).is_some());
        let members = format!("{{{}\"b\":0}}", r#""a":0,"#.repeat(MAX_TREE_VALUES));
        assert_eq!(pruned(Json::parse(members.as_bytes()).expect("JSON")), None);
    }
}
