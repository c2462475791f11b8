//! Lists of tools and results of calls -> whether schemas are schemas, names can be used, and results are what was promised.

use std::collections::{HashMap, HashSet};

use barewire_proto::http::HeaderParams;
use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::mcp::Revision;
use barewire_proto::rpc::{Message, Params, Request};
use serde_json::Value;

use super::pages::Pages;
use super::{MessageContext, is_complete};
use crate::check::catalogue::tools::{OUTPUT_SCHEMA, TOOL_NAMES, TOOL_SCHEMAS};
use crate::check::ledger::Ledger;
use crate::check::schema::Schema;
use crate::operations::{Operation, Relation, member};
use crate::text::shown;

/// What was said of tools.
#[derive(Default)]
pub(super) struct ToolChecks {
    /// The last that was said of each, by where it holds.
    known: HashMap<String, ToolList>,
    /// The names on the pages of a list.
    pages: Pages<HashSet<String>>,
    /// Calls of known tools that are not answered yet, by the number of their operation.
    calls: HashMap<u64, PendingCall>,
}

#[derive(Default)]
struct ToolList {
    tools: HashMap<String, ListedTool>,
    /// The bytes of the schemas that are kept.
    kept: usize,
}

/// A tool of a list.
struct ListedTool {
    input: Option<Schema>,
    output: Option<Schema>,
    /// What a client has to repeat in headers.
    headers: HeaderParams,
    /// It may run as a task, or has to.
    has_tasks: bool,
    /// The bytes of its schemas.
    size: usize,
}

/// A call of a tool that is listed.
pub(super) struct PendingCall {
    conversation: String,
    /// Its arguments are what the schema says.
    pub(super) is_valid: bool,
    /// That it is a task, or is none, cannot be what is wrong with it.
    pub(super) is_plain: bool,
    /// The client has refused something that was asked of it while the call was in flight.
    pub(super) is_refused: bool,
}

impl ToolChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(request)), Relation::Request { operation, .. }) => match operation.method.as_str() {
                "tools/list" => self.pages.asked(context),
                "tools/call" => self.asked(context, operation, request),
                _ => {}
            },
            // What the client does not do for a call may be all that is wrong with it.
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
                    (Ok(result), "tools/list") => self.list(context, operation, result, ledger),
                    (Ok(result), "tools/call") => self.called(context, operation, result, ledger),
                    (Err(_), "tools/list") => drop(self.pages.before(operation.number)),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// What is known of a call that is not answered yet.
    pub(super) fn call(&self, operation: &Operation) -> Option<&PendingCall> {
        self.calls.get(&operation.number)
    }

    /// The headers that repeat arguments of a tool, if it is known.
    pub(super) fn headers(&self, context: &MessageContext<'_>, name: &str) -> Option<&HeaderParams> {
        self.find(context, Some(name)).map(|tool| &tool.headers)
    }

    fn find(&self, context: &MessageContext<'_>, name: Option<&str>) -> Option<&ListedTool> {
        self.known.get(&context.scope())?.tools.get(name?)
    }

    fn asked(&mut self, context: &MessageContext<'_>, operation: &Operation, request: &Request<'_>) {
        let Some(tool) = self.find(context, operation.name.as_deref()) else { return };
        let params = request.params.map(Params::json);
        let arguments = member(params, "arguments");
        let value = match arguments {
            None => Some(Value::Object(serde_json::Map::new())),
            Some(it) if it.as_str().len() <= LONGEST => it.to().ok(),
            Some(_) => None,
        };
        let is_valid = value.is_some_and(|value| {
            value.is_object() && tool.input.as_ref().is_some_and(|schema| schema.check(&value).is_ok())
        });
        let is_plain = !tool.has_tasks && member(params, "task").is_none();
        if self.calls.len() >= MOST_CALLS {
            self.calls.clear();
        }
        let conversation = operation.conversation.clone();
        self.calls.insert(operation.number, PendingCall { conversation, is_valid, is_plain, is_refused: false });
    }

    fn list(&mut self, context: &MessageContext<'_>, operation: &Operation, result: Json<'_>, ledger: &mut Ledger) {
        let mut names = self.pages.before(operation.number).unwrap_or_default();
        let scope = context.scope();
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&scope) {
            self.known.clear();
        }
        let known = self.known.entry(scope).or_default();
        let tools = member(Some(result), "tools");
        for (index, tool) in tools.into_iter().flat_map(Json::elements).enumerate() {
            let path = |member: &str| format!("/result/tools/{index}/{member}");
            let name = member(Some(tool), "name").and_then(Text::from_json).map(Text::to_name);
            // One without a name is told as a result of the wrong shape.
            let Some(name) = name else { continue };
            let shown_name = shown(name.as_bytes(), 60);
            ledger.inspected(&TOOL_NAMES);
            if let Some(why) = bad_name(&name, context.revision) {
                context.fail_in(ledger, &TOOL_NAMES, &path("name"), format!("{shown_name} {why}"));
            } else if names.contains(&*name) {
                let detail = format!("{shown_name} is the name of two tools");
                context.fail_in(ledger, &TOOL_NAMES, &path("name"), detail);
            }
            if names.len() < MOST_TOOLS {
                names.insert(name.clone().into_owned());
            }
            let mut schema = |which| {
                let text = member(Some(tool), which)?;
                ledger.inspected(&TOOL_SCHEMAS);
                let judged = judge(text, which, context.revision);
                if let Err(why) = &judged {
                    let detail = format!("{which} of {shown_name}: {}", shown(why.as_bytes(), 160));
                    context.fail_in(ledger, &TOOL_SCHEMAS, &path(which), detail);
                }
                judged.ok()
            };
            let (input, output) = (schema("inputSchema"), schema("outputSchema"));
            let input_text = member(Some(tool), "inputSchema");
            let headers = input_text.and_then(|text| HeaderParams::of(text).ok()).unwrap_or_default();
            let length = |which| member(Some(tool), which).map_or(0, |text| text.as_str().len());
            let size = length("inputSchema") + length("outputSchema");
            let has_tasks = member(Some(tool), "execution").is_some();
            known.keep(name.into_owned(), ListedTool { input, output, headers, has_tasks, size });
        }
        self.pages.keep(context, "tools/list", result, names);
    }

    fn called(&mut self, context: &MessageContext<'_>, operation: &Operation, result: Json<'_>, ledger: &mut Ledger) {
        let tool = self.find(context, operation.name.as_deref());
        let Some(schema) = tool.and_then(|tool| tool.output.as_ref()) else { return };
        if context.revision.is_none_or(|revision| revision < Revision::V2025_06_18) {
            return;
        }
        let is_error = member(Some(result), "isError").is_some_and(|it| it.as_str() == "true");
        if is_error || !is_complete(result) || member(Some(result), "task").is_some() {
            return;
        }
        ledger.inspected(&OUTPUT_SCHEMA);
        let shown_name = shown(operation.name.as_deref().unwrap_or_default().as_bytes(), 60);
        let Some(content) = member(Some(result), "structuredContent") else {
            let detail = format!("the result of {shown_name} has no structuredContent");
            context.fail_in(ledger, &OUTPUT_SCHEMA, "/result", detail);
            return;
        };
        let Ok(value) = content.to::<Value>() else { return };
        if let Err(why) = schema.check(&value) {
            let detail = format!("the result of {shown_name}: {}", shown(why.as_bytes(), 160));
            context.fail_in(ledger, &OUTPUT_SCHEMA, "/result/structuredContent", detail);
        }
    }
}

