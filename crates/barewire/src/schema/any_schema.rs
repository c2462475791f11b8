//! A validator for any JSON Schema, based on a library that supports all keywords and dialects. References to other
//! documents are not fetched.

use std::fmt;

use jsonschema::paths::LocationSegment;
use jsonschema::{Draft, PatternOptions, ValidationError};
use serde_json::Value;

/// A validator for a JSON Schema of any dialect.
///
/// The supported dialects are 2020-12 (the default), 2019-09, draft-07, draft-06 and draft-04. A reference to another
/// document is an error, and formats are not checked.
#[derive(Debug)]
pub struct SchemaValidator {
    validator: jsonschema::Validator,
    draft: Draft,
    /// Whether the schema has no references. With references, the time to find the reason of a violation can double
    /// with every level of the value, so no reason is given. The time to check whether a value is valid is linear in the
    /// value. It can still double with every definition that refers twice to the next one, so a caller that takes schemas
    /// of peers limits that.
    has_no_references: bool,
}

/// The reason why a JSON Schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The dialect in `$schema` is not supported.
    Dialect(String),
    /// The schema is nested deeper than this limit.
    TooDeep(usize),
    /// The schema is not valid in its dialect.
    Invalid {
        /// The location in the schema, as a JSON Pointer; empty for the whole schema.
        path: String,
        /// The reason.
        reason: String,
    },
}

/// A location where a value violates the schema.
#[derive(Debug)]
#[non_exhaustive]
pub struct Violation {
    /// The location in the value.
    pub path: Vec<PathSegment>,
    /// The location as a JSON Pointer; empty for the whole value.
    pub pointer: String,
    /// The reason, which can quote the invalid value.
    pub reason: String,
    /// The reason, without quoting the invalid value.
    pub masked: String,
}

/// One step of the path to a location in a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "JSON has two kinds of containers")]
pub enum PathSegment {
    /// The name of a member of an object.
    Member(String),
    /// The index of an element of an array, from 0.
    Element(usize),
}

impl SchemaValidator {
    /// Compiles a schema that is nested no deeper than `max_depth` levels. The depth is limited because compiling and
    /// checking use stack space for each level.
    pub fn new(schema: &Value, max_depth: usize) -> Result<Self, SchemaError> {
        let draft = dialect(schema)?;
        if depth(schema) > max_depth {
            return Err(SchemaError::TooDeep(max_depth));
        }
        let validator = jsonschema::options()
            .with_draft(draft)
            .offline()
            .should_validate_formats(false)
            // This regex engine matches every pattern in linear time.
            .with_pattern_options(PatternOptions::regex().size_limit(pattern_size(schema)))
            .build(schema)
            .map_err(|error| SchemaError::Invalid {
                path: error.instance_path().as_str().to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Self { validator, draft, has_no_references: !has_references(schema) })
    }

    /// Whether a value matches the schema.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Returns the first location where a value violates the schema; `None` if the value is valid, or if the schema has
    /// references, because then the search could take exponential time.
    pub fn violation(&self, value: &Value) -> Option<Violation> {
        let error = self.has_no_references.then(|| self.validator.validate(value).err()).flatten()?;
        Some(Violation {
            path: path(&error),
            pointer: error.instance_path().as_str().to_owned(),
            reason: error.to_string(),
            masked: error.masked().to_string(),
        })
    }

    /// Whether the keywords of the schema's dialect have the same meaning as in 2020-12.
    pub(crate) fn is_current(&self) -> bool {
        matches!(self.draft, Draft::Draft202012 | Draft::Draft201909)
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dialect(named) => write!(f, "the dialect {named} is not supported"),
            Self::TooDeep(levels) => write!(f, "the schema is nested deeper than {levels} levels"),
            Self::Invalid { path, reason } if path.is_empty() => f.write_str(reason),
            Self::Invalid { path, reason } => write!(f, "{path}: {reason}"),
        }
    }
}

impl std::error::Error for SchemaError {}

fn dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let name = named.as_str().unwrap_or_default().trim_end_matches('#');
    match name.trim_start_matches("https://").trim_start_matches("http://") {
        "json-schema.org/draft/2020-12/schema" => Ok(Draft::Draft202012),
        "json-schema.org/draft/2019-09/schema" => Ok(Draft::Draft201909),
        "json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        "json-schema.org/draft-06/schema" => Ok(Draft::Draft6),
        "json-schema.org/draft-04/schema" => Ok(Draft::Draft4),
        _ => Err(SchemaError::Dialect(named.to_string())),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the maximum size of a compiled pattern, in bytes. A pattern of few characters can take megabytes, so all of
/// them share one limit.
fn pattern_size(schema: &Value) -> usize {
    (MAX_PATTERNS_SIZE / patterns(schema).max(1)).min(MAX_PATTERN_SIZE)
}

fn patterns(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.iter().map(patterns).sum(),
        Value::Object(members) => {
            let named = members.get("patternProperties").and_then(Value::as_object).map_or(0, serde_json::Map::len);
            usize::from(members.contains_key("pattern")) + named + members.values().map(patterns).sum::<usize>()
        }
        _ => 0,
    }
}

fn has_references(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(has_references),
        Value::Object(members) => {
            REFERENCE_KEYWORDS.iter().any(|keyword| members.contains_key(*keyword))
                || members.values().any(has_references)
        }
        _ => false,
    }
}

fn path(error: &ValidationError<'_>) -> Vec<PathSegment> {
    let segment = |segment| match segment {
        LocationSegment::Property(name) => PathSegment::Member(name.to_string()),
        LocationSegment::Index(index) => PathSegment::Element(index),
    };
    error.instance_path().into_iter().map(segment).collect()
}

/// The maximum size of a compiled pattern, in bytes: the default of the library.
const MAX_PATTERN_SIZE: usize = 10 * 1024 * 1024;

/// The maximum size of all patterns of a schema together, in bytes.
const MAX_PATTERNS_SIZE: usize = 16 * 1024 * 1024;

/// The keywords with which a schema refers to another schema or to itself.
const REFERENCE_KEYWORDS: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
