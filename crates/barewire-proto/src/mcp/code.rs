//! The table of the error codes that MCP defines, with their revisions.

use super::Revision;
use crate::rpc::Code;

/// A header is missing, invalid, or differs from the body.
pub const HEADER_MISMATCH: Code = Code::received(-32020);
/// The request needs a capability that the client did not declare. `data.requiredCapabilities` names the capability.
pub const MISSING_CLIENT_CAPABILITY: Code = Code::received(-32021);
/// The server does not support the revision of the request. `data.supported` and `data.requested` hold the revisions.
pub const UNSUPPORTED_PROTOCOL_VERSION: Code = Code::received(-32022);
/// There is no resource with this URI. From 2026-07-28 on, [`Code::INVALID_PARAMS`] with `data.uri` is used instead.
pub const RESOURCE_NOT_FOUND: Code = Code::received(-32002);
/// The user must first open the URLs in `data.elicitations`.
pub const URL_ELICITATION_REQUIRED: Code = Code::received(-32042);
/// The user rejected a sampling request. The specification uses this code only in an example.
pub const USER_REJECTED: Code = Code::received(-1);

/// An error code that MCP defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownCode {
    /// The code.
    pub code: Code,
    /// The standard message.
    pub message: &'static str,
    /// The first revision that has the code.
    pub since: Revision,
    /// The last revision that has the code. A client of a later revision still understands the code, but a server of a
    /// later revision must not send it.
    pub until: Revision,
}

use Revision as R;

#[rustfmt::skip]
/// The error codes of MCP, without those of JSON-RPC.
pub const CODES: &[KnownCode] = &[
    KnownCode { code: USER_REJECTED,                message: "User rejected sampling request",             since: R::V2024_11_05, until: R::V2025_11_25 },
    KnownCode { code: RESOURCE_NOT_FOUND,           message: "Resource not found",                         since: R::V2024_11_05, until: R::V2025_11_25 },
    KnownCode { code: URL_ELICITATION_REQUIRED,     message: "URL elicitation required",                   since: R::V2025_11_25, until: R::V2025_11_25 },
    KnownCode { code: HEADER_MISMATCH,              message: "Header mismatch",                            since: R::V2026_07_28, until: R::V2026_07_28 },
    KnownCode { code: MISSING_CLIENT_CAPABILITY,    message: "Missing required client capability",         since: R::V2026_07_28, until: R::V2026_07_28 },
    KnownCode { code: UNSUPPORTED_PROTOCOL_VERSION, message: "Unsupported protocol version",               since: R::V2026_07_28, until: R::V2026_07_28 },
];

impl KnownCode {
    /// Whether a server of this revision may send the code.
    pub fn is_in(&self, revision: Revision) -> bool {
        (self.since..=self.until).contains(&revision)
    }
}

/// Returns the table entry of a code, or `None` if MCP does not define the code.
pub fn find(code: Code) -> Option<&'static KnownCode> {
    CODES.iter().find(|known| known.code == code)
}

/// Whether an error with this code can only come from a server of the modern era.
pub fn is_modern(code: Code) -> bool {
    find(code).is_some_and(|known| known.since.is_modern())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_known_only_in_its_revisions() {
        let found = find(RESOURCE_NOT_FOUND).expect("in the table");
        assert!(found.is_in(Revision::V2024_11_05) && !found.is_in(Revision::V2026_07_28));
        assert!(find(Code::INVALID_PARAMS).is_none());
        assert!(
            is_modern(HEADER_MISMATCH)
                && !is_modern(RESOURCE_NOT_FOUND)
                && !is_modern(Code::METHOD_NOT_FOUND)
        );
    }
}
