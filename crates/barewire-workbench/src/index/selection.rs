//! A filter, a conversation and the folding of a list -> the rows that it shows, found in pieces and kept for the next
//! request.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::candidate::Candidate;
use super::spool::Span;
use super::{IndexData, IndexedCapture};
use crate::filter::Filter;

/// What a list shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SelectionQuery {
    pub(crate) filter: Filter,
    /// The name of the conversation; `None` for all of them.
    pub(crate) conversation: Option<String>,
    /// Whether rows below another row are left out.
    pub(crate) is_folded: bool,
    /// The operations and the frames whose rows are not left out.
    pub(crate) expanded: Vec<Expanded>,
}

/// A row whose children are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expanded {
    Operation(u32),
    /// The number of a frame: of a batch, or of a message with HTTP heads but without an operation.
    Frame(u32),
}

/// A row of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SelectedRow {
    /// The row in the index.
    pub(crate) row: u32,
    /// Whether it is below another row.
    pub(crate) is_child: bool,
}

/// The rows of a list, as far as they were found.
#[derive(Default)]
pub(crate) struct Selection {
    rows: Vec<u32>,
    /// The number of rows of the index that were looked at.
    scanned: usize,
}

/// The last selections, so that scrolling does not search again.
#[derive(Default)]
pub(crate) struct SelectionCache(Mutex<Vec<(SelectionQuery, Arc<Mutex<Selection>>)>>);

impl SelectionCache {
    fn get(&self, query: &SelectionQuery) -> Arc<Mutex<Selection>> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = cache.iter().position(|(known, _)| known == query) {
            let found = cache.remove(at);
            cache.push(found);
        } else {
            if cache.len() >= MAX_SELECTIONS {
                cache.remove(0);
            }
            cache.push((query.clone(), Arc::default()));
        }
        Arc::clone(&cache.last().expect("one was just added").1)
    }
}

/// The rows of a list, with those of expanded rows in their places.
pub(crate) struct SelectedRows {
    selection: Arc<Mutex<Selection>>,
    /// Maps places in the list without children to the children that follow.
    children: BTreeMap<usize, Vec<u32>>,
    pub(crate) total: usize,
    pub(crate) scanned: usize,
    /// Whether nothing more can be found.
    pub(crate) is_final: bool,
}

impl IndexedCapture {
    /// Returns the rows that a query selects, as far as they are found within [`SLICE`]. The next call goes on.
    pub(crate) fn select(&self, query: &SelectionQuery) -> SelectedRows {
        let base = SelectionQuery { expanded: Vec::new(), ..query.clone() };
        let selection = self.selection_of(&base);
        let deadline = Instant::now() + SLICE;
        let was_complete = self.is_complete();
        let (scanned, count, all) = {
            let mut selection = lock(&selection);
            let all = selection.extend(self, &base, deadline);
            (selection.scanned, selection.rows.len(), all)
        };
        let children = self.children(&query.expanded, &selection);
        let more: usize = children.values().map(Vec::len).sum();
        SelectedRows { selection, children, total: count + more, scanned, is_final: all && was_complete }
    }

    /// Returns all rows that a query selects of those that are there now, however long that takes.
    pub(crate) fn select_all(&self, query: &SelectionQuery) -> Vec<u32> {
        let base = SelectionQuery { is_folded: false, expanded: Vec::new(), ..query.clone() };
        let selection = self.selection_of(&base);
        let count = self.data().entries.len();
        loop {
            // Other requests that look for the same go on in between.
            let mut selection = lock(&selection);
            if selection.scanned >= count || selection.extend(self, &base, Instant::now() + SLICE) {
                return selection.rows.clone();
            }
        }
    }

    /// Returns what was found for a query so far.
    fn selection_of(&self, base: &SelectionQuery) -> Arc<Mutex<Selection>> {
        // A request stops being unanswered, so what was found is not kept while the index grows.
        let is_kept = !base.filter.unanswered || self.is_complete();
        if is_kept { self.selections.get(base) } else { Arc::default() }
    }

    /// Returns the rows below expanded rows, by the place of the expanded row.
    fn children(&self, expanded: &[Expanded], selection: &Arc<Mutex<Selection>>) -> BTreeMap<usize, Vec<u32>> {
        let mut children = BTreeMap::new();
        for expanded in expanded.iter().take(MAX_EXPANDED) {
            let data = self.data();
            let (above, rows) = match *expanded {
                Expanded::Operation(number) => {
                    let Some(first) = data.operation(number).map(|it| it.first) else { continue };
                    let rows = data.rows_of(number).into_iter();
                    (
                        first,
                        rows.filter(|row| data.above(&data.entries[*row as usize]) == Some(first)).collect::<Vec<_>>(),
                    )
                }
                Expanded::Frame(frame) => {
                    let Some(row) = data.frame(u64::from(frame)) else { continue };
                    (row, data.rows_below(row))
                }
            };
            drop(data);
            let selection = lock(selection);
            let Ok(at) = selection.rows.binary_search(&above) else { continue };
            let is_new = |row: &u32| selection.rows.binary_search(row).is_err();
            children.insert(at, rows.into_iter().filter(is_new).collect());
        }
        children
    }
}

