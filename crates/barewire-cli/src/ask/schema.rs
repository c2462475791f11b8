//! The JSON Schema of an object -> its fields: their types, choices and limits.

use std::fmt;

use barewire_proto::json::Json;
use barewire_workbench::tree::small_tree;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::output::shown;

#[derive(Debug, Default)]
pub(crate) struct Fields {
    /// The fields in the order of the schema.
    pub(crate) fields: Vec<Field>,
    pub(crate) others: Others,
}

/// The rule for members of the object that the schema does not list.
#[derive(Debug, Default)]
pub(crate) enum Others {
    #[default]
    Allowed,
    /// Allowed if they fit the schema of this field.
    Like(Box<Field>),
    Refused,
}

/// A field of an object, from its JSON Schema.
#[derive(Debug, Default)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
    /// The types that the field allows; empty if it allows any type.
    pub(crate) kinds: Vec<Type>,
    /// The values that the field allows, if the schema lists them.
    pub(crate) choices: Option<Vec<Choice>>,
    pub(crate) default: Option<Value>,
    pub(crate) limits: Limits,
    pub(crate) items: Option<Box<Field>>,
}

/// A JSON type. Messages list types in this order. String is last, because it is used only for a text that fits no
/// other allowed type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    Array,
    Object,
    String,
}

/// One of the values that a schema lists.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) value: Value,
    pub(crate) title: Option<String>,
}

/// Limits for the value of a number, the length of a string, and the number of elements of an array.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: Option<f64>,
    pub(crate) exclusive_maximum: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    /// The `format` of a string, such as `email` or `date`.
    pub(crate) format: Option<String>,
}

impl Fields {
    /// Reads the JSON Schema of an object. Unknown keywords are ignored.
    pub(crate) fn of(schema: &RawValue) -> Self {
        Json::parse(schema.get().as_bytes()).map(Self::of_json).unwrap_or_default()
    }

