//! A text and its edits -> a unified diff, as `patch` reads it.

use std::fmt::Write as _;
use std::path::Path;

use super::entry::Edit;

/// What would be changed. The edits are in order and do not overlap.
pub(super) fn unified(path: &Path, text: &str, edits: &[Edit]) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let starts: Vec<usize> = std::iter::once(0)
        .chain(lines.iter().scan(0, |at, line| {
            *at += line.len();
            Some(*at)
        }))
        .collect();
    let mut changes = changes(text, edits, &starts);
    for change in &mut changes {
        change.trim(&lines);
    }
    let mut out = format!("--- {0}\n+++ {0}\n", path.display());
    let (mut added_before, mut removed_before) = (0, 0);
    let mut rest = &changes[..];
    while let Some(first) = rest.first() {
        // Changes whose surroundings touch are shown as one.
        let apart = rest.windows(2).position(|pair| pair[1].from > pair[0].to + 2 * CONTEXT_LINES);
        let (hunk, behind) = rest.split_at(apart.map_or(rest.len(), |at| at + 1));
        let from = first.from.saturating_sub(CONTEXT_LINES);
        let to = (hunk[hunk.len() - 1].to + CONTEXT_LINES).min(lines.len());
        let removed: usize = hunk.iter().map(|change| change.to - change.from).sum();
        let added: usize = hunk.iter().map(|change| change.with.split_inclusive('\n').count()).sum();
        let length = to - from;
        let start = from + 1 + added_before - removed_before;
        writeln!(out, "@@ -{},{length} +{start},{} @@", from + 1, length + added - removed)
            .expect("a String takes everything");
        let mut at = from;
        for change in hunk {
            lines[at..change.from].iter().for_each(|line| put(&mut out, ' ', line));
            lines[change.from..change.to].iter().for_each(|line| put(&mut out, '-', line));
            change.with.split_inclusive('\n').for_each(|line| put(&mut out, '+', line));
            at = change.to;
        }
        lines[at..to].iter().for_each(|line| put(&mut out, ' ', line));
        (added_before, removed_before) = (added_before + added, removed_before + removed);
        rest = behind;
    }
    out
}

/// Whole lines, and what stands there afterwards.
struct Change {
    from: usize,
    to: usize,
    with: String,
}

impl Change {
    /// Leaves out lines at either end that stay as they are.
    fn trim(&mut self, lines: &[&str]) {
        let (old, with) = (&lines[self.from..self.to], std::mem::take(&mut self.with));
        let new: Vec<&str> = with.split_inclusive('\n').collect();
        let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let (old, new) = (&old[before..], &new[before..]);
        let behind = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        self.with = new[..new.len() - behind].concat();
        (self.from, self.to) = (self.from + before, self.to - behind);
    }
}

fn changes(text: &str, edits: &[Edit], starts: &[usize]) -> Vec<Change> {
    let line_of = |at: usize| starts.partition_point(|start| *start <= at) - 1;
    let last = starts.len() - 1;
    let mut changes: Vec<Change> = Vec::new();
    // How far the text is told.
    let mut told = 0;
    for edit in edits {
        let from = line_of(edit.span.start).min(last.saturating_sub(1));
        let to = (line_of(edit.span.end) + 1).min(last);
        match changes.last_mut() {
            Some(change) if from < change.to => change.to = change.to.max(to),
            _ => {
                if let Some(change) = changes.last_mut() {
                    change.with.push_str(&text[told..starts[change.to]]);
                }
                told = starts[from];
                changes.push(Change { from, to, with: String::new() });
            }
        }
        let change = changes.last_mut().expect("it was pushed");
        change.with.push_str(&text[told..edit.span.start]);
        change.with.push_str(&edit.with);
        told = edit.span.end;
    }
    if let Some(change) = changes.last_mut() {
        change.with.push_str(&text[told..starts[change.to]]);
    }
    changes
}

fn put(out: &mut String, mark: char, line: &str) {
    out.push(mark);
    out.push_str(line);
    if !line.ends_with('\n') {
        out.push_str("\n\\ No newline at end of file\n");
    }
}

/// How many lines are shown around a change, as everybody does.
const CONTEXT_LINES: usize = 3;
