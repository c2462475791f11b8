//! A program's stdin and stdout <-> the client, and copies of all bytes. Raw frames go between the lines of the client.

use std::ffi::OsString;

use barewire::transport::{Child, ExitFuture, Parts, Stderr, Transport, memory};
use barewire_proto::transcript::{Note, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::Error;
use crate::capture::CaptureClock;
use crate::relay::{Observation, RelayCopies, SINGLE_CONNECTION};

/// The way to a program for raw frames.
pub(super) struct StdioWire(Sender<Vec<u8>>);

/// The client's end of the connection.
pub(super) struct ClientEnd(barewire::transport::Memory);

impl Transport for ClientEnd {
    type Reader = BufReader<DuplexStream>;
    type Writer = DuplexStream;

    fn into_parts(self) -> Parts<Self::Reader, Self::Writer> {
        let mut parts = self.0.into_parts();
        // We have started the program, so its invalid lines are not answered, as those of any child process.
        parts.opened_by_us = true;
        parts
    }
}

impl StdioWire {
    /// Starts the program. `line` is its command line as the capture has it.
    pub(super) fn start(
        argv: &[OsString],
        line: Vec<u8>,
        observation: &Observation,
        clock: CaptureClock,
    ) -> Result<(Self, ClientEnd), Error> {
        let copies = RelayCopies::from(Some(observation));
        copies.note(SINGLE_CONNECTION, Note::Open(line));
        let Some((program, args)) = argv.split_first() else { return Err(Error::new("there is no program to start")) };
        let stderr = copies.clone();
        let child = Child::new(program).args(args).stderr(Stderr::lines(move |line| {
            stderr.bytes(SINGLE_CONNECTION, Stream::Stderr, &[line, b"\n"].concat(), clock.now());
        }));
        let process = child.spawn().map_err(|error| {
            let error = Error::not_started(error);
            copies.note(SINGLE_CONNECTION, Note::Failed(error.to_string().into_bytes()));
            error
        })?;
        let Parts { reader, writer, exit, .. } = process.into_parts();
        let (ours, theirs) = memory(BUFFER_SIZE);
        let Parts { reader: from_client, writer: to_client, .. } = ours.into_parts();
        let (sender, raw) = channel(MAX_WAITING_FRAMES);
        let sending = send(from_client, writer, raw, copies.clone(), clock);
        tokio::spawn(receive(reader, to_client, copies.clone(), clock));
        tokio::spawn(end(sending, exit, copies));
        Ok((Self(sender), ClientEnd(theirs)))
    }

    /// Sends a line as it is.
    pub(super) fn send(&self, mut frame: Vec<u8>) -> Result<(), String> {
        if frame.last() != Some(&b'\n') {
            frame.push(b'\n');
        }
        self.0.try_send(frame).map_err(|error| match error {
            TrySendError::Full(_) => "the server does not read: too many frames wait".to_owned(),
            TrySendError::Closed(_) => "the session has ended".to_owned(),
        })
    }
}

/// Passes on what the client writes, and raw frames between its lines, until the client closes its end.
async fn send(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut raw: Receiver<Vec<u8>>,
    copies: RelayCopies,
    clock: CaptureClock,
) {
    let (mut buffer, mut in_line) = (vec![0; BUFFER_SIZE], false);
    loop {
        let frame: Vec<u8>;
        let bytes = tokio::select! {
            biased;
            count = from.read(&mut buffer) => match count {
                Ok(count) if count > 0 => {
                    in_line = buffer[count - 1] != b'\n';
                    &buffer[..count]
                }
                _ => break,
            },
            Some(waiting) = raw.recv(), if !in_line => {
                frame = waiting;
                frame.as_slice()
            }
        };
        // Copied before they are written: the response of a fast program must not be seen before its request.
        copies.bytes(SINGLE_CONNECTION, Stream::ToServer, bytes, clock.now());
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    copies.note(SINGLE_CONNECTION, Note::Eof(Stream::ToServer));
}

/// Passes on what the program writes. Goes on when the client is gone, so that everything is seen.
async fn receive(
    mut from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    copies: RelayCopies,
    clock: CaptureClock,
) {
    let (mut buffer, mut to) = (vec![0; BUFFER_SIZE], Some(to));
    while let Ok(count) = from.read(&mut buffer).await
        && count > 0
    {
        copies.bytes(SINGLE_CONNECTION, Stream::ToClient, &buffer[..count], clock.now());
        if let Some(open) = &mut to
            && open.write_all(&buffer[..count]).await.is_err()
        {
            to = None;
        }
    }
    copies.note(SINGLE_CONNECTION, Note::Eof(Stream::ToClient));
}

/// Waits for the end of the program, which follows that of its stdin.
async fn end(sending: impl Future<Output = ()>, exit: Option<ExitFuture>, copies: RelayCopies) {
    sending.await;
    let Some(exit) = exit else { return };
    if let Some(exit) = exit.await {
        match (exit.code, exit.signal) {
            (Some(code), _) => copies.note(SINGLE_CONNECTION, Note::ExitCode(code)),
            (None, Some(signal)) => copies.note(SINGLE_CONNECTION, Note::ExitSignal(signal)),
            (None, None) => {}
        }
    }
}

/// The size of each buffer, which is the capacity of a pipe.
const BUFFER_SIZE: usize = 64 * 1024;

/// The maximum number of raw frames that wait for a server that does not read.
const MAX_WAITING_FRAMES: usize = 16;
