//! Change notifications. A modern client requests them with `subscriptions/listen`, which is answered only when the
//! subscription ends; a legacy client gets them without a request.

use std::sync::Arc;

use barewire_proto::mcp::{ServerCapability, SubscriptionFilter, SubscriptionParams, key};
use barewire_proto::rpc::Params;
use serde::Serialize;
use serde_json::value::RawValue;

use super::connection::IncomingRequest;
use super::handler_work::{EmptyResult, serve};
use super::task::TaskListen;
use super::watch::{self, ChangeWatch, Changes, MAX_SUBSCRIPTIONS};
use crate::Failure;
use crate::peer::{BoxedHandler, CallError, Context};
use crate::until::until;

/// Starts a `subscriptions/listen`: sends the acknowledgement, then change notifications, until the client cancels the
/// request or the connection closes.
pub(super) fn start(request: &IncomingRequest<'_>, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
    let SubscriptionParams { notifications, .. } = crate::params::read(params)?;
    let task_ids = match request.entries.has_tasks {
        true => notifications.task_ids.clone(),
        false => Vec::new(),
    };
    let tasks = (!task_ids.is_empty()).then(|| TaskListen::new(request, &task_ids)).transpose()?;
    let mut honoured = supported_filter(request, notifications)?;
    let open = Arc::clone(request.open_listens);
    // The reference count includes the connection's own reference and the clone made in the line above.
    if Arc::strong_count(&open) > MAX_LISTENS + 1 {
        let what = format!("this connection already has {MAX_LISTENS} open subscriptions");
        return Err(Failure::invalid_params(what));
    }
    let watch = Arc::new(ChangeWatch::new(honoured.clone()));
    // The watch is registered before the acknowledgement is sent, so that no change after the acknowledgement is
    // missed.
    request.shared.registry.add_watch(&watch);
    let context = request.context.clone();
    // The id is copied as text: parsing and writing it again might change how a number is written.
    let id = context.id().unwrap_or("null");
    let member = format!(r#""{}":{id}"#, key::SUBSCRIPTION_ID);
    let meta = RawValue::from_string(format!("{{{member}}}"));
    let meta = meta.map_err(|error| Failure::internal("Error", error.to_string()))?;
    let format = request.format(None).with_meta(member);
    let outcome = async move {
        let _open = open;
        if let Some(tasks) = &tasks {
            honoured.task_ids = tasks.begin(task_ids).await;
        }
        let acknowledged = AcknowledgedParams { meta: &meta, notifications: honoured };
        let sent = context.notify("notifications/subscriptions/acknowledged", acknowledged).await;
        if sent.is_ok() {
            let changes = send_changes(&watch, &context, Some(&meta));
            match tasks {
                None => until(changes, context.closing()).await.map(drop),
                Some(tasks) => {
                    // Boxed, because few streams are about tasks.
                    let tasks = Box::pin(tasks.send_changes(context.clone(), meta.clone()));
                    until(until(changes, tasks), context.closing()).await.map(drop)
                }
            };
        }
        Ok(EmptyResult::default())
    };
    Ok(serve(outcome, None, format))
}

#[derive(Serialize)]
struct AcknowledgedParams<'a> {
    #[serde(rename = "_meta")]
    meta: &'a RawValue,
    notifications: SubscriptionFilter,
}

/// Returns the part of the filter that this server supports.
fn supported_filter(request: &IncomingRequest<'_>, wanted: SubscriptionFilter) -> Result<SubscriptionFilter, Failure> {
    if !watch::is_within_limits(wanted.resource_subscriptions.iter().map(String::as_str)) {
        let what =
            format!("resourceSubscriptions may have at most {MAX_SUBSCRIPTIONS} URIs, of at most a megabyte together");
        return Err(Failure::invalid_params(what));
    }
    let offers = |capability| request.offers(capability);
    let mut honoured = SubscriptionFilter::default()
        .tools_list_changed(wanted.tools_list_changed && offers(ServerCapability::ToolsListChanged))
        .prompts_list_changed(wanted.prompts_list_changed && offers(ServerCapability::PromptsListChanged))
        .resources_list_changed(wanted.resources_list_changed && offers(ServerCapability::ResourcesListChanged));
    if offers(ServerCapability::ResourcesSubscribe) {
        honoured.resource_subscriptions = wanted.resource_subscriptions;
    }
    Ok(honoured)
}

/// Sends change notifications to a legacy client until its connection closes.
pub(super) async fn announce_to_legacy_client(watch: Arc<ChangeWatch>, context: Context) {
    until(send_changes(&watch, &context, None), context.closing()).await;
}

/// Sends change notifications until sending fails.
async fn send_changes(watch: &ChangeWatch, context: &Context, meta: Option<&RawValue>) -> Result<(), CallError> {
    loop {
        let changes = watch.changes().await;
        // Boxed, because this future would take a kilobyte of each idle stream, and is seldom needed.
        Box::pin(send(changes, context, meta)).await?;
    }
}

async fn send(changes: Changes, context: &Context, meta: Option<&RawValue>) -> Result<(), CallError> {
    #[derive(Serialize)]
    struct ChangeParams<'a> {
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    }
    for (method, uri) in changes.notifications() {
        match (meta, uri) {
            (None, None) => context.notify(method, ()).await?,
            (meta, uri) => context.notify(method, ChangeParams { meta, uri }).await?,
        }
    }
    Ok(())
}

/// The maximum number of open `subscriptions/listen` requests of a connection. They end only when the client cancels
/// them, so this number must be less than the limit for requests in flight: at that limit no further message is read,
/// not even a cancellation.
const MAX_LISTENS: usize = 256;
