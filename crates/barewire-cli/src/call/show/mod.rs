//! What came of a call of MCP -> stdout, for people or for scripts, and the exit code.

mod content;
mod lists;
mod server;

use std::io::{self, Write};
use std::time::Duration;

use barewire::peer::Raw;
use barewire_proto::mcp::{
    CallToolResult, CompleteResult, DiscoverResult, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, ReadResourceResult, code,
};
use barewire_proto::rpc::ErrorObject;

use super::Args;
use super::answer::{self, Agreed, Form};
use super::mcp::Answer;
use super::pretty::indented;
use crate::ask::no_answer::NoAnswer;
use crate::ask::request::{PreparedRequest, no_such};
use crate::failure::report;
use crate::output::{Output, safe_json, shown};
use crate::{Exit, Failure};

/// A result that has been read as what it should be.
enum Read {
    Tools(ListToolsResult),
    Resources(ListResourcesResult),
    Templates(ListResourceTemplatesResult),
    Prompts(ListPromptsResult),
    Called(CallToolResult),
    Contents(ReadResourceResult),
    Messages(GetPromptResult),
    Proposals(CompleteResult),
    Server(DiscoverResult),
    Other,
}

impl Read {
    fn of(method: &str, result: &Raw) -> Result<Self, serde_json::Error> {
        Ok(match method {
            "tools/list" => Self::Tools(result.to()?),
            "resources/list" => Self::Resources(result.to()?),
            "resources/templates/list" => Self::Templates(result.to()?),
            "prompts/list" => Self::Prompts(result.to()?),
            "tools/call" => Self::Called(result.to()?),
            "resources/read" => Self::Contents(result.to()?),
            "prompts/get" => Self::Messages(result.to()?),
            "completion/complete" => Self::Proposals(result.to()?),
            "server/discover" => Self::Server(result.to()?),
            _ => Self::Other,
        })
    }

