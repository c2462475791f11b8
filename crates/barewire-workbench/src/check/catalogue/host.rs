//! Checks of hosts, which are clients: how a client handles everything that a server may send.

use super::Bound::Client;
use super::Document::Page;
use super::rule::{must, ours, should, written};
use super::{ALL, Category, Check, CheckPlace, LEGACY, Level, MODERN, Rule, Severity};

pub(super) const CHECKS: &[&Check] = &[
    &CLIENT_INITIALIZED,
    &CLIENT_VERSION,
    &CLIENT_PAGES,
    &CLIENT_CURSOR,
    &CLIENT_SPLIT_INPUT,
    &CLIENT_UNKNOWN_MEMBERS,
    &CLIENT_LINE_SEPARATORS,
    &CLIENT_LARGE_RESULT,
    &CLIENT_DEEP_RESULT,
    &CLIENT_LIST_CHANGED,
    &CLIENT_INPUT_ROUND,
    &CLIENT_SESSION_EXPIRED,
    &CLIENT_SHUTDOWN,
];

const BASE: Check = Check {
    category: Category::Host,
    places: &[CheckPlace::Host],
    needs: &[],
    severity: Severity::Medium,
    level: Level::Ours,
    rules: OURS,
    ..super::BASE
};

/// The rules of a check of good practice of clients.
const OURS: &[&Rule] = &[&ours(Client, ALL)];

const PAGINATION: super::Document = Page("server/utilities/pagination");

pub(crate) static CLIENT_INITIALIZED: Check = Check {
    id: "client-initialized",
    title: "The client completes the handshake",
    why: "A server waits for notifications/initialized before it sends requests of its own, such as roots/list. \
          Without this notification, such a server waits forever.",
    rationale: "a server that waits for the notification never asks for roots, and never sends what depends on them",
    looks_at: "the messages of the client after the response to initialize",
    pass: "the client sends notifications/initialized before its first request",
    fail: "the client sends a request other than ping first, or stays connected for 2 seconds without the notification",
    skip: "not seen: the host made no handshake that it completed or went on from",
    sentence: "the handshake is not completed",
    revisions: LEGACY,
    level: Level::Must,
    rules: &[&written(
        Client,
        &[must(LEGACY, Page("basic/lifecycle"), "Initialization", "the client MUST send an initialized notification")],
    )],
    remedy: "Send notifications/initialized as soon as the response to initialize is accepted.",
    example: r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    see: &["lifecycle-gate", "client-version"],
    ..BASE
};

pub(crate) static CLIENT_VERSION: Check = Check {
    id: "client-version",
    title: "A client leaves a server whose version it does not support",
    why: "If the server answers initialize with another version, the client must know that version to understand \
          what follows. A client that goes on regardless misreads the server at some later point.",
    rationale: "the session fails later, far from the cause",
    looks_at: "the messages of the client after the answer to initialize names a version that does not exist",
    pass: "the client closes the connection",
    fail: "the client goes on as if the version were agreed",
    skip: "not seen: the host made no handshake with a server of an unknown version",
    sentence: "the client accepts a version that it cannot support",
    revisions: LEGACY,
    level: Level::Should,
    rules: &[&written(
        Client,
        &[should(
            LEGACY,
            Page("basic/lifecycle"),
            "Version Negotiation",
            "If the client does not support the version in the server's response",
        )],
    )],
    remedy: "Compare the version in the response with the versions that you support, and disconnect if it is not \
             among them; tell the user both versions.",
    example: r#"if (!SUPPORTED.includes(result.protocolVersion)) { transport.close(); throw … }"#,
    see: &["version-negotiation", "client-initialized"],
    ..BASE
};

