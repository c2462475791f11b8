//! The workloads: bursts of calls, each answered completely before the next burst is sent.
//!
//! With bursts, the work is the same for every server. If each answer were followed by the next request at once, a
//! server that writes its answers one by one would also get its requests one by one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::contender::Protocol;
use super::era::{Era, HEAD};

/// The number and size of the calls, and how many are in flight at once.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) era: Era,
    /// The bytes of text in a call.
    pub(crate) text: usize,
    /// Whether the floor's answers contain `"isError":false`.
    pub(crate) is_error: bool,
    /// Calls in a burst.
    pub(crate) depth: u32,
    /// Bursts in a round.
    pub(crate) bursts: u32,
    /// The bursts whose instructions are counted. Under valgrind everything is about fifty times slower.
    pub(crate) counted: u32,
    /// Whether client and server share a processor, so that a wake-up is a context switch and not an interrupt of
    /// another processor.
    pub(crate) one_core: bool,
}

impl Workload {
    /// Whether a burst is one call, so that its time is the latency of that call.
    pub(crate) fn is_ping_pong(&self) -> bool {
        self.depth == 1
    }

    pub(crate) fn burst(&self) -> Burst {
        Burst::new(self)
    }
}

/// The match of a server's answers with those of the floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AnswerMatch {
    /// Every byte is the same.
    Bytes,
    /// Ids and texts are the same; the order or other members differ.
    Values,
}

/// The requests of one burst and their answers, as bytes that are built once and get new ids for each use.
#[derive(Debug)]
pub(crate) struct Burst {
    era: Era,
    text: String,
    first: u32,
    depth: u32,
    requests: Vec<u8>,
    answers: Vec<u8>,
}

impl Burst {
    fn new(&Workload { era, text: length, is_error, depth, .. }: &Workload) -> Self {
        let text = text(length);
        let (request, answer) = (era.call(FIRST_ID, &text), era.answer(FIRST_ID, &text, is_error));
        let times = usize::try_from(depth).expect("a burst fits in memory");
        let (requests, answers) = (request.repeat(times).into_bytes(), answer.repeat(times).into_bytes());
        // The first call of `next` numbers them from FIRST_ID.
        Self { era, text, first: FIRST_ID - depth, depth, requests, answers }
    }

    /// Gives the calls new ids: a session must not use an id twice.
    pub(crate) fn next(&mut self) {
        self.first += self.depth;
        for lines in [&mut self.requests, &mut self.answers] {
            let length = lines.len() / usize::try_from(self.depth).expect("it was one");
            for (line, id) in lines.chunks_exact_mut(length).zip(self.first..) {
                write_id(&mut line[HEAD.len()..][..ID_DIGITS], id);
            }
        }
    }

    pub(crate) fn requests(&self) -> &[u8] {
        &self.requests
    }

    /// Checks the answers to this burst, whose number is already checked. With `thorough`, they are also read as JSON,
    /// which is too slow for every burst.
    pub(crate) fn check(&self, answers: &[u8], protocol: Protocol, thorough: bool) -> Result<AnswerMatch, String> {
        match protocol {
            _ if answers == self.answers => return Ok(AnswerMatch::Bytes),
            Protocol::Bare => {
                return Err(format!("the answers differ from those of the floor: {}", beginning(answers)));
            }
            Protocol::Mcp if thorough => self.check_values(answers)?,
            Protocol::Mcp => {}
        }
        Ok(AnswerMatch::Values)
    }

    fn check_values(&self, answers: &[u8]) -> Result<(), String> {
        let mut waiting: BTreeSet<u64> = (self.first..self.first + self.depth).map(u64::from).collect();
        for line in answers.split_inclusive(|&byte| byte == b'\n') {
            let answer: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
            let id = answer["id"].as_u64();
            if !id.is_some_and(|id| waiting.remove(&id)) {
                return Err(format!("an answer matches no request: {}", beginning(line)));
            }
            let result = &answer["result"];
            if result["content"][0]["text"] != self.text || result["isError"] == true {
                return Err(format!("an answer has another text than its request: {}", beginning(line)));
            }
            if self.era == Era::Modern && result["resultType"] != "complete" {
                return Err(format!("not a modern result: {}", beginning(line)));
            }
        }
        if waiting.is_empty() { Ok(()) } else { Err(format!("{} requests without an answer", waiting.len())) }
    }
}

/// The text of a call, of this length.
pub(crate) fn text(length: usize) -> String {
    LOREM.repeat(length / LOREM.len() + 1)[..length].to_owned()
}

pub(crate) fn write_id(digits: &mut [u8], mut id: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789"[usize::try_from(id % 10).expect("one digit")];
        id /= 10;
    }
}

pub(crate) fn beginning(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(200)].escape_ascii().to_string()
}

/// All ids have the same number of digits, so that they can be overwritten in place.
pub(crate) const FIRST_ID: u32 = 10_000_000;
pub(crate) const ID_DIGITS: usize = 8;
const LOREM: &str = "lorem ipsum dolor sit amet, ";
