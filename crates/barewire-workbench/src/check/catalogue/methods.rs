//! Checks of methods: known and unknown methods, invalid parameters, capabilities, error codes.

use super::Bound::{Client, Receiver, Sender, Server};
use super::Document::{JsonRpc, Page, Schema};
use super::Reference::{Cwe, Mcp};
use super::rule::{Sentence, must, ours, should, states, written};
use super::{
    ALL, Category, Check, CheckPlace, LEGACY, LEGACY_SINCE_2025_06_18, LIVE_AND_HOST, LIVE_ANYWHERE, Level, MODERN,
    Rule, SINCE_2025_03_26, SINCE_2025_11_25, Severity, UNTIL_2025_03_26, UNTIL_2025_06_18, V2024_11_05, host,
};

pub(super) const CHECKS: &[&Check] = &[
    &PING,
    &OMITTED_PARAMS,
    &EMPTY_RESULTS,
    &UNKNOWN_METHOD,
    &INVALID_PARAMS,
    &RESOURCE_NOT_FOUND,
    &CAPABILITY_TRUTH,
    &UNDECLARED_CLIENT_CAPABILITY,
    &UNDECLARED_SERVER_CAPABILITY,
    &UNASKED_NOTIFICATIONS,
    &RESERVED_ERROR_CODES,
];

const BASE: Check = Check { category: Category::Methods, ..super::BASE };
/// The default fields of a check that sends its own input.
const LIVE: Check = Check { places: LIVE_ANYWHERE, ..BASE };

pub(crate) static PING: Check = Check {
    id: "ping",
    title: "ping is answered with an empty result",
    why: "Hosts ping a server to see whether it is alive, and stop a server that does not respond.",
    severity: Severity::High,
    rationale: "hosts that ping consider the server dead",
    looks_at: "ping on an initialized connection",
    pass: "the response is a result that is an object",
    fail: "the response is an error, or there is no response",
    skip: "the server has no handshake, because it speaks only 2026-07-28, which has no ping",
    sentence: "ping is not answered with a result",
    revisions: LEGACY,
    rules: &[&written(
        Receiver,
        &[must(LEGACY, Page("basic/utilities/ping"), "Behavior Requirements", "MUST respond promptly")],
    )],
    hosts: &[
        host(
            "Microsoft Agent Framework",
            "reconnects in a loop",
            "https://github.com/microsoft/agent-framework/pull/5634",
        ),
        host(
            "clients on the Python SDK",
            "reject a ping whose result is an array",
            "https://github.com/cristianuibar/bricks-mcp/issues/45",
        ),
    ],
    remedy: "Answer ping with {} at any time, even before initialize.",
    example: r#"{"jsonrpc":"2.0","id":"123","result":{}}"#,
    see: &["concurrency", "unknown-method"],
    places: LIVE_AND_HOST,
    ..LIVE
};

pub(crate) static OMITTED_PARAMS: Check = Check {
    id: "omitted-params",
    title: "Messages that need no params are served without them",
    why: "The clients of the official SDKs omit params where they have nothing to say: in notifications/initialized, \
          ping and requests for lists. A server that reads params without looking whether it is there fails.",
    severity: Severity::High,
    rationale: "hosts that omit the member get no list, or no connection",
    looks_at: "notifications/initialized, ping and the requests for the lists that the server declares, all without \
               the member params; what fails is repeated, and compared with the same message with empty params",
    pass: "each request gets a result",
    fail: "a request without params, or each request after notifications/initialized without params, gets no result, \
           although it gets one with empty params",
    skip: "the server has no handshake; in 2026-07-28, every request has params",
    sentence: "a message without params is not served like one with empty params",
    revisions: LEGACY,
    level: Level::Stated,
    rules: &[&written(Server, &[states(LEGACY, JsonRpc, "4 Request object", "This member MAY be omitted")])],
    hosts: &[
        host(
            "the Inspector",
            "cannot complete the handshake",
            "https://github.com/modelcontextprotocol/rust-sdk/issues/703",
        ),
        host("Zed", "got no tools, so that it now sends {}", "https://github.com/zed-industries/zed/pull/20387"),
    ],
    remedy: "Take an empty object if params is missing, before you read anything from it.",
    example: "const cursor = request.params?.cursor",
    see: &["initialize-members", "optional-arguments", "ping"],
    ..LIVE
};

