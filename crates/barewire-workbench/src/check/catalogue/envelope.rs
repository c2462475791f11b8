//! Checks of JSON-RPC: the shape of messages, and the matching of responses to requests.

use barewire_proto::mcp::Revision;

use super::Bound::{Receiver, Sender, Server};
use super::Document::{JsonRpc, Page};
use super::Reference::{Cwe, Mcp, Other};
use super::rule::{must, ours, should, states, written};
use super::{
    ALL, BASE, Check, EARLY_2025, HOSTILE, LEGACY_SINCE_2025_06_18, LIVE, Level, MODERN, Rule, SINCE_2025_03_26,
    SINCE_2025_06_18, SINCE_2025_11_25, Severity, V2024_11_05, host, only,
};

/// The checks that other checks depend on: `jsonrpc-messages` counts the violations of several other checks, and
/// hostile checks depend on `parse-error-recovery`.
pub(super) const FIRST: &[&Check] = &[&JSONRPC_MESSAGES, &PARSE_ERROR_RECOVERY];

pub(super) const CHECKS: &[&Check] = &[
    &STRUCTURED_ERRORS,
    &ID_FIDELITY,
    &ANSWERED_ONCE,
    &ANSWER_MATCHING,
    &UNANSWERED_REQUEST,
    &NOTIFICATION_SILENCE,
    &PARSE_ERROR_ANSWER,
    &ENVELOPE_VALIDATION,
    &BATCH_POLICY,
    &EMPTY_ARRAY,
];

pub(crate) static JSONRPC_MESSAGES: Check = Check {
    id: "jsonrpc-messages",
    title: "Every message conforms to JSON-RPC 2.0",
    why: "The peer parses every line. If a line is not readable, some hosts close the connection, others silently drop \
          the line.",
    severity: Severity::Critical,
    rationale: "a host that validates drops the message or the connection",
    looks_at: "every message: \"jsonrpc\":\"2.0\" in each, ids echoed exactly, error objects with an integer code and \
               a message, no response to notifications. The report counts the messages of the server",
    pass: "every message conforms",
    fail: "a message does not conform. If another check covers the violation (stdout-purity, one-message-a-line, \
           id-fidelity, answered-once, notification-silence), only that check reports it",
    skip: "no MCP server responds, or all violations are reported under another check",
    sentence: "a message does not conform to JSON-RPC 2.0",
    rules: &[&written(
        Sender,
        &[
            must(V2024_11_05, Page("basic/messages"), "", "All messages in MCP MUST follow"),
            must(SINCE_2025_03_26, Page("basic"), "Messages", "MUST follow the JSON-RPC 2.0 specification"),
        ],
    )],
    hosts: &[host(
        "Cursor and the Inspector",
        "report a ZodError and do not connect",
        "https://github.com/yjacquin/fast-mcp/issues/66",
    )],
    remedy: "Write all messages in one function. barewire read shows the invalid message and the byte at fault.",
    example: r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Unknown tool: nope"}}"#,
    see: &["stdout-purity", "one-message-a-line", "id-fidelity", "notification-silence", "structured-errors"],
    references: &[Cwe(116, "Improper Encoding or Escaping of Output")],
    needs: &["early-exit", "mute-server"],
    ..BASE
};

pub(crate) static STRUCTURED_ERRORS: Check = Check {
    id: "structured-errors",
    title: "An error's message is one sentence",
    why: "Users and models see the message of an error. An empty message is useless; a stack trace exposes paths and \
          versions.",
    rationale: "the error still arrives, but its message is useless or reveals too much",
    looks_at: "the error object of every response, and results that contain only an error",
    pass: "the message is a sentence, and failures are error objects",
    fail: "an error's message is empty, has line breaks or contains a stack trace; or a result contains only an error",
    skip: "no error was seen",
    sentence: "an error is not reported as an error object with a one-sentence message",
    level: Level::Should,
    rules: &[&written(
        Sender,
        &[should(ALL, JsonRpc, "5.1 Error object", "SHOULD be limited to a concise single sentence")],
    )],
    remedy: "Write one concise sentence into message. Put details into data, and stack traces on stderr.",
    example: r#"{"code":-32602,"message":"unknown prompt: nope","data":{"known":["greet"]}}"#,
    see: &["jsonrpc-messages", "reserved-error-codes", "payload-exposure"],
    references: &[Cwe(209, "Generation of Error Message Containing Sensitive Information")],
    ..BASE
};

