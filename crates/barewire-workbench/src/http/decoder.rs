//! Splits the bytes of one direction of an HTTP/1.1 connection into heads, bodies, and the framing between them.
//!
//! No bytes are changed, and only an incomplete head is held back. The decoder does not parse heads: its user sets the
//! length of the body after each head, with [`HttpDecoder::set_body`].

/// Splits one direction of a connection into its parts.
pub struct HttpDecoder {
    state: DecoderState,
    head: Vec<u8>,
}

#[rustfmt::skip] // a variant is a line
enum DecoderState {
    /// A head, which may not have begun yet. No empty line ends before `searched`.
    Head { searched: usize },
    /// After a head, until the user sets the length of the body.
    BodyUnknown,
    /// A body with this many bytes left.
    Length(u64),
    Chunk(ChunkState),
    /// A body up to the end of the connection, or another protocol.
    UntilClose,
}

/// The position in a chunked body: RFC 9112, section 7.1.
#[rustfmt::skip] // a variant is a line
enum ChunkState {
    Size { size: u64, digits: u32 },
    /// After the chunk size, up to the end of the line.
    Extension { size: u64 },
    Data { left: u64 },
    /// The line break after the data of a chunk.
    DataEnd,
    /// After the last chunk: trailer lines, up to an empty line.
    Trailer { length: usize },
}

/// The length of the body after a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "HTTP/1.1 has no other ways to define the length of a body")]
pub enum BodyLength {
    /// No body; the next head follows immediately.
    None,
    /// A body of this many bytes.
    Known(u64),
    /// A body in chunks.
    Chunked,
    /// A body up to the end of the connection, or another protocol.
    UntilClose,
}

impl BodyLength {
    /// Whether the message has or may have a body.
    pub fn is_body(self) -> bool {
        !matches!(self, Self::None | Self::Known(0))
    }
}

/// A part of an HTTP message.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "HTTP/1.1 messages have no other parts")]
pub enum HttpPart<'a> {
    /// A complete head, with the empty line that ends it.
    Head(Vec<u8>),
    /// Bytes of a body.
    Body(&'a [u8]),
    /// Bytes outside heads and bodies: chunk sizes, trailers, and empty lines before a head.
    Framing(&'a [u8]),
    /// The message is complete.
    End,
}

/// The reason why bytes are not a valid HTTP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpFramingError {
    /// The head is longer than 64 KiB.
    LongHead,
    /// The body is not chunked, although its head says that it is.
    Chunk,
}

impl HttpFramingError {
    /// Returns the reason as a sentence.
    pub fn why(self) -> &'static str {
        match self {
            Self::LongHead => "the head is longer than 64 KiB",
            Self::Chunk => "the body is not in chunks, as its head says",
        }
    }
}

impl Default for HttpDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpDecoder {
    /// Creates a decoder for a new connection.
    pub fn new() -> Self {
        Self { state: DecoderState::Head { searched: 0 }, head: Vec::new() }
    }

    /// Sets the length of the body after the last head.
    pub fn set_body(&mut self, length: BodyLength) {
        self.state = match length {
            BodyLength::None => DecoderState::Length(0),
            BodyLength::Known(length) => DecoderState::Length(length),
            BodyLength::Chunked => DecoderState::Chunk(ChunkState::Size { size: 0, digits: 0 }),
            BodyLength::UntilClose => DecoderState::UntilClose,
        };
    }

    /// Whether the last message is complete and no byte of the next message was decoded.
    pub fn is_between(&self) -> bool {
        matches!(self.state, DecoderState::Head { .. }) && self.head.is_empty()
    }

    /// Whether the connection may be closed here without cutting off a message.
    pub fn may_end(&self) -> bool {
        matches!(self.state, DecoderState::UntilClose) || self.is_between()
    }

