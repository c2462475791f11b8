//! Requests of both eras, as bytes.

/// Returns a modern request. A name is repeated in a header.
pub(super) fn modern(id: u64, method: &str, name: Option<&str>, params: &str) -> Vec<u8> {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientInfo":{{"name":"load","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}},"progressToken":{id}}}"#
    );
    let name_member = name.map(|name| format!(r#","name":"{name}""#)).unwrap_or_default();
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{meta}{name_member}{params}}}}}"#);
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    post(&format!("MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n{name}"), &body)
}

/// Returns a modern tool call.
pub(super) fn call(id: u64, tool: &str, arguments: &str) -> Vec<u8> {
    modern(id, "tools/call", Some(tool), &format!(r#","arguments":{arguments}"#))
}

/// Returns a modern request for notifications when the list of tools changes.
pub(super) fn listen(id: u64) -> Vec<u8> {
    modern(id, "subscriptions/listen", None, r#","notifications":{"toolsListChanged":true}"#)
}

pub(super) fn initialize() -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{{"name":"load","version":"1"}}}}}}"#
    );
    post("", &body)
}

pub(super) fn initialized(session: &str) -> Vec<u8> {
    in_session(session, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
}

/// Returns a tool call in a session.
pub(super) fn session_call(session: &str, id: u64, tool: &str, arguments: &str) -> Vec<u8> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{id}}},"name":"{tool}","arguments":{arguments}}}}}"#
    );
    in_session(session, &body)
}

pub(super) fn in_session(session: &str, body: &str) -> Vec<u8> {
    post(&format!("MCP-Protocol-Version: {LEGACY}\r\nMcp-Session-Id: {session}\r\n"), body)
}

pub(super) fn post(headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("POST {HEAD}Content-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// Returns the same request with its body in one chunk, so that its length is not announced.
pub(super) fn chunked(request: &[u8]) -> Vec<u8> {
    let end = request.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
    let (head, body) = (String::from_utf8_lossy(&request[..end]), &request[end..]);
    let head = head.replace(&format!("Content-Length: {}", body.len()), "Transfer-Encoding: chunked");
    [head.as_bytes(), format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n"].concat()
}

/// Returns the GET for the stream of a session, or for the rest of a stream after an event.
pub(super) fn get(session: &str, last_event_id: Option<&str>) -> Vec<u8> {
    let last = last_event_id.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
    format!("GET {HEAD}MCP-Protocol-Version: {LEGACY}\r\nMcp-Session-Id: {session}\r\n{last}\r\n").into_bytes()
}

pub(super) fn delete(session: &str) -> Vec<u8> {
    format!("DELETE {HEAD}MCP-Protocol-Version: {LEGACY}\r\nMcp-Session-Id: {session}\r\n\r\n").into_bytes()
}

/// The part of the head that all requests share, after the method.
pub(super) const HEAD: &str = "/mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n";
const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
