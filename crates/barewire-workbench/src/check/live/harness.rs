//! What is checked, how, and with which permissions: starts processes, and judges answers.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::transport::Child;
use barewire_proto::mcp::{Era, Revision};
use barewire_proto::transcript::{Channel, Word};
use serde_json::{Value, json};

use super::connection::{ProcessEnd, ServerConnection};
use super::http_client::RecordingClient;
use super::outcome::RequestOutcome;
use super::recording::Recording;
use crate::check::OnProgress;
use crate::check::catalogue::Check;
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::{Reason, SkipReason};
use crate::http::session::HttpTarget;
use crate::{Advice, Error};

/// All that the probes share.
pub(super) struct Harness {
    pub(super) target: Target,
    pub(super) recording: Recording,
    pub(super) patience: Duration,
    pub(super) until: Instant,
    pub(super) wishes: Wishes,
    pub(super) on_progress: Option<OnProgress>,
    /// Processes that were started.
    pub(super) started: u32,
    /// What shows in the legacy era that a server still answers.
    pub(super) liveness_method: &'static str,
    /// The revision that the handshake asks for.
    pub(super) asks_for: Revision,
    /// It has a handshake as well as what inbox after it.
    pub(super) has_handshake: bool,
    /// It has not ended with its stdin, so nobody waits for that any more but who judges it.
    pub(super) ignores_eof: bool,
}

/// What is spoken to.
pub(super) enum Target {
    /// A server of this process.
    Server(Box<Server>),
    Program {
        child: Child,
        /// The program and its arguments.
        argv: Vec<OsString>,
    },
    Url {
        site: Arc<HttpTarget>,
        /// What no well-behaved client sends may be sent as well.
        hostile: bool,
    },
}

/// What the user allows and wants.
pub(super) struct Wishes {
    /// Tools that may be called, once and with these arguments.
    pub(super) calls: Vec<(String, Value)>,
    /// All of them may.
    pub(super) all_calls: bool,
    /// The checks that are wanted.
    pub(super) wanted: Vec<&'static str>,
}

impl Harness {
    /// A new process, or another client of a URL; nothing has been said.
    pub(super) fn spawn(&mut self, era: Era, is_misuse: bool) -> Result<ServerConnection, Error> {
        self.started += 1;
        let channel: Channel = Word::new(&format!("p{}", self.started)).expect("letters and digits");
        if is_misuse {
            self.recording.mark_misuse(&channel);
        }
        let (recording, patience, until) = (self.recording.clone(), self.patience, self.until);
        let connection = match &self.target {
            Target::Server(server) => Ok(ServerConnection::over_memory(server, channel, recording, patience, until)),
            Target::Program { child, argv } => {
                ServerConnection::start(child, argv, channel, recording, patience, until)
            }
            Target::Url { site, .. } => {
                let web = RecordingClient::new(Arc::clone(site), recording.clone());
                Ok(ServerConnection::over_http(web, channel, recording, patience, until))
            }
        };
        let mut connection = connection.map_err(Error::not_started)?;
        connection.era = era;
        connection.set_liveness_method(self.liveness_method);
        connection.revision = match era {
            Era::Legacy => self.asks_for,
            Era::Modern => Revision::LATEST,
        };
        Ok(connection)
    }

    /// A new process that is ready for requests. `None` if it does not get that far, though it did before.
    pub(super) async fn connect(&mut self, era: Era, is_misuse: bool) -> Result<Option<ServerConnection>, Error> {
        let mut connection = self.spawn(era, is_misuse)?;
        if era == Era::Legacy {
            let patience = self.first_patience();
            let answer = initialize(&mut connection, self.asks_for.as_str(), patience).await;
            let RequestOutcome::Result(_, result) = answer else {
                self.close(connection).await;
                return Ok(None);
            };
            if let Some(revision) = result["protocolVersion"].as_str().and_then(Revision::parse) {
                connection.revision = revision;
            }
            connection.initialized().await;
        } else if !self.is_http() {
            // A server of both eras takes its first request for a sign of what it is spoken to in; some do not count a probe.
            let answer = ask(&mut connection, "server/discover", json!({})).await;
            ask(&mut connection, "tools/list", json!({})).await;
            if matches!(answer, RequestOutcome::NoResponse | RequestOutcome::Disconnected) {
                self.close(connection).await;
                return Ok(None);
            }
        }
        Ok(Some(connection))
    }

    /// Says what is being checked.
    pub(super) fn progress(&self, what: &str) {
        if let Some(call) = &self.on_progress {
            call(what, self.started);
        }
    }

    /// A program may take longer to its first answer than to all others.
    pub(super) fn first_patience(&self) -> Duration {
        self.patience * 6
    }

    /// Ends a process that is not needed any more.
    pub(super) async fn close(&mut self, connection: ServerConnection) -> ProcessEnd {
        let patience = if self.ignores_eof { Duration::ZERO } else { self.patience };
        self.close_within(connection, patience).await
    }

    pub(super) async fn close_within(&mut self, connection: ServerConnection, patience: Duration) -> ProcessEnd {
        let ended = connection.end(patience).await;
        self.ignores_eof |= ended.by_itself.is_none();
        ended
    }

