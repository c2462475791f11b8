//! Checks of HTTP: access, headers, statuses, sessions.

use barewire_proto::mcp::Revision;

use super::Bound::{Client, Server};
use super::Document::{Page, Rfc};
use super::Reference::{Cwe, Other};
use super::rule::{must, ours, should, written};
use super::{
    Category, Check, CheckPlace, LEGACY_SINCE_2025_03_26, LEGACY_SINCE_2025_06_18, Level, MODERN, RevisionRange, Rule,
    SINCE_2025_03_26, Severity, host, only,
};

pub(super) const CHECKS: &[&Check] = &[
    &HTTP_UNAUTHORIZED,
    &HTTP_ORIGIN,
    &HTTP_HOST,
    &HTTP_REQUEST_TYPE,
    &HTTP_CONTENT_TYPE,
    &HTTP_ACCEPT,
    &HTTP_STATUS,
    &HTTP_GET_STREAM,
    &HTTP_SESSION,
    &HTTP_SESSION_ENTROPY,
    &HTTP_PROTOCOL_VERSION,
    &HTTP_HEADER_MIRRORING,
];

/// The default fields of a check of observed HTTP exchanges.
const PASSIVE: Check = Check {
    skip: "no exchange over Streamable HTTP was seen",
    // The revisions with Streamable HTTP.
    revisions: RevisionRange(Revision::V2025_03_26, Revision::LATEST),
    category: Category::Http,
    places: &[CheckPlace::Http, CheckPlace::Capture, CheckPlace::Tap],
    ..super::BASE
};
/// The default fields of a check that sends its own HTTP requests.
const LIVE: Check = Check { places: &[CheckPlace::Http], ..PASSIVE };

const SESSIONS: RevisionRange = RevisionRange(Revision::V2025_03_26, Revision::LATEST_LEGACY);

pub(crate) static HTTP_UNAUTHORIZED: Check = Check {
    id: "http-unauthorized",
    title: "A 401 names the authentication scheme",
    why: "A client reads the scheme and the source of tokens from WWW-Authenticate. Without this header, the client \
          can only give up.",
    severity: Severity::High,
    rationale: "a client with a configured token works, but a client that must obtain a token does not know how",
    looks_at: "responses with status 401",
    pass: "each response has a WWW-Authenticate header with a Bearer or DPoP challenge",
    fail: "the header is missing, or has neither challenge",
    skip: "no 401 was seen",
    sentence: "a 401 does not say how to authenticate",
    rules: &[&written(
        Server,
        &[
            must(
                only(Revision::V2025_06_18),
                Page("basic/authorization"),
                "Authorization Server Location",
                "MUST use the HTTP header WWW-Authenticate when returning a 401",
            ),
            must(SINCE_2025_03_26, Rfc(9110), "section 15.5.2", "MUST send a WWW-Authenticate header field"),
        ],
    )],
    hosts: &[
        host(
            "ChatGPT",
            "refuses the server: it does not implement OAuth",
            "https://github.com/lightdash/lightdash/pull/26726",
        ),
        host("Claude Code", "fails to connect", "https://github.com/jimprosser/obsidian-web-mcp/pull/35"),
    ],
    remedy: "Send WWW-Authenticate with Bearer, and with resource_metadata if the server has protected resource \
             metadata. auth-resource-metadata checks where that leads.",
    example: r#"WWW-Authenticate: Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp""#,
    see: &["http-status", "auth-challenge", "auth-resource-metadata"],
    version: 2,
    history: &[(1, "first"), (2, "accepts a DPoP challenge too")],
    references: &[Other("RFC 6750, section 3", "https://www.rfc-editor.org/rfc/rfc6750#section-3")],
    needs: &[],
    ..PASSIVE
};

