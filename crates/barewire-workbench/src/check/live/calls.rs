//! Calls of tools that may be called: their results, wrong arguments, and what a slow one holds up.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::answer::{Answer, is_answer};
use super::lab::ask;
use super::ordinary::Bench;
use super::sample::sample;
use super::talk::Talk;
use super::tape::Line;
use crate::check::catalogue::Check;
use crate::check::catalogue::flow::{CONCURRENCY, LATE_ANSWER, PROGRESS_RULES};
use crate::check::catalogue::http::HTTP_STATUS;
use crate::check::catalogue::tools::{OUTPUT_SCHEMA, TOOL_ARGUMENT_ERRORS};
use crate::check::ledger::{Reason, Skip};
use crate::text::shown;
use crate::{Advice, Error};

/// A call that may be made.
struct Allowed {
    name: String,
    arguments: Value,
    has_required: bool,
    /// As often as wanted and with any arguments, not only once and with those that were given.
    freely: bool,
}

pub(super) async fn run(bench: &mut Bench<'_>) -> Result<(), Error> {
    let checks: &[&'static Check] =
        &[&OUTPUT_SCHEMA, &PROGRESS_RULES, &TOOL_ARGUMENT_ERRORS, &CONCURRENCY, &LATE_ANSWER];
    if bench.tools.is_empty() {
        bench.lab.nothing(checks, "the server has no tools");
        return Ok(());
    }
    if bench.lab.is_late() {
        return Ok(());
    }
    for (name, _) in &bench.lab.wishes.calls {
        if !bench.tools.iter().any(|tool| tool["name"] == **name) {
            let why = format!("the server lists no tool {}, which was to be called", shown(name.as_bytes(), 60));
            bench.lab.tape.incomplete(&OUTPUT_SCHEMA, why);
        }
    }
    let (allowed, forbidden) = allowed(bench);
    if allowed.is_empty() {
        let why = Reason::new(format!("{forbidden} tools are not known to be harmless"), Advice::AllowCalls);
        for check in checks {
            bench.lab.tape.skip(check, Skip::Permission(why.clone()));
        }
        return Ok(());
    }
    let mut slow = Vec::new();
    for call in allowed.iter().take(MOST_CALLS) {
        bench.lab.wishes.calls.retain(|(name, _)| call.freely || *name != call.name);
        bench.lab.progress(&format!("the tool {}", shown(call.name.as_bytes(), 40)));
        bench.revive().await?;
        let since = Instant::now();
        let answer = call_tool(bench, call).await?;
        let took = since.elapsed();
        if matches!(answer, Answer::Result(..)) && call.freely && took >= SLOW {
            slow.push((call, took));
        }
        if bench.lab.is_late() {
            return Ok(());
        }
    }
    wrong_arguments(bench, &allowed).await?;
    slow.sort_by_key(|(_, took)| Reverse(*took));
    for (call, took) in slow.into_iter().take(MOST_RACES) {
        bench.revive().await?;
        if concurrency(bench, call).await {
            bench.revive().await?;
            cancel(bench, call, took).await;
            return Ok(());
        }
    }
    let what = "no tool that may be called several times takes a fifth of a second";
    for check in [&CONCURRENCY, &LATE_ANSWER] {
        let why = Reason::new(what, Advice::AllowAllCalls);
        bench.lab.tape.skip(check, Skip::Permission(why));
    }
    Ok(())
}

/// What may be called, and how many tools may not.
fn allowed(bench: &Bench<'_>) -> (Vec<Allowed>, usize) {
    let (mut allowed, mut forbidden) = (Vec::new(), 0);
    for tool in &bench.tools {
        let Some(name) = tool["name"].as_str() else { continue };
        let hints = &tool["annotations"];
        let is_harmless = hints["readOnlyHint"] == json!(true) && hints["destructiveHint"] != json!(true);
        let given = bench.lab.wishes.calls.iter().find(|(tool, _)| tool == name);
        let has_required = tool["inputSchema"]["required"].as_array().is_some_and(|it| !it.is_empty());
        let arguments = match given {
            Some((_, arguments)) => Some(arguments.clone()),
            None if is_harmless || bench.lab.wishes.all_calls => sample(&tool["inputSchema"], 0),
            None => None,
        };
        match arguments.filter(Value::is_object) {
            Some(arguments) => {
                let freely = is_harmless || bench.lab.wishes.all_calls;
                allowed.push(Allowed { name: name.to_owned(), arguments, has_required, freely });
            }
            None => forbidden += 1,
        }
    }
    (allowed, forbidden)
}

async fn begin(talk: &mut Talk, call: &Allowed, with_token: bool) -> String {
    let mut params = json!({"name": call.name, "arguments": call.arguments});
    if with_token {
        params["_meta"] = json!({"progressToken": format!("barewire-{}", talk.next_id())});
    }
    talk.begin("tools/call", params).await
}

async fn call_tool(bench: &mut Bench<'_>, call: &Allowed) -> Result<Answer, Error> {
    let talk = &mut bench.talk;
    let id = begin(talk, call, true).await;
    // Tools take as long as they take: that one takes long is nothing to tell.
    talk.claim(&id);
    let answer = talk.answer_within(&id, CALL).await;
    if matches!(answer, Answer::Silence) {
        talk.give_up(&id).await;
        // It may be busy with it for long.
        bench.renew().await?;
    }
    if let Answer::Refused(_) = answer {
        let detail = format!(
            "tools/call {}: an answer is expected, and {} comes",
            shown(call.name.as_bytes(), 60),
            answer.told()
        );
        bench.lab.fail(&HTTP_STATUS, &bench.talk, Some(&answer), detail);
    }
    Ok(answer)
}

/// A call without arguments where some are required.
async fn wrong_arguments(bench: &mut Bench<'_>, allowed: &[Allowed]) -> Result<(), Error> {
    if !bench.lab.wants(&[&TOOL_ARGUMENT_ERRORS]) {
        return Ok(());
    }
    let Some(call) = allowed.iter().find(|call| call.has_required && call.freely) else {
        match allowed.iter().any(|call| call.has_required) {
            true => {
                let what = "a tool that is named is called with the arguments that are given, and no others";
                let why = Reason::new(what, Advice::AllowAllCalls);
                bench.lab.tape.skip(&TOOL_ARGUMENT_ERRORS, Skip::Permission(why));
            }
            false => {
                let why = "no tool that may be called has required arguments";
                bench.lab.nothing(&[&TOOL_ARGUMENT_ERRORS], why);
            }
        }
        return Ok(());
    };
    bench.revive().await?;
    let answer = ask(&mut bench.talk, "tools/call", json!({"name": call.name, "arguments": {}})).await;
    let (lab, talk) = (&*bench.lab, &bench.talk);
    lab.tape.look(&TOOL_ARGUMENT_ERRORS);
    let name = shown(call.name.as_bytes(), 60);
    let fail = |detail: String| lab.fail(&TOOL_ARGUMENT_ERRORS, talk, Some(&answer), detail);
    match &answer {
        Answer::Result(_, result) if result["isError"] == json!(true) => {}
        Answer::Result(_, result) if result["resultType"] == json!("input_required") => {}
        Answer::Result(..) => fail(format!("{name} without its arguments runs as if nothing were wrong")),
        Answer::Error(failed) if failed.code == -32602 => {
            if talk.revision.bad_arguments_are_tool_errors() {
                let revision = talk.revision;
                fail(format!("{name} without its arguments: in {revision} that is a result with isError, not -32602"));
            }
        }
        Answer::Error(failed) if failed.code == -32603 => {
            fail(format!("{name} without its arguments: -32603 says that the server is broken, not the call"));
        }
        // What other codes mean is judged by the passive checks.
        Answer::Error(_) => {}
        Answer::Silence => fail(format!("{name} without its arguments is not answered")),
        Answer::Refused(_) => fail(format!("{name} without its arguments: {} comes", answer.told())),
        Answer::Ended => lab.tape.skip(&TOOL_ARGUMENT_ERRORS, Skip::Needs("stays-alive")),
    }
    Ok(())
}

/// Sends a light request right behind a slow one. Returns false if the call was slow by chance only: then nothing is judged.
async fn concurrency(bench: &mut Bench<'_>, call: &Allowed) -> bool {
    if !bench.lab.wants(&[&CONCURRENCY]) {
        return true;
    }
    // On a busy machine the light request may be late by chance once, but hardly twice.
    let mut held_up = None;
    for _ in 0..2 {
        match race(&mut bench.talk, call).await {
            Some(Race::LightFirst) => {
                held_up = None;
                break;
            }
            Some(Race::SlowFirst(line)) => held_up = Some(line),
            Some(Race::NotSlow) => return false,
            None => return true,
        }
    }
    bench.lab.tape.look(&CONCURRENCY);
    if let Some(line) = held_up {
        let what = bench.talk.light();
        let detail = format!("the answer to {what} comes after the call of {}", shown(call.name.as_bytes(), 60));
        bench.lab.fail_at(&CONCURRENCY, line.location, &line.bytes, detail);
    }
    true
}

/// The order of the answers to a slow call and to the light request behind it.
enum Race {
    LightFirst,
    /// The light request had to wait for the slow call, whose answer this is.
    SlowFirst(Line),
    /// The call was answered first, but too soon to say that the light request waited for it: on a busy machine any tool takes
    /// long now and then.
    NotSlow,
}

/// Calls the slow tool with a light request behind it; `None` if one of them is not answered.
async fn race(talk: &mut Talk, call: &Allowed) -> Option<Race> {
    let alone = light_alone(talk).await?;
    let slow = begin(talk, call, false).await;
    let light = talk.begin(talk.light(), json!({})).await;
    talk.claim(&light);
    let sent = Instant::now();
    let deadline = talk.deadline(CALL);
    let mut first = None;
    let mut answered = 0;
    while answered < 2
        && let Some(line) = talk.next(deadline).await
    {
        let value: Value = serde_json::from_slice(&line.bytes).unwrap_or_default();
        let is = |id: &str| is_answer(&value, id);
        if is(&slow) || is(&light) {
            answered += 1;
            first.get_or_insert_with(|| match is(&slow) {
                true if sent.elapsed() < (SLOW / 2).max(2 * alone) => Race::NotSlow,
                true => Race::SlowFirst(line),
                false => Race::LightFirst,
            });
        }
    }
    first
}

/// The time that the light request takes when nothing else is going on: a busy machine slows it down too.
async fn light_alone(talk: &mut Talk) -> Option<Duration> {
    let since = Instant::now();
    let light = talk.begin(talk.light(), json!({})).await;
    talk.claim(&light);
    match talk.answer(&light).await {
        Answer::Result(..) | Answer::Error(_) => Some(since.elapsed()),
        Answer::Silence | Answer::Refused(_) | Answer::Ended => None,
    }
}

/// A slow call that is given up. What comes of it after that is told by the passive checks.
async fn cancel(bench: &mut Bench<'_>, call: &Allowed, took: Duration) {
    if !bench.lab.wants(&[&LATE_ANSWER]) {
        return;
    }
    let talk = &mut bench.talk;
    let id = begin(talk, call, true).await;
    sleep(took / 10).await;
    talk.give_up(&id).await;
    talk.settle(took + took / 2 + Duration::from_millis(100)).await;
}

/// From here on a call can be told from one that is answered at once.
const SLOW: Duration = Duration::from_millis(200);
/// A tool that takes longer is not called in a check.
const CALL: Duration = Duration::from_secs(10);
/// Enough to see whether results hold to their schemas.
const MOST_CALLS: usize = 40;
/// Enough to find one that is slow and not just late.
const MOST_RACES: usize = 3;
