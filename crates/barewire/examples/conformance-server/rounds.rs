//! Tools for the modern scenarios of the suite: calls that take several rounds, because the client must answer a
//! question before there is a result.
//!
//! The handlers do not handle rounds themselves: they ask, and continue when there is an answer. The same code asks
//! legacy clients during the call.

use barewire::Server;
use barewire::mcp::ClientCapability;
use barewire::server::{Call, Elicit, Roots, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::questions::ask_model;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool("test_input_required_result_elicitation", "Asks for a name", greet)
        .tool("test_input_required_result_sampling", "Asks the model", |call: Call| async move {
            ask_model(&call, "capital_question", "What is the capital of France?", 100).await
        })
        .tool("test_input_required_result_list_roots", "Asks for the client's folders", folders)
        .tool("test_input_required_result_request_state", "Remembers something in between", remember)
        .tool("test_input_required_result_tampered_state", "Trusts what it remembers", remember)
        .tool("test_input_required_result_multiple_inputs", "Asks for three things at once", ask_together)
        .tool("test_input_required_result_multi_round", "Asks for one thing after the other", ask_in_turn)
        .tool("test_input_required_result_capabilities", "Asks what the client can be asked", ask_what_is_declared)
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(call: Call) -> Result<String, ToolError> {
    let Name { name } = call.ask("user_name", Elicit::form("What is your name?")).await?;
    Ok(format!("Hello, {name}!"))
}

async fn folders(call: Call) -> Result<String, ToolError> {
    let roots = call.ask("client_roots", Roots).await?;
    let uris: Vec<String> = roots.into_iter().map(|root| root.uri).collect();
    Ok(format!("The client works in {}", uris.join(", ")))
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: u32,
}

/// Stores a value, which is sealed, sent to the client, and sent back by the client. If the client changes the value,
/// the request is refused before this handler runs again.
async fn remember(call: Call) -> Result<String, ToolError> {
    let order = call.state("order")?.unwrap_or(Order { number: 17 });
    call.keep("order", &order)?;
    let Confirm { ok } = call.ask("confirm", Elicit::form("Please confirm")).await?;
    let confirmed = if ok { "confirmed" } else { "not confirmed" };
    Ok(format!("state-ok: order {} is {confirmed}", order.number))
}

/// Questions that are asked concurrently are sent in one round.
async fn ask_together(call: Call) -> Result<String, ToolError> {
    call.keep("asked", &3)?;
    let (name, greeting, roots) = tokio::join!(
        call.ask("user_name", Elicit::<Name>::form("What is your name?")),
        ask_model(&call, "greeting", "Generate a greeting", 50),
        call.ask("client_roots", Roots),
    );
    Ok(format!("{} {}, you work in {} folders", greeting?, name?.name, roots?.len()))
}

#[derive(Deserialize, JsonSchema)]
struct Color {
    color: String,
}

async fn ask_in_turn(call: Call) -> Result<String, ToolError> {
    call.keep("step", &1)?;
    let Name { name } = call.ask("step1", Elicit::form("Step 1: What is your name?")).await?;
    call.keep("step", &2)?;
    let Color { color } = call.ask("step2", Elicit::form("Step 2: What is your favorite color?")).await?;
    Ok(format!("{name} likes {color}"))
}

/// Asks only questions that the client has declared, because any other question would end the call.
async fn ask_what_is_declared(call: Call) -> Result<String, ToolError> {
    let client = call.client_capabilities();
    let mut answers = Vec::new();
    if client.has(ClientCapability::Sampling) {
        answers.push(ask_model(&call, "greeting", "Generate a greeting", 50).await?);
    }
    if client.has(ClientCapability::ElicitationForm) {
        let Name { name } = call.ask("user_name", Elicit::form("What is your name?")).await?;
        answers.push(name);
    }
    Ok(format!("Asked {} questions: {answers:?}", answers.len()))
}
