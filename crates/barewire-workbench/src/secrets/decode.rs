//! Decodes the escapes of JSON strings, through every level of strings within strings: bytes -> plain text, and the
//! place of each character in the bytes.
//!
//! The rules for secrets read the plain text only, so they need no knowledge of escapes. A character of the plain text
//! stands for a whole number of characters at every level, so replacing whole characters leaves valid JSON valid at
//! every level. A text without backslashes is borrowed and costs one search.
//!
//! Text that is not JSON can also contain backslashes. What is no escape stays as it is.

use std::borrow::Cow;

use memchr::memchr;

/// A text with its escapes decoded.
pub(super) struct PlainText<'a> {
    pub(super) text: Cow<'a, [u8]>,
    /// The bytes that the text was decoded from.
    raw: &'a [u8],
    /// The number of those bytes; the bytes after them are the start of an escape that is not complete yet.
    raw_length: usize,
    /// The decoded characters, in order.
    escapes: Vec<Escape>,
}

/// A character of the plain text that is written as an escape.
struct Escape {
    start: usize,
    end: usize,
    raw_start: usize,
    raw_end: usize,
    depth: u8,
}

/// A character and its spelling.
#[derive(Clone, Copy)]
struct Spelled {
    char: char,
    /// The number of bytes that spell the character.
    length: usize,
    /// The innermost string level at which the character is an escape; 0 if it is none.
    depth: u8,
}

impl<'a> PlainText<'a> {
    /// Decodes a text. If it is not complete, an escape at its end may be left undecoded.
    pub(super) fn decode(raw: &'a [u8], is_complete: bool) -> Self {
        let Some(mut slash) = memchr(b'\\', raw) else {
            return Self { text: Cow::Borrowed(raw), raw, raw_length: raw.len(), escapes: Vec::new() };
        };
        let (mut text, mut escapes) = (Vec::with_capacity(raw.len()), Vec::new());
        let mut at = 0;
        loop {
            text.extend_from_slice(&raw[at..slash]);
            at = slash;
            let window = &raw[at..raw.len().min(at + MAX_LOOKAHEAD)];
            // No escape continues in the next line.
            if !is_complete && window.len() < MAX_LOOKAHEAD && memchr(b'\n', window).is_none() {
                break;
            }
            let Spelled { char, length, depth } = spelled(window, MAX_NESTING);
            let start = text.len();
            text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            if depth > 0 {
                escapes.push(Escape { start, end: text.len(), raw_start: at, raw_end: at + length, depth });
            }
            at += length;
            match memchr(b'\\', &raw[at..]) {
                Some(next) => slash = at + next,
                None => {
                    text.extend_from_slice(&raw[at..]);
                    at = raw.len();
                    break;
                }
            }
        }
        Self { text: Cow::Owned(text), raw, raw_length: at, escapes }
    }

    /// Returns the bytes of the plain text from `start` to `end`.
    pub(super) fn raw(&self, start: usize, end: usize) -> &'a [u8] {
        &self.raw[self.raw_offset(start)..self.raw_offset(end)]
    }

    /// Returns all bytes from this offset of the plain text on, including an escape that is not complete.
    pub(super) fn raw_from(&self, start: usize) -> &'a [u8] {
        &self.raw[self.raw_offset(start)..]
    }

    /// Returns the start of the character at or around this offset.
    pub(super) fn char_start(&self, at: usize) -> usize {
        match self.escape_before(at) {
            Some(escape) if at < escape.end => escape.start,
            _ => at,
        }
    }

    /// Returns the number of strings around the string that a quote at this offset delimits.
    pub(super) fn depth(&self, at: usize) -> u8 {
        if self.escapes.is_empty() {
            return 0;
        }
        match self.escape_before(at) {
            Some(escape) if at < escape.end => escape.depth,
            _ => 0,
        }
    }

    fn raw_offset(&self, at: usize) -> usize {
        match self.escape_before(at) {
            None => at,
            Some(escape) if at < escape.end => escape.raw_start,
            Some(escape) => (escape.raw_end + (at - escape.end)).min(self.raw_length),
        }
    }

    /// Returns the last escape that starts at or before this offset.
    fn escape_before(&self, at: usize) -> Option<&Escape> {
        let count = self.escapes.partition_point(|escape| escape.start <= at);
        self.escapes.get(count.checked_sub(1)?)
    }
}

/// Reads the character that begins a text, decoded through up to `most` strings. The recursion is at most that deep.
fn spelled(raw: &[u8], most: u8) -> Spelled {
    // A byte of a longer UTF-8 sequence is never part of an escape, so it may stand for another character here.
    let mut first = Spelled { char: char::from(raw[0]), length: 1, depth: 0 };
    for level in 1..=most {
        // Inside a string, a backslash that begins an escape is itself an escape of the string around it.
        if first.char != '\\' || first.depth != level - 1 {
            break;
        }
        match escape(raw, first.length, level) {
            Some((char, length)) if length <= MAX_SPELLING => first = Spelled { char, length, depth: level },
            _ => break,
        }
    }
    first
}

