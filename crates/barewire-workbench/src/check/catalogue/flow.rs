//! Checks of sequences of requests and of concurrent requests: pages, progress, cancellation, concurrency.

use super::Bound::{Receiver, Sender, Server};
use super::Document::Page;
use super::Reference::{Cwe, Mcp};
use super::rule::{Sentence, must, should, written};
use super::{ALL, Category, Check, CheckPlace, LEGACY, LIVE_ANYWHERE, Level, MODERN, Rule, Severity, host};

pub(super) const CHECKS: &[&Check] = &[
    &PAGINATION,
    &BAD_CURSOR,
    &PROGRESS_RULES,
    &CANCELLATION,
    &CONCURRENCY,
    &LATE_ANSWER,
    &CANCELLED_ANSWER,
    &ANSWERS_AT_EOF,
];

const BASE: Check = Check { category: Category::Flow, ..super::BASE };
/// The default fields of a check that sends its own input.
const LIVE: Check = Check { places: LIVE_ANYWHERE, ..BASE };

pub(crate) static PAGINATION: Check = Check {
    id: "pagination",
    title: "Every list has a last page",
    why: "A client requests pages until a result has no nextCursor. If a cursor is repeated, the client never stops.",
    severity: Severity::High,
    rationale: "a client that trusts the server never finishes",
    looks_at: "every list, page by page",
    pass: "there is a last page, and no cursor is repeated",
    fail: "a cursor is repeated, is not a string or is refused by the server that issued it, although the list has not \
           changed; ten pages in a row have only entries of earlier pages; or there are more than 1000 pages",
    skip: "the server has no lists",
    sentence: "the pages of a list cannot be followed to the end",
    level: Level::Should,
    rules: &[&written(
        Server,
        &[should(ALL, Page("server/utilities/pagination"), "Implementation Guidelines", "Provide stable cursors")],
    )],
    hosts: &[
        host(
            "Claude Code",
            "lists every tool many times",
            "https://github.com/DeusData/codebase-memory-mcp/issues/1247",
        ),
        host("clients on the C# SDK", "never stop", "https://github.com/modelcontextprotocol/csharp-sdk/issues/1072"),
    ],
    remedy: "Omit nextCursor on the last page. Derive each cursor from the last element of its page.",
    example: r#"{"tools":[…],"nextCursor":"eyJhZnRlciI6Inp6eiJ9"}"#,
    see: &["bad-cursor", "list-order"],
    references: &[Cwe(835, "Loop with Unreachable Exit Condition")],
    ..LIVE
};

pub(crate) static BAD_CURSOR: Check = Check {
    id: "bad-cursor",
    title: "An unknown cursor is rejected with -32602",
    why: "If a server ignores an outdated cursor and returns the first page again, the client shows every element \
          twice.",
    severity: Severity::Low,
    rationale: "only clients that store cursors are affected",
    looks_at: "a list request with a cursor that the server has not issued, if the server issues cursors",
    pass: "the response is an error with code -32602",
    fail: "the response is a result or has another code, or there is no response",
    skip: "the server has no lists, or each of them has only one page",
    sentence: "a cursor that the server has not issued is not rejected with -32602",
    level: Level::Should,
    rules: &[&written(
        Server,
        &[should(ALL, Page("server/utilities/pagination"), "Error Handling", "Invalid cursors SHOULD result")],
    )],
    remedy: "Look the cursor up before the page is read, and answer with -32602 if it is unknown.",
    example: r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Invalid cursor"}}"#,
    see: &["pagination", "invalid-params"],
    needs: &["early-exit", "mute-server", "handshake", "pagination"],
    version: 2,
    history: &[(1, "first"), (2, "servers whose lists have one page may ignore cursors")],
    ..LIVE
};

