//! What 2026-07-28 has in place of the handshake.

use super::Reference::{JsonRpc, Mcp};
use super::{BASE, Category, Check, LIVE_ANYWHERE, Level, MODERN, Severity};

pub(super) const CHECKS: &[&Check] = &[
    &MODERN_DISCOVER,
    &MODERN_VERSION,
    &MODERN_META,
    &MODERN_REMOVED_METHODS,
    &MODERN_SERVER_REQUESTS,
    &RESULT_TYPE,
    &CACHING_HINTS,
    &SERVER_INFO,
    &MODERN_LOGGING,
    &LISTEN_ACKNOWLEDGED,
    &INPUT_REQUIRED,
];

pub(crate) static MODERN_DISCOVER: Check = Check {
    id: "modern-discover",
    title: "server/discover says what the server is",
    why: "It is the first thing that a client of both eras asks, and how it finds out which one a server is of. Without it the client \
          falls back to a handshake that the server may not have.",
    severity: Severity::High,
    rationale: "clients of both eras take the server for a legacy one",
    looks_at: "the result of server/discover",
    pass: "supportedVersions is a list with at least the version that was asked in, and capabilities is an object",
    fail: "it is an error, or one of the two is missing or of another type",
    skip: "the server does not speak 2026-07-28",
    sentence: "server/discover does not say what it should",
    revisions: MODERN,
    remedy: "Implement server/discover; every server of the modern era has it.",
    example: r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public"}"#,
    see: &["modern-version", "result-shape", "server-info"],
    references: &[Mcp("2026-07-28/server/discover")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static MODERN_VERSION: Check = Check {
    id: "modern-version",
    title: "A version that is not spoken is refused with -32022",
    why: "data.supported of this error is how client and server of the modern era find a version. Another code makes the client fall \
          back to the legacy era, or give up.",
    severity: Severity::High,
    rationale: "negotiation goes wrong as soon as there is a second modern version",
    looks_at: "a request whose _meta asks for v999.0.0",
    pass: "the error -32022 with data.supported, a list of versions, and data.requested, the one that was asked for",
    fail: "a result, another code, or one of the two is missing",
    skip: "the server does not speak 2026-07-28",
    sentence: "a version that the server does not speak is not refused with -32022",
    revisions: MODERN,
    remedy: "Look at the protocolVersion of _meta before the method.",
    example: r#"{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"v999.0.0"}}"#,
    see: &["modern-meta", "version-negotiation"],
    references: &[Mcp("2026-07-28/basic/versioning")],
    category: Category::Modern,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static MODERN_META: Check = Check {
    id: "modern-meta",
    title: "A request without its metadata is refused with -32602",
    why: "Without the version and the capabilities of the client nobody knows how to answer. A server that guesses answers some clients \
          in a way that they do not understand.",
    severity: Severity::Medium,
    rationale: "only clients with a bug get there, and the bug stays hidden",
    looks_at: "server/discover without protocolVersion, without clientCapabilities, and without clientInfo; in a capture the _meta of \
               every request of a modern client",
    pass: "the first two are refused with -32602, the third is served",
    fail: "it is otherwise; or a client leaves one out",
    skip: "the server does not speak 2026-07-28",
    sentence: "the metadata of a request is not what it must be",
    revisions: MODERN,
    remedy: "Check both members before the method. Do not ask for clientInfo, which a client may leave out.",
    example: r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#,
    see: &["modern-version", "lifecycle-gate"],
    references: &[Mcp("2026-07-28/basic#_meta")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static MODERN_REMOVED_METHODS: Check = Check {
    id: "modern-removed-methods",
    title: "Methods that are gone are answered with -32601",
    why: "initialize, ping, logging/setLevel and resources/subscribe have no meaning without a session. A server that plays along keeps \
          state that the next request does not have.",
    severity: Severity::Medium,
    rationale: "only clients with a bug get there",
    looks_at: "each of them, with the metadata of 2026-07-28",
    pass: "each is answered with -32601; initialize with any error, which may name the versions there are. A server of both eras \
           may take it for a handshake",
    fail: "one is served, answered with another code, or not at all",
    skip: "the server does not speak 2026-07-28",
    sentence: "a method that is gone is still served",
    revisions: MODERN,
    remedy: "Choose the table of methods by the version in _meta.",
    example: r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"Method not found"}}"#,
    see: &["unknown-method", "method-in-revision"],
    references: &[Mcp("2026-07-28/changelog"), JsonRpc("section 5.1")],
    category: Category::Modern,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static MODERN_SERVER_REQUESTS: Check = Check {
    id: "modern-server-requests",
    title: "A modern server asks nothing by itself",
    why: "A modern client has no way to answer: it must not write responses. The server waits for ever.",
    severity: Severity::Critical,
    rationale: "the call hangs with every modern client",
    looks_at: "requests that the server sends on a modern connection, and responses that the client sends",
    pass: "there are none",
    fail: "there is one",
    skip: "nothing of 2026-07-28 was seen",
    sentence: "a request is sent to a modern client",
    revisions: MODERN,
    remedy: "Answer the call with a result of resultType input_required that holds the question.",
    example: r#"{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{…}}}}"#,
    see: &["input-required", "undeclared-client-capability"],
    references: &[Mcp("2026-07-28/basic/transports/stdio"), Mcp("2026-07-28/basic/patterns/mrtr")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static RESULT_TYPE: Check = Check {
    id: "result-type",
    title: "Every modern result has a resultType",
    why: "It says how to read the rest. Clients take a result without it for one of an older server; one that validates refuses it.",
    severity: Severity::High,
    rationale: "clients that check by the schema refuse the result",
    looks_at: "every result on a modern connection",
    pass: "resultType is a string: complete, input_required, or one of an extension",
    fail: "it is missing, or no string",
    skip: "no result of 2026-07-28 was seen",
    sentence: "a result has no resultType",
    revisions: MODERN,
    remedy: "Write it where all results are written.",
    example: r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[]}}"#,
    see: &["result-shape", "input-required"],
    references: &[Mcp("2026-07-28/basic#resulttype")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static CACHING_HINTS: Check = Check {
    id: "caching-hints",
    title: "What can be kept says for how long and for whom",
    why: "Without ttlMs everything is fetched again each time; without cacheScope a proxy may give the list of one user to another.",
    severity: Severity::Medium,
    rationale: "it costs time; with a shared cache it may show the wrong data",
    looks_at: "complete results of server/discover, the four lists and resources/read",
    pass: "ttlMs is an integer of at least 0, cacheScope is public or private, and the same on all pages of a list",
    fail: "one is missing or something else, or a page has another cacheScope than the one before",
    skip: "no such result was seen",
    sentence: "a result that can be kept does not say for how long and for whom",
    revisions: MODERN,
    remedy: "Add both to these six results, and choose cacheScope by the list, not by the page. If in doubt: 0 and private.",
    example: r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}"#,
    see: &["result-type", "list-order"],
    references: &[Mcp("2026-07-28/server/utilities/caching")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static SERVER_INFO: Check = Check {
    id: "server-info",
    title: "Results say which server they are from",
    why: "There is no handshake in which a server could tell its name. Without it a log of ten servers does not say which one answered.",
    severity: Severity::Low,
    rationale: "only people who read logs miss it",
    looks_at: "_meta of the result of server/discover",
    pass: "io.modelcontextprotocol/serverInfo has a name and a version",
    fail: "it is missing, or lacks one of them",
    skip: "no result of server/discover was seen",
    sentence: "a modern result does not say which server it is from",
    revisions: MODERN,
    level: Level::Should,
    remedy: "Add it to the _meta of results.",
    example: r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mine","version":"1.0.0"}}}"#,
    see: &["modern-discover", "result-type"],
    references: &[Mcp("2026-07-28/basic#_meta")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static MODERN_LOGGING: Check = Check {
    id: "modern-logging",
    title: "Log messages come only where they were asked for",
    why: "A modern client says with each request whether it wants log messages. One that gets them anyway has nowhere to put them, and \
          over a shared connection somebody else's log is shown.",
    severity: Severity::Medium,
    rationale: "what is logged for one may be shown to another",
    looks_at: "notifications/message while no request in flight has asked for a logLevel",
    pass: "there is none",
    fail: "there is one",
    skip: "nothing of 2026-07-28 was seen",
    sentence: "a log message comes that nobody asked for",
    revisions: MODERN,
    remedy: "Send log messages only while a request is served whose _meta has a logLevel. Log everything else to stderr.",
    example: r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}"#,
    see: &["stderr-hygiene", "listen-acknowledged"],
    references: &[Mcp("2026-07-28/server/utilities/logging")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static LISTEN_ACKNOWLEDGED: Check = Check {
    id: "listen-acknowledged",
    title: "Changes are told to who listens, and marked for it",
    why: "On stdio everything shares one stream. A client tells by the subscriptionId whose notification it is, and by the \
          acknowledgement what it may wait for.",
    severity: Severity::Medium,
    rationale: "changes are lost, or come to who has not asked",
    looks_at: "subscriptions/listen and what follows it; notifications of changes on a modern connection",
    pass: "the first message is the acknowledgement, and every notification of a change has the subscriptionId of an open listen",
    fail: "the acknowledgement does not come first, or a notification has no such id",
    skip: "nothing was listened to",
    sentence: "a change is not told as a listen has it",
    revisions: MODERN,
    remedy: "Acknowledge with the part of the filter that you honour, and put the id of the listen into the _meta of each notification.",
    example: r#"{"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true}}}"#,
    see: &["modern-logging", "method-in-revision"],
    references: &[Mcp("2026-07-28/basic/patterns/subscriptions")],
    category: Category::Modern,
    ..BASE
};

pub(crate) static INPUT_REQUIRED: Check = Check {
    id: "input-required",
    title: "Input is asked for only where and of whom it can be",
    why: "A client can answer only what it has declared, and only for calls that can be made again. Anything else is a call that never \
          ends.",
    severity: Severity::High,
    rationale: "the call can never be completed",
    looks_at: "results of resultType input_required",
    pass: "they answer tools/call, prompts/get or resources/read, hold inputRequests or requestState, and ask only for what the request \
           declared",
    fail: "one of the three is not so",
    skip: "no result of this type was seen",
    sentence: "input is asked for that cannot be given",
    revisions: MODERN,
    remedy: "Look at clientCapabilities of the request; if what is needed is not there, answer with -32021 and requiredCapabilities.",
    example: r#"{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"elicitation":{}}}}"#,
    see: &["modern-server-requests", "undeclared-client-capability"],
    references: &[Mcp("2026-07-28/basic/patterns/mrtr")],
    category: Category::Modern,
    ..BASE
};
