//! An id as a user types it, and the id of a message -> whether they are the same.

use std::fmt;

use barewire_proto::rpc::Id;

/// An id as typed by a user: `1` matches the number and the string, `"1"` only the string.
#[derive(Debug, Clone)]
pub struct IdPattern {
    text: String,
    number: Option<Id<'static>>,
    string: Id<'static>,
}

impl IdPattern {
    /// Creates a pattern. Every text is one.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let typed = Id::parse(text.as_bytes()).filter(|_| text.trim() == text);
        match typed.map(Id::into_owned) {
            // An id typed with quotes matches only the string.
            Some(string) if text.starts_with('"') => Self { text, number: None, string },
            number => Self { number, string: Id::from(text.as_str()), text },
        }
    }

    /// Returns the pattern as typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether an id matches.
    pub fn matches(&self, id: &Id<'_>) -> bool {
        *id == self.string || self.number.as_ref() == Some(id)
    }
}

/// Patterns are equal if they match the same ids.
impl PartialEq for IdPattern {
    fn eq(&self, other: &Self) -> bool {
        (&self.number, &self.string) == (&other.number, &other.string)
    }
}

/// Writes the id without white space: a string with quotes, unless it matches the number too.
impl fmt::Display for IdPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_word = !self.text.is_empty() && !self.text.starts_with('"') && !self.text.contains(char::is_whitespace);
        f.write_str(if is_word { &self.text } else { self.string.as_str() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_without_quotes_matches_number_and_string() {
        let cases = [
            ("1", "1", true),
            ("1", "1.0", true),
            ("1", "\"1\"", true),
            ("\"1\"", "1", false),
            ("\"1\"", "\"1\"", true),
            ("a b", "\"a b\"", true),
            ("\"", r#""\"""#, true),
            ("", "\"\"", true),
        ];
        for (pattern, id, is) in cases {
            let id = Id::parse(id.as_bytes()).expect(id);
            assert_eq!(IdPattern::new(pattern).matches(&id), is, "{pattern} {id}");
        }
    }
}
