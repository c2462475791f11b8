//! The beginning of a message -> the part of it that tells its row from others: the params of a request, the result of
//! a response, the bytes of what is broken.
//!
//! Only the beginning of a long message is read, so values can be cut, and nothing here needs a complete message.

use std::borrow::Cow;

use barewire_proto::json::{Json, Text};

use super::tree::{string_end, value_end};
use crate::frames::FrameKind;
use crate::index::EntryKind;
use crate::text::shown;

/// Returns the preview of a row.
pub(super) fn preview(kind: EntryKind, method: Option<&str>, text: &[u8]) -> String {
    let described = match kind {
        EntryKind::Frame(FrameKind::Request) | EntryKind::Frame(FrameKind::Notification) => {
            outer(text, "params").map(|params| asked(method, params))
        }
        EntryKind::Frame(FrameKind::Result) => outer(text, "result").map(|result| answered(method, result)),
        // The row has the code and the message already.
        EntryKind::Frame(FrameKind::Error) => {
            Some(outer(text, "error").and_then(|error| member(error, "data")).map_or_else(Vec::new, compact))
        }
        EntryKind::Frame(FrameKind::Batch) => Some(batch(text)),
        EntryKind::Frame(FrameKind::Invalid) | EntryKind::Frame(FrameKind::Cut) | EntryKind::Event => None,
    };
    let has_no_params =
        matches!(kind, EntryKind::Frame(FrameKind::Request) | EntryKind::Frame(FrameKind::Notification))
            && described.is_none();
    match described {
        Some(bytes) => shown(&bytes, WIDTH),
        None if has_no_params && text.trim_ascii_start().starts_with(b"{") => String::new(),
        None => shown(text, WIDTH),
    }
}

/// Returns what a request asks for. The row has the name of the tool, prompt or resource already.
fn asked(method: Option<&str>, params: &[u8]) -> Vec<u8> {
    let named = match method {
        Some("tools/call" | "prompts/get") => "name",
        Some("resources/read" | "resources/subscribe" | "resources/unsubscribe") => "uri",
        _ => "",
    };
    let rest: Vec<_> = members(params).filter(|(name, _)| name != "_meta" && name != named).collect();
    match rest.as_slice() {
        [(name, arguments)] if name == "arguments" => compact(arguments),
        rest if params.starts_with(b"{") => object(rest),
        _ => compact(params),
    }
}

/// Returns what a result says: its texts, the names in its list, or its members.
fn answered(method: Option<&str>, result: &[u8]) -> Vec<u8> {
    if !result.starts_with(b"{") {
        return compact(result);
    }
    let is_shown = |name: &str| !matches!(name, "_meta" | "resultType" | "isError");
    let list = match method {
        Some("tools/list") => "tools",
        Some("prompts/list") => "prompts",
        Some("resources/list") => "resources",
        Some("resources/templates/list") => "resourceTemplates",
        _ => "",
    };
    let rest: Vec<_> = members(result).filter(|(name, _)| is_shown(name)).collect();
    let mut words: Vec<Vec<u8>> = Vec::new();
    for (name, value) in &rest {
        match &**name {
            "content" | "contents" if value.starts_with(b"[") => words.extend(elements(value).map(content)),
            // The same as the text in `content`, for programs.
            "structuredContent" if !words.is_empty() => {}
            name if name == list && value.starts_with(b"[") => {
                let named = |item| Some(string(member(item, "name").or_else(|| member(item, "uri"))?).into_owned());
                words.push(elements(value).filter_map(named).collect::<Vec<_>>().join(&b", "[..]));
            }
            _ => words.push(object(&[(name.clone(), value)])),
        }
        if words.iter().map(Vec::len).sum::<usize>() > BYTES {
            break;
        }
    }
    words.join(&b' ')
}

/// Returns an element of the content of a result.
fn content(element: &[u8]) -> Vec<u8> {
    if let Some(text) = member(element, "text") {
        return string(text).into_owned();
    }
    let of = |name| member(element, name).map(string);
    let place = of("uri").or_else(|| of("mimeType")).or_else(|| of("type"));
    let place = place.or_else(|| member(member(element, "resource")?, "uri").map(string));
    [b"[", &*place.unwrap_or_default(), b"]"].concat()
}

/// Returns what the messages of a batch are: the method of each, or that it is a result or an error.
fn batch(text: &[u8]) -> Vec<u8> {
    let word = |message| match outer(message, "method") {
        Some(method) => string(method).into_owned(),
        None if outer(message, "error").is_some() => b"error".to_vec(),
        None => b"result".to_vec(),
    };
    let messages = text.trim_ascii_start();
    elements(messages).take(MAX_ELEMENTS).map(word).collect::<Vec<_>>().join(&b", "[..])
}

/// Returns a member of a message.
fn outer<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    member(text.trim_ascii_start(), name)
}

fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    members(object).find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Returns the members of an object, of which the end can be missing.
fn members(object: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    let mut at = if object.starts_with(b"{") { 1 } else { object.len() };
    std::iter::from_fn(move || {
        at = skip(object, at, b",");
        if object.get(at) != Some(&b'"') {
            return None;
        }
        let end = string_end(object, at) + 1;
        let name = Json::parse(object.get(at..end)?).ok().and_then(Text::from_json)?.to_name();
        let start = skip(object, end, b":");
        // A string that is cut ends after the text.
        at = value_end(object, start).min(object.len());
        Some((name, object.get(start..at)?.trim_ascii_end()))
    })
}

/// Returns the elements of an array, of which the end can be missing.
fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = if array.starts_with(b"[") { 1 } else { array.len() };
    std::iter::from_fn(move || {
        let start = skip(array, at, b",");
        at = value_end(array, start).min(array.len());
        array.get(start..at).map(<[u8]>::trim_ascii_end).filter(|element| !element.is_empty())
    })
}

