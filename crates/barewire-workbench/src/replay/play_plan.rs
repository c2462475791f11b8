//! A script -> what is sent when: the answers of each request, and what came before each message of the client.

use std::collections::HashMap;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use super::message::MessageKind;
use super::script::Script;

/// The place of a message in a script: its frame, and its place in that frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MessageIndex {
    pub(super) frame: usize,
    pub(super) message: usize,
}

/// What is sent when, and what is expected from the server.
#[derive(Debug, Default)]
pub(super) struct PlayPlan {
    pub(super) sends: Vec<PlannedSend>,
    /// The requests of the client.
    pub(super) requests: Vec<ClientRequest>,
    /// The requests under each id, in order.
    pub(super) ids: HashMap<Id<'static>, Vec<usize>>,
    /// Messages of the server that the client waits for, in the order of the capture.
    pub(super) expected: Vec<ExpectedMessage>,
    /// Notifications of the server.
    pub(super) notifications: Vec<MessageIndex>,
    /// Frames of the server that are no message, and responses to no request.
    pub(super) strays: Vec<MessageIndex>,
}

/// A frame of the client.
#[derive(Debug)]
pub(super) struct PlannedSend {
    pub(super) frame: usize,
    /// The number of expected messages that came before it in the capture.
    pub(super) needs: usize,
    /// The expected requests of the server that it answers, each with the place of the answer in the frame.
    pub(super) answers: Vec<(usize, usize)>,
}

/// A request of the client.
#[derive(Debug)]
pub(super) struct ClientRequest {
    pub(super) index: MessageIndex,
    /// The expected responses to it: one, if the server is right.
    pub(super) answers: Vec<usize>,
    /// Whether the client cancelled it. A response after that is not expected.
    pub(super) cancelled: bool,
}

