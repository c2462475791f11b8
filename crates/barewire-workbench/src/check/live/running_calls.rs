//! A call in flight -> its outcome. A call that takes long runs on a connection of its own while other requests are
//! sent to another process, so that several such calls take no longer than one.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;

use super::calls::AllowedCall;
use super::connection::{ServerConnection, TokenKind};
use super::harness::{Harness, Probe};
use super::ordinary::ServerProbe;
use super::outcome::{RequestOutcome, SentRequest};
use crate::Error;
use crate::check::catalogue::envelope::UNANSWERED_REQUEST;
use crate::check::catalogue::http::HTTP_STATUS;
use crate::check::excerpt::Excerpt;

/// A call that is not answered yet.
pub(super) struct RunningCall {
    call: Rc<AllowedCall>,
    id: String,
    progress_token: String,
    sent: Duration,
    /// The number of frames on the connection before the call that could not be read.
    unreadable: usize,
    /// The number of notifications about progress on the connection before the call.
    progress_count: usize,
}

/// The time that calls have which are waited for one after the other. Each call without a response leaves less to the
/// next ones.
pub(super) struct CallPatience {
    limit: Duration,
    lost: usize,
    /// Whether a call got output that cannot be read, and no response.
    is_garbled: bool,
}

impl CallPatience {
    pub(super) fn new() -> Self {
        Self { limit: CALL_TIMEOUT, lost: 0, is_garbled: false }
    }

    /// Whether so many calls got no response that no further tool is called.
    pub(super) fn is_over(&self) -> bool {
        self.lost >= MAX_LOST
    }

    /// Whether a call got output that cannot be read, and no response.
    pub(super) fn is_garbled(&self) -> bool {
        self.is_garbled
    }

    /// Whether the next call has as much time as the first one.
    pub(super) fn is_whole(&self) -> bool {
        self.lost == 0 && !self.is_garbled
    }

    fn lose(&mut self) {
        self.lost += 1;
        self.limit = (self.limit / 4).max(MAX_CALL_DELAY);
    }
}

pub(super) enum CallDuration {
    Took(Duration),
    /// The call was cancelled because of [`CALL_TIMEOUT`].
    TooLong,
    /// The same, and nothing shows that the call is only slow.
    Silent(SilentCall),
    /// The call was answered with an error, or the connection ended.
    Failed,
}

/// A call without a response and without progress.
pub(super) struct SilentCall {
    request: SentRequest,
    /// Whether the server answered other requests while it did not answer the call.
    is_alive: bool,
    /// Whether the tool is also silent without its required arguments, which a slow tool would refuse at once.
    is_silent_without_arguments: bool,
}

/// The duration of each call.
pub(super) type CallDurations = Vec<(Rc<AllowedCall>, CallDuration)>;

impl RunningCall {
    /// Sends a call.
    pub(super) async fn start(call: &Rc<AllowedCall>, connection: &mut ServerConnection, token: TokenKind) -> Self {
        let sent = connection.now();
        let id = call.send(connection, Some(token)).await;
        // A tool may be slow, so a missing response is judged later.
        connection.claim(&id);
        let (progress_token, unreadable) = (connection.last_token.clone(), connection.unreadable);
        let progress_count = connection.progress_count;
        Self { call: Rc::clone(call), id, progress_token, sent, unreadable, progress_count }
    }

    /// Whether output has arrived since the call that cannot be read.
    fn is_garbled(&self, connection: &ServerConnection) -> bool {
        connection.unreadable > self.unreadable
    }

    /// Whether there was progress since the call.
    pub(super) fn has_progress(&self, connection: &ServerConnection) -> bool {
        connection.progress_count > self.progress_count
    }

    /// Returns the call with its duration, by its outcome; if it is silent, with what is known about that.
    pub(super) fn duration(
        &self,
        outcome: &RequestOutcome,
        silent: Option<SilentCall>,
    ) -> (Rc<AllowedCall>, CallDuration) {
        let took = match (outcome, silent) {
            (RequestOutcome::Result(result), _) => CallDuration::Took(result.frame.time.saturating_sub(self.sent)),
            (RequestOutcome::NoResponse(_), Some(silent)) => CallDuration::Silent(silent),
            (RequestOutcome::NoResponse(_), None) => CallDuration::TooLong,
            _ => CallDuration::Failed,
        };
        (Rc::clone(&self.call), took)
    }

