//! Checks of authorization over HTTP: the challenge, the metadata that leads to a token, and the tokens that are refused.

use barewire_proto::mcp::Revision;

use super::Bound::Server;
use super::Document::{Page, Rfc};
use super::Reference::{Cwe, Other};
use super::rule::{must, ours, should, written};
use super::{
    Category, Check, CheckPlace, LEGACY_SINCE_2025_06_18, Level, MODERN, RevisionRange, Rule, SINCE_2025_03_26,
    SINCE_2025_06_18, SINCE_2025_11_25, Severity, host, only,
};

pub(crate) const CHECKS: &[&Check] = &[
    &AUTH_CHALLENGE,
    &AUTH_RESOURCE_METADATA,
    &AUTH_OFFLINE_ACCESS,
    &AUTH_SERVER_METADATA,
    &AUTH_PKCE,
    &AUTH_RESPONSE_ISS,
    &AUTH_CLIENT_REGISTRATION,
    &AUTH_INVALID_TOKEN,
    &AUTH_AUDIENCE,
    &AUTH_EXPIRY,
    &AUTH_ISSUER,
    &AUTH_SCOPE,
    &AUTH_DPOP,
];

/// The default fields of a check of authorization. They need no handshake: a client without a token gets none.
const LIVE: Check = Check {
    skip: NO_AUTHORIZATION,
    revisions: SINCE_2025_03_26,
    category: Category::Authorization,
    places: &[CheckPlace::Http],
    needs: &["mute-server"],
    ..super::BASE
};

/// The reason why the checks are skipped at a server that anybody may use.
pub(crate) const NO_AUTHORIZATION: &str = "the server requires no authorization";

/// The ids of the checks without which the metadata of an authorization server is not known.
const WITH_SERVER_METADATA: &[&str] =
    &["mute-server", "http-unauthorized", "auth-resource-metadata", "auth-server-metadata"];

/// The ids of the checks without which the refusal of a wrong token says nothing.
const WITH_VALID_TOKENS: &[&str] = &["mute-server", "auth-invalid-token"];

const INDEX: super::Document = Page("basic/authorization");
const DISCOVERY: super::Document = Page("basic/authorization/authorization-server-discovery");
const REGISTRATION: super::Document = Page("basic/authorization/client-registration");
const SECURITY: super::Document = Page("basic/authorization/security-considerations");
const PASSTHROUGH: &str =
    "https://modelcontextprotocol.io/specification/2025-11-25/basic/security_best_practices#token-passthrough";

/// The status of a refused request without a token.
pub(crate) static CHALLENGE_STATUS: Rule = written(
    Server,
    &[
        must(
            only(Revision::V2025_03_26),
            INDEX,
            "Example: authorization code grant",
            "servers MUST respond with HTTP 401 Unauthorized",
        ),
        must(SINCE_2025_06_18, INDEX, "Error Handling", "MUST return appropriate HTTP status codes"),
    ],
);
/// A server that publishes metadata asks for a token. Authorization is optional, and a server may require it only for
/// some tools, so no specification says when.
pub(crate) static CHALLENGE_SENT: Rule = ours(Server, SINCE_2025_03_26).with_severity(Severity::Medium);

pub(crate) static AUTH_CHALLENGE: Check = Check {
    id: "auth-challenge",
    title: "A request without a token gets 401",
    why: "Clients sign in when they get 401. They take 403 for a final refusal, and follow a redirect to a page that \
          no program can read. A server that serves the request is never signed in to.",
    severity: Severity::High,
    rationale: "hosts that get another status do not start the sign-in",
    looks_at: "the first request of a client, without a token; if it is served, tools/list too",
    pass: "one of the requests gets 401",
    fail: "a request is refused with another status; or all are served, although the server has protected resource \
           metadata",
    sentence: "a request without a token is not answered with 401",
    rules: &[&CHALLENGE_STATUS, &CHALLENGE_SENT],
    hosts: &[
        host(
            "Dify",
            "does not start the sign-in if initialize is served",
            "https://github.com/langgenius/dify/issues/36230",
        ),
        host("Claude", "takes 403 for the final answer", "https://github.com/anthropics/claude-ai-mcp/issues/442"),
    ],
    remedy: "Answer 401 with WWW-Authenticate to each request without a token, before anything else is looked at. If \
             only some tools need a token, skip this check or keep the finding in a baseline.",
    example: r#"HTTP/1.1 401 Unauthorized
WWW-Authenticate: Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp""#,
    see: &["http-unauthorized", "auth-resource-metadata"],
    references: &[Cwe(306, "Missing Authentication for Critical Function")],
    ..LIVE
};

