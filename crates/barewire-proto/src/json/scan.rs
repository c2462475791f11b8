//! Bytes -> spans: a strict RFC 8259 scanner that reads the text once, without recursion and without building a tree.
//!
//! The scanner checks every byte, including values that its caller does not look at. Invalid UTF-8 inside a string does
//! not stop the scanner, because the structure of the JSON stays intact: it notes the offset and continues.

use super::nesting::Nesting;
use super::{Expected, Kind, SyntaxError};

/// The position of a value in the text, and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: Kind,
}

/// The position of a member or element in its container: first, or after another one, where a comma is required.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    First,
    Next,
}

/// A scanner at one position of a JSON text. Its methods consume text and check it against the grammar.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The number of containers that the caller has entered and not yet left.
    open: usize,
    /// The maximum nesting depth; the outermost container is level 1.
    max_depth: usize,
    /// The offset of the first container that is nested deeper than `max_depth`.
    too_deep: Option<usize>,
    bad_utf8: Option<usize>,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8], max_depth: usize) -> Self {
        Self { text, at: 0, open: 0, max_depth, too_deep: None, bad_utf8: None }
    }

    /// Makes a scanner at an offset of a text that was already scanned without an error.
    pub(crate) fn starting_at(text: &'a [u8], at: usize) -> Self {
        Self { at, ..Self::new(text, usize::MAX) }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the offset of the first container that is nested too deep. The scanner does not stop there.
    pub(crate) fn too_deep(&self) -> Option<usize> {
        self.too_deep
    }

    /// Returns the offset of the first invalid UTF-8 inside a string. Outside a string, invalid UTF-8 is a syntax
    /// error.
    pub(crate) fn bad_utf8(&self) -> Option<usize> {
        self.bad_utf8
    }

    /// Whether the scanner is inside a container that the caller has entered.
    pub(crate) fn is_inside(&self) -> bool {
        self.open > 0
    }

    /// Clears the faults found so far, so that [`Self::too_deep`] and [`Self::bad_utf8`] report only faults found from
    /// now on.
    pub(crate) fn forget_faults(&mut self) {
        self.too_deep = None;
        self.bad_utf8 = None;
    }

    /// Skips white space and returns the next byte without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        match self.text.get(self.at) {
            // All bytes that can begin a token are greater than a space.
            Some(&byte) if byte > b' ' => Some(byte),
            _ => self.peek_behind_white_space(),
        }
    }

    fn peek_behind_white_space(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Consumes one value, and checks that nothing but white space follows.
    pub(crate) fn only_value(&mut self) -> Result<ValueSpan, SyntaxError> {
        let value = self.value()?;
        self.end()?;
        Ok(value)
    }

    /// Checks that nothing but white space follows.
    pub(crate) fn end(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected(Expected::End)),
        }
    }

    /// Consumes the opening brace or bracket that [`Self::peek`] has returned.
    pub(crate) fn enter(&mut self) {
        self.open += 1;
        self.note_depth(self.open);
        self.at += 1;
    }

    /// Inside an object: consumes the next member's name and colon, and the caller consumes the value next. If no
    /// member follows, consumes the closing brace and returns `None`.
    #[inline]
    pub(crate) fn member(&mut self, place: Place) -> Result<Option<ValueSpan>, SyntaxError> {
        match (self.peek(), place) {
            (Some(b'}'), _) => {
                self.leave();
                Ok(None)
            }
            (_, Place::First) => self.name().map(Some),
            (Some(b','), Place::Next) => {
                self.at += 1;
                self.name().map(Some)
            }
            (_, Place::Next) => Err(self.expected(Expected::CommaOrBrace)),
        }
    }

    /// Inside an array: returns true if an element follows, and the caller consumes the element next. If no element
    /// follows, consumes the closing bracket and returns false.
    pub(crate) fn element(&mut self, place: Place) -> Result<bool, SyntaxError> {
        match (self.peek(), place) {
            (Some(b']'), _) => {
                self.leave();
                Ok(false)
            }
            (_, Place::First) => Ok(true),
            (Some(b','), Place::Next) => {
                self.at += 1;
                // A closing bracket after the comma is refused when the caller tries to consume the value.
                Ok(true)
            }
            (_, Place::Next) => Err(self.expected(Expected::CommaOrBracket)),
        }
    }

    #[inline]
    fn note_depth(&mut self, depth: usize) {
        if depth > self.max_depth {
            self.too_deep.get_or_insert(self.at);
        }
    }

    fn leave(&mut self) {
        self.at += 1;
        self.open -= 1;
    }

    /// Consumes one value of any kind.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<ValueSpan, SyntaxError> {
        let first = self.peek();
        let start = self.at;
        let kind = match first {
            Some(b'"') => {
                self.string()?;
                Kind::String
            }
            Some(open @ (b'{' | b'[')) => {
                self.container()?;
                if open == b'{' { Kind::Object } else { Kind::Array }
            }
            _ => self.scalar(first)?,
        };
        Ok(ValueSpan { start, end: self.at, kind })
    }

    /// Consumes an object or array with its content. The stack of open containers has one bit per level.
    fn container(&mut self) -> Result<(), SyntaxError> {
        let mut nesting = Nesting::default();
        // Each iteration of the outer loop consumes one value; each iteration of the inner loop consumes a comma or a
        // closing bracket.
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'{') => {
                    nesting.push(true);
                    self.note_depth(self.open + nesting.depth);
                    self.at += 1;
                    if self.peek() != Some(b'}') {
                        self.name()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    nesting.push(false);
                    self.note_depth(self.open + nesting.depth);
                    self.at += 1;
                    if self.peek() != Some(b']') {
                        continue;
                    }
                }
                first => {
                    self.scalar(first)?;
                }
            }
            loop {
                match (self.peek(), nesting.in_object()) {
                    (Some(b','), true) => {
                        self.at += 1;
                        self.name()?;
                        break;
                    }
                    (Some(b','), false) => {
                        self.at += 1;
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        nesting.pop();
                        if nesting.depth == 0 {
                            return Ok(());
                        }
                    }
                    (_, true) => return Err(self.expected(Expected::CommaOrBrace)),
                    (_, false) => return Err(self.expected(Expected::CommaOrBracket)),
                }
            }
        }
    }

    /// Consumes a member name and its colon.
    #[inline]
    fn name(&mut self) -> Result<ValueSpan, SyntaxError> {
        if self.peek() != Some(b'"') {
            return Err(self.expected(Expected::MemberName));
        }
        let start = self.at;
        self.string()?;
        let end = self.at;
        if self.peek() != Some(b':') {
            return Err(self.expected(Expected::Colon));
        }
        self.at += 1;
        Ok(ValueSpan { start, end, kind: Kind::String })
    }

    fn scalar(&mut self, first: Option<u8>) -> Result<Kind, SyntaxError> {
        match first {
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Kind::Number),
            Some(b't') => self.literal(b"true").map(|()| Kind::True),
            Some(b'f') => self.literal(b"false").map(|()| Kind::False),
            Some(b'n') => self.literal(b"null").map(|()| Kind::Null),
            _ => Err(self.expected(Expected::Value)),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), SyntaxError> {
        for &letter in word {
            if self.text.get(self.at) != Some(&letter) {
                return Err(self.expected(Expected::Literal));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.text[self.at] == b'-' {
            self.at += 1;
        }
        // A digit after a leading zero is not consumed. It is reported as a missing comma or as text after the value.
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.text.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.text.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.text.get(self.at) {
            self.at += 1;
        }
        if self.at == start { Err(self.expected(Expected::Digit)) } else { Ok(()) }
    }

    /// Consumes a string; `self.at` is the offset of its opening quote.
    #[inline]
    fn string(&mut self) -> Result<(), SyntaxError> {
        let mut rest = &self.text[self.at + 1..];
        // Scan eight bytes at a time: most strings are plain ASCII and end within a few iterations. `rest_of_string`
        // handles all other strings.
        for _ in 0..SHORT_STRING_TURNS {
            let Some((eight, tail)) = rest.split_first_chunk::<8>() else { break };
            let special = special_bytes(u64::from_le_bytes(*eight));
            if special == 0 {
                rest = tail;
                continue;
            }
            rest = &rest[(special.trailing_zeros() / 8) as usize..];
            if rest.first() == Some(&b'"') {
                self.at = self.text.len() - rest.len() + 1;
                return Ok(());
            }
            break;
        }
        self.rest_of_string(self.text.len() - rest.len())
    }

    /// Consumes the rest of a string of any length and content, starting with the character at `at`.
    #[inline(never)]
    fn rest_of_string(&mut self, at: usize) -> Result<(), SyntaxError> {
        let text = self.text;
        let mut at = at;
        loop {
            at += plain_prefix(&text[at..]);
            match text.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(());
                }
                Some(b'\\') => at = escape(text, at)?,
                Some(0x80..) => return self.string_beyond_ascii(at),
                Some(_) => return Err(SyntaxError { at, expected: Expected::NoControlCharacter }),
                None => return Err(SyntaxError { at, expected: Expected::ClosingQuote }),
            }
        }
    }

    /// Consumes the rest of a string, starting with its first non-ASCII byte: finds the end of the string, then checks
    /// all its bytes for UTF-8 at once.
    #[cold]
    fn string_beyond_ascii(&mut self, start: usize) -> Result<(), SyntaxError> {
        let text = self.text;
        let mut i = start;
        let end = loop {
            let Some(found) = memchr::memchr2(b'"', b'\\', &text[i..]) else {
                let at = control_byte(&text[i..]).map_or(text.len(), |c| i + c);
                let expected =
                    if at < text.len() { Expected::NoControlCharacter } else { Expected::ClosingQuote };
                return Err(SyntaxError { at, expected });
            };
            if let Some(control) = control_byte(&text[i..i + found]) {
                return Err(SyntaxError { at: i + control, expected: Expected::NoControlCharacter });
            }
            i += found;
            if text[i] == b'"' {
                break i;
            }
            i = escape(text, i)?;
        };
        if self.bad_utf8.is_none()
            && let Err(bad) = std::str::from_utf8(&text[start..end])
        {
            self.bad_utf8 = Some(start + bad.valid_up_to());
        }
        self.at = end + 1;
        Ok(())
    }

    fn expected(&self, expected: Expected) -> SyntaxError {
        SyntaxError { at: self.at, expected }
    }
}

