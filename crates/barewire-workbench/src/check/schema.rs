//! JSON Schema -> whether it is one, and whether a value holds to it, in the words of a finding.

use barewire::server::{SchemaValidator, Violation};
use serde_json::Value;

use crate::secrets::is_secret_name;

/// A schema, ready to be used.
pub(super) struct Schema(SchemaValidator);

impl Schema {
    /// Reads a schema of the dialect that it names, or of 2020-12.
    pub(super) fn new(schema: &Value) -> Result<Self, String> {
        SchemaValidator::new(schema, MAX_DEPTH).map(Self).map_err(|error| error.to_string())
    }

    /// Whether the value holds to it.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        if self.0.is_valid(value) {
            return Ok(());
        }
        Err(match self.0.violation(value) {
            None => "it is not what the schema says".to_owned(),
            Some(Violation { pointer, reason, .. }) if pointer.is_empty() => reason,
            // The reason quotes the value.
            Some(Violation { pointer, masked, .. }) if is_secret_name(&pointer) => format!("{pointer}: {masked}"),
            Some(Violation { pointer, reason, .. }) => format!("{pointer}: {reason}"),
        })
    }
}

/// As deep as a message may be.
const MAX_DEPTH: usize = 128;
