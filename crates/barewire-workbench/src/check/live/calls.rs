//! Calls of permitted tools: their results, invalid arguments, concurrency and cancellation.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use barewire_proto::json::Kind;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::connection::ServerConnection;
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, is_response_to};
use super::recording::LocatedFrame;
use crate::check::catalogue::Check;
use crate::check::catalogue::flow::{CONCURRENCY, LATE_ANSWER, PROGRESS_RULES};
use crate::check::catalogue::http::HTTP_STATUS;
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::catalogue::tools::{OUTPUT_SCHEMA, TOOL_ARGUMENT_ERRORS};
use crate::check::ledger::SkipReason;
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
            params["_meta"] = json!({"progressToken": format!("barewire-{}", connection.next_id())});
        }
        connection.send_request("tools/call", params).await
    }
}

impl ServerProbe<'_> {
    pub(super) async fn tool_calls(&mut self) -> Result<(), Error> {
        let checks: &[&'static Check] =
            &[&OUTPUT_SCHEMA, &PROGRESS_RULES, &TOOL_ARGUMENT_ERRORS, &CONCURRENCY, &LATE_ANSWER];
        if self.tools.is_empty() {
            self.harness.skip_all(checks, "the server has no tools");
            return Ok(());
        }
        if self.harness.is_late() {
            return Ok(());
        }
        for (name, _) in &self.harness.calls {
            if !self.tools.iter().any(|tool| tool.name.as_ref() == Some(name)) {
                let why = format!("cannot call {}: the server does not list it", shown(name.as_bytes(), 60));
                self.harness.recording.ledger().incomplete(&OUTPUT_SCHEMA, why);
            }
        }
        let (allowed, forbidden) = self.allowed_calls();
        if allowed.is_empty() {
            for check in checks {
                let why = format!("none of the {forbidden} tools may be called");
                self.harness.skip_forbidden(check, why, Advice::AllowCalls);
            }
            return Ok(());
        }
        let mut slow = Vec::new();
        for call in allowed.iter().take(MAX_CALLS) {
            self.harness.calls.retain(|(name, _)| call.is_unlimited || *name != call.name);
            self.harness.progress(&format!("the tool {}", shown(call.name.as_bytes(), 40)));
            self.reconnect_if_closed().await?;
            let since = Instant::now();
            let outcome = self.call(call).await?;
            let took = since.elapsed();
            if matches!(outcome, RequestOutcome::Result(..)) && call.is_unlimited && took >= SLOW_CALL {
                slow.push((call, took));
            }
            if self.harness.is_late() {
                return Ok(());
            }
        }
        self.missing_arguments(&allowed).await?;
        slow.sort_by_key(|(_, took)| Reverse(*took));
        for (call, took) in slow.into_iter().take(MAX_RACES) {
            self.reconnect_if_closed().await?;
            if self.concurrency(call).await {
                self.reconnect_if_closed().await?;
                self.cancel(call, took).await;
                return Ok(());
            }
        }
        for check in [&CONCURRENCY, &LATE_ANSWER] {
            let why = "no tool that may be called repeatedly takes longer than 200 ms";
            self.harness.skip_forbidden(check, why, Advice::AllowAllCalls);
        }
        Ok(())
    }

    /// Returns the permitted calls, and the number of tools that may not be called.
    fn allowed_calls(&self) -> (Vec<AllowedCall>, usize) {
        let (mut allowed, mut forbidden) = (Vec::new(), 0);
        for tool in &self.tools {
            let Some(name) = &tool.name else { continue };
            let is_unlimited = tool.is_harmless || self.harness.all_calls;
            let arguments = match self.harness.calls.iter().find(|(tool, _)| tool == name) {
                Some((_, arguments)) => Some(arguments.clone()),
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
        if matches!(outcome, RequestOutcome::NoResponse) {
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
            RequestOutcome::NoResponse | RequestOutcome::Refused(_) => {
                format!("expected a result with isError, got {}", outcome.describe())
            }
            RequestOutcome::Disconnected => {
                self.harness.recording.ledger().skip(&TOOL_ARGUMENT_ERRORS, SkipReason::Needs(STAYS_ALIVE.id));
                return Ok(());
            }
        };
        let detail = format!("tools/call {} without its required arguments: {problem}", call.shown_name());
        self.harness.fail(&TOOL_ARGUMENT_ERRORS, &self.connection, Some(&outcome), detail);
        Ok(())
    }

    /// Sends a light request, such as a ping, right after a slow call. Returns false, without a finding, if the call
    /// was not slow this time.
    async fn concurrency(&mut self, call: &AllowedCall) -> bool {
        if !self.harness.wants(&[&CONCURRENCY]) {
            return true;
        }
        // On a busy machine the light request may be late once by chance, but hardly twice.
        let mut blocked = None;
        for _ in 0..2 {
            match race(&mut self.connection, call).await {
                Some(RaceOutcome::LightFirst) => {
                    blocked = None;
                    break;
                }
                Some(RaceOutcome::SlowFirst(frame)) => blocked = Some(frame),
                Some(RaceOutcome::NotSlow) => return false,
                None => return true,
            }
        }
        self.harness.recording.ledger().inspected(&CONCURRENCY);
        if let Some(frame) = blocked {
            let method = self.connection.liveness_method();
            let detail = format!("{method} is answered only after the call of {}", call.shown_name());
            self.harness.fail_at(&CONCURRENCY, frame.location, &frame.bytes, detail);
        }
        true
    }

    /// Makes a slow call and cancels it. The passive checks report later messages for this call.
    async fn cancel(&mut self, call: &AllowedCall, took: Duration) {
        if !self.harness.wants(&[&LATE_ANSWER]) {
            return;
        }
        let connection = &mut self.connection;
        let id = call.send(connection, true).await;
        sleep(took / 10).await;
        connection.cancel_request(&id).await;
        connection.drain_for(took + took / 2 + Duration::from_millis(100)).await;
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

/// Calls the slow tool and then sends a light request, such as a ping. Returns `None` if the server answers neither.
async fn race(connection: &mut ServerConnection, call: &AllowedCall) -> Option<RaceOutcome> {
    // Measures how long a light request takes without the call, because a busy machine also delays light requests.
    let since = Instant::now();
    let outcome = connection.claimed_request(connection.liveness_method(), json!({})).await;
    outcome.frame()?;
    let alone = since.elapsed();
    let slow = call.send(connection, false).await;
    let light = connection.send_request(connection.liveness_method(), json!({})).await;
    connection.claim(&light);
    let sent = Instant::now();
    let deadline = connection.deadline(CALL_TIMEOUT);
    let mut first = None;
    let mut answered = 0;
    while answered < 2
        && let Some(frame) = connection.next_frame(deadline).await
    {
        let answers = |id: &str| frame.json().is_some_and(|message| is_response_to(message, id));
        let is_slow = answers(&slow);
        if is_slow || answers(&light) {
            answered += 1;
            first.get_or_insert_with(|| match is_slow {
                true if sent.elapsed() < (SLOW_CALL / 2).max(2 * alone) => RaceOutcome::NotSlow,
                true => RaceOutcome::SlowFirst(frame),
                false => RaceOutcome::LightFirst,
            });
        }
    }
    first
}

/// The minimum duration of a slow call.
const SLOW_CALL: Duration = Duration::from_millis(200);
/// The maximum duration of a call; a longer call is cancelled.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of tools that are called.
const MAX_CALLS: usize = 40;
/// The maximum number of tools that are called again to find one that is still slow.
const MAX_RACES: usize = 3;
