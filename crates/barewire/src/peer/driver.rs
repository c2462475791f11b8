//! The loop that owns a connection's two halves: bytes in, frames to the [`Dispatcher`], answers out, and the time.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::frame::{Codec, MAX_KEPT_CAPACITY};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::dispatch::{Dispatcher, EndRequest, later};
use super::outlet::Outlet;
use super::output::Output;
use super::sniff::{self, Verdict};
use super::{ConnectionEnd, EndReason};
use crate::transport::{Exit, ExitFuture, Parts};

/// Drives a connection.
pub(super) struct Driver<C, R, W> {
    dispatcher: Dispatcher<Output<C>>,
    codec: C,
    /// `None` once the other side has sent its last byte.
    reader: Option<R>,
    /// Every byte that it has sent is handled.
    input_done: bool,
    /// `None` once the other side no longer reads.
    writer: Option<W>,
    /// The bytes of the last read; those in `taken..filled` are not decoded yet.
    chunk: Vec<u8>,
    taken: usize,
    filled: usize,
    /// The first bytes of a stream that any program can open, until they are known to be no HTTP request.
    sniffed: Option<Vec<u8>>,
    /// The writer has flushed every byte that it was given.
    flushed: bool,
    end: Option<End>,
    grace: Duration,
    /// The moment since which the peer has taken none of the bytes that wait to be written.
    stalled_since: Option<Instant>,
    /// The moment since which nothing has come and nothing has been in flight, if there is an idle timeout.
    idle_since: Option<Instant>,
    /// The moment since which there has been nothing to do, if there is memory to be given back.
    quiet_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    ending: Option<ExitFuture>,
}

/// The end of the connection, once it has begun.
struct End {
    reason: EndReason,
    /// The moment at which unfinished work is given up.
    until: Instant,
    /// It has been: nothing is left to do but write the answers that are there, as long as the peer takes them.
    gave_up: bool,
}

