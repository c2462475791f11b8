//! Error codes: any integer is valid, and some integers have names.

use std::fmt;

/// The code of an error object: any integer. The constants are the codes that JSON-RPC and LSP define.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(i64);

impl Code {
    /// The message is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The message is JSON, but not a valid message.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// The receiver does not have the method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The parameters are wrong for the method.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The receiver failed; the request was valid.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// The sender cancelled the request. LSP defines this code, which is outside the reserved range.
    pub const REQUEST_CANCELLED: Self = Self(-32800);

    /// Creates a code from a received number, which can be any integer. For an error that your application defines, use
    /// [`Self::application`].
    pub const fn received(code: i64) -> Self {
        Self(code)
    }

    /// Creates a code for the errors of an application: any integer outside the range that JSON-RPC reserves.
    pub const fn application(code: i64) -> Result<Self, ReservedCode> {
        match code {
            -32768..=-32000 => Err(ReservedCode(code)),
            _ => Ok(Self(code)),
        }
    }

    /// Returns the code as a number.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whether the code is in the range that JSON-RPC reserves for errors of servers, -32099 to -32000.
    pub const fn is_server(self) -> bool {
        matches!(self.0, -32099..=-32000)
    }

    /// Returns the message that JSON-RPC 2.0 (section 5.1) or LSP defines for the code; `None` for other codes.
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

/// The error that [`Code::application`] returns for a code in the reserved range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReservedCode(pub i64);

impl fmt::Display for ReservedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error code {} is reserved by JSON-RPC: use a code outside -32768..=-32000", self.0)
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
