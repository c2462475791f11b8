//! Calls of permitted tools: their results, invalid arguments, concurrency and cancellation.

use std::cmp::Reverse;
use std::time::Duration;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::harness::initialize;
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, ResultResponse, is_response_to};
use super::recording::LocatedFrame;
use crate::check::catalogue::Check;
use crate::check::catalogue::flow::{CANCELLED_ANSWER, CONCURRENCY, LATE_ANSWER, PROGRESS_RULES};
use crate::check::catalogue::http::HTTP_STATUS;
use crate::check::catalogue::lifecycle::CALL_BEFORE_INITIALIZED;
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::catalogue::tools::{OUTPUT_SCHEMA, TOOL_ARGUMENT_ERRORS};
use crate::check::excerpt::Fault;
use crate::check::ledger::{Reason, SkipReason};
use crate::text::shown;
use crate::{Advice, Error};

struct AllowedCall {
    name: String,
    /// The arguments as JSON text, because a tree of their values takes more memory.
    arguments: String,
    has_required: bool,
    /// Whether the tool may be called repeatedly, with any arguments, and not only once, with `arguments`.
    is_unlimited: bool,
}

impl AllowedCall {
    fn shown_name(&self) -> String {
        shown(self.name.as_bytes(), 60)
    }

    async fn send(&self, connection: &mut ServerConnection, with_token: bool) -> String {
        let arguments: Value = serde_json::from_str(&self.arguments).unwrap_or_default();
        let mut params = json!({"name": self.name, "arguments": arguments});
        if with_token {
            params["_meta"] = json!({"progressToken": connection.next_token()});
        }
        connection.send_request("tools/call", params).await
    }
}

