//! The loop that drives a connection: reads bytes, passes frames to the [`Dispatcher`], writes the dispatcher's output,
//! and handles timeouts.

mod timers;

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
use super::output::StreamOutput;
use super::sniff::{self, SniffResult};
use super::{ConnectionEnd, EndReason};
use crate::transport::{Exit, ExitFuture, Parts};

/// The state of the loop that drives a connection.
pub(super) struct Driver<C, R, W> {
    dispatcher: Dispatcher<StreamOutput<C>>,
    codec: C,
    /// The reader; `None` after the peer has closed its half of the stream.
    reader: Option<R>,
    /// Whether the input has ended and every byte of it is handled.
    input_done: bool,
    /// The writer; `None` after it is closed, for example because the peer no longer reads our output.
    writer: Option<W>,
    /// The bytes of the last read. The range `taken..filled` is not decoded yet.
    chunk: Vec<u8>,
    taken: usize,
    filled: usize,
    /// The first bytes of a stream that any program can open, collected until it is clear whether they are an HTTP
    /// request; `None` afterwards.
    sniffed: Option<Vec<u8>>,
    /// Whether the writer has flushed every byte that was written to it.
    flushed: bool,
    end: Option<EndProgress>,
    grace: Duration,
    /// The time since which the peer has not read any of the pending output; `None` if no output is pending.
    stalled_since: Option<Instant>,
    /// The time since which nothing was received and nothing was in flight. Set only if there is an idle timeout.
    idle_since: Option<Instant>,
    /// The time since which there has been nothing to do. Set only if the buffers should be freed after a while.
    quiet_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    /// The number of times that the loop has run since the timers were last checked.
    unchecked_rounds: u32,
    exit: Option<ExitFuture>,
}

/// The progress of the shutdown.
struct EndProgress {
    reason: EndReason,
    /// The deadline after which unfinished work is abandoned.
    until: Instant,
    /// Whether unfinished work has been abandoned. If so, only the remaining output is written, as long as the peer
    /// reads it.
    gave_up: bool,
}