pub(crate) static EMPTY_RESULTS: Check = Check {
    id: "empty-results",
    title: "Results without data are empty",
    why: "The result of ping is an empty object, and so are those of logging/setLevel and of subscriptions to \
          resources. Clients that validate results reject members that they do not expect, and then treat the server as dead.",
    rationale: "the client of the TypeScript SDK rejects such a result; others ignore the members",
    looks_at: "results of ping, logging/setLevel, resources/subscribe and resources/unsubscribe",
    pass: "the result has no members, or only _meta",
    fail: "the result has other members",
    skip: "no such result was seen",
    sentence: "a result that must be empty has members",
    level: Level::Stated,
    rules: &[&written(Receiver, &[states(LEGACY, Schema, "EmptyResult", "indicates success but carries no data")])],
    revisions: LEGACY,
    remedy: "Answer these requests with {}.",
    example: r#"{"jsonrpc":"2.0","id":4,"result":{}}"#,
    see: &["ping", "result-shape"],
    references: &[Mcp("2025-11-25/basic/utilities/ping#behavior-requirements")],
    ..BASE
};

pub(crate) static UNKNOWN_METHOD: Check = Check {
    id: "unknown-method",
    title: "An unknown method is answered with -32601",
    why: "Newer clients probe older servers: the code -32601 tells them that the server lacks a method.",
    severity: Severity::High,
    rationale: "a client that asks whether the server has a method is misled, or waits until its time limit",
    looks_at: "a request with a method that no server has",
    pass: "the response is an error with code -32601",
    fail: "the response is a result or has another code, or there is no response",
    sentence: "an unknown method is not answered with -32601",
    level: Level::Stated,
    rules: &[&written(
        Receiver,
        &[states(ALL, JsonRpc, "5.1 Error object", "The method does not exist / is not available")],
    )],
    hosts: &[host(
        "Hermes Agent",
        "restarts a server that answers its ping with another code",
        "https://github.com/NousResearch/hermes-agent/pull/50035",
    )],
    remedy: "Give the dispatcher a default case that answers with -32601.",
    example: r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found"}}"#,
    see: &["invalid-params", "capability-truth", "envelope-validation"],
    places: LIVE_AND_HOST,
    ..LIVE
};

/// A call of a tool that does not exist.
pub(crate) static UNKNOWN_TOOL: Rule =
    written(Server, &[states(ALL, Page("server/tools"), "Error Handling", "Unknown tool")]);
/// A call without the name of a tool.
pub(crate) static NAMELESS_CALL: Rule = written(
    Server,
    &[
        states(UNTIL_2025_06_18, Page("server/tools"), "Error Handling", "Invalid arguments"),
        states(
            SINCE_2025_11_25,
            Page("server/tools"),
            "Error Handling",
            "Malformed requests (requests that fail to satisfy",
        ),
    ],
);
/// A request for a prompt that does not exist.
pub(crate) static UNKNOWN_PROMPT: Rule =
    written(Server, &[should(ALL, Page("server/prompts"), "Error Handling", "Invalid prompt name: -32602")]);
pub(crate) static LOG_LEVEL: Rule =
    written(Server, &[should(LEGACY, Page("server/utilities/logging"), "Error Handling", "Invalid log level: -32602")]);

pub(crate) static INVALID_PARAMS: Check = Check {
    id: "invalid-params",
    title: "An invalid request is answered with -32602",
    why: "A request for an unknown tool or prompt, or without a name, is a bug of the client program, and needs an \
          error. A tool that ran and failed concerns the model, and needs a result with isError. If a server mixes up \
          the two, the model tries to repair bugs that it cannot repair, or never sees failures that it could.",
    rationale: "the model is misled; nothing is lost",
    looks_at: "tools/call with an unknown tool and without a name, prompts/get with an unknown prompt; \
               logging/setLevel with a level that does not exist",
    pass: "each is answered with an error with code -32602, and logging/setLevel with any error",
    fail: "one of them is answered with a result or another code, or not at all",
    skip: "the server has neither tools nor prompts",
    sentence: "an invalid request is not answered with -32602",
    level: Level::Should,
    rules: &[&UNKNOWN_TOOL, &NAMELESS_CALL, &UNKNOWN_PROMPT, &LOG_LEVEL],
    remedy: "Look the name up first, and answer with -32602 if it is unknown.",
    example: r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Unknown tool: nope"}}"#,
    see: &["tool-argument-errors", "unknown-method", "reserved-error-codes"],
    references: &[Mcp("2025-11-25/server/tools#error-handling")],
    ..LIVE
};