static SAME_ID: Rule = written(
    Receiver,
    &[
        must(V2024_11_05, Page("basic/messages"), "Responses", "MUST include the same ID as the request"),
        must(EARLY_2025, Page("basic"), "Responses", "MUST include the same ID as the request"),
        must(SINCE_2025_11_25, Page("basic"), "Result Responses", "MUST include the same ID as the request"),
        must(ALL, JsonRpc, "5 Response object", "MUST be the same as the value of the id member"),
    ],
);

pub(crate) static ID_FIDELITY: Check = Check {
    id: "id-fidelity",
    title: "A response has exactly the id of its request",
    why: "Only the id ties a response to its request. A client that gets back an altered id waits forever.",
    severity: Severity::High,
    rationale: "the response is lost, and the client waits until its time limit",
    looks_at: "responses to requests with ids that are easily altered: strings of digits, escapes, integers beyond \
               2^53, zero, negative numbers, empty strings; and every response that matches no request",
    pass: "every response has the id of a pending request. A request whose id is beyond 2^53 may be refused or \
           ignored, but the id must not be altered",
    fail: "a response id matches no request: another value, another type, or the same number written differently",
    skip: "no response was seen",
    sentence: "a response does not have the id of its request",
    rules: &[&SAME_ID],
    hosts: &[
        host(
            "OpenCode",
            "waits until its time limit, and loads no tools",
            "https://github.com/radareorg/radare2-mcp/issues/68",
        ),
        host(
            "Copilot Studio",
            "refuses an id of another type",
            "https://github.com/modelcontextprotocol/python-sdk/issues/961",
        ),
    ],
    remedy: "Keep the id as the JSON value that was received, and write that value back. Do not convert the id into a \
             float or a string: many clients compare the exact text.",
    example: "{\"id\":9007199254740993} is answered with {\"id\":9007199254740993}, not with …992",
    see: &["jsonrpc-messages", "answered-once"],
    ..BASE
};

pub(crate) static ANSWERED_ONCE: Check = Check {
    id: "answered-once",
    title: "A request gets one response",
    why: "After the first response the id may be reused. A second response then looks like the response to the new \
          request.",
    rationale: "clients on the TypeScript SDK report an unknown id and go on; a client that reuses ids can be misled",
    looks_at: "responses with the id of a request that was already answered",
    pass: "no request gets a second response",
    fail: "a request is answered again",
    skip: "no response was seen",
    sentence: "a request gets more than one response",
    level: Level::Stated,
    rules: &[&written(
        Receiver,
        &[states(ALL, JsonRpc, "5 Response object", "The Response is expressed as a single JSON Object")],
    )],
    remedy: "Respond only where the request is dispatched: a handler returns its result and does not send it.",
    example: "return result;  // and no connection.send(result) before",
    see: &["id-fidelity", "jsonrpc-messages"],
    ..BASE
};

pub(crate) static ANSWER_MATCHING: Check = Check {
    id: "answer-matching",
    title: "A response answers the request whose id it has",
    why: "Hosts have several calls in flight. If two responses are swapped, each caller gets the data of the other, \
          and neither can notice.",
    severity: Severity::High,
    rationale: "a caller gets the data of another call, without any sign of an error",
    looks_at: "different requests in one write: a ping, lists, unknown tools, and calls of tools that may be called \
               repeatedly, with different arguments. Each was sent alone before",
    pass: "no request gets the response that another of them got alone",
    fail: "twice in a row, a request gets the response that another of them got alone",
    sentence: "a response is the response to another request",
    rules: &[&SAME_ID],
    hosts: &[host(
        "clients on the TypeScript SDK",
        "give each caller the response with the id of its request, whatever it contains",
        "https://github.com/modelcontextprotocol/typescript-sdk/blob/main/packages/core/src/shared/protocol.ts",
    )],
    remedy: "Pass the id to the handler together with the params, and not through a variable that requests share.",
    example: "const { id, method, params } = message; handle(method, params).then(result => send({ id, result }))",
    see: &["id-fidelity", "answered-once", "concurrency"],
    places: LIVE,
    ..BASE
};

