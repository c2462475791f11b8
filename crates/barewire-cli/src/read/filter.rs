//! Filter options and a message -> whether the message is shown.

use std::time::Duration;

use barewire_proto::json::Text;
use barewire_proto::rpc::{Id, Message};
use barewire_proto::transcript::Stream;

use crate::Failure;
use barewire_workbench::duration;
use barewire_workbench::frames::FrameFacts;
use barewire_workbench::operations::{Relation, ResponseOutcome, TrackedMessage};

/// The filter options. All of them must match; in a batch, all must match the same element.
#[derive(clap::Args)]
#[group(id = "filters", multiple = true, conflicts_with_all = ["summary", "frame"])]
pub(crate) struct Filter {
    /// Only frames of this kind: request, notification, result, error, batch, invalid
    #[arg(long, value_parser = KINDS, value_name = "KIND", value_delimiter = ',', hide_possible_values = true)]
    #[arg(help_heading = HEADING)]
    kind: Vec<String>,
    /// Only frames in this direction: to-server (>) or to-client (<)
    #[arg(long, value_enum, value_name = "DIRECTION", hide_possible_values = true, help_heading = HEADING)]
    direction: Option<Direction>,
    /// Only messages of this method, and their responses; * matches any text, ? one character
    #[arg(long, value_name = "GLOB", value_parser = Glob::parse, help_heading = HEADING)]
    method: Option<Glob>,
    /// Only messages with this id, and progress and cancels of its request; 1 also matches "1"
    #[arg(long, value_name = "ID", value_parser = IdFilter::parse, help_heading = HEADING)]
    id: Option<IdFilter>,
    /// Only calls of this tool: requests, progress, responses; * and ? as in --method
    #[arg(long, value_name = "NAME", value_parser = Glob::parse, help_heading = HEADING)]
    tool: Option<Glob>,
    /// Only responses that took at least this long: 100ms, 1.5s, 250us
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = HEADING)]
    slower_than: Option<Duration>,
    /// Only errors, results with isError, and invalid frames
    #[arg(long, help_heading = HEADING)]
    errors: bool,
    /// Only requests that are neither answered nor cancelled; shown at the end of the input
    #[arg(long, help_heading = HEADING, conflicts_with = "follow")]
    pub(super) unanswered: bool,
    /// Only frames that contain this text; case does not matter
    #[arg(long, value_name = "TEXT", value_parser = TextFilter::parse, help_heading = HEADING)]
    text: Option<TextFilter>,
}

const HEADING: &str = "Filters, all of which must match";

const KINDS: [&str; 6] = ["request", "notification", "result", "error", "batch", "invalid"];

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Direction {
    #[value(alias = ">")]
    ToServer,
    #[value(alias = "<")]
    ToClient,
}

impl Direction {
    fn is(self, stream: Stream) -> bool {
        stream == if self == Self::ToServer { Stream::ToServer } else { Stream::ToClient }
    }
}

impl Filter {
    pub(super) fn is_set(&self) -> bool {
        self.is_about_messages() || self.direction.is_some() || self.errors || self.text.is_some()
    }

    /// Whether a filter is set that can match only messages, not events.
    fn is_about_messages(&self) -> bool {
        !self.kind.is_empty()
            || self.method.is_some()
            || self.id.is_some()
            || self.tool.is_some()
            || self.slower_than.is_some()
            || self.unanswered
    }

    /// Fails if a filter needs directions or times: a plain stream has neither.
    pub(super) fn refuse_plain_stream(&self) -> Result<(), Failure> {
        let option = match (self.direction, self.slower_than) {
            (Some(_), _) => "--direction",
            (None, Some(_)) => "--slower-than",
            (None, None) => return Ok(()),
        };
        Err(Failure::new(format!("{option} needs a transcript: this input has neither directions nor times"))
            .with_hint("barewire tap --record writes a transcript; docs/wire-format.md describes the format"))
    }

    /// Whether a message matches. Every request matches `--unanswered`, because its response may still follow.
    pub(super) fn wants(&self, tracked: &TrackedMessage<'_>) -> bool {
        let text = tracked.text.unwrap_or_default();
        let facts = FrameFacts::element(tracked.message, text);
        let in_batch = tracked.element.is_some();
        let is_request = matches!(tracked.relation, Relation::Request { operation, .. } if !operation.is_listen());
        let latency = if let Relation::Response { latency, .. } = tracked.relation { latency } else { None };
        let is_kind = |kind: &String| kind == facts.kind || (in_batch && kind == "batch");
        (self.kind.is_empty() || self.kind.iter().any(is_kind))
            && self.direction.is_none_or(|it| tracked.frame.place.is_some_and(|place| it.is(place.stream)))
            && self.method.as_ref().is_none_or(|glob| has_method(glob, tracked))
            && self.id.as_ref().is_none_or(|id| id.is_of(tracked))
            && self.tool.as_ref().is_none_or(|tool| is_call(tool, tracked))
            && self.slower_than.is_none_or(|least| latency >= Some(least))
            && (!self.errors || is_error(tracked))
            && (!self.unanswered || is_request)
            && self.text.as_ref().is_none_or(|wanted| wanted.is_in(text))
    }

    /// Whether an event, which is not a message, matches.
    pub(super) fn wants_event(&self, stream: Option<Stream>, text: &[u8], is_bad: bool) -> bool {
        !self.is_about_messages()
            && self.direction.is_none_or(|it| stream.is_some_and(|stream| it.is(stream)))
            && (!self.errors || is_bad)
            && self.text.as_ref().is_none_or(|wanted| wanted.is_in(text))
    }
}

