//! MCP servers: functions become tools, resources and prompts for clients of every revision of the protocol.
//!
//! ```
//! use barewire::Server;
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: f64,
//!     b: f64,
//! }
//!
//! # fn main() {
//! let server = Server::new("calculator", "1.0")
//!     .tool("add", "Adds two numbers", |Add { a, b }| async move { a + b });
//! # }
//! // server.serve_stdio().await
//! ```
//!
//! ```text
//! peer ─ connection ─ methods ─ tool, resource, prompt ─ your handler    a request's era, permission and handler
//!            │                              │
//!      legacy_client                 call ─ ask, rounds                    how a handler reaches the client
//!            │                              │
//!   registry ─ watch ─ listen          handler_work                        change notifications; how results are written
//! ```
//!
//! A handler is written once and serves clients of both eras. A handler notices the era only when it asks the user a
//! question: see [`Call::ask`].

mod ask;
mod call;
#[cfg(feature = "http")]
mod change_history;
mod completion;
mod connection;
mod definition;
mod handler;
mod handler_work;
#[cfg(feature = "http")]
pub mod http;
mod layer;
mod legacy_client;
mod listen;
mod methods;
mod page;
mod progress;
mod prompt;
mod registry;
mod resource;
mod result;
mod rounds;
mod seal;
mod settings;
mod task;
mod text_arguments;
mod thread;
mod tool;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::{Icon, Revision, TaskSupport};
use barewire_proto::session::Conventions;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

#[cfg(feature = "jsonschema")]
pub use crate::schema::any_schema::{PathSegment, SchemaError, SchemaValidator, Violation};
pub use ask::{AskError, Elicit, Question, Roots, Visit};
pub use call::Call;
pub use completion::CompletionRequest;
pub use handler::{Handler, HandlerContext, TakesArguments, TakesCall, TakesCallAndArguments, TakesNothing};
pub use layer::{Invocation, InvocationKind, InvocationResult, Layer, NextLayer};
pub use progress::{ProgressAmount, ProgressText, ProgressTotal};
pub use prompt::{IntoPrompt, Prompt};
pub use resource::{IntoContents, Resource, Template};
pub use result::{IntoToolResult, ProtocolError, Structured, ToolError, audio, image};
pub use settings::CachePolicy;
pub use task::TaskPolicy;
pub use tool::Tool;

use connection::{ClientEra, ConnectionService, IncomingRequest};
use registry::{ListKind, Registry};
use settings::{ServerSettings, ServerShared};

use crate::Error;
use crate::peer::{Connection, ConnectionEnd, RunningConnection};
use crate::transport::Transport;

/// An MCP server: the tools, resources and prompts that it offers. One value serves any number of connections.
///
/// A clone is an independent copy: an entry that is added to the clone, by a method or through a [`ServerHandle`], is
/// not added to the original, and an entry added to the original is not added to the clone. Serving many connections
/// needs no clone: [`Self::serve`], [`Self::connection`] and `http` take `&self`, and all their connections serve this
/// one server. A [`ServerHandle`] changes the server for all these connections.
///
/// ```
/// use barewire::Server;
///
/// let base = Server::new("base", "1.0").tool("ping", "Answers", || async { "pong" });
/// let more = base.clone().title("More").tool("time", "Tells the time", || async { "noon" });
/// // `base` still has one tool and no title.
/// # drop((base, more));
/// ```
pub struct Server {
    settings: ServerSettings,
    registry: Arc<Registry>,
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone(), registry: Arc::new(self.registry.detached_copy()) }
    }
}

impl Server {
    /// Returns a second `Server` that shares this one's registry, for an HTTP listener or service to own. A
    /// [`ServerHandle`] of either one changes the entries of both.
    #[cfg(feature = "http")]
    fn share(&self) -> Self {
        Self { settings: self.settings.clone(), registry: Arc::clone(&self.registry) }
    }

