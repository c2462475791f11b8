//! Notifications of the server -> a stream of them, for everybody and for each listen.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use barewire_proto::json::Json;
use barewire_proto::mcp::{
    ElicitationComplete, LogMessage, ResourceUpdated, SubscriptionFilter, SubscriptionParams, key,
};
use barewire_proto::rpc::{Id, Params};
use barewire_proto::session::CallId;

use super::listen::ListenState;
use super::ring::{Ring, RingRead, RingReader};
use crate::Failure;
use crate::peer::Raw;

/// Something that a server tells without being asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerNotification {
    /// The list of tools has changed.
    ToolsListChanged,
    /// The list of prompts has changed.
    PromptsListChanged,
    /// The list of resources has changed.
    ResourcesListChanged,
    /// A resource has changed that was subscribed to.
    ResourceUpdated {
        /// Which; it may be below the one that was subscribed to.
        uri: String,
    },
    /// A line of its log.
    Message(LogMessage),
    /// What the user was sent to a page for is done. Only in 2025-11-25.
    ElicitationComplete {
        /// Of which question.
        elicitation_id: String,
    },
    /// Something else.
    Other {
        /// The method.
        method: String,
        /// Its parameters, as they came.
        params: Raw,
    },
    /// The server was started again: what it told before may no longer be true. See
    /// [`Builder::restart`](super::Builder::restart).
    Restarted,
    /// So many were not read in time, and are forgotten.
    Lagged(u64),
}

/// The notifications of a server. See [`Client::notifications`](super::Client::notifications).
pub struct Notifications(pub(super) RingReader<ServerNotification>);

impl Notifications {
    /// The next one; `None` once the connection is over.
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

/// Where all that a server tells comes together. It outlives the connections over which it comes.
pub(super) struct NotificationHub {
    ring: Ring<ServerNotification>,
    /// What came before anybody could ask for it is there for the first who does.
    early_reader: Mutex<Option<RingReader<ServerNotification>>>,
    listens: Mutex<Vec<ListenEntry>>,
}

/// A listen that is open on a connection.
struct ListenEntry {
    /// The id of its request, once it is written.
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

    /// There will be no more.
    pub(super) fn close(&self) {
        self.ring.close();
    }

    pub(super) fn push(&self, notification: ServerNotification, bytes: usize) {
        self.ring.push(notification, bytes);
    }

    fn listens(&self) -> MutexGuard<'_, Vec<ListenEntry>> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, what comes under this id is for `state` as well.
    pub(super) fn register(self: &Arc<Self>, id: Arc<OnceLock<CallId>>, state: Arc<ListenState>) -> ListenRegistration {
        self.listens().push(ListenEntry { id: Arc::clone(&id), state });
        ListenRegistration { hub: Arc::clone(self), id }
    }

    /// Whether this call of ours is a listen.
    pub(super) fn is_listen(&self, call: CallId) -> bool {
        self.find(call).is_some()
    }

    fn find(&self, call: CallId) -> Option<Arc<ListenState>> {
        let listens = self.listens();
        let entry = listens.iter().find(|entry| entry.id.get() == Some(&call))?;
        Some(Arc::clone(&entry.state))
    }

    /// Takes a notification. `is_modern`: it may belong to a listen.
    pub(super) fn handle(&self, method: &str, params: Option<Params<'_>>, is_modern: bool) -> Result<(), Failure> {
        // Of a call that is over. Those of a call that is not have gone to whoever waits for it.
        if method == "notifications/progress" {
            return Ok(());
        }
        let json = params.map(Params::json);
        let bytes = json.map_or(0, |json| json.as_bytes().len()) + method.len() + NOTIFICATION_OVERHEAD;
        let listen = match json.filter(|_| is_modern).and_then(subscription_id) {
            // Of a listen that is over, or of none: nobody asked for it.
            Some(id) => match CallId::from_id(&id).and_then(|call| self.find(call)) {
                None => return Ok(()),
                listen => listen,
            },
            None => None,
        };
        if method == ACKNOWLEDGED {
            let Some(listen) = listen else { return Err(unreadable_params("it names no listen")) };
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

/// Removes a listen when it is over.
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

/// The listen that a notification belongs to.
fn subscription_id(params: Json<'_>) -> Option<Id<'_>> {
    let meta = params.members().filter(|member| member.name == "_meta").last()?.value;
    let id = meta.members().filter(|member| member.name == key::SUBSCRIPTION_ID).last()?.value;
    Id::from_json(id)
}

fn parse_params<T: serde::de::DeserializeOwned>(params: Option<Json<'_>>) -> Result<T, Failure> {
    let params = params.ok_or_else(|| unreadable_params("it has no params"))?;
    params.to().map_err(|error| unreadable_params(&error.to_string()))
}

/// For the log: nobody is answered.
fn unreadable_params(what: &str) -> Failure {
    Failure::internal("Notification", format!("the server's params are not what they should be: {what}"))
}

/// What of a filter another one lacks, in words.
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

/// So many notifications wait for a reader: more than a program that reads at all falls behind.
pub(super) const NOTIFICATION_BUFFER: usize = 256;

/// And so many bytes of them: a server decides how long its log messages are, but not how much memory they take.
pub(super) const NOTIFICATION_BUFFER_BYTES: usize = 1024 * 1024;

/// What a notification takes besides its text.
const NOTIFICATION_OVERHEAD: usize = 64;
