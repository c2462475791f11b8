//! Bytes in, handlers run, answers out: the loop.

use std::io::{self, Read, Write};

use barewire_proto::frame::{Codec, DEFAULT_LIMIT, Frame, FrameError, Lines, MAX_KEPT_CAPACITY};
use barewire_proto::json::Text;
use barewire_proto::rpc::{Batch, DEFAULT_DEPTH, Invalid, Message, Notification, Params, Parsed, Request, parse};
use serde::Serialize;

use super::IncomingCall;
use super::output::Output;
use crate::log::Log;
use crate::{Error, Failure};

/// A JSON-RPC connection over a reader and a writer, one message a line.
#[derive(Debug)]
pub struct Conn<R, W> {
    reader: R,
    output: Output<W>,
    max_frame: usize,
    limits: Limits,
    log: Log,
}

/// What of a frame is let through.
#[derive(Debug)]
struct Limits {
    depth: usize,
    /// Elements of a batch; `None` where batches are not allowed at all.
    batch: Option<usize>,
}

impl<R: Read, W: Write> Conn<R, W> {
    /// A connection with the default limits.
    pub fn new(reader: R, writer: W) -> Self {
        let output = Output::new(writer);
        let limits = Limits { depth: DEFAULT_DEPTH, batch: Some(DEFAULT_BATCH) };
        Self { reader, output, max_frame: DEFAULT_LIMIT, limits, log: Log::default() }
    }

    /// Refuses frames of more than `bytes` instead of the default 64 MiB.
    #[must_use]
    pub fn max_frame(self, bytes: usize) -> Self {
        Self { max_frame: bytes, ..self }
    }

    /// Refuses messages nested deeper than `levels` instead of the default 128.
    #[must_use]
    pub fn max_depth(self, levels: usize) -> Self {
        Self { limits: Limits { depth: levels, ..self.limits }, ..self }
    }

    /// Refuses batches of more than `elements` instead of the default 1000.
    #[must_use]
    pub fn max_batch(self, elements: usize) -> Self {
        Self { limits: Limits { batch: Some(elements), ..self.limits }, ..self }
    }

    /// Refuses all batches: a refusal for every request in one, and no array.
    #[must_use]
    pub fn refuse_batches(self) -> Self {
        Self { limits: Limits { batch: None, ..self.limits }, ..self }
    }

    /// Handles every message until the reader ends, in the order they come.
    ///
    /// Every request is answered once: with what `handler` returns, with its [`Failure`], or if it panics with -32603.
    /// Answers are written when all that was read has been handled; notifications of a handler at once. The only errors
    /// that end the loop are those of the reader and the writer.
    pub fn serve<T: Serialize>(
        self,
        mut handler: impl FnMut(&mut IncomingCall<'_>) -> Result<T, Failure>,
    ) -> Result<(), Error> {
        let Self { mut reader, output, max_frame, limits, log } = self;
        let mut lines = Lines::new(max_frame);
        let mut turn = Turn { output, log, limits, answer: Vec::new(), handler: &mut handler };
        let mut buffer = vec![0; READ];
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let mut input = &buffer[..read];
            while let Some(frame) = lines.next_frame(&mut input) {
                turn.frame(frame)?;
            }
            if read == 0 {
                while let Some(frame) = lines.finish() {
                    turn.frame(frame)?;
                }
                return Ok(turn.output.flush()?);
            }
            turn.output.flush()?;
        }
    }
}

/// What handling a frame needs.
struct Turn<'h, W, H> {
    output: Output<W>,
    log: Log,
    limits: Limits,
    /// The answer that is being written, empty between two frames; kept for its memory.
    answer: Vec<u8>,
    handler: &'h mut H,
}

