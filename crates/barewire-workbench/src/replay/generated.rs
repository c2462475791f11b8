//! Values that the server generates and the client returns -> the live values in place of the recorded ones.

use std::collections::{HashMap, HashSet};

use barewire_proto::json::Json;
use barewire_proto::mcp::Side;

use super::path_pattern::PathPattern;
use super::rewrite::strings;
use super::script::Script;
use super::value::Value;
use crate::secrets::REPLACEMENT_PREFIX as REDACTED;

/// The live values of the server, by the recorded ones. Values are JSON texts; a recorded number has one spelling.
#[derive(Debug)]
pub(super) struct GeneratedValues {
    /// The strings of the capture that the server sent first and the client later.
    returned: HashSet<String>,
    patterns: Vec<PathPattern>,
    /// The key is the member in which the client returns the value, or `None` for any, and the recorded value.
    live: HashMap<(Option<&'static str>, String), String>,
}

/// The server's members with values that are opaque to the client, each with the member that returns the value.
const OPAQUE_MEMBERS: [(&str, &str); 6] = [
    ("nextCursor", "cursor"),
    ("requestState", "requestState"),
    ("taskId", "taskId"),
    ("elicitationId", "elicitationId"),
    ("sessionId", "sessionId"),
    ("progressToken", "progressToken"),
];

/// The members with names as their values. A name is not generated, even if it looks like it.
const NAME_MEMBERS: [&str; 8] =
    ["name", "uri", "uriTemplate", "title", "description", "method", "protocolVersion", "version"];

impl GeneratedValues {
    pub(super) fn new(script: &Script, patterns: Vec<PathPattern>) -> Self {
        // A string that the client sent first is the client's: a server that repeats it has not generated it.
        let (mut of_client, mut of_server, mut returned) = (HashSet::new(), HashSet::new(), HashSet::new());
        for frame in &script.frames {
            strings(&frame.text, &mut |text| match frame.side {
                Side::Server if !of_client.contains(&text) => {
                    of_server.insert(text);
                }
                Side::Client if of_server.contains(&text) => {
                    returned.insert(text);
                }
                Side::Client => {
                    of_client.insert(text);
                }
                Side::Server => {}
            });
        }
        Self { returned, patterns, live: HashMap::new() }
    }

    /// Whether two values differ only because the server generates them. Remembers the live value.
    pub(super) fn accept(&mut self, method: &str, path: &[String], recorded: &Value, received: &Value) -> bool {
        let (Some(recorded_key), Some(_)) = (key(recorded), key(received)) else { return false };
        let texts = recorded.as_str().zip(received.as_str());
        let member = path.last().map_or("", String::as_str);
        if let Some((_, family)) = OPAQUE_MEMBERS.iter().find(|(name, _)| *name == member)
            && (texts.is_some() || member == "progressToken")
        {
            self.live.insert((Some(family), recorded_key), received.to_string());
            return true;
        }
        let (recorded_key, received_text) = ((None, recorded_key), received.to_string());
        if self.live.get(&recorded_key) == Some(&received_text) {
            return true;
        }
        let is_declared = self.patterns.iter().any(|pattern| pattern.covers(method, path));
        let is_likely = |was: &str| {
            is_redacted(was) || (looks_generated(was) && self.returned.contains(was) && !NAME_MEMBERS.contains(&member))
        };
        if is_declared || texts.is_some_and(|(was, _)| is_likely(was)) {
            self.live.insert(recorded_key, received_text);
            return true;
        }
        texts.is_some_and(|(was, is)| was.contains(REDACTED) && fits(was, is))
    }

