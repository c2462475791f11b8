//! Results -> whether they have the members that their method requires.

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::mcp::{
    CallToolResult, CompleteResult, Content, GetPromptResult, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Prompt, PromptMessage, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, Tool,
};
use barewire_proto::rpc::Message;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_path_to_error::Segment;

use super::{MessageContext, is_complete, values};
use crate::check::catalogue::lifecycle::RESULT_SHAPE;
use crate::check::catalogue::methods::EMPTY_RESULTS;
use crate::check::ledger::Ledger;
use crate::operations::{Relation, member};
use crate::text::shown;
use crate::tree::{MAX_TREE_VALUES, pruned, short_strings};

pub(super) fn message(context: &MessageContext<'_>, ledger: &mut Ledger) {
    if let Ok(Message::Notification(notification)) = context.tracked.message
        && context.by_server()
        && context.revision.is_some()
        && let Err(ShapeError { path, what }) = values::notification(notification)
    {
        context.fail_in(ledger, &RESULT_SHAPE, &path, what);
    }
    let (Ok(Message::Response(response)), Relation::Response { operation, .. }) =
        (context.tracked.message, context.tracked.relation)
    else {
        return;
    };
    let Ok(result) = response.outcome else { return };
    if result.kind() != Kind::Object {
        ledger.inspected(&RESULT_SHAPE);
        let detail = format!("the result of {} is not an object", shown(operation.method.as_bytes(), 60));
        context.fail_in(ledger, &RESULT_SHAPE, "/result", detail);
        return;
    }
    // Results that ask for input and results with a task have other members.
    if !is_complete(result) || member(Some(result), "task").is_some() {
        return;
    }
    if !context.is_modern() && EMPTY.contains(&operation.method.as_str()) {
        ledger.inspected(&EMPTY_RESULTS);
        if let Some(member) = result.members().find(|member| member.name != "_meta") {
            let name = shown(member.name.to_name().as_bytes(), 40);
            let detail = format!("the result of {} has the member {name}", operation.method);
            context.fail_in(ledger, &EMPTY_RESULTS, "/result", detail);
        }
    }
    let read = match operation.method.as_str() {
        "initialize" => read::<InitializeResult>(result),
        "tools/list" => read_list::<ListToolsResult, Tool>(result, "tools"),
        "tools/call" => read_list::<CallToolResult, Content>(result, "content").and_then(|()| content(result)),
        "resources/list" => read_list::<ListResourcesResult, Resource>(result, "resources"),
        "resources/templates/list" => {
            read_list::<ListResourceTemplatesResult, ResourceTemplate>(result, "resourceTemplates")
        }
        "resources/read" => read_list::<ReadResourceResult, ResourceContents>(result, "contents"),
        "prompts/list" => read_list::<ListPromptsResult, Prompt>(result, "prompts"),
        "prompts/get" => read_list::<GetPromptResult, PromptMessage>(result, "messages"),
        "completion/complete" => read::<CompleteResult>(result),
        "ping" => read::<IgnoredAny>(result),
        _ => return,
    };
    ledger.inspected(&RESULT_SHAPE);
    let is_modern = context.is_modern();
    if let Err(ShapeError { path, what }) = read.and_then(|()| values::check(&operation.method, result, is_modern)) {
        let detail = format!("{}: {}", operation.method, shown(what.as_bytes(), 120));
        context.fail_in(ledger, &RESULT_SHAPE, &path, detail);
    }
}

/// Checks the content of a tool's result, because [`CallToolResult`] also accepts a missing or unknown content.
fn content(result: Json<'_>) -> Result<(), ShapeError> {
    let Some(content) = member(Some(result), "content") else {
        return Err(ShapeError { path: "/result".to_owned(), what: "content is missing".to_owned() });
    };
    for (index, element) in content.elements().enumerate() {
        let kind = member(Some(element), "type").and_then(Text::from_json);
        let Some(kind) = kind.filter(|kind| !KINDS.iter().any(|known| *kind == **known)) else { continue };
        let path = format!("/result/content/{index}/type");
        return Err(ShapeError {
            path,
            what: format!("{} is not a content type", shown(kind.to_name().as_bytes(), 40)),
        });
    }
    Ok(())
}

/// The methods whose results are empty.
const EMPTY: [&str; 4] = ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// The content types of the latest revision. Earlier revisions have fewer.
const KINDS: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];

pub(super) struct ShapeError {
    /// A JSON Pointer into the message.
    pub(super) path: String,
    pub(super) what: String,
}

/// Reads a result with a list. The elements of a long list are read one by one, because all of them together could take
/// many times the memory of the message.
fn read_list<T: DeserializeOwned, E: DeserializeOwned>(result: Json<'_>, list: &str) -> Result<(), ShapeError> {
    read::<T>(result)?;
    let is_long = |list: &Json<'_>| list.has_more_values_than(MAX_TREE_VALUES);
    for (index, element) in result.member(list).filter(is_long).into_iter().flat_map(Json::elements).enumerate() {
        read_at::<E>(element, &format!("/result/{list}/{index}"))?;
    }
    Ok(())
}

fn read<T: DeserializeOwned>(result: Json<'_>) -> Result<(), ShapeError> {
    read_at::<T>(result, "/result")
}

/// Reads the value at a path. Members with too many values are read as if they were empty.
fn read_at<T: DeserializeOwned>(value: Json<'_>, path: &str) -> Result<(), ShapeError> {
    let Some(text) = pruned(value) else { return Ok(()) };
    let text = short_strings(&text);
    let mut json = serde_json::Deserializer::from_str(&text);
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut json) else { return Ok(()) };
    let mut path = path.to_owned();
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => path.push_str(&format!("/{index}")),
            Segment::Map { key } => path.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    Err(ShapeError { path, what: in_terms_of_json(&error.inner().to_string()) })
}

/// Rewrites an error of `serde_json` in terms of JSON.
fn in_terms_of_json(error: &str) -> String {
    // The line and column in the error are useless, because the message is a single line.
    let error = error.split(" at line ").next().unwrap_or_default();
    if let Some(name) = error.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return format!("{name} is missing");
    }
    let Some((got, wanted)) = error.strip_prefix("invalid type: ").and_then(|it| it.split_once(", expected ")) else {
        return error.to_owned();
    };
    let (got, wanted) = match (got, wanted) {
        (got, wanted) if wanted.starts_with("struct ") || wanted == "a map" => (got, "an object"),
        (got, "a sequence") => (got, "an array"),
        other => other,
    };
    let got = match got {
        "sequence" => "an array",
        "map" => "an object",
        got => got,
    };
    format!("expected {wanted}, got {got}")
}
