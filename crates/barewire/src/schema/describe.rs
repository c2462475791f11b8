//! Converts a Rust type to its JSON Schema (2020-12), for a tool's arguments or its structured result.
//!
//! The schema is short and self-contained, for models and for all hosts: no `$schema`, no references except in
//! recursive types, no formats that JSON Schema does not define, and members in the order of declaration.

use std::any::type_name;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::type_shape::{SchemaPlace, TypeShape};

/// Returns the schema of a tool's arguments. Its type is always `object`. `Err` is the reason why `T` cannot be used.
pub(crate) fn input_of<T: JsonSchema + DeserializeOwned>() -> Result<Box<RawValue>, String> {
    Ok(to_json(&without_unknown_formats(input_value::<T>()?), &SchemaPlace::of::<T>()))
}

/// Returns the schema of a structured result.
pub(crate) fn output_of<T: JsonSchema>() -> Box<RawValue> {
    let schema = generated::<T>(SchemaSettings::draft2020_12().for_serialize());
    to_json(&without_unknown_formats(schema), &SchemaPlace::unknown())
}

/// Returns the schema of [`input_of`] as a value, still with the formats that [`input_of`] removes.
pub(super) fn input_value<T: JsonSchema>() -> Result<Value, String> {
    let mut root = generated::<T>(SchemaSettings::draft2020_12().for_deserialize());
    if root.get("type").is_some_and(|only| only == "null") {
        // The type is `()` or a unit struct, for a tool without arguments.
        root.remove("type");
        root.insert("additionalProperties".into(), false.into());
    }
    if !can_be_object(&root, &root, MAX_REFS) {
        let what = root.get("type").and_then(Value::as_str).unwrap_or("something else");
        return Err(format!(
            "arguments must be a JSON object, but the JSON type of {} is {what}: make it a member of a struct",
            type_name::<T>()
        ));
    }
    keep_only_objects(&mut root);
    Ok(Value::Object(root))
}

/// Returns the schema that schemars generates for `T`, without references, meta-schema and default title.
fn generated<T: JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let root = schema.ensure_object();
    if root.get("title").and_then(Value::as_str) == Some(&*T::schema_name()) {
        root.remove("title");
    }
    std::mem::take(root)
}

/// Whether the schema could accept an object.
fn can_be_object(schema: &Map<String, Value>, root: &Map<String, Value>, refs: usize) -> bool {
    let within = |schema: &Value, refs| match schema {
        Value::Bool(any) => *any,
        Value::Object(schema) => can_be_object(schema, root, refs),
        _ => true,
    };
    let branches = |name| schema.get(name).and_then(Value::as_array);
    schema.iter().all(|(keyword, value)| match &**keyword {
        "type" => match value {
            Value::Array(several) => several.iter().any(|one| one == "object"),
            one => one == "object",
        },
        "const" => value.is_object(),
        "enum" => value.as_array().is_none_or(|values| values.iter().any(Value::is_object)),
        "anyOf" | "oneOf" => branches(keyword).is_none_or(|any| any.iter().any(|one| within(one, refs))),
        "allOf" => branches(keyword).is_none_or(|all| all.iter().all(|one| within(one, refs))),
        // The number of references is limited, because references in hand-written schemas can form a cycle.
        "$ref" if refs > 0 => resolve_ref(root, value).is_none_or(|target| within(&target, refs - 1)),
        _ => true,
    })
}

/// Returns the schema that a reference within `root` refers to.
fn resolve_ref(root: &Map<String, Value>, reference: &Value) -> Option<Value> {
    let pointer = reference.as_str()?.strip_prefix('#')?;
    Value::Object(root.clone()).pointer(pointer).cloned()
}

/// Restricts the schema to objects, and removes the branches that accept no object.
fn keep_only_objects(root: &mut Map<String, Value>) {
    let whole = root.clone();
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = root.get_mut(keyword) else { continue };
        branches.retain(|branch| branch.as_object().is_none_or(|one| can_be_object(one, &whole, MAX_REFS)));
        // A single remaining branch, such as that of `Option<T>`, is merged into the schema.
        if let [Value::Object(only)] = &mut branches[..]
            && only.keys().all(|stated| !whole.contains_key(stated))
        {
            let mut only = std::mem::take(only);
            root.remove(keyword);
            root.append(&mut only);
        }
    }
    root.insert("type".into(), "object".into());
}