impl<C, R, W> Driver<C, R, W>
where
    C: Codec,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(super) fn new(codec: C, parts: Parts<R, W>, mut dispatcher: Dispatcher<Output<C>>, grace: Duration) -> Self {
        let Parts { reader, writer, open_to_all, ending, .. } = parts;
        if ending.is_some() {
            dispatcher.await_exit();
        }
        Self {
            dispatcher,
            codec,
            reader: Some(reader),
            input_done: false,
            writer: Some(writer),
            chunk: vec![0; READ_SIZE],
            taken: 0,
            filled: 0,
            sniffed: open_to_all.then(Vec::new),
            flushed: true,
            end: None,
            grace,
            stalled_since: None,
            idle_since: None,
            quiet_since: None,
            timer: None,
            ending,
        }
    }

    /// Runs until the connection has ended.
    pub(super) async fn run(mut self) -> ConnectionEnd {
        let reason = poll_fn(|context| self.poll(context)).await;
        if let Some(writer) = &mut self.writer {
            // The bytes are on their way; a writer that does not finish is not waited for.
            let _ = tokio::time::timeout(self.grace, writer.shutdown()).await;
        }
        // Before the wait for the peer to notice.
        drop(self.writer.take());
        let exit = match self.ending.take() {
            Some(mut ending) => poll_fn(|context| self.poll_exit(context, &mut ending)).await,
            None => None,
        };
        self.dispatcher.finish(reason, exit)
    }

    /// Waits for the end of a process. Its output until then is read and dropped: a program that is told to end may have
    /// something to write first, and must not die of that.
    fn poll_exit(&mut self, context: &mut Context<'_>, ending: &mut ExitFuture) -> Poll<Option<Exit>> {
        while let Some(reader) = &mut self.reader {
            let mut buffer = ReadBuf::new(&mut self.chunk);
            match Pin::new(reader).poll_read(context, &mut buffer) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => self.reader = None,
            }
        }
        ending.as_mut().poll(context)
    }

    /// Runs the loop until there is nothing left to do but wait.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<EndReason> {
        loop {
            if self.gave_up() {
                self.write(context);
                if let Some(reason) = self.end_if_done() {
                    return Poll::Ready(reason);
                }
                match self.wait(context) {
                    Poll::Ready(Ok(())) => continue,
                    Poll::Ready(Err(reason)) => return Poll::Ready(reason),
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.dispatcher.take_commands();
            self.dispatcher.start_waiting();
            let more = self.handle();
            self.write(context);
            if let Some(reason) = self.end_if_done() {
                return Poll::Ready(reason);
            }
            // The other tasks on this thread have waited long enough: handlers, connections, timers.
            if more && self.dispatcher.slice_elapsed() > SLICE {
                // Wakes us after they have run.
                let _ = std::pin::pin!(tokio::task::yield_now()).poll(context);
                return Poll::Pending;
            }
            // Work that can be done now is done now, whatever made it possible: there will be no wake-up for it.
            if more || self.dispatcher.can_start() || (self.taken < self.filled && !self.dispatcher.is_blocked()) {
                continue;
            }
            // The last frame is handled, and may have been a large one.
            if self.taken == self.filled && self.codec.capacity() > MAX_KEPT_CAPACITY {
                self.codec.trim();
            }
            match self.read(context) {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(reason)) => return Poll::Ready(reason),
                Poll::Pending => {}
            }
            if self.dispatcher.queue.poll(context).is_ready() {
                continue;
            }
            let is_large = self.dispatcher.output.capacity() + self.codec.capacity() > QUIET_BUFFERS;
            self.quiet_since = is_large.then(Instant::now);
            if self.dispatcher.limits.idle_timeout.is_some() {
                self.idle_since = self.is_idle().then(|| self.idle_since.unwrap_or_else(Instant::now));
            }
            match self.wait(context) {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(reason)) => return Poll::Ready(reason),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Handles the frames that have been read, for one slice of time. Returns `true` if there may be more to handle: answers are
    /// written in between, so that neither direction starves.
    fn handle(&mut self) -> bool {
        if self.taken == self.filled {
            self.finish();
            return false;
        }
        self.dispatcher.start_slice();
        for _ in 0..SLICE_FRAMES {
            if self.dispatcher.is_blocked() || self.dispatcher.end_request() == Some(EndRequest::ContentLength) {
                return false;
            }
            let mut input = &self.chunk[self.taken..self.filled];
            let frame = self.codec.next_frame(&mut input);
            self.taken = self.filled - input.len();
            let Some(frame) = frame else {
                self.finish();
                return false;
            };
            self.dispatcher.frame(frame);
            if self.dispatcher.output.len() >= WRITE_SIZE || self.dispatcher.slice_elapsed() > SLICE {
                break;
            }
        }
        true
    }

    /// Writes the bytes that wait, as far as the peer takes them.
    fn write(&mut self, context: &mut Context<'_>) {
        let Some(writer) = &mut self.writer else {
            self.dispatcher.output.clear();
            return;
        };
        if self.dispatcher.output.is_empty() && self.flushed {
            return;
        }
        let queue = Arc::clone(&self.dispatcher.queue);
        let wrote = match self.dispatcher.output.poll_write(context, writer, &queue.room) {
            Poll::Ready(Ok(0)) | Poll::Pending => Ok(()),
            Poll::Ready(Ok(_)) => {
                self.dispatcher.write_progressed();
                (self.flushed, self.stalled_since) = (false, None);
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(error),
        };
        let flushed = wrote.and_then(|()| {
            if !self.flushed
                && self.dispatcher.output.is_empty()
                && let Poll::Ready(flushed) = Pin::new(writer).poll_flush(context)
            {
                flushed?;
                self.flushed = true;
            }
            Ok(())
        });
        if let Err(error) = flushed {
            self.unwritable(error);
        } else if self.flushed && self.dispatcher.output.is_empty() {
            self.stalled_since = None;
        } else {
            // Also if the peer took something: it may be the last that it takes.
            self.stalled_since.get_or_insert_with(Instant::now);
        }
    }

    /// The peer no longer reads. The bytes that it has sent may still answer our calls; answers to it are of no use.
    fn unwritable(&mut self, error: io::Error) {
        self.writer = None;
        self.flushed = true;
        self.stalled_since = None;
        self.dispatcher.output.clear();
        self.dispatcher.queue.room.close();
        self.dispatcher.stop_handlers();
        self.begin_end(EndReason::Write(Arc::new(error)));
    }

    /// Starts the end: from now on only the work in flight is finished.
    fn begin_end(&mut self, reason: EndReason) {
        self.dispatcher.close(reason.clone());
        match &mut self.end {
            // A failed write ends more than any other reason.
            Some(end) if matches!(reason, EndReason::Write(_)) => end.reason = reason,
            Some(_) => {}
            None => self.end = Some(End { reason, until: later(Instant::now(), self.grace), gave_up: false }),
        }
    }

    /// Whether nothing is in flight either way.
    fn is_idle(&self) -> bool {
        self.dispatcher.is_idle()
            && !self.dispatcher.session.is_waiting()
            && self.dispatcher.output.is_empty()
            && self.flushed
    }

    fn gave_up(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.gave_up)
    }

    /// Starts the end if a message or command asks for it, and returns its reason once everything is done that can be.
    fn end_if_done(&mut self) -> Option<EndReason> {
        match self.dispatcher.end_request() {
            Some(EndRequest::ContentLength) => return Some(EndReason::ContentLength),
            Some(EndRequest::Shutdown) if self.end.is_none() => self.begin_end(EndReason::Shutdown),
            Some(EndRequest::Shutdown) | None => {}
        }
        let end = self.end.as_ref()?;
        // Answers to our calls can come only while there is something to read.
        let read = self.reader.is_some() || self.input_done;
        let answered = self.input_done || !self.dispatcher.session.is_waiting();
        let answers = self.writer.is_none() || self.dispatcher.is_idle();
        let written = self.writer.is_none() || (self.dispatcher.output.is_empty() && self.flushed);
        (written && (end.gave_up || (read && answered && answers))).then(|| end.reason.clone())
    }

    /// Reads once. Pending also if nothing may be read.
    ///
    /// While no frame may be handled, a little is read ahead, for the sake of the end of the stream: a peer that is gone must not
    /// be waited for because of the bytes that it sent before.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        let Some(reader) = &mut self.reader else { return Poll::Pending };
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            if self.chunk.len() > READ_SIZE {
                self.chunk = vec![0; READ_SIZE];
            }
        } else if !self.dispatcher.is_blocked() || self.filled >= READ_AHEAD {
            return Poll::Pending;
        } else if self.chunk.len() < READ_AHEAD {
            self.chunk.resize(READ_AHEAD, 0);
        }
        let before = self.filled;
        let mut buffer = ReadBuf::new(&mut self.chunk[before..]);
        match Pin::new(reader).poll_read(context, &mut buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Err(error)) => {
                // A peer that is killed resets what it has not read; to us that is its end.
                if !matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) {
                    return Poll::Ready(Err(EndReason::Read(Arc::new(error))));
                }
            }
            Poll::Ready(Ok(())) => self.filled += buffer.filled().len(),
        }
        self.idle_since = None;
        if self.filled == before {
            self.eof();
        } else if self.sniffed.is_some() {
            return Poll::Ready(self.sniff());
        }
        Poll::Ready(Ok(()))
    }

    /// Keeps the first bytes of the stream until it is clear whether they are an HTTP request.
    fn sniff(&mut self) -> Result<(), EndReason> {
        let Some(mut first) = self.sniffed.take() else { return Ok(()) };
        first.extend_from_slice(&self.chunk[..self.filled]);
        self.filled = 0;
        match sniff::judge(&first) {
            Verdict::Http => return Err(self.http()),
            Verdict::More => self.sniffed = Some(first),
            Verdict::Fine => {
                self.filled = first.len();
                first.resize(first.len().max(READ_SIZE), 0);
                self.chunk = first;
            }
        }
        Ok(())
    }

    fn http(&mut self) -> EndReason {
        // Not a byte goes back: to the sender, this port is closed.
        self.writer = None;
        self.dispatcher
            .report("closed without an answer: it begins with an HTTP request, and a web page may have sent it");
        EndReason::Http
    }

    /// Handles the end of the stream: the last byte has come.
    fn eof(&mut self) {
        self.reader = None;
        if let Some(first) = self.sniffed.take() {
            // The bytes that were kept are the whole stream, and its end ends the line.
            if sniff::judge(&[&first[..], b"\n"].concat()) == Verdict::Http {
                self.input_done = true;
                let reason = self.http();
                return self.begin_end(reason);
            }
            self.filled = first.len();
            self.chunk = first;
        }
        self.begin_end(EndReason::Eof);
    }

    /// Handles the frame that the end of the stream completes, once everything before it has been handled.
    fn finish(&mut self) {
        if self.input_done || self.reader.is_some() || self.dispatcher.is_blocked() {
            return;
        }
        self.input_done = true;
        self.dispatcher.start_slice();
        while let Some(frame) = self.codec.finish() {
            self.dispatcher.frame(frame);
        }
        // If there is more to learn of the peer's end, the callers that wait want to know it.
        if self.ending.is_none() {
            let end = self.dispatcher.end(EndReason::Eof, None);
            self.dispatcher.fail_calls(&end);
        }
    }

    /// Waits for the next moment at which something is due, and does it.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        let Some((at, due)) = self.next_due() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        std::task::ready!(timer.as_mut().poll(context));
        self.timer = None;
        Poll::Ready(match due {
            Due::Call => {
                self.dispatcher.tick();
                Ok(())
            }
            Due::End(reason) => {
                self.dispatcher.give_up();
                match &mut self.end {
                    // A peer that has closed its half and still reads gets its answers, however slowly it reads.
                    Some(end) if matches!(reason, EndReason::Eof) => {
                        end.gave_up = true;
                        Ok(())
                    }
                    _ => {
                        self.write(context);
                        Err(reason)
                    }
                }
            }
            Due::Reason(reason) => Err(reason),
            Due::Stall => {
                self.dispatcher.write_stalled();
                Ok(())
            }
            Due::Trim => {
                self.quiet_since = None;
                self.dispatcher.output.trim();
                self.codec.trim();
                Ok(())
            }
        })
    }

    /// The next thing that is due, and when.
    fn next_due(&self) -> Option<(Instant, Due)> {
        let limits = &self.dispatcher.limits;
        if self.gave_up() {
            let grace = limits.write_timeout.map_or(self.grace, |most| most.min(self.grace));
            return self.stalled_since.map(|since| (later(since, grace), Due::Reason(EndReason::WriteTimeout(grace))));
        }
        let call = self.dispatcher.session.next_deadline().map(|at| (self.dispatcher.at(at), Due::Call));
        let end = self.end.as_ref().map(|end| (end.until, Due::End(end.reason.clone())));
        let stall = self
            .stalled_since
            .filter(|_| !self.dispatcher.is_write_stalled())
            .map(|since| (since + STALL_TIME, Due::Stall));
        let write = self.stalled_since.zip(limits.write_timeout);
        let write = write.map(|(since, most)| (later(since, most), Due::Reason(EndReason::WriteTimeout(most))));
        let idle = self.idle_since.zip(limits.idle_timeout);
        let idle = idle.map(|(since, most)| (later(since, most), Due::Reason(EndReason::IdleTimeout(most))));
        let quiet = self.quiet_since.map(|since| (since + TRIM_DELAY, Due::Trim));
        [call, end, stall, write, idle, quiet].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// Something that is due at a time.
enum Due {
    /// A call of ours has timed out.
    Call,
    /// The grace is over.
    End(EndReason),
    /// The connection is over.
    Reason(EndReason),
    /// The peer has taken nothing for a while.
    Stall,
    /// Unused memory is given back.
    Trim,
}

/// The default capacity of a pipe on Linux: one read takes all that a full pipe holds.
const READ_SIZE: usize = 64 * 1024;

/// The bytes that are read while no frame may be handled.
const READ_AHEAD: usize = 256 * 1024;

/// The bytes of output at which they are written before more frames are handled.
const WRITE_SIZE: usize = 64 * 1024;

/// The time for which handlers may run before their answers are written and other tasks get their turn. A count of frames would
/// be too few of those that take half a microsecond, which then cost a system call more than they need, and too many of those
/// that take a millisecond.
const SLICE: Duration = Duration::from_micros(500);

/// The frames after which answers are written, if they are of a kind that is not timed.
const SLICE_FRAMES: usize = 1024;

/// The time after which a peer that takes nothing may be waiting for us to read.
const STALL_TIME: Duration = Duration::from_secs(1);

/// The memory that a quiet connection may keep for bytes: little enough for a thousand connections.
const QUIET_BUFFERS: usize = 256 * 1024;

/// The quiet time after which memory is given back that was only needed for large messages.
const TRIM_DELAY: Duration = Duration::from_secs(1);
