//! The loop that owns a connection's two halves: bytes in, frames to [`Dispatcher`], answers out, and the time.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::frame::{Codec, KEPT};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::dispatch::{Dispatcher, Wants, later};
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
    /// All that it has sent has been handled.
    used_up: bool,
    /// `None` once the other side no longer reads.
    writer: Option<W>,
    /// What the last read gave; `taken..filled` is still to be looked at.
    chunk: Vec<u8>,
    taken: usize,
    filled: usize,
    /// The beginning of a stream that anybody can open, until it is known to be no HTTP request.
    first: Option<Vec<u8>>,
    /// All that was given to the writer is flushed.
    flushed: bool,
    end: Option<End>,
    grace: Duration,
    /// Since when the other side has taken nothing of what waits to be written.
    stalled: Option<Instant>,
    /// Since when nothing has come and nothing has been in flight, as far as anybody wants to know.
    silent: Option<Instant>,
    /// Since when there has been nothing to do, if there is memory to be given back.
    quiet: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    ending: Option<ExitFuture>,
}

/// The connection is about to end.
struct End {
    reason: EndReason,
    /// What is not finished by then is given up.
    until: Instant,
    /// It has been: nothing is left to do but write what was gathered, as long as it is taken.
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
        mut dispatcher: Dispatcher<Output<C>>,
        grace: Duration,
    ) -> Self {
        let Parts { reader, writer, open_to_all, ending, .. } = parts;
        dispatcher.has_ending = ending.is_some();
        Self {
            dispatcher,
            codec,
            reader: Some(reader),
            used_up: false,
            writer: Some(writer),
            chunk: vec![0; READ],
            taken: 0,
            filled: 0,
            first: open_to_all.then(Vec::new),
            flushed: true,
            end: None,
            grace,
            stalled: None,
            silent: None,
            quiet: None,
            timer: None,
            ending,
        }
    }

    /// Until the end.
    pub(super) async fn run(mut self) -> ConnectionEnd {
        let reason = poll_fn(|context| self.poll(context)).await;
        if let Some(writer) = &mut self.writer {
            // What is written is on its way; a writer that does not finish is not waited for.
            let _ = tokio::time::timeout(self.grace, writer.shutdown()).await;
        }
        // Before anybody waits for the other side to notice.
        drop(self.writer.take());
        let exit = match self.ending.take() {
            Some(mut ending) => poll_fn(|context| self.linger(context, &mut ending)).await,
            None => None,
        };
        self.dispatcher.finish(reason, exit)
    }

    /// Waits for the end of a process. What it says until then goes nowhere, but it can be said: a program that is told to
    /// end may have something to write first, and must not die of that.
    fn linger(&mut self, context: &mut Context<'_>, ending: &mut ExitFuture) -> Poll<Option<Exit>> {
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

    /// Goes round until there is nothing left to do but wait.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<EndReason> {
        loop {
            if self.gave_up() {
                self.write(context);
                if let Some(reason) = self.over() {
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
            if let Some(reason) = self.over() {
                return Poll::Ready(reason);
            }
            // Others on this thread have waited long enough: handlers that are tasks, other connections, the time.
            if more && self.dispatcher.watched() > LONG {
                // Wakes us once they have had it.
                let _ = std::pin::pin!(tokio::task::yield_now()).poll(context);
                return Poll::Pending;
            }
            // What can be done now is done now, whatever made it possible: nobody would wake us for it.
            if more
                || self.dispatcher.can_start()
                || (self.taken < self.filled && !self.dispatcher.is_blocked())
            {
                continue;
            }
            // The frame that was given out last is handled, and may have been a large one.
            if self.taken == self.filled && self.codec.capacity() > KEPT {
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
            let is_large = self.dispatcher.output.capacity() + self.codec.capacity() > KEEP;
            self.quiet = is_large.then(Instant::now);
            if self.dispatcher.limits.idle_timeout.is_some() {
                self.silent = self.is_idle().then(|| self.silent.unwrap_or_else(Instant::now));
            }
            match self.wait(context) {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(reason)) => return Poll::Ready(reason),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Handles some of the frames that have been read. `true` if there is more to handle right away: after a while it is
    /// time to write, so that nobody starves.
    fn handle(&mut self) -> bool {
        if self.taken == self.filled {
            self.finish();
            return false;
        }
        self.dispatcher.start_watch();
        for _ in 0..FRAMES {
            if self.dispatcher.is_blocked() || self.dispatcher.wants == Wants::ContentLength {
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
            if self.dispatcher.output.len() >= MUCH || self.dispatcher.watched() > LONG {
                break;
            }
        }
        true
    }

    /// Writes what waits, as far as it is taken.
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
                (self.flushed, self.stalled, self.dispatcher.impatient) = (false, None, false);
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
            self.stalled = None;
        } else {
            // Also if it took something: it may be the last that it takes.
            self.stalled.get_or_insert_with(Instant::now);
        }
    }

    /// The other side no longer reads. What it has sent may still be of use to our calls; answers to it are of none.
    fn unwritable(&mut self, error: io::Error) {
        self.writer = None;
        self.flushed = true;
        self.stalled = None;
        self.dispatcher.output.clear();
        self.dispatcher.queue.room.close();
        self.dispatcher.stop_handlers();
        self.begin_end(EndReason::Write(Arc::new(error)));
    }

    /// From now on only what is in flight is finished.
    fn begin_end(&mut self, reason: EndReason) {
        self.dispatcher.close(reason.clone());
        match &mut self.end {
            // Nothing is more of an end than that.
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

    /// Whether all is done that can be.
    fn over(&mut self) -> Option<EndReason> {
        match self.dispatcher.wants {
            Wants::More => {}
            Wants::ContentLength => return Some(EndReason::ContentLength),
            Wants::Shutdown if self.end.is_none() => self.begin_end(EndReason::Shutdown),
            Wants::Shutdown => {}
        }
        let end = self.end.as_ref()?;
        // Answers to our calls can come only while there is something to read.
        let read = self.reader.is_some() || self.used_up;
        let answered = self.used_up || !self.dispatcher.session.is_waiting();
        let answers = self.writer.is_none() || self.dispatcher.is_idle();
        let written = self.writer.is_none() || (self.dispatcher.output.is_empty() && self.flushed);
        (written && (end.gave_up || (read && answered && answers))).then(|| end.reason.clone())
    }

    /// Reads once. Pending also if nothing may be read.
    ///
    /// While nothing may be handled, a little is read ahead, for the sake of the end of the stream: whoever is gone must not
    /// be waited for because of what it sent before.
    fn read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        let Some(reader) = &mut self.reader else { return Poll::Pending };
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            if self.chunk.len() > READ {
                self.chunk = vec![0; READ];
            }
        } else if !self.dispatcher.is_blocked() || self.filled >= AHEAD {
            return Poll::Pending;
        } else if self.chunk.len() < AHEAD {
            self.chunk.resize(AHEAD, 0);
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
        self.silent = None;
        if self.filled == before {
            self.eof();
        } else if self.first.is_some() {
            return Poll::Ready(self.sniff());
        }
        Poll::Ready(Ok(()))
    }

    /// Keeps the beginning of the stream until it is clear what it is.
    fn sniff(&mut self) -> Result<(), EndReason> {
        let Some(mut first) = self.first.take() else { return Ok(()) };
        first.extend_from_slice(&self.chunk[..self.filled]);
        self.filled = 0;
        match sniff::judge(&first) {
            Verdict::Http => return Err(self.http()),
            Verdict::More => self.first = Some(first),
            Verdict::Fine => {
                self.filled = first.len();
                first.resize(first.len().max(READ), 0);
                self.chunk = first;
            }
        }
        Ok(())
    }

    fn http(&mut self) -> EndReason {
        // Not a byte goes back: to whatever sent it, this port is closed.
        self.writer = None;
        self.dispatcher.report(
            "closed without an answer: it begins with an HTTP request, and a web page may have sent it",
        );
        EndReason::Http
    }

    /// The last byte has come.
    fn eof(&mut self) {
        self.reader = None;
        if let Some(first) = self.first.take() {
            // What was kept is the whole stream, and its end ends the line.
            if sniff::judge(&[&first[..], b"\n"].concat()) == Verdict::Http {
                self.used_up = true;
                let reason = self.http();
                return self.begin_end(reason);
            }
            self.filled = first.len();
            self.chunk = first;
        }
        self.begin_end(EndReason::Eof);
    }

    /// Handles what the end of the stream completes, once everything before it has been handled.
    fn finish(&mut self) {
        if self.used_up || self.reader.is_some() || self.dispatcher.is_blocked() {
            return;
        }
        self.used_up = true;
        self.dispatcher.start_watch();
        while let Some(frame) = self.codec.finish() {
            self.dispatcher.frame(frame);
        }
        // If there is more to learn of the other side's end, those who wait want to know it.
        if self.ending.is_none() {
            let closed = self.dispatcher.closed(EndReason::Eof, None);
            self.dispatcher.fail_calls(&closed);
        }
    }

    /// Waits for the next moment at which something is due. Ready if it is.
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
                    // Whoever asked, closed its half and reads gets its answers, however slowly it reads.
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
                self.dispatcher.impatient = true;
                Ok(())
            }
            Due::Quiet => {
                self.quiet = None;
                self.dispatcher.output.trim();
                self.codec.trim();
                Ok(())
            }
        })
    }

    /// What is due next, and when.
    fn next_due(&self) -> Option<(Instant, Due)> {
        let limits = &self.dispatcher.limits;
        if self.gave_up() {
            let grace = limits.write_timeout.map_or(self.grace, |most| most.min(self.grace));
            return self
                .stalled
                .map(|since| (later(since, grace), Due::Reason(EndReason::WriteTimeout(grace))));
        }
        let call = self.dispatcher.session.next_deadline().map(|at| (self.dispatcher.at(at), Due::Call));
        let end = self.end.as_ref().map(|end| (end.until, Due::End(end.reason.clone())));
        let stall =
            self.stalled.filter(|_| !self.dispatcher.impatient).map(|since| (since + STALL, Due::Stall));
        let write = self.stalled.zip(limits.write_timeout);
        let write =
            write.map(|(since, most)| (later(since, most), Due::Reason(EndReason::WriteTimeout(most))));
        let idle = self.silent.zip(limits.idle_timeout);
        let idle = idle.map(|(since, most)| (later(since, most), Due::Reason(EndReason::IdleTimeout(most))));
        let quiet = self.quiet.map(|since| (since + QUIET, Due::Quiet));
        [call, end, stall, write, idle, quiet].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// What time brings.
enum Due {
    /// A call of ours has waited long enough.
    Call,
    /// The grace is over.
    End(EndReason),
    /// The connection is over.
    Reason(EndReason),
    /// The other side has taken nothing for a while.
    Stall,
    /// It has been quiet.
    Quiet,
}

/// The default capacity of a pipe on Linux: one read takes all that a full pipe holds.
const READ: usize = 64 * 1024;

/// So much is read while nothing may be handled.
const AHEAD: usize = 256 * 1024;

/// So much is written before more is handled.
const MUCH: usize = 64 * 1024;

/// For so long handlers may run before what they gave is written and others get their turn. A count of frames would be too few of those that take
/// half a microsecond, which then cost a system call more than they need, and too many of those that take a millisecond.
const LONG: Duration = Duration::from_micros(500);

/// So many frames are handled before what they gave is written, if they are of a kind that nobody measures.
const FRAMES: usize = 1024;

/// When nothing has been taken for so long, the other side may be waiting for us to read.
const STALL: Duration = Duration::from_secs(1);

/// So much memory for bytes under way a quiet connection may keep: little enough for a thousand of them.
const KEEP: usize = 256 * 1024;

/// After so much quiet, memory is given back that was only needed for large messages.
const QUIET: Duration = Duration::from_secs(1);
