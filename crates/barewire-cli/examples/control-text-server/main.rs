//! An MCP server that puts characters which control a terminal into every text that it sends: names, versions, titles,
//! descriptions, schemas, errors, contents, notifications, requests, ids, HTTP headers, SSE events and stderr.
//!
//! `control-text-server [PREFIX]` serves on stdio, and `control-text-server --http` at the URL that it prints. PREFIX
//! begins every text, so that two runs differ. With `--quiet`, nothing goes to stderr. With `--garbage`, it writes
//! something that is not a message and ends.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};

/// Erases the screen in two ways, reverses the direction of text, rings, and returns to the start of the line.
const CONTROL: &str = "\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{7}\r\u{2028}\u{feff}";

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let prefix = args.iter().find(|arg| !arg.starts_with("--")).cloned().unwrap_or_default();
    let server = Server { text: format!("{prefix}x{CONTROL}y") };
    if has("--http") {
        return server.http();
    }
    let mut stdout = io::stdout();
    if !has("--quiet") {
        writeln!(io::stderr(), "starting {}", server.text)?;
    }
    if has("--garbage") {
        writeln!(stdout, "hello {}", server.text)?;
        std::process::exit(3);
    }
    for line in io::stdin().lines() {
        for message in server.answer(&line?) {
            writeln!(stdout, "{message}")?;
        }
        stdout.flush()?;
    }
    Ok(())
}

struct Server {
    text: String,
}

impl Server {
    /// Returns the messages that answer a message.
    fn answer(&self, line: &str) -> Vec<Value> {
        let text = &self.text;
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return vec![json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": text}})];
        };
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { return Vec::new() };
        let token = &message["params"]["_meta"]["progressToken"];
        let notify = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
        let mut messages = match method {
            "tools/call" | "resources/read" | "prompts/get" => vec![
                notify("notifications/message", json!({"level": "error", "logger": text, "data": text})),
                notify("notifications/progress", json!({"progressToken": token, "progress": 1, "message": text})),
                notify(&format!("notifications/{text}"), json!({text: text})),
                json!({"jsonrpc": "2.0", "id": text, "method": format!("ask/{text}"), "params": {"a": text}}),
                json!({"jsonrpc": "2.0", "id": format!("unknown {text}"), "result": {"a": text}}),
            ],
            _ => Vec::new(),
        };
        let outcome = self.result(method);
        messages.push(match outcome {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                let error = json!({"code": -32601, "message": text, "data": {text: text}});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        });
        messages
    }

    fn result(&self, method: &str) -> Option<Value> {
        let text = &self.text;
        let schema = json!({
            "type": "object", "title": text, "description": text, "required": [text],
            "properties": {text: {"type": "string", "title": text, "description": text, "enum": [text], "default": text},
                "n": {"type": text}},
        });
        let annotations = json!({"title": text});
        Some(match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "instructions": text,
                "serverInfo": {"name": text, "title": text, "version": text, "websiteUrl": text},
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {},
                    "experimental": {text: {text: true}}},
            }),
            "ping" | "logging/setLevel" => json!({}),
            "tools/list" => json!({"nextCursor": null, "tools": [
                {"name": "plain", "inputSchema": {"type": "object"}},
                {"name": text, "title": text, "description": text, "inputSchema": schema, "annotations": annotations},
            ]}),
            "tools/call" => json!({"isError": true, "content": [
                {"type": "text", "text": text}, {"type": text, "text": text},
                {"type": "image", "mimeType": text, "data": "aGk="}, {"type": "image", "mimeType": text, "data": text},
                {"type": "resource_link", "uri": text, "name": text, "title": text, "description": text},
                {"type": "resource", "resource": {"uri": text, "mimeType": text, "text": text}},
            ]}),
            "resources/list" => json!({"resources": [
                {"uri": text, "name": text, "title": text, "description": text, "mimeType": text},
            ]}),
            "resources/templates/list" => json!({"resourceTemplates": [
                {"uriTemplate": text, "name": text, "title": text, "description": text, "mimeType": text},
            ]}),
            "resources/read" => json!({"contents": [
                {"uri": text, "mimeType": text, "text": text}, {"uri": text, "mimeType": text, "blob": "aGk="},
            ]}),
            "prompts/list" => json!({"prompts": [
                {"name": text, "title": text, "description": text, "arguments": [{"name": text, "description": text}]},
            ]}),
            "prompts/get" => json!({"description": text, "messages": [
                {"role": "user", "content": {"type": "text", "text": text}},
            ]}),
            "completion/complete" => json!({"completion": {"values": [text]}}),
            _ => return None,
        })
    }

    fn http(self) -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut stdout = io::stdout();
        writeln!(stdout, "http://{}", listener.local_addr()?)?;
        stdout.flush()?;
        let server = &self;
        thread::scope(|scope| {
            for stream in listener.incoming().flatten() {
                scope.spawn(move || {
                    // The client may close the connection at any time.
                    let _ = server.exchange(&stream);
                });
            }
        });
        Ok(())
    }

    /// Answers one HTTP request. Characters below U+0020 cannot be in a header.
    fn exchange(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim_end().to_ascii_lowercase().split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().unwrap_or(0),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let header: String = self.text.chars().filter(|c| !c.is_ascii_control()).collect();
        let path = first.split(' ').nth(1).unwrap_or_default();
        let (status, more, body) = match path {
            "/unauthorized" => {
                let value = format!("Bearer realm=\"{header}\", error_description=\"{header}\"");
                ("401 Unauthorized", format!("WWW-Authenticate: {value}\r\n"), self.text.clone())
            }
            "/redirect" => {
                ("307 Temporary Redirect", format!("Location: http://127.0.0.1:1/{header}\r\n"), String::new())
            }
            "/failed" => ("500 Internal Server Error", "Content-Type: text/plain\r\n".to_owned(), self.text.clone()),
            _ if !first.starts_with("POST") => ("405 Method Not Allowed", String::new(), self.text.clone()),
            _ => {
                let messages = self.answer(&String::from_utf8_lossy(&body));
                let line = self.text.replace(['\r', '\u{feff}'], "");
                let event = |message: &Value| format!("event: message\nid: {line}\ndata: {message}\n\n");
                let odd = format!("event: {line}\nid: {line}\ndata: {line}\n\n: {line}\n\n");
                let events = odd + &messages.iter().map(event).collect::<String>();
                match messages.is_empty() {
                    true => ("202 Accepted", String::new(), String::new()),
                    false => ("200 OK", "Content-Type: text/event-stream\r\n".to_owned(), events),
                }
            }
        };
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\nServer: {header}\r\nContent-Length: {length}\r\nConnection: close\r\n");
        stream.write_all(format!("{head}{more}\r\n{body}").as_bytes())
    }
}