/// Returns the offset after the escape sequence whose backslash is at `i`.
///
/// An unpaired surrogate is a valid escape (RFC 8259, section 8.2).
fn escape(text: &[u8], i: usize) -> Result<usize, SyntaxError> {
    match text.get(i + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(i + 2),
        Some(b'u') => {
            for at in i + 2..i + 6 {
                if !text.get(at).is_some_and(u8::is_ascii_hexdigit) {
                    return Err(SyntaxError { at, expected: Expected::HexDigit });
                }
            }
            Ok(i + 6)
        }
        _ => Err(SyntaxError { at: i + 1, expected: Expected::Escape }),
    }
}

/// Returns the number of bytes at the start of `text` that are printable ASCII other than quote and backslash.
fn plain_prefix(text: &[u8]) -> usize {
    // Try eight bytes at a time first: the text between two escapes is often too short for `long_plain_prefix`.
    let mut rest = text;
    while let Some((eight, tail)) = rest.split_first_chunk::<8>() {
        let special = special_bytes(u64::from_le_bytes(*eight));
        if special != 0 {
            return text.len() - rest.len() + (special.trailing_zeros() / 8) as usize;
        }
        rest = tail;
        if text.len() - rest.len() >= LONG_RUN {
            return text.len() - rest.len() + long_plain_prefix(rest);
        }
    }
    text.len() - rest.len() + rest.iter().take_while(|b| !is_special(**b)).count()
}

