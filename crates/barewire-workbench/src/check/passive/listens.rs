//! `subscriptions/listen` of 2026-07-28 -> whether its notifications follow its filter, its acknowledgement and its id.

use barewire_proto::json::{Json, Kind};
use barewire_proto::mcp::key;
use barewire_proto::rpc::{Id, Message};

use super::MessageContext;
use crate::check::catalogue::modern::{LISTEN_ACKNOWLEDGED, LISTEN_FILTER, LISTEN_ID};
use crate::check::ledger::Ledger;
use crate::operations::member;

/// The `subscriptions/listen` requests of a conversation.
#[derive(Default)]
pub(super) struct Listens {
    listens: Vec<Listen>,
}

struct Listen {
    id: Id<'static>,
    state: ListenState,
    /// Whether the client has requested each of [`FILTERS`].
    requested: [bool; FILTERS.len()],
}

#[derive(Clone, Copy, PartialEq)]
enum ListenState {
    Requested,
    Acknowledged,
    /// The client has cancelled it. What the server sent before it read the cancellation can still arrive.
    Cancelled,
}

impl Listens {
    pub(super) fn open(&mut self, id: &Id<'_>, params: Option<Json<'_>>) {
        self.end(id);
        if self.listens.len() >= MAX_LISTENS {
            let old = self.listens.iter().position(|it| it.state == ListenState::Cancelled);
            self.listens.remove(old.unwrap_or_default());
        }
        let requested = filter(member(params, "notifications"));
        self.listens.push(Listen { id: id.clone().into_owned(), state: ListenState::Requested, requested });
    }

    /// Forgets a request that the server has ended.
    pub(super) fn end(&mut self, id: &Id<'_>) {
        self.listens.retain(|listen| listen.id != *id);
    }

    /// Marks a request as cancelled by the client.
    pub(super) fn cancel(&mut self, id: &Id<'_>) {
        if let Some(listen) = self.listens.iter_mut().find(|listen| listen.id == *id) {
            listen.state = ListenState::Cancelled;
        }
    }

    /// Handles a notification of the server.
    pub(super) fn notification(
        &mut self,
        context: &MessageContext<'_>,
        method: &str,
        params: Option<Json<'_>>,
        ledger: &mut Ledger,
    ) {
        let is_ack = method == "notifications/subscriptions/acknowledged";
        let is_change = method.ends_with("/list_changed") || method == "notifications/resources/updated";
        if !is_ack && !is_change {
            return;
        }
        ledger.inspected(&LISTEN_ACKNOWLEDGED);
        let id = member(member(params, "_meta"), key::SUBSCRIPTION_ID).and_then(Id::from_json);
        let listen = id.and_then(|id| self.listens.iter_mut().find(|listen| listen.id == id));
        let Some(listen) = listen else {
            let detail = format!("{method} lacks the subscriptionId of an open subscriptions/listen");
            return context.fail_in(ledger, &LISTEN_ACKNOWLEDGED, "/params/_meta", detail);
        };
        match listen.state {
            ListenState::Cancelled => {}
            _ if is_ack => {
                listen.state = ListenState::Acknowledged;
                listen.check_acknowledgement(context, params, ledger);
            }
            ListenState::Requested => {
                context.fail(ledger, &LISTEN_ACKNOWLEDGED, format!("{method} is sent before the acknowledgement"));
            }
            ListenState::Acknowledged => {
                let filter = FILTERS.iter().position(|(_, notification)| *notification == method);
                if filter.is_some_and(|filter| !listen.requested[filter]) {
                    let detail = format!("{method} is sent, but the subscriptions/listen did not request it");
                    let finding = context.finding(&LISTEN_ACKNOWLEDGED, 0, detail).at("/method");
                    context.note(ledger, finding.under(&LISTEN_FILTER));
                }
            }
        }
    }
}

impl Listen {
    /// Checks that an acknowledgement has the part of the filter that the server honours.
    fn check_acknowledgement(&self, context: &MessageContext<'_>, params: Option<Json<'_>>, ledger: &mut Ledger) {
        let honoured = member(params, "notifications");
        if honoured.is_none_or(|it| it.kind() != Kind::Object) {
            let detail = "the acknowledgement has no object notifications";
            return context.fail_in(ledger, &LISTEN_ACKNOWLEDGED, "/params", detail);
        }
        for (index, (name, _)) in FILTERS.iter().enumerate() {
            if filter(honoured)[index] && !self.requested[index] {
                let detail = format!("the acknowledgement has {name}, which was not requested");
                context.fail_in(ledger, &LISTEN_ACKNOWLEDGED, "/params/notifications", detail);
            }
        }
    }
}

/// Checks the response that ends a `subscriptions/listen`.
pub(super) fn check_end(context: &MessageContext<'_>, result: Json<'_>, ledger: &mut Ledger) {
    let Ok(Message::Response(response)) = context.tracked.message else { return };
    ledger.inspected(&LISTEN_ACKNOWLEDGED);
    let id = member(member(Some(result), "_meta"), key::SUBSCRIPTION_ID).and_then(Id::from_json);
    if id.is_none_or(|id| id != response.id) {
        let detail = "the result of subscriptions/listen lacks its subscriptionId";
        let finding = context.finding(&LISTEN_ACKNOWLEDGED, 0, detail).at("/result");
        context.note(ledger, finding.under(&LISTEN_ID));
    }
}

/// Returns which of [`FILTERS`] a filter has.
fn filter(notifications: Option<Json<'_>>) -> [bool; FILTERS.len()] {
    FILTERS.map(|(name, _)| {
        member(notifications, name).is_some_and(|it| it.kind() == Kind::True || it.elements().next().is_some())
    })
}

/// The members of a filter, each with the notification that it requests.
const FILTERS: [(&str, &str); 4] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
    ("resourceSubscriptions", "notifications/resources/updated"),
];

/// The maximum number of requests that are tracked in a conversation; more than any client has open.
const MAX_LISTENS: usize = 4096;