impl<W: Write, H, T> Turn<'_, W, H>
where
    H: FnMut(&mut IncomingCall<'_>) -> Result<T, Failure>,
    T: Serialize,
{
    /// Handles one frame, and puts its answer, if it gets one, where the next flush finds it.
    fn frame(&mut self, frame: Result<Frame<'_>, FrameError>) -> io::Result<()> {
        let mut answer = std::mem::take(&mut self.answer);
        match &frame {
            Err(error) => {
                let begins = error.prefix();
                self.invalid(error.offset(), begins, &Invalid::from_frame(error), &mut answer);
            }
            Ok(frame) => match parse(frame.bytes, self.limits.depth) {
                Parsed::Message(message) => self.message(*frame, message, &mut answer)?,
                Parsed::Invalid(invalid) => self.invalid(frame.offset, frame.bytes, &invalid, &mut answer),
                Parsed::Batch(batch) => self.batch(*frame, batch, &mut answer)?,
            },
        }
        if !answer.is_empty() {
            self.output.message(|out| out.extend_from_slice(&answer))?;
        }
        answer.clear();
        if answer.capacity() > MAX_KEPT_CAPACITY {
            answer = Vec::new();
        }
        self.answer = answer;
        Ok(())
    }

    /// One array when all are done. If nobody in it waits for an answer, nothing at all.
    fn batch(&mut self, frame: Frame<'_>, batch: Batch<'_>, answer: &mut Vec<u8>) -> io::Result<()> {
        let Some(most) = self.limits.batch else {
            for (index, invalid) in batch.refusals().enumerate() {
                if index == 0 {
                    self.log.refused(frame.offset, frame.bytes, &invalid);
                }
                if let Some(reply) = invalid.reply() {
                    self.output.message(|out| reply.error(out, &invalid.error()))?;
                }
            }
            return Ok(());
        };
        if let Some(invalid) = batch.over(most) {
            self.invalid(frame.offset, frame.bytes, &invalid, answer);
            return Ok(());
        }
        let mut logged = false;
        for element in batch.elements() {
            let before = answer.len();
            answer.push(if before == 0 { b'[' } else { b',' });
            let start = answer.len();
            match element {
                Ok(message) => self.message(frame, message, answer)?,
                Err(invalid) => {
                    // A bad line is logged once, however much of it is bad.
                    if !std::mem::replace(&mut logged, true) {
                        self.log.refused(frame.offset, frame.bytes, &invalid);
                    }
                    refuse(&invalid, answer);
                }
            }
            if answer.len() == start {
                answer.truncate(before);
            }
        }
        if !answer.is_empty() {
            answer.push(b']');
        }
        Ok(())
    }

    /// Refuses what is no message: a line in the log, and an answer if somebody waits for one.
    fn invalid(&mut self, offset: u64, bytes: &[u8], invalid: &Invalid<'_>, answer: &mut Vec<u8>) {
        self.log.refused(offset, bytes, invalid);
        refuse(invalid, answer);
    }

    fn message(&mut self, frame: Frame<'_>, message: Message<'_>, answer: &mut Vec<u8>) -> io::Result<()> {
        let Frame { offset, bytes, .. } = frame;
        match message {
            Message::Request(request) => {
                let Request { method, params, .. } = request;
                let start = answer.len();
                let outcome = self.call(method, params, true, |result| {
                    let written = request.reply().serialize(answer, &result);
                    written.map_err(|(_, error)| Failure::unserializable(&error))
                })?;
                if let Err(failure) = outcome {
                    // A panic while the result was written may have left half of it.
                    answer.truncate(start);
                    self.log.failed(&method.to_name(), &failure);
                    request.reply().error(answer, &failure.error(&method.to_name()));
                }
            }
            Message::Notification(Notification { method, params }) => {
                if let Err(failure) = self.call(method, params, false, |_| Ok(()))? {
                    self.log.failed(&method.to_name(), &failure);
                }
            }
            // Nothing was asked, so nothing can be answered.
            Message::Response(response) => {
                let kind = if response.outcome.is_ok() { "result" } else { "error" };
                self.log.frame(offset, bytes, format_args!("{kind} of no request of ours"));
            }
            Message::OrphanError(error) => {
                self.log.frame(offset, bytes, format_args!("the peer reports an error, code {}", error.code));
            }
        }
        Ok(())
    }

    /// Runs the handler and what is done with its result. The outer error is the writer's: a notification of the
    /// handler's could not be sent, and neither can anything else.
    fn call(
        &mut self,
        method: Text<'_>,
        params: Option<Params<'_>>,
        asks: bool,
        finish: impl FnOnce(T) -> Result<(), Failure>,
    ) -> io::Result<Result<(), Failure>> {
        let (output, handler) = (&mut self.output, &mut self.handler);
        let mut broken = None;
        let mut send = |message: &[u8]| {
            let sent = output.message(|out| out.extend_from_slice(message)).and_then(|()| output.flush());
            sent.inspect_err(|error| broken = Some(io::Error::from(error.kind())))
        };
        let mut call = IncomingCall::new(method, params, asks, &mut send);
        let outcome = Failure::catch(|| finish(handler(&mut call)?));
        match broken {
            Some(error) => Err(error),
            None => Ok(outcome.and_then(|outcome| outcome)),
        }
    }
}

/// Writes the refusal of what is no message, if somebody waits for one.
fn refuse(invalid: &Invalid<'_>, answer: &mut Vec<u8>) {
    if let Some(reply) = invalid.reply() {
        reply.error(answer, &invalid.error());
    }
}

/// More than any client sends at once. Each element may be answered with many times its length, so their number is what
/// bounds the answer.
const DEFAULT_BATCH: usize = 1000;

/// The default capacity of a pipe on Linux: one read takes all that a full pipe holds.
const READ: usize = 64 * 1024;
