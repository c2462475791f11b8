//! A JSON value -> its member names and leaves, each with its JSON Pointer, in one pass and without recursion.

use barewire_proto::json::{Json, Text};

/// A part of a JSON value.
#[derive(Clone, Copy)]
pub(in crate::check) enum Part<'a> {
    /// The name of a member. The path already has it as its last step.
    Name(Text<'a>),
    /// A value without members and elements: a scalar, an empty object or an empty array.
    Leaf(Json<'a>),
}

/// The path from the outermost value to a part.
#[derive(Default)]
pub(in crate::check) struct Path<'a> {
    steps: Vec<Step<'a>>,
}

enum Step<'a> {
    Element(usize),
    /// The member of an object; `None` before its name is read.
    Member(Option<Text<'a>>),
}

impl Path<'_> {
    /// Appends the JSON Pointer of the part.
    pub(in crate::check) fn push_pointer(&self, pointer: &mut String) {
        for step in &self.steps {
            pointer.push('/');
            match step {
                Step::Element(index) => pointer.push_str(&index.to_string()),
                Step::Member(name) => {
                    let name = name.map(Text::to_name).unwrap_or_default();
                    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                }
            }
        }
    }

    /// Returns the length of the JSON Pointer, at least; escapes make it longer.
    pub(in crate::check) fn length(&self) -> usize {
        let length = |step: &Step<'_>| match step {
            Step::Element(_) => 2,
            Step::Member(name) => 1 + name.map_or(0, |name| name.raw().len()),
        };
        self.steps.iter().map(length).sum()
    }

    /// Returns the index of the outermost array.
    pub(in crate::check) fn first_index(&self) -> Option<usize> {
        match self.steps.first() {
            Some(Step::Element(index)) => Some(*index),
            _ => None,
        }
    }

    /// Whether the last member on the path has one of these names. Indices after it do not count.
    pub(in crate::check) fn ends_in(&self, names: &[&str]) -> bool {
        let last = self.steps.iter().rev().find_map(|step| match step {
            Step::Member(Some(name)) => Some(*name),
            Step::Member(None) | Step::Element(_) => None,
        });
        last.is_some_and(|last| names.iter().any(|name| last == *name))
    }

    /// Whether the member before the last one on the path has this name.
    pub(in crate::check) fn parent_is(&self, name: &str) -> bool {
        matches!(self.steps.iter().rev().nth(1), Some(Step::Member(Some(parent))) if *parent == name)
    }
}

/// Calls a function with each member name and each leaf of a value, in the order of the text. The time is linear in the
/// length of the text; the memory is linear in its depth.
pub(in crate::check) fn walk<'a>(json: Json<'a>, mut visit: impl FnMut(&Path<'a>, Part<'a>)) {
    let bytes = json.as_bytes();
    let mut path = Path::default();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'{' | b'[' => {
                let inside = at + 1 + bytes[at + 1..].iter().take_while(|b| b.is_ascii_whitespace()).count();
                match (byte, bytes.get(inside)) {
                    (b'{', Some(b'}')) | (b'[', Some(b']')) => inside + 1,
                    (b'{', _) => {
                        path.steps.push(Step::Member(None));
                        at += 1;
                        continue;
                    }
                    _ => {
                        path.steps.push(Step::Element(0));
                        at += 1;
                        continue;
                    }
                }
            }
            b'}' | b']' => {
                path.steps.pop();
                at += 1;
                continue;
            }
            b',' => {
                match path.steps.last_mut() {
                    Some(Step::Element(index)) => *index += 1,
                    Some(Step::Member(name)) => *name = None,
                    None => {}
                }
                at += 1;
                continue;
            }
            b'"' => string_end(bytes, at),
            b':' | b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            _ => {
                let is_scalar = |b: &&u8| !matches!(b, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                at + bytes[at..].iter().take_while(is_scalar).count()
            }
        };
        // The text was scanned when the `Json` was made, so its parts are valid too.
        if let Ok(part) = Json::parse(&bytes[at..end]) {
            match (path.steps.last_mut(), Text::from_json(part)) {
                (Some(Step::Member(name @ None)), Some(text)) => {
                    *name = Some(text);
                    visit(&path, Part::Name(text));
                }
                _ => visit(&path, Part::Leaf(part)),
            }
        }
        at = end;
    }
}

/// Returns the position after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        at += found + 1;
        match bytes[at - 1] {
            b'"' => return at,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_leaf_has_its_pointer() {
        let text = r#" { "a" : [ 1 , [ ], {"b/c":"\"]},\\"} ], "": { } , "~":null, "d":[[true],-1e3] } "#;
        let mut seen = Vec::new();
        walk(Json::parse(text.as_bytes()).expect("JSON"), |path, part| {
            let mut pointer = String::new();
            path.push_pointer(&mut pointer);
            match part {
                Part::Name(_) => seen.push(pointer),
                Part::Leaf(leaf) => seen.push(format!("{pointer} = {leaf}")),
            }
        });
        let expected = [
            "/a",
            "/a/0 = 1",
            "/a/1 = [ ]",
            "/a/2/b~1c",
            r#"/a/2/b~1c = "\"]},\\""#,
            "/",
            "/ = { }",
            "/~0",
            "/~0 = null",
            "/d",
            "/d/0/0 = true",
            "/d/1 = -1e3",
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_scalar_is_its_own_leaf() {
        for text in ["1", "\"x\"", "{}", "[]", "null"] {
            let mut count = 0;
            walk(Json::parse(text.as_bytes()).expect("JSON"), |path, part| {
                let mut pointer = String::new();
                path.push_pointer(&mut pointer);
                assert!(matches!(part, Part::Leaf(leaf) if leaf.as_str() == text) && pointer.is_empty());
                count += 1;
            });
            assert_eq!(count, 1, "{text}");
        }
    }
}
