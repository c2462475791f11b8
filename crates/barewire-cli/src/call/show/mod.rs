//! The outcome of an MCP call -> stdout, as text or JSON, and the exit code.

mod content;
mod lists;
mod server;

use std::io;

use barewire::peer::Raw;
use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{
    CallToolResult, CompleteResult, Content, DiscoverResult, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Prompt, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, Tool, code,
};
use barewire_proto::rpc::ErrorObject;
use barewire_workbench::tree::{self, check_list};
use serde::de::DeserializeOwned;

use super::Args;
use super::answer::{Printer, ResultFormat, error_json};
use super::mcp::CallOutcome;
use super::pretty::Indented;
use crate::ask::list::items;
use crate::ask::no_answer::NoAnswer;
use crate::ask::request::{PreparedRequest, no_such};
use crate::failure::report;
use crate::output::{Output, SafeJson, safe_json, shown};
use crate::{Exit, Failure};

/// The form of a result, which its method decides. The result stays text, and the items of its list are read one by
/// one: all of them together could take many times the memory of their text.
#[derive(Clone, Copy)]
enum ResultForm {
    Tools,
    Resources,
    Templates,
    Prompts,
    ToolCall,
    Contents,
    Messages,
    Completion,
    Server,
    Other,
}

impl ResultForm {
    fn of(method: &str) -> Self {
        match method {
            "tools/list" => Self::Tools,
            "resources/list" => Self::Resources,
            "resources/templates/list" => Self::Templates,
            "prompts/list" => Self::Prompts,
            "tools/call" => Self::ToolCall,
            "resources/read" => Self::Contents,
            "prompts/get" => Self::Messages,
            "completion/complete" => Self::Completion,
            "server/discover" => Self::Server,
            _ => Self::Other,
        }
    }

    /// Checks that the result has the members that its method requires.
    fn check(self, result: &Raw) -> Result<(), serde_json::Error> {
        let Some(json) = json(result) else { return result.to() };
        match self {
            Self::Tools => check_list::<ListToolsResult, Tool>(json, "tools"),
            Self::Resources => check_list::<ListResourcesResult, Resource>(json, "resources"),
            Self::Templates => check_list::<ListResourceTemplatesResult, ResourceTemplate>(json, "resourceTemplates"),
            Self::Prompts => check_list::<ListPromptsResult, Prompt>(json, "prompts"),
            Self::ToolCall => check_list::<CallToolResult, Content>(json, "content"),
            Self::Contents => check_list::<ReadResourceResult, ResourceContents>(json, "contents"),
            Self::Messages => check_list::<GetPromptResult, PromptMessage>(json, "messages"),
            Self::Completion => tree::check::<CompleteResult>(json),
            Self::Server => tree::check::<DiscoverResult>(json),
            Self::Other => Ok(()),
        }
    }

    /// For a list whose items can be selected by name: its member, the word for an item, and the member with the name.
    fn list(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::Tools => Some(("tools", "tool", "name")),
            Self::Prompts => Some(("prompts", "prompt", "name")),
            Self::Resources => Some(("resources", "resource", "uri")),
            Self::Templates => Some(("resourceTemplates", "template", "uriTemplate")),
            _ => None,
        }
    }

    /// Checks that the list has items with all of these names.
    fn check_names(self, result: &Raw, wanted: &[String]) -> Result<(), NoAnswer> {
        let Some((list, what, key)) = self.list().filter(|_| !wanted.is_empty()) else { return Ok(()) };
        let existing: Vec<_> = items(result, list).filter_map(|item| item.member(key)?.string()).collect();
        let existing: Vec<&str> = existing.iter().map(|name| &**name).collect();
        match wanted.iter().find(|wanted| !existing.contains(&wanted.as_str())) {
            Some(missing) => Err(no_such(what, missing, &existing)),
            None => Ok(()),
        }
    }
}

fn json(result: &Raw) -> Option<Json<'_>> {
    Json::parse(result.as_str()?.as_bytes()).ok()
}

/// Prints the outcome and flushes stdout. Failures are also reported on stderr.
pub(super) fn print(
    printer: &mut Printer<'_>,
    args: &Args,
    outcome: Result<CallOutcome, NoAnswer>,
) -> Result<Exit, Failure> {
    let is_json = printer.format == ResultFormat::Json;
    match outcome {
        Ok(CallOutcome::Result { request, result }) => {
            let form = ResultForm::of(&request.method);
            if let Err(error) = form.check(&result) {
                if !is_json {
                    print_indented(printer.output, &result)?;
                }
                return printer.no_answer(NoAnswer::bad_result(&request.method, &error), Some(&result));
            }
            match form.check_names(&result, &request.names) {
                Ok(()) => print_result(printer, args, &request, &result, form),
                Err(no_answer) => printer.no_answer(no_answer, None),
            }
        }
        Ok(CallOutcome::Refused { error, hint }) => {
            if is_json {
                printer.json("error", &error_json(&error))?;
            }
            printer.output.flush()?;
            report(&refused(&error, hint));
            Ok(Exit::No)
        }
        Ok(CallOutcome::Sent) => {
            if is_json {
                printer.json("sent", "true")?;
            }
            printer.output.flush()?;
            Ok(Exit::Clean)
        }
        Ok(CallOutcome::Detached { id }) => {
            match printer.format {
                ResultFormat::Plain => writeln!(printer.output, "{}", shown(id.as_bytes(), MAX_TASK_ID))?,
                ResultFormat::Pretty | ResultFormat::Json => {
                    printer.json("task", &serde_json::json!({ "taskId": id }).to_string())?;
                }
            }
            printer.output.flush()?;
            Ok(Exit::Clean)
        }
        Err(no_answer) => printer.no_answer(no_answer, None),
    }
}