impl ToolList {
    fn keep(&mut self, name: String, tool: ListedTool) {
        if let Some(before) = self.tools.remove(&name) {
            self.kept -= before.size;
        }
        if self.kept + tool.size > MOST_KEPT || self.tools.len() >= MOST_TOOLS {
            *self = Self::default();
        }
        self.kept += tool.size;
        self.tools.insert(name, tool);
    }
}

/// Whether it is a schema, and of the type that it has to be.
fn judge(text: Json<'_>, which: &str, revision: Option<Revision>) -> Result<Schema, String> {
    if text.kind() != Kind::Object {
        return Err("it is no object".to_owned());
    }
    if text.as_str().len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes"));
    }
    let schema: Value = text.to().map_err(|error| error.to_string())?;
    // Since 2026-07-28 a tool may give back anything.
    let with_objects = Revision::V2025_06_18..=Revision::LATEST_LEGACY;
    let is_object = which == "inputSchema" || revision.is_some_and(|it| with_objects.contains(&it));
    if is_object && schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its type is not object".to_owned());
    }
    Schema::new(&schema)
}

/// Earlier revisions say only that a name is there, and which tool it is.
fn bad_name(name: &str, revision: Option<Revision>) -> Option<&'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let has_rules = revision.is_some_and(|revision| revision >= Revision::V2025_11_25);
    match name.len() {
        0 => Some("is empty"),
        _ if !has_rules => None,
        1..=128 if name.bytes().all(plain) => None,
        1..=128 => Some("has characters other than letters, digits, _, - and ."),
        _ => Some("is longer than 128 characters"),
    }
}

/// More servers and sessions than a host has.
const MOST_KNOWN: usize = 256;
/// More tools than a model chooses among.
const MOST_TOOLS: usize = 16_384;
/// The schemas of a server, all together.
const MOST_KEPT: usize = 1024 * 1024;
/// Far longer than any schema that is handed to a model, and any arguments that it makes.
const LONGEST: usize = 1024 * 1024;
/// More than any client has in flight.
const MOST_CALLS: usize = 65_536;
