//! Lists that come in pages -> what was said on the pages before.

use std::collections::HashMap;

use barewire_proto::json::{Json, Text};
use barewire_proto::rpc::{Message, Params};

use super::MessageContext;
use crate::operations::{Relation, member};

/// What is remembered of lists until their next page comes. Several clients may go through the same list at once.
pub(super) struct Pages<T> {
    /// The pages that are asked for, by the number of the operation.
    asked: HashMap<u64, Page>,
    /// What stood before a page.
    before: HashMap<Page, T>,
}

/// Whose list, which list, and the cursor.
type Page = (String, String, String);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { asked: HashMap::new(), before: HashMap::new() }
    }
}

impl<T> Pages<T> {
    /// Takes a request: it may be one for a page.
    pub(super) fn asked(&mut self, context: &MessageContext<'_>) {
        let (Ok(Message::Request(request)), Relation::Request { operation, .. }) =
            (context.tracked.message, context.tracked.relation)
        else {
            return;
        };
        let cursor = member(request.params.map(Params::json), "cursor").and_then(text);
        let Some(cursor) = cursor else { return };
        if self.asked.len() >= MOST {
            self.asked.clear();
        }
        self.asked.insert(operation.number, (context.scope(), operation.method.clone(), cursor));
    }

    /// What was kept of the pages before the one that this operation has asked for.
    pub(super) fn before(&mut self, operation: u64) -> Option<T> {
        self.before.remove(&self.asked.remove(&operation)?)
    }

    /// Keeps this for the page behind the one that has come, if there is one.
    pub(super) fn keep(&mut self, context: &MessageContext<'_>, method: &str, result: Json<'_>, what: T) {
        let Some(cursor) = member(Some(result), "nextCursor").and_then(text) else { return };
        if self.before.len() >= MOST_KEPT {
            self.before.clear();
        }
        self.before.insert((context.scope(), method.to_owned(), cursor), what);
    }
}

fn text(json: Json<'_>) -> Option<String> {
    Text::from_json(json).map(|text| text.to_name().into_owned())
}

/// More than any client has in flight.
const MOST: usize = 65_536;
/// More lists than are gone through at once.
const MOST_KEPT: usize = 256;