    /// Returns the next part, or `None` if more input is needed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<HttpPart<'a>>, HttpFramingError> {
        match &mut self.state {
            DecoderState::Head { .. } => self.next_head(input),
            DecoderState::BodyUnknown => Ok(None),
            DecoderState::Length(0) => {
                self.state = DecoderState::Head { searched: 0 };
                Ok(Some(HttpPart::End))
            }
            _ if input.is_empty() => Ok(None),
            DecoderState::Length(left) => Ok(Some(HttpPart::Body(take(input, left)))),
            DecoderState::UntilClose => Ok(Some(HttpPart::Body(std::mem::take(input)))),
            DecoderState::Chunk(ChunkState::Data { left }) => {
                let data = take(input, left);
                if *left == 0 {
                    self.state = DecoderState::Chunk(ChunkState::DataEnd);
                }
                Ok(Some(HttpPart::Body(data)))
            }
            DecoderState::Chunk(chunk) => {
                let (mut read, mut ended) = (0, false);
                while let Some(byte) = input.get(read) {
                    if matches!(chunk, ChunkState::Data { .. }) {
                        break;
                    }
                    read += 1;
                    ended = chunk.step(*byte)?;
                    if ended {
                        break;
                    }
                }
                let (framing, rest) = input.split_at(read);
                *input = rest;
                if ended {
                    self.state = DecoderState::Length(0);
                }
                Ok(Some(HttpPart::Framing(framing)))
            }
        }
    }

    fn next_head<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<HttpPart<'a>>, HttpFramingError> {
        if self.head.is_empty() {
            // Empty lines before a head are no part of it: RFC 9112, section 2.2.
            let blank = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            if blank > 0 {
                let (blank, rest) = input.split_at(blank);
                *input = rest;
                return Ok(Some(HttpPart::Framing(blank)));
            }
        }
        let DecoderState::Head { searched } = &mut self.state else { return Ok(None) };
        let before = self.head.len();
        let room = (MAX_HEAD + 1).saturating_sub(before);
        self.head.extend_from_slice(&input[..input.len().min(room)]);
        let Some(end) = end_of_head(&self.head, *searched) else {
            // The last three bytes may be the beginning of the empty line that ends the head.
            *searched = self.head.len().saturating_sub(3);
            *input = &[];
            return if self.head.len() > MAX_HEAD { Err(HttpFramingError::LongHead) } else { Ok(None) };
        };
        *input = &input[end - before..];
        self.head.truncate(end);
        self.state = DecoderState::BodyUnknown;
        Ok(Some(HttpPart::Head(std::mem::take(&mut self.head))))
    }
}

impl ChunkState {
    /// Handles a byte that is not chunk data. Returns `true` if this byte ends the body.
    fn step(&mut self, byte: u8) -> Result<bool, HttpFramingError> {
        match (&mut *self, byte) {
            (Self::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                *size = size.checked_mul(16).ok_or(HttpFramingError::Chunk)? | digit;
                *digits += 1;
            }
            (Self::Size { digits: 0, .. }, _) => return Err(HttpFramingError::Chunk),
            (Self::Size { size, .. } | Self::Extension { size }, b'\n') => {
                *self = if *size == 0 { Self::Trailer { length: 0 } } else { Self::Data { left: *size } };
            }
            (Self::Size { size, .. }, b';' | b'\r' | b' ' | b'\t') => *self = Self::Extension { size: *size },
            (Self::Size { .. }, _) => return Err(HttpFramingError::Chunk),
            (Self::Extension { .. }, _) => {}
            (Self::DataEnd, b'\r') => {}
            (Self::DataEnd, b'\n') => *self = Self::Size { size: 0, digits: 0 },
            (Self::DataEnd, _) => return Err(HttpFramingError::Chunk),
            (Self::Trailer { length: 0 }, b'\n') => return Ok(true),
            (Self::Trailer { length }, b'\n') => *length = 0,
            (Self::Trailer { .. }, b'\r') => {}
            (Self::Trailer { length }, _) => *length += 1,
            (Self::Data { .. }, _) => {}
        }
        Ok(false)
    }
}

fn take<'a>(input: &mut &'a [u8], left: &mut u64) -> &'a [u8] {
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    let (taken, rest) = input.split_at(most);
    *input = rest;
    *left -= taken.len() as u64;
    taken
}

