//! What a user wants to see of a wire -> whether a message is that.

use std::str::FromStr;
use std::time::Duration;

use barewire_proto::json::Text;
use barewire_proto::rpc::{Id, Message};
use barewire_proto::transcript::Stream;

use barewire_workbench::duration;
use barewire_workbench::frames::FrameFacts;
use barewire_workbench::operations::{Operation, Relation, ResponseOutcome, TrackedMessage};

/// All of them must hold. Of a batch, all of them must hold for one element.
#[derive(clap::Args)]
#[group(id = "filters", multiple = true, conflicts_with_all = ["summary", "frame"])]
pub(crate) struct Filter {
    /// Only these: request, notification, result, error, batch, invalid
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', hide_possible_values = true)]
    #[arg(help_heading = HEADING)]
    kind: Vec<Kind>,
    /// Only what goes to-server (>) or to-client (<)
    #[arg(long, value_enum, value_name = "WAY", hide_possible_values = true, help_heading = HEADING)]
    direction: Option<Direction>,
    /// Only this method, and its answers; * and ? stand for any characters, any one
    #[arg(long, value_name = "GLOB", help_heading = HEADING)]
    method: Option<Glob>,
    /// Only what has this id, or is about what was asked under it; 1 is also "1"
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    id: Option<WantedId>,
    /// Only calls of this tool: requests, progress, answers; * and ? as above
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    tool: Option<Glob>,
    /// Only answers that took at least this long: 100ms, 1.5s, 250us
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = HEADING)]
    slower_than: Option<Duration>,
    /// Only errors, results that say isError, and what is no message
    #[arg(long, help_heading = HEADING)]
    errors: bool,
    /// Only requests that are never answered nor cancelled; shown at the end, when that is known
    #[arg(long, help_heading = HEADING, conflicts_with = "follow")]
    unanswered: bool,
    /// Only frames with this in their bytes; case does not matter
    #[arg(long, value_name = "TEXT", help_heading = HEADING)]
    text: Option<WantedText>,
}

const HEADING: &str = "Filters, of which all must hold";

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Kind {
    Request,
    Notification,
    Result,
    Error,
    Batch,
    Invalid,
}

impl Kind {
    fn is(self, kind: &str) -> bool {
        let name = match self {
            Self::Request => "request",
            Self::Notification => "notification",
            Self::Result => "result",
            Self::Error => "error",
            Self::Batch => "batch",
            Self::Invalid => "invalid",
        };
        name == kind
    }
}

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
    /// Whether anything is asked for.
    pub(super) fn is_set(&self) -> bool {
        self.is_about_messages() || self.direction.is_some() || self.errors || self.text.is_some()
    }

    /// Whether anything is asked for that only a message has.
    fn is_about_messages(&self) -> bool {
        !self.kind.is_empty()
            || self.method.is_some()
            || self.id.is_some()
            || self.tool.is_some()
            || self.slower_than.is_some()
            || self.unanswered
    }

    pub(super) fn wants_unanswered(&self) -> bool {
        self.unanswered
    }

    /// What is asked for that a stream without directions and times does not tell.
    pub(super) fn needs_a_transcript(&self) -> Option<&'static str> {
        match (self.direction, self.slower_than) {
            (Some(_), _) => Some("--direction"),
            (None, Some(_)) => Some("--slower-than"),
            (None, None) => None,
        }
    }

    /// Whether a message is wanted. Whether it is answered is not known yet: for `--unanswered`, all requests are.
    pub(super) fn wants(&self, watched: &TrackedMessage<'_>) -> bool {
        let text = watched.text.unwrap_or_default();
        let facts = FrameFacts::element(watched.message, text);
        let in_batch = watched.element.is_some();
        let is_kind = |kind: &Kind| kind.is(facts.kind) || (in_batch && *kind == Kind::Batch);
        (self.kind.is_empty() || self.kind.iter().any(is_kind))
            && self.direction.is_none_or(|way| watched.frame.place.is_some_and(|place| way.is(place.stream)))
            && self.method.as_ref().is_none_or(|glob| has_method(glob, watched))
            && self.id.as_ref().is_none_or(|id| id.is_of(watched))
            && self.tool.as_ref().is_none_or(|tool| calls(tool, watched))
            && self.slower_than.is_none_or(|least| took_at_least(least, watched))
            && (!self.errors || is_error(watched))
            && (!self.unanswered || asks(watched))
            && self.text.as_ref().is_none_or(|wanted| wanted.is_in(text))
    }

    /// Whether something that is no message is wanted.
    pub(super) fn wants_event(&self, stream: Option<Stream>, text: &[u8], is_bad: bool) -> bool {
        !self.is_about_messages()
            && self.direction.is_none_or(|way| stream.is_some_and(|stream| way.is(stream)))
            && (!self.errors || is_bad)
            && self.text.as_ref().is_none_or(|wanted| wanted.is_in(text))
    }
}

/// Its own method, or that of what it answers.
fn has_method(glob: &Glob, watched: &TrackedMessage<'_>) -> bool {
    let own = match watched.message {
        Ok(Message::Request(request)) => Some(request.method),
        Ok(Message::Notification(notification)) => Some(notification.method),
        Ok(Message::Response(_) | Message::OrphanError(_)) => None,
        Err(invalid) => invalid.method,
    };
    match (own, watched.relation) {
        (Some(method), _) => glob.matches(&Text::to_name(method)),
        (None, Relation::Response { operation, .. }) => glob.matches(&operation.method),
        (None, _) => false,
    }
}

