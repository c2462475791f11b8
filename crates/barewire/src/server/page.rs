//! The cursors of paginated lists. A cursor is the number of a page's last entry, as text that is opaque to clients.

use barewire_proto::json::{Json, Text};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::Failure;

/// Returns the cursor of the page that starts after the entry number `after` of the list named `list`.
pub(super) fn write_cursor(list: &str, after: u64) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{list} {after}"))
}

/// Parses a cursor of the list named `list`. Returns the number of the entry after which the page starts, or 0 if there
/// is no cursor.
pub(super) fn parse_cursor(list: &str, cursor: Option<Json<'_>>) -> Result<u64, Failure> {
    let Some(cursor) = cursor else { return Ok(0) };
    let text = Text::from_json(cursor).and_then(Text::to_str);
    let read = text.and_then(|text| {
        let plain = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(&*text).ok()?).ok()?;
        // `u64::MAX` would overflow, because the page starts at `after + 1`.
        plain.strip_prefix(list)?.strip_prefix(' ')?.parse().ok().filter(|after| *after < u64::MAX)
    });
    read.ok_or_else(|| Failure::invalid_params(format!("this is no cursor of {list}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_list() {
        let text = serde_json::to_string(&write_cursor("tools", 7)).expect("JSON");
        let json = Json::parse(text.as_bytes()).expect("JSON");
        assert_eq!(parse_cursor("tools", Some(json)).ok(), Some(7));
        assert_eq!(parse_cursor("tools", None).ok(), Some(0));
        for bad in [r#""""#, "7", "null", r#""dG9vbHM""#, r#""!""#] {
            let json = Json::parse(bad.as_bytes()).expect("JSON");
            assert!(parse_cursor("tools", Some(json)).is_err(), "{bad}");
        }
        assert!(parse_cursor("prompts", Some(json)).is_err());
        let last = serde_json::to_string(&write_cursor("tools", u64::MAX)).expect("JSON");
        assert!(parse_cursor("tools", Some(Json::parse(last.as_bytes()).expect("JSON"))).is_err());
    }
}
