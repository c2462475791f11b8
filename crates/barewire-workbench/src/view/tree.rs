//! A value in a frame -> its members, found by the offset of the value. No tree of values is built.

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::rpc::MemberName;
use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::meaning::meaning;
use super::query::ViewRequest;
use crate::index::{IndexedCapture, Span};
use crate::rows::member_meaning;
use crate::text::shown;

/// `tree`: the members of the value at an offset.
pub(super) fn children(index: &IndexedCapture, number: u64, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let text = frame_text(index, number)?;
    let at: usize = request.number("at")?.unwrap_or(0);
    let (from, count) = (request.number("from")?.unwrap_or(0), request.number("count")?.unwrap_or(200).min(MAX_NODES));
    let end = value_end(&text, at);
    let value = text.get(at..end).and_then(|value| Json::parse(value).ok());
    let value = value.ok_or_else(|| AnswerError::new(400, format!("no value begins at byte {at}")))?;
    let (nodes, total) = nodes(value, at, from, count, &|_, _| None);
    Answer::json(&json!({"nodes": nodes, "total": total}))
}

/// `text`: a part of the text of a frame.
pub(super) fn text(index: &IndexedCapture, number: u64, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let span = {
        let data = index.data();
        let row = data.frame(number).ok_or_else(|| no_frame(number))?;
        data.entries[row as usize].text
    };
    part(index, span, request)
}

/// `event/*/text`: a part of the text of an event.
pub(super) fn event_text(index: &IndexedCapture, row: u64, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let span = index.data().event(row).ok_or_else(|| no_event(row))?.1.text;
    part(index, span, request)
}

fn part(index: &IndexedCapture, span: Span, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let from: usize = request.number("from")?.unwrap_or(0);
    let count: usize = request.number("count")?.unwrap_or(MAX_TEXT).min(MAX_TEXT);
    let bytes = index.spool().read(span, from, count);
    // A part ends where a character ends, unless it is the last one.
    let is_last = from + bytes.len() >= span.length as usize;
    let end = if is_last { bytes.len() } else { whole_characters(&bytes) };
    let (text, is_lossy) = lossy(&bytes[..end]);
    Answer::json(&json!({
        "text": text, "from": from, "to": from + end, "length": span.length, "lossy": is_lossy,
    }))
}

/// Returns the text of a frame.
pub(super) fn frame_text(index: &IndexedCapture, number: u64) -> Result<Vec<u8>, AnswerError> {
    let span = {
        let data = index.data();
        let row = data.frame(number).ok_or_else(|| no_frame(number))?;
        data.entries[row as usize].text
    };
    Ok(index.spool().whole(span))
}

pub(super) fn no_frame(number: u64) -> AnswerError {
    AnswerError::not_found(format!("there is no frame {number}"))
}

pub(super) fn no_event(row: u64) -> AnswerError {
    AnswerError::not_found(format!("there is no event {row}"))
}

/// Returns the members of a value, at most `count` from `from` on, and their number. `at` is the offset of the value in
/// its frame.
pub(super) fn nodes(
    value: Json<'_>,
    at: usize,
    from: usize,
    count: usize,
    special: &dyn Fn(Text<'_>, Json<'_>) -> Option<String>,
) -> (Vec<Value>, usize) {
    let mut nodes = Vec::new();
    let mut total = 0;
    if value.kind() == Kind::Array {
        for element in value.elements() {
            if total >= from && nodes.len() < count {
                let place = element.as_bytes().as_ptr().addr() - value.as_bytes().as_ptr().addr();
                nodes.push(node(None, Some(total), element, at + place, None));
            }
            total += 1;
        }
        return (nodes, total);
    }
    for member in value.members() {
        if total >= from && nodes.len() < count {
            let name = member.name.to_name();
            let means = special(member.name, member.value).or_else(|| meaning(&name).map(str::to_owned));
            nodes.push(node(Some(&name), None, member.value, at + member.value_at, means));
        }
        total += 1;
    }
    (nodes, total)
}

