//! What a well-behaved client asks: lists, what does not exist, odd ids, notifications, tools; on one connection.

use std::collections::HashSet;

use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::connection::ServerConnection;
use super::eras::EraFacts;
use super::harness::{Harness, ask};
use super::outcome::RequestOutcome;
use super::{calls, ending, modern};
use crate::Error;
use crate::check::catalogue::envelope::{ID_FIDELITY, NOTIFICATION_SILENCE};
use crate::check::catalogue::flow::{BAD_CURSOR, PAGINATION};
use crate::check::catalogue::lifecycle::MUTE_SERVER;
use crate::check::catalogue::methods::{CAPABILITY_TRUTH, INVALID_PARAMS, PING, RESOURCE_NOT_FOUND, UNKNOWN_METHOD};
use crate::check::catalogue::tools::LIST_ORDER;
use crate::check::ledger::SkipReason;

/// `false` if nothing is answered, so that there is no use in asking more.
pub(super) async fn run(harness: &mut Harness, connection: ServerConnection, facts: EraFacts) -> Result<bool, Error> {
    let era = connection.era;
    let mut probe = ServerProbe { harness, connection, facts, tools: Vec::new() };
    if !probe.answers().await {
        let ServerProbe { harness, connection, .. } = probe;
        harness.close(connection).await;
        return Ok(false);
    }
    probe.lists().await?;
    probe.nothing_there().await?;
    probe.capabilities().await?;
    probe.ids().await?;
    probe.notifications().await?;
    probe.reconnect_if_closed().await?;
    calls::run(&mut probe).await?;
    if era == Era::Modern {
        probe.reconnect_if_closed().await?;
        modern::run(&mut probe).await?;
    }
    let ServerProbe { harness, connection, .. } = probe;
    if harness.is_http() {
        harness.close(connection).await;
        return Ok(true);
    }
    harness.progress("how it ends");
    ending::judge(harness, connection).await;
    Ok(true)
}

/// A connection and what is known of the server behind it.
pub(super) struct ServerProbe<'a> {
    pub(super) harness: &'a mut Harness,
    pub(super) connection: ServerConnection,
    pub(super) facts: EraFacts,
    pub(super) tools: Vec<Value>,
}

