//! Rules and a value -> whether it keeps them, and if not, where and why. The value stays text, so numbers are compared exactly
//! and nothing is built that is larger than it.

use std::collections::HashMap;

use barewire_proto::json::{Decimal, Json, Kind, Text};

use super::arguments::BadArguments;
use super::canonical;
use super::rules::{Allowed, Rule, Rules, Schema, Types};
use super::words::{Path, Step, listed, names, plain, quoted, shown};

/// One value being checked.
pub(super) struct Checker<'r> {
    rules: &'r Rules,
    /// Only whether it keeps the rules is wanted, not why.
    quiet: bool,
    /// What is known of objects and arrays under the schemas that are referred to. Without it, two alternatives that both refer
    /// back would make the work double with every level.
    known: HashMap<(usize, usize), bool>,
}

/// `Err(None)` if it is quiet.
type Verdict = Result<(), Option<BadArguments>>;

impl<'r> Checker<'r> {
    pub(super) fn new(rules: &'r Rules) -> Self {
        Self { rules, quiet: false, known: HashMap::new() }
    }

    pub(super) fn check_all(&mut self, json: Json<'_>) -> Result<(), BadArguments> {
        let rules = self.rules;
        let refused = |bad: Option<BadArguments>| bad.expect("who is not quiet says why");
        self.check(&rules.root, json, &Path::root()).map_err(refused)
    }

    fn check(&mut self, schema: &'r Schema, json: Json<'_>, path: &Path<'_>) -> Verdict {
        schema.rules.iter().try_for_each(|rule| self.keep(rule, json, path))
    }

    fn is_valid(&mut self, schema: &'r Schema, json: Json<'_>, path: &Path<'_>) -> bool {
        let loud = !std::mem::replace(&mut self.quiet, true);
        let valid = self.check(schema, json, path).is_ok();
        self.quiet = !loud;
        valid
    }

    fn refuse(&self, path: &Path<'_>, what: impl FnOnce() -> String) -> Verdict {
        Err((!self.quiet).then(|| BadArguments { path: path.text(), what: what() }))
    }

    fn expect(&self, kept: bool, path: &Path<'_>, what: impl FnOnce() -> String) -> Verdict {
        if kept { Ok(()) } else { self.refuse(path, what) }
    }

    fn keep(&mut self, rule: &'r Rule, json: Json<'_>, path: &Path<'_>) -> Verdict {
        match (rule, json.kind()) {
            (Rule::Never, _) => self.refuse(path, || "must not be there".into()),
            (Rule::Type(types), _) => {
                self.expect(is_of(json, *types), path, || format!("expected {}, got {}", names(*types), shown(json)))
            }
            (Rule::Values(allowed), _) => self.expect(is_one_of(json, allowed), path, || {
                format!("expected {}, got {}", listed(allowed.iter().map(|one| &*one.text)), shown(json))
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
                    // What is not understood of one of them may be what tells them apart.
                    _ => self.expect(!self.rules.exact, path, || "fits more than one of the forms it may have".into()),
                }
            }
            (Rule::Not(schema), _) => {
                let kept = !self.rules.exact || !self.is_valid(schema, json, path);
                self.expect(kept, path, || format!("{} is excluded", shown(json)))
            }
            (Rule::Ref(target), _) => self.referred(*target, json, path),
            (_, Kind::Number) => self.keep_number(rule, json, path),
            (_, Kind::String) => self.keep_string(rule, json, path),
            (_, Kind::Array) => self.keep_array(rule, json, path),
            (_, Kind::Object) => self.keep_object(rule, json, path),
            (_, Kind::Null | Kind::True | Kind::False) => Ok(()),
        }
    }

