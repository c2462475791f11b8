//! Collects the names, capabilities and revision of a client and a server from their messages.

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{Era, RequestMeta, Revision, Side, key};
use barewire_proto::rpc::{Params, Request, Response};

/// A connection over a byte stream; over HTTP, a session, or a single exchange if there is no session.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Conversation {
    /// The channel of the transcript, or the session id; empty if there is only one conversation.
    pub name: String,
    /// Whether the conversation takes place over HTTP.
    pub over_http: bool,
    /// The revision that the client proposed in `initialize`.
    pub proposed: Option<String>,
    /// The negotiated revision, or that of the last modern request. It may be a revision that barewire does not know.
    pub version: Option<String>,
    /// The state of the legacy handshake.
    pub handshake: Handshake,
    /// The client's own name and version.
    pub client: Option<Participant>,
    /// The server's own name and version.
    pub server: Option<Participant>,
    /// The capabilities that the client declared, as JSON text.
    pub client_capabilities: Option<String>,
    /// The capabilities that the server declared, as JSON text.
    pub server_capabilities: Option<String>,
}

/// The state of the handshake in the legacy revisions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the legacy handshake has three messages and does not change")]
pub enum Handshake {
    /// No `initialize` was sent.
    #[default]
    None,
    /// `initialize` was sent.
    Asked,
    /// `initialize` was answered.
    Answered,
    /// `notifications/initialized` was sent.
    Done,
}

/// The name and version of an implementation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The name.
    pub name: String,
    /// The version.
    pub version: String,
}

impl Conversation {
    /// Returns the revision, if barewire knows it.
    pub fn revision(&self) -> Option<Revision> {
        self.version.as_deref().and_then(Revision::parse)
    }

    /// Returns the era, if the messages so far determine it.
    pub fn era(&self) -> Option<Era> {
        match self.handshake {
            Handshake::None => self.revision().map(Revision::era),
            _ => Some(Era::Legacy),
        }
    }

    pub(super) fn requested(&mut self, asker: Side, request: &Request<'_>, meta: &RequestMeta<'_>) {
        if asker != Side::Client {
            return;
        }
        // With modern metadata, `initialize` is not a handshake, but a request for a removed method.
        if request.method == "initialize" && meta.protocol_version.is_none() {
            let version = member(request.params.map(Params::json), "protocolVersion").and_then(text);
            self.proposed = version;
            self.handshake = self.handshake.max(Handshake::Asked);
            let params = request.params.map(Params::json);
            self.client = member(params, "clientInfo").and_then(participant).or(self.client.take());
            self.client_capabilities = member(params, "capabilities").and_then(short);
            return;
        }
        // The metadata of a modern request is valid only for that request. The conversation keeps the last metadata.
        if let Some(version) = meta.protocol_version.and_then(text) {
            self.version = Some(version);
            self.client = meta.client_info.and_then(participant).or(self.client.take());
            self.client_capabilities = meta.client_capabilities.and_then(short);
        }
    }

    pub(super) fn answered(&mut self, method: &str, response: &Response<'_>) {
        let Ok(result) = response.outcome else { return };
        let result = Some(result);
        match method {
            "initialize" => {
                self.handshake = self.handshake.max(Handshake::Answered);
                self.version = member(result, "protocolVersion").and_then(text);
                self.server = member(result, "serverInfo").and_then(participant);
                self.server_capabilities = member(result, "capabilities").and_then(short);
            }
            "server/discover" => {
                self.server_capabilities = member(result, "capabilities").and_then(short);
                self.server = member(result, "serverInfo").and_then(participant).or(self.server.take());
            }
            _ => {}
        }
        // A modern server sends its name in every result.
        let info = member(result, "_meta").and_then(|meta| member(Some(meta), key::SERVER_INFO).and_then(participant));
        self.server = info.or(self.server.take());
    }

    pub(super) fn notified(&mut self, sender: Side, method: &str) {
        if sender == Side::Client && method == "notifications/initialized" {
            self.handshake = self.handshake.max(Handshake::Done);
        }
    }
}

/// Returns the member with this name; if there are several, the last one.
pub fn member<'a>(object: Option<Json<'a>>, name: &str) -> Option<Json<'a>> {
    object?.member(name)
}

fn text(json: Json<'_>) -> Option<String> {
    let text = Text::from_json(json)?.to_name();
    (text.len() <= MAX_NAME_LENGTH).then(|| text.into_owned())
}

fn participant(info: Json<'_>) -> Option<Participant> {
    let name = member(Some(info), "name").and_then(text)?;
    let version = member(Some(info), "version").and_then(text).unwrap_or_default();
    Some(Participant { name, version })
}

/// Returns the JSON text of a value, unless the text is longer than any real capabilities.
fn short(json: Json<'_>) -> Option<String> {
    (json.as_str().len() <= MAX_CAPABILITIES_LENGTH).then(|| json.as_str().to_owned())
}

/// The maximum length of a name, in bytes: longer than any real name.
pub(super) const MAX_NAME_LENGTH: usize = 1024;
/// The maximum length of capabilities, in bytes. Real capabilities have a few hundred bytes.
const MAX_CAPABILITIES_LENGTH: usize = 64 * 1024;
