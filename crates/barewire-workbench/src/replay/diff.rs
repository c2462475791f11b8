//! Finds the places where two JSON values differ.

use barewire_proto::json::{Json, Kind};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::message::Message;
use super::path_pattern::pointer;
use super::value::{SortedMembers, canonical, comparable, is_same, write_canonical};

/// One place where the recorded and the received value differ. In JSON it is an object with `path`, `recorded` and
/// `came` (the received value).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    #[serde(serialize_with = "as_pointer")]
    pub(super) path: Vec<String>,
    /// The values as JSON text.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_json")]
    pub(super) recorded: Option<String>,
    #[serde(rename = "came", skip_serializing_if = "Option::is_none", serialize_with = "as_json")]
    pub(super) received: Option<String>,
}

impl Change {
    /// Returns the place as a JSON Pointer, and the recorded and the received value as JSON text.
    pub fn parts(&self) -> (String, Option<&str>, Option<&str>) {
        (pointer(&self.path), self.recorded.as_deref(), self.received.as_deref())
    }

    pub(super) fn new(path: &[String], recorded: Option<Json<'_>>, received: Option<Json<'_>>) -> Self {
        let path = path.iter().map(|step| short(step.as_bytes(), MAX_STEP_LENGTH)).collect();
        Self { path, recorded: recorded.map(canonical), received: received.map(canonical) }
    }

    /// Returns the JSON Pointer of the place; empty if the place is the whole message.
    pub fn pointer(&self) -> String {
        pointer(&self.path)
    }

    /// Returns the JSON text of the recorded value, or `None` if the place exists only in the received message.
    pub fn recorded(&self) -> Option<&str> {
        self.recorded.as_deref()
    }

    /// Returns the JSON text of the received value, or `None` if the place exists only in the recorded message.
    pub fn received(&self) -> Option<&str> {
        self.received.as_deref()
    }
}

fn as_pointer<S: Serializer>(path: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&pointer(path))
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn as_json<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let raw: Option<&RawValue> = text.as_deref().map(serde_json::from_str).transpose().map_err(S::Error::custom)?;
    raw.serialize(serializer)
}

/// Decides whether a difference at this path, between a recorded and a received value, is acceptable.
pub(crate) type AcceptDifference<'a> = dyn FnMut(&[String], Option<Json<'_>>, Option<Json<'_>>) -> bool + 'a;

/// Returns the places where two messages differ unacceptably. Messages that are not comparable are compared as text.
pub(super) fn diff_messages(recorded: &Message, received: &Message, accept: &mut AcceptDifference<'_>) -> Vec<Change> {
    diff_texts(&recorded.text, &received.text, accept)
}

/// Returns the places where the texts of two messages differ unacceptably.
pub(crate) fn diff_texts(recorded: &[u8], received: &[u8], accept: &mut AcceptDifference<'_>) -> Vec<Change> {
    let text = |text: &[u8]| serde_json::to_string(&short(text, MAX_TEXT_LENGTH)).ok();
    match (comparable(recorded), comparable(received)) {
        (Some(recorded), Some(received)) => diff(recorded, received, accept),
        _ if recorded == received => Vec::new(),
        _ => vec![Change { path: Vec::new(), recorded: text(recorded), received: text(received) }],
    }
}

/// Returns the text of the params of a request that is the same for equal params, without their metadata.
pub(crate) fn canonical_params(request: &[u8]) -> Option<Vec<u8>> {
    let params = comparable(request)?.member("params")?;
    let mut text = Vec::new();
    write_canonical(&mut text, params, &|name| name != "_meta").ok()?;
    Some(text)
}

/// Returns the places where two values differ unacceptably. Recursion is safe: a comparable value has at most 128
/// levels.
fn diff(recorded: Json<'_>, received: Json<'_>, accept: &mut AcceptDifference<'_>) -> Vec<Change> {
    let mut walk = DiffWalk { path: Vec::new(), changes: Vec::new(), accept };
    walk.values(recorded, received);
    walk.changes
}

/// Returns a text, shortened if it is longer than `limit` bytes.
fn short(text: &[u8], limit: usize) -> String {
    let end = if text.len() > limit { "…" } else { "" };
    format!("{}{end}", String::from_utf8_lossy(&text[..text.len().min(limit)]))
}

/// The maximum number of places that are listed for a message.
const MAX_CHANGES: usize = 1000;

/// The maximum length of one step in the path of a listed place: every place below a long name repeats the name.
const MAX_STEP_LENGTH: usize = 1024;

