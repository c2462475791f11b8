//! The floor: a careful hand-written loop with `serde_json`, for this one tool only.
//!
//! The envelope borrows from the line, and the id is sent back as it was written. An invalid line ends the program. All
//! that a library does beyond this is its cost.

use std::io;

use barewire_benches::{Params, ToolResult, lines};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Request<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Serialize)]
struct Response<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: ToolResult,
}

fn main() -> io::Result<()> {
    lines::serve(answer)
}

fn answer(line: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    let Request { jsonrpc, id, method, params } = serde_json::from_slice(line)?;
    let Params { name, arguments } = serde_json::from_str(params.get())?;
    if (jsonrpc, method, name) != ("2.0", "tools/call", "echo") {
        return Err(io::Error::other("the request is not a call of echo"));
    }
    let result = ToolResult::text(arguments.text);
    serde_json::to_writer(&mut *output, &Response { jsonrpc: "2.0", id, result })?;
    output.push(b'\n');
    Ok(())
}
