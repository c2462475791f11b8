//! A JSON Schema -> whether the schema is valid, and whether a value matches it, with the reason as text for a finding.

use barewire::server::{SchemaValidator, Violation};
use serde_json::Value;

use crate::secrets::is_secret_name;

pub(super) struct Schema(SchemaValidator);

impl Schema {
    /// Compiles a schema in the dialect that the schema names, or by default in 2020-12.
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        SchemaValidator::new(schema, MAX_DEPTH).map(Self).map_err(|error| error.to_string())
    }

    /// Checks that a value matches the schema; the error contains the JSON Pointer of the wrong part and the reason.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if self.0.is_valid(value) {
            return Ok(());
        }
        Err(match self.0.violation(value) {
            None => "the value does not match the schema".to_owned(),
            Some(Violation { pointer, reason, .. }) if pointer.is_empty() => reason,
            // `reason` quotes the value, which may be a secret; `masked` does not.
            Some(Violation { pointer, masked, .. }) if is_secret_name(&pointer) => format!("{pointer}: {masked}"),
            Some(Violation { pointer, reason, .. }) => format!("{pointer}: {reason}"),
        })
    }
}

/// The maximum nesting depth of a schema: the same limit as for messages.
const MAX_DEPTH: usize = 128;
