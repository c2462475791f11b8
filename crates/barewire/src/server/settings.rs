//! The settings of a server, its capabilities, and the data that all its connections share.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use barewire_proto::mcp::task_rules::extensions_with_tasks;
use barewire_proto::mcp::{
    CacheScope, Implementation, ListCapability, Object, ResourcesCapability, Revision, ServerCapabilities,
    ServerCapability, key,
};
use serde_json::{Value, json};

use super::layer::Layers;
use super::registry::{Registry, RegistryEntries};
use super::seal::Sealer;
use super::task::{TaskPolicy, Tasks};
use crate::Failure;

/// The settings of a server.
#[derive(Debug, Clone)]
pub(super) struct ServerSettings {
    pub(super) info: Implementation,
    pub(super) instructions: Option<String>,
    /// The revisions that are served, in ascending order.
    pub(super) revisions: Vec<Revision>,
    pub(super) lenient: bool,
    pub(super) page_size: usize,
    pub(super) cache: CachePolicy,
    /// The sealer of state, created on first use. All connections share it, because a client may send the next round on
    /// another connection.
    pub(super) sealer: Arc<OnceLock<Sealer>>,
    /// Whether the program has set the key of the sealer.
    pub(super) has_given_key: bool,
    pub(super) state_lifetime: Duration,
    pub(super) layers: Layers,
    /// The tasks. All connections share them, because a client may ask for a task on another connection.
    pub(super) tasks: Tasks,
}

/// The time for which a client may cache a result, and the users for whom it may use the cached result. Sent to modern
/// clients only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachePolicy {
    /// The time for which the result may be cached. A change notification makes the cached result invalid earlier.
    pub time: Duration,
    /// The users for whom the cached result may be used: only the user of the request, or all users.
    pub scope: CacheScope,
}

/// The data that all connections of a server share.
pub(super) struct ServerShared {
    pub(super) settings: ServerSettings,
    pub(super) registry: Arc<Registry>,
    /// The name and version of the server as JSON.
    pub(super) info_json: String,
    /// The JSON members at the start of every modern result that is complete.
    pub(super) complete: String,
    /// The JSON members at the start of a modern result that asks for input.
    pub(super) input_required: String,
}

impl ServerSettings {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            revisions: Revision::ALL.to_vec(),
            lenient: false,
            page_size: DEFAULT_PAGE_SIZE,
            cache: CachePolicy::none(),
            sealer: Arc::default(),
            has_given_key: false,
            state_lifetime: DEFAULT_STATE_LIFETIME,
            layers: Layers::default(),
            tasks: Tasks::new(TaskPolicy::default()),
        }
    }
}

impl CachePolicy {
    /// Forbids caching.
    pub const fn none() -> Self {
        Self { time: Duration::ZERO, scope: CacheScope::Private }
    }

    /// Allows caching for this time, only for the user that made the request.
    pub const fn private(time: Duration) -> Self {
        Self { time, scope: CacheScope::Private }
    }

    /// Allows caching for this time, shared between users. Use it only if all users get the same result.
    pub const fn public(time: Duration) -> Self {
        Self { time, scope: CacheScope::Public }
    }

