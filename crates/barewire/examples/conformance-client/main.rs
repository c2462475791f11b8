//! The client for the official conformance suite: connects to the server at the given URL and runs the scenario that
//! `MCP_CONFORMANCE_SCENARIO` names. `interop/conformance/run` starts this client.
//!
//! ```text
//! MCP_CONFORMANCE_SCENARIO=tools_call conformance-client http://localhost:8808/mcp
//! ```
//!
//! The suite checks the messages, so the client prints only errors.

mod sign_in;

use barewire::client::http::Endpoint;
use barewire::client::{Builder, accept};
use barewire::mcp::{Era, Revision, Root};
use barewire::{Client, Failure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

type ScenarioResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ScenarioResult {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::stderr).init();
    let url =
        std::env::args().next_back().filter(|it| it.starts_with("http")).ok_or("usage: conformance-client URL")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let endpoint = match scenario.starts_with("auth/") {
        true => Endpoint::new(url).sign_in(sign_in::sign_in(&scenario)?),
        false => Endpoint::new(url),
    };
    let client = builder(&scenario)?.http(endpoint).await?;
    run(&client, &scenario).await?;
    Ok(client.shutdown().await?)
}

/// Returns a client for the revision of the scenario, with a handler for every request that a server can send.
fn builder(scenario: &str) -> Result<Builder, Box<dyn std::error::Error>> {
    let builder = Client::builder("conformance-client", env!("CARGO_PKG_VERSION"))
        .roots([Root::new("file:///home/me/project")])
        // A real client would call a model here.
        .on_sample(|_| async { Err(Failure::internal("Model", "there is no model")) })
        // A real client would show the form to the user. Fields that are left out get the form's defaults.
        .on_elicit(|_| async { Ok(accept(json!({}))?) });
    let revision = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok();
    let revision =
        revision.map(|it| Revision::parse(&it).ok_or(format!("{it} is not a known revision"))).transpose()?;
    Ok(match revision {
        // The server of this scenario responds with 2025-03-26, whatever the client offers.
        Some(_) if scenario == "sse-retry" => builder.era(Era::Legacy),
        // Skips `server/discover`, which the suite's legacy servers do not expect.
        Some(revision) if revision.era() == Era::Legacy => builder.revision(revision),
        // Without a revision, and for the modern one, the client detects the era.
        _ => builder,
    })
}

/// Runs the scenario.
async fn run(client: &Client, scenario: &str) -> ScenarioResult {
    match scenario {
        // This scenario only needs a connection.
        "initialize" => {}
        "tools_call" => call(client, "add_numbers", json!({ "a": 5, "b": 3 })).await?,
        "elicitation-sep1034-client-defaults" => {
            call(client, "test_client_elicitation_defaults", json!({})).await?;
        }
        "sse-retry" => call(client, "test_reconnection", json!({})).await?,
        "request-metadata" => drop(client.discover().await?),
        "sep-2322-client-request-state" => {
            // The calls run concurrently, because the state of one call must not appear in another call.
            tokio::try_join!(
                call(client, "test_mrtr_echo_state", json!({})),
                call(client, "test_mrtr_no_state", json!({})),
                call(client, "test_mrtr_unrelated", json!({})),
                call(client, "test_mrtr_no_result_type", json!({})),
            )?;
        }
        "http-custom-headers" => {
            // The schemas name the arguments to repeat in headers. If they were not loaded here, the client would load
            // them before the first call.
            client.list_tools().await?;
            for ToolCall { name, arguments } in context()?.tool_calls {
                call(client, &name, arguments).await?;
            }
        }
        "json-schema-2020-12-preservation" => echo_schema(client).await?,
        "json-schema-ref-no-deref" => drop(client.list_tools().await?),
        "auth/authorization-server-migration" => {
            client.list_tools().await?;
            // The server now names another authorization server.
            client.list_tools().await?;
        }
        _ => try_everything(client).await?,
    }
    Ok(())
}

/// Calls a tool. A failure of the tool is not an error here.
async fn call(client: &Client, name: &str, arguments: impl Serialize) -> ScenarioResult {
    client.call_tool(name, arguments).await?;
    Ok(())
}

/// Sends the schema of one tool, unchanged, to another tool.
async fn echo_schema(client: &Client) -> ScenarioResult {
    #[derive(Serialize)]
    struct EchoArguments {
        schema: Box<RawValue>,
    }
    let tools = client.list_tools().await?;
    let tool = tools.into_iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let schema = tool.ok_or("the server lists no json_schema_2020_12_tool")?.input_schema;
    call(client, "json_schema_echo", EchoArguments { schema }).await
}

/// Uses every tool, resource and prompt that the server lists, except invalid tools, which the client hides.
async fn try_everything(client: &Client) -> ScenarioResult {
    let capabilities = client.capabilities();
    if capabilities.tools.is_some() {
        for tool in client.list_tools().await? {
            call(client, &tool.name, placeholder_arguments(&tool.input_schema)?).await?;
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

/// Returns a placeholder for each required argument.
fn placeholder_arguments(schema: &RawValue) -> serde_json::Result<Map<String, Value>> {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        required: Vec<String>,
    }
    let Schema { required } = serde_json::from_str(schema.get())?;
    Ok(required.into_iter().map(|name| (name, json!("word"))).collect())
}

/// The input of a scenario, which the suite passes in `MCP_CONFORMANCE_CONTEXT`.
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
