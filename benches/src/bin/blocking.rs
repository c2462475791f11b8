//! `barewire` without a runtime: one thread that reads, handles and writes.

use barewire::blocking::{Failure, IncomingCall, serve_stdio};
use barewire_benches::{Params, ToolResult};

fn main() -> Result<(), barewire::Error> {
    serve_stdio(answer)
}

fn answer(call: &mut IncomingCall<'_>) -> Result<ToolResult, Failure> {
    if call.method() != "tools/call" {
        return Err(Failure::method_not_found());
    }
    let Params { name, arguments } = call.params()?;
    if name != "echo" {
        return Err(Failure::invalid_params("no such tool"));
    }
    Ok(ToolResult::text(arguments.text))
}
