//! The `Authorization` header of a request -> the scheme and the access token. RFC 6750, section 2.1, and RFC 9449,
//! section 7.1.

use crate::http::{Headers, RepeatedHeader, single};

/// The way in which a request presents its access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must decide what each scheme proves")]
pub enum Scheme {
    /// The token alone is enough.
    Bearer,
    /// The token comes with a proof that the client has a key.
    Dpop,
}

impl Scheme {
    /// Returns the name of the scheme, as it is written in headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

/// The access token of a request, and its scheme. It has no `Debug`, so that the token is not printed by accident.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PresentedToken<'a> {
    /// The scheme.
    pub scheme: Scheme,
    /// The token: at least one byte, without white space around it.
    pub token: &'a [u8],
}

/// Returns the credentials of a request. `None` means that it has none, or those of another scheme.
///
/// A token anywhere else, such as in the URI, is not looked at: MCP 2026-07-28, basic/authorization, "Token
/// Requirements".
pub fn credentials(headers: &(impl Headers + ?Sized)) -> Result<Option<PresentedToken<'_>>, RepeatedHeader> {
    let Some(value) = single(headers, "authorization")? else { return Ok(None) };
    let Some(space) = value.iter().position(|byte| *byte == b' ') else { return Ok(None) };
    let (name, token) = value.split_at(space);
    let token = token.trim_ascii();
    let schemes = [Scheme::Bearer, Scheme::Dpop];
    let scheme = schemes.into_iter().find(|scheme| name.eq_ignore_ascii_case(scheme.name().as_bytes()));
    Ok(scheme.filter(|_| !token.is_empty()).map(|scheme| PresentedToken { scheme, token }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_read_by_its_grammar() {
        let bearer = |token: &'static str| Ok(Some((Scheme::Bearer, token.as_bytes())));
        let dpop = |token: &'static str| Ok(Some((Scheme::Dpop, token.as_bytes())));
        for (values, expected) in [
            (&[][..], Ok(None)),
            (&["Bearer abc"], bearer("abc")),
            (&["bEARER   abc  "], bearer("abc")),
            (&["DPoP a.b.c"], dpop("a.b.c")),
            (&["dpop a.b.c"], dpop("a.b.c")),
            (&["Bearer"], Ok(None)),
            (&["Bearer "], Ok(None)),
            (&["Bearerabc"], Ok(None)),
            (&["Basic YTpi"], Ok(None)),
            (&[""], Ok(None)),
            (&["Bearer abc", "Bearer abc"], Err(RepeatedHeader)),
            (&["Bearer abc", "DPoP abc"], Err(RepeatedHeader)),
        ] {
            let headers: Vec<_> = values.iter().map(|value| ("Authorization", value.as_bytes())).collect();
            let read = credentials(&headers[..]).map(|found| found.map(|found| (found.scheme, found.token)));
            assert_eq!(read, expected, "{values:?}");
        }
    }
}
