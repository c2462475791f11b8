//! Distributes the server's notifications: one stream for the whole client, and one stream for each listen request.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use barewire_proto::json::Json;
use barewire_proto::mcp::{
    ElicitationComplete, LogMessage, ResourceUpdated, SubscriptionFilter, SubscriptionParams, key,
};
use barewire_proto::rpc::{Id, Params};
use barewire_proto::session::CallId;

use super::listen::ListenState;
use super::ring::{Ring, RingRead, RingReader};
use super::small::is_small_notification;
use crate::Failure;
use crate::peer::Raw;

/// A notification from the server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerNotification {
    /// The list of tools has changed.
    ToolsListChanged,
    /// The list of prompts has changed.
    PromptsListChanged,
    /// The list of resources has changed.
    ResourcesListChanged,
    /// A subscribed resource has changed.
    ResourceUpdated {
        /// The URI of the changed resource, which can be a sub-resource of the subscribed resource.
        uri: String,
    },
    /// A log message.
    Message(LogMessage),
    /// The interaction at an elicitation URL is complete. Only 2025-11-25 has this notification.
    ElicitationComplete {
        /// The id of the elicitation.
        elicitation_id: String,
    },
    /// Any other notification.
    Other {
        /// The method.
        method: String,
        /// The params, unchanged.
        params: Raw,
    },
    /// The client has reconnected. Information from earlier notifications can be outdated. See
    /// [`Builder::restart`](super::Builder::restart).
    Restarted,
    /// This many notifications were dropped because they were not read in time.
    Lagged(u64),
}

/// The notifications of a server. See [`Client::notifications`](super::Client::notifications).
pub struct Notifications(pub(super) RingReader<ServerNotification>);

impl Notifications {
    /// Waits for the next notification and returns it; `None` after the client has ended.
    pub async fn next(&mut self) -> Option<ServerNotification> {
        match self.0.next().await? {
            RingRead::Next(notification) => Some(notification),
            RingRead::Missed(count) => Some(ServerNotification::Lagged(count)),
        }
    }
}

impl std::fmt::Debug for Notifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Notifications")
    }
}

/// Distributes the server's notifications to their readers. A client keeps its hub when it reconnects.
pub(super) struct NotificationHub {
    ring: Ring<ServerNotification>,
    /// A reader of all notifications since the client was created. The first call of `notifications` takes it.
    early_reader: Mutex<Option<RingReader<ServerNotification>>>,
    listens: Mutex<Vec<ListenEntry>>,
}

/// A listen request that is open on a connection.
struct ListenEntry {
    /// The id of the listen request; empty until the request is written.
    id: Arc<OnceLock<CallId>>,
    state: Arc<ListenState>,
}

impl NotificationHub {
    pub(super) fn new() -> Arc<Self> {
        let ring = Ring::new(NOTIFICATION_BUFFER, NOTIFICATION_BUFFER_BYTES);
        let early_reader = Mutex::new(Some(ring.reader()));
        Arc::new(Self { ring, early_reader, listens: Mutex::default() })
    }

    pub(super) fn notifications(&self) -> Notifications {
        let early = self.early_reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        Notifications(early.unwrap_or_else(|| self.ring.reader()))
    }

    /// Ends all streams that `notifications` has returned.
    pub(super) fn close(&self) {
        self.ring.close();
    }

    pub(super) fn push(&self, notification: ServerNotification, bytes: usize) {
        self.ring.push(notification, bytes);
    }

    fn listens(&self) -> MutexGuard<'_, Vec<ListenEntry>> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Also delivers the notifications with this subscription id to `state`, until the returned value is dropped.
    pub(super) fn register(self: &Arc<Self>, id: Arc<OnceLock<CallId>>, state: Arc<ListenState>) -> ListenRegistration {
        self.listens().push(ListenEntry { id: Arc::clone(&id), state });
        ListenRegistration { hub: Arc::clone(self), id }
    }

    /// Whether this call is an open listen request.
    pub(super) fn is_listen(&self, call: CallId) -> bool {
        self.find(call).is_some()
    }

    fn find(&self, call: CallId) -> Option<Arc<ListenState>> {
        let listens = self.listens();
        let entry = listens.iter().find(|entry| entry.id.get() == Some(&call))?;
        Some(Arc::clone(&entry.state))
    }

