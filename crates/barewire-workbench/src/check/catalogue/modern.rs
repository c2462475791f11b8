//! Checks of the rules of 2026-07-28, which has no handshake.

use super::Bound::{Client, Server};
use super::Document::Page;
use super::Reference::Mcp;
use super::rule::{must, should, states, written};
use super::{Category, Check, CheckPlace, LIVE_ANYWHERE, Level, MODERN, Rule, Severity, host};

pub(crate) const CHECKS: &[&Check] = &[
    &MODERN_DISCOVER,
    &MODERN_VERSION,
    &MODERN_META,
    &MODERN_REMOVED_METHODS,
    &MODERN_SERVER_REQUESTS,
    &MODERN_STATELESS,
    &RESULT_TYPE,
    &UNKNOWN_RESULT_TYPE,
    &CACHING_HINTS,
    &SERVER_INFO,
    &MODERN_LOGGING,
    &LISTEN_ACKNOWLEDGED,
    &INPUT_REQUIRED,
];

const BASE: Check = Check {
    skip: "the server does not speak 2026-07-28",
    revisions: MODERN,
    category: Category::Modern,
    ..super::BASE
};
/// The default fields of a check that sends its own input.
const LIVE: Check = Check { places: LIVE_ANYWHERE, ..BASE };

pub(crate) static MODERN_DISCOVER: Check = Check {
    id: "modern-discover",
    title: "server/discover describes the server",
    why: "A client that speaks both eras sends server/discover first, to find out which era the server speaks. Without \
          a result the client falls back to a handshake that the server may not have.",
    severity: Severity::High,
    rationale: "clients that speak both eras treat the server as a legacy one",
    looks_at: "the result of server/discover",
    pass: "supportedVersions is an array that contains the version of the request, and capabilities is an object",
    fail: "the response is an error, or supportedVersions or capabilities is missing or has the wrong type",
    sentence: "server/discover does not describe the server",
    rules: &[&written(Server, &[must(MODERN, Page("server/discover"), "", "Servers MUST implement it")])],
    hosts: &[host(
        "clients on the TypeScript SDK 2.x",
        "take the server for a legacy one",
        "https://github.com/modelcontextprotocol/typescript-sdk/blob/main/packages/client/src/client/probeClassifier.ts",
    )],
    remedy: "Implement server/discover; every modern server has it.",
    example: r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"}"#,
    see: &["modern-version", "result-shape", "server-info"],
    ..BASE
};

pub(crate) static MODERN_VERSION: Check = Check {
    id: "modern-version",
    title: "An unsupported version is refused with -32022",
    why: "Modern clients choose another version from data.supported of this error. After an error with any other code \
          they fall back to the legacy era or give up.",
    rationale: "negotiation fails as soon as there is a second modern version",
    looks_at: "a request whose _meta has the version v999.0.0",
    pass: "the response is error -32022, data.supported is an array of versions, and data.requested is v999.0.0",
    fail: "the response is a result or another error, or data.supported or data.requested is missing or wrong",
    sentence: "an unsupported version is not refused with -32022",
    rules: &[&written(
        Server,
        &[must(
            MODERN,
            Page("basic/versioning"),
            "Protocol Version Negotiation",
            "it MUST respond with an UnsupportedProtocolVersionError",
        )],
    )],
    remedy: "Check protocolVersion in _meta before you look up the method.",
    example: r#"{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"v999.0.0"}}"#,
    see: &["modern-meta", "version-negotiation"],
    ..LIVE
};

/// Metadata that the server does not know.
pub(crate) static OTHER_METADATA: Rule = written(
    Server,
    &[states(
        MODERN,
        Page("basic"),
        "_meta",
        "to allow clients and servers to attach additional metadata to their interactions",
    )],
);

pub(crate) static MODERN_META: Check = Check {
    id: "modern-meta",
    title: "A request without its metadata is refused with -32602",
    why: "Without the version and the capabilities of the client the server cannot know how to respond. A server that \
          guesses sends some clients responses that they do not understand.",
    rationale: "only clients with a bug are affected, and the bug stays hidden",
    looks_at: "server/discover without protocolVersion, without clientCapabilities, without clientInfo, and with \
               members that the server does not know; in a capture the _meta of every request of a modern client",
    pass: "the first two are refused with -32602, the others are served",
    fail: "one of the requests is treated differently, or a client omits a required member",
    sentence: "the required metadata of a request is missing or not checked",
    rules: &[
        &written(
            Server,
            &[must(MODERN, Page("basic"), "_meta", "the server MUST reject it with JSON-RPC error code -32602")],
        ),
        &written(
            Client,
            &[must(MODERN, Page("basic"), "_meta", "fields marked as required MUST be included on every request")],
        ),
        &OTHER_METADATA,
    ],
    remedy: "Check both required members before you look up the method. Do not require clientInfo, which is optional, \
             and ignore members that you do not know.",
    example: r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#,
    see: &["modern-version", "lifecycle-gate"],
    ..BASE
};

