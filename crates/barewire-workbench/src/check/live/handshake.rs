//! The handshake in all its variants: too late, too often, in versions that are not there; and arrays, which depend on it.

use barewire_proto::mcp::{Era, Revision};
use serde_json::json;

use super::About;
use super::answer::{Answer, is_answer};
use super::lab::{Lab, initialize};
use super::talk::Talk;
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::BATCH_POLICY;
use crate::check::catalogue::lifecycle::{HANDSHAKE, LIFECYCLE_GATE, SECOND_INITIALIZE, VERSION_NEGOTIATION};
use crate::check::catalogue::methods::PING;
use crate::check::ledger::{Reason, Skip};
use crate::{Advice, Error};

/// What needs a handshake.
const NEEDED: &[&Check] = &[&HANDSHAKE, &LIFECYCLE_GATE, &SECOND_INITIALIZE, &VERSION_NEGOTIATION, &PING];

pub(super) fn skip(lab: &Lab) {
    for check in NEEDED {
        let check = crate::check::catalogue::find(check.id).expect("it is in the catalogue");
        lab.nothing(&[check], "the server has no handshake");
    }
}

pub(super) async fn run(lab: &mut Lab, about: &mut About) -> Result<(), Error> {
    // Over HTTP a server may do without sessions, and then every request stands for itself.
    if !lab.is_http() {
        gate(lab).await?;
    }
    versions(lab, about).await
}

/// A request before the handshake.
async fn gate(lab: &mut Lab) -> Result<(), Error> {
    if !lab.wants(&[&LIFECYCLE_GATE]) {
        return Ok(());
    }
    lab.progress("the time before the handshake");
    let mut talk = lab.spawn(Era::Legacy, true)?;
    let id = talk.begin("tools/list", json!({})).await;
    talk.claim(&id);
    let answer = talk.answer_within(&id, lab.first_patience()).await;
    lab.tape.look(&LIFECYCLE_GATE);
    if !matches!(answer, Answer::Error(_)) {
        let detail = format!("tools/list before initialize is answered with {}", answer.told());
        lab.fail(&LIFECYCLE_GATE, &talk, Some(&answer), detail);
    }
    lab.end(talk).await;
    Ok(())
}

/// One connection for each version that can be asked for, and what else can be tried on it.
async fn versions(lab: &mut Lab, about: &mut About) -> Result<(), Error> {
    let checks: &[&Check] = &[&VERSION_NEGOTIATION, &SECOND_INITIALIZE, &BATCH_POLICY];
    if !lab.wants(checks) {
        return Ok(());
    }
    let legacy: Vec<Revision> = Revision::ALL.into_iter().filter(|it| !it.is_modern()).collect();
    let asked = std::iter::once(UNKNOWN).chain(legacy.iter().map(|it| it.as_str()));
    let mut agreed = Vec::new();
    for version in asked {
        if lab.is_late() {
            return Ok(());
        }
        lab.progress(&format!("initialize with {version}"));
        let mut talk = lab.spawn(Era::Legacy, true)?;
        let answer = initialize(&mut talk, version, lab.first_patience()).await;
        let got = judge(lab, &talk, version, &answer);
        if let Some(got) = got {
            agreed.push((version, got));
            talk.revision = got;
            talk.initialized().await;
            if version == UNKNOWN && !lab.is_http() {
                second(lab, &mut talk).await;
            } else if got.as_str() == version {
                batch(lab, &mut talk).await;
            }
        }
        lab.end(talk).await;
    }
    for (version, got) in &agreed {
        let is_spoken = agreed.iter().any(|(_, other)| other.as_str() == *version);
        if is_spoken && got.as_str() != *version {
            let detail = format!("{version} is answered with {got}, though the server agrees to {version} elsewhere");
            let location = crate::check::finding::Location::default();
            lab.fail_at(&VERSION_NEGOTIATION, location, b"", detail);
        }
    }
    about.legacy = legacy.into_iter().filter(|it| agreed.iter().any(|(_, got)| got == it)).collect();
    Ok(())
}

