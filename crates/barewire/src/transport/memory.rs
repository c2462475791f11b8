//! A transport in memory, for tests: two connected ends, with methods to send and receive plain text.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};

use super::{Framing, Parts, Transport};

/// Creates two connected ends. Each direction holds up to `capacity` bytes that are not read yet.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use barewire::transport::memory;
///
/// let (mut client, mut server) = memory(64 * 1024);
/// client.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
/// client.close_write();
///
/// let line = server.recv_line().await?;
/// assert_eq!(line.as_deref(), Some(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
/// assert_eq!(server.recv_line().await?, None);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn memory(capacity: usize) -> (Memory, Memory) {
    // Each direction has its own duplex pair, so that the writer of an end can be dropped while its reader stays open.
    let (a_writer, b_reader) = tokio::io::duplex(capacity);
    let (b_writer, a_reader) = tokio::io::duplex(capacity);
    (Memory::new(a_reader, a_writer), Memory::new(b_reader, b_writer))
}

/// One of two connected ends: pass it to a server or a client, or use it to send and receive text.
#[derive(Debug)]
pub struct Memory {
    reader: BufReader<DuplexStream>,
    writer: DuplexStream,
    framing: Framing,
}

impl Memory {
    fn new(reader: DuplexStream, writer: DuplexStream) -> Self {
        Self { reader: BufReader::new(reader), writer, framing: Framing::Lines }
    }

    /// Sets the framing of the messages. The default is one message per line.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Sends `line` and a newline.
    pub async fn send_line(&mut self, line: &str) -> io::Result<()> {
        self.send(line.as_bytes()).await?;
        self.send(b"\n").await
    }

    /// Sends `bytes` unchanged. The bytes need not be a whole line, and need not be text.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await
    }

    /// Receives the next line, without its newline; `None` when the other end has closed and everything is read.
    pub async fn recv_line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line.ends_with('\n') {
            line.pop();
        }
        Ok(Some(line))
    }

    /// Receives all bytes until the other end closes.
    pub async fn recv_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).await?;
        Ok(bytes)
    }

    /// Closes the sending direction. Bytes from the other end can still be received.
    pub fn close_write(&mut self) {
        // The other end of this new pair is dropped immediately, so a later send fails.
        self.writer = tokio::io::duplex(1).0;
    }
}

impl Transport for Memory {
    type Reader = BufReader<DuplexStream>;
    type Writer = DuplexStream;

    fn into_parts(self) -> Parts<Self::Reader, Self::Writer> {
        Parts { framing: self.framing, ..Parts::new(self.reader, self.writer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_half_is_seen_by_the_other_end_only_in_its_direction() {
        let (mut a, b) = memory(16);
        let Parts { reader, mut writer, .. } = b.into_parts();
        writer.write_all(b"last\n").await.unwrap();
        drop(writer);
        assert_eq!(a.recv_line().await.unwrap().as_deref(), Some("last"));
        assert_eq!(a.recv_line().await.unwrap(), None);
        a.send_line("still read").await.unwrap();
        drop(reader);
        assert_eq!(a.send(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn after_close_write_nothing_more_is_sent() {
        let (mut a, mut b) = memory(16);
        a.close_write();
        assert_eq!(b.recv_line().await.unwrap(), None);
        assert_eq!(a.send(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        b.send(b"bytes").await.unwrap();
        drop(b);
        assert_eq!(a.recv_to_end().await.unwrap(), b"bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_end_holds_up_the_sender_under_paused_time() {
        let (mut a, mut b) = memory(4);
        let hour = std::time::Duration::from_secs(3600);
        assert!(tokio::time::timeout(hour, a.send_line("too long")).await.is_err());
        a.close_write();
        assert_eq!(b.recv_line().await.unwrap().as_deref(), Some("too "));
    }
}
