//! Checks of the server process: its exit, its child processes, its stderr.

use super::Bound::Server;
use super::Document::Page;
use super::Reference::{Cwe, Mcp};
use super::rule::{ours, should, written};
use super::{Category, Check, CheckPlace, LEGACY, LIVE, Level, MODERN, Severity, host};

pub(super) const CHECKS: &[&Check] = &[&STAYS_ALIVE, &EOF_EXIT, &EXIT_CODE, &ORPHAN_PROCESSES, &STDERR_HYGIENE];

/// The default fields. These checks do not run over HTTP, where the server's process cannot be observed.
const BASE: Check = Check {
    level: Level::Ours,
    category: Category::Process,
    places: &[CheckPlace::Stdio, CheckPlace::Capture, CheckPlace::Tap],
    ..super::BASE
};

pub(crate) static STAYS_ALIVE: Check = Check {
    id: "stays-alive",
    title: "The process keeps running until its stdin is closed",
    why: "If the process exits early, all requests in flight and all state are lost. Hosts show the server as \
          disconnected, and many do not restart it.",
    severity: Severity::High,
    rationale: "every request in flight is lost",
    looks_at: "the exit of the process, and whether its stdin was still open",
    pass: "the process exits after its stdin is closed",
    fail: "the process exits after ordinary messages, while its stdin is open",
    skip: "no process exit was seen",
    sentence: "the server process exited while its stdin was still open",
    hosts: &[host(
        "Cursor",
        "fails the call with -32000 Connection closed",
        "https://github.com/designcomputer/mysql_mcp_server/issues/49",
    )],
    remedy: "Catch exceptions in the dispatcher and answer with -32603. The server's stderr usually shows the cause.",
    example: "process.on('uncaughtException', error => console.error(error))",
    see: &["early-exit", "parse-error-recovery", "eof-exit"],
    references: &[Cwe(248, "Uncaught Exception"), Mcp("2026-07-28/basic/transports/stdio#shutdown")],
    ..BASE
};

pub(crate) static EOF_EXIT: Check = Check {
    id: "eof-exit",
    title: "The process exits when its stdin is closed",
    why: "A host stops a server by closing its stdin; there is no shutdown message. Some hosts kill a server that does \
          not exit; others leave it running, and such processes pile up. Up to 2025-11-25 the specification binds \
          only the client, who closes stdin and waits.",
    severity: Severity::High,
    rationale: "processes pile up until a user notices",
    looks_at: "the process after its stdin is closed",
    pass: "the process exits by itself within the time limit of a response; in a capture, within two seconds",
    fail: "the process exits only after a signal; in a capture, a signal ends the process two seconds or more after \
           its stdin was closed",
    skip: "no exit was seen, or the host ended the process without waiting",
    sentence: "the server process does not exit when its stdin is closed",
    level: Level::Should,
    rules: &[
        &written(
            Server,
            &[should(MODERN, Page("basic/transports/stdio"), "Shutdown", "Servers SHOULD exit promptly when")],
        ),
        &ours(Server, LEGACY),
    ],
    hosts: &[
        host(
            "Claude Code",
            "leaves a process behind after each session",
            "https://github.com/ProxymanApp/Proxyman/issues/2727",
        ),
        host(
            "Claude Code",
            "calls hang when too many are left",
            "https://github.com/themotionmachine/OmniFocus-MCP/issues/55",
        ),
    ],
    remedy: "Exit at end of file on stdin. Stop timers, watchers and listeners that keep the process alive.",
    example: "process.stdin.on('end', () => process.exit(0))",
    see: &["exit-code", "orphan-processes"],
    references: &[
        Mcp("2025-11-25/basic/lifecycle#shutdown"),
        Cwe(772, "Missing Release of Resource after Effective Lifetime"),
    ],
    ..BASE
};

pub(crate) static EXIT_CODE: Check = Check {
    id: "exit-code",
    title: "A normal shutdown has exit code 0",
    why: "Supervisors and logs tell a crash from a normal shutdown by the exit code.",
    severity: Severity::Low,
    rationale: "logs show a normal shutdown as a crash; nothing fails",
    looks_at: "the exit code after stdin was closed",
    pass: "the exit code is 0",
    fail: "the exit code is not 0, or a signal that the client did not send ended the process",
    skip: "the process does not exit by itself",
    sentence: "a normal shutdown does not exit with code 0",
    remedy: "Treat end of file on stdin as the normal end of the work, not as a read error.",
    example: "except EOFError: sys.exit(0)",
    see: &["eof-exit", "stays-alive"],
    needs: &["early-exit", "mute-server", "handshake", "eof-exit"],
    ..BASE
};

pub(crate) static ORPHAN_PROCESSES: Check = Check {
    id: "orphan-processes",
    title: "No child process outlives the server",
    why: "A browser, a language server or a shell that the server started and that outlives the server holds ports and \
          files. Users cannot tell which server started it.",
    rationale: "resources stay in use until the machine is restarted",
    looks_at: "the process group of the server after the server has exited",
    pass: "the group is empty",
    fail: "a process of the group is still running. Processes that have left the group are not detected",
    skip: "the process does not exit by itself",
    sentence: "child processes are still running after the server has exited",
    remedy: "Before exiting, end every child: close its stdin, wait, then kill it. A package runner must close the \
             server's stdin when its own stdin is closed.",
    example: "try: … finally: child.terminate(); child.wait()",
    see: &["eof-exit", "exit-code"],
    references: &[Cwe(404, "Improper Resource Shutdown or Release")],
    places: LIVE,
    needs: &["early-exit", "mute-server", "handshake", "eof-exit"],
    ..BASE
};

pub(crate) static STDERR_HYGIENE: Check = Check {
    id: "stderr-hygiene",
    title: "stderr is readable text",
    why: "Hosts write stderr to a log file and show it to users. Escape sequences change the reader's terminal, too \
          much output hides the important line, and a protocol message on stderr never reaches the client.",
    severity: Severity::Low,
    rationale: "nothing fails; finding the cause of another failure takes longer",
    looks_at: "every line on stderr",
    pass: "every line is UTF-8 text without control characters and is not a JSON-RPC message, and a process writes at \
           most 1 MiB",
    fail: "a line is not UTF-8, contains control characters or is a message, or a process writes more than 1 MiB",
    skip: "nothing was written to stderr",
    sentence: "stderr is not readable text",
    remedy: "Disable colours when stderr is not a terminal. Write one line per entry, with a configurable level.",
    example: "new Console({ stdout: process.stderr, stderr: process.stderr, colorMode: false })",
    see: &["stdout-purity", "payload-exposure"],
    references: &[
        Mcp("2025-11-25/basic/transports#stdio"),
        Cwe(150, "Improper Neutralization of Escape, Meta, or Control Sequences"),
    ],
    ..BASE
};
