//! Replaces some values in a JSON text without changing any other byte.

use barewire_proto::json::{Elements, Json, Kind, Members, Text};

use super::value::MAX_DEPTH;

/// Calls `replacement` with the path and value of every string and number in a text, in order, and replaces the value
/// with the returned text.
///
/// Returns `None` if nothing is replaced or the text is not JSON.
pub(super) fn rewrite(
    text: &[u8],
    replacement: &mut dyn FnMut(&[String], Json<'_>) -> Option<String>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    // The number of bytes of `text` that are already in `out`.
    let mut taken = 0;
    visit(Json::parse(text).ok()?, &mut |path, value| {
        if let Some(other) = replacement(path, value) {
            let start = value.as_bytes().as_ptr().addr() - text.as_ptr().addr();
            out.extend_from_slice(&text[taken..start]);
            out.extend_from_slice(other.as_bytes());
            taken = start + value.as_bytes().len();
        }
    });
    if taken == 0 {
        return None;
    }
    out.extend_from_slice(&text[taken..]);
    Some(out)
}

/// Calls `each` with every string in a JSON text.
pub(super) fn strings(text: &[u8], each: &mut dyn FnMut(&str)) {
    let Ok(whole) = Json::parse(text) else { return };
    visit(whole, &mut |_, value| {
        if let Some(text) = Text::from_json(value).and_then(Text::to_str) {
            each(&text);
        }
    });
}

/// Calls `each` with the path and value of every string and number in a value, except those nested too deeply.
fn visit(whole: Json<'_>, each: &mut dyn FnMut(&[String], Json<'_>)) {
    // A list is used instead of recursion, because the peer decides how deeply its text is nested. The last step of the
    // path belongs to the innermost container.
    let (mut open, mut path) = (Vec::new(), Vec::new());
    let mut next = Some(whole);
    loop {
        match next.take() {
            Some(value) => match Container::of(value) {
                Some(container) if open.len() <= MAX_DEPTH => {
                    open.push(container);
                    path.push(String::new());
                }
                Some(_) => {}
                None if matches!(value.kind(), Kind::String | Kind::Number) => each(&path, value),
                None => {}
            },
            None => {
                let Some(container) = open.last_mut() else { return };
                let step = path.last_mut().expect("the path has a step for each open container");
                next = container.next(step);
                if next.is_none() {
                    open.pop();
                    path.pop();
                }
            }
        }
    }
}

/// An object or array of which some members or elements were visited.
enum Container<'a> {
    Object(Members<'a>),
    Array(std::iter::Enumerate<Elements<'a>>),
}

impl<'a> Container<'a> {
    fn of(value: Json<'a>) -> Option<Self> {
        match value.kind() {
            Kind::Object => Some(Self::Object(value.members())),
            Kind::Array => Some(Self::Array(value.elements().enumerate())),
            _ => None,
        }
    }

    /// Returns the next value, and writes its name or index to `step`.
    fn next(&mut self, step: &mut String) -> Option<Json<'a>> {
        let (name, value) = match self {
            Self::Object(members) => members.next().map(|it| (it.name.to_name().into_owned(), it.value))?,
            Self::Array(elements) => elements.next().map(|(index, value)| (index.to_string(), value))?,
        };
        *step = name;
        Some(value)
    }
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
        strings(br#"{"a":["\u0061b",1],"c":"d"}"#, &mut |text| found.push(text.to_owned()));
        found.sort();
        assert_eq!(found, ["ab", "d"]);
    }
}
