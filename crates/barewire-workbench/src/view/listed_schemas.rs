//! A call of a tool and the tools that the server has listed before -> the members that do not match their schema.
//!
//! Arguments that do not match are no finding: a client may send them, and the server must refuse them. So they are
//! looked for when a frame is shown, and not while a capture is read.

use std::collections::{HashMap, HashSet};

use barewire_proto::json::{Json, Text};
use serde_json::Value;

use super::findings::pointer_place;
use crate::check::schema::{Schema, SchemaMismatch};
use crate::frames::FrameKind;
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

/// The messages of a frame that are about calls of tools.
#[derive(Default)]
pub(super) struct ToolMessages {
    messages: Vec<ToolMessage>,
    /// The results before the frame that list tools of the same conversation, the last first: frame and text.
    lists: Vec<(u32, Span)>,
}

/// A request that calls a tool, or its result.
struct ToolMessage {
    /// The index in the batch.
    element: Option<usize>,
    is_request: bool,
    tool: String,
}

/// A tool of which a message is, as it was listed last before the message.
struct ListedTool {
    /// The frame with the list.
    frame: u32,
    /// The schema of the arguments or of the result; `None` if it is missing or too large.
    schema: Option<Value>,
}

impl ToolMessages {
    /// Returns the messages in the rows of a frame.
    pub(super) fn of(data: &IndexData, rows: impl Iterator<Item = u32>) -> Self {
        let mut found = Self::default();
        for row in rows {
            let Some(entry) = data.entries.get(row as usize) else { continue };
            let is_request = match (entry.kind, entry.role) {
                (EntryKind::Frame(FrameKind::Request), Role::Request { .. }) => true,
                (EntryKind::Frame(FrameKind::Result), Role::Response { is_error: false, .. }) => false,
                _ => continue,
            };
            let operation = data.operation(entry.operation);
            let called = operation.filter(|it| data.names.get(it.method) == Some("tools/call"));
            let Some(tool) = called.and_then(|it| data.names.get(it.name)) else { continue };
            // All messages of a frame are of one conversation.
            if found.messages.is_empty() {
                found.lists = lists(data, entry, row);
            }
            let element = entry.element.checked_sub(1).map(usize::from);
            found.messages.push(ToolMessage { element, is_request, tool: tool.to_owned() });
        }
        found
    }

    /// Returns what does not match: in a request the arguments, in a result the structured content.
    pub(super) fn mismatches(&self, index: &IndexedCapture, frame: &[u8]) -> Vec<ListedMismatch> {
        let Ok(whole) = Json::parse(frame) else { return Vec::new() };
        // Elements come in the order of the messages, so each is looked for behind the one before it.
        let mut elements = whole.elements().enumerate();
        let mut element = |wanted| elements.find(|(at, _)| *at == wanted).map(|(_, json)| json);
        let parsed = self.messages.iter().map(|it| it.element.map_or(Some(whole), &mut element));
        let messages: Vec<_> = self.messages.iter().zip(parsed).collect();
        let mut found = Vec::new();
        for ((name, is_request), tool) in self.listed(index) {
            // One schema is compiled at a time, because each can take megabytes.
            let Some(schema) = tool.schema.and_then(|schema| Schema::new(&schema).ok()) else { continue };
            for (message, json) in messages.iter().filter(|(it, _)| it.tool == name && it.is_request == is_request) {
                found.extend(json.and_then(|json| message.mismatch(json, &schema, tool.frame, frame)));
            }
        }
        found.sort_by_key(|it| it.at);
        found
    }

    /// Returns the tools of all messages. Each list is read once, whatever the number of messages.
    fn listed(&self, index: &IndexedCapture) -> HashMap<(&str, bool), ListedTool> {
        let mut listed = HashMap::new();
        let mut room = MAX_SCHEMAS;
        for (frame, text) in &self.lists {
            // The names of the tools that are not found yet; of requests and of results.
            let missing = [false, true].map(|is_request| -> HashSet<&str> {
                let messages = self.messages.iter().filter(|it| it.is_request == is_request);
                let names = messages.map(|it| it.tool.as_str());
                names.filter(|name| !listed.contains_key(&(*name, is_request))).collect()
            });
            if missing.iter().all(HashSet::is_empty) {
                break;
            }
            let text = index.spool().whole(*text);
            let Ok(list) = Json::parse(&text) else { continue };
            let Some(tools) = member(list.member("result"), "tools") else { continue };
            for tool in tools.elements() {
                let Some(name) = tool.member("name").and_then(Text::from_json).map(Text::to_name) else { continue };
                for (is_request, which) in [(false, "outputSchema"), (true, "inputSchema")] {
                    // Of tools with the same name, the first one counts.
                    let Some(name) = missing[usize::from(is_request)].get(&*name) else { continue };
                    listed.entry((*name, is_request)).or_insert_with(|| {
                        let schema = tool.member(which).filter(|it| it.as_str().len() <= MAX_SCHEMA.min(room));
                        room -= schema.map_or(0, |schema| schema.as_str().len());
                        ListedTool { frame: *frame, schema: schema.and_then(small_tree) }
                    });
                }
            }
        }
        listed
    }
}

