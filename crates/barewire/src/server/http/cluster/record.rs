//! A session as the store keeps it, and the changes that a client can make to it.

use std::collections::BTreeSet;

use barewire_proto::json::Text;
use barewire_proto::mcp::{
    ClientCapabilities, Implementation, InitializeParams, LoggingLevel, ParsedMessage, RequestParams, Revision,
    SetLevelParams,
};
use barewire_proto::rpc::{Message, Parsed, Request};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// All that a node must know to serve a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<String>,
    pub(super) revision: Revision,
    pub(super) client: Implementation,
    pub(super) capabilities: ClientCapabilities,
    /// Whether the client has confirmed the handshake.
    #[serde(default)]
    pub(super) is_complete: bool,
    pub(super) log_level: LoggingLevel,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) subscriptions: BTreeSet<String>,
    /// The node that has the stream for unsolicited messages.
    pub(super) home: u32,
    /// The nodes that have served the session.
    pub(super) nodes: BTreeSet<u32>,
    /// The number of versions of the record so far, by which a node knows which of two is the later one; 0 if an earlier
    /// release of the library has written it.
    #[serde(default)]
    pub(super) changes: u64,
}

impl SessionRecord {
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    pub(super) fn write(&self) -> Bytes {
        serde_json::to_vec(self).expect("numbers and text are JSON").into()
    }

    /// Returns the record with these changes.
    pub(super) fn with(&self, changes: &[RecordChange]) -> Self {
        let mut record = self.clone();
        changes.iter().for_each(|change| change.apply(&mut record));
        record
    }

    /// Returns the `initialize` of a client that negotiates what the session has.
    pub(super) fn initialize(&self) -> Bytes {
        let params = InitializeParams::new(self.revision, self.capabilities.clone(), self.client.clone());
        let params = serde_json::to_string(&params).expect("numbers and text are JSON");
        format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#).into()
    }
}

/// A change of the record that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum RecordChange {
    /// The client confirms the handshake.
    Complete,
    LogLevel(LoggingLevel),
    Subscribe(String),
    Unsubscribe(String),
}

impl RecordChange {
    /// Returns the change that a message asks for.
    pub(super) fn of(message: &Message<'_>) -> Option<Self> {
        match message {
            Message::Notification(it) if it.method == "notifications/initialized" => Some(Self::Complete),
            Message::Request(it) if it.method == "logging/setLevel" => {
                let params: SetLevelParams = it.params?.json().to().ok()?;
                Some(Self::LogLevel(params.level))
            }
            Message::Request(it) if it.method == "resources/subscribe" => uri(it).map(Self::Subscribe),
            Message::Request(it) if it.method == "resources/unsubscribe" => uri(it).map(Self::Unsubscribe),
            _ => None,
        }
    }

    fn apply(&self, record: &mut SessionRecord) {
        match self {
            Self::Complete => record.is_complete = true,
            Self::LogLevel(level) => record.log_level = *level,
            Self::Subscribe(uri) => {
                record.subscriptions.insert(uri.clone());
            }
            Self::Unsubscribe(uri) => {
                record.subscriptions.remove(uri);
            }
        }
    }
}

fn uri(request: &Request<'_>) -> Option<String> {
    let uri = RequestParams::read(request.params).uri.and_then(Text::from_json)?;
    Some(uri.to_str()?.into_owned())
}

/// Returns the messages of a frame, of which those that are invalid are left out.
pub(super) fn messages(message: &ParsedMessage<Bytes>) -> Vec<Message<'_>> {
    match message.parsed() {
        Parsed::Message(message) => vec![message],
        Parsed::Batch(batch) => batch.elements().filter_map(Result::ok).collect(),
        Parsed::Invalid(_) => Vec::new(),
    }
}

/// The notification that completes a handshake.
pub(super) const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
