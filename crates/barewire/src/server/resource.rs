//! A resource, or a template of many: what is listed, and the handler that a reading runs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use barewire_proto::mcp::Template as UriTemplate;
use barewire_proto::mcp::{self, Annotations, Icon, Meta, ReadResourceResult, ResourceContents, Revision};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;

use super::completion::{Completers, CompletionRequest};
use super::described::{described, fit};
use super::handler::sealed::FromCalling;
use super::layer::{BoxedOutcome, Entry, serve_layered};
use super::serving::{Style, serve};
use super::words::{self, Words};
use super::{BadEntry, Cache, Call, Calling, Handler};
use crate::Failure;
use crate::peer::BoxedHandler;

/// A resource at a URI: what the client is told of it, and its contents, or a handler that gives them.
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
    reader: Arc<dyn Read>,
    cache: Option<Cache>,
}

/// Resources at all URIs of a form, as `note://{id}`: RFC 6570.
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
    reader: Arc<dyn Read>,
    pub(super) completers: Completers,
    cache: Option<Cache>,
}

/// What a resource can be read as: text, bytes, [`ResourceContents`], several of them, or a whole
/// [`ReadResourceResult`]; or a `Result` of any of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the contents of a resource",
    label = "returns a type that is not the contents of a resource",
    note = "a resource returns text, bytes (`Vec<u8>`), `ResourceContents`, several of them or `ReadResourceResult`; \
            or a `Result` of one of these, with an error that turns into a `Failure`"
)]
pub trait IntoContents {
    /// Turns it into the result for this URI.
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure>;
}

/// A handler of any type.
trait Read: Send + Sync {
    /// Starts a reading; `None` if the variables are not what the handler takes.
    fn read(&self, reading: Reading<'_>, variables: Words<'_>) -> Option<Result<BoxedHandler, Failure>>;

