//! A prompt: its definition, and the handler that turns arguments into messages.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{self, GetPromptResult, Icon, Meta, PromptArgument, PromptMessage, Revision};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::completion::{Completers, CompletionRequest};
use super::definition::{definition_setters, remove_unsupported};
use super::handler::sealed::FromRequest;
use super::handler_work::serve;
use super::layer::ResultFuture;
use super::text_arguments::{self, TextArguments};
use super::{BadEntry, Call, Handler, IncomingRequest};
use crate::Failure;
use crate::peer::BoxedHandler;
use crate::schema;

/// A prompt: the definition that clients see, and a handler.
///
/// ```
/// use barewire::server::{Prompt, Server};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Review {
///     /// The code to look at.
///     code: String,
///     language: Option<String>,
/// }
///
/// let review = Prompt::new("review", "Asks for a code review", |Review { code, language }| async move {
///     format!("Review this {} code:\n{code}", language.unwrap_or_default())
/// });
/// let languages = |prefix: String| {
///     ["c", "rust"].into_iter().filter(|it| it.starts_with(&prefix)).map(str::to_owned).collect()
/// };
/// let review = review.complete("language", move |it| std::future::ready(languages(it.value)));
/// let server = Server::new("reviews", "1.0").with(review);
/// ```
#[derive(Clone)]
pub struct Prompt {
    pub(super) definition: mcp::Prompt,
    handler: Arc<dyn PromptHandler>,
    pub(super) completers: Completers,
    /// The scopes that a request over HTTP needs.
    pub(super) scopes: Vec<String>,
}

/// A value that the handler of a prompt can return: text (sent as one message from the user), one or several
/// [`PromptMessage`]s, a whole [`GetPromptResult`], or a `Result` of any of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a prompt",
    label = "returns a type that is not a result of a prompt",
    note = "a prompt returns text, a `PromptMessage`, a `Vec<PromptMessage>` or a `GetPromptResult`; or a `Result` of \
            one of these, whose error implements `Into<Failure>`"
)]
pub trait IntoPrompt {
    /// Converts the value into the result of `prompts/get`.
    fn into_prompt(self) -> Result<GetPromptResult, Failure>;
}

