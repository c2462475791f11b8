//! Two JSON values -> the places where they differ.

use serde::{Serialize, Serializer};

use super::path_pattern::pointer;
use super::value::Value;

/// One place where what was recorded and what came differ. Serialized, it is an object with `path`, `recorded` and `came`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    #[serde(serialize_with = "as_pointer")]
    pub(super) path: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) came: Option<Value>,
}

impl Change {
    /// The JSON Pointer of the place; empty for the whole message.
    pub fn pointer(&self) -> String {
        pointer(&self.path)
    }

    /// The JSON text of the recorded value, if there is one.
    pub fn recorded(&self) -> Option<String> {
        self.recorded.as_ref().map(Value::to_string)
    }

    /// The JSON text of the value that came, if one did.
    pub fn came(&self) -> Option<String> {
        self.came.as_ref().map(Value::to_string)
    }
}

fn as_pointer<S: Serializer>(path: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&pointer(path))
}

/// Says of a place where two values differ whether that is no matter.
pub(super) type AcceptDifference<'a> = dyn FnMut(&[String], Option<&Value>, Option<&Value>) -> bool + 'a;

/// The places where two values differ and there is no excuse. Values of this type are at most 128 levels deep.
pub(super) fn diff(recorded: &Value, came: &Value, excuse: &mut AcceptDifference<'_>) -> Vec<Change> {
    let mut found = Differ { path: Vec::new(), changes: Vec::new(), excuse };
    found.values(recorded, came);
    found.changes
}

/// Places that are listed; no one reads more.
const MAX_CHANGES: usize = 1000;

struct Differ<'a, 'e> {
    path: Vec<String>,
    changes: Vec<Change>,
    excuse: &'a mut AcceptDifference<'e>,
}

impl Differ<'_, '_> {
    fn values(&mut self, recorded: &Value, came: &Value) {
        match (recorded, came) {
            (Value::Object(recorded), Value::Object(came)) => {
                for (name, value) in recorded {
                    self.at(name, Some(value), came.get(name));
                }
                for (name, value) in came.iter().filter(|(name, _)| !recorded.contains_key(*name)) {
                    self.at(name, None, Some(value));
                }
            }
            (Value::Array(recorded), Value::Array(came)) => self.arrays(recorded, came),
            (recorded, came) if recorded == came => {}
            (recorded, came) => self.differ(Some(recorded), Some(came)),
        }
    }

    fn at(&mut self, step: impl ToString, recorded: Option<&Value>, came: Option<&Value>) {
        self.path.push(step.to_string());
        match (recorded, came) {
            (Some(recorded), Some(came)) => self.values(recorded, came),
            _ => self.differ(recorded, came),
        }
        self.path.pop();
    }

    /// What is equal at both ends is left alone, so that one element more or less is one change. Paths are those of the recorded
    /// array; of what was added, those of the other.
    fn arrays(&mut self, recorded: &[Value], came: &[Value]) {
        if recorded.len() == came.len() {
            for (index, (recorded, came)) in recorded.iter().zip(came).enumerate() {
                self.at(index, Some(recorded), Some(came));
            }
            return;
        }
        let head = recorded.iter().zip(came).take_while(|(a, b)| a == b).count();
        let ends = recorded[head..].iter().rev().zip(came[head..].iter().rev());
        let tail = ends.take_while(|(a, b)| a == b).count();
        let (recorded, came) = (&recorded[head..recorded.len() - tail], &came[head..came.len() - tail]);
        for index in 0..recorded.len().max(came.len()) {
            self.at(head + index, recorded.get(index), came.get(index));
        }
    }

    fn differ(&mut self, recorded: Option<&Value>, came: Option<&Value>) {
        // The excuse is called in any case: it also collects values.
        if !(self.excuse)(&self.path, recorded, came) && self.changes.len() < MAX_CHANGES {
            let change = Change { path: self.path.clone(), recorded: recorded.cloned(), came: came.cloned() };
            self.changes.push(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(recorded: &serde_json::Value, came: &serde_json::Value) -> Vec<String> {
        let text = |value: Option<Value>| value.map_or("nothing".to_owned(), |value| value.to_string());
        let changes = diff(&recorded.clone().into(), &came.clone().into(), &mut |_, _, _| false);
        changes
            .into_iter()
            .map(|change| format!("{} {} {}", pointer(&change.path), text(change.recorded), text(change.came)))
            .collect()
    }

    #[test]
    fn values_are_compared_and_not_texts() {
        let a = json!({ "a": 1, "b": [1.0, "x"], "c": null });
        let b = json!({ "c": null, "b": [1, "x"], "a": 1.0 });
        assert_eq!(found(&a, &b), [""; 0]);
        assert_eq!(found(&json!(1), &json!("1")), [" 1 \"1\""]);
        // Two integers that are the same float are two integers.
        assert_eq!(found(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992_u64)).len(), 1);
    }

    #[test]
    fn every_place_has_its_path() {
        let a = json!({ "a": { "b/c": [1, 2] }, "gone": 1 });
        let b = json!({ "a": { "b/c": [1, 3] }, "new": [] });
        assert_eq!(found(&a, &b), ["/a/b~1c/1 2 3", "/gone 1 nothing", "/new nothing []"]);
    }

    #[test]
    fn an_element_more_or_less_is_one_change() {
        let (one, two, three) = (json!({"name":"a"}), json!({"name":"b"}), json!({"name":"c"}));
        let long = json!([one, two, three]);
        assert_eq!(found(&long, &json!([one, three])), ["/1 {\"name\":\"b\"} nothing"]);
        assert_eq!(found(&json!([one, three]), &long), ["/1 nothing {\"name\":\"b\"}"]);
        assert_eq!(found(&json!([]), &json!([1])), ["/0 nothing 1"]);
    }

    #[test]
    fn what_is_excused_is_no_change() {
        let mut excuse = |path: &[String], _: Option<&Value>, _: Option<&Value>| path == ["a"];
        let was = Value::from(json!({"a":1,"b":1}));
        assert_eq!(diff(&was, &json!({"b":1}).into(), &mut excuse), []);
        assert_eq!(diff(&was, &json!({"a":2,"b":2}).into(), &mut excuse).len(), 1);
    }
}
