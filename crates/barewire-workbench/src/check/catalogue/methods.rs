//! What is asked: methods that exist, that do not, and with wrong parameters.

use super::Reference::{Cwe, JsonRpc, Mcp};
use super::{ALL, BASE, Category, Check, CheckPlace, LEGACY, LIVE_ANYWHERE, Level, Severity};

pub(super) const CHECKS: &[&Check] = &[
    &PING,
    &UNKNOWN_METHOD,
    &INVALID_PARAMS,
    &RESOURCE_NOT_FOUND,
    &CAPABILITY_TRUTH,
    &UNDECLARED_CLIENT_CAPABILITY,
    &UNDECLARED_SERVER_CAPABILITY,
    &RESERVED_ERROR_CODES,
];

pub(crate) static PING: Check = Check {
    id: "ping",
    title: "ping is answered with an empty result",
    why: "Hosts ping to find out whether a server is still there, and end one that does not answer.",
    severity: Severity::High,
    rationale: "hosts that ping take the server for dead",
    looks_at: "ping on a connection that is ready",
    pass: "a result that is an object",
    fail: "an error, or no answer",
    skip: "the server has no handshake: 2026-07-28 has no ping",
    sentence: "ping is not answered with a result",
    revisions: LEGACY,
    remedy: "Answer ping with {} at any time, also before initialize.",
    example: r#"{"jsonrpc":"2.0","id":"123","result":{}}"#,
    see: &["concurrency", "unknown-method"],
    references: &[Mcp("2025-11-25/basic/utilities/ping")],
    category: Category::Methods,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static UNKNOWN_METHOD: Check = Check {
    id: "unknown-method",
    title: "A method that does not exist is answered with -32601",
    why: "This answer is how clients find out what a server has: newer clients probe older servers with it.",
    severity: Severity::High,
    rationale: "probing for a method or an era goes wrong, or waits for a time limit",
    looks_at: "a request with a method that nobody has",
    pass: "an error with the code -32601",
    fail: "a result, another code, or no answer",
    skip: "no MCP server answers",
    sentence: "a method that does not exist is not answered with -32601",
    remedy: "Let the dispatcher end in a case that answers -32601.",
    example: r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found"}}"#,
    see: &["invalid-params", "capability-truth", "envelope-validation"],
    references: &[JsonRpc("section 5.1"), Mcp("2026-07-28/basic#error-codes")],
    category: Category::Methods,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static INVALID_PARAMS: Check = Check {
    id: "invalid-params",
    title: "What the request itself gets wrong is an error with -32602",
    why: "There are two paths. A request for a tool or a prompt that does not exist, or without a name, is a mistake of the caller's \
          program: an error. A tool that ran and failed is something the model can act on: a result with isError. Mixed up, the model \
          tries to repair what it cannot, or never hears of what it could.",
    severity: Severity::Medium,
    rationale: "the model is misled; nothing is lost",
    looks_at: "tools/call of a tool that does not exist and without a name, prompts/get of a prompt that does not exist",
    pass: "each is answered with an error, with the code -32602",
    fail: "one is answered with a result, with another code, or not at all",
    skip: "the server has neither tools nor prompts",
    sentence: "a wrong request is not answered with -32602",
    level: Level::Should,
    remedy: "Look the name up before anything else, and answer -32602 if it is not there.",
    example: r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Unknown tool: nope"}}"#,
    see: &["tool-argument-errors", "unknown-method", "reserved-error-codes"],
    references: &[
        JsonRpc("section 5.1"),
        Mcp("2025-11-25/server/tools#error-handling"),
        Mcp("2025-11-25/server/prompts#error-handling"),
    ],
    category: Category::Methods,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static RESOURCE_NOT_FOUND: Check = Check {
    id: "resource-not-found",
    title: "A resource that is not there is an error",
    why: "Empty contents mean that the resource is empty. A client that cannot tell the two apart shows nothing and calls it done.",
    severity: Severity::Medium,
    rationale: "somebody is misled; nothing is lost",
    looks_at: "resources/read of a URI that does not exist",
    pass: "an error: -32602, or -32002 up to 2025-11-25",
    fail: "a result, another code, or no answer",
    skip: "the server has no resources",
    sentence: "a resource that is not there is not told as the revision has it",
    level: Level::Should,
    remedy: "Answer with -32002 to a legacy client, with -32602 to a modern one, and with the uri in data.",
    example: r#"{"code":-32002,"message":"Resource not found","data":{"uri":"file:///nope"}}"#,
    see: &["invalid-params", "reserved-error-codes"],
    references: &[Mcp("2025-11-25/server/resources#error-handling"), Mcp("2026-07-28/server/resources#error-handling")],
    category: Category::Methods,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static CAPABILITY_TRUTH: Check = Check {
    id: "capability-truth",
    title: "What is declared works, and what works is declared",
    why: "Hosts ask only for what is declared. What is not declared is never seen, and what is declared and missing is an error at \
          every start.",
    severity: Severity::High,
    rationale: "features are invisible, or fail at every start",
    looks_at: "the capabilities of the server, its answers to the lists, to completion/complete and to logging/setLevel, and the \
               notifications that it sends",
    pass: "what is declared is not answered with -32601, what is not declared is, and no notification comes that needs more",
    fail: "it is otherwise for one of them",
    skip: "the server declared nothing that could be asked",
    sentence: "a capability and what the server does are not the same",
    revisions: ALL,
    remedy: "Make capabilities from the handlers that are there, in one place.",
    example: r#"{"capabilities":{"tools":{}}}  and prompts/list is answered with -32601"#,
    see: &["unknown-method", "undeclared-client-capability"],
    references: &[
        Mcp("2025-11-25/basic/lifecycle#capability-negotiation"),
        Mcp("2025-11-25/server/tools#capabilities"),
    ],
    category: Category::Methods,
    ..BASE
};

pub(crate) static UNDECLARED_CLIENT_CAPABILITY: Check = Check {
    id: "undeclared-client-capability",
    title: "A client is asked only for what it has declared",
    why: "A client that has not declared sampling, elicitation or roots has nobody to answer. The request fails or hangs, and the \
          call that waits for it with it.",
    severity: Severity::High,
    rationale: "the call fails with every client that lacks it, which are most",
    looks_at: "requests of a server that need a capability of the client",
    pass: "each was declared",
    fail: "one was not; up to 2025-03-26 that is a SHOULD",
    skip: "nothing that needs a capability was asked of the client",
    sentence: "something is asked of the client that it has not declared",
    remedy: "Look at the capabilities of the client before asking, and do without or fail with a sentence that says what is missing.",
    example: "if client.capabilities.elicitation is None: raise ToolError(\"this tool has to ask the user\")",
    see: &["undeclared-server-capability", "input-required", "modern-server-requests"],
    references: &[Mcp("2025-11-25/basic/lifecycle#operation"), Mcp("2025-11-25/client/elicitation#capabilities")],
    category: Category::Methods,
    ..BASE
};

pub(crate) static UNDECLARED_SERVER_CAPABILITY: Check = Check {
    id: "undeclared-server-capability",
    title: "A server is asked only for what it has declared",
    why: "What a server has not declared it need not have. Most answer with an error, at every start; some with anything, and the client \
          shows what is not there.",
    severity: Severity::Low,
    rationale: "a request fails that need not have been sent",
    looks_at: "requests of a client that need a capability of the server, after the handshake",
    pass: "each was declared",
    fail: "one was not; up to 2025-03-26 that is a SHOULD",
    skip: "nothing that needs a capability was asked of the server",
    sentence: "something is asked of the server that it has not declared",
    revisions: LEGACY,
    remedy: "Look at the capabilities in the answer to initialize, and ask only for what is among them.",
    example: "if (result.capabilities.prompts) prompts = await client.listPrompts()",
    see: &["capability-truth", "undeclared-client-capability"],
    references: &[Mcp("2025-11-25/basic/lifecycle#operation")],
    category: Category::Methods,
    places: &[CheckPlace::Capture, CheckPlace::Tap],
    ..BASE
};

pub(crate) static RESERVED_ERROR_CODES: Check = Check {
    id: "reserved-error-codes",
    title: "Codes of the protocol mean what the protocol says",
    why: "A client acts on the codes that it knows: it gives up on -32601, negotiates on -32022. A tool or an application that uses \
          them for its own failures sends it the wrong way, and the model, which could act on the failure of a tool, mostly never \
          hears of an error of the protocol.",
    severity: Severity::Medium,
    rationale: "clients do the wrong thing after a failure; without one nothing happens",
    looks_at: "the code of every error: those of tool calls, and all that lie in the range that JSON-RPC and MCP keep for themselves",
    pass: "codes between -32768 and -32000 are those that JSON-RPC or the revision defines, and fit what was asked",
    fail: "a call of a tool fails with -32700 or -32600; one of a tool that is listed with -32601; one whose arguments are as its schema \
           has them, and for which the client has refused nothing, with -32603; or a code of the range is not defined in this revision, which for -32020 to -32099 and for codes that \
           are gone is a MUST NOT of 2026-07-28",
    skip: "no error was seen",
    sentence: "an error has a code that means something else",
    remedy: "Tell the failure of a tool as a result with isError, also where it throws; -32603 is for what fails around it. Give errors of the application codes outside -32768 to -32000.",
    example: r#"{"result":{"content":[{"type":"text","text":"no such city"}],"isError":true}}"#,
    see: &["tool-argument-errors", "structured-errors", "resource-not-found"],
    references: &[
        JsonRpc("section 5.1"),
        Mcp("2026-07-28/basic#error-codes"),
        Mcp("2025-11-25/server/tools#error-handling"),
        Mcp("2025-11-25/schema#calltoolresult"),
        Cwe(394, "Unexpected Status Code or Return Value"),
    ],
    category: Category::Methods,
    level: Level::Should,
    ..BASE
};
