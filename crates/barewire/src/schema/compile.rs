//! Compiles a JSON Schema to rules, without the rules that the Rust type already checks when it is deserialized.

use std::collections::BTreeMap;

use barewire_proto::json::{Decimal, Json};
use regex_lite::Regex;
use serde_json::{Map, Value};

use super::rules::{AllowedValue, Bound, Rule, Rules, SchemaRules, TypeSet};
use super::type_shape::{SchemaPlace, TypeShape};
use super::{canonical, pattern};

impl Rules {
    /// Returns the rules of `schema` that the type at `place` does not check itself. `Err` names the mistake in the
    /// schema, and its location.
    pub(super) fn new(schema: &Value, place: &SchemaPlace<'_>) -> Result<Self, String> {
        let mut compiler = Compiler { root: schema, is_complete: true, found: BTreeMap::new(), referenced: Vec::new() };
        let root = compiler.schema(schema, place, "#")?;
        let referenced: Vec<SchemaRules> = compiler.referenced.into_iter().map(Option::unwrap_or_default).collect();
        let rules = Self { root, referenced, is_complete: compiler.is_complete };
        match rules.has_reference_cycle() {
            false => Ok(rules),
            true => Err("a $ref refers back to itself without going deeper into the value".into()),
        }
    }
}

struct Compiler<'a> {
    root: &'a Value,
    is_complete: bool,
    /// Maps each JSON Pointer to the index of its schema in `referenced`.
    found: BTreeMap<String, usize>,
    /// The rules of the referenced schemas; `None` while a schema is being compiled, so that it can refer to itself.
    referenced: Vec<Option<SchemaRules>>,
}

