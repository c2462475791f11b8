//! Capabilities: the objects in which clients and servers declare capabilities, and a name for each capability.

use serde::{Deserialize, Serialize};

use super::member::{is_false, optional_object, or_default};
use super::{Object, Revision};

/// The capabilities of a client.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Set if the client can list its roots.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
    /// Set if the client lets servers call its model.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// Set if servers can ask the client's user for input. Since 2025-06-18.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// Settings for tasks, an experimental feature of 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Object>,
    /// Experimental capabilities that the protocol does not define.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Maps the name of each supported extension of the protocol to its settings. Since 2026-07-28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
}

impl ClientCapabilities {
    /// Whether the capability was declared.
    pub fn has(&self, capability: ClientCapability) -> bool {
        match capability {
            ClientCapability::Roots => self.roots.is_some(),
            ClientCapability::RootsListChanged => self.roots.as_ref().is_some_and(|roots| roots.list_changed),
            ClientCapability::Sampling => self.sampling.is_some(),
            ClientCapability::SamplingTools => self.sampling.as_ref().is_some_and(|s| s.tools.is_some()),
            ClientCapability::SamplingContext => self.sampling.as_ref().is_some_and(|s| s.context.is_some()),
            ClientCapability::Elicitation => self.elicitation.is_some(),
            ClientCapability::ElicitationForm => self.elicitation.as_ref().is_some_and(|e| e.has_form()),
            ClientCapability::ElicitationUrl => self.elicitation.as_ref().is_some_and(|e| e.url.is_some()),
            ClientCapability::Tasks => self.tasks.is_some(),
            ClientCapability::TasksList => has_member(self.tasks.as_ref(), "list"),
            ClientCapability::TasksCancel => has_member(self.tasks.as_ref(), "cancel"),
        }
    }

    /// Returns capabilities that declare only `capability`, for `data.requiredCapabilities` of an error.
    pub fn only(capability: ClientCapability) -> Self {
        let mut only = Self::default();
        only.declare(capability);
        only
    }

    /// Adds a capability.
    pub fn declare(&mut self, capability: ClientCapability) {
        match capability {
            ClientCapability::Roots => {
                self.roots.get_or_insert_default();
            }
            ClientCapability::RootsListChanged => self.roots.get_or_insert_default().list_changed = true,
            ClientCapability::Sampling => {
                self.sampling.get_or_insert_default();
            }
            ClientCapability::SamplingTools => {
                self.sampling.get_or_insert_default().tools.get_or_insert_default();
            }
            ClientCapability::SamplingContext => {
                self.sampling.get_or_insert_default().context.get_or_insert_default();
            }
            ClientCapability::Elicitation => {
                self.elicitation.get_or_insert_default();
            }
            ClientCapability::ElicitationForm => {
                self.elicitation.get_or_insert_default().form.get_or_insert_default();
            }
            ClientCapability::ElicitationUrl => {
                self.elicitation.get_or_insert_default().url.get_or_insert_default();
            }
            ClientCapability::Tasks => {
                self.tasks.get_or_insert_default();
            }
            ClientCapability::TasksList => add_member(&mut self.tasks, "list"),
            ClientCapability::TasksCancel => add_member(&mut self.tasks, "cancel"),
        }
    }
}

setters! { ClientCapabilities {
    roots: Option<RootsCapability>, sampling: Option<SamplingCapability>,
    elicitation: Option<ElicitationCapability>, tasks: Option<Object>, experimental: Option<Object>,
    extensions: Option<Object>,
} }

/// The capability of a client to list its roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// Whether the client notifies servers when its roots change. Until 2025-11-25.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
}

setters! { RootsCapability { list_changed: bool } }

/// The capability of a client to call its model for servers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingCapability {
    /// Set if a server can offer tools to the model. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Object>,
    /// Set if the context of servers can be included in the prompt. Since 2025-11-25; earlier revisions allow this
    /// without a declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Object>,
}

setters! { SamplingCapability { tools: Option<Object>, context: Option<Object> } }

/// The capability of a client to ask its user for input on behalf of a server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// Set if the client can show forms. Since 2025-11-25; a capability without any member also means forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Object>,
    /// Set if the client can open web pages for its user. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Object>,
}

impl ElicitationCapability {
    /// Whether the client can show forms: `form` is set, or neither `form` nor `url` is set.
    pub fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }
}

setters! { ElicitationCapability { form: Option<Object>, url: Option<Object> } }

/// The capabilities of a server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Set if the server has tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// Set if the server has resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// Set if the server has prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// Set if the server completes arguments. Since 2025-03-26; in 2024-11-05, clients can request completions without
    /// this declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<Object>,
    /// Set if the server sends log messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Object>,
    /// Settings for tasks, an experimental feature of 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Object>,
    /// Experimental capabilities that the protocol does not define.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Maps the name of each supported extension of the protocol to its settings. Since 2026-07-28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
}

