//! The bytes of one direction of an HTTP/1.1 connection -> heads, bodies, and what only frames them.
//!
//! Nothing is changed and nothing is held back but a head that is not complete. What follows a head is not for this file to know: whoever
//! is given one says so with [`HttpDecoder::set_body`].

/// Cuts one direction of a connection.
pub struct HttpDecoder {
    state: State,
    /// What of a head has come.
    head: Vec<u8>,
}

/// What the next bytes are.
enum State {
    /// Part of a head, or nothing yet. No empty line ends before `searched`.
    Head {
        searched: usize,
    },
    /// What follows a head that was given out.
    Unsaid,
    /// So many bytes of a body.
    Length(u64),
    Chunk(Chunk),
    /// A body, up to the end of the connection; or something that is not HTTP any more.
    Rest,
}

/// Where in a chunked body: RFC 9112, section 7.1.
enum Chunk {
    Size {
        size: u64,
        digits: u32,
    },
    /// Behind the size, up to the end of its line.
    Extension {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// The line break behind the data.
    DataEnd,
    /// Behind the last chunk: lines, and an empty one.
    Trailer {
        length: usize,
    },
}

/// What follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "HTTP/1.1 has no other ways to say how long a body is")]
pub enum BodyLength {
    /// The next head.
    None,
    /// A body of so many bytes.
    Known(u64),
    /// A body in chunks.
    Chunked,
    /// A body up to the end of the connection, or another protocol.
    UntilClose,
}

impl BodyLength {
    /// Whether there is a body, or may be one.
    pub fn is_body(self) -> bool {
        !matches!(self, Self::None | Self::Known(0))
    }
}

/// A part of an HTTP message.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "HTTP/1.1 messages have no other parts")]
pub enum HttpPart<'a> {
    /// A whole head, with the empty line that ends it.
    Head(Vec<u8>),
    /// Bytes of a body.
    Body(&'a [u8]),
    /// Bytes that are of neither: sizes of chunks, and trailers.
    Framing(&'a [u8]),
    /// The message is complete.
    End,
}

/// The reason why bytes are no HTTP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpFramingError {
    /// The head is longer than 64 KiB.
    LongHead,
    /// The body is not in chunks, though its head says so.
    Chunk,
}

impl HttpFramingError {
    /// The reason, in a sentence.
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
    /// Makes one for a connection of which nothing was read.
    pub fn new() -> Self {
        Self { state: State::Head { searched: 0 }, head: Vec::new() }
    }

    /// Says what follows the head that was given out last.
    pub fn set_body(&mut self, what: BodyLength) {
        self.state = match what {
            BodyLength::None => State::Length(0),
            BodyLength::Known(length) => State::Length(length),
            BodyLength::Chunked => State::Chunk(Chunk::Size { size: 0, digits: 0 }),
            BodyLength::UntilClose => State::Rest,
        };
    }

    /// Whether nothing of a message has come since the last one was complete.
    pub fn is_between(&self) -> bool {
        matches!(self.state, State::Head { .. }) && self.head.is_empty()
    }

    /// Whether a message that ends here is complete.
    pub fn may_end(&self) -> bool {
        matches!(self.state, State::Rest) || self.is_between()
    }

