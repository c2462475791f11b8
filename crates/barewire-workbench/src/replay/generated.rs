//! Values that the server makes up and the client gives back -> this time's values in place of the recorded ones.

use std::collections::{HashMap, HashSet};

use barewire_proto::json::Json;
use barewire_proto::mcp::Side;

use super::path::Pattern;
use super::rewrite::strings;
use super::script::Script;
use super::value::Value;
use crate::secrets::REPLACEMENT_PREFIX as REPLACED;

/// The values that the server made up this time, by those that it made up in the capture. Values are kept as JSON text, and numbers of
/// the capture in one spelling each.
#[derive(Debug)]
pub(super) struct GeneratedValues {
    /// Strings that the client sent in the capture after the server had sent them first.
    given_back: HashSet<String>,
    patterns: Vec<Pattern>,
    /// By the member in which the client gives them back, or for any.
    live: HashMap<(Option<&'static str>, String), String>,
}

/// Members of the server whose values mean nothing to the client, and the member in which the client gives them back.
const OPAQUE: [(&str, &str); 6] = [
    ("nextCursor", "cursor"),
    ("requestState", "requestState"),
    ("taskId", "taskId"),
    ("elicitationId", "elicitationId"),
    ("sessionId", "sessionId"),
    ("progressToken", "progressToken"),
];

/// Members whose values are names, which do not change by themselves, however they look.
const NAMES: [&str; 8] = ["name", "uri", "uriTemplate", "title", "description", "method", "protocolVersion", "version"];

impl GeneratedValues {
    pub(super) fn new(script: &Script, patterns: Vec<Pattern>) -> Self {
        // A string that the client sent first is its own: a server that repeats it has made up nothing.
        let (mut of_client, mut of_server, mut given_back) = (HashSet::new(), HashSet::new(), HashSet::new());
        for frame in &script.frames {
            strings(&frame.text, &mut |text| match frame.side {
                Side::Server if !of_client.contains(&text) => {
                    of_server.insert(text);
                }
                Side::Client if of_server.contains(&text) => {
                    given_back.insert(text);
                }
                Side::Client => {
                    of_client.insert(text);
                }
                Side::Server => {}
            });
        }
        Self { given_back, patterns, live: HashMap::new() }
    }

    /// Whether two values differ only because they are made up. What came is remembered.
    pub(super) fn excuses(&mut self, method: &str, path: &[String], recorded: &Value, came: &Value) -> bool {
        let (Some(recorded_key), Some(_)) = (key(recorded), key(came)) else { return false };
        let texts = recorded.as_str().zip(came.as_str());
        let member = path.last().map_or("", String::as_str);
        if let Some((_, family)) = OPAQUE.iter().find(|(name, _)| *name == member)
            && (texts.is_some() || member == "progressToken")
        {
            self.live.insert((Some(family), recorded_key), came.to_string());
            return true;
        }
        let (recorded_key, came_text) = ((None, recorded_key), came.to_string());
        if self.live.get(&recorded_key) == Some(&came_text) {
            return true;
        }
        let is_named = self.patterns.iter().any(|pattern| pattern.covers(method, path));
        let is_likely = |was: &str| {
            is_replaced(was) || (looks_minted(was) && self.given_back.contains(was) && !NAMES.contains(&member))
        };
        if is_named || texts.is_some_and(|(was, _)| is_likely(was)) {
            self.live.insert(recorded_key, came_text);
            return true;
        }
        texts.is_some_and(|(was, is)| was.contains(REPLACED) && fits(was, is))
    }

    /// The value to send in place of this one, if it is another.
    pub(super) fn instead(&self, path: &[String], value: Json<'_>) -> Option<String> {
        // The client has chosen these itself.
        let is_own = match path {
            [params, id] => params == "params" && id == "requestId",
            [params, meta, token] => params == "params" && meta == "_meta" && token == "progressToken",
            _ => false,
        };
        if is_own {
            return None;
        }
        let recorded = key(&Value::leaf(value)?)?;
        let member = path.last().map_or("", String::as_str);
        let family = OPAQUE.iter().map(|(_, family)| *family).find(|family| *family == member);
        let of_family = family.and_then(|family| self.live.get(&(Some(family), recorded.clone())));
        of_family.or_else(|| self.live.get(&(None, recorded))).cloned()
    }

