//! The instructions that each verb of the program needs for one more frame.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use super::contender;
use super::era::Era;
use super::process::{count, counted};
use super::program;
use super::tap::SERVER;
use super::workload::{FIRST_ID, text};

/// The verbs and their arguments. `CAPTURE` is the capture, and `SERVER` the program of the server that was recorded.
const VERBS: [&[&str]; 9] = [
    &["read", "CAPTURE"],
    &["read", "--json", "CAPTURE"],
    &["read", "--summary", "CAPTURE"],
    &["check", "CAPTURE"],
    &["tap", "--", "SERVER"],
    &["tap", "--record", "NEW", "--", "SERVER"],
    &["tap", "--record", "NEW", "--log", "NEW", "--", "SERVER"],
    &["replay", "CAPTURE", "--", "SERVER"],
    &["replay", "--serve", "CAPTURE"],
];

/// The results of a run.
#[derive(Debug, Serialize)]
pub(crate) struct VerbReport {
    /// The numbers of calls in the captures. The cost of a frame is the difference between two captures.
    calls: [u32; 3],
    rows: Vec<VerbRow>,
}

/// The results of one verb.
#[derive(Debug, Serialize)]
struct VerbRow {
    verb: String,
    /// The instructions for a frame, between the first two captures.
    few: f64,
    /// The instructions for a frame, between the last two captures. It is the same if the time is linear.
    many: f64,
}

/// Counts the instructions of each verb for captures of different lengths.
pub(crate) fn run(say: fn(&str)) -> Result<VerbReport, Box<dyn Error>> {
    contender::build(&[&SERVER])?;
    let program = program::build()?;
    let scratch = std::env::temp_dir().join(format!("barewire-benches-verbs-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let report = measure(&program, &scratch, say);
    fs::remove_dir_all(&scratch)?;
    report
}

fn measure(program: &Path, scratch: &Path, say: fn(&str)) -> Result<VerbReport, Box<dyn Error>> {
    let sessions =
        CALLS.map(|calls| Session::record(program, scratch, calls)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for verb in VERBS {
        say(&verb.join(" "));
        let mut instructions = Vec::new();
        for session in &sessions {
            instructions.push(session.instructions(program, scratch, verb)?);
        }
        // A call is two frames: a request and its response.
        let for_a_frame = |from: usize| {
            (instructions[from + 1] as f64 - instructions[from] as f64) / f64::from(2 * (CALLS[from + 1] - CALLS[from]))
        };
        let name = verb.iter().filter(|word| !["CAPTURE", "NEW", "SERVER", "--"].contains(word));
        let verb = name.copied().collect::<Vec<_>>().join(" ");
        rows.push(VerbRow { verb, few: for_a_frame(0), many: for_a_frame(1) });
    }
    Ok(VerbReport { calls: CALLS, rows })
}

/// A recorded session.
struct Session {
    /// The messages of the client, one a line.
    requests: PathBuf,
    capture: PathBuf,
}

impl Session {
    /// Records a session with this many calls, of 64 bytes of text each.
    fn record(program: &Path, scratch: &Path, calls: u32) -> io::Result<Self> {
        let requests = scratch.join(format!("{calls}.requests"));
        let capture = scratch.join(format!("{calls}.wire"));
        let text = text(64);
        let mut all: String = Era::Legacy.opening().into_iter().map(|(message, _)| message).collect();
        for call in 0..calls {
            all += &Era::Legacy.call(FIRST_ID + call, &text);
        }
        fs::write(&requests, all)?;
        let mut tap = Command::new(program);
        tap.args(["tap", "--record"]).arg(&capture).arg("--").arg(SERVER.program()?);
        run_with(tap, &requests)?;
        Ok(Self { requests, capture })
    }

    /// Counts the instructions of a verb.
    fn instructions(&self, program: &Path, scratch: &Path, verb: &[&str]) -> io::Result<u64> {
        let counts = scratch.join("counts");
        let mut command = counted(program, &counts);
        for (index, word) in verb.iter().enumerate() {
            match *word {
                "CAPTURE" => command.arg(&self.capture),
                "NEW" => command.arg(scratch.join(format!("new-{index}"))),
                "SERVER" => command.arg(SERVER.program()?),
                word => command.arg(word),
            };
        }
        run_with(command, &self.requests)?;
        count(&counts)
    }
}

/// Runs a command with this file as its stdin. It may find violations, but it must not fail.
fn run_with(mut command: Command, stdin: &Path) -> io::Result<()> {
    let output = command.stdin(File::open(stdin)?).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(format!("{command:?} failed: {}\n{}", output.status, stderr.trim())))
        }
    }
}

impl Display for VerbReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [few, more, many] = self.calls;
        writeln!(f, "instructions for one frame of about 150 bytes\n")?;
        writeln!(f, "{:<24} {:>20} {:>20}", "", format!("{few} to {more} calls"), format!("{more} to {many} calls"))?;
        for VerbRow { verb, few, many } in &self.rows {
            writeln!(f, "{verb:<24} {few:>20.0} {many:>20.0}")?;
        }
        Ok(())
    }
}

/// The numbers of calls in the captures, chosen so that callgrind takes a minute or two for all.
const CALLS: [u32; 3] = [500, 2000, 8000];
