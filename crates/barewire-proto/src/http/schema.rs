//! The `inputSchema` of a tool -> which of its properties are repeated in headers, or why the tool is not valid.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Schema Extension".

use std::collections::VecDeque;
use std::fmt;

use super::header::is_tchar;
use super::rejection::quoted;
use crate::json::{Json, Kind, Text};

/// The keyword.
const ANNOTATION: &str = "x-mcp-header";

/// Levels of JSON. Each level is gone over once for every level above it, and no message that is read has more.
const DEEPEST: usize = 128;

/// Headers of one tool. Few HTTP implementations take more than a hundred in all.
const MOST: usize = 64;

/// A property that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Annotated {
    /// What the header's name ends with.
    pub(super) name: String,
    /// The names that lead to the value in the arguments.
    pub(super) path: Vec<Box<[u8]>>,
}

/// Why a tool is not valid: something is wrong with an `x-mcp-header` of its schema. A client of HTTP leaves such a tool out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAnnotation {
    /// It is something else than a string; with the property.
    NotAString(String),
    /// It is empty; with the property.
    Empty(String),
    /// It cannot stand in the name of a header; with the annotation.
    NotAToken(String),
    /// Two properties have it, in whatever case; with the annotation.
    Twice(String),
    /// The property is no string, integer or boolean; with the property.
    NotPrimitive(String),
    /// It stands where `properties` alone does not lead to; with the annotation.
    Elsewhere(String),
    /// The schema is nested too deep to be looked through.
    TooDeep,
    /// There are too many of them.
    TooMany,
}

/// Where something stands in a schema.
#[derive(Clone, Copy)]
enum At {
    /// The schema of the arguments themselves.
    Root,
    /// Where a chain of `properties` leads to; with the last of its steps.
    Property(usize),
    /// Anywhere else.
    Elsewhere,
}

/// What is still to be looked at.
enum Todo {
    /// A schema.
    Schema(At),
    /// An object of schemas under names that are nobody's keywords; the properties of a schema that stands there.
    Properties(At),
    /// The value of any other keyword, or an element of it.
    Other,
}

/// One step on the way to a property. The way itself is put together only for those that are asked for.
struct Step<'a> {
    from: Option<usize>,
    name: Text<'a>,
}

/// All annotations, in no order that means something.
pub(super) fn annotated(schema: Json<'_>) -> Result<Vec<Annotated>, BadAnnotation> {
    let text = schema.as_bytes();
    // Most schemas have none. One that is spelled with escapes has a backslash.
    let none = memchr::memmem::find(text, ANNOTATION.as_bytes()).is_none();
    if none && memchr::memchr(b'\\', text).is_none() {
        return Ok(Vec::new());
    }
    Walk { steps: Vec::new(), todo: VecDeque::new(), found: Vec::new() }.run(schema)
}

struct Walk<'a> {
    steps: Vec<Step<'a>>,
    todo: VecDeque<(Json<'a>, Todo, usize)>,
    found: Vec<Annotated>,
}

impl<'a> Walk<'a> {
    fn run(mut self, schema: Json<'a>) -> Result<Vec<Annotated>, BadAnnotation> {
        self.push(schema, Todo::Schema(At::Root), 0)?;
        while let Some((json, todo, depth)) = self.todo.pop_front() {
            match (todo, json.kind()) {
                (Todo::Schema(at), _) => self.schema(json, at, depth)?,
                (Todo::Properties(at), _) => self.properties(json, at, depth)?,
                (Todo::Other, Kind::Array) => {
                    for element in json.elements() {
                        self.push(element, Todo::Other, depth)?;
                    }
                }
                (Todo::Other, _) => self.schema(json, At::Elsewhere, depth)?,
            }
        }
        Ok(self.found)
    }

    fn push(&mut self, json: Json<'a>, todo: Todo, depth: usize) -> Result<(), BadAnnotation> {
        // Nothing else can hold an annotation.
        if matches!(json.kind(), Kind::Object | Kind::Array) {
            if depth == DEEPEST {
                return Err(BadAnnotation::TooDeep);
            }
            self.todo.push_back((json, todo, depth + 1));
        }
        Ok(())
    }