pub(crate) static UNANSWERED_REQUEST: Check = Check {
    id: "unanswered-request",
    title: "Every request gets a response",
    why: "The sender waits until its time limit, and then does not know whether the request was carried out.",
    severity: Severity::High,
    rationale: "the sender waits until its time limit, or forever",
    looks_at: "requests that have no response at the end of the connection or, in a live run, at the end of their time \
               limit. Cancelled requests and subscriptions/listen need no response. In a live run, tools, resources \
               and prompts have ten seconds",
    pass: "every request has a response",
    fail: "a request has no response, although its connection stayed open. In a live run, a call of a tool counts only \
           if there is no progress, other requests are answered, and the tool is not only slow: it is silent without \
           its required arguments too, no other tool answers either, it answered quickly with another text, or \
           another call was cancelled",
    skip: "no request was seen, or the only unanswered one may be slow",
    sentence: "a request is never answered",
    rules: &[&written(Receiver, &[must(ALL, JsonRpc, "5 Response object", "the Server MUST reply with a Response")])],
    hosts: &[host(
        "clients on the TypeScript SDK",
        "give up after 60 seconds with -32001",
        "https://github.com/modelcontextprotocol/typescript-sdk/issues/245",
    )],
    remedy: "Answer with an error when a handler fails or a method is unknown. Let no exception escape the dispatcher.",
    example: "try { result = await handle(request) } catch (e) { return error(request.id, -32603, \"Internal error\") }",
    see: &["mute-server", "answered-once", "cancellation"],
    // If a response cannot be read or has the wrong id, its request looks unanswered; these checks report the cause.
    needs: &["early-exit", "mute-server", "jsonrpc-messages", "stdout-purity", "one-message-a-line", "id-fidelity"],
    ..BASE
};

pub(crate) static NOTIFICATION_SILENCE: Check = Check {
    id: "notification-silence",
    title: "Notifications are not answered",
    why: "A notification has no id, so a response to it matches no request. Some clients then close the connection.",
    severity: Severity::High,
    rationale: "clients that validate messages reject a response without a request",
    looks_at: "messages that follow a notification, whether its method is known or unknown",
    pass: "no response follows",
    fail: "a response with id null or without an id follows, although every message that was sent was readable",
    skip: "no notification was seen",
    sentence: "a notification is answered",
    rules: &[&written(
        Receiver,
        &[
            must(SINCE_2025_03_26, Page("basic"), "Notifications", "The receiver MUST NOT send a response"),
            must(ALL, JsonRpc, "4.1 Notification", "The Server MUST NOT reply to a Notification"),
        ],
    )],
    hosts: &[host("Claude Code", "drops the connection", "https://github.com/pzalutski-pixel/sharplens-mcp/issues/6")],
    remedy: "Check first whether the message has an id. Never answer a message without an id, not even with an error.",
    example: r#"{"jsonrpc":"2.0","method":"notifications/nope"}  is followed by nothing"#,
    see: &["jsonrpc-messages", "cancellation"],
    ..BASE
};

pub(crate) static PARSE_ERROR_RECOVERY: Check = Check {
    id: "parse-error-recovery",
    title: "A line that is not JSON does not end the connection",
    why: "One bad line, from a proxy or a client with a bug, should not end the whole session.",
    rationale: "every request in flight is lost with the connection, but no host is known to send such a line",
    looks_at: "a request after a line of broken JSON",
    pass: "the request is answered",
    fail: "the process exits, or stops answering",
    sentence: "after a line that is not JSON the server stops answering",
    level: Level::Ours,
    remedy: "Catch the parser's exceptions, and continue after the next newline.",
    example: "for line in sys.stdin: try: message = json.loads(line) except ValueError: send(parse_error()); continue",
    see: &["parse-error-answer", "invalid-utf8", "stays-alive"],
    references: &[Cwe(248, "Uncaught Exception"), Other("RFC 8259", "https://www.rfc-editor.org/rfc/rfc8259")],
    ..HOSTILE
};

pub(crate) static PARSE_ERROR_ANSWER: Check = Check {
    id: "parse-error-answer",
    title: "A line that is not JSON is answered with -32700",
    why: "Without a response, the sender of a broken line waits for its whole time limit. The rule is of JSON-RPC, \
          which requires an id of null. No schema of MCP allows null: up to 2025-06-18 an error must have the id of a \
          request, and from 2025-11-25 on an error without a readable id has no id.",
    severity: Severity::Low,
    rationale: "only senders with a bug are affected, and some hosts do not accept the error that JSON-RPC asks for",
    looks_at: "the response to a line of broken JSON",
    pass: "the response is an error with code -32700, and its id is null or missing",
    fail: "the server sends another response, or no response",
    sentence: "a line that is not JSON is not answered with -32700",
    rules: &[&written(
        Receiver,
        &[must(ALL, JsonRpc, "5 Response object", "error in detecting the id in the Request object")],
    )],
    remedy: "When the parser fails, send an error with code -32700: from 2025-11-25 on without an id, before with id null.",
    example: r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    see: &["parse-error-recovery", "envelope-validation"],
    references: &[Mcp("2025-11-25/basic#error-responses")],
    places: LIVE,
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery"],
    ..HOSTILE
};

