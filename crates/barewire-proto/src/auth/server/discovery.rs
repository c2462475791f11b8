//! The issuer of tokens -> the URLs of its metadata, and the metadata -> the endpoints that a server uses. RFC 8414,
//! section 3; MCP 2026-07-28, basic/authorization/authorization-server-discovery.

use std::fmt;

use super::jws::once_each;
use super::url::normal_url;
use crate::http::{Authority, Host};
use crate::json::{Json, Kind};

/// The endpoints of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IssuerMetadata {
    /// The URL of the issuer's keys.
    pub jwks_uri: Option<String>,
    /// The URL that says whether a token is active.
    pub introspection_endpoint: Option<String>,
}

/// The reason why metadata of an issuer is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadIssuer {
    /// The document is not a JSON object with unique members.
    Malformed,
    /// The document describes another issuer.
    OtherIssuer,
    /// A URL is neither `https`, nor `http` on this machine.
    Insecure,
}

/// Returns the URLs at which the metadata of an issuer may be, in the order in which they are tried. `None` means that
/// the issuer is not a URL, has a query or a fragment, or is not [secure](is_secure_url).
pub fn metadata_urls(issuer: &str) -> Option<Vec<String>> {
    if issuer.contains(['?', '#']) || !is_secure_url(issuer) {
        return None;
    }
    let start = issuer.find("://")? + 3;
    let end = issuer[start..].find('/').map_or(issuer.len(), |slash| start + slash);
    let (origin, path) = issuer.split_at(end);
    Some(match path.trim_end_matches('/') {
        "" => vec![
            format!("{origin}/.well-known/oauth-authorization-server"),
            format!("{origin}/.well-known/openid-configuration"),
        ],
        path => vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
            format!("{origin}{path}/.well-known/openid-configuration"),
        ],
    })
}

/// Whether a URL may be used for keys and tokens: `https`, or `http` to this machine.
pub fn is_secure_url(url: &str) -> bool {
    let Some(normal) = normal_url(url) else { return false };
    let Some(rest) = normal.strip_prefix("http://") else { return true };
    let authority = rest.split('/').next().unwrap_or_default();
    match Authority::parse(authority.as_bytes()).map(|authority| authority.host) {
        Ok(Host::Name(name)) => name == "localhost",
        Ok(Host::V4(address)) => address.is_loopback(),
        Ok(Host::V6(address)) => address.is_loopback(),
        Err(_) => false,
    }
}

impl IssuerMetadata {
    /// Reads the metadata of this issuer. A document that names another issuer is refused, because then that issuer's
    /// keys would be those of this one.
    pub fn parse(text: &[u8], issuer: &str) -> Result<Self, BadIssuer> {
        let json = Json::parse(text).ok().filter(|json| json.kind() == Kind::Object).ok_or(BadIssuer::Malformed)?;
        let [named, jwks_uri, introspection] =
            once_each(json, ["issuer", "jwks_uri", "introspection_endpoint"]).map_err(|_| BadIssuer::Malformed)?;
        if named.and_then(Json::string).as_deref() != Some(issuer) {
            return Err(BadIssuer::OtherIssuer);
        }
        let url = |json: Option<Json<'_>>| match json.map(Json::string) {
            None => Ok(None),
            Some(Some(url)) if is_secure_url(&url) => Ok(Some(url.into_owned())),
            Some(Some(_)) => Err(BadIssuer::Insecure),
            Some(None) => Err(BadIssuer::Malformed),
        };
        Ok(Self { jwks_uri: url(jwks_uri)?, introspection_endpoint: url(introspection)? })
    }
}

impl fmt::Display for BadIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the metadata is not a JSON object whose members are unique",
            Self::OtherIssuer => "the metadata names another issuer: the two must be equal, letter by letter",
            Self::Insecure => "the metadata has a URL that is not https",
        })
    }
}

impl std::error::Error for BadIssuer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        let path = [
            "https://a.example/.well-known/oauth-authorization-server/t1",
            "https://a.example/.well-known/openid-configuration/t1",
            "https://a.example/t1/.well-known/openid-configuration",
        ];
        let root = [
            "https://a.example/.well-known/oauth-authorization-server",
            "https://a.example/.well-known/openid-configuration",
        ];
        for (issuer, urls) in [
            ("https://a.example/t1", &path[..]),
            ("https://a.example/t1/", &path),
            ("https://a.example", &root),
            ("https://a.example/", &root),
        ] {
            assert_eq!(metadata_urls(issuer).expect(issuer), urls);
        }
        for bad in
            ["a.example", "http://a.example", "https://a.example/?a", "https://a.example#b", "https://u@a.example"]
        {
            assert_eq!(metadata_urls(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_https_and_this_machine_are_secure() {
        for url in ["https://a.example", "http://localhost:1/x", "http://127.0.0.2", "http://[::1]:9/", "HTTPS://A.B"] {
            assert!(is_secure_url(url), "{url}");
        }
        for url in ["http://a.example", "http://localhost.a.example", "http://127.0.0.1.a.example", "file:///etc", "x"]
        {
            assert!(!is_secure_url(url), "{url}");
        }
    }

    #[test]
    fn metadata_belongs_to_its_issuer() {
        let parse = |text: &str| IssuerMetadata::parse(text.as_bytes(), "https://a.example");
        let good = parse(r#"{"issuer":"https://a.example","jwks_uri":"https://keys.example/k"}"#).expect("good");
        assert_eq!(good.jwks_uri.as_deref(), Some("https://keys.example/k"));
        for (text, bad) in [
            (r#"{"issuer":"https://a.example/","jwks_uri":"https://a.example/k"}"#, BadIssuer::OtherIssuer),
            (r#"{"issuer":"https://evil.example","jwks_uri":"https://a.example/k"}"#, BadIssuer::OtherIssuer),
            (r#"{"jwks_uri":"https://a.example/k"}"#, BadIssuer::OtherIssuer),
            (r#"{"issuer":"https://a.example","issuer":"https://a.example"}"#, BadIssuer::Malformed),
            (r#"{"issuer":"https://a.example","jwks_uri":"http://a.example/k"}"#, BadIssuer::Insecure),
            (r#"{"issuer":"https://a.example","jwks_uri":"file:///etc/passwd"}"#, BadIssuer::Insecure),
            (r#"{"issuer":"https://a.example","jwks_uri":7}"#, BadIssuer::Malformed),
            ("<html>", BadIssuer::Malformed),
        ] {
            assert_eq!(parse(text), Err(bad), "{text}");
        }
    }
}
