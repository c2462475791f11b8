//! The table of all requests and notifications of MCP: the sender, the revisions, and the required capabilities.

use super::{Capability, ClientCapability, Revision, ServerCapability};

/// A request or notification of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Method {
    /// The name that is used on the wire.
    pub name: &'static str,
    /// Whether the method is a request or a notification.
    pub kind: MethodKind,
    /// The purpose of the method, in one line.
    pub summary: &'static str,
    /// The revisions in which the client may send the method; `None` if the client must never send it.
    pub by_client: Option<Availability>,
    /// The revisions in which the server may send the method; `None` if the server must never send it.
    pub by_server: Option<Availability>,
    /// If the method was removed: what replaces it in later revisions.
    pub instead: Option<&'static str>,
    /// If the method is deprecated in 2026-07-28: what to do instead.
    pub deprecated: Option<&'static str>,
    /// The party that may send the method from 2026-07-28 on, if both parties have declared the extension [`TASKS`].
    pub extension: Option<Side>,
}

/// The kind of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a message has an id or has none")]
pub enum MethodKind {
    /// A request: it has an id and is answered once.
    Request,
    /// A notification: it has no id and is never answered.
    Notification,
}

/// A party of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a connection has two parties")]
pub enum Side {
    /// The client, which calls tools.
    Client,
    /// The server, which offers the tools.
    Server,
}

/// The revisions in which a party may send a method, and the capability that the method requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The first revision in which the party may send the method.
    pub since: Revision,
    /// The last revision in which the party may send the method.
    pub until: Revision,
    /// The required capability, which the client or the server must have declared.
    pub needs: Option<Capability>,
}

impl Side {
    /// Returns the other party.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl Availability {
    /// Whether the method may be sent in this revision.
    pub fn is_in(&self, revision: Revision) -> bool {
        (self.since..=self.until).contains(&revision)
    }

    /// Returns the capability that the method requires in this revision. A capability that is newer than its method is
    /// not required in older revisions.
    pub fn needs_in(&self, revision: Revision) -> Option<Capability> {
        self.needs.filter(|capability| capability.is_in(revision))
    }
}

impl Method {
    /// Returns the method with exactly this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        METHODS.iter().find(|method| method.name == name)
    }

    /// Returns the revisions in which this party may send the method; `None` if the party must never send it.
    pub const fn by(&self, side: Side) -> Option<Availability> {
        match side {
            Side::Client => self.by_client,
            Side::Server => self.by_server,
        }
    }

    /// Returns the availability for this party; `None` if the party must not send the method in this revision.
    pub fn availability(&self, side: Side, revision: Revision) -> Option<Availability> {
        self.by(side).filter(|sent| sent.is_in(revision))
    }

    /// Returns the first revision that has the method; `None` if only an extension has it.
    pub fn since(&self) -> Option<Revision> {
        [self.by_client, self.by_server].into_iter().flatten().map(|sent| sent.since).min()
    }

    /// Returns the last revision that has the method; `None` if only an extension has it.
    pub fn until(&self) -> Option<Revision> {
        [self.by_client, self.by_server].into_iter().flatten().map(|sent| sent.until).max()
    }

    /// Whether a modern server may send the method as an entry of `inputRequests`.
    pub fn is_input_request(&self) -> bool {
        INPUT_REQUESTS.contains(&self.name)
    }
}

/// The methods that a legacy server sends as requests, and that a modern server sends as entries of `inputRequests`.
pub const INPUT_REQUESTS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// The name of the extension that defines tasks from 2026-07-28 on.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

const fn request(name: &'static str, summary: &'static str) -> Method {
    Method {
        name,
        kind: MethodKind::Request,
        summary,
        by_client: None,
        by_server: None,
        instead: None,
        deprecated: None,
        extension: None,
    }
}

const fn notification(name: &'static str, summary: &'static str) -> Method {
    Method { kind: MethodKind::Notification, ..request(name, summary) }
}

/// Returns an availability from one revision to another, without a required capability.
const fn available(since: Revision, until: Revision) -> Availability {
    Availability { since, until, needs: None }
}

impl Availability {
    const fn needs(self, needs: Capability) -> Self {
        Self { needs: Some(needs), ..self }
    }
}

impl Method {
    const fn client(self, sent: Availability) -> Self {
        Self { by_client: Some(sent), ..self }
    }

    const fn server(self, sent: Availability) -> Self {
        Self { by_server: Some(sent), ..self }
    }

    const fn instead(self, instead: &'static str) -> Self {
        Self { instead: Some(instead), ..self }
    }