impl SelectedRows {
    /// Returns rows of the list: at most `count` from `from` on.
    pub(crate) fn rows(&self, from: usize, count: usize) -> Vec<SelectedRow> {
        let selection = lock(&self.selection);
        let mut rows = Vec::new();
        // The place in the list without children, and the number of children before it.
        let (mut at, mut inserted) = (0, 0);
        let mut children = self.children.iter().peekable();
        // Rows between two expanded ones are skipped at once.
        while rows.len() < count && at <= selection.rows.len() {
            let next = children.peek().map_or(selection.rows.len(), |(place, _)| **place + 1);
            let place = at + inserted;
            let skipped = from.saturating_sub(place).min(next - at);
            for row in selection.rows[at + skipped..next].iter().take(count - rows.len()) {
                rows.push(SelectedRow { row: *row, is_child: false });
            }
            at = next;
            let Some((_, below)) = children.next() else { break };
            let skipped = from.saturating_sub(at + inserted).min(below.len());
            for row in below[skipped..].iter().take(count - rows.len()) {
                rows.push(SelectedRow { row: *row, is_child: true });
            }
            inserted += below.len();
        }
        rows
    }

    /// Returns the place of a row in the list.
    pub(crate) fn place(&self, row: u32) -> Option<usize> {
        let selection = lock(&self.selection);
        if let Ok(at) = selection.rows.binary_search(&row) {
            return Some(at + self.children.range(..at).map(|(_, below)| below.len()).sum::<usize>());
        }
        let (at, below) = self.children.iter().find(|(_, below)| below.contains(&row))?;
        let before: usize = self.children.range(..at).map(|(_, below)| below.len()).sum();
        Some(at + before + 1 + below.iter().position(|it| *it == row)?)
    }

    /// Returns the place of the first row at or after a row of the index.
    pub(crate) fn place_at(&self, row: u32) -> usize {
        let selection = lock(&self.selection);
        let at = selection.rows.partition_point(|it| *it < row).min(selection.rows.len().saturating_sub(1));
        at + self.children.range(..at).map(|(_, below)| below.len()).sum::<usize>()
    }
}

impl Selection {
    /// Looks at more rows of the index. Returns whether all of them were looked at.
    fn extend(&mut self, index: &IndexedCapture, query: &SelectionQuery, deadline: Instant) -> bool {
        loop {
            let is_textual = !query.filter.texts.is_empty();
            let most = if is_textual { TEXT_ROWS } else { MAX_ROWS };
            let mut texts = Vec::new();
            let is_all = {
                let data = index.data();
                let conversation = query.conversation.as_deref().map(|name| data.conversation(name));
                let start = self.scanned;
                for (row, entry) in (start..).zip(data.entries.from(start).take(most)) {
                    self.scanned = row + 1;
                    let is_here = conversation.is_none_or(|number| number == Some(entry.conversation));
                    if !is_here {
                        continue;
                    }
                    let candidate = Candidate::new(&data, entry);
                    let row = u32::try_from(row).unwrap_or(u32::MAX);
                    if is_textual {
                        if candidate.may_match(&query.filter) {
                            texts.push((row, entry.text));
                        }
                    } else if candidate.matches(&query.filter) {
                        let is_selected = |above: u32| {
                            let entry = &data.entries[above as usize];
                            let is_here = conversation.is_none_or(|number| number == Some(entry.conversation));
                            is_here && Candidate::new(&data, entry).matches(&query.filter)
                        };
                        self.add(row, query, data.above(entry), is_selected);
                    }
                }
                self.scanned >= data.entries.len()
            };
            // Texts are read from the file without the lock.
            let has_texts = |span| {
                let text = index.spool().whole(span);
                query.filter.texts.iter().all(|wanted| wanted.is_in(&text))
            };
            for (row, _) in texts.into_iter().filter(|(_, span)| has_texts(*span)) {
                let (above, below) = {
                    let data = index.data();
                    let above = data.above(&data.entries[row as usize]);
                    (above, above.filter(|above| *above > row).and_then(|above| candidate_text(&data, above, query)))
                };
                self.add(row, query, above, |_| below.is_some_and(&has_texts));
            }
            if is_all || Instant::now() >= deadline {
                return is_all;
            }
        }
    }

    /// Adds a row, unless it is folded below another row of the list, `above`. `is_selected` is asked about a row that
    /// comes later: the heads before a request are folded below it too.
    fn add(&mut self, row: u32, query: &SelectionQuery, above: Option<u32>, is_selected: impl Fn(u32) -> bool) {
        if let Some(above) = above.filter(|_| query.is_folded) {
            let is_listed = || if above > row { is_selected(above) } else { self.rows.binary_search(&above).is_ok() };
            if !query.filter.is_set() && query.conversation.is_none() || is_listed() {
                return;
            }
        }
        self.rows.push(row);
    }
}

/// Returns the text of a row, if the query selects the row as far as its texts do not matter.
fn candidate_text(data: &IndexData, row: u32, query: &SelectionQuery) -> Option<Span> {
    let entry = data.entries.get(row as usize)?;
    let conversation = query.conversation.as_deref().map(|name| data.conversation(name));
    let is_here = conversation.is_none_or(|number| number == Some(entry.conversation));
    (is_here && Candidate::new(data, entry).may_match(&query.filter)).then_some(entry.text)
}

fn lock(selection: &Mutex<Selection>) -> MutexGuard<'_, Selection> {
    selection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time that a request searches: a page that waits for it stays fluent.
const SLICE: Duration = Duration::from_millis(80);
/// The maximum number of rows that are looked at while the index is locked.
const MAX_ROWS: usize = 65_536;
/// The maximum number of rows whose texts are looked for at once.
const TEXT_ROWS: usize = 512;
/// The maximum number of selections that are kept. Each takes four bytes for each of its rows.
const MAX_SELECTIONS: usize = 8;
/// The maximum number of rows whose children are shown.
const MAX_EXPANDED: usize = 500;
