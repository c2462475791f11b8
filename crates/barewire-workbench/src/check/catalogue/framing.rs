//! Checks of bytes: lines, partial lines, and lines that are not messages.

use super::Bound::{Receiver, Sender, Server};
use super::Document::Page;
use super::Reference::{Cwe, Other};
use super::rule::{must, states, written};
use super::{Category, Check, HostFact, LEGACY, LIVE, LIVE_ANYWHERE, Level, MODERN, Rule, Severity, host};

pub(super) const CHECKS: &[&Check] = &[
    &STDOUT_PURITY,
    &ONE_MESSAGE_A_LINE,
    &SPLIT_INPUT,
    &COALESCED_INPUT,
    &CRLF_INPUT,
    &LINE_SEPARATORS,
    &BLANK_LINES,
    &LARGE_MESSAGE,
    &DEEP_NESTING,
    &INVALID_UTF8,
];

const BASE: Check = Check { category: Category::Framing, needs: &[], ..super::BASE };

/// The default fields of a check that sends unusual bytes.
const HOSTILE: Check = Check { category: Category::Framing, level: Level::Ours, places: LIVE, ..super::HOSTILE };

pub(crate) static STDOUT_PURITY: Check = Check {
    id: "stdout-purity",
    title: "stdout carries only messages",
    why: "A host reads messages from stdout. A banner, a log line or the output of a library between two messages \
          breaks hosts that parse every line, so that none of the server's tools work.",
    severity: Severity::Critical,
    rationale: "hosts refuse the server, or lose the message that the text is mixed with",
    looks_at: "every line that the server writes to stdout",
    pass: "every line is a JSON object or array",
    fail: "a line is anything else, or is an object that has none of the members jsonrpc, \
           method, id, params, result and error",
    skip: "no line was seen",
    sentence: "a line on stdout is not a message",
    rules: &[&written(
        Server,
        &[
            must(LEGACY, Page("basic/transports"), "stdio", "MUST NOT write anything to its stdout"),
            must(MODERN, Page("basic/transports/stdio"), "", "MUST NOT write anything to its stdout"),
        ],
    )],
    hosts: &[
        host(
            "Claude Desktop",
            "reports Unexpected token and disconnects",
            "https://github.com/run-llama/mcp-server-llamacloud/issues/5",
        ),
        host(
            "Claude Desktop",
            "loses the answer that the text is mixed with",
            "https://github.com/sbroenne/mcp-server-excel/issues/636",
        ),
    ],
    remedy: "Log to stderr. Look for print, console.log, progress bars, and banners of libraries and package runners. \
             If the line is a Content-Length header, the server uses LSP framing; MCP has one message per line.",
    example: "console.error(\"listening\");  // not console.log",
    see: &["jsonrpc-messages", "one-message-a-line", "stderr-hygiene"],
    references: &[Cwe(116, "Improper Encoding or Escaping of Output")],
    ..BASE
};

pub(crate) static ONE_MESSAGE_A_LINE: Check = Check {
    id: "one-message-a-line",
    title: "A message contains no line breaks",
    why: "A message ends at the line break, so pretty-printed JSON is read as many lines, none of which is a message.",
    severity: Severity::Critical,
    rationale: "no host can read the message",
    looks_at: "lines on stdout that are not valid JSON alone, but are valid together with the lines after them",
    pass: "every message is one line",
    fail: "a message spans several lines",
    skip: "no line was seen",
    sentence: "a message contains line breaks",
    rules: &[&written(
        Sender,
        &[
            must(LEGACY, Page("basic/transports"), "stdio", "MUST NOT contain embedded newlines"),
            must(MODERN, Page("basic/transports/stdio"), "", "MUST NOT contain embedded newlines"),
        ],
    )],
    hosts: &[host(
        "clients on the TypeScript SDK",
        "parse each line alone, and read no such message",
        "https://github.com/modelcontextprotocol/typescript-sdk/blob/v1.29.0/src/shared/stdio.ts",
    )],
    remedy: "Write JSON without indentation.",
    example: "json.dumps(message)  # without indent=",
    see: &["stdout-purity", "split-input"],
    ..BASE
};

