//! `subscriptions/listen`: a request that is answered when it ends, and notifications until then. And the same news for
//! legacy clients, which are told unasked.

use std::sync::Arc;

use barewire_proto::mcp::{Meta, ServerCapability, SubscriptionFilter, SubscriptionParams, key};
use barewire_proto::rpc::Params;
use serde::Serialize;
use serde_json::Value;

use super::connection::Calling;
use super::serving::{Empty, serve};
use super::watch::{MOST, Watch};
use crate::Failure;
use crate::peer::{BoxedWork, CallError, Context};

/// Begins to listen: the acknowledgement goes out first, then news, until the client cancels or the connection ends.
pub(super) fn start(calling: &Calling<'_>, params: Option<Params<'_>>) -> Result<BoxedWork, Failure> {
    let SubscriptionParams { notifications, .. } = crate::params::read(params)?;
    let honoured = honoured(calling, notifications)?;
    let watch = Arc::new(Watch::new(honoured.clone()));
    // From now on, so that nothing is missed that happens after the acknowledgement.
    calling.shared.registry.watch(&watch);
    let context = calling.context.clone();
    let id = context.id().and_then(|id| serde_json::from_str(id).ok()).unwrap_or(Value::Null);
    let meta = Meta::from_iter([(key::SUBSCRIPTION_ID.to_owned(), id)]);
    let outcome = async move {
        let acknowledged = SubscriptionParams { notifications: honoured, meta: Some(meta.clone()) };
        let told = context.notify("notifications/subscriptions/acknowledged", acknowledged).await;
        if told.is_ok() {
            let mut closing = std::pin::pin!(context.closing());
            let mut telling = std::pin::pin!(tell(&watch, &context, Some(&meta)));
            std::future::poll_fn(|cx| match closing.as_mut().poll(cx) {
                std::task::Poll::Ready(()) => std::task::Poll::Ready(()),
                // Nothing more can be told.
                std::task::Poll::Pending => telling.as_mut().poll(cx).map(drop),
            })
            .await;
        }
        Ok(Empty { meta: Some(meta) })
    };
    Ok(serve(outcome, None, calling.style(None)))
}

/// What of it we can tell.
fn honoured(calling: &Calling<'_>, wanted: SubscriptionFilter) -> Result<SubscriptionFilter, Failure> {
    if wanted.resource_subscriptions.len() > MOST {
        return Err(Failure::invalid_params(format!("resourceSubscriptions may have at most {MOST} URIs")));
    }
    let offers = |capability| calling.offers(capability);
    let mut resource_subscriptions = wanted.resource_subscriptions;
    if !offers(ServerCapability::ResourcesSubscribe) {
        resource_subscriptions.clear();
    }
    Ok(SubscriptionFilter {
        tools_list_changed: wanted.tools_list_changed && offers(ServerCapability::ToolsListChanged),
        prompts_list_changed: wanted.prompts_list_changed && offers(ServerCapability::PromptsListChanged),
        resources_list_changed: wanted.resources_list_changed
            && offers(ServerCapability::ResourcesListChanged),
        resource_subscriptions,
    })
}

/// Tells a legacy client what changes, until its connection ends.
pub(super) async fn announce(watch: Arc<Watch>, context: Context) {
    let mut closing = std::pin::pin!(context.closing());
    let mut telling = std::pin::pin!(tell(&watch, &context, None));
    std::future::poll_fn(|cx| match closing.as_mut().poll(cx) {
        std::task::Poll::Ready(()) => std::task::Poll::Ready(()),
        std::task::Poll::Pending => telling.as_mut().poll(cx).map(drop),
    })
    .await;
}

/// Tells what changes for as long as it can be told.
async fn tell(watch: &Watch, context: &Context, meta: Option<&Meta>) -> Result<(), CallError> {
    #[derive(Serialize)]
    struct News<'a> {
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a Meta>,
        #[serde(skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
    }
    loop {
        for (method, uri) in watch.news().await.notifications() {
            match (meta, uri) {
                (None, None) => context.notify(method, ()).await?,
                (meta, uri) => context.notify(method, News { meta, uri }).await?,
            }
        }
    }
}
