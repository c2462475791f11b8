//! A request that may be served -> its result: everything but `initialize` and `tools/call`.

use std::sync::Arc;

use barewire_proto::mcp::{
    CompleteParams, CompleteReference, CompleteResult, Completion, DiscoverResult, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ServerCapability, code,
};
use barewire_proto::rpc::{Code, ErrorObject, Params};
use serde::Serialize;

use super::completion::CompletionRequest;
use super::connection::{Calling, Side, set_level};
use super::layer::{Entry, serve_layered};
use super::registry::List;
use super::serving::{Empty, ready, serve};
use super::{listen, page};
use crate::Failure;
use crate::log::quoted;
use crate::peer::BoxedHandler;

/// Serves a request. What the revision does not have, or the server does not offer, is not found.
pub(super) fn serve_method(calling: &Calling<'_>, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
    use ServerCapability::{Completions, Logging, Prompts, Resources, ResourcesSubscribe, Tools};
    let offers = |capability| calling.offers(capability);
    let cache = Some(calling.shared.settings.cache);
    match (calling.context.method(), &calling.client) {
        ("tools/list", _) if offers(Tools) => {
            let (tools, next_cursor) =
                list(calling, "tools", &calling.offer.tools, |tool| tool.listed(calling.revision))?;
            let mut result = ListToolsResult::new(tools);
            result.next_cursor = next_cursor;
            Ok(ready(result, calling.style(cache)))
        }
        ("prompts/list", _) if offers(Prompts) => {
            let (prompts, next_cursor) =
                list(calling, "prompts", &calling.offer.prompts, |prompt| prompt.listed(calling.revision))?;
            let mut result = ListPromptsResult::new(prompts);
            result.next_cursor = next_cursor;
            Ok(ready(result, calling.style(cache)))
        }
        ("resources/list", _) if offers(Resources) => {
            let (resources, next_cursor) =
                list(calling, "resources", &calling.offer.resources, |resource| resource.listed(calling.revision))?;
            let mut result = ListResourcesResult::new(resources);
            result.next_cursor = next_cursor;
            Ok(ready(result, calling.style(cache)))
        }
        ("resources/templates/list", _) if offers(Resources) => {
            let (resource_templates, next_cursor) =
                list(calling, "templates", &calling.offer.templates, |template| template.listed(calling.revision))?;
            let mut result = ListResourceTemplatesResult::new(resource_templates);
            result.next_cursor = next_cursor;
            Ok(ready(result, calling.style(cache)))
        }
        ("prompts/get", _) if offers(Prompts) => {
            let name = calling.text("name", calling.params.name)?;
            match calling.offer.prompts.find(&name) {
                Some(prompt) if calling.shared.settings.layers.is_empty() => prompt.get(calling),
                Some(prompt) => {
                    serve_layered::<GetPromptResult>(calling, Entry::Prompt(Arc::clone(prompt)), calling.style(None))
                }
                None => Err(Failure::invalid_params(format!("Unknown prompt: {}", quoted(name.as_bytes())))),
            }
        }
        ("resources/read", _) if offers(Resources) => read(calling),
        ("completion/complete", _) if offers(Completions) => complete(calling, params),
        ("logging/setLevel", Side::Legacy(session)) if offers(Logging) => {
            Ok(ready(set_level(session, params)?, calling.style(None)))
        }
        ("resources/subscribe", Side::Legacy(session)) if offers(ResourcesSubscribe) => {
            let uri = calling.text("uri", calling.params.uri)?;
            if !session.watch.subscribe(&uri) {
                return Err(Failure::invalid_params("this client is subscribed to too much already"));
            }
            Ok(ready(Empty::default(), calling.style(None)))
        }
        ("resources/unsubscribe", Side::Legacy(session)) if offers(ResourcesSubscribe) => {
            session.watch.unsubscribe(&calling.text("uri", calling.params.uri)?);
            Ok(ready(Empty::default(), calling.style(None)))
        }
        ("server/discover", Side::Modern(_)) => Ok(ready(discover(calling), calling.style(cache))),
        ("subscriptions/listen", Side::Modern(_)) => listen::start(calling, params),
        _ => Err(Failure::method_not_found()),
    }
}

/// One page of a list, and where the next begins.
fn list<T, L>(
    calling: &Calling<'_>,
    name: &str,
    list: &List<T>,
    listed: impl Fn(&T) -> L,
) -> Result<(Vec<L>, Option<String>), Failure> {
    let behind = page::behind(name, calling.params.cursor)?;
    let (page, next) = list.page(behind, calling.shared.settings.page_size);
    Ok((page.into_iter().map(|entry| listed(entry)).collect(), next.map(|next| page::cursor(name, next))))
}

/// Reads a resource: the one at the URI, or else the first template that fits.
fn read(calling: &Calling<'_>) -> Result<BoxedHandler, Failure> {
    #[derive(Serialize)]
    struct Data<'a> {
        uri: &'a str,
    }
    let uri = calling.text("uri", calling.params.uri)?;
    let resource = calling.offer.resources.find(&uri);
    let mut templates = calling.offer.templates.iter();
    let work = if calling.shared.settings.layers.is_empty() {
        let work = resource.and_then(|resource| resource.read(calling, &uri));
        work.or_else(|| templates.find_map(|template| template.read(calling, &uri)))
    } else {
        let work = resource.map(|resource| resource.read_layered(calling));
        work.or_else(|| templates.find_map(|template| template.read_layered(calling, &uri)))
    };
    if let Some(work) = work {
        return work;
    }
    let code = if calling.revision.has_resource_not_found() { code::RESOURCE_NOT_FOUND } else { Code::INVALID_PARAMS };
    Err(ErrorObject::new(code, format!("Resource not found: {}", quoted(uri.as_bytes())))
        .with_data(&Data { uri: &uri })
        .into())
}

fn complete(calling: &Calling<'_>, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
    let CompleteParams { reference, argument, context, .. } = crate::params::read(params)?;
    let completers = match &reference {
        CompleteReference::Prompt { name, .. } => {
            let prompt = calling.offer.prompts.find(name);
            &prompt
                .ok_or_else(|| Failure::invalid_params(format!("Unknown prompt: {}", quoted(name.as_bytes()))))?
                .completers
        }
        CompleteReference::Resource { uri, .. } => match calling.offer.templates.find(uri) {
            Some(template) => &template.completers,
            // A resource that is none of many has nothing to complete.
            None if calling.offer.resources.find(uri).is_some() => {
                return Ok(ready(CompleteResult::default(), calling.style(None)));
            }
            None => {
                return Err(Failure::invalid_params(format!("Unknown resource template: {}", quoted(uri.as_bytes()))));
            }
        },
        _ => return Err(Failure::invalid_params("Only arguments of prompts and templates are completed")),
    };
    let arguments = context.map(|context| context.arguments).unwrap_or_default();
    let Some(completed) = completers.complete(&argument.name, CompletionRequest { value: argument.value, arguments })
    else {
        return Ok(ready(CompleteResult::default(), calling.style(None)));
    };
    let outcome = async move { Ok(CompleteResult::new(Completion::new(completed.await))) };
    Ok(serve(outcome, None, calling.style(None)))
}

fn discover(calling: &Calling<'_>) -> DiscoverResult {
    let shared: &Arc<_> = calling.shared;
    let modern = shared.settings.revisions.iter().filter(|revision| revision.is_modern());
    let supported_versions = modern.map(|revision| revision.as_str().to_owned()).collect();
    let mut result = DiscoverResult::new(supported_versions, shared.capabilities(calling.offer, calling.revision));
    result.instructions = shared.settings.instructions.clone();
    result
}
