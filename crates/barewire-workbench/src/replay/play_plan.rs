//! The plan for replaying the client of a script: the order of sends, and the server's messages to wait for.

use std::collections::HashMap;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use super::message::MessageKind;
use super::script::{MessageIndex, Script};

/// The frames to send, and the messages that are expected from the server.
#[derive(Debug, Default)]
pub(super) struct PlayPlan {
    pub(super) sends: Vec<PlannedSend>,
    pub(super) requests: Vec<ClientRequest>,
    /// Maps each id to the indices of the client's requests with that id, in order.
    pub(super) ids: HashMap<Id<'static>, Vec<usize>>,
    /// The server's messages that the client waits for, in the order of the capture.
    pub(super) expected: Vec<ExpectedMessage>,
    pub(super) notifications: Vec<MessageIndex>,
    /// The server's frames that are not messages, and its responses that match no request.
    pub(super) strays: Vec<MessageIndex>,
}

#[derive(Debug)]
pub(super) struct PlannedSend {
    pub(super) frame: usize,
    /// The number of expected messages before this frame in the capture. They must be received before it is sent.
    pub(super) needs: usize,
    /// The responses in this frame: for each, its position in the frame, and the index of the server's request (among
    /// the expected messages) that it answers.
    pub(super) answers: Vec<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct ClientRequest {
    pub(super) index: MessageIndex,
    /// The indices of the expected responses: one, unless the server violated the protocol.
    pub(super) answers: Vec<usize>,
    /// Whether the client cancelled the request. A response after the cancellation is not expected.
    pub(super) cancelled: bool,
}

#[derive(Debug)]
pub(super) struct ExpectedMessage {
    pub(super) index: MessageIndex,
    pub(super) kind: ExpectedKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExpectedKind {
    /// The response to a request of the client.
    Response { request: usize },
    /// A request from the server with this id.
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
            for (position, message) in recorded.messages.iter().enumerate() {
                let index = MessageIndex { frame, message: position };
                match (recorded.side, &message.kind) {
                    (Side::Client, MessageKind::Request { id, .. }) => {
                        plan.ids.entry(id.clone()).or_default().push(plan.requests.len());
                        let cancelled = recorded.connection_closed;
                        plan.requests.push(ClientRequest { index, answers: Vec::new(), cancelled });
                    }
                    (Side::Client, MessageKind::Response { id }) => {
                        answers.extend(plan.server_request(id).map(|request| (position, request)));
                    }
                    (Side::Client, MessageKind::Notification { .. }) => {
                        let cancelled = message.cancelled_id().and_then(|id| plan.ids.get(&id)?.last().copied());
                        if let Some(request) = cancelled {
                            plan.requests[request].cancelled = true;
                        }
                    }
                    (Side::Client, MessageKind::OrphanError | MessageKind::Invalid) => {}
                    (Side::Server, MessageKind::Response { id }) => {
                        match plan.answered_request(id, &recorded.exchange, script) {
                            // A response after a cancellation notification is not expected. A response that came
                            // before the client closed the connection is expected.
                            Some(request) if plan.is_cancelled_by_message(request, script) => {}
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
                        plan.expected.push(ExpectedMessage { index, kind: ExpectedKind::OrphanError });
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

    /// Returns the request that a recorded response with this id answers: the first one without a response, or else the
    /// last one.
    ///
    /// Over HTTP several clients may use the same id at once, each in its own exchange. If an id was reused after a
    /// cancellation, the response more likely belongs to the later request.
    fn answered_request(&self, id: &Id<'_>, exchange: &str, script: &Script) -> Option<usize> {
        let same_id = self.ids.get(id)?;
        let unlikely = |request: &&usize| {
            let request = &self.requests[**request];
            (script.frames[request.index.frame].exchange != exchange, request.cancelled)
        };
        let open = same_id.iter().filter(|request| self.requests[**request].answers.is_empty());
        open.min_by_key(unlikely).or(same_id.last()).copied()
    }

    /// Whether the client cancelled the request with a notification rather than by closing the connection.
    fn is_cancelled_by_message(&self, request: usize, script: &Script) -> bool {
        let ClientRequest { cancelled, index, .. } = self.requests[request];
        cancelled && !script.frames[index.frame].connection_closed
    }

    /// Returns the server's last request with this id.
    fn server_request(&self, id: &Id<'_>) -> Option<usize> {
        let is_request =
            |expected: &ExpectedMessage| matches!(&expected.kind, ExpectedKind::Request { id: other } if other == id);
        self.expected.iter().rposition(is_request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> PlayPlan {
        PlayPlan::of(&Script::of_test(text))
    }

    fn needs(plan: &PlayPlan) -> Vec<usize> {
        plan.sends.iter().map(|send| send.needs).collect()
    }

    #[test]
    fn a_send_waits_for_the_messages_before_it() {
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
    fn responses_to_cancelled_requests_are_not_expected() {
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
    fn a_response_of_the_client_has_its_request() {
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
    fn a_reused_id_is_another_request() {
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
