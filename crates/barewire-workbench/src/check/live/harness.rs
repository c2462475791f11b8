//! The harness of a live run: starts connections, checks permissions, and turns outcomes into findings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire_proto::mcp::{Era, Revision};
use barewire_proto::transcript::{Channel, Word};
use serde_json::{Value, json};

use super::connection::{Link, ProcessEnd, ServerConnection, ServerPipes};
use super::http_client::RecordingClient;
use super::outcome::RequestOutcome;
use super::recording::Recording;
use super::{LiveTarget, RunLimit, RunOptions};
use crate::capture::{CaptureClock, CaptureWriter, ExistingCapture};
use crate::check::OnProgress;
use crate::check::catalogue::Check;
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::{Reason, SkipReason};
use crate::{Advice, Error};

pub(super) struct Harness {
    pub(super) target: LiveTarget,
    pub(super) recording: Recording,
    pub(super) patience: Duration,
    deadline: Instant,
    /// Tools that may be called once, with these arguments.
    pub(super) calls: Vec<(String, Value)>,
    pub(super) all_calls: bool,
    selected: Vec<&'static str>,
    on_progress: Option<OnProgress>,
    /// The number of connections so far.
    pub(super) started: u32,
    /// The method of the requests that show whether a legacy server still answers.
    pub(super) liveness_method: &'static str,
    pub(super) handshake_revision: Revision,
    pub(super) has_handshake: bool,
    /// Whether a process of the server did not exit after its stdin was closed. If so, later connections are closed
    /// without waiting for the exit.
    ignores_eof: bool,
}

impl Harness {
    pub(super) fn new(target: LiveTarget, options: RunOptions) -> Result<Self, Error> {
        let clock = CaptureClock::start();
        let capture = match options.record {
            Some(path) => Some(CaptureWriter::create(
                &path,
                ExistingCapture::Overwrite,
                clock,
                options.redactor,
                &[("by", "check")],
            )?),
            None => None,
        };
        Ok(Self {
            target,
            recording: Recording::new(clock, capture),
            patience: options.patience,
            deadline: Instant::now() + options.timeout,
            calls: options.calls,
            all_calls: options.all_calls,
            selected: options.selected,
            on_progress: options.on_progress,
            started: 0,
            liveness_method: "ping",
            handshake_revision: Revision::LATEST_LEGACY,
            has_handshake: false,
            ignores_eof: false,
        })
    }

    /// Starts a process, a server in memory or an HTTP client. `is_misuse` is true if the probe breaks rules on purpose
    /// and judges the exit itself.
    pub(super) fn spawn(&mut self, era: Era, is_misuse: bool) -> Result<ServerConnection, Error> {
        self.started += 1;
        let channel: Channel = Word::new(&format!("p{}", self.started)).expect("letters and digits form a valid word");
        if is_misuse {
            self.recording.passive().mark_misuse(channel.as_str());
        }
        let recording = self.recording.clone();
        let link = match &self.target {
            LiveTarget::Server(server) => Link::Pipes(ServerPipes::in_memory(server)),
            LiveTarget::Program { child, argv } => {
                Link::Pipes(ServerPipes::spawn(child, argv, &channel, &recording).map_err(Error::not_started)?)
            }
            LiveTarget::Url { http, .. } => {
                Link::Http(Box::new(RecordingClient::new(Arc::clone(http), recording.clone())))
            }
        };
        let mut connection = ServerConnection::new(link, channel, recording, self.patience, self.deadline);
        connection.era = era;
        connection.liveness = self.liveness_method;
        connection.revision = match era {
            Era::Legacy => self.handshake_revision,
            Era::Modern => Revision::LATEST,
        };
        Ok(connection)
    }

    /// Starts a connection and makes it ready for requests. Returns `None` if the server does not accept the
    /// connection, although it accepted an earlier one.
    pub(super) async fn connect(&mut self, era: Era, is_misuse: bool) -> Result<Option<ServerConnection>, Error> {
        let mut connection = self.spawn(era, is_misuse)?;
        if era == Era::Legacy {
            let patience = self.first_patience();
            let outcome = initialize(&mut connection, self.handshake_revision.as_str(), patience).await;
            let RequestOutcome::Result(result) = outcome else {
                self.close(connection).await;
                return Ok(None);
            };
            if let Some(revision) = result.string(&["protocolVersion"]).and_then(|it| Revision::parse(&it)) {
                connection.revision = revision;
            }
            connection.initialized().await;
        } else if !self.is_http() {
            // A server of both eras learns the era from the first request. For some servers, `server/discover` is not
            // enough.
            let outcome = connection.claimed_request("server/discover", json!({})).await;
            connection.claimed_request("tools/list", json!({})).await;
            if matches!(outcome, RequestOutcome::NoResponse | RequestOutcome::Disconnected) {
                self.close(connection).await;
                return Ok(None);
            }
        }
        Ok(Some(connection))
    }

    pub(super) fn progress(&self, subject: &str) {
        if let Some(call) = &self.on_progress {
            call(subject, self.started);
        }
    }

    /// Returns the time limit for the first response, which includes the start of the program.
    pub(super) fn first_patience(&self) -> Duration {
        self.patience * 6
    }

    pub(super) async fn close(&mut self, connection: ServerConnection) -> ProcessEnd {
        let patience = if self.ignores_eof { Duration::ZERO } else { self.patience };
        self.close_within(connection, patience).await
    }

