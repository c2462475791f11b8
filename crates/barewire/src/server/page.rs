//! Cursors: where a list goes on <-> text that means nothing to a client.

use barewire_proto::json::{Json, Text};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::Failure;

/// Writes where `list` goes on.
pub(super) fn cursor(list: &str, behind: u64) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{list} {behind}"))
}

/// Reads where `list` goes on; from its beginning if there is no cursor.
pub(super) fn behind(list: &str, cursor: Option<Json<'_>>) -> Result<u64, Failure> {
    let Some(cursor) = cursor else { return Ok(0) };
    let text = Text::from_json(cursor).and_then(Text::to_str);
    let read = text.and_then(|text| {
        let plain = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(&*text).ok()?).ok()?;
        // Not one past the last there could ever be: a list goes on behind it.
        plain.strip_prefix(list)?.strip_prefix(' ')?.parse().ok().filter(|behind| *behind < u64::MAX)
    });
    read.ok_or_else(|| Failure::invalid_params(format!("this is no cursor of {list}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_list_only() {
        let text = serde_json::to_string(&cursor("tools", 7)).expect("JSON");
        let json = Json::parse(text.as_bytes()).expect("JSON");
        assert_eq!(behind("tools", Some(json)).ok(), Some(7));
        assert_eq!(behind("tools", None).ok(), Some(0));
        for bad in [r#""""#, "7", "null", r#""dG9vbHM""#, r#""!""#] {
            let json = Json::parse(bad.as_bytes()).expect("JSON");
            assert!(behind("tools", Some(json)).is_err(), "{bad}");
        }
        assert!(behind("prompts", Some(json)).is_err());
        let last = serde_json::to_string(&cursor("tools", u64::MAX)).expect("JSON");
        assert!(behind("tools", Some(Json::parse(last.as_bytes()).expect("JSON"))).is_err());
    }
}