    /// Creates a server without tools, resources or prompts.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { settings: ServerSettings::new(name.into(), version.into()), registry: Arc::default() }
    }

    /// Adds a tool. For a tool with more settings, create a [`Tool`] and add it with [`Self::with`].
    ///
    /// # Panics
    /// Panics in the same cases as [`Tool::new`].
    #[must_use]
    #[track_caller]
    pub fn tool<M, H>(self, name: impl Into<String>, description: impl Into<String>, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned + JsonSchema + Send + 'static,
        H::Output: IntoToolResult,
    {
        self.with(Tool::new(name, description, handler))
    }

    /// Adds a [`Tool`], a [`Resource`], a [`Template`] or a [`Prompt`]. An existing entry of the same kind and name (or
    /// URI) is replaced.
    #[must_use]
    pub fn with(self, entry: impl Into<ServerEntry>) -> Self {
        entry.into().add_to(&self.registry);
        self
    }

    /// Sets the name that a host shows to the user.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.settings.info.title = Some(title.into());
        self
    }

    /// Adds an icon of the server.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.settings.info.icons.get_or_insert_default().push(icon);
        self
    }

    /// Sets the instructions for the model: how to use this server.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.settings.instructions = Some(instructions.into());
        self
    }

    /// Sets the revisions of the protocol that are served. The default is all revisions.
    #[must_use]
    pub fn revisions(mut self, revisions: impl IntoIterator<Item = Revision>) -> Self {
        self.settings.revisions = revisions.into_iter().collect();
        self.settings.revisions.sort();
        self.settings.revisions.dedup();
        self
    }

    /// Serves legacy requests that arrive before the handshake is complete, for clients that do not wait for it.
    #[must_use]
    pub fn lenient(mut self) -> Self {
        self.settings.lenient = true;
        self
    }

    /// Sets the number of entries in one page of a list. The default is 100.
    #[must_use]
    pub fn page_size(mut self, entries: usize) -> Self {
        self.settings.page_size = entries.max(1);
        self
    }

    /// Sets how long clients may cache lists and resource contents, and whether several users may share a cached
    /// result. The default is no caching.
    #[must_use]
    pub fn cache(mut self, cache: CachePolicy) -> Self {
        self.settings.cache = cache;
        self
    }

    /// Sets the key that seals the state which a modern client holds between two rounds of a call. Every process with
    /// the same key can continue the call. With the default, a random key, only this process can continue the call; the
    /// nodes of a cluster share a key, and change it twice a day.
    #[must_use]
    pub fn state_key(mut self, key: [u8; 32]) -> Self {
        self.settings.sealer = Arc::new(seal::Sealer::with_key(key).into());
        self.settings.has_given_key = true;
        self
    }

    /// Sets the time that a modern client has to send the call again with the answers to a question. The default is an
    /// hour.
    #[must_use]
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.state_lifetime = lifetime;
        self
    }

    /// Sets how long tasks are kept, how often clients poll them, and how many of them there may be. A call becomes a
    /// task if its tool has [`Tool::task`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use barewire::Server;
    /// use barewire::server::TaskPolicy;
    ///
    /// let policy = TaskPolicy::default().ttl(Duration::from_secs(24 * 60 * 60)).max_tasks(200);
    /// let server = Server::new("reports", "1.0").task_policy(policy);
    /// ```
    #[must_use]
    pub fn task_policy(mut self, policy: TaskPolicy) -> Self {
        self.settings.tasks = task::Tasks::new(policy);
        self
    }

    /// Adds a layer: a function that wraps every tool call, prompt and resource read, even of entries that are added
    /// later. Use it for logging, timing, rate limits or permissions. The layer that is added first is the outermost.
    ///
    /// A layer does not run for an unknown tool, prompt or resource. It runs before the arguments are checked, and it
    /// gets the result of the handler, even if the handler panicked. In the modern era the layer and the handler run
    /// again in each round of a call. When the client cancels the request, both are dropped.
    ///
    /// ```
    /// use std::time::Instant;
    /// use barewire::Server;
    ///
    /// let server = Server::new("timed", "1.0")
    ///     .layer(|invocation, next| async move {
    ///         let (name, start) = (invocation.name().to_owned(), Instant::now());
    ///         let outcome = next.run(invocation).await;
    ///         tracing::info!(name, took = ?start.elapsed(), ok = outcome.is_ok());
    ///         outcome
    ///     })
    ///     .layer(|invocation, next| async move {
    ///         match invocation.name() {
    ///             "shutdown" => invocation.refuse("not allowed"),
    ///             _ => next.run(invocation).await,
    ///         }
    ///     });
    /// ```
    #[must_use]
    pub fn layer<L, F>(mut self, layer: L) -> Self
    where
        L: Fn(Invocation, NextLayer) -> F + Send + Sync + 'static,
        F: Future<Output = Result<InvocationResult, ProtocolError>> + Send + 'static,
    {
        self.settings.layers.add(layer);
        self
    }

    /// Returns a handle that adds and removes tools, resources and prompts while the server runs. After the first call
    /// of this method, the server declares to new clients that its lists may change.
    pub fn handle(&self) -> ServerHandle {
        self.registry.make_changeable();
        ServerHandle { registry: Arc::clone(&self.registry) }
    }

    /// Serves stdin and stdout until the client closes them. Returns `Ok` if the connection was closed cleanly.
    pub async fn serve_stdio(self) -> Result<(), Error> {
        match crate::transport::stdio() {
            Ok(stdio) => self.serve(stdio).await,
            Err(error) => Err(Error::Connection(ConnectionEnd::unopened(error))),
        }
    }

    /// Serves one connection until the client closes it. The returned future resolves to `Ok` if the connection was
    /// closed cleanly.
    pub fn serve(&self, transport: impl Transport) -> RunningConnection {
        self.connection(transport).run()
    }

    /// Returns a connection to this server that is not running yet, so that limits and other settings can be set first.
    pub fn connection<T: Transport>(&self, transport: T) -> Connection<T> {
        let shared = ServerShared::new(self.settings.clone(), Arc::clone(&self.registry));
        Connection::new(transport).conventions(Conventions::MCP).service(ConnectionService::new(Arc::new(shared)))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.settings.info).finish_non_exhaustive()
    }
}

