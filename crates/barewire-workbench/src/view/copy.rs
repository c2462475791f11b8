//! A frame -> texts to copy: the JSON, a `barewire call` command, a `curl` command.

use std::fmt::Write as _;

use barewire_proto::json::Json;
use serde_json::{Value, json};

use super::frame::{Copied, text_member};

/// Returns the texts. Commands are made of requests of the client only.
pub(super) fn copies(bytes: &[u8], copied: &Copied, http: Option<&Value>) -> Value {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty() && text.len() <= MAX_TEXT);
    let message = text.and_then(|text| Json::parse(text.as_bytes()).ok()).filter(|_| copied.is_request);
    json!({
        "json": text, "call": message.and_then(|message| call(message, copied)),
        "curl": text.and_then(|text| curl(text, http?)),
    })
}

/// Returns a command that sends the request to the same server.
fn call(message: Json<'_>, copied: &Copied) -> Option<String> {
    let params = message.member("params");
    let mut words = vec!["barewire".to_owned(), "call".to_owned()];
    if copied.method == "tools/call" {
        words.push(quoted(&text_member(params?, "name")?));
        if let Some(arguments) = params?.member("arguments") {
            words.push(quoted(arguments.as_str()));
        }
    } else {
        words.push(quoted(&copied.method));
        words.extend(params.map(|params| quoted(params.as_str())));
    }
    let target = match copied.program.as_deref() {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => format!("--url {}", quoted(url)),
        // The command line is in the capture as a shell takes it.
        Some(program) if program.chars().all(|c| !c.is_control()) => format!("-- {program}"),
        _ => "-- SERVER".to_owned(),
    };
    Some(format!("{} {target}", words.join(" ")))
}

/// Returns a command that sends the body with the same headers.
fn curl(text: &str, http: &Value) -> Option<String> {
    let request = http.get("request").filter(|request| !request.is_null())?;
    let headers = request["headers"].as_array()?;
    let pair = |header: &Value| Some((header[0].as_str()?.to_ascii_lowercase(), header[1].as_str()?.to_owned()));
    let pairs: Vec<(String, String)> = headers.iter().filter_map(pair).collect();
    let host = pairs.iter().find(|(name, _)| name == "host").map_or("localhost", |(_, value)| value.as_str());
    let target = request["target"].as_str()?;
    let url = if target.contains("://") { target.to_owned() } else { format!("http://{host}{target}") };
    let mut command = format!("curl -X {} {}", quoted(request["method"].as_str()?), quoted(&url));
    let of_curl = ["host", "content-length", "connection", "transfer-encoding", "accept-encoding"];
    for (name, value) in pairs.iter().filter(|(name, _)| !of_curl.contains(&name.as_str())) {
        let _ = write!(command, " -H {}", quoted(&format!("{name}: {value}")));
    }
    let _ = write!(command, " --data-binary {}", quoted(text));
    Some(command)
}

/// Returns a word that every shell takes as this text.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    // A control character in a command could end the line when it is pasted, or control the terminal.
    let is_control = |c: char| c.is_control();
    if text.contains(is_control) {
        let escaped: String = text
            .chars()
            .map(|c| match c {
                '\'' => "\\'".to_owned(),
                '\\' => "\\\\".to_owned(),
                c if is_control(c) => {
                    c.to_string().bytes().fold(String::new(), |text, byte| format!("{text}\\x{byte:02x}"))
                }
                c => c.to_string(),
            })
            .collect();
        return format!("$'{escaped}'");
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The maximum length of a text to copy, in bytes.
const MAX_TEXT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell() {
        for (text, word) in [
            ("echo", "echo"),
            ("", "''"),
            ("--x", "'--x'"),
            ("a b", "'a b'"),
            ("it's $(x)", "'it'\\''s $(x)'"),
            ("a\u{1b}[2J\n", "$'a\\x1b[2J\\x0a'"),
        ] {
            assert_eq!(quoted(text), word);
        }
    }

    #[test]
    fn a_call_of_a_tool_is_a_command() {
        let text =
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{"a":"it's"}}}"#;
        let copied =
            Copied { is_request: true, method: "tools/call".to_owned(), program: Some("server --x".to_owned()) };
        let http = json!({"request": {"method": "POST", "target": "/mcp", "headers": [["host", "h:1"], ["a", "b"]]}});
        let copies = copies(text, &copied, Some(&http));
        assert_eq!(copies["call"], "barewire call say '{\"a\":\"it'\\''s\"}' -- server --x");
        let curl = copies["curl"].as_str().expect("a command");
        assert!(curl.starts_with("curl -X POST http://h:1/mcp -H 'a: b' --data-binary '{"), "{curl}");
    }
}
