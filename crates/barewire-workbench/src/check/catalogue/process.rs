//! The process: its end, its children, its stderr.

use super::Reference::{Cwe, Mcp};
use super::{BASE, Category, Check, CheckPlace, LIVE, Level, Severity};

pub(super) const CHECKS: &[&Check] = &[&STAYS_ALIVE, &EOF_EXIT, &EXIT_CODE, &ORPHAN_PROCESSES, &STDERR_HYGIENE];

/// There is no process to look at over HTTP.
const PROCESS: &[CheckPlace] = &[CheckPlace::Stdio, CheckPlace::Capture, CheckPlace::Tap];

pub(crate) static STAYS_ALIVE: Check = Check {
    id: "stays-alive",
    title: "The program does not end in the middle of a conversation",
    why: "With the process go all requests in flight and everything that it remembered. Hosts show it as disconnected, and many do \
          not start it again.",
    severity: Severity::High,
    rationale: "everything in flight is lost",
    looks_at: "how the process ends, and whether its stdin was still open",
    pass: "it ends after its stdin was closed",
    fail: "it ends while its stdin is open, after ordinary messages",
    skip: "no end was seen",
    sentence: "the program ends while it is needed",
    level: Level::Ours,
    remedy: "Catch exceptions where messages are dispatched, and answer -32603. Read its stderr: the reason is mostly there.",
    example: "process.on('uncaughtException', error => console.error(error))",
    see: &["early-exit", "parse-error-recovery", "eof-exit"],
    references: &[Cwe(248, "Uncaught Exception"), Mcp("2026-07-28/basic/transports/stdio")],
    category: Category::Process,
    places: PROCESS,
    ..BASE
};

pub(crate) static EOF_EXIT: Check = Check {
    id: "eof-exit",
    title: "The program ends when its stdin does",
    why: "Closing stdin is how a host says goodbye; there is no message for it. A server that stays is killed by careful hosts and left \
          behind by the others: the process list fills up. 2026-07-28 asks for it in so many words; before, the client is told to wait \
          for it.",
    severity: Severity::High,
    rationale: "processes pile up until somebody notices",
    looks_at: "the process after its stdin is closed",
    pass: "it ends by itself within the time that an answer is waited for; in a capture, within two seconds, which is what hosts wait",
    fail: "it has to be told with a signal. In a capture: one ends it two seconds after its stdin was closed, or later",
    skip: "no end was seen, or a host that did not wait ended it",
    sentence: "the program does not end when its stdin does",
    level: Level::Should,
    remedy: "End when a read of stdin returns nothing. Stop timers, watchers and listeners that keep the process alive.",
    example: "process.stdin.on('end', () => process.exit(0))",
    see: &["exit-code", "orphan-processes"],
    references: &[
        Mcp("2025-11-25/basic/lifecycle#shutdown"),
        Mcp("2026-07-28/basic/transports/stdio"),
        Cwe(772, "Missing Release of Resource after Effective Lifetime"),
    ],
    category: Category::Process,
    places: PROCESS,
    ..BASE
};

pub(crate) static EXIT_CODE: Check = Check {
    id: "exit-code",
    title: "An ordinary end has the exit code 0",
    why: "Supervisors and logs tell a crash from an end by the exit code. One that is never 0 says nothing.",
    severity: Severity::Low,
    rationale: "a line in a log is wrong",
    looks_at: "the exit code after stdin was closed",
    pass: "it is 0",
    fail: "another code, or a signal that we have not sent",
    skip: "the program does not end by itself",
    sentence: "an ordinary end does not look like one",
    level: Level::Ours,
    remedy: "Treat the end of stdin as the end of the work, not as a failed read.",
    example: "except EOFError: sys.exit(0)",
    see: &["eof-exit", "stays-alive"],
    references: &[],
    category: Category::Process,
    places: PROCESS,
    needs: &["early-exit", "mute-server", "handshake", "eof-exit"],
    ..BASE
};

pub(crate) static ORPHAN_PROCESSES: Check = Check {
    id: "orphan-processes",
    title: "Nothing is left behind",
    why: "A browser, a language server or a shell that the server started goes on after it, holds ports and files, and nobody knows \
          whose it is.",
    severity: Severity::Medium,
    rationale: "resources are held for nobody until the machine is restarted",
    looks_at: "the process group of the server after it has ended",
    pass: "nobody of it is left",
    fail: "somebody is. What has left the group by itself is not seen",
    skip: "the program does not end by itself",
    sentence: "the program leaves processes behind",
    level: Level::Ours,
    remedy: "End what you start: close its stdin, wait, and kill it before you go. A package runner (npx, uvx) must pass the end on.",
    example: "try: … finally: child.terminate(); child.wait()",
    see: &["eof-exit", "exit-code"],
    references: &[Cwe(404, "Improper Resource Shutdown or Release")],
    category: Category::Process,
    places: LIVE,
    needs: &["early-exit", "mute-server", "handshake", "eof-exit"],
    ..BASE
};

pub(crate) static STDERR_HYGIENE: Check = Check {
    id: "stderr-hygiene",
    title: "stderr is text that can be read",
    why: "Hosts write stderr to a log file and show it to users. Escape sequences steer the terminal of whoever reads it; a flood \
          hides the line that matters; messages of the protocol there are messages that nobody gets.",
    severity: Severity::Low,
    rationale: "nothing fails; finding out why something else does takes longer",
    looks_at: "every line on stderr",
    pass: "UTF-8 text without control characters, no messages of JSON-RPC, at most 1 MiB in a run",
    fail: "a line has control characters or is not UTF-8, is a message, or there is more",
    skip: "nothing was written to stderr",
    sentence: "stderr is not text that can be read",
    level: Level::Ours,
    remedy: "Switch colours off where stderr is no terminal. Log a line a message, and at a level that can be chosen.",
    example: "new Console({ stdout: process.stderr, stderr: process.stderr, colorMode: false })",
    see: &["stdout-purity", "payload-exposure"],
    references: &[
        Mcp("2025-11-25/basic/transports#stdio"),
        Cwe(150, "Improper Neutralization of Escape, Meta, or Control Sequences"),
    ],
    category: Category::Process,
    places: PROCESS,
    ..BASE
};
