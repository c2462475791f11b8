//! Prompts with text, with arguments and completion, with a resource, with an image, and one that asks the user first.

use barewire::mcp::{Content, PromptMessage, ResourceContents};
use barewire::server::{Call, CompletionRequest, Elicit, Prompt, image};
use barewire::{Failure, Server};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tools::DOT;

pub(crate) fn add(server: Server) -> Server {
    server
        .with(Prompt::new("test_simple_prompt", "Says something", || async { "This is a simple prompt for testing." }))
        .with(
            Prompt::new("test_prompt_with_arguments", "Says what it is told", with_arguments)
                .complete("arg1", begin_alike)
                .complete("arg2", begin_alike),
        )
        .with(Prompt::new("test_prompt_with_embedded_resource", "Shows a resource", with_resource))
        .with(Prompt::new("test_prompt_with_image", "Shows a picture", || async {
            let ask = Content::text("Please analyze the image above.");
            [image(DOT, "image/png"), ask].map(PromptMessage::user).to_vec()
        }))
        .with(Prompt::new("test_input_required_result_prompt", "Asks for its context first", with_context))
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

async fn with_arguments(Arguments { arg1, arg2 }: Arguments) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

async fn begin_alike(completing: CompletionRequest) -> Vec<String> {
    let words = ["paris", "park", "party", "testValue1", "testValue2"];
    words.into_iter().filter(|word| word.starts_with(&completing.value)).map(str::to_owned).collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    /// URI of the resource to embed
    resource_uri: String,
}

async fn with_resource(Embedded { resource_uri }: Embedded) -> Vec<PromptMessage> {
    let contents = ResourceContents::text(resource_uri, "Embedded resource content for testing.");
    let resource = Content::embedded(contents.with_mime_type("text/plain"));
    vec![PromptMessage::user(resource), PromptMessage::user("Please process the embedded resource above.")]
}

#[derive(Deserialize, JsonSchema)]
struct Context {
    context: String,
}

async fn with_context(call: Call) -> Result<String, Failure> {
    let question = Elicit::form("What context should the prompt use?");
    let Context { context } = call.ask("user_context", question).await?;
    Ok(format!("Use this context: {context}"))
}
