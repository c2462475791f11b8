//! A server -> the eras that it speaks, and a connection in each.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::{Era, Revision, key};
use barewire_proto::transcript::Stream;
use serde_json::json;

use super::ServerSummary;
use super::authorization;
use super::connection::{ReceivedOutput, ServerConnection};
use super::harness::{Harness, initialize, initialize_params};
use super::ordinary::LISTS;
use super::outcome::{ErrorResponse, RequestOutcome, ResultResponse};
use crate::check::catalogue::envelope::{ID_FIDELITY, JSONRPC_MESSAGES};
use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::catalogue::lifecycle::{EARLY_EXIT, HANDSHAKE, MUTE_SERVER, VERSION_NEGOTIATION};
use crate::check::catalogue::modern::MODERN_DISCOVER;
use crate::check::excerpt::{Excerpt, Fault};
use crate::check::finding::{Finding, Party, stream_location};
use crate::check::last_lines::LastLines;
use crate::check::ledger::{Reason, SkipReason};
use crate::text::shown;
use crate::{Advice, Error};

/// The server's description of itself in one era.
#[derive(Clone)]
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

    pub(super) fn declares(&self, capability: &str) -> bool {
        self.capability(&[capability]).is_some_and(|it| it.kind() != Kind::Null)
    }

    /// Returns the method of a list that the server has.
    pub(super) fn declared_list(&self) -> Option<&'static str> {
        LISTS.iter().find(|(capability, _)| self.declares(capability)).map(|(_, method)| *method)
    }
}

/// The first connection of each era.
#[derive(Default)]
pub(super) struct FirstConnections {
    pub(super) legacy: Option<(ServerConnection, EraFacts)>,
    pub(super) modern: Option<FirstModern>,
}

pub(super) enum FirstModern {
    Spoken(ServerConnection, EraFacts),
    /// The server has a handshake, and `server/discover` with this id is not answered yet.
    Undecided(ServerConnection, String),
}

pub(super) async fn find(harness: &Harness, summary: &RefCell<ServerSummary>) -> Result<FirstConnections, Error> {
    let _subject = harness.progress("the first response");
    let mut old = harness.spawn(Era::Legacy, false).await?;
    // A legacy server may do anything with a request before the handshake.
    let mut new = harness.spawn(Era::Modern, true).await?;
    let (legacy, modern, id) = first_responses(harness, &mut old, &mut new).await;
    harness.recording.ledger().inspected(&EARLY_EXIT);
    let is_gone = |outcome: &Option<RequestOutcome>| matches!(outcome, Some(RequestOutcome::Disconnected(_)));
    if is_gone(&legacy) && is_gone(&modern) {
        early_exit(harness, old).await;
        harness.close(new).await;
        return Ok(FirstConnections::default());
    }
    if is_gone(&legacy) != is_gone(&modern) {
        // Maybe only one process can run at a time, for example because it listens on a port.
        harness.is_sequential.set(true);
    }
    if is_gone(&legacy) {
        harness.recording.passive().mark_misuse(old.channel.as_str());
        harness.close(old).await;
        harness.close(new).await;
        return find_alone(harness, summary).await;
    }
    let is_mute = |outcome: &Option<RequestOutcome>| {
        matches!(outcome, None | Some(RequestOutcome::NoResponse(_) | RequestOutcome::Disconnected(_)))
    };
    if is_mute(&legacy) && is_mute(&modern) {
        fail_mute(harness, &old, &[&old, &new]);
        harness.close(old).await;
        harness.close(new).await;
        return Ok(FirstConnections::default());
    }
    harness.recording.ledger().inspected(&MUTE_SERVER);
    if let (Some(RequestOutcome::Refused(one)), Some(RequestOutcome::Refused(two))) = (&legacy, &modern) {
        if one.status.is_none() && two.status.is_none() {
            return Err(Error::new(format!("no server responds at this URL: {}", one.why)));
        }
        let asks = one.status == Some(401) && two.status == Some(401);
        if harness.is_http() && (asks || authorization::is_wrong_challenge(harness, one.status).await) {
            let status = one.status.unwrap_or_default();
            let why = Reason::new(format!("the server answers {status}"), Advice::SendCredentials);
            harness.recording.ledger().incomplete(&JSONRPC_MESSAGES, why);
        } else {
            let got = RequestOutcome::Refused(one.clone());
            let detail = format!("initialize: got {}; is this the path of the MCP endpoint?", got.describe());
            harness.fail(&MUTE_SERVER, &old, Some(&got), detail);
        }
        return Ok(FirstConnections::default());
    }
    let modern = match modern {
        Some(outcome) => {
            let spoken = modern_era(harness, new, outcome, summary).await;
            spoken.map(|(connection, facts)| FirstModern::Spoken(connection, facts))
        }
        None => Some(FirstModern::Undecided(new, id)),
    };
    let is_modern = matches!(modern, Some(FirstModern::Spoken(..)));
    let legacy = match legacy {
        Some(outcome) => legacy_era(harness, old, outcome, summary, is_modern).await?,
        // The server has answered a modern request, and need not have a handshake.
        None => {
            harness.close_within(old, Duration::ZERO).await;
            None
        }
    };
    Ok(FirstConnections { legacy, modern })
}

