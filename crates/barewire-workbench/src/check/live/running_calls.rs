//! A call in flight -> its outcome. A call that takes long runs on a connection of its own while other requests are
//! sent to another process, so that several such calls take no longer than one.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::calls::AllowedCall;
use super::connection::ServerConnection;
use super::harness::{Harness, Probe};
use super::ordinary::ServerProbe;
use super::outcome::RequestOutcome;
use crate::Error;
use crate::check::catalogue::http::HTTP_STATUS;

/// A call that is not answered yet.
pub(super) struct RunningCall {
    call: Rc<AllowedCall>,
    id: String,
    progress_token: String,
    sent: Duration,
    /// The number of frames on the connection before the call that could not be read.
    unreadable: usize,
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
}

/// The duration of each call.
pub(super) type CallDurations = Vec<(Rc<AllowedCall>, CallDuration)>;

impl RunningCall {
    /// Sends a call.
    pub(super) async fn start(call: &Rc<AllowedCall>, connection: &mut ServerConnection) -> Self {
        let sent = connection.now();
        let id = call.send(connection, true).await;
        // A tool may be slow, so a missing response is not reported.
        connection.claim(&id);
        let (progress_token, unreadable) = (connection.last_token.clone(), connection.unreadable);
        Self { call: Rc::clone(call), id, progress_token, sent, unreadable }
    }

    /// Whether output has arrived since the call that cannot be read.
    fn is_garbled(&self, connection: &ServerConnection) -> bool {
        connection.unreadable > self.unreadable
    }

    /// Returns the call with its duration, by its outcome.
    pub(super) fn duration(&self, outcome: &RequestOutcome) -> Option<(Rc<AllowedCall>, CallDuration)> {
        let took = match outcome {
            RequestOutcome::Result(result) => CallDuration::Took(result.frame.time.saturating_sub(self.sent)),
            RequestOutcome::NoResponse(_) => CallDuration::TooLong,
            _ => return None,
        };
        Some((Rc::clone(&self.call), took))
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
        if !matches!(outcome, RequestOutcome::NoResponse(_)) || !self.is_garbled(&connection) {
            durations.borrow_mut().extend(self.duration(&outcome));
        }
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
            // The process may stay busy with the cancelled call, so its exit is not waited for.
            connection.end(Duration::ZERO).await;
        } else {
            harness.close(connection).await;
        }
        Ok(())
    }
}

impl ServerProbe<'_> {
    /// Sends a call, and waits for its outcome.
    pub(super) async fn call(&mut self, call: &Rc<AllowedCall>) -> Result<RequestOutcome, Error> {
        let running = RunningCall::start(call, &mut self.connection).await;
        self.late_outcome(&running, &mut CallPatience::new()).await
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

    /// Waits for the outcome of a call on the connection of this probe.
    pub(super) async fn late_outcome(
        &mut self,
        running: &RunningCall,
        patience: &mut CallPatience,
    ) -> Result<RequestOutcome, Error> {
        let outcome = running.outcome(self.harness, &mut self.connection, patience.limit).await;
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
            if running.is_garbled(&self.connection) {
                patience.is_garbled = true;
                self.connection.abandon(&running.id);
            } else {
                patience.lose();
            }
            // The server may stay busy with the cancelled call.
            self.reconnect().await?;
        }
        Ok(outcome)
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