/// Progress without the token of a request in flight.
pub(crate) static PROGRESS_TOKEN: Rule = written(
    Sender,
    &[
        must(LEGACY, Page("basic/utilities/progress"), "Behavior Requirements", "MUST only reference tokens"),
        must(MODERN, Page("basic/patterns/progress"), "Behavior Requirements", "MUST only reference tokens"),
    ],
);
/// Progress whose value does not increase.
pub(crate) static PROGRESS_INCREASES: Rule = written(
    Sender,
    &[
        must(LEGACY, Page("basic/utilities/progress"), "Progress Flow", "MUST increase with each notification"),
        must(MODERN, Page("basic/patterns/progress"), "Progress Flow", "MUST increase with each notification"),
    ],
);

pub(crate) static PROGRESS_RULES: Check = Check {
    id: "progress-rules",
    title: "Progress increases, carries the token of a request, and stops with the request",
    why: "A client keeps a progress bar for each token. Progress that decreases or that has an unknown token is shown \
          as an error, or extends the time limit of the wrong request.",
    rationale: "the displayed progress is wrong, and time limits can be extended forever",
    looks_at: "notifications/progress, and the requests that contain the tokens",
    pass: "each notification has the token of a request in flight, and a higher value than the notification before it",
    fail: "no request in flight has the token, or the value does not increase",
    skip: "no progress was seen",
    sentence: "a progress notification has an unknown token, or its value does not increase",
    rules: &[&PROGRESS_TOKEN, &PROGRESS_INCREASES],
    remedy: "Send progress only with the token of the request, with increasing values, and before the response.",
    example: r#"{"method":"notifications/progress","params":{"progressToken":"t","progress":2,"total":10}}"#,
    see: &["cancellation", "notification-silence"],
    ..BASE
};

pub(crate) static CANCELLATION: Check = Check {
    id: "cancellation",
    title: "The cancellation of an unknown or finished request is ignored",
    why: "A cancellation and the response often cross on the wire. A server that does not expect this fails at random.",
    rationale: "connections break at random",
    looks_at: "notifications/cancelled for a request that was never sent, for a request that is already answered, and \
               without a request id",
    pass: "the server sends nothing in response, and the connection keeps working",
    fail: "a cancellation is answered, or the connection stops working",
    sentence: "the cancellation of an unknown or finished request is not ignored",
    level: Level::Should,
    rules: &[&written(
        Receiver,
        &[
            should(
                LEGACY,
                Page("basic/utilities/cancellation"),
                "Error Handling",
                "Invalid cancellation notifications SHOULD be",
            ),
            should(
                MODERN,
                Page("basic/patterns/cancellation"),
                "Error Handling",
                "Invalid cancellation notifications SHOULD be",
            ),
        ],
    )],
    remedy: "Look the request up. If it is not in flight, do nothing.",
    example: r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":123}}"#,
    see: &["late-answer", "notification-silence"],
    places: &[CheckPlace::Stdio],
    needs: &["early-exit", "mute-server", "handshake", "notification-silence"],
    ..BASE
};

const NO_MORE_MESSAGES: Sentence =
    must(MODERN, Page("basic/transports/stdio"), "Cancellation", "MUST NOT send any further messages for it");

pub(crate) static LATE_ANSWER: Check = Check {
    id: "late-answer",
    title: "A cancelled request stops",
    why: "A tool that continues after the user pressed stop costs money, and can make unwanted changes.",
    rationale: "the server does work that no client waits for",
    looks_at: "a tool call that takes longer than 200 ms and is cancelled soon after its start; in a capture, results \
               and progress that arrive more than two seconds after the cancellation",
    pass: "after the cancellation no message for the request arrives, except messages that were already on their way",
    fail: "the request gets a result, or its progress continues",
    skip: "no tool that may be called repeatedly takes longer than 200 ms",
    sentence: "a request continues after it was cancelled",
    rules: &[&written(
        Receiver,
        &[
            should(
                LEGACY,
                Page("basic/utilities/cancellation"),
                "Behavior Requirements",
                "Stop processing the cancelled request",
            ),
            NO_MORE_MESSAGES,
        ],
    )],
    remedy: "Give handlers a token or signal that a cancellation sets, and drop the response of a cancelled request.",
    example: "const res = await fetch(url, { signal: extra.signal })",
    see: &["cancellation", "concurrency", "progress-rules"],
    // A server that does not read while a call runs cannot see the cancellation.
    needs: &["early-exit", "mute-server", "handshake", "concurrency"],
    ..BASE
};