pub(crate) static HTTP_ORIGIN: Check = Check {
    id: "http-origin",
    title: "A request from a foreign web page is refused",
    why: "Any web page can send requests to a server on the same machine or network. Only the Origin header shows that \
          a request comes from a web page, even after DNS rebinding. A server that ignores this header lets any page \
          call its tools.",
    severity: Severity::High,
    rationale: "a web page that a user opens can call the tools, if the browser lets the request through",
    looks_at: "initialize and server/discover with a foreign Origin; only if hostile input is allowed",
    pass: "the request is refused with 403; before 2025-11-25 with any 4xx",
    fail: "the request is served, or refused with another status",
    skip: "hostile input is not allowed",
    sentence: "a request with a foreign Origin is not refused with 403",
    rules: &[&written(
        Server,
        &[
            must(
                LEGACY_SINCE_2025_03_26,
                Page("basic/transports"),
                "Security Warning",
                "Servers MUST validate the Origin header",
            ),
            must(
                MODERN,
                Page("basic/transports/streamable-http"),
                "Security & Endpoint",
                "MUST validate the Origin header",
            ),
        ],
    )],
    hosts: &[host(
        "browsers",
        "let any web page call a server on localhost (CVE-2025-66414)",
        "https://github.com/modelcontextprotocol/typescript-sdk/security/advisories/GHSA-w48q-cv73-mx4w",
    )],
    remedy: "Allow only listed origins, and answer 403 to all other origins. Web pages send Origin with every POST.",
    example: "Origin: https://evil.example is answered with HTTP/1.1 403 Forbidden",
    see: &["http-host", "http-request-type"],
    references: &[
        Cwe(346, "Origin Validation Error"),
        Cwe(350, "Reliance on Reverse DNS Resolution for a Security-Critical Action"),
    ],
    ..LIVE
};

pub(crate) static HTTP_HOST: Check = Check {
    id: "http-host",
    title: "A server on this machine answers only to its own names",
    why: "To the browser, a page whose name was rebound to 127.0.0.1 has the same origin as the server: its GET \
          requests have no Origin, and only their Host header shows the foreign name.",
    rationale: "a check of Origin stops most such attacks; a check of Host stops the others",
    looks_at: "initialize and server/discover with a foreign Host; only if the server is on this machine and hostile \
               input is allowed",
    pass: "the request is refused with a 4xx",
    fail: "the request is served, gets a 5xx, or gets no response",
    skip: "the server is not on this machine, or hostile input is not allowed",
    sentence: "a request with a foreign Host is served",
    level: Level::Ours,
    rules: &[&ours(Server, SINCE_2025_03_26)],
    remedy: "Accept only localhost, 127.0.0.1 and [::1] with the server's port, and names that the user configured.",
    example: "Host: evil.example is answered with HTTP/1.1 403 Forbidden",
    see: &["http-origin"],
    references: &[Cwe(350, "Reliance on Reverse DNS Resolution for a Security-Critical Action")],
    ..LIVE
};

pub(crate) static HTTP_REQUEST_TYPE: Check = Check {
    id: "http-request-type",
    title: "A message that is not sent as JSON is refused",
    why: "A page can send text/plain to any server without a CORS preflight. A server that reads such a body as JSON \
          can be called from any page, although the page does not see the response.",
    rationale: "a server that checks Origin refuses such requests anyway",
    looks_at: "initialize and server/discover, sent as text/plain; only if hostile input is allowed",
    pass: "the request is refused with a 4xx",
    fail: "the request is served, gets a 5xx, or gets no response",
    skip: "hostile input is not allowed",
    sentence: "a message sent as text/plain is served",
    level: Level::Ours,
    rules: &[&ours(Server, SINCE_2025_03_26)],
    remedy: "Answer 415 to a POST whose Content-Type is not application/json.",
    example: "Content-Type: text/plain is answered with HTTP/1.1 415 Unsupported Media Type",
    see: &["http-origin", "http-content-type"],
    references: &[Cwe(352, "Cross-Site Request Forgery (CSRF)")],
    ..LIVE
};