    /// Returns the live value to send in place of a recorded one, if there is one.
    pub(super) fn replacement(&self, path: &[String], value: Json<'_>) -> Option<String> {
        // The client chose these ids itself.
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
        let family = OPAQUE_MEMBERS.iter().map(|(_, family)| *family).find(|family| *family == member);
        let of_family = family.and_then(|family| self.live.get(&(Some(family), recorded.clone())));
        of_family.or_else(|| self.live.get(&(None, recorded))).cloned()
    }
}

/// Returns the key of a value that can be generated and returned: a string or a number.
fn key(value: &Value) -> Option<String> {
    match value {
        Value::String(_) => Some(value.to_string()),
        Value::Number(number) => number.exact().map(|number| number.to_string()),
        _ => None,
    }
}

/// Whether a text has 16 characters or more, a digit and no space: a person would not choose it as a name.
fn looks_generated(text: &str) -> bool {
    text.len() >= 16
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && !text.contains("://")
}

/// Whether the whole text is a redacted secret.
fn is_redacted(text: &str) -> bool {
    text.strip_prefix(REDACTED)
        .and_then(|rest| rest.strip_suffix('>'))
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text is the recorded one, with anything in the places of redacted secrets.
fn fits(recorded: &str, received: &str) -> bool {
    let mut rest = received;
    for (index, piece) in recorded.split(REDACTED).enumerate() {
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
    use crate::replay::rewrite::rewrite;

    fn values(returned: &[&str]) -> GeneratedValues {
        let returned = returned.iter().map(|text| (*text).to_owned()).collect();
        GeneratedValues { returned, patterns: vec!["m:/result/ticket".parse().expect("a path")], live: HashMap::new() }
    }

    fn rewritten(values: &GeneratedValues, text: &str) -> Option<String> {
        let text = rewrite(text.as_bytes(), &mut |path, value| values.replacement(path, value))?;
        Some(String::from_utf8(text).expect("text"))
    }

    fn accepts(values: &mut GeneratedValues, member: &str, recorded: &str, received: &str) -> bool {
        values.accept("m", &["result".into(), member.into()], &json!(recorded).into(), &json!(received).into())
    }

    #[test]
    fn a_cursor_is_returned_only_as_a_cursor() {
        let mut values = values(&[]);
        assert!(accepts(&mut values, "nextCursor", "2", "b"));
        let text = rewritten(&values, r#"{"cursor":"2","n":"2","m":2}"#);
        assert_eq!(text.as_deref(), Some(r#"{"cursor":"b","n":"2","m":2}"#));
        assert!(!values.accept("m", &["nextCursor".into()], &json!("2").into(), &json!(null).into()));
    }

    #[test]
    fn a_returned_string_that_looks_generated_is_mapped_everywhere() {
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let mut values = values(&[id, "file:///notes/2026/11/16.txt"]);
        assert!(accepts(&mut values, "order", id, "7c9e6679"));
        assert!(accepts(&mut values, "text", id, "7c9e6679"), "the same again");
        let text = rewritten(&values, &format!(r#"{{"arguments":{{"order":"{id}"}}}}"#));
        assert_eq!(text.as_deref(), Some(r#"{"arguments":{"order":"7c9e6679"}}"#));
        assert!(!accepts(&mut values, "order", "1f8fad5b-d9cb-469f-a165-70867728950e", "x"), "not returned");
        assert!(!accepts(&mut values, "name", id, "another"), "a name");
        assert!(!accepts(&mut values, "at", "file:///notes/2026/11/16.txt", "file:///x"), "an address");
    }

    #[test]
    fn declared_places_are_mapped() {
        let mut values = values(&[]);
        assert!(accepts(&mut values, "ticket", "a", "b"));
        assert!(!accepts(&mut values, "other", "c", "b"));
        assert_eq!(rewritten(&values, r#"["a"]"#).as_deref(), Some(r#"["b"]"#));
        assert_eq!(rewritten(&values, r#"["z"]"#), None);
    }

    #[test]
    fn numbers_in_declared_places_keep_their_spelling() {
        let mut values = values(&[]);
        let below = |name: &str| ["result", "ticket", name].map(str::to_owned);
        let value = |text: &str| Value::parse(text.as_bytes()).expect(text);
        for (name, recorded, received) in
            [("id", "41", "18446744073709551617"), ("at", "1.50", "2.750"), ("key", "7", "\"seven\"")]
        {
            assert!(values.accept("m", &below(name), &value(recorded), &value(received)), "{name}");
        }
        let text = rewritten(&values, r#"{"a":[41.0,1.5,7,8]}"#);
        assert_eq!(text.as_deref(), Some(r#"{"a":[18446744073709551617,2.750,"seven",8]}"#));
        let own = r#"{"params":{"requestId":41,"_meta":{"progressToken":7}}}"#;
        assert_eq!(rewritten(&values, own), None, "the client chose these");
        assert!(!values.accept("m", &below("on"), &value("true"), &value("false")));
        assert!(!values.accept("m", &below("id"), &value("41"), &value("null")));
    }

    #[test]
    fn anything_matches_a_redacted_secret() {
        let mut values = values(&[]);
        assert!(accepts(&mut values, "a", "<redacted-1>", "secret"));
        assert_eq!(rewritten(&values, r#"["<redacted-1>"]"#).as_deref(), Some(r#"["secret"]"#));
        assert!(accepts(&mut values, "a", "Bearer <redacted-2>!", "Bearer x!"));
        assert!(!accepts(&mut values, "a", "Bearer <redacted-2>!", "Basic x!"));
        assert!(!accepts(&mut values, "a", "Bearer <redacted-2>!", "Bearer x!?"));
        assert!(accepts(&mut values, "a", "Bearer <redacted-2>", "Bearer x y"));
    }
}
