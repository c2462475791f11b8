//! Stdin and stdout of every kind, used by a real process: this program in a second role.
#![cfg(all(target_os = "linux", feature = "tokio"))]
#![allow(clippy::unwrap_used, reason = "a test says where it fails")]

mod eventually;

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use barewire::transport::{Parts, Transport, stdio};
use eventually::{DEADLINE, eventually};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// More than any pipe or socket holds.
const LARGE_SIZE: usize = 1 << 20;

fn second(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "second_role", "--nocapture", "--test-threads=1"]).env("BAREWIRE_TEST_ROLE", role);
    command
}

/// Not a test: the process that the tests start. Does nothing in a normal run.
#[test]
fn second_role() {
    let Ok(role) = env::var("BAREWIRE_TEST_ROLE") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Stdout is replaced here, because the harness exits when it cannot write.
    let mut reading_end = None;
    if let Some(kind) = role.strip_prefix("write to a ") {
        let (writing, reading): (OwnedFd, Option<OwnedFd>) = match kind {
            "full device" => (OpenOptions::new().write(true).open("/dev/full").unwrap().into(), None),
            "pipe" | "broken pipe" => io::pipe().map(|(r, w)| (w.into(), Some(r.into()))).unwrap(),
            "socket" => UnixStream::pair().map(|(a, b)| (a.into(), Some(b.into()))).unwrap(),
            kind => panic!("no such stdout: {kind}"),
        };
        reading_end = reading.filter(|_| kind != "broken pipe");
        io::stdout().flush().unwrap();
        rustix::stdio::dup2_stdout(writing).unwrap();
    }
    runtime.block_on(async {
        let Parts { mut reader, mut writer, .. } = stdio().unwrap().into_parts();
        assert_eq!(stdio().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        writeln!(io::stdout(), "stray").unwrap();
        drop(reading_end);
        match role.as_str() {
            // Sends back its input. The harness has written half a line before.
            "echo" | "echo until seen" => {
                writer.write_all(b"\nready\n").await.unwrap();
                writer.flush().await.unwrap();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
                writer.shutdown().await.unwrap();
                drop(writer);
                if role == "echo until seen" {
                    // The test must see the end of the output before this process exits.
                    let seen = seen(process::id());
                    eventually("the end is seen", || seen.exists()).await;
                    fs::remove_file(seen).unwrap();
                }
            }
            // Prints the result of a write on stderr.
            role if role.starts_with("write to a ") => {
                let written = async {
                    for _ in 0..4 {
                        writer.write_all(&vec![b'x'; LARGE_SIZE]).await?;
                    }
                    writer.flush().await
                };
                let result = written.await.map_err(|error| error.kind());
                writeln!(io::stderr(), "result {result:?}").unwrap();
                assert!(writer.write_all(b"x").await.is_err());
            }
            // Waits for input that does not come, and exits.
            "leave" => {
                let read = tokio::time::timeout(Duration::from_millis(50), reader.read_u8()).await;
                assert!(read.is_err());
            }
            role => panic!("no such role: {role}"),
        }
    });
    drop(runtime);
    process::exit(0);
}

fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

fn read_until(mut from: impl Read, end: &str) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(end.as_bytes()) && from.read(&mut byte).unwrap() == 1 {
        text.push(byte[0]);
    }
    String::from_utf8(text).unwrap()
}

/// The file that tells the process with this id that the end of its output was seen.
fn seen(pid: u32) -> PathBuf {
    env::temp_dir().join(format!("barewire-stdio-seen-{pid}"))
}

/// Checks that many bytes are echoed, that both sides see the end, and that `theirs` was not made non-blocking.
fn echoes(
    mut child: Child,
    theirs: Vec<OwnedFd>,
    to: impl Write + Send,
    mut from: impl Read,
    close: impl FnOnce() + Send,
) {
    read_until(&mut from, "\nready\n");
    assert!(theirs.iter().all(|fd| !is_nonblocking(fd)));
    drop(theirs);
    let sent: Vec<u8> = (0..LARGE_SIZE).map(|n| b'a' + u8::try_from(n % 26).unwrap()).collect();
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut to = to;
            to.write_all(&sent).unwrap();
            drop(to);
            close();
        });
        from.read_to_end(&mut received).unwrap();
    });
    assert!(received == sent);
    assert!(child.try_wait().unwrap().is_none(), "the end was seen only when the process had exited");
    fs::write(seen(child.id()), "").unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "stray\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn pipes() {
    let (their_in, to) = io::pipe().unwrap();
    let (from, their_out) = io::pipe().unwrap();
    let theirs = vec![their_in.try_clone().unwrap().into(), their_out.try_clone().unwrap().into()];
    let child = second("echo until seen").stdin(their_in).stdout(their_out).stderr(Stdio::piped()).spawn().unwrap();
    echoes(child, theirs, to, from, || ());
}

