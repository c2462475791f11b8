//! Error codes: an open set of integers, some of which have names.

use std::fmt;

/// The code of an error object. Any integer may come; these are the ones with a meaning of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(i64);

impl Code {
    /// What was received is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// It is JSON, but not a message.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// The method does not exist here.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The method exists, but not with these parameters.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The receiver failed, through no fault of the sender's.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// The request was cancelled by its sender. The Language Server Protocol's; outside the reserved range.
    pub const REQUEST_CANCELLED: Self = Self(-32800);

    /// A code that came over the wire: any integer. To make one of your own, use [`Self::application`].
    pub const fn received(code: i64) -> Self {
        Self(code)
    }

    /// A code for an application's own errors: any integer outside the range that JSON-RPC reserves.
    pub const fn application(code: i64) -> Result<Self, ReservedCode> {
        match code {
            -32768..=-32000 => Err(ReservedCode(code)),
            _ => Ok(Self(code)),
        }
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whether this is one of the codes that JSON-RPC leaves to servers, -32099 to -32000.
    pub const fn is_server(self) -> bool {
        matches!(self.0, -32099..=-32000)
    }

    /// The sentence that JSON-RPC 2.0, section 5.1, or LSP for its own, gives the code.
    pub const fn message(self) -> Option<&'static str> {
        Some(match self {
            Self::PARSE_ERROR => "Parse error",
            Self::INVALID_REQUEST => "Invalid Request",
            Self::METHOD_NOT_FOUND => "Method not found",
            Self::INVALID_PARAMS => "Invalid params",
            Self::INTERNAL_ERROR => "Internal error",
            Self::REQUEST_CANCELLED => "Request cancelled",
            _ => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An application asked for a code that is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReservedCode(pub i64);

impl fmt::Display for ReservedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error code {} is reserved by JSON-RPC: use one outside -32768..=-32000", self.0)
    }
}

impl std::error::Error for ReservedCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_cannot_take_reserved_codes() {
        for code in [-32768, -32700, -32603, -32099, -32000] {
            assert_eq!(Code::application(code), Err(ReservedCode(code)));
        }
        for code in [-32769, -31999, -1, 0, 1, 404, i64::MIN, i64::MAX] {
            assert_eq!(Code::application(code).map(Code::get), Ok(code));
        }
    }
}