impl<'a> Compiler<'a> {
    /// Compiles a schema. `at` is its location, for error messages.
    fn schema(&mut self, schema: &'a Value, place: &SchemaPlace<'a>, at: &str) -> Result<SchemaRules, String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(SchemaRules::default()),
            Value::Bool(false) => return Ok(SchemaRules { rules: vec![Rule::Never] }),
            Value::Object(keywords) => keywords,
            _ => return Err(format!("{at}: a schema is an object, true or false")),
        };
        let shape = match place.shape().map(|place| place.shape) {
            // A type that accepts any value checks no rules.
            None | Some(TypeShape::Any | TypeShape::Ignored) => None,
            // The shapes inside an enum's variants are not known, so either all rules of the enum are checked or none.
            Some(TypeShape::Choice) if has_unchecked_keywords(schema) => {
                return self.schema(schema, &SchemaPlace::unknown(), at);
            }
            Some(TypeShape::Choice) => return Ok(SchemaRules::default()),
            shape => shape,
        };
        let mut rules = Vec::new();
        for (keyword, value) in keywords {
            let at = &format!("{at}/{keyword}");
            let rule = match &**keyword {
                "enum" => Rule::Values(allowed(array(value, at)?)),
                "const" => Rule::Values(allowed(std::slice::from_ref(value))),
                "minimum" => Rule::Minimum(bound(value, at)?),
                "maximum" => Rule::Maximum(bound(value, at)?),
                "exclusiveMinimum" => Rule::ExclusiveMinimum(bound(value, at)?),
                "exclusiveMaximum" => Rule::ExclusiveMaximum(bound(value, at)?),
                "multipleOf" => Rule::MultipleOf(number(value, at)?),
                "minLength" => Rule::MinLength(count(value, at)?),
                "maxLength" => Rule::MaxLength(count(value, at)?),
                "pattern" => Rule::Pattern(regex(string(value, at)?, at)?),
                "minItems" => Rule::MinItems(count(value, at)?),
                "maxItems" => Rule::MaxItems(count(value, at)?),
                "uniqueItems" if *value == Value::Bool(true) => Rule::UniqueItems,
                "minProperties" => Rule::MinProperties(count(value, at)?),
                "maxProperties" => Rule::MaxProperties(count(value, at)?),
                "required" => Rule::Required(required(value, shape, place, at)?),
                "allOf" => Rule::AllOf(self.branches(value, place, at)?),
                "anyOf" => Rule::AnyOf(self.alternatives(value, shape, place, at)?),
                "oneOf" => Rule::OneOf(self.alternatives(value, shape, place, at)?),
                "not" => Rule::Not(self.schema(value, &SchemaPlace::unknown(), at)?),
                "$ref" => Rule::Ref(self.reference(value, at)?),
                _ => {
                    self.is_complete &= !UNSUPPORTED_KEYWORDS.contains(&&**keyword);
                    continue;
                }
            };
            if !rule.is_trivial() && !rule.is_checked_by(shape) {
                rules.push(rule);
            }
        }
        rules.extend(self.members(keywords, shape, place, at)?);
        rules.extend(self.items(keywords, shape, place, at)?);
        // serde also deserializes structs from arrays, and rules for objects accept arrays. So the JSON type is checked
        // wherever there are other rules.
        if let Some(types) = keywords.get("type")
            && (shape.is_none() || !rules.is_empty())
        {
            rules.insert(0, Rule::Type(types_of(types, at)?));
        }
        Ok(SchemaRules { rules })
    }

    fn members(
        &mut self,
        keywords: &'a Map<String, Value>,
        shape: Option<TypeShape>,
        place: &SchemaPlace<'a>,
        at: &str,
    ) -> Result<Option<Rule>, String> {
        let mut named = BTreeMap::new();
        for (name, schema) in object(keywords.get("properties"), at)? {
            let at = format!("{at}/properties/{name}");
            named.insert(name.clone(), self.schema(schema, &place.member(name), &at)?);
        }
        let mut patterns = Vec::new();
        for (name, schema) in object(keywords.get("patternProperties"), at)? {
            let at = format!("{at}/patternProperties/{name}");
            patterns.push((regex(name, &at)?, self.schema(schema, &SchemaPlace::unknown(), &at)?));
        }
        let others = match keywords.get("additionalProperties") {
            // If the struct refuses a member with a name that no type uses, it refuses all unknown members itself.
            Some(Value::Bool(false)) if matches!(shape, Some(TypeShape::Struct(_))) => {
                match place.member(UNUSED_NAME).shape() {
                    None => SchemaRules::default(),
                    Some(_) => SchemaRules { rules: vec![Rule::Never] },
                }
            }
            Some(schema) => self.schema(schema, &place.member(UNUSED_NAME), &format!("{at}/additionalProperties"))?,
            None => SchemaRules::default(),
        };
        if others.is_empty() {
            named.retain(|_, schema| !schema.is_empty());
            patterns.retain(|(_, schema)| !schema.is_empty());
        }
        let is_trivial = named.is_empty() && patterns.is_empty() && others.is_empty();
        Ok((!is_trivial).then_some(Rule::Members { named, patterns, others }))
    }

    fn items(
        &mut self,
        keywords: &'a Map<String, Value>,
        shape: Option<TypeShape>,
        place: &SchemaPlace<'a>,
        at: &str,
    ) -> Result<Option<Rule>, String> {
        let mut first = Vec::new();
        if let Some(items) = keywords.get("prefixItems") {
            for (i, schema) in array(items, at)?.iter().enumerate() {
                // Only the shape of the first element is known, so the rules for the other elements depend on their
                // schemas alone.
                let place = if i == 0 { place.element() } else { SchemaPlace::unknown() };
                first.push(match shape {
                    Some(TypeShape::Tuple(_)) if i > 0 && !has_unchecked_keywords(schema) => SchemaRules::default(),
                    _ => self.schema(schema, &place, &format!("{at}/prefixItems/{i}"))?,
                });
            }
        }
        let others = match keywords.get("items") {
            // A tuple has no elements after the first `len`.
            Some(_) if matches!(shape, Some(TypeShape::Tuple(len)) if len == first.len()) => SchemaRules::default(),
            Some(schema) => self.schema(schema, &place.element(), &format!("{at}/items"))?,
            None => SchemaRules::default(),
        };
        let is_trivial = others.is_empty() && first.iter().all(SchemaRules::is_empty);
        Ok((!is_trivial).then_some(Rule::Items { first, others }))
    }

    /// Compiles schemas that all apply to the same value.
    fn branches(&mut self, value: &'a Value, place: &SchemaPlace<'a>, at: &str) -> Result<Vec<SchemaRules>, String> {
        let each = array(value, at)?.iter().enumerate();
        each.map(|(i, schema)| self.schema(schema, place, &format!("{at}/{i}"))).collect()
    }

    /// Compiles alternative schemas. If the type checks all of them itself, returns an empty list. If not, returns all
    /// rules of each alternative, because they decide which alternative applies.
    fn alternatives(
        &mut self,
        value: &'a Value,
        shape: Option<TypeShape>,
        place: &SchemaPlace<'a>,
        at: &str,
    ) -> Result<Vec<SchemaRules>, String> {
        let checked = match shape {
            None => false,
            Some(_) => self.branches(value, place, at)?.iter().all(SchemaRules::is_empty),
        };
        if checked { Ok(Vec::new()) } else { self.branches(value, &SchemaPlace::unknown(), at) }
    }

    fn reference(&mut self, value: &'a Value, at: &str) -> Result<usize, String> {
        let text = string(value, at)?;
        let unknown = || format!("{at}: {text} does not exist in this schema");
        let pointer = percent_decoded(text.strip_prefix('#').ok_or_else(unknown)?).ok_or_else(unknown)?;
        let target = self.root.pointer(&pointer).ok_or_else(unknown)?;
        if let Some(place) = self.found.get(&pointer) {
            return Ok(*place);
        }
        let place = self.referenced.len();
        self.referenced.push(None);
        self.found.insert(pointer, place);
        self.referenced[place] = Some(self.schema(target, &SchemaPlace::unknown(), text)?);
        Ok(place)
    }
}

