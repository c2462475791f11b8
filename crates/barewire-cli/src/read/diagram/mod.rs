//! All messages of a wire -> a diagram: one arrow per message if there are few, one bar per operation if there are
//! many.

mod bars;
mod mermaid;
mod rows;
mod svg;
mod svg_bars;
mod svg_rows;
mod text;
mod timeline;

use super::direction::DirectedObserver;
use super::{Args, plural};
use crate::output::{Output, stderr};
use crate::{Exit, Failure};
use barewire_workbench::frames::FrameReader;
use bars::Bars;
use rows::Rows;
use timeline::{Timeline, TimelineBuilder};

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

enum Picture {
    /// One arrow per message, between two lifelines.
    Rows(Rows),
    /// One bar per operation, on a time scale.
    Bars(Bars),
}

impl Picture {
    fn of(mut timeline: Timeline) -> Self {
        if timeline.height() > MANY_ROWS {
            timeline.merge_repeats();
        }
        if timeline.height() <= MAX_ROWS { Self::Rows(Rows::of(&timeline)) } else { Self::Bars(Bars::of(&timeline)) }
    }
}

pub(super) fn run(
    args: &Args,
    format: DiagramFormat,
    reading: &FrameReader<'_>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut observer = DirectedObserver::new(&args.filter, TimelineBuilder::new(&args.filter, args.events));
    reading.each(&mut observer)?;
    let timeline = observer.finish().finish();
    let (left_out, is_empty) = (timeline.left_out, timeline.items.is_empty());
    let drawn = draw(Picture::of(timeline), format, output.width());
    write!(output, "{drawn}")?;
    output.flush()?;
    if left_out > 0 {
        let messages = plural(left_out, "message");
        let _ = writeln!(stderr(), "{messages} not drawn: choose some with a filter, such as --tool or --method");
    }
    if is_empty {
        let _ = writeln!(stderr(), "nothing to draw");
    }
    Ok(Exit::Clean)
}

fn draw(picture: Picture, format: DiagramFormat, width: usize) -> String {
    match (picture, format) {
        (Picture::Rows(rows), DiagramFormat::Text) => text::rows(&rows, width),
        (Picture::Bars(bars), DiagramFormat::Text) => text::bars(&bars, width),
        (Picture::Rows(rows), DiagramFormat::Svg) => svg_rows::draw(&rows),
        (Picture::Bars(bars), DiagramFormat::Svg) => svg_bars::draw(&bars),
        (Picture::Rows(rows), DiagramFormat::Mermaid) => mermaid::rows(&rows),
        (Picture::Bars(bars), DiagramFormat::Mermaid) => mermaid::bars(&bars),
    }
}

/// If there are more rows than this, equal consecutive operations are drawn once.
const MANY_ROWS: usize = 60;
/// If there are more rows than this, arrows would be hard to follow, and a bar is drawn for every operation instead.
const MAX_ROWS: usize = 200;

#[cfg(test)]
mod tests;
