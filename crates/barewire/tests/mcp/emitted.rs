//! The messages of a connection -> a line of JSON each, with the revision of the message, for other validators.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

/// A writer into the folder that `BAREWIRE_EMITTED` names, if it is set.
pub(crate) struct Emitted {
    file: Option<File>,
    name: String,
    connections: u32,
    /// The revision that `initialize` negotiated.
    negotiated: Option<String>,
    /// The revisions of the requests of the client and of the server, by id.
    client_revisions: HashMap<String, String>,
    server_revisions: HashMap<String, String>,
    /// The revision of the last request.
    last: String,
}

impl Emitted {
    /// Creates a writer that writes nothing.
    pub(crate) fn silent() -> Self {
        Self::with(None, "")
    }

    /// Creates a writer for this transcript, if `BAREWIRE_EMITTED` is set.
    pub(crate) fn new(name: &str) -> Self {
        let file = std::env::var_os("BAREWIRE_EMITTED").map(|folder| {
            std::fs::create_dir_all(&folder).expect("a folder");
            let path = Path::new(&folder).join(format!("{}.ndjson", name.replace('/', "-")));
            OpenOptions::new().create(true).append(true).open(path).expect("writable")
        });
        Self::with(file, name)
    }

    fn with(file: Option<File>, name: &str) -> Self {
        Self {
            file,
            name: name.to_owned(),
            connections: 0,
            negotiated: None,
            client_revisions: HashMap::new(),
            server_revisions: HashMap::new(),
            last: LEGACY.to_owned(),
        }
    }

    /// Starts a new connection.
    pub(crate) fn open(&mut self) {
        self.connections += 1;
        self.negotiated = None;
        self.client_revisions.clear();
        self.server_revisions.clear();
        self.last = LEGACY.to_owned();
    }

    /// Records a line from the client.
    pub(crate) fn client(&mut self, line: &[u8]) {
        for message in messages(line) {
            let revision = match (message.get("method"), message.get("id")) {
                // A message without a valid id is not a request that could be paired with a response.
                (Some(_), Some(Value::Null)) => continue,
                (Some(_), id) => {
                    let revision = self.revision_of(&message);
                    if let Some(id) = id {
                        self.client_revisions.insert(id.to_string(), revision.clone());
                        self.last.clone_from(&revision);
                    }
                    revision
                }
                (None, Some(id)) => {
                    self.server_revisions.get(&id.to_string()).cloned().unwrap_or_else(|| self.legacy())
                }
                (None, None) => self.legacy(),
            };
            self.write("client", &revision, &message);
        }
    }

    /// Records a line from the server.
    pub(crate) fn server(&mut self, line: &[u8]) {
        for message in messages(line) {
            if let Some(negotiated) = message.pointer("/result/protocolVersion").and_then(Value::as_str) {
                self.negotiated = Some(negotiated.to_owned());
            }
            let initialize = message.pointer("/result/protocolVersion").is_some();
            let revision = match (message.get("method"), message.get("id")) {
                (Some(_), Some(id)) => {
                    self.server_revisions.insert(id.to_string(), self.legacy());
                    self.legacy()
                }
                (Some(_), None) if message.pointer("/params/_meta").is_some() => MODERN.to_owned(),
                (Some(_), None) => self.last.clone(),
                (None, Some(id)) if !initialize => {
                    self.client_revisions.get(&id.to_string()).cloned().unwrap_or_else(|| self.legacy())
                }
                _ => self.legacy(),
            };
            self.write("server", &revision, &message);
        }
    }

    /// Returns the revision of a client's message: the one in its `_meta`, or the negotiated one.
    fn revision_of(&self, message: &Value) -> String {
        let meta = message.pointer("/params/_meta").and_then(Value::as_object);
        let modern = meta.is_some_and(|meta| {
            ["protocolVersion", "clientCapabilities"]
                .iter()
                .any(|name| meta.contains_key(&format!("io.modelcontextprotocol/{name}")))
        });
        let method = message["method"].as_str().unwrap_or_default();
        if modern || matches!(method, "server/discover" | "subscriptions/listen") {
            return MODERN.to_owned();
        }
        self.legacy()
    }

    fn legacy(&self) -> String {
        self.negotiated.clone().unwrap_or_else(|| LEGACY.to_owned())
    }

    fn write(&mut self, from: &str, revision: &str, message: &Value) {
        let Some(file) = &mut self.file else { return };
        let connection = format!("{}#{}", self.name, self.connections);
        let line = json!({
            "connection": connection,
            "revision": revision,
            "from": from,
            // Messages of the client are often wrong on purpose: they are only there for pairing, not for validation.
            "ours": from == "server",
            "message": message,
        });
        writeln!(file, "{line}").expect("writable");
    }
}

/// Returns the messages of a line: one, those of a batch, or none if it is not JSON.
fn messages(line: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(line) {
        Ok(Value::Array(messages)) => messages,
        Ok(message) => vec![message],
        Err(_) => Vec::new(),
    }
}

const MODERN: &str = "2026-07-28";

/// The revision of a connection before one is negotiated.
const LEGACY: &str = "2025-11-25";
