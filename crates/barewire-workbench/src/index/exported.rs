//! A filter and a conversation -> the rows of an index that an exported file has.
//!
//! Files for other programs are about whole operations: a request without its response would look as if it had never
//! been answered. So an operation of which the filter selects a message is exported with all its requests and responses,
//! and with the HTTP heads around them.

use super::record::EntryKind;
use super::selection::SelectionQuery;
use super::{IndexData, IndexedCapture};
use crate::rows::Role;

/// The rows that an exported file has.
pub(crate) struct ExportedRows(Vec<bool>);

impl IndexedCapture {
    /// Returns the rows to export; `None` if all of them are.
    pub(crate) fn exported_rows(&self, query: &SelectionQuery) -> Option<ExportedRows> {
        if !query.filter.is_set() && query.conversation.is_none() {
            return None;
        }
        let selected = self.select_all(query);
        let data = self.data();
        let mut rows = ExportedRows(vec![false; data.entries.len()]);
        let mut operations = vec![false; data.operations.len() + 1];
        for row in selected {
            rows.add_message(row, &mut operations, &data);
        }
        rows.add_heads(&data);
        Some(rows)
    }
}

impl ExportedRows {
    /// Whether a row is exported.
    pub(crate) fn has(&self, row: usize) -> bool {
        self.0.get(row).copied().unwrap_or(false)
    }

    fn set(&mut self, row: u32) {
        if let Some(is_exported) = self.0.get_mut(row as usize) {
            *is_exported = true;
        }
    }

    /// Adds a row, and the requests and responses of its operation.
    fn add_message(&mut self, row: u32, operations: &mut [bool], data: &IndexData) {
        let Some(entry) = data.entries.get(row as usize) else { return };
        self.add_with_batch(row, data);
        if entry.kind == EntryKind::Batch {
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
        {
            self.set(batch);
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
