//! Loads a server process: writes requests to its stdin and reads answers from its stdout. Frames are written and read
//! many at a time, on one thread, and only the id and the times of each request are kept.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use barewire::transport::{Exit, ExitFuture, ProcessReader};
use barewire_proto::frame::{Codec, Lines};
use barewire_proto::json::Json;
use barewire_proto::rpc::{Code, DEFAULT_DEPTH, ErrorObject, Id, Message, Parsed, Request, Response, parse};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::error::ConnectFailure;
use super::judge::AnswerJudge;
use super::outstanding::{AnswerStatus, OutstandingRequests, SentRequest};
use super::pipes::{Pipes, ProcessWriter};
use super::request::LoadRequest;
use super::run::{LoadRun, stop_requested};
use super::settings::Amount;
use super::tally::{Tally, WrongAnswer};
use super::template::Template;
use super::turn::{Turn, TurnEnd};

pub(super) struct StdioLoad {
    reader: ProcessReader,
    writer: Option<ProcessWriter>,
    ending: Option<ExitFuture>,
    codec: Lines,
    out: WriteBuffer,
    chunk: Vec<u8>,
    outstanding: OutstandingRequests,
    /// The largest request id in the handshake. Answers to requests of the handshake can still arrive.
    last_handshake_id: u64,
    /// Whether the next bytes are the rest of a line whose beginning was read during the handshake.
    is_mid_line: bool,
}

struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
}

enum Transfer {
    /// The number of bytes that were read.
    Read(usize),
    /// Bytes were written, and the buffer has room for more requests.
    Wrote,
}

impl StdioLoad {
    pub(super) fn new(pipes: Pipes) -> Option<Self> {
        Some(Self {
            reader: pipes.reader?,
            writer: pipes.writer,
            ending: pipes.ending,
            codec: Lines::default(),
            out: WriteBuffer { bytes: Vec::new(), written: 0 },
            chunk: vec![0; PIPE_SIZE],
            outstanding: OutstandingRequests::new(),
            last_handshake_id: pipes.lines_written,
            is_mid_line: pipes.is_mid_line,
        })
    }

    /// Sends the first request and builds the judge for later answers from its answer.
    pub(super) async fn first(
        &mut self,
        template: &Template,
        request: &LoadRequest,
        timeout: Duration,
    ) -> Result<AnswerJudge, ConnectFailure> {
        let now = Instant::now();
        let number = self.outstanding.add(SentRequest { due: now, sent: now });
        template.append(number, &mut self.out.bytes);
        let method = || request.method.clone();
        let frame = match tokio::time::timeout(timeout, self.answer_to(number)).await {
            Ok(answer) => answer.map_err(|_| ConnectFailure::Closed(None))?,
            Err(_) => return Err(ConnectFailure::TimedOut { method: method(), timeout }),
        };
        let Parsed::Message(Message::Response(response)) = parse(&frame, DEFAULT_DEPTH) else {
            unreachable!("the first answer is a response");
        };
        AnswerJudge::learn(&response.outcome, number, template.tail(), request.params.as_deref())
            .map_err(|answer| ConnectFailure::BadFirstAnswer { method: method(), answer })
    }

    async fn answer_to(&mut self, number: u64) -> io::Result<Vec<u8>> {
        loop {
            let Transfer::Read(count) = self.transfer(false).await? else { continue };
            let Self { codec, chunk, is_mid_line, out, outstanding, .. } = self;
            let mut input = skip_partial_line(is_mid_line, &chunk[..count]);
            while let Some(frame) = codec.next_frame(&mut input) {
                let Ok(frame) = frame else { continue };
                match parse(frame.bytes, DEFAULT_DEPTH) {
                    Parsed::Message(Message::Response(response)) if request_number(&response.id) == Some(number) => {
                        outstanding.answer(number);
                        return Ok(frame.bytes.to_vec());
                    }
                    Parsed::Message(Message::Request(request)) => out.reply_to(&request),
                    _ => {}
                }
            }
        }
    }

