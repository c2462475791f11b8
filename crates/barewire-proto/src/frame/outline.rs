//! Finds the id and method, which an error response needs, in a frame that is too long to keep.
//!
//! The scanner receives the frame in pieces, cut anywhere, and keeps only the id and the method, at any position: some
//! SDKs write the id last. It parses only the outermost object and counts brackets inside nested values. It does not
//! validate the JSON, because the frame is refused in any case.

use super::{FrameError, TooLong};
use crate::json::{self, Json};

/// The parts of a skipped frame that an error response needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a frame is either an object or not an object")]
pub enum Outline {
    /// A JSON object, with the members that tell requests, notifications and responses apart.
    Object {
        /// The member `id`.
        id: OutlineMember,
        /// The member `method`.
        method: OutlineMember,
        /// Whether the object has a `result` or an `error`.
        is_response: bool,
    },
    /// An array, a scalar, or text that the scanner recognizes as invalid JSON.
    Other,
}

/// The member `id` or `method` of a skipped frame.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a member is absent, readable or unreadable")]
pub enum OutlineMember {
    /// The object has no such member.
    #[default]
    Absent,
    /// The text of the member's value. The member occurs once. The text was not checked for valid JSON.
    Text(Box<[u8]>),
    /// The member occurs twice, or its value is longer than 2 MiB, an object or an array.
    Unreadable,
}

/// The state of the scanner between two pieces of the frame.
#[derive(Debug, Default)]
pub(super) struct OutlineScanner {
    state: ScanState,
    /// The member whose value is being read.
    member: ScannedMember,
    /// The text of the current member name or value; empty for a value that is not kept.
    text: Vec<u8>,
    /// Whether `text` has reached its limit and is incomplete.
    overflow: bool,
    id: OutlineMember,
    method: OutlineMember,
    is_response: bool,
    /// The first bytes of the frame, for the log.
    prefix: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy)]
