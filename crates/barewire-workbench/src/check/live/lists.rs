//! The lists of a server, page by page -> its tools, and the resources and prompts that are requested later.

use std::collections::HashSet;
use std::hash::BuildHasher;

use barewire_proto::json::Kind;
use serde_json::json;

use super::ordinary::{Judgement, LISTS, ServerProbe};
use super::outcome::RequestOutcome;
use super::tool::{ListedTool, MAX_TOOLS, tool_name, tools};
use crate::Error;
use crate::check::catalogue::flow::{BAD_CURSOR, PAGINATION};
use crate::check::catalogue::tools::LIST_ORDER;

impl ServerProbe<'_> {
    /// Reads all lists that the server declares.
    pub(super) async fn lists(&mut self) -> Result<(), Error> {
        let _subject = self.harness.progress("lists");
        self.begin_pins();
        for (capability, method) in LISTS {
            if self.declares(capability) {
                self.reconnect_if_closed().await?;
                self.pages(method, capability).await;
                if *capability == "tools" {
                    self.order().await;
                }
            }
        }
        if self.harness.pins.is_some() && self.declares("resources") {
            self.reconnect_if_closed().await?;
            self.pages("resources/templates/list", "resourceTemplates").await;
        }
        if self.facts.declared_list().is_none() {
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
            let id = self.connection.send_request(method, params).await;
            let outcome = match self.connection.early_response(&id).await {
                Some(outcome) => outcome,
                // Another page must be waited for. If the first one is missing, only this list is.
                None if cursor.is_none() && page == 1 && member != "tools" && self.harness.pins.is_none() => {
                    self.deferred.push((id, Judgement::Passive));
                    break;
                }
                None => self.connection.settled_response(&id).await,
            };
            let fail = |detail: String| {
                self.harness.fail(&PAGINATION, &self.connection, Some(&outcome), format!("{method}: {detail}"));
            };
            self.judge_silence(method, &outcome);
            self.pin_page(method, &outcome);
            let RequestOutcome::Result(result) = &outcome else {
                if cursor.is_some() && !matches!(outcome, RequestOutcome::Disconnected(_)) {
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
            self.listed.keep(result);
            let Some(next) = result.at(&["nextCursor"]) else { break };
            let Some(next) = next.string() else {
                let is_null = next.kind() == Kind::Null;
                let what =
                    if is_null { "nextCursor is null; omit it on the last page" } else { "nextCursor is not a string" };
                fail(what.to_owned());
                break;
            };
            self.pin_gap(method);
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
        let mut before = self.tools.iter().map(|tool| tool.name.as_deref());
        let mut params = json!({});
        for page in 1..=MAX_PAGES {
            let outcome = self.connection.request("tools/list", params).await;
            let RequestOutcome::Result(result) = &outcome else { return };
            self.harness.recording.ledger().inspected(&LIST_ORDER);
            let is_same = |tool| before.next().is_some_and(|name| name == tool_name(tool).as_deref());
            let next = result.string(&["nextCursor"]);
            let may_have_more = next.is_some() || self.tools.len() == MAX_TOOLS;
            if !tools(result).take(MAX_TOOLS).all(is_same) || !may_have_more && before.next().is_some() {
                let detail = match page {
                    1 => "a second tools/list has other tools or another order than the first".to_owned(),
                    page => format!("page {page} of a second tools/list has other tools or another order"),
                };
                return self.harness.fail(&LIST_ORDER, &self.connection, Some(&outcome), detail);
            }
            let Some(next) = next.filter(|_| self.tools.len() < MAX_TOOLS && !self.harness.is_late()) else { return };
            params = json!({"cursor": next});
        }
    }
}

/// The maximum number of pages of a list; barewire's client has the same limit.
const MAX_PAGES: usize = 1000;
