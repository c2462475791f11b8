//! The messages of the two eras of MCP: the opening of a connection, a call, its answer.

/// An era of MCP: up to 2025-11-25, or from 2026-07-28 on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Era {
    /// `initialize` first; then a call only has the tool's name and arguments.
    Legacy,
    /// Every call has in its `_meta` what `initialize` used to agree on.
    Modern,
}

impl Era {
    /// The messages before the first call, each with the number of its answers. Modern servers can be called at once; a
    /// client that does not know the era of its server asks first.
    pub(crate) fn opening(self) -> Vec<(String, u32)> {
        match self {
            Self::Legacy => {
                vec![(format!("{INITIALIZE}\n"), 1), (format!("{INITIALIZED}\n"), 0)]
            }
            Self::Modern => {
                let discover = format!(r#"{HEAD}1,"method":"server/discover","params":{{{META}}}}}"#);
                vec![(discover + "\n", 1)]
            }
        }
    }

    /// The revision that represents the era.
    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    /// A modern request for notifications of changes to the list of tools.
    pub(crate) fn listen() -> String {
        let wanted = r#""notifications":{"toolsListChanged":true}"#;
        format!(r#"{HEAD}1,"method":"subscriptions/listen","params":{{{META},{wanted}}}}}"#)
    }

    /// A call of `echo`.
    pub(crate) fn call(self, id: u32, text: &str) -> String {
        let meta = match self {
            Self::Legacy => String::new(),
            Self::Modern => format!("{META},"),
        };
        let arguments = format!(r#"{{"text":"{text}"}}"#);
        let params = format!(r#"{{{meta}"name":"echo","arguments":{arguments}}}"#);
        format!(r#"{HEAD}{id},"method":"tools/call","params":{params}}}"#) + "\n"
    }

    /// The floor's answer to a call. `isError` may be left out if it is false.
    pub(crate) fn answer(self, id: u32, text: &str, is_error: bool) -> String {
        let content = format!(r#""content":[{{"type":"text","text":"{text}"}}]"#);
        let is_error = if is_error { r#","isError":false"# } else { "" };
        let head = match self {
            Self::Legacy => String::new(),
            Self::Modern => format!(r#""resultType":"complete",{RESULT_META},"#),
        };
        format!(r#"{HEAD}{id},"result":{{{head}{content}{is_error}}}}}"#) + "\n"
    }
}

/// The beginning of every message with an id, up to the id.
pub(crate) const HEAD: &str = r#"{"jsonrpc":"2.0","id":"#;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"barewire-benches","version":"0.0.0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// The `_meta` of every modern request, in the order of the specification's examples.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"barewire-benches","version":"0.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
/// The `_meta` of every modern result of the floor.
const RESULT_META: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"echo","version":"1.0.0"}}"#;