impl ServerProbe<'_> {
    pub(super) async fn tool_calls(&mut self) -> Result<(), Error> {
        let checks: &[&'static Check] = &[
            &OUTPUT_SCHEMA,
            &PROGRESS_RULES,
            &TOOL_ARGUMENT_ERRORS,
            &CONCURRENCY,
            &LATE_ANSWER,
            &CANCELLED_ANSWER,
            &CALL_BEFORE_INITIALIZED,
        ];
        if self.tools.is_empty() {
            self.harness.skip_all(checks, "the server has no tools");
            return Ok(());
        }
        if self.harness.is_late() {
            return Ok(());
        }
        for (name, _) in &*self.harness.calls.borrow() {
            if !self.tools.iter().any(|tool| tool.name.as_ref() == Some(name)) {
                let why = format!("cannot call {}: the server does not list it", shown(name.as_bytes(), 60));
                self.harness.recording.ledger().incomplete(&OUTPUT_SCHEMA, why);
            }
        }
        let (allowed, forbidden) = self.allowed_calls();
        if allowed.is_empty() {
            for check in checks {
                let (why, advice) = match self.harness.all_calls {
                    true => (format!("no arguments were found for any of the {forbidden} tools"), Advice::NameCall),
                    false => (format!("none of the {forbidden} tools may be called"), Advice::AllowCalls),
                };
                self.harness.skip_forbidden(check, why, advice);
            }
            return Ok(());
        }
        let mut durations = Vec::new();
        for call in allowed.iter().take(MAX_CALLS) {
            let _subject = self.harness.progress(&format!("the tool {}", shown(call.name.as_bytes(), 40)));
            self.reconnect_if_closed().await?;
            let since = self.connection.now();
            let outcome = self.call(call).await?;
            match &outcome {
                RequestOutcome::Result(result) => {
                    durations.push((call, CallDuration::Took(result.frame.time.saturating_sub(since))));
                }
                RequestOutcome::NoResponse(_) => durations.push((call, CallDuration::TooLong)),
                _ => {}
            }
            if self.harness.is_late() {
                return Ok(());
            }
        }
        self.missing_arguments(&allowed).await?;
        let answered = durations.iter().find(|(call, took)| call.is_unlimited && matches!(took, CallDuration::Took(_)));
        self.call_before_initialized(answered.map(|(call, _)| *call)).await?;
        self.slow_calls(&durations).await
    }

    /// Calls slow tools again, together with other requests, and cancels them.
    async fn slow_calls(&mut self, durations: &[(&AllowedCall, CallDuration)]) -> Result<(), Error> {
        let mut slow: Vec<(&AllowedCall, Duration)> = durations
            .iter()
            .filter_map(|(call, took)| match took {
                CallDuration::Took(took) if *took >= SLOW_CALL && call.is_unlimited => Some((*call, *took)),
                _ => None,
            })
            .collect();
        slow.sort_by_key(|(_, took)| Reverse(*took));
        self.harness.wait_until_undisturbed().await;
        for (call, took) in slow.into_iter().take(MAX_RACES) {
            let _subject = self.harness.progress(&format!("the slow tool {}", shown(call.name.as_bytes(), 40)));
            self.reconnect_if_closed().await?;
            if let Some(again) = self.concurrency(call).await {
                self.reconnect_if_closed().await?;
                self.cancel(call, took.min(again)).await?;
                return Ok(());
            }
        }
        let reason = no_slow_call(durations, self.harness.all_calls);
        for check in [&CONCURRENCY, &LATE_ANSWER, &CANCELLED_ANSWER] {
            let reason = match &reason.advice {
                Some(_) => SkipReason::Permission(reason.clone()),
                None => SkipReason::Nothing(reason.clone()),
            };
            self.harness.recording.ledger().skip(check, reason);
        }
        Ok(())
    }

    /// Calls a tool on a new connection after `initialize` is answered, and before `notifications/initialized`.
    async fn call_before_initialized(&mut self, call: Option<&AllowedCall>) -> Result<(), Error> {
        let checks: &[&'static Check] = &[&CALL_BEFORE_INITIALIZED];
        // Over HTTP, a server without sessions cannot know whether the client has sent the notification.
        if self.connection.era != Era::Legacy || self.harness.is_http() || !self.harness.wants(checks) {
            return Ok(());
        }
        let Some(call) = call else {
            self.harness.skip_all(checks, "no tool that may be called repeatedly gave a result");
            return Ok(());
        };
        let _subject = self.harness.progress("a call before notifications/initialized");
        let mut connection = self.harness.spawn(Era::Legacy, true).await?;
        let revision = self.harness.handshake_revision.get();
        let outcome = initialize(&mut connection, revision.as_str(), self.harness.first_patience()).await;
        if !matches!(outcome, RequestOutcome::Result(_)) {
            self.harness.not_restarted(checks);
        } else {
            let id = call.send(&mut connection, false).await;
            connection.claim(&id);
            let outcome = connection.wait_for_response(&id).await;
            self.harness.recording.ledger().inspected(&CALL_BEFORE_INITIALIZED);
            // A server may also wait for the notification before it answers.
            let is_served = |result: &ResultResponse| result.at(&["isError"]).is_none_or(|it| it.kind() != Kind::True);
            if let RequestOutcome::Result(result) = &outcome
                && is_served(result)
            {
                let detail = format!("tools/call {} gets a result", call.shown_name());
                self.harness.fail(&CALL_BEFORE_INITIALIZED, &connection, Some(&outcome), detail);
            }
            connection.abandon(&id);
        }
        self.harness.close(connection).await;
        Ok(())
    }

    /// Returns the permitted calls, and the number of tools that may not be called. A permission for one call is used
    /// up here, because both eras are probed at the same time.
    fn allowed_calls(&self) -> (Vec<AllowedCall>, usize) {
        let (mut allowed, mut forbidden) = (Vec::new(), 0);
        for tool in &self.tools {
            let Some(name) = &tool.name else { continue };
            let is_unlimited = tool.is_harmless || self.harness.all_calls;
            let mut calls = self.harness.calls.borrow_mut();
            let arguments = match calls.iter().position(|(tool, _)| tool == name) {
                Some(given) if is_unlimited => Some(calls[given].1.clone()),
                Some(given) => Some(calls.remove(given).1),
                None if is_unlimited => tool.sample(),
                None => None,
            };
            match arguments.filter(Value::is_object) {
                Some(arguments) => {
                    let (name, has_required, arguments) = (name.clone(), tool.has_required, arguments.to_string());
                    allowed.push(AllowedCall { name, arguments, has_required, is_unlimited });
                }
                None => forbidden += 1,
            }
        }
        (allowed, forbidden)
    }

    async fn call(&mut self, call: &AllowedCall) -> Result<RequestOutcome, Error> {
        let id = call.send(&mut self.connection, true).await;
        // A tool may be slow, so a missing response is not reported.
        self.connection.claim(&id);
        let outcome = self.connection.wait_for_response_within(&id, CALL_TIMEOUT).await;
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
            self.connection.cancel_request(&id).await;
            // The server may stay busy with the cancelled call.
            self.reconnect().await?;
        }
        if let RequestOutcome::Refused(_) = outcome {
            let (name, got) = (call.shown_name(), outcome.describe());
            let detail = format!("tools/call {name}: expected a JSON-RPC response, got {got}");
            self.harness.fail(&HTTP_STATUS, &self.connection, Some(&outcome), detail);
        }
        Ok(outcome)
    }

    async fn missing_arguments(&mut self, allowed: &[AllowedCall]) -> Result<(), Error> {
        if !self.harness.wants(&[&TOOL_ARGUMENT_ERRORS]) {
            return Ok(());
        }
        let Some(call) = allowed.iter().find(|call| call.has_required && call.is_unlimited) else {
            if allowed.iter().any(|call| call.has_required) {
                let why = "only one call, with the given arguments, is permitted";
                self.harness.skip_forbidden(&TOOL_ARGUMENT_ERRORS, why, Advice::AllowAllCalls);
            } else {
                self.harness.skip_all(&[&TOOL_ARGUMENT_ERRORS], "no tool that may be called has required arguments");
            }
            return Ok(());
        };
        self.reconnect_if_closed().await?;
        let params = json!({"name": call.name, "arguments": {}});
        let outcome = self.connection.claimed_request("tools/call", params).await;
        let revision = self.connection.revision;
        self.harness.recording.ledger().inspected(&TOOL_ARGUMENT_ERRORS);
        let problem = match &outcome {
            RequestOutcome::Result(result)
                if result.at(&["isError"]).is_some_and(|it| it.kind() == Kind::True)
                    || result.string(&["resultType"]).as_deref() == Some("input_required") =>
            {
                return Ok(());
            }
            RequestOutcome::Result(..) => "the tool runs as if nothing were wrong".to_owned(),
            RequestOutcome::Error(response) => match response.code {
                -32602 if revision.bad_arguments_are_tool_errors() => {
                    format!("expected a result with isError in {revision}, got error -32602")
                }
                -32603 => "expected a result with isError, got error -32603, which blames the server".to_owned(),
                // The passive checks judge other codes.
                _ => return Ok(()),
            },
            RequestOutcome::NoResponse(_) | RequestOutcome::Refused(_) => {
                format!("expected a result with isError, got {}", outcome.describe())
            }
            RequestOutcome::Disconnected(_) => {
                self.harness.recording.ledger().skip(&TOOL_ARGUMENT_ERRORS, SkipReason::Needs(STAYS_ALIVE.id));
                return Ok(());
            }
        };
        let detail = format!("tools/call {} without its required arguments: {problem}", call.shown_name());
        self.harness.fail(&TOOL_ARGUMENT_ERRORS, &self.connection, Some(&outcome), detail);
        Ok(())
    }

    /// Sends a light request, such as a ping, right after a slow call. Returns the duration of the call; `None`,
    /// without a finding, if the call was not slow this time.
    async fn concurrency(&mut self, call: &AllowedCall) -> Option<Duration> {
        // On a busy machine the light request may be late once by chance, but hardly twice.
        let mut blocked = None;
        let mut shortest = Duration::MAX;
        for _ in 0..2 {
            let Some((outcome, took)) = race(&mut self.connection, call).await else { return Some(shortest) };
            shortest = shortest.min(took);
            match outcome {
                RaceOutcome::LightFirst => {
                    blocked = None;
                    break;
                }
                RaceOutcome::SlowFirst(frame) => blocked = Some(frame),
                RaceOutcome::NotSlow => return None,
            }
        }
        self.harness.recording.ledger().inspected(&CONCURRENCY);
        if let Some(frame) = blocked {
            let method = self.connection.liveness_method();
            let detail = format!("{method} is answered only after the call of {}", call.shown_name());
            self.harness.fail_frame(&CONCURRENCY, &frame, Fault::Whole, detail);
        }
        (shortest >= SLOW_CALL / 2).then_some(shortest)
    }

    /// Makes slow calls and cancels them. Only what happens twice is reported, because a tool may by chance be as quick
    /// as the cancellation.
    async fn cancel(&mut self, call: &AllowedCall, took: Duration) -> Result<(), Error> {
        let checks: &[&'static Check] = &[&LATE_ANSWER, &CANCELLED_ANSWER];
        if !self.harness.wants(checks) {
            return Ok(());
        }
        // Without a session, a cancellation could be that of another client, so that a server may ignore it.
        if self.connection.era == Era::Legacy && self.connection.http().is_some_and(|it| it.client.session.is_none()) {
            self.harness.skip_all(checks, "the server has no sessions, to which a cancellation belongs");
            return Ok(());
        }
        let mut before = None;
        for tenths in [1, 2, 1, 2] {
            self.reconnect_if_closed().await?;
            let (violation, frame) = match cancel_once(&mut self.connection, call, took, tenths).await {
                CancelOutcome::Stopped => break,
                CancelOutcome::Unclear => continue,
                CancelOutcome::Violation(violation, frame) => (violation, frame),
            };
            if before == Some(violation) {
                // A call that was slow only because the machine was busy is not answered because of its cancellation.
                if violation == CancelViolation::Response && !self.is_still_slow(call, took).await? {
                    break;
                }
                let (check, detail) = match violation {
                    CancelViolation::Result => (&LATE_ANSWER, "is answered with a result after its cancellation"),
                    CancelViolation::Progress => (&LATE_ANSWER, "reports progress after its cancellation"),
                    CancelViolation::Response => (&CANCELLED_ANSWER, "is answered when it is cancelled"),
                };
                let detail = format!("tools/call {} {detail}", call.shown_name());
                self.harness.fail_frame(check, &frame, Fault::Whole, detail);
                break;
            }
            before = Some(violation);
        }
        self.harness.recording.ledger().inspected(&CANCELLED_ANSWER);
        self.harness.recording.ledger().inspected(&LATE_ANSWER);
        Ok(())
    }

    /// Whether a call, without its cancellation, takes as long as it did before.
    async fn is_still_slow(&mut self, call: &AllowedCall, took: Duration) -> Result<bool, Error> {
        self.reconnect_if_closed().await?;
        let since = self.connection.now();
        let outcome = self.call(call).await?;
        Ok(outcome.frame().is_none_or(|frame| frame.time.saturating_sub(since) >= took * 3 / 4))
    }
}

