//! Lists of tools and results of calls -> whether schemas are valid, names are usable, and results match their schemas.

use std::collections::{HashMap, HashSet};

use barewire_proto::http::HeaderParams;
use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::mcp::Revision;
use barewire_proto::rpc::{Message, Params, Request};
use serde_json::Value;

use super::pages::Pages;
use super::{MessageContext, is_complete};
use crate::check::catalogue::Rule;
use crate::check::catalogue::tools::{
    NAME_CHARACTERS, NAME_LENGTH, OUTPUT_SCHEMA, TOOL_NAMES, TOOL_SCHEMAS, UNIQUE_NAMES,
};
use crate::check::excerpt::Fault;
use crate::check::ledger::{Ledger, SkipReason};
use crate::check::schema::{Schema, SchemaMismatch};
use crate::operations::{Operation, Relation, member};
use crate::text::shown;
use crate::tree::{MAX_TREE_VALUES, small_tree};

/// The tools that servers have listed, and the calls in flight.
#[derive(Default)]
pub(super) struct ToolChecks {
    /// Maps the scope of each server to its last list of tools.
    lists: HashMap<String, ToolList>,
    /// The tool names on the pages of each list so far.
    pages: Pages<HashSet<String>>,
    /// Maps operation numbers to unanswered calls of listed tools.
    calls: HashMap<u64, PendingCall>,
    compiled: CompiledSchemas,
}

/// The schemas of the tools that were called last.
#[derive(Default)]
struct CompiledSchemas {
    by_text: HashMap<Box<str>, Schema>,
    /// The total length of the texts, in bytes.
    size: usize,
}

#[derive(Default)]
struct ToolList {
    tools: HashMap<String, ListedTool>,
    /// The total length of the schemas of all tools, in bytes.
    size: usize,
}

struct ListedTool {
    /// The schemas of the arguments and of the structured result as text, if they are valid. A compiled schema takes
    /// many times this memory.
    input: Option<Box<str>>,
    output: Option<Box<str>>,
    /// The arguments that a client must repeat in headers.
    headers: HeaderParams,
    /// Whether the tool may or must run as a task.
    has_tasks: bool,
    /// The total length of the tool's schemas, in bytes.
    size: usize,
}

/// An unanswered call of a listed tool.
pub(super) struct PendingCall {
    conversation: String,
    /// Whether the arguments match the input schema of the tool.
    pub(super) is_valid: bool,
    /// Whether neither the call nor the tool uses tasks, which could explain an error.
    pub(super) is_plain: bool,
    /// Whether the client refused a request of the server during the call.
    pub(super) is_refused: bool,
}

