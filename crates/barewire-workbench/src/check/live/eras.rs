//! A server -> the eras that it speaks, and a connection in each.

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Era, Revision, key};
use serde_json::json;

use super::ServerSummary;
use super::connection::{ReceivedOutput, ServerConnection};
use super::harness::{Harness, initialize};
use super::outcome::{ErrorResponse, RequestOutcome, ResultResponse};
use crate::check::catalogue::envelope::{ID_FIDELITY, JSONRPC_MESSAGES};
use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::catalogue::lifecycle::{EARLY_EXIT, HANDSHAKE, MUTE_SERVER, VERSION_NEGOTIATION};
use crate::check::catalogue::modern::MODERN_DISCOVER;
use crate::check::ledger::{Reason, SkipReason};
use crate::text::shown;
use crate::{Advice, Error};

/// The server's description of itself in one era.
pub(super) struct EraFacts {
    /// The response that declares the capabilities, if there is one.
    pub(super) declaration: Option<ResultResponse>,
    pub(super) discovers: bool,
}

impl EraFacts {
    /// Returns the part of the capabilities at this path of member names.
    pub(super) fn capability(&self, path: &[&str]) -> Option<Json<'_>> {
        self.declaration.as_ref()?.at(&["capabilities"])?.at(path)
    }
}

/// A connection in each era that the server speaks.
#[derive(Default)]
pub(super) struct SpokenEras {
    pub(super) legacy: Option<(ServerConnection, EraFacts)>,
    pub(super) modern: Option<(ServerConnection, EraFacts)>,
}

pub(super) async fn find(harness: &mut Harness, summary: &mut ServerSummary) -> Result<SpokenEras, Error> {
    harness.progress("the first response");
    let mut old = harness.spawn(Era::Legacy, false)?;
    let mut new = harness.spawn(Era::Modern, false)?;
    let patience = harness.first_patience();
    let (legacy, modern) = tokio::join!(
        initialize(&mut old, Revision::LATEST_LEGACY.as_str(), patience),
        new.claimed_request_within("server/discover", json!({}), patience),
    );
    harness.recording.ledger().inspected(&EARLY_EXIT);
    if matches!((&legacy, &modern), (RequestOutcome::Disconnected, RequestOutcome::Disconnected)) {
        early_exit(harness, old).await;
        harness.close(new).await;
        return Ok(SpokenEras::default());
    }
    let is_mute =
        |outcome: &RequestOutcome| matches!(outcome, RequestOutcome::NoResponse | RequestOutcome::Disconnected);
    if is_mute(&legacy) && is_mute(&modern) {
        fail_mute(harness, &old, &[&old, &new]);
        harness.close(old).await;
        harness.close(new).await;
        return Ok(SpokenEras::default());
    }
    harness.recording.ledger().inspected(&MUTE_SERVER);
    if let (RequestOutcome::Refused(one), RequestOutcome::Refused(two)) = (&legacy, &modern) {
        if one.status.is_none() && two.status.is_none() {
            return Err(Error::new(format!("no server responds at this URL: {}", one.why)));
        }
        if harness.is_http() && one.status == Some(401) && two.status == Some(401) {
            let why = Reason::new("the server answers 401", Advice::SendCredentials);
            harness.recording.ledger().incomplete(&JSONRPC_MESSAGES, why);
        } else {
            let detail = format!("initialize: got {}; is this the path of the MCP endpoint?", legacy.describe());
            harness.fail(&MUTE_SERVER, &old, Some(&legacy), detail);
        }
        return Ok(SpokenEras::default());
    }
    let modern = modern_era(harness, new, modern, summary).await;
    let legacy = legacy_era(harness, old, legacy, summary, modern.is_some()).await;
    Ok(SpokenEras { legacy, modern })
}

/// Reports a server that does not respond, unless a check of its output has already reported the cause.
fn fail_mute(harness: &Harness, old: &ServerConnection, connections: &[&ServerConnection]) {
    let is_other_form = connections.iter().any(|connection| is_other_form(&connection.received.start));
    let causes = [&ONE_MESSAGE_A_LINE, &ID_FIDELITY, &STDOUT_PURITY].into_iter();
    let mut causes = causes.filter(|check| check.id != STDOUT_PURITY.id || is_other_form);
    if let Some(cause) = causes.find(|check| harness.recording.ledger().has_failed(check)) {
        harness.recording.ledger().skip(&MUTE_SERVER, SkipReason::Needs(cause.id));
        return;
    }
    let waited = harness.first_patience();
    let sum = |count: fn(&ReceivedOutput) -> usize| connections.iter().map(|it| count(&it.received)).sum::<usize>();
    let detail = match (sum(|received| received.lines), sum(|received| received.bytes)) {
        (0, 0) => format!("received nothing within {waited:?}"),
        (0, bytes) => format!("received {bytes} bytes within {waited:?}, but no newline, which ends a message"),
        (1, _) => format!("received one line within {waited:?}, which is not a response"),
        (lines, _) => format!("received {lines} lines within {waited:?}, none of which is a response"),
    };
    let first = connections.iter().map(|connection| &connection.received.start).find(|start| !start.is_empty());
    harness.fail_missing(&MUTE_SERVER, old.location(), first.map_or(b"", Vec::as_slice), detail);
}

/// Whether these bytes may be messages in a framing or encoding that MCP does not use.
fn is_other_form(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start).replace('\0', "").to_ascii_lowercase();
    text.contains("content-length:") || text.contains("jsonrpc")
}