pub(crate) static MODERN_REMOVED_METHODS: Check = Check {
    id: "modern-removed-methods",
    title: "Removed methods are answered with -32601",
    why: "initialize, ping, logging/setLevel and resources/subscribe have no meaning without a session. A server that \
          serves them keeps state that the next request does not see.",
    severity: Severity::Low,
    rationale: "only clients with a bug send these methods",
    looks_at: "each of these methods, with the metadata of 2026-07-28",
    pass: "each is answered with -32601; initialize with any error, which may list the supported versions. A server of \
           both eras may treat initialize as a handshake",
    fail: "one of them is served, answered with another code, or not answered",
    sentence: "a removed method is not answered with -32601",
    level: Level::Stated,
    rules: &[&written(Server, &[states(MODERN, Page("changelog"), "Major changes", "Remove ping, logging/setLevel")])],
    remedy: "Choose the method table by the version in _meta.",
    example: r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"Method not found"}}"#,
    see: &["unknown-method", "method-in-revision"],
    ..LIVE
};

/// A request of a modern server, and a response of a modern client, on stdio and over HTTP.
static REQUEST_ON_STDOUT: Rule = written(
    Server,
    &[must(MODERN, Page("basic/transports/stdio"), "Receiving Messages", "MUST NOT write JSON-RPC requests to stdout")],
);
static RESPONSE_ON_STDIN: Rule = written(
    Client,
    &[must(MODERN, Page("basic/transports/stdio"), "Sending Messages", "MUST NOT write JSON-RPC responses")],
);
static REQUEST_IN_STREAM: Rule = written(
    Server,
    &[must(
        MODERN,
        Page("basic/transports/streamable-http"),
        "Receiving Messages",
        "MUST NOT send independent JSON-RPC requests on this stream",
    )],
);
static RESPONSE_IN_POST: Rule = written(
    Client,
    &[must(
        MODERN,
        Page("basic/transports/streamable-http"),
        "Sending Messages",
        "The client MUST NOT send JSON-RPC responses",
    )],
);

/// Returns the rule that a request of a modern server breaks.
pub(crate) fn request_of_server(over_http: bool) -> &'static Rule {
    if over_http { &REQUEST_IN_STREAM } else { &REQUEST_ON_STDOUT }
}

/// Returns the rule that a response of a modern client breaks.
pub(crate) fn response_of_client(over_http: bool) -> &'static Rule {
    if over_http { &RESPONSE_IN_POST } else { &RESPONSE_ON_STDIN }
}

pub(crate) static MODERN_SERVER_REQUESTS: Check = Check {
    id: "modern-server-requests",
    title: "A modern server sends no requests",
    why: "A modern client must not send responses, so the server waits forever for the response to its request.",
    severity: Severity::High,
    rationale: "the call hangs",
    looks_at: "requests that the server sends on a modern connection, and responses that the client sends",
    pass: "the server sends no requests, and the client no responses",
    fail: "the server sends a request, or the client sends a response",
    skip: "no message of 2026-07-28 was seen",
    sentence: "a modern server sends a request, or a modern client a response",
    rules: &[&REQUEST_ON_STDOUT, &RESPONSE_ON_STDIN, &REQUEST_IN_STREAM, &RESPONSE_IN_POST],
    hosts: &[host(
        "clients on the TypeScript SDK 2.x",
        "drop the request, so the call hangs",
        "https://github.com/modelcontextprotocol/typescript-sdk/blob/main/packages/core-internal/src/shared/protocol.ts",
    )],
    remedy: "Answer the call with a result of resultType input_required that contains the question.",
    example: r#"{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{…}}}}"#,
    see: &["input-required", "undeclared-client-capability"],
    references: &[Mcp("2026-07-28/basic/patterns/mrtr")],
    ..BASE
};

