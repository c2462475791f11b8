//! The bytes of a frame that is too long to keep -> the id and method its sender needs an answer by.
//!
//! The scan is fed piece by piece, wherever the pieces are cut, and holds no more than the id and the method. It finds
//! them wherever they stand: some SDKs write the id last. It follows the structure of the outermost object and counts
//! brackets below it; it is no judge of the JSON inside, because the frame is refused anyhow.

use super::{FrameError, TooLong};
use crate::json::{self, Json};

/// What a skipped frame was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a frame is an object or is none")]
pub enum Outline {
    /// An object, with those of its members that tell what it asks for.
    Object {
        /// The member `id`.
        id: OutlineMember,
        /// The member `method`.
        method: OutlineMember,
        /// It has a `result` or an `error`.
        answers: bool,
    },
    /// An array, a scalar, or no JSON as far as was looked.
    Other,
}

/// A member of a skipped frame.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a member is absent, readable or neither")]
pub enum OutlineMember {
    /// It is not there.
    #[default]
    Absent,
    /// It is there once, and this is its text. Whether that is valid has not been checked.
    Text(Box<[u8]>),
    /// It is there, but twice, or longer than 2 MiB, or it is an object or array.
    Unreadable,
}

/// The scan, between two pieces.
#[derive(Debug, Default)]
pub(super) struct Scan {
    state: State,
    /// The member whose value is being read.
    member: Member,
    /// The text of a name or of a value that is kept.
    text: Vec<u8>,
    /// `text` is over its cap and no longer complete.
    overflow: bool,
    id: OutlineMember,
    method: OutlineMember,
    answers: bool,
    /// The first bytes of the frame.
    prefix: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Start,
    /// Before a name; right after the opening brace there may be none.
    Name {
        first: bool,
    },
    InName {
        escaped: bool,
    },
    Colon,
    Value,
    InString {
        escaped: bool,
    },
    InScalar,
    /// Inside an object or array that is the value of a member.
    Nested {
        depth: u64,
    },
    InNestedString {
        depth: u64,
        escaped: bool,
    },
    AfterValue,
    /// After the closing brace.
    End,
    Broken,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Member {
    Id,
    Method,
    Answer,
    #[default]
    Other,
}

impl Scan {
    /// Goes on with the next bytes of the frame.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let room = MAX_PREFIX - self.prefix.len();
        self.prefix.extend_from_slice(&bytes[..room.min(bytes.len())]);
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.step(rest);
        }
    }

    /// The frame is over.
    pub(super) fn finish(self, offset: u64, length: u64, limit: usize) -> FrameError {
        let prefix = self.prefix.into();
        let outline = match self.state {
            State::End => Outline::Object { id: self.id, method: self.method, answers: self.answers },
            _ => Outline::Other,
        };
        FrameError::TooLong(Box::new(TooLong { offset, length, limit, outline, prefix }))
    }

    /// Takes at least one byte and returns those it has not taken.
    fn step<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (byte, rest) = (bytes[0], &bytes[1..]);
        let white = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match (self.state, byte) {
            (State::Broken, _) => return &[],
            (State::InName { .. } | State::InString { .. } | State::InNestedString { .. }, _) => {
                return self.in_string(bytes);
            }
            (State::InScalar, b',' | b'}') => {
                self.take_value();
                self.state = State::AfterValue;
                return bytes;
            }
            (State::InScalar, _) if white => {
                self.take_value();
                State::AfterValue
            }
            (State::InScalar, _) => {
                self.keep(&bytes[..1]);
                State::InScalar
            }
            (State::Nested { depth }, b'"') => State::InNestedString { depth, escaped: false },
            (State::Nested { depth }, b'{' | b'[') => State::Nested { depth: depth + 1 },
            (State::Nested { depth: 1 }, b'}' | b']') => State::AfterValue,
            (State::Nested { depth }, b'}' | b']') => State::Nested { depth: depth - 1 },
            (State::Nested { depth }, _) => State::Nested { depth },
            (state, _) if white => state,
            (State::Start, b'{') => State::Name { first: true },
            (State::Name { .. }, b'"') => {
                self.text.push(b'"');
                State::InName { escaped: false }
            }
            (State::Name { first: true }, b'}') | (State::AfterValue, b'}') => State::End,
            (State::Colon, b':') => State::Value,
            (State::Value, b'"') => {
                self.keep(b"\"");
                State::InString { escaped: false }
            }
            (State::Value, b'{' | b'[') => {
                self.overflow = true;
                self.take_value();
                State::Nested { depth: 1 }
            }
            (State::Value, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                self.keep(&bytes[..1]);
                State::InScalar
            }
            (State::AfterValue, b',') => State::Name { first: false },
            _ => State::Broken,
        };
        rest
    }

    /// Inside a string, up to its end or the end of `bytes`.
    fn in_string<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (State::InName { escaped } | State::InString { escaped } | State::InNestedString { escaped, .. }) =
            &mut self.state
        else {
            unreachable!("called inside a string only");
        };
        // Behind a backslash stands one byte that is not looked at; then up to the next quote or backslash.
        let from = usize::from(std::mem::take(escaped));
        let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[from..]) else {
            self.keep(bytes);
            return &[];
        };
        let (taken, rest) = bytes.split_at(from + found + 1);
        if taken.ends_with(b"\\") {
            *escaped = true;
            self.keep(taken);
            return rest;
        }
        self.state = match self.state {
            State::InName { .. } => {
                self.keep(taken);
                self.take_name();
                State::Colon
            }
            State::InString { .. } => {
                self.keep(taken);
                self.take_value();
                State::AfterValue
            }
            State::InNestedString { depth, .. } => State::Nested { depth },
            other => other,
        };
        rest
    }

    /// Adds to the text of a name or value, if it is one that matters.
    fn keep(&mut self, bytes: &[u8]) {
        let cap = match (self.state, self.member) {
            (State::InNestedString { .. }, _) => return,
            (State::InName { .. }, _) => LONGEST_NAME,
            (_, Member::Id | Member::Method) => LONGEST_VALUE,
            (_, Member::Answer | Member::Other) => return,
        };
        if self.overflow || self.text.len() + bytes.len() > cap {
            self.overflow = true;
        } else {
            self.text.extend_from_slice(bytes);
        }
    }

    fn take_name(&mut self) {
        // Checked here, because nothing else has: a name with a broken escape is nobody's.
        let name = Some(&self.text).filter(|text| !self.overflow && Json::parse(text).is_ok());
        let known = name.and_then(|text| {
            json::name(
                &text[1..text.len() - 1],
                &[
                    (b"id", Member::Id),
                    (b"method", Member::Method),
                    (b"result", Member::Answer),
                    (b"error", Member::Answer),
                ],
            )
        });
        self.member = known.unwrap_or(Member::Other);
        self.answers |= self.member == Member::Answer;
        self.text.clear();
        self.overflow = false;
    }

    fn take_value(&mut self) {
        let text = std::mem::take(&mut self.text);
        let seen = match &mut self.member {
            Member::Id => Some(&mut self.id),
            Member::Method => Some(&mut self.method),
            Member::Answer | Member::Other => None,
        };
        if let Some(seen) = seen {
            *seen = match seen {
                OutlineMember::Absent if !self.overflow => OutlineMember::Text(text.into()),
                _ => OutlineMember::Unreadable,
            };
        }
        self.overflow = false;
    }
}

