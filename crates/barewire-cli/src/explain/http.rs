//! The explanations of the HTTP statuses and headers of MCP.

use super::topics::Topic;

/// Returns the topic of a status. The names are the number, and the words that users may type for it.
const fn status(
    names: &'static [&'static str],
    title: &'static str,
    what: &'static str,
    fault: &'static str,
    fix: &'static str,
    see: &'static str,
) -> Topic {
    Topic { names, title, what, fault, fix, see }
}

#[rustfmt::skip]
pub(super) const HTTP_TOPICS: &[Topic] = &[
    // Statuses.
    status(&["200"], "OK (HTTP)",
        "The response to a POST with a request. The body is one JSON object (application/json) or a stream of events \
            (text/event-stream), as Content-Type says. Up to 2025-11-25, also the stream that a GET opens. A JSON-RPC \
            error can have status 200 too, except for the errors of 2026-07-28 that have 400 or 404.",
        "none: a regular response; a notification must get 202 instead",
        "send 202 without a body for notifications: Codex does not start a server that answers them with 200",
        "MCP 2025-11-25, basic/transports, Sending Messages to the Server; barewire explain http-status"),
    status(&["202"], "Accepted (HTTP)",
        "The server has accepted a notification (up to 2025-11-25 also a response) and sends no body. This is a MUST \
            from 2025-03-26 on. HTTP+SSE (2024-11-05) answers every POST so, and sends responses on its stream.",
        "none: a regular response; wrong as the response to a request over Streamable HTTP",
        "if a client waits after a 202, check that its message has an id",
        "MCP 2025-11-25, basic/transports, Sending Messages to the Server"),
    status(&["400"], "Bad Request (HTTP)",
        "Up to 2025-11-25: Mcp-Session-Id is missing (SHOULD), MCP-Protocol-Version is unknown (MUST, from 2025-06-18 \
            on), or the message cannot be accepted. In 2026-07-28 the body has the error: -32020 (headers and body \
            differ), -32021 (a capability is missing), -32022 (the version is not supported), or -32602 (_meta is \
            incomplete). A body without such an error means to a client that the server is a legacy one. Servers on \
            the TypeScript SDK 1.x send -32000 in the body.",
        "the client, usually",
        "read the error in the body; after -32022, send the request again with a version from data.supported",
        "MCP 2026-07-28, basic/transports/streamable-http, Server Validation; MCP 2025-11-25, basic/transports, \
            Session Management"),
    status(&["401", "unauthorized"], "Unauthorized (HTTP)",
        "The token is missing, invalid or expired. The response has WWW-Authenticate, which tells the client where to \
            get a token. Without it, ChatGPT and Claude Code do not start to sign in.",
        "the client, if it has a token and did not send it; the server, if WWW-Authenticate is missing",
        "send Authorization: Bearer TOKEN (barewire: --header); as a server, send WWW-Authenticate",
        "MCP 2025-11-25, basic/authorization, Error Handling; RFC 9110, section 15.5.2"),
    status(&["403", "forbidden"], "Forbidden (HTTP)",
        "The Origin is not allowed: a MUST from 2025-11-25 on, before any error status will do. Or the token lacks a \
            scope: then WWW-Authenticate has error=\"insufficient_scope\" and the scope to ask for (from 2025-11-25 \
            on). Servers that check Host answer 403 too.",
        "the client; or a server that does not know its own public name",
        "allow the origin or the host in the settings of the server, or sign in again with the scope",
        "MCP 2025-11-25, basic/transports, Security Warning; basic/authorization, Scope Challenge Handling"),
    status(&["404", "not found", "session-not-found"], "Not Found (HTTP)",
        "For a request with Mcp-Session-Id (2025-03-26 to 2025-11-25): the session has ended, and the client must send \
            initialize again, without the id. In 2026-07-28, with error -32601 in the body: the server does not have \
            the method. Otherwise the path is wrong; a client then tries HTTP+SSE with a GET.",
        "neither side, if the session has ended; the client, if the path is wrong",
        "send initialize again without Mcp-Session-Id; else check the path of the endpoint, often /mcp",
        "MCP 2025-11-25, basic/transports, Session Management; MCP 2026-07-28, basic/transports/streamable-http, \
            Protocol Version Header"),
    status(&["405", "method not allowed"], "Method Not Allowed (HTTP)",
        "To a GET: the server has no stream of its own messages. To a DELETE: clients cannot end sessions. Both are \
            regular up to 2025-11-25, and the only right answer of a server that speaks only 2026-07-28. To a POST of \
            initialize: perhaps the server has only HTTP+SSE. Clients on the TypeScript SDK go on after 405, but give \
            up after another status.",
        "none, for GET and DELETE",
        "nothing to fix for GET and DELETE; for POST, check the path and the transport",
        "MCP 2025-11-25, basic/transports, Listening for Messages from the Server"),
    status(&["406", "not acceptable"], "Not Acceptable (HTTP)",
        "The Accept header does not list both application/json and text/event-stream, which a client must do for every \
            POST from 2025-03-26 on. MCP does not name this status; servers on the TypeScript and Python SDKs send it.",
        "the client, or a proxy that changed the header",
        "send Accept: application/json, text/event-stream",
        "MCP 2025-11-25, basic/transports, Sending Messages to the Server; barewire explain http-accept"),
    status(&["408"], "Request Timeout (HTTP)",
        "The server or a proxy waited too long for the rest of the HTTP request. MCP does not use it. The Python SDK \
            1.x has 408 as the code of a JSON-RPC error that it makes itself when a request gets no response in time.",
        "depends: a slow network, or a server that does not respond",
        "look at the server's log; raise the time limit if the call is slow",
        "RFC 9110, section 15.5.9"),
    status(&["409", "conflict"], "Conflict (HTTP)",
        "The request contradicts the state of the server. MCP does not use it. Servers on the TypeScript SDK 1.x answer a \
            second GET of the same session so, with -32000 in the body: one stream for each session.",
        "the client, if it opens a second stream; the server, if it has not noticed that the first one is broken",
        "close the other stream, or wait until the server has noticed its end, and open it again",
        "RFC 9110, section 15.5.10; barewire explain -32000"),
    status(&["413"], "Content Too Large (HTTP)",
        "The body is longer than the limit of the server or of a proxy. MCP does not use it.",
        "the sender, or the limit",
        "send less at once, or raise the limit",
        "RFC 9110, section 15.5.14; docs/limits.md"),
    status(&["415", "unsupported media type"], "Unsupported Media Type (HTTP)",
        "The Content-Type of the POST is not application/json. No revision of MCP says so in words; servers on the \
            TypeScript SDK, and barewire, refuse other types, because web pages can send them without asking.",
        "the client",
        "send Content-Type: application/json",
        "RFC 9110, section 15.5.16; barewire explain http-request-type"),
    status(&["429", "too many requests"], "Too Many Requests (HTTP)",
        "The client sends too much, or has too many sessions. MCP does not use it. Retry-After may say when to try \
            again.",
        "the client, or the limit",
        "wait, end sessions that are not needed with DELETE, or raise the limit",
        "RFC 6585, section 4"),
    status(&["500", "internal server error"], "Internal Server Error (HTTP)",
        "The server failed before it could write a JSON-RPC response: an exception outside of its handlers, or a broken \
            start. MCP does not use it: a handler that fails is answered with -32603 and status 200.",
        "the server",
        "look at the log of the server; catch exceptions where the request is read, too",
        "RFC 9110, section 15.6.1; barewire explain -32603"),
    status(&["502", "bad gateway"], "Bad Gateway (HTTP)",
        "A proxy got no usable response from the server behind it: the server has exited, listens elsewhere, or closed the \
            connection. MCP does not use it, and the server itself has not seen the request, or not answered it.",
        "the proxy, or the server behind it",
        "look whether the server runs and at which address, then at the log of the proxy",
        "RFC 9110, section 15.6.3"),
    status(&["503", "service unavailable"], "Service Unavailable (HTTP)",
        "The server is shutting down or full, or a proxy cannot reach it. MCP does not use it.",
        "the server, or a proxy",
        "try again later; look at the log of the proxy and of the server",
        "RFC 9110, section 15.6.4"),
    // Headers.
    status(&["Retry-After"], "when to try again (HTTP)",
        "A number of seconds, or a date. Servers and proxies send it with 429 and 503. MCP does not mention it.",
        "none",
        "wait that long before the next request; a client that sends at once makes it worse",
        "RFC 9110, section 10.2.3"),
    status(&["Mcp-Session-Id"], "the session of a legacy client (HTTP)",
        "2025-03-26 to 2025-11-25 (which writes MCP-Session-Id): a server may send it with the result of initialize. \
            Then the client must send it with every request, DELETE ends the session, and 404 says that it has ended. \
            Visible ASCII only, and it should be impossible to guess. 2026-07-28 has no sessions: the header is ignored.",
        "the client, if it is missing: 400; neither side, if the session has ended: 404",
        "copy the value from the response to initialize; after 404, send initialize again without it",
        "MCP 2025-11-25, basic/transports, Session Management; barewire explain http-session"),
    status(&["MCP-Protocol-Version"], "the revision of the request (HTTP)",
        "From 2025-06-18 on, every request after initialize must have it; if it is missing, the server should assume \
            2025-03-26, and an unknown version gets 400. In 2026-07-28 every POST must have it, with the version that \
            is in _meta; if the two differ, the request gets 400 and -32020.",
        "the client",
        "send the agreed version; in 2026-07-28, the version of _meta",
        "MCP 2025-11-25, basic/transports, Protocol Version Header; MCP 2026-07-28, \
            basic/transports/streamable-http, Protocol Version Header"),
    status(&["Mcp-Method"], "the method of the request (HTTP, 2026-07-28)",
        "Repeats method of the body, so that proxies need not read the body. Required with every request. If it is \
            missing or differs, the request gets 400 and -32020. The value is case-sensitive.",
        "the client, or a proxy that changed the header",
        "send the method of the body, such as Mcp-Method: tools/call",
        "MCP 2026-07-28, basic/transports/streamable-http, Standard Request Headers"),
    status(&["Mcp-Name"], "the tool, prompt or resource of the request (HTTP, 2026-07-28)",
        "Repeats params.name of tools/call and prompts/get, or params.uri of resources/read. A value that is not plain \
            ASCII is written as =?base64?…?=. If it is missing or differs, the request gets 400 and -32020.",
        "the client, or a proxy that changed the header",
        "send the name or uri of the body; encode it if it is not plain ASCII",
        "MCP 2026-07-28, basic/transports/streamable-http, Standard Request Headers and Value Encoding"),
    status(&["Mcp-Param", "Mcp-Param-*", "x-mcp-header"], "an argument of the tool (HTTP, 2026-07-28)",
        "A tool can mark an argument with x-mcp-header in its inputSchema; the client then repeats the argument as \
            Mcp-Param-NAME. Clients over HTTP must leave out a tool whose mark is invalid.",
        "the client, if the header is missing or differs: 400 and -32020",
        "request tools/list again, then send the call with the headers of the new schema",
        "MCP 2026-07-28, basic/transports/streamable-http, Custom Headers from Tool Parameters"),
    status(&["Last-Event-ID"], "the last event that a client has seen (HTTP)",
        "2025-03-26 to 2025-11-25: a GET with this header resumes a stream after that event, if the server has given \
            its events ids. In 2026-07-28 streams cannot be resumed, and the header is ignored: a request whose stream \
            breaks is lost, and is sent again under a new id.",
        "none: a regular header",
        "if nothing is resumed, check whether the events have ids",
        "MCP 2025-11-25, basic/transports, Resumability and Redelivery"),
    status(&["Accept"], "the types that a client reads (HTTP)",
        "Every POST must list application/json and text/event-stream, from 2025-03-26 on, because the server chooses. \
            A GET must list text/event-stream.",
        "the client: many servers answer 406",
        "send Accept: application/json, text/event-stream",
        "MCP 2025-11-25, basic/transports, Sending Messages to the Server; barewire explain http-accept"),
    status(&["Content-Type"], "the type of a body (HTTP)",
        "A response to a request must be application/json (one message) or text/event-stream (a stream of them). A \
            request is application/json; MCP shows this only in examples, but servers refuse other types with 415.",
        "the side that sends the body",
        "set it according to the body; a web page at this path (text/html) means that the path is wrong",
        "MCP 2025-11-25, basic/transports, Sending Messages to the Server; barewire explain http-content-type"),
    status(&["Origin"], "the web page that sends the request (HTTP)",
        "Only browsers send it. Servers must check it in every revision, against web pages that attack servers on the \
            same machine; from 2025-11-25 on, an origin that is not allowed gets 403.",
        "the server, if it serves a foreign origin",
        "allow only listed origins, and answer 403 to others",
        "MCP 2025-11-25, basic/transports, Security Warning; barewire explain http-origin"),
    status(&["WWW-Authenticate"], "how to sign in (HTTP)",
        "A server sends it with 401, and with 403 if a scope is missing. resource_metadata is the URL of the protected \
            resource metadata, scope what to ask for. 2025-06-18 requires the header; from 2025-11-25 on, the metadata \
            may be at its well-known place instead, but RFC 9110 still requires the header with every 401.",
        "the server, if it is missing",
        "send WWW-Authenticate: Bearer resource_metadata=\"https://…/.well-known/oauth-protected-resource\"",
        "MCP 2025-11-25, basic/authorization, Protected Resource Metadata Discovery Requirements; RFC 9728"),
    status(&["Authorization"], "the token of the client (HTTP)",
        "Bearer and an access token, with every request, from 2025-03-26 on; never in the URL. stdio has no such \
            header: there, secrets are in the environment.",
        "the client, if it is missing: 401",
        "pass it with --header, or sign in with the host",
        "MCP 2025-11-25, basic/authorization, Token Requirements"),
];
