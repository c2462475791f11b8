//! A minimal language server: `Content-Length` framing on stdin and stdout, without MCP.
//!
//! It answers `initialize` and `shutdown`, sends a log message about each opened document, and ends when stdin ends.

use barewire::Failure;
use barewire::peer::{Connection, Context, Methods};
use barewire::transport::{Framing, stdio};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidOpen {
    text_document: TextDocument,
}

#[derive(Deserialize)]
struct TextDocument {
    uri: String,
    text: String,
}

async fn initialize(_: Context, _: Value) -> Result<Value, Failure> {
    Ok(json!({ "capabilities": { "textDocumentSync": 1 }, "serverInfo": { "name": "hello" } }))
}

async fn did_open(context: Context, DidOpen { text_document }: DidOpen) -> Result<(), Failure> {
    let TextDocument { uri, text } = text_document;
    let message = format!("hello {uri}, {} lines", text.lines().count());
    context.notify("window/logMessage", json!({ "type": 3, "message": message })).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    let methods = Methods::new()
        .on("initialize", initialize)
        .on("textDocument/didOpen", did_open)
        .on("shutdown", |_: Context, (): ()| async move { Ok(Value::Null) });
    Connection::new(stdio()?.framing(Framing::ContentLength)).methods(methods).run().await
}
