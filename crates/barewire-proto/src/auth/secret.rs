//! Text that is sent to one server and never shown: tokens, codes, verifiers, client secrets.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Text that must not be shown. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(Box<str>);

impl SecretText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into_boxed_str())
    }

    /// Returns the text. Do not show it to users and do not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a text of a peer with `***` in place of this secret: a server may repeat in an error what it was sent. A
    /// text of less than 4 bytes is no secret, and would be found in ordinary words.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.len() < MIN_HIDDEN_BYTES {
            return text.to_owned();
        }
        // Some servers write JSON with escaped slashes, which Base64 contains.
        let (plain, escaped) = (&*self.0, self.0.replace('/', "\\/"));
        text.replace(plain, HIDDEN).replace(&escaped, HIDDEN)
    }

    /// Whether both texts are equal. The time does not depend on where they differ, so that a peer who can try many
    /// values learns nothing from it.
    pub fn is_same(&self, other: &str) -> bool {
        let differences = self.0.bytes().zip(other.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
        self.0.len() == other.len() && differences == 0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// The text that is shown in place of a secret.
const HIDDEN: &str = "***";

/// The minimum length of a secret that is looked for in the text of a peer.
const MIN_HIDDEN_BYTES: usize = 4;

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_compared_but_not_shown() {
        let secret = SecretText::new("s3cret");
        assert_eq!(secret.hide_in("bad: s3cret, s3cret"), "bad: ***, ***");
        assert_eq!(SecretText::new("abc/d+e").hide_in("{\"a\": \"abc\\/d+e\"}"), "{\"a\": \"***\"}");
        assert_eq!(SecretText::new("a").hide_in("a word"), "a word");
        assert_eq!(format!("{secret:?}"), "***");
        assert!(secret.is_same("s3cret"));
        for other in ["", "s3cre", "s3cret2", "S3cret"] {
            assert!(!secret.is_same(other), "{other}");
        }
    }
}
