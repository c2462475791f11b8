//! The outcome of an MCP call -> stdout, as text or JSON, and the exit code.

mod content;
mod lists;
mod server;

use std::io;

use barewire::peer::Raw;
use barewire_proto::mcp::{
    CallToolResult, CompleteResult, DiscoverResult, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, ReadResourceResult, code,
};
use barewire_proto::rpc::ErrorObject;

use super::Args;
use super::answer::{Printer, ResultFormat, error_json};
use super::mcp::CallOutcome;
use super::pretty::indented;
use crate::ask::no_answer::NoAnswer;
use crate::ask::request::{PreparedRequest, no_such};
use crate::failure::report;
use crate::output::{Output, safe_json, shown};
use crate::{Exit, Failure};

/// A result, parsed according to its method.
enum TypedResult {
    Tools(ListToolsResult),
    Resources(ListResourcesResult),
    Templates(ListResourceTemplatesResult),
    Prompts(ListPromptsResult),
    ToolCall(CallToolResult),
    Contents(ReadResourceResult),
    Messages(GetPromptResult),
    Completion(CompleteResult),
    Server(DiscoverResult),
    Other,
}

impl TypedResult {
    fn of(method: &str, result: &Raw) -> Result<Self, serde_json::Error> {
        Ok(match method {
            "tools/list" => Self::Tools(result.to()?),
            "resources/list" => Self::Resources(result.to()?),
            "resources/templates/list" => Self::Templates(result.to()?),
            "prompts/list" => Self::Prompts(result.to()?),
            "tools/call" => Self::ToolCall(result.to()?),
            "resources/read" => Self::Contents(result.to()?),
            "prompts/get" => Self::Messages(result.to()?),
            "completion/complete" => Self::Completion(result.to()?),
            "server/discover" => Self::Server(result.to()?),
            _ => Self::Other,
        })
    }

    /// Keeps only the list items with these names. Fails if one of the names does not exist.
    fn keep(&mut self, names: &[String]) -> Result<(), NoAnswer> {
        fn only<T>(what: &str, items: &mut Vec<T>, name: fn(&T) -> &str, wanted: &[String]) -> Result<(), NoAnswer> {
            let existing: Vec<&str> = items.iter().map(name).collect();
            if let Some(missing) = wanted.iter().find(|wanted| !existing.contains(&wanted.as_str())) {
                return Err(no_such(what, missing, &existing));
            }
            items.retain(|item| wanted.iter().any(|wanted| wanted == name(item)));
            Ok(())
        }
        match self {
            _ if names.is_empty() => Ok(()),
            Self::Tools(list) => only("tool", &mut list.tools, |it| &it.name, names),
            Self::Prompts(list) => only("prompt", &mut list.prompts, |it| &it.name, names),
            Self::Resources(list) => only("resource", &mut list.resources, |it| &it.uri, names),
            Self::Templates(list) => only("template", &mut list.resource_templates, |it| &it.uri_template, names),
            _ => Ok(()),
        }
    }
}

/// Prints the outcome and flushes stdout. Failures are also reported on stderr.
pub(super) fn print(
    printer: &mut Printer<'_>,
    args: &Args,
    outcome: Result<CallOutcome, NoAnswer>,
) -> Result<Exit, Failure> {
    let is_json = printer.format == ResultFormat::Json;
    match outcome {
        Ok(CallOutcome::Result { request, result }) => match TypedResult::of(&request.method, &result) {
            Ok(mut typed) => match typed.keep(&request.names) {
                Ok(()) => print_result(printer, args, &request, &result, &typed),
                Err(no_answer) => printer.no_answer(no_answer, None),
            },
            Err(error) => {
                if !is_json {
                    writeln!(printer.output, "{}", indented(&safe_json(&result.to_string())))?;
                }
                printer.no_answer(NoAnswer::bad_result(&request.method, &error), Some(&result))
            }
        },
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
        Err(no_answer) => printer.no_answer(no_answer, None),
    }
}

fn print_result(
    printer: &mut Printer<'_>,
    args: &Args,
    request: &PreparedRequest,
    result: &Raw,
    typed: &TypedResult,
) -> Result<Exit, Failure> {
    match printer.format {
        ResultFormat::Plain => print_text(printer, args, request, result, typed)?,
        _ => printer.json("result", &result.to_string())?,
    }
    printer.output.flush()?;
    if let TypedResult::ToolCall(CallToolResult { is_error: true, .. }) = typed {
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
    typed: &TypedResult,
) -> Result<(), Failure> {
    let (output, folder, in_full) = (&mut *printer.output, args.save.as_deref(), !request.names.is_empty());
    match typed {
        TypedResult::Tools(list) => lists::tools(output, &list.tools, in_full)?,
        TypedResult::Prompts(list) => lists::prompts(output, &list.prompts, in_full)?,
        TypedResult::Resources(list) => lists::resources(output, &list.resources, in_full)?,
        TypedResult::Templates(list) => lists::templates(output, &list.resource_templates, in_full)?,
        TypedResult::ToolCall(result) => content::tool_result(output, result, folder)?,
        TypedResult::Contents(result) => content::resource(output, &result.contents, folder)?,
        TypedResult::Messages(messages) => content::messages(output, messages, folder)?,
        TypedResult::Completion(completion) => server::completion(output, completion)?,
        TypedResult::Server(discovered) => server::discovered(output, discovered, printer.server)?,
        TypedResult::Other => writeln!(output, "{}", indented(&safe_json(&result.to_string())))?,
    }
    if let Some(cursor) = next_cursor(typed) {
        let cursor = shown(cursor.as_bytes(), MAX_TEXT);
        writeln!(output, "there is more: {} cursor={cursor}", request.method)?;
    }
    Ok(())
}

/// Returns the cursor of the next page; `None` if the result has all pages.
fn next_cursor(result: &TypedResult) -> Option<&str> {
    match result {
        TypedResult::Tools(list) => list.next_cursor.as_deref(),
        TypedResult::Resources(list) => list.next_cursor.as_deref(),
        TypedResult::Templates(list) => list.next_cursor.as_deref(),
        TypedResult::Prompts(list) => list.next_cursor.as_deref(),
        _ => None,
    }
}

/// Returns the failure for an error response: its message, code, the name of the code, and its data.
fn refused(error: &ErrorObject, hint: Option<String>) -> Failure {
    let ErrorObject { code, message, data } = error;
    let name = code.message().or_else(|| code::find(*code).map(|known| known.message));
    let name = name.filter(|name| !message.starts_with(name));
    let name = name.map_or(String::new(), |name| format!(", {name}"));
    let mut what = format!("the response is an error: {} ({code}{name})", shown(message.as_bytes(), MAX_TEXT));
    if let Some(data) = data {
        what = format!("{what}\n  data: {}", shown(safe_json(data.get()).as_bytes(), MAX_TEXT));
    }
    Failure::new(what).with_hint(hint.unwrap_or_else(|| format!("barewire explain {code}")))
}

/// If `count` is 0, prints that there are no items. Returns whether `count` is 0.
fn is_empty_list(output: &mut Output, count: usize, what: &str) -> io::Result<bool> {
    if count == 0 {
        writeln!(output, "this server has no {what}")?;
    }
    Ok(count == 0)
}

/// The maximum number of characters of a message, its data or a cursor to show. `--json` prints all of it.
const MAX_TEXT: usize = 500;
