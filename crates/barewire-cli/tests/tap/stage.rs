//! A tap between this test and a program; and a folder for what it writes.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Once;

use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) fn barewire() -> Command {
    Command::new(program())
}

pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_barewire")
}

/// `barewire tap OPTIONS -- PROGRAM`, with pipes on all sides.
pub(crate) fn tap<O: AsRef<OsStr>, P: AsRef<OsStr>>(options: &[O], program: &[P]) -> Command {
    stop_ignoring_signals();
    let mut command = barewire();
    command.arg("tap").args(options).arg("--").args(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Makes the programs that the tests start die by signals as usual, even if the tests were started with these signals
/// ignored, as shells start jobs in the background. A started program inherits that a signal is ignored, but not that
/// it is caught, so catching it is enough.
fn stop_ignoring_signals() {
    static CAUGHT: Once = Once::new();
    CAUGHT.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let _context = runtime.enter();
        for number in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2] {
            if ignored & 1 << (number.as_raw() - 1) != 0 {
                drop(signal(SignalKind::from_raw(number.as_raw())).expect("it can be caught"));
            }
        }
    });
}

/// A shell script.
pub(crate) fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

/// A folder that is removed with this value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-tap-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes that look like chance, with lines of any length in them.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// The next bytes, or what came before the end.
pub(crate) fn read_some(from: &mut ChildStdout, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        match from.read(&mut bytes[done..]).expect("it can be read") {
            0 => break,
            more => done += more,
        }
    }
    bytes.truncate(done);
    bytes
}

/// The capture as text.
pub(crate) fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("there is a capture")
}

/// The lines of a capture without their times.
pub(crate) fn lines(path: &Path) -> Vec<String> {
    let timeless = |line: &str| match (line.find("(+"), line.find(')')) {
        (Some(1), Some(end)) => {
            let marks: Vec<&str> = line[2..end].split(' ').skip(1).collect();
            let marks = if marks.is_empty() { String::new() } else { format!("({})", marks.join(" ")) };
            format!("{}{marks}{}", &line[..1], &line[end + 1..])
        }
        _ => line.to_owned(),
    };
    text(path).lines().skip(1).map(timeless).collect()
}

/// Ends a process that a test has started, and waits for it.
pub(crate) fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
