//! The methods of a server: starts the handler of a request that the handshake allows. `initialize`, `ping` and
//! `tools/call` are served in `connection`.

use std::sync::Arc;

use barewire_proto::mcp::{
    CompleteParams, CompleteReference, CompleteResult, Completion, DiscoverResult, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ServerCapability, code,
};
use barewire_proto::rpc::{Code, ErrorObject, Params};
use serde::Serialize;

use super::completion::CompletionRequest;
use super::connection::{ClientEra, IncomingRequest, set_level};
use super::handler_work::{EmptyResult, ready, serve};
use super::layer::{InvocationTarget, serve_layered};
use super::registry::EntryList;
use super::{listen, page, task};
use crate::Failure;
use crate::log::quoted;
use crate::peer::BoxedHandler;

/// Serves a request. Returns the error "method not found" if the client's era does not have the method, or the server
/// lacks the capability that the method needs.
pub(super) fn serve_method(request: &IncomingRequest<'_>, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
    use ServerCapability::{Completions, Logging, Prompts, Resources, ResourcesSubscribe, Tools};
    let offers = |capability| request.offers(capability);
    let cache = Some(request.shared.settings.cache);
    match (request.context.method(), &request.client) {
        ("tools/list", _) if offers(Tools) => {
            let (tools, next_cursor) =
                list(request, "tools", &request.entries.tools, |tool| tool.listed(request.revision))?;
            let mut result = ListToolsResult::new(tools);
            result.next_cursor = next_cursor;
            Ok(ready(result, request.format(cache)))
        }
        ("prompts/list", _) if offers(Prompts) => {
            let (prompts, next_cursor) =
                list(request, "prompts", &request.entries.prompts, |prompt| prompt.listed(request.revision))?;
            let mut result = ListPromptsResult::new(prompts);
            result.next_cursor = next_cursor;
            Ok(ready(result, request.format(cache)))
        }
        ("resources/list", _) if offers(Resources) => {
            let (resources, next_cursor) =
                list(request, "resources", &request.entries.resources, |resource| resource.listed(request.revision))?;
            let mut result = ListResourcesResult::new(resources);
            result.next_cursor = next_cursor;
            Ok(ready(result, request.format(cache)))
        }
        ("resources/templates/list", _) if offers(Resources) => {
            let (resource_templates, next_cursor) =
                list(request, "templates", &request.entries.templates, |template| template.listed(request.revision))?;
            let mut result = ListResourceTemplatesResult::new(resource_templates);
            result.next_cursor = next_cursor;
            Ok(ready(result, request.format(cache)))
        }
        ("prompts/get", _) if offers(Prompts) => {
            let name = request.required_string("name", request.params.name)?;
            match request.entries.prompts.find(&name) {
                Some(prompt) if request.shared.settings.layers.is_empty() => prompt.get(request),
                Some(prompt) => serve_layered::<GetPromptResult>(
                    request,
                    InvocationTarget::Prompt(Arc::clone(prompt)),
                    request.format(None),
                ),
                None => Err(Failure::invalid_params(format!("Unknown prompt: {}", quoted(name.as_bytes())))),
            }
        }
        ("resources/read", _) if offers(Resources) => read(request),
        ("completion/complete", _) if offers(Completions) => complete(request, params),
        ("logging/setLevel", ClientEra::Legacy(client)) if offers(Logging) => {
            Ok(ready(set_level(client, params)?, request.format(None)))
        }
        ("resources/subscribe", ClientEra::Legacy(client)) if offers(ResourcesSubscribe) => {
            let uri = request.required_string("uri", request.params.uri)?;
            if !client.watch.subscribe(&uri) {
                return Err(Failure::invalid_params("too many subscriptions: unsubscribe from other resources first"));
            }
            Ok(ready(EmptyResult::default(), request.format(None)))
        }
        ("resources/unsubscribe", ClientEra::Legacy(client)) if offers(ResourcesSubscribe) => {
            client.watch.unsubscribe(&request.required_string("uri", request.params.uri)?);
            Ok(ready(EmptyResult::default(), request.format(None)))
        }
        ("server/discover", ClientEra::Modern(_)) => Ok(ready(discover(request), request.format(cache))),
        ("subscriptions/listen", ClientEra::Modern(_)) => listen::start(request, params),
        _ => task::serve_task_method(request),
    }
}

