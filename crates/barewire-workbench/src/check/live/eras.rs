//! A program -> which eras it speaks, and a connection in each.

use barewire_proto::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::About;
use super::answer::{Answer, Failed};
use super::lab::{Lab, ask, initialize};
use super::talk::{Heard, Talk};
use crate::check::catalogue::envelope::{ID_FIDELITY, JSONRPC_MESSAGES};
use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::catalogue::lifecycle::{EARLY_EXIT, HANDSHAKE, MUTE_SERVER, VERSION_NEGOTIATION};
use crate::check::catalogue::modern::MODERN_DISCOVER;
use crate::check::ledger::{Reason, Skip};
use crate::text::shown;
use crate::{Advice, Error};

/// What a server says of itself in an era.
pub(super) struct Surface {
    pub(super) capabilities: Value,
    /// Whether `server/discover` gave a result.
    pub(super) discovers: bool,
}

/// The eras it speaks.
pub(super) struct Found {
    pub(super) legacy: Option<(Talk, Surface)>,
    pub(super) modern: Option<(Talk, Surface)>,
}

pub(super) async fn find(lab: &mut Lab, about: &mut About) -> Result<Found, Error> {
    lab.progress("whether it answers");
    let mut old = lab.spawn(Era::Legacy, false)?;
    let mut new = lab.spawn(Era::Modern, false)?;
    let patience = lab.first_patience();
    let (legacy, modern) =
        tokio::join!(initialize(&mut old, Revision::LATEST_LEGACY.as_str(), patience), discover(&mut new, patience),);
    lab.tape.look(&EARLY_EXIT);
    if matches!((&legacy, &modern), (Answer::Ended, Answer::Ended)) {
        early_exit(lab, old).await;
        lab.end(new).await;
        return Ok(Found { legacy: None, modern: None });
    }
    let is_mute = |answer: &Answer| matches!(answer, Answer::Silence | Answer::Ended);
    if is_mute(&legacy) && is_mute(&modern) {
        mute(lab, &old, &[&old, &new]);
        lab.end(old).await;
        lab.end(new).await;
        return Ok(Found { legacy: None, modern: None });
    }
    lab.tape.look(&MUTE_SERVER);
    if let (Answer::Refused(old), Answer::Refused(new)) = (&legacy, &modern)
        && (old.status.is_none() && new.status.is_none())
    {
        return Err(Error::new(format!("nothing answers there: {}", old.why)));
    }
    if lab.is_http() && unauthorized(&legacy) && unauthorized(&modern) {
        let why = Reason::new("the server answers 401", Advice::SendCredentials);
        lab.tape.incomplete(&JSONRPC_MESSAGES, why);
        return Ok(Found { legacy: None, modern: None });
    }
    if let (Answer::Refused(_), Answer::Refused(_)) = (&legacy, &modern) {
        let detail = format!("initialize is answered with {}: is this the path of the MCP endpoint?", legacy.told());
        lab.fail(&MUTE_SERVER, &old, Some(&legacy), detail);
        return Ok(Found { legacy: None, modern: None });
    }
    let modern = is_modern(lab, new, modern, about).await;
    let legacy = is_legacy(lab, old, legacy, about, modern.is_some()).await;
    Ok(Found { legacy, modern })
}

fn unauthorized(answer: &Answer) -> bool {
    matches!(answer, Answer::Refused(refusal) if refusal.status == Some(401))
}

async fn discover(talk: &mut Talk, patience: std::time::Duration) -> Answer {
    let id = talk.begin("server/discover", json!({})).await;
    talk.claim(&id);
    talk.answer_within(&id, patience).await
}

/// Nobody answers. If that is because something came in place of an answer, that is the cause, and is told as such.
fn mute(lab: &Lab, old: &Talk, asked: &[&Talk]) {
    let causes = [&ONE_MESSAGE_A_LINE, &ID_FIDELITY];
    let cause = causes.into_iter().find(|check| lab.tape.has_failed(check));
    let is_other_form = asked.iter().any(|talk| is_other_form(&talk.heard.start));
    let cause = cause.or_else(|| (is_other_form && lab.tape.has_failed(&STDOUT_PURITY)).then_some(&STDOUT_PURITY));
    if let Some(cause) = cause {
        lab.tape.skip(&MUTE_SERVER, Skip::Needs(cause.id));
        return;
    }
    let waited = lab.first_patience();
    let sum = |count: fn(&Heard) -> usize| asked.iter().map(|talk| count(&talk.heard)).sum::<usize>();
    let detail = match (sum(|heard| heard.lines), sum(|heard| heard.bytes)) {
        (0, 0) => format!("nothing came within {waited:?}"),
        (0, bytes) => {
            format!("{bytes} bytes came within {waited:?}, and no line break, which ends a message")
        }
        (1, _) => format!("one line came within {waited:?}, and it is no answer"),
        (lines, _) => format!("{lines} lines came within {waited:?}, and none of them is an answer"),
    };
    let first = asked.iter().map(|talk| &talk.heard.start).find(|start| !start.is_empty());
    lab.nothing_for(&MUTE_SERVER, old.location(), first.map_or(b"", Vec::as_slice), detail);
}

/// Whether this may be messages, framed or encoded in another way.
fn is_other_form(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start).replace('\0', "").to_ascii_lowercase();
    text.contains("content-length:") || text.contains("jsonrpc")
}