impl ToolMessage {
    /// Compares the message with a schema that is in the frame `listed_in`.
    fn mismatch(&self, message: Json<'_>, schema: &Schema, listed_in: u32, frame: &[u8]) -> Option<ListedMismatch> {
        let (which, name, outer) = match self.is_request {
            true => ("inputSchema", "arguments", "params"),
            false => ("outputSchema", "structuredContent", "result"),
        };
        let value = match (message.member(outer)?.member(name), self.is_request) {
            (Some(value), _) => small_tree(value)?,
            (None, true) => Value::Object(serde_json::Map::new()),
            // `output-schema` reports that it is missing.
            (None, false) => return None,
        };
        let SchemaMismatch { pointer, why } = schema.check(&value).err()?;
        // A secret that was replaced may have matched.
        if value.pointer(&pointer).is_some_and(|value| value.to_string().contains("<redacted")) {
            return None;
        }
        let element = self.element.map_or_else(String::new, |index| format!("/{index}"));
        let path = format!("{element}/{outer}/{name}{pointer}");
        let (tool_name, why) = (shown(self.tool.as_bytes(), MAX_NAME), shown(why.as_bytes(), MAX_REASON));
        let message = format!("does not match the {which} of {tool_name} in frame {listed_in}: {why}");
        Some(ListedMismatch { at: pointer_place(frame, &path), path, message })
    }
}

/// Returns the lists of tools before a row, the last first.
fn lists(data: &IndexData, entry: &EntryRecord, row: u32) -> Vec<(u32, Span)> {
    let before = data.tool_lists.partition_point(|list| *list < row);
    let lists = data.tool_lists[..before].iter().rev().filter_map(|list| data.entries.get(*list as usize));
    let of_conversation = lists.filter(|list| list.conversation == entry.conversation && list.text.is_kept());
    let mut room = MAX_LISTS_LENGTH;
    let has_room = |list: &&EntryRecord| match room.checked_sub(list.text.length) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    };
    of_conversation.take(MAX_LISTS).take_while(has_room).map(|it| (it.frame, it.text)).collect()
}

/// The maximum number of lists in which a tool is looked for: more pages than any server has.
const MAX_LISTS: usize = 64;
/// The maximum length of these lists together, in bytes.
const MAX_LISTS_LENGTH: u32 = 8 * 1024 * 1024;
/// The maximum length of a schema, in bytes. A compiled schema takes up to some hundred times the memory of its text.
const MAX_SCHEMA: usize = 64 * 1024;
/// The maximum length of the schemas of all messages in a frame together.
const MAX_SCHEMAS: usize = 256 * 1024;
/// The maximum width of the name of a tool, and of a reason.
const MAX_NAME: usize = 60;
const MAX_REASON: usize = 300;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::index::tests::indexed;

    /// Returns what does not match in a frame.
    fn mismatches(index: &IndexedCapture, frame: u64) -> Vec<String> {
        let text = index.frame_text(frame).expect("a text");
        let tools = {
            let data = index.data();
            let row = data.frame(frame).expect("a row");
            ToolMessages::of(&data, row..=row + u32::from(data.entries[row as usize].elements))
        };
        tools.mismatches(index, &text).into_iter().map(|it| format!("{} {}", it.path, it.message)).collect()
    }

    fn call(id: usize, tool: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"a":1}}}}}}"#
        )
    }

    fn listed(id: usize, tools: &str) -> String {
        format!(
            "> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}\n\
             < {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[{tools}]}}}}\n"
        )
    }

    /// Each call of a batch looks for its tool in all lists, which can be long.
    #[test]
    fn long_lists_are_not_read_for_every_call_of_a_batch() {
        let long = format!(r#"{{"name":"other","description":"{}"}}"#, "x".repeat(50_000));
        let tools = vec![long.as_str(); 20].join(",");
        let lists: String = (0..16).map(|id| listed(id, &tools)).collect();
        let calls: Vec<String> = (100..300).map(|id| call(id, &format!("unknown{id}"))).collect();
        let index = indexed(&format!("wire 1\n{lists}> [{}]\n", calls.join(",")));
        let begin = Instant::now();
        assert_eq!(mismatches(&index, 33), Vec::<String>::new());
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(180), "{took:?}");
    }

    /// Schemas that take long to compile or to check, if nothing stopped them.
    #[test]
    fn a_hostile_schema_takes_no_time() {
        let doubling: String = (0..60)
            .map(|level| {
                format!(
                    r##""d{level}":{{"allOf":[{{"$ref":"#/$defs/d{}"}},{{"$ref":"#/$defs/d{}"}}]}},"##,
                    level + 1,
                    level + 1
                )
            })
            .collect();
        let patterns: String =
            (0..700).map(|at| format!(r#""p{at}":{{"pattern":"(a{{1,{}}}){{1,100}}$"}},"#, 900 - at)).collect();
        let deep = format!("{}true{}", r#"{"not":"#.repeat(5000), "}".repeat(5000));
        for schema in [
            format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{doubling}"d60":{{"required":["b"]}}}}}}"##),
            format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{doubling}"d60":{{"required":["a"]}}}}}}"##),
            r##"{"$ref":"#"}"##.to_owned(),
            format!(r#"{{"properties":{{{patterns}"a":{{"type":"string"}}}}}}"#),
            deep,
        ] {
            let tool = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
            let index = indexed(&format!("wire 1\n{}> {}\n", listed(1, &tool), call(2, "t")));
            let begin = Instant::now();
            let found = mismatches(&index, 3);
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(180), "{took:?} {:.80}", schema);
            assert!(found.len() < 2, "{found:?}");
        }
    }
}