/// Starts one process after the other, because the one with the handshake has exited while another was running.
async fn find_alone(harness: &Harness, summary: &RefCell<ServerSummary>) -> Result<FirstConnections, Error> {
    let mut old = harness.spawn(Era::Legacy, false).await?;
    let version = Revision::LATEST_LEGACY.as_str();
    let outcome = initialize(&mut old, version, harness.first_patience()).await;
    harness.recording.ledger().inspected(&MUTE_SERVER);
    if outcome.frame().is_some() {
        let legacy = legacy_era(harness, old, outcome, summary, false).await?;
        return Ok(FirstConnections { legacy, modern: None });
    }
    harness.close(old).await;
    let mut new = harness.spawn(Era::Modern, true).await?;
    let outcome = new.claimed_request_within("server/discover", json!({}), harness.first_patience()).await;
    let spoken = modern_era(harness, new, outcome, summary).await;
    let modern = spoken.map(|(connection, facts)| FirstModern::Spoken(connection, facts));
    Ok(FirstConnections { legacy: None, modern })
}

/// Sends the first request of each era, and waits for the responses; after one has arrived, for a shorter time. Also
/// returns the id of the modern request.
async fn first_responses(
    harness: &Harness,
    old: &mut ServerConnection,
    new: &mut ServerConnection,
) -> (Option<RequestOutcome>, Option<RequestOutcome>, String) {
    let since = Instant::now();
    let version = Revision::LATEST_LEGACY.as_str();
    let initialize = old.send_request("initialize", initialize_params(version)).await;
    let discover = new.send_request("server/discover", json!({})).await;
    old.claim(&initialize);
    new.claim(&discover);
    let (mut legacy, mut modern) = (None, None);
    let mut limit = harness.first_patience();
    while (legacy.is_none() || modern.is_none()) && since.elapsed() < limit && !harness.is_late() {
        let is_new = legacy.is_none() && modern.is_none();
        let wait = async |connection: &mut ServerConnection, id: &str, known: &mut Option<RequestOutcome>| {
            if known.is_none() {
                *known = connection.response_within(id, FIRST_STEP).await;
            }
        };
        tokio::join!(wait(old, &initialize, &mut legacy), wait(new, &discover, &mut modern));
        if is_new && [&legacy, &modern].iter().any(|it| it.as_ref().is_some_and(|it| it.frame().is_some())) {
            harness.start_time.set(Some(since.elapsed()));
        }
        let discovers = matches!(&modern, Some(RequestOutcome::Result(result)) if is_discovery(result));
        match &legacy {
            // `server/discover` is waited for while the probes of the legacy era run.
            Some(outcome) if is_new && outcome.frame().is_some() => limit = since.elapsed() * 2 + SECOND_ERA,
            // A modern server need not have a handshake. Any other error says nothing about the handshake.
            None if is_new && discovers => limit = limit.min(since.elapsed() * 2 + harness.patience),
            _ => {}
        }
    }
    (legacy, modern, discover)
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
    let Some(first) = first else { return harness.fail_missing(&MUTE_SERVER, old, old.last_sent(), detail) };
    let received = Excerpt::of(stream_location(old.channel.as_str(), Stream::ToClient), first, Fault::Whole);
    let finding = Finding::new(&MUTE_SERVER, Party::Server, old.location(), detail);
    match harness.is_late() {
        true => harness.incomplete(&MUTE_SERVER),
        false => {
            let finding = finding.with_request(old.last_sent()).with_response(Some(received));
            harness.recording.ledger().fail(finding);
        }
    }
}

/// Whether these bytes may be messages in a framing or encoding that MCP does not use.
fn is_other_form(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start).replace('\0', "").to_ascii_lowercase();
    text.contains("content-length:") || text.contains("jsonrpc")
}