/// Returns the members of a whole message, each with its meaning.
pub(super) fn message_nodes(kind: &str, text: &[u8]) -> Vec<Value> {
    let before = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let Ok(message) = Json::parse(text) else { return Vec::new() };
    let special = |name: Text<'_>, value: Json<'_>| {
        Some(match MemberName::of(name) {
            Some(known) => member_meaning(kind, known, value),
            None => "not a member of JSON-RPC: ignored".to_owned(),
        })
    };
    if matches!(message.kind(), Kind::Object | Kind::Array) {
        return nodes(message, before, 0, MAX_NODES, &special).0;
    }
    vec![node(None, None, message, before, None)]
}

fn node(key: Option<&str>, index: Option<usize>, value: Json<'_>, at: usize, meaning: Option<String>) -> Value {
    let bytes = value.as_bytes();
    let (kind, is_container) = match value.kind() {
        Kind::Object => ("object", true),
        Kind::Array => ("array", true),
        Kind::String => ("string", false),
        Kind::Number => ("number", false),
        Kind::True | Kind::False => ("boolean", false),
        Kind::Null => ("null", false),
    };
    let counted = is_container && bytes.len() <= MAX_COUNTED;
    let count = counted.then(|| value.members().count() + value.elements().count());
    json!({
        "key": key.map(|key| shown(key.as_bytes(), MAX_KEY)), "index": index, "kind": kind, "at": at, "length": bytes.len(),
        "count": count, "preview": shown(&bytes[..bytes.len().min(4 * MAX_PREVIEW)], MAX_PREVIEW), "meaning": meaning,
        "schema": null, "mark": null,
    })
}

/// Returns the end of the value that begins at an offset. The caller parses the value, so brackets need not fit.
pub(super) fn value_end(text: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut place = at;
    while let Some(byte) = text.get(place) {
        match byte {
            b'"' => place = string_end(text, place),
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return place,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return place,
            _ => {}
        }
        place += 1;
        if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
            return place;
        }
    }
    text.len()
}

/// Returns the place of the quote that ends a string.
pub(super) fn string_end(text: &[u8], at: usize) -> usize {
    let mut place = at + 1;
    while let Some(byte) = text.get(place) {
        match byte {
            b'"' => return place,
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
    text.len()
}

/// Returns text in which bytes outside UTF-8 are written as `\xHH`, and whether there are any.
pub(super) fn lossy(bytes: &[u8]) -> (String, bool) {
    let mut text = String::with_capacity(bytes.len());
    let mut is_lossy = false;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            is_lossy = true;
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    (text, is_lossy)
}

/// Returns the length of the text without an unfinished character at its end.
pub(super) fn whole_characters(bytes: &[u8]) -> usize {
    let is_start = |byte: &u8| byte & 0xc0 != 0x80;
    match bytes.iter().rposition(is_start) {
        Some(at) if bytes.len() - at < 4 && bytes[at] >= 0xc0 && std::str::from_utf8(&bytes[at..]).is_err() => at,
        _ => bytes.len(),
    }
}

/// The maximum number of members in one answer.
pub(super) const MAX_NODES: usize = 500;
/// The maximum length of a part of a text, in bytes.
pub(super) const MAX_TEXT: usize = 256 * 1024;
/// The length up to which the members of a value are counted, in bytes.
const MAX_COUNTED: usize = 1024 * 1024;
const MAX_KEY: usize = 200;
const MAX_PREVIEW: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_brackets_close() {
        for (text, at, value) in [
            (r#"{"a":[1,{"b":"}]\""}],"c":2}"#, 5, r#"[1,{"b":"}]\""}]"#),
            (r#"{"a":12,"b":true}"#, 5, "12"),
            (r#"{"a":12,"b":true}"#, 12, "true"),
            (r#"["x\\","y"]"#, 1, r#""x\\""#),
            (r#"{"a":"#, 5, ""),
        ] {
            assert_eq!(&text[at..value_end(text.as_bytes(), at)], value);
        }
        assert_eq!(value_end(b"[1]", 99), 3);
    }

    #[test]
    fn a_part_of_a_text_ends_with_a_whole_character() {
        assert_eq!(whole_characters("aä".as_bytes()), 3);
        assert_eq!(whole_characters(&"aä".as_bytes()[..2]), 1);
        assert_eq!(whole_characters(b"a\xff"), 1);
        assert_eq!(lossy(b"a\xffb"), ("a\\xffb".to_owned(), true));
    }
}
