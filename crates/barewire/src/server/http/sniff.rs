//! Detects the protocol of a connection from its first bytes: HTTP, one message per line, or messages with
//! `Content-Length` headers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use crate::transport::Framing;

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DetectedProtocol {
    Http,
    Framed(Framing),
}

/// Reads until the protocol is known. Returns the protocol and the bytes read so far, or `None` if the protocol is not
/// supported.
pub(super) async fn sniff(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(DetectedProtocol, Vec<u8>)>> {
    let mut first = Vec::with_capacity(MAX_SNIFFED_BYTES);
    loop {
        match detect(&first) {
            Detection::Known(protocol) => return Ok(Some((protocol, first))),
            Detection::Unknown => return Ok(None),
            Detection::NeedMore if first.len() >= MAX_SNIFFED_BYTES => return Ok(None),
            Detection::NeedMore => {}
        }
        let mut chunk = [0; MAX_SNIFFED_BYTES];
        let room = MAX_SNIFFED_BYTES - first.len();
        let count = stream.read(&mut chunk[..room]).await?;
        if count == 0 {
            return Ok(None);
        }
        first.extend_from_slice(&chunk[..count]);
    }
}

enum Detection {
    NeedMore,
    Known(DetectedProtocol),
    Unknown,
}

/// Detects the protocol: a message starts with a brace or bracket, an HTTP request with letters and a space, and a
/// `Content-Length` frame with letters, dashes and a colon.
fn detect(first: &[u8]) -> Detection {
    // A byte order mark is skipped: a stream of lines may start with one, the other protocols do not.
    let first = match first.strip_prefix(BOM) {
        Some(first) => first,
        None if BOM.starts_with(first) => return Detection::NeedMore,
        None => first,
    };
    let start = first.iter().position(|byte| !byte.is_ascii_whitespace());
    let Some(first) = start.map(|start| &first[start..]) else { return Detection::NeedMore };
    if matches!(first.first(), Some(b'{' | b'[')) {
        return Detection::Known(DetectedProtocol::Framed(Framing::Lines));
    }
    let end = first.iter().position(|byte| !(byte.is_ascii_alphabetic() || *byte == b'-'));
    let Some(end) = end else { return Detection::NeedMore };
    let (word, rest) = first.split_at(end);
    match rest.first() {
        Some(b' ') if !word.is_empty() && word.iter().all(u8::is_ascii_uppercase) => {
            Detection::Known(DetectedProtocol::Http)
        }
        Some(b':') if is_header(word) => Detection::Known(DetectedProtocol::Framed(Framing::ContentLength)),
        _ => Detection::Unknown,
    }
}

fn is_header(word: &[u8]) -> bool {
    [&b"content-length"[..], b"content-type"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// A stream whose first bytes were already read. Reading from this value returns those bytes again, then the rest.
pub(super) struct PrefixedStream<S> {
    prefix: Vec<u8>,
    taken: usize,
    stream: S,
}

impl<S> PrefixedStream<S> {
    pub(super) fn new(prefix: Vec<u8>, stream: S) -> Self {
        Self { prefix, taken: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.prefix[self.taken..];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        self.taken += count;
        if self.taken == self.prefix.len() {
            (self.prefix, self.taken) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The maximum number of bytes that are read to detect the protocol: enough for some blank lines, an HTTP method or a
/// header name, and the character after it.
const MAX_SNIFFED_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_bytes_identify_the_protocol() {
        let (lines, counted) =
            (Some(DetectedProtocol::Framed(Framing::Lines)), Some(DetectedProtocol::Framed(Framing::ContentLength)));
        for (bytes, expected) in [
            ("{\"jsonrpc\":\"2.0\"}\n", lines),
            ("\n \r\n[", lines),
            ("\u{feff}{}\n", lines),
            ("POST /mcp HTTP/1.1\r\n", Some(DetectedProtocol::Http)),
            ("\r\nGET / HTTP/1.1\r\n", Some(DetectedProtocol::Http)),
            ("PRI * HTTP/2.0\r\n", Some(DetectedProtocol::Http)),
            ("Content-Length: 2\r\n\r\n{}", counted),
            ("content-type: x\r\n", counted),
            ("hello there\n", None),
            ("\u{16}\u{3}\u{1}", None),
            ("", None),
            ("POST", None),
            (&"A".repeat(100), None),
            (&"\n".repeat(100), None),
        ] {
            for step in [1, 3, 1000] {
                let reader = tokio_test_reader(bytes.as_bytes(), step);
                let mut reader = std::pin::pin!(reader);
                let found = sniff(&mut reader).await.unwrap();
                assert_eq!(found.as_ref().map(|(protocol, _)| *protocol), expected, "{bytes:?}");
                if let Some((_, first)) = found {
                    assert!(bytes.as_bytes().starts_with(&first));
                }
            }
        }
    }

    /// Returns a reader that returns at most `step` bytes per read.
    fn tokio_test_reader(bytes: &[u8], step: usize) -> impl AsyncRead + Unpin + use<'_> {
        struct Steps<'a>(&'a [u8], usize);
        impl AsyncRead for Steps<'_> {
            fn poll_read(
                mut self: Pin<&mut Self>,
                _: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let count = self.0.len().min(self.1).min(buffer.remaining());
                let (now, later) = self.0.split_at(count);
                buffer.put_slice(now);
                self.0 = later;
                Poll::Ready(Ok(()))
            }
        }
        Steps(bytes, step)
    }
}