impl Rule {
    /// Whether the rule accepts every value.
    fn is_trivial(&self) -> bool {
        match self {
            Self::Required(names) => names.is_empty(),
            Self::AllOf(several) => several.iter().all(SchemaRules::is_empty),
            Self::AnyOf(several) | Self::OneOf(several) => several.is_empty(),
            _ => false,
        }
    }

    /// Whether a type of this shape already refuses every value that the rule refuses.
    fn is_checked_by(&self, shape: Option<TypeShape>) -> bool {
        match (self, shape) {
            (Self::Minimum(bound), Some(TypeShape::Integer(least, _))) => bound.exact <= decimal(&least.to_string()),
            (Self::Maximum(bound), Some(TypeShape::Integer(_, most))) => bound.exact >= decimal(&most.to_string()),
            (Self::MinLength(1) | Self::MaxLength(1), Some(TypeShape::Char)) => true,
            (Self::MinItems(len) | Self::MaxItems(len), Some(TypeShape::Tuple(of))) => *len == of,
            _ => false,
        }
    }
}

/// Whether a schema has keywords that types do not check themselves. Types check the kinds of values, the names in an
/// enum, and which members exist. This function is used for places whose shape is not known: the variants of an enum,
/// and the elements of a tuple after the first.
fn has_unchecked_keywords(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    let (least, most) = match keywords.get("format").and_then(Value::as_str) {
        Some("int8") => (Some(i64::from(i8::MIN)), Some(i64::from(i8::MAX))),
        Some("int16") => (Some(i64::from(i16::MIN)), Some(i64::from(i16::MAX))),
        Some("uint8") => (Some(0), Some(i64::from(u8::MAX))),
        Some("uint16") => (Some(0), Some(i64::from(u16::MAX))),
        Some("uint" | "uint32" | "uint64" | "uint128") => (Some(0), None),
        _ => (None, None),
    };
    keywords.iter().any(|(keyword, value)| match (&**keyword, value) {
        ("minimum", _) => value.as_i64().is_none_or(|bound| Some(bound) != least),
        ("maximum", _) => value.as_i64().is_none_or(|bound| Some(bound) != most),
        ("properties", Value::Object(schemas)) => schemas.values().any(has_unchecked_keywords),
        ("items" | "additionalProperties", _) => has_unchecked_keywords(value),
        ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
            schemas.iter().any(has_unchecked_keywords)
        }
        // A tuple checks its own length.
        ("minItems" | "maxItems", _) => !keywords.contains_key("prefixItems"),
        (keyword, _) => UNCHECKED_KEYWORDS.contains(&keyword),
    })
}

