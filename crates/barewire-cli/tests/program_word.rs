//! Programs without a `--` before them, as they arrive from launchers that remove it.
#![cfg(unix)]

use std::fs;
use std::process::{Command, Stdio};

use crate::program_output::ProgramOutput;
use crate::tap::stage::{Folder, lines, program};

fn run(folder: &Folder, args: &[&str]) -> ProgramOutput {
    let mut command = Command::new(program());
    command.args(args).current_dir(folder.file("")).stdin(Stdio::null());
    ProgramOutput::of(command.output().expect("it runs"))
}

#[test]
fn every_verb_starts_a_program_without_a_separator() {
    let folder = Folder::new("words");
    let serve = [program(), "serve"];
    let tapped = [program(), "tap", "--record", "s.wire", program(), "serve", "--revision", "2025-06-18"];
    let called = run(&folder, &[&["call", "echo", "text=hello"], &tapped[..]].concat());
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "hello\n"), "{}", called.stderr);
    let open = format!("@ open {} serve --revision 2025-06-18", program());
    assert_eq!(lines(&folder.file("s.wire"))[0], open, "all words after the program belong to it");
    let replayed = run(&folder, &[&["replay", "s.wire", "--ignore", "/result/protocolVersion"], &serve[..]].concat());
    assert!(replayed.stderr.contains(" compared: "), "{}", replayed.stderr);
    let checked = run(&folder, &[&["check", "--quiet", "--only", "stdout-purity"], &serve[..]].concat());
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    let loaded = run(&folder, &[&["bench", "--count", "3", "--warm-up", "1ms", "--json"], &serve[..]].concat());
    assert!(loaded.code == Some(0) && loaded.stdout.contains("\"answered\":3"), "{}{}", loaded.stdout, loaded.stderr);
}

/// A file that can be executed is run only if it is a program, and a capture is read even if it can be executed.
#[test]
fn a_capture_is_read_and_a_program_is_run() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("capture-or-program");
    let executable = |name: &str, text: &str| {
        fs::write(folder.file(name), text).expect("it can be written");
        fs::set_permissions(folder.file(name), fs::Permissions::from_mode(0o755)).expect("it is ours");
    };
    executable(
        "s.wire",
        "wire 1\n> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
    );
    let passive = ["--only", "answered-once", "--json"];
    for name in ["s.wire", "./s.wire"] {
        let read = run(&folder, &[&["check", name], &passive[..]].concat());
        assert!(read.stdout.contains("s.wire"), "options after a capture are ours: {}{}", read.stdout, read.stderr);
    }
    executable("server", &format!("#!/bin/sh\ntouch started\nexec {} serve\n", program()));
    let bare = run(&folder, &["check", "server"]);
    bare.has(2, "", "barewire: server is a program, not a capture\nhint: to check it, name it by its path: barewire check ./server\n");
    assert!(!folder.file("started").exists());
    let checked = run(&folder, &["check", "--quiet", "--only", "stdout-purity", "./server", "--quiet"]);
    assert!(folder.file("started").exists(), "{}{}", checked.stdout, checked.stderr);
}