pub(crate) static CLIENT_PAGES: Check = Check {
    id: "client-pages",
    title: "A client reads all pages of a list",
    why: "A server may split a list at any place. A client that reads only the first page does not have the tools on \
          the others, and nothing tells its user so.",
    rationale: "tools, prompts or resources are missing without a sign",
    looks_at: "the requests that follow a page with nextCursor; one page has no items at all",
    pass: "the client requests the next page",
    fail: "the client does not request the next page",
    skip: "not seen: the host listed nothing",
    sentence: "the rest of a list is not requested",
    level: Level::Should,
    rules: &[&written(
        Client,
        &[should(ALL, PAGINATION, "Implementation Guidelines", "Support both paginated and non-paginated flows")],
    )],
    remedy: "Repeat the request with cursor set to nextCursor until a result has no nextCursor, even if a page has \
             no items.",
    example: r#"do { page = await list({ cursor }); all.push(...page.tools); cursor = page.nextCursor } while (cursor !== undefined)"#,
    see: &["pagination", "client-cursor"],
    ..BASE
};

pub(crate) static CLIENT_CURSOR: Check = Check {
    id: "client-cursor",
    title: "A client sends a cursor back unchanged",
    why: "Only the server knows the meaning of a cursor. A client that trims, decodes or rebuilds it gets an error, \
          or the wrong page.",
    rationale: "a page is missing or repeated",
    looks_at: "the cursors of list requests; the given ones have spaces, quotes, line separators and letters outside \
               ASCII, and in 2026-07-28 one is the empty string",
    pass: "each cursor is one that the server has given for this list",
    fail: "a cursor was never given, or a list ends at the empty cursor",
    skip: "not seen: the host sent no cursor",
    sentence: "a cursor is not sent back as it was given",
    level: Level::Must,
    rules: &[&written(
        Client,
        &[must(ALL, PAGINATION, "Implementation Guidelines", "Clients MUST treat cursors as opaque tokens")],
    )],
    remedy: "Keep nextCursor as the string that the server sent, and test whether it is there, not whether it is empty.",
    example: r#"{"method":"tools/list","params":{"cursor":"<exactly the last nextCursor>"}}"#,
    see: &["client-pages", "bad-cursor"],
    ..BASE
};

pub(crate) static CLIENT_SPLIT_INPUT: Check = Check {
    id: "client-split-input",
    title: "A client understands a message that arrives in several reads",
    why: "A pipe delivers bytes as they arrive, and a read may end inside a character. A client that decodes each read \
          by itself loses responses at random.",
    rationale: "responses are lost at random, and the user waits",
    looks_at: "a page of a list that is written in three parts with pauses; one cut is inside a multi-byte character",
    pass: "the client requests the page after it",
    fail: "the client does not go on after this page, although it went on after those before it",
    skip: "not seen: the host did not request this page of a list",
    sentence: "the client does not go on after a message in several parts",
    remedy: "Collect bytes until a newline arrives, and only then decode the line.",
    example: "const lines = createInterface({ input: child.stdout })",
    see: &["split-input", "client-pages"],
    ..BASE
};

pub(crate) static CLIENT_UNKNOWN_MEMBERS: Check = Check {
    id: "client-unknown-members",
    title: "A client ignores members that it does not know",
    why: "Newer servers send members that older clients do not know. A client that refuses them cannot use any server \
          that is newer than itself.",
    rationale: "the client cannot use a newer server",
    looks_at: "a page of a list with unknown members in the result, in a tool, in its schema and in its annotations",
    pass: "the client requests the page after it",
    fail: "the client does not go on after this page, although it went on after those before it",
    skip: "not seen: the host did not request this page of a list",
    sentence: "the client does not go on after unknown members",
    remedy: "Parse only the members that you use, and let the others pass.",
    example: "z.object({ … }).passthrough()",
    see: &["client-pages", "client-deep-result"],
    ..BASE
};

