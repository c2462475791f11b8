//! Listeners and connections over Unix sockets and TCP.
#![cfg(all(unix, feature = "tokio"))]
#![allow(clippy::unwrap_used, reason = "a test says where it fails")]

mod eventually;

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use barewire::transport::{Framing, Parts, Transport, tcp, unix};
use eventually::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A directory that is removed after the test.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("barewire-socket-{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn names(&self) -> Vec<String> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Checks that both directions work, and that each side sees the end of the other.
async fn check_connected(one: impl Transport, other: impl Transport) {
    let (mut one, mut other) = (one.into_parts(), other.into_parts());
    // Any program can open the accepted side.
    assert_eq!((one.open_to_all, one.opened_by_us), (false, true));
    assert_eq!((other.open_to_all, other.opened_by_us), (true, false));
    assert!(one.exit.is_none());
    one.writer.write_all(b"there").await.unwrap();
    drop(one.writer);
    let mut text = String::new();
    other.reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "there");
    other.writer.write_all(b"back").await.unwrap();
    drop(other.writer);
    text.clear();
    one.reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "back");
}

#[tokio::test]
async fn a_unix_socket_is_private_and_is_removed_with_its_listener() {
    let dir = TempDir::new();
    let path = dir.0.join("s.sock");
    let listener = unix::listen(&path).await.unwrap().framing(Framing::ContentLength);
    assert_eq!(listener.path(), path);
    let metadata = fs::symlink_metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(dir.names(), ["s.sock"]);

    let (client, server) = tokio::join!(unix::connect(&path), listener.accept());
    check_connected(client.unwrap(), server).await;
    let (_client, server) = tokio::join!(unix::connect(&path), listener.accept());
    assert_eq!(server.into_parts().framing, Framing::ContentLength);

    drop(listener);
    assert_eq!(dir.names(), [""; 0]);
}

#[tokio::test]
async fn an_existing_file_is_replaced_only_if_it_is_a_stale_socket() {
    let dir = TempDir::new();
    let path = dir.0.join("s.sock");

    let first = unix::listen(&path).await.unwrap();
    let error = unix::listen(&path).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().ends_with("s.sock is in use: another process listens on it"), "{error}");
    // The failed listen connected to the socket to see whether it is in use.
    drop(first.accept().await);
    let (client, server) = tokio::join!(unix::connect(&path), first.accept());
    check_connected(client.unwrap(), server).await;

    // The listener does not remove a file that was moved away.
    let moved = dir.0.join("moved");
    fs::rename(&path, &moved).unwrap();
    let second = unix::listen(&path).await.unwrap();
    drop(first);
    assert!(path.exists() && moved.exists());
    drop(second);

    // A stale socket file.
    fs::rename(&moved, &path).unwrap();
    // A process that another test is just starting has a copy of the first listener until it runs its program.
    eventually("no process listens on the first socket", || UnixStream::connect(&path).is_err()).await;
    let third = unix::listen(&path).await.unwrap();
    let (client, server) = tokio::join!(unix::connect(&path), third.accept());
    check_connected(client.unwrap(), server).await;
    drop(third);

    fs::write(&path, "precious").unwrap();
    let error = unix::listen(&path).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("exists and is not a socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(dir.names(), ["s.sock"]);

    assert_eq!(unix::listen(dir.0.join("no/s")).await.unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn of_many_listeners_that_start_at_once_one_succeeds() {
    let dir = TempDir::new();
    let path = dir.0.join("s.sock");
    // A stale socket file, so that all of them try to replace it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let starts: Vec<_> = (0..16)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let listener = runtime.block_on(unix::listen(path)).ok();
                (runtime, listener)
            })
        })
        .collect();
    let started: Vec<_> = starts.into_iter().map(|start| start.join().unwrap()).collect();
    assert_eq!(started.iter().filter(|(_, listener)| listener.is_some()).count(), 1);
    assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    assert_eq!(dir.names(), ["s.sock"]);
}

#[tokio::test]
async fn tcp_stays_on_loopback_unless_asked_otherwise() {
    for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = tcp::listen(addr).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("listen_beyond_loopback"), "{error}");
    }
    tcp::listen_beyond_loopback("0.0.0.0:0").await.unwrap();

    for addr in ["127.0.0.1:0", "localhost:0"] {
        let listener = tcp::listen(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(tcp::connect(addr), listener.accept());
        check_connected(client.unwrap(), server).await;
    }
}

#[tokio::test]
async fn tcp_sends_without_delay() {
    let listener = tcp::listen("127.0.0.1:0").await.unwrap();
    let (client, server) = tokio::join!(tcp::connect(listener.local_addr().unwrap()), listener.accept());
    for Parts { reader, .. } in [client.unwrap().into_parts(), server.into_parts()] {
        assert!(AsRef::<tokio::net::TcpStream>::as_ref(&reader).nodelay().unwrap());
    }
}

#[test]
fn accepting_survives_a_shortage_of_file_descriptors() {
    const ROLE: &str = "BAREWIRE_TEST_SHORTAGE";
    if env::var_os(ROLE).is_none() {
        // In its own process, with its own limit.
        let this = "accepting_survives_a_shortage_of_file_descriptors";
        let script = r#"ulimit -n 40; exec "$0" --exact "$1" --nocapture"#;
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(env::current_exe().unwrap()).arg(this).env(ROLE, "");
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
        return;
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let dir = TempDir::new();
        let path = dir.0.join("s.sock");
        let listener = unix::listen(&path).await.unwrap();
        let client = unix::connect(&path).await.unwrap();
        let mut files = Vec::new();
        while let Ok(file) = fs::File::open("/dev/null") {
            files.push(file);
        }
        let wait = Duration::from_millis(200);
        assert!(tokio::time::timeout(wait, listener.accept()).await.is_err());
        drop(files);
        check_connected(client, listener.accept().await).await;
    });
}