/// Reads the escape of this level whose backslash ends at `at`. Returns its character and its end.
fn escape(raw: &[u8], at: usize, level: u8) -> Option<(char, usize)> {
    let inner = |at: usize| raw.get(at..).filter(|rest| !rest.is_empty()).map(|rest| spelled(rest, level - 1));
    let second = inner(at)?;
    let end = at + second.length;
    match second.char {
        // The same holds for a quote: one that is not escaped ends the surrounding string.
        '"' | '\\' if second.depth != level - 1 => None,
        '"' | '\\' | '/' | '\'' => Some((second.char, end)),
        'b' => Some(('\u{8}', end)),
        'f' => Some(('\u{c}', end)),
        'n' => Some(('\n', end)),
        'r' => Some(('\r', end)),
        't' => Some(('\t', end)),
        'u' => match code_unit(end, inner)? {
            (high @ 0xd800..=0xdbff, end) => match low_surrogate(end, level, inner) {
                Some((low, end)) => Some((character(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), end)),
                None => Some((character(high), end)),
            },
            (unit, end) => Some((character(unit), end)),
        },
        _ => None,
    }
}

fn character(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Reads four hexadecimal digits. Returns their value and the offset after them.
fn code_unit(mut at: usize, inner: impl Fn(usize) -> Option<Spelled>) -> Option<(u32, usize)> {
    let mut unit = 0;
    for _ in 0..4 {
        let digit = inner(at)?;
        unit = unit * 16 + digit.char.to_digit(16)?;
        at += digit.length;
    }
    Some((unit, at))
}

/// Reads the second half of a surrogate pair.
fn low_surrogate(at: usize, level: u8, inner: impl Fn(usize) -> Option<Spelled>) -> Option<(u32, usize)> {
    let slash = inner(at).filter(|slash| slash.char == '\\' && slash.depth == level - 1)?;
    let letter = inner(at + slash.length).filter(|letter| letter.char == 'u')?;
    code_unit(at + slash.length + letter.length, inner).filter(|(unit, _)| matches!(unit, 0xdc00..=0xdfff))
}

/// The maximum number of strings within strings that are decoded: a message whose text quotes a log of messages with
/// JSON in their strings has four.
const MAX_NESTING: u8 = 7;

/// The maximum number of bytes that spell one character: a quote within seven strings has 127 backslashes before it.
/// Without this limit, backslashes written as `\u005c` could make a spelling as long as 6 to the power of 7.
const MAX_SPELLING: usize = 160;

/// The number of bytes that are read to decode one character: its spelling, and one after it that may belong to it.
const MAX_LOOKAHEAD: usize = 2 * MAX_SPELLING;

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(raw: &str) -> String {
        String::from_utf8_lossy(&PlainText::decode(raw.as_bytes(), true).text).into_owned()
    }

    #[test]
    fn all_spellings_of_a_character_are_decoded() {
        for raw in
            ["/", r"\/", r"\u002f", r"\u002F", r"\\/", r"\\\/", r"\\u002f", r"\\\\u002f", r"\u005cu002f", r"\u005c/"]
        {
            assert_eq!(plain(raw), "/", "{raw}");
        }
        for (raw, depth) in
            [("\"", 0), (r#"\""#, 1), (r"\u0022", 1), (r#"\\\""#, 2), (r"\\u0022", 2), (r"\u005c\u0022", 2)]
        {
            let decoded = PlainText::decode(raw.as_bytes(), true);
            assert_eq!((&*decoded.text, decoded.depth(0)), (&b"\""[..], depth), "{raw}");
            assert_eq!(decoded.raw(0, 1), raw.as_bytes());
        }
        assert_eq!(plain(r"\ud83d\udd11 \ud83d \\ud83d\\udd11 \u00e9"), "🔑 \u{fffd} 🔑 é");
    }

    #[test]
    fn text_that_is_no_escape_stays() {
        for raw in [r"C:\Users\Public", r"\d+\.\w", "é\\x", r"a\", r"\u12"] {
            assert_eq!(plain(raw), raw);
        }
        // A backslash before the closing quote of its string.
        let decoded = PlainText::decode(br#""C:\\","a""#, true);
        assert_eq!(&*decoded.text, br#""C:\","a""#);
        assert_eq!(decoded.depth(4), 0);
    }

    #[test]
    fn any_text_is_covered_by_its_characters() {
        for raw in [r#"a\"b\\\"c\\u0022\ud83d\udd11é\\x\"#, &r"\".repeat(1000), &format!("{}\"", r"\".repeat(255))] {
            let decoded = PlainText::decode(raw.as_bytes(), true);
            assert_eq!(decoded.raw(0, decoded.text.len()), raw.as_bytes());
            for at in 0..decoded.text.len() {
                let start = decoded.char_start(at);
                let rest = PlainText::decode(decoded.raw_from(start), true);
                assert_eq!(rest.text, &decoded.text[start..], "{raw} from {at}");
            }
        }
    }
}
