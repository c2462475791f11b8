//! A barewire server with tools that run as tasks, over stdio or HTTP: `barewire-interop-tasks [ADDR]`

use std::error::Error;
use std::time::Duration;

use barewire::Server;
use barewire::server::{AskError, Call, Elicit, TaskPolicy, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Deserialize, JsonSchema)]
struct Job {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn server() -> Server {
    let job = |Job { ms }| async move {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        format!("worked for {ms} ms")
    };
    let welcome = |call: Call| async move {
        let Name { name } = call.ask("who", Elicit::form("Who are you?")).await?;
        Ok::<_, AskError>(format!("Welcome, {name}!"))
    };
    Server::new("tasks", "1.0.0")
        .task_policy(TaskPolicy::default().poll_interval(Duration::from_millis(100)))
        .with(Tool::new("job", "Works for so long", job).task())
        .with(Tool::new("welcome", "Asks for a name while it works", welcome).task())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(addr) = std::env::args().nth(1) else { return Ok(server().serve_stdio().await?) };
    let listener = server().http().bind(addr.as_str()).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    listener
        .run_until(async {
            terminate.recv().await;
        })
        .await;
    Ok(())
}