fn required(value: &Value, shape: Option<TypeShape>, place: &SchemaPlace<'_>, at: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for name in array(value, at)? {
        let name = string(name, at)?;
        // Reading a struct fails if a member is missing whose field is not optional, so those need no check here.
        let is_checked_by_type = match shape {
            Some(TypeShape::Struct(fields)) => {
                fields.contains(&name) && !place.member(name).shape().is_some_and(|place| place.optional)
            }
            _ => false,
        };
        if !is_checked_by_type {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn types_of(value: &Value, at: &str) -> Result<TypeSet, String> {
    let names = match value {
        Value::Array(names) => &names[..],
        one => std::slice::from_ref(one),
    };
    let with = |types: TypeSet, name: &Value| name.as_str().and_then(TypeSet::named).map(|one| types.or(one));
    names
        .iter()
        .try_fold(TypeSet::default(), with)
        .ok_or_else(|| format!("{at}/type: {value} is not a type of JSON Schema"))
}

fn allowed(values: &[Value]) -> Vec<AllowedValue> {
    let one = |value: &Value| {
        let text = value.to_string();
        let mut bytes = Vec::new();
        canonical::push(&mut bytes, Json::parse(text.as_bytes()).expect("a Value serializes to valid JSON"));
        AllowedValue { text, canonical: bytes }
    };
    values.iter().map(one).collect()
}

fn number(value: &Value, at: &str) -> Result<Decimal, String> {
    match value {
        Value::Number(number) => Ok(decimal(&number.to_string())),
        _ => Err(format!("{at}: expected a number")),
    }
}

fn bound(value: &Value, at: &str) -> Result<Bound, String> {
    Ok(Bound { exact: number(value, at)?, integer: value.as_i64() })
}

fn decimal(text: &str) -> Decimal {
    Json::parse(text.as_bytes()).ok().and_then(Decimal::from_json).expect("`text` is a JSON number")
}

fn count(value: &Value, at: &str) -> Result<usize, String> {
    let whole = number(value, at)?.to_integer().and_then(|digits| digits.parse().ok());
    whole.ok_or_else(|| format!("{at}: expected an integer of at least 0"))
}

fn regex(pattern: &str, at: &str) -> Result<Regex, String> {
    pattern::compiled(pattern).map_err(|why| format!("{at}: {why}"))
}

fn string<'a>(value: &'a Value, at: &str) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{at}: expected a string"))
}

fn array<'a>(value: &'a Value, at: &str) -> Result<&'a [Value], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("{at}: expected an array"))
}

fn object<'a>(value: Option<&'a Value>, at: &str) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, String> {
    match value {
        Some(Value::Object(members)) => Ok(Some(members).into_iter().flatten()),
        None => Ok(None.into_iter().flatten()),
        Some(_) => Err(format!("{at}: expected an object")),
    }
}

/// Decodes percent-encoded characters in the fragment of a URI; `None` if the encoding is invalid.
fn percent_decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// A name that no member of a struct has.
const UNUSED_NAME: &str = "\u{0}";

/// Keywords that can refuse values and are not supported here.
const UNSUPPORTED_KEYWORDS: [&str; 15] = [
    "$dynamicRef",
    "$recursiveRef",
    "additionalItems",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords that no derived `Deserialize` checks.
const UNCHECKED_KEYWORDS: [&str; 15] = [
    "$ref",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
    "not",
    "pattern",
    "patternProperties",
    "propertyNames",
    "uniqueItems",
];