pub(crate) static HTTP_CONTENT_TYPE: Check = Check {
    id: "http-content-type",
    title: "Messages are sent as JSON or as an event stream",
    why: "The receiver chooses by the Content-Type how to read a body, and many clients refuse unexpected types.",
    severity: Severity::High,
    rationale: "clients of the official SDKs fail on any other type",
    looks_at: "the Content-Type of requests and responses that contain a message, and of streams",
    pass: "requests are application/json, responses application/json or text/event-stream, streams text/event-stream",
    fail: "the type is wrong or missing",
    sentence: "a message is sent with the wrong Content-Type",
    rules: &[
        &written(
            Server,
            &[
                must(
                    LEGACY_SINCE_2025_03_26,
                    Page("basic/transports"),
                    "Sending Messages to the Server",
                    "return Content-Type: text/event-stream, to initiate an SSE stream",
                ),
                must(
                    MODERN,
                    Page("basic/transports/streamable-http"),
                    "Sending Messages",
                    "the server MUST return either Content-Type: application/json",
                ),
            ],
        ),
        &GET_STREAM,
        // No revision says which Content-Type a client sends; servers on the TypeScript SDK answer 415 to any other.
        &ours(Client, SINCE_2025_03_26),
    ],
    hosts: &[
        host(
            "clients on the Python SDK",
            "report Unexpected content type",
            "https://github.com/modelcontextprotocol/python-sdk/issues/1382",
        ),
        host(
            "servers on the TypeScript SDK",
            "answer 415",
            "https://github.com/modelcontextprotocol/typescript-sdk/blob/v1.29.0/src/server/webStandardStreamableHttp.ts",
        ),
    ],
    remedy: "Set Content-Type according to the body.",
    example: "Content-Type: application/json",
    see: &["http-request-type", "http-accept"],
    ..PASSIVE
};

pub(crate) static HTTP_ACCEPT: Check = Check {
    id: "http-accept",
    title: "A client accepts both JSON and an event stream",
    why: "The server chooses JSON or an event stream for each response. Many servers refuse a client that accepts only \
          one of these types.",
    severity: Severity::High,
    rationale: "servers of the official SDKs answer 406",
    looks_at: "the Accept header of every POST with a message",
    pass: "the header covers application/json and text/event-stream",
    fail: "the header does not cover both types",
    sentence: "a client does not accept both response types",
    rules: &[&written(
        Client,
        &[
            must(
                LEGACY_SINCE_2025_03_26,
                Page("basic/transports"),
                "Sending Messages to the Server",
                "The client MUST include an Accept header, listing both",
            ),
            must(
                MODERN,
                Page("basic/transports/streamable-http"),
                "Sending Messages",
                "The client MUST include an Accept header listing both",
            ),
        ],
    )],
    hosts: &[host(
        "servers on the Python SDK",
        "answer 406",
        "https://github.com/modelcontextprotocol/python-sdk/issues/2349",
    )],
    remedy: "Send both types with every POST.",
    example: "Accept: application/json, text/event-stream",
    see: &["http-content-type"],
    places: &[CheckPlace::Capture, CheckPlace::Tap],
    ..PASSIVE
};

/// The status of a notification or response that the server accepts.
pub(crate) static NOTIFICATION_STATUS: Rule = written(
    Server,
    &[
        must(
            LEGACY_SINCE_2025_03_26,
            Page("basic/transports"),
            "Sending Messages to the Server",
            "the server MUST return HTTP status code 202",
        ),
        must(
            MODERN,
            Page("basic/transports/streamable-http"),
            "Sending Messages",
            "the server MUST return HTTP status code 202",
        ),
    ],
);
/// The status of a result, and of a request that failed: only the statuses of errors are written.
pub(crate) static REQUEST_STATUS: Rule = ours(Server, SINCE_2025_03_26);
/// The status of an error of 2026-07-28.
pub(crate) static ERROR_STATUS: Rule = written(
    Server,
    &[must(
        MODERN,
        Page("basic/transports/streamable-http"),
        "Protocol Version Header",
        "it MUST respond with 404 Not Found",
    )],
);
/// The type of the stream that a GET opens.
pub(crate) static GET_STREAM: Rule = written(
    Server,
    &[must(
        LEGACY_SINCE_2025_03_26,
        Page("basic/transports"),
        "Listening for Messages from the Server",
        "The server MUST either return Content-Type: text/event-stream",
    )],
);
/// The status of a GET: a stream, or 405.
pub(crate) static GET_STATUS: Rule = written(
    Server,
    &[
        must(
            LEGACY_SINCE_2025_03_26,
            Page("basic/transports"),
            "Listening for Messages from the Server",
            "or else return HTTP 405 Method Not Allowed",
        ),
        should(
            MODERN,
            Page("basic/transports/streamable-http"),
            "Earlier Streamable HTTP Revisions",
            "HTTP GET or DELETE to the MCP endpoint",
        ),
    ],
);