async fn early_exit(harness: &mut Harness, connection: ServerConnection) {
    let location = connection.channel_location();
    // A process that has only closed its stdout is still running.
    let has_exited = connection.exited().is_some();
    let end = harness.close(connection).await;
    let how = end.exit.as_ref().map_or("the process has exited".to_owned(), ToString::to_string);
    let how = how.lines().map(str::trim).collect::<Vec<_>>().join(" / ");
    let how = if has_exited { how } else { format!("the process closed its stdout; {how}") };
    harness.fail_at(&EARLY_EXIT, location, b"", how);
}

async fn legacy_era(
    harness: &mut Harness,
    mut connection: ServerConnection,
    mut outcome: RequestOutcome,
    summary: &mut ServerSummary,
    is_modern: bool,
) -> Option<(ServerConnection, EraFacts)> {
    // The specification allows an error that lists the supported versions. The latest of these is then requested.
    if let RequestOutcome::Error(response) = &outcome
        && let Some(revision) = supported_revision(response)
    {
        harness.handshake_revision = revision;
        harness.close(connection).await;
        connection = harness.spawn(Era::Legacy, false).ok()?;
        outcome = initialize(&mut connection, revision.as_str(), harness.first_patience()).await;
    }
    let RequestOutcome::Result(result) = outcome else {
        // A modern server need not have a handshake.
        if !is_modern {
            fail_handshake(harness, &connection, &outcome);
        }
        harness.close(connection).await;
        return None;
    };
    harness.recording.ledger().inspected(&HANDSHAKE);
    let version = result.string(&["protocolVersion"]).and_then(|version| Revision::parse(&version));
    if let Some(revision) = version.filter(|it| !it.is_modern()) {
        connection.revision = revision;
        summary.legacy.push(revision);
    }
    set_name(summary, result.at(&["serverInfo"]));
    connection.initialized().await;
    Some((connection, EraFacts { declaration: Some(result), discovers: false }))
}

fn fail_handshake(harness: &Harness, connection: &ServerConnection, outcome: &RequestOutcome) {
    let (check, detail) = match outcome {
        RequestOutcome::NoResponse | RequestOutcome::Disconnected => {
            return fail_mute(harness, connection, &[connection]);
        }
        RequestOutcome::Error(response) if is_about_version(response) => {
            (&VERSION_NEGOTIATION, format!("initialize with {}: got {}", connection.revision, outcome.describe()))
        }
        RequestOutcome::Error(response) => {
            let message = shown(response.message().as_bytes(), 200);
            (&HANDSHAKE, format!("initialize: got error {}: {message}", response.code))
        }
        outcome => (&HANDSHAKE, format!("initialize: got {}", outcome.describe())),
    };
    harness.fail(check, connection, Some(outcome), detail);
}

/// Returns the latest legacy revision that an error lists as supported, unless that revision was already requested.
fn supported_revision(response: &ErrorResponse) -> Option<Revision> {
    let supported = response.at(&["data", "supported"])?.elements();
    let supported = supported.filter_map(|it| Revision::parse(&it.string()?)).filter(|it| !it.is_modern());
    supported.max().filter(|revision| *revision != Revision::LATEST_LEGACY)
}

fn is_about_version(response: &ErrorResponse) -> bool {
    let is_array = |it: Json<'_>| it.kind() == Kind::Array;
    response.at(&["data", "supported"]).is_some_and(is_array)
        || response.message().to_ascii_lowercase().contains("version")
}

async fn modern_era(
    harness: &mut Harness,
    mut connection: ServerConnection,
    outcome: RequestOutcome,
    summary: &mut ServerSummary,
) -> Option<(ServerConnection, EraFacts)> {
    let detail = match &outcome {
        RequestOutcome::Result(result) if is_discovery(result) => {
            set_name(summary, result.at(&["_meta", key::SERVER_INFO]));
            return Some((connection, EraFacts { declaration: Some(result.clone()), discovers: true }));
        }
        // These codes exist only in the modern era, so the server is modern. The request has the only modern revision,
        // so the server should have accepted the request.
        RequestOutcome::Error(response) if (-32022..=-32020).contains(&response.code) => {
            format!("server/discover: expected a result, got {}", outcome.describe())
        }
        RequestOutcome::Disconnected | RequestOutcome::NoResponse | RequestOutcome::Refused(_) => {
            harness.close(connection).await;
            return None;
        }
        RequestOutcome::Result(..) | RequestOutcome::Error(_) => {
            // A legacy server may serve any method, but never sends a resultType.
            let list = connection.claimed_request("tools/list", json!({})).await;
            if !matches!(&list, RequestOutcome::Result(result) if result.at(&["resultType"]).is_some()) {
                harness.close(connection).await;
                return None;
            }
            format!("tools/list gets a result, but server/discover got {}", outcome.describe())
        }
    };
    harness.fail(&MODERN_DISCOVER, &connection, Some(&outcome), detail);
    Some((connection, EraFacts { declaration: None, discovers: false }))
}

fn is_discovery(result: &ResultResponse) -> bool {
    ["supportedVersions", "capabilities", "resultType"].iter().any(|member| result.at(&[member]).is_some())
}

fn set_name(summary: &mut ServerSummary, info: Option<Json<'_>>) {
    let string = |member| info.and_then(|info| info.member(member)?.string());
    if let (Some(name), None) = (string("name"), &summary.name) {
        let version = string("version").unwrap_or_default();
        summary.name = Some(shown(format!("{name} {version}").trim_end().as_bytes(), 80));
    }
}
