//! A resource or a resource template: its definition, and the handler that returns the contents.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use barewire_proto::mcp::Template as UriTemplate;
use barewire_proto::mcp::{self, Annotations, Icon, Meta, ReadResourceResult, ResourceContents, Revision};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;

use super::completion::{Completers, CompletionRequest};
use super::definition::{definition_setters, remove_unsupported};
use super::handler::sealed::FromRequest;
use super::handler_work::{ResultFormat, serve};
use super::layer::{InvocationTarget, ResultFuture, serve_layered};
use super::text_arguments::{self, TextArguments};
use super::{BadEntry, CachePolicy, Call, Handler, IncomingRequest};
use crate::Failure;
use crate::peer::BoxedHandler;

/// A resource with a URI: the definition that clients see, and its contents or a handler that returns them.
///
/// ```
/// use barewire::server::{Resource, Server};
///
/// let server = Server::new("notes", "1.0")
///     .with(Resource::text("note://hello", "hello", "Hello, world!").mime_type("text/plain"))
///     .with(Resource::new("note://time", "time", || async {
///         format!("{:?}", std::time::SystemTime::now())
///     }));
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(super) definition: mcp::Resource,
    reader: Arc<dyn ResourceHandler>,
    cache: Option<CachePolicy>,
    /// The scopes that a read over HTTP needs.
    pub(super) scopes: Vec<String>,
}

/// A resource template: all resources whose URIs match a URI template (RFC 6570), such as `note://{id}`.
///
/// ```
/// use barewire::server::{Server, Template};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Note { id: u32 }
///
/// let note = Template::new("note://{id}", "note", |Note { id }| async move { format!("Note {id}") });
/// let server = Server::new("notes", "1.0").with(note.description("A note by its number"));
/// ```
#[derive(Clone)]
pub struct Template {
    pub(super) definition: mcp::ResourceTemplate,
    template: UriTemplate,
    reader: Arc<dyn ResourceHandler>,
    pub(super) completers: Completers,
    cache: Option<CachePolicy>,
    /// The scopes that a read over HTTP needs.
    pub(super) scopes: Vec<String>,
}

/// A value that the handler of a resource can return: text, bytes, one or several [`ResourceContents`], a whole
/// [`ReadResourceResult`], or a `Result` of any of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the contents of a resource",
    label = "returns a type that is not the contents of a resource",
    note = "a resource returns text, bytes (`Vec<u8>`), a `ResourceContents`, a `Vec<ResourceContents>` or a \
            `ReadResourceResult`; or a `Result` of one of these, whose error implements `Into<Failure>`"
)]
pub trait IntoContents {
    /// Converts the value into the result of `resources/read` for this URI.
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure>;
}

/// The handler of a resource or a template, with its Rust type erased.
trait ResourceHandler: Send + Sync {
    /// Starts a read. Returns `None` if the variables cannot be deserialized into the handler's arguments.
    fn read(&self, reading: ResourceRead<'_>, variables: TextArguments<'_>) -> Option<Result<BoxedHandler, Failure>>;

    /// Whether the variables can be deserialized into the handler's arguments.
    fn accepts(&self, variables: TextArguments<'_>) -> bool;

    /// Starts the handler inside the layers of the server. `accepts` must have returned true for the variables.
    fn start_layered(
        &self,
        call: &Call,
        mime_type: Option<&str>,
        variables: TextArguments<'_>,
    ) -> Result<ResultFuture<ReadResourceResult, Failure>, Failure>;
}

/// One read of a resource.
struct ResourceRead<'a> {
    request: &'a IncomingRequest<'a>,
    uri: &'a str,
    mime_type: Option<&'a str>,
    cache: Option<CachePolicy>,
}

