//! HTTP: who may ask, headers, statuses, sessions.

use barewire_proto::mcp::Revision;

use super::Reference::{Cwe, Mcp, Other};
use super::{BASE, Category, Check, CheckPlace, Level, MODERN, RevisionRange, Severity};

pub(super) const CHECKS: &[&Check] = &[
    &HTTP_UNAUTHORIZED,
    &HTTP_ORIGIN,
    &HTTP_HOST,
    &HTTP_REQUEST_TYPE,
    &HTTP_CONTENT_TYPE,
    &HTTP_ACCEPT,
    &HTTP_STATUS,
    &HTTP_SESSION,
    &HTTP_SESSION_ENTROPY,
    &HTTP_PROTOCOL_VERSION,
    &HTTP_HEADER_MIRRORING,
];

/// What is seen in passing over HTTP.
const PASSIVE: &[CheckPlace] = &[CheckPlace::Http, CheckPlace::Capture, CheckPlace::Tap];
/// What has to be provoked.
const LIVE: &[CheckPlace] = &[CheckPlace::Http];

/// Revisions with Streamable HTTP.
const STREAMABLE: RevisionRange = RevisionRange(Revision::V2025_03_26, Revision::LATEST);
const SESSIONS: RevisionRange = RevisionRange(Revision::V2025_03_26, Revision::LATEST_LEGACY);

pub(crate) static HTTP_UNAUTHORIZED: Check = Check {
    id: "http-unauthorized",
    title: "A 401 says how to get in",
    why: "A client that gets a 401 looks in WWW-Authenticate for the scheme and for where to get a token. Without it the user sees \
          only that it does not work.",
    severity: Severity::Medium,
    rationale: "a token that is configured by hand works; a client that wants to fetch one does not know how",
    looks_at: "responses with the status 401",
    pass: "each has a WWW-Authenticate header with a Bearer challenge",
    fail: "there is none, or none with Bearer",
    skip: "no 401 was seen",
    sentence: "a 401 does not say how to get in",
    revisions: STREAMABLE,
    remedy: "Send WWW-Authenticate with Bearer, and with resource_metadata if there are protected resource metadata. That it is there is \
             not asked for here: since 2025-11-25 it may also be found at its well-known place.",
    example: r#"WWW-Authenticate: Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp""#,
    see: &["http-status"],
    references: &[
        Mcp("2025-11-25/basic/authorization#protected-resource-metadata-discovery-requirements"),
        Other("RFC 9110, section 15.5.2", "https://www.rfc-editor.org/rfc/rfc9110#section-15.5.2"),
        Other("RFC 6750, section 3", "https://www.rfc-editor.org/rfc/rfc6750#section-3"),
    ],
    category: Category::Http,
    places: PASSIVE,
    needs: &[],
    ..BASE
};

pub(crate) static HTTP_ORIGIN: Check = Check {
    id: "http-origin",
    title: "A page of another origin is refused",
    why: "Every web page can send requests to a server on the same machine or in the same network. Only Origin tells them from a client, \
          and after DNS rebinding it is all that does. A server that does not look lets any page call its tools.",
    severity: Severity::High,
    rationale: "whoever gets a user to look at a page can call the tools; it needs a browser that lets it through",
    looks_at: "the first request of each era with an Origin of a name that is nobody's. On another machine only if hostile input is allowed",
    pass: "it is refused with 403; before 2025-11-25 with any 4xx",
    fail: "it is served, or refused with another status",
    skip: "the server is on another machine, and hostile input is not allowed",
    sentence: "a request from a page of another origin is not refused with 403",
    revisions: STREAMABLE,
    remedy: "Compare Origin with a list of origins that may ask, and answer 403 to all others. A request without it comes from no page.",
    example: "Origin: https://evil.example is answered with HTTP/1.1 403 Forbidden",
    see: &["http-host", "http-request-type"],
    references: &[
        Cwe(346, "Origin Validation Error"),
        Cwe(350, "Reliance on Reverse DNS Resolution for a Security-Critical Action"),
        Mcp("2026-07-28/basic/transports/streamable-http#security--endpoint"),
        Mcp("2025-11-25/basic/transports#security-warning"),
    ],
    category: Category::Http,
    places: LIVE,
    ..BASE
};

pub(crate) static HTTP_HOST: Check = Check {
    id: "http-host",
    title: "A server on this machine answers only to its own names",
    why: "A page that had its own name rebound to 127.0.0.1 is of the same origin as the server for the browser: a GET then has no \
          Origin, and Host is the only sign.",
    severity: Severity::Medium,
    rationale: "a server that looks at Origin is safe from most of it; this closes what is left",
    looks_at: "the first request of each era with a Host that is nobody's; only if the URL is of this machine",
    pass: "it is refused with a 4xx",
    fail: "it is served",
    skip: "the server is not on this machine",
    sentence: "a request to a name that is not the server's is served",
    revisions: STREAMABLE,
    level: Level::Ours,
    remedy: "Serve only localhost, 127.0.0.1 and [::1], with the port that is listened on, and what the user has configured.",
    example: "Host: evil.example is answered with HTTP/1.1 403 Forbidden",
    see: &["http-origin"],
    references: &[Cwe(350, "Reliance on Reverse DNS Resolution for a Security-Critical Action")],
    category: Category::Http,
    places: LIVE,
    ..BASE
};