    fn schema(&mut self, schema: Json<'a>, at: At, depth: usize) -> Result<(), BadAnnotation> {
        let (mut annotation, mut kind) = (None, None);
        for member in schema.members() {
            let todo = match &*member.name.to_name() {
                ANNOTATION => {
                    annotation = Some(member.value);
                    continue;
                }
                "type" => {
                    kind = Some(member.value);
                    continue;
                }
                // Values, and names of properties: whatever stands there is no keyword.
                "enum" | "const" | "default" | "example" | "examples" | "required" | "dependentRequired" => {
                    continue;
                }
                "properties" => Todo::Properties(at),
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                    Todo::Properties(At::Elsewhere)
                }
                // Also of keywords that are not known here: a `$ref` may lead into them.
                _ => Todo::Other,
            };
            self.push(member.value, todo, depth)?;
        }
        annotation.map_or(Ok(()), |annotation| self.found(annotation, kind, at))
    }

    fn properties(&mut self, properties: Json<'a>, at: At, depth: usize) -> Result<(), BadAnnotation> {
        for member in properties.members() {
            let from = match at {
                At::Elsewhere => {
                    self.push(member.value, Todo::Other, depth)?;
                    continue;
                }
                At::Root => None,
                At::Property(step) => Some(step),
            };
            self.steps.push(Step { from, name: member.name });
            self.push(member.value, Todo::Schema(At::Property(self.steps.len() - 1)), depth)?;
        }
        Ok(())
    }

    fn found(&mut self, annotation: Json<'a>, kind: Option<Json<'a>>, at: At) -> Result<(), BadAnnotation> {
        let At::Property(step) = at else {
            return Err(BadAnnotation::Elsewhere(quoted(annotation.as_bytes())));
        };
        let path = self.path(step);
        let property = || quoted(&path.join(&b'.'));
        let Some(name) = Text::from_json(annotation) else {
            return Err(BadAnnotation::NotAString(property()));
        };
        let name = name.to_bytes();
        if name.is_empty() {
            return Err(BadAnnotation::Empty(property()));
        }
        let Some(name) = std::str::from_utf8(&name).ok().filter(|name| name.bytes().all(is_tchar)) else {
            return Err(BadAnnotation::NotAToken(quoted(&name)));
        };
        if !kind.is_some_and(is_primitive) {
            return Err(BadAnnotation::NotPrimitive(property()));
        }
        if self.found.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
            return Err(BadAnnotation::Twice(quoted(name.as_bytes())));
        }
        if self.found.len() == MOST {
            return Err(BadAnnotation::TooMany);
        }
        self.found.push(Annotated { name: name.to_owned(), path });
        Ok(())
    }

    fn path(&self, last: usize) -> Vec<Box<[u8]>> {
        let mut path = Vec::new();
        let mut next = Some(last);
        while let Some(Step { from, name }) = next.map(|step| &self.steps[step]) {
            path.push(name.to_bytes().into());
            next = *from;
        }
        path.reverse();
        path
    }
}

/// `string`, `integer` or `boolean`. `null` may stand beside it, as the specification says what is done with a null.
fn is_primitive(kind: Json<'_>) -> bool {
    let named = |json: Json<'_>, names: &[&str]| {
        Text::from_json(json).is_some_and(|text| names.iter().any(|name| text == *name))
    };
    let primitive = ["string", "integer", "boolean"];
    if kind.kind() != Kind::Array {
        return named(kind, &primitive);
    }
    let others: Vec<_> = kind.elements().filter(|kind| !named(*kind, &["null"])).take(2).collect();
    matches!(others[..], [one] if named(one, &primitive))
}

impl fmt::Display for BadAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAString(property) => write!(f, "x-mcp-header of {property} must be a string"),
            Self::Empty(property) => write!(f, "x-mcp-header of {property} must not be empty"),
            Self::NotAToken(name) => write!(f, "x-mcp-header {name} cannot stand in the name of a header"),
            Self::Twice(name) => write!(f, "x-mcp-header {name} stands at two properties"),
            Self::NotPrimitive(property) => {
                write!(f, "{property} has an x-mcp-header, so its type must be string, integer or boolean")
            }
            Self::Elsewhere(name) => {
                write!(f, "x-mcp-header {name} must stand at a property that only properties lead to")
            }
            Self::TooDeep => write!(f, "the schema is nested deeper than {DEEPEST} levels"),
            Self::TooMany => write!(f, "the schema has more than {MOST} x-mcp-header"),
        }
    }
}

