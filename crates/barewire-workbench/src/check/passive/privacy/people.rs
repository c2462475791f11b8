//! A string -> what in it says who somebody is.

use memchr::{memchr, memmem};

/// Whether something of the kind may be in a message. Whatever is escaped may be.
pub(super) fn may_be_in(text: &[u8]) -> bool {
    memchr(b'@', text).is_some()
        || [&b"/home/"[..], b"Users", b"\\u", b"\\/"].iter().any(|part| memmem::find(text, part).is_some())
}

/// The first of it in a text: what it is, without saying who.
pub(super) fn in_text(text: &str) -> Option<String> {
    email(text).or_else(|| home(text))
}

fn email(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let local = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'+' | b'-');
    let host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    for (at, _) in text.match_indices('@') {
        let start = at - bytes[..at].iter().rev().take_while(|b| local(**b)).count();
        let end = at + 1 + bytes[at + 1..].iter().take_while(|b| host(**b)).count();
        let domain = text[at + 1..end].trim_end_matches('.').to_lowercase();
        let Some((name, top)) = domain.rsplit_once('.') else { continue };
        let is_top = top.len() >= 2 && top.bytes().all(|b| b.is_ascii_alphabetic());
        // Kept for examples, and what is nobody's.
        let is_nobodys = name == "example"
            || name.ends_with(".example")
            || matches!(top, "example" | "test" | "invalid" | "local")
            || text[start..at].to_lowercase().contains("noreply");
        if start < at && is_top && !name.is_empty() && !is_nobodys && !text[..start].ends_with("://") {
            return Some("an e-mail address".to_owned());
        }
    }
    None
}

fn home(text: &str) -> Option<String> {
    for root in ["/home/", "/Users/", "C:\\Users\\"] {
        let Some(start) = text.find(root) else { continue };
        let behind = &text[start + root.len()..];
        let user: String = behind.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')).collect();
        let goes_on = behind[user.len()..].starts_with(['/', '\\']);
        let begins = start == 0 || !text.as_bytes()[start - 1].is_ascii_alphanumeric();
        let is_nobodys =
            matches!(user.to_lowercase().as_str(), "" | "user" | "username" | "you" | "me" | "shared" | "public");
        if begins && goes_on && !is_nobodys {
            return Some(format!("the path of a home folder: {root}…"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_alike_is_none() {
        for text in [
            "https://example.com/a:b@c",
            "mailto: somebody@example.com",
            "see @modelcontextprotocol/server-everything",
            "noreply@anthropic.com",
            "/home/user/project",
            "a/Users/b",
        ] {
            assert_eq!(in_text(text), None, "{text}");
        }
    }

    #[test]
    fn people_are_known_by_their_addresses_and_folders() {
        assert_eq!(in_text("write to ada.l@math.org today").as_deref(), Some("an e-mail address"));
        for (text, root) in [("cannot open /home/ada/notes.txt", "/home/"), ("file:///Users/ada/x", "/Users/")] {
            assert_eq!(in_text(text), Some(format!("the path of a home folder: {root}…")));
        }
    }
}
