//! The harness of a live run: starts connections, checks permissions, and turns outcomes into findings.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use barewire::client::http::Secret;
use barewire_proto::mcp::{Era, Revision};
use barewire_proto::transcript::{Channel, Word};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::connection::{ConnectionTransport, ProcessEnd, ServerConnection, ServerPipes};
use super::http_client::RecordingClient;
use super::http_probes::fail_under;
use super::io_thread::IoThread;
use super::outcome::{ErrorResponse, RequestOutcome, ResultResponse, SentRequest};
use super::pins::PinProbe;
use super::recording::{LocatedFrame, Recording};
use super::{LiveTarget, RunLimit, RunOptions};
use crate::capture::{CaptureClock, CaptureWriter, ExistingCapture};
use crate::check::OnProgress;
use crate::check::catalogue::http::{HTTP_STATUS, NOTIFICATION_STATUS};
use crate::check::catalogue::process::STAYS_ALIVE;
use crate::check::catalogue::{Check, Rule};
use crate::check::excerpt::{Excerpt, Fault};
use crate::check::finding::{Finding, Location, Party};
use crate::check::ledger::{Reason, SkipReason};
use crate::check::wrong_token::WrongToken;
use crate::http::session::HttpTarget;
use crate::{Advice, Error};

pub(super) struct Harness {
    pub(super) target: LiveTarget,
    pub(super) recording: Recording,
    pub(super) patience: Duration,
    deadline: Instant,
    /// Tools that may be called once, with these arguments.
    pub(super) calls: RefCell<Vec<(String, Value)>>,
    /// The same tools, whether they were called or not.
    pub(super) given_calls: Vec<(String, Value)>,
    pub(super) all_calls: bool,
    selected: Vec<&'static str>,
    on_progress: Option<OnProgress>,
    /// The subjects of the probes that are running, the oldest first, each with its number.
    subjects: RefCell<Vec<(u32, String)>>,
    /// The number of subjects so far.
    begun: Cell<u32>,
    io: IoThread,
    /// The places of the connections that may exist at once.
    places: Arc<Semaphore>,
    /// Whether only one process of the server can run at a time, so that no two probes run at once.
    pub(super) is_sequential: Cell<bool>,
    /// The number of probes that may disturb a probe that measures times.
    disturbing: Cell<u32>,
    undisturbed: Notify,
    /// The number of connections so far.
    pub(super) started: Cell<u32>,
    /// The method of the requests that show whether a legacy server still answers.
    pub(super) liveness_method: Cell<&'static str>,
    pub(super) handshake_revision: Cell<Revision>,
    /// The time from the start of the first process to its first response, once that has arrived.
    pub(super) start_time: Cell<Option<Duration>>,
    pub(super) has_handshake: Cell<bool>,
    /// Whether a process of the server did not exit after its stdin was closed. If so, later connections are closed
    /// without waiting for the exit.
    ignores_eof: Cell<bool>,
    /// Whether a notification got no response over HTTP. If so, later ones are hardly waited for.
    ignores_notifications: Cell<bool>,
    /// Findings about processes that ended while a probe broke rules on purpose. They count only if the process does
    /// not also end while no rule is broken, which `stays-alive` reports.
    exits: RefCell<Vec<Finding>>,
    /// The definitions for the pin file; `None` without a pin file.
    pub(super) pins: Option<RefCell<PinProbe>>,
    /// Tokens that the server must refuse.
    pub(super) wrong_tokens: Vec<(WrongToken, Secret)>,
}

/// The subject of a probe, which the progress shows until this is dropped.
pub(super) struct ShownSubject<'a> {
    harness: &'a Harness,
    number: u32,
}

impl Drop for ShownSubject<'_> {
    fn drop(&mut self) {
        self.harness.subjects.borrow_mut().retain(|(number, _)| *number != self.number);
        self.harness.show_progress();
    }
}

/// A probe that may disturb probes that measure times, until this is dropped.
pub(super) struct Disturbance<'a>(&'a Harness);

