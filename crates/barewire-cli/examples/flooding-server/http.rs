//! The floods over HTTP. Requests are answered in turn on their connections, each on its own thread.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::stdio::response;

/// All floods. With the suffix `-later`, `initialize` is answered as usual, and everything else with the flood.
pub(crate) const FLOODS: &[&str] = &[
    "deaf",
    "drip",
    "headers",
    "header",
    "informational",
    "body",
    "until-close",
    "chunks",
    "chunk-extension",
    "trailers",
    "blank",
    "comments",
    "comment",
    "events",
    "event",
    "pings",
    "requests",
    "responses",
    "progress",
    "ids",
    "resumed",
    "redirects",
];

/// Listens on a free port, prints the URL, and answers forever. Returns false if there is no flood with this name.
pub(crate) fn serve(name: &str) -> bool {
    let flood = name.strip_suffix("-later").unwrap_or(name);
    let Some(flood) = FLOODS.iter().find(|known| **known == flood) else { return false };
    let is_later = name.ends_with("-later");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    println!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    for connection in listener.incoming().map_while(Result::ok) {
        thread::spawn(move || {
            let mut input = BufReader::new(connection.try_clone().expect("a second handle"));
            while let Some(request) = request(&mut input) {
                let begins = request["method"] == "initialize" || request["method"] == "notifications/initialized";
                let is_sent = match is_later && begins {
                    true => usual(&connection, &request),
                    false => send(&connection, flood, &request),
                };
                if is_sent.is_err() {
                    return;
                }
            }
        });
    }
    true
}

/// Reads a request, and returns the message in its body; null without a body.
fn request(input: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap_or_default())
}

fn usual(mut to: &TcpStream, request: &Value) -> std::io::Result<()> {
    if request.get("id").is_none() {
        return to.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
    }
    let body = response(request).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    to.write_all((head + &body).as_bytes())
}

/// Sends a flood until the client has closed the connection.
fn send(mut to: &TcpStream, flood: &str, request: &Value) -> std::io::Result<()> {
    let token = &request["params"]["_meta"]["progressToken"];
    let (start, piece): (&str, String) = match flood {
        "deaf" => loop {
            thread::park();
        },
        "drip" => loop {
            to.write_all(b"H")?;
            thread::sleep(Duration::from_millis(50));
        },
        "redirects" => {
            return to.write_all(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /mcp\r\ncontent-length: 0\r\n\r\n");
        }
        // A stream that ends at once and asks to be resumed at once.
        "resumed" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            to.write_all(format!("{head}retry: 0\nid: 1\ndata: \n\n").as_bytes())?;
            return to.shutdown(std::net::Shutdown::Both);
        }
        "headers" => ("HTTP/1.1 200 OK\r\n", "x-flood: 1\r\n".into()),
        "header" => ("HTTP/1.1 200 OK\r\nx-flood: ", "aaaaaaaa".into()),
        "informational" => ("", "HTTP/1.1 100 Continue\r\n\r\n".into()),
        "body" => (JSON_LENGTH, "        ".into()),
        "until-close" => (JSON, "aaaaaaaa".into()),
        "chunks" => (JSON_CHUNKS, "8\r\naaaaaaaa\r\n".into()),
        "chunk-extension" => (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n8;a=",
            "aaaaaaaa".into(),
        ),
        "trailers" => (TRAILERS, "x-flood: 1\r\n".into()),
        "blank" => (SSE, "\n".into()),
        "comments" => (SSE, ": flood\n\n".into()),
        "comment" => (SSE_COMMENT, "aaaaaaaa".into()),
        "event" => (SSE_DATA, "aaaaaaaa".into()),
        "events" => (SSE, event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)),
        "pings" => (SSE, event(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)),
        "requests" => (SSE, event(r#"{"jsonrpc":"2.0","id":"r","method":"sampling/createMessage","params":{}}"#)),
        "responses" => (SSE, event(r#"{"jsonrpc":"2.0","id":999999999,"result":{}}"#)),
        "progress" => (
            SSE,
            event(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
            )),
        ),
        _ => (SSE, "id: 1\ndata: \n\n".into()),
    };
    to.write_all(start.as_bytes())?;
    let pieces = piece.repeat(PIECES_PER_WRITE);
    loop {
        to.write_all(pieces.as_bytes())?;
    }
}

fn event(message: &str) -> String {
    format!("data: {message}\n\n")
}

const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"jsonrpc\":\"2.0\",\"x\":\"";
const JSON_LENGTH: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999999999999\r\n\r\n";
const JSON_CHUNKS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\"\r\n";
const TRAILERS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n";
const SSE: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const SSE_COMMENT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: ";
const SSE_DATA: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ";

/// The pieces of one write: enough that the flood is not slowed down by system calls.
const PIECES_PER_WRITE: usize = 1000;
