//! The requests of a well-behaved client, on one connection: lists, unknown names, unusual ids, notifications, tools.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::rc::Rc;

use barewire_proto::json::Json;
use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::calls::{self, AllowedCall, CalledTools};
use super::connection::ServerConnection;
use super::contents::ListedContents;
use super::ending;
use super::eras::EraFacts;
use super::harness::{Harness, JudgedBy};
use super::outcome::{RequestOutcome, ResultResponse};
use super::running_calls::{self, CallDurations};
use super::tool::ListedTool;
use crate::Error;
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::{ID_FIDELITY, NOTIFICATION_SILENCE};
use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::catalogue::http::HTTP_STATUS;
use crate::check::catalogue::lifecycle::MUTE_SERVER;
use crate::check::catalogue::methods::{
    INVALID_PARAMS, LOG_LEVEL, PING, RESOURCE_NOT_FOUND, UNKNOWN_METHOD, UNKNOWN_PROMPT, UNKNOWN_TOOL,
};
use crate::check::excerpt::Fault;
use crate::check::origin::{NO_SUCH, UNKNOWN_METHOD_NAME};
use crate::check::passive::HARD_NAME;
use crate::text::shown;

/// Reads the lists of a server, and returns the probe of its connection; `None` if the server answers no request, so
/// that further probes are useless.
pub(super) async fn begin(
    harness: &Harness,
    connection: ServerConnection,
    facts: EraFacts,
) -> Result<Option<ServerProbe<'_>>, Error> {
    let mut probe = ServerProbe::new(harness, connection, facts);
    if !probe.ping().await {
        harness.close(probe.connection).await;
        return Ok(None);
    }
    probe.lists().await?;
    // Several probes at once would hold several of such messages in memory.
    if probe.connection.received.bytes > LARGE_OUTPUT {
        harness.is_sequential.set(true);
    }
    Ok(Some(probe))
}

/// A connection to a server, and the facts about that server.
pub(super) struct ServerProbe<'a> {
    pub(super) harness: &'a Harness,
    pub(super) connection: ServerConnection,
    pub(super) facts: EraFacts,
    pub(super) tools: Vec<ListedTool>,
    pub(super) listed: ListedContents,
    /// The ids of requests that were not answered soon, each with the judgement of its outcome.
    pub(super) deferred: Vec<(String, Judgement)>,
    /// Hashes cursors, which can be as long as a message.
    pub(super) hasher: RandomState,
}

