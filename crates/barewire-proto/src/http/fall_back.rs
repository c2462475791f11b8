//! Finds out the era of an HTTP server from its responses: the client tries a modern request, then `initialize`, then
//! the HTTP+SSE transport of 2024-11-05.
//!
//! MCP 2026-07-28, basic/transports/streamable-http, "Backward Compatibility".

use super::ResponseKind;
use crate::mcp::code;
use crate::rpc::Code;

/// An attempt to find the era of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the specification defines these attempts")]
pub enum Attempt {
    /// A request of the modern era.
    Modern,
    /// An `initialize` request without a session.
    Initialize,
    /// A GET request that opens the event stream of the HTTP+SSE transport.
    Sse,
}

/// The next step of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a client must handle every variant")]
pub enum NextStep {
    /// Stay with the era that was tried, because the server supports it. If the response is an error, the error is
    /// about the request, not about the era.
    Stay,
    /// Read the JSON-RPC response in the body, then call [`next_after_response`].
    Read,
    /// Try `initialize`.
    Initialize,
    /// Try HTTP+SSE.
    Sse,
    /// Authorize, then repeat the attempt.
    Authorize,
    /// Give up.
    Fail,
}

/// Returns the next step after the response to an attempt.
///
/// | attempt | response | next step |
/// |---|---|---|
/// | anything | 401 | authorize |
/// | anything | 403, a redirect, 408, 429, 502 to 504; success with a body that is not MCP | fail |
/// | modern | JSON or events | read the response |
/// | modern | an error of the modern era; -32601 with 404 | stay |
/// | modern | any other 4xx or 5xx | `initialize` |
/// | `initialize` | JSON or events | read the response |
/// | `initialize` | 400, 404, 405, without an error of the modern era | HTTP+SSE |
/// | `initialize` | any other | fail |
/// | HTTP+SSE | events | stay |
/// | HTTP+SSE | any other | fail |
///
/// A modern server sends 400 with -32602 if `_meta` is incomplete; a legacy server sends it if it does not know the
/// parameters. Our `_meta` is always complete, so the server is legacy.
pub fn fall_back(tried: Attempt, answer: &ResponseKind) -> NextStep {
    let status = match answer {
        ResponseKind::Unauthorized => return NextStep::Authorize,
        ResponseKind::Accepted | ResponseKind::Forbidden { .. } => return NextStep::Fail,
        ResponseKind::Json if tried == Attempt::Sse => return NextStep::Fail,
        ResponseKind::Events if tried == Attempt::Sse => return NextStep::Stay,
        ResponseKind::Json | ResponseKind::Events => return NextStep::Read,
        ResponseKind::SessionGone => 404,
        ResponseKind::Error { status, .. } | ResponseKind::NotMcp { status, .. } => *status,
    };
    if !(400..=599).contains(&status) || matches!(status, 408 | 429 | 502..=504) {
        return NextStep::Fail;
    }
    let code = match answer {
        ResponseKind::Error { error, .. } => Some(error.code),
        _ => None,
    };
    let is_modern = code.is_some_and(code::is_modern);
    match tried {
        Attempt::Modern if is_modern || (status == 404 && code == Some(Code::METHOD_NOT_FOUND)) => NextStep::Stay,
        Attempt::Modern => NextStep::Initialize,
        Attempt::Initialize if !is_modern && matches!(status, 400 | 404 | 405) => NextStep::Sse,
        Attempt::Initialize | Attempt::Sse => NextStep::Fail,
    }
}

/// Returns the next step after a JSON-RPC response with a success status. `error` is the error code, or `None` for a
/// result.
///
/// A modern server sends its errors with an error status. So an error with a success status, whose code is not of the
/// modern era, comes from a legacy server that does not know the method.
pub fn next_after_response(tried: Attempt, error: Option<Code>) -> NextStep {
    match (tried, error) {
        (_, None) => NextStep::Stay,
        (Attempt::Modern, Some(error)) if code::is_modern(error) => NextStep::Stay,
        (Attempt::Modern, Some(_)) => NextStep::Initialize,
        (Attempt::Initialize | Attempt::Sse, Some(_)) => NextStep::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i64) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m"}}}}"#)
    }

    #[test]
    fn all_of_the_table() {
        use NextStep::{Authorize, Fail, Initialize, Read, Sse, Stay};
        let json = "application/json";
        // The last three columns are the next steps after a modern request, after `initialize` and after a GET.
        for (status, content_type, body, modern, initialize, sse) in [
            (200, json, String::new(), Read, Read, Fail),
            (200, "text/event-stream", String::new(), Read, Read, Stay),
            (200, "text/html", "<html>".to_owned(), Fail, Fail, Fail),
            (202, "", String::new(), Fail, Fail, Fail),
            (302, "", String::new(), Fail, Fail, Fail),
            (400, json, error(-32020), Stay, Fail, Fail),
            (400, json, error(-32021), Stay, Fail, Fail),
            (400, json, error(-32022), Stay, Fail, Fail),
            (400, json, error(-32602), Initialize, Sse, Fail),
            (400, json, error(-32600), Initialize, Sse, Fail),
            (400, json, error(-32000), Initialize, Sse, Fail),
            (400, json, error(-32601), Initialize, Sse, Fail),
            (400, "", String::new(), Initialize, Sse, Fail),
            (400, "text/plain", "no valid session".to_owned(), Initialize, Sse, Fail),
            (401, json, error(-32020), Authorize, Authorize, Authorize),
            (403, json, error(-32020), Fail, Fail, Fail),
            (404, json, error(-32601), Stay, Sse, Fail),
            (404, json, error(-32000), Initialize, Sse, Fail),
            (404, "text/html", "<h1>".to_owned(), Initialize, Sse, Fail),
            (405, "", String::new(), Initialize, Sse, Fail),
            (406, json, error(-32000), Initialize, Fail, Fail),
            (415, "", String::new(), Initialize, Fail, Fail),
            (408, "", String::new(), Fail, Fail, Fail),
            (429, "", String::new(), Fail, Fail, Fail),
            (500, json, error(-32603), Initialize, Fail, Fail),
            (501, "", String::new(), Initialize, Fail, Fail),
            (503, json, error(-32603), Fail, Fail, Fail),
        ] {
            let content = (!content_type.is_empty()).then_some(content_type.as_bytes());
            let answer = ResponseKind::classify(status, content, Some(body.as_bytes()), false);
            let next = [Attempt::Modern, Attempt::Initialize, Attempt::Sse].map(|tried| fall_back(tried, &answer));
            assert_eq!(next, [modern, initialize, sse], "{status} {content_type} {body}");
        }
    }

    #[test]
    fn next_step_after_a_response_with_success() {
        let [modern, unknown] = [-32022, -32601].map(|code| Some(Code::received(code)));
        for (tried, error, next) in [
            (Attempt::Modern, None, NextStep::Stay),
            (Attempt::Modern, modern, NextStep::Stay),
            (Attempt::Modern, unknown, NextStep::Initialize),
            (Attempt::Initialize, None, NextStep::Stay),
            (Attempt::Initialize, unknown, NextStep::Fail),
        ] {
            assert_eq!(next_after_response(tried, error), next, "{tried:?} {error:?}");
        }
    }
}
