//! Checks of the start of a connection: the first response, the handshake, the version.

use super::Bound::{Both, Client, Sender, Server};
use super::Document::{Page, Schema};
use super::Reference::Mcp;
use super::rule::{must, ours, should, states, written};
use super::{
    ALL, Category, Check, LEGACY, LEGACY_SINCE_2025_06_18, LIVE, LIVE_ANYWHERE, Level, MODERN, Rule, Severity,
    UNTIL_2025_03_26, host,
};

/// The checks that most others depend on.
pub(super) const FIRST: &[&Check] = &[&EARLY_EXIT, &MUTE_SERVER, &HANDSHAKE];

pub(super) const CHECKS: &[&Check] = &[
    &RESULT_SHAPE,
    &INITIALIZE_MEMBERS,
    &LIFECYCLE_GATE,
    &CALL_BEFORE_INITIALIZED,
    &VERSION_NEGOTIATION,
    &SECOND_INITIALIZE,
    &METHOD_IN_REVISION,
];

const BASE: Check = Check { category: Category::Lifecycle, ..super::BASE };
/// The default fields of a check of the handshake.
const LEGACY_ONLY: Check =
    Check { skip: "the server has no handshake", revisions: LEGACY, places: LIVE_ANYWHERE, ..BASE };

pub(crate) static EARLY_EXIT: Check = Check {
    id: "early-exit",
    title: "The server process does not exit before its first response",
    why: "A host shows only that the server failed to start. The reason is on stderr, which few hosts show.",
    severity: Severity::Critical,
    rationale: "no connection is possible",
    looks_at: "the process from its start to its first response",
    pass: "the process is running when it sends its first response",
    fail: "the process exits without a response",
    skip: "never",
    sentence: "the server process exited before its first response",
    level: Level::Ours,
    hosts: &[host(
        "Claude Code",
        "shows the server as failed, with -32000 Connection closed",
        "https://github.com/modelcontextprotocol/servers/issues/2338",
    )],
    remedy: "Run the program in a terminal and read its error: a missing module, a wrong path, an environment variable \
             that the host does not pass on. A server must wait for messages on stdin.",
    example: "await server.connect(new StdioServerTransport());  // and no process.exit() after it",
    see: &["mute-server", "stays-alive"],
    references: &[Mcp("2025-11-25/basic/transports#stdio")],
    places: LIVE,
    needs: &[],
    ..BASE
};

pub(crate) static MUTE_SERVER: Check = Check {
    id: "mute-server",
    title: "The server responds to requests",
    why: "A host cannot tell a server that never responds from a slow one, so it waits until its time limit.",
    severity: Severity::Critical,
    rationale: "no communication is possible",
    looks_at: "the responses to initialize and to server/discover, and the first response after the handshake",
    pass: "initialize or server/discover is answered, with a result or an error, and so is the next request",
    fail: "neither initialize nor server/discover is answered in time while the process is running, or no request is \
           answered after the handshake",
    skip: "the process exits",
    sentence: "the server does not respond",
    rules: &[&written(
        Server,
        &[
            must(
                LEGACY,
                Page("basic/lifecycle"),
                "Initialization",
                "The server MUST respond with its own capabilities",
            ),
            must(MODERN, Page("server/discover"), "", "Servers MUST implement it"),
        ],
    )],
    hosts: &[host(
        "clients on the TypeScript SDK",
        "give up after 60 seconds with -32001",
        "https://github.com/modelcontextprotocol/typescript-sdk/issues/245",
    )],
    remedy: "Flush stdout after every message, and end each message with a newline. Read lines, not Content-Length \
             headers. Respond without waiting for the end of stdin. If the server only starts slowly, raise \
             the patience. At a URL, check the path, often /mcp, and any proxy in front of the server.",
    example: "sys.stdout.write(json.dumps(answer) + \"\\n\"); sys.stdout.flush()",
    see: &["early-exit", "split-input", "stdout-purity"],
    places: LIVE_ANYWHERE,
    needs: &["early-exit"],
    ..BASE
};

pub(crate) static HANDSHAKE: Check = Check {
    id: "handshake",
    title: "The server accepts initialize",
    why: "A host that gets an error for initialize shows the server as failed, usually without the error's message.",
    severity: Severity::Critical,
    rationale: "no client can connect",
    looks_at: "the response to initialize with the latest legacy revision, if the server does not speak 2026-07-28",
    pass: "the response is a result",
    fail: "the response is an HTTP error status, or an error that is not about the version",
    sentence: "initialize fails, so no client can connect",
    rules: &[&written(
        Server,
        &[must(LEGACY, Page("basic/lifecycle"), "Initialization", "The server MUST respond with its own capabilities")],
    )],
    hosts: &[host(
        "clients on the TypeScript SDK",
        "close the connection",
        "https://github.com/modelcontextprotocol/typescript-sdk/blob/v1.29.0/src/client/index.ts",
    )],
    remedy: "Answer initialize at once, without anything that can fail: read tokens and open databases and connections \
             when the first tool needs them, and report a failure as the result of that tool, with isError.",
    example: r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mine","version":"1.0.0"}}"#,
    see: &["mute-server", "version-negotiation", "early-exit"],
    needs: &["early-exit", "mute-server"],
    ..LEGACY_ONLY
};

