//! Requests -> the stdin of a process, and its stdout -> answers: whole batches of frames, on one thread, with nothing kept of a
//! request but its id and its times.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use barewire::transport::{Exit, ExitFuture, ProcessReader};
use barewire_proto::frame::{Codec, Lines};
use barewire_proto::json::Json;
use barewire_proto::rpc::{Code, DEFAULT_DEPTH, ErrorObject, Message, Parsed, Request, Response, parse};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::judge::Judge;
use super::lend::{Pipes, ProcessWriter};
use super::outstanding::{Asked, Outstanding, Settled};
use super::run::{Run, stop_requested};
use super::settings::Amount;
use super::slice::End;
use super::slice::Slice;
use super::tally::{Tally, WrongAnswer};
use super::template::Template;

/// A server that is a process.
pub(super) struct Stdio {
    reader: ProcessReader,
    writer: Option<ProcessWriter>,
    ending: Option<ExitFuture>,
    codec: Lines,
    out: Output,
    chunk: Vec<u8>,
    outstanding: Outstanding,
    /// Ids up to this were used for the handshake; an answer to one of them may still come.
    handshake: u64,
    /// The rest of a line that the handshake has seen the beginning of.
    in_a_line: bool,
}

/// What is to be written.
struct Output {
    bytes: Vec<u8>,
    /// So many of them are written.
    written: usize,
}

/// What a turn has brought.
enum Moved {
    Read(usize),
    /// All that was to be written is.
    Wrote,
}

impl Stdio {
    pub(super) fn new(pipes: Pipes) -> Option<Self> {
        Some(Self {
            reader: pipes.reader?,
            writer: pipes.writer,
            ending: pipes.ending,
            codec: Lines::default(),
            out: Output { bytes: Vec::new(), written: 0 },
            chunk: vec![0; CHUNK],
            outstanding: Outstanding::new(),
            handshake: pipes.lines,
            in_a_line: pipes.in_a_line,
        })
    }

    /// Asks once. Gives the number of the request, and the answer as it came.
    pub(super) async fn first(&mut self, template: &Template) -> io::Result<(u64, Vec<u8>)> {
        let now = Instant::now();
        let number = self.outstanding.ask(Asked { due: now, sent: now });
        template.append(number, &mut self.out.bytes);
        loop {
            let Moved::Read(count) = self.moved(false).await? else { continue };
            let Self { codec, chunk, in_a_line, out, outstanding, .. } = self;
            let mut input = behind(in_a_line, &chunk[..count]);
            while let Some(frame) = codec.next_frame(&mut input) {
                let Ok(frame) = frame else { continue };
                match parse(frame.bytes, DEFAULT_DEPTH) {
                    Parsed::Message(Message::Response(Response { id, .. }))
                        if id.integer().and_then(|id| u64::try_from(id).ok()) == Some(number) =>
                    {
                        outstanding.answer(number);
                        return Ok((number, frame.bytes.to_vec()));
                    }
                    Parsed::Message(Message::Request(request)) => out.refuse(&request),
                    _ => {}
                }
            }
        }
    }

