//! The server of a soak, in a process of its own, and the measures of that process.

use std::env;
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use barewire::Server;
use barewire::server::http::HttpLimits;
use barewire::server::{Call, Elicit, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

/// The measures of a server's process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measures {
    /// The resident memory in KiB.
    pub(super) resident: u64,
    /// The number of open file descriptors.
    pub(super) files: u64,
    /// The number of tokio's tasks that have not ended.
    pub(super) tasks: u64,
}

impl fmt::Display for Measures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB resident, {} file descriptors, {} tasks", self.resident, self.files, self.tasks)
    }
}

/// A running server. Each line on its stdin is answered with its measures.
pub(super) struct MeasuredServer {
    pub(super) addr: SocketAddr,
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl MeasuredServer {
    pub(super) fn start() -> Self {
        let mut again = Command::new(env::current_exe().expect("this test"));
        again.args(["--nocapture", "--quiet", "--test-threads=1", "--ignored"]).env(ROLE, "server");
        let mut process = again.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this test");
        let requests = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut server = Self { addr: SocketAddr::from(([127, 0, 0, 1], 0)), process, requests, answers };
        server.addr = server.answer().parse().expect("an address");
        server
    }

    /// Reads the next line that is not the test harness's.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.answers.read_line(&mut line).expect("a pipe"), 0, "the server has ended");
            if let Some((_, answer)) = line.split_once(PREFIX) {
                return answer.trim_end().to_owned();
            }
        }
    }

    pub(super) fn measure(&mut self) -> Measures {
        self.requests.write_all(b"\n").expect("the server runs");
        let answer = self.answer();
        let numbers: Vec<u64> = answer.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [resident, files, tasks] = numbers[..] else { panic!("three numbers: {answer}") };
        Measures { resident, files, tasks }
    }

    /// Stops the server, which must end in order.
    pub(super) fn stop(mut self) {
        drop(self.requests);
        let status = self.process.wait().expect("a process");
        assert!(status.success(), "{status}");
    }
}

/// Whether this process is to be the server.
pub(super) fn is_server() -> bool {
    env::var_os(ROLE).is_some()
}

/// Runs the server until stdin ends.
pub(super) fn run() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let server = server();
    let handle = server.handle();
    let listener = runtime.block_on(server.http().limits(limits()).every_framing().bind("127.0.0.1:0"));
    let listener = listener.expect("a port");
    let (addr, stop) = (listener.local_addr().expect("it listens"), listener.stop_handle());
    let running = runtime.spawn(listener.run());
    runtime.spawn(async move {
        // Every stream that listens gets a notification, again and again.
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            handle.add(Tool::new("sometimes", "Comes and goes", || async { "" }));
            tokio::time::sleep(Duration::from_secs(1)).await;
            handle.remove_tool("sometimes");
        }
    });
    answer(&addr.to_string());
    for line in io::stdin().lock().lines() {
        line.expect("stdin");
        let tasks = runtime.metrics().num_alive_tasks();
        answer(&format!("{} {} {tasks}", resident(), fs::read_dir("/proc/self/fd").expect("it is Linux").count()));
    }
    stop.stop();
    runtime.block_on(running).expect("no panic");
}

fn answer(text: &str) {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{PREFIX}{text}").and_then(|()| stdout.flush()).expect("the client reads");
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Returns limits with which a session that is left expires soon, so that the load reaches a steady state in minutes.
fn limits() -> HttpLimits {
    let mut limits = HttpLimits::default();
    (limits.session_idle, limits.session_silent) = (SESSION_IDLE, SESSION_IDLE / 4);
    (limits.head_timeout, limits.body_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
    limits.keep_alive = Duration::from_secs(1);
    limits
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn server() -> Server {
    Server::new("soak", "1")
        .tool("echo", "Says it back", |Text { text }| async move { text })
        .tool("report", "Reports progress", |call: Call, Text { text }| async move {
            for step in 1..=3 {
                call.progress(step, None, None).await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, barewire::peer::CallError>(text)
        })
        .tool("slow", "Takes two seconds", |Text { text }| async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            text
        })
        .tool("wait", "Waits for ever", |Text { text }| async move {
            std::future::pending::<()>().await;
            text
        })
        .tool("ask", "Asks who it is", |call: Call| async move {
            let Name { name } = call.ask("who", Elicit::form("Who are you?")).await?;
            Ok::<_, barewire::server::AskError>(name)
        })
}

/// The time after which a session that is not used ends.
pub(super) const SESSION_IDLE: Duration = Duration::from_secs(20);

const ROLE: &str = "BAREWIRE_SOAK_ROLE";

/// The beginning of the server's own lines.
const PREFIX: &str = "soak-server: ";
