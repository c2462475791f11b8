//! All messages of a wire -> a diagram: one arrow per message if there are few, one bar per operation if there are
//! many. It is drawn as SVG, as Mermaid for Markdown, or as lines of text.

mod bars;
mod mermaid;
mod rows;
mod svg;
mod svg_bars;
mod svg_rows;
mod text;
mod timeline;

use bars::Bars;
use rows::Rows;
use timeline::Timeline;

pub use timeline::DiagramBuilder;

/// A diagram of a wire.
pub struct Diagram {
    picture: Picture,
    left_out: u64,
    is_empty: bool,
}

enum Picture {
    /// One arrow per message, between two lifelines.
    Rows(Rows),
    /// One bar per operation, on a time scale.
    Bars(Bars),
}

impl Diagram {
    fn of(mut timeline: Timeline) -> Self {
        let (left_out, is_empty) = (timeline.left_out, timeline.items.is_empty());
        if timeline.height() > MANY_ROWS {
            timeline.merge_repeats();
        }
        let picture = match timeline.height() {
            ..=MAX_ROWS => Picture::Rows(Rows::of(&timeline)),
            _ => Picture::Bars(Bars::of(&timeline)),
        };
        Self { picture, left_out, is_empty }
    }

    /// Returns the number of messages that are not in the diagram, because there are too many.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Draws a self-contained SVG.
    pub fn svg(&self) -> String {
        match &self.picture {
            Picture::Rows(rows) => svg_rows::draw(rows),
            Picture::Bars(bars) => svg_bars::draw(bars),
        }
    }

    /// Draws a Mermaid `sequenceDiagram`. If it would be too long for Mermaid, its last line says how many operations
    /// are missing, and that `complete_form` draws them.
    pub fn mermaid(&self, complete_form: &str) -> String {
        match &self.picture {
            Picture::Rows(rows) => mermaid::rows(rows),
            Picture::Bars(bars) => mermaid::bars(bars, complete_form),
        }
    }

    /// Draws lines of text of at most `width` columns.
    pub fn text(&self, width: usize) -> String {
        match &self.picture {
            Picture::Rows(rows) => text::rows(rows, width),
            Picture::Bars(bars) => text::bars(bars, width),
        }
    }
}

/// If there are more rows than this, equal consecutive operations are drawn once.
const MANY_ROWS: usize = 60;
/// If there are more rows than this, arrows would be hard to follow, and a bar is drawn for every operation instead.
const MAX_ROWS: usize = 200;

#[cfg(test)]
mod tests;
