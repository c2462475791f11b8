//! A program -> which eras it speaks, and a connection in each.

use barewire_proto::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::ServerSummary;
use super::connection::{ReceivedOutput, ServerConnection};
use super::harness::{Harness, ask, initialize};
use super::outcome::{ErrorResponse, RequestOutcome};
use crate::check::catalogue::envelope::{ID_FIDELITY, JSONRPC_MESSAGES};
use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::catalogue::lifecycle::{EARLY_EXIT, HANDSHAKE, MUTE_SERVER, VERSION_NEGOTIATION};
use crate::check::catalogue::modern::MODERN_DISCOVER;
use crate::check::ledger::{Reason, SkipReason};
use crate::text::shown;
use crate::{Advice, Error};

/// What a server says of itself in an era.
pub(super) struct EraFacts {
    pub(super) capabilities: Value,
    /// Whether `server/discover` gave a result.
    pub(super) discovers: bool,
}

/// The eras it speaks.
pub(super) struct SpokenEras {
    pub(super) legacy: Option<(ServerConnection, EraFacts)>,
    pub(super) modern: Option<(ServerConnection, EraFacts)>,
}

pub(super) async fn find(harness: &mut Harness, about: &mut ServerSummary) -> Result<SpokenEras, Error> {
    harness.progress("whether it answers");
    let mut old = harness.spawn(Era::Legacy, false)?;
    let mut new = harness.spawn(Era::Modern, false)?;
    let patience = harness.first_patience();
    let (legacy, modern) =
        tokio::join!(initialize(&mut old, Revision::LATEST_LEGACY.as_str(), patience), discover(&mut new, patience),);
    harness.recording.inspected(&EARLY_EXIT);
    if matches!((&legacy, &modern), (RequestOutcome::Disconnected, RequestOutcome::Disconnected)) {
        early_exit(harness, old).await;
        harness.close(new).await;
        return Ok(SpokenEras { legacy: None, modern: None });
    }
    let is_mute = |answer: &RequestOutcome| matches!(answer, RequestOutcome::NoResponse | RequestOutcome::Disconnected);
    if is_mute(&legacy) && is_mute(&modern) {
        mute(harness, &old, &[&old, &new]);
        harness.close(old).await;
        harness.close(new).await;
        return Ok(SpokenEras { legacy: None, modern: None });
    }
    harness.recording.inspected(&MUTE_SERVER);
    if let (RequestOutcome::Refused(old), RequestOutcome::Refused(new)) = (&legacy, &modern)
        && (old.status.is_none() && new.status.is_none())
    {
        return Err(Error::new(format!("nothing answers there: {}", old.why)));
    }
    if harness.is_http() && unauthorized(&legacy) && unauthorized(&modern) {
        let why = Reason::new("the server answers 401", Advice::SendCredentials);
        harness.recording.incomplete(&JSONRPC_MESSAGES, why);
        return Ok(SpokenEras { legacy: None, modern: None });
    }
    if let (RequestOutcome::Refused(_), RequestOutcome::Refused(_)) = (&legacy, &modern) {
        let detail =
            format!("initialize is answered with {}: is this the path of the MCP endpoint?", legacy.describe());
        harness.fail(&MUTE_SERVER, &old, Some(&legacy), detail);
        return Ok(SpokenEras { legacy: None, modern: None });
    }
    let modern = is_modern(harness, new, modern, about).await;
    let legacy = is_legacy(harness, old, legacy, about, modern.is_some()).await;
    Ok(SpokenEras { legacy, modern })
}

fn unauthorized(answer: &RequestOutcome) -> bool {
    matches!(answer, RequestOutcome::Refused(refusal) if refusal.status == Some(401))
}

async fn discover(connection: &mut ServerConnection, patience: std::time::Duration) -> RequestOutcome {
    let id = connection.send_request("server/discover", json!({})).await;
    connection.claim(&id);
    connection.wait_for_response_within(&id, patience).await
}

