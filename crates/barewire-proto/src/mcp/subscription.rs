//! Subscriptions of modern clients: the parameters of `subscriptions/listen` and of its acknowledgement.

use serde::{Deserialize, Serialize};

use super::Meta;
use super::member::{is_false, object, or_default};

/// The notifications that a subscription includes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Whether to include `notifications/tools/list_changed`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub tools_list_changed: bool,
    /// Whether to include `notifications/prompts/list_changed`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub prompts_list_changed: bool,
    /// Whether to include `notifications/resources/list_changed`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub resources_list_changed: bool,
    /// The URIs of the resources for which `notifications/resources/updated` is included.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
    /// The ids of the tasks for which `notifications/tasks` is included, a part of the extension
    /// [`TASKS`](super::method::TASKS).
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub task_ids: Vec<String>,
}

impl SubscriptionFilter {
    /// Whether the filter includes no notifications.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

setters! { SubscriptionFilter {
    tools_list_changed: bool, prompts_list_changed: bool, resources_list_changed: bool,
    resource_subscriptions: impl Into<Vec<String>>,
    task_ids: impl Into<Vec<String>>,
} }

/// The parameters of `subscriptions/listen`, with the notifications that the client wants; also of
/// `notifications/subscriptions/acknowledged`, with the notifications that the server will send.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SubscriptionParams {
    /// The notifications that the client wants, or that the server will send.
    #[serde(deserialize_with = "object")]
    pub notifications: SubscriptionFilter,
    /// The `_meta` member. In the acknowledgement it holds the id of the subscription.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SubscriptionParams {
    /// Creates parameters with these notifications.
    pub fn new(notifications: SubscriptionFilter) -> Self {
        Self { notifications, meta: None }
    }
}

setters! { SubscriptionParams { meta: Option<Meta> } }
