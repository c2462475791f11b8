//! Bytes: lines, pieces of lines, and what is no line of the protocol.

use super::Reference::{Cwe, Mcp, Other};
use super::{BASE, Category, Check, LIVE, LIVE_ANYWHERE, Level, Severity};

pub(super) const CHECKS: &[&Check] = &[
    &STDOUT_PURITY,
    &ONE_MESSAGE_A_LINE,
    &SPLIT_INPUT,
    &COALESCED_INPUT,
    &CRLF_INPUT,
    &BLANK_LINES,
    &LARGE_MESSAGE,
    &DEEP_NESTING,
    &INVALID_UTF8,
];

pub(crate) static STDOUT_PURITY: Check = Check {
    id: "stdout-purity",
    title: "Nothing but messages on stdout",
    why: "stdout is the wire. A banner, a log line or the output of a library between two messages breaks hosts that parse every \
          line, and with it every tool of the server.",
    severity: Severity::Critical,
    rationale: "hosts refuse the server, or lose the message that the text is mixed with",
    looks_at: "every line that the server writes to stdout",
    pass: "every line is a JSON object or array",
    fail: "a line is something else",
    skip: "no line was seen",
    sentence: "something on stdout is no message",
    remedy: "Log to stderr. Look for print, console.log, progress bars and banners of libraries and package runners. If the line \
             is a Content-Length header, the server speaks the framing of LSP: MCP has a message a line.",
    example: "console.error(\"listening\");  // not console.log",
    see: &["jsonrpc-messages", "one-message-a-line", "stderr-hygiene"],
    references: &[
        Mcp("2025-11-25/basic/transports#stdio"),
        Mcp("2026-07-28/basic/transports/stdio"),
        Cwe(116, "Improper Encoding or Escaping of Output"),
    ],
    category: Category::Framing,
    needs: &[],
    ..BASE
};

pub(crate) static ONE_MESSAGE_A_LINE: Check = Check {
    id: "one-message-a-line",
    title: "A message has no line breaks",
    why: "A message ends at the line break. Pretty-printed JSON is a dozen lines that are no messages.",
    severity: Severity::Critical,
    rationale: "no host can read it",
    looks_at: "lines on stdout that are no JSON by themselves, and are together with those behind them",
    pass: "every message is one line",
    fail: "a message is spread over several lines",
    skip: "no line was seen",
    sentence: "a message has line breaks in it",
    remedy: "Write JSON without indentation.",
    example: "json.dumps(message)  # without indent=",
    see: &["stdout-purity", "split-input"],
    references: &[Mcp("2025-11-25/basic/transports#stdio"), Mcp("2026-07-28/basic/transports/stdio")],
    category: Category::Framing,
    needs: &[],
    ..BASE
};

pub(crate) static SPLIT_INPUT: Check = Check {
    id: "split-input",
    title: "A message that comes in pieces is read whole",
    why: "A pipe gives out bytes as they come. A large request always comes in several reads, and a small one does when the \
          machine is busy: a server that parses each read loses requests now and then, and nobody can reproduce it.",
    severity: Severity::High,
    rationale: "requests are lost by chance",
    looks_at: "a request that is written in three pieces, with pauses between them, one cut inside a character of several bytes",
    pass: "it is answered with a result",
    fail: "it is not answered, or refused",
    skip: "hostile input is not allowed here",
    sentence: "a message that comes in pieces is not understood",
    level: Level::Ours,
    remedy: "Keep what was read until there is a line break, and parse then. Decode UTF-8 behind that, not before.",
    example: "buffer += chunk; while ((end = buffer.indexOf(10)) >= 0) { handle(buffer.subarray(0, end)); … }",
    see: &["coalesced-input", "large-message"],
    references: &[Mcp("2025-11-25/basic/transports#stdio")],
    category: Category::Framing,
    places: LIVE,
    hostile: true,
    ..BASE
};

pub(crate) static COALESCED_INPUT: Check = Check {
    id: "coalesced-input",
    title: "Messages that come at once are all read",
    why: "A host that sends several requests writes them in one go, and one read returns them all.",
    severity: Severity::High,
    rationale: "requests are lost by chance",
    looks_at: "twenty requests in one write",
    pass: "all are answered",
    fail: "some are not",
    skip: "hostile input is not allowed here",
    sentence: "of messages that come at once, some are lost",
    level: Level::Ours,
    remedy: "After a message, look for the next line break in what was read before reading again.",
    example: "for (const line of chunk.split(\"\\n\")) …  // all of them, not the first",
    see: &["split-input", "concurrency"],
    references: &[Mcp("2025-11-25/basic/transports#stdio")],
    category: Category::Framing,
    places: LIVE,
    hostile: true,
    ..BASE
};

