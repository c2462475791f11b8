//! The legacy era: the handshake, and the requests after it.

use serde_json::{Value, json};

use crate::Server;
use crate::surface::{self, ServerRequest};
use crate::wire::{Reply, error};

/// The state of the handshake, with the negotiated revision.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum HandshakeState {
    Fresh,
    Initializing(&'static str),
    Ready(&'static str),
}

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

impl HandshakeState {
    pub(crate) fn ready(self) -> Self {
        match self {
            Self::Initializing(revision) => Self::Ready(revision),
            other => other,
        }
    }

    pub(crate) fn revision(self) -> Option<&'static str> {
        match self {
            Self::Fresh => None,
            Self::Initializing(revision) | Self::Ready(revision) => Some(revision),
        }
    }
}

impl Server {
    pub(crate) fn legacy(&mut self, id: &Value, method: &str, params: &Value) -> Reply {
        if !self.has_legacy {
            let data = json!({"supported": ["2026-07-28"]});
            return Reply::Now(match method {
                "initialize" => Err((-32601, "there is no handshake".to_owned(), Some(data))),
                _ => error(-32602, "_meta lacks the protocol version"),
            });
        }
        let is_open = matches!(self.state, HandshakeState::Ready(_)) || self.has("serves-before-initialize");
        match method {
            "initialize" => Reply::Now(self.initialize(params)),
            _ if self.has("stops-after-the-handshake") && is_open => Reply::Later,
            _ if self.has("dies-after-the-handshake") && is_open => std::process::exit(0),
            "ping" if self.has("ignores-ping") => Reply::Later,
            "ping" if self.has("no-ping") => Reply::Now(error(-32601, "Method not found")),
            "ping" if self.has("pong") => Reply::Now(Ok(json!({"pong": true}))),
            "ping" => Reply::Now(Ok(json!({}))),
            "tools/call" if self.has("calls-before-initialized") && self.state != HandshakeState::Fresh => {
                self.serve(&ServerRequest { id, method, params, is_modern: false })
            }
            _ if !is_open => Reply::Now(error(-32600, "not before initialize")),
            "logging/setLevel" if self.has("dies-in-between") => std::process::exit(1),
            "resources/subscribe" | "resources/unsubscribe" if self.has("no-subscriptions") => {
                Reply::Now(error(-32601, "Method not found"))
            }
            "resources/unsubscribe" if self.has("ignores-unsubscribe") => Reply::Later,
            "resources/unsubscribe" => {
                self.has_unsubscribed = true;
                Reply::Now(Ok(json!({})))
            }
            "logging/setLevel" if !self.has("takes-any-log-level") && !is_level(&params["level"]) => {
                Reply::Now(error(-32602, "unknown level"))
            }
            "logging/setLevel" | "resources/subscribe" => Reply::Now(Ok(json!({}))),
            _ => self.serve(&ServerRequest { id, method, params, is_modern: false }),
        }
    }

    fn initialize(&mut self, params: &Value) -> crate::wire::Outcome {
        if self.state != HandshakeState::Fresh && !self.has("initializes-twice") {
            return error(-32600, "initialize was answered before");
        }
        if self.has("refuses-a-client-title") && params["clientInfo"].get("title").is_some()
            || self.has("refuses-experimental") && params["capabilities"].get("experimental").is_some()
        {
            return error(-32602, "unrecognized keys");
        }
        let requested = params["protocolVersion"].as_str().unwrap_or_default();
        let known = REVISIONS.iter().find(|known| **known == requested);
        let revision = known.copied().unwrap_or("2025-11-25");
        self.state = HandshakeState::Initializing(revision);
        let version = if self.has("echoes-version") { requested } else { revision };
        let mut result = json!({
            "protocolVersion": version,
            "capabilities": self.capabilities(false),
            "serverInfo": surface::info(),
        });
        if let Some(instructions) = self.instructions() {
            result["instructions"] = instructions;
        }
        if self.has("no-server-info-in-initialize") {
            result.as_object_mut().expect("an object").remove("serverInfo");
        }
        Ok(result)
    }
}

fn is_level(level: &Value) -> bool {
    const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    level.as_str().is_some_and(|level| LEVELS.contains(&level))
}