pub(crate) static RESOURCE_NOT_FOUND: Check = Check {
    id: "resource-not-found",
    title: "Reading an unknown resource is an error",
    why: "Empty contents mean that the resource exists and is empty. A client then shows nothing and reports success.",
    rationale: "the user is misled; nothing is lost",
    looks_at: "resources/read with an unknown URI",
    pass: "the response is an error with code -32602; up to 2025-11-25 also with -32002",
    fail: "the response is a result or has another code, or there is no response",
    skip: "the server has no resources",
    sentence: "reading an unknown resource is not answered with the error that the revision requires",
    rules: &[&written(
        Server,
        &[
            should(LEGACY, Page("server/resources"), "Error Handling", "Resource not found: -32002"),
            must(
                MODERN,
                Page("server/resources"),
                "Error Handling",
                "servers MUST return a JSON-RPC error with code -32602",
            ),
        ],
    )],
    remedy: "Answer with -32002 to a legacy client and -32602 to a modern one, and put the uri into data.",
    example: r#"{"code":-32002,"message":"Resource not found","data":{"uri":"file:///nope"}}"#,
    see: &["invalid-params", "reserved-error-codes"],
    ..LIVE
};

/// A feature whose capability is not declared.
static TOOLS_UNDECLARED: Rule = written(
    Server,
    &[must(ALL, Page("server/tools"), "Capabilities", "Servers that support tools MUST declare the tools capability")],
);
static PROMPTS_UNDECLARED: Rule = written(
    Server,
    &[must(
        ALL,
        Page("server/prompts"),
        "Capabilities",
        "Servers that support prompts MUST declare the prompts capability",
    )],
);
static RESOURCES_UNDECLARED: Rule = written(
    Server,
    &[must(
        ALL,
        Page("server/resources"),
        "Capabilities",
        "Servers that support resources MUST declare the resources capability",
    )],
);
static LOGGING_UNDECLARED: Rule = written(
    Server,
    &[must(ALL, Page("server/utilities/logging"), "Capabilities", "MUST declare the logging capability")],
);
static COMPLETIONS_UNDECLARED: Rule = written(
    Server,
    &[
        must(
            SINCE_2025_03_26,
            Page("server/utilities/completion"),
            "Capabilities",
            "MUST declare the completions capability",
        ),
        states(V2024_11_05, Page("basic/lifecycle"), "Capability Negotiation", OPTIONAL_FEATURES),
    ],
);
/// A declared capability whose method is missing. 2026-07-28 says for three capabilities what a server must respond to.
static TOOLS_MISSING: Rule = written(
    Server,
    &[NEGOTIATED_FEATURES, must(MODERN, Page("server/tools"), "Capabilities", "MUST respond to tools/list requests")],
);
static PROMPTS_MISSING: Rule = written(
    Server,
    &[
        NEGOTIATED_FEATURES,
        must(MODERN, Page("server/prompts"), "Capabilities", "MUST respond to prompts/list requests"),
    ],
);
static RESOURCES_MISSING: Rule = written(
    Server,
    &[
        NEGOTIATED_FEATURES,
        must(MODERN, Page("server/resources"), "Capabilities", "MUST respond to resources/list requests"),
    ],
);
/// Any other capability that is declared without its feature, or the other way round.
static FEATURE_AND_CAPABILITY: Rule = written(Server, &[NEGOTIATED_FEATURES, MODERN_FEATURES]);

const OPTIONAL_FEATURES: &str = "which optional protocol features will be available";
const NEGOTIATED_FEATURES: Sentence =
    states(LEGACY, Page("basic/lifecycle"), "Capability Negotiation", OPTIONAL_FEATURES);
const MODERN_FEATURES: Sentence =
    states(MODERN, Page("server/discover"), "DiscoverResult", "Capabilities the server supports");

/// Returns the rule that a feature breaks whose capability is not declared. `capability` is a path such as
/// `tools.listChanged`.
pub(crate) fn undeclared(capability: &str) -> &'static Rule {
    match capability {
        "tools" => &TOOLS_UNDECLARED,
        "prompts" => &PROMPTS_UNDECLARED,
        "resources" => &RESOURCES_UNDECLARED,
        "logging" => &LOGGING_UNDECLARED,
        "completions" => &COMPLETIONS_UNDECLARED,
        _ => &FEATURE_AND_CAPABILITY,
    }
}

/// Returns the rule that a declared capability breaks whose feature is missing.
pub(crate) fn missing(capability: &str) -> &'static Rule {
    match capability {
        "tools" => &TOOLS_MISSING,
        "prompts" => &PROMPTS_MISSING,
        "resources" => &RESOURCES_MISSING,
        _ => &FEATURE_AND_CAPABILITY,
    }
}
/// An empty answer to a method of an undeclared capability. Hosts that ask for every list need such an answer: opencode
/// and Cline give up a server that answers with an error.
pub(crate) static EMPTY_UNDECLARED: Rule = ours(Server, ALL).with_severity(Severity::Low);