    /// Whether the variables are what the handler takes.
    fn takes(&self, variables: Words<'_>) -> bool;

    /// Starts a reading behind layers, with variables that it takes.
    fn outcome(&self, call: &Call, mime_type: Option<&str>, variables: Words<'_>) -> Result<BoxedResult, Failure>;
}

type BoxedResult = BoxedOutcome<ReadResourceResult, Failure>;

/// What is read.
struct Reading<'a> {
    calling: &'a Calling<'a>,
    uri: &'a str,
    mime_type: Option<&'a str>,
    cache: Option<Cache>,
}

struct Typed<H, M> {
    handler: H,
    kind: std::marker::PhantomData<fn() -> M>,
}

impl<H, M> Read for Typed<H, M>
where
    H: Handler<M>,
    H::Arguments: DeserializeOwned,
    H::Output: IntoContents,
{
    fn read(&self, reading: Reading<'_>, variables: Words<'_>) -> Option<Result<BoxedHandler, Failure>> {
        let arguments = words::read(variables).ok()?;
        Some(self.start(reading, arguments))
    }

    fn takes(&self, variables: Words<'_>) -> bool {
        words::read::<H::Arguments>(variables).is_ok()
    }

    fn outcome(&self, call: &Call, mime_type: Option<&str>, variables: Words<'_>) -> Result<BoxedResult, Failure> {
        let arguments = words::read(variables).map_err(|error| Failure::invalid_params(error.to_string()))?;
        let future = self.handler.start(H::Context::from_call(call), arguments);
        Ok(Box::pin(contents(future, call.name(), mime_type)))
    }
}

impl<H, M> Typed<H, M>
where
    H: Handler<M>,
    H::Output: IntoContents,
{
    fn start(&self, reading: Reading<'_>, arguments: H::Arguments) -> Result<BoxedHandler, Failure> {
        let Reading { calling, uri, mime_type, cache } = reading;
        let context = H::Context::from_calling(calling)?;
        let call = context.call();
        let outcome = contents(self.handler.start(context, arguments), uri, mime_type);
        Ok(serve(outcome, call, style(calling, cache)))
    }
}

/// The contents that a handler gives.
fn contents<F>(
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

fn style(calling: &Calling<'_>, cache: Option<Cache>) -> Style {
    let style = calling.style(Some(cache.unwrap_or(calling.shared.settings.cache)));
    match (calling.params.input_responses, calling.params.request_state) {
        (None, None) => style,
        // It was made of answers, which are no part of a cache's key: MCP 2026-07-28, server/utilities/caching.
        _ => style.uncached(),
    }
}

impl Resource {
    /// A resource whose contents a handler gives each time it is read.
    pub fn new<M, H>(uri: impl Into<String>, name: impl Into<String>, handler: H) -> Self
    where
        M: 'static,
        H: Handler<M, Arguments = ()>,
        H::Output: IntoContents,
    {
        let reader = Arc::new(Typed { handler, kind: std::marker::PhantomData });
        Self { definition: mcp::Resource::new(uri, name), reader, cache: None }
    }

    /// A resource that is this text.
    pub fn text(uri: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        let text: Arc<str> = text.into().into();
        let size = u64::try_from(text.len()).ok();
        let mut resource = Self::new(uri, name, move || std::future::ready(text.to_string()));
        resource.definition.size = size;
        resource
    }

    /// A resource that is these bytes.
    pub fn bytes(uri: impl Into<String>, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into().into();
        let size = u64::try_from(bytes.len()).ok();
        let mut resource = Self::new(uri, name, move || std::future::ready(bytes.to_vec()));
        resource.definition.size = size;
        resource
    }

    described!(title description mime_type icon annotations meta cache);

    /// As a revision has it.
    pub(super) fn listed(&self, revision: Revision) -> mcp::Resource {
        let mut resource = self.definition.clone();
        fit(revision, &mut resource.title, &mut resource.icons, &mut resource.meta);
        resource
    }

    pub(super) fn read(&self, calling: &Calling<'_>, uri: &str) -> Option<Result<BoxedHandler, Failure>> {
        let mime_type = self.definition.mime_type.as_deref();
        self.reader.read(Reading { calling, uri, mime_type, cache: self.cache }, Vec::new())
    }

    /// Starts the layers around a reading.
    pub(super) fn read_layered(self: &Arc<Self>, calling: &Calling<'_>) -> Result<BoxedHandler, Failure> {
        serve_layered::<ReadResourceResult>(calling, Entry::Resource(Arc::clone(self)), style(calling, self.cache))
    }

    /// Runs a reading that has come through the layers.
    pub(super) async fn outcome(&self, call: &Call) -> Result<ReadResourceResult, Failure> {
        self.reader.outcome(call, self.definition.mime_type.as_deref(), Vec::new())?.await
    }
}

impl Template {
    /// Resources whose contents a handler gives; its arguments are the variables of the URI.
    ///
    /// # Panics
    /// If the template is none.
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

    /// The same, for templates that are not known to be good.
    pub fn try_new<M, H>(template: impl Into<String>, name: impl Into<String>, handler: H) -> Result<Self, BadEntry>
    where
        M: 'static,
        H: Handler<M>,
        H::Arguments: DeserializeOwned,
        H::Output: IntoContents,
    {
        let definition = mcp::ResourceTemplate::new(template, name);
        let template = UriTemplate::parse(&definition.uri_template).map_err(|error| BadEntry(error.to_string()))?;
        let reader = Arc::new(Typed { handler, kind: std::marker::PhantomData });
        Ok(Self { definition, template, reader, completers: Completers::default(), cache: None })
    }

    described!(title description mime_type icon annotations meta cache complete);

    /// As a revision has it.
    pub(super) fn listed(&self, revision: Revision) -> mcp::ResourceTemplate {
        let mut template = self.definition.clone();
        fit(revision, &mut template.title, &mut template.icons, &mut template.meta);
        template
    }

    /// Reads the resource at this URI, if it is one of these.
    pub(super) fn read(&self, calling: &Calling<'_>, uri: &str) -> Option<Result<BoxedHandler, Failure>> {
        let variables = self.variables(uri)?;
        let mime_type = self.definition.mime_type.as_deref();
        self.reader.read(Reading { calling, uri, mime_type, cache: self.cache }, variables)
    }

    /// Starts the layers around a reading of the resource at this URI, if it is one of these.
    pub(super) fn read_layered(
        self: &Arc<Self>,
        calling: &Calling<'_>,
        uri: &str,
    ) -> Option<Result<BoxedHandler, Failure>> {
        let is_one = self.variables(uri).is_some_and(|variables| self.reader.takes(variables));
        let start = || {
            let (entry, style) = (Entry::Template(Arc::clone(self)), style(calling, self.cache));
            serve_layered::<ReadResourceResult>(calling, entry, style)
        };
        is_one.then(start)
    }

    /// Runs a reading that has come through the layers.
    pub(super) async fn outcome(&self, call: &Call) -> Result<ReadResourceResult, Failure> {
        let variables = self.variables(call.name()).expect("it fitted before the layers ran");
        self.reader.outcome(call, self.definition.mime_type.as_deref(), variables)?.await
    }

    /// The variables of a URI, if it is one of these.
    fn variables<'a>(&'a self, uri: &'a str) -> Option<Words<'a>> {
        let variables = self.template.matches(uri)?;
        Some(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

fn typed(contents: ResourceContents, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
    let contents = match mime_type {
        Some(mime_type) => contents.with_mime_type(mime_type),
        None => contents,
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

impl IntoContents for String {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
        typed(ResourceContents::text(uri, self), mime_type)
    }
}

impl IntoContents for &'static str {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
        self.to_owned().into_contents(uri, mime_type)
    }
}

impl IntoContents for Vec<u8> {
    fn into_contents(self, uri: &str, mime_type: Option<&str>) -> Result<ReadResourceResult, Failure> {
        typed(ResourceContents::blob(uri, BASE64_STANDARD.encode(self)), mime_type)
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