/// The revision that was agreed on, if it is one.
fn judge(lab: &Lab, talk: &Talk, asked: &str, answer: &Answer) -> Option<Revision> {
    lab.tape.look(&VERSION_NEGOTIATION);
    let fail = |detail: String| lab.fail(&VERSION_NEGOTIATION, talk, Some(answer), detail);
    match answer {
        Answer::Result(_, result) => {
            // That it is not there is told by the passive checks.
            let got = result["protocolVersion"].as_str()?;
            match Revision::parse(got) {
                Some(revision) if !revision.is_modern() => return Some(revision),
                _ if got == asked => fail(format!("{asked} is agreed to, which is no revision of MCP")),
                _ => {
                    let got = crate::text::shown(got.as_bytes(), 40);
                    fail(format!("{asked} is answered with {got:?}, which is no revision with a handshake"));
                }
            }
        }
        // To name what there is in an error is what the specification shows as an example.
        Answer::Error(_) => {}
        answer if answer.is_refused() => {}
        answer => fail(format!("initialize with {asked} is answered with {}", answer.told())),
    }
    None
}

async fn second(lab: &mut Lab, talk: &mut Talk) {
    if !lab.wants(&[&SECOND_INITIALIZE]) {
        return;
    }
    let answer = initialize(talk, Revision::LATEST_LEGACY.as_str(), lab.patience).await;
    lab.tape.look(&SECOND_INITIALIZE);
    if !matches!(answer, Answer::Error(_)) && !lab.is_told_gone(&SECOND_INITIALIZE, talk) {
        let detail = format!("initialize, sent again, is answered with {}", answer.told());
        lab.fail(&SECOND_INITIALIZE, talk, Some(&answer), detail);
    }
}

/// An array of two light requests, in revisions that say something about it.
async fn batch(lab: &mut Lab, talk: &mut Talk) {
    let revision = talk.revision;
    // 2024-11-05 is silent about them.
    if !lab.wants(&[&BATCH_POLICY]) || revision == Revision::V2024_11_05 {
        return;
    }
    if !lab.may_be_hostile() && revision != Revision::V2025_03_26 {
        let why = Reason::new(format!("an array is hostile in {revision}"), Advice::AllowHostile);
        lab.tape.skip(&BATCH_POLICY, Skip::Permission(why));
        return;
    }
    let ids = [talk.next_id().to_string(), talk.next_id().to_string()];
    let light = talk.light();
    let ping = |id: &String| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{light}\"}}");
    for id in &ids {
        talk.claim(id);
    }
    let array = format!("[{},{}]", ping(&ids[0]), ping(&ids[1]));
    talk.send(format!("{array}\n").as_bytes()).await;
    let sent = talk.location();
    let mut results = 0;
    let mut last = None;
    let (frames, goes_on) = talk.until_light().await;
    for line in frames {
        let value: serde_json::Value = serde_json::from_slice(&line.bytes).unwrap_or_default();
        let answers = value.as_array().cloned().unwrap_or_else(|| vec![value]);
        let count = answers.iter().filter(|it| is_served(it, &ids)).count();
        if count > 0 {
            results += count;
            last = Some(line);
        }
    }
    lab.tape.look(&BATCH_POLICY);
    if !goes_on && lab.is_told_gone(&BATCH_POLICY, talk) {
        return;
    }
    let detail = match (revision == Revision::V2025_03_26, results) {
        _ if !goes_on => format!("after an array of messages in {revision} the server does not go on"),
        (true, 0 | 1) => format!("of two requests in an array in {revision}, {results} are served"),
        (false, 1..) => format!("an array of messages is served in {revision}, which has none"),
        _ => return,
    };
    match last {
        Some(line) => lab.fail_at(&BATCH_POLICY, line.location, &line.bytes, detail),
        None => lab.nothing_for(&BATCH_POLICY, sent, array.as_bytes(), detail),
    }
}

/// An answer to one of the requests, and not to the array around it.
fn is_served(answer: &serde_json::Value, ids: &[String]) -> bool {
    let refused = matches!(answer["error"]["code"].as_i64(), Some(-32700 | -32600));
    ids.iter().any(|id| is_answer(answer, id)) && !refused
}

/// No server was ever of this version.
const UNKNOWN: &str = "1900-01-01";
