//! Another user of the machine: a process with another user id, which root can start.
#![cfg(target_os = "linux")]

use std::env;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::page::{Page, with_runtime};
use crate::eventually::eventually;
use crate::tap::stage::{Folder, barewire, tap};

/// The user and the group `nobody`. Neither owns anything here.
const NOBODY: u32 = 65_534;
const SOCKET: &str = "BAREWIRE_TEST_SOCKET";
const PAGE: &str = "BAREWIRE_TEST_PAGE";

/// Whether this process may start others as another user.
#[expect(clippy::print_stdout, reason = "a test that does nothing says so")]
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can start a process of another user");
    }
    is_root
}

/// A copy of these tests where every user may run it. Another program copies it: while this one had the copy open,
/// processes that other tests start would have it open too, and an open file that can be written cannot be run.
fn program(folder: &Folder) -> PathBuf {
    let path = folder.file("program");
    let copied = Command::new("cp").arg(env::current_exe().expect("a path")).arg(&path).status();
    assert!(copied.expect("it runs").success());
    fs::set_permissions(folder.file(""), Permissions::from_mode(0o755)).expect("it is ours");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it is ours");
    path
}

/// Runs one of the tests below in a process of a user, and returns its output; an error if it fails.
fn run_as(user: u32, program: &Path, test: &str, (name, value): (&str, &str)) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(["--exact", &format!("view_live::other_user::{test}"), "--ignored", "--nocapture"]);
    command.env_clear().env(name, value).current_dir("/").stdin(Stdio::null());
    if user != 0 {
        command.uid(user).gid(user);
    }
    let output = command.output().expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.contains("running 1 test"), "{text}");
    if output.status.success() { Ok(text) } else { Err(text) }
}

#[test]
fn another_user_cannot_connect_to_a_tap() {
    if !is_root() {
        return;
    }
    let (runtime, shared) = (Folder::new("view-user-tap"), Folder::new("view-user-program"));
    let program = program(&shared);
    let mut tapped = with_runtime(&mut tap(&[] as &[&str], &["cat"]), &runtime).spawn().expect("it starts");
    let taps = runtime.file("barewire/taps");
    let socket = || {
        let entries = fs::read_dir(&taps).into_iter().flatten().map(|entry| entry.expect("an entry").path());
        entries.into_iter().find(|path| !path.file_name().expect("a name").as_encoded_bytes().starts_with(b"."))
    };
    eventually("it is announced", || socket().is_some());
    let socket = socket().expect("it is there").to_str().expect("UTF-8").to_owned();
    let connect = |user| run_as(user, &program, "connects_to_the_socket", (SOCKET, &socket));
    // The owner can, so what follows is because of the user.
    let own = connect(0);
    let by_folder = connect(NOBODY);
    // Even if every folder above it were open, the socket is not.
    for folder in [runtime.file(""), runtime.file("barewire"), taps.clone()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("it is ours");
    }
    let by_socket = connect(NOBODY);
    drop(tapped.stdin.take());
    tapped.wait().expect("it ends");
    assert!(own.is_ok(), "{own:?}");
    for refused in [by_folder, by_socket] {
        let why = refused.expect_err("the other user is connected");
        assert!(why.contains("PermissionDenied"), "{why}");
    }
}

#[test]
#[ignore = "runs in a process of another user"]
fn connects_to_the_socket() {
    let socket = env::var(SOCKET).expect("the path of a socket");
    let mut first = [0; 1];
    let mut stream = UnixStream::connect(socket).expect("a connection");
    // A tap says who it is.
    stream.read_exact(&mut first).expect("a byte");
    assert_eq!(&first, b"{");
}

#[test]
fn another_user_gets_nothing_from_a_page() {
    if !is_root() {
        return;
    }
    let (runtime, shared) = (Folder::new("view-user-page"), Folder::new("view-user-asks"));
    let program = program(&shared);
    let mut command = barewire();
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/files/session.wire");
    command.args(["view", "--no-open"]).arg(capture).stdin(Stdio::null());
    let (page, url) = Page::with_url(with_runtime(&mut command, &runtime));
    let token = url.split_once("#token=").expect("a token").1;
    let asked = run_as(NOBODY, &program, "asks_without_a_token", (PAGE, page.address()));
    assert!(asked.is_ok(), "{asked:?}");
    // What every user sees of a process.
    let command_line = fs::read(format!("/proc/{}/cmdline", page.process.id())).expect("it runs");
    assert!(!String::from_utf8_lossy(&command_line).contains(token));
    // The page is still its owner's.
    assert_eq!(page.get("sources")["sources"][0]["kind"], "file");
}

#[test]
#[ignore = "runs in a process of another user"]
fn asks_without_a_token() {
    let address = env::var(PAGE).expect("an address");
    assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
    let ask = |line: &str, headers: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("UTF-8");
        answer
    };
    let status = |answer: &str| answer.split(' ').nth(1).map(str::to_owned);
    let port = address.rsplit(':').next().unwrap_or_default();
    let cookie = format!("cookie: barewire-view-{port}=0\r\n");
    let origin = format!("origin: http://{address}\r\ncontent-type: application/json\r\n");
    for (line, headers, body, expected) in [
        ("GET /api/sources", "", "", "401"),
        ("GET /api/events", "", "", "401"),
        ("GET /api/s/1/rows", cookie.as_str(), "", "401"),
        ("GET /api/s/1/export/wire", "", "", "401"),
        ("POST /api/enter", origin.as_str(), "{\"token\":\"0\"}", "403"),
    ] {
        let answer = ask(line, headers, body);
        assert_eq!(status(&answer).as_deref(), Some(expected), "{line}: {answer}");
        assert!(!answer.contains("initialize") && !answer.contains("set-cookie"), "{answer}");
    }
}
