//! JSON-RPC: the shape of messages, and which answer belongs to what.

use super::Reference::{Cwe, JsonRpc, Mcp, Other};
use super::{BASE, Check, LIVE, LIVE_ANYWHERE, Level, Severity};

/// The sum of all that is wrong with messages; and without what goes on behind a bad one, much goes wrong.
pub(super) const FIRST: &[&Check] = &[&JSONRPC_MESSAGES, &PARSE_ERROR_RECOVERY];

pub(super) const CHECKS: &[&Check] = &[
    &STRUCTURED_ERRORS,
    &ID_FIDELITY,
    &ANSWERED_ONCE,
    &UNANSWERED_REQUEST,
    &NOTIFICATION_SILENCE,
    &PARSE_ERROR_ANSWER,
    &ENVELOPE_VALIDATION,
    &BATCH_POLICY,
];

pub(crate) static JSONRPC_MESSAGES: Check = Check {
    id: "jsonrpc-messages",
    title: "Everything that is sent is a message of JSON-RPC 2.0",
    why: "The other side parses every line. One that it cannot read ends the connection with some hosts, and is dropped without \
          a word by others.",
    severity: Severity::Critical,
    rationale: "the connection breaks, or answers are lost, with any host",
    looks_at: "all outgoing messages, counted in all and per method: \"jsonrpc\":\"2.0\" on every one, ids echoed exactly, error \
               objects with an integer code and a message, nothing sent for notifications, nothing that is no message",
    pass: "100 % conform",
    fail: "one does not. What has a check of its own (stdout-purity, one-message-a-line, id-fidelity, notification-silence) is \
           counted here and told there",
    skip: "no MCP server answers; or all that does not conform is told under another check",
    sentence: "a message does not conform to JSON-RPC 2.0",
    remedy: "Let one function write all messages, and let it take a request's id or nothing. barewire read takes the \
             message apart and shows the byte.",
    example: r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Unknown tool: nope"}}"#,
    see: &["stdout-purity", "one-message-a-line", "id-fidelity", "notification-silence", "structured-errors"],
    references: &[
        Cwe(116, "Improper Encoding or Escaping of Output"),
        JsonRpc("sections 4 and 5"),
        Mcp("2025-11-25/basic#messages"),
        Mcp("2026-07-28/basic#messages"),
    ],
    needs: &["early-exit", "mute-server"],
    ..BASE
};

pub(crate) static STRUCTURED_ERRORS: Check = Check {
    id: "structured-errors",
    title: "Errors say what went wrong, in a sentence",
    why: "The message of an error is what a person or a model gets to see. An empty one helps nobody; a stack trace shows paths \
          and versions to whoever asks.",
    severity: Severity::Medium,
    rationale: "the error is still told as one; it is only of no use, or says too much",
    looks_at: "the error object of every answer, and results that hold an error in place of one",
    pass: "the message is a sentence; failures are error objects",
    fail: "the message is empty, has line breaks or holds a stack trace; or a result consists of nothing but an error",
    skip: "no error was seen",
    sentence: "an error does not say what went wrong as an error object should",
    level: Level::Should,
    remedy: "Write a concise single sentence into message. Put details into data, and stack traces to stderr.",
    example: r#"{"code":-32602,"message":"unknown prompt: nope","data":{"known":["greet"]}}"#,
    see: &["jsonrpc-messages", "reserved-error-codes", "payload-exposure"],
    references: &[JsonRpc("section 5.1"), Cwe(209, "Generation of Error Message Containing Sensitive Information")],
    ..BASE
};

