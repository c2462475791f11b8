//! Calls of slow tools -> whether other requests are served meanwhile, and whether a cancelled call stops.

use std::cmp::Reverse;
use std::rc::Rc;
use std::time::Duration;

use barewire_proto::mcp::Era;
use serde_json::json;

use super::calls::AllowedCall;
use super::connection::{ServerConnection, TokenKind};
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, is_response_to, is_same_value};
use super::recording::LocatedFrame;
use super::running_calls::{CALL_TIMEOUT, CallDuration};
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::UNANSWERED_REQUEST;
use crate::check::catalogue::flow::{CANCELLED_ANSWER, CONCURRENCY, LATE_ANSWER};
use crate::check::excerpt::Fault;
use crate::check::ledger::{Reason, SkipReason};
use crate::text::shown;
use crate::{Advice, Error};

impl ServerProbe<'_> {
    /// Calls slow tools again, together with other requests, and cancels them.
    pub(super) async fn slow_calls(&mut self, durations: &[(Rc<AllowedCall>, CallDuration)]) -> Result<(), Error> {
        let mut slow: Vec<(&Rc<AllowedCall>, Duration)> = durations
            .iter()
            .filter_map(|(call, took)| match took {
                CallDuration::Took(took) if *took >= SLOW_CALL && call.is_unlimited => Some((call, *took)),
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
    async fn cancel(&mut self, call: &Rc<AllowedCall>, took: Duration) -> Result<(), Error> {
        let checks: &[&'static Check] = &[&LATE_ANSWER, &CANCELLED_ANSWER];
        if !self.harness.wants(checks) {
            return Ok(());
        }
        // Without a session, a cancellation could be that of another client, so that a server may ignore it.
        if self.connection.era == Era::Legacy && self.connection.http().is_some_and(|it| it.client.session.is_none()) {
            self.harness.skip_all(checks, "the server has no sessions, to which a cancellation belongs");
            return Ok(());
        }
        self.cancel_one_of_two(call, took).await?;
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

    /// Makes two slow calls at once, cancels one of them, and expects the response to the other.
    async fn cancel_one_of_two(&mut self, call: &AllowedCall, took: Duration) -> Result<(), Error> {
        if took > MAX_OF_TWO || !self.harness.wants(&[&UNANSWERED_REQUEST]) {
            return Ok(());
        }
        let is_lost = |outcome: &RequestOutcome| matches!(outcome, RequestOutcome::NoResponse(_));
        if !is_lost(&self.second_of_two(call, took, true).await?) {
            return Ok(());
        }
        // A tool that never answers two calls at once says nothing about cancellation.
        self.reconnect().await?;
        if is_lost(&self.second_of_two(call, took, false).await?) {
            return Ok(());
        }
        let outcome = self.second_of_two(call, took, true).await?;
        if is_lost(&outcome) {
            let name = call.shown_name();
            let detail = format!("tools/call {name} gets no response after another call was cancelled");
            self.harness.fail(&UNANSWERED_REQUEST, &self.connection, Some(&outcome), detail);
            self.reconnect().await?;
        }
        Ok(())
    }

    /// Makes two calls at once, and cancels the first one or not. Returns the outcome of the second one.
    async fn second_of_two(
        &mut self,
        call: &AllowedCall,
        took: Duration,
        is_cancelled: bool,
    ) -> Result<RequestOutcome, Error> {
        self.reconnect_if_closed().await?;
        let connection = &mut self.connection;
        let first = call.send(connection, None).await;
        connection.claim(&first);
        let second = call.send(connection, None).await;
        connection.claim(&second);
        connection.response_within(&first, took / 10).await;
        if is_cancelled {
            connection.abandon(&first);
            connection.cancel_request(&first).await;
        }
        let outcome = connection.wait_for_response_within(&second, took * 3 + self.harness.patience).await;
        if !is_cancelled {
            connection.settled_response(&first).await;
        }
        Ok(outcome)
    }

    /// Whether a call, without its cancellation, takes as long as it did before.
    async fn is_still_slow(&mut self, call: &Rc<AllowedCall>, took: Duration) -> Result<bool, Error> {
        self.reconnect_if_closed().await?;
        let since = self.connection.now();
        let outcome = self.call(call).await?;
        Ok(outcome.frame().is_none_or(|frame| frame.time.saturating_sub(since) >= took * 3 / 4))
    }
}

/// Returns the reason why no slow call was made.
fn no_slow_call(durations: &[(Rc<AllowedCall>, CallDuration)], all_calls: bool) -> Reason {
    let is_too_long = |took: &CallDuration| matches!(took, CallDuration::TooLong | CallDuration::Silent(_));
    let too_long = durations.iter().find(|(_, took)| is_too_long(took));
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
    let slow = call.send(connection, Some(TokenKind::Text)).await;
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
        } else if message.at(&["params", "progressToken"]).is_some_and(|it| is_same_value(it, &token))
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
    let slow = call.send(connection, None).await;
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
                true if frame.time.saturating_sub(sent) < SLOW_CALL.max(2 * alone) => RaceOutcome::NotSlow,
                true => RaceOutcome::SlowFirst(frame),
                false => RaceOutcome::LightFirst,
            });
        }
    }
    first.map(|outcome| (outcome, took))
}

/// The minimum duration of a slow call.
const SLOW_CALL: Duration = Duration::from_millis(200);
/// The time that a server has to stop a call after it has read the cancellation.
const MAX_CANCEL_TIME: Duration = Duration::from_millis(250);
/// The maximum duration of calls of which two are made at once, so that a run does not take much longer.
const MAX_OF_TWO: Duration = Duration::from_secs(3);
/// The maximum number of tools that are called again to find one that is still slow.
const MAX_RACES: usize = 3;
