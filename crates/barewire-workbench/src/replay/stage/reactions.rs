//! A script -> what the server says when: for each message of the client, what it is answered with and what comes before and
//! behind that.

use std::collections::HashMap;

use barewire_proto::mcp::Side;
use barewire_proto::rpc::Id;

use crate::replay::message::{Kind, Said};
use crate::replay::plan::Line;
use crate::replay::script::Script;

/// Everything the server says, by what it says it to.
#[derive(Debug, Default)]
pub(super) struct Cues {
    /// In the order of the capture.
    pub(super) cues: Vec<Cue>,
    /// What it says before it is told anything.
    pub(super) prologue: Vec<Part>,
}

/// A message of the client, and what the server says to it.
#[derive(Debug)]
pub(super) struct Cue {
    pub(super) line: Line,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// The answer.
    Answer(Line),
    /// A notification, or what is no message.
    Tell(Line),
    /// A request of the server.
    Ask(Line),
    /// The client has to answer that request first.
    Await(Line),
}

impl Cues {
    pub(super) fn of(script: &Script) -> Self {
        let mut cues = Self::default();
        // Requests that are not answered yet, and requests of the server with the cue that they belong to.
        let mut open: Vec<(Id<'static>, usize)> = Vec::new();
        let mut asked: HashMap<Id<'static>, (usize, Line)> = HashMap::new();
        for (frame, recorded) in script.frames.iter().enumerate() {
            for (at, said) in recorded.said.iter().enumerate() {
                let line = Line { frame, said: at };
                match (recorded.side, &said.kind) {
                    (Side::Client, Kind::Answer { id }) => {
                        if let Some((cue, asked)) = asked.remove(id) {
                            cues.cues[cue].parts.push(Part::Await(asked));
                        }
                    }
                    (Side::Client, kind) => {
                        if let Kind::Request { id, .. } = kind {
                            open.push((id.clone(), cues.cues.len()));
                        }
                        cues.cues.push(Cue { line, parts: Vec::new() });
                    }
                    (Side::Server, Kind::Answer { id }) => {
                        let at = open.iter().position(|(other, _)| other == id);
                        match at.map(|at| open.remove(at).1) {
                            Some(cue) => cues.cues[cue].parts.push(Part::Answer(line)),
                            // An answer to nobody is repeated as it is.
                            None => {
                                cues.push(&open, Part::Tell(line));
                            }
                        }
                    }
                    (Side::Server, Kind::Request { id, .. }) => {
                        if let Some(cue) = cues.push(&open, Part::Ask(line)) {
                            asked.insert(id.clone(), (cue, line));
                        }
                    }
                    (Side::Server, Kind::Notification { .. }) => match about(script, &cues, &open, said) {
                        Some(cue) => cues.cues[cue].parts.push(Part::Tell(line)),
                        None => {
                            cues.push(&open, Part::Tell(line));
                        }
                    },
                    (Side::Server, Kind::Orphan) => {
                        // It is about the first that could not be read and has not been told so.
                        let is_unread = |cue: &Cue| {
                            cue.parts.is_empty()
                                && script.frames[cue.line.frame].said[cue.line.said].kind == Kind::Noise
                        };
                        match cues.cues.iter_mut().find(|cue| is_unread(cue)) {
                            Some(cue) => cue.parts.push(Part::Tell(line)),
                            None => {
                                cues.push(&open, Part::Tell(line));
                            }
                        }
                    }
                    (Side::Server, Kind::Noise) => {
                        cues.push(&open, Part::Tell(line));
                    }
                }
            }
        }
        cues
    }

    /// What names nobody belongs to the request that came last of those that wait, or else to what the client has said last.
    /// Says to which that is, if the client has said anything.
    fn push(&mut self, open: &[(Id<'static>, usize)], part: Part) -> Option<usize> {
        let cue = open.last().map(|(_, cue)| *cue).or(self.cues.len().checked_sub(1));
        match cue {
            Some(cue) => self.cues[cue].parts.push(part),
            None => self.prologue.push(part),
        }
        cue
    }
}

/// The request that a notification is about, by its token or subscription.
fn about(script: &Script, cues: &Cues, open: &[(Id<'static>, usize)], said: &Said) -> Option<usize> {
    let of = |cue: usize| {
        let line = cues.cues[cue].line;
        &script.frames[line.frame].said[line.said]
    };
    if let Some(token) = said.told_token() {
        return open.iter().map(|(_, cue)| *cue).find(|cue| of(*cue).wanted_token().as_ref() == Some(&token));
    }
    let subscription = said.subscription()?;
    open.iter().find(|(id, _)| *id == subscription).map(|(_, cue)| *cue)
}

#[cfg(test)]
mod tests {
    use barewire_proto::transcript::read;

    use super::*;
    use crate::replay::script::ScriptOptions;

    /// The parts of each cue: `a` for an answer, `t`, `q` and `w`, with the frame.
    fn cues(text: &str) -> Vec<String> {
        let options = ScriptOptions { allow_redacted: false, max_frame: 1000, ..ScriptOptions::default() };
        let script = Script::of(&read(text.as_bytes()).expect("a transcript"), options).expect("fit");
        let cues = Cues::of(&script);
        let word = |part: &Part| match part {
            Part::Answer(line) => format!("a{}", line.frame + 1),
            Part::Tell(line) => format!("t{}", line.frame + 1),
            Part::Ask(line) => format!("q{}", line.frame + 1),
            Part::Await(line) => format!("w{}", line.frame + 1),
        };
        let words = |parts: &[Part]| parts.iter().map(word).collect::<Vec<_>>().join(" ");
        let prologue = Some(words(&cues.prologue)).filter(|words| !words.is_empty());
        prologue.into_iter().chain(cues.cues.iter().map(|cue| words(&cue.parts))).collect()
    }

    #[test]
    fn what_is_said_belongs_to_what_it_is_about() {
        let cues = cues(
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
        assert_eq!(cues, ["t3 a5", "t4 q6 w6 a8 t9"]);
    }
    #[test]
    fn what_comes_first_and_what_could_not_be_read() {
        let cues = cues(
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
        assert_eq!(cues, ["t1", "t4", "q5 w5 t7"]);
    }

    #[test]
    fn a_listener_is_told_what_it_listens_to() {
        let cues = cues(
            r#"
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call"}
< {"jsonrpc":"2.0","method":"n","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}
< {"jsonrpc":"2.0","id":2,"result":{}}
"#,
        );
        assert_eq!(cues, ["t3", "a4"]);
    }
}