pub(crate) static HTTP_STATUS: Check = Check {
    id: "http-status",
    title: "The HTTP status fits the message",
    why: "Before reading the body, clients decide by the status whether a response follows, whether the server is of \
          another era, and whether there is a stream.",
    severity: Severity::High,
    rationale: "some clients wait for a response to a notification, try another transport, or give up",
    looks_at: "the status of every response to a posted message and to a GET",
    pass: "notifications and responses get 202; results and errors get 200, but in the modern era -32601 gets 404, and \
           -32020 to -32022 get 400; a GET gets a stream or 405, and from a server of only the modern era always 405",
    fail: "the status is wrong, or a request gets a 5xx without a JSON-RPC response",
    sentence: "a response has the wrong HTTP status",
    rules: &[&NOTIFICATION_STATUS, &GET_STATUS, &REQUEST_STATUS, &ERROR_STATUS],
    hosts: &[
        host(
            "Codex",
            "does not start a server that answers a notification with 200",
            "https://github.com/WordPress/mcp-adapter/issues/125",
        ),
        host("Cursor", "reconnects in a loop if a GET gets 400", "https://github.com/punkpeye/mcp-proxy/pull/62"),
        host(
            "Claude Code",
            "reconnects in a loop if a GET gets 200 without a stream",
            "https://github.com/f/prompts.chat/pull/1117",
        ),
    ],
    remedy: "Choose the status by the kind of message, and in the modern era by the error code.",
    example: "HTTP/1.1 202 Accepted, without a body, for notifications/initialized",
    see: &["http-content-type", "http-session", "http-protocol-version"],
    ..PASSIVE
};

pub(crate) static HTTP_GET_STREAM: Check = Check {
    id: "http-get-stream",
    title: "A response is sent in the exchange of its request",
    why: "A client reads the response to a request from the response to its POST. If it arrives in the stream of a GET \
          instead, the client waits for it until its time limit, although the stream carries messages of the server.",
    rationale: "requests fail while the client has a stream open, which most clients have",
    looks_at: "the messages in the streams of GET requests, also while a request is posted in the same session",
    pass: "a stream has no response, unless the client resumes it with Last-Event-ID",
    fail: "a response arrives in the stream of a GET",
    skip: "no stream of a GET was seen",
    sentence: "a response is sent in the stream of a GET",
    rules: &[&written(
        Server,
        &[must(
            LEGACY_SINCE_2025_03_26,
            Page("basic/transports"),
            "Listening for Messages from the Server",
            "The server MUST NOT send a JSON-RPC response on the stream",
        )],
    )],
    revisions: LEGACY_SINCE_2025_03_26,
    remedy: "Keep the exchange of each request, and send the response there. Send only your own requests and \
             notifications in the stream of a GET.",
    example: "POST tools/list is answered with 200 and the result, whether a stream is open or not",
    see: &["http-status", "http-content-type"],
    ..PASSIVE
};

