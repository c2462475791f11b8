//! What is under way in one conversation: who waits for which answer.

use std::collections::{HashMap, VecDeque};

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use super::Conversation;

/// Who has asked, and under which id.
pub(super) type Key = (Side, Id<'static>);

/// A conversation, and what is under way in it.
#[derive(Default)]
pub(super) struct ConversationState {
    pub(super) about: Conversation,
    /// More than one if an id is used again before it is answered.
    asked: HashMap<Key, VecDeque<u64>>,
    /// By asker and token.
    tokens: HashMap<Key, u64>,
    /// The last that were answered.
    settled: VecDeque<Key>,
    /// What each side has sent that has no id to answer under.
    unreadable: [u64; 2],
}

/// Who waits for an answer.
pub(super) enum Waits {
    Operation(u64),
    /// Nobody any more: it was answered before.
    Before,
    Nobody,
}

impl ConversationState {
    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// The operations that are under way, in the order in which they began.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.asked.values().flatten().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Enters an operation; `true` if somebody waits under this id already.
    pub(super) fn asks(&mut self, key: Key, token: Option<Id<'static>>, number: u64) -> bool {
        if let Some(token) = token {
            self.tokens.insert((key.0, token), number);
        }
        let same = self.asked.entry(key).or_default();
        same.push_back(number);
        same.len() > 1
    }

    /// Who waits for the answer under this id. If nobody does, the same id as another type is meant: 1 and `"1"`.
    pub(super) fn answered(&mut self, key: &Key) -> Waits {
        let meant = |talk: &mut Self| other_types(&key.1).into_iter().flatten().find_map(|id| talk.take(&(key.0, id)));
        let found = self.take(key).or_else(|| meant(self));
        let Some(number) = found else {
            return if self.settled.contains(key) { Waits::Before } else { Waits::Nobody };
        };
        self.settle(key.clone());
        Waits::Operation(number)
    }

    /// The operation that waits longest under this id, which does so no more.
    pub(super) fn take(&mut self, key: &Key) -> Option<u64> {
        let same = self.asked.get_mut(key)?;
        let number = same.pop_front();
        if same.is_empty() {
            self.asked.remove(key);
        }
        number
    }

    /// It is answered: a second answer is one too many.
    pub(super) fn settle(&mut self, key: Key) {
        self.settled.push_back(key);
        if self.settled.len() > MOST_SETTLED {
            self.settled.pop_front();
        }
    }

    /// The operation that waits longest under this id.
    pub(super) fn waiting(&self, key: &Key) -> Option<u64> {
        self.asked.get(key)?.front().copied()
    }

    pub(super) fn with_token(&self, key: &Key) -> Option<u64> {
        self.tokens.get(key).copied()
    }

    /// Nobody waits for this operation any more.
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
            if let Some(same) = self.asked.get_mut(&key) {
                same.retain(|other| *other != number);
                if same.is_empty() {
                    self.asked.remove(&key);
                }
            }
        }
    }

    /// Something came that has no id to answer under.
    pub(super) fn cannot_be_read(&mut self, sender: Side) {
        self.unreadable[sender as usize] += 1;
    }

    /// Whether an error without an id can be about something that this side has sent; once for each.
    pub(super) fn refuses(&mut self, sender: Side) -> bool {
        let waiting = &mut self.unreadable[sender as usize];
        let is_one = *waiting > 0;
        *waiting = waiting.saturating_sub(1);
        is_one
    }

    /// What is under way in another one is under way in this one as well.
    pub(super) fn join(&mut self, other: Self) {
        for (key, mut numbers) in other.asked {
            self.asked.entry(key).or_default().append(&mut numbers);
        }
        self.tokens.extend(other.tokens);
        other.settled.into_iter().for_each(|key| self.settle(key));
        for (mine, more) in self.unreadable.iter_mut().zip(other.unreadable) {
            *mine += more;
        }
    }
}

/// What an id is if a number was made a string on the way, or a string a number.
fn other_types(id: &Id<'_>) -> [Option<Id<'static>>; 2] {
    if id.as_str().starts_with('"') {
        let text = Json::parse(id.as_str().as_bytes()).ok().and_then(Text::from_json).map(Text::to_name);
        let number = text.and_then(|text| Some(Id::parse(text.as_bytes())?.into_owned()));
        return [number.filter(|id| !id.as_str().starts_with('"')), None];
    }
    // 1.0 may stand for "1.0", and for "1".
    [Some(Id::from(id.as_str())), id.integer().map(|integer| Id::from(integer.to_string().as_str()))]
}

/// An answer that comes twice comes soon after the first.
const MOST_SETTLED: usize = 1024;