/// The judgement of the outcome of a request.
pub(super) enum Judgement {
    /// The response must be an error with one of these codes.
    Code { check: JudgedBy, what: String, codes: &'static [i64] },
    /// The response must be an error.
    AnyError { check: &'static Check, what: &'static str },
    /// The response must be a result.
    Result { check: &'static Check, what: &'static str },
    /// The response must be the error for an unsupported version.
    UnsupportedVersion,
    /// The response must be a result, although the request has metadata that the server does not know.
    OtherMetadata,
    /// The method belongs to a capability, which the server has declared or not.
    Capability { capability: &'static str, method: &'static str, is_declared: bool },
    /// The response must be an error, because the log level does not exist.
    LogLevel,
    /// The response must have exactly this id.
    Id(&'static str),
    /// The passive checks judge the response, and report a missing one.
    Passive,
}

impl<'a> ServerProbe<'a> {
    pub(super) fn new(harness: &'a Harness, connection: ServerConnection, facts: EraFacts) -> Self {
        let (tools, listed, deferred) = (Vec::new(), ListedContents::default(), Vec::new());
        Self { harness, connection, facts, tools, listed, deferred, hasher: RandomState::new() }
    }
}

impl ServerProbe<'_> {
    pub(super) async fn run(mut self) -> Result<(), Error> {
        self.unknown_names().await?;
        self.capabilities().await?;
        self.ids().await?;
        self.notifications().await?;
        self.settle().await;
        self.reconnect_if_closed().await?;
        let CalledTools { allowed, ended, reporting, running } = self.tool_calls().await?;
        self.text_token(reporting.as_ref()).await?;
        let (harness, answered) = (self.harness, calls::repeatable(&ended));
        let bare = calls::without_arguments(&ended);
        let is_answered = answered.is_some();
        let durations = RefCell::new(ended);
        let (others, finished) = tokio::join!(
            self.after_calls(&allowed, &durations, answered, bare),
            running_calls::finish(harness, running, &durations)
        );
        others.and(finished)?;
        self.judge_silent_calls(&durations.borrow());
        // `allowed` is empty if nothing was called, or if no time is left.
        if !allowed.is_empty() && !self.harness.is_late() {
            let durations = durations.into_inner();
            if !is_answered {
                self.call_before_initialized(calls::repeatable(&durations)).await?;
            }
            self.slow_calls(&durations).await?;
            self.reconnect_if_closed().await?;
        }
        let Self { harness, connection, .. } = self;
        if harness.is_http() {
            harness.close(connection).await;
        } else {
            let _subject = harness.progress("the exit of the process");
            ending::check_exit(harness, connection).await;
        }
        Ok(())
    }

    /// Sends the requests that may follow the calls of tools while some of these are still running.
    async fn after_calls(
        &mut self,
        allowed: &[Rc<AllowedCall>],
        durations: &RefCell<CallDurations>,
        answered: Option<Rc<AllowedCall>>,
        bare: Option<Rc<AllowedCall>>,
    ) -> Result<(), Error> {
        self.missing_arguments(allowed, durations).await?;
        if !allowed.is_empty() {
            self.omitted_arguments(bare.as_ref()).await?;
        }
        if answered.is_some() {
            self.call_before_initialized(answered).await?;
        }
        self.reconnect_if_closed().await?;
        self.tasks().await?;
        self.reconnect_if_closed().await?;
        self.contents().await?;
        if self.connection.era == Era::Modern {
            self.reconnect_if_closed().await?;
            self.listen().await;
        }
        Ok(())
    }

    pub(super) fn declares(&self, capability: &str) -> bool {
        self.facts.declares(capability)
    }

    /// Reconnects if the process has exited, which the passive checks report.
    pub(super) async fn reconnect_if_closed(&mut self) -> Result<(), Error> {
        if self.connection.is_closed { self.reconnect().await } else { Ok(()) }
    }

    pub(super) async fn reconnect(&mut self) -> Result<(), Error> {
        self.settle().await;
        if self.harness.is_late() {
            return Ok(());
        }
        if let Some(connection) = self.harness.connect_again(&mut self.connection).await? {
            let old = std::mem::replace(&mut self.connection, connection);
            self.harness.close(old).await;
        }
        Ok(())
    }

    /// Sends a request and judges its outcome: at once, or in `settle` if there is no response soon.
    pub(super) async fn ask(&mut self, method: &str, params: Value, judgement: Judgement) -> Result<(), Error> {
        self.reconnect_if_closed().await?;
        let id = self.connection.send_request(method, params).await;
        self.await_response(id, judgement).await;
        Ok(())
    }

    pub(super) async fn await_response(&mut self, id: String, judgement: Judgement) {
        if !matches!(judgement, Judgement::Passive | Judgement::Capability { .. }) {
            self.connection.claim(&id);
        }
        match self.connection.early_response(&id).await {
            Some(outcome) => self.judge_response(&id, &judgement, &outcome),
            None => self.deferred.push((id, judgement)),
        }
    }

    /// Waits for the responses that did not arrive soon, for all of them at once, and judges them.
    pub(super) async fn settle(&mut self) {
        let deferred = std::mem::take(&mut self.deferred);
        let harness = self.harness;
        let _subject = deferred.first().map(|(id, _)| {
            let method = shown(self.connection.sent_method(id).unwrap_or_default().as_bytes(), 40);
            harness.progress(&match deferred.len() {
                1 => format!("the response to {method}"),
                count => format!("the responses to {method} and {} more", count - 1),
            })
        });
        for (id, judgement) in deferred {
            let outcome = self.connection.settled_response(&id).await;
            self.judge_response(&id, &judgement, &outcome);
        }
    }

    fn judge_response(&self, id: &str, judgement: &Judgement, outcome: &RequestOutcome) {
        if matches!(judgement, Judgement::Passive | Judgement::Capability { is_declared: true, .. }) {
            self.judge_silence(self.connection.sent_method(id).unwrap_or_default(), outcome);
        }
        self.judge(judgement, outcome);
    }

    /// Reports an HTTP response without a JSON-RPC response. The passive checks report the statuses 202, 401 and 5xx,
    /// and 403 can be right for a server with authorization.
    pub(super) fn judge_silence(&self, method: &str, outcome: &RequestOutcome) {
        let RequestOutcome::Refused(refusal) = outcome else { return };
        if !matches!(refusal.status, Some(202 | 401 | 403 | 500..)) && !self.harness.is_late() {
            let got = outcome.describe();
            let detail = format!("{}: expected a JSON-RPC response, got {got}", shown(method.as_bytes(), 60));
            self.harness.fail(&HTTP_STATUS, &self.connection, Some(outcome), detail);
        }
    }

    fn judge(&self, judgement: &Judgement, outcome: &RequestOutcome) {
        let (harness, connection) = (self.harness, &self.connection);
        match judgement {
            Judgement::Code { check, what, codes } => harness.expect_code(*check, connection, what, outcome, codes),
            Judgement::AnyError { check, what } => harness.expect_error(*check, connection, what, outcome),
            Judgement::Result { check, what } => harness.expect_result(check, connection, what, outcome),
            Judgement::UnsupportedVersion => self.judge_version(outcome),
            Judgement::OtherMetadata => self.judge_other_metadata(outcome),
            Judgement::Capability { capability, method, is_declared } => {
                self.judge_capability(capability, method, *is_declared, outcome);
            }
            Judgement::LogLevel => self.judge_log_level(outcome),
            Judgement::Id(id) => self.judge_id(id, outcome),
            Judgement::Passive => {}
        }
    }

    /// Any code is accepted: what matters is that the server does not take the level.
    fn judge_log_level(&self, outcome: &RequestOutcome) {
        let what = "logging/setLevel with a level that does not exist";
        match outcome {
            RequestOutcome::Result(ResultResponse { frame }) => {
                let detail = format!("{what}: expected an error, got a result");
                self.harness.fail_frame_under(&LOG_LEVEL, &INVALID_PARAMS, frame, detail);
            }
            outcome => {
                let check = JudgedBy::rule(&INVALID_PARAMS, &LOG_LEVEL);
                self.harness.expect_error(check, &self.connection, what, outcome);
            }
        }
    }

    /// Sends an ordinary request, and checks that the response is an error with one of these codes.
    pub(super) async fn expect_code(
        &mut self,
        check: impl Into<JudgedBy>,
        what: &str,
        method: &str,
        params: Value,
        codes: &'static [i64],
    ) -> Result<(), Error> {
        let check = check.into();
        if self.harness.wants(&[check.check]) {
            self.ask(method, params, Judgement::Code { check, what: what.to_owned(), codes }).await?;
        }
        Ok(())
    }

    /// Sends a ping. If the ping is not answered, sends a list request, and if this is answered, later liveness
    /// requests use its method. Returns false if neither is answered.
    async fn ping(&mut self) -> bool {
        if self.connection.era != Era::Legacy {
            return true;
        }
        let _subject = self.harness.progress("ping");
        let ping = self.connection.send_request("ping", json!({})).await;
        self.connection.claim(&ping);
        let mut outcome = self.connection.early_response(&ping).await;
        if outcome.is_none() {
            let list = self.facts.declared_list().unwrap_or("tools/list");
            let id = self.connection.send_request(list, json!({})).await;
            self.connection.claim(&id);
            let listed = self.connection.wait_for_response(&id).await;
            if matches!(listed, RequestOutcome::NoResponse(_)) {
                outcome = Some(self.connection.settled_response(&ping).await);
            }
            if let (RequestOutcome::NoResponse(_), Some(RequestOutcome::NoResponse(_))) = (&listed, &outcome) {
                let detail = format!("initialize is answered, but neither ping nor {list} after it");
                self.harness.fail(&MUTE_SERVER, &self.connection, None, detail);
                return false;
            }
            if outcome.is_none() {
                self.harness.liveness_method.set(list);
                self.connection.liveness = list;
            }
        }
        if self.harness.wants(&[&PING]) {
            match outcome {
                Some(outcome) => self.judge(&PING_RESULT, &outcome),
                None => self.deferred.push((ping, PING_RESULT)),
            }
        }
        true
    }

    /// Requests methods, tools, prompts and resources that do not exist, also by names that are hard to write.
    async fn unknown_names(&mut self) -> Result<(), Error> {
        let _subject = self.harness.progress("unknown names");
        // The responses to an unknown method and an unknown tool also show the SDK of the server.
        let unknown =
            Judgement::Code { check: (&UNKNOWN_METHOD).into(), what: "an unknown method".to_owned(), codes: &[-32601] };
        self.ask(UNKNOWN_METHOD_NAME, json!({}), unknown).await?;
        // What has an id is a request, whatever its method.
        self.ask(NOTIFICATION_NAME, json!({}), Judgement::Passive).await?;
        if self.declares("tools") {
            let unknown = json!({"name": NO_SUCH, "arguments": {}});
            let check = JudgedBy::rule(&INVALID_PARAMS, &UNKNOWN_TOOL);
            let expected = Judgement::Code { check, what: "an unknown tool".to_owned(), codes: &[-32602] };
            self.ask("tools/call", unknown, expected).await?;
            self.ask("tools/call", json!({"name": HARD_NAME, "arguments": {}}), Judgement::Passive).await?;
        }
        if self.declares("prompts") {
            let unknown = json!({"name": NO_SUCH});
            let check = JudgedBy::rule(&INVALID_PARAMS, &UNKNOWN_PROMPT);
            self.expect_code(check, "an unknown prompt", "prompts/get", unknown, &[-32602]).await?;
            self.ask("prompts/get", json!({"name": HARD_NAME}), Judgement::Passive).await?;
        }
        if !self.declares("tools") && !self.declares("prompts") {
            self.harness.skip_all(&[&INVALID_PARAMS], "the server has neither tools nor prompts");
        }
        if self.declares("resources") {
            let unknown = json!({"uri": NO_SUCH_URI});
            let codes: &[i64] = if self.connection.era == Era::Modern { &[-32602] } else { &[-32002, -32602] };
            self.expect_code(&RESOURCE_NOT_FOUND, "an unknown URI", "resources/read", unknown, codes).await?;
        } else {
            self.harness.skip_all(&[&RESOURCE_NOT_FOUND], "the server has no resources");
        }
        Ok(())
    }

    /// Sends requests with ids that servers easily alter. The passive checks report a response with another id.
    async fn ids(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&ID_FIDELITY]) {
            return Ok(());
        }
        let _subject = self.harness.progress("ids");
        let method = self.connection.liveness_method();
        for id in UNUSUAL_IDS {
            self.reconnect_if_closed().await?;
            let params = self.connection.with_meta(json!({}));
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
            self.connection.send(line.as_bytes()).await;
            self.await_response((*id).to_owned(), Judgement::Id(id)).await;
        }
        Ok(())
    }

    fn judge_id(&self, id: &str, outcome: &RequestOutcome) {
        // A response that cannot be read is reported as such.
        let is_unreadable =
            [&STDOUT_PURITY, &ONE_MESSAGE_A_LINE].iter().any(|it| self.harness.recording.ledger().has_failed(it));
        let has_failed = self.harness.recording.ledger().has_failed(&ID_FIDELITY);
        match outcome {
            RequestOutcome::NoResponse(_) if !is_unreadable && !has_failed => {
                let detail = format!("a request with id {id} gets no response");
                self.harness.fail(&ID_FIDELITY, &self.connection, Some(outcome), detail);
            }
            // A number with the same value is not enough, because the client may compare the text.
            RequestOutcome::Result(ResultResponse { frame }) if !has_failed && !has_id(&frame.bytes, id) => {
                let detail = format!("the response to id {id} writes the id differently");
                self.harness.fail_frame(&ID_FIDELITY, frame, Fault::Member("/id"), detail);
            }
            _ => {}
        }
    }

    /// Sends a notification that no server knows. The passive checks report a response to it.
    async fn notifications(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&NOTIFICATION_SILENCE]) {
            return Ok(());
        }
        let _subject = self.harness.progress("notifications");
        self.reconnect_if_closed().await?;
        // According to RFC 8259, not every implementation can represent such a number. The request may be ignored, but
        // its id must not be altered, which the passive checks report.
        let method = self.connection.liveness_method();
        let params = self.connection.with_meta(json!({}));
        let line =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{BEYOND_2_53},\"method\":\"{method}\",\"params\":{params}}}\n");
        self.connection.claim(BEYOND_2_53);
        self.connection.send(line.as_bytes()).await;
        self.connection.still_answers().await;
        self.connection.wait_until_quiet().await;
        self.connection.abandon(BEYOND_2_53);
        self.reconnect_if_closed().await?;
        self.connection.notify(NOTIFICATION_NAME, json!({})).await;
        self.harness.expect_accepted(&mut self.connection).await;
        // A server that handles messages in order has handled the notification when it answers this request.
        self.connection.still_answers().await;
        self.connection.wait_until_quiet().await;
        Ok(())
    }
}