pub(crate) static CRLF_INPUT: Check = Check {
    id: "crlf-input",
    title: "A line may end in CRLF",
    why: "Clients on Windows, and proxies that go through text streams, end lines with \\r\\n. The \\r is white space to JSON.",
    severity: Severity::Medium,
    rationale: "all requests of such a client fail, but there are few of them",
    looks_at: "a request that ends in \\r\\n",
    pass: "it is answered with a result",
    fail: "it is refused or not answered",
    skip: "hostile input is not allowed here",
    sentence: "a line that ends in CRLF is not understood",
    level: Level::Ours,
    remedy: "Let the JSON parser see the \\r, to which it is white space, or cut it off.",
    example: "line.trim_end_matches('\\r')",
    see: &["blank-lines", "split-input"],
    references: &[Other("RFC 8259, section 2", "https://www.rfc-editor.org/rfc/rfc8259#section-2")],
    category: Category::Framing,
    places: LIVE,
    hostile: true,
    ..BASE
};

pub(crate) static BLANK_LINES: Check = Check {
    id: "blank-lines",
    title: "Blank lines are passed over",
    why: "Whoever types at a server, or joins files of messages, leaves blank lines. They say nothing.",
    severity: Severity::Low,
    rationale: "an answer to nothing at worst",
    looks_at: "blank lines between two requests",
    pass: "nothing comes for them, and the request behind them is answered",
    fail: "they are answered, or end the connection",
    skip: "hostile input is not allowed here",
    sentence: "a blank line is taken for a message",
    level: Level::Ours,
    remedy: "SkipReason lines that hold nothing but white space before parsing.",
    example: "if not line.strip(): continue",
    see: &["crlf-input", "parse-error-recovery"],
    references: &[],
    category: Category::Framing,
    places: LIVE,
    hostile: true,
    ..BASE
};

pub(crate) static LARGE_MESSAGE: Check = Check {
    id: "large-message",
    title: "A message of a mebibyte is answered",
    why: "Files and pictures are sent as arguments. A server whose reader has a limit that nobody knows of ends in the middle of \
          such a call.",
    severity: Severity::Medium,
    rationale: "only large calls fail, but then the connection often goes with them",
    looks_at: "a request with a string of one mebibyte, and a request behind it",
    pass: "both are answered; the large one with a result or an error",
    fail: "the large one is not answered, or the server does not go on",
    skip: "hostile input is not allowed here",
    sentence: "a message of a mebibyte is too much for the server",
    level: Level::Ours,
    remedy: "Give the reader room (asyncio's StreamReader has a limit of 64 KiB), or answer what is too long with an error \
             under its id and read on behind it.",
    example: "await asyncio.open_connection(…, limit=64 * 1024 * 1024)",
    see: &["deep-nesting", "split-input"],
    references: &[Cwe(770, "Allocation of Resources Without Limits or Throttling")],
    category: Category::Framing,
    places: LIVE_ANYWHERE,
    hostile: true,
    ..BASE
};

pub(crate) static DEEP_NESTING: Check = Check {
    id: "deep-nesting",
    title: "Deep nesting does not end the server",
    why: "A parser that calls itself for every bracket runs out of stack, and the process is gone: one line of 200 KB is enough.",
    severity: Severity::High,
    rationale: "one message ends the server for everybody",
    looks_at: "a request with 100,000 nested arrays, and a request behind it",
    pass: "the request behind it is answered",
    fail: "the server ends, or answers nothing any more",
    skip: "hostile input is not allowed here",
    sentence: "a deeply nested message ends the server",
    level: Level::Ours,
    remedy: "Use a parser with a limit of depth, and answer what is beyond it with -32600 or -32700.",
    example: r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"nested deeper than 128 levels"}}"#,
    see: &["large-message", "parse-error-recovery"],
    references: &[Cwe(674, "Uncontrolled Recursion")],
    category: Category::Framing,
    places: LIVE_ANYWHERE,
    hostile: true,
    // It is 200 KB long.
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery", "large-message"],
    ..BASE
};

pub(crate) static INVALID_UTF8: Check = Check {
    id: "invalid-utf8",
    title: "Bytes that are not UTF-8 do not end the server",
    why: "A file name in another encoding is enough to get there. A reader that decodes the stream as it comes fails outside of \
          any handler, and the process ends.",
    severity: Severity::High,
    rationale: "one byte ends the server for everybody",
    looks_at: "a request with the byte ff in a string, and a request behind it",
    pass: "the request behind it is answered",
    fail: "the server ends, or answers nothing any more",
    skip: "hostile input is not allowed here",
    sentence: "a byte that is not UTF-8 ends the server",
    level: Level::Ours,
    remedy: "Read bytes, cut lines, and decode each line by itself; answer one that is not UTF-8 with -32700.",
    example: "for line in sys.stdin.buffer: try: text = line.decode(\"utf-8\") …",
    see: &["parse-error-recovery", "split-input"],
    references: &[Mcp("2025-11-25/basic/transports"), Cwe(176, "Improper Handling of Unicode Encoding")],
    category: Category::Framing,
    places: LIVE_ANYWHERE,
    hostile: true,
    needs: &["early-exit", "mute-server", "handshake", "parse-error-recovery"],
    ..BASE
};