/// Does the same as [`plain_prefix`] for a long run of plain bytes: a vectorised search for its end, and a vectorised
/// check of the bytes before it.
fn long_plain_prefix(text: &[u8]) -> usize {
    let mut plain = 0;
    for chunk in text.chunks(CHUNK_BYTES) {
        let end = memchr::memchr2(b'"', b'\\', chunk).unwrap_or(chunk.len());
        if chunk[..end].iter().fold(false, |special, &b| special | is_control_or_non_ascii(b)) {
            let special = chunk[..end].iter().position(|&b| is_control_or_non_ascii(b));
            return plain + special.expect("the fold found a special byte");
        }
        plain += end;
        if end < chunk.len() {
            break;
        }
    }
    plain
}

/// Whether the byte ends a run of plain bytes: a quote, backslash, control character or non-ASCII byte.
#[inline]
fn is_special(byte: u8) -> bool {
    is_control_or_non_ascii(byte) || matches!(byte, b'"' | b'\\')
}

/// Whether the byte is a control character or not ASCII: as a signed number, it is less than a space.
#[inline]
fn is_control_or_non_ascii(byte: u8) -> bool {
    byte.cast_signed() < 0x20
}

/// Returns the offset of the first control character.
fn control_byte(text: &[u8]) -> Option<usize> {
    if text.iter().fold(false, |special, &b| special | (b < 0x20)) {
        text.iter().position(|&b| b < 0x20)
    } else {
        None
    }
}

/// Returns a mask with the high bit set for every byte of `eight` that is special: see [`is_special`].
///
/// A subtraction can borrow from the next higher byte and mark that byte wrongly, but only above a special byte. So the
/// lowest marked byte is always special.
#[inline]
fn special_bytes(eight: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let quote = eight ^ (ONES * b'"' as u64);
    let backslash = eight ^ (ONES * b'\\' as u64);
    let control = eight.wrapping_sub(ONES * 0x20);
    ((quote.wrapping_sub(ONES) & !quote)
        | (backslash.wrapping_sub(ONES) & !backslash)
        | (control & !eight)
        | eight)
        & HIGH
}

/// The number of 8-byte iterations before `string` calls `rest_of_string`. 64 bytes are enough for names, words and
/// short sentences.
const SHORT_STRING_TURNS: usize = 8;

/// The number of plain bytes after which `plain_prefix` calls `long_plain_prefix`, whose two vectorised passes are
/// faster only for long runs.
const LONG_RUN: usize = 64;

/// The size of a chunk, in bytes. A chunk must still be in the first-level cache when the second pass over it begins.
const CHUNK_BYTES: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_special_at_all_eight_positions_or_at_none() {
        for byte in 0..=255u8 {
            let expected = byte < 0x20 || byte == b'"' || byte == b'\\' || byte >= 0x80;
            for place in 0..8 {
                let mut eight = [b'x'; 8];
                eight[place] = byte;
                let special = special_bytes(u64::from_le_bytes(eight));
                assert_eq!(special != 0, expected, "{byte:#x} at {place}");
                if expected {
                    assert_eq!((special.trailing_zeros() / 8) as usize, place, "{byte:#x}");
                }
            }
        }
    }
}