/// Whether a message has this id, written the same way. A string may be written with other escapes.
fn has_id(message: &[u8], id: &str) -> bool {
    let is_same = |text: &str| text == id || id.starts_with('"') && text.starts_with('"');
    let json = Json::parse(message).ok();
    // The passive checks report a line that is not JSON alone.
    json.is_none_or(|json| json.members().any(|member| member.name == "id" && is_same(member.value.as_str())))
}

const PING_RESULT: Judgement = Judgement::Result { check: &PING, what: "ping" };

/// The lists of a server. Each has a capability, which is also the name of the result's member, and a method.
pub(super) const LISTS: &[(&str, &str)] =
    &[("tools", "tools/list"), ("resources", "resources/list"), ("prompts", "prompts/list")];

/// Ids that servers easily alter: digits in a string, an empty string, escapes, zero, a negative integer, a long
/// string. None has the value of an ordinary id: a late response to that would look like an altered one to this.
const UNUSUAL_IDS: &[&str] =
    &["\"700007\"", "\"\"", "\"a\\u00e4\\n\\\"\"", "0", "-1", "\"00000000-0000-4000-8000-000000000000\""];

/// 2^53 + 1, the first integer that a 64-bit float cannot hold.
const BEYOND_2_53: &str = "9007199254740993";

/// The method of a notification that no server knows.
const NOTIFICATION_NAME: &str = "notifications/barewire/no-such";

pub(super) const NO_SUCH_URI: &str = "barewire-check://no/such/resource";

/// The output in bytes, after the lists, from which probes run one after the other.
const LARGE_OUTPUT: usize = 1024 * 1024;