pub(crate) static INITIALIZE_MEMBERS: Check = Check {
    id: "initialize-members",
    title: "initialize is accepted with members that the server does not know",
    why: "Hosts send a title, experimental features and capabilities of later revisions. A server that accepts only \
          the members that it knows refuses every such host, and new ones with each revision.",
    severity: Severity::High,
    rationale: "hosts that send more than the server knows cannot connect",
    looks_at: "the response to initialize with clientInfo.title, an experimental capability, and a capability that no \
               revision has; twice if it is not a result",
    pass: "one of the responses is a result",
    fail: "there is no result, although initialize without these members gets one",
    sentence: "initialize is refused because of members that a client may send",
    level: Level::Stated,
    rules: &[&written(
        Server,
        &[states(LEGACY, Schema, "ClientCapabilities", "any client can define its own, additional capabilities")],
    )],
    hosts: &[
        host(
            "VS Code",
            "cannot connect: it sends capabilities.elicitation.form",
            "https://github.com/modelcontextprotocol/java-sdk/issues/724",
        ),
        host(
            "Cursor",
            "cannot connect: it sends capabilities.tools",
            "https://github.com/modelcontextprotocol/java-sdk/issues/30",
        ),
    ],
    remedy: "Ignore members that you do not know, in clientInfo, in capabilities and in the params.",
    example: "new ObjectMapper().configure(FAIL_ON_UNKNOWN_PROPERTIES, false)",
    see: &["handshake", "version-negotiation", "omitted-params"],
    ..LEGACY_ONLY
};

pub(crate) static RESULT_SHAPE: Check = Check {
    id: "result-shape",
    title: "Results have the members that their method requires",
    why: "A host deserializes results into types. One missing or wrong member invalidates the whole result: without \
          serverInfo no connection is possible, and one tool without a name hides all others.",
    severity: Severity::High,
    rationale: "a client that validates rejects the whole result",
    looks_at: "the results of initialize, ping, and the methods of tools, resources, prompts and completion; of other \
               results only whether they are objects",
    pass: "every required member is present, and every member has a value of the right type, range and format; so have \
           level and data of a log message",
    fail: "a result is not an object, a required member is missing, or a member has another value, such as null",
    skip: "no result of an MCP method was seen",
    sentence: "a result lacks a member or has one of the wrong type",
    level: Level::Stated,
    rules: &[&written(Sender, &[states(ALL, Page("basic"), "Schema", "source of truth for all protocol messages")])],
    hosts: &[host(
        "Claude Code",
        "registers no tool if nextCursor is null",
        "https://github.com/gensecaihq/Wazuh-MCP-Server/issues/75",
    )],
    remedy: "Compare the result with the type of its method in the schema of the revision.",
    example: r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"mine","version":"1.0.0"}}"#,
    see: &["jsonrpc-messages", "tool-schemas", "modern-discover"],
    ..BASE
};

/// A server that serves a request before the handshake. The specification binds only the side that sends too early.
pub(crate) static SERVED_EARLY: Rule = ours(Server, LEGACY);
static SENT_EARLY_BY_CLIENT: Rule = written(
    Client,
    &[should(
        LEGACY,
        Page("basic/lifecycle"),
        "Initialization",
        "The client SHOULD NOT send requests other than pings",
    )],
);
/// A server that sends a request before the handshake is complete.
pub(crate) static SENT_EARLY_BY_SERVER: Rule = written(
    Server,
    &[should(
        LEGACY,
        Page("basic/lifecycle"),
        "Initialization",
        "The server SHOULD NOT send requests other than pings",
    )],
);

pub(crate) static LIFECYCLE_GATE: Check = Check {
    id: "lifecycle-gate",
    title: "No request is sent or served before the handshake",
    why: "Before initialize no revision is agreed, so the meaning of a response is undefined. A host that probes for \
          the era of a server misjudges a server that answers anyway.",
    severity: Severity::Low,
    rationale: "well-behaved hosts never send such requests; hosts that probe for the era are misled",
    looks_at: "tools/list, sent before initialize; requests of both sides before the handshake is complete",
    pass: "tools/list is refused with an error; until the handshake is complete, both sides send only ping",
    fail: "the client or the server sends a request other than ping too early. A server that serves tools/list \
           before initialize breaks no rule of a specification: the rules bind the side that sends too early",
    skip: "the server has no handshake: it speaks only 2026-07-28",
    sentence: "a request is sent or served before the handshake is complete",
    revisions: LEGACY,
    level: Level::Should,
    rules: &[&SERVED_EARLY, &SENT_EARLY_BY_CLIENT, &SENT_EARLY_BY_SERVER],
    remedy: "Send no request before the handshake is complete, except ping. As a server, keep a state: new, \
             initializing, ready; until then, serve initialize and ping and answer everything else with -32600.",
    example: r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"not before initialize"}}"#,
    see: &["second-initialize", "version-negotiation", "modern-meta"],
    references: &[Mcp("2026-07-28/basic/transports/stdio#backward-compatibility")],
    ..BASE
};

