//! The beginning: the first answer, the handshake, the version.

use super::Reference::{JsonRpc, Mcp};
use super::{ANSWERS, BASE, Category, Check, CheckPlace, LEGACY, LIVE, LIVE_ANYWHERE, Level, Severity};

/// Without these there is nothing to check.
pub(super) const FIRST: &[&Check] = &[&EARLY_EXIT, &MUTE_SERVER, &HANDSHAKE];

pub(super) const CHECKS: &[&Check] =
    &[&RESULT_SHAPE, &LIFECYCLE_GATE, &VERSION_NEGOTIATION, &SECOND_INITIALIZE, &METHOD_IN_REVISION];

pub(crate) static EARLY_EXIT: Check = Check {
    id: "early-exit",
    title: "The program stays until it is told to go",
    why: "A host shows a server that ends before its first answer as \"failed to start\" and nothing else. What the program \
          said about it is on its stderr, where nobody looks.",
    severity: Severity::Critical,
    rationale: "there is no conversation at all",
    looks_at: "the process from its start to its first answer",
    pass: "the program is there when it answers first",
    fail: "the program ends before it has answered anything",
    skip: "never",
    sentence: "the program ends before it answers",
    level: Level::Ours,
    remedy: "Run the program by hand in a terminal and read what it says: a missing module, a wrong path, an environment \
             variable that the host does not pass on. A server must wait for messages on stdin and not end by itself.",
    example: "await server.connect(new StdioServerTransport());  // and no process.exit() behind it",
    see: &["mute-server", "stays-alive"],
    references: &[Mcp("2025-11-25/basic/transports#stdio")],
    category: Category::Lifecycle,
    places: LIVE,
    needs: &[],
    ..BASE
};

pub(crate) static MUTE_SERVER: Check = Check {
    id: "mute-server",
    title: "The server answers",
    why: "A server that reads and never answers looks to a host like one that is slow: it waits for its whole time limit.",
    severity: Severity::Critical,
    rationale: "there is no conversation at all",
    looks_at: "the first answer to initialize, and to server/discover; the first after the handshake",
    pass: "one of the two is answered, with a result or an error, and what is asked after it as well",
    fail: "neither is answered in time, though the program runs; or nothing is after the handshake",
    skip: "the program does not stay",
    sentence: "the server does not answer",
    remedy: "Flush stdout after every message, and end each with a line break. Read lines, not Content-Length headers. Do not wait \
             for the end of stdin before the first answer. If the server is only slow to start, give it --patience. At a URL, look \
             at the path, which often is /mcp, and at what stands before the server.",
    example: "sys.stdout.write(json.dumps(answer) + \"\\n\"); sys.stdout.flush()",
    see: &["early-exit", "split-input", "stdout-purity"],
    references: &[
        Mcp("2025-11-25/basic/lifecycle#initialization"),
        Mcp("2026-07-28/server/discover"),
        JsonRpc("section 5"),
    ],
    category: Category::Lifecycle,
    places: LIVE_ANYWHERE,
    needs: &["early-exit"],
    ..BASE
};

pub(crate) static HANDSHAKE: Check = Check {
    id: "handshake",
    title: "The server lets a client in",
    why: "A host that gets an error for initialize shows the server as failed. What is wrong is in the message of the error, which \
          few hosts show.",
    severity: Severity::Critical,
    rationale: "there is no conversation at all",
    looks_at: "the answer to initialize with the latest revision that has it, of a server that speaks no later one",
    pass: "it is a result",
    fail: "it is an error that is not about the version, or a refusal",
    skip: "the server has no handshake",
    sentence: "the server answers initialize, and lets nobody in",
    revisions: LEGACY,
    remedy: "Answer initialize at once and without anything that may fail: what needs a database, a token or a network is opened \
             when the first tool needs it, and its failure is the result of that tool, with isError.",
    example: r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mine","version":"1.0.0"}}"#,
    see: &["mute-server", "version-negotiation", "early-exit"],
    references: &[Mcp("2025-11-25/basic/lifecycle#initialization")],
    category: Category::Lifecycle,
    places: LIVE_ANYWHERE,
    needs: &["early-exit", "mute-server"],
    ..BASE
};

pub(crate) static RESULT_SHAPE: Check = Check {
    id: "result-shape",
    title: "Results have the members that their method promises",
    why: "A host reads results into types. One member that is missing or of another type makes it refuse the whole result: a \
          server without serverInfo cannot be connected to, one tool without a name hides all the others.",
    severity: Severity::High,
    rationale: "hosts that check what they read refuse the whole result",
    looks_at: "the result of every method of MCP, by the schema of the revision that was agreed",
    pass: "every required member is there, and every member has its type",
    fail: "a member is missing or has another type",
    skip: "no result of a method that MCP defines was seen",
    sentence: "a result does not have the members that its method promises",
    remedy: "Compare the result with the type of its method in the schema of the revision.",
    example: r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"mine","version":"1.0.0"}}"#,
    see: &["jsonrpc-messages", "tool-schemas", "modern-discover"],
    references: &[Mcp("2025-11-25/schema"), Mcp("2026-07-28/schema")],
    category: Category::Lifecycle,
    ..BASE
};