pub(crate) static RESULT_TYPE: Check = Check {
    id: "result-type",
    title: "Every modern result has a resultType",
    why: "resultType says how to read the rest of the result. Clients must take a result without resultType as \
          complete, because older servers send none; some reject it all the same.",
    severity: Severity::High,
    rationale: "clients that validate against the schema reject the result",
    looks_at: "every result on a modern connection",
    pass: "resultType is a string: complete, input_required, or a type that an extension defines",
    fail: "resultType is missing, or not a string",
    skip: "no result of 2026-07-28 was seen",
    sentence: "a result has no resultType",
    rules: &[&written(Server, &[must(MODERN, Page("basic"), "Result Responses", "MUST include a resultType field")])],
    hosts: &[
        host("clients of 2026-07-28", "get no tools", "https://github.com/jdevalk/specification.website/issues/186"),
        host("oh-my-pi", "fails the call", "https://github.com/can1357/oh-my-pi/pull/8167"),
    ],
    remedy: "Add resultType in the function that writes all results.",
    example: r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[]}}"#,
    see: &["result-shape", "input-required"],
    ..BASE
};

pub(crate) static UNKNOWN_RESULT_TYPE: Check = Check {
    id: "unknown-result-type",
    title: "resultType is one that the client knows",
    why: "A client must treat a result of an unknown type as invalid, so the call fails although it was carried out.",
    rationale: "clients must reject the result",
    looks_at: "resultType of every result on a modern connection, and the extensions that the request declares",
    pass: "resultType is complete, input_required or task, or the request declares extensions",
    fail: "resultType is another one, and the request declares no extensions",
    skip: "no result of 2026-07-28 was seen",
    sentence: "a result has a type that no client knows",
    rules: &[&written(
        Server,
        &[must(MODERN, Page("basic"), "ResultType", "MUST be created from the set defined in the core protocol")],
    )],
    remedy: "Use complete for every final result. Use the type of an extension only if the request declares the extension.",
    example: r#"{"resultType":"complete","content":[]}"#,
    see: &["result-type", "input-required", "task-undeclared"],
    version: 2,
    history: &[(1, "first"), (2, "leaves results that are tasks to task-undeclared")],
    ..BASE
};

pub(crate) static MODERN_STATELESS: Check = Check {
    id: "modern-stateless",
    title: "A request depends on no earlier request",
    why: "A modern request carries everything that is needed to serve it. Clients that know the server do not send \
          server/discover again, and a proxy sends each request to any of several processes.",
    rationale: "clients that skip server/discover get errors, and lists depend on the process",
    looks_at: "a list, as the first request of a new process, and again after other lists",
    pass: "the list gets a result, and has the same entries both times",
    fail: "the first request gets no result, or the list has other entries after other requests",
    sentence: "a request depends on earlier requests of its connection",
    rules: &[&written(
        Server,
        &[must(MODERN, Page("basic"), "Statelessness", "MUST NOT rely on prior requests over the same connection")],
    )],
    remedy: "Read version and capabilities from the _meta of each request, and keep no state of a connection.",
    example: r#"{"id":1,"method":"tools/list","params":{"_meta":{…}}}  is served without server/discover before it"#,
    see: &["modern-discover", "modern-meta", "list-order"],
    references: &[Mcp("2026-07-28/server/tools#listing-tools")],
    places: &[CheckPlace::Stdio],
    needs: &["early-exit", "mute-server", "handshake", "modern-discover", "list-order"],
    ..BASE
};

pub(crate) static CACHING_HINTS: Check = Check {
    id: "caching-hints",
    title: "A cacheable result has ttlMs and cacheScope",
    why: "Without ttlMs nothing is cached; without cacheScope a proxy can give one user's list to another user.",
    rationale: "clients request data again that they could have cached; a shared cache can expose another user's data",
    looks_at: "complete results of server/discover, the four lists and resources/read",
    pass: "ttlMs is an integer of at least 0; cacheScope is public or private, and the same on all pages of a list",
    fail: "ttlMs or cacheScope is missing or invalid, or a page has another cacheScope than the first page",
    skip: "no cacheable result was seen",
    sentence: "a cacheable result has no valid ttlMs and cacheScope",
    rules: &[&written(
        Server,
        &[must(MODERN, Page("server/utilities/caching"), "Cacheable Results", "Servers MUST include caching hints")],
    )],
    remedy: "Add ttlMs and cacheScope to the results of server/discover, the four lists and resources/read. Use the \
             same cacheScope on all pages of a list. If in doubt, use ttlMs 0 and cacheScope private.",
    example: r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}"#,
    see: &["result-type", "list-order"],
    ..BASE
};

pub(crate) static SERVER_INFO: Check = Check {
    id: "server-info",
    title: "server/discover names the server",
    why: "2026-07-28 has no handshake that names the server. Without serverInfo, a log of several servers does not \
          show which of them sent a message.",
    severity: Severity::Low,
    rationale: "only readers of logs need the name",
    looks_at: "_meta of the result of server/discover",
    pass: "io.modelcontextprotocol/serverInfo has a name and a version",
    fail: "serverInfo is missing, or lacks a name or a version",
    skip: "no result of server/discover was seen",
    sentence: "the result of server/discover does not name the server",
    level: Level::Should,
    rules: &[&written(
        Server,
        &[should(MODERN, Page("server/discover"), "DiscoverResult", "Servers SHOULD include this field")],
    )],
    remedy: "Add serverInfo to the _meta of results.",
    example: r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mine","version":"1.0.0"}}}"#,
    see: &["modern-discover", "result-type"],
    ..BASE
};

