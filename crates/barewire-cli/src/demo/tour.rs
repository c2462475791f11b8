//! Commands of this program -> the same commands, each with its output.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::output::{Output, Tone, WrittenText, wrap};
use crate::{Exit, Failure};

/// A part of the tour: its heading and its steps.
pub(super) struct Chapter {
    heading: &'static str,
    steps: &'static [Step],
}

/// A command, with a text that says what to look for in its output.
struct Step {
    about: &'static str,
    /// The words after `barewire`, separated by spaces. No word contains a space.
    command: &'static str,
    exit: Exit,
}

pub(super) const SESSION: Chapter = Chapter {
    heading: "A session: a client calls a tool, and a tap between client and server records every byte",
    steps: &[
        Step {
            about: "`call` is the client, `serve` the server, `tap` is between them. The tool asks the user for a name; \
                    --answer gives it. This is revision 2025-11-25, of the legacy era.",
            command: "call greet --answer name=Ada --revision 2025-11-25 -- barewire tap --record legacy.wire -- barewire serve",
            exit: Exit::Clean,
        },
        Step {
            about: "The recording, one line per frame: offset, seconds, direction, kind, id, method, size, and how long \
                    the response took. The session opens with a handshake. The server sends its question as a separate \
                    request (frame 7).",
            command: "read legacy.wire",
            exit: Exit::Clean,
        },
        Step {
            about: "The same call in revision 2026-07-28, of the modern era.",
            command: "call greet --answer name=Ada --revision 2026-07-28 -- barewire tap --record modern.wire -- barewire serve",
            exit: Exit::Clean,
        },
        Step {
            about: "There is no handshake; each request carries its own metadata. The question comes as a result, `input required`, \
                    and the client sends the call again with the reply.",
            command: "read modern.wire",
            exit: Exit::Clean,
        },
    ],
};

pub(super) const CHECK: Chapter = Chapter {
    heading: "A broken server: what is wrong with it, where, and how to fix it",
    steps: &[
        Step {
            about: "`check` starts the server several times, sends it good and bad messages, and looks at every response.",
            command: "check -- barewire demo broken-server",
            exit: Exit::No,
        },
        Step {
            about: "The explanation of the worst finding:",
            command: "check --explain stdout-purity",
            exit: Exit::Clean,
        },
    ],
};

/// Runs the commands of these chapters in a temporary folder, and prints each command with its output.
pub(super) fn show(chapters: &[Chapter], output: &mut Output) -> Result<Exit, Failure> {
    let program = OwnProgram::find()?;
    let folder = TemporaryFolder::create()?;
    for chapter in chapters {
        super::heading(output, chapter.heading)?;
        for step in chapter.steps {
            writeln!(output)?;
            for line in wrap(step.about, output.width().saturating_sub(2)) {
                writeln!(output, "{}", output.paint(Tone::Faint, format_args!("# {line}")))?;
            }
            writeln!(output, "{}", output.paint(Tone::Strong, format_args!("$ barewire {}", step.command)))?;
            // Flushed first, so that the user sees which command is running.
            output.flush()?;
            program.run(step, &folder.path, output)?;
        }
        writeln!(output)?;
    }
    Ok(Exit::Clean)
}

/// The path of this program, and a value for `PATH` with which the name `barewire` means this program.
struct OwnProgram {
    path: PathBuf,
    search_path: std::ffi::OsString,
}

impl OwnProgram {
    fn find() -> Result<Self, Failure> {
        let cannot =
            |why: &dyn std::fmt::Display| Failure::new(format!("the tour cannot start this program again: {why}"));
        let path = env::current_exe().map_err(|error| cannot(&error))?;
        if path.file_stem().is_none_or(|name| name != "barewire") {
            let failure = cannot(&format_args!("its file is not named barewire, but {}", path.display()));
            return Err(failure.with_hint("barewire demo grammar shows the part that needs no other command"));
        }
        let folder = path.parent().map(Path::to_owned);
        let others = env::var_os("PATH").unwrap_or_default();
        let search_path = env::join_paths(folder.into_iter().chain(env::split_paths(&others)));
        Ok(Self { search_path: search_path.map_err(|error| cannot(&error))?, path })
    }

    /// Runs one command and copies its stdout and stderr, in the order in which they were written.
    fn run(&self, step: &Step, folder: &Path, output: &mut Output) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::new(format!("cannot run barewire {}: {error}", step.command));
        let (mut printed, for_stdout) = io::pipe().map_err(failed)?;
        let for_stderr = for_stdout.try_clone().map_err(failed)?;
        let mut command = Command::new(&self.path);
        command.args(step.command.split(' ')).current_dir(folder).env("PATH", &self.search_path);
        command.env("COLUMNS", output.width().to_string()).stdin(Stdio::null()).stdout(for_stdout).stderr(for_stderr);
        if output.is_coloured() {
            command.env("CLICOLOR_FORCE", "1");
        }
        let mut child = command.spawn().map_err(failed)?;
        // The command holds the write ends of the pipe. `read_to_end` returns only after they are closed.
        drop(command);
        let mut text = Vec::new();
        let read = printed.read_to_end(&mut text);
        let status = child.wait().map_err(failed)?;
        read.map_err(failed)?;
        output.print(&WrittenText::of_this_program(text))?;
        if status.code() != Some(step.exit as i32) {
            return Err(Failure::new(format!("barewire {} ended unexpectedly: {status}", step.command)));
        }
        Ok(())
    }
}

/// A temporary folder. Dropping this value removes the folder and its contents.
struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    fn create() -> Result<Self, Failure> {
        let path = env::temp_dir().join(format!("barewire-demo-{}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(error) => Err(Failure::new(format!("cannot create the folder {}: {error}", path.display()))
                .with_hint("the tour records into a temporary folder; set TMPDIR to one that can be written to")),
        }
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // The folder has only two small captures, so it does no harm if it cannot be removed.
        let _ = fs::remove_dir_all(&self.path);
    }
}