pub(crate) static VERSION_NEGOTIATION: Check = Check {
    id: "version-negotiation",
    title: "The server agrees only to versions that it speaks",
    why: "The client uses the agreed version for all messages after the handshake. If the server does not speak that \
          version, client and server misunderstand each other.",
    severity: Severity::High,
    rationale: "both sides rely on a version that the server does not speak; failures show up much later",
    looks_at: "initialize with 1900-01-01, and with every legacy revision",
    pass: "the server agrees to the requested revision if it speaks that revision; else it answers with a revision \
           that it speaks, or with an error that lists the revisions it speaks",
    fail: "an unknown version is echoed; the version in the result is not an MCP revision; or the server answers with \
           another version, although it agrees to the requested one in another handshake",
    sentence: "the server agrees to a version that it does not speak, or refuses one that it speaks",
    rules: &[&written(
        Server,
        &[must(LEGACY, Page("basic/lifecycle"), "Version Negotiation", "it MUST respond with the same version")],
    )],
    hosts: &[
        host(
            "mcp-remote",
            "refuses a version that it did not ask for",
            "https://github.com/punkpeye/mcp-remote/issues/66",
        ),
        host("Junie", "disconnects, so the server has no tools", "https://github.com/jonnyzzz/mcp-steroid/issues/482"),
    ],
    remedy: "Keep a list of supported revisions. Answer with the requested revision if it is listed, else with the \
             latest revision.",
    example: "version = requested if requested in SUPPORTED else SUPPORTED[-1]",
    see: &["modern-version", "second-initialize"],
    ..LEGACY_ONLY
};

pub(crate) static CALL_BEFORE_INITIALIZED: Check = Check {
    id: "call-before-initialized",
    title: "No tool runs before notifications/initialized",
    why: "The client sends notifications/initialized when it has accepted the revision and the capabilities. A tool \
          that runs before may do so for a client that is about to leave.",
    severity: Severity::Low,
    rationale: "only a client that does not wait is affected",
    looks_at: "a call of a tool that may be called repeatedly, after the response to initialize and before \
               notifications/initialized",
    pass: "the call is refused, or not answered until the notification arrives",
    fail: "the call gets a result that is not an error",
    skip: "no tool that may be called repeatedly gave a result",
    sentence: "a tool runs before the handshake is complete",
    level: Level::Ours,
    remedy: "Until notifications/initialized arrives, answer only initialize and ping.",
    example: r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"not before notifications/initialized"}}"#,
    see: &["lifecycle-gate", "second-initialize"],
    references: &[Mcp("2025-11-25/basic/lifecycle#initialization")],
    places: LIVE,
    needs: &["early-exit", "mute-server", "handshake", "lifecycle-gate"],
    ..LEGACY_ONLY
};

pub(crate) static SECOND_INITIALIZE: Check = Check {
    id: "second-initialize",
    title: "A second initialize is refused",
    why: "A second handshake would change the revision and the capabilities while requests are in flight. Accepting it \
          hides a bug of the client.",
    severity: Severity::Low,
    rationale: "only a client with a bug does this",
    looks_at: "initialize, sent again on an initialized connection",
    pass: "the second initialize is answered with an error",
    fail: "the second initialize is answered with a result, or not at all",
    sentence: "a second initialize is not refused",
    level: Level::Ours,
    rules: &[&ours(Server, LEGACY)],
    remedy: "Answer initialize with -32600 after the handshake has begun.",
    example: r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"initialize was answered before"}}"#,
    see: &["lifecycle-gate", "version-negotiation"],
    references: &[Mcp("2025-11-25/basic/lifecycle#initialization")],
    places: LIVE,
    ..LEGACY_ONLY
};

pub(crate) static METHOD_IN_REVISION: Check = Check {
    id: "method-in-revision",
    title: "Only methods of the agreed revision are used",
    why: "A peer that agreed to an earlier revision does not know newer methods: requests fail, notifications are \
          dropped.",
    rationale: "the message is lost; nothing else breaks",
    looks_at: "the method of every request and notification, its sender, and the revision of the connection",
    pass: "the agreed revision has each method, and allows its sender to send it",
    fail: "an MCP method is sent by the wrong side, or in a revision that does not have it",
    skip: "no revision was agreed",
    sentence: "a method is sent that its sender may not send in this revision",
    rules: &[&written(
        Both,
        &[
            should(UNTIL_2025_03_26, Page("basic/lifecycle"), "Operation", "Respect the negotiated protocol version"),
            must(
                LEGACY_SINCE_2025_06_18,
                Page("basic/lifecycle"),
                "Operation",
                "Respect the negotiated protocol version",
            ),
            states(MODERN, Page("basic"), "Schema", "source of truth for all protocol messages"),
        ],
    )],
    remedy: "Look the method up with barewire explain, and send it only if the agreed revision has it.",
    example: "barewire explain notifications/elicitation/complete",
    see: &["undeclared-client-capability", "modern-server-requests", "unknown-method"],
    ..BASE
};
