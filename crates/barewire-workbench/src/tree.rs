//! A part of a message -> a tree of its values, but only if the part has few values.
//!
//! A tree takes up to 290 times the memory of its text, and a schema that is compiled from it even more. So parts with
//! more values are not read, or only member by member.

use std::borrow::Cow;

use barewire_proto::json::{Json, Kind};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a value as a type. Parts with too many values are read as if they were empty, see [`pruned`]; a value that
/// still has too many is not read, and gives `None`.
pub fn read<T: DeserializeOwned>(json: Json<'_>) -> Result<Option<T>, serde_json::Error> {
    pruned(json).map(|text| serde_json::from_str(&text)).transpose()
}

/// Checks that a result with a list can be read as `T`. The elements of a long list are read one by one as `E`, because
/// all of them together could take many times the memory of their text.
pub fn check_list<T: DeserializeOwned, E: DeserializeOwned>(
    result: Json<'_>,
    list: &str,
) -> Result<(), serde_json::Error> {
    check::<T>(result)?;
    for element in result.member(list).filter(|list| !is_small(*list)).into_iter().flat_map(Json::elements) {
        check::<E>(element)?;
    }
    Ok(())
}

/// Checks that a value can be read as a type, as far as [`read`] would read it.
pub fn check<T: DeserializeOwned>(json: Json<'_>) -> Result<(), serde_json::Error> {
    match pruned(json) {
        Some(text) => serde_json::from_str::<T>(&short_strings(&text)).map(drop),
        None => Ok(()),
    }
}

/// Replaces long strings in JSON with short ones. An error quotes a string of the wrong type, and escapes in the
/// quotation make it up to six times as long.
pub fn short_strings(json: &str) -> Cow<'_, str> {
    if json.len() <= MAX_STRING_LENGTH {
        return Cow::Borrowed(json);
    }
    let mut out = String::new();
    // The bytes of `json` up to `taken` are in `out`; `at` is the position of the search.
    let (mut taken, mut at) = (0, 0);
    while let Some(start) = json[at..].find('"').map(|found| at + found) {
        let mut end = start + 1;
        while let Some(found) = memchr::memchr2(b'"', b'\\', json.as_bytes().get(end..).unwrap_or_default()) {
            end += found + 1;
            if json.as_bytes()[end - 1] == b'"' {
                break;
            }
            // The escaped character is not the end.
            end += 1;
        }
        if end - start > MAX_STRING_LENGTH {
            out.push_str(&json[taken..start]);
            out.push_str("\"…\"");
            taken = end;
        }
        at = end;
    }
    if taken == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(&json[taken..]);
    Cow::Owned(out)
}

/// Returns a tree of the values, or `None` if there are too many, or if `serde_json` cannot represent them.
pub fn small_tree(json: Json<'_>) -> Option<Value> {
    if is_small(json) { json.to().ok() } else { None }
}

/// Returns the text of a value in which each array with too many values is empty, and so is each such object that is
/// not the way to a smaller part. Returns `None` if there are still too many values.
pub fn pruned(json: Json<'_>) -> Option<Cow<'_, str>> {
    if is_small(json) {
        return Some(Cow::Borrowed(json.as_str()));
    }
    let mut text = String::new();
    let mut room = MAX_TREE_VALUES;
    push_pruned(&mut text, json, MAX_DEPTH, &mut room)?;
    let is_small = Json::parse(text.as_bytes()).is_ok_and(is_small);
    is_small.then_some(Cow::Owned(text))
}

/// Appends a pruned value; `None` if it has too many members. Recursion is safe, because it ends after `levels`.
fn push_pruned(text: &mut String, json: Json<'_>, levels: usize, room: &mut usize) -> Option<()> {
    if is_small(json) {
        text.push_str(json.as_str());
        return Some(());
    }
    if json.kind() == Kind::Array {
        text.push_str("[]");
        return Some(());
    }
    text.push('{');
    for (index, member) in json.members().enumerate().take_while(|_| levels > 0) {
        *room = room.checked_sub(1)?;
        for part in [if index > 0 { "," } else { "" }, member.name.raw(), ":"] {
            text.push_str(part);
        }
        push_pruned(text, member.value, levels - 1, room)?;
    }
    text.push('}');
    Some(())
}

fn is_small(json: Json<'_>) -> bool {
    !json.has_more_values_than(MAX_TREE_VALUES)
}

/// The maximum number of values in a tree. The largest schemas and results that a model can use have some thousand
/// values; a tree of this many takes about 10 MiB.
pub const MAX_TREE_VALUES: usize = 16_384;

/// The maximum length of a string that an error may quote.
const MAX_STRING_LENGTH: usize = 4096;

/// The maximum number of levels to prune. The types of MCP have fewer.
const MAX_DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_strings_are_replaced() {
        let long = "\\\"x".repeat(MAX_STRING_LENGTH);
        let text = format!(r#"{{"a":"\\\"","{long}":["{long}",1,"b"]}}"#);
        assert_eq!(short_strings(&text), r#"{"a":"\\\"","…":["…",1,"b"]}"#);
        assert!(matches!(short_strings(r#"["a"]"#), Cow::Borrowed(_)));
        let error =
            check::<Vec<u8>>(Json::parse(format!(r#""{long}""#).as_bytes()).expect("JSON")).expect_err("a string");
        assert!(error.to_string().len() < 100, "{error}");
    }

    #[test]
    fn only_parts_with_many_values_are_left_out() {
        let many = format!("[{}0]", "0,".repeat(MAX_TREE_VALUES));
        let text = format!(r#"{{"a":{many},"b":[1],"c":{{"d":{many}}}}}"#);
        let json = Json::parse(text.as_bytes()).expect("JSON");
        assert_eq!(pruned(json).as_deref(), Some(r#"{"a":[],"b":[1],"c":{"d":[]}}"#));
        assert!(small_tree(json).is_none());
        let small = Json::parse(br#"{"a":[1]}"#).expect("JSON");
        assert_eq!(pruned(small).as_deref(), Some(r#"{"a":[1]}"#));
        assert_eq!(pruned(Json::parse(many.as_bytes()).expect("JSON")).as_deref(), Some("[]"));
        assert!(small_tree(small).is_some());
        let members = format!("{{{}\"b\":0}}", r#""a":0,"#.repeat(MAX_TREE_VALUES));
        assert_eq!(pruned(Json::parse(members.as_bytes()).expect("JSON")), None);
    }
}
