//! Finds the properties in the `inputSchema` of a tool that are repeated in headers, or the annotation that makes the
//! tool invalid.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Schema Extension".

use std::collections::VecDeque;
use std::fmt;

use super::header::is_tchar;
use super::rejection::quoted;
use crate::json::{Json, Kind, Text};

/// The JSON Schema keyword of the annotation.
const ANNOTATION: &str = "x-mcp-header";

/// The maximum nesting depth of a schema. Each level is scanned once for every level above it, so deep schemas are
/// slow. By default no message is nested deeper.
const MAX_SCHEMA_DEPTH: usize = 128;

/// The maximum number of header parameters of one tool. Few HTTP implementations accept more than a hundred headers in
/// total.
const MAX_HEADER_PARAMS: usize = 64;

/// A property that is repeated in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnnotatedProperty {
    /// The part of the header's name after `Mcp-Param-`.
    pub(super) name: String,
    /// The path to the value in the arguments: one member name per level.
    pub(super) path: Vec<Box<[u8]>>,
}

/// A fault in an `x-mcp-header` annotation of a schema. A tool with this fault is not valid, and an HTTP client omits
/// the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAnnotation {
    /// The annotation is not a string. Holds the name of the property.
    NotAString(String),
    /// The annotation is empty. Holds the name of the property.
    Empty(String),
    /// The annotation has characters that a header name cannot have. Holds the annotation.
    NotAToken(String),
    /// Two properties have the same annotation, compared without regard to case. Holds the annotation.
    Twice(String),
    /// The property is not a string, integer or boolean. Holds the name of the property.
    NotPrimitive(String),
    /// The annotation is not at a property that is reached through `properties` alone. Holds the annotation.
    Elsewhere(String),
    /// The schema is nested too deep.
    TooDeep,
    /// The schema has too many annotations.
    TooMany,
}

/// A position in a schema.
#[derive(Clone, Copy)]
enum SchemaPosition {
    /// The root: the schema of the arguments object.
    Root,
    /// A property that is reached only through `properties`. Holds the index of the last step of its path.
    Property(usize),
    /// Any other position.
    Elsewhere,
}

/// A part of the schema that is still to be visited.
enum WalkItem {
    /// A schema.
    Schema(SchemaPosition),
    /// An object whose values are schemas and whose member names are not keywords, such as the value of `properties`.
    /// Holds the position of the schema that contains it.
    Properties(SchemaPosition),
    /// The value of any other keyword, or an element of it.
    Other,
}

/// One step of the path to a property. The whole path is built only for annotated properties.
struct PathStep<'a> {
    from: Option<usize>,
    name: Text<'a>,
}

/// Returns all annotated properties, in no particular order.
pub(super) fn annotated(schema: Json<'_>) -> Result<Vec<AnnotatedProperty>, BadAnnotation> {
    let text = schema.as_bytes();
    // Fast path: most schemas have no annotation. A keyword that is written with escapes is found by its backslash.
    let none = memchr::memmem::find(text, ANNOTATION.as_bytes()).is_none();
    if none && memchr::memchr(b'\\', text).is_none() {
        return Ok(Vec::new());
    }
    SchemaWalk { steps: Vec::new(), todo: VecDeque::new(), found: Vec::new() }.run(schema)
}

struct SchemaWalk<'a> {
    steps: Vec<PathStep<'a>>,
    todo: VecDeque<(Json<'a>, WalkItem, usize)>,
    found: Vec<AnnotatedProperty>,
}

impl<'a> SchemaWalk<'a> {
    fn run(mut self, schema: Json<'a>) -> Result<Vec<AnnotatedProperty>, BadAnnotation> {
        self.push(schema, WalkItem::Schema(SchemaPosition::Root), 0)?;
        while let Some((json, todo, depth)) = self.todo.pop_front() {
            match (todo, json.kind()) {
                (WalkItem::Schema(at), _) => self.schema(json, at, depth)?,
                (WalkItem::Properties(at), _) => self.properties(json, at, depth)?,
                (WalkItem::Other, Kind::Array) => {
                    for element in json.elements() {
                        self.push(element, WalkItem::Other, depth)?;
                    }
                }
                (WalkItem::Other, _) => self.schema(json, SchemaPosition::Elsewhere, depth)?,
            }
        }
        Ok(self.found)
    }

