//! Ends a connection: closes stdin, and waits for the process to exit.

use std::time::{Duration, Instant};

use barewire::transport::Exit;
use barewire_proto::transcript::{Note, Stream};
use tokio::time::{sleep, timeout};

use super::{ConnectionTransport, Exited, ServerConnection};
use crate::check::live::outcome::is_response_to;
use crate::platform::processes::{ProcessInfo, list_processes};

pub(in crate::check::live) struct ProcessEnd {
    /// The exit, if the process exited by itself in time.
    pub(in crate::check::live) by_itself: Option<Exited>,
    /// The time from closing stdin to the exit.
    pub(in crate::check::live) took: Duration,
    /// The processes of the server's group that are still running, each as id and name.
    pub(in crate::check::live) orphans: Vec<String>,
    pub(in crate::check::live) exit: Option<Exit>,
}

impl ServerConnection {
    /// Closes stdin, waits up to `patience` for the exit, and then ends the processes that are still running.
    pub(in crate::check::live) async fn end(mut self, patience: Duration) -> ProcessEnd {
        let deadline = self.response_deadline();
        if let ConnectionTransport::Http(client) = &mut self.link {
            client.end(deadline, Some(self.revision)).await;
            let by_itself = Some(Exited::Code(0));
            return ProcessEnd { by_itself, took: Duration::ZERO, orphans: Vec::new(), exit: None };
        }
        self.wait_for_answers(patience).await;
        let mut by_itself = self.exited();
        let is_open = self.pipes().is_some_and(|pipes| pipes.writer.take().is_some());
        if by_itself.is_none() && is_open {
            self.recording.event(&self.channel, Note::Eof(Stream::ToServer));
        }
        let since = Instant::now();
        let deadline = self.deadline(patience);
        while by_itself.is_none() && !self.is_over(deadline) {
            if self.is_closed {
                sleep(POLL_INTERVAL).await;
            } else {
                self.read_rest().await;
            }
            by_itself = self.exited();
        }
        let took = since.elapsed();
        // The last output may still be in the pipe. The time limit is needed for servers that never stop writing.
        let drained = Instant::now() + DRAIN_TIME;
        while !self.is_over(drained) && self.read_rest().await {}
        let orphans = if by_itself.is_some() { self.orphans().await } else { Vec::new() };
        let exit = match self.pipes().and_then(|pipes| pipes.exit.take()) {
            Some(exit) => exit.await,
            None => None,
        };
        self.record_stderr();
        if !self.is_closed {
            self.recording.event(&self.channel, Note::Eof(Stream::ToClient));
        }
        let exited = by_itself.or_else(|| {
            let exit = exit.as_ref()?;
            exit.code.map(Exited::Code).or(exit.signal.map(Exited::Signal))
        });
        let note = exited.map(|exited| match exited {
            // The exit code after a signal must not be judged, so the signal is recorded instead.
            Exited::Code(_) if by_itself.is_none() => Note::ExitSignal(15),
            Exited::Code(code) => Note::ExitCode(code),
            Exited::Signal(signal) => Note::ExitSignal(signal),
        });
        if let Some(note) = note {
            self.recording.event(&self.channel, note);
        }
        ProcessEnd { by_itself, took, orphans, exit }
    }

    /// Closes stdin, and returns the ids of those requests that are not answered before the output ends, or in time.
    /// Each response extends the time for the others.
    pub(in crate::check::live) async fn unanswered_at_eof(
        &mut self,
        ids: &[String],
        patience: Duration,
    ) -> Vec<String> {
        if let Some(pipes) = self.pipes() {
            pipes.writer = None;
        }
        self.recording.event(&self.channel, Note::Eof(Stream::ToServer));
        let mut missing = ids.to_vec();
        let mut deadline = self.deadline(patience);
        while !missing.is_empty()
            && let Some(frame) = self.next_frame(deadline).await
        {
            let before = missing.len();
            missing.retain(|id| !frame.json().is_some_and(|message| is_response_to(message, id)));
            if missing.len() < before {
                deadline = self.deadline(patience);
            }
        }
        for id in ids {
            self.abandon(id);
        }
        missing
    }

    /// Waits until our requests are answered. A server that is still answering when its stdin ends may exit with an
    /// error. An answer that a probe has waited for in vain has the same time once more, and none if no check judges
    /// the exit.
    async fn wait_for_answers(&mut self, patience: Duration) {
        let last = self.deadline(patience);
        while let Some(deadline) = self.answers_deadline(patience, last)
            && let Some(frame) = self.next_frame(deadline).await
        {
            self.handle_frame(frame, None, deadline).await;
        }
    }

    /// Returns the time until which answers are waited for, at most `last`; `None` if none is missing.
    fn answers_deadline(&self, patience: Duration, last: Instant) -> Option<Instant> {
        let deadline = |id: &String| match self.given_up.get(id) {
            Some(_) if self.is_misuse => None,
            Some(at) => Some((*at + patience).min(last)),
            None => Some(last),
        };
        self.unanswered.iter().filter_map(deadline).max()
    }

    /// Reads and records output, for up to `POLL_INTERVAL`. Returns false if no output arrived.
    async fn read_rest(&mut self) -> bool {
        if self.is_closed {
            return false;
        }
        let Some(pipes) = self.pipes() else { return false };
        let Ok(arrival) = timeout(POLL_INTERVAL, pipes.arrivals.next()).await else { return false };
        self.handle_arrival(&arrival);
        self.inbox.clear();
        self.inbox_bytes = 0;
        true
    }

    /// Returns the processes of the server's group that are still running `ORPHAN_GRACE` after the server has exited.
    async fn orphans(&mut self) -> Vec<String> {
        let Some(leader) = self.pipes().and_then(|pipes| pipes.pid()) else { return Vec::new() };
        let is_orphan = |process: &ProcessInfo| process.group == leader && process.pid != leader && !process.is_dead;
        let deadline = Instant::now() + ORPHAN_GRACE;
        loop {
            let orphans = list_processes().into_iter().filter(is_orphan);
            let orphans: Vec<String> = orphans.map(|ProcessInfo { pid, name, .. }| format!("{pid} {name}")).collect();
            if orphans.is_empty() || Instant::now() >= deadline {
                return orphans;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

/// The time limit for reading the last output; enough to empty a full pipe.
const DRAIN_TIME: Duration = Duration::from_millis(200);
/// The time that child processes have to exit after the server; enough for a launcher and its child to exit one after
/// the other.
const ORPHAN_GRACE: Duration = Duration::from_millis(500);
/// The time between two checks whether a process has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
