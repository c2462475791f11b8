//! A connection -> what was agreed on it: which era the server is of, which revision is spoken, and what the server can do.

use std::time::Duration;

use barewire_proto::mcp::{
    DiscoverResult, Era, Implementation, InitializeParams, InitializeResult, Revision, ServerCapabilities, code, key,
};
use barewire_proto::rpc::ErrorObject;
use serde::Deserialize;

use super::ClientError;
use super::handlers::Handlers;
use super::params::{CallParams, Members, modern_meta};
use crate::peer::{CallError, ConnectionEnd, Peer, Raw};

/// A server, as it describes itself. It may say anything: this is for people, and to know what can be asked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// What is spoken with it.
    pub revision: Revision,
    /// Its name and version. A modern server need not give them.
    pub implementation: Option<Implementation>,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// What a model should know about it.
    pub instructions: Option<String>,
}

/// How a connection is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RevisionPreference {
    /// Find out.
    Any,
    /// It was of this era last time; if it is no longer, find out.
    LastKnownEra(Era),
    /// This revision, and no other.
    Exactly(Revision),
}

/// Who asks, and how long it waits.
pub(super) struct HandshakeSettings<'a> {
    pub(super) info: &'a Implementation,
    pub(super) handlers: &'a Handlers,
    /// How long the answer to the question may take which era the server is of.
    pub(super) probe_timeout: Option<Duration>,
    pub(super) timeout: Option<Duration>,
}

/// What a server is, by its answer to `server/discover`.
pub(super) enum ProbeResult {
    Modern(Box<ServerInfo>),
    /// Not modern, as this shows; or because it says so itself.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only a status of HTTP says more than that"))]
    Legacy(Option<CallError>),
    /// It has ended the connection.
    Closed(ConnectionEnd),
}

impl RevisionPreference {
    /// The revisions that may come of it.
    fn revisions(self) -> Vec<Revision> {
        match self {
            Self::Exactly(revision) => vec![revision],
            Self::Any | Self::LastKnownEra(_) => Revision::ALL.to_vec(),
        }
    }

    /// The revision that is offered first of an era.
    fn first_offer(self, era: Era) -> Revision {
        match (self, era) {
            (Self::Exactly(revision), _) => revision,
            (_, Era::Legacy) => Revision::LATEST_LEGACY,
            (_, Era::Modern) => Revision::LATEST,
        }
    }

    /// The best of what a server says it speaks.
    fn choose(self, theirs: &[String]) -> Result<Revision, ClientError> {
        let ours = self.revisions();
        let both = theirs.iter().filter_map(|theirs| Revision::parse(theirs)).filter(|it| ours.contains(it));
        // The latest is a modern one if there is one.
        both.max().ok_or_else(|| ClientError::Version { ours, theirs: theirs.to_vec() })
    }
}

/// Asks `server/discover`, and takes everything that a modern server would not answer for the sign of a legacy one.
pub(super) async fn probe(
    peer: &Peer,
    preference: RevisionPreference,
    settings: &HandshakeSettings<'_>,
) -> Result<ProbeResult, ClientError> {
    let mut revision = preference.first_offer(Era::Modern);
    let mut last_error = None;
    for _ in 0..MAX_PROBES {
        let call = peer.call::<Raw>(DISCOVER, settings.params(revision)).quiet();
        let timeout = match preference {
            RevisionPreference::Any => settings.probe_timeout,
            RevisionPreference::LastKnownEra(_) | RevisionPreference::Exactly(_) => settings.timeout,
        };
        let call = match timeout {
            Some(timeout) => call.timeout(timeout),
            None => call.no_timeout(),
        };
        match call.await {
            Ok(result) => {
                let Ok(found) = result.to::<DiscoverResult>() else { return Ok(ProbeResult::Legacy(None)) };
                let revision = preference.choose(&found.supported_versions)?;
                return Ok(match revision.era() {
                    Era::Modern => ProbeResult::Modern(Box::new(ServerInfo::discovered(revision, found))),
                    Era::Legacy => ProbeResult::Legacy(None),
                });
            }
            Err(CallError::Refused(error)) if error.code == code::UNSUPPORTED_PROTOCOL_VERSION => {
                let chosen = preference.choose(&supported_versions(&error))?;
                if chosen.era() == Era::Legacy {
                    return Ok(ProbeResult::Legacy(None));
                }
                (revision, last_error) = (chosen, Some(error));
            }
            // MCP 2026-07-28, stdio, "Backward Compatibility": a modern server that says no is not asked to initialize.
            Err(CallError::Refused(error)) if code::is_modern(error.code) => {
                return Err(ClientError::Refused { method: DISCOVER.to_owned(), error });
            }
            Err(CallError::Closed(closed)) => return Ok(ProbeResult::Closed(closed)),
            Err(CallError::Params(what)) => return Err(ClientError::Params(what)),
            Err(why) => return Ok(ProbeResult::Legacy(Some(why))),
        }
    }
    // It goes on refusing what it says it speaks.
    let error = last_error.unwrap_or_else(|| ErrorObject::standard(code::UNSUPPORTED_PROTOCOL_VERSION));
    Err(ClientError::Refused { method: DISCOVER.to_owned(), error })
}