    fn push(&mut self, json: Json<'a>, todo: WalkItem, depth: usize) -> Result<(), BadAnnotation> {
        // Only objects and arrays can hold an annotation.
        if matches!(json.kind(), Kind::Object | Kind::Array) {
            if depth == MAX_SCHEMA_DEPTH {
                return Err(BadAnnotation::TooDeep);
            }
            self.todo.push_back((json, todo, depth + 1));
        }
        Ok(())
    }

    fn schema(&mut self, schema: Json<'a>, at: SchemaPosition, depth: usize) -> Result<(), BadAnnotation> {
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
                // The values of these keywords are data or names of properties, so they hold no keywords.
                "enum" | "const" | "default" | "example" | "examples" | "required" | "dependentRequired" => {
                    continue;
                }
                "properties" => WalkItem::Properties(at),
                "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                    WalkItem::Properties(SchemaPosition::Elsewhere)
                }
                // All other keywords, including unknown keywords, because a `$ref` can point into their values.
                _ => WalkItem::Other,
            };
            self.push(member.value, todo, depth)?;
        }
        annotation.map_or(Ok(()), |annotation| self.add_annotation(annotation, kind, at))
    }

    fn properties(&mut self, properties: Json<'a>, at: SchemaPosition, depth: usize) -> Result<(), BadAnnotation> {
        for member in properties.members() {
            let from = match at {
                SchemaPosition::Elsewhere => {
                    self.push(member.value, WalkItem::Other, depth)?;
                    continue;
                }
                SchemaPosition::Root => None,
                SchemaPosition::Property(step) => Some(step),
            };
            self.steps.push(PathStep { from, name: member.name });
            self.push(member.value, WalkItem::Schema(SchemaPosition::Property(self.steps.len() - 1)), depth)?;
        }
        Ok(())
    }

    fn add_annotation(
        &mut self,
        annotation: Json<'a>,
        kind: Option<Json<'a>>,
        at: SchemaPosition,
    ) -> Result<(), BadAnnotation> {
        let SchemaPosition::Property(step) = at else {
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
        if self.found.len() == MAX_HEADER_PARAMS {
            return Err(BadAnnotation::TooMany);
        }
        self.found.push(AnnotatedProperty { name: name.to_owned(), path });
        Ok(())
    }

    fn path(&self, last: usize) -> Vec<Box<[u8]>> {
        let mut path = Vec::new();
        let mut next = Some(last);
        while let Some(PathStep { from, name }) = next.map(|step| &self.steps[step]) {
            path.push(name.to_bytes().into());
            next = *from;
        }
        path.reverse();
        path
    }
}

/// Whether the type is `string`, `integer` or `boolean`, or one of these together with `null`. `null` is allowed
/// because the specification defines how to handle a null argument.
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
            Self::NotAToken(name) => write!(f, "x-mcp-header {name} has characters that a header name cannot have"),
            Self::Twice(name) => write!(f, "two properties have the x-mcp-header {name}"),
            Self::NotPrimitive(property) => {
                write!(f, "{property} has an x-mcp-header, so its type must be string, integer or boolean")
            }
            Self::Elsewhere(name) => {
                write!(f, "x-mcp-header {name} must be at a property that is reached only through \"properties\"")
            }
            Self::TooDeep => write!(f, "the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"),
            Self::TooMany => write!(f, "the schema has more than {MAX_HEADER_PARAMS} x-mcp-header annotations"),
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
    fn annotations_are_found_through_properties() {
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
            // The keyword can be written with escapes.
            (r#"{"properties":{"\u0061":{"type":"string","x-mcp-heade\u0072":"\u0041"}}}"#, &[("A", "a")]),
            (r#"{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}"#, &[("A", "a")]),
            (
                r#"{"properties":{"a":{"$ref":"x","type":"string","x-mcp-header":"!#$%&'*+-.^_`|~09"}}}"#,
                &[("!#$%&'*+-.^_`|~09", "a")],
            ),
            // A property name or value that equals the keyword is not an annotation.
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
    fn an_annotation_anywhere_else_is_an_error() {
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
        // A deep schema without annotations is accepted.
        assert_eq!(found(&deep(100_000, "{}")), Ok(Vec::new()));
        let many = |count: usize| {
            let property = |at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#);
            format!(r#"{{"properties":{{{}}}}}"#, (0..count).map(property).collect::<Vec<_>>().join(","))
        };
        assert_eq!(found(&many(MAX_HEADER_PARAMS)).map(|found| found.len()), Ok(MAX_HEADER_PARAMS));
        assert_eq!(found(&many(MAX_HEADER_PARAMS + 1)), Err(BadAnnotation::TooMany));
    }
}
