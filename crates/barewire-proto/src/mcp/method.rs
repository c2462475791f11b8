//! Every request and notification of MCP: who sends it, in which revisions, and what must have been declared. One table.

use super::{Capability, ClientCapability, Revision, ServerCapability};

/// A request or notification of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Method {
    /// The name on the wire.
    pub name: &'static str,
    /// Whether it is answered.
    pub kind: MethodKind,
    /// What it is for, in a line.
    pub summary: &'static str,
    /// When the client may send it, if ever.
    pub by_client: Option<Availability>,
    /// When the server may send it, if ever.
    pub by_server: Option<Availability>,
    /// Where it has gone after the last revision that has it, or who does its work there.
    pub instead: Option<&'static str>,
    /// What to do in place of it, if it is there in 2026-07-28 but should not be taken up any more.
    pub deprecated: Option<&'static str>,
    /// Who may send it from 2026-07-28 on if both sides have declared the extension [`TASKS`].
    pub extension: Option<Side>,
}

/// Whether a message is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a message has an id or has none")]
pub enum MethodKind {
    /// It has an id and is answered once.
    Request,
    /// It has no id and is never answered.
    Notification,
}

/// A side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a connection has two sides")]
pub enum Side {
    /// The one that asks for tools.
    Client,
    /// The one that has them.
    Server,
}

/// When a side may send something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The first revision in which it may.
    pub since: Revision,
    /// The last revision in which it may.
    pub until: Revision,
    /// What must have been declared, by whoever has it.
    pub needs: Option<Capability>,
}

impl Side {
    /// The side across.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl Availability {
    /// Whether it may be sent in this revision.
    pub fn is_in(&self, revision: Revision) -> bool {
        (self.since..=self.until).contains(&revision)
    }

    /// What must have been declared in this revision. Capabilities came later than some of what they stand for.
    pub fn needs_in(&self, revision: Revision) -> Option<Capability> {
        self.needs.filter(|capability| capability.is_in(revision))
    }
}

impl Method {
    /// What is known of a method, by its exact name.
    pub fn find(name: &str) -> Option<&'static Self> {
        METHODS.iter().find(|method| method.name == name)
    }

    /// When this side may send it, if ever.
    pub const fn by(&self, side: Side) -> Option<Availability> {
        match side {
            Side::Client => self.by_client,
            Side::Server => self.by_server,
        }
    }

    /// What is known of this side sending it in this revision. `None` if it must not.
    pub fn availability(&self, side: Side, revision: Revision) -> Option<Availability> {
        self.by(side).filter(|sent| sent.is_in(revision))
    }

    /// The first revision in which anybody may send it; none for what only extensions have.
    pub fn since(&self) -> Option<Revision> {
        [self.by_client, self.by_server].into_iter().flatten().map(|sent| sent.since).min()
    }

    /// The last revision in which it may.
    pub fn until(&self) -> Option<Revision> {
        [self.by_client, self.by_server].into_iter().flatten().map(|sent| sent.until).max()
    }

    /// Whether a modern server may ask this in `inputRequests`.
    pub fn is_input_request(&self) -> bool {
        INPUT_REQUESTS.contains(&self.name)
    }
}

/// What was requests of the server, and is entries of `inputRequests` from 2026-07-28 on.
pub const INPUT_REQUESTS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// The extension that tasks are from 2026-07-28 on.
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