static SESSION_ENDED: Rule = written(
    Server,
    &[must(
        LEGACY_SINCE_2025_03_26,
        Page("basic/transports"),
        "Session Management",
        "MUST respond to requests containing that session ID with HTTP 404",
    )],
);
static SESSION_SENT: Rule = written(
    Client,
    &[must(
        LEGACY_SINCE_2025_03_26,
        Page("basic/transports"),
        "Session Management",
        "header on all of their subsequent HTTP requests",
    )],
);
/// A request without a session id that is served.
pub(crate) static SESSION_MISSING: Rule = written(
    Server,
    &[should(
        LEGACY_SINCE_2025_03_26,
        Page("basic/transports"),
        "Session Management",
        "Servers that require a session ID SHOULD respond to requests without",
    )],
)
.with_severity(Severity::Medium);
/// What the specification leaves open: a session id that the server has never issued, and the status of a DELETE.
pub(crate) static SESSION_OPEN: Rule = ours(Server, LEGACY_SINCE_2025_03_26).with_severity(Severity::Medium);
static SESSION_STARTED: Rule = written(
    Server,
    &[should(
        MODERN,
        Page("basic/transports/streamable-http"),
        "Earlier Streamable HTTP Revisions",
        "do not mint or echo session IDs",
    )],
)
.with_severity(Severity::Low);
/// A session id that is not visible ASCII.
pub(crate) static SESSION_ID_TEXT: Rule = written(
    Server,
    &[must(
        LEGACY_SINCE_2025_03_26,
        Page("basic/transports"),
        "Session Management",
        "MUST only contain visible ASCII characters",
    )],
);
/// A session id that two handshakes share.
pub(crate) static SESSION_SHARED: Rule = written(
    Server,
    &[should(
        LEGACY_SINCE_2025_03_26,
        Page("basic/transports"),
        "Session Management",
        "The session ID SHOULD be globally unique",
    )],
);

pub(crate) static HTTP_SESSION: Check = Check {
    id: "http-session",
    title: "Sessions are separate, and an ended session stays ended",
    why: "A client that does not learn of the end of its session keeps using a session that does not exist. A client \
          whose session is shared sees the messages of others.",
    severity: Severity::High,
    rationale: "clients start a new session only on 404, and responses that go to another session are lost",
    looks_at: "session ids; requests without a session id, with an unknown id, and with the id of an ended session; \
               two handshakes",
    pass: "ids are visible ASCII and unique; a missing or unknown id gets a 4xx, the id of an ended session gets 404; \
           DELETE gets 2xx or 405; clients send the id with every request; the modern era has no sessions",
    fail: "one of these conditions does not hold",
    skip: "the server has no sessions",
    sentence: "a session breaks the rules of the specification",
    rules: &[
        &SESSION_ENDED,
        &SESSION_STARTED,
        &SESSION_SENT,
        &SESSION_ID_TEXT,
        &SESSION_MISSING,
        &SESSION_SHARED,
        &SESSION_OPEN,
    ],
    hosts: &[host(
        "Claude",
        "keeps using the ended session, and every call fails",
        "https://github.com/DAWNCR0W/affine-mcp-server/issues/301",
    )],
    remedy: "Check Mcp-Session-Id first: answer 400 if it is missing, 404 if there is no such session.",
    example: "DELETE /mcp with Mcp-Session-Id: 0f8fad5b-d9cb-469f-a165-70867728950e; then every request with this id \
              gets 404",
    see: &["http-session-entropy", "http-status"],
    references: &[Cwe(613, "Insufficient Session Expiration")],
    ..PASSIVE
};

pub(crate) static HTTP_SESSION_ENTROPY: Check = Check {
    id: "http-session-entropy",
    title: "Session ids cannot be guessed",
    why: "A client that knows a session id can use the session. If ids are counted up, one id reveals the others.",
    rationale: "it matters only where a server separates its users by session id alone, which no server should do",
    looks_at: "the ids of two sessions that were started one after the other",
    pass: "both ids have at least 16 characters and differ in at least 6 characters",
    fail: "one id is shorter, or the ids differ in fewer characters",
    skip: "the server has no sessions",
    sentence: "the session ids look guessable",
    revisions: SESSIONS,
    level: Level::Should,
    rules: &[&written(
        Server,
        &[should(
            LEGACY_SINCE_2025_03_26,
            Page("basic/transports"),
            "Session Management",
            "SHOULD be globally unique and cryptographically secure",
        )],
    )],
    remedy: "Use a random UUID, or 128 bits from a cryptographic random generator.",
    example: "Mcp-Session-Id: 0f8fad5b-d9cb-469f-a165-70867728950e",
    see: &["http-session"],
    references: &[Cwe(330, "Use of Insufficiently Random Values")],
    ..LIVE
};

