//! What a server says of itself, and how it serves.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use barewire_proto::mcp::{
    CacheScope, Implementation, ListCapability, Object, ResourcesCapability, Revision, ServerCapabilities,
    ServerCapability, key,
};
use serde_json::Value;

use super::layer::Layers;
use super::registry::{Offer, Registry};
use super::seal::Sealer;
use crate::Failure;

/// How a server was told to serve.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) info: Implementation,
    pub(super) instructions: Option<String>,
    /// In ascending order.
    pub(super) revisions: Vec<Revision>,
    pub(super) lenient: bool,
    pub(super) page_size: usize,
    pub(super) cache: CachePolicy,
    /// Made when it is needed; of all connections, because a client may come back over another.
    pub(super) sealer: Arc<OnceLock<Sealer>>,
    pub(super) state_lifetime: Duration,
    pub(super) layers: Layers,
}

/// For how long a client may keep a result, and whether it may share it with others. In the modern era clients are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachePolicy {
    /// For how long. A change that the client is told of ends it.
    pub time: Duration,
    /// Whether everybody would get the same.
    pub scope: CacheScope,
}

/// What all connections of a server share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) registry: Arc<Registry>,
    /// Who the server is, as JSON.
    pub(super) info_json: String,
    /// The first members of a modern result.
    pub(super) complete: String,
    /// The same for one that asks for input.
    pub(super) input_required: String,
}

impl Settings {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            info: Implementation::new(name, version),
            instructions: None,
            revisions: Revision::ALL.to_vec(),
            lenient: false,
            page_size: PAGE,
            cache: CachePolicy::none(),
            sealer: Arc::default(),
            state_lifetime: LIFETIME,
            layers: Layers::default(),
        }
    }
}

impl CachePolicy {
    /// Not at all.
    pub const fn none() -> Self {
        Self { time: Duration::ZERO, scope: CacheScope::Private }
    }

    /// For so long, and for whoever asked.
    pub const fn private(time: Duration) -> Self {
        Self { time, scope: CacheScope::Private }
    }

    /// For so long, and for everybody: it is the same for all.
    pub const fn public(time: Duration) -> Self {
        Self { time, scope: CacheScope::Public }
    }

    /// As members of a result.
    pub(super) fn members(self) -> String {
        let scope = self.scope.as_str();
        // What does not fit is longer than anybody keeps anything; a JavaScript client can count to 2^53.
        let time = u64::try_from(self.time.as_millis()).unwrap_or(MOST).min(MOST);
        format!(r#","ttlMs":{time},"cacheScope":"{scope}""#)
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, registry: Arc<Registry>) -> Self {
        let info = serde_json::to_string(&settings.info).expect("names and text are JSON");
        let members = |kind: &str| format!(r#""resultType":"{kind}","_meta":{{"{}":{info}}}"#, key::SERVER_INFO);
        let (complete, input_required) = (members("complete"), members("input_required"));
        Self { settings, registry, info_json: info, complete, input_required }
    }

    /// What seals state that travels through clients.
    pub(super) fn sealer(&self) -> Result<&Sealer, Failure> {
        if self.settings.sealer.get().is_none() {
            let sealer = Sealer::random().map_err(|error| Failure::internal("State", error.to_string()))?;
            // If another was quicker, its key is as good.
            let _ = self.settings.sealer.set(sealer);
        }
        Ok(self.settings.sealer.get().expect("it has just been set"))
    }

    /// Who the server is, as a revision has it.
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

    /// The same as JSON.
    pub(super) fn info_value(&self) -> Value {
        serde_json::to_value(&self.settings.info).expect("names and text are JSON")
    }

    /// Whether something is offered. What somebody may still add is, before it is there.
    #[inline]
    pub(super) fn offers(&self, offer: &Offer, capability: ServerCapability) -> bool {
        let open = self.registry.is_open();
        let resources = || open || !offer.resources.is_empty() || !offer.templates.is_empty();
        match capability {
            ServerCapability::Tools => open || !offer.tools.is_empty(),
            ServerCapability::Prompts => open || !offer.prompts.is_empty(),
            ServerCapability::Resources => resources(),
            ServerCapability::ToolsListChanged
            | ServerCapability::PromptsListChanged
            | ServerCapability::ResourcesListChanged
            | ServerCapability::ResourcesSubscribe => open,
            ServerCapability::Completions => {
                open || offer.prompts.iter().any(|prompt| !prompt.completers.is_empty())
                    || offer.templates.iter().any(|template| !template.completers.is_empty())
            }
            ServerCapability::Logging => true,
            _ => false,
        }
    }

    /// All that is offered, as a revision says it.
    pub(super) fn capabilities(&self, offer: &Offer, revision: Revision) -> ServerCapabilities {
        let offers = |capability| self.offers(offer, capability);
        let open = self.registry.is_open();
        let list = |capability| offers(capability).then(|| ListCapability::default().list_changed(open));
        let completions = revision.has_completions_capability() && offers(ServerCapability::Completions);
        let mut capabilities = ServerCapabilities::default().logging(Object::new());
        capabilities.tools = list(ServerCapability::Tools);
        capabilities.prompts = list(ServerCapability::Prompts);
        capabilities.resources = offers(ServerCapability::Resources)
            .then(|| ResourcesCapability::default().subscribe(open).list_changed(open));
        capabilities.completions = completions.then(Object::new);
        capabilities
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// More than most servers have of anything, and few enough for one message.
const PAGE: usize = 100;

/// Long enough for a user who was called away.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The largest integer that every reader of JSON has.
const MOST: u64 = (1 << 53) - 1;
