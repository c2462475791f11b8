//! Definitions that are listed again -> those that have changed without a notice.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::{Message, Params, Request};

use super::MessageContext;
use super::pages::Pages;
use crate::check::catalogue::Rule;
use crate::check::catalogue::definitions::{
    DEFINITION_CHANGES, PROMPTS_NOTICE, QUIET_CHANGE, RESOURCES_NOTICE, TOOLS_NOTICE,
};
use crate::check::definitions::leaves::leaves;
use crate::check::definitions::{DEFINITION_LISTS, DefinitionKind, DefinitionList};
use crate::check::finding::Finding;
use crate::check::ledger::Ledger;
use crate::operations::{Operation, Relation, member};
use crate::text::shown;

#[derive(Default)]
pub(super) struct ChangeChecks {
    /// Maps the scope of each server and each kind to the definitions that were listed: each by the hashes of the
    /// client and of the name.
    known: HashMap<(String, DefinitionKind), HashMap<(u64, u64), KnownDefinition>>,
    /// The cost of all known definitions.
    cost: usize,
    /// Maps the operation number of each request to the hash of what a result may depend on.
    clients: HashMap<u64, u64>,
    /// The number of the first operation of each list that has several pages.
    listings: Pages<u64>,
    /// The operation numbers of open `subscriptions/listen` requests on stdio, with scope and kind.
    listens: HashMap<u64, Vec<(String, DefinitionKind)>>,
    /// The scopes of legacy HTTP sessions in which the server has sent something on a stream of its own.
    streams: Vec<String>,
    /// Changes whose notice may still arrive.
    pending: Vec<PendingChange>,
    hasher: RandomState,
}

struct KnownDefinition {
    /// The hashes of the pointer and the value of each leaf.
    leaves: Box<[(u64, u64)]>,
    /// The number of the first operation of the list.
    listing: u64,
    /// Whether the name occurs twice in a list, so that it is not known which of the definitions is which.
    is_ambiguous: bool,
    frame: u64,
    /// The time until which the definition is fresh by the server's own `ttlMs`.
    fresh_until: Option<Duration>,
}

/// A change whose notice has not arrived.
struct PendingChange {
    scope: String,
    kind: DefinitionKind,
    since: Option<Duration>,
    finding: Finding,
}

impl ChangeChecks {
    pub(super) fn message(&mut self, context: &MessageContext<'_>, ledger: &mut Ledger) {
        let tracked = context.tracked;
        let now = tracked.frame.place.and_then(|place| place.time);
        self.settle(now, ledger);
        match (tracked.message, tracked.relation) {
            (Ok(Message::Request(request)), Relation::Request { operation, .. }) if !context.by_server() => {
                self.request(context, operation, request);
            }
            (Ok(Message::Response(response)), Relation::Response { operation, .. }) if context.by_server() => {
                self.listens.remove(&operation.number);
                let client = self.clients.remove(&operation.number);
                match (response.outcome, DefinitionList::of_method(&operation.method), client) {
                    (Ok(result), Some(list), Some(client)) => {
                        self.listed(context, operation, list, result, client, ledger)
                    }
                    (Ok(result), None, Some(client)) => self.discovered(context, operation, result, client, ledger),
                    // The server may have been started again.
                    (Ok(_), None, None) if operation.method == "initialize" => {
                        DefinitionKind::ALL.into_iter().for_each(|kind| self.forget(&(context.scope(), kind)));
                    }
                    (Err(_), Some(_), _) => drop(self.listings.take_before(operation.number)),
                    _ => {}
                }
            }
            (Ok(Message::Notification(_)), Relation::Cancellation { operation }) => {
                self.listens.remove(&operation.number);
            }
            (Ok(Message::Notification(notification)), _) if context.by_server() => {
                let scope = context.scope();
                let lists = DEFINITION_LISTS.iter().filter(|list| notification.method == list.notice);
                for list in lists {
                    self.forget(&(scope.clone(), list.kind));
                    self.pending.retain(|it| it.scope != scope || it.kind != list.kind);
                }
                self.stream(context, &scope);
            }
            _ => {}
        }
    }

