//! Finds the recorded message that a client's message matches, or the reason why there is none.

use std::cmp::Reverse;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::io;

use barewire_proto::json::{Json, Kind};

use super::no_match::NoMatch;
use super::reactions::{ReactionStep, Reactions};
use crate::replay::diff::{Change, diff_messages};
use crate::replay::message::{Message, MessageKind};
use crate::replay::script::{MessageIndex, Script};
use crate::replay::serve::ServeOptions;
use crate::replay::value::write_canonical;

/// The recorded messages of the client with the server's reactions to them, and how often each was used.
pub(super) struct Matcher<'a> {
    script: &'a Script,
    options: &'a ServeOptions,
    reactions: Reactions,
    /// Maps the fingerprint of a recorded message to the reactions to such messages, in order.
    exact: HashMap<Fingerprint, Vec<usize>>,
    hashers: [RandomState; 2],
    uses: Vec<usize>,
    /// The index after the last reaction, in the order of the capture, that a request has used.
    next: usize,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(script: &'a Script, options: &'a ServeOptions) -> Self {
        let reactions = Reactions::of(script);
        let mut exact: HashMap<Fingerprint, Vec<usize>> = HashMap::new();
        let hashers = [RandomState::new(), RandomState::new()];
        for (number, reaction) in reactions.all.iter().enumerate() {
            if let Some(fingerprint) = fingerprint(script.message(reaction.index), &hashers) {
                exact.entry(fingerprint).or_default().push(number);
            }
        }
        let uses = vec![0; reactions.all.len()];
        Self { script, options, reactions, exact, hashers, uses, next: 0 }
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
        let exact = fingerprint(message, &self.hashers).and_then(|it| self.exact.get(&it)).into_iter().flatten();
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
        let is_empty = |value: Option<Json<'_>>| {
            value.is_none_or(|value| value.kind() == Kind::Object && value.members().all(|it| it.name == "_meta"))
        };
        diff_messages(recorded, received, &mut |path, recorded, received| match path {
            [member] if member == "id" || member == "jsonrpc" => true,
            [params] if params == "params" && is_empty(recorded) && is_empty(received) => true,
            [params, meta, ..] if params == "params" && meta == "_meta" => true,
            path => self.options.ignore.iter().any(|pattern| pattern.covers(method, path)),
        })
    }
}

/// Two hashes of a message with different keys. Equal fingerprints mean equal messages: that two messages have both
/// hashes in common by chance does not happen.
type Fingerprint = [u64; 2];

/// Returns the fingerprint of a request or notification without the parts that are different each time: its id and its
/// `_meta`.
fn fingerprint(message: &Message, hashers: &[RandomState; 2]) -> Option<Fingerprint> {
    let method = message.method()?;
    let params = message.params();
    Some(hashers.each_ref().map(|keys| {
        let mut hasher = HashWriter(keys.build_hasher());
        hasher.0.write_u8(message.is_request().into());
        hasher.0.write(method.as_bytes());
        // No byte of a method is 0xff.
        hasher.0.write_u8(0xff);
        if let Some(params) = params {
            write_canonical(&mut hasher, params, &|name| name != "_meta").expect("hashing cannot fail");
        }
        hasher.0.finish()
    }))
}

/// Hashes what is written.
struct HashWriter<H>(H);

impl<H: Hasher> io::Write for HashWriter<H> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the distance between two messages: the fewer places differ, the nearer they are; if the numbers are equal,
/// deeper places count as nearer.
fn distance(changes: &[Change]) -> (usize, Reverse<usize>) {
    (changes.len(), Reverse(changes.iter().map(|change| change.path.len()).sum()))
}