/// Returns one page of a list, and the cursor of the next page, if there is one.
fn list<T, L>(
    request: &IncomingRequest<'_>,
    name: &str,
    list: &EntryList<T>,
    listed: impl Fn(&T) -> L,
) -> Result<(Vec<L>, Option<String>), Failure> {
    let after = page::parse_cursor(name, request.params.cursor)?;
    let (page, next) = list.page(after, request.shared.settings.page_size);
    Ok((page.into_iter().map(|entry| listed(entry)).collect(), next.map(|next| page::write_cursor(name, next))))
}

/// Serves `resources/read`: reads the resource with this URI, or else uses the first template that matches the URI.
fn read(request: &IncomingRequest<'_>) -> Result<BoxedHandler, Failure> {
    #[derive(Serialize)]
    struct ResourceNotFoundData<'a> {
        uri: &'a str,
    }
    let uri = request.required_string("uri", request.params.uri)?;
    let resource = request.entries.resources.find(&uri);
    let mut templates = request.entries.templates.iter();
    let work = if request.shared.settings.layers.is_empty() {
        let work = resource.and_then(|resource| resource.read(request, &uri));
        work.or_else(|| templates.find_map(|template| template.read(request, &uri)))
    } else {
        let work = resource.map(|resource| resource.read_layered(request));
        work.or_else(|| templates.find_map(|template| template.read_layered(request, &uri)))
    };
    if let Some(work) = work {
        return work;
    }
    let code = if request.revision.has_resource_not_found() { code::RESOURCE_NOT_FOUND } else { Code::INVALID_PARAMS };
    Err(ErrorObject::new(code, format!("Resource not found: {}", quoted(uri.as_bytes())))
        .with_data(&ResourceNotFoundData { uri: &uri })
        .into())
}

fn complete(request: &IncomingRequest<'_>, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
    let CompleteParams { reference, argument, context, .. } = crate::params::read(params)?;
    let completers = match &reference {
        CompleteReference::Prompt { name, .. } => {
            let prompt = request.entries.prompts.find(name);
            &prompt
                .ok_or_else(|| Failure::invalid_params(format!("Unknown prompt: {}", quoted(name.as_bytes()))))?
                .completers
        }
        CompleteReference::Resource { uri, .. } => match request.entries.templates.find(uri) {
            Some(template) => &template.completers,
            // The URI names a resource, not a template, so it has no variables to complete.
            None if request.entries.resources.find(uri).is_some() => {
                return Ok(ready(CompleteResult::default(), request.format(None)));
            }
            None => {
                return Err(Failure::invalid_params(format!("Unknown resource template: {}", quoted(uri.as_bytes()))));
            }
        },
        _ => return Err(Failure::invalid_params("ref must name a prompt or a resource template")),
    };
    let arguments = context.map(|context| context.arguments).unwrap_or_default();
    let Some(completed) = completers.complete(&argument.name, CompletionRequest { value: argument.value, arguments })
    else {
        return Ok(ready(CompleteResult::default(), request.format(None)));
    };
    let outcome = async move { Ok(CompleteResult::new(Completion::new(completed.await))) };
    Ok(serve(outcome, None, request.format(None)))
}

fn discover(request: &IncomingRequest<'_>) -> DiscoverResult {
    let shared: &Arc<_> = request.shared;
    let modern = shared.settings.revisions.iter().filter(|revision| revision.is_modern());
    let supported_versions = modern.map(|revision| revision.as_str().to_owned()).collect();
    let mut result = DiscoverResult::new(supported_versions, shared.capabilities(request.entries, request.revision));
    result.instructions = shared.settings.instructions.clone();
    result
}
