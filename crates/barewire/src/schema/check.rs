//! Checks a value against rules, and says where and why an invalid value breaks them. The value stays JSON text, so
//! numbers are compared exactly and no tree is built.

use std::collections::HashMap;

use barewire_proto::json::{Decimal, Json, Kind, Text};

use super::arguments::BadArguments;
use super::canonical;
use super::messages::{Path, PathStep, describe_value, format_bound, one_of, quoted_list, type_names};
use super::rules::{AllowedValue, Rule, Rules, SchemaRules, TypeSet};

/// The state of the check of one value.
pub(super) struct Checker<'r> {
    rules: &'r Rules,
    /// Whether only the fact of a violation is needed, but not the reason.
    quiet: bool,
    /// Maps the index of a referenced schema and the address of an object or array to whether that value is valid.
    /// Without this cache, two alternatives that both refer back to the same schema would double the work with every
    /// level.
    reference_cache: HashMap<(usize, usize), bool>,
}

/// The result of a check. A violation is `Err(None)` if the checker is quiet.
type CheckResult = Result<(), Option<BadArguments>>;

impl<'r> Checker<'r> {
    pub(super) fn new(rules: &'r Rules) -> Self {
        Self { rules, quiet: false, reference_cache: HashMap::new() }
    }

    pub(super) fn check_all(&mut self, json: Json<'_>) -> Result<(), BadArguments> {
        let rules = self.rules;
        let refused = |bad: Option<BadArguments>| bad.expect("a checker that is not quiet returns a reason");
        self.check(&rules.root, json, &Path::root()).map_err(refused)
    }

    fn check(&mut self, schema: &'r SchemaRules, json: Json<'_>, path: &Path<'_>) -> CheckResult {
        schema.rules.iter().try_for_each(|rule| self.check_rule(rule, json, path))
    }

    fn is_valid(&mut self, schema: &'r SchemaRules, json: Json<'_>, path: &Path<'_>) -> bool {
        let loud = !std::mem::replace(&mut self.quiet, true);
        let valid = self.check(schema, json, path).is_ok();
        self.quiet = !loud;
        valid
    }

    fn refuse(&self, path: &Path<'_>, what: impl FnOnce() -> String) -> CheckResult {
        Err((!self.quiet).then(|| BadArguments { path: path.text(), what: what() }))
    }

    fn expect(&self, kept: bool, path: &Path<'_>, what: impl FnOnce() -> String) -> CheckResult {
        if kept { Ok(()) } else { self.refuse(path, what) }
    }

    fn check_rule(&mut self, rule: &'r Rule, json: Json<'_>, path: &Path<'_>) -> CheckResult {
        match (rule, json.kind()) {
            (Rule::Never, _) => self.refuse(path, || "must be absent".into()),
            (Rule::Type(types), _) => self.expect(is_of(json, *types), path, || {
                format!("expected {}, got {}", type_names(*types), describe_value(json))
            }),
            (Rule::Values(allowed), _) => self.expect(is_one_of(json, allowed), path, || {
                format!("expected {}, got {}", one_of(allowed.iter().map(|one| &*one.text)), describe_value(json))
            }),
            (Rule::AllOf(all), _) => all.iter().try_for_each(|schema| self.check(schema, json, path)),
            (Rule::AnyOf(any), _) => {
                if any.iter().any(|schema| self.is_valid(schema, json, path)) {
                    return Ok(());
                }
                self.none_of(any, json, path)
            }
            (Rule::OneOf(one), _) => {
                match one.iter().filter(|schema| self.is_valid(schema, json, path)).take(2).count() {
                    0 => self.none_of(one, json, path),
                    1 => Ok(()),
                    // If the schema has unsupported keywords, the value is accepted, because such a keyword could
                    // distinguish the alternatives.
                    _ => self.expect(!self.rules.is_complete, path, || {
                        "matches more than one of the allowed alternatives".into()
                    }),
                }
            }
            (Rule::Not(schema), _) => {
                let kept = !self.rules.is_complete || !self.is_valid(schema, json, path);
                self.expect(kept, path, || format!("{} is excluded", describe_value(json)))
            }
            (Rule::Ref(target), _) => self.check_reference(*target, json, path),
            (_, Kind::Number) => self.check_number(rule, json, path),
            (_, Kind::String) => self.check_string(rule, json, path),
            (_, Kind::Array) => self.check_array(rule, json, path),
            (_, Kind::Object) => self.check_object(rule, json, path),
            (_, Kind::Null | Kind::True | Kind::False) => Ok(()),
        }
    }

