//! What a value has to keep, as data: one rule for each keyword of a schema.

use std::collections::BTreeMap;

use barewire_proto::json::Decimal;
use regex_lite::Regex;

/// A schema and those that it refers to.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) root: Schema,
    pub(super) referred: Vec<Schema>,
    /// Every keyword is understood. If not, what passes is not surely valid, and nothing follows from it.
    pub(super) exact: bool,
}

/// All of these have to hold; none is the schema that takes everything.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) rules: Vec<Rule>,
}

impl Schema {
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// One keyword, or several that belong together. Each is about values of one kind and lets all others pass.
#[derive(Debug)]
pub(super) enum Rule {
    /// The schema `false`.
    Never,
    Type(Types),
    /// `enum` and `const`.
    Values(Vec<Allowed>),
    Minimum(Decimal),
    Maximum(Decimal),
    ExclusiveMinimum(Decimal),
    ExclusiveMaximum(Decimal),
    MultipleOf(Decimal),
    MinLength(usize),
    MaxLength(usize),
    Pattern(Regex),
    MinItems(usize),
    MaxItems(usize),
    UniqueItems,
    /// `prefixItems` and `items`.
    Items {
        first: Vec<Schema>,
        others: Schema,
    },
    MinProperties(usize),
    MaxProperties(usize),
    Required(Vec<String>),
    /// `properties`, `patternProperties` and `additionalProperties`.
    Members {
        named: BTreeMap<String, Schema>,
        patterns: Vec<(Regex, Schema)>,
        others: Schema,
    },
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Schema),
    /// An index into [`Rules::referred`].
    Ref(usize),
}

/// A set of types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NAMES: [(&str, &str); 7] = [
        ("null", "null"),
        ("boolean", "true or false"),
        ("integer", "an integer"),
        ("number", "a number"),
        ("string", "a string"),
        ("array", "an array"),
        ("object", "an object"),
    ];

    pub(super) fn has(self, name: &str) -> bool {
        Self::bit(name).is_some_and(|bit| self.0 & bit != 0)
    }

    pub(super) fn with(self, name: &str) -> Option<Self> {
        Self::bit(name).map(|bit| Self(self.0 | bit))
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn bit(name: &str) -> Option<u8> {
        Self::NAMES.iter().position(|(one, _)| *one == name).map(|place| 1 << place)
    }
}

/// One value of an `enum`.
#[derive(Debug)]
pub(super) struct Allowed {
    pub(super) text: String,
    pub(super) canonical: Vec<u8>,
}

impl Rules {
    /// Whether following references at one and the same value would never end.
    pub(super) fn goes_in_a_circle(&self) -> bool {
        let mut next: Vec<Vec<usize>> = Vec::new();
        for schema in &self.referred {
            let mut refs = Vec::new();
            refs_in_place(schema, &mut refs);
            next.push(refs);
        }
        // What leads only to what ends, ends. What is left after that leads to itself.
        let mut ends = vec![false; next.len()];
        while let Some(one) = (0..next.len()).find(|one| !ends[*one] && next[*one].iter().all(|to| ends[*to]))
        {
            ends[one] = true;
        }
        ends.contains(&false)
    }
}

fn refs_in_place(schema: &Schema, refs: &mut Vec<usize>) {
    for rule in &schema.rules {
        match rule {
            Rule::Ref(target) => refs.push(*target),
            Rule::AllOf(several) | Rule::AnyOf(several) | Rule::OneOf(several) => {
                several.iter().for_each(|one| refs_in_place(one, refs));
            }
            Rule::Not(schema) => refs_in_place(schema, refs),
            _ => {}
        }
    }
}