pub(crate) static MODERN_LOGGING: Check = Check {
    id: "modern-logging",
    title: "Log messages are sent only for requests with a logLevel",
    why: "A modern client says with each request whether it wants log messages. A client that gets other log messages \
          cannot assign them to a request; on a shared connection, it shows the log messages of another client.",
    rationale: "log messages for one client can be shown to another",
    looks_at: "notifications/message while no request in flight has a logLevel",
    pass: "no such notification is sent",
    fail: "such a notification is sent",
    skip: "no message of 2026-07-28 was seen",
    sentence: "a log message is sent although no request asked for it",
    rules: &[&written(
        Server,
        &[must(MODERN, Page("server/utilities/logging"), "Per-request log level", "The server MUST NOT")],
    )],
    remedy: "Send log messages only while handling a request whose _meta has a logLevel. Log the rest to stderr.",
    example: r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}"#,
    see: &["stderr-hygiene", "listen-acknowledged"],
    ..BASE
};

pub(crate) static LISTEN_ID: Rule = written(
    Server,
    &[must(MODERN, Page("basic"), "_meta", "the server MUST include io.modelcontextprotocol/subscriptionId")],
);
pub(crate) static LISTEN_FILTER: Rule = written(
    Server,
    &[must(
        MODERN,
        Page("basic/patterns/subscriptions"),
        "Opening a Stream",
        "MUST NOT send notification types the client has not explicitly requested",
    )],
);

pub(crate) static LISTEN_ACKNOWLEDGED: Check = Check {
    id: "listen-acknowledged",
    title: "subscriptions/listen is acknowledged, and its notifications carry its id",
    why: "On stdio all messages share one stream. A client matches notifications to their subscriptions/listen request \
          by the subscriptionId, and learns from the acknowledgement which notifications to expect.",
    rationale: "changes are lost, or reach clients that did not ask for them",
    looks_at: "subscriptions/listen and the messages after it; notifications of changes on a modern connection",
    pass: "the first message is the acknowledgement, with no more than was requested; notifications of changes have the \
           id of an open subscriptions/listen that requested them; a result at the end has this id too",
    fail: "one of these conditions does not hold. What the server may have sent before it read a cancellation is not \
           judged",
    skip: "the client sent no subscriptions/listen",
    sentence: "subscriptions/listen is not acknowledged first, or a notification lacks its id",
    rules: &[
        &written(
            Server,
            &[must(
                MODERN,
                Page("basic/patterns/subscriptions"),
                "Acknowledgment",
                "MUST send notifications/subscriptions/acknowledged as the first message",
            )],
        ),
        &LISTEN_ID,
        &LISTEN_FILTER,
    ],
    remedy: "Acknowledge with the supported part of the filter, and put the id of the subscriptions/listen request \
             into the _meta of each notification.",
    example: r#"{"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true}}}"#,
    see: &["modern-logging", "method-in-revision"],
    ..BASE
};

pub(crate) static INPUT_REQUIRED: Check = Check {
    id: "input-required",
    title: "A server asks only for input that the client can give",
    why: "A client gives only input for which it has declared the capability, and only in requests that it can repeat. \
          Any other request for input is never answered.",
    severity: Severity::High,
    rationale: "the call can never be completed",
    looks_at: "results of resultType input_required",
    pass: "each such result answers tools/call, prompts/get or resources/read, has inputRequests or requestState, and \
           asks only for input whose capability the client has declared",
    fail: "one of these conditions does not hold",
    skip: "no result of this type was seen",
    sentence: "a result asks for input that the client cannot give",
    rules: &[&written(
        Server,
        &[must(
            MODERN,
            Page("basic/patterns/mrtr"),
            "Server Requirements (Basic Workflow)",
            "MUST NOT send an inputRequests that the client has not declared",
        )],
    )],
    hosts: &[host("oh-my-pi", "fails the call", "https://github.com/can1357/oh-my-pi/pull/8167")],
    remedy: "If clientCapabilities of the request lacks a capability that the input needs, answer with -32021 and \
             requiredCapabilities.",
    example: r#"{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"elicitation":{}}}}"#,
    see: &["modern-server-requests", "undeclared-client-capability"],
    ..BASE
};
