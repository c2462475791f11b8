//! The kinds of tokens that a server must refuse, which only the user can give.

/// The reason why a server must refuse a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WrongToken {
    /// It was issued for another server.
    OtherAudience,
    /// It has expired.
    Expired,
    /// It was issued by an authorization server that the server does not name.
    OtherIssuer,
    /// It is valid, but has not the scopes that the server, or one of its tools, needs.
    NoScope,
}

impl WrongToken {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::OtherAudience, Self::Expired, Self::OtherIssuer, Self::NoScope];

    /// Returns the name of this kind, as the command line has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OtherAudience => "other-audience",
            Self::Expired => "expired",
            Self::OtherIssuer => "other-issuer",
            Self::NoScope => "no-scope",
        }
    }
}
