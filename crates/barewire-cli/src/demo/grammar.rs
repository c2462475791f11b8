//! `barewire demo grammar`: shows lines of JSON-RPC, how each is classified, and the response of a server in this
//! process.

use std::io::{Read, Write};
use std::thread;

use barewire::blocking::{Conn, Failure as Failed, IncomingCall, PipeReader, PipeWriter, pipe};
use barewire_proto::frame::{Codec, Lines};
use barewire_proto::rpc::{DEFAULT_DEPTH, Invalid, Message, Parsed, parse};
use serde_json::{Value, json};

use crate::output::{Output, Tone, shown};
use crate::{Exit, Failure};

/// The scenes: each has a heading, and the lines that are sent to the server at once.
#[rustfmt::skip]
const SCENES: &[(&str, &[&str])] = &[
    ("A request has a method and an id. The response repeats the id exactly as it was written.", &[
        r#"{"jsonrpc":"2.0","id":1,"method":"add","params":{"a":19,"b":23}}"#,
        r#"{"jsonrpc":"2.0","id":"\u0061-1.0","method":"add","params":{"a":1,"b":1}}"#,
    ]),
    ("A notification has no id. It never gets a response.", &[
        r#"{"jsonrpc":"2.0","method":"log","params":{"text":"hello"}}"#,
    ]),
    ("-32700, Parse error: not JSON. Only the line in the middle is refused; the server reads on.", &[
        r#"{"jsonrpc":"2.0","id":2,"method":"add","params":{"a":1,"b":2}}"#,
        r#"Server listening on stdio..."#,
        r#"{"jsonrpc":"2.0","id":3,"method":"add","params":{"a":3,"b":4}}"#,
    ]),
    ("-32600, Invalid Request: JSON, but no message. An id of null is not the same as no id.", &[
        r#"{"jsonrpc":"2.0","id":null,"method":"add"}"#,
        r#"{"jsonrpc":"1.0","id":4,"method":"add"}"#,
    ]),
    ("-32601, Method not found.", &[
        r#"{"jsonrpc":"2.0","id":5,"method":"subtract","params":{"a":1,"b":2}}"#,
    ]),
    ("-32602, Invalid params.", &[
        r#"{"jsonrpc":"2.0","id":6,"method":"add","params":{"a":1}}"#,
    ]),
    ("-32603, Internal error: the handler failed, or panicked. The connection stays open.", &[
        r#"{"jsonrpc":"2.0","id":7,"method":"fail"}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"panic"}"#,
    ]),
    ("A batch: each element is handled separately, and the responses come in one array.", &[
        r#"[{"jsonrpc":"2.0","id":9,"method":"add","params":{"a":1,"b":2}},{"jsonrpc":"2.0","method":"log"},1,{"jsonrpc":"2.0","id":10,"method":"nope"}]"#,
    ]),
    ("A call that reports its progress: notifications during the call, then the response.", &[
        r#"{"jsonrpc":"2.0","id":11,"method":"work"}"#,
    ]),
];

/// Sends every scene to the server and prints the responses.
pub(super) fn show(output: &mut Output) -> Result<Exit, Failure> {
    let (server_reads, mut client_writes) = pipe(CAPACITY);
    let (mut client_reads, server_writes) = pipe(CAPACITY);
    // One scene makes a handler panic, which the server answers with an error. The panic message on stderr is
    // suppressed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let server = thread::spawn(move || Conn::new(server_reads, server_writes).serve(handle));
    let shown = show_scenes(output, &mut client_writes, &mut client_reads);
    // Dropping the writer ends the server's input, so the server returns.
    drop(client_writes);
    let ended = server.join();
    std::panic::set_hook(hook);
    shown?;
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(Failure::new(format!("the server ended with an error: {error}"))),
        Err(_) => return Err(Failure::new("the server panicked")),
    }
    let end = output.paint(Tone::Faint, "# The input ends, and so does the server.");
    writeln!(output, "\n{end}")?;
    Ok(Exit::Clean)
}

fn show_scenes(output: &mut Output, to_server: &mut PipeWriter, from_server: &mut PipeReader) -> Result<(), Failure> {
    let mut buffer = vec![0; CAPACITY];
    for (index, (heading, lines)) in SCENES.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        writeln!(output, "{gap}{}", output.paint(Tone::Strong, format_args!("# {heading}")))?;
        let mut sent = Vec::new();
        for line in *lines {
            writeln!(output, "{} {line}", output.paint(Tone::Request, ">"))?;
            for said in classify(line.as_bytes()) {
                writeln!(output, "{} {said}", output.paint(Tone::Faint, "="))?;
            }
            Lines::encode(&mut sent, |out| out.extend_from_slice(line.as_bytes()));
        }
        to_server.write_all(&sent).map_err(|_| Failure::new("the server of the demo has ended"))?;
        // The server writes all its responses before it reads again. So when it waits for input, all responses are
        // available.
        to_server.wait_until_idle();
        match from_server.available() {
            0 => writeln!(output, "{}", output.paint(Tone::Faint, "# no response"))?,
            count => {
                from_server.read_exact(&mut buffer[..count]).expect("`available` counted these bytes");
                let answers = String::from_utf8_lossy(&buffer[..count]);
                for line in answers.lines() {
                    writeln!(output, "{} {line}", output.paint(Tone::Good, "<"))?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the classification of a line; for a batch, that of each element too.
fn classify(line: &[u8]) -> Vec<String> {
    match parse(line, DEFAULT_DEPTH) {
        Parsed::Message(message) => vec![kind(&message)],
        Parsed::Invalid(invalid) => vec![refusal(&invalid)],
        Parsed::Batch(batch) => {
            let each = batch.elements().map(|element| match element {
                Ok(message) => kind(&message),
                Err(invalid) => refusal(&invalid),
            });
            let each = (1..).zip(each).map(|(index, said)| format!("  [{index}] {said}"));
            std::iter::once(format!("batch of {}", batch.len())).chain(each).collect()
        }
    }
}

fn kind(message: &Message<'_>) -> String {
    match message {
        Message::Request(request) => format!("request {}, id {}", request.method.raw(), request.id),
        Message::Notification(notification) => format!("notification {}", notification.method.raw()),
        Message::Response(response) => format!("response, id {}", response.id),
        Message::OrphanError(error) => format!("error without id, code {}", error.code),
    }
}

fn refusal(invalid: &Invalid<'_>) -> String {
    let id = invalid.id.as_ref().map_or("null".into(), |id| shown(id.as_str().as_bytes(), 40));
    format!("invalid, {invalid}: {} to id {id}", invalid.rule.code())
}

/// The request handler of the demo server.
fn handle(call: &mut IncomingCall<'_>) -> Result<Value, Failed> {
    match call.method() {
        "add" => {
            #[derive(serde::Deserialize)]
            struct Add {
                a: i64,
                b: i64,
            }
            let Add { a, b } = call.params()?;
            Ok(json!(a + b))
        }
        "log" => Ok(Value::Null),
        "work" => {
            call.notify("notifications/progress", &json!({"progressToken": 11, "progress": 1, "total": 2}))?;
            call.notify("notifications/progress", &json!({"progressToken": 11, "progress": 2, "total": 2}))?;
            Ok(json!("done"))
        }
        "fail" => Ok(json!("forty-two".parse::<i64>()?)),
        "panic" => panic!("on purpose"),
        _ => Err(Failed::method_not_found()),
    }
}

/// The capacity of each pipe: more than the bytes sent or answered in any scene.
const CAPACITY: usize = 64 * 1024;