static DELIMITED_BY_NEWLINES: Rule = written(
    Receiver,
    &[
        states(LEGACY, Page("basic/transports"), "stdio", "Messages are delimited by newlines"),
        states(MODERN, Page("basic/transports/stdio"), "", "Messages are delimited by newlines"),
    ],
);

/// What happens to a request that the server has lost.
const UNANSWERED: HostFact = host(
    "clients on the TypeScript SDK",
    "give up after 60 seconds with -32001",
    "https://github.com/modelcontextprotocol/typescript-sdk/issues/245",
);

pub(crate) static SPLIT_INPUT: Check = Check {
    id: "split-input",
    title: "A message that arrives in several reads is understood",
    why: "A pipe delivers bytes as they arrive. A large request always takes several reads, and on a busy machine a \
          small request sometimes does too. A server that parses each read separately loses requests at random.",
    severity: Severity::High,
    rationale: "requests are lost at random",
    looks_at: "a request written in three parts with pauses between them; one cut is inside a multi-byte character",
    pass: "the request is answered with a result",
    fail: "the request is answered with an error, or not at all",
    sentence: "a message that arrives in several reads is not understood",
    level: Level::Stated,
    rules: &[&DELIMITED_BY_NEWLINES],
    hosts: &[UNANSWERED],
    remedy: "Buffer the input until a newline arrives. Only then decode the line as UTF-8 and parse it.",
    example: "buffer += chunk; while ((end = buffer.indexOf(10)) >= 0) { handle(buffer.subarray(0, end)); … }",
    see: &["coalesced-input", "large-message"],
    ..HOSTILE
};

pub(crate) static COALESCED_INPUT: Check = Check {
    id: "coalesced-input",
    title: "All messages that arrive in one read are handled",
    why: "A host may write several requests at once, and one read then returns all of them.",
    severity: Severity::High,
    rationale: "all but the first request of a read may be lost",
    looks_at: "twenty requests in one write",
    pass: "all requests are answered",
    fail: "some requests are not answered",
    sentence: "some of the messages that arrive in one read are lost",
    level: Level::Stated,
    rules: &[&DELIMITED_BY_NEWLINES],
    hosts: &[UNANSWERED],
    remedy: "After a message, look for the next newline in the buffer before reading again.",
    example: "for (const line of chunk.split(\"\\n\")) …  // every line, not only the first",
    see: &["split-input", "concurrency"],
    ..HOSTILE
};

pub(crate) static CRLF_INPUT: Check = Check {
    id: "crlf-input",
    title: "A line that ends in CRLF is accepted",
    why: "Clients on Windows and proxies that use text streams end lines with \\r\\n. For JSON the \\r is white space.",
    rationale: "all requests of such clients fail, but there are few such clients",
    looks_at: "a request that ends in \\r\\n",
    pass: "the request is answered with a result",
    fail: "the request is answered with an error, or not at all",
    sentence: "a line that ends in CRLF is not understood",
    remedy: "Pass the \\r to the JSON parser, which skips it as white space, or remove the \\r.",
    example: "line.trim_end_matches('\\r')",
    see: &["blank-lines", "split-input"],
    references: &[Other("RFC 8259, section 2", "https://www.rfc-editor.org/rfc/rfc8259#section-2")],
    ..HOSTILE
};

pub(crate) static LINE_SEPARATORS: Check = Check {
    id: "line-separators",
    title: "Only a newline ends a message",
    why: "Text from documents contains the line separators of Unicode: U+2028, U+2029 and U+0085. JSON allows them in \
          strings, but functions such as str.splitlines of Python split text there, and tear the message.",
    severity: Severity::High,
    rationale: "calls whose arguments contain such a character are lost",
    looks_at: "a request with U+2028, U+2029 and U+0085 in a string",
    pass: "the request is answered, with a result or an error about something else",
    fail: "the request is answered with -32700 or -32600, or not at all",
    sentence: "a message is torn at a line separator of Unicode",
    level: Level::Stated,
    rules: &[&DELIMITED_BY_NEWLINES],
    hosts: &[UNANSWERED],
    remedy: "Split the input at the byte 0a and nowhere else.",
    example: "for line in sys.stdin.buffer: …  # not: data.decode().splitlines()",
    see: &["crlf-input", "split-input"],
    ..HOSTILE
};

