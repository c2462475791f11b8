//! Calls of tools that may be called: their results, wrong arguments, and what a slow one holds up.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use super::connection::ServerConnection;
use super::harness::ask;
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, is_answer};
use super::recording::LocatedFrame;
use super::sample::sample;
use crate::check::catalogue::Check;
use crate::check::catalogue::flow::{CONCURRENCY, LATE_ANSWER, PROGRESS_RULES};
use crate::check::catalogue::http::HTTP_STATUS;
use crate::check::catalogue::tools::{OUTPUT_SCHEMA, TOOL_ARGUMENT_ERRORS};
use crate::check::ledger::{Reason, SkipReason};
use crate::text::shown;
use crate::{Advice, Error};

/// A call that may be made.
struct AllowedCall {
    name: String,
    arguments: Value,
    has_required: bool,
    /// As often as wanted and with any arguments, not only once and with those that were given.
    freely: bool,
}

pub(super) async fn run(probe: &mut ServerProbe<'_>) -> Result<(), Error> {
    let checks: &[&'static Check] =
        &[&OUTPUT_SCHEMA, &PROGRESS_RULES, &TOOL_ARGUMENT_ERRORS, &CONCURRENCY, &LATE_ANSWER];
    if probe.tools.is_empty() {
        probe.harness.skip_all(checks, "the server has no tools");
        return Ok(());
    }
    if probe.harness.is_late() {
        return Ok(());
    }
    for (name, _) in &probe.harness.wishes.calls {
        if !probe.tools.iter().any(|tool| tool["name"] == **name) {
            let why = format!("the server lists no tool {}, which was to be called", shown(name.as_bytes(), 60));
            probe.harness.recording.incomplete(&OUTPUT_SCHEMA, why);
        }
    }
    let (allowed, forbidden) = allowed(probe);
    if allowed.is_empty() {
        let why = Reason::new(format!("{forbidden} tools are not known to be harmless"), Advice::AllowCalls);
        for check in checks {
            probe.harness.recording.skip(check, SkipReason::Permission(why.clone()));
        }
        return Ok(());
    }
    let mut slow = Vec::new();
    for call in allowed.iter().take(MOST_CALLS) {
        probe.harness.wishes.calls.retain(|(name, _)| call.freely || *name != call.name);
        probe.harness.progress(&format!("the tool {}", shown(call.name.as_bytes(), 40)));
        probe.reconnect_if_closed().await?;
        let since = Instant::now();
        let answer = call_tool(probe, call).await?;
        let took = since.elapsed();
        if matches!(answer, RequestOutcome::Result(..)) && call.freely && took >= SLOW {
            slow.push((call, took));
        }
        if probe.harness.is_late() {
            return Ok(());
        }
    }
    wrong_arguments(probe, &allowed).await?;
    slow.sort_by_key(|(_, took)| Reverse(*took));
    for (call, took) in slow.into_iter().take(MOST_RACES) {
        probe.reconnect_if_closed().await?;
        if concurrency(probe, call).await {
            probe.reconnect_if_closed().await?;
            cancel(probe, call, took).await;
            return Ok(());
        }
    }
    let what = "no tool that may be called several times takes a fifth of a second";
    for check in [&CONCURRENCY, &LATE_ANSWER] {
        let why = Reason::new(what, Advice::AllowAllCalls);
        probe.harness.recording.skip(check, SkipReason::Permission(why));
    }
    Ok(())
}

/// What may be called, and how many tools may not.
fn allowed(probe: &ServerProbe<'_>) -> (Vec<AllowedCall>, usize) {
    let (mut allowed, mut forbidden) = (Vec::new(), 0);
    for tool in &probe.tools {
        let Some(name) = tool["name"].as_str() else { continue };
        let hints = &tool["annotations"];
        let is_harmless = hints["readOnlyHint"] == json!(true) && hints["destructiveHint"] != json!(true);
        let given = probe.harness.wishes.calls.iter().find(|(tool, _)| tool == name);
        let has_required = tool["inputSchema"]["required"].as_array().is_some_and(|it| !it.is_empty());
        let arguments = match given {
            Some((_, arguments)) => Some(arguments.clone()),
            None if is_harmless || probe.harness.wishes.all_calls => sample(&tool["inputSchema"], 0),
            None => None,
        };
        match arguments.filter(Value::is_object) {
            Some(arguments) => {
                let freely = is_harmless || probe.harness.wishes.all_calls;
                allowed.push(AllowedCall { name: name.to_owned(), arguments, has_required, freely });
            }
            None => forbidden += 1,
        }
    }
    (allowed, forbidden)
}

async fn begin(connection: &mut ServerConnection, call: &AllowedCall, with_token: bool) -> String {
    let mut params = json!({"name": call.name, "arguments": call.arguments});
    if with_token {
        params["_meta"] = json!({"progressToken": format!("barewire-{}", connection.next_id())});
    }
    connection.send_request("tools/call", params).await
}

async fn call_tool(probe: &mut ServerProbe<'_>, call: &AllowedCall) -> Result<RequestOutcome, Error> {
    let connection = &mut probe.connection;
    let id = begin(connection, call, true).await;
    // Tools take as long as they take: that one takes long is nothing to tell.
    connection.claim(&id);
    let answer = connection.wait_for_response_within(&id, CALL).await;
    if matches!(answer, RequestOutcome::NoResponse) {
        connection.cancel_request(&id).await;
        // It may be busy with it for long.
        probe.reconnect().await?;
    }
    if let RequestOutcome::Refused(_) = answer {
        let detail = format!(
            "tools/call {}: an answer is expected, and {} comes",
            shown(call.name.as_bytes(), 60),
            answer.describe()
        );
        probe.harness.fail(&HTTP_STATUS, &probe.connection, Some(&answer), detail);
    }
    Ok(answer)
}

/// A call without arguments where some are required.
async fn wrong_arguments(probe: &mut ServerProbe<'_>, allowed: &[AllowedCall]) -> Result<(), Error> {
    if !probe.harness.wants(&[&TOOL_ARGUMENT_ERRORS]) {
        return Ok(());
    }
    let Some(call) = allowed.iter().find(|call| call.has_required && call.freely) else {
        match allowed.iter().any(|call| call.has_required) {
            true => {
                let what = "a tool that is named is called with the arguments that are given, and no others";
                let why = Reason::new(what, Advice::AllowAllCalls);
                probe.harness.recording.skip(&TOOL_ARGUMENT_ERRORS, SkipReason::Permission(why));
            }
            false => {
                let why = "no tool that may be called has required arguments";
                probe.harness.skip_all(&[&TOOL_ARGUMENT_ERRORS], why);
            }
        }
        return Ok(());
    };
    probe.reconnect_if_closed().await?;
    let answer = ask(&mut probe.connection, "tools/call", json!({"name": call.name, "arguments": {}})).await;
    let (harness, connection) = (&*probe.harness, &probe.connection);
    harness.recording.inspected(&TOOL_ARGUMENT_ERRORS);
    let name = shown(call.name.as_bytes(), 60);
    let fail = |detail: String| harness.fail(&TOOL_ARGUMENT_ERRORS, connection, Some(&answer), detail);
    match &answer {
        RequestOutcome::Result(_, result) if result["isError"] == json!(true) => {}
        RequestOutcome::Result(_, result) if result["resultType"] == json!("input_required") => {}
        RequestOutcome::Result(..) => fail(format!("{name} without its arguments runs as if nothing were wrong")),
        RequestOutcome::Error(response) if response.code == -32602 => {
            if connection.revision.bad_arguments_are_tool_errors() {
                let revision = connection.revision;
                fail(format!("{name} without its arguments: in {revision} that is a result with isError, not -32602"));
            }
        }
        RequestOutcome::Error(response) if response.code == -32603 => {
            fail(format!("{name} without its arguments: -32603 says that the server is broken, not the call"));
        }
        // What other codes mean is judged by the passive checks.
        RequestOutcome::Error(_) => {}
        RequestOutcome::NoResponse => fail(format!("{name} without its arguments is not answered")),
        RequestOutcome::Refused(_) => fail(format!("{name} without its arguments: {} comes", answer.describe())),
        RequestOutcome::Disconnected => harness.recording.skip(&TOOL_ARGUMENT_ERRORS, SkipReason::Needs("stays-alive")),
    }
    Ok(())
}

/// Sends a light request right behind a slow one. Returns false if the call was slow by chance only: then nothing is judged.
async fn concurrency(probe: &mut ServerProbe<'_>, call: &AllowedCall) -> bool {
    if !probe.harness.wants(&[&CONCURRENCY]) {
        return true;
    }
    // On a busy machine the light request may be late by chance once, but hardly twice.
    let mut held_up = None;
    for _ in 0..2 {
        match race(&mut probe.connection, call).await {
            Some(Race::LightFirst) => {
                held_up = None;
                break;
            }
            Some(Race::SlowFirst(line)) => held_up = Some(line),
            Some(Race::NotSlow) => return false,
            None => return true,
        }
    }
    probe.harness.recording.inspected(&CONCURRENCY);
    if let Some(line) = held_up {
        let what = probe.connection.liveness_method();
        let detail = format!("the answer to {what} comes after the call of {}", shown(call.name.as_bytes(), 60));
        probe.harness.fail_at(&CONCURRENCY, line.location, &line.bytes, detail);
    }
    true
}

/// The order of the answers to a slow call and to the light request behind it.
enum Race {
    LightFirst,
    /// The light request had to wait for the slow call, whose answer this is.
    SlowFirst(LocatedFrame),
    /// The call was answered first, but too soon to say that the light request waited for it: on a busy machine any tool takes
    /// long now and then.
    NotSlow,
}

/// Calls the slow tool with a light request behind it; `None` if one of them is not answered.
async fn race(connection: &mut ServerConnection, call: &AllowedCall) -> Option<Race> {
    let alone = light_alone(connection).await?;
    let slow = begin(connection, call, false).await;
    let light = connection.send_request(connection.liveness_method(), json!({})).await;
    connection.claim(&light);
    let sent = Instant::now();
    let deadline = connection.deadline(CALL);
    let mut first = None;
    let mut answered = 0;
    while answered < 2
        && let Some(line) = connection.next_frame(deadline).await
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
async fn light_alone(connection: &mut ServerConnection) -> Option<Duration> {
    let since = Instant::now();
    let light = connection.send_request(connection.liveness_method(), json!({})).await;
    connection.claim(&light);
    match connection.wait_for_response(&light).await {
        RequestOutcome::Result(..) | RequestOutcome::Error(_) => Some(since.elapsed()),
        RequestOutcome::NoResponse | RequestOutcome::Refused(_) | RequestOutcome::Disconnected => None,
    }
}

/// A slow call that is given up. What comes of it after that is told by the passive checks.
async fn cancel(probe: &mut ServerProbe<'_>, call: &AllowedCall, took: Duration) {
    if !probe.harness.wants(&[&LATE_ANSWER]) {
        return;
    }
    let connection = &mut probe.connection;
    let id = begin(connection, call, true).await;
    sleep(took / 10).await;
    connection.cancel_request(&id).await;
    connection.drain_for(took + took / 2 + Duration::from_millis(100)).await;
}

/// From here on a call can be told from one that is answered at once.
const SLOW: Duration = Duration::from_millis(200);
/// A tool that takes longer is not called in a check.
const CALL: Duration = Duration::from_secs(10);
/// Enough to see whether results hold to their schemas.
const MOST_CALLS: usize = 40;
/// Enough to find one that is slow and not just late.
const MOST_RACES: usize = 3;
