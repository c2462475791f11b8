//! A node of the cluster as a process of its own: this test program, started again.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use barewire::Server;
use barewire::peer::CallError;
use barewire::server::{AskError, Call, Elicit, Resource, TaskPolicy, Tool};
use barewire_redis::Redis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
struct Token {
    token: String,
}

#[derive(Deserialize, JsonSchema)]
struct Steps {
    token: String,
    steps: u32,
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Change {
    token: String,
    uri: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Starts a node that serves at `port`. It adds the token of each call that it runs to the file `ran`.
pub(crate) fn start(port: u16, redis: Option<&str>, ran: &Path, log: &Path) -> Child {
    let log = OpenOptions::new().create(true).append(true).open(log).expect("a log");
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "load::node::node_process", "--nocapture", "--test-threads=1"]);
    command.env("BAREWIRE_NODE", port.to_string()).env("BAREWIRE_NODE_RAN", ran);
    if let Some(redis) = redis {
        command.env("BAREWIRE_NODE_REDIS", redis);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().expect("this program starts")
}

/// Serves, if it was started as a node. At the end of stdin it drains, and then stops. So it also ends if the tests do.
#[test]
#[ignore = "a process of the other tests"]
fn node_process() {
    let Ok(port) = env::var("BAREWIRE_NODE") else { return };
    let port: u16 = port.parse().expect("a port");
    let ran = env::var_os("BAREWIRE_NODE_RAN").expect("a file");
    let ran = Arc::new(OpenOptions::new().create(true).append(true).open(ran).expect("a file"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async move {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
        let mut http = server(&ran).http().health().metrics("/metrics");
        http = http.limits({
            let mut limits = barewire::server::http::HttpLimits::default();
            // All clients of the tests have one address.
            limits.exchanges_per_sender = limits.exchanges;
            limits.session_share = limits.sessions;
            limits
        });
        if let Ok(redis) = env::var("BAREWIRE_NODE_REDIS") {
            http = http.cluster(Redis::connect(&redis).await.expect("the store is there"));
        }
        let listener = http.bind(("127.0.0.1", port)).await.expect("the port is free");
        let stop = listener.stop_handle();
        let end_of_stdin = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        let stopped = async move {
            end_of_stdin.await.expect("no panic").expect("stdin can be read");
            stop.drain();
            tokio::time::sleep(DRAIN_TIME).await;
        };
        listener.run_until(stopped).await;
    });
}

fn server(ran: &Arc<File>) -> Server {
    let run = |ran: &Arc<File>| {
        let ran = Arc::clone(ran);
        // One write of one line, which other processes cannot interrupt.
        move |token: &str| (&*ran).write_all(format!("{token}\n").as_bytes()).expect("written")
    };
    let (count_run, step_run, ask_run) = (run(ran), run(ran), run(ran));
    let (work_run, hold_run, change_run) = (run(ran), run(ran), run(ran));
    let count = move |Token { token }| {
        count_run(&token);
        async move { token }
    };
    let step = move |call: Call, Steps { token, steps, ms }| {
        step_run(&token);
        async move {
            for step in 1..=steps {
                call.progress(step, steps, None).await?;
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            Ok::<_, CallError>(token)
        }
    };
    let ask = move |call: Call, Token { token }| {
        let ask_run = ask_run.clone();
        async move {
            // In the modern era, another node opens what this one has sealed.
            call.keep("token", &token).expect("text is JSON");
            let Name { name } = call.ask("who", Elicit::form("Who are you?")).await?;
            ask_run(&token);
            Ok::<_, AskError>(format!("{token} {name}"))
        }
    };
    let work = move |Token { token }| {
        work_run(&token);
        async move {
            tokio::time::sleep(WORK_TIME).await;
            token
        }
    };
    let hold = move |call: Call, Token { token }| {
        hold_run(&token);
        async move {
            call.progress(1, 1, None).await?;
            tokio::time::sleep(HOLD_TIME).await;
            Ok::<_, CallError>(token)
        }
    };
    let server = Server::new("load", "1");
    let handle = server.handle();
    let change = move |Change { token, uri }| {
        change_run(&token);
        handle.updated(&uri);
        async move { token }
    };
    server
        // What subscriptions are about.
        .with(Resource::new("load:///", "load", || async { "loaded" }))
        .with(Tool::new("work", "Notes that it ran, and works as a task", work).task())
        .task_policy(TaskPolicy::default().ttl(TASK_TIME).max_tasks(100_000))
        .tool("hold", "Notes that it ran, and waits to be cancelled", hold)
        .tool("change", "Notes that it ran, and announces a change", change)
        .tool("echo", "Says it again", |Token { token }| async move { token })
        .tool("count", "Notes that it ran", count)
        .tool("step", "Reports its progress", step)
        .tool("ask", "Asks, then notes that it ran", ask)
}

/// The time that a balancer has to notice that the node will stop.
const DRAIN_TIME: Duration = Duration::from_millis(800);

/// The time that a task takes.
const WORK_TIME: Duration = Duration::from_millis(30);

/// The time for which tasks are kept: longer than a client waits for one.
const TASK_TIME: Duration = Duration::from_secs(300);

/// The time after which a call that was not cancelled is answered: longer than a client needs to cancel it.
const HOLD_TIME: Duration = Duration::from_secs(60);