pub(crate) static ID_FIDELITY: Check = Check {
    id: "id-fidelity",
    title: "An answer has the id of its request, exactly",
    why: "The id is all that ties an answer to its request. A client whose id comes back as another type or another number waits \
          for ever.",
    severity: Severity::High,
    rationale: "the request is lost to its sender, and its time limit is all that saves it",
    looks_at: "answers to requests with ids that are easily changed: strings of digits, escapes, integers beyond 2^53, zero, \
               negative numbers, empty strings; and every answer to nobody",
    pass: "every answer has the id of a request that waits. A number beyond 2^53 may be refused or passed over, but not changed",
    fail: "an answer has an id that nobody asked under: another one, the same as another type, or the same number written otherwise",
    skip: "no answer was seen",
    sentence: "an answer has another id than its request",
    remedy: "Keep the id as the JSON value that came, and write that back. Do not parse numbers into floats, nor numbers into \
             strings: many clients look for the very text that they sent.",
    example: "{\"id\":9007199254740993} is answered with {\"id\":9007199254740993}, not with …992",
    see: &["jsonrpc-messages", "answered-once"],
    references: &[JsonRpc("section 5"), Mcp("2025-11-25/basic#responses"), Mcp("2026-07-28/basic#responses")],
    ..BASE
};

pub(crate) static ANSWERED_ONCE: Check = Check {
    id: "answered-once",
    title: "A request is answered once",
    why: "After the first answer the id is free for another request, which then gets the second answer of the first.",
    severity: Severity::High,
    rationale: "the wrong request may get the wrong answer",
    looks_at: "answers under an id that has been answered before",
    pass: "no request is answered twice",
    fail: "a request is answered again",
    skip: "no answer was seen",
    sentence: "a request is answered twice",
    remedy: "Answer where the request is dispatched and nowhere else: a handler returns its result and does not send it.",
    example: "return result;  // and no connection.send(result) before",
    see: &["id-fidelity", "jsonrpc-messages"],
    references: &[JsonRpc("section 5"), Mcp("2025-11-25/basic#responses")],
    ..BASE
};

pub(crate) static UNANSWERED_REQUEST: Check = Check {
    id: "unanswered-request",
    title: "Every request is answered",
    why: "Whoever asked waits until its time limit, and then does not know whether it was done.",
    severity: Severity::High,
    rationale: "somebody waits for ever, or as long as its time limit is",
    looks_at: "requests without an answer when the connection ends, and those of a live run that are not answered in time. A \
               request that was cancelled needs none, and neither does a listen",
    pass: "every request has an answer",
    fail: "a request has none, though its connection went on",
    skip: "no request was seen",
    sentence: "a request is never answered",
    remedy: "Answer also when a handler fails or a method is unknown: with an error. Let no exception escape the dispatcher.",
    example: "try { result = await handle(request) } catch (e) { return error(request.id, -32603, \"Internal error\") }",
    see: &["mute-server", "answered-once", "cancellation"],
    references: &[JsonRpc("section 5"), Mcp("2025-11-25/basic#responses")],
    // What cannot be read, or comes under another id, answers nobody.
    needs: &["early-exit", "mute-server", "jsonrpc-messages", "stdout-purity", "one-message-a-line", "id-fidelity"],
    ..BASE
};

pub(crate) static NOTIFICATION_SILENCE: Check = Check {
    id: "notification-silence",
    title: "Notifications are not answered",
    why: "A notification has no id, so an answer to it belongs to nobody. Some clients take an error without an id for the end of \
          the connection.",
    severity: Severity::High,
    rationale: "clients that check what they read fail on an answer without a request",
    looks_at: "what comes after notifications: known ones, unknown ones, and ones with wrong parameters",
    pass: "nothing comes",
    fail: "an answer comes, with an id of null or without one, though everything that was sent could be read",
    skip: "no notification was seen",
    sentence: "a notification is answered",
    remedy: "Look at whether the message has an id before anything else. If not, never write anything back, whatever goes wrong.",
    example: r#"{"jsonrpc":"2.0","method":"notifications/nope"}  is followed by nothing"#,
    see: &["jsonrpc-messages", "cancellation"],
    references: &[JsonRpc("section 4.1"), Mcp("2025-11-25/basic#notifications"), Mcp("2026-07-28/basic#notifications")],
    ..BASE
};