    /// Keeps of a list what was asked for by name. Whatever is not there is said.
    fn keep(&mut self, names: &[String]) -> Result<(), NoAnswer> {
        fn only<T>(
            what: &str,
            items: &mut Vec<T>,
            name: impl Fn(&T) -> &str,
            wanted: &[String],
        ) -> Result<(), NoAnswer> {
            let there: Vec<&str> = items.iter().map(&name).collect();
            if let Some(missing) = wanted.iter().find(|wanted| !there.contains(&wanted.as_str())) {
                return Err(no_such(what, missing, &there));
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

/// Prints it so that it is seen at once, and says on stderr what there is to say about it.
pub(super) fn print(
    output: &mut Output,
    args: &Args,
    answer: Result<Answer, NoAnswer>,
    elapsed: Duration,
    agreed: Option<&Agreed>,
) -> Result<Exit, Failure> {
    let form = Form::of(args);
    match answer {
        Ok(Answer::Result { request, result }) => match Read::of(&request.method, &result) {
            Ok(mut read) => match read.keep(&request.names) {
                Ok(()) => good(output, args, &request, &result, &read, elapsed, agreed),
                Err(missed) => miss(output, form, missed, elapsed, agreed, None),
            },
            Err(error) => {
                let missed = NoAnswer::bad_result(&request.method, &error);
                if let Form::Plain | Form::Pretty = form {
                    writeln!(output, "{}", indented(&safe_json(&result.to_string())))?;
                }
                miss(output, form, missed, elapsed, agreed, Some(&result))
            }
        },
        Ok(Answer::Refused { error, hint }) => {
            if let Form::Json = form {
                answer::said(output, form, "error", &answer::json_of(&error), elapsed, agreed)?;
            }
            output.flush()?;
            report(&refused(&error, hint));
            Ok(Exit::No)
        }
        Ok(Answer::Sent) => {
            if let Form::Json = form {
                answer::said(output, form, "sent", "true", elapsed, agreed)?;
            }
            output.flush()?;
            Ok(Exit::Clean)
        }
        Err(missed) => miss(output, form, missed, elapsed, agreed, None),
    }
}

fn good(
    output: &mut Output,
    args: &Args,
    request: &PreparedRequest,
    result: &Raw,
    read: &Read,
    elapsed: Duration,
    agreed: Option<&Agreed>,
) -> Result<Exit, Failure> {
    match Form::of(args) {
        Form::Plain => human(output, args, request, result, read, agreed)?,
        form => answer::said(output, form, "result", &result.to_string(), elapsed, agreed)?,
    }
    output.flush()?;
    if let Read::Called(CallToolResult { is_error: true, .. }) = read {
        report(&Failure::new("the tool says that it failed (isError)"));
        return Ok(Exit::No);
    }
    Ok(Exit::Clean)
}

fn human(
    output: &mut Output,
    args: &Args,
    request: &PreparedRequest,
    result: &Raw,
    read: &Read,
    agreed: Option<&Agreed>,
) -> Result<(), Failure> {
    let in_full = !request.names.is_empty();
    match read {
        Read::Tools(list) => lists::tools(output, &list.tools, in_full)?,
        Read::Prompts(list) => lists::prompts(output, &list.prompts, in_full)?,
        Read::Resources(list) => lists::resources(output, &list.resources, in_full)?,
        Read::Templates(list) => lists::templates(output, &list.resource_templates, in_full)?,
        Read::Called(called) => content::called(output, called, args.save.as_deref())?,
        Read::Contents(read) => content::contents(output, &read.contents, args.save.as_deref())?,
        Read::Messages(messages) => content::messages(output, messages, args.save.as_deref())?,
        Read::Proposals(proposals) => server::proposals(output, proposals)?,
        Read::Server(server) => server::discovered(output, server, agreed)?,
        Read::Other => writeln!(output, "{}", indented(&safe_json(&result.to_string())))?,
    }
    if let Some(cursor) = next_page(read) {
        let cursor = shown(cursor.as_bytes(), LONGEST);
        writeln!(output, "there is more: {} cursor={cursor}", request.method)?;
    }
    Ok(())
}

/// Where a page goes on. A list of all pages does not.
fn next_page(read: &Read) -> Option<&str> {
    match read {
        Read::Tools(list) => list.next_cursor.as_deref(),
        Read::Resources(list) => list.next_cursor.as_deref(),
        Read::Templates(list) => list.next_cursor.as_deref(),
        Read::Prompts(list) => list.next_cursor.as_deref(),
        _ => None,
    }
}

fn miss(
    output: &mut Output,
    form: Form,
    missed: NoAnswer,
    elapsed: Duration,
    agreed: Option<&Agreed>,
    result: Option<&Raw>,
) -> Result<Exit, Failure> {
    let result = result.map(ToString::to_string);
    answer::failed(output, form, &missed, elapsed, agreed, result.as_deref())?;
    output.flush()?;
    report(&Failure::from(missed));
    Ok(Exit::Failed)
}

/// An error of the server: what it says, its code and what that is called, and what it says besides.
fn refused(error: &ErrorObject, hint: Option<String>) -> Failure {
    let ErrorObject { code, message, data } = error;
    let name = code.message().or_else(|| code::find(*code).map(|known| known.message));
    let name = name.filter(|name| !message.starts_with(name));
    let name = name.map_or(String::new(), |name| format!(", {name}"));
    let mut what = format!("the answer is an error: {} ({code}{name})", shown(message.as_bytes(), LONGEST));
    if let Some(data) = data {
        what = format!("{what}\n  data: {}", shown(safe_json(data.get()).as_bytes(), LONGEST));
    }
    Failure::new(what).with_hint(hint.unwrap_or_else(|| format!("barewire explain {code}")))
}

/// A line that is at least there.
fn or_none(output: &mut Output, count: usize, what: &str) -> io::Result<bool> {
    if count == 0 {
        writeln!(output, "this server has no {what}")?;
    }
    Ok(count == 0)
}

/// A sentence for people; all of it is there with --json.
const LONGEST: usize = 500;
