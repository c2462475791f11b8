//! The requests of a well-behaved client, on one connection: lists, unknown names, unusual ids, notifications, tools.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::ending;
use super::eras::EraFacts;
use super::harness::Harness;
use super::outcome::{ErrorResponse, RequestOutcome, ResultResponse};
use super::recording::LocatedFrame;
use super::tool::{ListedTool, MAX_TOOLS, tool_name, tools};
use crate::Error;
use crate::check::catalogue::Check;
use crate::check::catalogue::envelope::{ID_FIDELITY, NOTIFICATION_SILENCE};
use crate::check::catalogue::flow::{BAD_CURSOR, PAGINATION};
use crate::check::catalogue::lifecycle::MUTE_SERVER;
use crate::check::catalogue::methods::{
    CAPABILITY_TRUTH, DECLARED_UNSUPPORTED, EMPTY_UNDECLARED, INVALID_PARAMS, PING, RESOURCE_NOT_FOUND, UNKNOWN_METHOD,
};
use crate::check::catalogue::tools::LIST_ORDER;
use crate::check::ledger::SkipReason;

/// Runs the probes. Returns false if the server answers no request; then further probes are useless.
pub(super) async fn run(harness: &mut Harness, connection: ServerConnection, facts: EraFacts) -> Result<bool, Error> {
    let mut probe = ServerProbe { harness, connection, facts, tools: Vec::new(), hasher: RandomState::new() };
    let answers = probe.ping().await;
    if answers {
        probe.lists().await?;
        probe.unknown_names().await?;
        probe.capabilities().await?;
        probe.ids().await?;
        probe.notifications().await?;
        probe.reconnect_if_closed().await?;
        probe.tool_calls().await?;
        if probe.connection.era == Era::Modern {
            probe.reconnect_if_closed().await?;
            probe.modern().await;
        }
    }
    let ServerProbe { harness, connection, .. } = probe;
    if !answers || harness.is_http() {
        harness.close(connection).await;
    } else {
        harness.progress("the exit of the process");
        ending::check_exit(harness, connection).await;
    }
    Ok(answers)
}

/// A connection to a server, and the facts about that server.
pub(super) struct ServerProbe<'a> {
    pub(super) harness: &'a mut Harness,
    pub(super) connection: ServerConnection,
    pub(super) facts: EraFacts,
    pub(super) tools: Vec<ListedTool>,
    /// Hashes cursors, which can be as long as a message.
    hasher: RandomState,
}

