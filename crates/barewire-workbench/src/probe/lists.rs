//! The lists of the probe: tools, prompts and resources in pages, each page with something that a client must take.

use barewire_proto::json::Json;
use barewire_proto::mcp::{RequestParams, Revision};
use barewire_proto::rpc::Code;
use serde_json::{Value, json};

use super::answers::{Answer, Failure};
use crate::check::host::{PageStep, pages};

/// The result of `initialize`.
pub(super) fn initialize_result(version: &str, revision: Revision) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(revision),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
        "barewireUnknown": {"unknown": [1, null]},
    })
}

/// The capabilities of the probe.
pub(super) fn capabilities(revision: Revision) -> Value {
    let mut capabilities = json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "logging": {},
        "experimental": {"barewire/probe": {"unknown": true}},
    });
    if revision.has_completions_capability() {
        capabilities["completions"] = json!({});
    }
    if revision.is_modern() {
        // A modern server declares logging only for clients that set a level in each request.
        capabilities["extensions"] = json!({"dev.barewire/probe": {}});
    }
    capabilities
}

pub(super) fn server_info() -> Value {
    json!({"name": "barewire-probe", "version": env!("CARGO_PKG_VERSION")})
}

/// Serves a list, or something on one.
pub(super) fn serve(
    method: &str,
    params: &RequestParams<'_>,
    has_changed: bool,
    is_modern: bool,
) -> Result<Answer, Failure> {
    if let Some(pages) = pages(method, is_modern) {
        let cursor = params.cursor.map(|cursor| cursor.string().unwrap_or_default());
        let page = pages.iter().position(|page| page.cursor == cursor.as_deref());
        let page = page.ok_or_else(|| Failure::invalid_params("the cursor was never given"))?;
        let next = pages.get(page + 1).and_then(|page| page.cursor);
        return Ok(list_page(method, pages[page].step, next, has_changed));
    }
    let name = params.name.and_then(Json::string).unwrap_or_default();
    let uri = params.uri.and_then(Json::string).unwrap_or_default();
    let result = match method {
        "resources/read" if uri.starts_with("probe://") => {
            json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": "A text of the probe."}]})
        }
        "resources/read" if is_modern => return Err(Failure::invalid_params("there is no such resource")),
        "resources/read" => {
            let code = barewire_proto::mcp::code::RESOURCE_NOT_FOUND;
            return Err(Failure::new(code, "Resource not found", json!({"uri": uri})));
        }
        "prompts/get" if PROMPTS.contains(&&*name) => {
            let content = json!({"type": "text", "text": "Call each tool of the server barewire-probe once."});
            json!({"description": "A prompt of the probe", "messages": [{"role": "user", "content": content}]})
        }
        "prompts/get" => return Err(Failure::new(Code::INVALID_PARAMS, "There is no such prompt", json!({}))),
        "completion/complete" => json!({"completion": {"values": ["one", "two"], "total": 2, "hasMore": false}}),
        _ => return Err(Failure::unknown_method()),
    };
    Ok(Answer::Result(result))
}

fn list_page(method: &str, step: PageStep, next: Option<&str>, has_changed: bool) -> Answer {
    let (member, items) = match method {
        "tools/list" => ("tools", tools(step, has_changed)),
        "prompts/list" => ("prompts", prompts(step)),
        "resources/list" => ("resources", resources(step)),
        _ => ("resourceTemplates", templates(step)),
    };
    let mut result = json!({member: items});
    if let Some(next) = next {
        result["nextCursor"] = json!(next);
    }
    match step {
        PageStep::Split => Answer::Cut(result),
        PageStep::UnknownMembers => {
            result["barewireUnknown"] = json!({"unknown": [1, null, {"deeper": true}]});
            Answer::Result(result)
        }
        // These characters are written as escapes, which a value does not keep.
        PageStep::LineSeparators => Answer::Text(result.to_string().replace("@escapes@", ESCAPES)),
        _ => Answer::Result(result),
    }
}

