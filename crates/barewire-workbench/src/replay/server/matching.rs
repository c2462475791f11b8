//! Finds the recorded message that a client's message matches, or the reason why there is none.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::no_match::NoMatch;
use super::reactions::{ReactionStep, Reactions};
use crate::replay::diff::{Change, diff_messages};
use crate::replay::message::{Message, MessageKind};
use crate::replay::script::{MessageIndex, Script};
use crate::replay::serve::ServeOptions;
use crate::replay::value::Value;

/// The recorded messages of the client with the server's reactions to them, and how often each was used.
pub(super) struct Matcher<'a> {
    script: &'a Script,
    options: &'a ServeOptions,
    reactions: Reactions,
    /// Maps the text of a recorded message to the reactions to such messages, in order.
    exact: HashMap<String, Vec<usize>>,
    uses: Vec<usize>,
    /// The index after the last reaction, in the order of the capture, that a request has used.
    next: usize,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(script: &'a Script, options: &'a ServeOptions) -> Self {
        let reactions = Reactions::of(script);
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, reaction) in reactions.all.iter().enumerate() {
            if let Some(text) = exact_text(script.message(reaction.index)) {
                exact.entry(text).or_default().push(number);
            }
        }
        let uses = vec![0; reactions.all.len()];
        Self { script, options, reactions, exact, uses, next: 0 }
    }

    /// Returns the steps of a reaction; for `None`, the messages that the server sent before the client's first
    /// message.
    pub(super) fn steps(&self, reaction: Option<usize>) -> &[ReactionStep] {
        reaction.map_or(&self.reactions.prologue, |reaction| &self.reactions.all[reaction].steps)
    }

    /// Returns the position of the client's message that caused a reaction.
    pub(super) fn index(&self, reaction: usize) -> MessageIndex {
        self.reactions.all[reaction].index
    }

    fn message(&self, reaction: usize) -> &'a Message {
        self.script.message(self.index(reaction))
    }

    fn frame_number(&self, reaction: usize) -> u64 {
        self.script.frame_number(self.index(reaction))
    }

    /// Counts a use of a reaction. Returns the number of its uses so far.
    pub(super) fn mark_used(&mut self, reaction: usize) -> usize {
        if self.message(reaction).is_request() {
            self.next = self.next.max(reaction + 1);
        }
        self.uses[reaction] += 1;
        self.uses[reaction]
    }

    /// Returns the reactions to recorded requests that no client has sent.
    pub(super) fn unused(&self) -> HashSet<usize> {
        let is_unused = |reaction: &usize| self.uses[*reaction] == 0 && self.message(*reaction).is_request();
        (0..self.uses.len()).filter(is_unused).collect()
    }

    pub(super) fn find(&self, message: &Message) -> Result<usize, NoMatch> {
        if self.options.in_order && message.is_request() {
            return self.find_next(message);
        }
        // Most messages are in the capture with exactly the same text.
        let exact = exact_text(message).and_then(|text| self.exact.get(&text)).into_iter().flatten();
        if let Some(exact) = exact.copied().find(|reaction| self.uses[*reaction] == 0) {
            return Ok(exact);
        }
        let mut same = Vec::new();
        let mut nearest: Option<(usize, Vec<Change>)> = None;
        for reaction in 0..self.uses.len() {
            let recorded = self.message(reaction);
            if recorded.is_request() != message.is_request() || recorded.method() != message.method() {
                continue;
            }
            let changes = self.changes(recorded, message);
            if changes.is_empty() {
                same.push(reaction);
            } else if nearest.as_ref().is_none_or(|(_, other)| distance(&changes) < distance(other)) {
                nearest = Some((reaction, changes));
            }
        }
        match (self.first_unused(&same), same.last(), nearest) {
            (Some(reaction), _, _) => Ok(reaction),
            (None, Some(last), _) if !self.options.strict => Ok(*last),
            (None, Some(last), _) => Err(NoMatch::UsedUp { frame: self.frame_number(*last) }),
            (None, None, Some((reaction, changes))) => {
                Err(NoMatch::OtherParams { frame: self.frame_number(reaction), changes })
            }
            (None, None, None) => Err(NoMatch::UnknownMethod),
        }
    }

    /// Finds the reaction to a request that must be the next request in the capture.
    fn find_next(&self, message: &Message) -> Result<usize, NoMatch> {
        let next = (self.next..self.uses.len()).find(|reaction| self.message(*reaction).is_request());
        let next = next.ok_or(NoMatch::NoMoreRequests)?;
        let (frame, recorded) = (self.frame_number(next), self.message(next));
        if recorded.method() != message.method() {
            return Err(NoMatch::OutOfOrder { frame, wanted: recorded.method().unwrap_or_default().to_owned() });
        }
        let changes = self.changes(recorded, message);
        if changes.is_empty() { Ok(next) } else { Err(NoMatch::OtherParams { frame, changes }) }
    }

    pub(super) fn find_invalid(&self, message: &Message) -> Option<usize> {
        let is_same = |reaction: &usize| {
            let recorded = self.message(*reaction);
            recorded.kind == MessageKind::Invalid && recorded.text == message.text
        };
        let same: Vec<usize> = (0..self.uses.len()).filter(is_same).collect();
        self.first_unused(&same).or(same.last().copied())
    }

    fn first_unused(&self, reactions: &[usize]) -> Option<usize> {
        reactions.iter().copied().find(|reaction| self.uses[*reaction] == 0)
    }

    /// Returns the places where a message differs from a recorded one, except those that are different in every
    /// session.
    fn changes(&self, recorded: &Message, received: &Message) -> Vec<Change> {
        let method = recorded.method().unwrap_or_default();
        // Every client describes itself differently.
        if matches!(method, "initialize" | "server/discover") {
            return Vec::new();
        }
        let is_empty = |value: Option<&Value>| {
            value.is_none_or(|value| matches!(value, Value::Object(it) if it.keys().all(|name| name == "_meta")))
        };
        diff_messages(recorded, received, &mut |path, recorded, received| match path {
            [member] if member == "id" || member == "jsonrpc" => true,
            [params] if params == "params" && is_empty(recorded) && is_empty(received) => true,
            [params, meta, ..] if params == "params" && meta == "_meta" => true,
            path => self.options.ignore.iter().any(|pattern| pattern.covers(method, path)),
        })
    }
}

/// Returns the text of a request or notification without the parts that are different each time: its id and its
/// `_meta`.
fn exact_text(message: &Message) -> Option<String> {
    let mut params = message.params().cloned().unwrap_or(Value::Null);
    if let Value::Object(members) = &mut params {
        members.remove("_meta");
    }
    Some(format!("{} {} {params}", message.is_request(), message.method()?))
}

/// Returns the distance between two messages: the fewer places differ, the nearer they are; if the numbers are equal,
/// deeper places count as nearer.
fn distance(changes: &[Change]) -> (usize, Reverse<usize>) {
    (changes.len(), Reverse(changes.iter().map(|change| change.path.len()).sum()))
}
