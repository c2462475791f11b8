//! Text -> the secrets in it: by the name before them, by their own shape, or because they are known.
//!
//! A `Detector` knows what to look for. A `Line` takes a line through it, whole or in pieces, and tells a `Reader` what of it
//! is plain and what is secret. The [`Redactor`] is one, and so is the check that tells of secrets on the wire: so what is replaced
//! and what is told of is found by the same rules.
//!
//! In the order of the data: `hits` finds places that may be the beginning or the name of a secret. What is there is said by
//! `named` and `parameters` with the table in `names`, and by `tokens` with that in `shapes`; all look through a `view` of
//! the text. What is no secret in spite of its name `words` says. `ending` finds where a secret ends, and `line` puts that
//! together.

mod ending;
mod hits;
mod line;
mod named;
mod names;
mod parameters;
mod redact;
mod shapes;
mod stream;
mod tokens;
mod view;
mod words;

pub(crate) use hits::Detector;
pub(crate) use line::{Continuation, LineScanner, SecretVisitor};
pub(crate) use names::NameContext;
pub(crate) use redact::REPLACEMENT_PREFIX;
pub use redact::{EXCERPT_LIMIT, Redactor};
pub(crate) use shapes::looks_generated;
pub use stream::RedactingWriter;

/// What a secret was found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretKind {
    /// The name before it.
    Named(NameContext),
    /// Its form: what such a thing is called, and what all of them begin with.
    Shaped { what: &'static str, begins: &'static str },
    /// It is in our environment, under a name that says so.
    Known,
}

/// Whether a member of this name, or at this path, is a secret whatever its value.
pub(crate) fn is_secret_name(name: &str) -> bool {
    names::secret(name.rsplit('/').next().unwrap_or(name).as_bytes(), NameContext::Member).is_some()
}

impl SecretKind {
    /// What it is, and nothing of it but what everybody knows.
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
