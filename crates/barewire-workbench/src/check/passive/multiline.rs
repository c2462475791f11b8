//! Lines that are not JSON -> whether they are parts of one message.

use std::collections::HashMap;

use barewire_proto::json::Json;

use crate::check::catalogue::framing::{ONE_MESSAGE_A_LINE, STDOUT_PURITY};
use crate::check::finding::Finding;

/// The unfinished messages that may span several lines, at most one for each channel.
#[derive(Default)]
pub(super) struct MultilineMessages {
    open: HashMap<String, PartialMessage>,
}

/// Lines that may be the start of a message.
struct PartialMessage {
    text: Vec<u8>,
    /// The finding for the first line, to be reported if the lines are not a message.
    first: Finding,
    lines: u64,
    nesting: Nesting,
    /// The length of `text` when it was parsed last.
    parsed: usize,
}

/// The number of open brackets, counted byte by byte.
#[derive(Default)]
struct Nesting {
    open: usize,
    in_string: bool,
    is_escaped: bool,
}

impl MultilineMessages {
    /// Handles a line and the finding for it. Returns the findings that are certain after this line.
    pub(super) fn line(&mut self, channel: &str, text: &[u8], finding: Option<Finding>) -> Vec<Finding> {
        let is_piece = finding.as_ref().is_some_and(|finding| finding.check == &STDOUT_PURITY);
        let mut decided = Vec::new();
        if let Some(mut open) = self.open.remove(channel) {
            match if is_piece { open.append(text) } else { MultilineState::Broken } {
                MultilineState::Open => {
                    self.open.insert(channel.to_owned(), open);
                    return decided;
                }
                MultilineState::Complete => {
                    let detail = format!("the message spans {} lines", open.lines);
                    decided.push(Finding { check: &ONE_MESSAGE_A_LINE, detail, ..open.first });
                    return decided;
                }
                MultilineState::Broken => decided.push(open.first),
            }
        }
        let Some(finding) = finding else { return decided };
        if is_piece && self.open.len() < MAX_OPEN && is_start(text) {
            let mut nesting = Nesting::default();
            nesting.push(text);
            let open = PartialMessage { text: text.to_vec(), first: finding, lines: 1, nesting, parsed: text.len() };
            self.open.insert(channel.to_owned(), open);
        } else {
            decided.push(finding);
        }
        decided
    }

    /// Returns the undecided findings at the end of the traffic, in no particular order.
    pub(super) fn finish(&mut self) -> impl Iterator<Item = Finding> {
        self.open.drain().map(|(_, open)| open.first)
    }
}

enum MultilineState {
    Open,
    Complete,
    Broken,
}

impl PartialMessage {
    fn append(&mut self, line: &[u8]) -> MultilineState {
        // A space, because a line break inside of a string would not be JSON. The message is torn all the same.
        self.text.push(b' ');
        self.text.extend_from_slice(line);
        self.lines += 1;
        self.nesting.push(line);
        let is_closed = self.nesting.open == 0;
        // The text is parsed only when it may be complete or its length has doubled, so that the cost stays linear.
        if !is_closed && self.text.len() < 2 * self.parsed && self.text.len() < MAX_TEXT {
            return MultilineState::Open;
        }
        self.parsed = self.text.len();
        match Json::parse(&self.text) {
            Ok(_) => MultilineState::Complete,
            Err(syntax) if !is_closed && syntax.at >= self.text.len() && self.text.len() < MAX_TEXT => {
                MultilineState::Open
            }
            Err(_) => MultilineState::Broken,
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

/// Whether the text is the start of an object or array.
fn is_start(text: &[u8]) -> bool {
    let first = text.iter().find(|b| !b.is_ascii_whitespace());
    first.is_some_and(|b| matches!(b, b'{' | b'[')) && Json::parse(text).is_err_and(|syntax| syntax.at >= text.len())
}

/// The maximum number of unfinished messages; more than any host has connections.
const MAX_OPEN: usize = 4096;
/// The maximum length of a message that spans several lines, in bytes.
const MAX_TEXT: usize = 256 * 1024;
