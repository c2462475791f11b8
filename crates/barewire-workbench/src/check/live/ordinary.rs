//! What a well-behaved client asks: lists, what does not exist, odd ids, notifications, tools; on one connection.

use std::collections::HashSet;

use barewire_proto::mcp::Era;
use serde_json::{Value, json};

use super::answer::Answer;
use super::eras::Surface;
use super::lab::{Lab, ask};
use super::talk::Talk;
use super::{calls, ending, modern};
use crate::Error;
use crate::check::catalogue::envelope::{ID_FIDELITY, NOTIFICATION_SILENCE};
use crate::check::catalogue::flow::{BAD_CURSOR, PAGINATION};
use crate::check::catalogue::lifecycle::MUTE_SERVER;
use crate::check::catalogue::methods::{CAPABILITY_TRUTH, INVALID_PARAMS, PING, RESOURCE_NOT_FOUND, UNKNOWN_METHOD};
use crate::check::catalogue::tools::LIST_ORDER;
use crate::check::ledger::Skip;

/// `false` if nothing is answered, so that there is no use in asking more.
pub(super) async fn run(lab: &mut Lab, talk: Talk, surface: Surface) -> Result<bool, Error> {
    let era = talk.era;
    let mut bench = Bench { lab, talk, surface, tools: Vec::new() };
    if !bench.answers().await {
        let Bench { lab, talk, .. } = bench;
        lab.end(talk).await;
        return Ok(false);
    }
    bench.lists().await?;
    bench.nothing_there().await?;
    bench.capabilities().await?;
    bench.ids().await?;
    bench.notifications().await?;
    bench.revive().await?;
    calls::run(&mut bench).await?;
    if era == Era::Modern {
        bench.revive().await?;
        modern::run(&mut bench).await?;
    }
    let Bench { lab, talk, .. } = bench;
    if lab.is_http() {
        lab.end(talk).await;
        return Ok(true);
    }
    lab.progress("how it ends");
    ending::judge(lab, talk).await;
    Ok(true)
}

/// A connection and what is known of the server behind it.
pub(super) struct Bench<'a> {
    pub(super) lab: &'a mut Lab,
    pub(super) talk: Talk,
    pub(super) surface: Surface,
    pub(super) tools: Vec<Value>,
}