    pub(super) async fn run_turn(
        &mut self,
        run: &mut LoadRun<'_>,
        template: &Template,
        judge: &mut AnswerJudge,
        amount: Amount,
        tally: &mut Tally,
    ) -> TurnEnd {
        let mut turn = Turn::new(run.settings, amount, Instant::now());
        let end = loop {
            let now = Instant::now();
            let mut wants_more = false;
            while let Some(due) = turn.next(now, self.outstanding.len(), tally) {
                let number = self.outstanding.add(SentRequest { due, sent: now });
                template.append(number, &mut self.out.bytes);
                if self.out.waiting() >= PIPE_SIZE {
                    wants_more = true;
                    break;
                }
            }
            let open = self.outstanding.len();
            if turn.is_over(now, open) {
                break TurnEnd::Done;
            }
            if turn.is_check_due(now) {
                tally.lost += self.outstanding.expire(now, run.settings.timeout);
                turn.settled(now, open, self.outstanding.len());
                run.report(tally);
                continue;
            }
            if run.is_stop_requested() {
                // Open requests do not count as lost: the server had no time to answer them.
                tally.sent -= self.outstanding.expire_all();
                break TurnEnd::Stopped;
            }
            let transfer = tokio::select! {
                biased;
                transfer = self.transfer(wants_more) => transfer,
                slept = run.timer.wait_until(turn.wake) => match slept {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                () = stop_requested(&mut run.stop) => continue,
            };
            match transfer {
                Ok(Transfer::Wrote) => {}
                Ok(Transfer::Read(count)) => {
                    let received = Instant::now();
                    self.handle_frames(count, received, judge, tally);
                    turn.received(received);
                    turn.settled(received, open, self.outstanding.len());
                }
                Err(_) => {
                    tally.lost += self.outstanding.expire_all();
                    break TurnEnd::Disconnected;
                }
            }
        };
        turn.close(end, tally);
        end
    }

    /// Counts the answers that arrive after the last expected answer: duplicate, late and wrong answers.
    pub(super) async fn wait_for_stray_answers(&mut self, judge: &mut AnswerJudge, tally: &mut Tally) {
        let until = tokio::time::Instant::now() + STRAY_ANSWER_WAIT;
        while tokio::time::Instant::now() < until
            && let Ok(Ok(Transfer::Read(count))) = tokio::time::timeout_at(until, self.transfer(false)).await
        {
            self.handle_frames(count, Instant::now(), judge, tally);
        }
    }

    fn handle_frames(&mut self, count: usize, received: Instant, judge: &mut AnswerJudge, tally: &mut Tally) {
        let Self { codec, chunk, is_mid_line, out, outstanding, last_handshake_id, .. } = self;
        let mut input = skip_partial_line(is_mid_line, &chunk[..count]);
        let mut handler =
            FrameHandler { out, outstanding, judge, tally, last_handshake_id: *last_handshake_id, received };
        while let Some(frame) = codec.next_frame(&mut input) {
            match frame {
                Ok(frame) => handler.frame(frame.bytes),
                Err(error) => handler.tally.wrong(WrongAnswer::NotAMessage, error.to_string().as_bytes()),
            }
        }
    }

    /// Closes the stdin of the process and waits until the process has ended.
    pub(super) async fn finish(mut self) -> Option<Exit> {
        self.writer = None;
        let ending = self.ending.take()?;
        ending.await
    }

    /// Writes bytes until some bytes are read. With `wants_more`, stops earlier if the buffer has room for requests.
    async fn transfer(&mut self, wants_more: bool) -> io::Result<Transfer> {
        let Self { reader, writer, out, chunk, .. } = self;
        poll_fn(|cx| {
            let Some(writer) = writer else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
            while let Some(bytes) = out.rest() {
                match Pin::new(&mut *writer).poll_write(cx, bytes) {
                    Poll::Ready(Ok(count)) => out.wrote(count),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => break,
                }
            }
            let mut buffer = ReadBuf::new(chunk);
            match Pin::new(&mut *reader).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                    Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()))
                }
                Poll::Ready(Ok(())) => Poll::Ready(Ok(Transfer::Read(buffer.filled().len()))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending if wants_more && out.waiting() < PIPE_SIZE => Poll::Ready(Ok(Transfer::Wrote)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// The state that a frame from the server can change.
struct FrameHandler<'a> {
    out: &'a mut WriteBuffer,
    outstanding: &'a mut OutstandingRequests,
    judge: &'a mut AnswerJudge,
    tally: &'a mut Tally,
    last_handshake_id: u64,
    received: Instant,
}

impl FrameHandler<'_> {
    fn frame(&mut self, frame: &[u8]) {
        match parse(frame, DEFAULT_DEPTH) {
            Parsed::Message(message) => self.message(message, frame),
            Parsed::Batch(batch) => {
                for element in batch.elements() {
                    match element {
                        Ok(message) => self.message(message, frame),
                        Err(_) => self.tally.wrong(WrongAnswer::NotAMessage, frame),
                    }
                }
            }
            Parsed::Invalid(invalid) => {
                // A malformed answer ends its request, because no other answer will follow.
                if let Some(number) = invalid.id.as_ref().and_then(request_number) {
                    self.outstanding.answer(number);
                }
                self.tally.wrong(WrongAnswer::NotAMessage, frame);
            }
        }
    }

    fn message(&mut self, message: Message<'_>, frame: &[u8]) {
        let Response { id, outcome } = match message {
            Message::Response(response) => response,
            Message::Request(request) => return self.out.reply_to(&request),
            Message::Notification(_) => return,
            Message::OrphanError(_) => return self.tally.wrong(WrongAnswer::UnknownId, frame),
        };
        let Some(number) = request_number(&id) else {
            return self.tally.wrong(WrongAnswer::UnknownId, frame);
        };
        match self.outstanding.answer(number) {
            AnswerStatus::First(request) => match self.judge.judge(&outcome, number) {
                // Ids are sent as plain digits, so the answer must repeat them as plain digits.
                Ok(()) if !id.as_str().bytes().all(|byte| byte.is_ascii_digit()) => {
                    self.tally.wrong(WrongAnswer::IdSpelling, frame);
                }
                Ok(()) => self.tally.good(request.due, self.received),
                Err(wrong) => self.tally.wrong(wrong, frame),
            },
            AnswerStatus::Duplicate => self.tally.duplicated += 1,
            AnswerStatus::Late => self.tally.late += 1,
            AnswerStatus::Unknown if number <= self.last_handshake_id => {}
            AnswerStatus::Unknown => self.tally.wrong(WrongAnswer::UnknownId, frame),
        }
    }
}

impl WriteBuffer {
    fn rest(&self) -> Option<&[u8]> {
        self.bytes.get(self.written..).filter(|rest| !rest.is_empty())
    }

    fn waiting(&self) -> usize {
        self.bytes.len() - self.written
    }

    fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        } else if self.written > 16 * PIPE_SIZE {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Answers a request from the server: a ping with a result, and any other request with an error, because the client
    /// has declared no capabilities. If too many bytes wait to be written, does not answer.
    fn reply_to(&mut self, request: &Request<'_>) {
        if self.waiting() > MAX_UNREAD_REPLIES {
            return;
        }
        if request.method == "ping" {
            let nothing = Json::parse(b"{}").expect("an object");
            request.reply().result(&mut self.bytes, nothing);
        } else {
            request.reply().error(&mut self.bytes, &ErrorObject::standard(Code::METHOD_NOT_FOUND));
        }
        self.bytes.push(b'\n');
    }
}

/// Returns an id as the number of a request, or `None` if the id cannot be such a number.
fn request_number(id: &Id<'_>) -> Option<u64> {
    u64::try_from(id.integer()?).ok()
}

/// Skips the rest of a line whose beginning was read during the handshake, and returns the bytes after it.
fn skip_partial_line<'a>(is_mid_line: &mut bool, bytes: &'a [u8]) -> &'a [u8] {
    if !*is_mid_line {
        return bytes;
    }
    match memchr::memchr(b'\n', bytes) {
        Some(at) => {
            *is_mid_line = false;
            &bytes[at + 1..]
        }
        None => &[],
    }
}

/// The capacity of a pipe: the maximum size of a read, and the number of bytes that are prepared before a write.
const PIPE_SIZE: usize = 64 * 1024;

/// The time to wait for answers after the last expected answer: longer than a server takes between two lines.
const STRAY_ANSWER_WAIT: Duration = Duration::from_millis(50);

/// The number of unwritten bytes above which requests from the server are not answered.
const MAX_UNREAD_REPLIES: usize = 1024 * 1024;