struct TypedResource<H, M> {
    handler: H,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H, M> ResourceHandler for TypedResource<H, M>
where
    H: Handler<M>,
    H::Arguments: DeserializeOwned,
    H::Output: IntoContents,
{
    fn read(&self, reading: ResourceRead<'_>, variables: TextArguments<'_>) -> Option<Result<BoxedHandler, Failure>> {
        let arguments = text_arguments::read(variables).ok()?;
        Some(self.start(reading, arguments))
    }

    fn accepts(&self, variables: TextArguments<'_>) -> bool {
        text_arguments::read::<H::Arguments>(variables).is_ok()
    }

    fn start_layered(
        &self,
        call: &Call,
        mime_type: Option<&str>,
        variables: TextArguments<'_>,
    ) -> Result<ResultFuture<ReadResourceResult, Failure>, Failure> {
        let arguments = text_arguments::read(variables).map_err(|error| Failure::invalid_params(error.to_string()))?;
        let future = self.handler.start(H::Context::from_call(call), arguments);
        Ok(Box::pin(handler_contents(future, call.name(), mime_type)))
    }
}

impl<H, M> TypedResource<H, M>
where
    H: Handler<M>,
    H::Output: IntoContents,
{
    fn start(&self, reading: ResourceRead<'_>, arguments: H::Arguments) -> Result<BoxedHandler, Failure> {
        let ResourceRead { request, uri, mime_type, cache } = reading;
        let context = H::Context::from_request(request)?;
        let call = context.call();
        let outcome = handler_contents(self.handler.start(context, arguments), uri, mime_type);
        Ok(serve(outcome, call, read_format(request, cache)))
    }
}

/// Runs the handler's future and converts its output into the result of the read.
fn handler_contents<F>(
    handler: F,
    uri: &str,
    mime_type: Option<&str>,
) -> impl Future<Output = Result<ReadResourceResult, Failure>> + Send + 'static + use<F>
where
    F: Future + Send + 'static,
    F::Output: IntoContents,
{
    let (uri, mime_type) = (uri.to_owned(), mime_type.map(str::to_owned));
    async move { handler.await.into_contents(&uri, mime_type.as_deref()) }
}

fn read_format(request: &IncomingRequest<'_>, cache: Option<CachePolicy>) -> ResultFormat {
    let format = request.format(Some(cache.unwrap_or(request.shared.settings.cache)));
    match (request.params.input_responses, request.params.request_state) {
        (None, None) => format,
        // The contents may depend on answers of the user, which are not part of the cache key, so the contents must not
        // be cached: MCP 2026-07-28, server/utilities/caching.
        _ => format.uncached(),
    }
}

impl Resource {
    /// Creates a resource. The handler runs at each read and returns the contents.
    pub fn new<M, H>(uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M, Arguments = ()>,
        H::Output: IntoContents,
    {
        let reader = Arc::new(TypedResource { handler, kind: std::marker::PhantomData });
        Self { definition: mcp::Resource::new(uri, name), reader, cache: None, scopes: Vec::new() }
    }

    /// Creates a resource with this text as its contents.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        let text: Arc<str> = text.into().into();
        let size = u64::try_from(text.len()).ok();
        let mut resource = Self::new(uri, name, move || std::future::ready(text.to_string()));
        resource.definition.size = size;
        resource
    }

    /// Creates a resource with these bytes as its contents.
    pub fn bytes(uri: impl Into<String>, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into().into();
        let size = u64::try_from(bytes.len()).ok();
        let mut resource = Self::new(uri, name, move || std::future::ready(bytes.to_vec()));
        resource.definition.size = size;
        resource
    }

    definition_setters!(title description mime_type icon annotations meta cache scope);

    /// Returns the definition for `resources/list`, without the members that `revision` does not support.
    pub(super) fn listed(&self, revision: Revision) -> mcp::Resource {
        let mut resource = self.definition.clone();
        remove_unsupported(revision, &mut resource.title, &mut resource.icons, &mut resource.meta);
        resource
    }

    pub(super) fn read(&self, request: &IncomingRequest<'_>, uri: &str) -> Option<Result<BoxedHandler, Failure>> {
        let mime_type = self.definition.mime_type.as_deref();
        self.reader.read(ResourceRead { request, uri, mime_type, cache: self.cache }, Vec::new())
    }

    /// Starts a read inside the layers of the server.
    pub(super) fn read_layered(self: &Arc<Self>, request: &IncomingRequest<'_>) -> Result<BoxedHandler, Failure> {
        serve_layered::<ReadResourceResult>(
            request,
            InvocationTarget::Resource(Arc::clone(self)),
            read_format(request, self.cache),
        )
    }