enum CallDuration {
    Took(Duration),
    /// The call was cancelled after [`CALL_TIMEOUT`].
    TooLong,
}

/// Returns the reason why no slow call was made.
fn no_slow_call(durations: &[(&AllowedCall, CallDuration)], all_calls: bool) -> Reason {
    let too_long = durations.iter().find(|(_, took)| matches!(took, CallDuration::TooLong));
    let is_slow = |took: &CallDuration| matches!(took, CallDuration::Took(took) if *took >= SLOW_CALL);
    let once = durations.iter().find(|(call, took)| !call.is_unlimited && is_slow(took));
    match (once, too_long) {
        (Some((call, _)), _) => {
            let why = format!("{} takes longer than 200 ms, but may be called only once", call.shown_name());
            Reason::new(why, Advice::AllowAllCalls)
        }
        (None, Some((call, _))) => {
            format!("{} takes longer than 10 s, and no other tool longer than 200 ms", call.shown_name()).into()
        }
        (None, None) if all_calls => "no tool takes longer than 200 ms".into(),
        (None, None) => {
            Reason::new("no tool that may be called repeatedly takes longer than 200 ms", Advice::AllowAllCalls)
        }
    }
}

/// A message about a call that should not follow its cancellation.
#[derive(Clone, Copy, PartialEq)]
enum CancelViolation {
    /// The result, after the time that the call takes without the cancellation.
    Result,
    Progress,
    /// A response that the cancellation caused.
    Response,
}

