//! Requests as bytes, in both eras.

use crate::harness::era::Era;

/// A POST of this message. In the modern era, headers repeat its method and name.
pub(super) fn post(era: Era, method: &str, name: Option<&str>, session: Option<&str>, body: &str) -> Vec<u8> {
    let body = body.trim_end();
    let modern = match era {
        Era::Legacy => String::new(),
        Era::Modern => {
            let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
            format!("Mcp-Method: {method}\r\n{name}")
        }
    };
    let head = head("POST", era, session);
    let length = body.len();
    format!("{head}Content-Type: application/json\r\n{modern}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A GET for the stream of a session.
pub(super) fn get(era: Era, session: Option<&str>) -> Vec<u8> {
    let head = head("GET", era, session);
    format!("{head}\r\n").into_bytes()
}

fn head(verb: &str, era: Era, session: Option<&str>) -> String {
    let session = session.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
    let version = era.revision();
    format!(
        "{verb} /mcp HTTP/1.1\r\nHost: localhost\r\nUser-Agent: barewire-benches\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {version}\r\n{session}"
    )
}

/// The bytes of text in a call.
pub(super) const TEXT_BYTES: usize = 64;