fn tool(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

fn tools(step: PageStep, has_changed: bool) -> Vec<Value> {
    match step {
        PageStep::Plain => {
            let mut tools: Vec<Value> = TOOLS.iter().map(|(name, description)| tool(name, description)).collect();
            for tool in &mut tools {
                if tool["name"] == "structured" {
                    tool["outputSchema"] = json!({
                        "type": "object",
                        "properties": {"count": {"type": "integer"}, "words": {"type": "array"}},
                        "required": ["count"],
                    });
                }
            }
            if has_changed {
                tools.push(tool("added", "Was added while the session ran, and was announced."));
            }
            tools
        }
        PageStep::Empty => Vec::new(),
        PageStep::Split => vec![tool("page_split", "On a page that is written in parts: 東京 Zürich 🎉.")],
        PageStep::UnknownMembers => {
            let mut tool = tool("page_unknown_members", "Has members that no revision has.");
            tool["barewireUnknown"] = json!([{"unknown": 1}]);
            tool["annotations"]["barewireUnknown"] = json!("unknown");
            tool["inputSchema"]["x-barewire-unknown"] = json!({"unknown": null});
            vec![tool]
        }
        PageStep::LineSeparators => {
            vec![tool(
                "page_characters",
                "Separators \u{2028} \u{2029} \u{85}, 🎉 👩‍👩‍👧, \u{202e}turned\u{202c}, @escapes@.",
            )]
        }
        PageStep::Large => {
            let mut tool = tool("page_large", "On a page of one mebibyte.");
            tool["_meta"] = json!({"dev.barewire/padding": "padding ".repeat(LARGE / 8)});
            vec![tool]
        }
        PageStep::Deep => {
            let mut tool = tool("page_deep", "On a page that is nested deeply.");
            let deep = (0..DEEP).fold(json!("the innermost"), |inner, _| json!([inner]));
            tool["_meta"] = json!({"dev.barewire/deep": deep});
            vec![tool]
        }
        PageStep::EmptyCursor => vec![tool("page_empty_cursor", "On a page after which the cursor is empty.")],
        PageStep::Last => vec![tool("page_last", "On the last page.")],
    }
}

fn prompts(step: PageStep) -> Vec<Value> {
    let name = PROMPTS[usize::from(step == PageStep::Last)];
    vec![json!({"name": name, "description": "A prompt of the probe", "arguments": []})]
}

fn resources(step: PageStep) -> Vec<Value> {
    let name = if step == PageStep::Last { "second" } else { "first" };
    vec![json!({"uri": format!("probe://{name}"), "name": name, "mimeType": "text/plain"})]
}

fn templates(step: PageStep) -> Vec<Value> {
    let name = if step == PageStep::Last { "item" } else { "page" };
    vec![json!({"uriTemplate": format!("probe://{name}/{{id}}"), "name": name, "mimeType": "text/plain"})]
}

const PROMPTS: [&str; 2] = ["probe", "probe_again"];

/// The tools on the first page. `tools.rs` has what they do.
pub(super) const TOOLS: [(&str, &str); 10] = [
    ("echo", "Answers at once, with text in several scripts."),
    ("slow", "Answers after two seconds, with progress, log messages and a ping in between."),
    ("large", "Answers with one mebibyte of text."),
    ("deep", "Answers with structured content that is nested deeply."),
    ("structured", "Answers with structured content by its output schema."),
    ("fail", "Answers that it has failed."),
    ("error", "Answers with an error of the protocol."),
    ("ask", "Asks for everything that the client says it can give: roots, a sample, a form."),
    ("exit", "Answers, and then ends the server process."),
    ("expire", "Answers, and then ends the session, if the server is used over HTTP."),
];

const INSTRUCTIONS: &str = "This server tests the host that uses it. To run the whole test, call each tool once.";

/// Characters written as escapes: an emoji as two surrogates, a bell, a line separator, a zero.
const ESCAPES: &str = r"\ud83c\udf89 \u0007 \u2028 \u0000 \/";

/// The length of a large text, in bytes.
pub(super) const LARGE: usize = 1 << 20;
/// The levels of a deeply nested value: with the members around it, less than the 127 that most parsers allow.
pub(super) const DEEP: usize = 100;