pub(crate) static HTTP_REQUEST_TYPE: Check = Check {
    id: "http-request-type",
    title: "A message that is not sent as JSON is refused",
    why: "A page may send text/plain anywhere without the browser asking first. A server that takes it as JSON can be called from any \
          page, though the page does not see the answer.",
    severity: Severity::Medium,
    rationale: "a server that looks at Origin is safe from it; one that does not has two holes",
    looks_at: "the first request of each era as text/plain. On another machine only if hostile input is allowed",
    pass: "it is refused with a 4xx",
    fail: "it is served",
    skip: "the server is on another machine, and hostile input is not allowed",
    sentence: "a message that is sent as text/plain is served",
    revisions: STREAMABLE,
    level: Level::Ours,
    remedy: "Answer 415 to a POST whose Content-Type is not application/json.",
    example: "Content-Type: text/plain is answered with HTTP/1.1 415 Unsupported Media Type",
    see: &["http-origin", "http-content-type"],
    references: &[Cwe(352, "Cross-Site Request Forgery (CSRF)")],
    category: Category::Http,
    places: LIVE,
    ..BASE
};

pub(crate) static HTTP_CONTENT_TYPE: Check = Check {
    id: "http-content-type",
    title: "Messages are sent as JSON or as a stream of events",
    why: "By the type the other side knows how to read a body. Many clients refuse any other, whatever is in it.",
    severity: Severity::High,
    rationale: "the clients of the official SDKs fail on it",
    looks_at: "Content-Type of requests with a message, of responses with one, and of streams",
    pass: "requests are application/json, responses application/json or text/event-stream, streams text/event-stream",
    fail: "it is another one, or none",
    skip: "nothing went over Streamable HTTP",
    sentence: "a message is sent under a type that is not its own",
    revisions: STREAMABLE,
    remedy: "Set Content-Type by what is in the body.",
    example: "Content-Type: application/json",
    see: &["http-request-type", "http-accept"],
    references: &[
        Mcp("2026-07-28/basic/transports/streamable-http"),
        Mcp("2025-11-25/basic/transports#sending-messages-to-the-server"),
    ],
    category: Category::Http,
    places: PASSIVE,
    ..BASE
};

pub(crate) static HTTP_ACCEPT: Check = Check {
    id: "http-accept",
    title: "A client accepts both JSON and a stream of events",
    why: "The server chooses between the two for every request. Servers refuse a client that says it takes only one.",
    severity: Severity::High,
    rationale: "servers of the official SDKs answer 406",
    looks_at: "Accept of every POST with a message",
    pass: "it covers application/json and text/event-stream",
    fail: "one of the two is missing",
    skip: "nothing went over Streamable HTTP",
    sentence: "a client does not accept what the server may answer",
    revisions: STREAMABLE,
    remedy: "Send both with every POST.",
    example: "Accept: application/json, text/event-stream",
    see: &["http-content-type"],
    references: &[
        Mcp("2026-07-28/basic/transports/streamable-http"),
        Mcp("2025-11-25/basic/transports#sending-messages-to-the-server"),
    ],
    category: Category::Http,
    places: &[CheckPlace::Capture, CheckPlace::Tap],
    ..BASE
};

pub(crate) static HTTP_STATUS: Check = Check {
    id: "http-status",
    title: "The status says what became of a message",
    why: "Clients decide by it before they read the body: whether something is to come, whether the server is of another era, whether \
          there is a stream.",
    severity: Severity::Medium,
    rationale: "most clients take any 2xx; some wait for an answer to a notification, or try another transport",
    looks_at: "the status of every response to a message, and to a GET",
    pass: "202 for notifications and responses, 200 for answers; in the modern era 404 with -32601 and 400 with -32020 to -32022; for a \
           GET a stream or 405, and from a server of the modern era alone 405",
    fail: "it is another one; a request gets a status of 500 or more, and no answer",
    skip: "nothing went over Streamable HTTP",
    sentence: "a response has a status that means something else",
    revisions: STREAMABLE,
    remedy: "Choose the status by what the message was, and in the modern era by the code of the error.",
    example: "HTTP/1.1 202 Accepted, without a body, for notifications/initialized",
    see: &["http-content-type", "http-session", "http-protocol-version"],
    references: &[
        Mcp("2026-07-28/basic/transports/streamable-http"),
        Mcp("2025-11-25/basic/transports#sending-messages-to-the-server"),
    ],
    category: Category::Http,
    places: PASSIVE,
    ..BASE
};

