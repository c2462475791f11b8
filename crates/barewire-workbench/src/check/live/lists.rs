//! The lists of a server, page by page -> its tools, and the resources and prompts that are requested later.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::BuildHasher;

use barewire_proto::json::{Json, Kind};
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
                let changes = self.connection.list_changes;
                self.pages(method, capability).await;
                if *capability == "tools" {
                    self.order(changes).await;
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
        let changes = self.connection.list_changes;
        let (mut cursors, mut entries, mut old_pages) = (HashSet::new(), HashSet::new(), 0);
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
            if cursor.is_some() && matches!(outcome, RequestOutcome::Error(_)) && self.has_changed(changes).await {
                // The cursor may belong to the list before the change.
                break;
            }
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
            let new = result
                .at(&[member])
                .into_iter()
                .flat_map(Json::elements)
                .map(|entry| entries.len() < MAX_TOOLS && entries.insert(self.hasher.hash_one(entry.as_str())));
            // An empty page may be one from which the server has removed everything.
            old_pages = match new.fold(None, |page, is_new| Some(page.unwrap_or(false) || is_new)) {
                Some(false) if entries.len() < MAX_TOOLS => old_pages + 1,
                _ => 0,
            };
            if old_pages >= MAX_OLD_PAGES {
                fail(format!("the last {MAX_OLD_PAGES} pages have only entries of the pages before"));
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

    /// Whether the server has said that a list has changed, since there were this many notifications about changes.
    async fn has_changed(&mut self, changes: usize) -> bool {
        // The notification may follow the response.
        self.connection.wait_until_quiet().await;
        self.connection.list_changes > changes
    }

    /// Requests the list of tools again, and checks that it has the same tools in the same order. A list may change
    /// once, and often if the server says so: `changes` is the number of notifications before the first request.
    async fn order(&mut self, changes: usize) {
        if !self.harness.wants(&[&LIST_ORDER]) || self.harness.recording.ledger().has_failed(&PAGINATION) {
            return;
        }
        if self.tools.len() < 2 {
            self.harness.skip_all(&[&LIST_ORDER], "the server has fewer than two tools");
            return;
        }
        let mut before: Vec<Option<String>> = self.tools.iter().map(|tool| tool.name.clone()).collect();
        let mut differences = Vec::new();
        for _ in 0..MAX_LISTINGS {
            let Some((names, difference)) = self.list_again(&before).await else { return };
            differences.extend(difference);
            if differences.len() != 1 {
                break;
            }
            before = names;
        }
        if differences.len() < 2 || self.has_changed(changes).await {
            return;
        }
        let (page, outcome) = &differences[0];
        let detail = match page {
            1 => "a second tools/list has other tools or another order than the first".to_owned(),
            page => format!("page {page} of a second tools/list has other tools or another order"),
        };
        self.harness.fail(&LIST_ORDER, &self.connection, Some(outcome), detail);
    }

    /// Requests the list of tools again. Returns the names, and the first page that differs from the list before with
    /// its number, if there is one; `None` if a page is not answered with a result.
    async fn list_again(&mut self, before: &[Option<String>]) -> Option<(Vec<Option<String>>, Option<ListedPage>)> {
        let (mut names, mut difference) = (Vec::new(), None);
        let mut params = json!({});
        for page in 1..=MAX_PAGES {
            let outcome = self.connection.request("tools/list", params).await;
            let RequestOutcome::Result(result) = &outcome else { return None };
            self.harness.recording.ledger().inspected(&LIST_ORDER);
            let begin = names.len();
            names.extend(tools(result).map(tool_name).take(MAX_TOOLS - begin));
            let next = result.string(&["nextCursor"]).map(Cow::into_owned);
            let is_end = next.is_none() && names.len() != before.len();
            if difference.is_none() && (is_end || before.get(begin..names.len()) != Some(&names[begin..])) {
                difference = Some((page, outcome));
            }
            params = match next.filter(|_| names.len() < MAX_TOOLS && !self.harness.is_late()) {
                Some(next) => json!({"cursor": next}),
                None => break,
            };
        }
        Some((names, difference))
    }
}

/// The number of a page, and the response with it.
type ListedPage = (usize, RequestOutcome);

/// The maximum number of times that a list is requested again, if it differs the first time.
const MAX_LISTINGS: usize = 4;
/// The number of pages in a row without a new entry after which a list has no end. An entry that moves to a later page
/// while the list changes is no new one, but not a whole page of them again and again.
const MAX_OLD_PAGES: usize = 10;
/// The maximum number of pages of a list; barewire's client has the same limit.
const MAX_PAGES: usize = 1000;
