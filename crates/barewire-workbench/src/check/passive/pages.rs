//! Pages of lists -> the data that was kept from the previous pages of the same list.

use std::collections::HashMap;

use barewire_proto::json::{Json, Text};
use barewire_proto::rpc::{Message, Params};

use super::MessageContext;
use crate::operations::{Relation, member};

/// Data from the earlier pages of each list, kept until the next page arrives. Several clients may read a list at once.
pub(super) struct Pages<T> {
    /// Maps the operation number of each request to the page that it requests.
    requested: HashMap<u64, Page>,
    /// Maps each page to the data from the pages before it.
    before: HashMap<Page, T>,
}

/// A page of a list: the scope of the server, the method, and the cursor.
type Page = (String, String, String);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { requested: HashMap::new(), before: HashMap::new() }
    }
}

impl<T> Pages<T> {
    /// Remembers the page that a request asks for, if the request has a cursor.
    pub(super) fn request(&mut self, context: &MessageContext<'_>) {
        let (Ok(Message::Request(request)), Relation::Request { operation, .. }) =
            (context.tracked.message, context.tracked.relation)
        else {
            return;
        };
        let cursor = member(request.params.map(Params::json), "cursor").and_then(text);
        let Some(cursor) = cursor else { return };
        if self.requested.len() >= MAX_REQUESTED {
            self.requested.clear();
        }
        self.requested.insert(operation.number, (context.scope(), operation.method.clone(), cursor));
    }

    /// Forgets the pages of a list when the server says that the list has changed: a later page may then repeat what was
    /// on an earlier one.
    pub(super) fn notice(&mut self, context: &MessageContext<'_>) {
        let Ok(Message::Notification(notification)) = context.tracked.message else { return };
        let name = notification.method.to_name();
        let list = name.strip_prefix("notifications/").and_then(|name| name.strip_suffix("/list_changed"));
        let (Some(list), true) = (list, context.by_server()) else { return };
        let scope = context.scope();
        let is_of_list = |method: &str| method.strip_prefix(list).is_some_and(|rest| rest.starts_with('/'));
        self.before.retain(|(server, method, _), _| *server != scope || !is_of_list(method));
    }

    /// Takes the data from the pages before the page that this operation requested.
    pub(super) fn take_before(&mut self, operation: u64) -> Option<T> {
        self.before.remove(&self.requested.remove(&operation)?)
    }

    /// Keeps data for the next page, if the result has a `nextCursor`.
    pub(super) fn keep(&mut self, context: &MessageContext<'_>, method: &str, result: Json<'_>, data: T) {
        let Some(cursor) = member(Some(result), "nextCursor").and_then(text) else { return };
        if self.before.len() >= MAX_LISTS {
            self.before.clear();
        }
        self.before.insert((context.scope(), method.to_owned(), cursor), data);
    }
}

fn text(json: Json<'_>) -> Option<String> {
    Text::from_json(json).map(|text| text.to_name().into_owned())
}

/// The maximum number of requests that are tracked; more than any client has in flight.
const MAX_REQUESTED: usize = 65_536;
/// The maximum number of lists that are tracked; more than are read at once.
const MAX_LISTS: usize = 256;
