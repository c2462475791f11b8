//! Bytes from one end to the other, as they come; and the end of either, to the other. All of it on one thread.
//!
//! One thread, because two would be in each other's way: on one processor a question and its answer through two threads took
//! twice as long as through one. So nothing here waits but `poll`: what cannot be written is kept, and no more is read for it
//! until it is.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use barewire_proto::transcript::{CutReason, Note, Stream, StreamClose};

use super::leaving::{Leaving, Scene, Side, Verdict};
use super::stdio::Control;
use crate::fault::{Act, Faults};
use crate::platform::outward::Outward;
use crate::platform::poll::{self, Interest, Ready};

/// All directions.
pub(super) struct Pump {
    pub(super) lanes: [Lane; 3],
    /// There is something to read when the program has ended, and when a signal says that we should.
    pub(super) bell: File,
    pub(super) control: Arc<Control>,
    /// Told what people should hear of.
    pub(super) say: fn(&str),
}

/// One direction.
pub(super) struct Lane {
    stream: Stream,
    /// `None` once it is closed.
    ends: Option<Ends>,
    /// What was read and is not written yet.
    unsent: Vec<u8>,
    faults: Option<Faults>,
    /// What the faults still have to do.
    acts: VecDeque<Act>,
    /// A fault pauses until then.
    paused: Option<Instant>,
    /// Nothing more comes; what is there is still to be written.
    ending: bool,
    /// How much was read and written since it was last asked.
    read: u64,
    written: u64,
}

struct Ends {
    from: File,
    to: Outward,
}

/// Why one direction has come to its end.
enum Closing {
    /// Where it came from has ended; or a fault ends it.
    Ended,
    /// Where it goes to takes nothing more.
    Unwanted(io::Error),
}

impl Lane {
    pub(super) fn new(stream: Stream, from: File, to: Outward, faults: Option<Faults>) -> Self {
        Self {
            stream,
            ends: Some(Ends { from, to }),
            unsent: Vec::new(),
            faults,
            acts: VecDeque::new(),
            paused: None,
            ending: false,
            read: 0,
            written: 0,
        }
    }
}

impl Pump {
    /// Forwards until the program has ended, and what it and those whom it has left behind have said is passed on.
    pub(super) fn run(mut self) {
        let mut buffer = vec![0; BUFFER];
        let mut leaving: Option<Leaving> = None;
        let mut wake = Wake::Happening;
        // That it cannot be waited for is no reason to run in circles.
        while let Ok(seen) = self.wait(wake) {
            for (lane, (from, to)) in self.lanes.iter_mut().zip(seen.lanes) {
                if let Err(why) = lane.step(from, to, &mut buffer, &self.control) {
                    lane.close(&why, &self.control);
                }
            }
            if seen.bell {
                let _ = self.bell.read(&mut [0; 16]);
            }
            wake = match &mut leaving {
                None if self.control.has_ended() => {
                    let unread = [&self.lanes[1], &self.lanes[2]].map(Lane::unread);
                    leaving = Some(Leaving::new(unread, Instant::now()));
                    // It counts from here on.
                    let _ = self.scene();
                    // What its end has done to the others may have been seen before it or not yet.
                    Wake::Now
                }
                None => Wake::Happening,
                Some(leaving) => {
                    let scene = self.scene();
                    match leaving.judge(&scene, Instant::now()) {
                        Verdict::Over => break,
                        Verdict::Wait(None) => Wake::Happening,
                        Verdict::Wait(Some(until)) => Wake::At(until),
                        Verdict::Left => {
                            self.control.note(Note::Left);
                            Wake::Now
                        }
                    }
                }
            };
        }
        let mut cut = Vec::new();
        for lane in &mut self.lanes {
            if lane.ends.take().is_some() {
                self.control.note(Note::Cut { stream: lane.stream, why: CutReason::HeldOpen });
                cut.extend((lane.stream != Stream::ToServer).then(|| lane.name()));
            }
        }
        if !cut.is_empty() {
            (self.say)(&format!(
                "the program has ended; what others still write to its {} is not passed on",
                cut.join(" and ")
            ));
        }
    }

    /// How things are, and what was done since it was last asked.
    fn scene(&mut self) -> Scene {
        let mut moved = false;
        let [_, stdout, stderr] = self.lanes.each_mut().map(|lane| {
            let (read, written) = (std::mem::take(&mut lane.read), std::mem::take(&mut lane.written));
            moved |= read > 0 || written > 0;
            Side { is_open: lane.ends.is_some(), is_busy: !lane.is_idle(), read }
        });
        let is_heard = self.lanes[0].ends.is_some();
        Scene { is_heard, stdout, stderr, moved, told_to_end: self.control.is_told_to_end() }
    }

    /// Waits for something to do. That nobody wants what is forwarded is seen while there is nothing to forward as well: without a
    /// tap it would be seen at once. Of stderr nobody waits for that, and each one that is asked takes its time.
    fn wait(&self, wake: Wake) -> io::Result<Seen> {
        // The bell is the first.
        let (mut files, mut slots, mut count) = ([(&self.bell, Interest::Read); POLLED], [PollSlot::Bell; POLLED], 1);
        let mut ask = |file, slot| {
            (files[count], slots[count]) = (file, slot);
            count += 1;
        };
        for (index, lane) in self.lanes.iter().enumerate() {
            let Some(Ends { from, to }) = &lane.ends else { continue };
            if lane.reads() {
                ask((from, Interest::Read), PollSlot::From(index));
            }
            match lane.unsent.is_empty() {
                false => ask((&to.file, Interest::Write), PollSlot::To(index)),
                true if lane.stream == Stream::Stderr => {}
                true => ask((&to.file, Interest::Gone), PollSlot::To(index)),
            }
        }
        let due = self.lanes.iter().filter_map(Lane::due).min();
        let due = match (wake, due) {
            (Wake::Happening, due) => due,
            (Wake::At(time), due) => Some(due.map_or(time, |due| due.min(time))),
            (Wake::Now, _) => Some(Instant::now()),
        };
        let time = due.map(|due| due.saturating_duration_since(Instant::now()));
        let ready: [Ready; POLLED] = poll::wait(&files[..count], time)?;
        let mut seen = Seen::default();
        for (ready, slot) in ready.into_iter().zip(slots).take(count) {
            match slot {
                PollSlot::From(index) => seen.lanes[index].0 = ready,
                PollSlot::To(index) => seen.lanes[index].1 = ready,
                PollSlot::Bell => seen.bell = ready.is_ready,
            }
        }
        Ok(seen)
    }
}