/// A request with a version that was not agreed.
pub(crate) static OTHER_VERSION_SENT: Rule = written(
    Client,
    &[should(
        LEGACY_SINCE_2025_06_18,
        Page("basic/transports"),
        "Protocol Version Header",
        "SHOULD be the one negotiated during initialization",
    )],
);

pub(crate) static HTTP_PROTOCOL_VERSION: Check = Check {
    id: "http-protocol-version",
    title: "MCP-Protocol-Version is the agreed version",
    why: "Proxies can route requests by this header. A server that accepts any version in the header hides that client \
          and server disagree.",
    rationale: "nothing fails until a proxy or a server relies on the header",
    looks_at: "a request with the version 1900-01-01, and MCP-Protocol-Version of requests after the handshake",
    pass: "the request with 1900-01-01 is refused with 400, and clients send the agreed version",
    fail: "the request with 1900-01-01 is not refused with 400, or a client sends another version or none",
    skip: "the server speaks no revision from 2025-06-18 to 2025-11-25",
    sentence: "MCP-Protocol-Version is wrong, or the server does not check it",
    revisions: RevisionRange(Revision::V2025_06_18, Revision::LATEST_LEGACY),
    rules: &[
        &written(
            Server,
            &[must(
                LEGACY_SINCE_2025_06_18,
                Page("basic/transports"),
                "Protocol Version Header",
                "it MUST respond with 400 Bad Request",
            )],
        ),
        &written(
            Client,
            &[must(
                LEGACY_SINCE_2025_06_18,
                Page("basic/transports"),
                "Protocol Version Header",
                "the client MUST include the MCP-Protocol-Version",
            )],
        ),
        &OTHER_VERSION_SENT,
    ],
    remedy: "A server must compare the header with the versions that it supports; a client must send the agreed one.",
    example: "MCP-Protocol-Version: 2025-11-25",
    see: &["version-negotiation", "http-header-mirroring"],
    ..PASSIVE
};

pub(crate) static HTTP_HEADER_MIRRORING: Check = Check {
    id: "http-header-mirroring",
    title: "A request whose headers contradict its body is refused",
    why: "Proxies decide by the headers, the server by the body. If the two can differ, forbidden calls reach the \
          server.",
    rationale: "a client can bypass everything that proxies enforce by header: permissions, limits, audit",
    looks_at: "requests with Mcp-Method, Mcp-Name or MCP-Protocol-Version missing or wrong; in a capture, these \
               headers of all clients, and the Mcp-Param headers of calls to tools that were listed with x-mcp-header",
    pass: "such requests are refused with 400 and -32020; clients send headers that match the body",
    fail: "such a request is served or refused in another way, or a client sends headers that do not match the body",
    skip: "the server does not speak 2026-07-28",
    sentence: "headers and body can contradict each other",
    revisions: MODERN,
    rules: &[
        &written(
            Server,
            &[must(
                MODERN,
                Page("basic/transports/streamable-http"),
                "Server Validation",
                "MUST reject requests where the values specified in the headers do not match",
            )],
        ),
        &written(
            Client,
            &[must(
                MODERN,
                Page("basic/transports/streamable-http"),
                "Sending Messages",
                "The client MUST include the request metadata headers",
            )],
        ),
    ],
    remedy: "Compare the headers with the body before serving the request; decode =?base64?…?= first.",
    example: r#"{"code":-32020,"message":"Header mismatch: Mcp-Name header value 'foo' does not match body value 'bar'"}"#,
    see: &["modern-version", "modern-meta", "http-protocol-version"],
    references: &[Cwe(436, "Interpretation Conflict")],
    ..PASSIVE
};
