//! Calls of permitted tools: their results, invalid arguments, and calls before the handshake is complete.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use barewire_proto::json::Kind;
use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::connection::{ServerConnection, TokenKind};
use super::harness::initialize;
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, ResultResponse};
use super::running_calls::{CallDuration, CallDurations, CallPatience, RunningCall};
use crate::check::catalogue::Check;
use crate::check::catalogue::flow::{CANCELLED_ANSWER, CONCURRENCY, LATE_ANSWER, PROGRESS_RULES};
use crate::check::catalogue::lifecycle::CALL_BEFORE_INITIALIZED;
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::catalogue::tools::{OPTIONAL_ARGUMENTS, OUTPUT_SCHEMA, TOOL_ARGUMENT_ERRORS};
use crate::check::ledger::SkipReason;
use crate::text::shown;
use crate::{Advice, Error};

pub(super) struct AllowedCall {
    pub(super) name: String,
    /// The arguments as JSON text, because a tree of their values takes more memory.
    arguments: String,
    pub(super) has_required: bool,
    /// Whether the tool may be called repeatedly, with any arguments, and not only once, with `arguments`.
    pub(super) is_unlimited: bool,
}

/// The calls of permitted tools so far.
#[derive(Default)]
pub(super) struct CalledTools {
    /// All permitted calls; empty if no time is left for further ones.
    pub(super) allowed: Vec<Rc<AllowedCall>>,
    pub(super) ended: CallDurations,
    /// A call that reported progress, gave a result soon and may be repeated.
    pub(super) reporting: Option<Rc<AllowedCall>>,
    /// The calls that take long, each on a connection of its own.
    pub(super) running: Vec<(RunningCall, ServerConnection)>,
}

/// Returns a call that gave a result and may be repeated.
pub(super) fn repeatable(durations: &CallDurations) -> Option<Rc<AllowedCall>> {
    let is_repeatable =
        |call: &AllowedCall, took: &CallDuration| call.is_unlimited && matches!(took, CallDuration::Took(_));
    durations.iter().find(|(call, took)| is_repeatable(call, took)).map(|(call, _)| Rc::clone(call))
}

/// Returns the time after which a call gave a result.
fn duration(call: &Rc<AllowedCall>, durations: &CallDurations) -> Option<Duration> {
    durations.iter().find_map(|(other, took)| match took {
        CallDuration::Took(took) if Rc::ptr_eq(call, other) => Some(*took),
        _ => None,
    })
}

/// Returns a call with empty arguments that gave a result soon and may be repeated.
pub(super) fn without_arguments(durations: &CallDurations) -> Option<Rc<AllowedCall>> {
    let is_bare = |call: &AllowedCall| call.is_unlimited && !call.has_required && call.arguments == "{}";
    let is_quick = |took: &CallDuration| matches!(took, CallDuration::Took(took) if *took <= MAX_QUICK);
    durations.iter().find(|(call, took)| is_bare(call) && is_quick(took)).map(|(call, _)| Rc::clone(call))
}

impl AllowedCall {
    pub(super) fn shown_name(&self) -> String {
        shown(self.name.as_bytes(), 60)
    }

    /// Returns what the progress shows during the call.
    pub(super) fn subject(&self) -> String {
        format!("the tool {}", shown(self.name.as_bytes(), 40))
    }

    pub(super) async fn send(&self, connection: &mut ServerConnection, token: Option<TokenKind>) -> String {
        let arguments: Value = serde_json::from_str(&self.arguments).unwrap_or_default();
        let mut params = json!({"name": self.name, "arguments": arguments});
        if let Some(kind) = token {
            params["_meta"] = json!({"progressToken": connection.next_token(kind)});
        }
        connection.send_request("tools/call", params).await
    }
}