async fn early_exit(lab: &mut Lab, talk: Talk) {
    let location = talk.connection();
    // One that has only closed its stdout is still there.
    let has_exited = talk.exited().is_some();
    let ended = lab.end(talk).await;
    let how = ended.exit.as_ref().map_or("it is gone".to_owned(), ToString::to_string);
    let how = how.lines().map(str::trim).collect::<Vec<_>>().join(" / ");
    let how = if has_exited { how } else { format!("it closes its stdout; {how}") };
    let finding = crate::check::finding::Finding::new(&EARLY_EXIT, crate::check::finding::Party::Server, location, how);
    lab.tape.fail(finding);
}

async fn is_legacy(
    lab: &mut Lab,
    mut talk: Talk,
    answer: Answer,
    about: &mut About,
    is_modern: bool,
) -> Option<(Talk, Surface)> {
    let answer = match answer {
        Answer::Error(failed) => match spoken(&failed) {
            // It names what it speaks, as the specification shows it: then it is asked for that.
            Some(revision) => {
                lab.asks_for = revision;
                lab.end(talk).await;
                talk = lab.spawn(Era::Legacy, false).ok()?;
                initialize(&mut talk, revision.as_str(), lab.first_patience()).await
            }
            None => Answer::Error(failed),
        },
        answer => answer,
    };
    let result = match &answer {
        Answer::Result(_, result) => result,
        // It has no handshake, and says so.
        Answer::Error(_) | Answer::Silence | Answer::Ended | Answer::Refused(_) if is_modern => {
            lab.end(talk).await;
            return None;
        }
        answer => {
            let (check, detail) = match answer {
                Answer::Error(failed) if is_about_version(failed) => {
                    (&VERSION_NEGOTIATION, format!("{} is answered with {}", talk.revision, answer.told()))
                }
                Answer::Error(failed) => {
                    let message = shown(failed.error["message"].as_str().unwrap_or_default().as_bytes(), 200);
                    (&HANDSHAKE, format!("initialize fails with {}: {message}", failed.code))
                }
                Answer::Silence | Answer::Ended => {
                    mute(lab, &talk, &[&talk]);
                    lab.end(talk).await;
                    return None;
                }
                answer => (&HANDSHAKE, format!("initialize is answered with {}", answer.told())),
            };
            lab.fail(check, &talk, Some(answer), detail);
            lab.end(talk).await;
            return None;
        }
    };
    lab.tape.look(&HANDSHAKE);
    let version = result["protocolVersion"].as_str();
    if let Some(revision) = version.and_then(Revision::parse).filter(|it| !it.is_modern()) {
        talk.revision = revision;
        about.legacy.push(revision);
    }
    name(about, &result["serverInfo"]);
    let capabilities = result["capabilities"].clone();
    talk.initialized().await;
    Some((talk, Surface { capabilities, discovers: false }))
}

/// The latest of the legacy revisions that an error names as spoken, if it is not the one that was asked for.
fn spoken(failed: &Failed) -> Option<Revision> {
    let supported = failed.error["data"]["supported"].as_array()?.iter();
    let spoken = supported.filter_map(|it| Revision::parse(it.as_str()?)).filter(|it| !it.is_modern()).max()?;
    (spoken != Revision::LATEST_LEGACY).then_some(spoken)
}

/// Whether an error says that the version is not spoken.
fn is_about_version(failed: &Failed) -> bool {
    let message = failed.error["message"].as_str().unwrap_or_default();
    failed.error["data"]["supported"].is_array() || message.to_ascii_lowercase().contains("version")
}

async fn is_modern(lab: &mut Lab, mut talk: Talk, answer: Answer, about: &mut About) -> Option<(Talk, Surface)> {
    match &answer {
        Answer::Result(_, result) if is_discovery(result) => {
            name(about, &result["_meta"]["io.modelcontextprotocol/serverInfo"]);
            let capabilities = result["capabilities"].clone();
            return Some((talk, Surface { capabilities, discovers: true }));
        }
        // It knows the era, and not the revision: there is only one.
        Answer::Error(failed) if (-32022..=-32020).contains(&failed.code) => {
            lab.fail(&MODERN_DISCOVER, &talk, Some(&answer), format!("it is {}", answer.told()));
        }
        Answer::Ended | Answer::Silence | Answer::Refused(_) => {
            lab.end(talk).await;
            return None;
        }
        Answer::Result(..) | Answer::Error(_) => {
            // A legacy server may serve this as well, but not with a resultType; and may have a result for whatever is asked.
            let list = ask(&mut talk, "tools/list", json!({})).await;
            match &list {
                Answer::Result(_, result) if result.get("resultType").is_some() => {
                    let detail = format!("tools/list works, and server/discover is {}", answer.told());
                    lab.fail(&MODERN_DISCOVER, &talk, Some(&answer), detail);
                }
                _ => {
                    lab.end(talk).await;
                    return None;
                }
            }
        }
    }
    Some((talk, Surface { capabilities: Value::Null, discovers: false }))
}

/// Whether a result is at all about a server.
fn is_discovery(result: &Value) -> bool {
    ["supportedVersions", "capabilities", "resultType"].iter().any(|member| result.get(member).is_some())
}

fn name(about: &mut About, info: &Value) {
    if let (Some(name), None) = (info["name"].as_str(), &about.name) {
        let version = info["version"].as_str().unwrap_or_default();
        about.name = Some(shown(format!("{name} {version}").trim_end().as_bytes(), 80));
    }
}
