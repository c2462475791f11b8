//! The loop of a blocking connection: reads bytes, runs handlers, writes answers.

use std::io::{self, Read, Write};

use barewire_proto::frame::{Codec, DEFAULT_LIMIT, Frame, FrameError, Lines, MAX_KEPT_CAPACITY};
use barewire_proto::json::Text;
use barewire_proto::rpc::{Batch, DEFAULT_DEPTH, Invalid, Message, Notification, Params, Parsed, Request, parse};
use serde::Serialize;

use super::IncomingCall;
use super::output::MessageWriter;
use crate::log::Log;
use crate::{Error, Failure};

/// A JSON-RPC connection over a reader and a writer, one message per line.
#[derive(Debug)]
pub struct Conn<R, W> {
    reader: R,
    output: MessageWriter<W>,
    max_frame: usize,
    limits: FrameLimits,
    log: Log,
}

/// The limits on one frame.
#[derive(Debug)]
struct FrameLimits {
    depth: usize,
    /// The maximum number of elements in a batch; `None` if batches are not allowed.
    batch: Option<usize>,
}

impl<R: Read, W: Write> Conn<R, W> {
    /// Creates a connection with the default limits.
    pub fn new(reader: R, writer: W) -> Self {
        let output = MessageWriter::new(writer);
        let limits = FrameLimits { depth: DEFAULT_DEPTH, batch: Some(DEFAULT_BATCH) };
        Self { reader, output, max_frame: DEFAULT_LIMIT, limits, log: Log::default() }
    }

    /// Sets the maximum number of bytes in a frame. Larger frames are refused. The default is 64 MiB.
    #[must_use]
    pub fn max_frame(self, bytes: usize) -> Self {
        Self { max_frame: bytes, ..self }
    }

    /// Sets the maximum nesting depth of a message. Deeper messages are refused. The default is 128 levels.
    #[must_use]
    pub fn max_depth(self, levels: usize) -> Self {
        Self { limits: FrameLimits { depth: levels, ..self.limits }, ..self }
    }

    /// Sets the maximum number of elements in a batch. Larger batches are refused. The default is 1000.
    #[must_use]
    pub fn max_batch(self, elements: usize) -> Self {
        Self { limits: FrameLimits { batch: Some(elements), ..self.limits }, ..self }
    }

    /// Refuses all batches: each request in a batch is answered with its own error response, and the responses are not
    /// sent as an array.
    #[must_use]
    pub fn refuse_batches(self) -> Self {
        Self { limits: FrameLimits { batch: None, ..self.limits }, ..self }
    }

    /// Handles messages in the order of arrival, until the end of the input.
    ///
    /// Every request is answered once: with the result of `handler`, with its [`Failure`], or with the error code
    /// -32603 if `handler` panics. Answers to messages that arrived in one read are written together. A notification
    /// that `handler` sends is written immediately. Returns an error only if reading or writing fails.
    pub fn serve<T: Serialize>(
        self,
        mut handler: impl FnMut(&mut IncomingCall<'_>) -> Result<T, Failure>,
    ) -> Result<(), Error> {
        let Self { mut reader, output, max_frame, limits, log } = self;
        let mut lines = Lines::new(max_frame);
        let mut frames = FrameHandler { output, log, limits, answer: Vec::new(), handler: &mut handler };
        let mut buffer = vec![0; READ_SIZE];
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let mut input = &buffer[..read];
            while let Some(frame) = lines.next_frame(&mut input) {
                frames.frame(frame)?;
            }
            if read == 0 {
                while let Some(frame) = lines.finish() {
                    frames.frame(frame)?;
                }
                return Ok(frames.output.flush()?);
            }
            frames.output.flush()?;
        }
    }
}

struct FrameHandler<'h, W, H> {
    output: MessageWriter<W>,
    log: Log,
    limits: FrameLimits,
    /// The buffer for the answer to the current frame. It is kept between frames so that its memory can be reused.
    answer: Vec<u8>,
    handler: &'h mut H,
}

impl<W: Write, H, T> FrameHandler<'_, W, H>
where
    H: FnMut(&mut IncomingCall<'_>) -> Result<T, Failure>,
    T: Serialize,
{
    /// Handles one frame, and adds its answer, if any, to the output.
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

    /// Handles a batch, and answers with one array. If no element needs an answer, nothing is sent.
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
                    // A batch is logged only once, even if several of its elements are invalid.
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

    /// Logs an invalid frame, and answers it with an error if the frame needs an answer.
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
                    // A panic while the result was being written can leave a part of the result in `answer`.
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
            // This side sends no requests, so no response can match a request.
            Message::Response(response) => {
                let kind = if response.outcome.is_ok() { "result" } else { "error" };
                self.log.frame(offset, bytes, format_args!("{kind} response matches no request: none was sent"));
            }
            Message::OrphanError(error) => {
                let what = format_args!("the peer sent an error response without an id, code {}", error.code);
                self.log.frame(offset, bytes, what);
            }
        }
        Ok(())
    }

    /// Runs the handler, and calls `finish` with its result. The outer `Result` is an error if a notification from the
    /// handler could not be written.
    fn call(
        &mut self,
        method: Text<'_>,
        params: Option<Params<'_>>,
        is_request: bool,
        finish: impl FnOnce(T) -> Result<(), Failure>,
    ) -> io::Result<Result<(), Failure>> {
        let (output, handler) = (&mut self.output, &mut self.handler);
        let mut broken = None;
        let mut send = |message: &[u8]| {
            let sent = output.message(|out| out.extend_from_slice(message)).and_then(|()| output.flush());
            sent.inspect_err(|error| broken = Some(io::Error::from(error.kind())))
        };
        let mut call = IncomingCall::new(method, params, is_request, &mut send);
        let outcome = Failure::catch(|| finish(handler(&mut call)?));
        match broken {
            Some(error) => Err(error),
            None => Ok(outcome.and_then(|outcome| outcome)),
        }
    }
}

/// Writes an error response to an invalid message, if the message needs an answer.
fn refuse(invalid: &Invalid<'_>, answer: &mut Vec<u8>) {
    if let Some(reply) = invalid.reply() {
        reply.error(answer, &invalid.error());
    }
}

/// The default maximum number of elements in a batch, more than any client sends at once. The number is limited because
/// the answer to an element can be many times as long as the element.
const DEFAULT_BATCH: usize = 1000;

/// The size of the read buffer: the default capacity of a pipe on Linux, so that one read empties a full pipe.
const READ_SIZE: usize = 64 * 1024;
