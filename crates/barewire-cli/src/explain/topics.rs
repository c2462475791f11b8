//! The explanations of error codes, message shapes and rules.

pub(super) struct Topic {
    /// The name of the topic, and other words that users may type for it.
    pub(super) names: &'static [&'static str],
    pub(super) title: &'static str,
    pub(super) what: &'static str,
    pub(super) fault: &'static str,
    pub(super) fix: &'static str,
    pub(super) see: &'static str,
}

/// Returns the topic of an error code that has no entry in [`TOPICS`].
pub(super) fn code_topic(code: i64) -> Topic {
    match code {
        -32019..=-32000 => Topic {
            names: &[],
            title: "a code of the implementation",
            what: "JSON-RPC leaves -32099 to -32000 to servers. MCP reserves -32099 to -32020 for itself. This code \
                is outside of MCP's range, so the implementation defines its meaning. New code should not use it.",
            fault: "see the message: the code alone does not tell",
            fix: "read the message and data of the error, and the documentation of the server",
            see: "JSON-RPC 2.0, section 5.1; MCP 2026-07-28, base protocol, error codes",
        },
        -32099..=-32020 => Topic {
            names: &[],
            title: "a code reserved for MCP",
            what: "The specification reserves -32099 to -32020 for its own codes, and does not define this code.",
            fault: "the sender: it uses a reserved code",
            fix: "use a code outside -32768 to -32000 for errors of an application",
            see: "MCP 2026-07-28, base protocol, error codes",
        },
        -32768..=-32100 => Topic {
            names: &[],
            title: "a reserved code without a definition",
            what: "JSON-RPC reserves -32768 to -32000 for itself, and does not define this code.",
            fault: "the sender: it uses a reserved code",
            fix: "use a code outside that range for errors of an application",
            see: "JSON-RPC 2.0, section 5.1",
        },
        _ => Topic {
            names: &[],
            title: "an application's own code",
            what: "Outside -32768 to -32000 the application defines the meaning of a code.",
            fault: "see the message: the code alone does not tell",
            fix: "read the message and data of the error, and the documentation of the application",
            see: "JSON-RPC 2.0, section 5.1",
        },
    }
}

/// Returns the topic of a rule about frames. Only the sender of a frame can break such a rule.
const fn rule(
    names: &'static [&'static str],
    title: &'static str,
    what: &'static str,
    fix: &'static str,
    see: &'static str,
) -> Topic {
    Topic { names, title, what, fault: "the sender", fix, see }
}

