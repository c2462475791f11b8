//! A filter and a message or an event -> whether it is shown.
//!
//! The same filter works on messages as they are read and on the records of an index: both provide the few facts of
//! [`FilteredMessage`].

mod glob;
mod id_pattern;
mod line;
mod message;
mod text_pattern;

use std::time::Duration;

use barewire_proto::transcript::Stream;

use crate::frames::FrameKind;

pub use glob::Glob;
pub use id_pattern::IdPattern;
pub use line::FilterError;
pub use message::FilteredMessage;
pub use text_pattern::TextPattern;

/// Selects messages and events. All conditions must hold; in a batch, all must hold for the same element. The default
/// filter selects everything.
///
/// A filter is also one line of text, which `parse` reads and `Display` writes:
/// `errors kind:request,error direction:> method:tools/* id:3 tool:search slower-than:100ms unanswered "two words" word`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Filter {
    /// Only frames of one of these kinds; of every kind if empty. A message in a batch is also a `batch`.
    pub kinds: Vec<FrameKind>,
    /// Only frames in this direction.
    pub direction: Option<Stream>,
    /// Only messages of this method, and their responses.
    pub method: Option<Glob>,
    /// Only messages with this id, and progress and cancels of its request.
    pub id: Option<IdPattern>,
    /// Only calls of this tool: requests, progress, cancels, responses.
    pub tool: Option<Glob>,
    /// Only responses that took at least this long.
    pub slower_than: Option<Duration>,
    /// Only errors, results with `isError`, and invalid frames.
    pub errors: bool,
    /// Only requests that are neither answered nor cancelled.
    pub unanswered: bool,
    /// Only frames that contain all these texts.
    pub texts: Vec<TextPattern>,
}

impl Filter {
    /// Creates a filter that selects everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether any condition is set.
    pub fn is_set(&self) -> bool {
        self.is_about_messages() || self.direction.is_some() || self.errors || !self.texts.is_empty()
    }

    /// Whether a condition is set that can hold only for messages, not for events.
    fn is_about_messages(&self) -> bool {
        !self.kinds.is_empty()
            || self.method.is_some()
            || self.id.is_some()
            || self.tool.is_some()
            || self.slower_than.is_some()
            || self.unanswered
    }

    /// Whether a message matches. The text is asked for last, and only if a text is searched for.
    pub fn matches(&self, message: &(impl FilteredMessage + ?Sized)) -> bool {
        let is_kind =
            |kind: &FrameKind| *kind == message.kind() || (*kind == FrameKind::Batch && message.is_in_batch());
        (self.kinds.is_empty() || self.kinds.iter().any(is_kind))
            && self.direction.is_none_or(|direction| message.stream() == Some(direction))
            && self.method.as_ref().is_none_or(|glob| message.method().is_some_and(|method| glob.matches(&method)))
            && self.id.as_ref().is_none_or(|id| message.has_id(id))
            && self.tool.as_ref().is_none_or(|glob| message.tool().is_some_and(|tool| glob.matches(&tool)))
            && self.slower_than.is_none_or(|least| message.latency() >= Some(least))
            && (!self.errors || message.is_failure())
            && (!self.unanswered || message.is_unanswered())
            && (self.texts.is_empty() || self.has_texts(&message.text()))
    }

    /// Whether an event, which is not a message, matches. `stream` is the direction of the event, if it has one.
    pub fn matches_event(&self, stream: Option<Stream>, text: &[u8], is_failure: bool) -> bool {
        !self.is_about_messages()
            && self.direction.is_none_or(|direction| stream == Some(direction))
            && (!self.errors || is_failure)
            && self.has_texts(text)
    }

    fn has_texts(&self, text: &[u8]) -> bool {
        self.texts.iter().all(|wanted| wanted.is_in(text))
    }
}
