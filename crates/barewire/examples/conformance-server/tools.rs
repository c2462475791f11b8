//! Tools that answer without asking: each kind of content, a failure, progress, log messages, a schema written by hand.

use std::time::Duration;

use barewire::Server;
use barewire::mcp::{self, Content, LoggingLevel, ResourceContents};
use barewire::server::{Call, Tool, ToolError, audio, image};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

pub(crate) fn add(server: Server) -> Server {
    server
        .tool("test_simple_text", "Gives text", || async { "This is a simple text response for testing." })
        .tool("test_image_content", "Gives a picture", || async { image(DOT, "image/png") })
        .tool("test_audio_content", "Gives a sound", || async { audio(SILENCE, "audio/wav") })
        .tool("test_embedded_resource", "Gives a resource", || async {
            let text = "This is an embedded resource content.";
            let contents = ResourceContents::text("test://embedded-resource", text);
            Content::embedded(contents.with_mime_type("text/plain"))
        })
        .tool("test_multiple_content_types", "Gives text, a picture and a resource", several_contents)
        .tool("test_error_handling", "Fails", || async {
            Err::<(), _>("This tool intentionally returns an error for testing")
        })
        .tool("test_tool_with_logging", "Logs three times while it runs", log_three_times)
        .tool("test_tool_with_progress", "Says three times how far it has come", report_progress_three_times)
        .tool("test_logging_tool", "Logs, for a client that asked for it", |call: Call| async move {
            call.log(LoggingLevel::Info, "The client wants to know").await?;
            Ok::<_, ToolError>("Logged, if that was wanted")
        })
        .tool("test_reconnection", "Lets the client hang up and come back for the answer", reconnect)
        .tool("test_custom_header", "Takes an argument that HTTP also has in a header", custom_header)
        .with(schema_by_hand())
}

async fn several_contents() -> [Content; 3] {
    let json = json!({ "test": "data", "value": 123 }).to_string();
    let resource = ResourceContents::text("test://mixed-content-resource", json);
    [
        Content::text("Multiple content types test:"),
        image(DOT, "image/png"),
        Content::embedded(resource.with_mime_type("application/json")),
    ]
}

/// A legacy client gets log messages of the level that it has set, a modern client those of the level in its call.
async fn log_three_times(call: Call) -> Result<&'static str, ToolError> {
    call.log(LoggingLevel::Info, "Tool execution started").await?;
    tokio::time::sleep(STEP).await;
    call.log(LoggingLevel::Info, "Tool processing data").await?;
    tokio::time::sleep(STEP).await;
    call.log(LoggingLevel::Info, "Tool execution completed").await?;
    Ok("Tool with logging executed")
}

/// Progress is sent only if the client asked for it.
async fn report_progress_three_times(call: Call) -> Result<&'static str, ToolError> {
    call.progress(0, 100, None).await?;
    tokio::time::sleep(STEP).await;
    call.progress(50, 100, None).await?;
    tokio::time::sleep(STEP).await;
    call.progress(100, 100, None).await?;
    Ok("Tool with progress executed")
}

/// Closes the HTTP connection; the client gets the response when it reconnects. Other transports are not affected.
async fn reconnect(call: Call) -> &'static str {
    call.hang_up(STEP);
    tokio::time::sleep(2 * STEP).await;
    "Reconnection test completed successfully"
}

#[derive(Deserialize, JsonSchema)]
struct CustomHeader {
    /// What is also in `Mcp-Param-Value`, so that a proxy need not read the body
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

async fn custom_header(CustomHeader { value }: CustomHeader) -> String {
    format!("The header and the body say {value}")
}

/// Returns a tool with a schema that is written by hand. Clients get the schema unchanged.
fn schema_by_hand() -> Tool {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    let schema = to_raw_value(&schema).expect("a JSON value can be serialized");
    let mut definition = mcp::Tool::new("json_schema_2020_12_tool", schema);
    definition.description = Some("Has a schema with JSON Schema 2020-12 features".to_owned());
    Tool::unchecked(definition, |arguments: Box<RawValue>| async move {
        let arguments: Value = serde_json::from_str(arguments.get())?;
        Ok::<_, ToolError>(format!("Called with {arguments}"))
    })
}

/// The pause between two messages of a tool: long enough for the suite to see them separately.
const STEP: Duration = Duration::from_millis(50);

/// A red dot of 1 by 1 pixel.
pub(crate) const DOT: &[u8] = include_bytes!("dot.png");

/// A WAV file without sound.
const SILENCE: &[u8] =
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x44\xac\0\0\x88\x58\x01\0\x02\0\x10\0data\0\0\0\0";