#[test]
fn sockets() {
    let (their_in, to) = UnixStream::pair().unwrap();
    let (from, their_out) = UnixStream::pair().unwrap();
    let theirs = vec![their_in.try_clone().unwrap().into(), their_out.try_clone().unwrap().into()];
    let mut command = second("echo until seen");
    command.stdin(OwnedFd::from(their_in)).stdout(OwnedFd::from(their_out)).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    echoes(child, theirs, to, from, || ());
}

#[test]
fn one_socket_for_both() {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let mut command = second("echo until seen");
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap())).stdout(OwnedFd::from(theirs.try_clone().unwrap()));
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let (to, close) = (ours.try_clone().unwrap(), ours.try_clone().unwrap());
    echoes(child, vec![theirs.into()], to, ours, move || close.shutdown(Shutdown::Write).unwrap());
}

fn temporary(name: &str) -> (PathBuf, File) {
    let path = env::temp_dir().join(format!("barewire-stdio-{}-{name}", process::id()));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    (path, file)
}

#[test]
fn files_from_their_current_position() {
    let (in_path, mut input) = temporary("in");
    let (out_path, mut output) = temporary("out");
    input.write_all("x".repeat(LARGE_SIZE).as_bytes()).unwrap();
    io::Seek::seek(&mut input, io::SeekFrom::Start(10)).unwrap();
    output.write_all(b"before").unwrap();
    let mut command = second("echo");
    command.stdin(input.try_clone().unwrap()).stdout(output.try_clone().unwrap());
    let done = command.stderr(Stdio::piped()).output().unwrap();
    assert!(done.status.success());
    assert_eq!(done.stderr, b"stray\n");
    let text = fs::read_to_string(&out_path).unwrap();
    assert!(text.starts_with("before"));
    assert_eq!(text.split_once("\nready\n").unwrap().1, "x".repeat(LARGE_SIZE - 10));
    assert!(!is_nonblocking(input) && !is_nonblocking(output));
    fs::remove_file(in_path).unwrap();
    fs::remove_file(out_path).unwrap();
}

#[test]
fn dev_null() {
    let done = second("echo").stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    assert!(done.status.success());
    assert_eq!(done.stderr, b"stray\n");
}

/// A terminal: our end, and the end of the process.
fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    let theirs = std::os::unix::fs::OpenOptionsExt::custom_flags(OpenOptions::new().read(true).write(true), flags)
        .open(name)
        .unwrap();
    (File::from(ours), theirs)
}

#[test]
fn a_terminal() {
    // Another process may have made the terminal non-blocking, and it stays so.
    for nonblocking in [false, true] {
        let (mut ours, theirs) = terminal();
        if nonblocking {
            rustix::fs::fcntl_setfl(&theirs, rustix::fs::fcntl_getfl(&theirs).unwrap() | OFlags::NONBLOCK).unwrap();
        }
        let mut command = second("echo");
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        read_until(&mut ours, "\nready\r\n");
        ours.write_all(b"hello\n").unwrap();
        // The terminal echoes the line once, the process a second time.
        assert_eq!(read_until(&mut ours, "hello\r\n"), "hello\r\n");
        assert_eq!(read_until(&mut ours, "hello\r\n"), "hello\r\n");
        assert_eq!(is_nonblocking(&theirs), nonblocking);
        // ^D
        ours.write_all(b"\x04").unwrap();
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_pending_read_does_not_delay_the_exit() {
    let (_ours, theirs) = terminal();
    let (pipe, _held) = io::pipe().unwrap();
    for stdin in [Stdio::from(theirs), Stdio::from(pipe)] {
        let start = Instant::now();
        let done = second("leave").stdin(stdin).stdout(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(start.elapsed() < DEADLINE);
    }
}

#[test]
fn a_failed_write_is_an_error() {
    let cases = [
        ("write to a full device", "StorageFull"),
        ("write to a pipe", "BrokenPipe"),
        ("write to a broken pipe", "BrokenPipe"),
        ("write to a socket", "BrokenPipe"),
    ];
    for (role, kind) in cases {
        let done = second(role).stdin(Stdio::null()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stderr), format!("stray\nresult Err({kind})\n"));
    }
}

#[test]
fn stderr_that_is_the_same_pipe_as_stdout_gets_no_stray_lines() {
    let (mut from, pipe) = io::pipe().unwrap();
    let mut command = second("echo");
    command.stdin(Stdio::null()).stdout(pipe.try_clone().unwrap()).stderr(pipe);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\nready\n") && !text.contains("stray"), "{text:?}");
    assert!(child.wait().unwrap().success());
}