enum ScanState {
    #[default]
    Start,
    /// Before a member name. If `first` is set, directly after the opening brace, where the object can also end.
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
enum ScannedMember {
    Id,
    Method,
    Outcome,
    #[default]
    Other,
}

impl OutlineScanner {
    /// Scans the next bytes of the frame.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let room = MAX_PREFIX_BYTES - self.prefix.len();
        self.prefix.extend_from_slice(&bytes[..room.min(bytes.len())]);
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = self.step(rest);
        }
    }

    /// Ends the scan and returns the error for the skipped frame, with the id and method that were found.
    pub(super) fn finish(self, offset: u64, length: u64, limit: usize) -> FrameError {
        let prefix = self.prefix.into();
        let outline = match self.state {
            ScanState::End => Outline::Object { id: self.id, method: self.method, is_response: self.is_response },
            _ => Outline::Other,
        };
        FrameError::TooLong(Box::new(TooLong { offset, length, limit, outline, prefix }))
    }

    /// Consumes at least one byte of `bytes` and returns the remaining bytes.
    fn step<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (byte, rest) = (bytes[0], &bytes[1..]);
        let white = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match (self.state, byte) {
            (ScanState::Broken, _) => return &[],
            (ScanState::InName { .. } | ScanState::InString { .. } | ScanState::InNestedString { .. }, _) => {
                return self.in_string(bytes);
            }
            (ScanState::InScalar, b',' | b'}') => {
                self.finish_value();
                self.state = ScanState::AfterValue;
                return bytes;
            }
            (ScanState::InScalar, _) if white => {
                self.finish_value();
                ScanState::AfterValue
            }
            (ScanState::InScalar, _) => {
                self.append_text(&bytes[..1]);
                ScanState::InScalar
            }
            (ScanState::Nested { depth }, b'"') => ScanState::InNestedString { depth, escaped: false },
            (ScanState::Nested { depth }, b'{' | b'[') => ScanState::Nested { depth: depth + 1 },
            (ScanState::Nested { depth: 1 }, b'}' | b']') => ScanState::AfterValue,
            (ScanState::Nested { depth }, b'}' | b']') => ScanState::Nested { depth: depth - 1 },
            (ScanState::Nested { depth }, _) => ScanState::Nested { depth },
            (state, _) if white => state,
            (ScanState::Start, b'{') => ScanState::Name { first: true },
            (ScanState::Name { .. }, b'"') => {
                self.text.push(b'"');
                ScanState::InName { escaped: false }
            }
            (ScanState::Name { first: true }, b'}') | (ScanState::AfterValue, b'}') => ScanState::End,
            (ScanState::Colon, b':') => ScanState::Value,
            (ScanState::Value, b'"') => {
                self.append_text(b"\"");
                ScanState::InString { escaped: false }
            }
            (ScanState::Value, b'{' | b'[') => {
                self.overflow = true;
                self.finish_value();
                ScanState::Nested { depth: 1 }
            }
            (ScanState::Value, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                self.append_text(&bytes[..1]);
                ScanState::InScalar
            }
            (ScanState::AfterValue, b',') => ScanState::Name { first: false },
            _ => ScanState::Broken,
        };
        rest
    }

    /// Consumes the bytes of a string, up to its end or the end of `bytes`, and returns the remaining bytes.
    fn in_string<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (ScanState::InName { escaped }
        | ScanState::InString { escaped }
        | ScanState::InNestedString { escaped, .. }) = &mut self.state
        else {
            unreachable!("in_string is called only inside a string");
        };
        // Skip the byte after a backslash, then search for the next quote or backslash.
        let from = usize::from(std::mem::take(escaped));
        let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[from..]) else {
            self.append_text(bytes);
            return &[];
        };
        let (taken, rest) = bytes.split_at(from + found + 1);
        if taken.ends_with(b"\\") {
            *escaped = true;
            self.append_text(taken);
            return rest;
        }
        self.state = match self.state {
            ScanState::InName { .. } => {
                self.append_text(taken);
                self.finish_name();
                ScanState::Colon
            }
            ScanState::InString { .. } => {
                self.append_text(taken);
                self.finish_value();
                ScanState::AfterValue
            }
            ScanState::InNestedString { depth, .. } => ScanState::Nested { depth },
            other => other,
        };
        rest
    }

    /// Appends `bytes` to the text of the current name, or of the current value if the member is `id` or `method`.
    fn append_text(&mut self, bytes: &[u8]) {
        let cap = match (self.state, self.member) {
            (ScanState::InNestedString { .. }, _) => return,
            (ScanState::InName { .. }, _) => MAX_NAME_BYTES,
            (_, ScannedMember::Id | ScannedMember::Method) => MAX_VALUE_BYTES,
            (_, ScannedMember::Outcome | ScannedMember::Other) => return,
        };
        if self.overflow || self.text.len() + bytes.len() > cap {
            self.overflow = true;
        } else {
            self.text.extend_from_slice(bytes);
        }
    }

    fn finish_name(&mut self) {
        // The scanner has not checked the name, so it is parsed here: a name with a broken escape must not match.
        let name = Some(&self.text).filter(|text| !self.overflow && Json::parse(text).is_ok());
        let known = name.and_then(|text| {
            json::match_name(
                &text[1..text.len() - 1],
                &[
                    (b"id", ScannedMember::Id),
                    (b"method", ScannedMember::Method),
                    (b"result", ScannedMember::Outcome),
                    (b"error", ScannedMember::Outcome),
                ],
            )
        });
        self.member = known.unwrap_or(ScannedMember::Other);
        self.is_response |= self.member == ScannedMember::Outcome;
        self.text.clear();
        self.overflow = false;
    }

    fn finish_value(&mut self) {
        let text = std::mem::take(&mut self.text);
        let member_slot = match &mut self.member {
            ScannedMember::Id => Some(&mut self.id),
            ScannedMember::Method => Some(&mut self.method),
            ScannedMember::Outcome | ScannedMember::Other => None,
        };
        if let Some(member_slot) = member_slot {
            *member_slot = match member_slot {
                OutlineMember::Absent if !self.overflow => OutlineMember::Text(text.into()),
                _ => OutlineMember::Unreadable,
            };
        }
        self.overflow = false;
    }
}

/// The maximum number of bytes of a skipped frame that are kept for the log.
const MAX_PREFIX_BYTES: usize = 80;

/// The maximum length, in bytes, of a name that is kept: `"method"` with every letter escaped, as in `\u006d`, has 38
/// bytes.
const MAX_NAME_BYTES: usize = 38;

/// The maximum length, in bytes, of an id or method that is kept, which bounds the memory for a skipped frame. Ids of 1
/// MiB must be echoed; the rest is room for their quotes and escapes.
const MAX_VALUE_BYTES: usize = 2 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str, piece: usize) -> Outline {
        let mut scan = OutlineScanner::default();
        text.as_bytes().chunks(piece).for_each(|bytes| scan.feed(bytes));
        finish(scan)
    }

    fn finish(scan: OutlineScanner) -> Outline {
        match scan.finish(0, 0, 0) {
            FrameError::TooLong(long) => long.outline,
            other => panic!("{other}"),
        }
    }

    fn object(id: &str, method: &str, is_response: bool) -> Outline {
        let member = |text: &str| match text {
            "" => OutlineMember::Absent,
            "?" => OutlineMember::Unreadable,
            text => OutlineMember::Text(text.as_bytes().into()),
        };
        Outline::Object { id: member(id), method: member(method), is_response }
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
    fn the_memory_of_the_scanner_is_bounded() {
        let name = "i".repeat(1 << 20);
        let value = "v".repeat(3 << 20);
        let mut scan = OutlineScanner::default();
        let text = format!(r#"{{"{name}":"{value}","id":"{value}","method":"m"}}"#);
        for bytes in text.as_bytes().chunks(4096) {
            scan.feed(bytes);
            assert!(scan.text.len() <= MAX_VALUE_BYTES);
        }
        assert_eq!(finish(scan), object("?", r#""m""#, false));
    }
}
