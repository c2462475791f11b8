//! A string -> the personal identifier in it.

use memchr::{memchr, memmem};

/// Whether a message may contain a personal identifier. Any message with escapes may contain one.
pub(super) fn may_be_in(text: &[u8]) -> bool {
    memchr(b'@', text).is_some()
        || [&b"/home/"[..], b"Users", b"\\u", b"\\/"].iter().any(|part| memmem::find(text, part).is_some())
}

/// Returns the kind of the first personal identifier in a text, without its value.
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
        // The address is reserved for examples, or does not belong to a person.
        let is_impersonal = name == "example"
            || name.ends_with(".example")
            || matches!(top, "example" | "test" | "invalid" | "local")
            || text[start..at].to_lowercase().contains("noreply");
        if start < at && is_top && !name.is_empty() && !is_impersonal && !text[..start].ends_with("://") {
            return Some("an e-mail address".to_owned());
        }
    }
    None
}

fn home(text: &str) -> Option<String> {
    for root in ["/home/", "/Users/", "C:\\Users\\"] {
        let Some(start) = text.find(root) else { continue };
        let rest = &text[start + root.len()..];
        let user: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')).collect();
        let goes_on = rest[user.len()..].starts_with(['/', '\\']);
        let begins = start == 0 || !text.as_bytes()[start - 1].is_ascii_alphanumeric();
        let is_impersonal =
            matches!(user.to_lowercase().as_str(), "" | "user" | "username" | "you" | "me" | "shared" | "public");
        if begins && goes_on && !is_impersonal {
            return Some(format!("the path of a home directory: {root}…"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_texts_are_not_identifiers() {
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
    fn addresses_and_home_directories_are_identifiers() {
        assert_eq!(in_text("write to ada.l@math.org today").as_deref(), Some("an e-mail address"));
        for (text, root) in [("cannot open /home/ada/notes.txt", "/home/"), ("file:///Users/ada/x", "/Users/")] {
            assert_eq!(in_text(text), Some(format!("the path of a home directory: {root}…")));
        }
    }
}