    /// Reads the JSON Schema of an object. A schema with too many values is not read.
    pub(crate) fn of_json(schema: Json<'_>) -> Self {
        let Some(root) = small_tree(schema) else { return Self::default() };
        let object = resolved(&root, &root);
        let properties = object.get("properties").and_then(Value::as_object);
        let required = |name: &str| {
            let listed = object.get("required").and_then(Value::as_array);
            listed.is_some_and(|names| names.iter().any(|it| it == name))
        };
        let mut names = order(schema);
        // `order` does not find properties behind a `$ref`. They are added in the order of the map.
        let others: Vec<_> = properties.into_iter().flat_map(Map::keys).filter(|name| !names.contains(name)).collect();
        names.extend(others.into_iter().cloned());
        // Many properties can refer to one long definition.
        let mut room = MAX_FIELDS_LENGTH;
        let field = |name: String| {
            let property = properties?.get(&name)?;
            let length = if room > 0 { resolved(&root, property).to_string().len() } else { 1 };
            let facts = room.checked_sub(length).map(|left| {
                room = left;
                Field::of(&root, property, MAX_DEPTH)
            });
            Some(Field { required: required(&name), name, ..facts.unwrap_or_default() })
        };
        let fields = names.into_iter().filter_map(field).collect();
        let has_patterns = object.get("patternProperties").is_some();
        let others = match object.get("additionalProperties") {
            Some(Value::Bool(false)) if !has_patterns => Others::Refused,
            Some(like @ Value::Object(_)) => Others::Like(Box::new(Field::of(&root, like, MAX_DEPTH))),
            _ => Others::Allowed,
        };
        Self { fields, others }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Returns a field of type string, such as an argument of a prompt.
    pub(crate) fn string(name: impl Into<String>) -> Self {
        Self { name: name.into(), kinds: vec![Type::String], ..Self::default() }
    }

    fn of(root: &Value, schema: &Value, depth: usize) -> Self {
        let outer = schema;
        let schema = resolved(root, schema);
        let text = |name: &str| {
            let own = outer.get(name).or_else(|| schema.get(name));
            own.and_then(Value::as_str).map(str::to_owned)
        };
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let whole = |name: &str| schema.get(name).and_then(Value::as_u64);
        let limits = Limits {
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: number("exclusiveMinimum"),
            exclusive_maximum: number("exclusiveMaximum"),
            min_length: whole("minLength"),
            max_length: whole("maxLength"),
            min_items: whole("minItems"),
            max_items: whole("maxItems"),
            format: text("format"),
        };
        let items = schema.get("items").filter(|_| depth > 0);
        Self {
            name: String::new(),
            title: text("title"),
            description: text("description"),
            required: false,
            kinds: kinds(root, schema, depth),
            choices: choices(root, schema, depth),
            default: outer.get("default").or_else(|| schema.get("default")).cloned(),
            limits,
            items: items.map(|items| Box::new(Self::of(root, items, depth - 1))),
        }
    }

    pub(crate) fn may_be(&self, kind: Type) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Checks a value. The error says what the value must be.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let has_type = self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.is(value));
        let is_choice = |choices: &Vec<Choice>| choices.iter().any(|choice| choice.value == *value);
        if !has_type || !self.choices.as_ref().is_none_or(is_choice) {
            return Err(format!("must be {}", self.kind()));
        }
        self.limits.check(value)?;
        if let (Some(items), Some(elements)) = (&self.items, value.as_array()) {
            let check = |element| items.check(element).map_err(|error| format!("has an element that {error}"));
            elements.iter().try_for_each(check)?;
        }
        Ok(())
    }

    /// Returns the type with an article: `an integer`, `one of a, b`.
    pub(crate) fn kind(&self) -> String {
        if let Some(choices) = &self.choices {
            let name = |choice: &Choice| shown(plain(&choice.value).as_bytes(), MAX_CHOICE);
            let names: Vec<String> = choices.iter().map(name).collect();
            return match names.as_slice() {
                [only] => only.clone(),
                names => format!("one of {}", names.join(", ")),
            };
        }
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.with_article()).collect();
        match names.as_slice() {
            [] => "any JSON".to_owned(),
            names => names.join(" or "),
        }
    }

    /// Returns the type in short form, for a table column: `integer 1..10`, `a|b`, `array of string`.
    pub(crate) fn short(&self) -> String {
        if let Some(choices) = &self.choices {
            return choices.iter().map(|choice| plain(&choice.value)).collect::<Vec<_>>().join("|");
        }
        let mut names: Vec<String> = self.kinds.iter().map(ToString::to_string).collect();
        if let (Some(items), [Type::Array]) = (&self.items, self.kinds.as_slice()) {
            names = vec![format!("array of {}", items.short())];
        }
        let names = if names.is_empty() { "any".to_owned() } else { names.join("|") };
        format!("{names}{}", self.limits)
    }
}

impl Type {
    const ALL: [(Self, &'static str, &'static str); 7] = [
        (Self::Null, "null", "null"),
        (Self::Boolean, "boolean", "true or false"),
        (Self::Integer, "integer", "an integer"),
        (Self::Number, "number", "a number"),
        (Self::Array, "array", "an array"),
        (Self::Object, "object", "an object"),
        (Self::String, "string", "a string"),
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, it, _)| *it == name).map(|(kind, ..)| *kind)
    }

    fn with_article(self) -> &'static str {
        Self::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(.., name)| name)
    }

    pub(crate) fn is(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            // In JSON Schema, 1.0 is an integer.
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Number => value.is_number(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
            Self::String => value.is_string(),
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::Number(_) => Self::Number,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
            Value::String(_) => Self::String,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(kind, ..)| kind == self).map_or("", |(_, name, _)| name))
    }
}

impl Limits {
    fn check(&self, value: &Value) -> Result<(), String> {
        if let Some(number) = value.as_f64() {
            let broken = [
                (self.minimum.filter(|limit| number < *limit), "at least"),
                (self.maximum.filter(|limit| number > *limit), "at most"),
                (self.exclusive_minimum.filter(|limit| number <= *limit), "more than"),
                (self.exclusive_maximum.filter(|limit| number >= *limit), "less than"),
            ];
            if let Some((limit, words)) = broken.iter().find_map(|(limit, words)| Some((limit.as_ref()?, words))) {
                return Err(format!("must be {words} {limit}"));
            }
        }
        let counted = match value {
            Value::String(text) => Some((text.chars().count(), self.min_length, self.max_length, "characters")),
            Value::Array(elements) => Some((elements.len(), self.min_items, self.max_items, "elements")),
            _ => None,
        };
        if let Some((count, least, most, what)) = counted {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            if let Some(least) = least.filter(|least| count < *least) {
                return Err(format!("must have at least {least} {what}"));
            }
            if let Some(most) = most.filter(|most| count > *most) {
                return Err(format!("must have at most {most} {what}"));
            }
        }
        Ok(())
    }
}