#[rustfmt::skip]
pub(super) const TOPICS: &[Topic] = &[
    // Codes.
    Topic {
        names: &["-32700", "parse-error", "parse error"], title: "Parse error",
        what: "The text is not JSON, or a string in it is not UTF-8. The response has the id null, because an id in \
            broken text cannot be trusted. If only a string is bad, the response has the id of the request.",
        fault: "the sender of the line, or code that writes other text to stdout: a print, a banner, a log",
        fix: "barewire read shows the place. On stdio only messages may go to stdout; log to stderr",
        see: "JSON-RPC 2.0, section 5.1; RFC 8259; MCP transports, stdio",
    },
    Topic {
        names: &["-32600", "invalid-request", "invalid request"], title: "Invalid Request",
        what: "The frame is JSON, but not a message: a member is missing, duplicate or of the wrong type, or the frame \
            is too long or too deep. Or it is a message at the wrong time: before initialize, or a forbidden batch.",
        fault: "the sender",
        fix: "look at data.rule and data.offset of the error, or run barewire read --frame N",
        see: "JSON-RPC 2.0, sections 4 and 5.1",
    },
    Topic {
        names: &["-32601", "method-not-found", "method not found"], title: "Method not found",
        what: "The receiver does not know the method, or does not offer it. In MCP this includes methods of a \
            capability that it did not declare, and of another revision.",
        fault: "the caller, if the method was not offered; else the receiver",
        fix: "compare the method with the capabilities and the revision of the receiver",
        see: "JSON-RPC 2.0, section 5.1; MCP lifecycle, capability negotiation",
    },
    Topic {
        names: &["-32602", "invalid-params", "invalid params"], title: "Invalid params",
        what: "The method exists, but does not take these params. In MCP also: an unknown tool, a bad cursor, missing \
            request metadata (2026-07-28). A tool that ran and failed does not get this error, but a result with \
            isError.",
        fault: "the caller",
        fix: "compare the params with the definition of the method; for tools/call, with the inputSchema from \
            tools/list",
        see: "JSON-RPC 2.0, section 5.1; MCP tools, error handling",
    },
    Topic {
        names: &["-32603", "internal-error", "internal error"], title: "Internal error",
        what: "The receiver failed internally: a handler raised an error or panicked. barewire puts the \
            type of the error into data.exception, and its message only into the log.",
        fault: "the receiver",
        fix: "read the receiver's log on stderr; as its author, give expected failures a code of their own",
        see: "JSON-RPC 2.0, section 5.1",
    },
    Topic {
        names: &["-32000", "connection-closed"], title: "a code of the SDK: connection closed, or a bad HTTP request",
        what: "MCP does not define it. In clients on the TypeScript SDK 1.x and on the Python SDK: the connection was \
            closed before the response; the SDK makes this error itself, and it is never on the wire (\"Connection \
            closed\" in Claude Code and Cursor: the server has exited). The TypeScript SDK 2.x has the name \
            CONNECTION_CLOSED instead. On the wire, servers on the TypeScript SDK and on the C# SDK send it in the \
            body of an HTTP error: 400 (no session, unknown version), 403 (Host or Origin), 405, 406, 409, 415.",
        fault: "the server, if the connection was closed; the client, if it is in the body of a 4xx",
        fix: "run the server in a terminal and read its stderr; over HTTP, read the message and the status",
        see: "MCP 2026-07-28, basic, Error Codes; barewire explain early-exit; barewire explain 400",
    },
    Topic {
        names: &["-32001", "request-timeout"], title: "a code of the SDK: request timed out, or session not found",
        what: "MCP does not define it. In clients on the TypeScript SDK 1.x (after 60 seconds) and on the Python SDK \
            2.x: no response came in time; the SDK makes this error itself (the Python SDK 1.x uses 408, the TypeScript SDK 2.x \
            the name REQUEST_TIMEOUT). On the wire, with HTTP status 404: \"Session not found\", from servers on the \
            TypeScript SDK and on the C# SDK. The Go SDK has it for an unknown error. Drafts of 2026-07-28 used it for \
            what is now -32020.",
        fault: "the receiver, if it never responded; neither side, if the session has ended",
        fix: "look for a response with another id, or for none at all: barewire tap; after 404, send initialize again",
        see: "MCP 2026-07-28, basic, Error Codes; barewire explain unanswered-request; barewire explain 404",
    },
    Topic {
        names: &["-32002", "resource-not-found"], title: "Resource not found (MCP up to 2025-11-25)",
        what: "The uri of a resources/read names no resource. From 2026-07-28 on, the code is -32602 with data.uri, \
            and a server must not send -32002. The C# SDK and rmcp choose by the revision; the Go SDK and the \
            TypeScript SDK 2.x send only -32602, and the TypeScript SDK 2.x still accepts -32002.",
        fault: "the caller, or a list of resources that is out of date",
        fix: "list the resources with resources/list and resources/templates/list",
        see: "MCP 2025-11-25, server resources, error handling",
    },
    Topic {
        names: &["-32020", "header-mismatch"], title: "Header mismatch (MCP 2026-07-28)",
        what: "An HTTP header that mirrors the body is missing, cannot be read, or differs from the body.",
        fault: "the client, or a proxy that changed a header",
        fix: "send MCP-Protocol-Version, Mcp-Method and Mcp-Name with the values of the body; for Mcp-Param-*, \
            request tools/list again",
        see: "MCP 2026-07-28, transports, Streamable HTTP",
    },
    Topic {
        names: &["-32021", "missing-client-capability"], title: "Missing required client capability (MCP 2026-07-28)",
        what: "The server needs a capability that the request did not declare: see data.requiredCapabilities.",
        fault: "the client, if it has the capability and did not declare it; else neither side: the request needs \
            another client",
        fix: "declare the capability in the _meta of the request, or do not send the request",
        see: "MCP 2026-07-28, lifecycle",
    },
    Topic {
        names: &["-32022", "unsupported-protocol-version"], title: "Unsupported protocol version (MCP 2026-07-28)",
        what: "The server does not speak the revision of the request. data.supported lists the revisions that it \
            speaks.",
        fault: "neither side: this is how they agree on a version",
        fix: "send the request again, with a version from data.supported",
        see: "MCP 2026-07-28, versioning",
    },
    Topic {
        names: &["-32042", "url-elicitation-required"], title: "URL elicitation required (MCP 2025-11-25)",
        what: "The user has to open the URLs in data.elicitations before the request can succeed. Only 2025-11-25 has \
            it; 2026-07-28 reserves it, forbids to send it, and asks with a result of resultType input_required. The \
            TypeScript SDK (UrlElicitationRequired), Python, Go and C# have it.",
        fault: "neither side",
        fix: "let the user open the URLs, then send the request again",
        see: "MCP 2025-11-25, client elicitation",
    },
    Topic {
        names: &["-1", "user-rejected"], title: "User rejected sampling request (MCP up to 2025-11-25)",
        what: "The user, or the client on their behalf, refuses to ask the model. The specification has this code \
            only as an example, so other clients may use another code, or this code for something else.",
        fault: "neither side: a user may refuse",
        fix: "continue without the model, or return a result with isError",
        see: "MCP 2025-11-25, client sampling, error handling",
    },
    Topic {
        names: &["-32800"], title: "Request cancelled (LSP)",
        what: "The response to a request that was cancelled with $/cancelRequest. In MCP a cancelled request gets no \
            response.",
        fault: "neither side",
        fix: "nothing to fix",
        see: "LSP 3.17, cancellation support",
    },
    // Shapes.
    Topic {
        names: &["request"], title: "method and id",
        what: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"…\",\"params\":{…}}\nAsks the receiver to do something. It \
            gets exactly one response, with the same id, byte for byte. The id is a string or a number, never null, \
            and different from all other requests in flight of the same sender.",
        fault: "none: a regular message",
        fix: "if there is no response, check that the request has an id, and that the response has the same id",
        see: "JSON-RPC 2.0, section 4; MCP base protocol, requests",
    },
    Topic {
        names: &["notification"], title: "method without id",
        what: "{\"jsonrpc\":\"2.0\",\"method\":\"…\",\"params\":{…}}\nTells the receiver something. It never gets a \
            response, not even if it is wrong. With an id of null it is not a notification, but an invalid request.",
        fault: "none: a regular message",
        fix: "if you expect a response, add an id; never respond to a notification",
        see: "JSON-RPC 2.0, section 4.1; MCP base protocol, notifications",
    },
    Topic {
        names: &["result", "response"], title: "result and id",
        what: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":…}\nThe request with this id succeeded. A response has a \
            result or an error, never both, and gets no response itself. In MCP a failed tool is also a result, with \
            isError.",
        fault: "none: a regular message",
        fix: "if it matches no request, compare its id with the request, and look for an earlier response with this id",
        see: "JSON-RPC 2.0, section 5; MCP base protocol, responses",
    },
    Topic {
        names: &["error"], title: "error and id",
        what: "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"…\",\"data\":…}}\nThe request \
            with this id failed. The code is an integer and the message a string; data is optional. If the sender \
            could not read the id it is null, or left out (MCP 2026-07-28).",
        fault: "depends on the code: barewire explain CODE",
        fix: "look up the code, then read message and data",
        see: "JSON-RPC 2.0, section 5.1",
    },
    Topic {
        names: &["batch"], title: "an array of messages",
        what: "[{…},{…}]\nEach element is a message of its own. The responses come in one array, in any order; \
            notifications have none. In MCP only 2025-03-26 requires batches; 2025-06-18 and later do not allow them.",
        fault: "none, where batches are allowed; else the sender",
        fix: "send the messages one by one, one per line: it costs no more",
        see: "JSON-RPC 2.0, section 6; MCP 2025-03-26, base protocol, batching",
    },
    Topic {
        names: &["invalid"], title: "a frame that is not a message",
        what: "The frame is not JSON, or not a request, notification, result, error or batch. If its sender may expect \
            a response, the frame gets an error: -32700 for broken text, -32600 for a wrong shape. A frame with the \
            shape of a notification or a response gets none.",
        fault: "the sender",
        fix: "barewire read --frame N shows the place, the rule and the response",
        see: "docs/rough-edges.md",
    },
    // Rules, as `barewire read` and `data.rule` name them.
    rule(&["syntax"], "not JSON",
        "The text breaks RFC 8259. The usual causes: a log line or banner on stdout, single quotes, a trailing \
            comma, a line break inside a message, NaN, two messages in a line, a truncated line.",
        "write messages with a JSON library, one per line, and everything else to stderr",
        "RFC 8259; barewire explain -32700"),
    rule(&["bad-utf8"], "a string that is not UTF-8",
        "JSON between systems is UTF-8. The usual causes: another code page on Windows, bytes of a file in a \
            string, a character cut in two.",
        "set the encoding of stdout to UTF-8; send bytes as Base64", "RFC 8259, section 8.1; barewire explain -32700"),
    Topic {
        names: &["too-long"], title: "a frame over the limit of bytes",
        what: "The frame was skipped in constant memory. It gets an error with its id. The default limit is 64 MiB.",
        fault: "the sender, or the limit",
        fix: "send less at once (resource links, pages), or raise the limit",
        see: "docs/limits.md",
    },
    Topic {
        names: &["too-deep"], title: "nested deeper than the limit",
        what: "The frame is well formed, but refused: many parsers recurse for each bracket and overflow their stack. \
            The default limit is 128 levels, the outermost object being the first.",
        fault: "the sender, or the limit",
        fix: "send flatter data, or raise the limit",
        see: "docs/limits.md",
    },
    Topic {
        names: &["bad-header"], title: "headers without the length of the body",
        what: "Content-Length framing needs a Content-Length. If the peer sends one message per line instead, it \
            speaks newline-delimited JSON, as MCP does.",
        fault: "the sender, or the choice of framing",
        fix: "use the framing of the peer: lines for MCP, Content-Length for LSP",
        see: "LSP 3.17, base protocol; MCP transports, stdio",
    },
    Topic {
        names: &["truncated"], title: "the rest of a frame is missing",
        what: "The stream ended in the middle of a message: its sender exited, was killed, or lost the connection. \
            Or a transcript holds only the beginning of the frame.",
        fault: "the sender, the transport, or the recording",
        fix: "find out why the sender ended: see its exit code and its stderr",
        see: "docs/wire-format.md",
    },
    rule(&["not-an-object"], "a message must be an object",
        "A bare string, number, true, false or null is JSON, but not a message.",
        "send an object with jsonrpc, and method, result or error", "JSON-RPC 2.0, section 4"),
    rule(&["empty-batch"], "an empty batch",
        "A batch must have at least one message.",
        "send nothing instead", "JSON-RPC 2.0, section 6"),
    Topic {
        names: &["batch-too-long"], title: "a batch with more elements than the limit",
        what: "A response can be many times longer than its request, so the number of elements is limited. The \
            whole batch is refused, with an id of null.",
        fault: "the sender, or the limit",
        fix: "send the messages one by one, one per line, or raise the limit",
        see: "docs/limits.md",
    },
    rule(&["nested-batch"], "a batch inside a batch",
        "The elements of a batch are messages, and an array is not a message.",
        "send the inner messages in the outer array, or one by one", "JSON-RPC 2.0, section 6"),
    rule(&["batch-not-allowed"], "a batch where none is allowed",
        "MCP has batches only in 2025-03-26 and, by JSON-RPC, in 2024-11-05; never before the handshake.",
        "send the messages one by one, one per line", "MCP 2025-06-18, changelog"),
    rule(&["duplicate-member"], "a duplicate member of the envelope",
        "Parsers differ in which of the two values they use, so two programs would read two different messages. A \
            duplicate id is not an id, so the response has the id null.",
        "write each member once", "RFC 8259, section 4; docs/rough-edges.md"),
    rule(&["no-version"], "\"jsonrpc\" is missing",
        "Every message has \"jsonrpc\":\"2.0\".",
        "add it, also to responses and notifications", "JSON-RPC 2.0, section 4"),
    rule(&["bad-version"], "\"jsonrpc\" is not the string \"2.0\"",
        "The number 2.0 is not the string, and 1.0 is another protocol.",
        "write \"jsonrpc\":\"2.0\"", "JSON-RPC 2.0, section 4"),
    rule(&["nothing-to-do"], "neither method nor result nor error",
        "A message that has none of the three is neither a request, nor a notification, nor a response.",
        "write an empty result as \"result\":{}; do not leave it out", "JSON-RPC 2.0, sections 4 and 5"),
    rule(&["bad-method"], "\"method\" is not a string",
        "The name of a method is a string.",
        "write the name in quotes", "JSON-RPC 2.0, section 4"),
    rule(&["method-and-outcome"], "\"method\" beside \"result\" or \"error\"",
        "It has members of both a request and a response, so it is neither.",
        "leave out the members that do not apply; do not write them as null either", "JSON-RPC 2.0, sections 4 and 5"),
    rule(&["result-and-error"], "\"result\" beside \"error\"",
        "A response has exactly one of the two. \"error\":null beside a result, as in JSON-RPC 1.0, is not allowed.",
        "leave out the one that does not apply", "JSON-RPC 2.0, section 5"),
    rule(&["bad-params"], "\"params\" is neither an object nor an array",
        "Params are an object (by name) or an array (by position); null is neither.",
        "leave params out if there are none; put a single value into an object", "JSON-RPC 2.0, section 4.2"),
    Topic {
        names: &["null-id"], title: "\"id\" is null",
        what: "An id of null is not the same as no id, so this is not a notification. MCP forbids it, and JSON-RPC \
            reserves it for errors about unreadable requests.",
        fault: "the sender, often a serialiser that writes unset fields as null",
        fix: "leave id out for a notification, set it for a request",
        see: "JSON-RPC 2.0, section 4; MCP base protocol, requests",
    },
    rule(&["bad-id"], "\"id\" is neither a string nor a number",
        "true, an object or an array cannot be an id.",
        "use an integer or a string", "JSON-RPC 2.0, section 4"),
    rule(&["no-id"], "a result without an id",
        "A result without an id matches no request.",
        "copy the id of the request into the response, as it was written", "JSON-RPC 2.0, section 5"),
    rule(&["bad-error"], "\"error\" is not an error object",
        "It must be an object with an integer code and a string message, each exactly once.",
        "write {\"code\":-32603,\"message\":\"…\"}; a failed tool is a result with isError instead",
        "JSON-RPC 2.0, section 5.1"),
    Topic {
        names: &["task", "tasks", "io.modelcontextprotocol/tasks"],
        title: "a call that is answered later",
        what: "The server answers a tools/call with the id of a task, and the client fetches the result later. A task \
            is working, input_required, completed, failed or cancelled; the last three never change. In the extension \
            io.modelcontextprotocol/tasks of 2026-07-28 the server decides, if the client has declared the extension \
            in the request: the result has resultType task, tasks/get has the outcome and the questions, tasks/update answers \
            them. In 2025-11-25 the client decides, with task in its params; tasks/result waits for the outcome, and \
            questions are requests of the server in the meantime. failed is an error of JSON-RPC; in 2025-11-25 also a \
            result with isError.",
        fault: "no side. An unknown id is -32602: the task has expired, or belongs to another client",
        fix: "barewire call waits for tasks; --detach prints the id, and barewire call task ID goes on",
        see: "MCP 2025-11-25, basic/utilities/tasks; SEP-2663; barewire explain tasks/get",
    },
];