/// Removes formats that JSON Schema does not define, such as `int32` and `double`, because the validators of several
/// hosts refuse them.
fn without_unknown_formats(schema: impl Into<Value>) -> Value {
    let mut schema = Schema::try_from(schema.into()).expect("a schema is an object");
    RecursiveTransform(|schema: &mut Schema| {
        if schema.get("format").and_then(Value::as_str).is_some_and(|format| !STANDARD_FORMATS.contains(&format)) {
            schema.remove("format");
        }
    })
    .transform(&mut schema);
    schema.to_value()
}

/// Writes a schema as JSON: the type and the description first, and members in the order of declaration where it is
/// known.
pub(super) fn to_json(schema: &Value, place: &SchemaPlace<'_>) -> Box<RawValue> {
    let mut text = String::new();
    write_schema(&mut text, schema, place);
    RawValue::from_string(text).expect("`write_schema` writes valid JSON")
}

fn write_schema(out: &mut String, schema: &Value, place: &SchemaPlace<'_>) {
    let Value::Object(keywords) = schema else { return out.push_str(&schema.to_string()) };
    let first = FIRST_KEYWORDS.iter().filter_map(|name| keywords.get_key_value(*name));
    let others = keywords.iter().filter(|(name, _)| !FIRST_KEYWORDS.contains(&&***name));
    write_object(out, first.chain(others), |out, keyword, value| match (keyword, value) {
        ("properties", Value::Object(members)) => {
            let members = in_order(members, keywords.get("required"), place);
            write_object(out, members.into_iter(), |out, name, member| write_schema(out, member, &place.member(name)));
        }
        ("$defs" | "definitions" | "patternProperties", Value::Object(schemas)) => {
            write_object(out, schemas.iter(), |out, _, schema| write_schema(out, schema, &SchemaPlace::unknown()));
        }
        ("items", _) => write_schema(out, value, &place.element()),
        ("additionalProperties", _) => write_schema(out, value, &place.member("")),
        // Every branch describes the same value, so `place` stays the same.
        ("anyOf" | "oneOf" | "allOf", Value::Array(branches)) => {
            write_array(out, branches, |out, branch| write_schema(out, branch, place));
        }
        ("prefixItems", Value::Array(items)) => {
            write_array(out, items, |out, item| write_schema(out, item, &SchemaPlace::unknown()));
        }
        _ => out.push_str(&value.to_string()),
    });
}

fn write_object<'a>(
    out: &mut String,
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    mut value: impl FnMut(&mut String, &'a str, &'a Value),
) {
    out.push('{');
    for (i, (name, member)) in members.enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        out.push_str(&json!(name).to_string());
        out.push(':');
        value(out, name, member);
    }
    out.push('}');
}

fn write_array(out: &mut String, elements: &[Value], mut element: impl FnMut(&mut String, &Value)) {
    out.push('[');
    for (i, value) in elements.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { "," });
        element(out, value);
    }
    out.push(']');
}