    fn keep_number(&self, rule: &Rule, json: Json<'_>, path: &Path<'_>) -> Verdict {
        let (kept, must, bound) = match rule {
            Rule::Minimum(bound) => (bound.compare(json).is_ge(), "at least", &bound.exact),
            Rule::Maximum(bound) => (bound.compare(json).is_le(), "at most", &bound.exact),
            Rule::ExclusiveMinimum(bound) => (bound.compare(json).is_gt(), "more than", &bound.exact),
            Rule::ExclusiveMaximum(bound) => (bound.compare(json).is_lt(), "less than", &bound.exact),
            Rule::MultipleOf(step) => {
                let number = Decimal::from_json(json).expect("a number is a number");
                (number.is_multiple_of(step).unwrap_or(true), "a multiple of", step)
            }
            _ => return Ok(()),
        };
        self.expect(kept, path, || format!("must be {must} {}, got {}", plain(bound), shown(json)))
    }

    fn keep_string(&self, rule: &Rule, json: Json<'_>, path: &Path<'_>) -> Verdict {
        let text = || Text::from_json(json).expect("a string is a string").to_name();
        match rule {
            Rule::MinLength(least) => self.keep_count("character", text().chars().count(), *least.., path),
            Rule::MaxLength(most) => self.keep_count("character", text().chars().count(), ..=*most, path),
            Rule::Pattern(regex) => self.expect(regex.is_match(&text()), path, || {
                format!("must match the pattern {}, got {}", regex.as_str(), shown(json))
            }),
            _ => Ok(()),
        }
    }

    fn keep_array(&mut self, rule: &'r Rule, json: Json<'_>, path: &Path<'_>) -> Verdict {
        match rule {
            Rule::MinItems(least) => self.keep_count("element", json.elements().count(), *least.., path),
            Rule::MaxItems(most) => self.keep_count("element", json.elements().count(), ..=*most, path),
            Rule::UniqueItems => match equal_elements(json) {
                None => Ok(()),
                Some((i, j)) => self.refuse(path, || format!("elements {i} and {j} are equal, all must differ")),
            },
            Rule::Items { first, others } => json.elements().enumerate().try_for_each(|(i, element)| {
                let path = self.deeper(path, Step::Element(i))?;
                self.check(first.get(i).unwrap_or(others), element, &path)
            }),
            _ => Ok(()),
        }
    }

