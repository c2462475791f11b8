//! Half-closed connections.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use barewire::peer::{CallError, Connection, Context, EndReason, Methods, Raw};
use barewire::transport::{Child, Stderr, Transport, tcp, unix};
use tokio::sync::Notify;

use super::eventually::eventually_blocking;
use super::process::{Program, cpu_over, example, lines, members, until_gone};
use super::wire::{AnsweredIds, request};
use super::{echo, threads, within_deadline, yielding};

const SECOND: Duration = Duration::from_secs(1);
/// The CPU time of an idle process in a second is less. A process that spins uses all of it.
const IDLE_CPU_LIMIT: Duration = Duration::from_millis(200);

#[test]
fn a_peer_that_has_closed_its_stdin_gets_all_answers_and_a_clean_exit() {
    for mut program in [Program::echo(), Program::role("yields"), Program::role("yields on threads")] {
        let mut stdin = program.stdin.take().expect("piped");
        let asking =
            thread::spawn(move || (0..1000).for_each(|id| stdin.write_all(&request(id, 64)).expect("it reads")));
        let mut answered = AnsweredIds::default();
        for line in lines(program.stdout.take().expect("piped")) {
            answered.add(&line.expect("it writes"));
        }
        asking.join().expect("no panic");
        answered.assert_complete(1000);
        assert_eq!(program.ends().code(), Some(0));
    }
}

#[test]
fn a_process_whose_stdout_is_closed_idles_and_ends_with_an_error_when_it_writes() {
    for mut program in [Program::echo(), Program::role("yields")] {
        let mut stdin = program.stdin.take().expect("piped");
        stdin.write_all(&request(0, 64)).expect("it reads");
        assert!(program.line().contains("\"result\""));
        drop(program.stdout.take());
        let computed = cpu_over(program.pid(), SECOND);
        assert!(computed < IDLE_CPU_LIMIT, "{computed:?} while idle");
        stdin.write_all(&request(1, 64)).expect("it reads");
        assert_eq!(program.ends().code(), Some(1), "stdin is open all the while");
    }
}

#[test]
fn a_full_disk_ends_it_with_an_error() {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut child =
        Command::new(example("echo")).stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().expect("built");
    let mut stdin = child.stdin.take().expect("piped");
    let quiet = cpu_over(child.id(), SECOND);
    assert!(quiet < IDLE_CPU_LIMIT, "{quiet:?} before anything is written");
    stdin.write_all(&request(0, 64)).expect("it reads");
    eventually_blocking("it ends without a disk", || child.try_wait().expect("ours").is_some());
    assert_eq!(child.wait().expect("ours").code(), Some(1));
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
    assert!(said.contains("No space left on device"), "{said}");
}

/// Sends requests over a socket whose writing half is then shut down, and reads to the end.
async fn over_socket<S>(transport: impl Transport, methods: Methods, mut socket: S, shutdown: fn(&S) -> io::Result<()>)
where
    S: Read + Write + Send + 'static,
{
    let running = tokio::spawn(Connection::new(transport).methods(methods).run());
    let asking = tokio::task::spawn_blocking(move || {
        let all: Vec<u8> = (0..500).flat_map(|id| request(id, 64)).collect();
        socket.write_all(&all).expect("it reads");
        shutdown(&socket).expect("connected");
        let mut answered = AnsweredIds::default();
        for line in lines(socket) {
            answered.add(&line.expect("it writes"));
        }
        answered.assert_complete(500);
    });
    within_deadline("the answers", asking).await.expect("no panic");
    within_deadline("the end", running).await.expect("no panic").expect("a clean end");
}

#[test]
fn a_socket_shut_down_for_writing_still_gets_all_answers() {
    threads().block_on(async {
        let port = tcp::listen("127.0.0.1:0").await.expect("a free port");
        let addr = port.local_addr().expect("bound");
        let path = std::env::temp_dir().join(format!("barewire-write-{}", std::process::id()));
        let local = unix::listen(&path).await.expect("free");
        for methods in [echo, yielding] {
            let socket = TcpStream::connect(addr).expect("it listens");
            let shut = |socket: &TcpStream| socket.shutdown(Shutdown::Write);
            over_socket(port.accept().await, methods(), socket, shut).await;
            let socket = UnixStream::connect(&path).expect("it listens");
            let shut = |socket: &UnixStream| socket.shutdown(Shutdown::Write);
            over_socket(local.accept().await, methods(), socket, shut).await;
        }
    });
}