    /// The next part, or `None` until there is more input.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<HttpPart<'a>>, HttpFramingError> {
        match &mut self.state {
            State::Head { .. } => self.next_head(input),
            State::Unsaid => Ok(None),
            State::Length(0) => {
                self.state = State::Head { searched: 0 };
                Ok(Some(HttpPart::End))
            }
            _ if input.is_empty() => Ok(None),
            State::Length(left) => Ok(Some(HttpPart::Body(take(input, left)))),
            State::Rest => Ok(Some(HttpPart::Body(std::mem::take(input)))),
            State::Chunk(Chunk::Data { left }) => {
                let data = take(input, left);
                if *left == 0 {
                    self.state = State::Chunk(Chunk::DataEnd);
                }
                Ok(Some(HttpPart::Body(data)))
            }
            State::Chunk(chunk) => {
                let (mut read, mut ended) = (0, false);
                while let Some(byte) = input.get(read) {
                    if matches!(chunk, Chunk::Data { .. }) {
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
                    self.state = State::Length(0);
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
        let State::Head { searched } = &mut self.state else { return Ok(None) };
        let before = self.head.len();
        let room = (MOST_HEAD + 1).saturating_sub(before);
        self.head.extend_from_slice(&input[..input.len().min(room)]);
        let Some(end) = end_of_head(&self.head, *searched) else {
            // The last three bytes may begin what ends it.
            *searched = self.head.len().saturating_sub(3);
            *input = &[];
            return if self.head.len() > MOST_HEAD { Err(HttpFramingError::LongHead) } else { Ok(None) };
        };
        *input = &input[end - before..];
        self.head.truncate(end);
        self.state = State::Unsaid;
        Ok(Some(HttpPart::Head(std::mem::take(&mut self.head))))
    }
}

impl Chunk {
    /// Takes a byte that is not data; `true` if it was the last of the body.
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

/// As much of the input as belongs to what is left.
fn take<'a>(input: &mut &'a [u8], left: &mut u64) -> &'a [u8] {
    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    let (taken, rest) = input.split_at(most);
    *input = rest;
    *left -= taken.len() as u64;
    taken
}

/// Where the empty line ends that ends a head.
fn end_of_head(head: &[u8], searched: usize) -> Option<usize> {
    let breaks = memchr::memchr_iter(b'\n', &head[searched..]).map(|at| searched + at);
    breaks.into_iter().find_map(|at| match &head[at + 1..] {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// As the client has it: cookies and policies make kilobytes, and no more.
const MOST_HEAD: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is cut out of the pieces, bodies joined; `follows` is said after every head.
    fn cut(pieces: &[&[u8]], follows: &[BodyLength]) -> Result<Vec<String>, HttpFramingError> {
        let (mut messages, mut said, mut all) = (HttpDecoder::new(), follows.iter(), Vec::<String>::new());
        for mut piece in pieces.iter().copied() {
            while let Some(part) = messages.next(&mut piece)? {
                match part {
                    HttpPart::Head(head) => {
                        all.push(format!("head {}", head.escape_ascii()));
                        messages.set_body(*said.next().expect("one for each head"));
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
    fn no_split_changes_what_is_cut() {
        let wire = b"\r\nPOST / HTTP/1.1\r\na: b\r\n\r\nfive!GET / HTTP/1.1\n\nPUT / HTTP/1.1\r\n\r\n\
            3;x=\"y\"\r\nabc\r\n00A \r\n0123456789\r\n0\r\ntrailer: 1\r\n\r\nGET /2 HTTP/1.1\r\n\r\nrest\n";
        let follows = [BodyLength::Known(5), BodyLength::None, BodyLength::Chunked, BodyLength::UntilClose];
        let whole = cut(&[wire], &follows).expect("it is HTTP");
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
            assert_eq!(cut(&[one, two], &follows).as_ref(), Ok(&whole), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = wire.chunks(1).collect();
        assert_eq!(cut(&bytes, &follows).as_ref(), Ok(&whole));
    }

    #[test]
    fn every_byte_is_given_out_once() {
        let wire = b"\r\nPUT / HTTP/1.1\r\n\r\n3\r\nabc\r\n0\r\nt: 1\r\n\r\n";
        let (mut messages, mut input, mut all) = (HttpDecoder::new(), &wire[..], Vec::new());
        while let Some(part) = messages.next(&mut input).expect("it is HTTP") {
            match part {
                HttpPart::Head(head) => {
                    all.extend(head);
                    messages.set_body(BodyLength::Chunked);
                }
                HttpPart::Body(bytes) | HttpPart::Framing(bytes) => all.extend_from_slice(bytes),
                HttpPart::End => {}
            }
        }
        assert_eq!(all, wire);
        assert!(messages.is_between());
    }

    #[test]
    fn what_is_not_in_chunks_is_found() {
        for body in ["x\r\n", "\r\n", "3\r\nabcd", "fffffffffffffffff\r\n", "3x\r\n"] {
            let wire = format!("PUT / HTTP/1.1\r\n\r\n{body}");
            assert_eq!(cut(&[wire.as_bytes()], &[BodyLength::Chunked]), Err(HttpFramingError::Chunk), "{body}");
        }
    }

    #[test]
    fn a_head_without_an_end_is_not_kept() {
        let (mut messages, line) = (HttpDecoder::new(), [b'x'; 1000]);
        let found = (0..100).find_map(|_| messages.next(&mut &line[..]).err());
        assert_eq!(found, Some(HttpFramingError::LongHead));
        assert!(messages.head.len() <= MOST_HEAD + 1);
    }
}
