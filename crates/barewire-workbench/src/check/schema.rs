//! JSON Schema -> whether it is one, and whether a value holds to it. Nothing is fetched.

use jsonschema::{Draft, PatternOptions};
use serde_json::Value;

use crate::secrets::is_secret_name;

/// A schema, ready to be used.
pub(super) struct Schema {
    validator: jsonschema::Validator,
    /// It refers to nothing, so the library can say what is wrong: with references its time for that may double with every level
    /// of the value. Whether something is wrong it always says in time that grows with both.
    flat: bool,
}

impl Schema {
    /// Reads a schema of the dialect that it names, or of 2020-12.
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        let draft = dialect(schema)?;
        if depth(schema) > MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        let text = schema.to_string();
        let flat = !REFERENCES.iter().any(|keyword| text.contains(keyword));
        Ok(Self { validator: compile(schema, draft)?, flat })
    }

    /// Whether the value holds to it.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if self.flat
            && let Err(error) = self.validator.validate(value)
        {
            return Err(match error.instance_path().as_str() {
                "" => error.to_string(),
                // It quotes the value.
                path if is_secret_name(path) => format!("{path}: {}", error.masked()),
                path => format!("{path}: {error}"),
            });
        }
        Err("it is not what the schema says".to_owned())
    }
}

fn compile(schema: &Value, draft: Draft) -> Result<jsonschema::Validator, String> {
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(false)
        // In time that grows with the text, whatever the pattern.
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            path => format!("{path}: {error}"),
        })
}

fn dialect(schema: &Value) -> Result<Draft, String> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let name = named.as_str().unwrap_or_default().trim_end_matches('#');
    match name.trim_start_matches("https://").trim_start_matches("http://") {
        "json-schema.org/draft/2020-12/schema" => Ok(Draft::Draft202012),
        "json-schema.org/draft/2019-09/schema" => Ok(Draft::Draft201909),
        "json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        "json-schema.org/draft-06/schema" => Ok(Draft::Draft6),
        "json-schema.org/draft-04/schema" => Ok(Draft::Draft4),
        _ => Err(format!("its dialect {named} is not known")),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// What makes a schema refer to another, or to itself.
const REFERENCES: [&str; 3] = ["\"$ref\"", "\"$dynamicRef\"", "\"$recursiveRef\""];

/// As deep as a message may be.
const MAX_DEPTH: usize = 128;
