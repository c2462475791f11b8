//! Relays the bytes of all streams, and the ends of these streams, on one thread.
//!
//! There is only one thread because, on one processor, a request and its response took twice as long through two
//! threads as through one. So only `poll` may block here. Bytes that cannot be written are kept, and nothing more is
//! read from their stream until they are written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use barewire_proto::transcript::{CutReason, Note, Stream, StreamClose};

use super::after_exit::{AfterExit, ExitAction, OutputStatus, RelayStatus};
use super::stdio::RelayShared;
use crate::fault::{FaultAction, FaultInjector};
use crate::platform::output::NonBlockingOutput;
use crate::platform::poll::{self, Interest, Ready};

pub(super) struct Pump {
    /// The lanes of stdin, stdout and stderr.
    pub(super) lanes: [RelayLane; 3],
    /// Becomes readable when the program has ended, and when a signal asks us to end.
    pub(super) wake: File,
    pub(super) shared: Arc<RelayShared>,
    /// Called with messages for the user.
    pub(super) say: fn(&str),
}

pub(super) struct RelayLane {
    stream: Stream,
    /// The input and output files; `None` after the stream was closed.
    ends: Option<LaneFiles>,
    unsent: Vec<u8>,
    faults: Option<FaultInjector>,
    actions: VecDeque<FaultAction>,
    /// The end of a pause that a fault has caused.
    paused: Option<Instant>,
    /// Whether the input has ended. The remaining output must still be written.
    ending: bool,
    /// The numbers of bytes that were read and written since the last status.
    read: u64,
    written: u64,
}

struct LaneFiles {
    from: File,
    to: NonBlockingOutput,
}

enum CloseReason {
    /// The input has ended, or a fault ends the stream.
    Ended,
    /// The output can no longer be written.
    Refused(io::Error),
}

impl RelayLane {
    pub(super) fn new(stream: Stream, from: File, to: NonBlockingOutput, faults: Option<FaultInjector>) -> Self {
        let (ends, unsent, actions) = (Some(LaneFiles { from, to }), Vec::new(), VecDeque::new());
        Self { stream, ends, unsent, faults, actions, paused: None, ending: false, read: 0, written: 0 }
    }
}

impl Pump {
    /// Relays until the program has ended and all output is passed on, including that of processes that the program
    /// left behind.
    pub(super) fn run(mut self) {
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut after_exit: Option<AfterExit> = None;
        let mut wake_at = None;
        // If `poll` fails there is nothing left to wait for, so the loop ends.
        while let Ok(seen) = self.wait(wake_at) {
            for (lane, (from, to)) in self.lanes.iter_mut().zip(seen.lanes) {
                if let Err(why) = lane.step(from, to, &mut buffer, &self.shared) {
                    lane.close(&why, &self.shared);
                }
            }
            if seen.wake {
                let _ = self.wake.read(&mut [0; 16]);
            }
            wake_at = match &mut after_exit {
                None if self.shared.has_ended() => {
                    let unread = [&self.lanes[1], &self.lanes[2]].map(RelayLane::unread);
                    after_exit = Some(AfterExit::new(unread, Instant::now()));
                    // This call only resets the counters.
                    let _ = self.status();
                    // The effects of the program's end on the streams may not be visible yet, so check them again
                    // immediately.
                    Some(Instant::now())
                }
                None => None,
                Some(after_exit) => {
                    let status = self.status();
                    match after_exit.next_action(&status, Instant::now()) {
                        ExitAction::Finish => break,
                        ExitAction::Wait(until) => until,
                        ExitAction::ReportLeft => {
                            self.shared.note(Note::Left);
                            Some(Instant::now())
                        }
                    }
                }
            };
        }
        let mut cut = Vec::new();
        for lane in &mut self.lanes {
            if lane.ends.take().is_some() {
                self.shared.note(Note::Cut { stream: lane.stream, why: CutReason::HeldOpen });
                cut.extend((lane.stream != Stream::ToServer).then(|| lane.name()));
            }
        }
        if !cut.is_empty() {
            (self.say)(&format!(
                "the program has ended; output of other processes to its {} is not passed on",
                cut.join(" and ")
            ));
        }
    }

