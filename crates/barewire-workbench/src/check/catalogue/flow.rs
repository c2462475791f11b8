//! Several things at once: pages, progress, cancelling, concurrency.

use super::Reference::{Cwe, Mcp};
use super::{BASE, Category, Check, LIVE, LIVE_ANYWHERE, Level, Severity};

pub(super) const CHECKS: &[&Check] =
    &[&PAGINATION, &BAD_CURSOR, &PROGRESS_RULES, &CANCELLATION, &CONCURRENCY, &LATE_ANSWER];

pub(crate) static PAGINATION: Check = Check {
    id: "pagination",
    title: "Pages come to an end",
    why: "A client follows nextCursor until there is none. A cursor that leads back to itself keeps it busy for ever.",
    severity: Severity::High,
    rationale: "a client that trusts the server never ends",
    looks_at: "every list, page by page",
    pass: "there is a last page, and no cursor comes twice",
    fail: "a cursor comes again, is no string, is refused though the server gave it, or there are more than 1000 pages",
    skip: "the server has no lists",
    sentence: "the pages of a list cannot be followed to their end",
    remedy: "Leave nextCursor out on the last page. Make the cursor from the last element that was given.",
    example: r#"{"tools":[…],"nextCursor":"eyJhZnRlciI6Inp6eiJ9"}"#,
    see: &["bad-cursor", "list-order"],
    references: &[Mcp("2025-11-25/server/utilities/pagination"), Cwe(835, "Loop with Unreachable Exit Condition")],
    category: Category::Flow,
    places: LIVE_ANYWHERE,
    ..BASE
};

pub(crate) static BAD_CURSOR: Check = Check {
    id: "bad-cursor",
    title: "A cursor that nobody gave is an error",
    why: "A client with an old cursor that gets the first page once more shows everything twice.",
    severity: Severity::Low,
    rationale: "only clients that keep cursors get there",
    looks_at: "a list with a cursor that the server has not given",
    pass: "an error with the code -32602",
    fail: "a result, another code, or no answer",
    skip: "the server has no lists",
    sentence: "a cursor that the server has not given is accepted",
    level: Level::Should,
    remedy: "Check the cursor, also in a server that has only one page.",
    example: r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Invalid cursor"}}"#,
    see: &["pagination", "invalid-params"],
    references: &[Mcp("2025-11-25/server/utilities/pagination#error-handling")],
    category: Category::Flow,
    places: LIVE_ANYWHERE,
    needs: &["early-exit", "mute-server", "handshake", "pagination"],
    ..BASE
};

pub(crate) static PROGRESS_RULES: Check = Check {
    id: "progress-rules",
    title: "Progress grows, has the token of a request, and stops with it",
    why: "A client keeps a bar for each token. One that goes back, or that belongs to nothing, is shown as a fault or resets the \
          time limit of the wrong request.",
    severity: Severity::Medium,
    rationale: "what is shown is wrong; time limits may be reset for ever",
    looks_at: "notifications/progress, and the requests that gave their tokens",
    pass: "each has a token of a request that is in flight, and more progress than the one before",
    fail: "the token is of no request in flight, or progress does not increase",
    skip: "no progress was seen",
    sentence: "progress does not keep to its request",
    remedy: "Send progress only with the token of the request, only with a greater number, and not after the answer.",
    example: r#"{"method":"notifications/progress","params":{"progressToken":"t","progress":2,"total":10}}"#,
    see: &["cancellation", "notification-silence"],
    references: &[Mcp("2025-11-25/basic/utilities/progress"), Mcp("2026-07-28/basic/patterns/progress")],
    category: Category::Flow,
    ..BASE
};

pub(crate) static CANCELLATION: Check = Check {
    id: "cancellation",
    title: "A cancel for nothing is ignored",
    why: "A cancel crosses its answer on the way all the time. A server that fails on it fails by chance.",
    severity: Severity::Medium,
    rationale: "connections break by chance",
    looks_at: "notifications/cancelled for a request that was never made, for one that is answered, and without an id",
    pass: "nothing comes for it, and the connection goes on",
    fail: "it is answered, or the connection does not go on",
    skip: "no MCP server answers",
    sentence: "a cancel for nothing is not ignored",
    level: Level::Should,
    remedy: "Look the request up; if it is not there, do nothing.",
    example: r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":123}}"#,
    see: &["late-answer", "notification-silence"],
    references: &[
        Mcp("2025-11-25/basic/utilities/cancellation#error-handling"),
        Mcp("2026-07-28/basic/patterns/cancellation"),
    ],
    category: Category::Flow,
    places: LIVE,
    needs: &["early-exit", "mute-server", "handshake", "notification-silence"],
    ..BASE
};

pub(crate) static LATE_ANSWER: Check = Check {
    id: "late-answer",
    title: "What is cancelled stops",
    why: "A user who presses stop expects that it stops. A tool that goes on costs money and time, and may change what nobody wants \
          changed any more.",
    severity: Severity::Medium,
    rationale: "work is done for nobody",
    looks_at: "a call of a tool that takes longer than a fifth of a second, cancelled at its beginning; answers in a capture that \
               come more than two seconds after the cancel",
    pass: "nothing more comes for it, but for what has crossed the cancel",
    fail: "it is answered as if it had not been cancelled, or its progress goes on. On stdio 2026-07-28 has that as a MUST NOT",
    skip: "no tool that may be called takes long enough",
    sentence: "a request goes on after it was cancelled",
    level: Level::Should,
    remedy: "Give handlers a token or signal that a cancel sets, and drop the answer of a request that is cancelled.",
    example: "const res = await fetch(url, { signal: extra.signal })",
    see: &["cancellation", "concurrency", "progress-rules"],
    references: &[Mcp("2025-11-25/basic/utilities/cancellation"), Mcp("2026-07-28/basic/transports/stdio")],
    category: Category::Flow,
    // A cancel that is not read while the call runs cannot stop it.
    needs: &["early-exit", "mute-server", "handshake", "concurrency"],
    ..BASE
};

pub(crate) static CONCURRENCY: Check = Check {
    id: "concurrency",
    title: "A slow call does not hold up the others",
    why: "Hosts send several calls at once, and a ping in between. A server that does one after the other looks dead while it works, \
          and cannot be told to stop.",
    severity: Severity::Medium,
    rationale: "everything else waits, and cancelling does not work",
    looks_at: "a light request sent right behind a call that takes longer than a fifth of a second",
    pass: "the light one is answered before the call",
    fail: "it is answered after the call",
    skip: "no tool that may be called takes long enough",
    sentence: "a slow call holds up everything behind it",
    level: Level::Ours,
    remedy: "Start handlers as tasks or threads, and go on reading.",
    example: "asyncio.create_task(handle(request))  # not: await handle(request)",
    see: &["late-answer", "coalesced-input", "ping"],
    references: &[Mcp("2025-11-25/basic/utilities/ping")],
    category: Category::Flow,
    places: LIVE_ANYWHERE,
    ..BASE
};
