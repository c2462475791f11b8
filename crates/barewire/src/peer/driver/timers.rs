//! The timers of a connection: which one expires next, and what then happens.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use barewire_proto::frame::Codec;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::Driver;
use crate::peer::EndReason;
use crate::peer::dispatch::later;

impl<C, R, W> Driver<C, R, W>
where
    C: Codec,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    /// Handles the event of the next timer if its time has come, without waiting. While the peer never stops sending,
    /// there is always something to read, so [`Self::wait`] is never reached. The clock is not read each time.
    pub(super) fn check_timers(&mut self, context: &mut Context<'_>) -> Result<(), EndReason> {
        self.unchecked_rounds += 1;
        if self.unchecked_rounds <= MAX_UNCHECKED_ROUNDS {
            return Ok(());
        }
        self.unchecked_rounds = 0;
        match self.next_due() {
            Some((at, due)) if at <= Instant::now() => self.handle_due(due, context),
            _ => Ok(()),
        }
    }

    /// Waits until the next timer expires, and handles its event.
    pub(super) fn wait(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EndReason>> {
        self.unchecked_rounds = 0;
        let Some((at, due)) = self.next_due() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        std::task::ready!(timer.as_mut().poll(context));
        self.timer = None;
        Poll::Ready(self.handle_due(due, context))
    }

    fn handle_due(&mut self, due: TimerEvent, context: &mut Context<'_>) -> Result<(), EndReason> {
        match due {
            TimerEvent::CallTimeout => {
                self.dispatcher.tick();
                Ok(())
            }
            TimerEvent::GraceOver(reason) => {
                self.dispatcher.give_up();
                match &mut self.end {
                    // A peer that has closed its half of the stream and still reads gets the remaining answers, however
                    // slowly it reads.
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
            TimerEvent::Close(reason) => Err(reason),
            TimerEvent::WriteStalled => {
                self.dispatcher.write_stalled();
                Ok(())
            }
            TimerEvent::Trim => {
                self.quiet_since = None;
                self.dispatcher.output.trim();
                self.codec.trim();
                Ok(())
            }
        }
    }

    /// Returns the next timer event, and its time.
    fn next_due(&self) -> Option<(Instant, TimerEvent)> {
        let limits = &self.dispatcher.limits;
        if self.gave_up() {
            let grace = limits.write_timeout.map_or(self.grace, |most| most.min(self.grace));
            return self
                .stalled_since
                .map(|since| (later(since, grace), TimerEvent::Close(EndReason::WriteTimeout(grace))));
        }
        let call = self.dispatcher.session.next_deadline().map(|at| (self.dispatcher.at(at), TimerEvent::CallTimeout));
        let end = self.end.as_ref().map(|end| (end.until, TimerEvent::GraceOver(end.reason.clone())));
        let stall = self
            .stalled_since
            .filter(|_| !self.dispatcher.is_write_stalled())
            .map(|since| (since + STALL_TIME, TimerEvent::WriteStalled));
        let write = self.stalled_since.zip(limits.write_timeout);
        let write = write.map(|(since, most)| (later(since, most), TimerEvent::Close(EndReason::WriteTimeout(most))));
        let idle = self.idle_since.zip(limits.idle_timeout);
        let idle = idle.map(|(since, most)| (later(since, most), TimerEvent::Close(EndReason::IdleTimeout(most))));
        let quiet = self.quiet_since.map(|since| (since + TRIM_DELAY, TimerEvent::Trim));
        [call, end, stall, write, idle, quiet].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

/// The event that a timer causes.
enum TimerEvent {
    /// A call of ours times out.
    CallTimeout,
    /// The grace period is over. The connection ends for this reason.
    GraceOver(EndReason),
    /// The connection ends immediately, for this reason.
    Close(EndReason),
    /// The peer has read nothing for [`STALL_TIME`].
    WriteStalled,
    /// The connection has been quiet for [`TRIM_DELAY`]: unused memory is freed.
    Trim,
}

/// The maximum number of reads, each with its frames, between two checks of the timers: a megabyte. Looking at the
/// clock after each read would cost more.
const MAX_UNCHECKED_ROUNDS: u32 = 16;

/// If the peer has read nothing for this long, it might itself be blocked until this side reads.
const STALL_TIME: Duration = Duration::from_secs(1);

/// The time for which a connection must be quiet before the memory of large messages is freed.
const TRIM_DELAY: Duration = Duration::from_secs(1);
