//! Pages of lists -> the data of the pages before.

use std::collections::HashMap;

use barewire_proto::json::{Json, Text};
use barewire_proto::rpc::{Message, Params};

use super::MessageContext;
use crate::operations::{Relation, member};

/// Data of lists, kept until the next page. Several clients may read the same list at once.
pub(super) struct Pages<T> {
    /// The pages that are requested, by the number of the operation.
    requested: HashMap<u64, Page>,
    /// The data of the pages before each page.
    before: HashMap<Page, T>,
}

/// The scope of the server, the method, and the cursor.
type Page = (String, String, String);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { requested: HashMap::new(), before: HashMap::new() }
    }
}

impl<T> Pages<T> {
    /// Handles a request, which may be for a page.
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

    /// Takes the data of the pages before the one that this operation requested.
    pub(super) fn take_before(&mut self, operation: u64) -> Option<T> {
        self.before.remove(&self.requested.remove(&operation)?)
    }

    /// Keeps data for the next page, if there is one.
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

/// More requests than any client has in flight.
const MAX_REQUESTED: usize = 65_536;
/// More lists than are read at once.
const MAX_LISTS: usize = 256;
