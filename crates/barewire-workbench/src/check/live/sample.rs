//! The input schema of a tool -> arguments that probably match it, for a call of the tool.

use serde_json::{Map, Value, json};

use super::pattern::matching_text;
use crate::check::passive::INVENTED_TEXT;
use crate::check::schema::Schema;

/// Returns a small value that probably matches the schema; `None` if the schema is too complicated.
pub(super) fn sample(schema: &Value, depth: usize) -> Option<Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    for given in ["const", "default"] {
        if let Some(value) = schema.get(given) {
            return Some(value.clone());
        }
    }
    for given in ["examples", "enum"] {
        if let Some(value) = schema.get(given).and_then(Value::as_array).and_then(|values| values.first()) {
            return Some(value.clone());
        }
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(choice).and_then(Value::as_array) {
            return choices.iter().find_map(|schema| sample(schema, depth + 1));
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.iter().find_map(Value::as_str)?,
        // An empty schema accepts any value; any other schema without a type has references or conditions.
        None if schema.get("properties").is_some() => "object",
        None if schema.as_object().is_some_and(Map::is_empty) => "string",
        _ => return None,
    };
    Some(match kind {
        "object" => return object(schema, depth),
        "string" => string(schema)?,
        "integer" | "number" => number(schema),
        "boolean" => json!(false),
        "array" if schema.get("minItems").and_then(Value::as_u64).unwrap_or(0) > 0 => {
            json!([sample(schema.get("items")?, depth + 1)?])
        }
        "array" => json!([]),
        "null" => Value::Null,
        _ => return None,
    })
}

fn object(schema: &Value, depth: usize) -> Option<Value> {
    let mut members = Map::new();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        let property = schema.get("properties").and_then(|it| it.get(name))?;
        members.insert(name.to_owned(), sample(property, depth + 1)?);
    }
    Some(Value::Object(members))
}

fn string(schema: &Value) -> Option<Value> {
    let text = match schema.get("format").and_then(Value::as_str) {
        None => Some(INVENTED_TEXT),
        Some("date") => Some("2026-07-28"),
        Some("date-time") => Some("2026-07-28T00:00:00Z"),
        Some("uri" | "url") => Some("https://example.com/"),
        Some("email") => Some("somebody@example.com"),
        Some(_) => None,
    };
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        return by_pattern(schema, text, pattern);
    }
    let text = text?;
    let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
    let most = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let length = text.len() as u64;
    (least..=most).contains(&length).then(|| json!(text)).or_else(|| {
        let length = usize::try_from(least.min(64)).ok()?.max(usize::from(most > 0));
        Some(json!("x".repeat(length)))
    })
}

/// Returns a text that matches a schema with a pattern: `text`, if that matches, or one that follows the pattern.
fn by_pattern(schema: &Value, text: Option<&str>, pattern: &str) -> Option<Value> {
    let schema = Schema::new(schema).ok()?;
    let texts = text.map(str::to_owned).into_iter();
    let texts = texts.chain([1, 8, 64].into_iter().filter_map(|least| matching_text(pattern, least)));
    texts.map(Value::String).find(|text| schema.check(text).is_ok())
}

fn number(schema: &Value) -> Value {
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), _) => least.clone(),
        (None, Some(most)) if most.as_f64().is_some_and(|most| most < 1.0) => most.clone(),
        _ => json!(1),
    }
}

/// The maximum depth of a schema; deeper schemas are too complicated.
const MAX_DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_members_are_invented() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 3},
                "b": {"enum": ["x", "y"]},
                "c": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "d": {"type": "string"},
            },
            "required": ["a", "b", "c"],
        });
        assert_eq!(sample(&schema, 0), Some(json!({"a": 3, "b": "x", "c": ["barewire"]})));
        assert_eq!(sample(&json!({"type": "object"}), 0), Some(json!({})));
    }

    #[test]
    fn a_pattern_gives_a_text_that_matches() {
        let text = |schema: Value| sample(&schema, 0);
        assert_eq!(text(json!({"type": "string", "pattern": "^a{7}$"})), Some(json!("aaaaaaa")));
        assert_eq!(text(json!({"type": "string", "pattern": "^[a-z]+$"})), Some(json!("barewire")));
        assert_eq!(text(json!({"type": "string", "pattern": "^[0-9]+$", "minLength": 5})), Some(json!("00000000")));
        assert_eq!(text(json!({"type": "string", "pattern": "^a+$", "default": "aa"})), Some(json!("aa")));
        // What is found does not match, so it is not used.
        assert_eq!(text(json!({"type": "string", "pattern": "^a$", "minLength": 5})), None);
    }

    #[test]
    fn a_reference_or_an_impossible_pattern_gives_no_sample() {
        for property in [json!({"type": "string", "pattern": "^(?=a)b$"}), json!({"$ref": "#/$defs/x"})] {
            let schema = json!({"type": "object", "properties": {"a": property}, "required": ["a"]});
            assert_eq!(sample(&schema, 0), None);
        }
    }
}
