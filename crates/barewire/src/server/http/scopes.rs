//! A message and its sender -> whether the sender's scopes allow the message, and if not, all scopes that it needs.
//!
//! Only what reaches a tool, a task of a tool, a prompt or a resource is checked. Lists show all entries: a client must know an entry to
//! ask for the scope that it needs.

use std::sync::Arc;

use barewire_proto::json::{Json, Text};
use barewire_proto::mcp::{ParsedMessage, RequestParams};
use barewire_proto::rpc::{Message, Parsed, Request};
use bytes::Bytes;

use super::endpoint::HttpEndpoint;
use super::{AuthError, Principal};
use crate::server::registry::RegistryEntries;
use crate::server::task::{scopes_of_tasks, task_ids};

/// Checks the scopes that every request needs, for a request without a message.
pub(super) fn check_base(endpoint: &HttpEndpoint, principal: Option<&Principal>) -> Result<(), AuthError> {
    require(endpoint, principal, Vec::new())
}

/// The scopes of one task.
pub(super) type TaskScopes = Arc<[String]>;

/// Returns the ids of the tasks that a message names, if the tools of tasks can need scopes.
pub(super) fn tasks_to_check(endpoint: &HttpEndpoint, message: &ParsedMessage<Bytes>) -> Vec<String> {
    let entries = endpoint.shared.registry.entries();
    if !entries.has_scopes || !entries.has_tasks {
        return Vec::new();
    }
    match message.parsed() {
        Parsed::Message(Message::Request(request)) => task_ids(&request, message.params().unwrap_or_default()),
        // The revisions that have batches have no tasks.
        Parsed::Message(_) | Parsed::Batch(_) | Parsed::Invalid(_) => Vec::new(),
    }
}

/// Returns the scopes of those tasks that the sender may use.
pub(super) async fn of_tasks(
    endpoint: &HttpEndpoint,
    ids: Vec<String>,
    principal: Option<&Principal>,
) -> Result<Vec<TaskScopes>, AuthError> {
    let scopes = scopes_of_tasks(&endpoint.shared.settings.tasks, ids, principal.map(Principal::name)).await;
    scopes.map_err(|_| AuthError::unknown_scopes())
}

/// Checks the scopes that a message needs: those of every request, those of its tool, prompt or resource, and those of
/// the tasks that it names.
pub(super) fn check(
    endpoint: &HttpEndpoint,
    message: &ParsedMessage<Bytes>,
    tasks: &[TaskScopes],
    principal: Option<&Principal>,
) -> Result<(), AuthError> {
    let entries = endpoint.shared.registry.entries();
    let mut scopes = Vec::new();
    if entries.has_scopes {
        match message.parsed() {
            Parsed::Message(Message::Request(request)) => {
                scopes = of_request(&entries, &request, message.params().unwrap_or_default());
            }
            Parsed::Batch(batch) => {
                for element in batch.elements().flatten() {
                    let Message::Request(request) = element else { continue };
                    scopes.extend(of_request(&entries, &request, RequestParams::read(request.params)));
                }
            }
            Parsed::Message(_) => {}
            Parsed::Invalid(_) => {}
        }
    }
    scopes.extend(tasks.iter().flat_map(|scopes| scopes.iter()).map(String::as_str));
    require(endpoint, principal, scopes)
}

fn require(endpoint: &HttpEndpoint, principal: Option<&Principal>, more: Vec<&str>) -> Result<(), AuthError> {
    let base = endpoint.authenticate.as_ref().map_or(&[][..], |authenticate| authenticate.required_scopes());
    let mut needed = base.iter().map(String::as_str).chain(more.iter().copied());
    let is_allowed = match principal {
        Some(principal) => needed.all(|scope| principal.has_scope(scope)),
        None => needed.next().is_none(),
    };
    if is_allowed {
        return Ok(());
    }
    let all = base.iter().map(String::as_str).chain(more);
    Err(match principal {
        Some(principal) => AuthError::insufficient_scope(all).style(principal.challenge_style()),
        None => AuthError::unauthorized().scopes(all),
    })
}

/// Returns the scopes that a request needs.
fn of_request<'a>(entries: &'a RegistryEntries, request: &Request<'_>, params: RequestParams<'_>) -> Vec<&'a str> {
    let text =
        |json: Option<Json<'_>>| json.and_then(Text::from_json).and_then(|text| Some(text.to_str()?.into_owned()));
    let at = |path: &[&str]| request.params.and_then(|params| params.json().at(path));
    let found: Vec<&'a Vec<String>> = match &*request.method.to_name() {
        "tools/call" => {
            text(params.name).and_then(|name| Some(&entries.tools.find(&name)?.scopes)).into_iter().collect()
        }
        "prompts/get" => text(params.name).and_then(|name| prompt(entries, &name)).into_iter().collect(),
        "resources/read" | "resources/subscribe" => {
            text(params.uri).and_then(|uri| resource(entries, &uri)).into_iter().collect()
        }
        "subscriptions/listen" => {
            let uris = at(&["notifications", "resourceSubscriptions"]).into_iter().flat_map(Json::elements);
            uris.filter_map(|uri| resource(entries, &uri.string()?)).collect()
        }
        // A proposal shows values of the prompt or the resource.
        "completion/complete" => {
            let of_prompt = text(at(&["ref", "name"])).and_then(|name| prompt(entries, &name));
            let of_template = text(at(&["ref", "uri"])).and_then(|uri| Some(&entries.templates.find(&uri)?.scopes));
            of_prompt.into_iter().chain(of_template).collect()
        }
        _ => Vec::new(),
    };
    found.into_iter().flatten().map(String::as_str).collect()
}

fn prompt<'a>(entries: &'a RegistryEntries, name: &str) -> Option<&'a Vec<String>> {
    Some(&entries.prompts.find(name)?.scopes)
}

/// Returns the scopes of the resource with this URI, or else of the first template that serves it.
fn resource<'a>(entries: &'a RegistryEntries, uri: &str) -> Option<&'a Vec<String>> {
    let resource = entries.resources.find(uri).map(|resource| &resource.scopes);
    resource.or_else(|| entries.templates.iter().find(|template| template.serves(uri)).map(|found| &found.scopes))
}
