//! The URL of a server or issuer -> the URLs at which its metadata may be, in the order in which they are tried.

use super::url::{BadUrl, Url};

const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";
const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";

/// Returns the places of the metadata of a protected resource: the URL of the challenge if there is one, then the
/// well-known URL with the path of the server, then the one without.
///
/// MCP 2026-07-28, basic/authorization/authorization-server-discovery, "Protected Resource Metadata Discovery
/// Requirements"; RFC 9728, section 3.1.
pub fn protected_resource_places(server: &Url, challenge: Option<&Url>) -> Result<Vec<Url>, BadUrl> {
    let path = server.path().trim_end_matches('/');
    let query = server.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut places: Vec<Url> = challenge.into_iter().cloned().collect();
    for place in [format!("{PROTECTED_RESOURCE}{path}{query}"), PROTECTED_RESOURCE.to_owned()] {
        let place = server.with_path(&place)?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    Ok(places)
}

/// Returns the places of the metadata of an authorization server. With a path: RFC 8414, then OpenID Connect, with the
/// path inserted, then OpenID Connect with the path in front. Without a path: RFC 8414, then OpenID Connect.
///
/// MCP 2026-07-28, basic/authorization/authorization-server-discovery, "Authorization Server Metadata Discovery"; RFC
/// 8414, sections 3.1 and 5.
pub fn authorization_server_places(issuer: &Url) -> Result<Vec<Url>, BadUrl> {
    let path = issuer.path().trim_end_matches('/');
    let places = match path {
        "" => vec![AUTHORIZATION_SERVER.to_owned(), OPENID_CONFIGURATION.to_owned()],
        path => vec![
            format!("{AUTHORIZATION_SERVER}{path}"),
            format!("{OPENID_CONFIGURATION}{path}"),
            format!("{path}{OPENID_CONFIGURATION}"),
        ],
    };
    places.iter().map(|place| issuer.with_path(place)).collect()
}

/// Returns the issuer of a server that is its own authorization server, as in 2025-03-26: the URL of the server without
/// its path. MCP 2025-03-26, basic/authorization, "Authorization Base URL".
pub fn authorization_base_url(server: &Url) -> Result<Url, BadUrl> {
    server.with_path("")
}

/// Returns the place of the metadata of such a server: only the root. MCP 2025-03-26, basic/authorization,
/// "Authorization Base URL".
pub(super) fn base_url_places(base: &Url) -> Result<Vec<Url>, BadUrl> {
    Ok(vec![base.with_path(AUTHORIZATION_SERVER)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(urls: Result<Vec<Url>, BadUrl>) -> Vec<String> {
        urls.expect("valid").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_metadata_of_a_resource_is_tried_in_order() {
        let challenge = Url::parse("https://m.example/custom").unwrap();
        for (server, challenge, places) in [
            (
                "https://m.example/public/mcp",
                None,
                &[
                    "https://m.example/.well-known/oauth-protected-resource/public/mcp",
                    "https://m.example/.well-known/oauth-protected-resource",
                ][..],
            ),
            ("https://m.example", None, &["https://m.example/.well-known/oauth-protected-resource"]),
            ("https://m.example/", None, &["https://m.example/.well-known/oauth-protected-resource"]),
            (
                "https://m.example:8443/a?k=v",
                Some(&challenge),
                &[
                    "https://m.example/custom",
                    "https://m.example:8443/.well-known/oauth-protected-resource/a?k=v",
                    "https://m.example:8443/.well-known/oauth-protected-resource",
                ],
            ),
        ] {
            assert_eq!(texts(protected_resource_places(&Url::parse(server).unwrap(), challenge)), places, "{server}");
        }
    }

    #[test]
    fn the_metadata_of_an_authorization_server_is_tried_in_order() {
        for (issuer, places) in [
            (
                "https://auth.example.com/tenant1",
                &[
                    "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
                    "https://auth.example.com/.well-known/openid-configuration/tenant1",
                    "https://auth.example.com/tenant1/.well-known/openid-configuration",
                ][..],
            ),
            (
                "https://auth.example.com/",
                &[
                    "https://auth.example.com/.well-known/oauth-authorization-server",
                    "https://auth.example.com/.well-known/openid-configuration",
                ],
            ),
        ] {
            assert_eq!(texts(authorization_server_places(&Url::parse(issuer).unwrap())), places, "{issuer}");
        }
        let base = authorization_base_url(&Url::parse("https://api.example.com/v1/mcp?x").unwrap()).unwrap();
        assert_eq!(base.as_str(), "https://api.example.com");
        assert_eq!(texts(base_url_places(&base)), ["https://api.example.com/.well-known/oauth-authorization-server"]);
    }
}