impl ToolChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        self.pages.notice(context);
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(request)), Relation::Request { operation, .. }) => match operation.method.as_str() {
                "tools/list" => self.pages.request(context),
                "tools/call" => self.call_sent(context, operation, request),
                _ => {}
            },
            // A call may fail because the client refuses a request that the server sends during the call.
            (Ok(Message::Response(response)), Relation::Response { .. })
                if response.outcome.is_err() && !context.by_server() =>
            {
                let name = &tracked.conversation.name;
                self.calls
                    .values_mut()
                    .filter(|call| call.conversation == *name)
                    .for_each(|call| call.is_refused = true);
            }
            (Ok(Message::Response(response)), Relation::Response { operation, .. }) => {
                self.calls.remove(&operation.number);
                match (response.outcome, operation.method.as_str()) {
                    (Ok(result), "tools/list") => self.listed(context, operation, result, ledger),
                    (Ok(result), "tools/call") => self.check_output(context, operation, result, ledger),
                    (Err(_), "tools/list") => drop(self.pages.take_before(operation.number)),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Returns the unanswered call of this operation, if its tool is listed.
    pub(super) fn call(&self, operation: &Operation) -> Option<&PendingCall> {
        self.calls.get(&operation.number)
    }

    /// Returns the arguments that a client must repeat in headers when it calls this tool, if the tool is listed.
    pub(super) fn headers(&self, context: &MessageContext<'_>, name: &str) -> Option<&HeaderParams> {
        find(&self.lists, context, Some(name)).map(|tool| &tool.headers)
    }

    fn call_sent(&mut self, context: &MessageContext<'_>, operation: &Operation, request: &Request<'_>) {
        let Self { lists, compiled, .. } = self;
        let Some(tool) = find(lists, context, operation.name.as_deref()) else { return };
        let params = request.params.map(Params::json);
        let value = match member(params, "arguments") {
            None => Some(Value::Object(serde_json::Map::new())),
            Some(arguments) => small_tree(arguments),
        };
        let is_valid = value
            .filter(Value::is_object)
            .zip(tool.input.as_deref())
            .is_some_and(|(value, schema)| compiled.get(schema).is_some_and(|schema| schema.check(&value).is_ok()));
        let is_plain = !tool.has_tasks && member(params, "task").is_none();
        if self.calls.len() >= MAX_CALLS {
            self.calls.clear();
        }
        let conversation = operation.conversation.clone();
        self.calls.insert(operation.number, PendingCall { conversation, is_valid, is_plain, is_refused: false });
    }

    fn listed(&mut self, context: &MessageContext<'_>, operation: &Operation, result: Json<'_>, ledger: &mut Ledger) {
        let mut names = self.pages.take_before(operation.number).unwrap_or_default();
        let scope = context.scope();
        if self.lists.len() >= MAX_LISTS && !self.lists.contains_key(&scope) {
            self.lists.clear();
        }
        let list = self.lists.entry(scope).or_default();
        let tools = member(Some(result), "tools");
        for (index, tool) in tools.into_iter().flat_map(Json::elements).take(MAX_TOOLS).enumerate() {
            let path = |member: &str| format!("/result/tools/{index}/{member}");
            let name = member(Some(tool), "name").and_then(Text::from_json).map(Text::to_name);
            // `result-shape` reports a tool without a name.
            let Some(name) = name else { continue };
            let shown_name = shown(name.as_bytes(), 60);
            ledger.inspected(&TOOL_NAMES);
            if let Some((rule, why)) = bad_name(&name, context.revision) {
                let detail = format!("the tool name {shown_name} {why}");
                context.note(ledger, context.finding(&TOOL_NAMES, 0, detail).at(path("name")).under(rule));
            } else if names.contains(&*name) {
                let detail = format!("two tools have the name {shown_name}");
                context.note(ledger, context.finding(&TOOL_NAMES, 0, detail).at(path("name")).under(&UNIQUE_NAMES));
            }
            if names.len() < MAX_TOOLS {
                names.insert(name.clone().into_owned());
            }
            let mut schema = |which| {
                let text = member(Some(tool), which)?;
                ledger.inspected(&TOOL_SCHEMAS);
                let compiled = compile(text, which, context.revision);
                if let Err(why) = &compiled {
                    let detail = format!("{which} of {shown_name}: {}", shown(why.as_bytes(), 160));
                    context.fail_in(ledger, &TOOL_SCHEMAS, &path(which), detail);
                }
                compiled.ok().map(|_| text.as_str().into())
            };
            let (input, output) = (schema("inputSchema"), schema("outputSchema"));
            let input_text = member(Some(tool), "inputSchema");
            let headers = input_text.and_then(|text| HeaderParams::of(text).ok()).unwrap_or_default();
            let length = |which| member(Some(tool), which).map_or(0, |text| text.as_str().len());
            let size = length("inputSchema") + length("outputSchema");
            let has_tasks = member(Some(tool), "execution").is_some();
            list.insert(name.into_owned(), ListedTool { input, output, headers, has_tasks, size });
        }
        self.pages.keep(context, "tools/list", result, names);
    }

    fn check_output(
        &mut self,
        context: &MessageContext<'_>,
        operation: &Operation,
        result: Json<'_>,
        ledger: &mut Ledger,
    ) {
        let Self { lists, compiled, .. } = self;
        let tool = find(lists, context, operation.name.as_deref());
        let Some(schema) = tool.and_then(|tool| tool.output.as_deref()) else { return };
        if context.revision.is_none_or(|revision| revision < Revision::V2025_06_18) {
            return;
        }
        let is_error = member(Some(result), "isError").is_some_and(|it| it.as_str() == "true");
        if is_error || !is_complete(result) || member(Some(result), "task").is_some() {
            return;
        }
        let shown_name = shown(operation.name.as_deref().unwrap_or_default().as_bytes(), 60);
        let Some(content) = member(Some(result), "structuredContent") else {
            ledger.inspected(&OUTPUT_SCHEMA);
            let detail =
                format!("the result of {shown_name} has no structuredContent, although the tool has an outputSchema");
            context.fail_in(ledger, &OUTPUT_SCHEMA, "/result", detail);
            return;
        };
        if content.has_more_values_than(MAX_TREE_VALUES) {
            let why = format!("the result of {shown_name} has more than {MAX_TREE_VALUES} values");
            ledger.skip(&OUTPUT_SCHEMA, SkipReason::Nothing(why.into()));
            return;
        }
        ledger.inspected(&OUTPUT_SCHEMA);
        let (Ok(value), Some(schema)) = (content.to::<Value>(), compiled.get(schema)) else { return };
        if let Err(SchemaMismatch { pointer, why }) = schema.check(&value) {
            let detail = format!("the result of {shown_name}: {}", shown(why.as_bytes(), 160));
            let finding = context.finding(&OUTPUT_SCHEMA, 0, detail).at(CONTENT_PATH);
            context.note_with(ledger, finding, Fault::Member(&format!("{CONTENT_PATH}{pointer}")));
        }
    }
}

impl ToolList {
    fn insert(&mut self, name: String, tool: ListedTool) {
        if let Some(before) = self.tools.remove(&name) {
            self.size -= before.size;
        }
        if self.size + tool.size > MAX_LIST_SIZE || self.tools.len() >= MAX_TOOLS {
            *self = Self::default();
        }
        self.size += tool.size;
        self.tools.insert(name, tool);
    }
}

fn find<'a>(
    lists: &'a HashMap<String, ToolList>,
    context: &MessageContext<'_>,
    name: Option<&str>,
) -> Option<&'a ListedTool> {
    lists.get(&context.scope())?.tools.get(name?)
}