    const fn deprecated(self, deprecated: &'static str) -> Self {
        Self { deprecated: Some(deprecated), ..self }
    }

    const fn extension(self, side: Side) -> Self {
        Self { extension: Some(side), ..self }
    }
}

use Capability::{Client as OfClient, Server as OfServer};
use ClientCapability as C;
use ServerCapability as S;

const ALL: Availability = available(Revision::V2024_11_05, Revision::LATEST);
const LEGACY: Availability = available(Revision::V2024_11_05, Revision::LATEST_LEGACY);
const MODERN: Availability = available(Revision::V2026_07_28, Revision::LATEST);
const JUNE_2025: Availability = available(Revision::V2025_06_18, Revision::LATEST_LEGACY);
const NOVEMBER_2025: Availability = available(Revision::V2025_11_25, Revision::V2025_11_25);

const META: &str = "the protocolVersion, clientInfo and clientCapabilities in the _meta of every request";
const INPUT: &str = "an entry of inputRequests, in a result of resultType input_required";
const LISTEN: &str = "subscriptions/listen";
const TASKS_EXTENSION: &str = "the extension io.modelcontextprotocol/tasks";

#[rustfmt::skip]
/// All methods of MCP, grouped by subject.
pub const METHODS: &[Method] = &[
    request("initialize", "opens a connection: agrees on a revision, and exchanges capabilities and names").client(LEGACY).instead(META),
    notification("notifications/initialized", "the client is ready: normal work may begin").client(LEGACY).instead(META),
    request("ping", "checks whether the peer responds; the result is {}").client(LEGACY).server(LEGACY).instead("any request, such as server/discover"),
    request("server/discover", "asks for the server's versions, capabilities and instructions").client(MODERN),
    request("tools/list", "lists the tools, with the schemas of their arguments").client(ALL.needs(OfServer(S::Tools))),
    request("tools/call", "runs a tool; a failure of the tool is a result with isError").client(ALL.needs(OfServer(S::Tools))),
    request("resources/list", "lists the resources").client(ALL.needs(OfServer(S::Resources))),
    request("resources/templates/list", "lists the URI templates of resources").client(ALL.needs(OfServer(S::Resources))),
    request("resources/read", "reads the contents of a resource").client(ALL.needs(OfServer(S::Resources))),
    request("resources/subscribe", "subscribes to changes of a resource").client(LEGACY.needs(OfServer(S::ResourcesSubscribe))).instead(LISTEN),
    request("resources/unsubscribe", "ends a subscription to a resource").client(LEGACY.needs(OfServer(S::ResourcesSubscribe))).instead("ending the subscriptions/listen request"),
    request("prompts/list", "lists the prompts").client(ALL.needs(OfServer(S::Prompts))),
    request("prompts/get", "returns the messages of a prompt, with its arguments filled in").client(ALL.needs(OfServer(S::Prompts))),
    request("completion/complete", "proposes values for an argument of a prompt or template").client(ALL.needs(OfServer(S::Completions))),
    request("logging/setLevel", "sets the minimum level of the log messages that the server sends").client(LEGACY.needs(OfServer(S::Logging))).instead("io.modelcontextprotocol/logLevel in the _meta of a request"),
    request("subscriptions/listen", "opens a stream of change notifications").client(MODERN),
    request("sampling/createMessage", "asks the client's model for a completion").server(LEGACY.needs(OfClient(C::Sampling))).instead(INPUT).deprecated("ask the provider of a model directly"),
    request("roots/list", "asks for the folders in which the client works").server(LEGACY.needs(OfClient(C::Roots))).instead(INPUT).deprecated("take folders and files as arguments of tools, as URIs of resources or from a configuration"),
    request("elicitation/create", "asks the user for input").server(JUNE_2025.needs(OfClient(C::Elicitation))).instead(INPUT),
    request("tasks/get", "returns the state of a long-running task").client(NOVEMBER_2025.needs(OfServer(S::Tasks))).server(NOVEMBER_2025.needs(OfClient(C::Tasks))).instead(TASKS_EXTENSION).extension(Side::Client),
    request("tasks/result", "waits for the result of a task").client(NOVEMBER_2025.needs(OfServer(S::Tasks))).server(NOVEMBER_2025.needs(OfClient(C::Tasks))).instead("tasks/get of the extension io.modelcontextprotocol/tasks, which also returns the result of the task"),
    request("tasks/list", "lists the tasks").client(NOVEMBER_2025.needs(OfServer(S::TasksList))).server(NOVEMBER_2025.needs(OfClient(C::TasksList))).instead("nothing: the requestor of a task knows its id"),
    request("tasks/cancel", "ends a task").client(NOVEMBER_2025.needs(OfServer(S::TasksCancel))).server(NOVEMBER_2025.needs(OfClient(C::TasksCancel))).instead(TASKS_EXTENSION).extension(Side::Client),
    request("tasks/update", "sends a task the input that it waits for").extension(Side::Client),
    notification("notifications/cancelled", "the sender no longer wants the response to one of its requests").client(ALL).server(ALL),
    notification("notifications/progress", "reports the progress of a request that has a progressToken").client(LEGACY).server(ALL),
    notification("notifications/message", "a log message").server(ALL.needs(OfServer(S::Logging))).deprecated("log to stderr on stdio, or use OpenTelemetry"),
    notification("notifications/tools/list_changed", "the list of tools has changed").server(ALL.needs(OfServer(S::ToolsListChanged))),
    notification("notifications/prompts/list_changed", "the list of prompts has changed").server(ALL.needs(OfServer(S::PromptsListChanged))),
    notification("notifications/resources/list_changed", "the list of resources has changed").server(ALL.needs(OfServer(S::ResourcesListChanged))),
    notification("notifications/resources/updated", "a resource with a subscription has changed").server(ALL.needs(OfServer(S::ResourcesSubscribe))),
    notification("notifications/roots/list_changed", "the client's folders have changed").client(LEGACY.needs(OfClient(C::RootsListChanged))).instead("nothing: the server asks for the folders when it needs them"),
    notification("notifications/elicitation/complete", "an elicitation by URL is complete").server(NOVEMBER_2025.needs(OfClient(C::ElicitationUrl))).instead("nothing: the client sends its request again"),
    notification("notifications/tasks/status", "the state of a task has changed").client(NOVEMBER_2025.needs(OfClient(C::Tasks))).server(NOVEMBER_2025.needs(OfServer(S::Tasks))).instead("notifications/tasks, in the extension io.modelcontextprotocol/tasks"),
    notification("notifications/tasks", "the state of a task with a subscription has changed").extension(Side::Server),
    notification("notifications/subscriptions/acknowledged", "begins a subscription: lists the notifications that the server will send").server(MODERN),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_by(side: Side, revision: Revision, kind: MethodKind) -> Vec<&'static str> {
        let sent =
            METHODS.iter().filter(|method| method.kind == kind && method.availability(side, revision).is_some());
        sent.map(|method| method.name).collect()
    }

    #[test]
    fn names_are_unique_and_match_their_kind() {
        for (index, method) in METHODS.iter().enumerate() {
            assert_eq!(METHODS.iter().position(|other| other.name == method.name), Some(index));
            assert_eq!(method.kind == MethodKind::Notification, method.name.starts_with("notifications/"));
            assert!(method.since().is_some() || method.extension.is_some(), "{} is sent", method.name);
            let gone = method.until().is_some_and(|until| until < Revision::LATEST);
            assert_eq!(gone, method.instead.is_some(), "{}: a removed method names its replacement", method.name);
        }
        assert!(INPUT_REQUESTS.iter().all(|name| Method::find(name).is_some()));
    }

    /// The expected numbers are the sizes of the union types in the schemas of the specification.
    #[test]
    fn the_table_has_as_many_methods_as_the_schemas() {
        use MethodKind::{Notification, Request};
        let counts = |side, kind| Revision::ALL.map(|revision| sent_by(side, revision, kind).len());
        assert_eq!(counts(Side::Client, Request), [13, 13, 13, 17, 10]);
        assert_eq!(counts(Side::Server, Request), [3, 3, 4, 8, 0]);
        assert_eq!(counts(Side::Client, Notification), [4, 4, 4, 5, 1]);
        assert_eq!(counts(Side::Server, Notification), [7, 7, 7, 9, 8]);
    }

    #[test]
    fn a_method_needs_only_capabilities_of_its_revision() {
        let complete =
            Method::find("completion/complete").expect("in the table").by(Side::Client).expect("sent");
        assert_eq!(complete.needs_in(Revision::V2024_11_05), None);
        assert_eq!(complete.needs_in(Revision::V2025_03_26), Some(OfServer(S::Completions)));
        for method in METHODS {
            for sent in [method.by_client, method.by_server].into_iter().flatten() {
                assert!(sent.needs.is_none_or(|needs| needs.is_in(sent.until)), "{}", method.name);
            }
        }
    }
}
