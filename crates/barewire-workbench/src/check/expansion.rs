//! A JSON Schema of a peer -> how large it is if each reference is replaced by what it refers to.
//!
//! A few lines of definitions that each refer twice to the next one double the time of a check with every line, and a
//! chain of references takes stack space for each of its links. So the size is known before anything is compiled.

use std::collections::HashMap;

use serde_json::Value;

/// Checks that a schema with its references replaced is small enough. An error says why it is not.
pub(super) fn check_expansion(schema: &Value, max_levels: usize) -> Result<(), String> {
    let mut expander = Expander { root: schema, named: Vec::new(), sizes: HashMap::new(), max_levels };
    if !expander.find_names(schema) {
        return Ok(());
    }
    match expander.expand(schema, 0) {
        None => Err(format!("its references are nested deeper than {max_levels} levels")),
        Some(Size { values, .. }) if values > MAX_VALUES => {
            Err(format!("its references make it larger than {MAX_VALUES} values"))
        }
        Some(_) => Ok(()),
    }
}

/// The size of a value.
#[derive(Clone, Copy)]
struct Size {
    /// The number of objects and arrays in it.
    values: u64,
    levels: usize,
}

struct Expander<'a> {
    root: &'a Value,
    /// The schemas that have a name of their own. A reference can be relative to each of them.
    named: Vec<&'a Value>,
    /// Maps the address of each object and array to its size; to `None` while its members are looked at.
    sizes: HashMap<usize, Option<Size>>,
    max_levels: usize,
}

impl<'a> Expander<'a> {
    /// Finds the schemas with names. Returns whether there are references. The depth of the schema must be limited.
    fn find_names(&mut self, value: &'a Value) -> bool {
        let children: Vec<&Value> = match value {
            Value::Array(elements) => elements.iter().collect(),
            Value::Object(members) => members.values().collect(),
            _ => return false,
        };
        if NAMES.iter().any(|name| value.get(*name).is_some_and(Value::is_string)) {
            self.named.push(value);
        }
        let has_references = REFERENCES.iter().any(|name| value.get(*name).is_some_and(Value::is_string));
        children.into_iter().fold(has_references, |found, child| self.find_names(child) || found)
    }

    /// Returns the size of a value at a level; `None` if it has too many levels.
    fn expand(&mut self, value: &'a Value, level: usize) -> Option<Size> {
        if level > self.max_levels {
            return None;
        }
        let address = std::ptr::from_ref(value).addr();
        match self.sizes.get(&address) {
            // A schema that refers back to itself goes on with a smaller part of the value.
            Some(None) => return Some(Size { values: 1, levels: 1 }),
            Some(Some(size)) => return Some(*size).filter(|size| level + size.levels <= self.max_levels),
            None => {}
        }
        let mut below: Vec<&Value> = match value {
            Value::Array(elements) => elements.iter().collect(),
            Value::Object(members) => members.values().collect(),
            _ => return Some(Size { values: 0, levels: 0 }),
        };
        self.sizes.insert(address, None);
        let mut size = Size { values: 1, levels: 0 };
        for reference in REFERENCES.iter().filter_map(|name| value.get(*name)?.as_str()) {
            // If it is not clear which schema is meant, the largest one counts.
            let mut largest = Size { values: 0, levels: 0 };
            for target in self.targets(reference) {
                let target = self.expand(target, level + 1)?;
                largest.values = largest.values.max(target.values);
                largest.levels = largest.levels.max(target.levels);
            }
            size.values = size.values.saturating_add(largest.values);
            size.levels = size.levels.max(largest.levels);
        }
        below.retain(|value| value.is_object() || value.is_array());
        for child in below {
            let child = self.expand(child, level + 1)?;
            size.values = size.values.saturating_add(child.values);
            size.levels = size.levels.max(child.levels);
        }
        size.levels += 1;
        self.sizes.insert(address, Some(size));
        Some(size)
    }

    /// Returns the schemas that a reference can mean.
    fn targets(&self, reference: &str) -> Vec<&'a Value> {
        match reference.split_once('#') {
            Some((_, pointer)) if pointer.is_empty() || pointer.starts_with('/') => {
                let pointer = decoded(pointer);
                let bases = [self.root].into_iter().chain(self.named.iter().copied());
                bases.filter_map(|base| base.pointer(&pointer)).collect()
            }
            _ => self.named.clone(),
        }
    }
}

/// Decodes the percent signs of a fragment.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The keywords that give a schema a name.
const NAMES: [&str; 5] = ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"];
/// The keywords with which a schema refers to another schema or to itself.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// The maximum number of objects and arrays: four times as many as a schema without references may have.
const MAX_VALUES: u64 = 65_536;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns definitions that each refer several times to the next one.
    fn definitions(count: usize, references: usize, reference: impl Fn(usize) -> String) -> Value {
        let definition = |level: usize| match level + 1 < count {
            true => {
                json!({ "$id": format!("u{level}"), "allOf": vec![json!({ "$ref": reference(level + 1) }); references] })
            }
            false => json!({ "$id": format!("u{level}") }),
        };
        (0..count).map(|level| (format!("d{level}"), definition(level))).collect::<serde_json::Map<_, _>>().into()
    }

    fn check(reference: impl Fn(usize) -> String, count: usize, references: usize) -> Result<(), String> {
        let schema = json!({ "$ref": reference(0), "$defs": definitions(count, references, &reference) });
        check_expansion(&schema, 512)
    }

    #[test]
    fn references_that_double_are_found_in_every_form() {
        let forms: [fn(usize) -> String; 4] = [
            |level| format!("#/$defs/d{level}"),
            |level| format!("#/%24defs/d{level}"),
            |level| format!("http://x/y#/$defs/d{level}"),
            |level| format!("u{level}"),
        ];
        for form in forms {
            assert_eq!(
                check(form, 40, 2),
                Err("its references make it larger than 65536 values".to_owned()),
                "{}",
                form(0)
            );
            assert_eq!(check(form, 8, 2), Ok(()), "{}", form(0));
        }
        assert!(check(forms[0], 400, 1).expect_err("a long chain").contains("deeper than 512 levels"));
        assert_eq!(check(forms[0], 100, 1), Ok(()));
    }

    #[test]
    fn a_schema_may_refer_to_itself() {
        let tree = json!({ "properties": { "children": { "items": { "$ref": "#" } }, "next": { "$ref": "#" } } });
        assert_eq!(check_expansion(&tree, 512), Ok(()));
        let expression = json!({
            "$defs": {
                "expression": { "anyOf": vec![json!({ "$ref": "#/$defs/operation" }); 50] },
                "operation": { "properties": { "a": { "$ref": "#/$defs/expression" }, "b": { "$ref": "#/$defs/expression" } } },
            },
            "$ref": "#/$defs/expression",
        });
        assert_eq!(check_expansion(&expression, 512), Ok(()));
    }
}