/// The file that is waited for: one end of a lane, or the bell.
#[derive(Clone, Copy)]
enum PollSlot {
    From(usize),
    To(usize),
    Bell,
}

/// What ends waiting, besides what there is to do.
#[derive(Clone, Copy)]
enum Wake {
    /// Nothing.
    Happening,
    At(Instant),
    /// Anything: it is only looked.
    Now,
}

/// What there is to do.
#[derive(Default)]
struct Seen {
    /// Of each lane, where it comes from and where it goes to.
    lanes: [(Ready, Ready); 3],
    bell: bool,
}

impl Lane {
    /// Whether more can be taken.
    fn reads(&self) -> bool {
        self.unsent.is_empty() && self.acts.is_empty() && self.paused.is_none() && !self.ending
    }

    /// Nothing is left to do.
    fn is_idle(&self) -> bool {
        self.ends.is_none() || self.reads() && self.due().is_none()
    }

    /// When something is to be done that nobody has to wait for.
    fn due(&self) -> Option<Instant> {
        self.ends.as_ref()?;
        self.paused.or_else(|| self.faults.as_ref().filter(|_| self.reads()).and_then(Faults::due))
    }

    /// How much is there to be read.
    fn unread(&self) -> u64 {
        // Of what cannot be asked nobody knows; then what comes at once is what there was.
        self.ends.as_ref().map_or(0, |ends| poll::unread(&ends.from))
    }

    /// Closes it, and writes down what was seen of that: an end, or that nobody wants it.
    fn close(&mut self, why: &Closing, control: &Control) {
        if self.ends.take().is_none() {
            return;
        }
        control.note(match why {
            Closing::Ended => Note::Eof(self.stream),
            Closing::Unwanted(error) => {
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

    /// Does what can be done now.
    fn step(&mut self, from: Ready, to: Ready, buffer: &mut [u8], control: &Control) -> Result<(), Closing> {
        let Some(ends) = &mut self.ends else { return Ok(()) };
        if to.is_gone {
            return Err(Closing::Unwanted(io::ErrorKind::BrokenPipe.into()));
        }
        if from.is_ready {
            let count = match ends.from.read(buffer) {
                Ok(count) => count,
                Err(error) if is_passing(&error) => return Ok(()),
                // A terminal that is gone.
                Err(_) => 0,
            };
            self.read += count as u64;
            match &mut self.faults {
                None if count > 0 => return self.send(&buffer[..count], control),
                None => self.ending = true,
                Some(faults) if count > 0 => self.acts.extend(faults.push(&buffer[..count])),
                Some(faults) => {
                    self.acts.extend(faults.finish());
                    self.ending = true;
                }
            }
        }
        self.go_on(control)
    }

    /// Passes it on first, and then makes the copy. An answer cannot be on the tape before its question: it is read by the same thread.
    fn send(&mut self, bytes: &[u8], control: &Control) -> Result<(), Closing> {
        let time = control.now();
        let rest = self.put(bytes);
        control.bytes(self.stream, bytes, time);
        self.unsent.extend_from_slice(rest?);
        Ok(())
    }

    /// Writes what can be written, and gives back the rest.
    fn put<'a>(&mut self, mut bytes: &'a [u8]) -> Result<&'a [u8], Closing> {
        let Some(ends) = &mut self.ends else { return Err(Closing::Ended) };
        while !bytes.is_empty() {
            match ends.to.put(bytes) {
                Ok(count) => {
                    self.written += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(Closing::Unwanted(error)),
            }
        }
        Ok(bytes)
    }

    /// Does what is left of what was begun.
    fn go_on(&mut self, control: &Control) -> Result<(), Closing> {
        loop {
            if !self.unsent.is_empty() {
                let unsent = std::mem::take(&mut self.unsent);
                let left = self.put(&unsent)?.len();
                self.unsent = unsent;
                self.unsent.drain(..self.unsent.len() - left);
                if left > 0 {
                    return Ok(());
                }
                self.unsent.shrink_to(BUFFER);
            }
            if self.paused.is_some_and(|until| Instant::now() < until) {
                return Ok(());
            }
            self.paused = None;
            if let Some(faults) = &mut self.faults
                && self.acts.is_empty()
                && faults.due().is_some_and(|due| due <= Instant::now())
            {
                self.acts.extend(faults.release());
            }
            match self.acts.pop_front() {
                Some(Act::Note(note)) => control.note(note),
                Some(Act::Write(bytes)) => self.send(&bytes, control)?,
                Some(Act::Pause(time)) => self.paused = Some(Instant::now() + time),
                Some(Act::Kill) => control.kill(),
                Some(Act::Close) => return Err(Closing::Ended),
                None if self.ending => return Err(Closing::Ended),
                None => return Ok(()),
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

/// Whoever was written to has gone.
fn is_hang_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// The bell, and both ends of three lanes.
const POLLED: usize = 7;

/// What a pipe holds.
const BUFFER: usize = 64 * 1024;
