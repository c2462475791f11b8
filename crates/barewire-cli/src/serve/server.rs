//! The test server: simple tools, resources and a prompt. It is also an example that users can copy.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use barewire::Server;
use barewire::server::{
    Call, CompletionRequest, Elicit, Prompt, Resource, ServerHandle, Template, Tool, ToolError, image,
};
use barewire_proto::mcp::PromptMessage;
use schemars::JsonSchema;
use serde::Deserialize;

pub(super) fn server() -> Server {
    Server::new("barewire", env!("CARGO_PKG_VERSION"))
        .title("barewire's own server")
        .instructions("A server to test clients with. Every tool describes itself.")
        .with(Tool::new("echo", "Returns its text", echo).title("Echo").read_only())
        .with(Tool::new("add", "Adds two numbers", add).title("Add").read_only())
        .with(Tool::new("sleep", "Waits, reports progress, and stops if it is cancelled", sleep))
        .with(Tool::new("fail", "Fails with a message", fail))
        .with(Tool::new("greet", "Asks the user for a name, and greets them", greet))
        .with(Tool::new("dot", "Draws a dot", || async { image(DOT, "image/png") }).read_only())
        .with(
            Resource::text("barewire://about", "about", ABOUT)
                .title("About this server")
                .description("What this server is for")
                .mime_type("text/plain"),
        )
        .with(
            Resource::new(CLOCK, "clock", || async { now() })
                .description("Seconds since 1970. Changes every second: subscribe to it")
                .mime_type("text/plain"),
        )
        .with(
            Template::new("barewire://greeting/{name}", "greeting", |PersonName { name }| async move {
                format!("Hello, {name}!")
            })
            .description("A greeting for a name")
            .mime_type("text/plain")
            .complete("name", names),
        )
        .with(
            Prompt::new("introduce", "Introduces the user to the model", introduce)
                .title("Introduce")
                .complete("name", names),
        )
}

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to return
    text: String,
}

async fn echo(Echo { text }: Echo) -> String {
    text
}

#[derive(Deserialize, JsonSchema)]
struct AddArguments {
    a: f64,
    b: f64,
}

async fn add(AddArguments { a, b }: AddArguments) -> f64 {
    a + b
}

#[derive(Deserialize, JsonSchema)]
struct Sleep {
    /// The time to wait, in milliseconds
    #[schemars(range(max = 3_600_000))]
    ms: u32,
}

async fn sleep(call: Call, Sleep { ms }: Sleep) -> Result<String, ToolError> {
    for step in 1..=SLEEP_STEPS {
        tokio::time::sleep(Duration::from_millis(ms.into()) / SLEEP_STEPS).await;
        call.progress(step, SLEEP_STEPS, "sleeping").await?;
    }
    Ok(format!("slept for {ms} ms"))
}

#[derive(Deserialize, JsonSchema)]
struct Fail {
    /// The message to fail with
    message: String,
}

async fn fail(Fail { message }: Fail) -> Result<(), String> {
    Err(message)
}

#[derive(Deserialize, JsonSchema)]
struct PersonName {
    /// The name of a person
    name: String,
}

async fn greet(call: Call) -> Result<String, ToolError> {
    let PersonName { name } = call.ask("user_name", Elicit::form("What is your name?")).await?;
    Ok(format!("Hello, {name}!"))
}

async fn introduce(PersonName { name }: PersonName) -> PromptMessage {
    PromptMessage::user(format!("My name is {name}. Greet me, and ask what I would like to do."))
}

/// Returns the known names that begin with the value typed so far.
async fn names(completing: CompletionRequest) -> Vec<String> {
    let prefix = completing.value.to_lowercase();
    let fits = |name: &&&str| name.to_lowercase().starts_with(&prefix);
    NAMES.iter().filter(fits).map(|name| (*name).to_owned()).collect()
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().to_string()
}

/// Notifies subscribers of the clock resource once per second.
pub(super) async fn tick(handle: ServerHandle) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        handle.updated(CLOCK);
    }
}

const CLOCK: &str = "barewire://clock";

const ABOUT: &str = "This is barewire's own server, to test clients with. \
                     Its tools, resources and prompts are simple, but do real work.";

const NAMES: &[&str] = &["Ada", "Alan", "Barbara", "Claude", "Grace", "Linus"];

/// The number of progress notifications that one call of the `sleep` tool sends.
const SLEEP_STEPS: u32 = 10;

/// A PNG image of a red dot, 5 by 5 pixels.
const DOT: &[u8] = include_bytes!("dot.png");