impl ServerProbe<'_> {
    pub(super) fn declares(&self, name: &str) -> bool {
        self.facts.capabilities.get(name).is_some_and(|it| !it.is_null())
    }

    /// A new connection, if the process has gone. How it went is told by the passive checks.
    pub(super) async fn reconnect_if_closed(&mut self) -> Result<(), Error> {
        if self.connection.is_over() { self.reconnect().await } else { Ok(()) }
    }

    /// A new connection in place of this one.
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

    /// A ping; and if that is not answered, whether anything is. With what is, the server is asked from then on whether it goes on.
    async fn answers(&mut self) -> bool {
        if self.connection.era != Era::Legacy {
            return true;
        }
        let answer = ask(&mut self.connection, "ping", json!({})).await;
        if matches!(answer, RequestOutcome::NoResponse) {
            let list = LISTS.iter().find(|(capability, ..)| self.declares(capability));
            let list = list.map_or("tools/list", |(_, list, _)| list);
            if let RequestOutcome::NoResponse = ask(&mut self.connection, list, json!({})).await {
                let detail = format!("initialize is answered, and neither ping nor {list} after it");
                self.harness.fail(&MUTE_SERVER, &self.connection, None, detail);
                return false;
            }
            self.harness.liveness_method = list;
            self.connection.set_liveness_method(list);
        }
        if self.harness.wants(&[&PING]) {
            self.harness.expect_result(&PING, &self.connection, "ping", &answer);
        }
        true
    }

    /// Every list, page by page.
    async fn lists(&mut self) -> Result<(), Error> {
        self.harness.progress("its lists");
        for (capability, method, member) in LISTS {
            if self.declares(capability) {
                self.reconnect_if_closed().await?;
                let items = self.pages(method, member).await;
                if *method == "tools/list" {
                    self.order(&items).await;
                    self.tools = items;
                }
            }
        }
        if !LISTS.iter().any(|(capability, ..)| self.declares(capability)) {
            self.harness.skip_all(&[&PAGINATION, &BAD_CURSOR], "the server has no lists");
        }
        Ok(())
    }

    /// All elements of a list.
    async fn pages(&mut self, method: &str, member: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), None::<Value>);
        let mut cursors = HashSet::new();
        for page in 1.. {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let answer = self.connection.ask(method, params).await;
            let RequestOutcome::Result(_, result) = &answer else {
                if cursor.is_some() && !matches!(answer, RequestOutcome::Disconnected) {
                    let detail =
                        format!("{method}: the cursor of page {} is answered with {}", page - 1, answer.describe());
                    self.harness.fail(&PAGINATION, &self.connection, Some(&answer), detail);
                }
                break;
            };
            self.harness.recording.inspected(&PAGINATION);
            if result.get("nextCursor").is_some_and(Value::is_null) {
                let detail = format!(
                    "{method}: nextCursor is null, which is no string; where there is no next page, there is none"
                );
                self.harness.fail(&PAGINATION, &self.connection, Some(&answer), detail);
            }
            items.extend(result[member].as_array().cloned().unwrap_or_default());
            let next = &result["nextCursor"];
            if next.is_null() {
                break;
            }
            let detail = match next {
                Value::String(text) if !cursors.insert(text.clone()) => {
                    Some(format!("{method}: the cursor of page {page} has been there before"))
                }
                Value::String(_) if page >= MOST_PAGES => Some(format!("{method} has more than {MOST_PAGES} pages")),
                Value::String(_) => None,
                _ => Some(format!("{method}: nextCursor is no string")),
            };
            if let Some(detail) = detail {
                self.harness.fail(&PAGINATION, &self.connection, Some(&answer), detail);
                break;
            }
            cursor = Some(next.clone());
            if self.harness.is_late() {
                break;
            }
        }
        items
    }

    /// The list of tools once more.
    async fn order(&mut self, before: &[Value]) {
        if !self.harness.wants(&[&LIST_ORDER]) || self.harness.recording.has_failed(&PAGINATION) {
            return;
        }
        if before.len() < 2 {
            self.harness.skip_all(&[&LIST_ORDER], "the server has fewer than two tools");
            return;
        }
        let answer = self.connection.ask("tools/list", json!({})).await;
        let RequestOutcome::Result(_, result) = &answer else { return };
        self.harness.recording.inspected(&LIST_ORDER);
        let names = |tools: &[Value]| -> Vec<Value> { tools.iter().map(|tool| tool["name"].clone()).collect() };
        let again = names(result["tools"].as_array().map_or(&[], Vec::as_slice));
        // The first page is enough, whatever its size.
        if !names(before).starts_with(&again) {
            self.harness.fail(&LIST_ORDER, &self.connection, Some(&answer), "tools/list, asked again");
        }
    }

    /// Methods, tools, prompts, resources and cursors that do not exist.
    async fn nothing_there(&mut self) -> Result<(), Error> {
        self.harness.progress("what does not exist");
        if self.harness.wants(&[&UNKNOWN_METHOD]) {
            let answer = ask(&mut self.connection, "barewire/no-such-method", json!({})).await;
            self.harness.expect_code(
                &UNKNOWN_METHOD,
                &self.connection,
                "a method that does not exist",
                &answer,
                &[-32601],
            );
        }
        let mut wrong = Vec::new();
        if self.declares("tools") {
            wrong.push(("a tool that does not exist", "tools/call", json!({"name": NO_SUCH, "arguments": {}})));
            wrong.push(("tools/call without a name", "tools/call", json!({"arguments": {}})));
        }
        if self.declares("prompts") {
            wrong.push(("a prompt that does not exist", "prompts/get", json!({"name": NO_SUCH})));
        }
        if wrong.is_empty() {
            self.harness.skip_all(&[&INVALID_PARAMS], "the server has neither tools nor prompts");
        }
        for (what, method, params) in wrong {
            if self.harness.wants(&[&INVALID_PARAMS]) {
                self.reconnect_if_closed().await?;
                let answer = ask(&mut self.connection, method, params).await;
                self.harness.expect_code(&INVALID_PARAMS, &self.connection, what, &answer, &[-32602]);
            }
        }
        if !self.declares("resources") {
            self.harness.skip_all(&[&RESOURCE_NOT_FOUND], "the server has no resources");
        } else if self.harness.wants(&[&RESOURCE_NOT_FOUND]) {
            self.reconnect_if_closed().await?;
            let answer =
                ask(&mut self.connection, "resources/read", json!({"uri": "barewire-check://no/such/resource"})).await;
            let codes: &[i64] = if self.connection.era == Era::Modern { &[-32602] } else { &[-32002, -32602] };
            self.harness.expect_code(
                &RESOURCE_NOT_FOUND,
                &self.connection,
                "a URI that does not exist",
                &answer,
                codes,
            );
        }
        let list = LISTS.iter().find(|(capability, ..)| self.declares(capability));
        if let Some((_, method, _)) = list
            && self.harness.wants(&[&BAD_CURSOR])
        {
            self.reconnect_if_closed().await?;
            let answer = ask(&mut self.connection, method, json!({"cursor": "barewire-no-such-cursor"})).await;
            let what = format!("{method} with a cursor that it has not given");
            self.harness.expect_code(&BAD_CURSOR, &self.connection, &what, &answer, &[-32602]);
        }
        Ok(())
    }

    /// What is declared, and what is not.
    async fn capabilities(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&CAPABILITY_TRUTH]) || self.facts.capabilities.is_null() {
            return Ok(());
        }
        self.harness.progress("its capabilities");
        let completion =
            json!({"ref": {"type": "ref/prompt", "name": NO_SUCH}, "argument": {"name": "a", "value": ""}});
        let mut asked = vec![
            ("tools", "tools/list", json!({})),
            ("resources", "resources/list", json!({})),
            ("prompts", "prompts/list", json!({})),
            ("completions", "completion/complete", completion),
        ];
        if self.connection.era == Era::Legacy {
            asked.push(("logging", "logging/setLevel", json!({"level": "error"})));
        }
        for (capability, method, params) in asked {
            if capability == "completions" && !self.connection.revision.has_completions_capability() {
                continue;
            }
            self.reconnect_if_closed().await?;
            // That it is not answered at all is told elsewhere.
            let answer = self.connection.ask(method, params).await;
            if answer.line().is_none() && !answer.is_refused() {
                self.harness.recording.skip(&CAPABILITY_TRUTH, SkipReason::Nothing("it was not answered".into()));
                continue;
            }
            self.harness.recording.inspected(&CAPABILITY_TRUTH);
            let is_missing = matches!(&answer, RequestOutcome::Error(response) if response.code == -32601);
            let detail = match (self.declares(capability), is_missing, &answer) {
                (true, true, _) => format!("{capability} is declared, and {method} is {}", answer.describe()),
                (false, false, RequestOutcome::Result(..)) => {
                    format!("{capability} is not declared, and {method} is answered with a result")
                }
                _ => continue,
            };
            self.harness.fail(&CAPABILITY_TRUTH, &self.connection, Some(&answer), detail);
        }
        Ok(())
    }

    /// Ids that are easily changed. What comes under another one is told by the passive checks.
    async fn ids(&mut self) -> Result<(), Error> {
        if !self.harness.wants(&[&ID_FIDELITY]) {
            return Ok(());
        }
        self.harness.progress("ids");
        self.reconnect_if_closed().await?;
        let method = self.connection.liveness_method();
        for id in IDS {
            let params = self.connection.with_meta(json!({}));
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
            self.connection.send(line.as_bytes()).await;
            self.connection.claim(id);
            let answer = self.connection.wait_for_response(id).await;
            match &answer {
                // Of such numbers RFC 8259 says that not everybody can hold them: they may be passed over, but not changed.
                RequestOutcome::NoResponse if *id == BEYOND => continue,
                RequestOutcome::NoResponse if !self.harness.recording.has_failed(&ID_FIDELITY) => {
                    let detail = format!("nothing comes for the id {id}");
                    self.harness.fail(&ID_FIDELITY, &self.connection, None, detail);
                }
                // Equal by value is not enough: the sender may compare by text.
                RequestOutcome::Result(line, _)
                    if !has_id(&line.bytes, id) && !self.harness.recording.has_failed(&ID_FIDELITY) =>
                {
                    let detail = format!("the id {id} comes back written in another way");
                    self.harness.fail(&ID_FIDELITY, &self.connection, Some(&answer), detail);
                }
                _ => {}
            }
            if !matches!(answer, RequestOutcome::Result(..) | RequestOutcome::Error(_)) {
                break;
            }
        }
        Ok(())
    }

    /// Notifications of several kinds. What comes for them is told by the passive checks.
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
        // A server that answers one after the other has answered them when it answers this.
        self.connection.still_answers().await;
        self.connection.wait_until_quiet().await;
        Ok(())
    }
}

/// Whether the object has this id, as it is written.
fn has_id(line: &[u8], id: &str) -> bool {
    let json = barewire_proto::json::Json::parse(line).ok();
    // A string may be written with other escapes and is still the same.
    let same = |text: &str| text == id || id.starts_with('"') && text.starts_with('"');
    json.is_some_and(|json| json.members().any(|member| member.name == "id" && same(member.value.as_str())))
}

/// The lists, with the capability that they need and the member that holds them.
const LISTS: &[(&str, &str, &str)] = &[
    ("tools", "tools/list", "tools"),
    ("resources", "resources/list", "resources"),
    ("prompts", "prompts/list", "prompts"),
];

/// Strings of digits, escapes, integers that no float holds, zero, negative ones, nothing.
const IDS: &[&str] =
    &["\"7\"", "\"\"", "\"a\\u00e4\\n\\\"\"", "0", "-1", "\"00000000-0000-4000-8000-000000000000\"", BEYOND];

/// One more than the integers that a float of 64 bits holds without gaps.
const BEYOND: &str = "9007199254740993";

const NO_SUCH: &str = "barewire-no-such";

/// As many as a client of ours follows.
const MOST_PAGES: usize = 1000;
