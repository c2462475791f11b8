//! The client that the official conformance suite runs: it connects to the server at the URL it is given, and does there what
//! the scenario asks for. `interop/conformance/run` runs it.
//!
//! ```text
//! MCP_CONFORMANCE_SCENARIO=tools_call conformance-client http://localhost:8808/mcp
//! ```
//!
//! The suite watches the wire, so there is nothing to print: it says something only if it fails.

use barewire::client::{Builder, accept};
use barewire::mcp::{Era, Revision, Root};
use barewire::{Client, Failure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let url = std::env::args().next_back().filter(|it| it.starts_with("http")).ok_or("which URL?")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let client = builder(&scenario)?.http(url).await?;
    run(&client, &scenario).await?;
    Ok(client.shutdown().await?)
}

/// A client that can be asked everything, and that speaks what the scenario is about.
fn builder(scenario: &str) -> Result<Builder, Box<dyn std::error::Error>> {
    let builder = Client::builder("conformance-client", env!("CARGO_PKG_VERSION"))
        .roots([Root::new("file:///home/me/project")])
        // A model would be asked here.
        .on_sample(|_| async { Err(Failure::internal("Model", "there is no model")) })
        // A person would fill in the form here. What they leave out gets the default of the form, if it has one.
        .on_elicit(|_| async { Ok(accept(json!({}))?) });
    let revision = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok();
    let revision = revision.map(|it| Revision::parse(&it).ok_or(format!("{it} is no revision"))).transpose()?;
    Ok(match revision {
        // Its server says 2025-03-26 whatever it is offered.
        Some(_) if scenario == "sse-retry" => builder.era(Era::Legacy),
        // A legacy server is spared the question whether it is a modern one.
        Some(revision) if revision.era() == Era::Legacy => builder.revision(revision),
        // Whether it is a modern one is found out.
        _ => builder,
    })
}

/// What the scenario asks for.
async fn run(client: &Client, scenario: &str) -> Outcome {
    match scenario {
        // To have connected is all.
        "initialize" => {}
        "tools_call" => call(client, "add_numbers", json!({ "a": 5, "b": 3 })).await?,
        "elicitation-sep1034-client-defaults" => {
            call(client, "test_client_elicitation_defaults", json!({})).await?;
        }
        "sse-retry" => call(client, "test_reconnection", json!({})).await?,
        "request-metadata" => drop(client.discover().await?),
        "sep-2322-client-request-state" => {
            // Side by side: what belongs to one call must not turn up in another.
            tokio::try_join!(
                call(client, "test_mrtr_echo_state", json!({})),
                call(client, "test_mrtr_no_state", json!({})),
                call(client, "test_mrtr_unrelated", json!({})),
                call(client, "test_mrtr_no_result_type", json!({})),
            )?;
        }
        "http-custom-headers" => {
            // The schemas say which arguments go into headers; without them in hand the client would fetch them.
            client.list_tools().await?;
            for ToolCall { name, arguments } in context()?.tool_calls {
                call(client, &name, arguments).await?;
            }
        }
        "json-schema-2020-12-preservation" => give_back_schema(client).await?,
        "json-schema-ref-no-deref" => drop(client.list_tools().await?),
        _ => try_everything(client).await?,
    }
    Ok(())
}

/// Calls a tool. That it failed is no failure of ours.
async fn call(client: &Client, name: &str, arguments: impl Serialize) -> Outcome {
    client.call_tool(name, arguments).await?;
    Ok(())
}

/// Sends the schema of one tool to another, as it came.
async fn give_back_schema(client: &Client) -> Outcome {
    #[derive(Serialize)]
    struct Echo {
        schema: Box<RawValue>,
    }
    let tools = client.list_tools().await?;
    let tool = tools.into_iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let schema = tool.ok_or("the server lists no json_schema_2020_12_tool")?.input_schema;
    call(client, "json_schema_echo", Echo { schema }).await
}

/// Uses all that the server has: tools that the client hides, because they break the rules, are not among them.
async fn try_everything(client: &Client) -> Outcome {
    let capabilities = client.capabilities();
    if capabilities.tools.is_some() {
        for tool in client.list_tools().await? {
            call(client, &tool.name, made_up(&tool.input_schema)?).await?;
        }
    }
    if capabilities.resources.is_some() {
        for resource in client.list_resources().await? {
            client.read_resource(&resource.uri).await?;
        }
    }
    if capabilities.prompts.is_some() {
        for prompt in client.list_prompts().await? {
            client.get_prompt(&prompt.name, ()).await?;
        }
    }
    Ok(())
}

/// A word for each argument that a tool needs.
fn made_up(schema: &RawValue) -> serde_json::Result<Map<String, Value>> {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        required: Vec<String>,
    }
    let Schema { required } = serde_json::from_str(schema.get())?;
    Ok(required.into_iter().map(|name| (name, json!("word"))).collect())
}

/// What the suite has to say besides the scenario's name.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    tool_calls: Vec<ToolCall>,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Map<String, Value>,
}

fn context() -> Result<Context, Box<dyn std::error::Error>> {
    Ok(serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?)
}