/// The handler of a prompt, with its Rust type erased.
trait PromptHandler: Send + Sync {
    fn get(&self, request: &IncomingRequest<'_>, description: Option<&str>) -> Result<BoxedHandler, Failure>;

    /// Starts the handler inside the layers of the server.
    fn start_layered(
        &self,
        call: &Call,
        description: Option<&str>,
    ) -> Result<ResultFuture<GetPromptResult, Failure>, Failure>;
}

struct TypedPrompt<H, M> {
    handler: H,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H, M> PromptHandler for TypedPrompt<H, M>
where
    H: Handler<M>,
    H::Arguments: DeserializeOwned,
    H::Output: IntoPrompt,
{
    fn get(&self, request: &IncomingRequest<'_>, description: Option<&str>) -> Result<BoxedHandler, Failure> {
        let arguments = read(request.arguments()?)?;
        let context = H::Context::from_request(request)?;
        let call = context.call();
        let outcome = with_description(self.handler.start(context, arguments), description);
        Ok(serve(outcome, call, request.format(None)))
    }

    fn start_layered(
        &self,
        call: &Call,
        description: Option<&str>,
    ) -> Result<ResultFuture<GetPromptResult, Failure>, Failure> {
        let arguments = read(call.arguments()?)?;
        let future = self.handler.start(H::Context::from_call(call), arguments);
        Ok(Box::pin(with_description(future, description)))
    }
}

/// Adds the prompt's description to the handler's result, if the result has none.
fn with_description<F>(
    handler: F,
    description: Option<&str>,
) -> impl Future<Output = Result<GetPromptResult, Failure>> + Send + 'static + use<F>
where
    F: Future + Send + 'static,
    F::Output: IntoPrompt,
{
    let description = description.map(str::to_owned);
    async move {
        let mut prompt = handler.await.into_prompt()?;
        if prompt.description.is_none() {
            prompt.description = description;
        }
        Ok(prompt)
    }
}

/// Deserializes the arguments into the type that the handler takes.
fn read<T: DeserializeOwned>(arguments: Option<Json<'_>>) -> Result<T, Failure> {
    text_arguments::read(string_arguments(arguments)?).map_err(|error| Failure::invalid_params(error.to_string()))
}

/// Returns the names and values of the arguments, or an error if a value is not a string.
fn string_arguments(arguments: Option<Json<'_>>) -> Result<TextArguments<'_>, Failure> {
    let Some(arguments) = arguments else { return Ok(Vec::new()) };
    let members = arguments.members().map(|member| match Text::from_json(member.value).and_then(Text::to_str) {
        Some(value) => Ok((member.name.to_name(), value)),
        _ => Err(Failure::invalid_params(format!("argument {} must be a string", member.name.raw()))),
    });
    members.collect()
}

impl Prompt {
    /// Creates a prompt whose arguments are a Rust type. Clients see the fields of this type and their descriptions as
    /// the arguments of the prompt.
    ///
    /// # Panics
    /// Panics if the type's schema does not describe an object.
    #[track_caller]
    pub fn new<M, H>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned + JsonSchema,
        H::Output: IntoPrompt,
    {
        let name = name.into();
        match Self::try_new(&name, description, handler) {
            Ok(prompt) => prompt,
            Err(error) => panic!("prompt {name:?}: {error}"),
        }
    }

    /// Like [`Self::new`], but returns an error instead of panicking.
    pub fn try_new<M, H>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Result<Self, BadEntry>
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned + JsonSchema,
        H::Output: IntoPrompt,
    {
        let schema = schema::input_of::<H::Arguments>().map_err(BadEntry)?;
        let mut definition = mcp::Prompt::new(name);
        definition.description = Some(description.into());
        let arguments = arguments(schema.get());
        definition.arguments = (!arguments.is_empty()).then_some(arguments);
        let handler = Arc::new(TypedPrompt { handler, kind: std::marker::PhantomData });
        Ok(Self { definition, handler, completers: Completers::default(), scopes: Vec::new() })
    }

    definition_setters!(title icon meta complete scope);

    /// Returns the definition for `prompts/list`, without the members that `revision` does not support.
    pub(super) fn listed(&self, revision: Revision) -> mcp::Prompt {
        let mut prompt = self.definition.clone();
        remove_unsupported(revision, &mut prompt.title, &mut prompt.icons, &mut prompt.meta);
        if !revision.has_titles() {
            prompt.arguments.iter_mut().flatten().for_each(|argument| argument.title = None);
        }
        prompt
    }

    pub(super) fn get(&self, request: &IncomingRequest<'_>) -> Result<BoxedHandler, Failure> {
        self.handler.get(request, self.definition.description.as_deref())
    }

    /// Runs the handler inside the layers of the server.
    pub(super) async fn run_layered(&self, call: &Call) -> Result<GetPromptResult, Failure> {
        self.handler.start_layered(call, self.definition.description.as_deref())?.await
    }
}

/// Returns the prompt arguments that correspond to the properties of a schema.
fn arguments(schema: &str) -> Vec<PromptArgument> {
    #[derive(serde::Deserialize)]
    struct ObjectSchema {
        #[serde(default)]
        properties: serde_json::Map<String, serde_json::Value>,
        #[serde(default)]
        required: Vec<String>,
    }
    let Ok(ObjectSchema { properties, required }) = serde_json::from_str(schema) else { return Vec::new() };
    let argument = |(name, property): (String, serde_json::Value)| {
        let text = |member: &str| property.get(member).and_then(|it| it.as_str()).map(str::to_owned);
        let is_required = required.contains(&name);
        let mut argument = PromptArgument::new(name);
        argument.title = text("title");
        argument.description = text("description");
        argument.required = is_required;
        argument
    };
    properties.into_iter().map(argument).collect()
}

impl IntoPrompt for String {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        PromptMessage::user(self).into_prompt()
    }
}

impl IntoPrompt for &'static str {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        PromptMessage::user(self).into_prompt()
    }
}

impl IntoPrompt for PromptMessage {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new(vec![self]))
    }
}

impl IntoPrompt for Vec<PromptMessage> {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPrompt for GetPromptResult {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        Ok(self)
    }
}

impl<T: IntoPrompt, E: Into<Failure>> IntoPrompt for Result<T, E> {
    fn into_prompt(self) -> Result<GetPromptResult, Failure> {
        self.map_err(Into::into)?.into_prompt()
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("definition", &self.definition).finish_non_exhaustive()
    }
}
