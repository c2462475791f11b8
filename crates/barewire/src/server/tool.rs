//! A tool: its definition, and the handler that a call runs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

#[cfg(feature = "http")]
use barewire_proto::http::HeaderParams;
use barewire_proto::json::Json;
use barewire_proto::mcp::{self, CallToolResult, Icon, Meta, Revision, ToolAnnotations};
use barewire_proto::rpc::{Code, ErrorObject};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::described::{described, fit};
use super::handler::sealed::FromCalling;
use super::layer::BoxedOutcome;
use super::serving::{Style, ready, serve};
use super::{BadEntry, Call, Calling, Handler, IntoToolResult, thread};
use crate::Failure;
use crate::peer::BoxedHandler;
use crate::schema::{self, BadArguments, Constraints};

/// A tool: what the client is told of it, and a handler.
///
/// ```
/// use barewire::server::{Server, Tool};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Half {
///     /// What to halve. Must be even.
///     #[schemars(range(min = 0))]
///     of: i64,
/// }
///
/// let half = Tool::new("half", "Halves a number", |Half { of }| async move {
///     if of % 2 == 0 { Ok(of / 2) } else { Err(format!("{of} is odd")) }
/// });
/// let server = Server::new("halves", "1.0").with(half.title("Half").read_only());
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(super) definition: mcp::Tool,
    handler: Arc<dyn Start>,
    on_thread: bool,
    /// Which of its arguments clients repeat in headers, once somebody has asked.
    #[cfg(feature = "http")]
    header_params: std::sync::OnceLock<Option<HeaderParams>>,
}

impl Tool {
    /// A tool whose arguments are a type: its schema comes from there, and so do the rules that arguments are checked by.
    ///
    /// # Panics
    /// If there is no schema of an object for the type, or it has a pattern that is no regular expression.
    #[track_caller]
    pub fn new<M, H>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned + JsonSchema + Send + 'static,
        H::Output: IntoToolResult,
    {
        let (name, description) = (name.into(), description.into());
        match Self::try_new(&name, description, handler) {
            Ok(tool) => tool,
            Err(error) => panic!("tool {name:?}: {error}"),
        }
    }

    /// The same, for names and types that are not known to be good.
    pub fn try_new<M, H>(name: impl Into<String>, description: impl Into<String>, handler: H) -> Result<Self, BadEntry>
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned + JsonSchema + Send + 'static,
        H::Output: IntoToolResult,
    {
        let input = schema::input_of::<H::Arguments>().map_err(BadEntry)?;
        let constraints = Constraints::of::<H::Arguments>().map_err(BadEntry)?;
        let mut definition = mcp::Tool::new(name, input);
        definition.description = Some(description.into());
        definition.output_schema = H::Output::output_schema();
        let handler = Arc::new(Typed { handler, constraints, kind: std::marker::PhantomData });
        Ok(Self::of(definition, handler))
    }

    /// A tool whose definition is given, with its schemas as they are written there. The arguments are handed over as they
    /// come: the handler checks them.
    pub fn unchecked<M, H>(definition: mcp::Tool, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M, Arguments = Box<RawValue>>,
        H::Output: IntoToolResult,
    {
        let handler = Arc::new(Raw { handler, check: None, kind: std::marker::PhantomData });
        Self::of(definition, handler)
    }

    /// The same, with arguments that are checked against the definition's input schema. References in it are only followed
    /// inside it.
    #[cfg(feature = "jsonschema")]
    pub fn checked<M, H>(definition: mcp::Tool, handler: H) -> Result<Self, BadEntry>
    where
        M: 'static,
        H: Handler<M, Arguments = Box<RawValue>>,
        H::Output: IntoToolResult,
    {
        let validator = schema::Validator::new(&definition.input_schema).map_err(BadEntry)?;
        let check: Check = Box::new(move |arguments| validator.check(arguments));
        let handler = Arc::new(Raw { handler, check: Some(check), kind: std::marker::PhantomData });
        Ok(Self::of(definition, handler))
    }

    fn of(definition: mcp::Tool, handler: Arc<dyn Start>) -> Self {
        Self {
            definition,
            handler,
            on_thread: false,
            #[cfg(feature = "http")]
            header_params: std::sync::OnceLock::new(),
        }
    }

    described!(title icon meta);

    /// What it does to the world. Clients do not have to believe it.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// It changes nothing. A client that is not told so takes it that the tool changes something.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.annotated().read_only_hint = Some(true);
        self
    }