    /// Over HTTP.
    pub(super) fn is_http(&self) -> bool {
        matches!(self.target, Target::Url { .. })
    }

    /// A program that was started for it gets everything; somebody else's server only what its owner allows.
    pub(super) fn may_be_hostile(&self) -> bool {
        match self.target {
            Target::Server(_) | Target::Program { .. } => true,
            Target::Url { hostile, .. } => hostile,
        }
    }

    pub(super) fn wants(&self, checks: &[&Check]) -> bool {
        let is_wanted = |check: &&Check| self.wishes.wanted.contains(&check.id);
        !self.is_late() && checks.iter().any(is_wanted)
    }

    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Something is wrong, at the place of the answer or of the connection.
    pub(super) fn fail(
        &self,
        check: &'static Check,
        connection: &ServerConnection,
        answer: Option<&RequestOutcome>,
        detail: impl Into<String>,
    ) {
        let line = answer.and_then(RequestOutcome::line);
        // That nothing inbox says nothing once nobody waits any more.
        if line.is_none() && !matches!(answer, Some(RequestOutcome::Refused(_))) && self.is_late() {
            self.recording.incomplete(check, time_is_up());
            return;
        }
        let location = match (line, answer) {
            (Some(line), _) => line.location.clone(),
            (None, Some(RequestOutcome::Refused(refusal))) => refusal.location.clone(),
            (None, _) => connection.location(),
        };
        let finding = Finding::new(check, Party::Server, location, detail);
        self.recording.fail(match line {
            Some(line) => finding.seen(&line.bytes),
            None => finding,
        });
    }

    /// What should have come for this does not come.
    pub(super) fn fail_missing(&self, check: &'static Check, sent: Location, bytes: &[u8], detail: impl Into<String>) {
        // That says nothing once nobody waits any more.
        match self.is_late() {
            true => self.recording.incomplete(check, time_is_up()),
            false => self.fail_at(check, sent, bytes, detail),
        }
    }

    pub(super) fn fail_at(&self, check: &'static Check, location: Location, bytes: &[u8], detail: impl Into<String>) {
        self.recording.fail(Finding::new(check, Party::Server, location, detail).seen(bytes));
    }

    /// Notes that an answer is, or is not, an error with one of these codes.
    pub(super) fn expect_code(
        &self,
        check: &'static Check,
        connection: &ServerConnection,
        asked: &str,
        answer: &RequestOutcome,
        codes: &[i64],
    ) {
        self.recording.inspected(check);
        let wanted = codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        match answer {
            RequestOutcome::Error(response) if codes.contains(&response.code) => {}
            // A process that has ended is told of where it ended.
            RequestOutcome::Disconnected => self.recording.skip(check, SkipReason::Needs(STAYS_ALIVE.id)),
            answer => {
                let detail = format!("{asked}: {wanted} is expected, and {} comes", answer.describe());
                self.fail(check, connection, Some(answer), detail);
            }
        }
    }

    /// The same for a result.
    pub(super) fn expect_result(
        &self,
        check: &'static Check,
        connection: &ServerConnection,
        asked: &str,
        answer: &RequestOutcome,
    ) {
        self.recording.inspected(check);
        match answer {
            RequestOutcome::Result(_, value) if value.is_object() => {}
            RequestOutcome::Result(..) => {
                self.fail(check, connection, Some(answer), format!("{asked}: its result is no object"))
            }
            RequestOutcome::Disconnected => self.recording.skip(check, SkipReason::Needs(STAYS_ALIVE.id)),
            answer => {
                let detail = format!("{asked}: a result is expected, and {} comes", answer.describe());
                self.fail(check, connection, Some(answer), detail);
            }
        }
    }

    /// Whether the program has ended, and does so elsewhere as well: that is told there, and this check is skipped.
    pub(super) fn skip_if_exited(&self, check: &'static Check, connection: &ServerConnection) -> bool {
        let is_gone = connection.is_over() || connection.exited().is_some();
        let is_told = is_gone && self.recording.has_failed(&STAYS_ALIVE);
        if is_told {
            self.recording.skip(check, SkipReason::Needs(STAYS_ALIVE.id));
        }
        is_told
    }

    /// There is nothing to look at.
    pub(super) fn skip_all(&self, checks: &[&'static Check], why: &str) {
        for check in checks {
            self.recording.skip(check, SkipReason::Nothing(why.into()));
        }
    }
}

pub(super) fn time_is_up() -> Reason {
    Reason::new("time was up while it was waited for", Advice::AllowMoreTime)
}

/// The first message of the legacy era.
pub(super) async fn initialize(connection: &mut ServerConnection, version: &str, patience: Duration) -> RequestOutcome {
    let params = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "barewire", "version": env!("CARGO_PKG_VERSION")},
    });
    let id = connection.send_request("initialize", params).await;
    connection.claim(&id);
    connection.wait_for_response_within(&id, patience).await
}

/// Asks, and tells by itself if nothing comes.
pub(super) async fn ask(connection: &mut ServerConnection, method: &str, params: Value) -> RequestOutcome {
    let id = connection.send_request(method, params).await;
    connection.claim(&id);
    connection.wait_for_response(&id).await
}
