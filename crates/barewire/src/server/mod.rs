//! MCP servers: tools, resources and prompts made of functions, served in every revision of the protocol.
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
//! peer ─ connection ─ methods ─ tool, resource, prompt ─ your handler      which era, whether allowed, who serves it
//!            │                                    │
//!         session                        call ─ ask, rounds                  what a handler can do with the client
//!            │                                    │
//!         registry ─ watch ─ listen           serving                        who is told of changes; how results are written
//! ```
//!
//! A handler is written once for both eras. See [`Call::ask`] for what that means for questions to the user.

mod ask;
mod call;
mod completion;
mod connection;
mod described;
mod handler;
#[cfg(feature = "http")]
pub mod http;
mod layer;
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
mod serving;
mod session;
mod settings;
mod thread;
mod tool;
mod watch;
mod words;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::mcp::{Icon, Revision};
use barewire_proto::session::Conventions;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

#[cfg(feature = "jsonschema")]
pub use crate::schema::any_schema::{PathSegment, SchemaError, SchemaValidator, Violation};
pub use ask::{AskError, Elicit, Question, Roots, Visit};
pub use call::Call;
pub use completion::CompletionRequest;
pub use handler::{Handler, HandlerContext, TakesArguments, TakesCall, TakesCallAndArguments, TakesNothing};
pub use layer::{Invocation, InvocationKind, Layer, NextLayer, Served};
pub use progress::{Amount, ProgressText, Total};
pub use prompt::{IntoPrompt, Prompt};
pub use resource::{IntoContents, Resource, Template};
pub use result::{IntoToolResult, ProtocolError, Structured, ToolError, audio, image};
pub use settings::Cache;
pub use tool::Tool;

use connection::{Calling, Connected, Side};
use registry::{Kind, Registry};
use settings::{Settings, Shared};

use crate::Error;
use crate::peer::{Connection, ConnectionEnd, RunningConnection};
use crate::transport::Transport;

/// An MCP server: what it offers, to be served over any number of connections.
///
/// A clone is a copy, and a server of its own: what is added to one of them, by a method or by a [`ServerHandle`], is not added to
/// the other. No clone is needed to serve many connections at once: [`Self::serve`], [`Self::connection`] and `http` take `&self`,
/// and all that they serve is the one server, which its handles change.
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
    settings: Settings,
    registry: Arc<Registry>,
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self { settings: self.settings.clone(), registry: Arc::new(self.registry.copy()) }
    }
}

impl Server {
    /// The same server once more, for what serves it: handles change both.
    #[cfg(feature = "http")]
    fn same(&self) -> Self {
        Self { settings: self.settings.clone(), registry: Arc::clone(&self.registry) }
    }

    /// A server that offers nothing yet.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { settings: Settings::new(name.into(), version.into()), registry: Arc::default() }
    }

    /// Adds a tool. See [`Tool`] for more than a name, a description and a handler.
    ///
    /// # Panics
    /// As [`Tool::new`] does.
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

    /// Adds a [`Tool`], a [`Resource`], a [`Template`] or a [`Prompt`]. One of the same name is replaced.
    #[must_use]
    pub fn with(self, entry: impl Into<Entry>) -> Self {
        entry.into().add_to(&self.registry);
        self
    }

    /// The name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.settings.info.title = Some(title.into());
        self
    }

    /// A picture of the server.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.settings.info.icons.get_or_insert_default().push(icon);
        self
    }

    /// How to use it, for the model.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.settings.instructions = Some(instructions.into());
        self
    }

    /// Serves these revisions only, instead of all.
    #[must_use]
    pub fn revisions(mut self, revisions: impl IntoIterator<Item = Revision>) -> Self {
        self.settings.revisions = revisions.into_iter().collect();
        self.settings.revisions.sort();
        self.settings.revisions.dedup();
        self
    }

    /// Serves legacy requests that come before the handshake is complete, for clients that do not wait for it.
    #[must_use]
    pub fn lenient(mut self) -> Self {
        self.settings.lenient = true;
        self
    }

    /// So many entries of a list are sent at once, instead of 100.
    #[must_use]
    pub fn page_size(mut self, entries: usize) -> Self {
        self.settings.page_size = entries.max(1);
        self
    }

    /// For how long clients may keep lists and contents, and for whom; instead of not at all.
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.settings.cache = cache;
        self
    }

    /// Seals what travels through clients between two rounds of a call with this key, so that another process with the same
    /// key can go on with it. By default the key is random: only this process can.
    #[must_use]
    pub fn state_key(mut self, key: [u8; 32]) -> Self {
        self.settings.sealer = Arc::new(seal::Sealer::with_key(key).into());
        self
    }

    /// How long a client has to come back with answers, instead of an hour.
    #[must_use]
    pub fn state_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.state_lifetime = lifetime;
        self
    }

    /// Puts a layer around every tool call, prompt and reading of a resource, also of those that are added later: for logging,
    /// timing, rate limits and permissions that are written once. The one that is added first is the outermost.
    ///
    /// A layer runs for what the server has, before the arguments are checked, and sees what came of it, also from a handler
    /// that panicked. In the modern era it runs again in each round of a call, as the handler does. When the client cancels,
    /// it is dropped, as the handler is.
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
        F: Future<Output = Result<Served, ProtocolError>> + Send + 'static,
    {
        self.settings.layers.add(layer);
        self
    }

    /// What changes the offer while it is served. With the first handle that is given out, clients are told that it may
    /// change.
    pub fn handle(&self) -> ServerHandle {
        self.registry.open();
        ServerHandle { registry: Arc::clone(&self.registry) }
    }

    /// Serves stdin and stdout until the client closes them. `Ok` if the connection ended in order.
    pub async fn serve_stdio(self) -> Result<(), Error> {
        match crate::transport::stdio() {
            Ok(stdio) => self.serve(stdio).await,
            Err(error) => Err(Error::Connection(ConnectionEnd::unopened(error))),
        }
    }

    /// Serves one connection until the client ends it. Awaited, it is `Ok` if the connection ended in order.
    pub fn serve(&self, transport: impl Transport) -> RunningConnection {
        self.connection(transport).run()
    }

    /// A connection that serves this, to be given limits and more before it runs.
    pub fn connection<T: Transport>(&self, transport: T) -> Connection<T> {
        let shared = Shared::new(self.settings.clone(), Arc::clone(&self.registry));
        Connection::new(transport).conventions(Conventions::MCP).service(Connected::new(Arc::new(shared)))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.settings.info).finish_non_exhaustive()
    }
}

