//! Adds the default values of form fields to the user's answer.

use barewire_proto::mcp::{Object, Revision};
use serde_json::Value;
use serde_json::value::RawValue;

use super::small::parse_small;

/// Adds the default of each form field that is missing from `values`. Adds nothing if the schema cannot be parsed.
///
/// Fields whose value is a list (multiple choice) were added in 2025-11-25; for earlier revisions, list defaults are
/// skipped.
pub(super) fn fill(schema: &RawValue, values: &mut Object, revision: Revision) {
    let is_allowed = |value: &Value| revision.has_url_elicitation() || !value.is_array();
    let Ok(schema) = parse_small::<Value>(schema.get()) else { return };
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, field) in fields {
        if let Some(default) = field.get("default").filter(|default| is_allowed(default))
            && !values.contains_key(name)
        {
            values.insert(name.clone(), default.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled_in(revision: Revision, schema: &Value, mut values: Value) -> Value {
        let schema = serde_json::value::to_raw_value(schema).expect("JSON");
        fill(&schema, values.as_object_mut().expect("an object"), revision);
        values
    }

    fn filled(schema: Value, values: Value) -> Value {
        filled_in(Revision::LATEST, &schema, values)
    }

    #[test]
    fn list_defaults_are_skipped_before_2025_11_25() {
        let schema = json!({"properties": {"a": {"default": ["x"]}, "b": {"default": "y"}}});
        let filled = filled_in(Revision::V2025_06_18, &schema, json!({}));
        assert_eq!(filled, json!({"b": "y"}));
    }

    #[test]
    fn missing_fields_get_defaults_and_present_ones_stay() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "verified": {"type": "boolean", "default": false},
            "colours": {"type": "array", "default": ["Red"]},
            "free": {"type": "string"},
        }});
        assert_eq!(
            filled(schema, json!({"name": "", "age": null})),
            json!({"name": "", "age": null, "verified": false, "colours": ["Red"]})
        );
    }

    #[test]
    fn an_unreadable_schema_has_no_defaults() {
        for schema in [json!({}), json!(5), json!({"properties": []}), json!({"properties": {"a": 1}})] {
            assert_eq!(filled(schema, json!({})), json!({}));
        }
    }
}
