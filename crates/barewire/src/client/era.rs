//! The handshake: detects the server's era, negotiates the revision and learns the server's capabilities.

use std::time::Duration;

use barewire_proto::mcp::{
    DiscoverResult, Era, Implementation, InitializeParams, InitializeResult, Revision, ServerCapabilities, code, key,
};
use barewire_proto::rpc::ErrorObject;
use serde::Deserialize;

use super::ClientError;
use super::handlers::Handlers;
use super::params::{CallParams, Members, modern_meta};
use super::small::{parse_small, parse_small_raw};
use crate::peer::{CallError, ConnectionEnd, Peer, Raw};

/// A server's description of itself. The client does not verify it: use it for display and to decide which requests to
/// send, not for security decisions.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The negotiated revision.
    pub revision: Revision,
    /// The server's name and version; `None` if a modern server does not send them.
    pub implementation: Option<Implementation>,
    /// The server's capabilities.
    pub capabilities: ServerCapabilities,
    /// Instructions for a model that uses the server.
    pub instructions: Option<String>,
}

/// The revisions that the client accepts, and the era that it tries first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RevisionPreference {
    /// Any supported revision; start with `server/discover`.
    Any,
    /// Any supported revision; start with this era, because the server was of this era last time.
    LastKnownEra(Era),
    /// Only this revision.
    Exactly(Revision),
}

/// The client's identity and timeouts, for the handshake.
pub(super) struct HandshakeSettings<'a> {
    pub(super) info: &'a Implementation,
    pub(super) handlers: &'a Handlers,
    /// The time limit for the response to `server/discover`.
    pub(super) probe_timeout: Option<Duration>,
    pub(super) timeout: Option<Duration>,
}

/// The outcome of a `server/discover` request.
pub(super) enum ProbeResult {
    Modern(Box<ServerInfo>),
    /// The server is legacy. The value is the error of `server/discover`; `None` if the server listed only legacy
    /// revisions or sent a result that cannot be parsed.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only the HTTP client reads the error"))]
    Legacy(Option<CallError>),
    /// The server closed the connection.
    Closed(ConnectionEnd),
}

impl RevisionPreference {
    /// Returns the revisions that the client accepts.
    fn revisions(self) -> Vec<Revision> {
        match self {
            Self::Exactly(revision) => vec![revision],
            Self::Any | Self::LastKnownEra(_) => Revision::ALL.to_vec(),
        }
    }

    /// Returns the first revision to offer to a server of this era.
    fn first_offer(self, era: Era) -> Revision {
        match (self, era) {
            (Self::Exactly(revision), _) => revision,
            (_, Era::Legacy) => Revision::LATEST_LEGACY,
            (_, Era::Modern) => Revision::LATEST,
        }
    }

    /// Returns the latest acceptable revision among those that the server lists.
    fn choose(self, theirs: &[String]) -> Result<Revision, ClientError> {
        let ours = self.revisions();
        let both = theirs.iter().filter_map(|theirs| Revision::parse(theirs)).filter(|it| ours.contains(it));
        // Modern revisions sort after legacy revisions, so `max` prefers modern revisions.
        both.max().ok_or_else(|| ClientError::Version { ours, theirs: theirs.to_vec() })
    }
}

/// Sends `server/discover`. A server that does not respond in time, or responds in a way that no modern server would,
/// is treated as legacy.
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
                let found = parse_small_raw::<DiscoverResult>(&result);
                let Ok(found) = found else { return Ok(ProbeResult::Legacy(None)) };
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
            // MCP 2026-07-28, stdio, "Backward Compatibility": `initialize` is not sent after an error that only modern
            // servers send.
            Err(CallError::Refused(error)) if code::is_modern(error.code) => {
                return Err(ClientError::Refused { method: DISCOVER.to_owned(), error });
            }
            Err(CallError::Closed(closed)) => return Ok(ProbeResult::Closed(closed)),
            Err(CallError::Params(what)) => return Err(ClientError::Params(what)),
            Err(why) => return Ok(ProbeResult::Legacy(Some(why))),
        }
    }
    // The server keeps refusing the revisions that it lists as supported.
    let error = last_error.unwrap_or_else(|| ErrorObject::standard(code::UNSUPPORTED_PROTOCOL_VERSION));
    Err(ClientError::Refused { method: DISCOVER.to_owned(), error })
}

/// Sends `initialize` and returns the server's description of itself.
pub(super) async fn initialize(
    peer: &Peer,
    preference: RevisionPreference,
    settings: &HandshakeSettings<'_>,
) -> Result<ServerInfo, ClientError> {
    let offered = preference.first_offer(Era::Legacy);
    let capabilities = settings.handlers.capabilities(offered);
    let params = InitializeParams::new(offered, capabilities, settings.info.clone());
    // MCP 2025-11-25, basic/utilities/cancellation: "The initialize request MUST NOT be cancelled by clients". A
    // `quiet` call sends no cancellation when it times out.
    let call = peer.call::<Raw>(INITIALIZE, params).quiet();
    let call = match settings.timeout {
        Some(timeout) => call.timeout(timeout),
        None => call.no_timeout(),
    };
    let result = call.await.and_then(|result| parse_small_raw::<InitializeResult>(&result).map_err(CallError::Result));
    let result = result.map_err(|error| ClientError::from_call(INITIALIZE, settings.timeout, error))?;
    let mut ours = preference.revisions();
    ours.retain(|revision| revision.era() == Era::Legacy);
    match result.revision().filter(|revision| ours.contains(revision)) {
        Some(revision) => Ok(ServerInfo::initialized(revision, result)),
        None => Err(ClientError::Version { ours, theirs: vec![result.protocol_version] }),
    }
}

/// Sends `notifications/initialized`.
pub(super) async fn send_initialized(peer: &Peer) -> Result<(), ClientError> {
    let sent = peer.notify(INITIALIZED, ()).await;
    sent.map_err(|error| ClientError::from_call(INITIALIZED, None, error))
}

impl HandshakeSettings<'_> {
    fn params(&self, revision: Revision) -> CallParams {
        let meta = modern_meta(revision, self.info, &self.handlers.capabilities(revision), None);
        CallParams::None.with(Members::new(), meta).expect("empty params accept any member")
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

/// Returns the error for a server that does not support the only revision that the client accepts.
pub(super) fn revision_not_supported(revision: Revision) -> ClientError {
    let what =
        format!("its response is not that of a {revision} server; remove .revision(..) to negotiate the revision");
    ClientError::fault(DISCOVER, what)
}

/// Returns the versions that an "unsupported protocol version" error lists.
fn supported_versions(error: &ErrorObject) -> Vec<String> {
    #[derive(Deserialize)]
    struct UnsupportedVersionData {
        supported: Vec<String>,
    }
    let data = error.data.as_ref().and_then(|data| parse_small(data.get()).ok());
    data.map_or_else(Vec::new, |UnsupportedVersionData { supported }| supported)
}

pub(super) const DISCOVER: &str = "server/discover";
pub(super) const INITIALIZE: &str = "initialize";
const INITIALIZED: &str = "notifications/initialized";

/// The maximum number of `server/discover` requests to a server that keeps refusing the versions it lists as supported:
/// more than the number of modern versions that this client knows.
const MAX_PROBES: usize = 3;