/// A message that the client waits for.
#[derive(Debug)]
pub(super) struct ExpectedMessage {
    pub(super) index: MessageIndex,
    pub(super) kind: ExpectedKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExpectedKind {
    /// The response to a request of the client.
    Response { request: usize },
    /// A request of the server, under this id.
    Request { id: Id<'static> },
    /// An error without an id.
    OrphanError,
}

impl PlayPlan {
    pub(super) fn of(script: &Script) -> Self {
        let mut plan = Self::default();
        for (frame, recorded) in script.frames.iter().enumerate() {
            let needs = plan.expected.len();
            let mut answers = Vec::new();
            for (at, message) in recorded.messages.iter().enumerate() {
                let index = MessageIndex { frame, message: at };
                match (recorded.side, &message.kind) {
                    (Side::Client, MessageKind::Request { id, .. }) => {
                        plan.ids.entry(id.clone()).or_default().push(plan.requests.len());
                        let cancelled = recorded.given_up;
                        plan.requests.push(ClientRequest { index, answers: Vec::new(), cancelled });
                    }
                    (Side::Client, MessageKind::Response { id }) => {
                        if let Some(answered) = plan.server_request(id) {
                            answers.push((at, answered));
                        }
                    }
                    (Side::Client, MessageKind::Notification { .. }) => {
                        let cancelled = message.cancelled_id().and_then(|id| plan.ids.get(&id)?.last().copied());
                        if let Some(request) = cancelled {
                            plan.requests[request].cancelled = true;
                        }
                    }
                    (Side::Client, MessageKind::OrphanError | MessageKind::Invalid) => {}
                    (Side::Server, MessageKind::Response { id }) => {
                        let same = plan.ids.get(id).map_or(&[][..], Vec::as_slice);
                        let open = |request: &&usize| plan.requests[**request].answers.is_empty();
                        // Over HTTP several clients may use the same id at once, each in an exchange of its own. One that is
                        // used again after a cancellation is more likely that of the later request.
                        let unlikely = |request: &&usize| {
                            let request = &plan.requests[**request];
                            let elsewhere = script.frames[request.index.frame].exchange != recorded.exchange;
                            (elsewhere, request.cancelled)
                        };
                        let request = same.iter().filter(open).min_by_key(unlikely);
                        match request.or(same.last()).copied() {
                            // A response after a cancellation is not expected; one before a closed connection is.
                            Some(request) if plan.is_given_up(request, script) => {}
                            Some(request) => {
                                plan.requests[request].answers.push(plan.expected.len());
                                plan.expected.push(ExpectedMessage { index, kind: ExpectedKind::Response { request } });
                            }
                            None => plan.strays.push(index),
                        }
                    }
                    (Side::Server, MessageKind::Request { id, .. }) => {
                        plan.expected.push(ExpectedMessage { index, kind: ExpectedKind::Request { id: id.clone() } });
                    }
                    (Side::Server, MessageKind::OrphanError) => {
                        plan.expected.push(ExpectedMessage { index, kind: ExpectedKind::OrphanError })
                    }
                    (Side::Server, MessageKind::Notification { .. }) => plan.notifications.push(index),
                    (Side::Server, MessageKind::Invalid) => plan.strays.push(index),
                }
            }
            if recorded.side == Side::Client {
                plan.sends.push(PlannedSend { frame, needs, answers });
            }
        }
        plan
    }

    /// Whether the client sent a cancellation for it.
    fn is_given_up(&self, request: usize, script: &Script) -> bool {
        let ClientRequest { cancelled, index, .. } = self.requests[request];
        cancelled && !script.frames[index.frame].given_up
    }

    /// The last request of the server under this id.
    fn server_request(&self, id: &Id<'_>) -> Option<usize> {
        let is =
            |expected: &ExpectedMessage| matches!(&expected.kind, ExpectedKind::Request { id: other } if other == id);
        self.expected.iter().rposition(is)
    }
}

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;
    use crate::replay::script::ScriptOptions;

    fn plan(text: &str) -> PlayPlan {
        let options = ScriptOptions { allow_redacted: false, max_frame: 1000, ..ScriptOptions::default() };
        PlayPlan::of(&Script::from_entries(&read(text.as_bytes()).expect("a transcript"), options).expect("fit"))
    }

    fn needs(plan: &PlayPlan) -> Vec<usize> {
        plan.sends.iter().map(|send| send.needs).collect()
    }

    #[test]
    fn what_came_before_is_waited_for() {
        let plan = plan(
            r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
> {"jsonrpc":"2.0","id":2,"method":"b"}
< {"jsonrpc":"2.0","id":2,"result":{}}
< {"jsonrpc":"2.0","method":"n"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
> {"jsonrpc":"2.0","id":3,"method":"c"}
"#,
        );
        assert_eq!(needs(&plan), [0, 0, 1, 1]);
        let answers: Vec<&[usize]> = plan.requests.iter().map(|request| request.answers.as_slice()).collect();
        assert_eq!(answers, [&[][..], &[0], &[]]);
        assert!(plan.requests[0].cancelled && !plan.requests[1].cancelled);
        assert_eq!(plan.notifications, [MessageIndex { frame: 3, message: 0 }]);
    }

    #[test]
    fn what_the_client_has_given_up_is_not_awaited() {
        let plan = plan(
            r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":1,"method":"b"}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
"#,
        );
        assert_eq!(needs(&plan), [0, 0, 0, 1]);
        assert_eq!((plan.requests[0].answers.len(), plan.requests[1].answers.len()), (0, 1));
        assert_eq!(plan.strays, []);
    }

    #[test]
    fn an_answer_of_the_client_knows_its_question() {
        let plan = plan(
            r#"
> [{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]
< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
> {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
< [{"jsonrpc":"2.0","id":2,"result":{}},{"jsonrpc":"2.0","id":1,"result":{}}]
"#,
        );
        assert_eq!(plan.sends[1].answers, [(0, 0)]);
        assert_eq!((plan.requests[0].answers[0], plan.requests[1].answers[0]), (2, 1));
    }

    #[test]
    fn an_id_that_is_used_again_asks_again() {
        let plan = plan(
            r#"
> {"jsonrpc":"2.0","id":1,"method":"a"}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":1,"method":"b"}
< {"jsonrpc":"2.0","id":1.0,"result":{}}
< {"jsonrpc":"2.0","id":1,"result":{"again":true}}
< {"jsonrpc":"2.0","id":7,"result":{}}
< hello
> nonsense
< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}
"#,
        );
        assert_eq!((plan.requests[0].answers.len(), plan.requests[1].answers.len()), (1, 2));
        assert_eq!(plan.strays.len(), 2);
        assert_eq!(plan.expected.last().map(|expected| &expected.kind), Some(&ExpectedKind::OrphanError));
    }
}
