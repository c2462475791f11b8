//! `subscriptions/listen`: a request that is answered when it ends, and notifications until then. And the same news for
//! legacy clients, which are told unasked.

use std::sync::Arc;

use barewire_proto::mcp::{ServerCapability, SubscriptionFilter, SubscriptionParams, key};
use barewire_proto::rpc::Params;
use serde::Serialize;
use serde_json::value::RawValue;

use super::connection::Calling;
use super::serving::{Empty, serve};
use super::watch::{self, MOST, Watch};
use crate::Failure;
use crate::peer::{BoxedHandler, CallError, Context};
use crate::until::until;

/// Begins to listen: the acknowledgement goes out first, then news, until the client cancels or the connection ends.
pub(super) fn start(calling: &Calling<'_>, params: Option<Params<'_>>) -> Result<BoxedHandler, Failure> {
    let SubscriptionParams { notifications, .. } = crate::params::read(params)?;
    let honoured = honoured(calling, notifications)?;
    let open = Arc::clone(calling.listens);
    // Those held by listens, the connection's own and this one.
    if Arc::strong_count(&open) > MOST_LISTENS + 1 {
        let what = format!("{MOST_LISTENS} subscriptions are open on this connection already");
        return Err(Failure::invalid_params(what));
    }
    let watch = Arc::new(Watch::new(honoured.clone()));
    // From now on, so that nothing is missed that happens after the acknowledgement.
    calling.shared.registry.watch(&watch);
    let context = calling.context.clone();
    // As the client wrote it, whatever a reader of JSON would make of it.
    let id = context.id().unwrap_or("null");
    let member = format!(r#""{}":{id}"#, key::SUBSCRIPTION_ID);
    let meta = RawValue::from_string(format!("{{{member}}}"));
    let meta = meta.map_err(|error| Failure::internal("Error", error.to_string()))?;
    let style = calling.style(None).with_meta(member);
    let outcome = async move {
        let _open = open;
        let acknowledged = Acknowledged { meta: &meta, notifications: honoured };
        let told = context.notify("notifications/subscriptions/acknowledged", acknowledged).await;
        if told.is_ok() {
            until(tell(&watch, &context, Some(&meta)), context.closing()).await;
        }
        Ok(Empty::default())
    };
    Ok(serve(outcome, None, style))
}

#[derive(Serialize)]
struct Acknowledged<'a> {
    #[serde(rename = "_meta")]
    meta: &'a RawValue,
    notifications: SubscriptionFilter,
}

/// What of it we can tell.
fn honoured(calling: &Calling<'_>, wanted: SubscriptionFilter) -> Result<SubscriptionFilter, Failure> {
    if !watch::fits(wanted.resource_subscriptions.iter().map(String::as_str)) {
        let what = format!("resourceSubscriptions may have at most {MOST} URIs, and a megabyte of them");
        return Err(Failure::invalid_params(what));
    }
    let offers = |capability| calling.offers(capability);
    let mut honoured = SubscriptionFilter::default()
        .tools_list_changed(wanted.tools_list_changed && offers(ServerCapability::ToolsListChanged))
        .prompts_list_changed(wanted.prompts_list_changed && offers(ServerCapability::PromptsListChanged))
        .resources_list_changed(wanted.resources_list_changed && offers(ServerCapability::ResourcesListChanged));
    if offers(ServerCapability::ResourcesSubscribe) {
        honoured.resource_subscriptions = wanted.resource_subscriptions;
    }
    Ok(honoured)
}

/// Tells a legacy client what changes, until its connection ends.
pub(super) async fn announce(watch: Arc<Watch>, context: Context) {
    until(tell(&watch, &context, None), context.closing()).await;
}

/// Tells what changes for as long as it can be told.
async fn tell(watch: &Watch, context: &Context, meta: Option<&RawValue>) -> Result<(), CallError> {
    #[derive(Serialize)]
    struct News<'a> {
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a RawValue>,
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

/// So many listens one connection may have open. They end only when they are told to, so they must not be all that may be in
/// flight: nothing behind them would be read, not even what ends them.
const MOST_LISTENS: usize = 256;
