//! The tour: every part runs by itself, in a pipe, and leaves nothing behind.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::program_output::without_slowness;

fn barewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(without_slowness(&String::from_utf8_lossy(&output.stderr)), "");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// A folder for temporary files of the program, so that a test can look at what is left in it.
fn temporary(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("barewire-demo-test-{name}-{}", std::process::id()));
    fs::create_dir(&folder).expect("a new folder");
    folder
}

#[test]
fn the_tour_shows_both_eras_a_broken_server_and_all_five_codes() {
    let folder = temporary("tour");
    let output = barewire().arg("demo").env("TMPDIR", &folder).stdin(Stdio::null()).output().expect("it runs");
    let text = stdout(&output);
    let left: Vec<_> = fs::read_dir(&folder).expect("the folder is still there").collect();
    fs::remove_dir_all(&folder).expect("it can be removed");
    assert!(left.is_empty(), "{left:?}");
    for shown in [
        // Both calls give the tool's result, the handshake is legacy, the round of input is modern.
        "\nHello, Ada!\n",
        " request       1           initialize ",
        " request       1           elicitation/create ",
        " request       1           server/discover ",
        "input required",
        "\n9 frames, all well formed\n",
        "\n8 frames, all well formed\n",
        // Both faults of the server, and no other.
        "FAIL  stdout-purity (critical, MUST)",
        "| Weather server listening on stdio...",
        "FAIL  output-schema (high, MUST)",
        " 2 failed (1 critical, 1 high)",
        "$ barewire check --explain stdout-purity\nstdout-purity: ",
        r#""code":-32700"#,
        r#""code":-32600"#,
        r#""code":-32601"#,
        r#""code":-32602"#,
        r#""code":-32603"#,
    ] {
        assert!(text.contains(shown), "{shown} is not in:\n{text}");
    }
    assert_eq!(text.matches("\nHello, Ada!\n").count(), 2, "{text}");
    assert_eq!(text.matches("\nFAIL  ").count(), 2, "{text}");
    let (_, next) = text.rsplit_once("\nNext:\n").expect("it ends with what to type next");
    assert!(next.lines().all(|line| line.starts_with("  barewire ")), "{next}");
    assert!(!text.contains('\x1b'), "a pipe gets no colours");
}

#[test]
fn a_part_is_shown_by_itself() {
    let session = stdout(&barewire().args(["demo", "session"]).output().expect("it runs"));
    assert!(session.contains("$ barewire read modern.wire\n") && !session.contains("FAIL"), "{session}");
    let check = stdout(&barewire().args(["demo", "check"]).output().expect("it runs"));
    assert!(check.contains("FAIL  stdout-purity") && !check.contains("Hello, Ada!"), "{check}");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_tour() {
    let mut child = barewire().arg("demo").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let stderr = without_slowness(&String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
}

#[test]
fn a_temporary_folder_that_cannot_be_used_is_an_error_with_a_hint() {
    let output = barewire().args(["demo", "session"]).env("TMPDIR", "/nonexistent").output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("barewire: cannot create the folder /nonexistent/") && stderr.contains("\nhint: "),
        "{stderr}"
    );
}