pub(crate) static CLIENT_LINE_SEPARATORS: Check = Check {
    id: "client-line-separators",
    title: "Only a newline ends a message for the client",
    why: "JSON allows U+2028, U+2029 and U+0085 unescaped in strings, but some readers of lines split there, such as \
          splitlines of Python. The two halves are then no messages.",
    rationale: "a description in another language breaks the session",
    looks_at: "a page of a list with these characters, emoji, escaped surrogates and escaped control characters",
    pass: "the client requests the page after it",
    fail: "the client does not go on after this page, although it went on after those before it",
    skip: "not seen: the host did not request this page of a list",
    sentence: "the client does not go on after unusual characters",
    remedy: "Split the output of the server at the byte 0x0A, before you decode it.",
    example: "for line in stdout.buffer:  # not .read().splitlines()",
    see: &["line-separators", "client-split-input"],
    ..BASE
};

pub(crate) static CLIENT_LARGE_RESULT: Check = Check {
    id: "client-large-result",
    title: "A client takes a result of one mebibyte",
    why: "An image or a file in a result takes a mebibyte easily. The reader of asyncio stops at 64 KiB by default, \
          and other readers have limits of their own.",
    rationale: "a large result ends the session",
    looks_at: "a page of a list of one mebibyte, in one line",
    pass: "the client requests the page after it",
    fail: "the client does not go on after this page, although it went on after those before it",
    skip: "not seen: the host did not request this page of a list",
    sentence: "the client does not go on after a large result",
    remedy: "Raise the limit of the reader of lines to some tens of mebibytes; if a line is longer, fail only its request.",
    example: "asyncio.create_subprocess_exec(…, limit=64 * 1024 * 1024)",
    see: &["large-message", "client-deep-result"],
    ..BASE
};

pub(crate) static CLIENT_DEEP_RESULT: Check = Check {
    id: "client-deep-result",
    title: "A client takes a result of one hundred levels",
    why: "Schemas and structured results are nested, and generated ones deeply. A parser with a small limit fails on \
          data that its client never looks at.",
    severity: Severity::Low,
    rationale: "few servers nest so deeply",
    looks_at: "a page of a list with a tool whose _meta is nested 100 levels deep",
    pass: "the client requests the page after it",
    fail: "the client does not go on after this page, although it went on after those before it",
    skip: "not seen: the host did not request this page of a list",
    sentence: "the client does not go on after a deeply nested result",
    remedy: "Allow at least the 127 levels that most parsers allow, and skip what you do not use.",
    example: r#"{"_meta":{"deep":[[[[[…]]]]]}}"#,
    see: &["deep-nesting", "client-large-result"],
    ..BASE
};

pub(crate) static CLIENT_LIST_CHANGED: Check = Check {
    id: "client-list-changed",
    title: "A client lists the tools again after they have changed",
    why: "A server announces that its tools have changed so that the client lists them again. Otherwise the model calls \
          tools that are gone, and does not know the new ones.",
    severity: Severity::Low,
    rationale: "new tools appear only after a restart of the host",
    looks_at: "notifications/tools/list_changed, half a second after tools/list was answered for the first time",
    pass: "the client sends tools/list again",
    fail: "the client does not send tools/list within 5 seconds",
    skip: "not seen: the host did not stay connected for 5 seconds after the tools had changed",
    sentence: "the tools are not listed again",
    remedy: "Handle notifications/tools/list_changed: list the tools again, from the first page on.",
    example: r#"client.setNotificationHandler(ToolListChangedNotificationSchema, () => refreshTools())"#,
    see: &["client-pages", "capability-truth"],
    ..BASE
};

static RESPONSES_GIVEN: Rule = written(
    Client,
    &[must(
        MODERN,
        Page("basic/patterns/mrtr"),
        "Client Requirements (Basic Workflow)",
        "contains the inputRequests field, the client MUST construct",
    )],
);
pub(crate) static STATE_RETURNED: Rule = written(
    Client,
    &[must(
        MODERN,
        Page("basic/patterns/mrtr"),
        "Client Requirements (Basic Workflow)",
        "the client MUST echo back the exact value of that field",
    )],
);
pub(crate) static NEW_ID: Rule = written(
    Client,
    &[must(
        MODERN,
        Page("basic/patterns/mrtr"),
        "Client Requirements (Basic Workflow)",
        "MUST be different between the initial request and the retry",
    )],
);

