//! Messages of a server -> its marks: how it answers requests that every run sends, with names and ids left out.

use std::collections::BTreeMap;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Era, Revision, Side};
use serde::{Deserialize, Serialize};

use crate::operations::{Operation, Relation, TrackedMessage};

/// A method that no server has.
pub(in crate::check) const UNKNOWN_METHOD_NAME: &str = "barewire/no-such-method";
/// A tool, prompt or file that no server has.
pub(in crate::check) const NO_SUCH: &str = "barewire-no-such";

/// The marks of a server: responses that depend on its SDK, and not on its author.
pub(in crate::check) type Marks = BTreeMap<Mark, String>;

/// A kind of mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::check) enum Mark {
    /// The names of the members of a result's message, in their order.
    Members,
    /// The revision that the server offers to a client that asks for the latest legacy one.
    Revision,
    /// The capability `tools` that the server declares. Where authors declare it, it is no mark of their SDK.
    ToolsCapability,
    /// The response to an unknown method.
    UnknownMethod,
    /// The response to a call of an unknown tool. Servers that handle `tools/call` themselves have their own.
    UnknownTool,
    /// The beginning of the response to a call without the name of a tool.
    NamelessTool,
    /// The response to an unknown method, in the modern era.
    ModernUnknownMethod,
    /// The response to a call of an unknown tool, in the modern era.
    ModernUnknownTool,
    /// The beginning of the response to a call without the name of a tool, in the modern era.
    ModernNamelessTool,
    /// The transport, if it is HTTP. It does not tell SDKs apart, but an SDK has findings of its own over HTTP.
    Transport,
}

impl Mark {
    /// Whether the mark alone excludes all other SDKs but a few.
    pub(super) const fn is_telling(self) -> bool {
        matches!(self, Self::UnknownMethod | Self::ModernUnknownMethod)
    }

    /// Returns the mark that the response to this request has.
    fn of(operation: &Operation, is_modern: bool) -> Option<Self> {
        match (operation.method.as_str(), operation.name.as_deref(), is_modern) {
            (UNKNOWN_METHOD_NAME, _, false) => Some(Self::UnknownMethod),
            (UNKNOWN_METHOD_NAME, _, true) => Some(Self::ModernUnknownMethod),
            ("tools/call", Some(NO_SUCH), false) => Some(Self::UnknownTool),
            ("tools/call", Some(NO_SUCH), true) => Some(Self::ModernUnknownTool),
            ("tools/call", None, false) => Some(Self::NamelessTool),
            ("tools/call", None, true) => Some(Self::ModernNamelessTool),
            _ => None,
        }
    }

    /// Returns the maximum length of the mark, in characters.
    const fn max_length(self) -> usize {
        match self {
            // The rest describes the schema, in words that depend on the version of another library.
            Self::NamelessTool | Self::ModernNamelessTool => 72,
            _ => 400,
        }
    }
}

/// Collects the marks of a server from its messages. Of each kind, the first one counts.
#[derive(Default)]
pub(in crate::check) struct MarkCollector {
    pub(in crate::check) marks: Marks,
}

impl MarkCollector {
    pub(in crate::check) fn message(&mut self, tracked: &TrackedMessage<'_>) {
        let (Relation::Response { operation, .. }, Side::Server) = (tracked.relation, tracked.sender) else { return };
        if tracked.conversation.over_http {
            self.add(Mark::Transport, HTTP);
        }
        let is_modern = tracked.conversation.era() == Some(Era::Modern);
        let is_handshake = operation.method == "initialize";
        let mark = Mark::of(operation, is_modern);
        if !is_handshake && mark.is_none_or(|mark| self.marks.contains_key(&mark)) {
            return;
        }
        let Some(message) = tracked.text.filter(|text| text.len() <= MAX_RESPONSE).and_then(|it| Json::parse(it).ok())
        else {
            return;
        };
        match mark {
            Some(mark) => self.add(mark, &cut(&response_text(message), mark)),
            None => self.handshake(message, tracked),
        }
    }

    /// Reads the response to the first `initialize`, which asks for the latest legacy revision.
    fn handshake(&mut self, message: Json<'_>, tracked: &TrackedMessage<'_>) {
        let Some(revision) = message.at(&["result", "protocolVersion"]).and_then(Json::string) else { return };
        if tracked.conversation.proposed.as_deref() == Some(Revision::LATEST_LEGACY.as_str()) {
            let names: Vec<_> = message.members().map(|member| member.name.to_name()).collect();
            self.add(Mark::Members, &names.join(","));
            self.add(Mark::Revision, &revision);
            if let Some(tools) = message.at(&["result", "capabilities", "tools"]) {
                self.add(Mark::ToolsCapability, &cut(tools.as_str(), Mark::ToolsCapability));
            }
        }
    }

    fn add(&mut self, mark: Mark, text: &str) {
        self.marks.entry(mark).or_insert_with(|| text.to_owned());
    }
}

/// Returns a response as JSON text without the metadata, which contains the name of the server. The id, and the names
/// that the request had, are replaced by placeholders.
fn response_text(message: Json<'_>) -> String {
    let text = members_text(message, |name, value| match name {
        "id" => Some("{id}".to_owned()),
        "result" if value.kind() == Kind::Object => {
            Some(members_text(value, |name, value| (name != "_meta").then(|| value.as_str().to_owned())))
        }
        _ => Some(value.as_str().to_owned()),
    });
    text.replace(UNKNOWN_METHOD_NAME, "{method}").replace(NO_SUCH, "{tool}")
}

/// Returns an object as JSON text, with the values that `text` returns. Members without one are left out.
fn members_text(object: Json<'_>, text: impl Fn(&str, Json<'_>) -> Option<String>) -> String {
    let member = |name: &str, value| text(name, value).map(|value| format!("\"{name}\":{value}"));
    let members: Vec<_> = object.members().filter_map(|it| member(&it.name.to_name(), it.value)).collect();
    format!("{{{}}}", members.join(","))
}

fn cut(text: &str, mark: Mark) -> String {
    text.chars().take(mark.max_length()).collect()
}

/// The text of [`Mark::Transport`].
pub(super) const HTTP: &str = "http";
/// The maximum length of a response that is looked at, in bytes: longer than a schema that an error quotes.
const MAX_RESPONSE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_the_run_or_the_author_is_left_out() {
        let text = |message: &str| response_text(Json::parse(message.as_bytes()).expect("JSON"));
        let error = r#"{"id": 7, "error": {"code":-32601,"message":"no barewire/no-such-method"}}"#;
        assert_eq!(text(error), r#"{"id":{id},"error":{"code":-32601,"message":"no {method}"}}"#);
        let result = r#"{"jsonrpc":"2.0","id":"x","result":{"_meta":{"name":"mine"},"text":"no barewire-no-such"}}"#;
        assert_eq!(text(result), r#"{"jsonrpc":"2.0","id":{id},"result":{"text":"no {tool}"}}"#);
    }
}
