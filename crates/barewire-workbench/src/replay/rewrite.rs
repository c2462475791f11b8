//! JSON text and what is to stand in some places -> the same text with these values replaced, and no other byte changed.

use std::ops::Range;

use barewire_proto::json::{Json, Kind, Text};

use super::value::MAX_DEPTH;

/// Calls `with` for every string and number in a text, with the place and the value; what it gives stands there instead.
///
/// `None` if nothing is replaced, or the text is no JSON.
pub(super) fn rewrite(text: &[u8], with: &mut dyn FnMut(&[String], Json<'_>) -> Option<String>) -> Option<Vec<u8>> {
    let whole = Json::parse(text).ok()?;
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    // A list and no recursion: the peer decides how deep its text is nested.
    let mut left = vec![(whole, Vec::new())];
    while let Some((value, path)) = left.pop() {
        if path.len() > MAX_DEPTH {
            continue;
        }
        match value.kind() {
            Kind::Object => {
                let below = value.members().map(|member| {
                    let mut path = path.clone();
                    path.push(member.name.to_name().into_owned());
                    (member.value, path)
                });
                left.extend(below);
            }
            Kind::Array => {
                let below = value.elements().enumerate().map(|(index, element)| {
                    let mut path = path.clone();
                    path.push(index.to_string());
                    (element, path)
                });
                left.extend(below);
            }
            Kind::String | Kind::Number => {
                if let Some(other) = with(&path, value) {
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

/// All strings in a text that is JSON.
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
    fn only_what_is_replaced_changes() {
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
    fn what_is_very_deep_is_left_as_it_is() {
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
