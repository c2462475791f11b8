//! Converts a Rust type to the form that asks a user for its value (`requestedSchema`): a flat object of strings,
//! numbers, booleans and choices.
//!
//! MCP allows only a small part of JSON Schema in forms. Keywords that a form cannot have, such as exclusive bounds and
//! patterns, are left out of the form and checked when the answer arrives. A property that a form cannot have is an
//! error that names the property.

use std::any::type_name;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::describe;
use super::type_shape::SchemaPlace;

/// A form, and whether it needs a client of a newer revision.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) schema: Box<RawValue>,
    /// Whether the user can choose several values for a property, which MCP supports since revision 2025-11-25.
    pub(crate) has_multi_select: bool,
}

/// Returns the form for `T`. `Err` names the property that a form cannot have.
pub(crate) fn form_of<T: JsonSchema + DeserializeOwned>() -> Result<Form, String> {
    let schema = describe::input_value::<T>()
        .map_err(|_| format!("a form must be an object, but {} is not", type_name::<T>()))?;
    // A union of structs, or a map with arbitrary names, is not a fixed list of properties.
    let branches = ["anyOf", "oneOf", "allOf", "patternProperties"].iter().any(|keyword| schema.get(keyword).is_some());
    let open = schema.get("additionalProperties").is_some_and(|others| *others != json!(false));
    if branches || open {
        return Err(format!("a form must have a fixed list of properties, but {} does not", type_name::<T>()));
    }

    let mut properties = Map::new();
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let field = property.as_object().and_then(field).ok_or_else(|| {
            format!("property {name:?}: a form can only have strings, numbers, booleans, and choices of strings")
        })?;
        properties.insert(name.clone(), Value::Object(field));
    }
    let has_multi_select = properties.values().any(|field| field["type"] == "array");
    let mut form = json!({ "type": "object", "properties": properties });
    if let Some(required) = schema.get("required") {
        form["required"] = required.clone();
    }
    Ok(Form { schema: describe::to_json(&form, &SchemaPlace::of::<T>()), has_multi_select })
}

/// Returns the form field for a property; `None` if a form cannot have the property.
fn field(property: &Map<String, Value>) -> Option<Map<String, Value>> {
    let property = &without_null(property);
    let mut field = match property.get("type").and_then(Value::as_str) {
        Some("boolean") => pick(property, &["type"]),
        Some("integer" | "number") => pick(property, &["type", "minimum", "maximum"]),
        Some("array") => {
            let mut list = pick(property, &["type", "minItems", "maxItems"]);
            let items = choice(property.get("items")?.as_object()?)?;
            // Only a choice of one value can have titles (`enumNames`).
            list.insert("items".into(), json!({ "type": "string", "enum": items["enum"] }));
            list
        }
        _ => match choice(property) {
            Some(choice) => choice,
            None if property.get("type")? == "string" => text(property)?,
            None => return None,
        },
    };
    field.append(&mut pick(property, &["title", "description", "default"]));
    if field.get("default").is_some_and(Value::is_null) {
        field.remove("default");
    }
    Some(field)
}

fn text(property: &Map<String, Value>) -> Option<Map<String, Value>> {
    // A string that one of these keywords restricts cannot be a free-text field.
    if ["anyOf", "oneOf", "allOf", "enum", "const", "$ref"].iter().any(|keyword| property.contains_key(*keyword)) {
        return None;
    }
    let mut text = pick(property, &["type", "minLength", "maxLength"]);
    let format = property.get("format").filter(|format| FORM_FORMATS.iter().any(|known| *format == known));
    text.extend(format.map(|format| ("format".to_owned(), format.clone())));
    Some(text)
}

/// Returns the form field for a choice of one string; `None` if the property is not a choice.
fn choice(property: &Map<String, Value>) -> Option<Map<String, Value>> {
    let branches = ["oneOf", "anyOf"].iter().find_map(|keyword| property.get(*keyword)?.as_array());
    let options: Vec<(Value, Option<&Value>)> = match (property.get("enum"), property.get("const"), branches) {
        (Some(Value::Array(values)), None, None) => values.iter().map(|value| (value.clone(), None)).collect(),
        (None, Some(value), None) => vec![(value.clone(), None)],
        // schemars generates these branches for variants with their own documentation or title.
        (None, None, Some(branches)) => {
            let mut options = Vec::new();
            for branch in branches {
                let values = match (branch.get("const"), branch.get("enum")) {
                    (Some(value), None) => vec![value.clone()],
                    (None, Some(Value::Array(values))) => values.clone(),
                    _ => return None,
                };
                options.extend(values.into_iter().map(|value| (value, branch.get("title"))));
            }
            options
        }
        _ => return None,
    };
    let values: Vec<&Value> = options.iter().map(|(value, _)| value).collect();
    if values.is_empty() || !values.iter().all(|value| value.is_string()) {
        return None;
    }
    let mut choice = Map::from_iter([("type".to_owned(), json!("string")), ("enum".to_owned(), json!(values))]);
    if options.iter().any(|(_, title)| title.is_some()) {
        // `enumNames` is the only keyword for titles that every revision with forms supports.
        let names: Vec<&Value> = options.iter().map(|(value, title)| title.unwrap_or(value)).collect();
        choice.insert("enumNames".into(), json!(names));
    }
    Some(choice)
}