enum CancelOutcome {
    Stopped,
    /// The cancellation was so late that the call may have been over.
    Unclear,
    Violation(CancelViolation, LocatedFrame),
}

/// Makes a slow call, and cancels it after some tenths of its duration.
async fn cancel_once(
    connection: &mut ServerConnection,
    call: &AllowedCall,
    took: Duration,
    tenths: u32,
) -> CancelOutcome {
    let sent = connection.now();
    let slow = call.send(connection, true).await;
    let token = connection.last_token.clone();
    connection.claim(&slow);
    let is_over = connection.response_within(&slow, took * tenths / 10).await.is_some();
    // On a busy machine this may have taken longer.
    if is_over || connection.now().saturating_sub(sent) > took / 2 {
        if !is_over {
            connection.settled_response(&slow).await;
        }
        return CancelOutcome::Unclear;
    }
    connection.abandon(&slow);
    connection.cancel_request(&slow).await;
    // A server that has answered this request has also read the cancellation before it.
    let light = connection.send_request(connection.liveness_method(), json!({})).await;
    connection.claim(&light);
    let deadline = connection.deadline(took + took / 2 + MAX_CANCEL_TIME);
    let mut seen = None;
    let mut progress = None;
    while let Some(frame) = connection.next_frame(deadline).await {
        let Some(message) = frame.json() else { continue };
        if is_response_to(message, &light) {
            seen = Some(frame.time);
        } else if is_response_to(message, &slow) {
            let is_early = frame.time.saturating_sub(sent) < took * 3 / 4;
            let is_error = message.member("error").is_some();
            return match (is_early || is_error, seen) {
                (true, _) => CancelOutcome::Violation(CancelViolation::Response, frame),
                (false, Some(_)) => CancelOutcome::Violation(CancelViolation::Result, frame),
                // The server may not have read the cancellation in time.
                (false, None) => CancelOutcome::Unclear,
            };
        } else if message.at(&["params", "progressToken"]).and_then(Json::string).as_deref() == Some(&token)
            && seen.is_some_and(|seen| frame.time.saturating_sub(seen) > MAX_CANCEL_TIME)
        {
            progress = Some(frame);
        }
    }
    match progress {
        Some(frame) => CancelOutcome::Violation(CancelViolation::Progress, frame),
        None => CancelOutcome::Stopped,
    }
}