impl Drop for Disturbance<'_> {
    fn drop(&mut self) {
        self.0.disturbing.update(|count| count - 1);
        self.0.undisturbed.notify_waiters();
    }
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
        let io = IoThread::start(clock).map_err(|error| Error::new(format!("cannot start a thread: {error}")))?;
        Ok(Self {
            target,
            recording: Recording::new(clock, capture),
            patience: options.patience,
            deadline: Instant::now() + options.timeout,
            given_calls: options.calls.clone(),
            wrong_tokens: options.wrong_tokens,
            calls: options.calls.into(),
            all_calls: options.all_calls,
            selected: options.selected,
            on_progress: options.on_progress,
            subjects: RefCell::default(),
            begun: Cell::new(0),
            io,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            is_sequential: Cell::new(false),
            disturbing: Cell::new(0),
            undisturbed: Notify::new(),
            started: Cell::new(0),
            liveness_method: Cell::new("ping"),
            handshake_revision: Cell::new(Revision::LATEST_LEGACY),
            start_time: Cell::new(None),
            has_handshake: Cell::new(false),
            ignores_eof: Cell::new(false),
            ignores_notifications: Cell::new(false),
            exits: RefCell::default(),
            pins: options.pin.map(|settings| RefCell::new(PinProbe::new(settings))),
        })
    }

    /// Starts a process, a server in memory or an HTTP client, as soon as there is a place for it. `is_misuse` is true
    /// if the probe breaks rules on purpose and judges the exit itself.
    pub(super) async fn spawn(&self, era: Era, is_misuse: bool) -> Result<ServerConnection, Error> {
        let place = self.wait_for_place().await;
        self.spawn_at(place, era, is_misuse)
    }

    /// Returns an HTTP client of a server with other credentials than the user's, which is allowed to be refused.
    pub(super) fn client_of(&self, http: &Arc<HttpTarget>, era: Era) -> ServerConnection {
        let channel = self.next_channel();
        self.recording.passive().mark_misuse(channel.as_str());
        let link = ConnectionTransport::Http(Box::new(RecordingClient::new(Arc::clone(http), self.recording.clone())));
        self.connection(link, channel, None, era, true)
    }

    /// Waits until another connection may exist.
    async fn wait_for_place(&self) -> Option<OwnedSemaphorePermit> {
        match self.is_http() {
            true => None,
            false => Arc::clone(&self.places).acquire_owned().await.ok(),
        }
    }

    fn spawn_at(
        &self,
        place: Option<OwnedSemaphorePermit>,
        era: Era,
        is_misuse: bool,
    ) -> Result<ServerConnection, Error> {
        let channel = self.next_channel();
        if is_misuse {
            self.recording.passive().mark_misuse(channel.as_str());
        }
        let recording = self.recording.clone();
        let link = match &self.target {
            LiveTarget::Server(server) => ConnectionTransport::Pipes(ServerPipes::in_memory(server, &self.io)),
            LiveTarget::Program { child, argv } => {
                let pipes = ServerPipes::spawn(child, argv, &channel, &recording, &self.io);
                ConnectionTransport::Pipes(pipes.map_err(Error::not_started)?)
            }
            LiveTarget::Url { http, .. } => {
                ConnectionTransport::Http(Box::new(RecordingClient::new(Arc::clone(http), recording.clone())))
            }
        };
        Ok(self.connection(link, channel, place, era, is_misuse))
    }

    /// Returns the name of the next connection.
    fn next_channel(&self) -> Channel {
        self.started.update(|count| count + 1);
        Word::new(&format!("p{}", self.started.get())).expect("letters and digits form a valid word")
    }

    fn connection(
        &self,
        link: ConnectionTransport,
        channel: Channel,
        place: Option<OwnedSemaphorePermit>,
        era: Era,
        is_misuse: bool,
    ) -> ServerConnection {
        let recording = self.recording.clone();
        let mut connection = ServerConnection::new(link, channel, recording, self.patience, self.deadline, place);
        connection.era = era;
        connection.is_misuse = is_misuse;
        connection.liveness = self.liveness_method.get();
        connection.revision = match era {
            Era::Legacy => self.handshake_revision.get(),
            Era::Modern => Revision::LATEST,
        };
        connection
    }

    /// Starts a connection and makes it ready for requests. Returns `None` if the server does not accept the
    /// connection, although it accepted an earlier one.
    pub(super) async fn connect(&self, era: Era, is_misuse: bool) -> Result<Option<ServerConnection>, Error> {
        let connection = self.spawn(era, is_misuse).await?;
        self.prepare(connection).await
    }

    /// Starts a connection in the place of an old one, which the caller closes next. If probes kept their places while
    /// they waited for further ones, all of them could wait for each other.
    pub(super) async fn connect_again(&self, old: &mut ServerConnection) -> Result<Option<ServerConnection>, Error> {
        let connection = self.spawn_at(old.place.take(), old.era, old.is_misuse)?;
        self.prepare(connection).await
    }

    async fn prepare(&self, mut connection: ServerConnection) -> Result<Option<ServerConnection>, Error> {
        let era = connection.era;
        if era == Era::Legacy {
            let (revision, patience) = (self.handshake_revision.get(), self.first_patience());
            let outcome = initialize(&mut connection, revision.as_str(), patience).await;
            let RequestOutcome::Result(result) = outcome else {
                self.close(connection).await;
                return Ok(None);
            };
            if let Some(revision) = result.string(&["protocolVersion"]).and_then(|it| Revision::parse(&it)) {
                connection.revision = revision;
            }
            self.initialized(&mut connection).await;
        } else if !self.is_http() {
            // A server of both eras learns the era from the first request. For some servers, `server/discover` is not
            // enough.
            let outcome = connection.claimed_request_within("server/discover", json!({}), self.first_patience()).await;
            connection.claimed_request("tools/list", json!({})).await;
            if matches!(outcome, RequestOutcome::NoResponse(_) | RequestOutcome::Disconnected(_)) {
                self.close(connection).await;
                return Ok(None);
            }
        }
        Ok(Some(connection))
    }

    /// Sends `notifications/initialized`, which completes the handshake.
    pub(super) async fn initialized(&self, connection: &mut ServerConnection) {
        connection.notify("notifications/initialized", json!({})).await;
        // HTTP exchanges run in parallel, so the next request could overtake the notification.
        self.expect_accepted(connection).await;
    }

    /// Checks that the notifications so far are accepted, which only HTTP shows.
    pub(super) async fn expect_accepted(&self, connection: &mut ServerConnection) {
        let is_known = self.ignores_notifications.get();
        let patience = if is_known { HARDLY } else { self.patience };
        for reply in connection.unaccepted_notifications(patience).await {
            if !self.ignores_notifications.replace(true) {
                let detail = format!("a notification: expected status 202, got {}", reply.describe());
                fail_under(self, Some(&NOTIFICATION_STATUS), &HTTP_STATUS, &reply, detail);
            }
        }
    }

    /// Runs probes, all at once unless only one process of the server can run at a time. Returns the first error.
    pub(super) async fn run_all(&self, probes: Vec<Probe<'_>>) -> Result<(), Error> {
        if self.is_sequential.get() {
            for probe in probes {
                probe.await?;
            }
            return Ok(());
        }
        let mut running: Vec<Option<Probe<'_>>> = probes.into_iter().map(Some).collect();
        let mut result = Ok(());
        poll_fn(|context| {
            for slot in &mut running {
                let Some(probe) = slot else { continue };
                if let Poll::Ready(ended) = probe.as_mut().poll(context) {
                    *slot = None;
                    if result.is_ok() {
                        result = ended;
                    }
                }
            }
            if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        result
    }

    /// Shows the subject of a probe, until the returned value is dropped.
    pub(super) fn progress(&self, subject: &str) -> ShownSubject<'_> {
        self.begun.update(|count| count + 1);
        let number = self.begun.get();
        self.subjects.borrow_mut().push((number, subject.to_owned()));
        self.show_progress();
        ShownSubject { harness: self, number }
    }

    /// Shows what is waited for, the oldest first.
    fn show_progress(&self) {
        let Some(call) = &self.on_progress else { return };
        let subjects: Vec<String> = self.subjects.borrow().iter().map(|(_, subject)| subject.clone()).collect();
        if !subjects.is_empty() {
            call(&subjects.join(", "), self.started.get());
        }
    }

    /// Marks a probe that may disturb those that measure times, until the returned value is dropped.
    fn disturb(&self) -> Disturbance<'_> {
        self.disturbing.update(|count| count + 1);
        Disturbance(self)
    }

    /// Makes a probe that may disturb those that measure times.
    pub(super) fn side<'a>(&'a self, probe: impl Future<Output = Result<(), Error>> + 'a) -> Probe<'a> {
        let disturbance = self.disturb();
        Box::pin(async move {
            let _disturbance = disturbance;
            probe.await
        })
    }

    /// Marks checks as incomplete, because a process that they need did not respond.
    pub(super) fn not_restarted(&self, checks: &[&'static Check]) {
        for check in checks {
            self.recording.ledger().incomplete(check, "the server did not respond when it was started again");
        }
    }

    /// Waits until no probe runs that may disturb one that measures times.
    pub(super) async fn wait_until_undisturbed(&self) {
        // One after the other, no probe disturbs another.
        while self.disturbing.get() > 0 && !self.is_sequential.get() {
            self.undisturbed.notified().await;
        }
    }

    /// Returns the time limit for the first response, which includes the start of the program. The first program starts
    /// alone; later ones start together, and need more time for it.
    pub(super) fn first_patience(&self) -> Duration {
        let longest = self.patience * 6;
        self.start_time.get().map_or(longest, |start| longest.min(self.patience + start * MAX_SLOWDOWN))
    }

    pub(super) async fn close(&self, connection: ServerConnection) -> ProcessEnd {
        let patience = if self.ignores_eof.get() { Duration::ZERO } else { self.patience };
        self.close_within(connection, patience).await
    }

    pub(super) async fn close_within(&self, connection: ServerConnection, patience: Duration) -> ProcessEnd {
        let end = connection.end(patience).await;
        if end.by_itself.is_none() {
            self.ignores_eof.set(true);
        }
        end
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self.target, LiveTarget::Url { .. })
    }

    /// Whether hostile input may be sent. A server on another machine gets it only with the user's permission.
    pub(super) fn may_be_hostile(&self) -> bool {
        match self.target {
            LiveTarget::Server(_) | LiveTarget::Program { .. } => true,
            LiveTarget::Url { hostile, is_loopback, .. } => hostile || is_loopback,
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

    /// Reports a violation. Its location is the frame of the outcome or, without a frame, the request.
    pub(super) fn fail(
        &self,
        check: impl Into<JudgedBy>,
        connection: &ServerConnection,
        outcome: Option<&RequestOutcome>,
        detail: impl Into<String>,
    ) {
        let check = check.into();
        let fault = match outcome {
            Some(RequestOutcome::Error(_)) => Fault::Member("/error/code"),
            _ => Fault::Member("/result"),
        };
        match outcome {
            Some(RequestOutcome::Refused(refusal)) => {
                let finding = check.finding(refusal.location.clone(), detail).with_request(sent(&refusal.request));
                let is_unanswered = refusal.status.is_none();
                self.recording.ledger().fail(if is_unanswered { finding.unanswered() } else { finding });
            }
            Some(
                RequestOutcome::Result(ResultResponse { frame }) | RequestOutcome::Error(ErrorResponse { frame, .. }),
            ) => self.fail_frame(check, frame, fault, detail),
            Some(RequestOutcome::NoResponse(request) | RequestOutcome::Disconnected(request)) if request.is_some() => {
                self.fail_missing(check, connection, sent(request), detail);
            }
            _ => self.fail_missing(check, connection, connection.last_sent(), detail),
        }
    }

    /// Reports a violation in a received frame, with its request as evidence.
    pub(super) fn fail_frame(
        &self,
        check: impl Into<JudgedBy>,
        frame: &LocatedFrame,
        fault: Fault<'_>,
        detail: impl Into<String>,
    ) {
        let finding = check.into().finding(frame.location.clone(), detail);
        self.recording.ledger().fail(with_frame(finding, frame, fault));
    }

    /// Reports a violation of a named rule of the check, in a received frame.
    pub(super) fn fail_frame_under(
        &self,
        rule: &'static Rule,
        check: &'static Check,
        frame: &LocatedFrame,
        detail: impl Into<String>,
    ) {
        let finding = Finding::new(check, Party::Server, frame.location.clone(), detail).under(rule);
        let fault = if frame.json().is_some_and(|it| it.member("error").is_some()) { "/error/code" } else { "/result" };
        self.recording.ledger().fail(with_frame(finding, frame, Fault::Member(fault)));
    }

    /// Reports that the response to what was sent is missing. After the deadline of the run a missing response proves
    /// nothing, so the check is incomplete instead.
    pub(super) fn fail_missing(
        &self,
        check: impl Into<JudgedBy>,
        connection: &ServerConnection,
        sent: Option<Excerpt>,
        detail: impl Into<String>,
    ) {
        let check = check.into();
        let has_exited = connection.is_closed || connection.exited().is_some();
        let location = sent.as_ref().map_or_else(|| connection.channel_location(), |sent| sent.location.clone());
        let finding = check.finding(location, detail).with_request(sent).unanswered();
        match self.is_late() {
            true => self.incomplete(check.check),
            false if has_exited && connection.is_misuse => self.exits.borrow_mut().push(finding),
            false => self.recording.ledger().fail(finding),
        }
    }

    /// Decides about processes that ended while a probe broke rules. To be called after all probes.
    pub(super) fn decide_exits(&self) {
        let dies_anyway = self.recording.ledger().has_failed(&STAYS_ALIVE);
        for finding in self.exits.take() {
            match dies_anyway {
                true => self.recording.ledger().skip(finding.check, SkipReason::Needs(STAYS_ALIVE.id)),
                false => self.recording.ledger().fail(finding),
            }
        }
    }

    /// Reports a violation that no message shows.
    pub(super) fn fail_at(&self, check: &'static Check, location: Location, detail: impl Into<String>) {
        self.recording.ledger().fail(Finding::new(check, Party::Server, location, detail));
    }

    pub(super) fn expect_code(
        &self,
        check: impl Into<JudgedBy>,
        connection: &ServerConnection,
        request: &str,
        outcome: &RequestOutcome,
        codes: &[i64],
    ) {
        let is_expected = matches!(outcome, RequestOutcome::Error(response) if codes.contains(&response.code));
        let codes = codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
        self.expect(check.into(), connection, request, outcome, is_expected, &format!("error {codes}"));
    }

    pub(super) fn expect_error(
        &self,
        check: impl Into<JudgedBy>,
        connection: &ServerConnection,
        request: &str,
        outcome: &RequestOutcome,
    ) {
        let is_expected = matches!(outcome, RequestOutcome::Error(_));
        self.expect(check.into(), connection, request, outcome, is_expected, "an error");
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
        self.expect(check.into(), connection, request, outcome, is_expected, "a result");
    }

    fn expect(
        &self,
        check: JudgedBy,
        connection: &ServerConnection,
        request: &str,
        outcome: &RequestOutcome,
        is_expected: bool,
        expected: &str,
    ) {
        self.recording.ledger().inspected(check.check);
        match outcome {
            _ if is_expected => {}
            // Another check reports the exit of the process, unless the probe breaks rules on purpose.
            RequestOutcome::Disconnected(_) if !connection.is_misuse => {
                self.recording.ledger().skip(check.check, SkipReason::Needs(STAYS_ALIVE.id));
            }
            outcome => {
                let detail = format!("{request}: expected {expected}, got {}", outcome.describe());
                self.fail(check, connection, Some(outcome), detail);
            }
        }
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

/// A check, and the rule of it that a request is about, if the check has several.
#[derive(Clone, Copy)]
pub(super) struct JudgedBy {
    pub(super) check: &'static Check,
    rule: Option<&'static Rule>,
}

impl JudgedBy {
    pub(super) const fn rule(check: &'static Check, rule: &'static Rule) -> Self {
        Self { check, rule: Some(rule) }
    }

    fn finding(self, location: Location, detail: impl Into<String>) -> Finding {
        let finding = Finding::new(self.check, Party::Server, location, detail);
        match self.rule {
            Some(rule) => finding.under(rule),
            None => finding,
        }
    }
}

impl From<&'static Check> for JudgedBy {
    fn from(check: &'static Check) -> Self {
        Self { check, rule: None }
    }
}

/// Returns an unanswered request as evidence. Its id is not the fault.
fn sent(request: &SentRequest) -> Option<Excerpt> {
    request.as_deref().cloned().map(Excerpt::unmarked)
}

/// Adds a received frame to a finding, with the fault in it, and its request.
fn with_frame(finding: Finding, frame: &LocatedFrame, fault: Fault<'_>) -> Finding {
    let request = frame.request.as_deref().cloned().map(Excerpt::unmarked);
    finding.seen(&frame.bytes, fault).with_request(request)
}

/// A probe, which runs together with others.
pub(super) type Probe<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>;

/// The maximum number of connections at once: processes of a server with a large runtime together take some memory.
const MAX_CONNECTIONS: usize = 8;

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

/// The time that a notification has to be accepted if others were not.
const HARDLY: Duration = Duration::from_millis(100);
/// How much longer a program may take to start than the first one did: eight start at once, perhaps on one busy core.
const MAX_SLOWDOWN: u32 = 16;