    /// Returns the state of all streams, with the numbers of bytes since the last call.
    fn status(&mut self) -> RelayStatus {
        let mut moved = false;
        let [_, stdout, stderr] = self.lanes.each_mut().map(|lane| {
            let (read, written) = (std::mem::take(&mut lane.read), std::mem::take(&mut lane.written));
            moved |= read > 0 || written > 0;
            OutputStatus { is_open: lane.ends.is_some(), is_busy: !lane.is_idle(), read }
        });
        let has_listener = self.lanes[0].ends.is_some();
        RelayStatus { has_listener, stdout, stderr, moved, end_requested: self.shared.should_end() }
    }

    /// Waits until a file is ready, at most until `wake_at`. Also notices that an output was closed while there is
    /// nothing to write, because without a tap the writer would notice. Stderr is left out to save time.
    fn wait(&self, wake_at: Option<Instant>) -> io::Result<ReadyFiles> {
        // The first polled file is the wake pipe.
        let (mut files, mut slots, mut count) =
            ([(&self.wake, Interest::Read); MAX_POLLED], [PollSlot::Wake; MAX_POLLED], 1);
        let mut ask = |file, slot| {
            (files[count], slots[count]) = (file, slot);
            count += 1;
        };
        for (index, lane) in self.lanes.iter().enumerate() {
            let Some(LaneFiles { from, to }) = &lane.ends else { continue };
            if lane.reads() {
                ask((from, Interest::Read), PollSlot::From(index));
            }
            match lane.unsent.is_empty() {
                false => ask((&to.file, Interest::Write), PollSlot::To(index)),
                true if lane.stream == Stream::Stderr => {}
                true => ask((&to.file, Interest::Gone), PollSlot::To(index)),
            }
        }
        let due = self.lanes.iter().filter_map(RelayLane::due).chain(wake_at).min();
        let time = due.map(|due| due.saturating_duration_since(Instant::now()));
        let ready: [Ready; MAX_POLLED] = poll::wait(&files[..count], time)?;
        let mut seen = ReadyFiles::default();
        for (ready, slot) in ready.into_iter().zip(slots).take(count) {
            match slot {
                PollSlot::From(index) => seen.lanes[index].0 = ready,
                PollSlot::To(index) => seen.lanes[index].1 = ready,
                PollSlot::Wake => seen.wake = ready.is_ready,
            }
        }
        Ok(seen)
    }
}

/// A polled file: the input or output of a lane, or the wake pipe.
#[derive(Clone, Copy)]
enum PollSlot {
    From(usize),
    To(usize),
    Wake,
}

#[derive(Default)]
struct ReadyFiles {
    /// The state of the input and the output of each lane.
    lanes: [(Ready, Ready); 3],
    wake: bool,
}

impl RelayLane {
    /// Whether the lane is ready to read more.
    fn reads(&self) -> bool {
        self.unsent.is_empty() && self.actions.is_empty() && self.paused.is_none() && !self.ending
    }

    fn is_idle(&self) -> bool {
        self.ends.is_none() || self.reads() && self.due().is_none()
    }

    /// Returns the time of the next action that does not depend on a file.
    fn due(&self) -> Option<Instant> {
        self.ends.as_ref()?;
        self.paused.or_else(|| self.faults.as_ref().filter(|_| self.reads()).and_then(FaultInjector::due))
    }

    /// Returns the number of bytes that can be read now; 0 if the system does not report it.
    fn unread(&self) -> u64 {
        self.ends.as_ref().map_or(0, |ends| poll::unread(&ends.from))
    }