/// Returns the end of the empty line that ends a head. Bytes before `searched` were already searched.
fn end_of_head(head: &[u8], searched: usize) -> Option<usize> {
    let breaks = memchr::memchr_iter(b'\n', &head[searched..]).map(|at| searched + at);
    breaks.into_iter().find_map(|at| match &head[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// The maximum length of a head, the same as in our client. Cookies and security policies can take some kilobytes, but
/// not more than this.
const MAX_HEAD: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes all pieces and returns the parts, with adjacent body parts joined. `bodies` has a body length for every
    /// head.
    fn decode(pieces: &[&[u8]], bodies: &[BodyLength]) -> Result<Vec<String>, HttpFramingError> {
        let (mut decoder, mut bodies, mut all) = (HttpDecoder::new(), bodies.iter(), Vec::<String>::new());
        for mut piece in pieces.iter().copied() {
            while let Some(part) = decoder.next(&mut piece)? {
                match part {
                    HttpPart::Head(head) => {
                        all.push(format!("head {}", head.escape_ascii()));
                        decoder.set_body(*bodies.next().expect("one for each head"));
                    }
                    HttpPart::Body(bytes) => match all.last_mut().filter(|last| last.starts_with("body")) {
                        Some(last) => last.push_str(&bytes.escape_ascii().to_string()),
                        None => all.push(format!("body {}", bytes.escape_ascii())),
                    },
                    HttpPart::Framing(_) => {}
                    HttpPart::End => all.push("end".into()),
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn no_split_changes_the_parts() {
        let wire = b"\r\nPOST / HTTP/1.1\r\na: b\r\n\r\nfive!GET / HTTP/1.1\n\nPUT / HTTP/1.1\r\n\r\n\
            3;x=\"y\"\r\nabc\r\n00A \r\n0123456789\r\n0\r\ntrailer: 1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nrest\n";
        let bodies = [BodyLength::Known(5), BodyLength::None, BodyLength::Chunked, BodyLength::UntilClose];
        let whole = decode(&[wire], &bodies).expect("it is HTTP");
        assert_eq!(
            whole,
            [
                r"head POST / HTTP/1.1\r\na: b\r\n\r\n",
                "body five!",
                "end",
                r"head GET / HTTP/1.1\n\n",
                "end",
                r"head PUT / HTTP/1.1\r\n\r\n",
                "body abc0123456789",
                "end",
                r"head GET /2 HTTP/1.1\r\n\r\n",
                r"body rest\n",
            ]
        );
        for at in 0..wire.len() {
            let (one, two) = wire.split_at(at);
            assert_eq!(decode(&[one, two], &bodies).as_ref(), Ok(&whole), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = wire.chunks(1).collect();
        assert_eq!(decode(&bytes, &bodies).as_ref(), Ok(&whole));
    }

    #[test]
    fn every_byte_is_returned_once() {
        let wire = b"\r\nPUT / HTTP/1.1\r\n\r\n3\r\nabc\r\n0\r\nt: 1\r\n\r\n";
        let (mut decoder, mut input, mut all) = (HttpDecoder::new(), &wire[..], Vec::new());
        while let Some(part) = decoder.next(&mut input).expect("it is HTTP") {
            match part {
                HttpPart::Head(head) => {
                    all.extend(head);
                    decoder.set_body(BodyLength::Chunked);
                }
                HttpPart::Body(bytes) | HttpPart::Framing(bytes) => all.extend_from_slice(bytes),
                HttpPart::End => {}
            }
        }
        assert_eq!(all, wire);
        assert!(decoder.is_between());
    }

    #[test]
    fn broken_chunks_are_refused() {
        for body in ["x\r\n", "\r\n", "3\r\nabcd", "fffffffffffffffff\r\n", "3x\r\n"] {
            let wire = format!("PUT / HTTP/1.1\r\n\r\n{body}");
            assert_eq!(decode(&[wire.as_bytes()], &[BodyLength::Chunked]), Err(HttpFramingError::Chunk), "{body}");
        }
    }

    #[test]
    fn a_head_without_an_end_is_refused() {
        let (mut decoder, line) = (HttpDecoder::new(), [b'x'; 1000]);
        let found = (0..100).find_map(|_| decoder.next(&mut &line[..]).err());
        assert_eq!(found, Some(HttpFramingError::LongHead));
        assert!(decoder.head.len() <= MAX_HEAD + 1);
    }
}
