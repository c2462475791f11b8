//! All messages and events of a wire -> a summary: participants, counts, latency, failures.

mod collect;
mod figures;
mod json;
mod text;

use super::Args;
use super::direction::DirectedObserver;
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::filter::Filter;
use barewire_workbench::frames::FrameReader;
use collect::SummaryCollector;
use figures::Summary;

pub(super) fn run(
    args: &Args,
    filter: &Filter,
    reading: &FrameReader<'_>,
    file: Option<&str>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut observer = DirectedObserver::new(filter, SummaryCollector::default());
    reading.each(&mut observer)?;
    let has_directions = observer.has_directions;
    let summary = Summary { has_directions, ..observer.finish().finish() };
    if args.json {
        json::write(output, &summary, file)?
    } else {
        text::write(output, &summary)?
    }
    Ok(if summary.invalid() == 0 { Exit::Clean } else { Exit::No })
}