impl Bench<'_> {
    pub(super) fn declares(&self, name: &str) -> bool {
        self.surface.capabilities.get(name).is_some_and(|it| !it.is_null())
    }

    /// A new connection, if the process has gone. How it went is told by the passive checks.
    pub(super) async fn revive(&mut self) -> Result<(), Error> {
        if self.talk.is_over() { self.renew().await } else { Ok(()) }
    }

    /// A new connection in place of this one.
    pub(super) async fn renew(&mut self) -> Result<(), Error> {
        if self.lab.is_late() {
            return Ok(());
        }
        if let Some(talk) = self.lab.fresh(self.talk.era, false).await? {
            let old = std::mem::replace(&mut self.talk, talk);
            self.lab.end(old).await;
        }
        Ok(())
    }

    /// A ping; and if that is not answered, whether anything is. With what is, the server is asked from then on whether it goes on.
    async fn answers(&mut self) -> bool {
        if self.talk.era != Era::Legacy {
            return true;
        }
        let answer = ask(&mut self.talk, "ping", json!({})).await;
        if matches!(answer, Answer::Silence) {
            let list = LISTS.iter().find(|(capability, ..)| self.declares(capability));
            let list = list.map_or("tools/list", |(_, list, _)| list);
            if let Answer::Silence = ask(&mut self.talk, list, json!({})).await {
                let detail = format!("initialize is answered, and neither ping nor {list} after it");
                self.lab.fail(&MUTE_SERVER, &self.talk, None, detail);
                return false;
            }
            self.lab.light = list;
            self.talk.probe_with(list);
        }
        if self.lab.wants(&[&PING]) {
            self.lab.expect_result(&PING, &self.talk, "ping", &answer);
        }
        true
    }

    /// Every list, page by page.
    async fn lists(&mut self) -> Result<(), Error> {
        self.lab.progress("its lists");
        for (capability, method, member) in LISTS {
            if self.declares(capability) {
                self.revive().await?;
                let items = self.pages(method, member).await;
                if *method == "tools/list" {
                    self.order(&items).await;
                    self.tools = items;
                }
            }
        }
        if !LISTS.iter().any(|(capability, ..)| self.declares(capability)) {
            self.lab.nothing(&[&PAGINATION, &BAD_CURSOR], "the server has no lists");
        }
        Ok(())
    }

    /// All elements of a list.
    async fn pages(&mut self, method: &str, member: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), None::<Value>);
        let mut cursors = HashSet::new();
        for page in 1.. {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
            let answer = self.talk.ask(method, params).await;
            let Answer::Result(_, result) = &answer else {
                if cursor.is_some() && !matches!(answer, Answer::Ended) {
                    let detail =
                        format!("{method}: the cursor of page {} is answered with {}", page - 1, answer.told());
                    self.lab.fail(&PAGINATION, &self.talk, Some(&answer), detail);
                }
                break;
            };
            self.lab.tape.look(&PAGINATION);
            if result.get("nextCursor").is_some_and(Value::is_null) {
                let detail = format!(
                    "{method}: nextCursor is null, which is no string; where there is no next page, there is none"
                );
                self.lab.fail(&PAGINATION, &self.talk, Some(&answer), detail);
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
                self.lab.fail(&PAGINATION, &self.talk, Some(&answer), detail);
                break;
            }
            cursor = Some(next.clone());
            if self.lab.is_late() {
                break;
            }
        }
        items
    }

    /// The list of tools once more.
    async fn order(&mut self, before: &[Value]) {
        if !self.lab.wants(&[&LIST_ORDER]) || self.lab.tape.has_failed(&PAGINATION) {
            return;
        }
        if before.len() < 2 {
            self.lab.nothing(&[&LIST_ORDER], "the server has fewer than two tools");
            return;
        }
        let answer = self.talk.ask("tools/list", json!({})).await;
        let Answer::Result(_, result) = &answer else { return };
        self.lab.tape.look(&LIST_ORDER);
        let names = |tools: &[Value]| -> Vec<Value> { tools.iter().map(|tool| tool["name"].clone()).collect() };
        let again = names(result["tools"].as_array().map_or(&[], Vec::as_slice));
        // The first page is enough, whatever its size.
        if !names(before).starts_with(&again) {
            self.lab.fail(&LIST_ORDER, &self.talk, Some(&answer), "tools/list, asked again");
        }
    }

    /// Methods, tools, prompts, resources and cursors that do not exist.
    async fn nothing_there(&mut self) -> Result<(), Error> {
        self.lab.progress("what does not exist");
        if self.lab.wants(&[&UNKNOWN_METHOD]) {
            let answer = ask(&mut self.talk, "barewire/no-such-method", json!({})).await;
            self.lab.expect_code(&UNKNOWN_METHOD, &self.talk, "a method that does not exist", &answer, &[-32601]);
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
            self.lab.nothing(&[&INVALID_PARAMS], "the server has neither tools nor prompts");
        }
        for (what, method, params) in wrong {
            if self.lab.wants(&[&INVALID_PARAMS]) {
                self.revive().await?;
                let answer = ask(&mut self.talk, method, params).await;
                self.lab.expect_code(&INVALID_PARAMS, &self.talk, what, &answer, &[-32602]);
            }
        }
        if !self.declares("resources") {
            self.lab.nothing(&[&RESOURCE_NOT_FOUND], "the server has no resources");
        } else if self.lab.wants(&[&RESOURCE_NOT_FOUND]) {
            self.revive().await?;
            let answer =
                ask(&mut self.talk, "resources/read", json!({"uri": "barewire-check://no/such/resource"})).await;
            let codes: &[i64] = if self.talk.era == Era::Modern { &[-32602] } else { &[-32002, -32602] };
            self.lab.expect_code(&RESOURCE_NOT_FOUND, &self.talk, "a URI that does not exist", &answer, codes);
        }
        let list = LISTS.iter().find(|(capability, ..)| self.declares(capability));
        if let Some((_, method, _)) = list
            && self.lab.wants(&[&BAD_CURSOR])
        {
            self.revive().await?;
            let answer = ask(&mut self.talk, method, json!({"cursor": "barewire-no-such-cursor"})).await;
            let what = format!("{method} with a cursor that it has not given");
            self.lab.expect_code(&BAD_CURSOR, &self.talk, &what, &answer, &[-32602]);
        }
        Ok(())
    }

    /// What is declared, and what is not.
    async fn capabilities(&mut self) -> Result<(), Error> {
        if !self.lab.wants(&[&CAPABILITY_TRUTH]) || self.surface.capabilities.is_null() {
            return Ok(());
        }
        self.lab.progress("its capabilities");
        let completion =
            json!({"ref": {"type": "ref/prompt", "name": NO_SUCH}, "argument": {"name": "a", "value": ""}});
        let mut asked = vec![
            ("tools", "tools/list", json!({})),
            ("resources", "resources/list", json!({})),
            ("prompts", "prompts/list", json!({})),
            ("completions", "completion/complete", completion),
        ];
        if self.talk.era == Era::Legacy {
            asked.push(("logging", "logging/setLevel", json!({"level": "error"})));
        }
        for (capability, method, params) in asked {
            if capability == "completions" && !self.talk.revision.has_completions_capability() {
                continue;
            }
            self.revive().await?;
            // That it is not answered at all is told elsewhere.
            let answer = self.talk.ask(method, params).await;
            if answer.line().is_none() && !answer.is_refused() {
                self.lab.tape.skip(&CAPABILITY_TRUTH, Skip::Nothing("it was not answered".into()));
                continue;
            }
            self.lab.tape.look(&CAPABILITY_TRUTH);
            let is_missing = matches!(&answer, Answer::Error(failed) if failed.code == -32601);
            let detail = match (self.declares(capability), is_missing, &answer) {
                (true, true, _) => format!("{capability} is declared, and {method} is {}", answer.told()),
                (false, false, Answer::Result(..)) => {
                    format!("{capability} is not declared, and {method} is answered with a result")
                }
                _ => continue,
            };
            self.lab.fail(&CAPABILITY_TRUTH, &self.talk, Some(&answer), detail);
        }
        Ok(())
    }

    /// Ids that are easily changed. What comes under another one is told by the passive checks.
    async fn ids(&mut self) -> Result<(), Error> {
        if !self.lab.wants(&[&ID_FIDELITY]) {
            return Ok(());
        }
        self.lab.progress("ids");
        self.revive().await?;
        let method = self.talk.light();
        for id in IDS {
            let params = self.talk.with_meta(json!({}));
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
            self.talk.send(line.as_bytes()).await;
            self.talk.claim(id);
            let answer = self.talk.answer(id).await;
            match &answer {
                // Of such numbers RFC 8259 says that not everybody can hold them: they may be passed over, but not changed.
                Answer::Silence if *id == BEYOND => continue,
                Answer::Silence if !self.lab.tape.has_failed(&ID_FIDELITY) => {
                    let detail = format!("nothing comes for the id {id}");
                    self.lab.fail(&ID_FIDELITY, &self.talk, None, detail);
                }
                // Equal by value is not enough: the sender may compare by text.
                Answer::Result(line, _) if !has_id(&line.bytes, id) && !self.lab.tape.has_failed(&ID_FIDELITY) => {
                    let detail = format!("the id {id} comes back written in another way");
                    self.lab.fail(&ID_FIDELITY, &self.talk, Some(&answer), detail);
                }
                _ => {}
            }
            if !matches!(answer, Answer::Result(..) | Answer::Error(_)) {
                break;
            }
        }
        Ok(())
    }

    /// Notifications of several kinds. What comes for them is told by the passive checks.
    async fn notifications(&mut self) -> Result<(), Error> {
        if !self.lab.wants(&[&NOTIFICATION_SILENCE]) {
            return Ok(());
        }
        self.lab.progress("notifications");
        self.revive().await?;
        self.talk.notify("notifications/barewire/no-such", json!({})).await;
        if self.talk.era == Era::Legacy {
            self.talk.notify("notifications/roots/list_changed", json!({})).await;
            self.talk.notify("notifications/initialized", json!({})).await;
        }
        // A server that answers one after the other has answered them when it answers this.
        self.talk.goes_on().await;
        self.talk.quieten().await;
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