fn print_result(
    printer: &mut Printer<'_>,
    args: &Args,
    request: &PreparedRequest,
    result: &Raw,
    form: ResultForm,
) -> Result<Exit, Failure> {
    match printer.format {
        ResultFormat::Plain => print_text(printer, args, request, result, form)?,
        _ => printer.json("result", result.as_str().unwrap_or("null"))?,
    }
    printer.output.flush()?;
    let is_error = json(result).and_then(|result| result.member("isError")).is_some_and(|it| it.kind() == Kind::True);
    if matches!(form, ResultForm::ToolCall) && is_error {
        report(&Failure::new("the tool failed (isError)"));
        return Ok(Exit::No);
    }
    Ok(Exit::Clean)
}

fn print_text(
    printer: &mut Printer<'_>,
    args: &Args,
    request: &PreparedRequest,
    result: &Raw,
    form: ResultForm,
) -> Result<(), Failure> {
    let (output, folder, names) = (&mut *printer.output, args.save.as_deref(), &request.names);
    let in_full = !names.is_empty();
    let is_wanted = |item: &Json<'_>, key: &str| {
        names.is_empty()
            || item.member(key).and_then(Json::string).is_some_and(|it| names.iter().any(|name| *name == it))
    };
    let (member, _, key) = form.list().unwrap_or_default();
    let selected = || items(result, member).filter(|item| is_wanted(item, key));
    match (form, json(result)) {
        (ResultForm::Tools, _) => lists::tools(output, selected, in_full)?,
        (ResultForm::Prompts, _) => lists::prompts(output, selected, in_full)?,
        (ResultForm::Resources, _) => lists::resources(output, selected(), in_full)?,
        (ResultForm::Templates, _) => lists::templates(output, selected(), in_full)?,
        (ResultForm::ToolCall, Some(result)) => content::tool_result(output, result, folder)?,
        (ResultForm::Contents, _) => content::resource(output, || items(result, "contents"), folder)?,
        (ResultForm::Messages, _) => content::messages(output, items(result, "messages"), folder)?,
        (ResultForm::Completion, Some(result)) => server::completion(output, result)?,
        (ResultForm::Server, Some(found)) => match tree::read(found).ok().flatten() {
            Some(found) => server::discovered(output, &found, printer.server)?,
            None => print_indented(output, result)?,
        },
        _ => print_indented(output, result)?,
    }
    let cursor =
        json(result).filter(|_| form.list().is_some()).and_then(|result| result.member("nextCursor")?.string());
    if let Some(cursor) = cursor {
        let cursor = shown(cursor.as_bytes(), MAX_TEXT);
        writeln!(output, "there is more: {} cursor={cursor}", request.method)?;
    }
    Ok(())
}

/// Reads an item of a list that was already checked. An item with too many values is printed as it is.
fn read_item<T: DeserializeOwned>(output: &mut Output, item: Json<'_>) -> io::Result<Option<T>> {
    let read = tree::read(item).ok().flatten();
    if read.is_none() {
        writeln!(output, "{}", SafeJson(item.as_str()))?;
    }
    Ok(read)
}

fn print_indented(output: &mut Output, result: &Raw) -> io::Result<()> {
    writeln!(output, "{}", Indented::new(result.as_str().unwrap_or("null"), 0))
}

/// Returns the failure for an error response: its message, code, the name of the code, and its data.
fn refused(error: &ErrorObject, hint: Option<String>) -> Failure {
    let ErrorObject { code, message, data } = error;
    let name = code.message().or_else(|| code::find(*code).map(|known| known.message));
    let name = name.filter(|name| !message.starts_with(name));
    let name = name.map_or(String::new(), |name| format!(", {name}"));
    let mut what = format!("the response is an error: {} ({code}{name})", shown(message.as_bytes(), MAX_TEXT));
    if let Some(data) = data {
        // Only what is shown is escaped: escaping can make the text six times as long.
        let end = data.get().char_indices().nth(MAX_TEXT + 1).map_or(data.get().len(), |(end, _)| end);
        what = format!("{what}\n  data: {}", shown(safe_json(&data.get()[..end]).as_bytes(), MAX_TEXT));
    }
    Failure::new(what).with_hint(hint.unwrap_or_else(|| format!("barewire explain {code}")))
}

/// The maximum number of characters of a message, its data or a cursor to show. `--json` prints all of it.
const MAX_TEXT: usize = 500;

/// The maximum number of characters of a task's id on stdout. Ids of servers have about 40; `--json` prints any id.
const MAX_TASK_ID: usize = 4096;
