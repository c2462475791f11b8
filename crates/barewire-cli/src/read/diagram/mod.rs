//! A whole wire -> a picture: every message an arrow if there are few, every operation a bar if there are many.

mod bars;
mod mermaid;
mod rows;
mod story;
mod svg;
mod svg_bars;
mod svg_rows;
mod text;

use std::io::Write;

use super::{Args, plural};
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::frames::FrameReader;
use bars::Bars;
use rows::Rows;
use story::{Story, Teller};

/// What a picture is written in.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For Markdown: a sequenceDiagram
    Mermaid,
    /// For a browser
    Svg,
    /// For a terminal
    Text,
}

/// What is drawn.
enum Picture {
    /// Every message, between two lifelines.
    Rows(Rows),
    /// Every operation, over a scale of time.
    Bars(Bars),
}

impl Picture {
    fn of(mut story: Story) -> Self {
        if story.height() > MANY_ROWS {
            story.gather();
        }
        if story.height() <= MOST_ROWS { Self::Rows(Rows::of(&story)) } else { Self::Bars(Bars::of(&story)) }
    }
}

pub(super) fn run(args: &Args, form: Form, reading: &FrameReader<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let mut teller = Teller::new(&args.filter, args.events);
    reading.each(&mut teller)?;
    let story = teller.finish();
    let (left_out, is_empty) = (story.left_out, story.items.is_empty());
    let width = output.width();
    let drawn = draw(Picture::of(story), form, width);
    output.write_all(drawn.as_bytes())?;
    output.flush()?;
    if left_out > 0 {
        let what = format!("{} not drawn: a filter, as --tool or --method, chooses", plural(left_out, "message"));
        let _ = writeln!(std::io::stderr(), "{what}");
    }
    if is_empty {
        let _ = writeln!(std::io::stderr(), "nothing to draw");
    }
    Ok(Exit::Clean)
}

fn draw(picture: Picture, form: Form, width: usize) -> String {
    match (picture, form) {
        (Picture::Rows(rows), Form::Text) => text::rows(&rows, width),
        (Picture::Bars(bars), Form::Text) => text::bars(&bars, width),
        (Picture::Rows(rows), Form::Svg) => svg_rows::draw(&rows),
        (Picture::Bars(bars), Form::Svg) => svg_bars::draw(&bars),
        (Picture::Rows(rows), Form::Mermaid) => mermaid::rows(&rows),
        (Picture::Bars(bars), Form::Mermaid) => mermaid::bars(&bars),
    }
}

/// From here on, the same operation over and over is drawn once.
const MANY_ROWS: usize = 60;
/// Above this, nobody follows the arrows any more, and every operation becomes a bar.
const MOST_ROWS: usize = 200;

#[cfg(test)]
mod tests;