/// Sorts members in the order of declaration, if it is known from the type. If not, the required members come first, in
/// the order of the `required` list, which is the order of declaration.
fn in_order<'a>(
    members: &'a Map<String, Value>,
    required: Option<&Value>,
    place: &SchemaPlace<'_>,
) -> Vec<(&'a String, &'a Value)> {
    let declared: Vec<&str> = match place.shape().map(|place| place.shape) {
        Some(TypeShape::Struct(fields)) => fields.to_vec(),
        _ => required.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    let mut sorted: Vec<_> = members.iter().collect();
    // The sort is stable: the other members keep the order of the map.
    sorted.sort_by_key(|(name, _)| declared.iter().position(|one| one == name).unwrap_or(usize::MAX));
    sorted
}

/// The keywords that are written first, because they are the most important for a reader.
const FIRST_KEYWORDS: [&str; 5] = ["type", "title", "description", "properties", "required"];

/// The formats that JSON Schema 2020-12 defines (validation, section 7.3).
pub(super) const STANDARD_FORMATS: [&str; 19] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// The maximum length of a chain of references that is followed to find out whether a schema accepts objects.
const MAX_REFS: usize = 16;

#[cfg(test)]
mod tests {
    #![expect(dead_code, reason = "the tests only generate schemas for these types")]

    use std::collections::{BTreeMap, HashMap};

    use serde::{Deserialize, Serialize};

    use super::*;

    fn input<T: JsonSchema + DeserializeOwned>() -> Value {
        serde_json::from_str(input_of::<T>().expect("an object").get()).expect("JSON")
    }

    fn output<T: JsonSchema>() -> Value {
        serde_json::from_str(output_of::<T>().get()).expect("JSON")
    }

    /// Add two numbers.
    #[derive(Deserialize, JsonSchema)]
    struct Add {
        /// The one.
        b: u32,
        a: Option<f64>,
        #[serde(default)]
        carry: bool,
    }

    #[test]
    fn a_struct_is_an_object_with_its_documentation_in_its_order() {
        assert_eq!(
            input_of::<Add>().expect("an object").get(),
            r#"{"type":"object","description":"Add two numbers.","properties":{"b":{"type":"integer","description":"The one.","minimum":0},"a":{"type":["number","null"]},"carry":{"type":"boolean","default":false}},"required":["b"]}"#
        );
    }

    #[derive(Deserialize, JsonSchema)]
    struct UnitStruct;

    #[derive(Deserialize, JsonSchema)]
    struct EmptyStruct {}

    #[test]
    fn no_arguments_are_an_object_without_members() {
        let none = r#"{"type":"object","additionalProperties":false}"#;
        assert_eq!(input_of::<()>().expect("an object").get(), none);
        assert_eq!(input_of::<UnitStruct>().expect("an object").get(), none);
        assert_eq!(input::<EmptyStruct>(), json!({"type": "object"}));
        assert_eq!(input::<Value>(), json!({"type": "object"}));
        assert_eq!(input::<Map<String, Value>>(), json!({"type": "object", "additionalProperties": true}));
    }

    #[test]
    fn a_type_that_is_never_an_object_is_refused_with_a_reason() {
        let why = input_of::<Vec<String>>().expect_err("an array");
        assert_eq!(
            why,
            "arguments must be a JSON object, but the JSON type of alloc::vec::Vec<alloc::string::String> is array: make it \
             a member of a struct"
        );
        for refused in [input_of::<String>().is_err(), input_of::<(i32, i32)>().is_err(), input_of::<Signal>().is_err()]
        {
            assert!(refused);
        }
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Signal {
        RedLight,
        Green,
    }

    #[derive(Deserialize, JsonSchema)]
    enum ExternalCommand {
        Stop,
        Go { to: String },
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "do")]
    enum TaggedCommand {
        Stop,
        Go { to: String },
    }

    #[test]
    fn an_enum_keeps_the_branches_that_are_objects() {
        assert_eq!(
            input::<ExternalCommand>(),
            json!({"type": "object", "properties": {"Go": {"type": "object", "properties": {"to": {"type": "string"}},
                "required": ["to"]}}, "required": ["Go"], "additionalProperties": false})
        );
        let tagged = input::<TaggedCommand>();
        assert_eq!(tagged["type"], "object");
        assert_eq!(tagged["oneOf"].as_array().map(Vec::len), Some(2));
        let optional = input::<Option<Add>>();
        assert_eq!((&optional["type"], &optional["required"]), (&json!("object"), &json!(["b"])));
    }

    #[derive(Deserialize, JsonSchema)]
    struct ManyFormats {
        small: i8,
        size: usize,
        ratio: f32,
        maybe: Option<u64>,
        nested: HashMap<String, Vec<i64>>,
        #[schemars(email)]
        mail: String,
        /// A member, not a keyword.
        format: Signal,
        #[serde(default = "int32")]
        text: String,
    }

    fn int32() -> String {
        "int32".into()
    }

    #[test]
    fn odd_formats_go_and_their_bounds_stay() {
        let wide = input::<ManyFormats>();
        let property = |name: &str| wide["properties"][name].clone();
        assert_eq!(property("small"), json!({"type": "integer", "minimum": -128, "maximum": 127}));
        assert_eq!(property("size"), json!({"type": "integer", "minimum": 0}));
        assert_eq!(property("ratio"), json!({"type": "number"}));
        assert_eq!(property("maybe"), json!({"type": ["integer", "null"], "minimum": 0}));
        assert_eq!(
            property("nested"),
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}})
        );
        assert_eq!(property("mail"), json!({"type": "string", "format": "email"}));
        assert_eq!(
            property("format"),
            json!({"type": "string", "enum": ["red_light", "green"], "description": "A member, not a keyword."})
        );
        assert_eq!(property("text"), json!({"type": "string", "default": "int32"}));
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Tree {
        value: i32,
        children: Vec<Tree>,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Forest {
        oak: Tree,
        elm: Option<Box<Tree>>,
    }

    #[test]
    fn only_recursion_makes_references() {
        assert_eq!(input::<Tree>()["properties"]["children"], json!({"type": "array", "items": {"$ref": "#"}}));
        let forest = input::<Forest>();
        let leaf = json!({"type": "array", "items": {"$ref": "#/$defs/Tree"}});
        assert_eq!(forest["$defs"]["Tree"]["properties"]["children"], leaf);
        assert_eq!(forest["properties"]["oak"]["properties"]["children"], leaf);
        assert!(!input_of::<ManyFormats>().expect("an object").get().contains("$"));
    }

    #[derive(Deserialize, JsonSchema)]
    struct OrderedOuter {
        zebra: i64,
        inner: Vec<OrderedInner>,
        apple: i64,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct OrderedInner {
        y: Option<i64>,
        x: i64,
        b: Option<i64>,
        a: i64,
    }

    #[test]
    fn members_come_as_declared_at_every_depth() {
        let order = |text: &str| {
            let mut names = ["zebra", "inner", "apple", "y", "x", "b", "a"]
                .map(|name| (text.find(&format!("\"{name}\":{{")), name));
            names.sort_unstable();
            names.iter().filter(|(at, _)| at.is_some()).map(|(_, name)| *name).collect::<Vec<_>>()
        };
        let nested = input_of::<OrderedOuter>().expect("an object");
        assert_eq!(order(nested.get()), ["zebra", "inner", "y", "x", "b", "a", "apple"]);
        // The order of a type that is only serialized comes from the `required` list. Here it has all members, in the
        // order of declaration.
        assert_eq!(order(output_of::<OrderedInner>().get()), ["y", "x", "b", "a"]);
    }

    #[derive(Deserialize, JsonSchema)]
    #[schemars(title = "A title")]
    struct Titled {
        a: BTreeMap<u32, bool>,
    }

    #[test]
    fn a_title_that_was_given_stays() {
        assert_eq!(input::<Titled>()["title"], "A title");
        assert_eq!(input::<Add>().get("title"), None);
    }

    #[test]
    fn a_result_may_be_anything() {
        assert_eq!(
            output::<Vec<u8>>(),
            json!({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}})
        );
        assert_eq!(output::<String>(), json!({"type": "string"}));
        assert_eq!(output::<Signal>(), json!({"type": "string", "enum": ["red_light", "green"]}));
        assert_eq!(output::<()>(), json!({"type": "null"}));
        assert_eq!(output::<Value>(), json!({}));
        // The schemas for deserializing and serializing can differ: a default makes a member optional only for
        // deserializing.
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        #[derive(Default)]
        struct Two {
            a: i64,
        }
        assert_eq!(input::<Two>().get("required"), None);
        assert_eq!(output::<Two>()["required"], json!(["a"]));
    }
}