impl ServerCapabilities {
    /// Whether the capability was declared.
    pub fn has(&self, capability: ServerCapability) -> bool {
        let changes = |list: &Option<ListCapability>| list.is_some_and(|list| list.list_changed);
        match capability {
            ServerCapability::Tools => self.tools.is_some(),
            ServerCapability::ToolsListChanged => changes(&self.tools),
            ServerCapability::Resources => self.resources.is_some(),
            ServerCapability::ResourcesSubscribe => self.resources.is_some_and(|r| r.subscribe),
            ServerCapability::ResourcesListChanged => self.resources.is_some_and(|r| r.list_changed),
            ServerCapability::Prompts => self.prompts.is_some(),
            ServerCapability::PromptsListChanged => changes(&self.prompts),
            ServerCapability::Completions => self.completions.is_some(),
            ServerCapability::Logging => self.logging.is_some(),
            ServerCapability::Tasks => self.tasks.is_some(),
            ServerCapability::TasksList => has_member(self.tasks.as_ref(), "list"),
            ServerCapability::TasksCancel => has_member(self.tasks.as_ref(), "cancel"),
        }
    }
}

setters! { ServerCapabilities {
    tools: Option<ListCapability>, resources: Option<ResourcesCapability>, prompts: Option<ListCapability>,
    completions: Option<Object>, logging: Option<Object>, tasks: Option<Object>, experimental: Option<Object>,
    extensions: Option<Object>,
} }

/// The capability of a server to offer a list of tools or prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCapability {
    /// Whether the server notifies clients when the list changes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
}

setters! { ListCapability { list_changed: bool } }

/// The capability of a server to offer resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// Whether clients can subscribe to the changes of a resource.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub subscribe: bool,
    /// Whether the server notifies clients when the list of resources changes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
}

setters! { ResourcesCapability { subscribe: bool, list_changed: bool } }

/// A capability of a client or a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a connection has two sides")]
pub enum Capability {
    /// A capability of the client.
    Client(ClientCapability),
    /// A capability of the server.
    Server(ServerCapability),
}

impl Capability {
    /// Returns the path of the capability in the capabilities object, such as `resources.subscribe`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client(capability) => capability.as_str(),
            Self::Server(capability) => capability.as_str(),
        }
    }

    /// Whether the capability exists in this revision.
    pub fn is_in(self, revision: Revision) -> bool {
        match self {
            Self::Client(capability) => capability.is_in(revision),
            Self::Server(capability) => capability.is_in(revision),
        }
    }
}

/// A capability that a client can declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are the paths of the capabilities")]
pub enum ClientCapability {
    Roots,
    RootsListChanged,
    Sampling,
    SamplingTools,
    SamplingContext,
    Elicitation,
    ElicitationForm,
    ElicitationUrl,
    Tasks,
    TasksList,
    TasksCancel,
}

impl ClientCapability {
    /// Returns the path of the capability in [`ClientCapabilities`], such as `roots.listChanged`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::RootsListChanged => "roots.listChanged",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling.tools",
            Self::SamplingContext => "sampling.context",
            Self::Elicitation => "elicitation",
            Self::ElicitationForm => "elicitation.form",
            Self::ElicitationUrl => "elicitation.url",
            Self::Tasks => "tasks",
            Self::TasksList => "tasks.list",
            Self::TasksCancel => "tasks.cancel",
        }
    }

    /// Whether the capability exists in this revision.
    pub fn is_in(self, revision: Revision) -> bool {
        match self {
            Self::Roots | Self::Sampling => true,
            Self::RootsListChanged => !revision.is_modern(),
            Self::Elicitation => revision.has_elicitation(),
            Self::SamplingTools | Self::SamplingContext => revision.has_sampling_tools(),
            Self::ElicitationForm | Self::ElicitationUrl => revision.has_url_elicitation(),
            Self::Tasks | Self::TasksList | Self::TasksCancel => revision.has_tasks(),
        }
    }
}

/// A capability that a server can declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are the paths of the capabilities")]
pub enum ServerCapability {
    Tools,
    ToolsListChanged,
    Resources,
    ResourcesSubscribe,
    ResourcesListChanged,
    Prompts,
    PromptsListChanged,
    Completions,
    Logging,
    Tasks,
    TasksList,
    TasksCancel,
}

impl ServerCapability {
    /// Returns the path of the capability in [`ServerCapabilities`], such as `tools.listChanged`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::ToolsListChanged => "tools.listChanged",
            Self::Resources => "resources",
            Self::ResourcesSubscribe => "resources.subscribe",
            Self::ResourcesListChanged => "resources.listChanged",
            Self::Prompts => "prompts",
            Self::PromptsListChanged => "prompts.listChanged",
            Self::Completions => "completions",
            Self::Logging => "logging",
            Self::Tasks => "tasks",
            Self::TasksList => "tasks.list",
            Self::TasksCancel => "tasks.cancel",
        }
    }

    /// Whether the capability exists in this revision.
    pub fn is_in(self, revision: Revision) -> bool {
        match self {
            Self::Completions => revision.has_completions_capability(),
            Self::Tasks | Self::TasksList | Self::TasksCancel => revision.has_tasks(),
            _ => true,
        }
    }
}

fn has_member(object: Option<&Object>, name: &str) -> bool {
    object.is_some_and(|object| object.get(name).is_some_and(serde_json::Value::is_object))
}

fn add_member(object: &mut Option<Object>, name: &str) {
    object.get_or_insert_default().entry(name).or_insert_with(|| Object::new().into());
}