    /// Reports the changes without a notice. To be called at the end.
    pub(super) fn finish(&mut self, ledger: &mut Ledger) {
        self.pending.drain(..).for_each(|change| ledger.fail(change.finding));
    }

    /// Reports the changes whose notice has not arrived in time.
    fn settle(&mut self, now: Option<Duration>, ledger: &mut Ledger) {
        let Some(now) = now else { return };
        let is_over = |change: &mut PendingChange| change.since.is_some_and(|since| now > since + NOTICE_TIME);
        for change in self.pending.extract_if(.., is_over) {
            ledger.fail(change.finding);
        }
    }

    fn request(&mut self, context: &MessageContext<'_>, operation: &Operation, request: &Request<'_>) {
        if operation.method == "subscriptions/listen" && !context.tracked.conversation.over_http {
            let filter = member(request.params.map(Params::json), "notifications");
            let wants = |name: &str| member(filter, name).is_some_and(|it| it.kind() == Kind::True);
            let kinds = [
                ("toolsListChanged", &[DefinitionKind::Tool][..]),
                ("promptsListChanged", &[DefinitionKind::Prompt]),
                ("resourcesListChanged", &[DefinitionKind::Resource, DefinitionKind::Template]),
            ];
            let kinds = kinds.into_iter().filter(|(name, _)| wants(name)).flat_map(|(_, kinds)| kinds);
            if self.listens.len() < MAX_REQUESTS {
                let scope = context.scope();
                self.listens.insert(operation.number, kinds.map(|kind| (scope.clone(), *kind)).collect());
            }
            return;
        }
        if DefinitionList::of_method(&operation.method).is_none() && operation.method != "server/discover" {
            return;
        }
        self.listings.request(context);
        if self.clients.len() >= MAX_REQUESTS {
            self.clients.clear();
        }
        if let Some(client) = self.client(context, request) {
            self.clients.insert(operation.number, client);
        }
    }

    /// Returns a hash of all that the result of a list may depend on: the revision, the parameters without the cursor,
    /// and over HTTP the headers, which include the credentials. Returns `None` if the parameters are too large.
    fn client(&self, context: &MessageContext<'_>, request: &Request<'_>) -> Option<u64> {
        let is_left_out = |pointer: &str| {
            let name = pointer.strip_prefix("/_meta/").unwrap_or(pointer);
            matches!(name, "/cursor" | "progressToken" | "traceparent" | "tracestate" | "baggage")
        };
        let params = match request.params {
            Some(params) => leaves(params.json(), is_left_out)?,
            None => Vec::new(),
        };
        // Empty parameters are the same as none.
        let is_empty = |pointer: &str, value: &str| matches!(pointer, "" | "/_meta") && value == "{}";
        let params: Vec<_> = params.iter().map(|leaf| (leaf.pointer.as_str(), leaf.value.as_str())).collect();
        let params: Vec<_> = params.into_iter().filter(|(pointer, value)| !is_empty(pointer, value)).collect();
        let headers = context.tracked.exchange.map(|exchange| {
            let kept = |(name, _): &&(String, String)| !REQUEST_HEADERS.contains(&name.as_str());
            let mut headers: Vec<_> = exchange.request_headers.iter().filter(kept).collect();
            headers.sort();
            headers
        });
        let revision = context.revision.map(|revision| revision.to_string());
        Some(self.hasher.hash_one((revision, params, headers)))
    }

    fn listed(
        &mut self,
        context: &MessageContext<'_>,
        operation: &Operation,
        list: &'static DefinitionList,
        result: Json<'_>,
        client: u64,
        ledger: &mut Ledger,
    ) {
        let listing = self.listings.take_before(operation.number).unwrap_or(operation.number);
        self.listings.keep(context, &operation.method, result, listing);
        let fresh_until = fresh_until(context, result);
        for definition in list.definitions(result).take(MAX_NAMES) {
            let Some(name) = definition.name() else { continue };
            let (pointer, json) = (definition.pointer(), definition.json);
            let seen = SeenDefinition { kind: list.kind, name, pointer, json, listing, fresh_until };
            self.definition(context, &seen, client, ledger);
        }
    }