async fn early_exit(harness: &Harness, connection: ServerConnection) {
    let location = connection.channel_location();
    // A process that has only closed its stdout is still running.
    let has_exited = connection.exited().is_some();
    let (request, channel) = (connection.last_sent(), connection.channel.clone());
    let mut end = harness.close(connection).await;
    // The lines of stderr are evidence, and not a part of the sentence.
    let stderr = end.exit.as_mut().map(|exit| std::mem::take(&mut exit.stderr)).unwrap_or_default();
    let mut lines = LastLines::default();
    stderr.lines().for_each(|line| lines.push(line.as_bytes()));
    let how = end.exit.as_ref().map_or("the process has exited".to_owned(), ToString::to_string);
    let how = if has_exited { how } else { format!("the process closed its stdout; {how}") };
    let stderr = Excerpt::of_lines(stream_location(channel.as_str(), Stream::Stderr), lines.cause());
    let finding = Finding::new(&EARLY_EXIT, Party::Server, location, how).with_request(request);
    harness.recording.ledger().fail(finding.with_response(Some(stderr).filter(|stderr| !stderr.is_empty())));
}

async fn legacy_era(
    harness: &Harness,
    mut connection: ServerConnection,
    mut outcome: RequestOutcome,
    summary: &RefCell<ServerSummary>,
    is_modern: bool,
) -> Result<Option<(ServerConnection, EraFacts)>, Error> {
    // The specification allows an error that lists the supported versions. The latest of these is then requested.
    if let RequestOutcome::Error(response) = &outcome
        && let Some(revision) = supported_revision(response)
    {
        harness.handshake_revision.set(revision);
        harness.close(connection).await;
        connection = harness.spawn(Era::Legacy, false).await?;
        outcome = initialize(&mut connection, revision.as_str(), harness.first_patience()).await;
    }
    let RequestOutcome::Result(result) = outcome else {
        // A modern server need not have a handshake.
        if !is_modern {
            fail_handshake(harness, &connection, &outcome);
        }
        harness.close(connection).await;
        return Ok(None);
    };
    harness.recording.ledger().inspected(&HANDSHAKE);
    let version = result.string(&["protocolVersion"]).and_then(|version| Revision::parse(&version));
    if let Some(revision) = version.filter(|it| !it.is_modern()) {
        connection.revision = revision;
        summary.borrow_mut().legacy.push(revision);
    }
    set_name(summary, result.at(&["serverInfo"]));
    harness.initialized(&mut connection).await;
    Ok(Some((connection, EraFacts { declaration: Some(result), discovers: false })))
}

fn fail_handshake(harness: &Harness, connection: &ServerConnection, outcome: &RequestOutcome) {
    let (check, detail) = match outcome {
        RequestOutcome::NoResponse(_) | RequestOutcome::Disconnected(_) => {
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

/// Decides whether a server speaks the modern era, by the outcome of `server/discover`.
pub(super) async fn modern_era(
    harness: &Harness,
    mut connection: ServerConnection,
    outcome: RequestOutcome,
    summary: &RefCell<ServerSummary>,
) -> Option<(ServerConnection, EraFacts)> {
    let detail = match &outcome {
        RequestOutcome::Result(result) if is_discovery(result) => {
            set_name(summary, result.at(&["_meta", key::SERVER_INFO]));
            speaks_modern(harness, &mut connection);
            return Some((connection, EraFacts { declaration: Some(result.clone()), discovers: true }));
        }
        // These codes exist only in the modern era, so the server is modern. The request has the only modern revision,
        // so the server should have accepted the request.
        RequestOutcome::Error(response) if (-32022..=-32020).contains(&response.code) => {
            format!("server/discover: expected a result, got {}", outcome.describe())
        }
        RequestOutcome::Disconnected(_) | RequestOutcome::NoResponse(_) | RequestOutcome::Refused(_) => {
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
    speaks_modern(harness, &mut connection);
    harness.fail(&MODERN_DISCOVER, &connection, Some(&outcome), detail);
    Some((connection, EraFacts { declaration: None, discovers: false }))
}

/// Makes the connection one on which no rule is broken.
fn speaks_modern(harness: &Harness, connection: &mut ServerConnection) {
    connection.is_misuse = false;
    harness.recording.passive().unmark_misuse(connection.channel.as_str());
}

fn is_discovery(result: &ResultResponse) -> bool {
    ["supportedVersions", "capabilities", "resultType"].iter().any(|member| result.at(&[member]).is_some())
}

fn set_name(summary: &RefCell<ServerSummary>, info: Option<Json<'_>>) {
    let mut summary = summary.borrow_mut();
    let string = |member| info.and_then(|info| info.member(member)?.string());
    if let (Some(name), None) = (string("name"), &summary.name) {
        let version = string("version").unwrap_or_default();
        summary.name = Some(shown(format!("{name} {version}").trim_end().as_bytes(), 80));
    }
}

/// The time for which both eras are waited for at once.
const FIRST_STEP: Duration = Duration::from_millis(100);
/// The time that the other era has after one was answered, in addition to the time that took. If a legacy server
/// ignores `server/discover`, its other checks begin after this time.
const SECOND_ERA: Duration = Duration::from_millis(500);
