//! The bytes of a response -> its status, headers and body, as far as they have arrived.

use std::io;

use crate::harness::workload::beginning;

/// A response whose head has arrived.
pub(super) struct Reply<'a> {
    pub(super) status: u16,
    head: &'a [u8],
    body: Body<'a>,
}

enum Body<'a> {
    /// A body of a known length, and the bytes that have arrived.
    Sized(usize, &'a [u8]),
    /// A chunked body, as far as it has arrived.
    Chunks(&'a [u8]),
}

impl<'a> Reply<'a> {
    /// Reads the head; `None` if it has not arrived.
    pub(super) fn read(bytes: &'a [u8]) -> io::Result<Option<Self>> {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
        let (head, rest) = (&bytes[..end], &bytes[end + 4..]);
        let status = head.strip_prefix(b"HTTP/1.1 ").and_then(|line| number(line.get(..3)?, 10));
        let status = status.and_then(|status| u16::try_from(status).ok()).ok_or_else(|| bad(bytes))?;
        let reply = Self { status, head, body: Body::Chunks(rest) };
        let body = match (reply.header("content-length"), reply.header("transfer-encoding")) {
            (Some(length), None) => Body::Sized(number(length, 10).ok_or_else(|| bad(bytes))?, rest),
            (None, Some(b"chunked")) => Body::Chunks(rest),
            (None, None) if status == 202 => Body::Sized(0, rest),
            _ => return Err(bad(bytes)),
        };
        Ok(Some(Self { body, ..reply }))
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut lines = self.head.split(|byte| *byte == b'\n');
        lines.find_map(|line| {
            let (said, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":").filter(|_| said.eq_ignore_ascii_case(name.as_bytes()))?;
            Some(value.trim_ascii())
        })
    }

    /// Appends the body to `into`, as far as it has arrived. Returns whether it is complete, with no bytes after it.
    pub(super) fn body(&self, into: &mut Vec<u8>) -> io::Result<bool> {
        into.clear();
        match self.body {
            Body::Sized(length, there) => {
                into.extend_from_slice(there);
                if there.len() > length { Err(bad(there)) } else { Ok(there.len() == length) }
            }
            Body::Chunks(mut there) => loop {
                let Some(end) = memchr::memchr(b'\n', there) else { return Ok(false) };
                let length = number(there[..end].trim_ascii(), 16).ok_or_else(|| bad(there))?;
                let rest = &there[end + 1..];
                let Some(chunk) = rest.get(..length) else {
                    into.extend_from_slice(rest);
                    return Ok(false);
                };
                into.extend_from_slice(chunk);
                let Some(rest) = rest.get(length + 2..) else { return Ok(false) };
                if length == 0 {
                    return if rest.is_empty() { Ok(true) } else { Err(bad(rest)) };
                }
                there = rest;
            },
        }
    }
}

fn number(text: &[u8], radix: u32) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

fn bad(bytes: &[u8]) -> io::Error {
    io::Error::other(format!("invalid response: {}", beginning(bytes)))
}
