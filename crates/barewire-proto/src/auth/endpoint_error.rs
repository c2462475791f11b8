//! The error response of a token, registration or device authorization endpoint -> its code and a text for people.

use std::fmt;

use super::document::{MAX_ENDPOINT_RESPONSE_BYTES, MetadataDocument};
use super::secret::SecretText;
use crate::safe_text::SafeText;

/// The maximum number of characters of a peer's text that an error shows.
const MAX_SHOWN: usize = 300;

/// An error that an authorization server sent: RFC 6749, section 5.2.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointError {
    /// The HTTP status; `None` for an error that arrived in a callback.
    pub status: Option<u16>,
    /// The error code, if the response has one: `invalid_grant`.
    pub code: Option<String>,
    /// The description for people, escaped and shortened.
    pub description: Option<SafeText>,
}

impl EndpointError {
    /// Reads the response of an endpoint whose status is not a success.
    pub fn read(status: u16, body: &[u8]) -> Self {
        Self::read_without(status, body, &[])
    }

    /// Reads the response to a post that had these secrets, which the server may have repeated in its texts.
    pub(super) fn read_without(status: u16, body: &[u8], secrets: &[SecretText]) -> Self {
        let document = MetadataDocument::read(body, MAX_ENDPOINT_RESPONSE_BYTES);
        let text = |name| document.and_then(|document| document.text(name).ok().flatten());
        // Before the text is shortened: a part of a secret would not be found.
        let hidden = |text: String| secrets.iter().fold(text, |text, secret| secret.hide_in(&text));
        Self::new(Some(status), text("error").map(hidden), text("error_description").map(hidden))
    }

    /// Creates an error from a code and a description that a peer sent.
    pub(super) fn new(status: Option<u16>, code: Option<String>, description: Option<String>) -> Self {
        let code = code.filter(|code| !code.is_empty());
        Self { status, code, description: description.filter(|text| !text.is_empty()).map(|text| shortened(&text)) }
    }

    /// Whether the error has this code.
    pub fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }

    /// Whether the server is overloaded or broken, so that the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, Some(408 | 429 | 500..)) || self.is("temporarily_unavailable") || self.is("server_error")
    }
}

/// Returns the first part of a peer's text, safe to show.
pub(super) fn shortened(text: &str) -> SafeText {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => SafeText::new(format_args!("{}…", &text[..end])),
        None => SafeText::new(text),
    }
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, self.status) {
            (Some(code), _) => write!(f, "{}", shortened(code))?,
            (None, Some(status)) => write!(f, "HTTP status {status}")?,
            (None, None) => f.write_str("an error without a code")?,
        }
        match &self.description {
            Some(description) => write!(f, ": {description}"),
            None => Ok(()),
        }
    }
}