fn operation<'a>(watched: &TrackedMessage<'a>) -> Option<&'a Operation> {
    match watched.relation {
        Relation::Request { operation, .. }
        | Relation::Response { operation, .. }
        | Relation::Progress { operation }
        | Relation::Cancellation { operation } => Some(operation),
        Relation::None | Relation::RefusesUnidentified | Relation::Duplicate | Relation::Unsolicited => None,
    }
}

fn calls(tool: &Glob, watched: &TrackedMessage<'_>) -> bool {
    operation(watched).is_some_and(|operation| {
        operation.method == "tools/call" && operation.name.as_deref().is_some_and(|name| tool.matches(name))
    })
}

fn took_at_least(least: Duration, watched: &TrackedMessage<'_>) -> bool {
    matches!(watched.relation, Relation::Response { latency: Some(latency), .. } if latency >= least)
}

fn asks(watched: &TrackedMessage<'_>) -> bool {
    matches!(watched.relation, Relation::Request { operation, .. } if !operation.is_listen())
}

fn is_error(watched: &TrackedMessage<'_>) -> bool {
    match watched.message {
        Err(_) | Ok(Message::OrphanError(_)) => true,
        Ok(Message::Response(response)) => ResponseOutcome::of(response).is_failure(),
        Ok(Message::Request(_) | Message::Notification(_)) => false,
    }
}

/// A text in which case does not matter, folded.
#[derive(Clone)]
struct WantedText(String);

impl FromStr for WantedText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(folded(text)))
    }
}

impl WantedText {
    fn is_in(&self, text: &[u8]) -> bool {
        let wanted = self.0.as_bytes();
        if wanted.is_empty() {
            return true;
        }
        // Most frames are, and need no copy.
        if text.is_ascii() {
            return text.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted));
        }
        folded(&String::from_utf8_lossy(text)).contains(&self.0)
    }
}

/// The same for letters that differ only in case; by way of upper case, as some have two lower ones.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// An id as a user types it.
#[derive(Clone)]
struct WantedId {
    typed: Option<Id<'static>>,
    string: Option<Id<'static>>,
}

impl FromStr for WantedId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let typed = Id::parse(text.as_bytes()).map(Id::into_owned);
        // In quotes only the string is meant.
        let quoted = serde_json::to_string(text).map_err(|error| error.to_string())?;
        let is_quoted = text.starts_with('"') && typed.is_some();
        let string = if is_quoted { None } else { Id::parse(quoted.as_bytes()).map(Id::into_owned) };
        Ok(Self { typed, string })
    }
}

impl WantedId {
    fn is(&self, id: &Id<'_>) -> bool {
        [&self.typed, &self.string].into_iter().flatten().any(|wanted| wanted == id)
    }

    fn is_of(&self, watched: &TrackedMessage<'_>) -> bool {
        let own = match watched.message {
            Ok(Message::Request(request)) => Some(&request.id),
            Ok(Message::Response(response)) => Some(&response.id),
            Ok(Message::Notification(_) | Message::OrphanError(_)) => None,
            Err(invalid) => invalid.id.as_ref(),
        };
        match (own, watched.relation) {
            (Some(id), _) => self.is(id),
            (None, Relation::Progress { operation } | Relation::Cancellation { operation }) => {
                operation.rounds.iter().any(|round| self.is(&round.id))
            }
            (None, _) => false,
        }
    }
}

/// A name in which `*` stands for any characters and `?` for any one.
#[derive(Clone)]
struct Glob(Vec<char>);

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.chars().collect()))
    }
}

impl Glob {
    fn matches(&self, name: &str) -> bool {
        let (glob, name): (&[char], Vec<char>) = (&self.0, name.chars().collect());
        let (mut at, mut from) = (0, 0);
        // Where the last star stands, and how far it reaches.
        let mut star: Option<(usize, usize)> = None;
        while from < name.len() {
            match (glob.get(at), star) {
                (Some('*'), _) => {
                    star = Some((at, from));
                    at += 1;
                }
                (Some(c), _) if *c == '?' || *c == name[from] => (at, from) = (at + 1, from + 1),
                (_, Some((stands, reaches))) => {
                    star = Some((stands, reaches + 1));
                    (at, from) = (stands + 1, reaches + 1);
                }
                (_, None) => return false,
            }
        }
        glob[at..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::{Glob, WantedText};

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
            let wanted: Glob = glob.parse().unwrap();
            assert_eq!(wanted.matches(name), is, "{glob} {name}");
        }
        // Many stars take no longer than the product of both lengths.
        let stars: Glob = "*a".repeat(200).parse().unwrap();
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
            let wanted: WantedText = wanted.parse().unwrap();
            assert_eq!(wanted.is_in(text.as_bytes()), is, "{text}");
        }
        let wanted: WantedText = "ärger".parse().unwrap();
        assert!(wanted.is_in(b"\xff \xc3\x84RGER"));
    }
}
