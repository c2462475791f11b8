//! The bytes that show a violation -> an excerpt for reports: redacted, escaped, and cut around the fault.
//!
//! A [`clipping::Clipping`] is the part of a message that is kept until the report is written, and
//! [`line::ExcerptLine`] is what the report shows of it.

mod clipping;
mod line;
mod pointer;

use std::ops::Range;

use super::finding::Location;
use crate::secrets::Redactor;
use clipping::Clipping;
use line::ExcerptLine;

pub(crate) use clipping::Fault;
pub use line::CutLine;

/// A message, an HTTP head or lines of stderr that show a violation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Excerpt {
    /// The location of the bytes.
    pub location: Location,
    /// The lines, not redacted. Empty after `redact`.
    clippings: Vec<Clipping>,
    /// The lines, redacted and escaped. Empty until the finding is in a report.
    lines: Vec<ExcerptLine>,
}

impl Excerpt {
    /// Returns the part of a message around a fault in it.
    pub(crate) fn of(location: Location, text: &[u8], fault: Fault<'_>) -> Self {
        Self::new(location, vec![Clipping::around(text, fault)])
    }

    /// Returns the start of a request, and its id if that comes later, with the id as the fault. It takes little
    /// memory, because it is kept until the request is answered.
    pub(crate) fn of_request(location: Location, text: &[u8]) -> Self {
        Self::new(location, Clipping::request(text))
    }

    /// Returns several lines, such as an HTTP head with a body, or the last lines of stderr.
    pub(crate) fn of_lines<'a>(location: Location, lines: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let lines = lines.into_iter().take(MAX_LINES);
        Self::new(location, lines.map(|line| Clipping::around(line, Fault::Whole)).collect())
    }

    fn new(location: Location, clippings: Vec<Clipping>) -> Self {
        Self { location, clippings, lines: Vec::new() }
    }

    /// Returns the excerpt without a mark at the fault.
    pub(crate) fn unmarked(mut self) -> Self {
        self.clippings.iter_mut().for_each(Clipping::unmark);
        self
    }

    /// Whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.clippings.is_empty() && self.lines.is_empty()
    }

    /// Returns the memory that the bytes take.
    pub(crate) fn size(&self) -> usize {
        let bytes = self.clippings.iter().map(Clipping::size).sum::<usize>();
        size_of::<Self>() + self.location.channel.len() + bytes
    }

    /// Redacts, escapes and shortens the bytes.
    pub(crate) fn redact(&mut self, redactor: &mut Redactor) {
        for clipping in std::mem::take(&mut self.clippings) {
            self.lines.push(clipping.line(redactor));
        }
    }

    /// Returns the lines, each cut to `most` columns around its fault.
    pub fn lines(&self, most: usize) -> impl Iterator<Item = CutLine> {
        self.lines.iter().map(move |line| line.cut(most))
    }

    /// Returns the excerpt as one text, each line cut to 160 columns, and the range of the fault in it, in characters.
    pub fn text(&self) -> (String, Option<Range<usize>>) {
        let (mut text, mut fault) = (String::new(), None);
        for line in self.lines(MAX_COLUMNS) {
            if !text.is_empty() {
                text.push('\n');
            }
            let before = text.chars().count();
            fault = fault.or(line.fault.map(|range| before + range.start..before + range.end));
            text.push_str(&line.text);
        }
        (text, fault)
    }
}

/// The maximum number of lines: the end of a traceback, or an HTTP head with the header at fault and the body.
const MAX_LINES: usize = 8;
/// The maximum width of a line in a report for programs, in columns: two lines of a terminal.
pub(crate) const MAX_COLUMNS: usize = 160;