    /// Handles a notification. In the modern era, the notification can belong to a listen request.
    pub(super) fn handle(&self, method: &str, params: Option<Params<'_>>, is_modern: bool) -> Result<(), Failure> {
        // The engine delivers the progress of open calls. Progress that arrives here is for a call that has finished,
        // so it is dropped.
        if method == "notifications/progress" {
            return Ok(());
        }
        let json = params.map(Params::json);
        let bytes = json.map_or(0, |json| json.as_bytes().len()) + method.len() + NOTIFICATION_OVERHEAD;
        let listen = match json.filter(|_| is_modern).and_then(subscription_id) {
            // A notification for a listen request that has ended or never existed is dropped.
            Some(id) => match CallId::from_id(&id).and_then(|call| self.find(call)) {
                None => return Ok(()),
                listen => listen,
            },
            None => None,
        };
        if method == ACKNOWLEDGED {
            let Some(listen) = listen else { return Err(unreadable_params("they name no open listen request")) };
            let params: SubscriptionParams = parse_params(json)?;
            listen.acknowledge(params.notifications);
            return Ok(());
        }
        let (notification, failure) = match ServerNotification::parse(method, params) {
            Ok(notification) => (notification, Ok(())),
            Err(failure) => (ServerNotification::other(method, params), Err(failure)),
        };
        if let Some(listen) = listen {
            listen.push(notification.clone(), bytes);
        }
        self.push(notification, bytes);
        failure
    }
}

/// The registration of a listen request. Dropping this value removes the listen request from the hub.
pub(super) struct ListenRegistration {
    hub: Arc<NotificationHub>,
    id: Arc<OnceLock<CallId>>,
}

impl Drop for ListenRegistration {
    fn drop(&mut self) {
        self.hub.listens().retain(|entry| !Arc::ptr_eq(&entry.id, &self.id));
    }
}

impl ServerNotification {
    fn parse(method: &str, params: Option<Params<'_>>) -> Result<Self, Failure> {
        let json = params.map(Params::json);
        Ok(match method {
            "notifications/tools/list_changed" => Self::ToolsListChanged,
            "notifications/prompts/list_changed" => Self::PromptsListChanged,
            "notifications/resources/list_changed" => Self::ResourcesListChanged,
            "notifications/resources/updated" => {
                let ResourceUpdated { uri, .. } = parse_params(json)?;
                Self::ResourceUpdated { uri }
            }
            "notifications/message" => Self::Message(parse_params(json)?),
            "notifications/elicitation/complete" => {
                let ElicitationComplete { elicitation_id, .. } = parse_params(json)?;
                Self::ElicitationComplete { elicitation_id }
            }
            _ => Self::other(method, params),
        })
    }

    fn other(method: &str, params: Option<Params<'_>>) -> Self {
        Self::Other { method: method.to_owned(), params: Raw::from_params(params) }
    }
}

/// Returns the subscription id in a notification's `_meta`.
fn subscription_id(params: Json<'_>) -> Option<Id<'_>> {
    let meta = params.members().filter(|member| member.name == "_meta").last()?.value;
    let id = meta.members().filter(|member| member.name == key::SUBSCRIPTION_ID).last()?.value;
    Id::from_json(id)
}

fn parse_params<T: serde::de::DeserializeOwned>(params: Option<Json<'_>>) -> Result<T, Failure> {
    let params = params.ok_or_else(|| unreadable_params("they are missing"))?;
    if !is_small_notification(params) {
        return Err(unreadable_params("they have too many values"));
    }
    params.to().map_err(|error| unreadable_params(&error.to_string()))
}

/// Returns the failure for a notification with invalid params. The failure is only logged, because a notification has
/// no response.
fn unreadable_params(what: &str) -> Failure {
    Failure::internal("Notification", format!("the server's params are not valid: {what}"))
}

/// Returns the flag names and resource URIs of `wanted` that are missing from `given`.
pub(super) fn missing_from(wanted: &SubscriptionFilter, given: &SubscriptionFilter) -> Vec<String> {
    let flags = [
        (wanted.tools_list_changed && !given.tools_list_changed, "toolsListChanged"),
        (wanted.prompts_list_changed && !given.prompts_list_changed, "promptsListChanged"),
        (wanted.resources_list_changed && !given.resources_list_changed, "resourcesListChanged"),
    ];
    let flags = flags.into_iter().filter(|(lacks, _)| *lacks).map(|(_, name)| name.to_owned());
    let uris = wanted.resource_subscriptions.iter();
    flags.chain(uris.filter(|uri| !given.resource_subscriptions.contains(uri)).cloned()).collect()
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The maximum number of notifications that are stored for a reader. A program that reads its notifications at all does
/// not fall this far behind.
pub(super) const NOTIFICATION_BUFFER: usize = 256;

/// The maximum number of bytes that are stored for a reader, so that a server with long log messages cannot use up the
/// client's memory.
pub(super) const NOTIFICATION_BUFFER_BYTES: usize = 1024 * 1024;

/// The approximate number of bytes that a notification takes in memory besides its text.
const NOTIFICATION_OVERHEAD: usize = 64;
