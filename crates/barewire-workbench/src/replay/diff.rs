//! Finds the places where two JSON values differ.

use serde::{Serialize, Serializer};

use super::message::Message;
use super::path_pattern::pointer;
use super::value::Value;

/// One place where the recorded and the received value differ. In JSON it is an object with `path`, `recorded` and
/// `came` (the received value).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    #[serde(serialize_with = "as_pointer")]
    pub(super) path: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<Value>,
    #[serde(rename = "came", skip_serializing_if = "Option::is_none")]
    pub(super) received: Option<Value>,
}

impl Change {
    /// Returns the JSON Pointer of the place; empty if the place is the whole message.
    pub fn pointer(&self) -> String {
        pointer(&self.path)
    }

    /// Returns the JSON text of the recorded value, or `None` if the place exists only in the received message.
    pub fn recorded(&self) -> Option<String> {
        self.recorded.as_ref().map(Value::to_string)
    }

    /// Returns the JSON text of the received value, or `None` if the place exists only in the recorded message.
    pub fn received(&self) -> Option<String> {
        self.received.as_ref().map(Value::to_string)
    }
}

fn as_pointer<S: Serializer>(path: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&pointer(path))
}

/// Decides whether a difference at this path, between a recorded and a received value, is acceptable.
pub(super) type AcceptDifference<'a> = dyn FnMut(&[String], Option<&Value>, Option<&Value>) -> bool + 'a;

/// Returns the places where two messages differ unacceptably. Messages without a parsed value are compared as text.
pub(super) fn diff_messages(recorded: &Message, received: &Message, accept: &mut AcceptDifference<'_>) -> Vec<Change> {
    let text = |message: &Message| Some(Value::String(String::from_utf8_lossy(&message.text).into_owned()));
    match (&recorded.value, &received.value) {
        (Some(recorded), Some(received)) => diff(recorded, received, accept),
        _ if recorded.text == received.text => Vec::new(),
        _ => vec![Change { path: Vec::new(), recorded: text(recorded), received: text(received) }],
    }
}

/// Returns the places where two values differ unacceptably. Recursion is safe: a `Value` has at most 128 levels.
fn diff(recorded: &Value, received: &Value, accept: &mut AcceptDifference<'_>) -> Vec<Change> {
    let mut walk = DiffWalk { path: Vec::new(), changes: Vec::new(), accept };
    walk.values(recorded, received);
    walk.changes
}

/// The maximum number of places that are listed for a message.
const MAX_CHANGES: usize = 1000;

struct DiffWalk<'a, 'e> {
    path: Vec<String>,
    changes: Vec<Change>,
    accept: &'a mut AcceptDifference<'e>,
}

impl DiffWalk<'_, '_> {
    fn values(&mut self, recorded: &Value, received: &Value) {
        match (recorded, received) {
            (Value::Object(recorded), Value::Object(received)) => {
                for (name, value) in recorded {
                    self.at(name, Some(value), received.get(name));
                }
                for (name, value) in received.iter().filter(|(name, _)| !recorded.contains_key(*name)) {
                    self.at(name, None, Some(value));
                }
            }
            (Value::Array(recorded), Value::Array(received)) => self.arrays(recorded, received),
            (recorded, received) if recorded == received => {}
            (recorded, received) => self.differ(Some(recorded), Some(received)),
        }
    }

    fn at(&mut self, step: impl ToString, recorded: Option<&Value>, received: Option<&Value>) {
        self.path.push(step.to_string());
        match (recorded, received) {
            (Some(recorded), Some(received)) => self.values(recorded, received),
            _ => self.differ(recorded, received),
        }
        self.path.pop();
    }

    /// Compares arrays. If their lengths differ, equal elements at both ends are skipped, so that one added or removed
    /// element is one change. A path contains the index in the recorded array; for an added element, the index in the
    /// received array.
    fn arrays(&mut self, recorded: &[Value], received: &[Value]) {
        let (mut head, mut tail) = (0, 0);
        if recorded.len() != received.len() {
            head = recorded.iter().zip(received).take_while(|(a, b)| a == b).count();
            let ends = recorded[head..].iter().rev().zip(received[head..].iter().rev());
            tail = ends.take_while(|(a, b)| a == b).count();
        }
        let (recorded, received) = (&recorded[head..recorded.len() - tail], &received[head..received.len() - tail]);
        for index in 0..recorded.len().max(received.len()) {
            self.at(head + index, recorded.get(index), received.get(index));
        }
    }

    fn differ(&mut self, recorded: Option<&Value>, received: Option<&Value>) {
        // `accept` is called even if the list is full, because it also remembers generated values.
        if !(self.accept)(&self.path, recorded, received) && self.changes.len() < MAX_CHANGES {
            let change = Change { path: self.path.clone(), recorded: recorded.cloned(), received: received.cloned() };
            self.changes.push(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(recorded: &serde_json::Value, received: &serde_json::Value) -> Vec<String> {
        let text = |value: Option<Value>| value.map_or("nothing".to_owned(), |value| value.to_string());
        diff(&recorded.clone().into(), &received.clone().into(), &mut |_, _, _| false)
            .into_iter()
            .map(|change| format!("{} {} {}", pointer(&change.path), text(change.recorded), text(change.received)))
            .collect()
    }

    #[test]
    fn values_are_compared_not_texts() {
        let a = json!({ "a": 1, "b": [1.0, "x"], "c": null });
        let b = json!({ "c": null, "b": [1, "x"], "a": 1.0 });
        assert_eq!(found(&a, &b), [""; 0]);
        assert_eq!(found(&json!(1), &json!("1")), [" 1 \"1\""]);
        // Two integers that round to the same floating-point number are still different.
        assert_eq!(found(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992_u64)).len(), 1);
    }

    #[test]
    fn every_place_has_its_path() {
        let a = json!({ "a": { "b/c": [1, 2] }, "gone": 1 });
        let b = json!({ "a": { "b/c": [1, 3] }, "new": [] });
        assert_eq!(found(&a, &b), ["/a/b~1c/1 2 3", "/gone 1 nothing", "/new nothing []"]);
    }

    #[test]
    fn one_added_or_removed_element_is_one_change() {
        let (one, two, three) = (json!({"name":"a"}), json!({"name":"b"}), json!({"name":"c"}));
        let long = json!([one, two, three]);
        assert_eq!(found(&long, &json!([one, three])), ["/1 {\"name\":\"b\"} nothing"]);
        assert_eq!(found(&json!([one, three]), &long), ["/1 nothing {\"name\":\"b\"}"]);
        assert_eq!(found(&json!([]), &json!([1])), ["/0 nothing 1"]);
    }

    #[test]
    fn accepted_differences_are_no_changes() {
        let mut accept = |path: &[String], _: Option<&Value>, _: Option<&Value>| path == ["a"];
        let was = Value::from(json!({"a":1,"b":1}));
        assert_eq!(diff(&was, &json!({"b":1}).into(), &mut accept), []);
        assert_eq!(diff(&was, &json!({"a":2,"b":2}).into(), &mut accept).len(), 1);
    }
}