    /// A text of the client with the values of this time; `None` if it has no others.
    #[cfg(test)]
    fn put(&self, text: &str) -> Option<String> {
        let text = super::rewrite::rewrite(text.as_bytes(), &mut |path, value| self.instead(path, value))?;
        Some(String::from_utf8(text).expect("text"))
    }
}

/// The key of a value that can be made up and given back: a string or a number.
fn key(value: &Value) -> Option<String> {
    match value {
        Value::String(_) => Some(value.to_string()),
        Value::Number(number) => number.exact().map(|number| number.to_string()),
        _ => None,
    }
}

/// Whether it is long, in one piece, and with a digit: a person would not choose it as a name.
fn looks_minted(text: &str) -> bool {
    text.len() >= 16
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && !text.contains("://")
}

/// Whether all of it was replaced to keep a secret.
fn is_replaced(text: &str) -> bool {
    text.strip_prefix(REPLACED)
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text is what was recorded, with anything in the places of what was replaced.
fn fits(recorded: &str, came: &str) -> bool {
    let mut rest = came;
    for (index, piece) in recorded.split(REPLACED).enumerate() {
        let piece = if index == 0 { piece } else { piece.split_once('>').map_or(piece, |(_, piece)| piece) };
        let at = if index == 0 { rest.starts_with(piece).then_some(0) } else { rest.find(piece) };
        let Some(at) = at else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty() || recorded.ends_with('>')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(given_back: &[&str]) -> GeneratedValues {
        let given_back = given_back.iter().map(|text| (*text).to_owned()).collect();
        GeneratedValues {
            given_back,
            patterns: vec!["m:/result/ticket".parse().expect("a path")],
            live: HashMap::new(),
        }
    }

    fn excuses(values: &mut GeneratedValues, member: &str, recorded: &str, came: &str) -> bool {
        values.excuses("m", &["result".into(), member.into()], &json!(recorded).into(), &json!(came).into())
    }

    #[test]
    fn a_cursor_is_given_back_as_a_cursor_only() {
        let mut values = values(&[]);
        assert!(excuses(&mut values, "nextCursor", "2", "b"));
        let put = values.put(r#"{"cursor":"2","n":"2","m":2}"#);
        assert_eq!(put.as_deref(), Some(r#"{"cursor":"b","n":"2","m":2}"#));
        assert!(!values.excuses("m", &["nextCursor".into()], &json!("2").into(), &json!(null).into()));
    }

    #[test]
    fn what_looks_made_up_and_is_given_back_is_mapped_everywhere() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let mut values = values(&[id, "file:///notes/2026/11/16.txt"]);
        assert!(excuses(&mut values, "order", id, "7c9e6679"));
        assert!(excuses(&mut values, "text", id, "7c9e6679"), "the same again");
        let put = values.put(&format!(r#"{{"arguments":{{"order":"{id}"}}}}"#));
        assert_eq!(put.as_deref(), Some(r#"{"arguments":{"order":"7c9e6679"}}"#));
        assert!(!excuses(&mut values, "order", "1f8fad5b-d9cb-469f-a165-70867728950e", "x"), "not given back");
        assert!(!excuses(&mut values, "name", id, "another"), "a name");
        assert!(!excuses(&mut values, "at", "file:///notes/2026/11/16.txt", "file:///x"), "an address");
    }

    #[test]
    fn what_the_user_names_is_mapped() {
        let mut values = values(&[]);
        assert!(excuses(&mut values, "ticket", "a", "b"));
        assert!(!excuses(&mut values, "other", "c", "b"));
        assert_eq!(values.put(r#"["a"]"#).as_deref(), Some(r#"["b"]"#));
        assert_eq!(values.put(r#"["z"]"#), None);
    }

    #[test]
    fn numbers_that_the_user_names_are_mapped_as_they_are_written() {
        let mut values = values(&[]);
        let below = |name: &str| ["result", "ticket", name].map(str::to_owned);
        let value = |text: &str| Value::parse(text.as_bytes()).expect(text);
        for (name, recorded, came) in
            [("id", "41", "18446744073709551617"), ("at", "1.50", "2.750"), ("key", "7", "\"seven\"")]
        {
            assert!(values.excuses("m", &below(name), &value(recorded), &value(came)), "{name}");
        }
        let put = values.put(r#"{"a":[41.0,1.5,7,8]}"#);
        assert_eq!(put.as_deref(), Some(r#"{"a":[18446744073709551617,2.750,"seven",8]}"#));
        let own = r#"{"params":{"requestId":41,"_meta":{"progressToken":7}}}"#;
        assert_eq!(values.put(own), None, "what the client has chosen itself");
        assert!(!values.excuses("m", &below("on"), &value("true"), &value("false")));
        assert!(!values.excuses("m", &below("id"), &value("41"), &value("null")));
    }

    #[test]
    fn anything_stands_for_what_was_replaced() {
        let mut values = values(&[]);
        assert!(excuses(&mut values, "a", "<redacted-1>", "secret"));
        assert_eq!(values.put(r#"["<redacted-1>"]"#).as_deref(), Some(r#"["secret"]"#));
        assert!(excuses(&mut values, "a", "Bearer <redacted-2>!", "Bearer x!"));
        assert!(!excuses(&mut values, "a", "Bearer <redacted-2>!", "Basic x!"));
        assert!(!excuses(&mut values, "a", "Bearer <redacted-2>!", "Bearer x!?"));
        assert!(excuses(&mut values, "a", "Bearer <redacted-2>", "Bearer x y"));
    }
}
