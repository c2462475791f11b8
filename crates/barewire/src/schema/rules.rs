//! The rules of a schema as data: usually one rule for each keyword.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use barewire_proto::json::{Decimal, Json};
use regex_lite::Regex;

/// The rules of a schema, and of the schemas that it refers to.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) root: SchemaRules,
    pub(super) referenced: Vec<SchemaRules>,
    /// Whether every keyword of the schema is supported. If not, a value that satisfies the rules can still violate the
    /// schema, so `not` refuses no value, and `oneOf` accepts a value that matches several alternatives.
    pub(super) is_complete: bool,
}

/// The rules of one schema. A value must satisfy all of them. A schema without rules accepts every value.
#[derive(Debug, Default)]
pub(super) struct SchemaRules {
    pub(super) rules: Vec<Rule>,
}

impl SchemaRules {
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The rule of one keyword, or of several related keywords. Most rules check one kind of value and accept all values of
/// other kinds.
#[derive(Debug)]
pub(super) enum Rule {
    /// The schema `false`, which accepts no value.
    Never,
    Type(TypeSet),
    /// The keywords `enum` and `const`.
    Values(Vec<AllowedValue>),
    Minimum(Bound),
    Maximum(Bound),
    ExclusiveMinimum(Bound),
    ExclusiveMaximum(Bound),
    MultipleOf(Decimal),
    MinLength(usize),
    MaxLength(usize),
    Pattern(Regex),
    MinItems(usize),
    MaxItems(usize),
    UniqueItems,
    /// The keywords `prefixItems` and `items`.
    Items {
        first: Vec<SchemaRules>,
        others: SchemaRules,
    },
    MinProperties(usize),
    MaxProperties(usize),
    Required(Vec<String>),
    /// The keywords `properties`, `patternProperties` and `additionalProperties`.
    Members {
        named: BTreeMap<String, SchemaRules>,
        patterns: Vec<(Regex, SchemaRules)>,
        others: SchemaRules,
    },
    AllOf(Vec<SchemaRules>),
    AnyOf(Vec<SchemaRules>),
    OneOf(Vec<SchemaRules>),
    Not(SchemaRules),
    /// The keyword `$ref`, as an index into [`Rules::referenced`].
    Ref(usize),
}

/// A number that values are compared with.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) exact: Decimal,
    /// The same bound as an integer, if it is one. Most bounds and most numbers are integers, and comparing integers
    /// allocates no memory.
    pub(super) integer: Option<i64>,
}

impl Bound {
    /// Compares `json`, a number, with the bound.
    pub(super) fn compare(&self, json: Json<'_>) -> Ordering {
        match (json.as_str().parse::<i64>(), self.integer) {
            (Ok(number), Some(bound)) => number.cmp(&bound),
            _ => Decimal::from_json(json).expect("`json` is a number").cmp(&self.exact),
        }
    }
}

/// A set of JSON Schema types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    pub(super) const NUMBER: Self = Self(8);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);

    /// Each type, with its name in a schema and in a message.
    pub(super) const NAMES: [(Self, &str, &str); 7] = [
        (Self::NULL, "null", "null"),
        (Self::BOOLEAN, "boolean", "true or false"),
        (Self::INTEGER, "integer", "an integer"),
        (Self::NUMBER, "number", "a number"),
        (Self::STRING, "string", "a string"),
        (Self::ARRAY, "array", "an array"),
        (Self::OBJECT, "object", "an object"),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, one, _)| *one == name).map(|(types, ..)| *types)
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One value that `enum` or `const` allows.
#[derive(Debug)]
pub(super) struct AllowedValue {
    pub(super) text: String,
    pub(super) canonical: Vec<u8>,
}

impl Rules {
    /// Whether a reference leads back to itself without going deeper into the value, so that following it would never
    /// end.
    pub(super) fn has_reference_cycle(&self) -> bool {
        let mut next: Vec<Vec<usize>> = Vec::new();
        for schema in &self.referenced {
            let mut refs = Vec::new();
            refs_at_same_value(schema, &mut refs);
            next.push(refs);
        }
        // A schema is marked in `ends` if all schemas that it refers to are marked. The schemas that remain without a
        // mark are part of a cycle, or lead to a cycle.
        let mut ends = vec![false; next.len()];
        while let Some(one) = (0..next.len()).find(|one| !ends[*one] && next[*one].iter().all(|to| ends[*to])) {
            ends[one] = true;
        }
        ends.contains(&false)
    }
}

fn refs_at_same_value(schema: &SchemaRules, refs: &mut Vec<usize>) {
    for rule in &schema.rules {
        match rule {
            Rule::Ref(target) => refs.push(*target),
            Rule::AllOf(several) | Rule::AnyOf(several) | Rule::OneOf(several) => {
                several.iter().for_each(|one| refs_at_same_value(one, refs));
            }
            Rule::Not(schema) => refs_at_same_value(schema, refs),
            _ => {}
        }
    }
}
