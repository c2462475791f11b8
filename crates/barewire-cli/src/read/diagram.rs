//! All messages of a wire -> a diagram in the chosen format.

use super::direction::DirectedObserver;
use super::{Args, plural};
use crate::output::{Output, stderr};
use crate::{Exit, Failure};
use barewire_workbench::diagram::DiagramBuilder;
use barewire_workbench::filter::Filter;
use barewire_workbench::frames::FrameReader;

/// The output format of a diagram.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum DiagramFormat {
    /// For Markdown: a sequenceDiagram
    Mermaid,
    /// For a browser
    Svg,
    /// For a terminal
    Text,
}

pub(super) fn run(
    args: &Args,
    format: DiagramFormat,
    filter: &Filter,
    reading: &FrameReader<'_>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut observer = DirectedObserver::new(filter, DiagramBuilder::new(filter, args.events));
    reading.each(&mut observer)?;
    let diagram = observer.finish().finish();
    let drawn = match format {
        DiagramFormat::Text => diagram.text(output.width()),
        DiagramFormat::Svg => diagram.svg(),
        DiagramFormat::Mermaid => diagram.mermaid("--diagram svg"),
    };
    write!(output, "{drawn}")?;
    output.flush()?;
    if diagram.left_out() > 0 {
        let messages = plural(diagram.left_out(), "message");
        let _ = writeln!(stderr(), "{messages} not drawn: choose some with a filter, such as --tool or --method");
    }
    if diagram.is_empty() {
        let _ = writeln!(stderr(), "nothing to draw");
    }
    Ok(Exit::Clean)
}
