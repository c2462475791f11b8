//! Learns from results of `tools/list` which arguments to repeat in headers, and leaves out invalid tools.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barewire_proto::http::HeaderParams;
use barewire_proto::json::{Json, Text};
use bytes::Bytes;

use crate::log::{Log, quoted};

/// The header params of a server's tools: the arguments that HTTP headers repeat.
#[derive(Default)]
pub(super) struct ToolHeaders {
    known: Mutex<HashMap<String, Arc<HeaderParams>>>,
    /// Held while header params are looked up with `tools/list`.
    pub(super) list_lock: tokio::sync::Mutex<()>,
}

impl ToolHeaders {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<HeaderParams>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the header params of a tool; `None` if they are unknown.
    pub(super) fn find(&self, name: &str) -> Option<Arc<HeaderParams>> {
        self.lock().get(name).cloned()
    }

    pub(super) fn remember(&self, name: &str, params: HeaderParams) {
        let mut known = self.lock();
        if name.len() <= MAX_TOOL_NAME_BYTES && (known.len() < MAX_TOOLS || known.contains_key(name)) {
            known.insert(name.to_owned(), Arc::new(params));
        }
    }

    /// Removes `was`, the wrong header params of a tool, unless other header params have replaced them.
    pub(super) fn forget(&self, name: &str, was: &Arc<HeaderParams>) {
        let mut known = self.lock();
        if known.get(name).is_some_and(|is| Arc::ptr_eq(is, was)) {
            known.remove(name);
        }
    }

    /// Stores the header params of the tools in a response to `tools/list`, and returns the response without the tools
    /// whose header annotations are invalid. The rest of the response is unchanged.
    pub(super) fn learn(&self, answer: Bytes, log: &Log) -> Bytes {
        let Ok(message) = Json::parse(&answer) else { return answer };
        let lead = answer.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        let mut out: Option<(Vec<u8>, usize)> = None;
        for result in message.members().filter(|member| member.name == "result") {
            for tools in result.value.members().filter(|member| member.name == "tools") {
                let start = lead + result.value_at + tools.value_at;
                let Some(valid) = self.valid_tools(tools.value, log) else { continue };
                let (text, done) = out.get_or_insert_with(|| (Vec::with_capacity(answer.len()), 0));
                text.extend_from_slice(&answer[*done..start]);
                text.push(b'[');
                text.extend_from_slice(&valid.join(&b","[..]));
                text.push(b']');
                *done = start + tools.value.as_bytes().len();
            }
        }
        match out {
            None => answer,
            Some((mut text, done)) => {
                text.extend_from_slice(&answer[done..]);
                text.into()
            }
        }
    }

    /// Stores the header params of the valid tools, and returns these tools; `None` if all tools are valid.
    fn valid_tools<'a>(&self, tools: Json<'a>, log: &Log) -> Option<Vec<&'a [u8]>> {
        let (mut valid, mut all) = (Vec::new(), true);
        for tool in tools.elements() {
            let member = |name: &str| tool.members().filter(|member| member.name == name).last();
            let name = member("name").and_then(|name| Text::from_json(name.value)).map(Text::to_name);
            let schema =
                member("inputSchema").map_or(Ok(HeaderParams::default()), |schema| HeaderParams::of(schema.value));
            match (schema, name) {
                (Ok(params), name) => {
                    valid.push(tool.as_bytes());
                    if let Some(name) = name {
                        self.remember(&name, params);
                    }
                }
                (Err(bad), name) => {
                    all = false;
                    let (name, bad) = (quoted(name.unwrap_or_default().as_bytes()), bad.to_string());
                    log.report(format_args!("left out tool {name}: {}", quoted(bad.as_bytes())));
                }
            }
        }
        (!all).then_some(valid)
    }
}

/// The maximum number of tools to remember; further tools are looked up for each call. No model chooses among so many
/// tools.
const MAX_TOOLS: usize = 16 * 1024;

/// The maximum length in bytes of a tool name to remember. MCP 2026-07-28, server/tools, allows 128 characters, which
/// are at most 512 bytes; this is twice as much.
const MAX_TOOL_NAME_BYTES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(text: &str) -> (ToolHeaders, String) {
        let tools = ToolHeaders::default();
        let left = tools.learn(Bytes::copy_from_slice(text.as_bytes()), &Log::default());
        (tools, String::from_utf8(left.to_vec()).expect("UTF-8"))
    }

    #[test]
    fn only_invalid_tools_are_removed_and_the_rest_is_unchanged() {
        let good =
            r#"{ "name":"a", "inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}"#;
        let plain = r#"{"name":"\u0062","n":1.0e0}"#;
        let bad = r#"{"name":"c","inputSchema":{"properties":{"r":{"type":"number","x-mcp-header":"R"}}}}"#;
        let around = |tools: &str| {
            format!(
                " {{\"jsonrpc\":\"2.0\", \"result\" : {{ \"x\":[1 ],\"tools\": {tools} ,\"nextCursor\":\"\"}},\"id\":1}}\n"
            )
        };
        let all = around(&format!("[ {good} ,{plain}]"));
        assert_eq!(learn(&all).1, all);
        let (tools, left) = learn(&around(&format!("[{bad}, {good} ,{bad},{plain}, {bad}]")));
        assert_eq!(left, around(&format!("[{good},{plain}]")));
        assert!(!tools.find("a").expect("known").is_empty());
        assert!(tools.find("b").expect("known").is_empty());
        assert!(tools.find("c").is_none());
        assert_eq!(learn(&around(&format!("[{bad}]"))).1, around("[]"));
    }

    #[test]
    fn other_messages_are_unchanged() {
        for text in ["", "[]", "{", r#"{"result":[]}"#, r#"{"result":{"tools":{}}}"#, r#"{"error":{"tools":[{}]}}"#] {
            assert_eq!(learn(text).1, text);
        }
    }

    #[test]
    fn only_so_many_tools_are_remembered() {
        let headers = ToolHeaders::default();
        for tool in 0..20_000 {
            headers.remember(&format!("tool-{tool}"), HeaderParams::default());
        }
        assert_eq!(headers.lock().len(), 16_384);
        assert!(headers.find("tool-16383").is_some() && headers.find("tool-16384").is_none());
        headers.remember(&"x".repeat(2000), HeaderParams::default());
        assert!(headers.find(&"x".repeat(2000)).is_none());
    }
}