pub(crate) static CONCURRENCY: Check = Check {
    id: "concurrency",
    title: "A slow call does not block other requests",
    why: "Hosts send several calls at once, and pings between them. A server that handles one request after the other \
          looks dead while it works, and cannot receive a cancellation.",
    rationale: "every other request waits, and cancellation does not work",
    looks_at: "a ping or another quick request, sent right after a call that takes longer than 200 ms",
    pass: "the quick request is answered before the call",
    fail: "the quick request is answered after the call",
    skip: "no tool that may be called repeatedly takes longer than 200 ms",
    sentence: "a slow call blocks the requests after it",
    level: Level::Ours,
    remedy: "Run handlers as tasks or threads, and keep reading.",
    example: "asyncio.create_task(handle(request))  # not: await handle(request)",
    see: &["late-answer", "coalesced-input", "ping"],
    references: &[Mcp("2025-11-25/basic/utilities/ping")],
    ..LIVE
};

pub(crate) static CANCELLED_ANSWER: Check = Check {
    id: "cancelled-answer",
    title: "A cancelled request gets no response",
    why: "A client forgets a request that it has cancelled, and may report a response to it as an error. 2026-07-28 \
          allows no further message for the request on stdio.",
    severity: Severity::Low,
    rationale: "clients ignore the response, and some log a warning",
    looks_at: "two calls of a tool that takes longer than 200 ms, each cancelled soon after its start",
    pass: "at least one of the calls gets no response that its cancellation causes",
    fail: "both calls are answered with an error, or with a result sooner than without a cancellation. Since \
           2026-07-28 this is a MUST NOT on stdio",
    skip: "no tool that may be called repeatedly takes longer than 200 ms",
    sentence: "a cancelled request is answered",
    rules: &[&written(
        Receiver,
        &[
            should(
                LEGACY,
                Page("basic/utilities/cancellation"),
                "Behavior Requirements",
                "Not send a response for the cancelled request",
            ),
            NO_MORE_MESSAGES,
        ],
    )],
    remedy: "When a cancellation arrives, stop the handler and drop its response, also if it is an error.",
    example: r#"{"method":"notifications/cancelled","params":{"requestId":7}}  is followed by no response with id 7"#,
    see: &["late-answer", "cancellation"],
    // A server that does not read while a call runs cannot see the cancellation.
    needs: &["early-exit", "mute-server", "handshake", "concurrency"],
    ..LIVE
};

pub(crate) static ANSWERS_AT_EOF: Check = Check {
    id: "answers-at-eof",
    title: "Requests are answered that were sent before the end of the input",
    why: "A script writes its requests to stdin, closes it, and reads the responses. A host that stops closes stdin \
          while the last calls are still in flight. A server that exits at once loses responses that it owes.",
    severity: Severity::Low,
    rationale: "hosts wait for responses before they close stdin, but scripts and tests do not",
    looks_at: "two pings or similar requests, and between them a request for a list and a call of a tool that may be \
               called repeatedly and answers within a second, in one write, right before stdin is closed",
    pass: "all of them are answered before the output ends",
    fail: "one of them is not answered",
    sentence: "requests that were sent right before the end of the input are not answered",
    level: Level::Ours,
    remedy: "At the end of stdin, stop reading, wait for the handlers that are running, write their responses, then exit.",
    example: "async for line in stdin: tasks.add(handle(line))  …  await gather(*tasks)",
    see: &["eof-exit", "coalesced-input"],
    references: &[Mcp("2026-07-28/basic/transports/stdio#shutdown")],
    places: &[CheckPlace::Stdio],
    ..BASE
};