/// Returns the property without `null` as an allowed value: in a form, an optional property is left out instead.
fn without_null(property: &Map<String, Value>) -> Map<String, Value> {
    let mut property = property.clone();
    if let Some(Value::Array(branches)) = property.get_mut("anyOf") {
        branches.retain(|branch| *branch != json!({ "type": "null" }));
        if let [Value::Object(only)] = &mut branches[..] {
            let only = std::mem::take(only);
            property.remove("anyOf");
            for (keyword, value) in only {
                property.entry(keyword).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            property.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    property
}

fn pick(property: &Map<String, Value>, keywords: &[&str]) -> Map<String, Value> {
    let pick = |keyword: &&str| property.get(*keyword).map(|value| ((*keyword).to_owned(), value.clone()));
    keywords.iter().filter_map(pick).collect()
}

/// The string formats that a form may have, according to "Supported formats" in the elicitation chapter of MCP.
const FORM_FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

#[cfg(test)]
mod tests {
    #![expect(dead_code, reason = "the tests only generate schemas for these types")]

    use std::collections::{BTreeMap, HashSet};

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema, PartialEq, Eq, Hash)]
    #[serde(rename_all = "lowercase")]
    enum FormColour {
        Red,
        Blue,
    }

    #[derive(Deserialize, JsonSchema)]
    enum Plan {
        /// Costs nothing.
        #[schemars(title = "Free of charge")]
        Free,
        /// Costs something.
        Paid,
    }

    #[derive(Deserialize, JsonSchema)]
    enum DocumentedChoice {
        /// One.
        A,
        /// Another.
        B,
    }

    /// Who are you?
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Person {
        #[schemars(length(min = 1, max = 50), regex(pattern = "^[A-Z]"))]
        name: String,
        /// Where we write to.
        #[schemars(email, title = "Mail")]
        mail: Option<String>,
        age: u8,
        #[schemars(range(min = 0.5, max = 3))]
        height: Option<f64>,
        #[serde(default)]
        member: bool,
        colour: Option<FormColour>,
        #[schemars(length(min = 1))]
        colours: HashSet<FormColour>,
        plan: Plan,
        documented: Option<DocumentedChoice>,
        #[serde(default)]
        nick: Option<String>,
    }

    fn form<T: JsonSchema + DeserializeOwned>() -> Value {
        serde_json::from_str(form_of::<T>().expect("a form").schema.get()).expect("JSON")
    }

    #[test]
    fn a_struct_becomes_a_form() {
        let person = form::<Person>();
        assert_eq!(person["required"], json!(["name", "age", "colours", "plan"]));
        assert_eq!(
            person["properties"],
            json!({
                "name": {"type": "string", "minLength": 1, "maxLength": 50},
                "mail": {"type": "string", "format": "email", "title": "Mail", "description": "Where we write to."},
                "age": {"type": "integer", "minimum": 0, "maximum": 255},
                "height": {"type": "number", "minimum": 0.5, "maximum": 3},
                "member": {"type": "boolean", "default": false},
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "colours": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["red", "blue"]}},
                "plan": {"type": "string", "enum": ["Free", "Paid"], "enumNames": ["Free of charge", "Paid"]},
                "documented": {"type": "string", "enum": ["A", "B"]},
                "nick": {"type": "string"},
            })
        );
        assert_eq!(person.as_object().map(Map::len), Some(3), "nothing else is allowed at the top: {person}");
        assert!(form_of::<Person>().expect("a form").has_multi_select);
    }

    #[derive(Deserialize, JsonSchema)]
    struct Order {
        zip: String,
        street: Option<String>,
        city: String,
    }

    #[test]
    fn fields_are_asked_for_as_declared() {
        let form = form_of::<Order>().expect("a form");
        assert_eq!(
            form.schema.get(),
            r#"{"type":"object","properties":{"zip":{"type":"string"},"street":{"type":"string"},"city":{"type":"string"}},"required":["zip","city"]}"#
        );
        assert!(!form.has_multi_select);
        assert_eq!(form_of::<()>().expect("a form").schema.get(), r#"{"type":"object","properties":{}}"#);
    }

    #[test]
    fn properties_that_no_form_can_have_are_named() {
        #[derive(Deserialize, JsonSchema)]
        struct NestedForm {
            fine: String,
            address: Order,
        }
        #[derive(Deserialize, JsonSchema)]
        struct ListForm {
            names: Vec<String>,
        }
        #[derive(Deserialize, JsonSchema)]
        struct Free {
            anything: Value,
        }
        #[derive(Deserialize, JsonSchema)]
        #[serde(untagged)]
        enum Either {
            Number(i64),
            Text(String),
        }
        #[derive(Deserialize, JsonSchema)]
        struct Union {
            either: Option<Either>,
        }
        #[derive(Deserialize, JsonSchema)]
        struct Recursive {
            next: Option<Box<Recursive>>,
        }
        let why = form_of::<NestedForm>().expect_err("nested");
        assert_eq!(
            why,
            "property \"address\": a form can only have strings, numbers, booleans, and choices of strings"
        );
        assert!(form_of::<ListForm>().expect_err("a list").starts_with("property \"names\": "));
        assert!(form_of::<Free>().expect_err("anything").starts_with("property \"anything\": "));
        assert!(form_of::<Union>().expect_err("a union").starts_with("property \"either\": "));
        assert!(form_of::<Recursive>().expect_err("recursive").starts_with("property \"next\": "));
        assert!(form_of::<String>().expect_err("a string").starts_with("a form must be an object"));
        assert!(
            form_of::<BTreeMap<String, String>>()
                .expect_err("a map")
                .starts_with("a form must have a fixed list of properties")
        );
    }
}
