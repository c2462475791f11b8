//! A filter and a conversation -> the rows of an index that an exported file has.
//!
//! Files for other programs are about whole operations: a request without its response would look as if it had never
//! been answered. So an operation of which the filter selects a message is exported with all its requests and responses,
//! and with the HTTP heads around them.

use super::record::EntryKind;
use super::selection::SelectionQuery;
use super::writer::MAX_ELEMENTS;
use super::{IndexData, IndexedCapture};
use crate::frames::FrameKind;
use crate::rows::Role;

/// The rows that an exported file has.
pub(crate) struct ExportedRows {
    is_exported: Vec<bool>,
    /// The batches of which an element was added, but not all of them.
    batches: Vec<u32>,
}

impl IndexedCapture {
    /// Returns the rows to export; `None` if all of them are.
    pub(crate) fn exported_rows(&self, query: &SelectionQuery) -> Option<ExportedRows> {
        self.rows_to_export(query, false)
    }

    /// Returns the rows of a capture. Its batches are whole, because a batch is one line, and so it also has the
    /// operations of the elements that the query does not select.
    pub(crate) fn captured_rows(&self, query: &SelectionQuery) -> Option<ExportedRows> {
        self.rows_to_export(query, true)
    }

    fn rows_to_export(&self, query: &SelectionQuery, has_whole_batches: bool) -> Option<ExportedRows> {
        if !query.filter.is_set() && query.conversation.is_none() {
            return None;
        }
        let selected = self.select_all(query);
        let data = self.data();
        let mut rows = ExportedRows { is_exported: vec![false; data.entries.len()], batches: Vec::new() };
        let mut operations = vec![false; data.operations.len() + 1];
        for row in selected {
            rows.add_message(row, &mut operations, &data);
        }
        while let Some(batch) = rows.batches.pop().filter(|_| has_whole_batches) {
            rows.add_message(batch, &mut operations, &data);
        }
        rows.add_heads(&data);
        Some(rows)
    }
}

impl ExportedRows {
    /// Whether an element of the batch in this row is exported. Elements without a row of their own never are.
    pub(crate) fn has_element(&self, row: usize, element: usize) -> bool {
        element < MAX_ELEMENTS && self.has(row + 1 + element)
    }

    /// Whether a row is exported.
    pub(crate) fn has(&self, row: usize) -> bool {
        self.is_exported.get(row).copied().unwrap_or(false)
    }

    /// Adds a row. Returns `false` if it is there already.
    fn set(&mut self, row: u32) -> bool {
        let is_exported = self.is_exported.get_mut(row as usize);
        is_exported.is_some_and(|is_exported| !std::mem::replace(is_exported, true))
    }

    /// Adds a row, and the requests and responses of its operation.
    fn add_message(&mut self, row: u32, operations: &mut [bool], data: &IndexData) {
        let Some(entry) = data.entries.get(row as usize) else { return };
        self.add_with_batch(row, data);
        if entry.kind == EntryKind::Frame(FrameKind::Batch) {
            for element in row + 1..=row + u32::from(entry.elements) {
                self.add_message(element, operations, data);
            }
        }
        let is_known = operations.get_mut(entry.operation as usize);
        if entry.operation == 0 || is_known.is_none_or(|is_known| std::mem::replace(is_known, true)) {
            return;
        }
        let mut next = data.operation(entry.operation).map(|it| it.last);
        while let Some(row) = next
            && let Some(entry) = data.entries.get(row as usize)
        {
            if let Role::Request { .. } | Role::Response { .. } | Role::Cancellation = entry.role {
                self.add_with_batch(row, data);
            }
            next = entry.previous.checked_sub(1);
        }
    }

    /// Adds a row and, if it is an element of a batch, the row of the batch.
    fn add_with_batch(&mut self, row: u32, data: &IndexData) {
        self.set(row);
        let entry = &data.entries[row as usize];
        if entry.element > 0
            && let Some(batch) = data.frame(u64::from(entry.frame))
            && self.set(batch)
        {
            self.batches.push(batch);
        }
    }

    /// Adds the heads of the HTTP exchanges of which a row is exported.
    fn add_heads(&mut self, data: &IndexData) {
        let mut exchanges = vec![false; data.exchanges.len() + 1];
        for (row, entry) in data.entries.from(0).enumerate() {
            if self.has(row)
                && let Some(exchange) = exchanges.get_mut(entry.exchange as usize)
            {
                *exchange = true;
            }
        }
        for (row, entry) in (0..).zip(data.entries.from(0)) {
            let is_head = entry.kind == EntryKind::Event && data.names.get(entry.method) == Some("http");
            if is_head && entry.exchange > 0 && exchanges.get(entry.exchange as usize) == Some(&true) {
                self.set(row);
            }
        }
    }
}
