//! Finds the secrets in a text: by the name before them, by their own shape, or because their value is known.
//!
//! A `Detector` holds the search terms. A `LineScanner` searches a line, whole or in pieces, with a detector, and calls
//! a `SecretVisitor` with the plain and the secret parts. The [`Redactor`] uses such a visitor, and so does the check
//! that reports secrets on the wire, so both find secrets by the same rules.
//!
//! The modules in the order of use: `decode` turns the bytes into plain text without escapes. `hits` finds places in it
//! that may be the start or the name of a secret. `named`, `pairs`, `siblings`, `leaves`, `kubernetes` and `parameters`
//! decide by name, with the table in `names`; `tokens` decides by shape, with the table in `formats`. All of them read
//! the text through a `view`. `words` and `shapes` recognize values that are harmless in spite of their name. `ending`
//! finds the end of a secret, and `line` combines these steps and returns to the bytes.

mod decode;
mod ending;
mod formats;
mod hits;
mod kubernetes;
mod leaves;
mod line;
mod named;
mod names;
mod pairs;
mod parameters;
mod redact;
mod shapes;
mod siblings;
mod stream;
mod tokens;
mod view;
mod words;

pub(crate) use hits::Detector;
pub(crate) use line::{Continuation, LineScanner, SecretVisitor};
pub(crate) use names::NameContext;
pub(crate) use redact::REPLACEMENT_PREFIX;
pub use redact::{EXCERPT_LIMIT, Redactor};
pub(crate) use shapes::{PASSWORD_IN_URL, looks_generated};
pub use stream::RedactingWriter;

/// The reason why a text is taken for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretKind {
    /// The name before the text.
    Named(NameContext),
    /// The shape of the text: a description of such secrets, and the public prefix that all of them have.
    Shaped { what: &'static str, begins: &'static str },
    /// The value is known: the caller named it, or an environment variable with the name of a secret has it.
    Known,
}

/// Whether a member with this name or path is a secret, regardless of its value.
pub(crate) fn is_secret_name(name: &str) -> bool {
    names::secret_class(name.rsplit('/').next().unwrap_or(name).as_bytes(), NameContext::Member).is_some()
}

impl SecretKind {
    /// Describes the secret without showing more of it than its public prefix.
    pub(crate) fn description(self) -> String {
        match self {
            Self::Named(NameContext::Member) => "a member named like a secret".to_owned(),
            Self::Named(NameContext::Query) => "a parameter named like a secret".to_owned(),
            Self::Named(_) => "a value named like a secret".to_owned(),
            Self::Shaped { what, begins: "" } => what.to_owned(),
            Self::Shaped { what, begins } => format!("{what}: {begins}…"),
            Self::Known => "a secret of the environment".to_owned(),
        }
    }
}
