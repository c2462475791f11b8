//! The schema of a form -> the values that stand in it before anybody has written something.

use barewire_proto::mcp::{Object, Revision};
use serde_json::Value;
use serde_json::value::RawValue;

/// Fills in the defaults of those fields that have no value. A schema that cannot be read has none.
///
/// A choice of several came with 2025-11-25; before, a form had no place for a list.
pub(super) fn fill(schema: &RawValue, values: &mut Object, revision: Revision) {
    let fits = |value: &Value| revision.has_url_elicitation() || !value.is_array();
    let Ok(schema) = serde_json::from_str::<Value>(schema.get()) else { return };
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, field) in fields {
        if let Some(default) = field.get("default").filter(|default| fits(default))
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
    fn a_form_before_there_were_lists_gets_none() {
        let schema = json!({"properties": {"a": {"default": ["x"]}, "b": {"default": "y"}}});
        let filled = filled_in(Revision::V2025_06_18, &schema, json!({}));
        assert_eq!(filled, json!({"b": "y"}));
    }

    #[test]
    fn what_is_there_stays_and_what_is_not_gets_its_default() {
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
    fn an_odd_schema_has_no_defaults() {
        for schema in [json!({}), json!(5), json!({"properties": []}), json!({"properties": {"a": 1}})] {
            assert_eq!(filled(schema, json!({})), json!({}));
        }
    }
}