    /// Returns what is known about a call without a response and without progress, on its connection.
    async fn silent(&self, connection: &mut ServerConnection, outcome: &RequestOutcome) -> Option<SilentCall> {
        let RequestOutcome::NoResponse(request) = outcome else { return None };
        if self.is_garbled(connection) || self.has_progress(connection) {
            return None;
        }
        let (request, is_alive) = (request.clone(), connection.still_answers().await);
        Some(SilentCall { request, is_alive, is_silent_without_arguments: false })
    }

    /// Whether a call without the required arguments gets no response either, on a connection where no call is running.
    async fn is_silent_without_arguments(&self, connection: &mut ServerConnection) -> bool {
        if !self.call.has_required || !self.call.is_unlimited {
            return false;
        }
        let params = json!({"name": self.call.name, "arguments": {}});
        let (unreadable, progress) = (connection.unreadable, connection.progress_count);
        let outcome = connection.claimed_request("tools/call", params).await;
        matches!(outcome, RequestOutcome::NoResponse(_))
            && (connection.unreadable, connection.progress_count) == (unreadable, progress)
            && connection.still_answers().await
    }

    /// Waits for the outcome, on the connection of the call. A call that takes too long is cancelled.
    async fn outcome(&self, harness: &Harness, connection: &mut ServerConnection, limit: Duration) -> RequestOutcome {
        let (token, sent) = (&self.progress_token, self.sent);
        let outcome = connection.call_outcome(&self.id, token, sent, limit, self.unreadable).await;
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
            connection.cancel_request(&self.id).await;
        }
        self.judge(harness, connection, &outcome);
        outcome
    }

    fn judge(&self, harness: &Harness, connection: &ServerConnection, outcome: &RequestOutcome) {
        if let RequestOutcome::Refused(_) = outcome {
            let (name, got) = (self.call.shown_name(), outcome.describe());
            let detail = format!("tools/call {name}: expected a JSON-RPC response, got {got}");
            harness.fail(&HTTP_STATUS, connection, Some(outcome), detail);
        }
    }

    /// Waits for the outcome on a connection that no other request uses, and closes the connection.
    async fn finish(
        self,
        harness: &Harness,
        mut connection: ServerConnection,
        durations: &RefCell<CallDurations>,
    ) -> Result<(), Error> {
        let _subject = harness.progress(&self.call.subject());
        let outcome = self.outcome(harness, &mut connection, CALL_TIMEOUT).await;
        let (era, is_garbled) = (connection.era, self.is_garbled(&connection));
        let mut silent = self.silent(&mut connection, &outcome).await;
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
            // The process may stay busy with the cancelled call, so its exit is not waited for.
            connection.end(Duration::ZERO).await;
        } else {
            harness.close(connection).await;
        }
        if let Some(silent) = silent.as_mut().filter(|silent| silent.is_alive)
            && !harness.is_late()
            && let Some(mut connection) = harness.connect(era, true).await?
        {
            silent.is_silent_without_arguments = self.is_silent_without_arguments(&mut connection).await;
            connection.end(Duration::ZERO).await;
        }
        if !matches!(outcome, RequestOutcome::NoResponse(_)) || !is_garbled {
            durations.borrow_mut().push(self.duration(&outcome, silent));
        }
        Ok(())
    }
}