/// Nobody answers. If that is because something inbox in place of an answer, that is the cause, and is told as such.
fn mute(harness: &Harness, old: &ServerConnection, asked: &[&ServerConnection]) {
    let causes = [&ONE_MESSAGE_A_LINE, &ID_FIDELITY];
    let cause = causes.into_iter().find(|check| harness.recording.has_failed(check));
    let is_other_form = asked.iter().any(|connection| is_other_form(&connection.received.start));
    let cause =
        cause.or_else(|| (is_other_form && harness.recording.has_failed(&STDOUT_PURITY)).then_some(&STDOUT_PURITY));
    if let Some(cause) = cause {
        harness.recording.skip(&MUTE_SERVER, SkipReason::Needs(cause.id));
        return;
    }
    let waited = harness.first_patience();
    let sum =
        |count: fn(&ReceivedOutput) -> usize| asked.iter().map(|connection| count(&connection.received)).sum::<usize>();
    let detail = match (sum(|received| received.lines), sum(|received| received.bytes)) {
        (0, 0) => format!("nothing inbox within {waited:?}"),
        (0, bytes) => {
            format!("{bytes} bytes inbox within {waited:?}, and no line break, which ends a message")
        }
        (1, _) => format!("one line inbox within {waited:?}, and it is no answer"),
        (lines, _) => format!("{lines} lines inbox within {waited:?}, and none of them is an answer"),
    };
    let first = asked.iter().map(|connection| &connection.received.start).find(|start| !start.is_empty());
    harness.fail_missing(&MUTE_SERVER, old.location(), first.map_or(b"", Vec::as_slice), detail);
}

/// Whether this may be messages, framed or encoded in another way.
fn is_other_form(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start).replace('\0', "").to_ascii_lowercase();
    text.contains("content-length:") || text.contains("jsonrpc")
}

async fn early_exit(harness: &mut Harness, connection: ServerConnection) {
    let location = connection.channel_location();
    // One that has only closed its stdout is still there.
    let has_exited = connection.exited().is_some();
    let ended = harness.close(connection).await;
    let how = ended.exit.as_ref().map_or("it is gone".to_owned(), ToString::to_string);
    let how = how.lines().map(str::trim).collect::<Vec<_>>().join(" / ");
    let how = if has_exited { how } else { format!("it closes its stdout; {how}") };
    let finding = crate::check::finding::Finding::new(&EARLY_EXIT, crate::check::finding::Party::Server, location, how);
    harness.recording.fail(finding);
}

async fn is_legacy(
    harness: &mut Harness,
    mut connection: ServerConnection,
    answer: RequestOutcome,
    about: &mut ServerSummary,
    is_modern: bool,
) -> Option<(ServerConnection, EraFacts)> {
    let answer = match answer {
        RequestOutcome::Error(response) => match spoken(&response) {
            // It names what it speaks, as the specification shows it: then it is asked for that.
            Some(revision) => {
                harness.asks_for = revision;
                harness.close(connection).await;
                connection = harness.spawn(Era::Legacy, false).ok()?;
                initialize(&mut connection, revision.as_str(), harness.first_patience()).await
            }
            None => RequestOutcome::Error(response),
        },
        answer => answer,
    };
    let result = match &answer {
        RequestOutcome::Result(_, result) => result,
        // It has no handshake, and says so.
        RequestOutcome::Error(_)
        | RequestOutcome::NoResponse
        | RequestOutcome::Disconnected
        | RequestOutcome::Refused(_)
            if is_modern =>
        {
            harness.close(connection).await;
            return None;
        }
        answer => {
            let (check, detail) = match answer {
                RequestOutcome::Error(response) if is_about_version(response) => {
                    (&VERSION_NEGOTIATION, format!("{} is answered with {}", connection.revision, answer.describe()))
                }
                RequestOutcome::Error(response) => {
                    let message = shown(response.error["message"].as_str().unwrap_or_default().as_bytes(), 200);
                    (&HANDSHAKE, format!("initialize fails with {}: {message}", response.code))
                }
                RequestOutcome::NoResponse | RequestOutcome::Disconnected => {
                    mute(harness, &connection, &[&connection]);
                    harness.close(connection).await;
                    return None;
                }
                answer => (&HANDSHAKE, format!("initialize is answered with {}", answer.describe())),
            };
            harness.fail(check, &connection, Some(answer), detail);
            harness.close(connection).await;
            return None;
        }
    };
    harness.recording.inspected(&HANDSHAKE);
    let version = result["protocolVersion"].as_str();
    if let Some(revision) = version.and_then(Revision::parse).filter(|it| !it.is_modern()) {
        connection.revision = revision;
        about.legacy.push(revision);
    }
    name(about, &result["serverInfo"]);
    let capabilities = result["capabilities"].clone();
    connection.initialized().await;
    Some((connection, EraFacts { capabilities, discovers: false }))
}