pub(crate) static CAPABILITY_TRUTH: Check = Check {
    id: "capability-truth",
    title: "The server declares exactly the capabilities it has",
    why: "A client never uses a feature that is not declared, and gets an error at every start for a feature that is \
          declared but missing. An empty list of an undeclared feature misleads no client, and some hosts that ask for \
          every list need it; it is reported with low severity.",
    severity: Severity::High,
    rationale: "features are invisible, or fail at every start",
    looks_at: "the server's capabilities, its notifications, and its responses to requests for lists, completion and \
               logging",
    pass: "no method of a declared capability is answered with -32601, no method of an undeclared capability is \
           answered with a result, and no notification belongs to an undeclared capability",
    fail: "one of these conditions does not hold",
    skip: "the server declared no capability that can be requested",
    sentence: "the declared capabilities are not the ones the server has",
    rules: &[
        &TOOLS_UNDECLARED,
        &PROMPTS_UNDECLARED,
        &RESOURCES_UNDECLARED,
        &LOGGING_UNDECLARED,
        &COMPLETIONS_UNDECLARED,
        &TOOLS_MISSING,
        &PROMPTS_MISSING,
        &RESOURCES_MISSING,
        &FEATURE_AND_CAPABILITY,
        &EMPTY_UNDECLARED,
    ],
    hosts: &[
        host(
            "Gemini CLI",
            "asks only for prompts that are declared",
            "https://github.com/google-gemini/gemini-cli/pull/5616",
        ),
        host(
            "Cursor",
            "reports an error for a list that is missing",
            "https://github.com/FreePeak/db-mcp-server/issues/35",
        ),
    ],
    remedy: "Derive the capabilities from the registered handlers, in one place.",
    example: r#"{"capabilities":{"tools":{}}}  and prompts/list is answered with -32601"#,
    see: &["unknown-method", "undeclared-client-capability"],
    references: &[Mcp("2025-11-25/basic/lifecycle#capability-negotiation")],
    ..BASE
};

/// The sentence that both sides use only capabilities that were negotiated, with its keyword in each revision.
const NEGOTIATED_UNTIL_2025_03_26: Sentence =
    should(UNTIL_2025_03_26, Page("basic/lifecycle"), "Operation", "Only use capabilities that were successfully");
const NEGOTIATED_SINCE_2025_06_18: Sentence =
    must(LEGACY_SINCE_2025_06_18, Page("basic/lifecycle"), "Operation", "Only use capabilities that were successfully");

pub(crate) static UNDECLARED_CLIENT_CAPABILITY: Check = Check {
    id: "undeclared-client-capability",
    title: "The server uses only capabilities that the client has declared",
    why: "A client that lacks the capability refuses the server's request or never answers it, so the tool call that \
          waits for the response fails or hangs.",
    severity: Severity::High,
    rationale: "the call fails with every client that lacks the capability",
    looks_at: "requests of a server that need a capability of the client",
    pass: "the client has declared each of these capabilities",
    fail: "the client has not declared one of these capabilities",
    skip: "no request needed a capability of the client",
    sentence: "the server uses a capability that the client has not declared",
    rules: &[&written(
        Server,
        &[
            NEGOTIATED_UNTIL_2025_03_26,
            NEGOTIATED_SINCE_2025_06_18,
            must(MODERN, Page("basic"), "_meta", "MUST NOT rely on capabilities the client has not declared"),
        ],
    )],
    hosts: &[host(
        "clients without roots",
        "refuse the request, or let the call wait",
        "https://github.com/modelcontextprotocol/java-sdk/pull/1070",
    )],
    remedy: "Check the client's capabilities before sending the request. If the capability is missing, do without it, \
             or fail with a message that names the capability.",
    example: "if client.capabilities.elicitation is None: raise ToolError(\"this tool has to ask the user\")",
    see: &["undeclared-server-capability", "input-required", "modern-server-requests"],
    references: &[Mcp("2025-11-25/client/elicitation#capabilities")],
    ..BASE
};

