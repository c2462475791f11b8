//! The ids of the events on our HTTP streams: the number of the stream, and the position of the event in it.

use std::fmt;

/// An event id: `<stream>-<sequence>`, both decimal. To resume a stream, a client sends the id of the last event that
/// it received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "the text of an event id has two numbers")]
pub struct EventId {
    /// The number of the stream in its session.
    pub stream: u64,
    /// The number of the event in its stream.
    pub sequence: u64,
}

impl EventId {
    /// Parses an id in exactly the form that `Display` writes, without leading zeros or signs.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        Some(Self { stream: number(&text[..dash])?, sequence: number(&text[dash + 1..])? })
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    let plain = digits.iter().all(u8::is_ascii_digit) && (digits.len() == 1 || digits.first() != Some(&b'0'));
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        for text in ["0-0", "1-20", "18446744073709551615-18446744073709551615"] {
            assert_eq!(EventId::parse(text.as_bytes()).expect(text).to_string(), text);
        }
        for text in
            ["", "-", "1", "1-", "-1", "01-1", "1-01", "+1-1", "1-+1", "1--1", "1-1-1", " 1-1", "1-1 ", "a-1", "1_1"]
        {
            assert_eq!(EventId::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(EventId::parse(b"18446744073709551616-0"), None);
        assert_eq!(EventId::parse(b"1-\xff"), None);
    }
}