    /// Asks as `run` wants it until `amount` is enough, and waits for what is still open then.
    pub(super) async fn slice(
        &mut self,
        run: &mut Run<'_>,
        template: &Template,
        judge: &mut Judge,
        amount: Amount,
        tally: &mut Tally,
    ) -> End {
        let mut slice = Slice::new(run.settings, amount);
        let end = loop {
            let now = Instant::now();
            let mut wants_more = false;
            while let Some(due) = slice.next(now, self.outstanding.len(), tally) {
                let number = self.outstanding.ask(Asked { due, sent: now });
                template.append(number, &mut self.out.bytes);
                if self.out.waiting() >= CHUNK {
                    wants_more = true;
                    break;
                }
            }
            let open = self.outstanding.len();
            if slice.is_over(now, open) {
                break End::Done;
            }
            if slice.is_time_to_look(now) {
                tally.lost += self.outstanding.expire(now, run.settings.timeout);
                slice.settled(now, open, self.outstanding.len());
                run.report(tally);
                continue;
            }
            if run.is_stop_requested() {
                // What is open is not lost: nobody has waited for it.
                tally.sent -= self.outstanding.give_up();
                break End::Stopped;
            }
            let moved = tokio::select! {
                biased;
                moved = self.moved(wants_more) => moved,
                slept = run.timer.wait_until(slice.wake()) => match slept {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                () = stop_requested(&mut run.stop) => continue,
            };
            match moved {
                Ok(Moved::Wrote) => {}
                Ok(Moved::Read(count)) => {
                    let received = Instant::now();
                    self.take(count, received, judge, tally);
                    slice.received(received);
                    slice.settled(received, open, self.outstanding.len());
                }
                Err(_) => {
                    tally.lost += self.outstanding.give_up();
                    break End::Broken;
                }
            }
        };
        slice.close(end, tally);
        end
    }

    /// Takes what comes after the last answer: second ones, and such as nobody waits for.
    pub(super) async fn linger(&mut self, judge: &mut Judge, tally: &mut Tally) {
        let until = tokio::time::Instant::now() + LINGER;
        while let Ok(Ok(Moved::Read(count))) = tokio::time::timeout_at(until, self.moved(false)).await {
            self.take(count, Instant::now(), judge, tally);
        }
    }

    /// Takes the frames in what was read.
    fn take(&mut self, count: usize, received: Instant, judge: &mut Judge, tally: &mut Tally) {
        let Self { codec, chunk, in_a_line, out, outstanding, handshake, .. } = self;
        let mut input = behind(in_a_line, &chunk[..count]);
        let mut taking = Taking { out, outstanding, judge, tally, handshake: *handshake, received };
        while let Some(frame) = codec.next_frame(&mut input) {
            match frame {
                Ok(frame) => taking.frame(frame.bytes),
                Err(error) => taking.tally.wrong(WrongAnswer::NotAMessage, error.to_string().as_bytes()),
            }
        }
    }

    /// Closes its stdin and waits until it has ended.
    pub(super) async fn finish(mut self) -> Option<Exit> {
        self.writer = None;
        let ending = self.ending.take()?;
        ending.await
    }

    /// Writes what there is to write and reads what there is to read. `wants_more` says that there would be more to write.
    async fn moved(&mut self, wants_more: bool) -> io::Result<Moved> {
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
                Poll::Ready(Ok(())) => Poll::Ready(Ok(Moved::Read(buffer.filled().len()))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending if wants_more && out.waiting() < CHUNK => Poll::Ready(Ok(Moved::Wrote)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }
}

/// All that an answer changes.
struct Taking<'a> {
    out: &'a mut Output,
    outstanding: &'a mut Outstanding,
    judge: &'a mut Judge,
    tally: &'a mut Tally,
    handshake: u64,
    received: Instant,
}

impl Taking<'_> {
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
                // It is an answer all the same, if a bad one: nothing else will come.
                let id = invalid.id.as_ref().and_then(|id| id.integer());
                if let Some(id) = id.and_then(|id| u64::try_from(id).ok()) {
                    self.outstanding.answer(id);
                }
                self.tally.wrong(WrongAnswer::NotAMessage, frame);
            }
        }
    }

    fn message(&mut self, message: Message<'_>, frame: &[u8]) {
        let Response { id, outcome } = match message {
            Message::Response(response) => response,
            Message::Request(request) => return self.out.refuse(&request),
            Message::Notification(_) => return,
            Message::OrphanError(_) => return self.tally.wrong(WrongAnswer::UnknownId, frame),
        };
        let Some(number) = id.integer().and_then(|id| u64::try_from(id).ok()) else {
            return self.tally.wrong(WrongAnswer::UnknownId, frame);
        };
        match self.outstanding.answer(number) {
            Settled::First(asked) => match self.judge.judge(&outcome, number) {
                // We ask under plain digits.
                Ok(()) if !id.as_str().bytes().all(|byte| byte.is_ascii_digit()) => {
                    self.tally.wrong(WrongAnswer::IdSpelling, frame);
                }
                Ok(()) => self.tally.good(asked.due, self.received),
                Err(wrong) => self.tally.wrong(wrong, frame),
            },
            Settled::Again => self.tally.duplicated += 1,
            Settled::Late => self.tally.late += 1,
            Settled::Nobody if number <= self.handshake => {}
            Settled::Nobody => self.tally.wrong(WrongAnswer::UnknownId, frame),
        }
    }
}

impl Output {
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
        } else if self.written > 16 * CHUNK {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Answers a request of the server's: pings as MCP has it, everything else with no, which it was told beforehand by
    /// a client without capabilities. One who asks and does not read the answers gets no more of them.
    fn refuse(&mut self, request: &Request<'_>) {
        if self.waiting() > MOST_REFUSALS {
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

/// What follows the line that the handshake has seen the beginning of.
fn behind<'a>(in_a_line: &mut bool, bytes: &'a [u8]) -> &'a [u8] {
    if !*in_a_line {
        return bytes;
    }
    match memchr::memchr(b'\n', bytes) {
        Some(at) => {
            *in_a_line = false;
            &bytes[at + 1..]
        }
        None => &[],
    }
}

/// As much as a pipe holds: read at once, and no more than this is made before it is written.
const CHUNK: usize = 64 * 1024;

/// Longer than a server takes between two lines of one answer.
const LINGER: Duration = Duration::from_millis(50);

/// More than this of our own answers does not wait.
const MOST_REFUSALS: usize = 1024 * 1024;