pub(crate) static CLIENT_INPUT_ROUND: Check = Check {
    id: "client-input-round",
    title: "A client repeats a call with the input and the state that the server asked for",
    why: "A modern server keeps nothing between the rounds of a call. Everything that it knows comes back with the next \
          round, so a changed state or a missing answer ends the call.",
    rationale: "a call that asks for input never succeeds",
    looks_at: "the next round of a call of the tool ask after a result of resultType input_required",
    pass: "it has an answer for each input request, the exact requestState, and another id",
    fail: "an answer is missing, the state differs, or the id is the same",
    skip: "not seen: the host called no tool that asks for input in 2026-07-28, or did not repeat the call",
    sentence: "a call is repeated without what the server needs",
    revisions: MODERN,
    level: Level::Must,
    rules: &[&RESPONSES_GIVEN, &STATE_RETURNED, &NEW_ID],
    remedy: "Send the call again with a new id, inputResponses with the key of each input request, and the string \
             requestState as it came.",
    example: r#"{"id":8,"method":"tools/call","params":{"name":"ask","inputResponses":{"name":{"action":"accept",…}},"requestState":"…"}}"#,
    see: &["input-required", "modern-server-requests"],
    ..BASE
};

pub(crate) static CLIENT_SESSION_EXPIRED: Check = Check {
    id: "client-session-expired",
    title: "A client starts a new session if its session has expired",
    why: "A server may end a session at any time, for example because it was restarted. The client must then begin \
          again; a client that repeats the old session id never recovers.",
    rationale: "the host must be restarted after each restart of the server",
    looks_at: "the requests after a request with a session id was answered with the status 404",
    pass: "the client sends initialize without a session id",
    fail: "the client sends the expired session id again, or nothing for 5 seconds",
    skip: "not seen: the session of the host did not expire; it ends when the tool expire is called over HTTP",
    sentence: "an expired session is not replaced",
    revisions: super::LEGACY_SINCE_2025_03_26,
    level: Level::Must,
    rules: &[&written(
        Client,
        &[must(
            super::LEGACY_SINCE_2025_03_26,
            Page("basic/transports"),
            "Session Management",
            "it MUST start a new session by sending a new InitializeRequest",
        )],
    )],
    remedy: "On 404 to a request with Mcp-Session-Id, drop the id, send initialize, and then the request again.",
    example: "if (response.status === 404 && sessionId) { sessionId = undefined; await initialize(); }",
    see: &["http-session", "client-initialized"],
    ..BASE
};

pub(crate) static CLIENT_SHUTDOWN: Check = Check {
    id: "client-shutdown",
    title: "A client closes stdin before it sends a signal",
    why: "The end of stdin lets a server finish its work: save files, end child processes. A server that gets a signal \
          first loses this work, and on some systems leaves its child processes behind.",
    severity: Severity::Low,
    rationale: "most servers have nothing to lose",
    looks_at: "the end of the session on stdio",
    pass: "stdin ends before a signal arrives",
    fail: "a signal arrives while stdin is open, or the process is killed",
    skip: "not seen: no session on stdio has ended",
    sentence: "the server is ended by a signal",
    level: Level::Should,
    rules: &[&written(
        Client,
        &[
            should(LEGACY, Page("basic/lifecycle"), "stdio", "client SHOULD initiate shutdown by"),
            should(MODERN, Page("basic/transports/stdio"), "Shutdown", "The client SHOULD initiate shutdown by"),
        ],
    )],
    remedy: "Close the stdin of the server, wait some seconds for its exit, and only then send SIGTERM.",
    example: "child.stdin.end(); await exitOrTimeout(child, 2000); child.kill('SIGTERM')",
    see: &["eof-exit", "exit-code"],
    ..BASE
};