    fn close(&mut self, why: &CloseReason, shared: &RelayShared) {
        if self.ends.take().is_none() {
            return;
        }
        shared.note(match why {
            CloseReason::Ended => Note::Eof(self.stream),
            CloseReason::Refused(error) => {
                let error = (!is_hang_up(error)).then(|| error.to_string().into_bytes());
                Note::Closed(StreamClose::Pipe { stream: self.stream, error })
            }
        });
    }

    fn name(&self) -> &'static str {
        match self.stream {
            Stream::ToServer => "stdin",
            Stream::ToClient => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    /// Reads and writes as much as is possible without blocking.
    fn step(&mut self, from: Ready, to: Ready, buffer: &mut [u8], shared: &RelayShared) -> Result<(), CloseReason> {
        let Some(ends) = &mut self.ends else { return Ok(()) };
        if to.is_gone {
            return Err(CloseReason::Refused(io::ErrorKind::BrokenPipe.into()));
        }
        if from.is_ready {
            let count = match ends.from.read(buffer) {
                Ok(count) => count,
                Err(error) if is_temporary(&error) => return Ok(()),
                // For example, the input is a terminal that was closed.
                Err(_) => 0,
            };
            self.read += count as u64;
            match &mut self.faults {
                None if count > 0 => return self.send(&buffer[..count], shared),
                None => self.ending = true,
                Some(faults) if count > 0 => self.actions.extend(faults.push(&buffer[..count])),
                Some(faults) => {
                    self.actions.extend(faults.finish());
                    self.ending = true;
                }
            }
        }
        self.go_on(shared)
    }

    /// Writes the bytes, and then queues the copy for the observation. The copy of a response cannot come before that
    /// of its request, because the same thread relays both.
    fn send(&mut self, bytes: &[u8], shared: &RelayShared) -> Result<(), CloseReason> {
        let time = shared.clock.now();
        let rest = self.put(bytes);
        shared.bytes(self.stream, bytes, time);
        self.unsent.extend_from_slice(rest?);
        Ok(())
    }

    /// Writes as much as possible, and returns the rest.
    fn put<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], CloseReason> {
        let Some(ends) = &mut self.ends else { return Err(CloseReason::Ended) };
        while !bytes.is_empty() {
            match ends.to.put(bytes) {
                Ok(count) => {
                    self.written += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(CloseReason::Refused(error)),
            }
        }
        Ok(bytes)
    }

    /// Continues to write unsent bytes and to perform fault actions.
    fn go_on(&mut self, shared: &RelayShared) -> Result<(), CloseReason> {
        loop {
            if !self.unsent.is_empty() {
                let unsent = std::mem::take(&mut self.unsent);
                let left = self.put(&unsent)?.len();
                self.unsent = unsent;
                self.unsent.drain(..self.unsent.len() - left);
                if left > 0 {
                    return Ok(());
                }
                self.unsent.shrink_to(BUFFER_SIZE);
            }
            if self.paused.is_some_and(|until| Instant::now() < until) {
                return Ok(());
            }
            self.paused = None;
            if let Some(faults) = &mut self.faults
                && self.actions.is_empty()
                && faults.due().is_some_and(|due| due <= Instant::now())
            {
                self.actions.extend(faults.release());
            }
            match self.actions.pop_front() {
                Some(FaultAction::Note(note)) => shared.note(note),
                Some(FaultAction::Write(bytes)) => self.send(&bytes, shared)?,
                Some(FaultAction::Pause(time)) => self.paused = Some(Instant::now() + time),
                Some(FaultAction::Kill) => shared.program.kill(),
                Some(FaultAction::Close) => return Err(CloseReason::Ended),
                None if self.ending => return Err(CloseReason::Ended),
                None => return Ok(()),
            }
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Whether the error means that the reader has closed its end.
fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The maximum number of polled files: the wake pipe, and the input and output of three lanes.
const MAX_POLLED: usize = 7;

/// The size of the read buffer, which is the capacity of a pipe.
const BUFFER_SIZE: usize = 64 * 1024;
