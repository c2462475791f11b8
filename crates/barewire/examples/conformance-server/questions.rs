//! Tools that ask the user or the model of the client, and return the answer.

use barewire::Server;
use barewire::mcp::{CreateMessageParams, ElicitForm, SamplingMessage};
use barewire::server::{AskError, Call, Elicit, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool("test_sampling", "Puts a prompt to the model", sample)
        .tool("test_elicitation", "Asks the user for a name and an address", contact)
        .tool("test_elicitation_sep1034_defaults", "Asks with a form that is filled in", defaults)
        .tool("test_elicitation_sep1330_enums", "Asks for choices of every kind", choices)
        .tool("test_missing_capability", "Needs a client with a model", |call: Call| async move {
            ask_model(&call, "answer", "Anything", 10).await
        })
        .tool("test_streaming_elicitation", "Asks the user while it streams", |call: Call| async move {
            call.progress(1, None, None).await?;
            let answer = call.ask("contact", Elicit::<Contact>::form("Who is there?")).await;
            call.progress(2, None, None).await?;
            describe_answer("User response", answer)
        })
}

#[derive(Deserialize, JsonSchema)]
struct Sample {
    /// What to ask the model
    prompt: String,
}

async fn sample(call: Call, Sample { prompt }: Sample) -> Result<String, ToolError> {
    Ok(format!("LLM response: {}", ask_model(&call, "answer", prompt, 100).await?))
}

/// Asks the model, and returns the text of its answer. If the client has not declared sampling, the call ends with an
/// error that says so.
pub(crate) async fn ask_model(
    call: &Call,
    key: &str,
    prompt: impl Into<String>,
    max_tokens: u64,
) -> Result<String, ToolError> {
    let messages = vec![SamplingMessage::user(prompt.into())];
    let answer = call.ask(key, CreateMessageParams::new(messages, max_tokens)).await?;
    let texts = answer.content.iter().filter_map(|content| content.as_text());
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What the user is told
    message: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Contact {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

async fn contact(call: Call, Message { message }: Message) -> Result<String, ToolError> {
    describe_answer("User response", call.ask("contact", Elicit::<Contact>::form(message)).await)
}

/// The values of the default: the form shows them, and they replace fields that the user leaves out.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Profile {
    name: String,
    age: u8,
    score: f64,
    status: Status,
    verified: bool,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Active,
    Inactive,
    Pending,
}

impl Default for Profile {
    fn default() -> Self {
        Self { name: "John Doe".to_owned(), age: 30, score: 95.5, status: Status::Active, verified: true }
    }
}

async fn defaults(call: Call) -> Result<String, ToolError> {
    describe_answer("Elicitation completed", call.ask("profile", Elicit::<Profile>::form("Please check this")).await)
}

/// Asks with a schema that is written by hand, because a Rust type can express choices in one form only.
async fn choices(call: Call) -> Result<String, ToolError> {
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    let options = json!(["option1", "option2", "option3"]);
    let schema = json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": options },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        },
    });
    let form = ElicitForm::new("Please choose", to_raw_value(&schema)?);
    describe_answer("Elicitation completed", call.ask("choices", form).await)
}

/// Describes the user's action. Declining and dismissing are answers too; being unable to ask is an error.
fn describe_answer(what: &str, answer: Result<impl Serialize, AskError>) -> Result<String, ToolError> {
    match answer {
        Ok(values) => Ok(format!("{what}: action=accept, content={}", serde_json::to_string(&values)?)),
        Err(AskError::Declined) => Ok(format!("{what}: action=decline")),
        Err(AskError::Cancelled) => Ok(format!("{what}: action=cancel")),
        Err(error) => Err(error.into()),
    }
}