/// Returns the place of the first byte that is neither white space nor one of these.
fn skip(text: &[u8], at: usize, also: &[u8]) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let is_skipped = |byte: &&u8| byte.is_ascii_whitespace() || also.contains(byte);
    at + rest.iter().take_while(is_skipped).count()
}

/// Returns the text of a string; a cut string as it is.
fn string(value: &[u8]) -> Cow<'_, [u8]> {
    match Json::parse(value).ok().and_then(Text::from_json).and_then(Text::to_str) {
        Some(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
        Some(Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        None => Cow::Borrowed(value.strip_prefix(b"\"").unwrap_or(value)),
    }
}

/// Returns members as one object.
fn object(members: &[(Cow<'_, str>, &[u8])]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in members {
        text.extend_from_slice(if text.is_empty() { b"{" } else { b"," });
        text.extend_from_slice(serde_json::json!(name).to_string().as_bytes());
        text.push(b':');
        text.extend_from_slice(&compact(value));
        if text.len() > BYTES {
            return text;
        }
    }
    if !text.is_empty() {
        text.push(b'}');
    }
    text
}

/// Returns the beginning of a value, without the white space between its members.
fn compact(value: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut at = 0;
    while at < value.len() && text.len() <= BYTES {
        let end = if value[at] == b'"' { (string_end(value, at) + 1).min(value.len()) } else { at + 1 };
        if !value[at].is_ascii_whitespace() {
            text.extend_from_slice(&value[at..end.min(at + BYTES)]);
        }
        at = end;
    }
    text
}

/// The width of a preview, and the number of bytes that are enough for it.
const WIDTH: usize = 200;
const BYTES: usize = 4 * WIDTH;
/// The maximum number of messages of a batch that a preview names.
const MAX_ELEMENTS: usize = 20;
/// The number of bytes at the beginning of a message that a preview is made of. Clients of the modern era describe
/// themselves in `_meta`, which can come before the arguments.
pub(super) const PREVIEWED: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_is_what_differs() {
        let request = EntryKind::Frame(FrameKind::Request);
        for (kind, method, text, expected) in [
            (
                request,
                Some("tools/call"),
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"saw","_meta":{"a":1},"arguments":{"wood": "oak, or \"ash\""}}}"#,
                r#"{"wood":"oak, or \"ash\""}"#,
            ),
            (
                request,
                Some("tools/list"),
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}"#,
                "",
            ),
            (request, Some("tools/list"), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, ""),
            (request, Some("x"), r#"{ "p\u0061rams" : [ 1, "a b" ], "jsonrpc":"2.0"}"#, r#"[1,"a b"]"#),
            (
                EntryKind::Frame(FrameKind::Notification),
                None,
                r#"{"params":{"progress":1,"total":2}}"#,
                r#"{"progress":1,"total":2}"#,
            ),
            (
                EntryKind::Frame(FrameKind::Result),
                Some("tools/call"),
                r#"{"result":{"resultType":"complete","content":[{"type":"text","text":"a \"b\""},{"type":"image","data":"x","mimeType":"image/png"}],"structuredContent":{"a":1}}}"#,
                "a \"b\" [image/png]",
            ),
            (
                EntryKind::Frame(FrameKind::Result),
                Some("tools/list"),
                r#"{"result":{"tools":[{"name":"a","x":[{}]},{"name":"b"}]}}"#,
                "a, b",
            ),
            (EntryKind::Frame(FrameKind::Result), Some("x"), r#"{"result":"text"}"#, r#""text""#),
            (EntryKind::Frame(FrameKind::Result), None, r#"{"result":{}}"#, ""),
            (
                EntryKind::Frame(FrameKind::Error),
                None,
                r#"{"error":{"code":1,"message":"m","data":{"why":"x"}}}"#,
                r#"{"why":"x"}"#,
            ),
            (EntryKind::Frame(FrameKind::Error), None, r#"{"error":{"code":1,"message":"m"}}"#, ""),
            (
                EntryKind::Frame(FrameKind::Batch),
                None,
                r#"[{"method":"ping"},{"result":{}},{"error":{}}]"#,
                "ping, result, error",
            ),
            (
                EntryKind::Frame(FrameKind::Invalid),
                None,
                r#"{"jsonrpc":"2.0","id":1,}"#,
                r#"{"jsonrpc":"2.0","id":1,}"#,
            ),
        ] {
            assert_eq!(preview(kind, method, text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_message_that_is_cut_anywhere_has_a_preview() {
        let text = r#" {"jsonrpc":"2.0","id":1,"params":{"name":"a","arguments":{"b":["c\\\"d",{"e":1}]}},"result":{"content":[{"text":"ü"}]}}"#;
        for end in 0..text.len() {
            for kind in [
                EntryKind::Frame(FrameKind::Request),
                EntryKind::Frame(FrameKind::Result),
                EntryKind::Frame(FrameKind::Error),
                EntryKind::Frame(FrameKind::Batch),
                EntryKind::Frame(FrameKind::Cut),
            ] {
                preview(kind, Some("tools/call"), &text.as_bytes()[..end]);
            }
        }
        let cut = br#"{"id":1,"params":{"name":"a","arguments":{"b":"cdef"#;
        assert_eq!(preview(EntryKind::Frame(FrameKind::Request), Some("tools/call"), cut), r#"{"b":"cdef"#);
        let long = format!("{{\"result\":{{\"content\":[{{\"text\":\"{}", "x".repeat(5000));
        assert_eq!(preview(EntryKind::Frame(FrameKind::Result), None, long.as_bytes()).chars().count(), WIDTH);
    }
}
