//! Relays between a host, connected by three files, and a program, connected by three pipes.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeWriter, Write};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use barewire_proto::transcript::{InjectedFault, Note, Stream};

use super::copies::RelayCopies;
use super::pump::{Pump, RelayLane};
use super::queue::SINGLE_CONNECTION;
use crate::capture::CaptureClock;
use crate::fault::DirectionFaults;
use crate::platform::output::NonBlockingOutput;
use crate::platform::program::{self, RunningProgram, StartError, StartedProgram};
use crate::platform::signals::SignalTarget;
use crate::platform::{self, Signals};

/// The files that connect us to the host. The relay owns the only copy of each, so that dropping it closes the file.
#[expect(clippy::exhaustive_structs, reason = "a process has three standard streams")]
pub struct HostFiles {
    /// The file to which the host writes the server's input.
    pub stdin: File,
    /// The file from which the host reads the server's stdout.
    pub stdout: File,
    /// The file from which the host reads the server's stderr.
    pub stderr: File,
}

/// A program that was started in the same way as its host would have started it.
pub struct Program(StartedProgram);

impl Program {
    /// Starts a program with pipes in place of the host's files. The program stays in our process group, so that
    /// signals to the group and Ctrl-C reach it as they would without a relay.
    pub fn start(program: &OsString, args: &[OsString]) -> Result<Self, StartError> {
        program::start(program, args).map(Self)
    }

    /// Relays in all directions until the program has ended and its output is passed on. Signals to us are forwarded to
    /// the program. Calls `say` with messages for the user.
    pub fn relay(
        self,
        host: HostFiles,
        faults: DirectionFaults,
        signals: Signals,
        copies: impl Into<RelayCopies>,
        say: fn(&str),
    ) -> io::Result<ExitStatus> {
        let mut started = self.0;
        let (wake_receiver, wake_sender) = io::pipe()?;
        let copies = copies.into();
        let is_observed = copies.is_any();
        let shared = Arc::new(RelayShared {
            clock: copies.clock(),
            copies,
            program: RunningProgram::new(&mut started),
            wake_sender,
            has_ended: AtomicBool::new(false),
            should_end: AtomicBool::new(false),
        });
        let signals = signals.forward(Arc::clone(&shared));
        if let Some(seed) = faults.seed {
            shared.note(Note::Fault(InjectedFault::Seed(seed)));
        }
        let StartedProgram { mut child, stdin, stdout, stderr, .. } = started;
        let lanes = [
            RelayLane::new(Stream::ToServer, host.stdin, NonBlockingOutput::own(stdin)?, faults.to_server),
            RelayLane::new(
                Stream::ToClient,
                platform::file(stdout),
                NonBlockingOutput::shared(host.stdout)?,
                faults.to_client,
            ),
            RelayLane::new(Stream::Stderr, platform::file(stderr), NonBlockingOutput::shared(host.stderr)?, None),
        ];
        let pump = Pump { lanes, wake: platform::file(wake_receiver), shared: Arc::clone(&shared), say };
        let (exited, status) = mpsc::channel();
        let waiting = Arc::clone(&shared);
        thread::spawn(move || {
            let _ = exited.send(waiting.program.wait(&mut child));
            waiting.raise(&waiting.has_ended);
        });
        pump.run();
        let status = status.recv().map_err(io::Error::other)??;
        if is_observed {
            signals.finish();
        }
        shared.note(match platform::exit_of(status) {
            Ok(code) => Note::ExitCode(code),
            Err(signal) => Note::ExitSignal(signal),
        });
        Ok(status)
    }
}

/// The state that the threads of a relay share.
pub(super) struct RelayShared {
    pub(super) clock: CaptureClock,
    copies: RelayCopies,
    pub(super) program: RunningProgram,
    /// Wakes the pump after one of the flags below has changed.
    wake_sender: PipeWriter,
    has_ended: AtomicBool,
    should_end: AtomicBool,
}

impl RelayShared {
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    pub(super) fn should_end(&self) -> bool {
        self.should_end.load(Ordering::Acquire)
    }

    fn raise(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        let _ = (&self.wake_sender).write(b"!");
    }

    pub(super) fn bytes(&self, stream: Stream, bytes: &[u8], time: Duration) {
        self.copies.bytes(SINGLE_CONNECTION, stream, bytes, time);
    }

    pub(super) fn note(&self, note: Note) {
        self.copies.note(SINGLE_CONNECTION, note);
    }
}

impl SignalTarget for RelayShared {
    fn program(&self) -> &RunningProgram {
        &self.program
    }

    fn end_requested(&self) {
        self.raise(&self.should_end);
    }

    fn forwarded(&self, signal: i32) {
        self.note(Note::Signal(signal));
    }

    fn not_forwarded(&self, signal: i32) {
        self.note(Note::SignalReceived(signal));
    }
}
