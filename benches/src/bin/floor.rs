//! The floor: the loop a careful person writes with `serde_json` for this one tool and nothing else.
//!
//! Lines are read in place, the envelope borrows from them, the id is sent back as it was written, and the answers to all
//! lines of a read leave in one write. A bad line ends the program: what a library does beyond this is its price.

use std::io::{self, Read, Write};

use barewire_benches::{Params, ToolResult};
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
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut input = vec![0; PIPE];
    let mut output = Vec::with_capacity(PIPE);
    // The first `held` bytes of `input` are a line that has no end yet.
    let mut held = 0;
    loop {
        // A read is never shorter than what a full pipe holds.
        if input.len() < held + PIPE {
            input.resize(2 * held + PIPE, 0);
        }
        let read = stdin.read(&mut input[held..])?;
        if read == 0 {
            return Ok(());
        }
        let (end, mut line, mut from) = (held + read, 0, held);
        while let Some(newline) = memchr::memchr(b'\n', &input[from..end]) {
            from += newline;
            answer(&input[line..from], &mut output)?;
            from += 1;
            line = from;
            if output.len() >= PIPE {
                send(&mut stdout, &mut output)?;
            }
        }
        send(&mut stdout, &mut output)?;
        // The beginning of a long line stays where it is.
        if line > 0 {
            input.copy_within(line..end, 0);
        }
        held = end - line;
    }
}

fn answer(line: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    let Request { jsonrpc, id, method, params } = serde_json::from_slice(line)?;
    let Params { name, arguments } = serde_json::from_str(params.get())?;
    if (jsonrpc, method, name) != ("2.0", "tools/call", "echo") {
        return Err(io::Error::other("not a call of echo"));
    }
    let result = ToolResult::text(arguments.text);
    serde_json::to_writer(&mut *output, &Response { jsonrpc: "2.0", id, result })?;
    output.push(b'\n');
    Ok(())
}

fn send(stdout: &mut impl Write, output: &mut Vec<u8>) -> io::Result<()> {
    if !output.is_empty() {
        stdout.write_all(output)?;
        stdout.flush()?;
        output.clear();
    }
    Ok(())
}

/// The default capacity of a pipe on Linux.
const PIPE: usize = 64 * 1024;