#[tokio::test]
async fn a_socket_shut_down_for_reading_ends_the_connection_when_it_is_written_to() {
    let path = std::env::temp_dir().join(format!("barewire-half-{}", std::process::id()));
    let listener = unix::listen(&path).await.expect("free");
    let mut there = UnixStream::connect(&path).expect("it listens");
    let here = listener.accept().await;
    there.shutdown(Shutdown::Read).expect("connected");
    let running = tokio::spawn(Connection::new(here).methods(echo()).run());
    there.write_all(&request(0, 64)).expect("it reads");
    let error = within_deadline("the end", running).await.expect("no panic").expect_err("the peer does not read");
    let ended = error.connection_end().expect("the reason");
    assert!(matches!(ended.reason(), EndReason::Write(error) if error.kind() == io::ErrorKind::BrokenPipe), "{ended}");
}

fn sh(script: &str) -> Child {
    // Long enough for a signal to be seen on a busy machine.
    let grace = 5 * SECOND;
    Child::new("sh").args(["-c", script]).stderr(Stderr::discard()).grace(grace)
}

#[tokio::test]
async fn a_child_that_closes_its_stdout_and_stays_fails_the_calls_and_is_ended() {
    let process = sh("read line; exec 1>&-; while :; do sleep 1; done").spawn().expect("sh");
    let pid = process.pid();
    let peer = Connection::new(process).spawn();
    let error = within_deadline("the call", peer.call::<Raw>("ask", ()).into_future()).await.expect_err("no stdout");
    assert!(matches!(&error, CallError::Closed(closed) if matches!(closed.reason(), EndReason::Eof)), "{error}");
    within_deadline("the end", peer.closed()).await.expect("we have ended it after it closed its stdout");
    let exit = peer.end().expect("it is over").exit().cloned().expect("a child");
    assert!(exit.by_us && exit.signal == Some(15), "{exit}");
    until_gone(|| members(pid));
}

#[tokio::test]
async fn a_child_that_closes_its_stdin_and_goes_on_writing_fails_the_calls_and_is_ended() {
    let script = r#"exec 0<&-; while :; do echo '{"jsonrpc":"2.0","id":1,"method":"m"}'; sleep 0.02; done"#;
    let process = sh(script).spawn().expect("sh");
    let pid = process.pid();
    let asked = Arc::new(Notify::new());
    let asks = Arc::clone(&asked);
    let methods = Methods::new().on("m", move |_: Context, (): ()| {
        asks.notify_one();
        async { Ok(()) }
    });
    let peer = Connection::new(process).methods(methods).grace(Duration::from_millis(500)).spawn();
    // It sends a request only after it has closed its stdin.
    within_deadline("a request", asked.notified()).await;
    let error = within_deadline("the call", peer.call::<Raw>("ask", ()).into_future()).await.expect_err("no stdin");
    let CallError::Closed(closed) = error else { panic!("{error}") };
    assert!(matches!(closed.reason(), EndReason::Write(_)), "{closed:?}");
    until_gone(|| members(pid));
}

/// All bytes are sent and read one by one.
#[test]
fn a_peer_that_sends_and_takes_one_byte_at_a_time_is_served() {
    for mut program in [Program::echo(), Program::role("yields")] {
        let mut stdin = program.stdin.take().expect("piped");
        let mut stdout = program.stdout.take().expect("piped").into_inner();
        let sending = thread::spawn(move || {
            for id in 0..50 {
                for byte in request(id, 64) {
                    stdin.write_all(&[byte]).expect("it reads");
                }
            }
            // Then more bytes than a pipe holds, so that the answers have to wait for the reader.
            (50..60).for_each(|id| stdin.write_all(&request(id, 30_000)).expect("it reads"));
        });
        let (mut answered, mut line, mut byte) = (AnsweredIds::default(), Vec::new(), [0]);
        while stdout.read(&mut byte).expect("it writes") == 1 {
            match byte[0] {
                b'\n' => answered.add(&std::mem::take(&mut line)),
                byte => line.push(byte),
            }
        }
        sending.join().expect("no panic");
        answered.assert_complete(60);
        assert_eq!(program.ends().code(), Some(0));
    }
}

/// A program whose stdin is closed may write more before it exits, and must not fail because of that.
#[tokio::test]
async fn a_child_can_write_until_it_ends() {
    let script = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":1}'; cat >/dev/null
        n=0; while [ $n -lt 3000 ]; do printf '{"jsonrpc":"2.0","method":"bye","params":[%d]}\n' $n || exit 9; n=$((n+1)); done
        exit 4"#;
    let child = Child::new("sh").args(["-c", script]).stderr(Stderr::discard());
    let peer = Connection::new(child.spawn().expect("sh")).spawn();
    assert_eq!(within_deadline("the answer", peer.call::<u8>("m", ()).into_future()).await.expect("answered"), 1);
    within_deadline("the end", peer.shutdown()).await.expect("we have shut it down");
    let end = peer.end().expect("it is over");
    let exit = end.exit().expect("it was ours");
    assert_eq!((exit.code, exit.by_us), (Some(4), false), "{exit}");
}
