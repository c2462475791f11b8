//! The filter options -> a filter.

use std::time::Duration;

use barewire_proto::transcript::Stream;

use crate::Failure;
use barewire_workbench::duration;
use barewire_workbench::filter::{Filter, Glob, IdPattern, TextPattern};
use barewire_workbench::frames::FrameKind;

/// The filter options. All of them must match; in a batch, all must match the same element.
#[derive(clap::Args)]
#[group(id = "filters", multiple = true, conflicts_with_all = ["summary", "frame"])]
pub(crate) struct FilterOptions {
    /// Only frames of this kind: request, notification, result, error, batch, invalid, cut
    #[arg(long, value_parser = FrameKind::ALL.map(FrameKind::name), value_name = "KIND", value_delimiter = ',')]
    #[arg(hide_possible_values = true, help_heading = HEADING)]
    kind: Vec<String>,
    /// Only frames in this direction: to-server (>) or to-client (<)
    #[arg(long, value_enum, value_name = "DIRECTION", hide_possible_values = true, help_heading = HEADING)]
    direction: Option<Direction>,
    /// Only messages of this method, and their responses; * matches any text, ? one character
    #[arg(long, value_name = "GLOB", help_heading = HEADING)]
    method: Option<String>,
    /// Only messages with this id, and progress and cancels of its request; 1 also matches "1"
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    id: Option<String>,
    /// Only calls of this tool: requests, progress, responses; * and ? as in --method
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    tool: Option<String>,
    /// Only responses that took at least this long: 100ms, 1.5s, 250us
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = HEADING)]
    slower_than: Option<Duration>,
    /// Only errors, results with isError, and invalid frames
    #[arg(long, help_heading = HEADING)]
    errors: bool,
    /// Only requests that are neither answered nor cancelled; shown at the end of the input
    #[arg(long, help_heading = HEADING, conflicts_with = "follow")]
    unanswered: bool,
    /// Only frames that contain this text; case does not matter
    #[arg(long, value_name = "TEXT", help_heading = HEADING)]
    text: Option<String>,
}

const HEADING: &str = "Filters, all of which must match";

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Direction {
    #[value(alias = ">")]
    ToServer,
    #[value(alias = "<")]
    ToClient,
}

impl From<Direction> for Stream {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::ToServer => Self::ToServer,
            Direction::ToClient => Self::ToClient,
        }
    }
}

impl FilterOptions {
    pub(super) fn filter(&self) -> Filter {
        let mut filter = Filter::new();
        filter.kinds = self.kind.iter().filter_map(|name| FrameKind::parse(name)).collect();
        filter.direction = self.direction.map(Stream::from);
        filter.method = self.method.as_ref().map(Glob::new);
        filter.id = self.id.as_ref().map(IdPattern::new);
        filter.tool = self.tool.as_ref().map(Glob::new);
        filter.slower_than = self.slower_than;
        (filter.errors, filter.unanswered) = (self.errors, self.unanswered);
        filter.texts = self.text.iter().map(TextPattern::new).collect();
        filter
    }
}

/// Fails if a filter needs directions or times: a plain stream has neither.
pub(super) fn refuse_plain_stream(filter: &Filter) -> Result<(), Failure> {
    let option = match (filter.direction, filter.slower_than) {
        (Some(_), _) => "--direction",
        (None, Some(_)) => "--slower-than",
        (None, None) => return Ok(()),
    };
    Err(Failure::new(format!("{option} needs a transcript: this input has neither directions nor times"))
        .with_hint("barewire tap --record writes a transcript; docs/wire-format.md describes the format"))
}
