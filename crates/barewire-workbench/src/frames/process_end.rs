//! The events at the end of a recorded server process -> whether the process ended by itself, and how.
//!
//! Hosts end their servers with signals: some close stdin first and wait, others send SIGINT at once, and some send
//! signals to every process of the server. Such an end says nothing about the server. In a replay the server sees the
//! end of its stdin instead, and may end in another way.

use barewire_proto::transcript::Note;

/// The exit status of a server process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitStatus {
    /// The process exited with this code.
    Code(i32),
    /// The process was ended by this signal.
    Signal(i32),
}

/// The events so far that say how a process ended.
#[derive(Debug, Default)]
pub(crate) struct RecordedEnd {
    /// Whether the capture says which program was started, as the capture of a tap does.
    is_tapped: bool,
    exit: Option<ExitStatus>,
    /// Whether the host has sent a signal that asks the server to end, and no frame since.
    is_signalled: bool,
}

impl RecordedEnd {
    /// Handles an event of the capture.
    pub(crate) fn handle_note(&mut self, note: &Note) {
        match note {
            Note::Open(_) => self.is_tapped = true,
            Note::Signal(signal) | Note::SignalReceived(signal) if is_request_to_end(*signal) => {
                self.is_signalled = true;
            }
            Note::ExitCode(code) => self.exit = Some(ExitStatus::Code(*code)),
            Note::ExitSignal(signal) => self.exit = Some(ExitStatus::Signal(*signal)),
            _ => {}
        }
    }

    /// Handles a frame of the client: a host that still talks to the server has not ended it.
    pub(crate) fn handle_client_frame(&mut self) {
        self.is_signalled = false;
    }

    /// Returns the exit status, if the server ended by itself.
    pub(crate) fn own_exit(&self) -> Option<ExitStatus> {
        self.exit.filter(|_| !self.is_by_host())
    }

    /// Whether the host, not the server, ended the conversation. An answer that is not in the capture may then only
    /// have come too late.
    pub(crate) fn is_by_host(&self) -> bool {
        self.is_signalled || self.exit.map_or(self.is_tapped, is_from_outside)
    }
}

/// Whether a signal of another process ended a process with this status. Shells and launchers such as npx pass on that
/// a signal ended their child as 128 and the number of the signal.
fn is_from_outside(status: ExitStatus) -> bool {
    match status {
        ExitStatus::Signal(signal) => signal == KILL || is_request_to_end(signal),
        ExitStatus::Code(code) => code.checked_sub(128).is_some_and(|it| it == KILL || is_request_to_end(it)),
    }
}

/// Whether hosts and terminals send this signal to end a program: HUP, INT, QUIT and TERM. A program that crashes gets
/// other signals, such as SEGV. The numbers are the same on all Unix systems.
fn is_request_to_end(signal: i32) -> bool {
    matches!(signal, 1 | 2 | 3 | 15)
}

const KILL: i32 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn end(notes: &[Note]) -> RecordedEnd {
        let mut end = RecordedEnd::default();
        notes.iter().for_each(|note| end.handle_note(note));
        end
    }

    #[test]
    fn only_an_end_without_the_host_is_an_end_of_its_own() {
        use ExitStatus::{Code, Signal};
        for (notes, own) in [
            (&[Note::ExitCode(0)][..], Some(Code(0))),
            (&[Note::ExitCode(3)], Some(Code(3))),
            (&[Note::ExitCode(128)], Some(Code(128))),
            (&[Note::ExitCode(139)], Some(Code(139))),
            (&[Note::ExitCode(-1)], Some(Code(-1))),
            (&[Note::ExitSignal(11)], Some(Signal(11))),
            (&[Note::ExitSignal(6)], Some(Signal(6))),
            (&[Note::Signal(10), Note::ExitCode(0)], Some(Code(0))),
            (&[Note::ExitSignal(2)], None),
            (&[Note::ExitSignal(9)], None),
            (&[Note::ExitSignal(15)], None),
            (&[Note::ExitCode(130)], None),
            (&[Note::ExitCode(137)], None),
            (&[Note::ExitCode(143)], None),
            (&[Note::Signal(15), Note::ExitCode(0)], None),
            (&[Note::SignalReceived(2), Note::ExitCode(1)], None),
            // A host that signals every process of a server can reach the tap last.
            (&[Note::ExitCode(1), Note::SignalReceived(15)], None),
            (&[Note::Signal(2), Note::ExitSignal(11)], None),
        ] {
            assert_eq!(end(notes).own_exit(), own, "{notes:?}");
            assert_eq!(end(notes).is_by_host(), own.is_none(), "{notes:?}");
        }
    }

    #[test]
    fn a_server_that_still_gets_messages_was_not_ended() {
        let mut end = end(&[Note::Signal(2)]);
        assert!(end.is_by_host());
        end.handle_client_frame();
        end.handle_note(&Note::ExitCode(1));
        assert_eq!((end.own_exit(), end.is_by_host()), (Some(ExitStatus::Code(1)), false));
    }

    #[test]
    fn a_capture_of_a_killed_tap_ends_without_an_exit() {
        assert!(end(&[Note::Open(b"server".to_vec())]).is_by_host());
        assert!(!end(&[]).is_by_host(), "a capture that was written by hand");
    }
}
