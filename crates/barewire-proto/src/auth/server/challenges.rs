//! The refusal of a request -> the values of its `WWW-Authenticate` headers, with everything that the client needs in
//! one go. RFC 6750, section 3, RFC 9449, section 7.1, and RFC 9728, section 5.1.

use super::Scheme;
use super::scope::listed_scopes;
use crate::http::challenge::{Bearer, Dpop};

/// The role of DPoP at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "every role is handled")]
pub enum DpopRole {
    /// Tokens are not bound to keys.
    #[default]
    Unused,
    /// Tokens may be bound to keys.
    Accepted,
    /// Tokens must be bound to keys.
    Required,
}

/// The content of the challenges of one response.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Challenges<'a> {
    /// The scheme of the request that is refused; `None` if it had no credentials.
    pub presented: Option<Scheme>,
    /// The role of DPoP at this server.
    pub dpop: DpopRole,
    /// The error code; `None` if the request had no credentials.
    pub error: Option<&'a str>,
    /// The description of the error.
    pub description: Option<&'a str>,
    /// All scopes that the request needs.
    pub scopes: &'a [String],
    /// The URL of the metadata of this server.
    pub metadata: Option<&'a str>,
}

setters! { Challenges<'a> {
    presented: Option<Scheme>, dpop: DpopRole, error: Option<&'a str>, description: Option<&'a str>,
    scopes: &'a [String], metadata: Option<&'a str>,
} }

impl Challenges<'_> {
    /// Returns the header values.
    ///
    /// | the request had | Unused | Accepted | Required |
    /// |---|---|---|---|
    /// | nothing | Bearer | Bearer, DPoP | DPoP |
    /// | a bearer token | Bearer with the error | Bearer with the error, DPoP | DPoP with the error |
    /// | a token with a proof | Bearer with the error | DPoP with the error | DPoP with the error |
    ///
    /// The first value names the scopes and the metadata. Many clients read only one header, and look for `Bearer`.
    pub fn values(&self) -> Vec<String> {
        let schemes: &[Scheme] = match (self.dpop, self.presented) {
            (DpopRole::Unused, _) => &[Scheme::Bearer],
            (DpopRole::Accepted, None | Some(Scheme::Bearer)) => &[Scheme::Bearer, Scheme::Dpop],
            (DpopRole::Accepted, Some(Scheme::Dpop)) | (DpopRole::Required, _) => &[Scheme::Dpop],
        };
        let scope = listed_scopes(self.scopes.iter().map(String::as_str)).join(" ");
        let full = Bearer {
            resource_metadata: self.metadata,
            error: self.error,
            scope: Some(scope.as_str()).filter(|scope| !scope.is_empty()),
            error_description: self.description.filter(|_| self.error.is_some()),
            ..Bearer::default()
        };
        let value = |(at, scheme): (usize, &Scheme)| {
            let params = if at == 0 { full } else { Bearer::default() };
            let value = match scheme {
                Scheme::Bearer => params.value(),
                Scheme::Dpop => Dpop { algs: Some(DPOP_ALGORITHMS), params }.value(),
            };
            // If the URL or the error cannot be written in a header, only the scheme is.
            value.unwrap_or_else(|_| scheme.name().to_owned())
        };
        schemes.iter().enumerate().map(value).collect()
    }
}

/// The algorithms of proofs that are accepted, as a list that is separated by spaces.
const DPOP_ALGORITHMS: &str = "ES256 EdDSA PS256 RS256";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_has_everything_in_one_go() {
        let scopes = ["files:read".to_owned(), "offline_access".to_owned(), "files:write".to_owned()];
        let start = Challenges::default().scopes(&scopes).metadata("https://a.example/m");
        let failed = start.error("invalid_token").description("it has expired");
        let needs = r#"scope="files:read files:write""#;
        let algs = r#"DPoP algs="ES256 EdDSA PS256 RS256""#;
        let metadata = r#"resource_metadata="https://a.example/m""#;
        let error = r#"error="invalid_token""#;
        let text = r#"error_description="it has expired""#;
        for (challenges, expected) in [
            (start, vec![format!("Bearer {metadata}, {needs}")]),
            (start.dpop(DpopRole::Accepted), vec![format!("Bearer {metadata}, {needs}"), algs.to_owned()]),
            (start.dpop(DpopRole::Required), vec![format!("{algs}, {metadata}, {needs}")]),
            (
                failed.presented(Scheme::Bearer).dpop(DpopRole::Accepted),
                vec![format!("Bearer {metadata}, {error}, {needs}, {text}"), algs.to_owned()],
            ),
            (
                failed.presented(Scheme::Dpop).dpop(DpopRole::Accepted),
                vec![format!("{algs}, {metadata}, {error}, {needs}, {text}")],
            ),
            (
                failed.presented(Scheme::Bearer).dpop(DpopRole::Required),
                vec![format!("{algs}, {metadata}, {error}, {needs}, {text}")],
            ),
            (failed.presented(Scheme::Dpop), vec![format!("Bearer {metadata}, {error}, {needs}, {text}")]),
            (Challenges::default().metadata("\r\nX: y"), vec!["Bearer".to_owned()]),
        ] {
            assert_eq!(challenges.values(), expected);
        }
    }
}