    fn discovered(
        &mut self,
        context: &MessageContext<'_>,
        operation: &Operation,
        result: Json<'_>,
        client: u64,
        ledger: &mut Ledger,
    ) {
        let Some(json) = member(Some(result), "instructions") else { return };
        let (kind, name) = (DefinitionKind::Instructions, String::new());
        let pointer = "/result/instructions".to_owned();
        let fresh_until = fresh_until(context, result);
        let seen = SeenDefinition { kind, name, pointer, json, listing: operation.number, fresh_until };
        self.definition(context, &seen, client, ledger);
    }

    /// Compares a definition with the one that the same client got before, and keeps it.
    fn definition(
        &mut self,
        context: &MessageContext<'_>,
        seen: &SeenDefinition<'_>,
        client: u64,
        ledger: &mut Ledger,
    ) {
        let is_left_out = |pointer: &str| pointer.starts_with("/_meta") || seen.kind.is_data(pointer);
        let Some(leaves) = leaves(seen.json, is_left_out) else { return };
        // Redaction may replace the same text in different ways.
        if context.tracked.frame.place.is_some_and(|place| place.redacted) {
            return;
        }
        let hashed = |text: &str| self.hasher.hash_one(text);
        let hashes: Vec<(u64, u64)> = leaves.iter().map(|leaf| (hashed(&leaf.pointer), hashed(&leaf.value))).collect();
        let key = (context.scope(), seen.kind);
        let name = hashed(&seen.name);
        let time = context.tracked.frame.place.and_then(|place| place.time);
        let mut new = KnownDefinition {
            leaves: hashes.into(),
            listing: seen.listing,
            is_ambiguous: false,
            frame: context.tracked.frame.number,
            fresh_until: seen.fresh_until,
        };
        let before = self.known.get(&key).and_then(|known| known.get(&(client, name)));
        if let Some(before) = before {
            new.is_ambiguous = before.is_ambiguous || before.listing == new.listing;
            ledger.inspected(&DEFINITION_CHANGES);
            if !new.is_ambiguous
                && before.leaves != new.leaves
                && let Some((rule, why)) = self.rule(context, &key, before, time)
            {
                let old: HashMap<u64, u64> = before.leaves.iter().copied().collect();
                let is_new = |at: &usize| old.get(&new.leaves[*at].0) != Some(&new.leaves[*at].1);
                let changed = (0..leaves.len()).filter(is_new).map(|at| leaves[at].pointer.as_str());
                // The instructions are one string.
                let changed = changed.map(|pointer| if pointer.is_empty() { "all of it" } else { pointer });
                let changed: Vec<&str> = changed.take(MAX_MEMBERS).collect();
                let members = if changed.is_empty() { "a member is gone".to_owned() } else { changed.join(", ") };
                let name = match seen.kind {
                    DefinitionKind::Instructions => "the text of the instructions".to_owned(),
                    kind => format!("the {} {}", kind.as_str(), shown(seen.name.as_bytes(), 60)),
                };
                let detail = format!("{name} differs from frame {}: {members}{why}", before.frame);
                let finding = context.finding(&DEFINITION_CHANGES, 0, detail).at(&seen.pointer).under(rule);
                let (scope, kind) = key.clone();
                if self.pending.len() < MAX_PENDING {
                    self.pending.push(PendingChange { scope, kind, since: time, finding });
                }
            }
        }
        self.cost += new.cost();
        if self.cost > MAX_COST {
            self.known.clear();
            self.cost = new.cost();
        }
        let replaced = self.known.entry(key).or_default().insert((client, name), new);
        self.cost -= replaced.map_or(0, |replaced| replaced.cost());
    }

    /// Forgets the definitions of a list.
    fn forget(&mut self, key: &(String, DefinitionKind)) {
        let known = self.known.remove(key).unwrap_or_default();
        self.cost -= known.values().map(KnownDefinition::cost).sum::<usize>();
    }