pub(crate) static PARSE_ERROR_RECOVERY: Check = Check {
    id: "parse-error-recovery",
    title: "A line that is no JSON does not end the connection",
    why: "One bad line, from a proxy or a client with a bug, should cost one line and not the session.",
    severity: Severity::High,
    rationale: "everything that was in flight is lost with the connection",
    looks_at: "a request that follows a line of broken JSON",
    pass: "the request behind it is answered",
    fail: "the server ends, or answers nothing any more",
    skip: "hostile input is not allowed here",
    sentence: "after a line that is no JSON the server does not go on",
    level: Level::Ours,
    remedy: "Read up to the next line break, whatever was in the line, and go on behind it. Catch what the parser throws.",
    example: "for line in sys.stdin: try: message = json.loads(line) except ValueError: send(parse_error()); continue",
    see: &["parse-error-answer", "invalid-utf8", "stays-alive"],
    references: &[
        JsonRpc("section 5.1"),
        Cwe(248, "Uncaught Exception"),
        Other("RFC 8259", "https://www.rfc-editor.org/rfc/rfc8259"),
    ],
    places: LIVE_ANYWHERE,
    hostile: true,
    ..BASE
};

pub(crate) static PARSE_ERROR_ANSWER: Check = Check {
    id: "parse-error-answer",
    title: "A line that is no JSON is answered with -32700",
    why: "The sender of a broken line waits for an answer. Told that it could not be read, it knows at once; if not, it waits for \
          its whole time limit.",
    severity: Severity::Medium,
    rationale: "only senders with a bug get there, but they have no other way to find it",
    looks_at: "what comes after a line of broken JSON",
    pass: "an error with the code -32700, and an id of null or none",
    fail: "nothing comes, or something else",
    skip: "hostile input is not allowed here",
    sentence: "a line that is no JSON is not answered with -32700",
    remedy: "Where the parser fails, write an error with the code -32700 and an id of null.",
    example: r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    see: &["parse-error-recovery", "envelope-validation"],
    references: &[JsonRpc("sections 5 and 5.1")],
    places: LIVE,
    hostile: true,
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery"],
    ..BASE
};

pub(crate) static ENVELOPE_VALIDATION: Check = Check {
    id: "envelope-validation",
    title: "What is JSON but no message is answered with -32600",
    why: "A request without \"jsonrpc\" or with a method that is a number is a bug of its sender. Served anyway it stays one; \
          dropped without a word it looks like a server that hangs.",
    severity: Severity::Medium,
    rationale: "only senders with a bug get there, but they are misled",
    looks_at: "requests without jsonrpc, with jsonrpc \"1.0\", with a method that is a number, with params that are a string, and \
               an object without anything",
    pass: "each is answered with -32600 (-32602 for params), under its id or null, and not served",
    fail: "one is served, answered with another code, or not answered",
    skip: "hostile input is not allowed here",
    sentence: "a message of the wrong shape is not answered with -32600",
    remedy: "Check the envelope before the method: jsonrpc is \"2.0\", method is a string, params is an object or absent.",
    example: r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"Invalid Request"}}"#,
    see: &["parse-error-answer", "unknown-method"],
    references: &[JsonRpc("sections 4 and 5.1"), Mcp("2025-11-25/basic#requests")],
    places: LIVE,
    hostile: true,
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery"],
    ..BASE
};

pub(crate) static BATCH_POLICY: Check = Check {
    id: "batch-policy",
    title: "Arrays are taken where the revision has them, and nowhere else",
    why: "2025-03-26 asks every receiver to take batches; 2025-06-18 took them away again. A side that goes by another rule than \
          the other one loses whole batches of requests.",
    severity: Severity::Medium,
    rationale: "few send batches; those who do lose several requests at once",
    looks_at: "an array of two pings in 2025-03-26 and in the latest revision of the server; arrays of either side in a capture",
    pass: "in 2025-03-26 both are answered; from 2025-06-18 on neither is served, and the connection goes on",
    fail: "it is the other way round; or the server ends",
    skip: "the server speaks no revision that says anything about it",
    sentence: "an array of messages is treated otherwise than the revision has it",
    remedy: "Look at the agreed revision when a line begins with [. In 2025-03-26 serve each element, and answer with an array of \
             what they are answered with; from 2025-06-18 on refuse the array with -32600.",
    example: r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not allowed in 2025-06-18"}}"#,
    see: &["envelope-validation", "jsonrpc-messages"],
    references: &[JsonRpc("section 6"), Mcp("2025-03-26/basic#batching"), Mcp("2025-06-18/changelog")],
    ..BASE
};