/// Changes what a server offers while it is served. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    registry: Arc<Registry>,
}

impl ServerHandle {
    /// Adds a [`Tool`], a [`Resource`], a [`Template`] or a [`Prompt`]. One of the same name is replaced.
    pub fn add(&self, entry: impl Into<Entry>) {
        entry.into().add_to(&self.registry);
    }

    /// Removes a tool; `false` if there is none.
    pub fn remove_tool(&self, name: &str) -> bool {
        self.registry.change(Kind::Tools, |offer| offer.tools.remove(name))
    }

    /// Removes a prompt; `false` if there is none.
    pub fn remove_prompt(&self, name: &str) -> bool {
        self.registry.change(Kind::Prompts, |offer| offer.prompts.remove(name))
    }

    /// Removes a resource; `false` if there is none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        self.registry.change(Kind::Resources, |offer| offer.resources.remove(uri))
    }

    /// Removes a template; `false` if there is none.
    pub fn remove_template(&self, template: &str) -> bool {
        self.registry.change(Kind::Resources, |offer| offer.templates.remove(template))
    }

    /// Says that the resource at this URI has other contents now: whoever is subscribed to it is told.
    pub fn updated(&self, uri: &str) {
        self.registry.updated(uri);
    }
}

/// Something that a server offers.
#[derive(Debug)]
pub struct Entry(Offered);

#[derive(Debug)]
enum Offered {
    Tool(Tool),
    Resource(Resource),
    Template(Template),
    Prompt(Prompt),
}

impl Entry {
    fn add_to(self, registry: &Registry) {
        match self.0 {
            Offered::Tool(tool) => registry.change(Kind::Tools, |offer| {
                offer.tools.add(&tool.definition.name.clone(), tool);
                true
            }),
            Offered::Prompt(prompt) => registry.change(Kind::Prompts, |offer| {
                offer.prompts.add(&prompt.definition.name.clone(), prompt);
                true
            }),
            Offered::Resource(resource) => registry.change(Kind::Resources, |offer| {
                offer.resources.add(&resource.definition.uri.clone(), resource);
                true
            }),
            Offered::Template(template) => registry.change(Kind::Resources, |offer| {
                offer.templates.add(&template.definition.uri_template.clone(), template);
                true
            }),
        };
    }
}

impl From<Tool> for Entry {
    fn from(tool: Tool) -> Self {
        Self(Offered::Tool(tool))
    }
}

impl From<Resource> for Entry {
    fn from(resource: Resource) -> Self {
        Self(Offered::Resource(resource))
    }
}

impl From<Template> for Entry {
    fn from(template: Template) -> Self {
        Self(Offered::Template(template))
    }
}

impl From<Prompt> for Entry {
    fn from(prompt: Prompt) -> Self {
        Self(Offered::Prompt(prompt))
    }
}

/// Why something cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEntry(String);

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadEntry {}
