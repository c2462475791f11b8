//! A legacy MCP server whose answers are as long and as costly to hold in memory as a peer can make them.
//!
//! `large-server PLACE SHAPE BYTES` puts a JSON value of about BYTES bytes in the place PLACE of its messages. The
//! value repeats the small values of SHAPE: as a tree of values, each takes a hundred times the memory of its text.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the messages on stdout are written by hand")]

use std::io::{BufRead, BufWriter, Write};
use std::process::exit;

use serde_json::Value;

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [place, shape, bytes] = args.as_slice() else {
        eprintln!("usage: large-server PLACE SHAPE BYTES");
        exit(2)
    };
    let bytes: usize = bytes.parse().unwrap_or_else(|_| {
        eprintln!("BYTES must be a number");
        exit(2)
    });
    let mut out = BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?).unwrap_or_default();
        // The answer to our own question needs no answer.
        let (Some(method), Some(id)) = (request["method"].as_str(), request.get("id")) else { continue };
        answer(&mut out, place, &shaped(shape, bytes), method, id)?;
        out.flush()?;
    }
    Ok(())
}

/// Writes the messages that answer one request, with `large` in them if the request leads to `place`.
fn answer(out: &mut impl Write, place: &str, large: &str, method: &str, id: &Value) -> std::io::Result<()> {
    let at = |wanted: &str| if place == wanted { large } else { "0" };
    match (method, place) {
        ("tools/call", "notification") => writeln!(
            out,
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{large}}}}}"#
        )?,
        ("tools/call", "own-notification") => {
            writeln!(out, r#"{{"jsonrpc":"2.0","method":"notifications/own","params":{{"own":{large}}}}}"#)?;
        }
        ("tools/call", "notification-meta") => writeln!(
            out,
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":0,"_meta":{{"own/own":{large}}}}}}}"#
        )?,
        ("tools/call", "frame") => writeln!(out, "{large}")?,
        ("tools/call", "request") => {
            writeln!(out, r#"{{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{{"own":{large}}}}}"#)?;
        }
        ("tools/call", "question") => writeln!(
            out,
            r#"{{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{{"message":"?","requestedSchema":{{"type":"object","properties":{{"a":{{"type":"string","enum":{large}}}}}}}}}}}"#
        )?,
        _ => {}
    }
    write!(out, r#"{{"jsonrpc":"2.0","id":{id},"#)?;
    match (method, place) {
        ("tools/call", "error") => write!(out, r#""error":{{"code":-1,"message":"no","data":{large}}}"#)?,
        ("initialize", _) => write!(
            out,
            r#""result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}},"logging":{{}},"resources":{{}},"prompts":{{}},"experimental":{{"own":{{"own":{}}}}}}},"serverInfo":{{"name":"large","version":"1"}}}}"#,
            at("capability")
        )?,
        ("tools/list", "tools") => write!(out, r#""result":{{"tools":{large}}}"#)?,
        ("tools/list", _) => write!(
            out,
            r#""result":{{"tools":[{{"name":"t","inputSchema":{{"type":"object","properties":{{"a":{{"default":{}}}}}}},"outputSchema":{{"type":"object","properties":{{"b":{{"default":{}}}}}}}}}]}}"#,
            at("input-schema"),
            at("output-schema")
        )?,
        ("tools/call", "content") => write!(out, r#""result":{{"content":{large}}}"#)?,
        ("tools/call", "structured") => write!(
            out,
            r#""result":{{"content":[{{"type":"text","text":"0"}}],"structuredContent":{{"own":{large}}}}}"#
        )?,
        ("tools/call", _) => write!(
            out,
            r#""result":{{"content":[{{"type":"text","text":"0"}}],"structuredContent":{{}},"_meta":{{"own/own":{}}}}}"#,
            at("meta")
        )?,
        ("resources/list", _) => write!(out, r#""result":{{"resources":{}}}"#, at("resources").replace("0", "[]"))?,
        ("resources/templates/list", _) => write!(out, r#""result":{{"resourceTemplates":[]}}"#)?,
        ("resources/read", _) => write!(out, r#""result":{{"contents":{large}}}"#)?,
        ("prompts/list", _) => write!(out, r#""result":{{"prompts":{}}}"#, at("prompts").replace("0", "[]"))?,
        ("prompts/get", _) => write!(out, r#""result":{{"messages":{large}}}"#)?,
        ("ping" | "logging/setLevel", _) => write!(out, r#""result":{{}}"#)?,
        _ => write!(out, r#""error":{{"code":-32601,"message":"unknown method"}}"#)?,
    }
    writeln!(out, "}}")
}

/// Returns a value of about `bytes` bytes: the small values of `shape`, repeated.
fn shaped(shape: &str, bytes: usize) -> String {
    let repeated = |open: &str, part: &str, close: &str| {
        let count = (bytes / part.len()).max(1);
        let parts = part.repeat(count);
        format!("{open}{}{close}", parts.strip_suffix(',').unwrap_or(&parts))
    };
    match shape {
        "objects" => repeated("[", r#"{"":0},"#, "]"),
        "empty" => repeated("[", "{},", "]"),
        "arrays" => repeated("[", "[],", "]"),
        "zeros" => repeated("[", "0,", "]"),
        "strings" => repeated("[", r#""","#, "]"),
        "escapes" => repeated("\"", r"\u0001", "\""),
        "newlines" => repeated("\"", r"\n", "\""),
        "text" => repeated("\"", "x", "\""),
        // A control character that JSON allows in a string, and that becomes six characters in our output.
        "deletes" => repeated("\"", "\u{7f}", "\""),
        "members" => {
            let members: Vec<String> = (0..bytes / 12).map(|number| format!(r#""n{number:07}":0"#)).collect();
            format!("{{{}}}", members.join(","))
        }
        "same-members" => repeated("{", r#""":0,"#, "}"),
        "nested" => repeated("[", &format!("{}{},", "[".repeat(100), "]".repeat(100)), "]"),
        "nested-objects" => repeated("[", &format!("{}0{},", r#"{"":"#.repeat(100), "}".repeat(100)), "]"),
        "deep" => format!("{}{}", "[".repeat(bytes / 2), "]".repeat(bytes / 2)),
        "tools" => repeated("[", r#"{"name":"","inputSchema":{"type":"object"}},"#, "]"),
        "texts" => repeated("[", r#"{"type":"text","text":""},"#, "]"),
        "contents" => repeated("[", r#"{"uri":"","text":""},"#, "]"),
        "messages" => repeated("[", r#"{"role":"user","content":{"type":"text","text":""}},"#, "]"),
        "resources" => repeated("[", r#"{"uri":"","name":""},"#, "]"),
        "prompts" => repeated("[", r#"{"name":""},"#, "]"),
        other => {
            eprintln!("unknown shape {other}");
            exit(2)
        }
    }
}
