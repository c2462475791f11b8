//! Temporary.
use schemars::JsonSchema;
use serde_json::value::{RawValue, to_raw_value};

fn of<T: JsonSchema>() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
        if object.get("type").is_some_and(|t| t == "null") {
            object.insert("type".into(), "object".into());
        }
    }
    schema
}

pub(super) fn input_of<T: JsonSchema>() -> Result<Box<RawValue>, String> {
    Ok(to_raw_value(&of::<T>()).expect("JSON"))
}

pub(super) fn output_of<T: JsonSchema>() -> Box<RawValue> {
    to_raw_value(&of::<T>()).expect("JSON")
}

pub(super) fn form_of<T: JsonSchema>() -> Result<Box<RawValue>, String> {
    input_of::<T>()
}

pub(super) fn is_of_object(schema: &RawValue) -> bool {
    serde_json::from_str::<serde_json::Value>(schema.get())
        .is_ok_and(|s| s.get("type").is_some_and(|t| t == "object"))
}