pub(crate) static LIFECYCLE_GATE: Check = Check {
    id: "lifecycle-gate",
    title: "Nothing is served before the handshake",
    why: "Before initialize nobody has agreed on a revision, so nobody knows what an answer means. A host that probes for the \
          era of a server takes one that answers anyway for something that it is not.",
    severity: Severity::Medium,
    rationale: "well-behaved hosts never get there; those that probe are misled",
    looks_at: "tools/list sent before initialize; requests of either side that come before the handshake is complete",
    pass: "the request is refused with an error; no side asks anything but ping before its time",
    fail: "the request is served; or a side sends requests other than ping before the other is ready",
    skip: "the server has no handshake: it speaks only 2026-07-28",
    sentence: "something is asked or served before the handshake",
    revisions: LEGACY,
    level: Level::Should,
    remedy: "Keep a state: fresh, initializing, ready. Until notifications/initialized has come, serve initialize and ping and \
             answer everything else with -32600.",
    example: r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"not before initialize"}}"#,
    see: &["second-initialize", "version-negotiation", "modern-meta"],
    references: &[Mcp("2025-11-25/basic/lifecycle#initialization")],
    category: Category::Lifecycle,
    ..BASE
};

pub(crate) static VERSION_NEGOTIATION: Check = Check {
    id: "version-negotiation",
    title: "The version is agreed on, not echoed",
    why: "A server that says yes to a version it has never heard of will be spoken to in it.",
    severity: Severity::High,
    rationale: "both sides believe in an agreement that there is none of; what breaks then breaks much later",
    looks_at: "initialize with 1900-01-01, and with every legacy revision",
    pass: "a revision that the server speaks is answered with itself; anything else with a revision that the server speaks, or \
           with an error that names those",
    fail: "an unknown version is echoed; the answer is no revision of MCP; or the server answers with another version than it \
           was asked for, though it agrees to it elsewhere",
    skip: "the server has no handshake",
    sentence: "the server agrees to a version that it cannot speak",
    revisions: LEGACY,
    remedy: "Keep a list of the revisions that you have tested. If the requested one is in it, answer with it; if not, with the \
             latest of the list.",
    example: "version = requested if requested in SUPPORTED else SUPPORTED[-1]",
    see: &["modern-version", "second-initialize"],
    references: &[Mcp("2025-11-25/basic/lifecycle#version-negotiation")],
    category: Category::Lifecycle,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static SECOND_INITIALIZE: Check = Check {
    id: "second-initialize",
    title: "There is one initialize a connection",
    why: "A second handshake changes the revision and the capabilities under requests that are in flight. It is a bug of the \
          client, and it stays hidden if the server plays along.",
    severity: Severity::Low,
    rationale: "only a client with a bug gets there",
    looks_at: "initialize, sent again on a connection that is ready",
    pass: "it is refused with an error",
    fail: "it is answered with a result, or not at all",
    skip: "the server has no handshake",
    sentence: "a second initialize is accepted",
    revisions: LEGACY,
    level: Level::Ours,
    remedy: "Answer initialize with -32600 once the handshake has begun.",
    example: r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"initialize was answered before"}}"#,
    see: &["lifecycle-gate", "version-negotiation"],
    references: &[Mcp("2025-11-25/basic/lifecycle#initialization")],
    category: Category::Lifecycle,
    places: LIVE,
    ..BASE
};

pub(crate) static METHOD_IN_REVISION: Check = Check {
    id: "method-in-revision",
    title: "Only methods of the agreed revision are used",
    why: "What came with a later revision means nothing to a peer that agreed on an earlier one: a request fails, and a \
          notification is dropped without a word.",
    severity: Severity::Medium,
    rationale: "what is sent is lost; nothing else breaks",
    looks_at: "the method of every request and notification, the side that sends it, and the revision of the connection",
    pass: "each is sent by a side that may send it in this revision",
    fail: "a method of MCP is sent by the wrong side, or in a revision that does not have it",
    skip: "no revision was agreed on",
    sentence: "a method is used that its sender does not have in this revision",
    remedy: "Look the method up with barewire explain, and send it only if the agreed revision has it.",
    example: "barewire explain notifications/elicitation/complete",
    see: &["undeclared-client-capability", "modern-server-requests", "unknown-method"],
    references: &[Mcp("2025-11-25/schema"), Mcp("2026-07-28/schema")],
    category: Category::Lifecycle,
    places: &[CheckPlace::Stdio, CheckPlace::Http, CheckPlace::Capture, CheckPlace::Tap],
    needs: ANSWERS,
    ..BASE
};
