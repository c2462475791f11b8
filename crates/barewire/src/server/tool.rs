//! A tool: its definition, and the handler that runs when it is called.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

#[cfg(feature = "http")]
use barewire_proto::http::HeaderParams;
use barewire_proto::json::Json;
use barewire_proto::mcp::{self, CallToolResult, Icon, Meta, Revision, TaskSupport, ToolAnnotations};
use barewire_proto::rpc::{Code, ErrorObject};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::definition::{definition_setters, remove_unsupported};
use super::handler::sealed::FromRequest;
use super::handler_work::{ResultFormat, ready, serve};
use super::layer::ResultFuture;
use super::{BadEntry, Call, Handler, IncomingRequest, IntoToolResult, thread};
use crate::Failure;
use crate::peer::{BoxedHandler, Context};
use crate::schema::{self, BadArguments, Constraints};

/// A tool: the definition that clients see, and a handler.
///
/// ```
/// use barewire::server::{Server, Tool};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Half {
///     /// The number to halve. Must be even.
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
    handler: Arc<dyn ToolHandler>,
    on_thread: bool,
    asks_before_task: bool,
    #[cfg(feature = "http")]
    is_restartable: bool,
    /// The scopes that a call over HTTP needs.
    pub(super) scopes: Vec<String>,
    /// The arguments that clients repeat in HTTP headers (`x-mcp-header`). Computed on first use.
    #[cfg(feature = "http")]
    header_params: std::sync::OnceLock<Option<HeaderParams>>,
}

impl Tool {
    /// Creates a tool whose arguments are a Rust type. The input schema and the checks of the arguments are generated
    /// from that type.
    ///
    /// # Panics
    /// Panics if the type's schema does not describe an object, or has a pattern that is not a valid regular
    /// expression.
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