pub(crate) static BLANK_LINES: Check = Check {
    id: "blank-lines",
    title: "Blank lines are skipped",
    why: "Typing messages by hand, or joining files of messages, leaves blank lines. A blank line is not a message.",
    severity: Severity::Low,
    rationale: "at worst, the server sends an unnecessary error response",
    looks_at: "blank lines between two requests",
    pass: "the blank lines get no response, and the request after them gets one",
    fail: "a blank line is answered, or ends the connection",
    sentence: "a blank line is treated as a message",
    remedy: "Skip lines of only white space before parsing.",
    example: "if not line.strip(): continue",
    see: &["crlf-input", "parse-error-recovery"],
    ..HOSTILE
};

pub(crate) static LARGE_MESSAGE: Check = Check {
    id: "large-message",
    title: "A message of one mebibyte is answered",
    why: "Files and pictures are sent as arguments. A server with an undocumented limit fails when one is too large.",
    rationale: "only large calls fail, but they often break the connection",
    looks_at: "a request with a string of one mebibyte, and a request after it",
    pass: "both requests are answered, the large one with a result or an error",
    fail: "the large request is not answered, or the server stops answering",
    sentence: "the server does not handle a message of one mebibyte",
    remedy: "Raise the limit of the reader (the default of asyncio's StreamReader is 64 KiB), or answer a message that \
             is too long with an error that has the id of the message, and continue with the next message.",
    example: "await asyncio.open_connection(…, limit=64 * 1024 * 1024)",
    see: &["deep-nesting", "split-input"],
    references: &[Cwe(770, "Allocation of Resources Without Limits or Throttling")],
    places: LIVE_ANYWHERE,
    ..HOSTILE
};

pub(crate) static DEEP_NESTING: Check = Check {
    id: "deep-nesting",
    title: "Deeply nested JSON does not crash the server",
    why: "A parser that recurses for every bracket overflows its stack and crashes: one line of 200 KB is enough.",
    rationale: "one message stops the server for all clients, but no host is known to send one",
    looks_at: "a request with 100,000 nested arrays, and a request after it",
    pass: "the second request is answered",
    fail: "the process exits, or stops answering",
    sentence: "a deeply nested message takes the server down",
    remedy: "Use a parser with a depth limit, and answer a message that exceeds the limit with -32600 or -32700.",
    example: r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"nested deeper than 128 levels"}}"#,
    see: &["large-message", "parse-error-recovery"],
    references: &[Cwe(674, "Uncontrolled Recursion")],
    places: LIVE_ANYWHERE,
    // The message is 200 KB long, so the server must be able to read large messages.
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery", "large-message"],
    ..HOSTILE
};

pub(crate) static INVALID_UTF8: Check = Check {
    id: "invalid-utf8",
    title: "Bytes that are not UTF-8 do not crash the server",
    why: "A client can send bytes that are not UTF-8 by accident, for example in a file name in another encoding. If \
          the server decodes stdin as a stream, the decoder fails outside of any handler, and the process exits. From \
          2025-03-26 on, UTF-8 is a MUST of the sender; how a receiver treats other bytes is good practice.",
    rationale: "one byte stops the server for all clients, but no host is known to send one",
    looks_at: "a request with the byte ff in a string, and a request after it",
    pass: "the second request is answered",
    fail: "the process exits, or stops answering",
    sentence: "a byte that is not UTF-8 takes the server down",
    remedy: "Read bytes, split them into lines, and decode each line separately; answer invalid UTF-8 with -32700.",
    example: "for line in sys.stdin.buffer: try: text = line.decode(\"utf-8\") …",
    see: &["parse-error-recovery", "split-input"],
    references: &[Cwe(176, "Improper Handling of Unicode Encoding")],
    places: LIVE_ANYWHERE,
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery"],
    ..HOSTILE
};