/// The metadata of the resource can be found.
pub(crate) static RESOURCE_DISCOVERY: Rule = written(
    Server,
    &[
        must(
            only(Revision::V2025_06_18),
            INDEX,
            "Authorization Server Location",
            "MCP servers MUST implement the OAuth 2.0 Protected Resource Metadata",
        ),
        must(
            only(Revision::V2025_11_25),
            INDEX,
            "Protected Resource Metadata Discovery Requirements",
            "MCP servers MUST implement one of the following discovery mechanisms",
        ),
        must(
            MODERN,
            DISCOVERY,
            "Protected Resource Metadata Discovery Requirements",
            "MCP servers MUST implement one of the following discovery mechanisms",
        ),
    ],
);
/// The metadata of the resource is JSON, and says so.
pub(crate) static RESOURCE_DOCUMENT: Rule = written(
    Server,
    &[must(SINCE_2025_06_18, Rfc(9728), "section 3.2", "return a JSON object using the application/json content type")],
);
/// The metadata is about this server.
pub(crate) static RESOURCE_IDENTIFIER: Rule = written(
    Server,
    &[must(
        SINCE_2025_06_18,
        Rfc(9728),
        "section 3.3",
        "MUST be identical to the protected resource's resource identifier value",
    )],
);
/// The metadata names the authorization servers.
pub(crate) static AUTHORIZATION_SERVERS: Rule = written(
    Server,
    &[
        must(
            LEGACY_SINCE_2025_06_18,
            INDEX,
            "Authorization Server Location",
            "MUST include the authorization_servers field containing at least one authorization server",
        ),
        must(
            MODERN,
            DISCOVERY,
            "Authorization Server Location",
            "MUST include the authorization_servers field containing at least one authorization server",
        ),
    ],
);
/// The identifier of an authorization server is a URL with `https`.
pub(crate) static ISSUER_URL: Rule =
    written(Server, &[must(SINCE_2025_06_18, Rfc(8414), "section 2", r#"a URL that uses the "https" scheme"#)]);
/// All places have the same metadata. Clients differ in the place that they read.
pub(crate) static SAME_METADATA: Rule = ours(Server, SINCE_2025_06_18).with_severity(Severity::Low);

pub(crate) static AUTH_RESOURCE_METADATA: Check = Check {
    id: "auth-resource-metadata",
    title: "The server says where its tokens come from",
    why: "A client that gets 401 reads the protected resource metadata of the server. It names the authorization \
          server, and the resource that the token is for. Without it, the client cannot sign in; with another \
          resource, it must not.",
    severity: Severity::High,
    rationale: "hosts refuse a server without this metadata, or with metadata of another resource",
    looks_at: "the document at the URL of resource_metadata in the challenge, and at the well-known URLs of the server",
    pass: "the document is JSON, its resource is the URL of the server, and its authorization_servers are https URLs; \
           http is allowed on this machine",
    fail: "there is no such document; it is about another URL than the one that is checked; it names no authorization \
           server; or two places have different documents",
    skip: "the server requires no authorization; or it has no metadata, and the token that was given is not of a sign-in",
    sentence: "the protected resource metadata cannot be used",
    revisions: SINCE_2025_06_18,
    rules: &[
        &RESOURCE_DISCOVERY,
        &RESOURCE_DOCUMENT,
        &RESOURCE_IDENTIFIER,
        &AUTHORIZATION_SERVERS,
        &ISSUER_URL,
        &SAME_METADATA,
    ],
    hosts: &[
        host(
            "VS Code",
            "refuses metadata whose resource is not the URL of the server, even for a slash",
            "https://github.com/microsoft/vscode/issues/259251",
        ),
        host(
            "clients on the C# SDK",
            "fail if there is no metadata",
            "https://github.com/modelcontextprotocol/csharp-sdk/pull/1262",
        ),
    ],
    remedy: "Serve the document at /.well-known/oauth-protected-resource followed by the path of the server, without \
             authorization, as application/json. Set resource to the URL that clients use, letter by letter. A server \
             whose tokens are fixed needs no metadata: give check one of them.",
    example: r#"{"resource":"https://example.com/mcp","authorization_servers":["https://auth.example.com"]}"#,
    see: &["auth-challenge", "auth-server-metadata", "http-unauthorized"],
    references: &[Other("RFC 9728", "https://www.rfc-editor.org/rfc/rfc9728")],
    needs: &["mute-server", "http-unauthorized"],
    ..LIVE
};

pub(crate) static AUTH_OFFLINE_ACCESS: Check = Check {
    id: "auth-offline-access",
    title: "The server does not ask for offline_access",
    why: "offline_access asks the authorization server for a refresh token, which only the client needs. A client that \
          asks for the scopes of the server then shows the user a permission that the server never uses.",
    severity: Severity::Low,
    rationale: "some authorization servers refuse the scope, or ask the user for more than necessary",
    looks_at: "scope in the challenge, and scopes_supported in the protected resource metadata",
    pass: "neither contains offline_access",
    fail: "one of them contains offline_access",
    skip: "the server requires no authorization, or does not speak 2026-07-28",
    sentence: "the server asks for the scope offline_access",
    revisions: MODERN,
    level: Level::Should,
    rules: &[&written(
        Server,
        &[should(MODERN, INDEX, "Refresh Tokens", "SHOULD NOT include offline_access in WWW-Authenticate scope")],
    )],
    remedy: "Remove offline_access from both. Clients add it themselves if they want a refresh token.",
    example: r#""scopes_supported": ["files:read"]"#,
    see: &["auth-challenge", "auth-resource-metadata"],
    ..LIVE
};

/// The metadata of the authorization server can be found.
pub(crate) static SERVER_DISCOVERY: Rule = written(
    Server,
    &[
        must(
            only(Revision::V2025_06_18),
            INDEX,
            "Overview",
            "Authorization servers MUST provide OAuth 2.0 Authorization Server Metadata",
        ),
        must(
            SINCE_2025_11_25,
            INDEX,
            "Overview",
            "MCP authorization servers MUST provide at least one of the following discovery mechanisms",
        ),
    ],
);
/// The metadata is about the authorization server that the resource names.
pub(crate) static SERVER_ISSUER: Rule = written(
    Server,
    &[
        must(
            MODERN,
            DISCOVERY,
            "Authorization Server Metadata Discovery",
            "MUST be identical to the issuer identifier used to construct the well-known URL",
        ),
        must(
            SINCE_2025_06_18,
            Rfc(8414),
            "section 3.3",
            "MUST be identical to the authorization server's issuer identifier value",
        ),
    ],
);
/// The metadata has a token endpoint, and its URLs are URLs.
pub(crate) static SERVER_MEMBERS: Rule = written(
    Server,
    &[must(SINCE_2025_06_18, Rfc(8414), "section 2", "URL of the authorization server's token endpoint")],
);
/// Secrets are only sent over HTTPS.
pub(crate) static SERVER_HTTPS: Rule = written(
    Server,
    &[
        must(
            LEGACY_SINCE_2025_06_18,
            INDEX,
            "Communication Security",
            "All authorization server endpoints MUST be served over HTTPS",
        ),
        must(
            MODERN,
            SECURITY,
            "Communication Security",
            "All authorization server endpoints MUST be served over HTTPS",
        ),
    ],
);

pub(crate) static AUTH_SERVER_METADATA: Check = Check {
    id: "auth-server-metadata",
    title: "The authorization server publishes its own metadata",
    why: "The endpoints of the sign-in are in the metadata of the authorization server. A client that used metadata of \
          another issuer would send its code and its secret to the publisher of that metadata.",
    severity: Severity::High,
    rationale: "hosts refuse metadata of another issuer, and cannot sign in without endpoints",
    looks_at: "the metadata of each authorization server that the server names, at the places of RFC 8414 and OpenID \
               Connect",
    pass: "one place has a document with exactly the issuer that the server names, and with endpoints at https URLs; \
           http is allowed on this machine",
    fail: "no place has such a document; the issuer differs, even by a slash; or an endpoint is missing or not https",
    skip: "no authorization server is known",
    sentence: "the metadata of an authorization server cannot be used",
    revisions: SINCE_2025_06_18,
    rules: &[&SERVER_DISCOVERY, &SERVER_ISSUER, &SERVER_MEMBERS, &SERVER_HTTPS],
    hosts: &[
        host("Codex", "refuses metadata of another issuer", "https://github.com/openai/codex/issues/38944"),
        host(
            "clients on the TypeScript SDK 2",
            "refuse metadata of another issuer",
            "https://github.com/atlassian/atlassian-mcp-server/issues/205",
        ),
    ],
    remedy: "Name the issuer in authorization_servers exactly as its metadata writes it. If the authorization server is \
             not yours, its operator must fix the rest.",
    example: r#"{"issuer":"https://auth.example.com","authorization_endpoint":"https://auth.example.com/authorize","token_endpoint":"https://auth.example.com/token","code_challenge_methods_supported":["S256"]}"#,
    see: &["auth-resource-metadata", "auth-pkce"],
    references: &[Other("RFC 8414, section 3", "https://www.rfc-editor.org/rfc/rfc8414#section-3")],
    needs: &["mute-server", "http-unauthorized", "auth-resource-metadata"],
    ..LIVE
};

pub(crate) static AUTH_PKCE: Check = Check {
    id: "auth-pkce",
    title: "The authorization server says that it supports PKCE with S256",
    why: "PKCE keeps a stolen authorization code from being used. A client must see in the metadata that the \
          authorization server supports it, and else refuse to sign in.",
    severity: Severity::High,
    rationale: "hosts do not open the browser if the member is missing",
    looks_at: "code_challenge_methods_supported in the metadata of each authorization server with an authorization \
               endpoint",
    pass: "the list contains S256",
    fail: "the list is missing, or does not contain S256",
    skip: "the metadata of no authorization server is known, or the server speaks no revision since 2025-11-25",
    sentence: "an authorization server does not say that it supports PKCE",
    revisions: SINCE_2025_11_25,
    rules: &[&written(
        Server,
        &[
            must(
                only(Revision::V2025_11_25),
                INDEX,
                "Authorization Code Protection",
                "MUST include code_challenge_methods_supported in their metadata",
            ),
            must(
                MODERN,
                SECURITY,
                "Authorization Code Protection",
                "MUST include code_challenge_methods_supported in their metadata",
            ),
        ],
    )],
    hosts: &[
        host("Zed", "does not open the browser", "https://github.com/zed-industries/zed/issues/60358"),
        host("ChatGPT", "does not add the server", "https://github.com/home-assistant/core/issues/181542"),
    ],
    remedy: "Publish the list. If the authorization server supports PKCE but cannot publish the list, as some do, put \
             metadata with the list in front of it.",
    example: r#""code_challenge_methods_supported": ["S256"]"#,
    see: &["auth-server-metadata"],
    references: &[Other("RFC 7636", "https://www.rfc-editor.org/rfc/rfc7636")],
    needs: WITH_SERVER_METADATA,
    ..LIVE
};

pub(crate) static AUTH_RESPONSE_ISS: Check = Check {
    id: "auth-response-iss",
    title: "The authorization server names itself in its responses",
    why: "With iss in the response, a client that uses several authorization servers notices when the code of one is \
          passed off as that of another.",
    severity: Severity::Low,
    rationale: "clients still sign in without it; a later revision is expected to require it",
    looks_at: "authorization_response_iss_parameter_supported in the metadata of each authorization server with an \
               authorization endpoint",
    pass: "the member is true",
    fail: "the member is missing, or not true",
    skip: "the metadata of no authorization server is known, or the server does not speak 2026-07-28",
    sentence: "an authorization server does not say that its responses have iss",
    revisions: MODERN,
    level: Level::Should,
    rules: &[&written(
        Server,
        &[should(
            MODERN,
            INDEX,
            "Authorization Response Validation",
            "MCP authorization servers SHOULD include the iss parameter in authorization responses",
        )],
    )],
    remedy: "Add iss to each authorization response, also to errors, and set the member to true.",
    example: r#""authorization_response_iss_parameter_supported": true"#,
    see: &["auth-server-metadata"],
    references: &[Other("RFC 9207", "https://www.rfc-editor.org/rfc/rfc9207")],
    needs: WITH_SERVER_METADATA,
    ..LIVE
};

pub(crate) static AUTH_CLIENT_REGISTRATION: Check = Check {
    id: "auth-client-registration",
    title: "A new client can register itself",
    why: "A client and a server usually do not know each other before. If the authorization server accepts neither \
          client ID metadata documents nor registrations, each user must create a client by hand.",
    severity: Severity::Low,
    rationale: "a client with a configured id works; some servers do not want others",
    looks_at: "client_id_metadata_document_supported and registration_endpoint in the metadata of each authorization \
               server",
    pass: "the first is true, or the second is there",
    fail: "neither is there",
    skip: "the metadata of no authorization server is known",
    sentence: "a client cannot register itself at an authorization server",
    revisions: SINCE_2025_06_18,
    level: Level::Should,
    rules: &[&written(
        Server,
        &[
            should(
                only(Revision::V2025_06_18),
                INDEX,
                "Dynamic Client Registration",
                "MCP clients and authorization servers SHOULD support the",
            ),
            should(
                only(Revision::V2025_11_25),
                INDEX,
                "Client ID Metadata Documents",
                "authorization servers SHOULD support OAuth Client ID Metadata Documents",
            ),
            should(
                MODERN,
                REGISTRATION,
                "Client ID Metadata Documents",
                "authorization servers SHOULD support OAuth Client ID Metadata Documents",
            ),
        ],
    )],
    remedy: "Support client ID metadata documents; for older clients also dynamic registration. If clients are \
             registered by hand on purpose, skip this check.",
    example: r#""client_id_metadata_document_supported": true"#,
    see: &["auth-server-metadata"],
    needs: WITH_SERVER_METADATA,
    ..LIVE
};

/// The answer to a token that is not valid.
const INVALID_TOKEN: super::Sentence =
    must(SINCE_2025_03_26, INDEX, "Token Handling", "Invalid or expired tokens MUST receive a HTTP 401");

pub(crate) static AUTH_INVALID_TOKEN: Check = Check {
    id: "auth-invalid-token",
    title: "A token that no issuer has issued gets 401",
    why: "Anybody can make up a token, or change one. A server that does not verify the signature lets everybody in. A \
          client renews its token only when it gets 401.",
    severity: Severity::High,
    rationale: "a server that accepts such tokens is open to all; with another status, clients do not sign in again",
    looks_at: "the first request of a client with an invented token; and, if a token is given or stored, with that \
               token after a letter of its signature was changed, and without its signature (alg none)",
    pass: "each gets 401",
    fail: "one is served, or refused with another status",
    sentence: "an invalid token is not answered with 401",
    rules: &[&written(Server, &[INVALID_TOKEN])],
    hosts: &[host(
        "clients",
        "never renew a token that is refused with 500",
        "https://github.com/byadsco/meta-ads-mcp/pull/61",
    )],
    remedy: "Verify each token before the request is read: its signature with the keys of the issuer, by an algorithm \
             that you allow, or by introspection. Answer 401 with error=\"invalid_token\".",
    example: r#"WWW-Authenticate: Bearer error="invalid_token", resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp""#,
    see: &["auth-challenge", "auth-audience", "auth-expiry"],
    references: &[Cwe(347, "Improper Verification of Cryptographic Signature")],
    ..LIVE
};

/// The reason why a check of a wrong token is skipped.
const NO_WRONG_TOKEN: &str = "no such token was given, or the server requires no authorization";

pub(crate) static AUTH_AUDIENCE: Check = Check {
    id: "auth-audience",
    title: "A token for another server gets 401",
    why: "Each server that a user signs in to gets tokens of this user. If a server accepts tokens that were issued for \
          another one, the other server can act here as the user.",
    severity: Severity::High,
    rationale: "a malicious server that the user has signed in to can use this one",
    looks_at: "the first request of a client with a valid token of the same issuer for another server, which the user \
               gives",
    pass: "the request gets 401",
    fail: "the request is served, or refused with another status",
    skip: NO_WRONG_TOKEN,
    sentence: "a token for another server is not answered with 401",
    rules: &[
        &written(
            Server,
            &[must(
                SINCE_2025_06_18,
                INDEX,
                "Token Handling",
                "MUST validate that access tokens were issued specifically for them",
            )],
        ),
        // The first revision does not mention the audience.
        &ours(Server, only(Revision::V2025_03_26)),
    ],
    hosts: &[host("servers that get a token of the user", "can use it here", PASSTHROUGH)],
    remedy: "Compare aud with the URL of this server, which clients send as resource, and refuse all other tokens.",
    example: r#"{"iss":"https://auth.example.com","aud":"https://example.com/mcp","exp":1800000000}"#,
    see: &["auth-invalid-token", "auth-issuer"],
    references: &[
        Cwe(863, "Incorrect Authorization"),
        Other("RFC 8707, section 2", "https://www.rfc-editor.org/rfc/rfc8707#section-2"),
    ],
    needs: WITH_VALID_TOKENS,
    ..LIVE
};

pub(crate) static AUTH_EXPIRY: Check = Check {
    id: "auth-expiry",
    title: "An expired token gets 401",
    why: "An access token lives for minutes, so that a stolen one is soon useless and a user who has lost the right is \
          soon out. The client needs 401 to renew it.",
    rationale: "a stolen token works for ever; or clients do not renew it",
    looks_at: "the first request of a client with an expired token, which the user gives",
    pass: "the request is answered with 401",
    fail: "the expired token is accepted, or refused with another status",
    skip: NO_WRONG_TOKEN,
    sentence: "an expired token is not answered with 401",
    rules: &[&written(Server, &[INVALID_TOKEN])],
    remedy: "Compare exp with the clock at each request, also if the token was verified before.",
    example: r#"WWW-Authenticate: Bearer error="invalid_token", error_description="the token has expired""#,
    see: &["auth-invalid-token"],
    references: &[Cwe(613, "Insufficient Session Expiration")],
    needs: WITH_VALID_TOKENS,
    ..LIVE
};

pub(crate) static AUTH_ISSUER: Check = Check {
    id: "auth-issuer",
    title: "A token of another issuer gets 401",
    why: "Anybody can run an authorization server, and issue tokens with any user in them. Only tokens of the issuers \
          that the server names mean anything to it.",
    severity: Severity::High,
    rationale: "an attacker that runs another issuer can act as any user",
    looks_at: "the first request of a client with a token of an issuer that the server does not name, which the user \
               gives",
    pass: "the request with the token of the other issuer gets 401",
    fail: "the token of the other issuer is accepted, or refused with another status",
    skip: NO_WRONG_TOKEN,
    sentence: "a token of another issuer is not answered with 401",
    rules: &[&written(
        Server,
        &[
            must(SINCE_2025_06_18, INDEX, "Token Handling", "MCP servers MUST NOT accept or transit any other tokens"),
            INVALID_TOKEN,
        ],
    )],
    hosts: &[host("operators of another issuer", "can act as any user", PASSTHROUGH)],
    remedy: "Fetch keys only from the issuers in authorization_servers, and compare iss letter by letter.",
    example: r#"{"iss":"https://auth.example.com","sub":"ada","aud":"https://example.com/mcp"}"#,
    see: &["auth-invalid-token", "auth-audience"],
    references: &[Cwe(345, "Insufficient Verification of Data Authenticity")],
    needs: WITH_VALID_TOKENS,
    ..LIVE
};

/// The status of a request whose token lacks a scope.
pub(crate) static SCOPE_STATUS: Rule =
    written(Server, &[must(SINCE_2025_03_26, INDEX, "Error Handling", "MUST return appropriate HTTP status codes")]);
/// The challenge of a request whose token lacks a scope.
pub(crate) static SCOPE_CHALLENGE: Rule = written(
    Server,
    &[
        should(
            SINCE_2025_11_25,
            INDEX,
            "Runtime Insufficient Scope Errors",
            "SHOULD include the scopes needed to satisfy the current",
        ),
        must(
            RevisionRange(Revision::V2025_03_26, Revision::V2025_06_18),
            Rfc(6750),
            "section 3",
            "MUST include the HTTP WWW-Authenticate response header field",
        ),
    ],
);

pub(crate) static AUTH_SCOPE: Check = Check {
    id: "auth-scope",
    title: "A request without the scope that it needs gets 403 and the scope",
    why: "A user can give a client some rights and not others. The client asks the user for more when a 403 names the \
          scopes that are missing.",
    rationale: "a client with few rights has all; or it cannot ask for the ones that it needs",
    looks_at: "the first request of a client, tools/list and calls of tools, with a token without a necessary scope, \
               which the user gives; tools are called only if that is allowed",
    pass: "one of the requests gets 403 with error=\"insufficient_scope\" and scope",
    fail: "a tool that the user has named is served; a request gets another status; or the challenge lacks error or scope",
    skip: "no such token was given; or all requests were served, and no tool that needs a scope is known",
    sentence: "a request without the necessary scope is not refused as it should be",
    rules: &[&SCOPE_STATUS, &SCOPE_CHALLENGE],
    remedy: "Compare the scopes of the token with those of the request before it is handled, and name all that the \
             request needs in one challenge.",
    example: r#"WWW-Authenticate: Bearer error="insufficient_scope", scope="files:write""#,
    see: &["auth-challenge"],
    references: &[
        Other("RFC 6750, section 3.1", "https://www.rfc-editor.org/rfc/rfc6750#section-3.1"),
        Cwe(862, "Missing Authorization"),
    ],
    ..LIVE
};

/// A bound token without a proof is refused.
pub(crate) static DPOP_DOWNGRADE: Rule = written(
    Server,
    &[must(
        SINCE_2025_03_26,
        Rfc(9449),
        "section 7.2",
        "MUST reject a DPoP-bound access token received as a bearer token",
    )],
);
/// A proof is for one method and one URL.
pub(crate) static DPOP_REQUEST: Rule = written(
    Server,
    &[must(SINCE_2025_03_26, Rfc(9449), "section 4.3", "matches the HTTP method of the current request")],
);
/// A proof is accepted once. The RFC leaves it to the server.
pub(crate) static DPOP_REPLAY: Rule = ours(Server, SINCE_2025_03_26).with_severity(Severity::Low);

pub(crate) static AUTH_DPOP: Check = Check {
    id: "auth-dpop",
    title: "A token that is bound to a key needs a proof for this request",
    why: "A token that is bound to a key is of no use to a thief who does not have the key. This holds only if the \
          server refuses the token without a proof, and a proof that was made for another request.",
    rationale: "a stolen token works like one that is not bound",
    looks_at: "the first request of a client with the token of the stored sign-in: as a bearer token, with a proof that \
               was used before, and with a proof for another method or URL; only if hostile input is allowed",
    pass: "each is refused with 401",
    fail: "one of these requests is served, or refused with another status",
    skip: "the token is not bound to a key, or hostile input is not allowed",
    sentence: "a bound token is accepted without a proof for the request",
    rules: &[&DPOP_DOWNGRADE, &DPOP_REQUEST, &DPOP_REPLAY],
    remedy: "If the token has cnf.jkt, accept it only with the scheme DPoP and a proof by that key, whose htm and htu \
             are those of the request. Remember each jti for as long as its proof is accepted.",
    example: "Authorization: DPoP eyJ…\nDPoP: eyJ…",
    see: &["auth-invalid-token"],
    references: &[
        Other("RFC 9449", "https://www.rfc-editor.org/rfc/rfc9449"),
        Cwe(294, "Authentication Bypass by Capture-replay"),
    ],
    ..LIVE
};