impl std::error::Error for BadAnnotation {}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(schema: &str) -> Result<Vec<(String, String)>, BadAnnotation> {
        let found = annotated(Json::parse(schema.as_bytes()).expect(schema))?;
        let path = |path: &[Box<[u8]>]| String::from_utf8(path.join(&b'.')).expect("UTF-8");
        Ok(found.iter().map(|found| (found.name.clone(), path(&found.path))).collect())
    }

    fn pairs(expected: &[(&str, &str)]) -> Result<Vec<(String, String)>, BadAnnotation> {
        Ok(expected.iter().map(|(name, path)| ((*name).to_owned(), (*path).to_owned())).collect())
    }

    #[test]
    fn annotations_are_found_where_properties_lead() {
        for (schema, expected) in [
            ("{}", &[][..]),
            ("true", &[]),
            (r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, &[]),
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#, &[("A", "a")]),
            (
                r#"{"properties":{"a":{"type":"integer","x-mcp-header":"A"},"b":{"x-mcp-header":"B","type":"boolean"}}}"#,
                &[("A", "a"), ("B", "b")],
            ),
            (
                r#"{"properties":{"a":{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"Deep"}}}}}}}"#,
                &[("Deep", "a.b.c")],
            ),
            // Spelled with an escape it is still one.
            (r#"{"properties":{"\u0061":{"type":"string","x-mcp-heade\u0072":"\u0041"}}}"#, &[("A", "a")]),
            (r#"{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}"#, &[("A", "a")]),
            (
                r#"{"properties":{"a":{"$ref":"x","type":"string","x-mcp-header":"!#$%&'*+-.^_`|~09"}}}"#,
                &[("!#$%&'*+-.^_`|~09", "a")],
            ),
            // No annotations: names of properties, and values.
            (r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#, &[]),
            (r#"{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"A"}}}"#, &[("A", "x-mcp-header")]),
            (r#"{"properties":{"properties":{"properties":{"x-mcp-header":{"type":"string"}}}}}"#, &[]),
            (r#"{"properties":{"a":{"enum":[{"x-mcp-header":"A"}],"const":{"x-mcp-header":"A"}}}}"#, &[]),
            (r#"{"default":{"x-mcp-header":"A"},"examples":[{"x-mcp-header":"A"}]}"#, &[]),
            (r#"{"required":["x-mcp-header"],"dependentRequired":{"x-mcp-header":["a"]}}"#, &[]),
            (r#"{"$defs":{"x-mcp-header":{"type":"string"}},"patternProperties":{"x-mcp-header":{}}}"#, &[]),
            (r#"{"description":"x-mcp-header"}"#, &[]),
        ] {
            assert_eq!(found(schema), pairs(expected), "{schema}");
        }
    }

    #[test]
    fn an_annotation_anywhere_else_spoils_the_tool() {
        let annotated = r#"{"type":"string","x-mcp-header":"A"}"#;
        for schema in [
            r#"{"type":"string","x-mcp-header":"A"}"#.to_owned(),
            format!(r#"{{"items":{annotated}}}"#),
            format!(r#"{{"items":[{annotated}]}}"#),
            format!(r#"{{"prefixItems":[{annotated}]}}"#),
            format!(r#"{{"properties":{{"a":{{"items":{annotated}}}}}}}"#),
            format!(r#"{{"properties":{{"a":{{"items":{{"properties":{{"b":{annotated}}}}}}}}}}}"#),
            format!(r#"{{"allOf":[{{"properties":{{"a":{annotated}}}}}]}}"#),
            format!(r#"{{"anyOf":[{annotated}]}}"#),
            format!(r#"{{"properties":{{"a":{{"oneOf":[{annotated}]}}}}}}"#),
            format!(r#"{{"not":{annotated}}}"#),
            format!(r#"{{"if":{annotated}}}"#),
            format!(r#"{{"then":{{"properties":{{"a":{annotated}}}}}}}"#),
            format!(r#"{{"else":{annotated}}}"#),
            format!(r#"{{"$defs":{{"a":{annotated}}}}}"#),
            format!(r#"{{"$defs":{{"a":{{"properties":{{"b":{annotated}}}}}}}}}"#),
            format!(r#"{{"definitions":{{"a":{annotated}}}}}"#),
            format!(r#"{{"additionalProperties":{annotated}}}"#),
            format!(r#"{{"patternProperties":{{"a":{annotated}}}}}"#),
            format!(r#"{{"dependentSchemas":{{"a":{annotated}}}}}"#),
            format!(r#"{{"contains":{annotated}}}"#),
            format!(r#"{{"x-vendor":{{"a":{annotated}}}}}"#),
            format!(r#"{{"properties":{{"x":{annotated},"a":{{"items":{{"x-mcp-header":"B","type":"string"}}}}}}}}"#),
        ] {
            assert!(matches!(found(&schema), Err(BadAnnotation::Elsewhere(_))), "{schema}: {:?}", found(&schema));
        }
    }

    #[test]
    fn an_annotation_must_make_a_header_of_a_primitive() {
        let one = |annotation: &str, kind: &str| {
            found(&format!(r#"{{"properties":{{"a":{{"type":{kind},"x-mcp-header":{annotation}}}}}}}"#))
        };
        let property = || "\"a\"".to_owned();
        assert_eq!(one("\"\"", "\"string\""), Err(BadAnnotation::Empty(property())));
        for other in ["7", "null", "{}", "[\"A\"]", "true"] {
            assert_eq!(one(other, "\"string\""), Err(BadAnnotation::NotAString(property())), "{other}");
        }
        for name in [
            "My Region",
            "Region:Primary",
            "Région",
            r"Region\t1",
            r"A\r\nB: C",
            r"A\u0000",
            "A,B",
            "A;B",
            "A/B",
            "(A)",
            r#"\"A\""#,
            " A",
            "A ",
            r"\ud800",
            "A@B",
            "{A}",
        ] {
            let found = one(&format!("\"{name}\""), "\"string\"");
            assert!(matches!(found, Err(BadAnnotation::NotAToken(_))), "{name}: {found:?}");
        }
        for kind in [
            "\"number\"",
            "\"object\"",
            "\"array\"",
            "\"null\"",
            "\"String\"",
            "7",
            "{}",
            "[]",
            "[\"null\"]",
            "[\"string\",\"integer\"]",
            "[\"string\",\"object\"]",
            "[\"number\",\"null\"]",
        ] {
            assert_eq!(one("\"A\"", kind), Err(BadAnnotation::NotPrimitive(property())), "{kind}");
        }
        let untyped = found(r#"{"properties":{"a":{"$ref":"x","x-mcp-header":"A"}}}"#);
        assert_eq!(untyped, Err(BadAnnotation::NotPrimitive(property())));
    }

    #[test]
    fn no_two_properties_share_a_header() {
        for other in ["Region", "region", "REGION"] {
            let schema = format!(
                r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"Region"}},
                "o":{{"properties":{{"b":{{"type":"string","x-mcp-header":"{other}"}}}}}}}}}}"#
            );
            assert_eq!(found(&schema), Err(BadAnnotation::Twice(format!("{other:?}"))));
        }
    }

    #[test]
    fn a_schema_that_is_too_deep_or_too_rich_is_not_gone_through() {
        let deep = |levels: usize, inner: &str| {
            format!("{}{inner}{}", r#"{"properties":{"a":"#.repeat(levels), "}}".repeat(levels))
        };
        let inner = r#"{"type":"string","x-mcp-header":"A"}"#;
        assert_eq!(found(&deep(63, inner)).map(|found| found.len()), Ok(1));
        assert_eq!(found(&deep(64, inner)), Err(BadAnnotation::TooDeep));
        assert_eq!(found(&deep(100_000, inner)), Err(BadAnnotation::TooDeep));
        // Nothing to find, nothing to refuse.
        assert_eq!(found(&deep(100_000, "{}")), Ok(Vec::new()));
        let many = |count: usize| {
            let property = |at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#);
            format!(r#"{{"properties":{{{}}}}}"#, (0..count).map(property).collect::<Vec<_>>().join(","))
        };
        assert_eq!(found(&many(MOST)).map(|found| found.len()), Ok(MOST));
        assert_eq!(found(&many(MOST + 1)), Err(BadAnnotation::TooMany));
    }
}