/// The maximum length of a message that is shown as text, because escaping makes it up to six times as long.
const MAX_TEXT_LENGTH: usize = 64 * 1024;

struct DiffWalk<'a, 'e> {
    path: Vec<String>,
    changes: Vec<Change>,
    accept: &'a mut AcceptDifference<'e>,
}

impl DiffWalk<'_, '_> {
    fn values(&mut self, recorded: Json<'_>, received: Json<'_>) {
        match (recorded.kind(), received.kind()) {
            _ if recorded.as_bytes() == received.as_bytes() => {}
            (Kind::Object, Kind::Object) => self.objects(&SortedMembers::of(recorded), &SortedMembers::of(received)),
            (Kind::Array, Kind::Array) => self.arrays(recorded, received),
            _ if is_same(recorded, received) => {}
            _ => self.differ(Some(recorded), Some(received)),
        }
    }

    fn objects(&mut self, recorded: &SortedMembers<'_>, received: &SortedMembers<'_>) {
        for member in recorded.iter() {
            self.at(member.name.to_name(), Some(member.value), received.get(&member.name.to_bytes()));
        }
        for member in received.iter().filter(|member| recorded.get(&member.name.to_bytes()).is_none()) {
            self.at(member.name.to_name(), None, Some(member.value));
        }
    }

    fn at(&mut self, step: impl ToString, recorded: Option<Json<'_>>, received: Option<Json<'_>>) {
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
    fn arrays(&mut self, recorded: Json<'_>, received: Json<'_>) {
        let lengths = (recorded.elements().count(), received.elements().count());
        let (mut head, mut tail) = (0, 0);
        if lengths.0 != lengths.1 {
            let shorter = lengths.0.min(lengths.1);
            head = recorded.elements().zip(received.elements()).take_while(|(a, b)| is_same(*a, *b)).count();
            // The text is only read forwards: after the last pair of elements that differ, all are equal.
            let ends = recorded.elements().skip(lengths.0 - shorter).zip(received.elements().skip(lengths.1 - shorter));
            tail = ends.fold(0, |equal, (a, b)| if is_same(a, b) { equal + 1 } else { 0 }).min(shorter - head);
        }
        let mut recorded = recorded.elements().skip(head).take(lengths.0 - head - tail);
        let mut received = received.elements().skip(head).take(lengths.1 - head - tail);
        for index in head..lengths.0.max(lengths.1) - tail {
            self.at(index, recorded.next(), received.next());
        }
    }

    fn differ(&mut self, recorded: Option<Json<'_>>, received: Option<Json<'_>>) {
        // `accept` is called even if the list is full, because it also remembers generated values.
        if !(self.accept)(&self.path, recorded, received) && self.changes.len() < MAX_CHANGES {
            self.changes.push(Change::new(&self.path, recorded, received));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(recorded: &serde_json::Value, received: &serde_json::Value) -> Vec<String> {
        let (recorded, received) = (recorded.to_string(), received.to_string());
        let json = |text| comparable(text).expect("JSON");
        diff(json(recorded.as_bytes()), json(received.as_bytes()), &mut |_, _, _| false).iter().map(shown).collect()
    }

    fn shown(change: &Change) -> String {
        let text = |value: Option<&str>| value.unwrap_or("nothing").to_owned();
        format!("{} {} {}", change.pointer(), text(change.recorded()), text(change.received()))
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
        let mut accept = |path: &[String], _: Option<Json<'_>>, _: Option<Json<'_>>| path == ["a"];
        let json = |text: &'static str| comparable(text.as_bytes()).expect("JSON");
        let was = json(r#"{"a":1,"b":1}"#);
        assert_eq!(diff(was, json(r#"{"b":1}"#), &mut accept), []);
        assert_eq!(diff(was, json(r#"{"a":2,"b":2}"#), &mut accept).len(), 1);
    }

    #[test]
    fn repeated_and_escaped_names_are_one_member() {
        let json = |text: &'static str| comparable(text.as_bytes()).expect("JSON");
        let changes = |a, b| diff(json(a), json(b), &mut |_, _, _| false).iter().map(shown).collect::<Vec<_>>();
        assert_eq!(changes(r#"{"a":0,"\u0061":1,"b":2}"#, r#"{"b":2.0,"a":1}"#), [""; 0]);
        assert_eq!(changes(r#"{"b":1,"a":[1,2,3]}"#, r#"{"a":[0,2],"b":1}"#), ["/a/0 1 0", "/a/2 3 nothing"]);
    }
}