impl<C, R, W> Driver<C, R, W>
where
    C: Codec,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    pub(super) fn new(
        codec: C,
        parts: Parts<R, W>,
        mut dispatcher: Dispatcher<StreamOutput<C>>,
        grace: Duration,
    ) -> Self {
        let Parts { reader, writer, open_to_all, exit, .. } = parts;
        if exit.is_some() {
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
            unchecked_rounds: 0,
            exit,
        }
    }

    /// Runs until the connection has ended.
    pub(super) async fn run(mut self) -> ConnectionEnd {
        let reason = poll_fn(|context| self.poll(context)).await;
        if let Some(writer) = &mut self.writer {
            // The writer already has all bytes, so it gets only the grace period to finish its shutdown.
            let _ = tokio::time::timeout(self.grace, writer.shutdown()).await;
        }
        // Dropping the writer closes the stream: the peer sees the end of its input. A child process should then exit.
        drop(self.writer.take());
        let exit = match self.exit.take() {
            Some(mut exit) => poll_fn(|context| self.poll_exit(context, &mut exit)).await,
            None => None,
        };
        self.dispatcher.finish(reason, exit)
    }

    /// Waits until the peer's process has exited, and discards its output until then: a program that is asked to exit
    /// might still write something, and must not fail because the pipe is full or closed.
    fn poll_exit(&mut self, context: &mut Context<'_>, exit: &mut ExitFuture) -> Poll<Option<Exit>> {
        // The exit is polled first: reads from a peer that never stops writing are always ready, and would use up the
        // time that the runtime gives to this task.
        if let Poll::Ready(exit) = exit.as_mut().poll(context) {
            return Poll::Ready(exit);
        }
        while let Some(reader) = &mut self.reader {
            let mut buffer = ReadBuf::new(&mut self.chunk);
            match Pin::new(reader).poll_read(context, &mut buffer) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => self.reader = None,
            }
        }
        Poll::Pending
    }

    /// Runs the loop until it has to wait.
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
            if let Err(reason) = self.check_timers(context) {
                return Poll::Ready(reason);
            }
            self.dispatcher.take_commands();
            self.dispatcher.start_waiting();
            let more = self.handle_frames();
            self.write(context);
            if let Some(reason) = self.end_if_done() {
                return Poll::Ready(reason);
            }
            // Other tasks on this thread get a turn: handlers, other connections, timers.
            if more && self.dispatcher.is_slice_over() {
                // This schedules the current task again after the other tasks.
                let _ = std::pin::pin!(tokio::task::yield_now()).poll(context);
                return Poll::Pending;
            }
            // Work that is already possible must be done before waiting, because no wake-up will follow for it.
            if more || self.dispatcher.can_start() || (self.taken < self.filled && !self.dispatcher.is_blocked()) {
                continue;
            }
            // All frames are handled. If one of them was large, its memory is freed.
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

    /// Handles the frames that have been read, for one time slice. Returns `true` if there might be more frames. Output
    /// is written between slices, so that neither direction starves.
    fn handle_frames(&mut self) -> bool {
        if self.taken == self.filled {
            self.finish_input();
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
                self.finish_input();
                return false;
            };
            self.dispatcher.handle_frame(frame);
            if self.dispatcher.output.len() >= WRITE_SIZE || self.dispatcher.is_slice_over() {
                break;
            }
        }
        true
    }

    /// Writes as much output as the writer accepts.
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
            self.handle_write_error(error);
        } else if self.flushed && self.dispatcher.output.is_empty() {
            self.stalled_since = None;
        } else {
            // The time is set even if the peer has read some bytes now, because it might read no more.
            self.stalled_since.get_or_insert_with(Instant::now);
        }
    }

    /// Handles a failed write: the peer no longer reads, so all output is dropped. Messages from the peer are still
    /// handled, because they may answer our calls.
    fn handle_write_error(&mut self, error: io::Error) {
        self.writer = None;
        self.flushed = true;
        self.stalled_since = None;
        self.dispatcher.output.clear();
        self.dispatcher.queue.room.close();
        self.dispatcher.drop_requests();
        self.begin_end(EndReason::Write(Arc::new(error)));
    }

    /// Begins the shutdown: from now on only work in flight is finished, and no new work is started.
    fn begin_end(&mut self, reason: EndReason) {
        self.dispatcher.close(reason.clone());
        match &mut self.end {
            // A failed write replaces any earlier reason.
            Some(end) if matches!(reason, EndReason::Write(_)) => end.reason = reason,
            Some(_) => {}
            None => self.end = Some(EndProgress { reason, until: later(Instant::now(), self.grace), gave_up: false }),
        }
    }

    /// Whether nothing is in flight in either direction.
    fn is_idle(&self) -> bool {
        self.dispatcher.is_idle()
            && !self.dispatcher.session.is_waiting()
            && self.dispatcher.output.is_empty()
            && self.flushed
    }

    fn gave_up(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.gave_up)
    }

    /// Begins the shutdown if a message or command has requested it. Returns the reason for the shutdown when all
    /// remaining work is done; `None` before.
    fn end_if_done(&mut self) -> Option<EndReason> {
        match self.dispatcher.end_request() {
            Some(EndRequest::ContentLength) => return Some(EndReason::ContentLength),
            Some(EndRequest::Shutdown) if self.end.is_none() => self.begin_end(EndReason::Shutdown),
            Some(EndRequest::Shutdown) | None => {}
        }
        let end = self.end.as_ref()?;
        // After the end of the stream, the rest of the input is handled. After that, no call of ours can be answered.
        let read = self.reader.is_some() || self.input_done;
        let answered = self.input_done || !self.dispatcher.session.is_waiting();
        let answers = self.writer.is_none() || self.dispatcher.is_idle();
        let written = self.writer.is_none() || (self.dispatcher.output.is_empty() && self.flushed);
        (written && (end.gave_up || (read && answered && answers))).then(|| end.reason.clone())
    }

    /// Reads once. Returns `Pending` if no bytes are available, or if reading is not allowed now.
    ///
    /// While no frame may be handled, up to [`READ_AHEAD`] bytes are read ahead, so that the end of the stream is
    /// noticed even if unhandled bytes precede it.
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
                // When a peer is killed before it has read all its input, the operating system resets the connection. A
                // reset is treated as the end of the stream, not as an error.
                if !matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) {
                    return Poll::Ready(Err(EndReason::Read(Arc::new(error))));
                }
            }
            Poll::Ready(Ok(())) => self.filled += buffer.filled().len(),
        }
        self.idle_since = None;
        if self.filled == before {
            self.handle_eof();
        } else if self.sniffed.is_some() {
            return Poll::Ready(self.sniff());
        }
        Poll::Ready(Ok(()))
    }

    /// Collects the first bytes of the stream until it is clear whether they are an HTTP request.
    fn sniff(&mut self) -> Result<(), EndReason> {
        let Some(mut first) = self.sniffed.take() else { return Ok(()) };
        first.extend_from_slice(&self.chunk[..self.filled]);
        self.filled = 0;
        match sniff::sniff(&first) {
            SniffResult::Http => return Err(self.reject_http()),
            SniffResult::NeedMore => self.sniffed = Some(first),
            SniffResult::NotHttp => {
                self.filled = first.len();
                first.resize(first.len().max(READ_SIZE), 0);
                self.chunk = first;
            }
        }
        Ok(())
    }

    fn reject_http(&mut self) -> EndReason {
        // No byte is sent back, so a web page cannot distinguish this port from a closed one.
        self.writer = None;
        self.dispatcher.report(
            "closed without a response: its first line is an HTTP request, which a web page in a browser may have sent",
        );
        EndReason::Http
    }

    /// Handles the end of the input.
    fn handle_eof(&mut self) {
        self.reader = None;
        if let Some(first) = self.sniffed.take() {
            // The collected bytes are the whole stream, so the end of the stream also ends the first line.
            if sniff::sniff(&[&first[..], b"\n"].concat()) == SniffResult::Http {
                self.input_done = true;
                let reason = self.reject_http();
                return self.begin_end(reason);
            }
            self.filled = first.len();
            self.chunk = first;
        }
        self.begin_end(EndReason::Eof);
    }

    /// If the input has ended and all complete frames are handled, handles the rest of the input as the last frame.
    fn finish_input(&mut self) {
        if self.input_done || self.reader.is_some() || self.dispatcher.is_blocked() {
            return;
        }
        self.input_done = true;
        self.dispatcher.start_slice();
        while let Some(frame) = self.codec.finish() {
            self.dispatcher.handle_frame(frame);
        }
        // Pending calls fail now. If this side started the peer's process, they fail later, with the exit status of the
        // process in their error.
        if self.exit.is_none() {
            let end = self.dispatcher.end(EndReason::Eof, None);
            self.dispatcher.fail_calls(&end);
        }
    }
}

/// The size of the read buffer in bytes: the default capacity of a pipe on Linux, so that one read empties a full pipe.
const READ_SIZE: usize = 64 * 1024;

/// The maximum number of bytes that are read ahead while no frame may be handled.
const READ_AHEAD: usize = 256 * 1024;

/// When this many bytes of output are pending, they are written before more frames are handled.
const WRITE_SIZE: usize = 64 * 1024;

/// The maximum number of frames in a time slice. A time limit alone is not enough: it counts the running time of
/// handlers, and responses and invalid frames run no handler.
const SLICE_FRAMES: usize = 1024;

/// The maximum size of the buffers that a quiet connection keeps, in bytes: about 256 MB for a thousand connections.
const QUIET_BUFFERS: usize = 256 * 1024;