    fn check_number(&self, rule: &Rule, json: Json<'_>, path: &Path<'_>) -> CheckResult {
        let (kept, must, bound) = match rule {
            Rule::Minimum(bound) => (bound.compare(json).is_ge(), "at least", &bound.exact),
            Rule::Maximum(bound) => (bound.compare(json).is_le(), "at most", &bound.exact),
            Rule::ExclusiveMinimum(bound) => (bound.compare(json).is_gt(), "more than", &bound.exact),
            Rule::ExclusiveMaximum(bound) => (bound.compare(json).is_lt(), "less than", &bound.exact),
            Rule::MultipleOf(step) => {
                let number = Decimal::from_json(json).expect("the kind is a number");
                (number.is_multiple_of(step).unwrap_or(true), "a multiple of", step)
            }
            _ => return Ok(()),
        };
        self.expect(kept, path, || format!("must be {must} {}, got {}", format_bound(bound), describe_value(json)))
    }

    fn check_string(&self, rule: &Rule, json: Json<'_>, path: &Path<'_>) -> CheckResult {
        let text = || Text::from_json(json).expect("the kind is a string").to_name();
        match rule {
            Rule::MinLength(least) => self.check_count("character", text().chars().count(), *least.., path),
            Rule::MaxLength(most) => self.check_count("character", text().chars().count(), ..=*most, path),
            Rule::Pattern(regex) => self.expect(regex.is_match(&text()), path, || {
                format!("must match the pattern {}, got {}", regex.as_str(), describe_value(json))
            }),
            _ => Ok(()),
        }
    }

    fn check_array(&mut self, rule: &'r Rule, json: Json<'_>, path: &Path<'_>) -> CheckResult {
        match rule {
            Rule::MinItems(least) => self.check_count("element", json.elements().count(), *least.., path),
            Rule::MaxItems(most) => self.check_count("element", json.elements().count(), ..=*most, path),
            Rule::UniqueItems => match equal_elements(json) {
                None => Ok(()),
                Some((i, j)) => self.refuse(path, || format!("elements {i} and {j} are equal, all must differ")),
            },
            Rule::Items { first, others } => json.elements().enumerate().try_for_each(|(i, element)| {
                let path = self.step_into(path, PathStep::Element(i))?;
                self.check(first.get(i).unwrap_or(others), element, &path)
            }),
            _ => Ok(()),
        }
    }

    fn check_object(&mut self, rule: &'r Rule, json: Json<'_>, path: &Path<'_>) -> CheckResult {
        match rule {
            Rule::MinProperties(least) => self.check_count("member", distinct_members(json), *least.., path),
            Rule::MaxProperties(most) => self.check_count("member", distinct_members(json), ..=*most, path),
            Rule::Required(names) => {
                let is_missing = |name: &&String| json.members().all(|member| member.name != ***name);
                let missing: Vec<_> = names.iter().filter(is_missing).map(|name| format!("{name:?}")).collect();
                self.expect(missing.is_empty(), path, || format!("missing {}", missing.join(", ")))
            }
            Rule::Members { named, patterns, others } => json.members().try_for_each(|member| {
                let name = member.name.to_name();
                let path = self.step_into(path, PathStep::Member(&name))?;
                let mut known = false;
                if let Some(schema) = named.get(&*name) {
                    known = true;
                    self.check(schema, member.value, &path)?;
                }
                for (regex, schema) in patterns {
                    if regex.is_match(&name) {
                        known = true;
                        self.check(schema, member.value, &path)?;
                    }
                }
                match &others.rules[..] {
                    _ if known => Ok(()),
                    [Rule::Never] if named.is_empty() => self.refuse(&path, || "is not a known member".into()),
                    [Rule::Never] => self.refuse(&path, || {
                        format!(
                            "is not a known member; the known members are {}",
                            quoted_list(named.keys().map(|name| &**name))
                        )
                    }),
                    _ => self.check(others, member.value, &path),
                }
            }),
            _ => Ok(()),
        }
    }

    fn check_count(
        &self,
        of: &str,
        count: usize,
        allowed: impl std::ops::RangeBounds<usize>,
        path: &Path<'_>,
    ) -> CheckResult {
        self.expect(allowed.contains(&count), path, || {
            let (most, bound) = match (allowed.start_bound(), allowed.end_bound()) {
                (_, std::ops::Bound::Included(most)) => ("most", *most),
                (std::ops::Bound::Included(least), _) => ("least", *least),
                _ => ("least", 0),
            };
            format!("must have at {most} {bound} {of}{}, has {count}", if bound == 1 { "" } else { "s" })
        })
    }

    fn check_reference(&mut self, target: usize, json: Json<'_>, path: &Path<'_>) -> CheckResult {
        let rules = self.rules;
        let schema = &rules.referenced[target];
        if !self.quiet || !matches!(json.kind(), Kind::Object | Kind::Array) {
            return self.check(schema, json, path);
        }
        // The address identifies the value, because no two objects or arrays start at the same byte.
        let key = (target, json.as_bytes().as_ptr().addr());
        if let Some(valid) = self.reference_cache.get(&key) {
            return if *valid { Ok(()) } else { Err(None) };
        }
        let verdict = self.check(schema, json, path);
        self.reference_cache.insert(key, verdict.is_ok());
        verdict
    }