pub(crate) static ENVELOPE_VALIDATION: Check = Check {
    id: "envelope-validation",
    title: "JSON that is not a message is answered with -32600",
    why: "A request without \"jsonrpc\", or with a number as its method, is a bug of the sender. If the server serves \
          the request, the bug stays hidden; if the server drops the request silently, the server looks stuck.",
    severity: Severity::Low,
    rationale: "only senders with a bug are affected, but they are misled",
    looks_at: "requests without jsonrpc, with jsonrpc \"1.0\", with a number as method, with a string as params, and \
               an object with neither method nor result",
    pass: "each is answered with error -32600 (for params also -32602), with its id or null",
    fail: "one of them is served, answered with another code, or not answered",
    sentence: "a malformed message is not answered with -32600",
    level: Level::Stated,
    rules: &[&written(
        Receiver,
        &[states(ALL, JsonRpc, "5.1 Error object", "The JSON sent is not a valid Request object")],
    )],
    remedy: "Validate the envelope first: jsonrpc is \"2.0\", method is a string, params is an object or absent.",
    example: r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"Invalid Request"}}"#,
    see: &["parse-error-answer", "unknown-method"],
    places: LIVE,
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery"],
    ..HOSTILE
};

static BATCH_RECEIVED: Rule = written(
    Receiver,
    &[must(only(Revision::V2025_03_26), Page("basic"), "Batching", "MUST support receiving JSON-RPC batches")],
);
/// A server that serves a batch in a revision without batches. 2025-06-18 removed batches, and says no more.
static BATCH_SERVED: Rule = ours(Server, SINCE_2025_06_18);
/// A batch that is sent in a revision without batches.
pub(crate) static BATCH_SENT: Rule = written(
    Sender,
    &[
        states(LEGACY_SINCE_2025_06_18, Page("basic/transports"), "stdio", "Messages are individual JSON-RPC requests"),
        states(MODERN, Page("basic/transports/stdio"), "", "Each message is a single JSON-RPC request"),
    ],
);

pub(crate) static BATCH_POLICY: Check = Check {
    id: "batch-policy",
    title: "Batches are used only in the revision that has them",
    why: "2025-03-26 requires every receiver to accept batches; 2025-06-18 removed them, and says nothing about a \
          server that still accepts them. If the sides disagree, requests are lost.",
    severity: Severity::Low,
    rationale: "no host is known to send batches",
    looks_at: "an array of two pings in 2025-03-26 and in the server's latest revision; arrays in a capture",
    pass: "in 2025-03-26 both pings are answered; later revisions serve neither ping, and the connection keeps working",
    fail: "a ping is not answered in 2025-03-26, or is served in a later revision; the server stops answering; or, in \
           a capture, an array is sent in 2025-06-18 or later",
    skip: "the server speaks no revision with a rule for batches",
    sentence: "a batch is not treated as the revision requires",
    revisions: SINCE_2025_03_26,
    rules: &[&BATCH_RECEIVED, &BATCH_SERVED, &BATCH_SENT],
    remedy: "Check the agreed revision when a line begins with [. In 2025-03-26 serve each element and answer with an \
             array; from 2025-06-18 on refuse the array with -32600.",
    example: r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not allowed in 2025-06-18"}}"#,
    see: &["envelope-validation", "jsonrpc-messages"],
    references: &[Mcp("2025-06-18/changelog")],
    ..BASE
};

pub(crate) static EMPTY_ARRAY: Check = Check {
    id: "empty-array",
    title: "An empty array is refused, and nothing breaks",
    why: "An empty array is valid JSON, but neither a message nor a batch. A server that treats each line as an object \
          or as a batch with at least one element fails in a way that no client expects.",
    severity: Severity::Low,
    rationale: "only a client with a bug sends it, but then the server may exit",
    looks_at: "the line [], and a request after it",
    pass: "the array is answered with error -32600, or in revisions without batches not at all, and the request after \
           it is answered",
    fail: "the array is answered with another error or an array, the server stops answering, or in 2025-03-26 there is \
           no response",
    sentence: "an empty array is not refused",
    level: Level::Ours,
    remedy: "Answer an array without elements with one error, -32600 and id null.",
    example: r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"an array without messages"}}"#,
    see: &["batch-policy", "envelope-validation"],
    places: LIVE,
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery"],
    ..HOSTILE
};
