//! A script -> who waits for what: which requests were answered by what, and what came before each message of the client.

use std::collections::HashMap;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use super::message::Kind;
use super::script::Script;

/// A message of the script: a frame, and which of what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Line {
    pub(super) frame: usize,
    pub(super) said: usize,
}

/// What is sent when, and what is expected.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) sends: Vec<Send>,
    /// What the client asks.
    pub(super) asked: Vec<Asked>,
    /// What it asks under an id, in order.
    pub(super) ids: HashMap<Id<'static>, Vec<usize>>,
    /// What the server says that the client waits for, in the order of the capture.
    pub(super) awaited: Vec<Awaited>,
    /// What the server tells without being asked.
    pub(super) told: Vec<Line>,
    /// What the server says that is no message, or an answer to nobody.
    pub(super) strays: Vec<Line>,
}

/// A frame of the client.
#[derive(Debug)]
pub(super) struct Send {
    pub(super) frame: usize,
    /// So many of what is awaited came before it in the capture.
    pub(super) needs: usize,
    /// Which of what is awaited it answers, by the place of the answer in the frame.
    pub(super) answers: Vec<(usize, usize)>,
}

/// A request of the client.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) line: Line,
    /// What is awaited for it: one answer, if the server is right.
    pub(super) answers: Vec<usize>,
    /// The client gave it up. What is answered to it after that is not awaited.
    pub(super) cancelled: bool,
}

#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) line: Line,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    /// An answer to what was asked.
    Answer { asked: usize },
    /// A request of the server, under this id.
    Request { id: Id<'static> },
    /// An error for something that had no id.
    Orphan,
}

impl Plan {
    pub(super) fn of(script: &Script) -> Self {
        let mut plan = Self::default();
        for (frame, recorded) in script.frames.iter().enumerate() {
            let needs = plan.awaited.len();
            let mut answers = Vec::new();
            for (at, said) in recorded.said.iter().enumerate() {
                let line = Line { frame, said: at };
                match (recorded.side, &said.kind) {
                    (Side::Client, Kind::Request { id, .. }) => {
                        plan.ids.entry(id.clone()).or_default().push(plan.asked.len());
                        let cancelled = recorded.given_up;
                        plan.asked.push(Asked { line, answers: Vec::new(), cancelled });
                    }
                    (Side::Client, Kind::Answer { id }) => {
                        if let Some(answered) = plan.server_request(id) {
                            answers.push((at, answered));
                        }
                    }
                    (Side::Client, Kind::Notification { .. }) => {
                        let cancelled = said.cancels().and_then(|id| plan.ids.get(&id)?.last().copied());
                        if let Some(asked) = cancelled {
                            plan.asked[asked].cancelled = true;
                        }
                    }
                    (Side::Client, Kind::Orphan | Kind::Noise) => {}
                    (Side::Server, Kind::Answer { id }) => {
                        let same = plan.ids.get(id).map_or(&[][..], Vec::as_slice);
                        let open = |asked: &&usize| plan.asked[**asked].answers.is_empty();
                        // Over HTTP several clients may use the same id at once, each in an exchange of its own. One that is
                        // used again after a cancellation is more likely that of the later request.
                        let unlikely = |asked: &&usize| {
                            let asked = &plan.asked[**asked];
                            let elsewhere = script.frames[asked.line.frame].exchange != recorded.exchange;
                            (elsewhere, asked.cancelled)
                        };
                        let asked = same.iter().filter(open).min_by_key(unlikely);
                        match asked.or(same.last()).copied() {
                            // Nobody has waited for it then, so nobody does now. Who closes a connection has had what came before.
                            Some(asked) if plan.is_given_up(asked, script) => {}
                            Some(asked) => {
                                plan.asked[asked].answers.push(plan.awaited.len());
                                plan.awaited.push(Awaited { line, what: What::Answer { asked } });
                            }
                            None => plan.strays.push(line),
                        }
                    }
                    (Side::Server, Kind::Request { id, .. }) => {
                        plan.awaited.push(Awaited { line, what: What::Request { id: id.clone() } });
                    }
                    (Side::Server, Kind::Orphan) => plan.awaited.push(Awaited { line, what: What::Orphan }),
                    (Side::Server, Kind::Notification { .. }) => plan.told.push(line),
                    (Side::Server, Kind::Noise) => plan.strays.push(line),
                }
            }
            if recorded.side == Side::Client {
                plan.sends.push(Send { frame, needs, answers });
            }
        }
        plan
    }

    /// Whether the client has said that it no longer wants to have it.
    fn is_given_up(&self, asked: usize, script: &Script) -> bool {
        let Asked { cancelled, line, .. } = self.asked[asked];
        cancelled && !script.frames[line.frame].given_up
    }

    /// The last request of the server under this id.
    fn server_request(&self, id: &Id<'_>) -> Option<usize> {
        let is = |awaited: &Awaited| matches!(&awaited.what, What::Request { id: other } if other == id);
        self.awaited.iter().rposition(is)
    }
}

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;
    use crate::replay::script::ScriptOptions;

    fn plan(text: &str) -> Plan {
        let options = ScriptOptions { allow_redacted: false, max_frame: 1000, ..ScriptOptions::default() };
        Plan::of(&Script::of(&read(text.as_bytes()).expect("a transcript"), options).expect("fit"))
    }

    fn needs(plan: &Plan) -> Vec<usize> {
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
        let answers: Vec<&[usize]> = plan.asked.iter().map(|asked| asked.answers.as_slice()).collect();
        assert_eq!(answers, [&[][..], &[0], &[]]);
        assert!(plan.asked[0].cancelled && !plan.asked[1].cancelled);
        assert_eq!(plan.told, [Line { frame: 3, said: 0 }]);
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
        assert_eq!((plan.asked[0].answers.len(), plan.asked[1].answers.len()), (0, 1));
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
        assert_eq!((plan.asked[0].answers[0], plan.asked[1].answers[0]), (2, 1));
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
        assert_eq!((plan.asked[0].answers.len(), plan.asked[1].answers.len()), (1, 2));
        assert_eq!(plan.strays.len(), 2);
        assert_eq!(plan.awaited.last().map(|awaited| &awaited.what), Some(&What::Orphan));
    }
}