pub(crate) static HTTP_SESSION: Check = Check {
    id: "http-session",
    title: "A session is one session, from initialize to its end",
    why: "A client that is told nothing of the end of its session goes on in one that does not exist; one whose session is shared sees \
          what is not for it.",
    severity: Severity::High,
    rationale: "clients begin anew only on 404, and answers that go to another session are lost",
    looks_at: "ids of sessions; a request without one, with one that does not exist, and with one that was ended by DELETE; two handshakes",
    pass: "ids are of visible ASCII characters and not given twice; without one or with an unknown one a 4xx comes, with an ended one \
           404; DELETE is answered with 2xx or 405; clients send the id with every request; the modern era has none",
    fail: "one of these does not hold. That a request without an id is refused is a SHOULD",
    skip: "the server has no sessions",
    sentence: "a session does not hold to its rules",
    revisions: SESSIONS,
    remedy: "Look at Mcp-Session-Id before anything else: 400 if it is missing, 404 if there is no such session.",
    example: "DELETE /mcp with Mcp-Session-Id: 0f8fad5b-d9cb-469f-a165-70867728950e; from then on 404 for it",
    see: &["http-session-entropy", "http-status"],
    references: &[Mcp("2025-11-25/basic/transports#session-management"), Cwe(613, "Insufficient Session Expiration")],
    category: Category::Http,
    places: PASSIVE,
    ..BASE
};

pub(crate) static HTTP_SESSION_ENTROPY: Check = Check {
    id: "http-session-entropy",
    title: "The id of a session cannot be guessed",
    why: "Who knows the id of a session can speak in it. Ids that count up are known to everybody who has one.",
    severity: Severity::Medium,
    rationale: "it matters where several users share a server and ids are all that tells them apart, which they should not be",
    looks_at: "the ids of two sessions that were begun one after the other",
    pass: "both have at least 16 characters and differ in at least 6",
    fail: "they are shorter, or almost the same",
    skip: "the server has no sessions",
    sentence: "the ids of sessions look as if they could be guessed",
    revisions: SESSIONS,
    level: Level::Should,
    remedy: "Take a random UUID, or 128 bits of a secure random generator.",
    example: "Mcp-Session-Id: 0f8fad5b-d9cb-469f-a165-70867728950e",
    see: &["http-session"],
    references: &[
        Mcp("2025-11-25/basic/transports#session-management"),
        Cwe(330, "Use of Insufficiently Random Values"),
    ],
    category: Category::Http,
    places: LIVE,
    ..BASE
};

pub(crate) static HTTP_PROTOCOL_VERSION: Check = Check {
    id: "http-protocol-version",
    title: "The version in the header is the one that was agreed",
    why: "What stands between client and server goes by the header. A server that takes any version hides that the two do not agree.",
    severity: Severity::Medium,
    rationale: "nobody fails today; it goes wrong when a client or a proxy goes by it",
    looks_at: "a request with the version 1900-01-01; and MCP-Protocol-Version of requests after the handshake",
    pass: "the first is refused with 400, and clients send the version that was agreed",
    fail: "it is served or refused with another status; or a client sends another version, or none",
    skip: "the server speaks no revision from 2025-06-18 to 2025-11-25",
    sentence: "MCP-Protocol-Version is not what it should be, or nobody looks at it",
    revisions: RevisionRange(Revision::V2025_06_18, Revision::LATEST_LEGACY),
    remedy: "In a server compare it with the versions that are spoken. In a client send what initialize was answered with.",
    example: "MCP-Protocol-Version: 2025-11-25",
    see: &["version-negotiation", "http-header-mirroring"],
    references: &[Mcp("2025-11-25/basic/transports#protocol-version-header")],
    category: Category::Http,
    places: PASSIVE,
    ..BASE
};

pub(crate) static HTTP_HEADER_MIRRORING: Check = Check {
    id: "http-header-mirroring",
    title: "Headers that say something else than the body are refused",
    why: "Proxies and gateways decide by the headers, the server by the body. If the two may differ, a call that the one forbids is made by \
          the other.",
    severity: Severity::High,
    rationale: "it goes around whatever is enforced by header: permissions, limits, audit",
    looks_at: "requests with Mcp-Method, Mcp-Name or MCP-Protocol-Version missing or of something else; in a capture those of clients, and \
               the Mcp-Param headers of calls of tools that were listed with x-mcp-header",
    pass: "they are refused with 400 and -32020; clients send what the body says",
    fail: "they are served or refused in another way; or a client sends something else than the body says",
    skip: "the server does not speak 2026-07-28",
    sentence: "headers and body may say different things",
    revisions: MODERN,
    remedy: "Compare the headers with the body before the request is served, decoding =?base64?…?= first.",
    example: r#"{"code":-32020,"message":"Header mismatch: Mcp-Name header value 'foo' does not match body value 'bar'"}"#,
    see: &["modern-version", "modern-meta", "http-protocol-version"],
    references: &[
        Mcp("2026-07-28/basic/transports/streamable-http#server-validation"),
        Mcp("2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters"),
        Cwe(436, "Interpretation Conflict"),
    ],
    category: Category::Http,
    places: PASSIVE,
    ..BASE
};
