//! `barewire call` at a terminal, with a user who types.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{PROGRAM, call, sh, signal};

#[test]
fn at_a_terminal_the_user_is_asked_in_both_eras() {
    for revision in ["2025-06-18", "2026-07-28"] {
        let mut terminal = Terminal::start(&["greet", "--revision", revision], &[PROGRAM, "serve"]);
        terminal.sees("barewire asks: What is your name?");
        terminal.sees("name (string) The name of a person");
        terminal.sees("> ");
        terminal.types("\n");
        terminal.sees("a value is required");
        terminal.types("Ada\n");
        terminal.sees("Hello, Ada!");
        assert_eq!(terminal.ends(), Some(0), "{revision}");
    }
}

#[test]
fn at_a_terminal_a_question_can_be_declined_and_a_signal_ends_it() {
    let mut terminal = Terminal::start(&["greet"], &[PROGRAM, "serve"]);
    terminal.sees("> ");
    // Ctrl-D.
    terminal.types("\x04");
    terminal.sees("the user declined");
    assert_eq!(terminal.ends(), Some(1));

    let mut terminal = Terminal::start(&["greet"], &[PROGRAM, "serve"]);
    terminal.sees("> ");
    signal(&terminal.child);
    terminal.sees("barewire: cancelled by SIGINT");
    assert_eq!(terminal.ends(), Some(2));
}

#[test]
fn the_time_that_the_user_takes_does_not_count() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut terminal = Terminal::start(&["greet", "--timeout", "5", "--revision", revision], &[PROGRAM, "serve"]);
        terminal.sees("> ");
        // The user takes longer than the timeout, which must not run meanwhile.
        thread::sleep(Duration::from_millis(5500));
        terminal.types("Ada\n");
        terminal.sees("Hello, Ada!");
        assert_eq!(terminal.ends(), Some(0), "{revision}");
    }
}

#[test]
fn at_a_terminal_progress_is_one_line_and_text_is_escaped() {
    let mut terminal = Terminal::start(&["sleep", "ms=100"], &[PROGRAM, "serve"]);
    terminal.sees("[##########          ] 5/10 sleeping");
    terminal.sees("\r\x1b[K");
    terminal.sees("slept for 100 ms");
    assert_eq!(terminal.ends(), Some(0));

    let mut terminal = Terminal::start(&["echo", "text=\x1b]0;title\x07 a\tb"], &[PROGRAM, "serve"]);
    terminal.sees("\\x1b]0;title\\x07 a");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!terminal.seen.contains('\x07'), "{:?}", terminal.seen);
}

#[test]
fn at_a_terminal_bytes_are_not_shown() {
    let script =
        r#"init '{"resources":{}}'; hear; result '{"contents":[{"uri":"x:b","mimeType":"a/b","blob":"GxsbGw=="}]}'"#;
    let mut terminal = Terminal::start(&["read", "x:b"], &sh(script).each_ref().map(String::as_str));
    terminal.sees("[x:b, a/b, 4 B]");
    terminal.sees("binary contents are not shown");
    assert_eq!(terminal.ends(), Some(0));
    assert!(!terminal.seen.contains('\x1b'), "{:?}", terminal.seen);
}

/// The program with a terminal for stdin, stdout and stderr.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    /// The output, read by a thread, so that waiting for it can have a deadline.
    screen: Receiver<Vec<u8>>,
    pub(crate) seen: String,
    /// The end of the output that was searched.
    at: usize,
}

impl Terminal {
    fn start(options: &[&str], program: &[&str]) -> Self {
        let mut command = call(options);
        command.arg("--").args(program);
        Self::of(command)
    }

    /// Runs this program at the terminal.
    pub(crate) fn of(mut command: Command) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal");
        let name = ptsname(&screen, Vec::new()).expect("its name").into_string().expect("UTF-8");
        let open = || File::options().read(true).write(true).open(&name).expect("its other side");
        let child = command.env("NO_COLOR", "1").stdin(open()).stdout(open()).stderr(open()).spawn();
        // Its copies of the terminal would keep the output open.
        drop(command);
        let keyboard = File::from(screen);
        let mut output = keyboard.try_clone().expect("a second handle");
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails once the program has closed the terminal.
            while let Ok(count @ 1..) = output.read(&mut bytes)
                && sender.send(bytes[..count].to_vec()).is_ok()
            {}
        });
        Self { child: child.expect("it starts"), keyboard, screen, seen: String::new(), at: 0 }
    }

    pub(crate) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("it is there");
    }

    /// Waits until this is on the screen, after the text found before.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) {
        while !self.seen[self.at..].contains(text) {
            assert!(self.read(), "{text:?} is not in {:?}", self.seen);
        }
        self.at += self.seen[self.at..].find(text).expect("it was found") + text.len();
    }

    /// Waits for more output. Returns false at its end.
    #[track_caller]
    fn read(&mut self) -> bool {
        match self.screen.recv_timeout(DEADLINE) {
            Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => panic!("nothing for {DEADLINE:?} after {:?}", self.seen),
        }
        true
    }

    pub(crate) fn ends(&mut self) -> Option<i32> {
        while self.read() {}
        self.child.wait().expect("it ends").code()
    }
}

/// A failed test must not leave the program running.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Longer than any output takes, even on a busy machine: the program hangs.
const DEADLINE: Duration = Duration::from_secs(60);