/// From one revision to another.
const fn sent(since: Revision, until: Revision) -> Availability {
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

const ALL: Availability = sent(Revision::V2024_11_05, Revision::LATEST);
const LEGACY: Availability = sent(Revision::V2024_11_05, Revision::LATEST_LEGACY);
const MODERN: Availability = sent(Revision::V2026_07_28, Revision::LATEST);
const JUNE_2025: Availability = sent(Revision::V2025_06_18, Revision::LATEST_LEGACY);
const NOVEMBER_2025: Availability = sent(Revision::V2025_11_25, Revision::V2025_11_25);

const META: &str = "the protocolVersion, clientInfo and clientCapabilities in the _meta of every request";
const INPUT: &str = "an entry of inputRequests, in a result of resultType input_required";
const LISTEN: &str = "subscriptions/listen";
const EXTENSION: &str = "the extension io.modelcontextprotocol/tasks";

#[rustfmt::skip]
/// All that MCP has, by subject.
pub const METHODS: &[Method] = &[
    request("initialize", "opens a connection: the revision, the capabilities and the names of both sides").client(LEGACY).instead(META),
    notification("notifications/initialized", "the client is ready: normal work may begin").client(LEGACY).instead(META),
    request("ping", "asks whether the other side is there; the result is {}").client(LEGACY).server(LEGACY).instead("any request: server/discover is a light one"),
    request("server/discover", "asks for the server's versions, capabilities and instructions").client(MODERN),
    request("tools/list", "the tools there are, with the schemas of their arguments").client(ALL.needs(OfServer(S::Tools))),
    request("tools/call", "runs a tool; that the tool failed is a result with isError").client(ALL.needs(OfServer(S::Tools))),
    request("resources/list", "the resources there are").client(ALL.needs(OfServer(S::Resources))),
    request("resources/templates/list", "the URI templates of resources").client(ALL.needs(OfServer(S::Resources))),
    request("resources/read", "the contents of a resource").client(ALL.needs(OfServer(S::Resources))),
    request("resources/subscribe", "asks to be told when a resource changes").client(LEGACY.needs(OfServer(S::ResourcesSubscribe))).instead(LISTEN),
    request("resources/unsubscribe", "ends a subscription to a resource").client(LEGACY.needs(OfServer(S::ResourcesSubscribe))).instead("the end of the subscriptions/listen"),
    request("prompts/list", "the prompts there are").client(ALL.needs(OfServer(S::Prompts))),
    request("prompts/get", "the messages of a prompt, with its arguments filled in").client(ALL.needs(OfServer(S::Prompts))),
    request("completion/complete", "proposals for an argument of a prompt or template").client(ALL.needs(OfServer(S::Completions))),
    request("logging/setLevel", "which log messages the server should send").client(LEGACY.needs(OfServer(S::Logging))).instead("io.modelcontextprotocol/logLevel in the _meta of a request"),
    request("subscriptions/listen", "opens a stream of change notifications").client(MODERN),
    request("sampling/createMessage", "asks the client's model for a completion").server(LEGACY.needs(OfClient(C::Sampling))).instead(INPUT).deprecated("ask the provider of a model directly"),
    request("roots/list", "asks for the folders the client works in").server(LEGACY.needs(OfClient(C::Roots))).instead(INPUT).deprecated("take folders and files as arguments of tools, as URIs of resources or from a configuration"),
    request("elicitation/create", "asks the user for input").server(JUNE_2025.needs(OfClient(C::Elicitation))).instead(INPUT),
    request("tasks/get", "the state of a long-running task").client(NOVEMBER_2025.needs(OfServer(S::Tasks))).server(NOVEMBER_2025.needs(OfClient(C::Tasks))).instead(EXTENSION).extension(Side::Client),
    request("tasks/result", "waits for the result of a task").client(NOVEMBER_2025.needs(OfServer(S::Tasks))).server(NOVEMBER_2025.needs(OfClient(C::Tasks))).instead("tasks/get, whose result holds it, in the extension io.modelcontextprotocol/tasks"),
    request("tasks/list", "the tasks there are").client(NOVEMBER_2025.needs(OfServer(S::TasksList))).server(NOVEMBER_2025.needs(OfClient(C::TasksList))).instead("nothing: whoever has a task knows its id"),
    request("tasks/cancel", "ends a task").client(NOVEMBER_2025.needs(OfServer(S::TasksCancel))).server(NOVEMBER_2025.needs(OfClient(C::TasksCancel))).instead(EXTENSION).extension(Side::Client),
    request("tasks/update", "gives a task the input that it waits for").extension(Side::Client),
    notification("notifications/cancelled", "the sender no longer wants the answer to one of its requests").client(ALL).server(ALL),
    notification("notifications/progress", "how far a request has come; only with the progressToken it was given").client(LEGACY).server(ALL),
    notification("notifications/message", "a log message").server(ALL.needs(OfServer(S::Logging))).deprecated("log to stderr on stdio, or use OpenTelemetry"),
    notification("notifications/tools/list_changed", "the list of tools has changed").server(ALL.needs(OfServer(S::ToolsListChanged))),
    notification("notifications/prompts/list_changed", "the list of prompts has changed").server(ALL.needs(OfServer(S::PromptsListChanged))),
    notification("notifications/resources/list_changed", "the list of resources has changed").server(ALL.needs(OfServer(S::ResourcesListChanged))),
    notification("notifications/resources/updated", "a resource that was subscribed to has changed").server(ALL.needs(OfServer(S::ResourcesSubscribe))),
    notification("notifications/roots/list_changed", "the client's folders have changed").client(LEGACY.needs(OfClient(C::RootsListChanged))).instead("nothing: the server asks when it needs them"),
    notification("notifications/elicitation/complete", "an elicitation by URL is done").server(NOVEMBER_2025.needs(OfClient(C::ElicitationUrl))).instead("nothing: the client sends the request again"),
    notification("notifications/tasks/status", "the state of a task has changed").client(NOVEMBER_2025.needs(OfClient(C::Tasks))).server(NOVEMBER_2025.needs(OfServer(S::Tasks))).instead("notifications/tasks, in the extension io.modelcontextprotocol/tasks"),
    notification("notifications/tasks", "the state of a task that is listened to has changed").extension(Side::Server),
    notification("notifications/subscriptions/acknowledged", "the first message of a listen: what of it the server honours").server(MODERN),
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
    fn names_stand_once_and_say_what_they_are() {
        for (index, method) in METHODS.iter().enumerate() {
            assert_eq!(METHODS.iter().position(|other| other.name == method.name), Some(index));
            assert_eq!(method.kind == MethodKind::Notification, method.name.starts_with("notifications/"));
            assert!(method.since().is_some() || method.extension.is_some(), "{} is sent", method.name);
            let gone = method.until().is_some_and(|until| until < Revision::LATEST);
            assert_eq!(gone, method.instead.is_some(), "{}: what is gone says where", method.name);
        }
        assert!(INPUT_REQUESTS.iter().all(|name| Method::find(name).is_some()));
    }

    /// The unions of the schemas, counted.
    #[test]
    fn as_many_as_the_schemas_have() {
        use MethodKind::{Notification, Request};
        let counts = |side, kind| Revision::ALL.map(|revision| sent_by(side, revision, kind).len());
        assert_eq!(counts(Side::Client, Request), [13, 13, 13, 17, 10]);
        assert_eq!(counts(Side::Server, Request), [3, 3, 4, 8, 0]);
        assert_eq!(counts(Side::Client, Notification), [4, 4, 4, 5, 1]);
        assert_eq!(counts(Side::Server, Notification), [7, 7, 7, 9, 8]);
    }

    #[test]
    fn a_method_needs_what_its_revision_can_declare() {
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
