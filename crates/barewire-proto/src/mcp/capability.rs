//! What a client and a server can do: the objects in which they say it, and a name for each thing that is asked for.

use serde::{Deserialize, Serialize};

use super::member::{is_false, optional_object, or_default};
use super::{Object, Revision};

/// What a client can do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// It tells the folders it works in.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub roots: Option<RootsCapability>,
    /// It asks its model for servers.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// It asks its user for servers. Since 2025-06-18.
    #[serde(default, deserialize_with = "optional_object", skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// Tasks, as 2025-11-25 tried them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Object>,
    /// What is not in the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Extensions of the protocol by name, with their settings. Since 2026-07-28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
}

impl ClientCapabilities {
    /// Whether this was declared.
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

    /// The object that declares just this, as `data.requiredCapabilities` wants it.
    pub fn only(capability: ClientCapability) -> Self {
        let mut only = Self::default();
        only.declare(capability);
        only
    }

    /// Declares this as well.
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

/// A client that tells the folders it works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsCapability {
    /// It says when they change. Until 2025-11-25.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
}

setters! { RootsCapability { list_changed: bool } }

/// A client that asks its model for servers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingCapability {
    /// The model may be given tools. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Object>,
    /// The context of servers may be included. Since 2025-11-25; before, it was allowed without saying so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Object>,
}

setters! { SamplingCapability { tools: Option<Object>, context: Option<Object> } }

/// A client that asks its user for servers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// With a form. Since 2025-11-25; if nothing is said, forms are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Object>,
    /// With a page to open. Since 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Object>,
}

impl ElicitationCapability {
    /// Whether forms can be shown: said, or meant because nothing is said.
    pub fn has_form(&self) -> bool {
        self.form.is_some() || self.url.is_none()
    }
}

setters! { ElicitationCapability { form: Option<Object>, url: Option<Object> } }

/// What a server can do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// It has tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// It has resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// It has prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// It completes arguments. Since 2025-03-26; before, it was asked without saying so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<Object>,
    /// It sends log messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Object>,
    /// Tasks, as 2025-11-25 tried them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Object>,
    /// What is not in the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Extensions of the protocol by name, with their settings. Since 2026-07-28.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
}

impl ServerCapabilities {
    /// Whether this was declared.
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

/// A server that has a list of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCapability {
    /// It says when the list changes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
}

setters! { ListCapability { list_changed: bool } }

/// A server that has resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// It says when a resource changes, to those who want to know.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub subscribe: bool,
    /// It says when the list changes.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "is_false")]
    pub list_changed: bool,
}

setters! { ResourcesCapability { subscribe: bool, list_changed: bool } }

/// Something that a side must have declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a connection has two sides")]
pub enum Capability {
    /// By the client.
    Client(ClientCapability),
    /// By the server.
    Server(ServerCapability),
}

impl Capability {
    /// Where it stands in the capabilities, as `resources.subscribe`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client(capability) => capability.as_str(),
            Self::Server(capability) => capability.as_str(),
        }
    }

    /// Whether it can be declared in this revision.
    pub fn is_in(self, revision: Revision) -> bool {
        match self {
            Self::Client(capability) => capability.is_in(revision),
            Self::Server(capability) => capability.is_in(revision),
        }
    }
}

/// Something that a client can declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are their names")]
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
    /// Where it stands in [`ClientCapabilities`], as `roots.listChanged`.
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

    /// Whether it can be declared in this revision.
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

/// Something that a server can declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are their names")]
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
    /// Where it stands in [`ServerCapabilities`], as `tools.listChanged`.
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

    /// Whether it can be declared in this revision.
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