/// Writes the limits for a table column: ` 1..10` for a number, ` (email)` for a format, or nothing.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
        if self.minimum.is_some() || self.maximum.is_some() {
            write!(f, " {}..{}", bound(self.minimum), bound(self.maximum))?;
        }
        match &self.format {
            // Schemas generated from types have number widths such as `int32` as formats, which do not help a user.
            Some(format) if self.minimum.is_none() && self.maximum.is_none() && !is_width(format) => {
                write!(f, " ({format})")
            }
            _ => Ok(()),
        }
    }
}

fn is_width(format: &str) -> bool {
    let digits = |prefix: &str| format.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u8>().is_ok());
    digits("int") || digits("uint") || matches!(format, "double" | "float")
}

/// Returns a value in the form that a user types: a string has no quotes.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the names of the properties in the order of the schema. A parsed map does not keep this order.
fn order(schema: Json<'_>) -> Vec<String> {
    let properties = schema.members().find(|member| member.name == "properties");
    let names = properties.into_iter().flat_map(|properties| properties.value.members());
    names.map(|member| member.name.to_name().into_owned()).collect()
}

/// Follows `$ref`s of a schema within the same document.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_DEPTH {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let Some(found) = reference.and_then(|it| it.strip_prefix('#')).and_then(|it| root.pointer(it)) else {
            break;
        };
        schema = found;
    }
    schema
}

/// Returns the types that a schema allows; empty if it allows all types, or if the types cannot be determined.
fn kinds(root: &Value, schema: &Value, depth: usize) -> Vec<Type> {
    let mut found: Vec<Type> = match schema.get("type") {
        Some(Value::String(name)) => Type::parse(name).into_iter().collect(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).filter_map(Type::parse).collect(),
        _ => match (values(schema), branches(schema)) {
            (Some(values), _) => values.map(Type::of).collect(),
            (None, Some(branches)) if depth > 0 => {
                let each: Vec<Vec<Type>> =
                    branches.iter().map(|branch| kinds(root, resolved(root, branch), depth - 1)).collect();
                // If one branch allows any type, the whole schema does.
                if each.iter().any(Vec::is_empty) { Vec::new() } else { each.concat() }
            }
            _ => Vec::new(),
        },
    };
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the values that a schema allows, if it lists them.
fn choices(root: &Value, schema: &Value, depth: usize) -> Option<Vec<Choice>> {
    if let Some(values) = values(schema) {
        // The titles of choices are in `enumNames` in revision 2025-06-18, and next to each `const` in later revisions.
        let names = schema.get("enumNames").and_then(Value::as_array);
        let title = |index: usize| names?.get(index)?.as_str().map(str::to_owned);
        let own = schema.get("title").and_then(Value::as_str).filter(|_| schema.get("const").is_some());
        let choice = |(index, value): (usize, &Value)| Choice {
            value: value.clone(),
            title: title(index).or_else(|| own.map(str::to_owned)),
        };
        return Some(values.enumerate().map(choice).collect());
    }
    let branches = branches(schema).filter(|_| depth > 0)?;
    let mut all = Vec::new();
    for branch in branches {
        let branch = resolved(root, branch);
        match choices(root, branch, depth - 1) {
            Some(choices) => all.extend(choices),
            None if branch.get("type").is_some_and(|kind| kind == "null") => {
                all.push(Choice { value: Value::Null, title: None });
            }
            None => return None,
        }
    }
    Some(all)
}

fn values(schema: &Value) -> Option<impl Iterator<Item = &Value>> {
    let values = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.as_slice(),
        (_, Some(value)) => std::slice::from_ref(value),
        _ => return None,
    };
    Some(values.iter())
}

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    ["anyOf", "oneOf"].iter().find_map(|name| schema.get(*name).and_then(Value::as_array))
}

/// The maximum number of references and nesting levels to follow, because a schema can refer to itself.
const MAX_DEPTH: usize = 8;