    /// Like [`Self::new`], but returns an error instead of panicking.
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
        let handler = Arc::new(TypedTool { handler, constraints, kind: std::marker::PhantomData });
        Ok(Self::of(definition, handler))
    }

    /// Creates a tool from a definition, whose schemas are sent to clients unchanged. The arguments are not checked:
    /// the handler gets them as JSON and checks them itself.
    pub fn unchecked<M, H>(definition: mcp::Tool, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M, Arguments = Box<RawValue>>,
        H::Output: IntoToolResult,
    {
        let handler = Arc::new(RawTool { handler, check: None, kind: std::marker::PhantomData });
        Self::of(definition, handler)
    }

    /// Like [`Self::unchecked`], but checks the arguments against the definition's input schema first. A `$ref` must
    /// refer to a part of the same schema.
    #[cfg(feature = "jsonschema")]
    pub fn checked<M, H>(definition: mcp::Tool, handler: H) -> Result<Self, BadEntry>
    where
        M: 'static,
        H: Handler<M, Arguments = Box<RawValue>>,
        H::Output: IntoToolResult,
    {
        let validator = schema::Validator::new(&definition.input_schema).map_err(BadEntry)?;
        let check: ArgumentsCheck = Box::new(move |arguments| validator.check(arguments));
        let handler = Arc::new(RawTool { handler, check: Some(check), kind: std::marker::PhantomData });
        Ok(Self::of(definition, handler))
    }

    fn of(definition: mcp::Tool, handler: Arc<dyn ToolHandler>) -> Self {
        Self {
            definition,
            handler,
            on_thread: false,
            asks_before_task: false,
            #[cfg(feature = "http")]
            is_restartable: false,
            scopes: Vec::new(),
            #[cfg(feature = "http")]
            header_params: std::sync::OnceLock::new(),
        }
    }

    definition_setters!(title icon meta scope);

    /// Sets all annotations, which describe what the tool does to its environment. Clients need not trust them.
    #[must_use]
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Declares that the tool changes nothing. Without this declaration, clients assume that it changes something.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.annotations_mut().read_only_hint = Some(true);
        self
    }

    /// Declares whether the tool may destroy data, such as by deleting it; `false` means that it only adds data.
    /// Without this declaration, clients assume `true`.
    #[must_use]
    pub fn destructive(mut self, is_destructive: bool) -> Self {
        self.annotations_mut().destructive_hint = Some(is_destructive);
        self
    }

    /// Declares that a second call with the same arguments changes nothing more. Without this declaration, clients
    /// assume that every call changes something.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.annotations_mut().idempotent_hint = Some(true);
        self
    }

    /// Declares whether the tool reaches outside the server, such as to the web; `false` means that it works only with
    /// the server's own data. Without this declaration, clients assume `true`.
    #[must_use]
    pub fn open_world(mut self, is_open: bool) -> Self {
        self.annotations_mut().open_world_hint = Some(is_open);
        self
    }

    fn annotations_mut(&mut self) -> &mut ToolAnnotations {
        self.definition.annotations.get_or_insert_default()
    }

    /// Runs the handler on a separate thread. Use this for a handler that computes for long or blocks: on the
    /// connection's task it would delay all other messages of that connection.
    #[must_use]
    pub fn blocking(mut self) -> Self {
        self.on_thread = true;
        self
    }

    /// Lets a call run as a task: for a tool that takes so long that a client should not keep a request open for it.
    /// The client gets an id at once, and fetches the result later. The handler is the same as without a task: it does
    /// not notice whether the client waits, polls or has gone away, and [`Call::ask`] works in the middle of a task.
    ///
    /// A modern client that has declared the extension `io.modelcontextprotocol/tasks` always gets a task. A client of
    /// 2025-11-25 gets a task if it asks for one. All other clients get the result.
    ///
    /// In a task, [`Call::progress`] sets the message that describes the status, and log messages are dropped.
    /// `tasks/cancel` drops the handler, as cancelling a call does.
    /// [`Server::task_policy`](super::Server::task_policy) sets the lifetime of tasks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use barewire::server::{Call, Server, Tool, ToolError};
    ///
    /// let report = Tool::new("report", "Writes the report of a year", |call: Call| async move {
    ///     for month in 1..=12 {
    ///         call.progress(month, 12, "reading").await?;
    ///         tokio::time::sleep(Duration::from_secs(10)).await;
    ///     }
    ///     Ok::<_, ToolError>("done")
    /// });
    /// let server = Server::new("reports", "1.0").with(report.task());
    /// ```
    #[must_use]
    pub fn task(mut self) -> Self {
        self.definition.execution.get_or_insert_default().task_support = Some(TaskSupport::Optional);
        self
    }

    /// Like [`Self::task`], but refuses the calls of clients that cannot get a task.
    #[must_use]
    pub fn only_as_task(mut self) -> Self {
        self.definition.execution.get_or_insert_default().task_support = Some(TaskSupport::Required);
        self
    }

    /// Makes the task begin only after the first questions of the handler, so that a modern client gets them as the
    /// result of its call and not from a task that waits. The first questions are those that the handler asks before it
    /// waits for anything else. In 2025-11-25, the task begins before them.
    #[must_use]
    pub fn ask_before_task(mut self) -> Self {
        self.asks_before_task = true;
        self
    }

    /// Lets another node of a cluster run a task of this tool again, from the beginning, if the node that runs it dies.
    /// Without this, the task fails with an error that says so.
    ///
    /// Use it only for a handler that may run twice with the same arguments: one that changes nothing, or changes
    /// nothing more the second time. The handler gets the answers to questions that the user has answered before. A
    /// task is run by one node at a time; after three runs whose nodes have died, it fails. The store of the cluster
    /// keeps the call with its arguments and the [`Principal`](super::http::Principal) of its sender, until the task is
    /// over.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn restartable(mut self) -> Self {
        self.is_restartable = true;
        self
    }

    #[cfg(feature = "http")]
    pub(super) fn is_restartable(&self) -> bool {
        self.is_restartable
    }

    /// Returns whether a call can or must run as a task. `None` means that it must not.
    #[inline]
    pub(super) fn task_support(&self) -> Option<TaskSupport> {
        self.definition.execution.and_then(|execution| execution.task_support)
    }

    pub(super) fn runs_only_as_task(&self) -> bool {
        self.task_support() == Some(TaskSupport::Required)
    }

    pub(super) fn asks_before_task(&self) -> bool {
        self.asks_before_task
    }

    /// Returns the arguments that clients repeat in HTTP headers. Returns `None` if there are none, or if the
    /// `x-mcp-header` annotations in the schema are invalid; clients do not call such a tool over HTTP.
    #[cfg(feature = "http")]
    pub(super) fn header_params(&self) -> Option<&HeaderParams> {
        let read = || {
            let schema = Json::parse(self.definition.input_schema.get().as_bytes()).ok()?;
            HeaderParams::of(schema).ok().filter(|params| !params.is_empty())
        };
        self.header_params.get_or_init(read).as_ref()
    }

    /// Returns the definition for `tools/list`, without the members that `revision` does not support.
    pub(super) fn listed(&self, revision: Revision) -> mcp::Tool {
        let mut tool = self.definition.clone();
        remove_unsupported(revision, &mut tool.title, &mut tool.icons, &mut tool.meta);
        if !revision.has_annotations() {
            tool.annotations = None;
        }
        if !revision.has_tasks() {
            tool.execution = None;
        }
        // Older revisions allow only objects as structured content.
        let is_allowed = |schema: &RawValue| {
            revision.has_structured_scalars() || revision.has_structured_content() && is_of_object(schema)
        };
        tool.output_schema = tool.output_schema.filter(|schema| is_allowed(schema));
        tool
    }

    /// Starts a call without layers.
    #[inline]
    pub(super) fn start(&self, request: &IncomingRequest<'_>) -> Result<BoxedHandler, Failure> {
        self.handler.start(request, self.on_thread)
    }

    /// Runs the handler inside the layers of the server.
    pub(super) async fn run_layered(&self, call: &Call) -> Result<CallToolResult, Failure> {
        self.handler.start_layered(call, self.on_thread)?.await
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// Whether the schema has `"type": "object"`.
fn is_of_object(schema: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    struct SchemaType<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_str::<SchemaType<'_>>(schema.get()).is_ok_and(|schema| schema.kind == "object")
}

/// The handler of a tool, with its Rust type erased.
trait ToolHandler: Send + Sync {
    fn start(&self, request: &IncomingRequest<'_>, on_thread: bool) -> Result<BoxedHandler, Failure>;

    /// Starts the handler inside the layers of the server.
    fn start_layered(&self, call: &Call, on_thread: bool) -> Result<ResultFuture<CallToolResult, Failure>, Failure>;
}

/// A handler whose arguments are a Rust type.
struct TypedTool<H, M> {
    handler: H,
    constraints: Constraints,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H, M> ToolHandler for TypedTool<H, M>
where
    H: Handler<M>,
    H::Arguments: DeserializeOwned + Send + 'static,
    H::Output: IntoToolResult,
{
    #[inline]
    fn start(&self, request: &IncomingRequest<'_>, on_thread: bool) -> Result<BoxedHandler, Failure> {
        let given = request.arguments()?;
        let arguments = match schema::read(given, &self.constraints) {
            Ok(arguments) => arguments,
            Err(bad) => return Ok(ready(bad_arguments_result(&bad, request.revision)?, request.format(None))),
        };
        let context = H::Context::from_request(request)?;
        let call = context.call();
        let thread = on_thread.then(|| request.context.clone());
        start_work(self.handler.start(context, arguments), call, request.format(None), thread)
    }

    fn start_layered(&self, call: &Call, on_thread: bool) -> Result<ResultFuture<CallToolResult, Failure>, Failure> {
        match schema::read(call.arguments()?, &self.constraints) {
            Ok(arguments) => {
                let future = self.handler.start(H::Context::from_call(call), arguments);
                Ok(layered_result(future, call, on_thread))
            }
            Err(bad) => bad_arguments_result(&bad, call.revision()).map(finished),
        }
    }
}

type ArgumentsCheck = Box<dyn Fn(Json<'_>) -> Result<(), BadArguments> + Send + Sync>;

/// A handler that takes its arguments as JSON.
struct RawTool<H, M> {
    handler: H,
    check: Option<ArgumentsCheck>,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H, M> ToolHandler for RawTool<H, M>
where
    H: Handler<M, Arguments = Box<RawValue>>,
    H::Output: IntoToolResult,
{
    fn start(&self, request: &IncomingRequest<'_>, on_thread: bool) -> Result<BoxedHandler, Failure> {
        let arguments = match self.checked(request.arguments()?) {
            Ok(arguments) => arguments,
            Err(bad) => return Ok(ready(bad_arguments_result(&bad, request.revision)?, request.format(None))),
        };
        let context = H::Context::from_request(request)?;
        let call = context.call();
        let thread = on_thread.then(|| request.context.clone());
        start_work(self.handler.start(context, arguments), call, request.format(None), thread)
    }

    fn start_layered(&self, call: &Call, on_thread: bool) -> Result<ResultFuture<CallToolResult, Failure>, Failure> {
        match self.checked(call.arguments()?) {
            Ok(arguments) => {
                let future = self.handler.start(H::Context::from_call(call), arguments);
                Ok(layered_result(future, call, on_thread))
            }
            Err(bad) => bad_arguments_result(&bad, call.revision()).map(finished),
        }
    }
}

impl<H, M> RawTool<H, M> {
    fn checked(&self, given: Option<Json<'_>>) -> Result<Box<RawValue>, BadArguments> {
        let given = given.unwrap_or_else(|| Json::parse(b"{}").expect("an object without members is JSON"));
        if let Some(check) = &self.check {
            check(given)?;
        }
        Ok(RawValue::from_string(given.as_str().to_owned()).expect("a Json is JSON"))
    }
}

/// Returns the answer to arguments that do not match the schema: a tool result that the model can read, or a protocol
/// error in revisions that require an error.
fn bad_arguments_result(bad: &BadArguments, revision: Revision) -> Result<CallToolResult, Failure> {
    if revision.bad_arguments_are_tool_errors() {
        return Ok(CallToolResult::error(format!("Invalid arguments: {bad}")));
    }
    Err(ErrorObject::new(Code::INVALID_PARAMS, format!("Invalid params: {bad}")).into())
}

fn finished(result: CallToolResult) -> ResultFuture<CallToolResult, Failure> {
    Box::pin(std::future::ready(Ok(result)))
}

/// Boxes the future of a handler that runs inside layers.
fn layered_result<F>(future: F, call: &Call, on_thread: bool) -> ResultFuture<CallToolResult, Failure>
where
    F: Future + Send + 'static,
    F::Output: IntoToolResult,
{
    let outcome = async move { future.await.into_tool_result().map_err(Failure::from) };
    if on_thread {
        Box::pin(thread::run(outcome, Some(call.clone()), call.context().clone()))
    } else {
        Box::pin(outcome)
    }
}

#[inline]
/// Starts a handler. With `thread`, the context of its request, the handler runs on a separate thread.
fn start_work<F>(
    future: F,
    call: Option<Call>,
    format: ResultFormat,
    thread: Option<Context>,
) -> Result<BoxedHandler, Failure>
where
    F: Future + Send + 'static,
    F::Output: IntoToolResult,
{
    let outcome = async move { future.await.into_tool_result().map_err(Failure::from) };
    Ok(match thread {
        Some(context) => serve(thread::run(outcome, call.clone(), context), call, format),
        None => serve(outcome, call, format),
    })
}