impl ServerProbe<'_> {
    fn declares(&self, capability: &str) -> bool {
        self.facts.capability(&[capability]).is_some_and(|it| it.kind() != Kind::Null)
    }

    /// Reconnects if the process has exited, which the passive checks report.
    pub(super) async fn reconnect_if_closed(&mut self) -> Result<(), Error> {
        if self.connection.is_closed { self.reconnect().await } else { Ok(()) }
    }

    pub(super) async fn reconnect(&mut self) -> Result<(), Error> {
        if self.harness.is_late() {
            return Ok(());
        }
        if let Some(connection) = self.harness.connect(self.connection.era, false).await? {
            let old = std::mem::replace(&mut self.connection, connection);
            self.harness.close(old).await;
        }
        Ok(())
    }

    /// Sends an ordinary request, and checks that the response is an error with one of these codes.
    async fn expect_code(
        &mut self,
        check: &'static Check,
        what: &str,
        method: &str,
        params: Value,
        codes: &[i64],
    ) -> Result<(), Error> {
        if self.harness.wants(&[check]) {
            self.reconnect_if_closed().await?;
            let outcome = self.connection.claimed_request(method, params).await;
            self.harness.expect_code(check, &self.connection, what, &outcome, codes);
        }
        Ok(())
    }

    /// Sends a ping. If the ping is not answered, sends a list request, and if this is answered, later liveness
    /// requests use its method. Returns false if neither is answered.
    async fn ping(&mut self) -> bool {
        if self.connection.era != Era::Legacy {
            return true;
        }
        let outcome = self.connection.claimed_request("ping", json!({})).await;
        if matches!(outcome, RequestOutcome::NoResponse) {
            let list = self.declared_list().unwrap_or("tools/list");
            if let RequestOutcome::NoResponse = self.connection.claimed_request(list, json!({})).await {
                let detail = format!("initialize is answered, but neither ping nor {list} after it");
                self.harness.fail(&MUTE_SERVER, &self.connection, None, detail);
                return false;
            }
            self.harness.liveness_method = list;
            self.connection.liveness = list;
        }
        if self.harness.wants(&[&PING]) {
            self.harness.expect_result(&PING, &self.connection, "ping", &outcome);
        }
        true
    }

    fn declared_list(&self) -> Option<&'static str> {
        LISTS.iter().find(|(capability, _)| self.declares(capability)).map(|(_, method)| *method)
    }

    async fn lists(&mut self) -> Result<(), Error> {
        self.harness.progress("lists");
        for (capability, method) in LISTS {
            if self.declares(capability) {
                self.reconnect_if_closed().await?;
                self.pages(method, capability).await;
                if *capability == "tools" {
                    self.order().await;
                }
            }
        }
        if self.declared_list().is_none() {
            self.harness.skip_all(&[&PAGINATION, &BAD_CURSOR], "the server has no lists");
        }
        Ok(())
    }

    /// Reads all pages of a list, and keeps the tools if it is the list of tools.
    async fn pages(&mut self, method: &str, member: &str) {
        let mut cursor = None::<String>;
        let mut cursors = HashSet::new();
        for page in 1.. {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let outcome = self.connection.request(method, params).await;
            let fail = |detail: String| {
                self.harness.fail(&PAGINATION, &self.connection, Some(&outcome), format!("{method}: {detail}"));
            };
            let RequestOutcome::Result(result) = &outcome else {
                if cursor.is_some() && !matches!(outcome, RequestOutcome::Disconnected) {
                    let got = outcome.describe();
                    fail(format!("expected a result for the cursor of page {}, got {got}", page - 1));
                }
                break;
            };
            self.harness.recording.ledger().inspected(&PAGINATION);
            if member == "tools" {
                let room = MAX_TOOLS.saturating_sub(self.tools.len());
                self.tools.extend(tools(result).map(ListedTool::of).take(room));
            }
            let Some(next) = result.at(&["nextCursor"]) else { break };
            let Some(next) = next.string() else {
                let is_null = next.kind() == Kind::Null;
                let what =
                    if is_null { "nextCursor is null; omit it on the last page" } else { "nextCursor is not a string" };
                fail(what.to_owned());
                break;
            };
            if !cursors.insert(self.hasher.hash_one(&*next)) {
                fail(format!("the cursor of page {page} repeats an earlier one"));
                break;
            }
            if page >= MAX_PAGES {
                fail(format!("there are more than {MAX_PAGES} pages"));
                break;
            }
            cursor = Some(next.into_owned());
            if self.harness.is_late() {
                break;
            }
        }
    }

    /// Requests the list of tools again, and checks that it has the same tools in the same order.
    async fn order(&mut self) {
        if !self.harness.wants(&[&LIST_ORDER]) || self.harness.recording.ledger().has_failed(&PAGINATION) {
            return;
        }
        if self.tools.len() < 2 {
            self.harness.skip_all(&[&LIST_ORDER], "the server has fewer than two tools");
            return;
        }
        let outcome = self.connection.request("tools/list", json!({})).await;
        let RequestOutcome::Result(result) = &outcome else { return };
        self.harness.recording.ledger().inspected(&LIST_ORDER);
        // The second list has only the first page; comparing one page is enough.
        let mut before = self.tools.iter().map(|tool| tool.name.as_deref());
        let is_same = |tool| before.next().is_some_and(|name| name == tool_name(tool).as_deref());
        if !tools(result).take(MAX_TOOLS).all(is_same) {
            let detail = "a second tools/list has other tools or another order than the first";
            self.harness.fail(&LIST_ORDER, &self.connection, Some(&outcome), detail);
        }
    }

    /// Requests methods, tools, prompts, resources and cursors that do not exist.
    async fn unknown_names(&mut self) -> Result<(), Error> {
        self.harness.progress("unknown names");
        let (method, unknown) = ("barewire/no-such-method", json!({}));
        self.expect_code(&UNKNOWN_METHOD, "an unknown method", method, unknown, &[-32601]).await?;
        if self.declares("tools") {
            let unknown = json!({"name": NO_SUCH, "arguments": {}});
            self.expect_code(&INVALID_PARAMS, "an unknown tool", "tools/call", unknown, &[-32602]).await?;
            let nameless = json!({"arguments": {}});
            self.expect_code(&INVALID_PARAMS, "tools/call without a name", "tools/call", nameless, &[-32602]).await?;
        }
        if self.declares("prompts") {
            let unknown = json!({"name": NO_SUCH});
            self.expect_code(&INVALID_PARAMS, "an unknown prompt", "prompts/get", unknown, &[-32602]).await?;
        }
        if !self.declares("tools") && !self.declares("prompts") {
            self.harness.skip_all(&[&INVALID_PARAMS], "the server has neither tools nor prompts");
        }
        if self.declares("resources") {
            let unknown = json!({"uri": "barewire-check://no/such/resource"});
            let codes: &[i64] = if self.connection.era == Era::Modern { &[-32602] } else { &[-32002, -32602] };
            self.expect_code(&RESOURCE_NOT_FOUND, "an unknown URI", "resources/read", unknown, codes).await?;
        } else {
            self.harness.skip_all(&[&RESOURCE_NOT_FOUND], "the server has no resources");
        }
        if let Some(method) = self.declared_list() {
            let what = format!("{method} with an unknown cursor");
            let unknown = json!({"cursor": "barewire-no-such-cursor"});
            self.expect_code(&BAD_CURSOR, &what, method, unknown, &[-32602]).await?;
        }
        Ok(())
    }

    /// Requests methods of declared and of undeclared capabilities, and checks that the responses fit the declaration.
    async fn capabilities(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&CAPABILITY_TRUTH])
            || self.facts.capability(&[]).is_none_or(|it| it.kind() == Kind::Null)
        {
            return Ok(());
        }
        self.harness.progress("capabilities");
        let completion =
            json!({"ref": {"type": "ref/prompt", "name": NO_SUCH}, "argument": {"name": "a", "value": ""}});
        let mut requests: Vec<_> = LISTS.iter().map(|(name, method)| (*name, *method, json!({}))).collect();
        if self.connection.revision.has_completions_capability() {
            requests.push(("completions", "completion/complete", completion));
        }
        if self.connection.era == Era::Legacy {
            requests.push(("logging", "logging/setLevel", json!({"level": "error"})));
        }
        for (capability, method, params) in requests {
            self.reconnect_if_closed().await?;
            // `unanswered-request` reports a missing response.
            let outcome = self.connection.request(method, params).await;
            if outcome.frame().is_none() && !outcome.is_refused() {
                let why = SkipReason::Nothing(format!("{method} got no response").into());
                self.harness.recording.ledger().skip(&CAPABILITY_TRUTH, why);
                continue;
            }
            self.harness.recording.ledger().inspected(&CAPABILITY_TRUTH);
            match (self.declares(capability), &outcome) {
                (true, RequestOutcome::Error(ErrorResponse { frame, code: -32601 })) => {
                    let detail = format!("{capability} is declared, but {method} is answered with error -32601");
                    let location = frame.location.clone();
                    self.harness.fail_under(&DECLARED_UNSUPPORTED, &CAPABILITY_TRUTH, location, &frame.bytes, detail);
                }
                (false, RequestOutcome::Result(ResultResponse { frame })) if is_empty(frame) => {
                    let detail = format!("{capability} is not declared, but {method} is answered with an empty result");
                    let location = frame.location.clone();
                    self.harness.fail_under(&EMPTY_UNDECLARED, &CAPABILITY_TRUTH, location, &frame.bytes, detail);
                }
                (false, RequestOutcome::Result(..)) => {
                    let detail = format!("{capability} is not declared, but {method} is answered with a result");
                    self.harness.fail(&CAPABILITY_TRUTH, &self.connection, Some(&outcome), detail);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sends requests with ids that servers easily alter. The passive checks report a response with another id.
    async fn ids(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&ID_FIDELITY]) {
            return Ok(());
        }
        self.harness.progress("ids");
        self.reconnect_if_closed().await?;
        let method = self.connection.liveness_method();
        for id in UNUSUAL_IDS {
            let params = self.connection.with_meta(json!({}));
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
            self.connection.send(line.as_bytes()).await;
            self.connection.claim(id);
            let outcome = self.connection.wait_for_response(id).await;
            let detail = match &outcome {
                // According to RFC 8259, not every implementation can represent such a number. The request may be
                // ignored, but its id must not be altered.
                RequestOutcome::NoResponse if *id == BEYOND_2_53 => continue,
                RequestOutcome::NoResponse => Some(format!("a request with id {id} gets no response")),
                // A number with the same value is not enough, because the client may compare the text.
                RequestOutcome::Result(result) if !has_id(&result.frame.bytes, id) => {
                    Some(format!("the response to id {id} writes the id differently"))
                }
                _ => None,
            };
            if let Some(detail) = detail.filter(|_| !self.harness.recording.ledger().has_failed(&ID_FIDELITY)) {
                self.harness.fail(&ID_FIDELITY, &self.connection, Some(&outcome), detail);
            }
            if outcome.frame().is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Sends several kinds of notifications. The passive checks report responses to them.
    async fn notifications(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&NOTIFICATION_SILENCE]) {
            return Ok(());
        }
        self.harness.progress("notifications");
        self.reconnect_if_closed().await?;
        self.connection.notify("notifications/barewire/no-such", json!({})).await;
        if self.connection.era == Era::Legacy {
            self.connection.notify("notifications/roots/list_changed", json!({})).await;
            self.connection.notify("notifications/initialized", json!({})).await;
        }
        // A server that handles messages in order has handled the notifications when it answers this request.
        self.connection.still_answers().await;
        self.connection.wait_until_quiet().await;
        Ok(())
    }
}

