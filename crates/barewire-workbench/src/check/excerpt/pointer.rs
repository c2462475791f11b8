//! A JSON Pointer -> the range of the value in the text of a message.

use std::ops::Range;

use barewire_proto::json::{Json, Kind};

/// Returns the range of the value at a JSON Pointer; of the last value on the way that exists, if it does not. `None` if
/// the text is not JSON.
pub(super) fn range(text: &[u8], pointer: &str) -> Option<Range<usize>> {
    let mut value = Json::parse(text).ok()?;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match value.kind() {
            Kind::Object => value.member(&step),
            Kind::Array => step.parse().ok().and_then(|index| value.elements().nth(index)),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    let start = offset(text, value.as_bytes());
    let is_long = matches!(value.kind(), Kind::Object | Kind::Array) && value.as_bytes().len() > LONG_CONTAINER;
    Some(start..start + if is_long { 1 } else { value.as_bytes().len() })
}

/// Returns the offset of a part in the text that it is borrowed from.
pub(super) fn offset(text: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// The length in bytes from which only the opening bracket of an object or array is marked.
const LONG_CONTAINER: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_finds_members_and_elements() {
        let text = br#" {"a":[{"b/c":"x"},7], "d":{}}"#;
        let at = |pointer: &str| range(text, pointer).map(|it| String::from_utf8_lossy(&text[it]).into_owned());
        assert_eq!(at("/a/0/b~1c").as_deref(), Some("\"x\""));
        assert_eq!(at("/a/1").as_deref(), Some("7"));
        assert_eq!(at("/d/missing").as_deref(), Some("{}"), "the value that exists");
        assert_eq!(at("/a/9").as_deref(), Some("[{\"b/c\":\"x\"},7]"));
        assert_eq!(range(b"{", "/a"), None);
    }
}
