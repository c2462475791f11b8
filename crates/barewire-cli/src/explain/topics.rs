//! The codes, shapes and rules, in the words of whoever has to find out what went wrong. One table.

use std::ops::RangeInclusive;

/// Something that can be explained.
pub(super) struct Topic {
    /// What it is called; the first is its own name, the others are what people type.
    pub(super) names: &'static [&'static str],
    pub(super) title: &'static str,
    pub(super) what: &'static str,
    pub(super) fault: &'static str,
    pub(super) fix: &'static str,
    pub(super) see: &'static str,
}

/// Codes without an entry of their own, by range; the first that fits counts.
pub(super) const RANGES: &[(RangeInclusive<i64>, Topic)] = &[
    (
        -32019..=-32000,
        Topic {
            names: &[],
            title: "an error of the implementation",
            what: "JSON-RPC leaves -32099 to -32000 to servers. MCP has taken -32099 to -32020 for itself; \
                   this one is in the rest, so what it means is the implementation's own. New code should \
                   not use it.",
            fault: "whoever the message says; the code alone does not tell",
            fix: "read the message and data of the error, and the documentation of the server",
            see: "JSON-RPC 2.0, section 5.1; MCP 2026-07-28, base protocol, error codes",
        },
    ),
    (
        -32099..=-32020,
        Topic {
            names: &[],
            title: "a code reserved for MCP",
            what: "The specification keeps -32099 to -32020 for codes it defines itself, and does not \
                   define this one.",
            fault: "the sender: it uses a code that is not its own",
            fix: "use a code outside -32768 to -32000 for errors of an application",
            see: "MCP 2026-07-28, base protocol, error codes",
        },
    ),
    (
        -32768..=-32100,
        Topic {
            names: &[],
            title: "a reserved code without a meaning",
            what: "JSON-RPC reserves -32768 to -32000 for itself and has not defined this one.",
            fault: "the sender: it uses a code that is not its own",
            fix: "use a code outside that range for errors of an application",
            see: "JSON-RPC 2.0, section 5.1",
        },
    ),
    (
        i64::MIN..=i64::MAX,
        Topic {
            names: &[],
            title: "an application's own code",
            what: "Outside -32768 to -32000 a code means what the application says it means.",
            fault: "whoever the message says; the code alone does not tell",
            fix: "read the message and data of the error, and the documentation of the application",
            see: "JSON-RPC 2.0, section 5.1",
        },
    ),
];