/// Whether a message has this id, written the same way. A string may be written with other escapes.
fn has_id(message: &[u8], id: &str) -> bool {
    let is_same = |text: &str| text == id || id.starts_with('"') && text.starts_with('"');
    let json = Json::parse(message).ok();
    json.is_some_and(|json| json.members().any(|member| member.name == "id" && is_same(member.value.as_str())))
}

/// Whether a result is a list, completion or object without content. Some hosts ask for every list, whatever is declared,
/// and give up a server that answers with an error.
fn is_empty(response: &LocatedFrame) -> bool {
    let Some(result) = response.json().and_then(|message| message.member("result")) else { return false };
    let values = result.at(&["completion", "values"]);
    let content = result.members().filter(|member| LISTS.iter().any(|(list, _)| member.name == *list));
    let mut lists = content.map(|member| member.value).chain(values);
    lists.all(|list| list.kind() == Kind::Array && list.elements().next().is_none())
}

/// The lists of a server. Each has a capability, which is also the name of the result's member, and a method.
const LISTS: &[(&str, &str)] = &[("tools", "tools/list"), ("resources", "resources/list"), ("prompts", "prompts/list")];

/// Ids that servers easily alter: digits in a string, an empty string, escapes, zero, a negative and a large integer.
const UNUSUAL_IDS: &[&str] =
    &["\"7\"", "\"\"", "\"a\\u00e4\\n\\\"\"", "0", "-1", "\"00000000-0000-4000-8000-000000000000\"", BEYOND_2_53];

/// 2^53 + 1, the first integer that a 64-bit float cannot hold.
const BEYOND_2_53: &str = "9007199254740993";

const NO_SUCH: &str = "barewire-no-such";

/// The maximum number of pages of a list; barewire's client has the same limit.
const MAX_PAGES: usize = 1000;
