//! A text and its edits -> a unified diff that `patch` can read.

use std::fmt::Write as _;
use std::path::Path;

use super::entry::{Edit, edited};

/// Returns the diff between a text and the edited text. The edits must be in order and must not overlap.
pub(super) fn unified(path: &Path, text: &str, edits: &[Edit]) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let changes = changes(text, &lines, edits);
    let mut out = format!("--- {0}\n+++ {0}\n", path.display());
    let (mut added_before, mut removed_before) = (0, 0);
    let mut rest = &changes[..];
    while let Some(first) = rest.first() {
        // Changes whose context lines overlap are joined into one hunk.
        let gap = rest.windows(2).position(|pair| pair[1].from > pair[0].to + 2 * CONTEXT_LINES);
        let (hunk, others) = rest.split_at(gap.map_or(rest.len(), |at| at + 1));
        let from = first.from.saturating_sub(CONTEXT_LINES);
        let to = (hunk[hunk.len() - 1].to + CONTEXT_LINES).min(lines.len());
        let removed: usize = hunk.iter().map(|change| change.to - change.from).sum();
        let added: usize = hunk.iter().map(|change| change.with.split_inclusive('\n').count()).sum();
        let (length, start) = (to - from, from + 1 + added_before - removed_before);
        let _ = writeln!(out, "@@ -{},{length} +{start},{} @@", from + 1, length + added - removed);
        let mut at = from;
        for change in hunk {
            lines[at..change.from].iter().for_each(|line| put(&mut out, ' ', line));
            lines[change.from..change.to].iter().for_each(|line| put(&mut out, '-', line));
            change.with.split_inclusive('\n').for_each(|line| put(&mut out, '+', line));
            at = change.to;
        }
        lines[at..to].iter().for_each(|line| put(&mut out, ' ', line));
        (added_before, removed_before) = (added_before + added, removed_before + removed);
        rest = others;
    }
    out
}

/// A range of lines, and the text that replaces them.
struct LineChange {
    from: usize,
    to: usize,
    with: String,
}

/// Converts edits of bytes to changes of lines. Edits in the same line become one change.
fn changes(text: &str, lines: &[&str], edits: &[Edit]) -> Vec<LineChange> {
    let mut starts = vec![0];
    starts.extend(lines.iter().scan(0, |at, line| {
        *at += line.len();
        Some(*at)
    }));
    let line_of = |at: usize| (starts.partition_point(|start| *start <= at) - 1).min(lines.len().saturating_sub(1));
    let groups = edits.chunk_by(|edit, next| line_of(edit.span.end) >= line_of(next.span.start));
    let change = |group: &[Edit]| {
        let (from, to) = (line_of(group[0].span.start), line_of(group[group.len() - 1].span.end) + 1);
        let start = starts[from];
        let shifted: Vec<Edit> = group
            .iter()
            .map(|edit| Edit { span: edit.span.start - start..edit.span.end - start, with: edit.with.clone() })
            .collect();
        LineChange { from, to, with: edited(&text[start..starts[to]], &shifted) }.trimmed(lines)
    };
    groups.map(change).collect()
}

impl LineChange {
    /// Removes unchanged lines from both ends of the change.
    fn trimmed(self, lines: &[&str]) -> Self {
        let old = &lines[self.from..self.to];
        let new: Vec<&str> = self.with.split_inclusive('\n').collect();
        let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let (old, new) = (&old[head..], &new[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        Self { from: self.from + head, to: self.to - tail, with: new[..new.len() - tail].concat() }
    }
}

fn put(out: &mut String, mark: char, line: &str) {
    out.push(mark);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

/// The number of unchanged lines shown around a change; 3 is the default of other diff tools.
const CONTEXT_LINES: usize = 3;