impl ServerProbe<'_> {
    /// Calls the tools that may be called. Calls that take long are still running afterwards.
    pub(super) async fn tool_calls(&mut self) -> Result<CalledTools, Error> {
        let checks: &[&'static Check] = &[
            &OUTPUT_SCHEMA,
            &PROGRESS_RULES,
            &TOOL_ARGUMENT_ERRORS,
            &OPTIONAL_ARGUMENTS,
            &CONCURRENCY,
            &LATE_ANSWER,
            &CANCELLED_ANSWER,
            &CALL_BEFORE_INITIALIZED,
        ];
        if self.tools.is_empty() {
            self.harness.skip_all(checks, "the server has no tools");
            return Ok(CalledTools::default());
        }
        if self.harness.is_late() {
            return Ok(CalledTools::default());
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
            return Ok(CalledTools::default());
        }
        let allowed: Vec<Rc<AllowedCall>> = allowed.into_iter().map(Rc::new).collect();
        let mut called = CalledTools::default();
        let (mut patience, mut may_be_busy) = (CallPatience::new(), false);
        for call in allowed.iter().take(MAX_CALLS) {
            let _subject = self.harness.progress(&call.subject());
            self.reconnect_if_closed().await?;
            let was_whole = patience.is_whole();
            let mut silent = None;
            let running = RunningCall::start(call, &mut self.connection, TokenKind::Number).await;
            let outcome = match self.early_outcome(&running, &patience).await {
                Some(outcome) => {
                    may_be_busy |= matches!(outcome, RequestOutcome::NoResponse(_));
                    outcome
                }
                None => {
                    if called.running.len() < MAX_RUNNING
                        && let Some(connection) = self.hand_over().await?
                    {
                        called.running.push((running, connection));
                        continue;
                    }
                    let (outcome, known) = self.late_outcome(&running, &mut patience).await?;
                    silent = known;
                    outcome
                }
            };
            // A call with less time, or with a response that cannot be read, may be quick.
            let is_lost = matches!(outcome, RequestOutcome::NoResponse(_));
            if called.reporting.is_none() && !is_lost && running.has_progress(&self.connection) && call.is_unlimited {
                called.reporting = Some(Rc::clone(call));
            }
            if !is_lost || was_whole && !patience.is_garbled() {
                called.ended.push(running.duration(&outcome, silent));
            }
            if self.harness.is_late() {
                return Ok(called);
            }
            if patience.is_over() {
                break;
            }
        }
        if may_be_busy {
            self.reconnect().await?;
        }
        called.allowed = allowed;
        Ok(called)
    }

    /// Calls a tool that reports progress again, with a progress token of the other type. The passive checks judge its
    /// progress.
    pub(super) async fn text_token(&mut self, call: Option<&Rc<AllowedCall>>) -> Result<(), Error> {
        let Some(call) = call.filter(|_| self.harness.wants(&[&PROGRESS_RULES])) else { return Ok(()) };
        self.reconnect_if_closed().await?;
        let id = call.send(&mut self.connection, Some(TokenKind::Text)).await;
        self.connection.claim(&id);
        self.connection.wait_for_response(&id).await;
        Ok(())
    }

    /// Calls a tool on a new connection after `initialize` is answered, and before `notifications/initialized`.
    pub(super) async fn call_before_initialized(&mut self, call: Option<Rc<AllowedCall>>) -> Result<(), Error> {
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
            let id = call.send(&mut connection, None).await;
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

    /// Returns the params of a call that may be repeated, by the lists alone.
    pub(super) fn repeatable_call(&self) -> Option<Value> {
        let allowed = self.tools.iter().filter(|tool| tool.is_harmless || self.harness.all_calls);
        let mut calls =
            allowed.filter_map(|tool| Some(json!({"name": tool.name.as_ref()?, "arguments": tool.sample()?})));
        calls.next()
    }

    /// Calls a tool that requires no arguments without the member `arguments`, and then with empty arguments. What
    /// happens only once may be chance.
    pub(super) async fn omitted_arguments(&mut self, call: Option<&Rc<AllowedCall>>) -> Result<(), Error> {
        let check: &'static Check = &OPTIONAL_ARGUMENTS;
        if !self.harness.wants(&[check]) {
            return Ok(());
        }
        let Some(call) = call else {
            let why = "no tool that may be called repeatedly gave a result for empty arguments";
            self.harness.skip_all(&[check], why);
            return Ok(());
        };
        let mut refused = None;
        for _ in 0..2 {
            self.reconnect_if_closed().await?;
            let without = self.connection.claimed_request("tools/call", json!({"name": call.name})).await;
            match has_failed(&without) {
                Some(true) => {}
                Some(false) => {
                    self.harness.recording.ledger().inspected(check);
                    return Ok(());
                }
                None => return Ok(()),
            }
            let with = json!({"name": call.name, "arguments": {}});
            if has_failed(&self.connection.claimed_request("tools/call", with).await) != Some(false) {
                let why = format!("a call of {} with empty arguments fails too", call.shown_name());
                self.harness.skip_all(&[check], &why);
                return Ok(());
            }
            refused = Some(without);
        }
        self.harness.recording.ledger().inspected(check);
        if let Some(outcome) = refused {
            let got = match &outcome {
                RequestOutcome::Result(_) => "a result with isError".to_owned(),
                outcome => outcome.describe(),
            };
            let name = call.shown_name();
            let detail = format!("tools/call {name} without arguments: expected a result as for {{}}, got {got}");
            self.harness.fail(check, &self.connection, Some(&outcome), detail);
        }
        Ok(())
    }

    /// Calls a tool without its required arguments.
    pub(super) async fn missing_arguments(
        &mut self,
        allowed: &[Rc<AllowedCall>],
        durations: &RefCell<CallDurations>,
    ) -> Result<(), Error> {
        if !self.harness.wants(&[&TOOL_ARGUMENT_ERRORS]) {
            return Ok(());
        }
        if allowed.is_empty() {
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
        let took = duration(call, &durations.borrow());
        // A tool may read its arguments late.
        let patience = self.harness.patience + took.unwrap_or_default() * 2;
        let outcome = self.connection.claimed_request_within("tools/call", params, patience).await;
        if let (RequestOutcome::NoResponse(_), None) = (&outcome, took) {
            let why = format!("{} gave no result in time, with arguments or without", call.shown_name());
            self.harness.skip_all(&[&TOOL_ARGUMENT_ERRORS], &why);
            // The server may stay busy with the call.
            return self.reconnect().await;
        }
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
}

/// Whether a call fails, by a protocol error or by a result with isError; `None` if it has no such response.
fn has_failed(outcome: &RequestOutcome) -> Option<bool> {
    match outcome {
        RequestOutcome::Result(result) => Some(result.at(&["isError"]).is_some_and(|it| it.kind() == Kind::True)),
        RequestOutcome::Error(_) => Some(true),
        _ => None,
    }
}

/// The maximum duration of a call that is repeated without its arguments.
const MAX_QUICK: Duration = Duration::from_secs(1);
/// The maximum number of tools that are called.
const MAX_CALLS: usize = 40;
/// The maximum number of calls that are running at once, each in a process of its own.
const MAX_RUNNING: usize = 3;
