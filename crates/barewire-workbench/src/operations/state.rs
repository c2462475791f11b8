//! The outstanding requests of one conversation, in both directions.

use std::collections::{HashMap, VecDeque};

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use super::Conversation;

/// The side that sent a request, and the id or the progress token of the request.
pub(super) type RequestKey = (Side, Id<'static>);

/// A conversation with its outstanding requests.
#[derive(Default)]
pub(super) struct ConversationState {
    pub(super) facts: Conversation,
    /// Maps each id to its operations, the oldest first: more than one if the id was reused before it was answered.
    outstanding: HashMap<RequestKey, VecDeque<u64>>,
    /// Maps each progress token to its operation.
    tokens: HashMap<RequestKey, u64>,
    settled: VecDeque<RequestKey>,
    /// For each side, the number of its messages that could not be read and have no id that a response could use.
    unreadable: [u64; 2],
}

/// The request that a response answers.
pub(super) enum ResponseTarget {
    Operation(u64),
    /// The request was already answered.
    AlreadyAnswered,
    None,
}

impl ConversationState {
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Returns the outstanding operations, in the order in which they began.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.outstanding.values().flatten().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Adds an operation. Returns `true` if its id is already in use.
    pub(super) fn begin(&mut self, key: RequestKey, token: Option<Id<'static>>, number: u64) -> bool {
        if let Some(token) = token {
            self.tokens.insert((key.0, token), number);
        }
        let same = self.outstanding.entry(key).or_default();
        same.push_back(number);
        if same.len() > MAX_SAME_ID {
            same.pop_front();
        }
        same.len() > 1
    }

    /// Takes the operation that a response with this id answers. The id may have the wrong type: 1 also answers `"1"`.
    pub(super) fn answer(&mut self, key: &RequestKey) -> ResponseTarget {
        let by_other_type =
            |state: &mut Self| other_types(&key.1).into_iter().flatten().find_map(|id| state.take(&(key.0, id)));
        match self.take(key).or_else(|| by_other_type(self)) {
            Some(number) => {
                self.settle(key.clone());
                ResponseTarget::Operation(number)
            }
            None if self.settled.contains(key) => ResponseTarget::AlreadyAnswered,
            None => ResponseTarget::None,
        }
    }

    pub(super) fn take(&mut self, key: &RequestKey) -> Option<u64> {
        let same = self.outstanding.get_mut(key)?;
        let number = same.pop_front();
        if same.is_empty() {
            self.outstanding.remove(key);
        }
        number
    }

    /// Remembers that this request was answered, so that a duplicate response can be recognized.
    pub(super) fn settle(&mut self, key: RequestKey) {
        self.settled.push_back(key);
        if self.settled.len() > MAX_SETTLED {
            self.settled.pop_front();
        }
    }

    pub(super) fn oldest(&self, key: &RequestKey) -> Option<u64> {
        self.outstanding.get(key)?.front().copied()
    }

    pub(super) fn with_token(&self, key: &RequestKey) -> Option<u64> {
        self.tokens.get(key).copied()
    }

    pub(super) fn forget<'a>(
        &mut self,
        number: u64,
        asker: Side,
        ids: impl Iterator<Item = &'a Id<'static>>,
        token: Option<Id<'static>>,
    ) {
        if let Some(token) = token {
            self.tokens.remove(&(asker, token));
        }
        for id in ids {
            let key = (asker, id.clone());
            if let Some(same) = self.outstanding.get_mut(&key) {
                same.retain(|other| *other != number);
                if same.is_empty() {
                    self.outstanding.remove(&key);
                }
            }
        }
    }

    /// Counts a message from this side that has no id that a response could use.
    pub(super) fn count_unreadable(&mut self, sender: Side) {
        self.unreadable[sender as usize] += 1;
    }

    /// Whether an error without an id can refer to an unreadable message from this side. Uses each message only once.
    pub(super) fn take_unreadable(&mut self, sender: Side) -> bool {
        let count = &mut self.unreadable[sender as usize];
        let is_one = *count > 0;
        *count = count.saturating_sub(1);
        is_one
    }

    /// Adds all outstanding requests of another conversation.
    pub(super) fn join(&mut self, other: Self) {
        for (key, mut numbers) in other.outstanding {
            self.outstanding.entry(key).or_default().append(&mut numbers);
        }
        self.tokens.extend(other.tokens);
        other.settled.into_iter().for_each(|key| self.settle(key));
        for (mine, more) in self.unreadable.iter_mut().zip(other.unreadable) {
            *mine += more;
        }
    }
}

/// Returns the same id in the other JSON type: as a string if it is a number, or as a number if it is a string.
fn other_types(id: &Id<'_>) -> [Option<Id<'static>>; 2] {
    if id.as_str().starts_with('"') {
        let text = Json::parse(id.as_str().as_bytes()).ok().and_then(Text::from_json).map(Text::to_name);
        let number = text.and_then(|text| Some(Id::parse(text.as_bytes())?.into_owned()));
        return [number.filter(|id| !id.as_str().starts_with('"')), None];
    }
    // The number 1.0 may have been the string "1.0" or "1".
    [Some(Id::from(id.as_str())), id.integer().map(|integer| Id::from(integer.to_string().as_str()))]
}

/// The maximum number of unanswered requests with one id that a response can still answer. No client needs more than
/// one; without a limit, removing one of very many would take long.
const MAX_SAME_ID: usize = 64;
/// The maximum number of answered requests that are remembered. A duplicate response arrives soon after the first.
const MAX_SETTLED: usize = 1024;