    fn keep_object(&mut self, rule: &'r Rule, json: Json<'_>, path: &Path<'_>) -> Verdict {
        match rule {
            Rule::MinProperties(least) => self.keep_count("member", distinct_members(json), *least.., path),
            Rule::MaxProperties(most) => self.keep_count("member", distinct_members(json), ..=*most, path),
            Rule::Required(names) => {
                let is_missing = |name: &&String| json.members().all(|member| member.name != ***name);
                let missing: Vec<_> = names.iter().filter(is_missing).map(|name| format!("{name:?}")).collect();
                self.expect(missing.is_empty(), path, || format!("missing {}", missing.join(", ")))
            }
            Rule::Members { named, patterns, others } => json.members().try_for_each(|member| {
                let name = member.name.to_name();
                let path = self.deeper(path, Step::Member(&name))?;
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
                    [Rule::Never] if named.is_empty() => self.refuse(&path, || "is not known here".into()),
                    [Rule::Never] => self.refuse(&path, || {
                        format!("is not known here, known are {}", quoted(named.keys().map(|name| &**name)))
                    }),
                    _ => self.check(others, member.value, &path),
                }
            }),
            _ => Ok(()),
        }
    }

    fn keep_count(
        &self,
        of: &str,
        count: usize,
        allowed: impl std::ops::RangeBounds<usize>,
        path: &Path<'_>,
    ) -> Verdict {
        self.expect(allowed.contains(&count), path, || {
            let (most, bound) = match (allowed.start_bound(), allowed.end_bound()) {
                (_, std::ops::Bound::Included(most)) => ("most", *most),
                (std::ops::Bound::Included(least), _) => ("least", *least),
                _ => ("least", 0),
            };
            format!("must have at {most} {bound} {of}{}, has {count}", if bound == 1 { "" } else { "s" })
        })
    }

    fn referred(&mut self, target: usize, json: Json<'_>, path: &Path<'_>) -> Verdict {
        let rules = self.rules;
        let schema = &rules.referred[target];
        if !self.quiet || !matches!(json.kind(), Kind::Object | Kind::Array) {
            return self.check(schema, json, path);
        }
        // No two objects or arrays begin at the same place.
        let key = (target, json.as_bytes().as_ptr().addr());
        if let Some(valid) = self.known.get(&key) {
            return if *valid { Ok(()) } else { Err(None) };
        }
        let verdict = self.check(schema, json, path);
        self.known.insert(key, verdict.is_ok());
        verdict
    }

    /// Says what is wrong with a value that fits none of `schemas`, as closely as can be.
    fn none_of(&mut self, schemas: &'r [Schema], json: Json<'_>, path: &Path<'_>) -> Verdict {
        if self.quiet {
            return Err(None);
        }
        let likely: Vec<_> = schemas.iter().filter(|schema| self.could_be_meant(schema, json, path)).collect();
        // The one that was meant has its own complaint.
        if let [one] = likely[..] {
            self.check(one, json, path)?;
        }
        let values = |schema: &'r Schema| {
            schema.rules.iter().find_map(|rule| match rule {
                Rule::Values(allowed) => Some(allowed),
                _ => None,
            })
        };
        let types = |schema: &'r Schema| {
            schema.rules.iter().find_map(|rule| match rule {
                Rule::Type(types) => Some(*types),
                _ => None,
            })
        };
        let got = shown(json);
        self.refuse(path, || match (schemas.iter().map(values).collect::<Option<Vec<_>>>(), &likely[..]) {
            (Some(allowed), _) => {
                let texts = allowed.into_iter().flatten().map(|one| &*one.text);
                format!("expected {}, got {got}", listed(texts))
            }
            (None, []) => match schemas.iter().map(types).collect::<Option<Vec<_>>>() {
                Some(types) if types.iter().all(|types| !is_of(json, *types)) => {
                    let any = types.into_iter().fold(Types::default(), Types::or);
                    format!("expected {}, got {got}", names(any))
                }
                _ => "fits none of the forms it may have".into(),
            },
            _ => "fits none of the forms it may have".into(),
        })
    }

    /// Whether its kind is that of the schema, and so are the members that have only certain values, as the tag of an enum.
    fn could_be_meant(&mut self, schema: &'r Schema, json: Json<'_>, path: &Path<'_>) -> bool {
        let rules = self.rules;
        schema.rules.iter().all(|rule| match rule {
            Rule::Type(types) => is_of(json, *types),
            Rule::Values(allowed) => is_one_of(json, allowed),
            Rule::Ref(target) => self.could_be_meant(&rules.referred[*target], json, path),
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

    fn deeper<'p>(&self, path: &'p Path<'p>, step: Step<'p>) -> Result<Path<'p>, Option<BadArguments>> {
        let depth = path.depth + 1;
        let deeper = Path { up: Some(path), step, depth };
        self.expect(depth <= MAX_DEPTH, &deeper, || "is nested too deep".into())?;
        Ok(deeper)
    }
}

fn is_of(json: Json<'_>, types: Types) -> bool {
    match json.kind() {
        Kind::Null => types.has(Types::NULL),
        Kind::True | Kind::False => types.has(Types::BOOLEAN),
        Kind::String => types.has(Types::STRING),
        Kind::Array => types.has(Types::ARRAY),
        Kind::Object => types.has(Types::OBJECT),
        Kind::Number => types.has(Types::NUMBER) || types.has(Types::INTEGER) && is_integer(json),
    }
}

fn is_integer(json: Json<'_>) -> bool {
    let plain = !json.as_bytes().iter().any(|b| matches!(b, b'.' | b'e' | b'E'));
    plain || Decimal::from_json(json).is_some_and(|number| number.is_integer())
}

fn is_one_of(json: Json<'_>, allowed: &[Allowed]) -> bool {
    if allowed.iter().any(|one| one.text == json.as_str()) {
        return true;
    }
    // A string without escapes has no other spelling that we could have written.
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

/// What `serde_json` reads into a type.
const MAX_DEPTH: usize = 128;

#[cfg(test)]
mod tests;