/// The latest of the legacy revisions that an error names as spoken, if it is not the one that was asked for.
fn spoken(response: &ErrorResponse) -> Option<Revision> {
    let supported = response.error["data"]["supported"].as_array()?.iter();
    let spoken = supported.filter_map(|it| Revision::parse(it.as_str()?)).filter(|it| !it.is_modern()).max()?;
    (spoken != Revision::LATEST_LEGACY).then_some(spoken)
}

/// Whether an error says that the version is not spoken.
fn is_about_version(response: &ErrorResponse) -> bool {
    let message = response.error["message"].as_str().unwrap_or_default();
    response.error["data"]["supported"].is_array() || message.to_ascii_lowercase().contains("version")
}

async fn is_modern(
    harness: &mut Harness,
    mut connection: ServerConnection,
    answer: RequestOutcome,
    about: &mut ServerSummary,
) -> Option<(ServerConnection, EraFacts)> {
    match &answer {
        RequestOutcome::Result(_, result) if is_discovery(result) => {
            name(about, &result["_meta"]["io.modelcontextprotocol/serverInfo"]);
            let capabilities = result["capabilities"].clone();
            return Some((connection, EraFacts { capabilities, discovers: true }));
        }
        // It knows the era, and not the revision: there is only one.
        RequestOutcome::Error(response) if (-32022..=-32020).contains(&response.code) => {
            harness.fail(&MODERN_DISCOVER, &connection, Some(&answer), format!("it is {}", answer.describe()));
        }
        RequestOutcome::Disconnected | RequestOutcome::NoResponse | RequestOutcome::Refused(_) => {
            harness.close(connection).await;
            return None;
        }
        RequestOutcome::Result(..) | RequestOutcome::Error(_) => {
            // A legacy server may serve this as well, but not with a resultType; and may have a result for whatever is asked.
            let list = ask(&mut connection, "tools/list", json!({})).await;
            match &list {
                RequestOutcome::Result(_, result) if result.get("resultType").is_some() => {
                    let detail = format!("tools/list works, and server/discover is {}", answer.describe());
                    harness.fail(&MODERN_DISCOVER, &connection, Some(&answer), detail);
                }
                _ => {
                    harness.close(connection).await;
                    return None;
                }
            }
        }
    }
    Some((connection, EraFacts { capabilities: Value::Null, discovers: false }))
}

/// Whether a result is at all about a server.
fn is_discovery(result: &Value) -> bool {
    ["supportedVersions", "capabilities", "resultType"].iter().any(|member| result.get(member).is_some())
}

fn name(about: &mut ServerSummary, info: &Value) {
    if let (Some(name), None) = (info["name"].as_str(), &about.name) {
        let version = info["version"].as_str().unwrap_or_default();
        about.name = Some(shown(format!("{name} {version}").trim_end().as_bytes(), 80));
    }
}