/// The maximum total length of the definitions of all properties, in bytes. Further properties have only a name.
const MAX_FIELDS_LENGTH: usize = 1024 * 1024;

/// The maximum number of characters of a choice shown in a message.
const MAX_CHOICE: usize = 60;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(schema: &str) -> Fields {
        Fields::of(&RawValue::from_string(schema.to_owned()).expect("JSON"))
    }

    fn field(schema: Value) -> Field {
        let object = json!({"properties": {"it": schema}}).to_string();
        fields(&object).fields.pop().expect("one")
    }

    #[test]
    fn fields_keep_their_order_and_required_flag() {
        let parsed = fields(r#"{"type":"object","properties":{"z":{},"a":{},"m":{}},"required":["m"]}"#);
        let names: Vec<_> = parsed.fields.iter().map(|field| (&*field.name, field.required)).collect();
        assert_eq!(names, [("z", false), ("a", false), ("m", true)]);
        assert!(matches!(parsed.others, Others::Allowed));
        assert!(matches!(fields(r#"{"additionalProperties":false}"#).others, Others::Refused));
    }

    #[test]
    fn the_type_of_a_field_has_many_forms() {
        for (schema, kind, short) in [
            (json!({"type": "integer", "minimum": 1, "maximum": 9}), "an integer", "integer 1..9"),
            (json!({"type": ["string", "null"]}), "null or a string", "null|string"),
            (json!({"enum": ["a", "b", 3]}), "one of a, b, 3", "a|b|3"),
            (json!({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}), "one of a, b", "a|b"),
            (json!({"anyOf": [{"enum": ["x"]}, {"type": "null"}]}), "one of x, null", "x|null"),
            (json!({"anyOf": [{"type": "number"}, {"type": "string"}]}), "a number or a string", "number|string"),
            (json!({"type": "array", "items": {"type": "string"}}), "an array", "array of string"),
            (json!({"type": "string", "format": "email"}), "a string", "string (email)"),
            (json!({"type": "integer", "format": "uint32"}), "an integer", "integer"),
            (json!({"const": 1}), "1", "1"),
            (json!({}), "any JSON", "any"),
            (json!(true), "any JSON", "any"),
        ] {
            let field = field(schema.clone());
            assert_eq!((field.kind().as_str(), field.short().as_str()), (kind, short), "{schema}");
        }
    }

    #[test]
    fn references_are_followed_and_cycles_end() {
        let schema = r##"{"$defs":{"Color":{"enum":["red"],"description":"a colour"},"Tree":{"type":"array","items":{"$ref":"#/$defs/Tree"}},"Loop":{"$ref":"#/$defs/Loop"}},
            "properties":{"c":{"$ref":"#/$defs/Color","description":"of the dot"},"t":{"$ref":"#/$defs/Tree"},"l":{"$ref":"#/$defs/Loop"}}}"##;
        let fields = fields(schema);
        assert_eq!(fields.fields[0].kind(), "red");
        assert_eq!(fields.fields[0].description.as_deref(), Some("of the dot"));
        assert_eq!(fields.fields[1].kinds, [Type::Array]);
        assert!(fields.fields[2].kinds.is_empty());
    }

    #[test]
    fn a_value_is_checked_by_type_choice_and_limits() {
        let error = |schema: Value, value: Value| field(schema).check(&value).expect_err("an error");
        assert_eq!(error(json!({"type": "integer"}), json!(1.5)), "must be an integer");
        assert!(field(json!({"type": "integer"})).check(&json!(1.0)).is_ok());
        assert_eq!(error(json!({"type": "number", "maximum": 3}), json!(4)), "must be at most 3");
        assert_eq!(error(json!({"exclusiveMinimum": 0}), json!(0)), "must be more than 0");
        assert_eq!(error(json!({"minLength": 2}), json!("é")), "must have at least 2 characters");
        assert_eq!(error(json!({"enum": ["a"]}), json!("b")), "must be a");
        let steering = error(json!({"enum": ["\u{1b}[31m", "\u{202e}"]}), json!("b"));
        assert!(!steering.contains(['\u{1b}', '\u{202e}']), "{steering}");
        let list = json!({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1});
        assert_eq!(error(list.clone(), json!(["a", "b"])), "must have at most 1 elements");
        assert_eq!(error(list, json!(["c"])), "has an element that must be one of a, b");
    }
}
