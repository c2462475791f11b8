//! A call of a tool and the tools that the server has listed before -> the members that do not match their schema.
//!
//! Arguments that do not match are no finding: a client may send them, and the server must refuse them. So they are
//! looked for when a frame is shown, and not while a capture is read.

use barewire_proto::json::{Json, Text};
use serde_json::Value;

use super::findings::pointer_place;
use crate::check::schema::{Schema, SchemaMismatch};
use crate::index::{EntryKind, EntryRecord, IndexData, IndexedCapture, Span};
use crate::operations::member;
use crate::rows::Role;
use crate::text::shown;
use crate::tree::small_tree;

/// A member that does not match the schema of its tool.
pub(super) struct ListedMismatch {
    /// The JSON Pointer of the member in its frame.
    pub(super) path: String,
    /// The offset of the member.
    pub(super) at: usize,
    pub(super) message: String,
}

/// A request that calls a tool, or its result.
pub(super) struct ToolMessage {
    /// The JSON Pointer of the message in its frame: empty, or the index in the batch.
    path: String,
    is_request: bool,
    tool: String,
    /// The results before the message that list tools of the same conversation, the last first: frame and text.
    lists: Vec<(u32, Span)>,
}

impl ToolMessage {
    /// Returns the messages in the rows of a frame that are about calls of tools.
    pub(super) fn of(data: &IndexData, rows: impl Iterator<Item = u32>) -> Vec<Self> {
        let message = |row: u32| {
            let entry = data.entries.get(row as usize)?;
            let operation = data.operation(entry.operation)?;
            let is_request = match (entry.kind, entry.role) {
                (EntryKind::Request, Role::Request { .. }) => true,
                (EntryKind::Result, Role::Response { is_error: false, .. }) => false,
                _ => return None,
            };
            if data.names.get(operation.method) != Some("tools/call") {
                return None;
            }
            let path = entry.element.checked_sub(1).map_or_else(String::new, |index| format!("/{index}"));
            let tool = data.names.get(operation.name)?.to_owned();
            Some(Self { path, is_request, tool, lists: lists(data, entry, row) })
        };
        rows.filter_map(message).collect()
    }

    /// Returns what does not match: in a request the arguments, in a result the structured content.
    pub(super) fn mismatch(&self, index: &IndexedCapture, frame: &[u8]) -> Option<ListedMismatch> {
        let (which, name, outer) = match self.is_request {
            true => ("inputSchema", "arguments", "params"),
            false => ("outputSchema", "structuredContent", "result"),
        };
        let message = Json::parse(frame).ok()?;
        let message = match self.path.strip_prefix('/') {
            Some(index) => message.elements().nth(index.parse().ok()?)?,
            None => message,
        };
        let outer_value = message.member(outer)?;
        let value = match (outer_value.member(name), self.is_request) {
            (Some(value), _) => small_tree(value)?,
            (None, true) => Value::Object(serde_json::Map::new()),
            // `output-schema` reports that it is missing.
            (None, false) => return None,
        };
        let (listed_in, schema) = self.lists.iter().find_map(|(frame, text)| {
            let text = index.spool().whole(*text);
            Some((*frame, schema_of(&text, &self.tool, which)?))
        })?;
        let SchemaMismatch { pointer, why } = Schema::new(&schema?).ok()?.check(&value).err()?;
        // A secret that was replaced may have matched.
        if value.pointer(&pointer).is_some_and(|value| value.to_string().contains("<redacted")) {
            return None;
        }
        let path = format!("{}/{outer}/{name}{pointer}", self.path);
        let tool = shown(self.tool.as_bytes(), MAX_NAME);
        let why = shown(why.as_bytes(), MAX_REASON);
        let message = format!("does not match the {which} of {tool} in frame {listed_in}: {why}");
        Some(ListedMismatch { at: pointer_place(frame, &path), path, message })
    }
}

/// Returns the lists of tools before a row, the last first.
fn lists(data: &IndexData, entry: &EntryRecord, row: u32) -> Vec<(u32, Span)> {
    let before = data.tool_lists.partition_point(|list| *list < row);
    let lists = data.tool_lists[..before].iter().rev().filter_map(|list| data.entries.get(*list as usize));
    let of_conversation = lists.filter(|list| list.conversation == entry.conversation && list.text.is_kept());
    of_conversation.take(MAX_LISTS).filter(|list| list.text.length <= MAX_LIST).map(|it| (it.frame, it.text)).collect()
}

/// Returns a schema of a tool in a list of tools; `Some(None)` if the tool has no usable schema, and `None` if the list
/// does not have the tool.
fn schema_of(list: &[u8], tool: &str, which: &str) -> Option<Option<Value>> {
    let list = Json::parse(list).ok()?;
    let tools = member(list.member("result"), "tools")?;
    let is_named = |it: &Json<'_>| it.member("name").and_then(Text::from_json).is_some_and(|name| name == tool);
    let found = tools.elements().find(is_named)?;
    Some(found.member(which).filter(|schema| schema.as_str().len() <= MAX_SCHEMA).and_then(small_tree))
}

/// The maximum number of lists in which a tool is looked for: more pages than any server has.
const MAX_LISTS: usize = 64;
/// The maximum length of a list of tools, in bytes, and of a schema.
const MAX_LIST: u32 = 8 * 1024 * 1024;
const MAX_SCHEMA: usize = 1024 * 1024;
/// The maximum width of the name of a tool, and of a reason.
const MAX_NAME: usize = 60;
const MAX_REASON: usize = 300;
