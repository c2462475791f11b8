//! A host on three files <-> a program on three pipes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use barewire_proto::transcript::{InjectedFault, Note, Stream};

use super::observation::{Copies, Observation};
use super::pump::{Lane, Pump};
use super::queue::ONLY;
use crate::capture::CaptureClock;
use crate::fault::Ordered;
use crate::platform::outward::Outward;
use crate::platform::program::{self, Running, StartError};
use crate::platform::signals::SignalTarget;
use crate::platform::{self, Signals};

/// The files of the host: what it writes, and what it reads. They are the relay's alone, so that closing them closes them.
#[expect(clippy::exhaustive_structs, reason = "a process has three standard streams")]
pub struct HostFiles {
    /// What the host writes to the server's stdin.
    pub stdin: File,
    /// What the host reads as the server's stdout.
    pub stdout: File,
    /// What the host reads as the server's stderr.
    pub stderr: File,
}

/// A program that was started as its host would have started it.
pub struct Program(Child);

impl Program {
    /// Starts it, with pipes where its host would have put its own, in our process group: a host that ends a group, and a Ctrl-C,
    /// reach it as they would without a relay.
    pub fn start(program: &OsString, args: &[OsString]) -> Result<Self, StartError> {
        program::start(program, args).map(Self)
    }

    /// Passes everything on, in all directions, until the program has ended and what it has said is passed on. Signals that are
    /// sent to us are passed on as well. `say` is called with what people should hear of.
    pub fn relay(
        self,
        host: HostFiles,
        faults: Ordered,
        signals: Signals,
        observation: Option<&Observation>,
        say: fn(&str),
    ) -> io::Result<ExitStatus> {
        let mut child = self.0;
        let (rung, bell) = io::pipe()?;
        let control = Arc::new(Control {
            clock: observation.map_or_else(CaptureClock::start, Observation::clock),
            copies: observation.map(Observation::copies),
            program: Running::new(&child),
            bell,
            has_ended: AtomicBool::new(false),
            is_told_to_end: AtomicBool::new(false),
        });
        signals.pass_on(Arc::clone(&control));
        if let Some(seed) = faults.seed {
            control.note(Note::Fault(InjectedFault::Seed(seed)));
        }
        let pump = pump(&mut child, host, faults, rung, &control, say)?;
        let (told, status) = mpsc::channel();
        let waiting = Arc::clone(&control);
        thread::spawn(move || {
            let _ = told.send(waiting.program.wait(&mut child));
            waiting.change(&waiting.has_ended);
        });
        pump.run();
        let status = status.recv().map_err(io::Error::other)??;
        control.note(match platform::exit_of(status) {
            Ok(code) => Note::ExitCode(code),
            Err(signal) => Note::ExitSignal(signal),
        });
        Ok(status)
    }
}

fn pump(
    child: &mut Child,
    host: HostFiles,
    faults: Ordered,
    bell: PipeReader,
    control: &Arc<Control>,
    say: fn(&str),
) -> io::Result<Pump> {
    let (Some(to), Some(from), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    let lanes = [
        Lane::new(Stream::ToServer, host.stdin, Outward::own(to)?, faults.to_server),
        Lane::new(Stream::ToClient, platform::file(from), Outward::shared(host.stdout)?, faults.to_client),
        Lane::new(Stream::Stderr, platform::file(errors), Outward::shared(host.stderr)?, None),
    ];
    Ok(Pump { lanes, bell: platform::file(bell), control: Arc::clone(control), say })
}

/// The state that the threads of a relay share.
pub(super) struct Control {
    clock: CaptureClock,
    /// `None` if nothing looks on.
    copies: Option<Copies>,
    program: Running,
    /// To the pump: one of the flags below has changed.
    bell: PipeWriter,
    has_ended: AtomicBool,
    is_told_to_end: AtomicBool,
}

impl Control {
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    pub(super) fn is_told_to_end(&self) -> bool {
        self.is_told_to_end.load(Ordering::Acquire)
    }

    fn change(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        let _ = (&self.bell).write(b"!");
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Copies bytes that were passed on.
    pub(super) fn bytes(&self, stream: Stream, bytes: &[u8], time: Duration) {
        if let Some(copies) = &self.copies {
            copies.bytes(ONLY, stream, bytes, time);
        }
    }

    pub(super) fn note(&self, note: Note) {
        if let Some(copies) = &self.copies {
            copies.note(ONLY, note);
        }
    }

    pub(super) fn kill(&self) {
        self.program.kill();
    }
}

impl SignalTarget for Control {
    fn program(&self) -> &Running {
        &self.program
    }

    fn told_to_end(&self) {
        self.change(&self.is_told_to_end);
    }

    fn passed_on(&self, signal: i32) {
        self.note(Note::Signal(signal));
    }
}
