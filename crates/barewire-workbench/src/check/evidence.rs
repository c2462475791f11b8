//! The request and the response of a finding -> lines of text in which the fault is marked.

use super::excerpt::Excerpt;
use super::finding::Finding;
use crate::text::Tone;

/// A line of evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvidenceLine {
    /// The text before the line: who wrote it, and a bar.
    pub label: String,
    /// The line, or the marks below a line.
    pub text: String,
    /// The meaning of the line.
    pub tone: Tone,
}

impl Finding {
    /// Returns the request and the response, with the fault in them marked. No line is wider than `most` columns,
    /// label included. Empty until [`Finding::redact`] is called.
    pub fn evidence_lines(&self, most: usize) -> Vec<EvidenceLine> {
        let room = most.saturating_sub(LABEL_WIDTH).max(MIN_ROOM);
        let mut lines = Vec::new();
        for (excerpt, label) in [(&self.request, "sent"), (&self.response, "received")] {
            if let Some(excerpt) = excerpt {
                push(&mut lines, excerpt, label, room);
            }
        }
        if self.is_unanswered && self.response.is_none() && !lines.is_empty() {
            let is_of_server = self.request.as_ref().is_some_and(|request| request.location.stream == Some('<'));
            let label = if is_of_server { "sent" } else { "received" };
            lines.push(EvidenceLine { label: labelled(label), text: "no response".to_owned(), tone: Tone::Bad });
        }
        lines
    }
}

fn push(lines: &mut Vec<EvidenceLine>, excerpt: &Excerpt, label: &str, room: usize) {
    // What the client sent is sent, and what the server sent is received, whatever it is.
    let mut label = match excerpt.location.stream {
        Some('>') => "sent",
        Some('<') => "received",
        Some('!') => "stderr",
        _ => label,
    };
    for line in excerpt.lines(room) {
        lines.push(EvidenceLine { label: labelled(label), text: line.text, tone: Tone::Faint });
        label = "";
        if let Some(marks) = line.marks {
            lines.push(EvidenceLine { label: labelled(label), text: marks, tone: Tone::Bad });
        }
    }
}

fn labelled(label: &str) -> String {
    format!("{label:<8} | ")
}

/// The width of a label, in columns.
const LABEL_WIDTH: usize = "received | ".len();
/// The minimum width of a line without its label, even if the terminal is narrower.
const MIN_ROOM: usize = 30;
