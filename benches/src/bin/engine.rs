//! `barewire`'s engine on one thread: a typed handler on stdio, nothing else.

use barewire::peer::{Connection, Context, Methods};
use barewire::transport::stdio;
use barewire_benches::{Arguments, ToolResult};
use serde::Deserialize;

/// As [`barewire_benches::Params`], but owned, because a handler that may wait cannot borrow its parameters.
#[derive(Deserialize)]
struct Params {
    name: Tool,
    arguments: Arguments,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Tool {
    Echo,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), barewire::Error> {
    let methods = Methods::new().on("tools/call", |_: Context, params: Params| async move {
        let Params { name: Tool::Echo, arguments } = params;
        Ok(ToolResult::text(arguments.text))
    });
    let stdio = stdio().expect("stdin and stdout are not taken yet");
    Connection::new(stdio).methods(methods).run().await
}