/// The order of the responses to a slow call and to the light request (such as a ping) that was sent after the call.
enum RaceOutcome {
    LightFirst,
    /// The call was answered first, with this frame, so the light request had to wait for the call.
    SlowFirst(LocatedFrame),
    /// The call was answered first, but too quickly to have delayed the light request.
    NotSlow,
}

/// Calls the slow tool and then sends a light request, such as a ping. Also returns the duration of the call; `None` if
/// the server answers neither.
async fn race(connection: &mut ServerConnection, call: &AllowedCall) -> Option<(RaceOutcome, Duration)> {
    // Measures how long a light request takes without the call, because a busy machine also delays light requests.
    let since = connection.now();
    let outcome = connection.claimed_request(connection.liveness_method(), json!({})).await;
    let alone = outcome.frame()?.time.saturating_sub(since);
    let slow = call.send(connection, false).await;
    let light = connection.send_request(connection.liveness_method(), json!({})).await;
    connection.claim(&light);
    let sent = connection.now();
    let deadline = connection.deadline(CALL_TIMEOUT);
    let mut first = None;
    let mut took = CALL_TIMEOUT;
    let mut answered = 0;
    while answered < 2
        && let Some(frame) = connection.next_frame(deadline).await
    {
        let answers = |id: &str| frame.json().is_some_and(|message| is_response_to(message, id));
        let is_slow = answers(&slow);
        if is_slow || answers(&light) {
            answered += 1;
            if is_slow {
                took = frame.time.saturating_sub(sent);
            }
            first.get_or_insert_with(|| match is_slow {
                true if frame.time.saturating_sub(sent) < (SLOW_CALL / 2).max(2 * alone) => RaceOutcome::NotSlow,
                true => RaceOutcome::SlowFirst(frame),
                false => RaceOutcome::LightFirst,
            });
        }
    }
    first.map(|outcome| (outcome, took))
}

/// The minimum duration of a slow call.
const SLOW_CALL: Duration = Duration::from_millis(200);
/// The maximum duration of a call; a longer call is cancelled.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a server has to stop a call after it has read the cancellation.
const MAX_CANCEL_TIME: Duration = Duration::from_millis(250);
/// The maximum number of tools that are called.
const MAX_CALLS: usize = 40;
/// The maximum number of tools that are called again to find one that is still slow.
const MAX_RACES: usize = 3;