pub(crate) static UNDECLARED_SERVER_CAPABILITY: Check = Check {
    id: "undeclared-server-capability",
    title: "The client uses only capabilities that the server has declared",
    why: "A server need not implement a capability that it has not declared. Most servers answer such a request with \
          an error, at every start; some answer with arbitrary data, which the client then shows.",
    severity: Severity::Low,
    rationale: "an unnecessary request fails",
    looks_at: "requests of a client that need a capability of the server, after the handshake",
    pass: "the server has declared each of these capabilities",
    fail: "the server has not declared one of these capabilities",
    skip: "no request needed a capability of the server",
    sentence: "the client uses a capability that the server has not declared",
    revisions: LEGACY,
    rules: &[&written(Client, &[NEGOTIATED_UNTIL_2025_03_26, NEGOTIATED_SINCE_2025_06_18])],
    remedy: "Read the capabilities in the result of initialize, and send only requests whose capability is declared.",
    example: "if (result.capabilities.prompts) prompts = await client.listPrompts()",
    see: &["capability-truth", "undeclared-client-capability"],
    places: &[CheckPlace::Capture, CheckPlace::Tap],
    ..BASE
};

/// The least severe log messages that the client wants.
pub(crate) static LEVEL_SET: Rule = written(
    Server,
    &[states(
        LEGACY,
        Page("server/utilities/logging"),
        "",
        "Clients can control logging verbosity by setting minimum log levels",
    )],
);
/// The resources whose changes the client wants to know.
pub(crate) static SUBSCRIBED: Rule = written(
    Server,
    &[states(
        LEGACY,
        Schema,
        "ResourceUpdatedNotification",
        "should only be sent if the client previously sent a resources/subscribe",
    )],
);

pub(crate) static UNASKED_NOTIFICATIONS: Check = Check {
    id: "unasked-notifications",
    title: "Log messages and updates of resources are sent as the client has asked",
    why: "A client that sets a log level, or ends a subscription, wants fewer messages. A server that sends the others \
          too fills the client's log, or makes the client read resources again that nobody looks at.",
    severity: Severity::Low,
    rationale: "the messages cost time, but a client can ignore them",
    looks_at: "notifications/message after the client has set a level, and notifications/resources/updated",
    pass: "no log message is less severe than the level, and an update is sent only while there is a subscription. \
           Until the server has answered a later request, what it sent before a change may arrive",
    fail: "a log message is less severe than the level that the client has set, or an update is sent to a client \
           without any subscription",
    skip: "no such notification was seen",
    sentence: "a notification is sent that the client has not asked for",
    level: Level::Stated,
    rules: &[&LEVEL_SET, &SUBSCRIBED],
    revisions: LEGACY,
    remedy: "Keep the level and the subscriptions of each session, and look at them before you send a notification.",
    example: "if severity(level) >= severity(session.level) { send(message) }",
    see: &["capability-truth", "listen-acknowledged", "modern-logging"],
    ..BASE
};

static TOOL_FAILURE: Rule = written(
    Server,
    &[should(
        ALL,
        Schema,
        "CallToolResult",
        "Any errors that originate from the tool SHOULD be reported inside the result",
    )],
);
/// A code from -32768 to -32000 without a definition.
pub(crate) static RESERVED_CODE: Rule = written(
    Sender,
    &[
        must(MODERN, Page("basic"), "Error Codes", "MUST NOT emit any code from this sub-range"),
        states(ALL, JsonRpc, "5.1 Error object", "reserved for pre-defined errors"),
    ],
);

pub(crate) static RESERVED_ERROR_CODES: Check = Check {
    id: "reserved-error-codes",
    title: "Reserved error codes are used with their defined meaning",
    why: "A client acts on the codes that it knows: it gives up on -32601 and renegotiates on -32022. A tool that uses \
          these codes for its own failures misleads the client, and the model usually never sees a protocol error.",
    rationale: "clients react wrongly to failures; as long as nothing fails, there is no effect",
    looks_at: "the code of every error; for errors of tool calls also whether the code fits the call",
    pass: "codes from -32768 to -32000 are defined by JSON-RPC or by the revision, and fit the request",
    fail: "a tool call fails with -32700 or -32600; a call of a listed tool fails with -32601; a call with valid \
           arguments fails with -32603, although the client refused no request of the server during the call; or a \
           reserved code is used that the revision does not define",
    skip: "no error was seen",
    sentence: "an error has the code of another kind of error",
    rules: &[&TOOL_FAILURE, &RESERVED_CODE],
    remedy: "Report the failure of a tool, exceptions included, as a result with isError; -32603 is for failures of \
             the server outside of the tool. Give application errors codes outside -32768 to -32000.",
    example: r#"{"result":{"content":[{"type":"text","text":"no such city"}],"isError":true}}"#,
    see: &["tool-argument-errors", "structured-errors", "resource-not-found"],
    references: &[Cwe(394, "Unexpected Status Code or Return Value")],
    ..BASE
};