    /// Runs the handler inside the layers of the server.
    pub(super) async fn run_layered(&self, call: &Call) -> Result<ReadResourceResult, Failure> {
        self.reader.start_layered(call, self.definition.mime_type.as_deref(), Vec::new())?.await
    }
}

impl Template {
    /// Creates a resource template. The handler runs at each read of a matching URI; its arguments are the variables of
    /// the URI.
    ///
    /// # Panics
    /// Panics if `template` is not a valid URI template.
    #[track_caller]
    pub fn new<M, H>(template: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned,
        H::Output: IntoContents,
    {
        let template = template.into();
        match Self::try_new(&template, name, handler) {
            Ok(template) => template,
            Err(error) => panic!("template {template:?}: {error}"),
        }
    }

    /// Like [`Self::new`], but returns an error instead of panicking.
    pub fn try_new<M, H>(template: impl Into<String>, name: impl Into<String>, handler: H) -> Result<Self, BadEntry>
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned,
        H::Output: IntoContents,
    {
        let definition = mcp::ResourceTemplate::new(template, name);
        let template = UriTemplate::parse(&definition.uri_template).map_err(|error| BadEntry(error.to_string()))?;
        let reader = Arc::new(TypedResource { handler, kind: std::marker::PhantomData });
        Ok(Self { definition, template, reader, completers: Completers::default(), cache: None, scopes: Vec::new() })
    }

    definition_setters!(title description mime_type icon annotations meta cache complete scope);

    /// Returns the definition for `resources/templates/list`, without the members that `revision` does not support.
    pub(super) fn listed(&self, revision: Revision) -> mcp::ResourceTemplate {
        let mut template = self.definition.clone();
        remove_unsupported(revision, &mut template.title, &mut template.icons, &mut template.meta);
        template
    }

    /// Reads the resource with this URI. Returns `None` if the template does not match the URI, or the URI's variables
    /// do not match the handler's arguments.
    pub(super) fn read(&self, request: &IncomingRequest<'_>, uri: &str) -> Option<Result<BoxedHandler, Failure>> {
        let variables = self.variables(uri)?;
        let mime_type = self.definition.mime_type.as_deref();
        self.reader.read(ResourceRead { request, uri, mime_type, cache: self.cache }, variables)
    }

    /// Like [`Self::read`], but inside the layers of the server.
    pub(super) fn read_layered(
        self: &Arc<Self>,
        request: &IncomingRequest<'_>,
        uri: &str,
    ) -> Option<Result<BoxedHandler, Failure>> {
        let matches = self.serves(uri);
        let start = || {
            let (entry, format) = (InvocationTarget::Template(Arc::clone(self)), read_format(request, self.cache));
            serve_layered::<ReadResourceResult>(request, entry, format)
        };
        matches.then(start)
    }

    /// Whether a read of this URI is one of this template.
    pub(super) fn serves(&self, uri: &str) -> bool {
        self.variables(uri).is_some_and(|variables| self.reader.accepts(variables))
    }

    /// Runs the handler inside the layers of the server.
    pub(super) async fn run_layered(&self, call: &Call) -> Result<ReadResourceResult, Failure> {
        let variables = self.variables(call.name()).expect("the template matched before the layers ran");
        self.reader.start_layered(call, self.definition.mime_type.as_deref(), variables)?.await
    }

    /// Returns the values of the template's variables in this URI, or `None` if the template does not match the URI.
    fn variables<'a>(&'a self, uri: &'a str) -> Option<TextArguments<'a>> {
        let variables = self.template.matches(uri)?;
        Some(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

fn single_contents(contents: ResourceContents, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
    let contents = match mime_type {
        Some(mime_type) => contents.with_mime_type(mime_type),
        None => contents,
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

impl IntoContents for String {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
        single_contents(ResourceContents::text(uri, self), mime_type)
    }
}

impl IntoContents for &'static str {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
        self.to_owned().into_contents(uri, mime_type)
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
        single_contents(ResourceContents::blob(uri, BASE64_STANDARD.encode(self)), mime_type)
    }
}

impl IntoContents for ResourceContents {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult, Failure> {
        Ok(ReadResourceResult::new(vec![self]))
    }
}

impl IntoContents for Vec<ResourceContents> {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult, Failure> {
        Ok(ReadResourceResult::new(self))
    }
}

impl IntoContents for ReadResourceResult {
    fn into_contents(self, _: &str, _: Option<&str>) -> Result<ReadResourceResult, Failure> {
        Ok(self)
    }
}

impl<T: IntoContents, E: Into<Failure>> IntoContents for Result<T, E> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
        self.map_err(Into::into)?.into_contents(uri, mime_type)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("definition", &self.definition).finish_non_exhaustive()
    }
}
