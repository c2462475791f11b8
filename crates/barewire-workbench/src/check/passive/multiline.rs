//! Lines that are no JSON -> whether they are multiline of one message.

use std::collections::HashMap;

use barewire_proto::json::Json;

use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::finding::Finding;

/// Messages that may be spread over lines, by channel.
#[derive(Default)]
pub(super) struct MultilineMessages {
    open: HashMap<String, PartialMessage>,
}

/// Lines that may be the beginning of a message.
struct PartialMessage {
    text: Vec<u8>,
    /// What is wrong with the first of them if they are not.
    first: Finding,
    lines: u64,
    nesting: Nesting,
    /// How long it was when it was parsed last.
    parsed: usize,
}

/// How many brackets are open, told from the bytes as they come.
#[derive(Default)]
struct Nesting {
    open: usize,
    in_string: bool,
    is_escaped: bool,
}

impl MultilineMessages {
    /// Takes a line and what is wrong with it, and gives back what can be told by now.
    pub(super) fn line(&mut self, channel: &str, text: &[u8], finding: Option<Finding>) -> Vec<Finding> {
        let is_piece = finding.as_ref().is_some_and(|finding| finding.check == &STDOUT_PURITY);
        let mut told = Vec::new();
        if let Some(mut open) = self.open.remove(channel) {
            match if is_piece { open.goes_on(text) } else { Continuation::Broken } {
                Continuation::Open => {
                    self.open.insert(channel.to_owned(), open);
                    return told;
                }
                Continuation::Complete => {
                    let detail = format!("it is spread over {} lines", open.lines);
                    told.push(Finding { check: &ONE_MESSAGE_A_LINE, detail, ..open.first });
                    return told;
                }
                Continuation::Broken => told.push(open.first),
            }
        }
        let Some(finding) = finding else { return told };
        if is_piece && self.open.len() < MOST_OPEN && is_beginning(text) {
            let mut nesting = Nesting::default();
            nesting.push(text);
            let open = PartialMessage { text: text.to_vec(), first: finding, lines: 1, nesting, parsed: text.len() };
            self.open.insert(channel.to_owned(), open);
        } else {
            told.push(finding);
        }
        told
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = Finding> {
        self.open.drain().map(|(_, open)| open.first)
    }
}

enum Continuation {
    Open,
    Complete,
    Broken,
}

impl PartialMessage {
    fn goes_on(&mut self, line: &[u8]) -> Continuation {
        self.text.push(b'\n');
        self.text.extend_from_slice(line);
        self.lines += 1;
        self.nesting.push(line);
        let is_closed = self.nesting.open == 0;
        // Parsed when it may be complete, and else only when it has doubled: the whole is then read a few times, not once a line.
        if !is_closed && self.text.len() < 2 * self.parsed && self.text.len() < MOST_TEXT {
            return Continuation::Open;
        }
        self.parsed = self.text.len();
        match Json::parse(&self.text) {
            Ok(_) => Continuation::Complete,
            Err(syntax) if !is_closed && syntax.at >= self.text.len() && self.text.len() < MOST_TEXT => {
                Continuation::Open
            }
            Err(_) => Continuation::Broken,
        }
    }
}

impl Nesting {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.open += 1,
                b'}' | b']' if !self.in_string => self.open = self.open.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// An object or an array that is not at its end.
fn is_beginning(text: &[u8]) -> bool {
    let first = text.iter().find(|b| !b.is_ascii_whitespace());
    first.is_some_and(|b| matches!(b, b'{' | b'[')) && Json::parse(text).is_err_and(|syntax| syntax.at >= text.len())
}

/// More connections than a host has.
const MOST_OPEN: usize = 4096;
/// No message that somebody prints over several lines is longer.
const MOST_TEXT: usize = 256 * 1024;
