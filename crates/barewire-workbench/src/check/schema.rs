//! A JSON Schema -> whether the schema is valid, and whether a value matches it, with the reason as text for a finding.

use barewire::server::{SchemaValidator, Violation};
use serde_json::Value;

use super::expansion::check_expansion;
use crate::secrets::is_secret_name;

pub(crate) struct Schema(SchemaValidator);

impl Schema {
    /// Compiles a schema in the dialect that the schema names, or by default in 2020-12.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        check_expansion(schema, MAX_LEVELS)?;
        SchemaValidator::new(schema, MAX_DEPTH).map(Self).map_err(|error| error.to_string())
    }

    /// Checks that a value matches the schema.
    pub(crate) fn check(&self, value: &Value) -> Result<(), SchemaMismatch> {
        if self.0.is_valid(value) {
            return Ok(());
        }
        let Some(Violation { pointer, reason, masked, .. }) = self.0.violation(value) else {
            let why = "the value does not match the schema".to_owned();
            return Err(SchemaMismatch { pointer: String::new(), why });
        };
        let why = match pointer.is_empty() {
            true => reason,
            // `reason` quotes the value, which may be a secret; `masked` does not.
            false if is_secret_name(&pointer) => format!("{pointer}: {masked}"),
            false => format!("{pointer}: {reason}"),
        };
        Err(SchemaMismatch { pointer, why })
    }
}

/// The part of a value that does not match its schema.
pub(crate) struct SchemaMismatch {
    /// The JSON Pointer of the part; empty for the whole value.
    pub(crate) pointer: String,
    /// The reason, as text for a finding.
    pub(crate) why: String,
}

/// The maximum nesting depth of a schema: the same limit as for messages.
const MAX_DEPTH: usize = 128;
/// The maximum nesting depth of a schema with its references replaced.
const MAX_LEVELS: usize = 256;
