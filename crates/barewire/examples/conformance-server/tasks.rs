//! Tools for the scenarios of the suite about tasks: the extension io.modelcontextprotocol/tasks.
//!
//! The handlers do not know whether they run as a task: they sleep, ask and fail as in any other call.

use std::time::Duration;

use barewire::Server;
use barewire::server::{Call, Elicit, ProtocolError, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool("greet", "Greets by name, at once", |Name { name }| async move { format!("Hello, {name}!") })
        .with(Tool::new("slow_compute", "Takes so many seconds", slow_compute).task())
        .with(Tool::new("failing_job", "Fails after a second", failing_job).only_as_task())
        .with(Tool::new("protocol_error_job", "Ends with an error of the protocol", protocol_error_job).task())
        .with(Tool::new("confirm_delete", "Asks for a confirmation", confirm_delete).task())
        .with(Tool::new("multi_input", "Asks for two things at once", multi_input).task())
        .with(
            Tool::new("test_tool_with_task", "Asks first, and is a task then", ask_first)
                .only_as_task()
                .ask_before_task(),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirm: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// How long it takes
    seconds: f64,
    label: Option<String>,
}

async fn slow_compute(Compute { seconds, label }: Compute) -> Result<String, ToolError> {
    let time = Duration::try_from_secs_f64(seconds)?;
    tokio::time::sleep(time).await;
    Ok(format!("{} took {seconds} seconds", label.unwrap_or_else(|| "It".into())))
}

async fn failing_job() -> Result<(), &'static str> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err("the job has failed")
}

async fn protocol_error_job() -> Result<(), ProtocolError> {
    Err(ProtocolError::application(7, "the job cannot be done").expect("a free code"))
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    filename: String,
}

async fn confirm_delete(call: Call, Delete { filename }: Delete) -> Result<String, ToolError> {
    let question = Elicit::<Confirm>::form(format!("Delete {filename}?"));
    let Confirm { confirm } = call.ask("confirm", question).await?;
    Ok(if confirm { format!("{filename} is deleted") } else { format!("{filename} is kept") })
}

async fn multi_input(call: Call) -> Result<String, ToolError> {
    let (name, confirm) = tokio::join!(
        call.ask("name", Elicit::<Name>::form("What is your name?")),
        call.ask("confirm", Elicit::<Confirm>::form("Are you sure?")),
    );
    Ok(format!("{} is sure: {}", name?.name, confirm?.confirm))
}

async fn ask_first(call: Call) -> Result<String, ToolError> {
    let Name { name } = call.ask("user_name", Elicit::form("What is your name?")).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(format!("Hello, {name}, after a task"))
}
