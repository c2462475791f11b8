//! Replaces some values in a JSON text without changing any other byte.

use std::ops::Range;

use barewire_proto::json::{Json, Kind, Text};

use super::value::MAX_DEPTH;

/// Calls `replacement` with the path and value of every string and number in a text, and replaces the value with the
/// returned text.
///
/// Returns `None` if nothing is replaced or the text is not JSON.
pub(super) fn rewrite(
    text: &[u8],
    replacement: &mut dyn FnMut(&[String], Json<'_>) -> Option<String>,
) -> Option<Vec<u8>> {
    let whole = Json::parse(text).ok()?;
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    // A list is used instead of recursion, because the peer decides how deeply its text is nested.
    let mut left = vec![(whole, Vec::new())];
    while let Some((value, path)) = left.pop() {
        if path.len() > MAX_DEPTH {
            continue;
        }
        match value.kind() {
            Kind::Object => {
                let members = value.members();
                left.extend(members.map(|it| (it.value, child_path(&path, it.name.to_name().into_owned()))));
            }
            Kind::Array => {
                let elements = value.elements().enumerate();
                left.extend(elements.map(|(index, element)| (element, child_path(&path, index.to_string()))));
            }
            Kind::String | Kind::Number => {
                if let Some(other) = replacement(&path, value) {
                    let start = value.as_bytes().as_ptr() as usize - text.as_ptr() as usize;
                    changes.push((start..start + value.as_bytes().len(), other));
                }
            }
            _ => {}
        }
    }
    if changes.is_empty() {
        return None;
    }
    changes.sort_by_key(|(range, _)| range.start);
    let mut out = Vec::with_capacity(text.len());
    let mut taken = 0;
    for (range, other) in changes {
        out.extend_from_slice(&text[taken..range.start]);
        out.extend_from_slice(other.as_bytes());
        taken = range.end;
    }
    out.extend_from_slice(&text[taken..]);
    Some(out)
}

fn child_path(path: &[String], step: String) -> Vec<String> {
    path.iter().cloned().chain([step]).collect()
}

/// Calls `each` with every string in a JSON text.
pub(super) fn strings(text: &[u8], each: &mut dyn FnMut(String)) {
    rewrite(text, &mut |_, value| {
        if let Some(text) = Text::from_json(value).and_then(Text::to_str) {
            each(text.into_owned());
        }
        None
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replaced_values_change() {
        let text = br#" {"id" : 1.0, "a":[ "x", {"x":"\u0078"} ],"x":null} "#;
        let rewritten = rewrite(text, &mut |path, value| match (path, value.as_str()) {
            ([name], "1.0") if name == "id" => Some("\"seven\"".into()),
            (_, r#""x""#) => Some("2".into()),
            _ => None,
        });
        let rewritten = String::from_utf8(rewritten.expect("it changes")).expect("text");
        assert_eq!(rewritten, r#" {"id" : "seven", "a":[ 2, {"x":"\u0078"} ],"x":null} "#);
        assert_eq!(rewrite(text, &mut |_, _| None), None);
        assert_eq!(rewrite(b"{\"a\":", &mut |_, _| Some(String::new())), None);
    }

    #[test]
    fn values_below_the_depth_limit_stay() {
        let nested = |levels| [vec![b'['; levels], b"1".to_vec(), vec![b']'; levels]].concat();
        assert!(rewrite(&nested(100), &mut |_, _| Some("2".into())).is_some());
        assert!(rewrite(&nested(100_000), &mut |_, _| Some("2".into())).is_none());
    }

    #[test]
    fn strings_are_found_by_value() {
        let mut found = Vec::new();
        strings(br#"{"a":["\u0061b",1],"c":"d"}"#, &mut |text| found.push(text));
        found.sort();
        assert_eq!(found, ["ab", "d"]);
    }
}