    /// Whether what it changes may be lost, as with a tool that deletes; `false` if it only adds. A client that is not told
    /// takes it for `true`.
    #[must_use]
    pub fn destructive(mut self, is_destructive: bool) -> Self {
        self.annotated().destructive_hint = Some(is_destructive);
        self
    }

    /// Calling it again with the same arguments changes nothing more. A client that is not told so takes it that it does.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.annotated().idempotent_hint = Some(true);
        self
    }

    /// Whether it reaches what is outside of the server, as the web; `false` if all that it works with is the server's own.
    /// A client that is not told takes it for `true`.
    #[must_use]
    pub fn open_world(mut self, is_open: bool) -> Self {
        self.annotated().open_world_hint = Some(is_open);
        self
    }

    fn annotated(&mut self) -> &mut ToolAnnotations {
        self.definition.annotations.get_or_insert_default()
    }

    /// Runs on a thread of its own: for handlers that compute or block, and would keep everything else on their connection
    /// waiting.
    #[must_use]
    pub fn blocking(mut self) -> Self {
        self.on_thread = true;
        self
    }

    /// Which of its arguments clients repeat in headers. If its annotations are wrong, clients do not call it.
    #[cfg(feature = "http")]
    pub(super) fn header_params(&self) -> Option<&HeaderParams> {
        let read = || {
            let schema = Json::parse(self.definition.input_schema.get().as_bytes()).ok()?;
            HeaderParams::of(schema).ok().filter(|params| !params.is_empty())
        };
        self.header_params.get_or_init(read).as_ref()
    }

    /// The definition as a revision has it.
    pub(super) fn listed(&self, revision: Revision) -> mcp::Tool {
        let mut tool = self.definition.clone();
        fit(revision, &mut tool.title, &mut tool.icons, &mut tool.meta);
        if !revision.has_annotations() {
            tool.annotations = None;
        }
        if !revision.has_tasks() {
            tool.execution = None;
        }
        // Before any JSON could be structured content, only an object could.
        let is_allowed = |schema: &RawValue| {
            revision.has_structured_scalars() || revision.has_structured_content() && is_of_object(schema)
        };
        tool.output_schema = tool.output_schema.filter(|schema| is_allowed(schema));
        tool
    }

    /// Starts a call.
    #[inline]
    pub(super) fn start(&self, calling: &Calling<'_>) -> Result<BoxedHandler, Failure> {
        self.handler.start(calling, self.on_thread)
    }

    /// Runs a call that has come through the layers.
    pub(super) async fn outcome(&self, call: &Call) -> Result<CallToolResult, Failure> {
        self.handler.outcome(call, self.on_thread)?.await
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// Whether a schema says that it is one of objects.
fn is_of_object(schema: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_str::<Typed<'_>>(schema.get()).is_ok_and(|schema| schema.kind == "object")
}

/// A handler of any type.
trait Start: Send + Sync {
    fn start(&self, calling: &Calling<'_>, on_thread: bool) -> Result<BoxedHandler, Failure>;

    /// The same behind layers.
    fn outcome(&self, call: &Call, on_thread: bool) -> Result<BoxedResult, Failure>;
}

type BoxedResult = BoxedOutcome<CallToolResult, Failure>;

/// A handler whose arguments are a type.
struct Typed<H, M> {
    handler: H,
    constraints: Constraints,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H, M> Start for Typed<H, M>
where
    H: Handler<M>,
    H::Arguments: DeserializeOwned + Send + 'static,
    H::Output: IntoToolResult,
{
    #[inline]
    fn start(&self, calling: &Calling<'_>, on_thread: bool) -> Result<BoxedHandler, Failure> {
        let given = calling.arguments()?;
        let arguments = match schema::read(given, &self.constraints) {
            Ok(arguments) => arguments,
            Err(bad) => return Ok(ready(refused(&bad, calling.revision)?, calling.style(None))),
        };
        let context = H::Context::from_calling(calling)?;
        let call = context.call();
        run(self.handler.start(context, arguments), call, calling.style(None), on_thread)
    }

    fn outcome(&self, call: &Call, on_thread: bool) -> Result<BoxedResult, Failure> {
        match schema::read(call.arguments()?, &self.constraints) {
            Ok(arguments) => {
                let future = self.handler.start(H::Context::from_call(call), arguments);
                Ok(boxed(future, call, on_thread))
            }
            Err(bad) => refused(&bad, call.revision()).map(finished),
        }
    }
}

type Check = Box<dyn Fn(Json<'_>) -> Result<(), BadArguments> + Send + Sync>;

/// A handler that takes its arguments as they come.
struct Raw<H, M> {
    handler: H,
    check: Option<Check>,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H, M> Start for Raw<H, M>
where
    H: Handler<M, Arguments = Box<RawValue>>,
    H::Output: IntoToolResult,
{
    fn start(&self, calling: &Calling<'_>, on_thread: bool) -> Result<BoxedHandler, Failure> {
        let arguments = match self.checked(calling.arguments()?) {
            Ok(arguments) => arguments,
            Err(bad) => return Ok(ready(refused(&bad, calling.revision)?, calling.style(None))),
        };
        let context = H::Context::from_calling(calling)?;
        let call = context.call();
        run(self.handler.start(context, arguments), call, calling.style(None), on_thread)
    }

    fn outcome(&self, call: &Call, on_thread: bool) -> Result<BoxedResult, Failure> {
        match self.checked(call.arguments()?) {
            Ok(arguments) => {
                let future = self.handler.start(H::Context::from_call(call), arguments);
                Ok(boxed(future, call, on_thread))
            }
            Err(bad) => refused(&bad, call.revision()).map(finished),
        }
    }
}

impl<H, M> Raw<H, M> {
    fn checked(&self, given: Option<Json<'_>>) -> Result<Box<RawValue>, BadArguments> {
        let given = given.unwrap_or_else(|| Json::parse(b"{}").expect("an object without members is JSON"));
        if let Some(check) = &self.check {
            check(given)?;
        }
        Ok(RawValue::from_string(given.as_str().to_owned()).expect("a Json is JSON"))
    }
}

/// Arguments that break the schema: an error of the protocol, or a result from which the model learns, as the revision has
/// it.
fn refused(bad: &BadArguments, revision: Revision) -> Result<CallToolResult, Failure> {
    if revision.bad_arguments_are_tool_errors() {
        return Ok(CallToolResult::error(format!("Invalid arguments: {bad}")));
    }
    Err(ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: {bad}")).into())
}

/// A result that is there already.
fn finished(result: CallToolResult) -> BoxedResult {
    Box::pin(std::future::ready(Ok(result)))
}

/// A handler that has been started behind layers.
fn boxed<F>(future: F, call: &Call, on_thread: bool) -> BoxedResult
where
    F: Future + Send + 'static,
    F::Output: IntoToolResult,
{
    let outcome = async move { future.await.into_tool_result().map_err(Failure::from) };
    if on_thread { Box::pin(thread::run(outcome, Some(call.clone()))) } else { Box::pin(outcome) }
}

#[inline]
fn run<F>(future: F, call: Option<Call>, style: Style, on_thread: bool) -> Result<BoxedHandler, Failure>
where
    F: Future + Send + 'static,
    F::Output: IntoToolResult,
{
    let outcome = async move { future.await.into_tool_result().map_err(Failure::from) };
    Ok(if on_thread { serve(thread::run(outcome, call.clone()), call, style) } else { serve(outcome, call, style) })
}