/// A handle that adds and removes tools, resources and prompts while the server runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    registry: Arc<Registry>,
}

impl ServerHandle {
    /// Adds a [`Tool`], a [`Resource`], a [`Template`] or a [`Prompt`]. An existing entry of the same kind and name (or
    /// URI) is replaced.
    pub fn add(&self, entry: impl Into<ServerEntry>) {
        entry.into().add_to(&self.registry);
    }

    /// Removes a tool. Returns `false` if there is no tool with this name.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.registry.change(ListKind::Tools, |entries| entries.tools.remove(name))
    }

    /// Removes a prompt. Returns `false` if there is no prompt with this name.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.registry.change(ListKind::Prompts, |entries| entries.prompts.remove(name))
    }

    /// Removes a resource. Returns `false` if there is no resource with this URI.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.registry.change(ListKind::Resources, |entries| entries.resources.remove(uri))
    }

    /// Removes a resource template. Returns `false` if there is no template with exactly this text.
    pub fn remove_template(&self, template: &str) -> bool {
        self.registry.change(ListKind::Resources, |entries| entries.templates.remove(template))
    }

    /// Reports that the resource at this URI has new contents. Every client that is subscribed to the resource gets a
    /// notification.
    pub fn updated(&self, uri: &str) {
        self.registry.updated(uri);
    }
}

/// A tool, resource, resource template or prompt of a server.
#[derive(Debug)]
pub struct ServerEntry(EntryKind);

#[derive(Debug)]
enum EntryKind {
    Tool(Tool),
    Resource(Resource),
    Template(Template),
    Prompt(Prompt),
}

impl ServerEntry {
    fn add_to(self, registry: &Registry) {
        match self.0 {
            EntryKind::Tool(tool) => registry.change(ListKind::Tools, |entries| {
                entries.has_scopes |= !tool.scopes.is_empty();
                entries.has_tasks |= tool.task_support().is_some_and(|support| support != TaskSupport::Forbidden);
                entries.tools.add(&tool.definition.name.clone(), tool);
                true
            }),
            EntryKind::Prompt(prompt) => registry.change(ListKind::Prompts, |entries| {
                entries.has_scopes |= !prompt.scopes.is_empty();
                entries.prompts.add(&prompt.definition.name.clone(), prompt);
                true
            }),
            EntryKind::Resource(resource) => registry.change(ListKind::Resources, |entries| {
                entries.has_scopes |= !resource.scopes.is_empty();
                entries.resources.add(&resource.definition.uri.clone(), resource);
                true
            }),
            EntryKind::Template(template) => registry.change(ListKind::Resources, |entries| {
                entries.has_scopes |= !template.scopes.is_empty();
                entries.templates.add(&template.definition.uri_template.clone(), template);
                true
            }),
        };
    }
}

impl From<Tool> for ServerEntry {
    fn from(tool: Tool) -> Self {
        Self(EntryKind::Tool(tool))
    }
}

impl From<Resource> for ServerEntry {
    fn from(resource: Resource) -> Self {
        Self(EntryKind::Resource(resource))
    }
}

impl From<Template> for ServerEntry {
    fn from(template: Template) -> Self {
        Self(EntryKind::Template(template))
    }
}

impl From<Prompt> for ServerEntry {
    fn from(prompt: Prompt) -> Self {
        Self(EntryKind::Prompt(prompt))
    }
}

/// The reason why a tool, resource template or prompt could not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEntry(String);

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadEntry {}
