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
            (Rule::Type(types), _) => self.expect(is_of(json, *types), path, || {
                format!("expected {}, got {}", names(*types), shown(json))
            }),
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
                    _ => self.expect(!self.rules.exact, path, || {
                        "fits more than one of the forms it may have".into()
                    }),
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
                Some((i, j)) => {
                    self.refuse(path, || format!("elements {i} and {j} are equal, all must differ"))
                }
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
                let missing: Vec<_> =
                    names.iter().filter(is_missing).map(|name| format!("{name:?}")).collect();
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
        let likely: Vec<_> =
            schemas.iter().filter(|schema| self.could_be_meant(schema, json, path)).collect();
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
            Rule::Required(names) if names.len() == 1 => {
                json.members().any(|member| member.name == *names[0])
            }
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
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::schema::constraints::Constraints;

    fn check(schema: &str, value: &str) -> Result<(), String> {
        let schema = RawValue::from_string(schema.into()).expect("JSON");
        let constraints = Constraints::of_schema(&schema).expect("a schema");
        let json = Json::parse(value.as_bytes()).expect("JSON");
        constraints
            .check(json)
            .map_err(|bad| if bad.path.is_empty() { bad.what } else { format!("{}: {}", bad.path, bad.what) })
    }

    /// Each schema with values that it takes, and values that it refuses with what is said then.
    #[test]
    #[rustfmt::skip] // a table
    fn keywords_mean_what_json_schema_says() {
        for (schema, valid, invalid) in [
            ("true", &["1", "null"][..], &[][..]),
            ("false", &[], &[("1", "must not be there")]),
            (r#"{"type":"integer"}"#, &["1", "-30.0", "3e1", "1e400"], &[
                ("1.5", "expected an integer, got 1.5"),
                (r#""5""#, r#"expected an integer, got "5""#),
                ("[]", "expected an integer, got an array"),
            ]),
            (r#"{"type":["number","null"]}"#, &["1", "1.5", "null"], &[("true", "expected null or a number, got true")]),
            (r#"{"minimum":1}"#, &["1", "1.0", r#""0""#], &[("0.999", "must be at least 1, got 0.999")]),
            (r#"{"maximum":9007199254740992}"#, &["9007199254740992"], &[
                ("9007199254740993", "must be at most 9007199254740992, got 9007199254740993"),
                ("1e400", "must be at most 9007199254740992, got 1e400"),
            ]),
            (r#"{"maximum":18446744073709551615}"#, &["18446744073709551615"], &[
                ("18446744073709551616", "must be at most 18446744073709551615, got 18446744073709551616"),
            ]),
            (r#"{"exclusiveMinimum":0.5}"#, &["0.51"], &[("0.5", "must be more than 0.5, got 0.5")]),
            (r#"{"exclusiveMaximum":-9223372036854775808}"#, &["-9223372036854775809"], &[
                ("-9223372036854775808", "must be less than -9223372036854775808, got -9223372036854775808"),
            ]),
            (r#"{"multipleOf":0.01}"#, &["0.07", "19.99", "0"], &[("0.075", "must be a multiple of 0.01, got 0.075")]),
            (r#"{"minLength":2,"maxLength":3}"#, &[r#""é😀""#, r#""\u0061bc""#, "1"], &[
                (r#""😀""#, "must have at least 2 characters, has 1"),
                (r#""abcd""#, "must have at most 3 characters, has 4"),
            ]),
            (r#"{"pattern":"^a\\d+$"}"#, &[r#""a1""#, r#""\u00611""#], &[
                (r#""b""#, r#"must match the pattern ^a\d+$, got "b""#),
            ]),
            (r#"{"minItems":1,"maxItems":2}"#, &["[1]", "[[],[]]", "{}"], &[
                ("[]", "must have at least 1 element, has 0"),
                ("[1,2,3]", "must have at most 2 elements, has 3"),
            ]),
            (r#"{"uniqueItems":true}"#, &["[1,2]", r#"[1,"1",true]"#, r#"[{"a":1},{"a":2}]"#], &[
                ("[1,2,1.0]", "elements 0 and 2 are equal, all must differ"),
                (r#"[3,{"a":1,"b":2},{"b":2,"a":1.0}]"#, "elements 1 and 2 are equal, all must differ"),
            ]),
            (r#"{"uniqueItems":false}"#, &["[1,1]"], &[]),
            (r#"{"items":{"type":"string"}}"#, &["[]", r#"["a"]"#], &[(r#"["a",1]"#, "[1]: expected a string, got 1")]),
            (r#"{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}"#, &["[]", r#"["a",1]"#], &[
                ("[1]", "[0]: expected a string, got 1"),
                (r#"["a","b"]"#, r#"[1]: expected an integer, got "b""#),
            ]),
            (r#"{"minProperties":2}"#, &[r#"{"a":1,"b":1}"#], &[
                (r#"{"a":1,"a":2}"#, "must have at least 2 members, has 1"),
            ]),
            (r#"{"maxProperties":1}"#, &[r#"{"a":1}"#, "{}"], &[
                (r#"{"a":1,"b":2}"#, "must have at most 1 member, has 2"),
            ]),
            (r#"{"required":["a","b"]}"#, &[r#"{"\u0061":1,"b":null}"#, "[]"], &[
                (r#"{"b":1}"#, r#"missing "a""#),
                ("{}", r#"missing "a", "b""#),
            ]),
            (r#"{"properties":{"a":{"properties":{"b":{"items":{"type":"string"}}}}}}"#, &["{}", r#"{"a":{"c":1}}"#], &[
                (r#"{"a":{"b":["x","y",3]}}"#, "a.b[2]: expected a string, got 3"),
                (r#"{"\u0061":{"b":[null]}}"#, "a.b[0]: expected a string, got null"),
            ]),
            (r#"{"properties":{"a":true},"additionalProperties":false}"#, &["{}", r#"{"a":1}"#], &[
                (r#"{"a":1,"odd name":2}"#, r#"["odd name"]: is not known here, known are "a""#),
            ]),
            (r#"{"additionalProperties":{"type":"integer"}}"#, &[r#"{"a":1}"#], &[
                (r#"{"a":"x"}"#, r#"a: expected an integer, got "x""#),
            ]),
            (r#"{"patternProperties":{"^\\d+$":{"type":"integer"}},"additionalProperties":false}"#, &[r#"{"7":1}"#], &[
                (r#"{"7":"x"}"#, r#"7: expected an integer, got "x""#),
                (r#"{"x":1}"#, "x: is not known here"),
            ]),
            (r#"{"enum":["a",1,null,{"b":[2]}]}"#, &[r#""a""#, r#""\u0061""#, "1.0", "null", r#"{"b":[2e0]}"#], &[
                (r#""b""#, r#"expected one of "a", 1, null, {"b":[2]}, got "b""#),
                ("2", r#"expected one of "a", 1, null, {"b":[2]}, got 2"#),
            ]),
            (r#"{"const":"a"}"#, &[r#""a""#], &[(r#""b""#, r#"expected "a", got "b""#)]),
            (r#"{"allOf":[{"minimum":1},{"maximum":2}]}"#, &["1", "2"], &[("3", "must be at most 2, got 3")]),
            (r#"{"not":{"const":0}}"#, &["1", "null"], &[("0.0", "0.0 is excluded")]),
        ] {
            for value in valid {
                assert_eq!(check(schema, value), Ok(()), "{schema} {value}");
            }
            for (value, what) in invalid {
                assert_eq!(check(schema, value), Err((*what).to_owned()), "{schema} {value}");
            }
        }
    }

    #[test]
    fn of_several_forms_the_one_that_was_meant_says_what_is_wrong() {
        let optional = r#"{"anyOf":[{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}},{"type":"null"}]}"#;
        assert_eq!(check(optional, "null"), Ok(()));
        assert_eq!(check(optional, r#"{"a":1}"#), Ok(()));
        assert_eq!(check(optional, r#"{"a":"x"}"#), Err(r#"a: expected an integer, got "x""#.into()));
        assert_eq!(check(optional, "7"), Err("expected null or an object, got 7".into()));

        let documented =
            r#"{"oneOf":[{"type":"string","const":"red"},{"type":"string","enum":["blue","green"]}]}"#;
        assert_eq!(check(documented, r#""green""#), Ok(()));
        assert_eq!(
            check(documented, r#""pink""#),
            Err(r#"expected one of "red", "blue", "green", got "pink""#.into())
        );

        let tagged = r#"{"oneOf":[
            {"type":"object","properties":{"do":{"const":"go"},"to":{"type":"string"}},"required":["do","to"]},
            {"type":"object","properties":{"do":{"const":"stop"},"at":{"type":"integer"}},"required":["do"]}]}"#;
        assert_eq!(check(tagged, r#"{"do":"go","to":"x"}"#), Ok(()));
        assert_eq!(check(tagged, r#"{"do":"go"}"#), Err(r#"missing "to""#.into()));
        assert_eq!(
            check(tagged, r#"{"do":"stop","at":"x"}"#),
            Err(r#"at: expected an integer, got "x""#.into())
        );
        assert_eq!(check(tagged, r#"{"do":"jump"}"#), Err("fits none of the forms it may have".into()));

        let external = r#"{"oneOf":[
            {"type":"object","properties":{"Go":{"type":"string"}},"required":["Go"],"additionalProperties":false},
            {"type":"object","properties":{"Wait":{"type":"integer"}},"required":["Wait"],"additionalProperties":false}]}"#;
        assert_eq!(check(external, r#"{"Wait":"x"}"#), Err(r#"Wait: expected an integer, got "x""#.into()));
        assert_eq!(check(external, r#"{"Wait":1}"#), Ok(()));

        assert_eq!(check(r#"{"oneOf":[{"minimum":1},{"minimum":2}]}"#, "1"), Ok(()));
        assert_eq!(
            check(r#"{"oneOf":[{"minimum":1},{"minimum":2}]}"#, "2"),
            Err("fits more than one of the forms it may have".into())
        );
    }

    #[test]
    fn what_is_not_understood_refuses_nothing() {
        let unknown =
            r#"{"oneOf":[{"type":"array","contains":{"const":1}},{"type":"array","contains":{"const":2}}]}"#;
        assert_eq!(check(unknown, "[1]"), Ok(()));
        assert_eq!(check(unknown, "[2]"), Ok(()));
        assert_eq!(check(unknown, "{}"), Err("expected an array, got an object".into()));
        assert_eq!(check(r#"{"not":{"contains":{"const":1}}}"#, "[2]"), Ok(()));
        assert_eq!(check(r#"{"if":{"const":1},"then":false,"minimum":0}"#, "2"), Ok(()));
    }

    #[test]
    fn references_are_followed_as_deep_as_the_value_goes() {
        let tree = r##"{"$defs":{"a/b %":{"type":"object","properties":{
            "value":{"type":"integer","minimum":1},"children":{"items":{"$ref":"#/$defs/a~1b%20%25"}}}}},
            "properties":{"root":{"$ref":"#/$defs/a~1b%20%25"}}}"##;
        assert_eq!(
            check(tree, r#"{"root":{"value":1,"children":[{"value":2},{"children":[{"value":3}]}]}}"#),
            Ok(())
        );
        assert_eq!(
            check(tree, r#"{"root":{"children":[{},{"children":[{"value":0}]}]}}"#),
            Err("root.children[1].children[0].value: must be at least 1, got 0".into())
        );
    }

    #[test]
    fn alternatives_that_refer_back_do_not_double_the_work() {
        let schema = r##"{"anyOf":[
            {"type":"array","items":{"$ref":"#"},"maxItems":1},
            {"type":"array","items":{"$ref":"#"},"minItems":2},
            {"type":"integer"}]}"##;
        let nested = |inner: &str| format!("{}{inner}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(check(schema, &nested("1")), Ok(()));
        assert!(check(schema, &nested("\"x\"")).is_err());
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        let why = check(r##"{"items":{"$ref":"#"}}"##, &deep).expect_err("too deep");
        assert!(why.ends_with("[0]: is nested too deep"), "{why}");
    }

    #[test]
    fn what_is_quoted_is_short() {
        let long = format!("\"{}\"", "é".repeat(1000));
        let why = check(r#"{"type":"integer"}"#, &long).expect_err("a string");
        assert_eq!(why, format!("expected an integer, got \"{}…", "é".repeat(59)));
        let name = format!("{{\"{}\":1}}", "x".repeat(1000));
        let why = check(r#"{"additionalProperties":false}"#, &name).expect_err("unknown");
        assert_eq!(why, format!("[\"{}…\"]: is not known here", "x".repeat(60)));
    }
}
