//! Results -> whether they have the members that their method promises.

use barewire_proto::json::{Json, Kind, Text};
use barewire_proto::mcp::{
    CallToolResult, CompleteResult, GetPromptResult, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, ReadResourceResult,
};
use barewire_proto::rpc::Message;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_path_to_error::Segment;

use super::{MessageContext, is_complete};
use crate::check::catalogue::lifecycle::RESULT_SHAPE;
use crate::check::ledger::Ledger;
use crate::operations::{Relation, member};
use crate::text::shown;

pub(super) fn message(context: &MessageContext<'_>, ledger: &mut Ledger) {
    let (Ok(Message::Response(response)), Relation::Response { operation, .. }) =
        (context.tracked.message, context.tracked.relation)
    else {
        return;
    };
    let Ok(result) = response.outcome else { return };
    if result.kind() != Kind::Object {
        ledger.inspected(&RESULT_SHAPE);
        let detail = format!("the result of {} is no object", shown(operation.method.as_bytes(), 60));
        context.fail_in(ledger, &RESULT_SHAPE, "/result", detail);
        return;
    }
    // Questions and tasks have shapes of their own.
    if !is_complete(result) || member(Some(result), "task").is_some() {
        return;
    }
    let read = match operation.method.as_str() {
        "initialize" => read::<InitializeResult>(result),
        "tools/list" => read::<ListToolsResult>(result),
        "tools/call" => read::<CallToolResult>(result).and_then(|()| content(result)),
        "resources/list" => read::<ListResourcesResult>(result),
        "resources/templates/list" => read::<ListResourceTemplatesResult>(result),
        "resources/read" => read::<ReadResourceResult>(result),
        "prompts/list" => read::<ListPromptsResult>(result),
        "prompts/get" => read::<GetPromptResult>(result),
        "completion/complete" => read::<CompleteResult>(result),
        "ping" => read::<IgnoredAny>(result),
        _ => return,
    };
    ledger.inspected(&RESULT_SHAPE);
    if let Err(ShapeError { path, what }) = read {
        let detail = format!("{}: {}", operation.method, shown(what.as_bytes(), 120));
        context.fail_in(ledger, &RESULT_SHAPE, &path, detail);
    }
}

/// What a tool has to say: the library takes what it does not know, and takes it for nothing if it is not there.
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
            what: format!("{} is no type of content", shown(kind.to_name().as_bytes(), 40)),
        });
    }
    Ok(())
}

/// In the latest revision; before, there were fewer.
const KINDS: [&str; 5] = ["text", "image", "audio", "resource_link", "resource"];

/// Why a result is not what it should be.
struct ShapeError {
    /// A JSON Pointer, from the message on.
    path: String,
    what: String,
}

fn read<'a, T: Deserialize<'a>>(result: Json<'a>) -> Result<(), ShapeError> {
    let mut json = serde_json::Deserializer::from_slice(result.as_bytes());
    let Err(error) = serde_path_to_error::deserialize::<_, T>(&mut json) else { return Ok(()) };
    let mut path = "/result".to_owned();
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => path.push_str(&format!("/{index}")),
            Segment::Map { key } => path.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    Err(ShapeError { path, what: plainly(&error.inner().to_string()) })
}

/// What is wrong, in words of JSON and not of the library that has read it.
fn plainly(error: &str) -> String {
    // Where it stands in a text that is one line helps nobody.
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
    format!("{wanted} is expected, and {got} comes")
}