/// The handshake of the legacy era, up to the server's answer.
pub(super) async fn initialize(
    peer: &Peer,
    preference: RevisionPreference,
    settings: &HandshakeSettings<'_>,
) -> Result<ServerInfo, ClientError> {
    let offered = preference.first_offer(Era::Legacy);
    let capabilities = settings.handlers.capabilities(offered);
    let params = InitializeParams::new(offered, capabilities, settings.info.clone());
    // MCP 2025-11-25, basic/utilities/cancellation: "The initialize request MUST NOT be cancelled by clients".
    let call = peer.call::<InitializeResult>(INITIALIZE, params).quiet();
    let call = match settings.timeout {
        Some(timeout) => call.timeout(timeout),
        None => call.no_timeout(),
    };
    let result = call.await.map_err(|error| ClientError::from_call(INITIALIZE, settings.timeout, error))?;
    let mut ours = preference.revisions();
    ours.retain(|revision| revision.era() == Era::Legacy);
    match result.revision().filter(|revision| ours.contains(revision)) {
        Some(revision) => Ok(ServerInfo::initialized(revision, result)),
        None => Err(ClientError::Version { ours, theirs: vec![result.protocol_version] }),
    }
}

/// The client is ready.
pub(super) async fn send_initialized(peer: &Peer) -> Result<(), ClientError> {
    let sent = peer.notify(INITIALIZED, ()).await;
    sent.map_err(|error| ClientError::from_call(INITIALIZED, None, error))
}

impl HandshakeSettings<'_> {
    fn params(&self, revision: Revision) -> CallParams {
        let meta = modern_meta(revision, self.info, &self.handlers.capabilities(revision), None);
        CallParams::None.with(Members::new(), meta).expect("nothing is in the way")
    }
}

impl ServerInfo {
    pub(super) fn discovered(revision: Revision, found: DiscoverResult) -> Self {
        let DiscoverResult { capabilities, instructions, meta, .. } = found;
        let implementation = meta.as_ref().and_then(|meta| meta.get(key::SERVER_INFO));
        let implementation = implementation.and_then(|value| Implementation::deserialize(value).ok());
        Self { revision, implementation, capabilities, instructions }
    }

    fn initialized(revision: Revision, result: InitializeResult) -> Self {
        let InitializeResult { capabilities, server_info, instructions, .. } = result;
        Self { revision, implementation: Some(server_info), capabilities, instructions }
    }
}

/// A server does not answer as one of this revision does, and no other is wanted.
pub(super) fn revision_not_supported(revision: Revision) -> ClientError {
    let what =
        format!("it does not answer as a server of {revision} does: .era(..) or nothing finds out what it speaks");
    ClientError::fault(DISCOVER, what)
}

/// What a server lists that does not speak the revision of a request.
fn supported_versions(error: &ErrorObject) -> Vec<String> {
    #[derive(Deserialize)]
    struct UnsupportedVersionData {
        supported: Vec<String>,
    }
    let data = error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok());
    data.map_or_else(Vec::new, |UnsupportedVersionData { supported }| supported)
}

pub(super) const DISCOVER: &str = "server/discover";
pub(super) const INITIALIZE: &str = "initialize";
const INITIALIZED: &str = "notifications/initialized";

/// How often a server is asked to be discovered that names versions which it then refuses: once for each that is known and
/// modern, and once more.
const MAX_PROBES: usize = 3;
