//! Groups the server's messages in a script by the client's message that caused them.

use std::collections::HashMap;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use crate::replay::message::{Message, MessageKind};
use crate::replay::script::{MessageIndex, Script};

/// Everything that the server sent, grouped by the client's message that caused it.
#[derive(Debug, Default)]
pub(super) struct Reactions {
    /// The reactions in the order of the capture.
    pub(super) all: Vec<Reaction>,
    /// The messages that the server sent before the client's first message.
    pub(super) prologue: Vec<ReactionStep>,
}

/// A message of the client, and the server's reaction.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) index: MessageIndex,
    pub(super) steps: Vec<ReactionStep>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ReactionStep {
    Respond(MessageIndex),
    /// Sends a notification, a response that matches no request, or a frame that is not a message.
    Send(MessageIndex),
    /// Sends a request of the server.
    Request(MessageIndex),
    /// Waits for the client's response to this request of the server.
    AwaitResponse(MessageIndex),
}

/// The client's requests without a response so far, each with the index of its reaction.
type OpenRequests = Vec<(Id<'static>, usize)>;

impl Reactions {
    pub(super) fn of(script: &Script) -> Self {
        let mut reactions = Self::default();
        let mut open: OpenRequests = Vec::new();
        // Maps the id of each server request to the index of its reaction and its position in the script.
        let mut server_requests: HashMap<Id<'static>, (usize, MessageIndex)> = HashMap::new();
        for (frame, recorded) in script.frames.iter().enumerate() {
            for (position, message) in recorded.messages.iter().enumerate() {
                let index = MessageIndex { frame, message: position };
                // A message that names no request is added to the last open request, or the client's last message.
                let last = open.last().map(|(_, reaction)| *reaction).or(reactions.all.len().checked_sub(1));
                let (reaction, step) = match (recorded.side, &message.kind) {
                    (Side::Client, MessageKind::Response { id }) => {
                        let Some((reaction, request)) = server_requests.remove(id) else { continue };
                        (Some(reaction), ReactionStep::AwaitResponse(request))
                    }
                    (Side::Client, kind) => {
                        if let MessageKind::Request { id, .. } = kind {
                            open.push((id.clone(), reactions.all.len()));
                        }
                        reactions.all.push(Reaction { index, steps: Vec::new() });
                        continue;
                    }
                    (Side::Server, MessageKind::Response { id }) => match open.iter().position(|(it, _)| it == id) {
                        Some(at) => (Some(open.remove(at).1), ReactionStep::Respond(index)),
                        None => (last, ReactionStep::Send(index)),
                    },
                    (Side::Server, MessageKind::Request { id, .. }) => {
                        if let Some(reaction) = last {
                            server_requests.insert(id.clone(), (reaction, index));
                        }
                        (last, ReactionStep::Request(index))
                    }
                    (Side::Server, MessageKind::Notification { .. }) => {
                        (reactions.subject(script, &open, message).or(last), ReactionStep::Send(index))
                    }
                    (Side::Server, MessageKind::OrphanError) => {
                        // The error is added to the first invalid frame that has no reaction yet.
                        let is_invalid = |reaction: &Reaction| {
                            reaction.steps.is_empty() && script.message(reaction.index).kind == MessageKind::Invalid
                        };
                        (reactions.all.iter().position(is_invalid).or(last), ReactionStep::Send(index))
                    }
                    (Side::Server, MessageKind::Invalid) => (last, ReactionStep::Send(index)),
                };
                match reaction {
                    Some(reaction) => reactions.all[reaction].steps.push(step),
                    None => reactions.prologue.push(step),
                }
            }
        }
        reactions
    }

    /// Returns the reaction of the open request that a notification refers to by its progress token or subscription.
    fn subject(&self, script: &Script, open: &OpenRequests, message: &Message) -> Option<usize> {
        let found = match (message.progress_token(), message.subscription()) {
            (Some(token), _) => open.iter().find(|(_, reaction)| {
                let request = script.message(self.all[*reaction].index);
                request.requested_progress_token().as_ref() == Some(&token)
            }),
            (None, subscription) => open.iter().find(|(id, _)| Some(id) == subscription.as_ref()),
        };
        found.map(|(_, reaction)| *reaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps of each reaction: `a` response, `t` send, `q` request, `w` wait, with their frame numbers.
    fn reactions(text: &str) -> Vec<String> {
        let reactions = Reactions::of(&Script::of_test(text));
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
    fn a_message_belongs_to_the_request_that_it_names() {
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
    fn the_prologue_and_errors_for_invalid_frames() {
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
    fn a_notification_belongs_to_its_subscription() {
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
