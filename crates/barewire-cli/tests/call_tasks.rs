//! `barewire call` and tasks: their status, `--detach`, and `call task ID`, with a server over HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use barewire::Server;
use barewire::server::{Call, TaskPolicy, Tool, ToolError};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::eventually::eventually;
use crate::program_output::ProgramOutput;

/// A server with a tool that runs as a task until it is released.
struct TaskServer {
    url: String,
    release: Arc<Notify>,
    running: Arc<AtomicUsize>,
    _runtime: Runtime,
}

/// Counts a running handler until it is dropped.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TaskServer {
    fn start() -> Self {
        let (release, running) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (released, count) = (Arc::clone(&release), Arc::clone(&running));
        let report = move |call: Call| {
            let (released, count) = (Arc::clone(&released), Arc::clone(&count));
            async move {
                count.fetch_add(1, Ordering::SeqCst);
                let _running = Running(count);
                call.progress(3, 12, "reading \u{7}").await?;
                released.notified().await;
                Ok::<_, ToolError>("the report")
            }
        };
        let server = Server::new("tasks", "1.0")
            .task_policy(TaskPolicy::default().poll_interval(Duration::from_millis(20)))
            .tool("quick", "Is no task", || async { "quick" })
            .with(Tool::new("report", "Writes a report", report).task());
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(server.http().bind("127.0.0.1:0")).expect("bound");
        let url = listener.url();
        runtime.spawn(listener.run());
        Self { url, release, running, _runtime: runtime }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
        command.arg("call").args(words).args(["--url", &self.url]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn call(&self, words: &[&str]) -> ProgramOutput {
        ProgramOutput::of(self.command(words).output().expect("it runs"))
    }

    fn wait_until_running(&self, count: usize) {
        eventually("so many handlers run", || self.running.load(Ordering::SeqCst) == count);
    }
}

#[test]
fn a_task_is_detached_and_its_result_fetched_by_its_id() {
    for revision in [&[][..], &["--revision", "2026-07-28"]] {
        let server = TaskServer::start();
        let detached = server.call(&[&["report", "--detach"], revision].concat());
        assert_eq!((detached.code, detached.stderr.as_str()), (Some(0), ""), "{detached:?}");
        let id = detached.stdout.trim();
        assert!(id.len() >= 22 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        server.wait_until_running(1);
        let waiting = server.command(&["task", id]).spawn().expect("it runs");
        server.release.notify_one();
        let done = ProgramOutput::of(waiting.wait_with_output().expect("it ends"));
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "the report\n"), "{done:?}");
    }
}

#[test]
fn a_call_shows_the_status_of_its_task() {
    let server = TaskServer::start();
    let mut call = server.command(&["report"]).spawn().expect("it runs");
    let mut stderr = BufReader::new(call.stderr.take().expect("piped")).lines().map(|line| line.expect("UTF-8"));
    // The task ends only after its status was shown.
    stderr.find(|line| line.contains(r"task working: reading \x07 (3/12)")).expect("the status");
    server.release.notify_one();
    let done = ProgramOutput::of(call.wait_with_output().expect("it ends"));
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "the report\n"), "{done:?}");
}

#[test]
fn detach_prints_json_and_a_result_without_a_task() {
    let server = TaskServer::start();
    let detached = server.call(&["report", "--detach", "--json"]);
    let json: Value = serde_json::from_str(&detached.stdout).expect("JSON");
    assert_eq!((&json["kind"], json["task"]["taskId"].is_string()), (&"task".into(), true), "{json}");
    let direct = server.call(&["quick", "--detach"]);
    assert_eq!((direct.code, direct.stdout.as_str()), (Some(0), "quick\n"));
    assert!(direct.stderr.contains("does not run this call as a task"), "{}", direct.stderr);
    let list = server.call(&["tools", "--detach"]);
    assert_eq!(list.code, Some(2), "{list:?}");
}

#[test]
fn a_call_that_takes_too_long_cancels_its_task_and_a_wait_does_not() {
    let server = TaskServer::start();
    let late = server.call(&["report", "--timeout", "2s"]);
    assert_eq!(late.code, Some(2), "{late:?}");
    server.wait_until_running(0);
    let detached = server.call(&["report", "--detach"]);
    let id = detached.stdout.trim();
    let late = server.call(&["task", id, "--timeout", "1s"]);
    assert_eq!(late.code, Some(2), "{late:?}");
    server.wait_until_running(1);
    server.release.notify_one();
    assert_eq!(server.call(&["task", id]).stdout, "the report\n");
}

#[test]
fn an_unknown_task_is_an_error() {
    let server = TaskServer::start();
    let unknown = server.call(&["task", "unknown"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.stderr.contains("no such task"), "{}", unknown.stderr);
    let without = server.call(&["task"]);
    assert_eq!(without.code, Some(2), "{without:?}");
}