/// As much of a skipped frame as a log quotes.
const MAX_PREFIX: usize = 80;

/// `"method"` with every letter as `\u006d` has 38 bytes; no longer name is one we look for.
const LONGEST_NAME: usize = 38;

/// An id or method of more than this is not kept: the memory of a skipped frame stays bounded by it. Ids of a mebibyte
/// are to be echoed, and quotes and escapes count as well.
const LONGEST_VALUE: usize = 2 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str, piece: usize) -> Outline {
        let mut scan = Scan::default();
        text.as_bytes().chunks(piece).for_each(|bytes| scan.feed(bytes));
        finish(scan)
    }

    fn finish(scan: Scan) -> Outline {
        match scan.finish(0, 0, 0) {
            FrameError::TooLong(long) => long.outline,
            other => panic!("{other}"),
        }
    }

    fn object(id: &str, method: &str, answers: bool) -> Outline {
        let seen = |text: &str| match text {
            "" => OutlineMember::Absent,
            "?" => OutlineMember::Unreadable,
            text => OutlineMember::Text(text.as_bytes().into()),
        };
        Outline::Object { id: seen(id), method: seen(method), answers }
    }

    #[test]
    fn id_and_method_are_found_wherever_they_stand() {
        for (text, expected) in [
            (r#"{"id":1,"method":"m","params":{}}"#, object("1", r#""m""#, false)),
            (r#"{"params":{"id":9,"s":"}\"]{"},"method":"m","id":"x"}"#, object(r#""x""#, r#""m""#, false)),
            (r#" { "method" : "m" , "id" : 1.0e2 } "#, object("1.0e2", r#""m""#, false)),
            (r#"{"\u0069d":"\"\\","metho\u0064":"m"}"#, object(r#""\"\\""#, r#""m""#, false)),
            (r#"{"id":1,"id":2}"#, object("?", "", false)),
            (r#"{"id":[1],"method":{"a":[{}]}}"#, object("?", "?", false)),
            (r#"{"id":null}"#, object("null", "", false)),
            (r#"{"id":1,"result":{"error":1}}"#, object("1", "", true)),
            (r#"{"error":{},"id":2}"#, object("2", "", true)),
            ("{}", object("", "", false)),
            (r#"{"\u00":1,"id":2}"#, object("2", "", false)),
            (r#"[{"id":1}]"#, Outline::Other),
            (r#""id""#, Outline::Other),
            (r#"{"id":1"#, Outline::Other),
            (r#"{"id":1}}"#, Outline::Other),
            (r#"{"id":1,}"#, Outline::Other),
            (r#"{"id" 1}"#, Outline::Other),
            (r#"x{"id":1}"#, Outline::Other),
        ] {
            for piece in 1..=text.len() {
                assert_eq!(outline(text, piece), expected, "{text} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let name = "i".repeat(1 << 20);
        let value = "v".repeat(3 << 20);
        let mut scan = Scan::default();
        let text = format!(r#"{{"{name}":"{value}","id":"{value}","method":"m"}}"#);
        for bytes in text.as_bytes().chunks(4096) {
            scan.feed(bytes);
            assert!(scan.text.len() <= LONGEST_VALUE);
        }
        assert_eq!(finish(scan), object("?", r#""m""#, false));
    }
}
