//! A script -> for each message of the client what the server said to it: the answer, and what came before and behind it.

use std::collections::HashMap;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use crate::replay::message::{Message, MessageKind};
use crate::replay::play_plan::MessageIndex;
use crate::replay::script::Script;

/// Everything the server said, by the message of the client that it belongs to.
#[derive(Debug, Default)]
pub(super) struct Reactions {
    /// In the order of the capture.
    pub(super) all: Vec<Reaction>,
    /// What it said before the client's first message.
    pub(super) prologue: Vec<ReactionStep>,
}

/// A message of the client, and what the server said to it.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) index: MessageIndex,
    pub(super) steps: Vec<ReactionStep>,
}

/// One step of a reaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ReactionStep {
    /// The answer.
    Respond(MessageIndex),
    /// A notification, or a frame that is no message.
    Send(MessageIndex),
    /// A request of the server.
    Request(MessageIndex),
    /// The client has to answer that request first.
    AwaitResponse(MessageIndex),
}

impl Reactions {
    pub(super) fn of(script: &Script) -> Self {
        let mut reactions = Self::default();
        // Requests that are not answered yet, and requests of the server with the reaction that they belong to.
        let mut open: Vec<(Id<'static>, usize)> = Vec::new();
        let mut asked: HashMap<Id<'static>, (usize, MessageIndex)> = HashMap::new();
        for (frame, recorded) in script.frames.iter().enumerate() {
            for (at, message) in recorded.messages.iter().enumerate() {
                let index = MessageIndex { frame, message: at };
                match (recorded.side, &message.kind) {
                    (Side::Client, MessageKind::Response { id }) => {
                        if let Some((reaction, asked)) = asked.remove(id) {
                            reactions.all[reaction].steps.push(ReactionStep::AwaitResponse(asked));
                        }
                    }
                    (Side::Client, kind) => {
                        if let MessageKind::Request { id, .. } = kind {
                            open.push((id.clone(), reactions.all.len()));
                        }
                        reactions.all.push(Reaction { index, steps: Vec::new() });
                    }
                    (Side::Server, MessageKind::Response { id }) => {
                        let at = open.iter().position(|(other, _)| other == id);
                        match at.map(|at| open.remove(at).1) {
                            Some(reaction) => reactions.all[reaction].steps.push(ReactionStep::Respond(index)),
                            // A response to no request is repeated as it is.
                            None => {
                                reactions.push(&open, ReactionStep::Send(index));
                            }
                        }
                    }
                    (Side::Server, MessageKind::Request { id, .. }) => {
                        if let Some(reaction) = reactions.push(&open, ReactionStep::Request(index)) {
                            asked.insert(id.clone(), (reaction, index));
                        }
                    }
                    (Side::Server, MessageKind::Notification { .. }) => {
                        match about(script, &reactions, &open, message) {
                            Some(reaction) => reactions.all[reaction].steps.push(ReactionStep::Send(index)),
                            None => {
                                reactions.push(&open, ReactionStep::Send(index));
                            }
                        }
                    }
                    (Side::Server, MessageKind::OrphanError) => {
                        // It belongs to the first invalid frame that was not answered yet.
                        let is_unread = |reaction: &Reaction| {
                            reaction.steps.is_empty()
                                && script.frames[reaction.index.frame].messages[reaction.index.message].kind
                                    == MessageKind::Invalid
                        };
                        match reactions.all.iter_mut().find(|reaction| is_unread(reaction)) {
                            Some(reaction) => reaction.steps.push(ReactionStep::Send(index)),
                            None => {
                                reactions.push(&open, ReactionStep::Send(index));
                            }
                        }
                    }
                    (Side::Server, MessageKind::Invalid) => {
                        reactions.push(&open, ReactionStep::Send(index));
                    }
                }
            }
        }
        reactions
    }

    /// Adds a step that names no request to the last request without an answer, or else to the client's last message. Returns its
    /// reaction, if there is one.
    fn push(&mut self, open: &[(Id<'static>, usize)], step: ReactionStep) -> Option<usize> {
        let reaction = open.last().map(|(_, reaction)| *reaction).or(self.all.len().checked_sub(1));
        match reaction {
            Some(reaction) => self.all[reaction].steps.push(step),
            None => self.prologue.push(step),
        }
        reaction
    }
}

/// The request that a notification is about, by its token or subscription.
fn about(script: &Script, reactions: &Reactions, open: &[(Id<'static>, usize)], message: &Message) -> Option<usize> {
    let of = |reaction: usize| {
        let index = reactions.all[reaction].index;
        &script.frames[index.frame].messages[index.message]
    };
    if let Some(token) = message.progress_token() {
        return open
            .iter()
            .map(|(_, reaction)| *reaction)
            .find(|reaction| of(*reaction).requested_progress_token().as_ref() == Some(&token));
    }
    let subscription = message.subscription()?;
    open.iter().find(|(id, _)| *id == subscription).map(|(_, reaction)| *reaction)
}

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;
    use crate::replay::script::ScriptOptions;

    /// The parts of each cue: `a` for an answer, `t`, `q` and `w`, with the frame.
    fn reactions(text: &str) -> Vec<String> {
        let options = ScriptOptions { allow_redacted: false, max_frame: 1000, ..ScriptOptions::default() };
        let script = Script::from_entries(&read(text.as_bytes()).expect("a transcript"), options).expect("fit");
        let reactions = Reactions::of(&script);
        let word = |step: &ReactionStep| match step {
            ReactionStep::Respond(index) => format!("a{}", index.frame + 1),
            ReactionStep::Send(index) => format!("t{}", index.frame + 1),
            ReactionStep::Request(index) => format!("q{}", index.frame + 1),
            ReactionStep::AwaitResponse(index) => format!("w{}", index.frame + 1),
        };
        let words = |steps: &[ReactionStep]| steps.iter().map(word).collect::<Vec<_>>().join(" ");
        let prologue = Some(words(&reactions.prologue)).filter(|words| !words.is_empty());
        prologue.into_iter().chain(reactions.all.iter().map(|reaction| words(&reaction.steps))).collect()
    }

    #[test]
    fn what_is_said_belongs_to_what_it_is_about() {
        let reactions = reactions(
            r#"
> {"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":"t"}}}
> {"jsonrpc":"2.0","id":2,"method":"b"}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{}}
< {"jsonrpc":"2.0","id":1,"result":{}}
< {"jsonrpc":"2.0","id":7,"method":"roots/list"}
> {"jsonrpc":"2.0","id":7,"result":{"roots":[]}}
< {"jsonrpc":"2.0","id":2,"result":{}}
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
"#,
        );
        assert_eq!(reactions, ["t3 a5", "t4 q6 w6 a8 t9"]);
    }
    #[test]
    fn what_comes_first_and_what_could_not_be_read() {
        let reactions = reactions(
            r#"
< {"jsonrpc":"2.0","method":"hello"}
> nonsense
> {"jsonrpc":"2.0","method":"notifications/initialized"}
< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
> {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
< {"jsonrpc":"2.0","id":9,"result":{}}
"#,
        );
        assert_eq!(reactions, ["t1", "t4", "q5 w5 t7"]);
    }

    #[test]
    fn a_listener_is_told_what_it_listens_to() {
        let reactions = reactions(
            r#"
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call"}
< {"jsonrpc":"2.0","method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}
< {"jsonrpc":"2.0","id":2,"result":{}}
"#,
        );
        assert_eq!(reactions, ["t3", "a4"]);
    }
}