pub(super) const TOPICS: &[Topic] = &[
    // Codes.
    Topic {
        names: &["-32700", "parse-error", "parse error"],
        title: "Parse error",
        what: "What was received is not JSON, or a string in it is not UTF-8. It is answered with an id \
                   of null, because an id in a broken text cannot be trusted; under its id only if nothing \
                   but a string is bad.",
        fault: "the sender of the line, or something that writes between its lines: a print to stdout, a banner, a log",
        fix: "read the line: barewire read shows the byte. On stdio nothing but messages may go to stdout; log to stderr",
        see: "JSON-RPC 2.0, section 5.1; RFC 8259; MCP transports, stdio",
    },
    Topic {
        names: &["-32600", "invalid-request", "invalid request"],
        title: "Invalid Request",
        what: "It is JSON, but not a message: a member is missing, of the wrong type or there twice, or \
                   it is too long or too deep. Or a message at the wrong time: before initialize, a batch \
                   where none is allowed.",
        fault: "the sender",
        fix: "look at data.rule and data.offset of the error, or let barewire read --frame N take the message apart",
        see: "JSON-RPC 2.0, sections 4 and 5.1",
    },
    Topic {
        names: &["-32601", "method-not-found", "method not found"],
        title: "Method not found",
        what: "The receiver does not know the method, or does not offer it: in MCP also a method of a \
                   capability that it has not declared, or of another revision of the protocol.",
        fault: "the caller, if it asks for what was not offered; the receiver, if it offers what it does not have",
        fix: "compare the method, letter by letter, with the capabilities of the other side and its revision",
        see: "JSON-RPC 2.0, section 5.1; MCP lifecycle, capability negotiation",
    },
    Topic {
        names: &["-32602", "invalid-params", "invalid params"],
        title: "Invalid params",
        what: "The method exists, but not with these parameters. In MCP also: an unknown tool, a bad \
                   cursor, missing request metadata (2026-07-28). A tool that ran and failed is no such \
                   error: it is a result with isError.",
        fault: "the caller",
        fix: "compare params with what the method takes; for tools/call with the inputSchema from tools/list",
        see: "JSON-RPC 2.0, section 5.1; MCP tools, error handling",
    },
    Topic {
        names: &["-32603", "internal-error", "internal error"],
        title: "Internal error",
        what: "The receiver failed for a reason of its own: a handler raised an error or panicked. \
                   barewire names the type of the error in data.exception and keeps what it says for the \
                   log.",
        fault: "the receiver",
        fix: "read the receiver's log on stderr; as its author, answer expected failures with a code that says what they are",
        see: "JSON-RPC 2.0, section 5.1",
    },
    Topic {
        names: &["-32002", "resource-not-found"],
        title: "Resource not found (MCP up to 2025-11-25)",
        what: "The uri of a resources/read names nothing. From 2026-07-28 on it is -32602 with \
                   data.uri.",
        fault: "the caller, or a list of resources that is out of date",
        fix: "ask resources/list and resources/templates/list for what there is",
        see: "MCP 2025-11-25, server resources, error handling",
    },
    Topic {
        names: &["-32020", "header-mismatch"],
        title: "Header mismatch (MCP 2026-07-28)",
        what: "An HTTP header that mirrors the body is missing, cannot be read, or says something else \
                   than the body.",
        fault: "the client, or a proxy that changed a header",
        fix: "send MCP-Protocol-Version, Mcp-Method and Mcp-Name as the body has them; fetch tools/list again for Mcp-Param-*",
        see: "MCP 2026-07-28, transports, Streamable HTTP",
    },
    Topic {
        names: &["-32021", "missing-client-capability"],
        title: "Missing required client capability (MCP 2026-07-28)",
        what: "The server needs something of the client that this request did not declare: see \
                   data.requiredCapabilities.",
        fault: "the client, if it can do it and did not say so; else nobody: the request needs another client",
        fix: "declare the capability in the request's _meta, or do without what needs it",
        see: "MCP 2026-07-28, lifecycle",
    },
    Topic {
        names: &["-32022", "unsupported-protocol-version"],
        title: "Unsupported protocol version (MCP 2026-07-28)",
        what: "The server does not speak the revision the request asks for. data.supported lists those \
                   it speaks.",
        fault: "nobody: this is how the two sides find a version",
        fix: "send the request again with a version from data.supported",
        see: "MCP 2026-07-28, versioning",
    },
    Topic {
        names: &["-32042", "url-elicitation-required"],
        title: "URL elicitation required (MCP 2025-11-25)",
        what: "The user has to open the URLs in data.elicitations before the request can succeed.",
        fault: "nobody",
        fix: "let the user open them, then send the request again",
        see: "MCP 2025-11-25, client elicitation",
    },
    Topic {
        names: &["-1", "user-rejected"],
        title: "User rejected sampling request (MCP up to 2025-11-25)",
        what: "The user, or the client for them, does not want the model to be asked. The specification has it \
                   as an example, so others may use another code, or this one for something else.",
        fault: "nobody: a user may say no",
        fix: "go on without the model, or fail with a result that says so",
        see: "MCP 2025-11-25, client sampling, error handling",
    },
    Topic {
        names: &["-32800"],
        title: "Request cancelled (LSP)",
        what: "The answer to a request that was cancelled with $/cancelRequest. MCP sends no answer at \
                   all in that case.",
        fault: "nobody",
        fix: "nothing to fix",
        see: "LSP 3.17, cancellation support",
    },
    // Shapes.
    Topic {
        names: &["request"],
        title: "method and id",
        what: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"…\",\"params\":{…}}\nAsks the other side to \
                   do something and to answer: exactly once, under the same id, as it was written. The id \
                   is a string or a number, never null, and no other request of the sender's in flight has \
                   it.",
        fault: "nobody: this is how one side asks the other",
        fix: "no answer? See whether the id came back the same, and whether the other side took it for a notification",
        see: "JSON-RPC 2.0, section 4; MCP base protocol, requests",
    },
    Topic {
        names: &["notification"],
        title: "method without id",
        what: "{\"jsonrpc\":\"2.0\",\"method\":\"…\",\"params\":{…}}\nTells the other side something. \
                   It is never answered, not even if it is wrong. An id of null does not make one: that is \
                   a bad request.",
        fault: "nobody: this is how one side tells the other",
        fix: "if you wait for an answer, you have left out the id; if you answer one, stop",
        see: "JSON-RPC 2.0, section 4.1; MCP base protocol, notifications",
    },
    Topic {
        names: &["result", "response"],
        title: "result and id",
        what: "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":…}\nThe request with this id succeeded. A \
                   response has a result or an error, never both, and is never answered itself. In MCP a \
                   tool that failed is a result too, with isError.",
        fault: "nobody: this is how a request ends well",
        fix: "an answer to nobody? The id is not the one that was sent, or it was answered before",
        see: "JSON-RPC 2.0, section 5; MCP base protocol, responses",
    },
    Topic {
        names: &["error"],
        title: "error and id",
        what: "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"…\",\"data\":…}}\nThe \
                   request with this id failed. The code is an integer and the message a string; data is \
                   optional. If the sender could not read the id it is null, or left out (MCP 2026-07-28).",
        fault: "the code tells: barewire explain CODE",
        fix: "look up the code, then read message and data",
        see: "JSON-RPC 2.0, section 5.1",
    },
    Topic {
        names: &["batch"],
        title: "an array of messages",
        what: "[{…},{…}]\nEach element is judged on its own; the answers come in one array, in any \
                   order, and without those of notifications. In MCP only 2025-03-26 asks for batches; \
                   2025-06-18 and later do not allow them.",
        fault: "nobody, where batches are allowed; else the sender",
        fix: "send the messages one by one, a line each: it costs no more",
        see: "JSON-RPC 2.0, section 6; MCP 2025-03-26, base protocol, batching",
    },
    Topic {
        names: &["invalid"],
        title: "a frame that is no message",
        what: "It is not JSON, or JSON of another shape than a request, notification, result, error or \
                   batch. If its sender may be waiting it is answered: -32700 for broken text, -32600 for a \
                   wrong shape. What is shaped like a notification or a response is not answered.",
        fault: "the sender",
        fix: "barewire read --frame N shows the place, the rule and the answer",
        see: "docs/rough-edges.md",
    },
    // Rules, as `barewire read` and `data.rule` name them.
    Topic {
        names: &["syntax"],
        title: "not JSON",
        what: "The text breaks RFC 8259. The usual causes: a log line or banner on stdout, single \
                   quotes, a trailing comma, a line break inside a message, NaN, two messages on a line, a \
                   line cut short.",
        fault: "the sender",
        fix: "write messages with a JSON library, one a line, and everything else to stderr",
        see: "RFC 8259; barewire explain -32700",
    },
    Topic {
        names: &["bad-utf8"],
        title: "a string that is not UTF-8",
        what: "JSON between systems is UTF-8. The usual causes: another code page on Windows, bytes of \
                   a file put into a string, a character cut in two.",
        fault: "the sender",
        fix: "set the encoding of stdout to UTF-8; send bytes as Base64",
        see: "RFC 8259, section 8.1; barewire explain -32700",
    },
    Topic {
        names: &["too-long"],
        title: "a frame over the limit of bytes",
        what: "It was skipped in constant memory and answered under its id. The default limit is 64 \
                   MiB.",
        fault: "the sender, or the limit",
        fix: "send less at once (a resource link, pages), or raise the limit",
        see: "docs/limits.md",
    },
    Topic {
        names: &["too-deep"],
        title: "nested deeper than the limit",
        what: "Well formed, but refused: many parsers go down a level for each bracket and run out of \
                   stack. The default limit is 128 levels, the outermost object being the first.",
        fault: "the sender, or the limit",
        fix: "send flatter data, or raise the limit",
        see: "docs/limits.md",
    },
    Topic {
        names: &["bad-header"],
        title: "headers that do not say where the body ends",
        what: "Content-Length framing needs a Content-Length. If the peer sends a message a line \
                   instead, it speaks newline-delimited JSON, as MCP does.",
        fault: "the sender, or the choice of framing",
        fix: "use the framing that the other side uses: lines for MCP, Content-Length for LSP",
        see: "LSP 3.17, base protocol; MCP transports, stdio",
    },
    Topic {
        names: &["truncated"],
        title: "the rest of a frame is missing",
        what: "The stream ended in the middle of a message: its sender ended, was killed or was cut off. Or a transcript \
               holds only the beginning of the frame.",
        fault: "the sender, the carrier, or whoever recorded the transcript",
        fix: "see why the sender ended: its exit code and its stderr",
        see: "docs/wire-format.md",
    },
    Topic {
        names: &["not-an-object"],
        title: "a message must be an object",
        what: "A bare string, number, true, false or null is JSON, but no message.",
        fault: "the sender",
        fix: "send an object with jsonrpc, and method, result or error",
        see: "JSON-RPC 2.0, section 4",
    },
    Topic {
        names: &["empty-batch"],
        title: "a batch of nothing",
        what: "An array must have at least one message in it.",
        fault: "the sender",
        fix: "send nothing instead",
        see: "JSON-RPC 2.0, section 6",
    },
    Topic {
        names: &["batch-too-long"],
        title: "a batch of more elements than the limit",
        what: "Each element may be answered with many times its length, so their number bounds the answer. It is refused \
               as a whole, with an id of null.",
        fault: "the sender, or the limit",
        fix: "send the messages one by one, a line each, or raise the limit",
        see: "docs/limits.md",
    },
    Topic {
        names: &["nested-batch"],
        title: "a batch inside a batch",
        what: "The elements of a batch are messages, and an array is none.",
        fault: "the sender",
        fix: "send the inner messages in the outer array, or one by one",
        see: "JSON-RPC 2.0, section 6",
    },
    Topic {
        names: &["batch-not-allowed"],
        title: "a batch where none is allowed",
        what: "MCP has batches only in 2025-03-26 and, by JSON-RPC, in 2024-11-05; never before the \
                   revision is agreed.",
        fault: "the sender",
        fix: "send the messages one by one, a line each",
        see: "MCP 2025-06-18, changelog",
    },
    Topic {
        names: &["duplicate-member"],
        title: "a member of the envelope stands twice",
        what: "Parsers differ in which of the two they take, so two programs on the way would read two \
                   messages. An id that stands twice is no id, so the answer goes out with null.",
        fault: "the sender",
        fix: "write each member once",
        see: "RFC 8259, section 4; docs/rough-edges.md",
    },
    Topic {
        names: &["no-version"],
        title: "\"jsonrpc\" is missing",
        what: "Every message says \"jsonrpc\":\"2.0\".",
        fault: "the sender",
        fix: "add it, also to responses and notifications",
        see: "JSON-RPC 2.0, section 4",
    },
    Topic {
        names: &["bad-version"],
        title: "\"jsonrpc\" is not the string \"2.0\"",
        what: "The number 2.0 is not the string, and 1.0 is another protocol.",
        fault: "the sender",
        fix: "write \"jsonrpc\":\"2.0\"",
        see: "JSON-RPC 2.0, section 4",
    },
    Topic {
        names: &["nothing-to-do"],
        title: "neither method nor result nor error",
        what: "Without one of the three it is neither a request, nor a notification, nor a response.",
        fault: "the sender",
        fix: "a void result is \"result\":{} in MCP, and not left out",
        see: "JSON-RPC 2.0, sections 4 and 5",
    },
    Topic {
        names: &["bad-method"],
        title: "\"method\" is not a string",
        what: "A method is named by a string.",
        fault: "the sender",
        fix: "write the name in quotes",
        see: "JSON-RPC 2.0, section 4",
    },
    Topic {
        names: &["method-and-outcome"],
        title: "\"method\" beside \"result\" or \"error\"",
        what: "It asks and answers at once, so it is neither a request nor a response.",
        fault: "the sender",
        fix: "leave out the members that do not belong: unset fields must not be written as null either",
        see: "JSON-RPC 2.0, sections 4 and 5",
    },
    Topic {
        names: &["result-and-error"],
        title: "\"result\" beside \"error\"",
        what: "A response has one of the two. An \"error\":null beside a result, as JSON-RPC 1.0 had \
                   it, is one too many.",
        fault: "the sender",
        fix: "leave out the one that is not meant",
        see: "JSON-RPC 2.0, section 5",
    },
    Topic {
        names: &["bad-params"],
        title: "\"params\" is neither an object nor an array",
        what: "Parameters are by name or by position. null is neither.",
        fault: "the sender",
        fix: "leave params out if there are none; put a single value into an object",
        see: "JSON-RPC 2.0, section 4.2",
    },
    Topic {
        names: &["null-id"],
        title: "\"id\" is null",
        what: "A null id is not an absent one: this is no notification. MCP forbids it, and JSON-RPC \
                   keeps it for answers to what could not be read.",
        fault: "the sender, often a serialiser that writes unset fields as null",
        fix: "leave id out for a notification, set it for a request",
        see: "JSON-RPC 2.0, section 4; MCP base protocol, requests",
    },
    Topic {
        names: &["bad-id"],
        title: "\"id\" is neither a string nor a number",
        what: "true, an object or an array cannot be an id.",
        fault: "the sender",
        fix: "use an integer or a string",
        see: "JSON-RPC 2.0, section 4",
    },
    Topic {
        names: &["no-id"],
        title: "a result without an id",
        what: "Nothing says which request it answers.",
        fault: "the sender",
        fix: "copy the id of the request into the response, as it was written",
        see: "JSON-RPC 2.0, section 5",
    },
    Topic {
        names: &["bad-error"],
        title: "\"error\" is not an error object",
        what: "It must be an object with an integer code and a string message, each there once.",
        fault: "the sender",
        fix: "write {\"code\":-32603,\"message\":\"…\"}; a failed tool is a result with isError instead",
        see: "JSON-RPC 2.0, section 5.1",
    },
];