    /// Returns the policy as JSON members, with a comma before each.
    pub(super) fn members(self) -> String {
        let scope = self.scope.as_str();
        // JavaScript represents integers exactly only up to 2^53. As a time in milliseconds, that is long enough.
        let time = u64::try_from(self.time.as_millis()).unwrap_or(MAX_SAFE_INTEGER).min(MAX_SAFE_INTEGER);
        format!(r#","ttlMs":{time},"cacheScope":"{scope}""#)
    }
}

impl ServerShared {
    pub(super) fn new(settings: ServerSettings, registry: Arc<Registry>) -> Self {
        let info = serde_json::to_string(&settings.info).expect("names and text are JSON");
        let members = |kind: &str| format!(r#""resultType":"{kind}","_meta":{{"{}":{info}}}"#, key::SERVER_INFO);
        let (complete, input_required) = (members("complete"), members("input_required"));
        Self { settings, registry, info_json: info, complete, input_required }
    }

    /// Returns the sealer of the state that clients send back, and creates it on first use.
    pub(super) fn sealer(&self) -> Result<&Sealer, Failure> {
        if self.settings.sealer.get().is_none() {
            let sealer = Sealer::random().map_err(|error| Failure::internal("State", error.to_string()))?;
            // If another thread has set a sealer in the meantime, that sealer is used.
            let _ = self.settings.sealer.set(sealer);
        }
        Ok(self.settings.sealer.get().expect("the sealer has just been set"))
    }

    /// Returns the name and version of the server, without the members that this revision does not have.
    pub(super) fn info(&self, revision: Revision) -> Implementation {
        let mut info = self.settings.info.clone();
        if !revision.has_titles() {
            info.title = None;
        }
        if !revision.has_icons() {
            (info.icons, info.description, info.website_url) = (None, None, None);
        }
        info
    }

    /// Returns the name and version of the server as a JSON value.
    pub(super) fn info_value(&self) -> Value {
        serde_json::to_value(&self.settings.info).expect("names and text are JSON")
    }

    /// Whether the server declares a capability. A server whose entries may change declares the capability even while
    /// it has no such entries.
    #[inline]
    pub(super) fn offers(&self, entries: &RegistryEntries, capability: ServerCapability) -> bool {
        let changeable = self.registry.is_changeable();
        let resources = || changeable || !entries.resources.is_empty() || !entries.templates.is_empty();
        match capability {
            ServerCapability::Tools => changeable || !entries.tools.is_empty(),
            ServerCapability::Prompts => changeable || !entries.prompts.is_empty(),
            ServerCapability::Resources => resources(),
            ServerCapability::ToolsListChanged
            | ServerCapability::PromptsListChanged
            | ServerCapability::ResourcesListChanged
            | ServerCapability::ResourcesSubscribe => changeable,
            ServerCapability::Completions => {
                changeable
                    || entries.prompts.iter().any(|prompt| !prompt.completers.is_empty())
                    || entries.templates.iter().any(|template| !template.completers.is_empty())
            }
            ServerCapability::Logging => true,
            ServerCapability::Tasks | ServerCapability::TasksList | ServerCapability::TasksCancel => entries.has_tasks,
            _ => false,
        }
    }

    /// Returns all capabilities, as this revision defines them.
    pub(super) fn capabilities(&self, entries: &RegistryEntries, revision: Revision) -> ServerCapabilities {
        let offers = |capability| self.offers(entries, capability);
        let changeable = self.registry.is_changeable();
        let list = |capability| offers(capability).then(|| ListCapability::default().list_changed(changeable));
        let completions = revision.has_completions_capability() && offers(ServerCapability::Completions);
        let mut capabilities = ServerCapabilities::default().logging(Object::new());
        capabilities.tools = list(ServerCapability::Tools);
        capabilities.prompts = list(ServerCapability::Prompts);
        capabilities.resources = offers(ServerCapability::Resources)
            .then(|| ResourcesCapability::default().subscribe(changeable).list_changed(changeable));
        capabilities.completions = completions.then(Object::new);
        if offers(ServerCapability::Tasks) && revision.has_tasks() {
            let members = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
            capabilities.tasks = members.as_object().cloned();
        }
        if offers(ServerCapability::Tasks) && revision.is_modern() {
            capabilities.extensions = Some(extensions_with_tasks());
        }
        capabilities
    }
}

impl fmt::Debug for ServerShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerShared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The default number of entries in a page: more than most servers have, and few enough for one message.
const DEFAULT_PAGE_SIZE: usize = 100;

/// The default lifetime of sealed state: long enough for a user who is away for a while before answering.
const DEFAULT_STATE_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The largest integer that every JSON reader represents exactly.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