/// Whether the method of a message, or that of the request it answers, matches.
fn has_method(glob: &Glob, tracked: &TrackedMessage<'_>) -> bool {
    let own = match tracked.message {
        Ok(Message::Request(request)) => Some(request.method),
        Ok(Message::Notification(notification)) => Some(notification.method),
        Ok(Message::Response(_) | Message::OrphanError(_)) => None,
        Err(invalid) => invalid.method,
    };
    match (own, tracked.relation) {
        (Some(method), _) => glob.matches(&Text::to_name(method)),
        (None, Relation::Response { operation, .. }) => glob.matches(&operation.method),
        (None, _) => false,
    }
}

fn is_call(tool: &Glob, tracked: &TrackedMessage<'_>) -> bool {
    let (Relation::Request { operation, .. }
    | Relation::Response { operation, .. }
    | Relation::Progress { operation }
    | Relation::Cancellation { operation }) = tracked.relation
    else {
        return false;
    };
    operation.method == "tools/call" && operation.name.as_deref().is_some_and(|name| tool.matches(name))
}

fn is_error(tracked: &TrackedMessage<'_>) -> bool {
    match tracked.message {
        Err(_) | Ok(Message::OrphanError(_)) => true,
        Ok(Message::Response(response)) => ResponseOutcome::of(response).is_failure(),
        Ok(Message::Request(_) | Message::Notification(_)) => false,
    }
}

/// A text to search for, ignoring case.
#[derive(Clone)]
struct TextFilter(String);

impl TextFilter {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(folded(text)))
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let wanted = self.0.as_bytes();
        if wanted.is_empty() {
            return true;
        }
        // Most frames are ASCII and can be compared without a copy.
        if text.is_ascii() {
            return text.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
        }
        folded(&String::from_utf8_lossy(text)).contains(&self.0)
    }
}

/// Folds case for comparison. It converts to upper case first, because some letters have two lower case forms.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// An id as typed by the user: `1` matches the number and the string.
#[derive(Clone)]
struct IdFilter {
    typed: Option<Id<'static>>,
    string: Option<Id<'static>>,
}

impl IdFilter {
    fn parse(text: &str) -> Result<Self, String> {
        let typed = Id::parse(text.as_bytes()).map(Id::into_owned);
        // An id typed with quotes matches only the string.
        let quoted = serde_json::to_string(text).map_err(|error| error.to_string())?;
        let is_quoted = text.starts_with('"') && typed.is_some();
        let string = if is_quoted { None } else { Id::parse(quoted.as_bytes()).map(Id::into_owned) };
        Ok(Self { typed, string })
    }

    fn is(&self, id: &Id<'_>) -> bool {
        [&self.typed, &self.string].into_iter().flatten().any(|wanted| wanted == id)
    }

    fn is_of(&self, tracked: &TrackedMessage<'_>) -> bool {
        let own = match tracked.message {
            Ok(Message::Request(request)) => Some(&request.id),
            Ok(Message::Response(response)) => Some(&response.id),
            Ok(Message::Notification(_) | Message::OrphanError(_)) => None,
            Err(invalid) => invalid.id.as_ref(),
        };
        match (own, tracked.relation) {
            (Some(id), _) => self.is(id),
            (None, Relation::Progress { operation } | Relation::Cancellation { operation }) => {
                operation.rounds.iter().any(|round| self.is(&round.id))
            }
            (None, _) => false,
        }
    }
}

/// A pattern in which `*` matches any number of characters and `?` exactly one.
#[derive(Clone)]
struct Glob(Vec<char>);

impl Glob {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self(text.chars().collect()))
    }

    fn matches(&self, name: &str) -> bool {
        let (glob, name): (&[char], Vec<char>) = (&self.0, name.chars().collect());
        let (mut at, mut from) = (0, 0);
        // The position of the last star in the pattern, and the end of the text that it matches so far.
        let mut star: Option<(usize, usize)> = None;
        while from < name.len() {
            match (glob.get(at), star) {
                (Some('*'), _) => {
                    star = Some((at, from));
                    at += 1;
                }
                (Some(c), _) if *c == '?' || *c == name[from] => (at, from) = (at + 1, from + 1),
                (_, Some((place, end))) => {
                    star = Some((place, end + 1));
                    (at, from) = (place + 1, end + 1);
                }
                (_, None) => return false,
            }
        }
        glob[at..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::{Glob, TextFilter};

    #[test]
    fn globs() {
        let cases = [
            ("tools/call", "tools/call", true),
            ("tools/call", "tools/calls", false),
            ("tools/*", "tools/list", true),
            ("tools/*", "tools/", true),
            ("*", "", true),
            ("?", "", false),
            ("*list*d", "notifications/list_changed", true),
            ("*a?c", "aabbabc", true),
            ("*a?c", "aabbabd", false),
            ("n*/*/x", "n/x", false),
        ];
        for (glob, name, is) in cases {
            assert_eq!(Glob::parse(glob).unwrap().matches(name), is, "{glob} {name}");
        }
        // A pattern with many stars takes at most pattern length times text length steps.
        let stars = Glob::parse(&"*a".repeat(200)).unwrap();
        assert!(!stars.matches(&"a".repeat(199)));
    }

    #[test]
    fn case_does_not_matter_in_text() {
        let cases = [
            ("hELLO", "Hello", true),
            ("", "x", true),
            ("xy", "x", false),
            ("ärger", "viel ÄRGER", true),
            ("ÄRGER", "viel ärger", true),
            ("ärger", "viel Arger", false),
            ("hello", "ä HELLO", true),
            ("ΟΔΟΣ", "οδος", true),
        ];
        for (wanted, text, is) in cases {
            assert_eq!(TextFilter::parse(wanted).unwrap().is_in(text.as_bytes()), is, "{text}");
        }
        assert!(TextFilter::parse("ärger").unwrap().is_in(b"\xff \xc3\x84RGER"));
    }
}