    /// Returns the rule that a change breaks, and a remark; `None` if the server need not give notice.
    fn rule(
        &self,
        context: &MessageContext<'_>,
        key: &(String, DefinitionKind),
        before: &KnownDefinition,
        now: Option<Duration>,
    ) -> Option<(&'static Rule, String)> {
        let declared = context.tracked.conversation.server_capabilities.as_deref();
        let declared = declared.and_then(|text| Json::parse(text.as_bytes()).ok());
        let list = DEFINITION_LISTS.iter().find(|list| list.kind == key.1);
        let declares = list.zip(declared).and_then(|(list, declared)| declared.at(&[list.capability, "listChanged"]));
        let declares = declares.is_some_and(|it| it.kind() == Kind::True);
        let written = match key.1 {
            DefinitionKind::Instructions => None,
            DefinitionKind::Tool => Some(&TOOLS_NOTICE),
            DefinitionKind::Prompt => Some(&PROMPTS_NOTICE),
            DefinitionKind::Resource | DefinitionKind::Template => Some(&RESOURCES_NOTICE),
        };
        if context.is_modern() {
            // A modern server gives notice only to a client that listens. Over HTTP it is not known when a client
            // stops listening.
            let listens = self.listens.values().flatten().any(|listened| listened == key);
            if let (true, true, Some(written)) = (listens, declares, written) {
                return Some((written, String::new()));
            }
            // MCP 2026-07-28, caching: the TTL is "not a guarantee", but a client that trusts it shows what is gone.
            let is_fresh = before.fresh_until.zip(now).is_some_and(|(until, now)| now < until);
            return is_fresh.then(|| (&QUIET_CHANGE, format!("; the result in frame {} is still fresh", before.frame)));
        }
        let conversation = context.tracked.conversation;
        let is_sse = context.tracked.exchange.is_some_and(|exchange| exchange.is_sse_transport);
        // Without a stream of its own, a server over HTTP cannot give notice.
        if conversation.over_http && !is_sse && !self.streams.contains(&key.0) {
            return None;
        }
        match (declares, written) {
            (true, Some(written)) => Some((written, String::new())),
            (_, _) => Some((&QUIET_CHANGE, String::new())),
        }
    }

    /// Remembers a session in which the server has sent something on a stream that the client opened with GET.
    fn stream(&mut self, context: &MessageContext<'_>, scope: &str) {
        let is_get = context.tracked.exchange.is_some_and(|exchange| exchange.method() == Some("GET"));
        if is_get && self.streams.len() < MAX_STREAMS && !self.streams.iter().any(|known| known == scope) {
            self.streams.push(scope.to_owned());
        }
    }
}

/// A definition in a result.
struct SeenDefinition<'a> {
    kind: DefinitionKind,
    name: String,
    /// The JSON Pointer in the message.
    pointer: String,
    json: Json<'a>,
    /// The number of the first operation of the list.
    listing: u64,
    fresh_until: Option<Duration>,
}

/// Returns the time until which a result is fresh by its own `ttlMs`.
fn fresh_until(context: &MessageContext<'_>, result: Json<'_>) -> Option<Duration> {
    let time = context.tracked.frame.place.and_then(|place| place.time)?;
    let ms = u64::try_from(member(Some(result), "ttlMs")?.integer()?).ok()?;
    time.checked_add(Duration::from_millis(ms))
}

impl KnownDefinition {
    /// Returns the memory of the definition, in units of 16 bytes.
    fn cost(&self) -> usize {
        self.leaves.len() + 8
    }
}

/// Headers that do not show who sends a request.
const REQUEST_HEADERS: &[&str] =
    &["content-length", "mcp-method", "mcp-name", "traceparent", "tracestate", "baggage", "x-request-id"];

/// The time in which a notice may follow a changed list: the list and the notice can cross each other.
const NOTICE_TIME: Duration = Duration::from_secs(2);
/// The maximum number of requests that are tracked; more than any client has in flight.
const MAX_REQUESTS: usize = 65_536;
/// The maximum number of sessions whose streams are remembered; more than any host has servers.
const MAX_STREAMS: usize = 256;
/// The maximum number of definitions of a list that are compared; more than a model can choose from.
const MAX_NAMES: usize = 16_384;
/// The maximum cost of all known definitions, in units of 16 bytes: 16 MiB. Beyond it they are forgotten.
const MAX_COST: usize = 1024 * 1024;
/// The maximum number of changes that wait for their notice.
const MAX_PENDING: usize = 256;
/// The maximum number of members that a finding names.
const MAX_MEMBERS: usize = 5;

#[cfg(test)]
mod tests;