impl ServerProbe<'_> {
    /// Sends a call, and waits for its outcome.
    pub(super) async fn call(&mut self, call: &Rc<AllowedCall>) -> Result<RequestOutcome, Error> {
        let running = RunningCall::start(call, &mut self.connection, TokenKind::Number).await;
        Ok(self.late_outcome(&running, &mut CallPatience::new()).await?.0)
    }

    /// Returns the outcome of a call that is answered soon, or whose response cannot be read, as that of a call before.
    pub(super) async fn early_outcome(
        &mut self,
        running: &RunningCall,
        patience: &CallPatience,
    ) -> Option<RequestOutcome> {
        let (connection, id) = (&mut self.connection, &running.id);
        let mut outcome = None;
        if patience.is_garbled {
            outcome = connection.response_within(id, MAX_GARBLED_DELAY).await;
            if outcome.is_none() && running.is_garbled(connection) {
                return Some(connection.give_up(id));
            }
        }
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => connection.response_within(id, MAX_CALL_DELAY).await?,
        };
        running.judge(self.harness, &self.connection, &outcome);
        Some(outcome)
    }

    /// Waits for the outcome of a call on the connection of this probe. Also returns what is known about a call without
    /// a response and without progress.
    pub(super) async fn late_outcome(
        &mut self,
        running: &RunningCall,
        patience: &mut CallPatience,
    ) -> Result<(RequestOutcome, Option<SilentCall>), Error> {
        let outcome = running.outcome(self.harness, &mut self.connection, patience.limit).await;
        let is_first = patience.is_whole();
        let mut silent = None;
        if is_first {
            silent = running.silent(&mut self.connection, &outcome).await;
        }
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
            if running.is_garbled(&self.connection) {
                patience.is_garbled = true;
                self.connection.abandon(&running.id);
            } else {
                patience.lose();
            }
            // The server may stay busy with the cancelled call.
            self.reconnect().await?;
            if let Some(silent) = silent.as_mut().filter(|silent| silent.is_alive)
                && !self.harness.is_late()
            {
                silent.is_silent_without_arguments = running.is_silent_without_arguments(&mut self.connection).await;
                if silent.is_silent_without_arguments {
                    self.reconnect().await?;
                }
            }
        }
        Ok((outcome, silent))
    }

    /// Reports a tool that never answers. A tool that may be slow is not reported, but not known to answer either.
    pub(super) fn judge_silent_calls(&self, durations: &CallDurations) {
        let silent = durations.iter().filter_map(|(call, took)| match took {
            CallDuration::Silent(silent) => Some((call, silent)),
            _ => None,
        });
        let silent: Vec<_> = silent.collect();
        let is_any_answered = silent.len() < durations.len();
        // One tool alone may be slow. Of several, at least one is quick.
        let are_all_silent = !is_any_answered && silent.len() > 1 && silent.iter().all(|(_, it)| it.is_alive);
        for (call, SilentCall { request, is_alive, is_silent_without_arguments }) in silent {
            let (name, waited) = (call.shown_name(), CALL_TIMEOUT);
            let why = match (*is_silent_without_arguments, are_all_silent) {
                (true, _) => "neither with arguments nor without the required ones",
                (false, true) => "and neither does any other tool",
                (false, false) => {
                    let also = if *is_alive { "" } else { ", and neither did the server" };
                    let why = format!("{name} did not answer within {waited:?}{also}, and may be slow");
                    self.harness.recording.ledger().doubt(&UNANSWERED_REQUEST, why);
                    continue;
                }
            };
            let detail = format!("tools/call {name} gets no response within {waited:?} and no progress, {why}");
            let request = request.as_deref().cloned().map(Excerpt::unmarked);
            self.harness.fail_missing(&UNANSWERED_REQUEST, &self.connection, request, detail);
        }
    }

    /// Continues on a new connection, and returns the old one, on which a call is in flight. `None` if there can be
    /// only one process, or if no further one responds. Over HTTP, a slow call could block the other sessions too.
    pub(super) async fn hand_over(&mut self) -> Result<Option<ServerConnection>, Error> {
        if self.harness.is_http() || self.harness.is_sequential.get() {
            return Ok(None);
        }
        let fresh = self.harness.connect_again(&mut self.connection).await?;
        Ok(fresh.map(|fresh| std::mem::replace(&mut self.connection, fresh)))
    }
}

/// Waits for the outcomes of all running calls at once, and adds their durations.
pub(super) async fn finish(
    harness: &Harness,
    running: Vec<(RunningCall, ServerConnection)>,
    durations: &RefCell<CallDurations>,
) -> Result<(), Error> {
    let finish =
        |(call, connection): (RunningCall, _)| -> Probe<'_> { Box::pin(call.finish(harness, connection, durations)) };
    harness.run_all(running.into_iter().map(finish).collect()).await
}

/// The maximum duration of a call; a longer call is cancelled.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of calls without a response after which no further tool is called.
const MAX_LOST: usize = 6;
/// The time after a call in which its response arrives, if it cannot be read.
const MAX_GARBLED_DELAY: Duration = Duration::from_millis(100);
/// The time for which a call delays the other requests of its probe.
const MAX_CALL_DELAY: Duration = Duration::from_millis(500);
