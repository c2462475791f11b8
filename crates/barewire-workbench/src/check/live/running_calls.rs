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
        Self { call: Rc::clone(call), id, progress_token: connection.last_token.clone(), sent }
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
    async fn outcome(&self, harness: &Harness, connection: &mut ServerConnection) -> RequestOutcome {
        let outcome = connection.call_outcome(&self.id, &self.progress_token, self.sent, CALL_TIMEOUT).await;
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
        let outcome = self.outcome(harness, &mut connection).await;
        durations.borrow_mut().extend(self.duration(&outcome));
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
        self.late_outcome(&running).await
    }

    /// Returns the outcome of a call that is answered soon.
    pub(super) async fn early_outcome(&mut self, running: &RunningCall) -> Option<RequestOutcome> {
        let outcome = self.connection.response_within(&running.id, SOON).await?;
        running.judge(self.harness, &self.connection, &outcome);
        Some(outcome)
    }

    /// Waits for the outcome of a call on the connection of this probe.
    pub(super) async fn late_outcome(&mut self, running: &RunningCall) -> Result<RequestOutcome, Error> {
        let outcome = running.outcome(self.harness, &mut self.connection).await;
        if matches!(outcome, RequestOutcome::NoResponse(_)) {
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
/// The time for which a call delays the other requests of its probe.
const SOON: Duration = Duration::from_millis(500);