    /// Refuses a value that matches none of `schemas`, with a reason that is as precise as possible.
    fn none_of(&mut self, schemas: &'r [SchemaRules], json: Json<'_>, path: &Path<'_>) -> CheckResult {
        if self.quiet {
            return Err(None);
        }
        let likely: Vec<_> = schemas.iter().filter(|schema| self.may_be_intended(schema, json, path)).collect();
        // If only one of the schemas can be the intended one, the reason of that schema is returned.
        if let [one] = likely[..] {
            self.check(one, json, path)?;
        }
        let values = |schema: &'r SchemaRules| {
            schema.rules.iter().find_map(|rule| match rule {
                Rule::Values(allowed) => Some(allowed),
                _ => None,
            })
        };
        let types = |schema: &'r SchemaRules| {
            schema.rules.iter().find_map(|rule| match rule {
                Rule::Type(types) => Some(*types),
                _ => None,
            })
        };
        let got = describe_value(json);
        self.refuse(path, || match (schemas.iter().map(values).collect::<Option<Vec<_>>>(), &likely[..]) {
            (Some(allowed), _) => {
                let texts = allowed.into_iter().flatten().map(|one| &*one.text);
                format!("expected {}, got {got}", one_of(texts))
            }
            (None, []) => match schemas.iter().map(types).collect::<Option<Vec<_>>>() {
                Some(types) if types.iter().all(|types| !is_of(json, *types)) => {
                    let any = types.into_iter().fold(TypeSet::default(), TypeSet::or);
                    format!("expected {}, got {got}", type_names(any))
                }
                _ => "matches none of the allowed alternatives".into(),
            },
            _ => "matches none of the allowed alternatives".into(),
        })
    }

    /// Whether `schema` could be the alternative that the sender intended: the value has the schema's type, and those
    /// of its members that must have fixed values, such as the tag of an enum, are valid.
    fn may_be_intended(&mut self, schema: &'r SchemaRules, json: Json<'_>, path: &Path<'_>) -> bool {
        let rules = self.rules;
        schema.rules.iter().all(|rule| match rule {
            Rule::Type(types) => is_of(json, *types),
            Rule::Values(allowed) => is_one_of(json, allowed),
            Rule::Ref(target) => self.may_be_intended(&rules.referenced[*target], json, path),
            Rule::Members { named, .. } => named.iter().all(|(name, schema)| {
                let is_tag = schema.rules.iter().any(|rule| matches!(rule, Rule::Values(_)));
                !is_tag
                    || json
                        .members()
                        .filter(|member| member.name == **name)
                        .all(|member| self.is_valid(schema, member.value, path))
            }),
            Rule::Required(names) if names.len() == 1 => json.members().any(|member| member.name == *names[0]),
            _ => true,
        })
    }

    fn step_into<'p>(&self, path: &'p Path<'p>, step: PathStep<'p>) -> Result<Path<'p>, Option<BadArguments>> {
        let depth = path.depth + 1;
        let deeper = Path { up: Some(path), step, depth };
        self.expect(depth <= MAX_DEPTH, &deeper, || "is nested too deep".into())?;
        Ok(deeper)
    }
}

fn is_of(json: Json<'_>, types: TypeSet) -> bool {
    match json.kind() {
        Kind::Null => types.has(TypeSet::NULL),
        Kind::True | Kind::False => types.has(TypeSet::BOOLEAN),
        Kind::String => types.has(TypeSet::STRING),
        Kind::Array => types.has(TypeSet::ARRAY),
        Kind::Object => types.has(TypeSet::OBJECT),
        Kind::Number => types.has(TypeSet::NUMBER) || types.has(TypeSet::INTEGER) && is_integer(json),
    }
}

fn is_integer(json: Json<'_>) -> bool {
    let plain = !json.as_bytes().iter().any(|b| matches!(b, b'.' | b'e' | b'E'));
    plain || Decimal::from_json(json).is_some_and(|number| number.is_integer())
}

fn is_one_of(json: Json<'_>, allowed: &[AllowedValue]) -> bool {
    if allowed.iter().any(|one| one.text == json.as_str()) {
        return true;
    }
    // Allowed values are written without needless escapes. So a string without escapes is not allowed if its text
    // differs from that of every allowed value.
    if json.kind() == Kind::String && !json.as_bytes().contains(&b'\\') {
        return false;
    }
    let mut bytes = Vec::new();
    canonical::push(&mut bytes, json);
    allowed.iter().any(|one| one.canonical == bytes)
}

fn equal_elements(json: Json<'_>) -> Option<(usize, usize)> {
    let mut elements: Vec<(Vec<u8>, usize)> = Vec::new();
    for (i, element) in json.elements().enumerate() {
        let mut bytes = Vec::new();
        canonical::push(&mut bytes, element);
        elements.push((bytes, i));
    }
    elements.sort_unstable();
    let equal = elements.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| (pair[0].1, pair[1].1));
    equal.min()
}

fn distinct_members(json: Json<'_>) -> usize {
    let mut names: Vec<_> = json.members().map(|member| member.name.to_bytes()).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// The maximum depth that `serde_json` accepts, in levels.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests;