impl CompiledSchemas {
    /// Returns a schema that was valid when its tool was listed.
    fn get(&mut self, text: &str) -> Option<&Schema> {
        if !self.by_text.contains_key(text) {
            if self.size + text.len() > MAX_COMPILED_SIZE || self.by_text.len() >= MAX_COMPILED {
                *self = Self::default();
            }
            self.size += text.len();
            let schema = Schema::new(&serde_json::from_str(text).ok()?).ok()?;
            self.by_text.insert(text.into(), schema);
        }
        self.by_text.get(text)
    }
}

/// Compiles a schema, and checks that it has the required type.
fn compile(text: Json<'_>, which: &str, revision: Option<Revision>) -> Result<Schema, String> {
    if text.kind() != Kind::Object {
        return Err("it is not an object".to_owned());
    }
    if text.as_str().len() > MAX_JSON {
        return Err(format!("it is longer than {MAX_JSON} bytes"));
    }
    if text.has_more_values_than(MAX_TREE_VALUES) {
        return Err(format!("it has more than {MAX_TREE_VALUES} values"));
    }
    let schema: Value = text.to().map_err(|error| error.to_string())?;
    // Since 2026-07-28 the structured result of a tool need not be an object.
    let with_objects = Revision::V2025_06_18..=Revision::LATEST_LEGACY;
    let is_object = which == "inputSchema" || revision.is_some_and(|it| with_objects.contains(&it));
    if is_object && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its type must be object".to_owned());
    }
    Schema::new(&schema)
}

/// Returns the reason why a tool name cannot be used, if there is one. Revisions before 2025-11-25 only require that
/// the name is not empty.
fn bad_name(name: &str, revision: Option<Revision>) -> Option<(&'static Rule, &'static str)> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let has_rules = revision.is_some_and(|revision| revision >= Revision::V2025_11_25);
    match name.len() {
        0 => Some((&NAME_LENGTH, "is empty")),
        _ if !has_rules => None,
        1..=128 if name.bytes().all(plain) => None,
        1..=128 => Some((&NAME_CHARACTERS, "has characters other than letters, digits, _, - and .")),
        _ => Some((&NAME_LENGTH, "is longer than 128 characters")),
    }
}

/// The JSON Pointer of the structured result of a tool.
const CONTENT_PATH: &str = "/result/structuredContent";
/// The maximum number of servers and sessions whose lists are kept; more than any host has.
const MAX_LISTS: usize = 256;
/// The maximum number of tools that are checked in each list and kept for each server; more than a model can choose
/// from.
const MAX_TOOLS: usize = 16_384;
/// The maximum total length of the schemas that are kept for each server, in bytes.
const MAX_LIST_SIZE: usize = 1024 * 1024;
/// The maximum total length of the schemas that stay compiled, in bytes. A compiled schema takes up to some hundred
/// times the memory of its text.
const MAX_COMPILED_SIZE: usize = 64 * 1024;
/// The maximum number of these schemas. Their patterns can take 16 MiB each.
const MAX_COMPILED: usize = 16;
/// The maximum length of a schema, in bytes; far more than any model reads.
const MAX_JSON: usize = 1024 * 1024;
/// The maximum number of calls that are tracked; more than any client has in flight.
const MAX_CALLS: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiled_schemas_have_a_total_length() {
        let mut compiled = CompiledSchemas::default();
        let schema =
            |tool: usize| format!(r#"{{"type":"object","title":"{tool:05}","description":"{}"}}"#, "x".repeat(10_000));
        for tool in 0..50 {
            assert!(compiled.get(&schema(tool)).is_some());
            assert!(compiled.size <= 64 * 1024, "{}", compiled.size);
        }
        assert!(compiled.by_text.len() < 7 && compiled.by_text.contains_key(&*schema(49)));
        assert!(compiled.get(&schema(0)).is_some(), "a forgotten schema is compiled again");
    }
}