    pub(super) async fn close_within(&mut self, connection: ServerConnection, patience: Duration) -> ProcessEnd {
        let end = connection.end(patience).await;
        self.ignores_eof |= end.by_itself.is_none();
        end
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self.target, LiveTarget::Url { .. })
    }

    /// Whether hostile input may be sent. A server at a URL gets it only with the user's permission.
    pub(super) fn may_be_hostile(&self) -> bool {
        match self.target {
            LiveTarget::Server(_) | LiveTarget::Program { .. } => true,
            LiveTarget::Url { hostile, .. } => hostile,
        }
    }

    /// Whether one of these checks is selected, and there is time left.
    pub(super) fn wants(&self, checks: &[&Check]) -> bool {
        !self.is_late() && checks.iter().any(|check| self.selected.contains(&check.id))
    }

    pub(super) fn is_late(&self) -> bool {
        self.reached_limit().is_some()
    }

    /// Returns the limit of the run that was reached, if one was.
    pub(super) fn reached_limit(&self) -> Option<RunLimit> {
        match self.recording.is_full() {
            true => Some(RunLimit::Received),
            false => (Instant::now() >= self.deadline).then_some(RunLimit::Time),
        }
    }

    /// Marks a check as incomplete, because a limit of the run was reached.
    pub(super) fn incomplete(&self, check: &'static Check) {
        let limit = self.reached_limit().unwrap_or(RunLimit::Time);
        self.recording.ledger().incomplete(check, limit.reason());
    }

    pub(super) fn response_deadline(&self) -> Instant {
        (Instant::now() + self.patience).min(self.deadline)
    }

    /// Reports a violation. Its location is the frame of the outcome or, without a frame, the connection.
    pub(super) fn fail(
        &self,
        check: &'static Check,
        connection: &ServerConnection,
        outcome: Option<&RequestOutcome>,
        detail: impl Into<String>,
    ) {
        match outcome {
            Some(RequestOutcome::Refused(refusal)) => self.fail_at(check, refusal.location.clone(), b"", detail),
            outcome => match outcome.and_then(RequestOutcome::frame) {
                Some(frame) => self.fail_at(check, frame.location.clone(), &frame.bytes, detail),
                None => self.fail_missing(check, connection.location(), b"", detail),
            },
        }
    }

    /// Reports that the response to a frame is missing. After the deadline of the run a missing response proves
    /// nothing, so the check is incomplete instead.
    pub(super) fn fail_missing(&self, check: &'static Check, sent: Location, bytes: &[u8], detail: impl Into<String>) {
        match self.is_late() {
            true => self.incomplete(check),
            false => self.fail_at(check, sent, bytes, detail),
        }
    }

    pub(super) fn fail_at(&self, check: &'static Check, location: Location, bytes: &[u8], detail: impl Into<String>) {
        self.recording.ledger().fail(Finding::new(check, Party::Server, location, detail).seen(bytes));
    }

    pub(super) fn expect_code(
        &self,
        check: &'static Check,
        connection: &ServerConnection,
        request: &str,
        outcome: &RequestOutcome,
        codes: &[i64],
    ) {
        let is_expected = matches!(outcome, RequestOutcome::Error(response) if codes.contains(&response.code));
        let codes = codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        self.expect(check, connection, request, outcome, is_expected, &format!("error {codes}"));
    }

    /// Checks that the outcome is a result that is an object.
    pub(super) fn expect_result(
        &self,
        check: &'static Check,
        connection: &ServerConnection,
        request: &str,
        outcome: &RequestOutcome,
    ) {
        let is_expected = matches!(outcome, RequestOutcome::Result(result) if result.is_object());
        self.expect(check, connection, request, outcome, is_expected, "a result");
    }

    fn expect(
        &self,
        check: &'static Check,
        connection: &ServerConnection,
        request: &str,
        outcome: &RequestOutcome,
        is_expected: bool,
        expected: &str,
    ) {
        self.recording.ledger().inspected(check);
        match outcome {
            _ if is_expected => {}
            // Another check reports the exit of the process.
            RequestOutcome::Disconnected => self.recording.ledger().skip(check, SkipReason::Needs(STAYS_ALIVE.id)),
            outcome => {
                let detail = format!("{request}: expected {expected}, got {}", outcome.describe());
                self.fail(check, connection, Some(outcome), detail);
            }
        }
    }

    /// Skips the check, and returns true, if the process has exited and `stays-alive` has already reported an exit.
    pub(super) fn skip_if_exited(&self, check: &'static Check, connection: &ServerConnection) -> bool {
        let has_exited = connection.is_closed || connection.exited().is_some();
        let is_reported = has_exited && self.recording.ledger().has_failed(&STAYS_ALIVE);
        if is_reported {
            self.recording.ledger().skip(check, SkipReason::Needs(STAYS_ALIVE.id));
        }
        is_reported
    }

    /// Skips checks for which the server has nothing to inspect.
    pub(super) fn skip_all(&self, checks: &[&'static Check], why: &str) {
        for check in checks {
            self.recording.ledger().skip(check, SkipReason::Nothing(why.into()));
        }
    }

    /// Skips a check for which the user's permission is missing.
    pub(super) fn skip_forbidden(&self, check: &'static Check, why: impl Into<String>, advice: Advice) {
        self.recording.ledger().skip(check, SkipReason::Permission(Reason::new(why, advice)));
    }
}

/// Sends `initialize`, and waits for the response.
pub(super) async fn initialize(connection: &mut ServerConnection, version: &str, patience: Duration) -> RequestOutcome {
    connection.claimed_request_within("initialize", initialize_params(version), patience).await
}

pub(super) fn initialize_params(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "barewire", "version": env!("CARGO_PKG_VERSION")},
    })
}
