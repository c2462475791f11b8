//! The sign-in of each `auth/*` scenario, with a user who agrees to everything.

use barewire::Failure;
use barewire::client::http::Secret;
use barewire::client::oauth::{
    ConfiguredClient, DeviceCode, IdentityProvider, MemoryStore, SecretText, SignIn, SignInPage, SignInUser,
    UserFuture, client_key,
};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Returns the sign-in for a scenario.
pub(crate) fn sign_in(scenario: &str) -> Result<SignIn, Box<dyn std::error::Error>> {
    let sign_in = SignIn::with_store("conformance-client", MemoryStore::new())
        .user(AgreeingUser)
        .metadata_document("https://conformance-test.local/client-metadata.json")?;
    let Some(context) = context()? else { return Ok(sign_in) };
    let mut client = ConfiguredClient::new(context.client_id);
    client.secret = context.client_secret.map(SecretText::new);
    if let Some(pem) = context.private_key_pem {
        client.key = Some(client_key(&pem, None)?);
    }
    let sign_in = sign_in.client(client);
    Ok(match scenario {
        "auth/client-credentials-jwt" | "auth/client-credentials-basic" => sign_in.client_credentials(),
        "auth/enterprise-managed-authorization" => {
            let (issuer, id, token) = (context.idp_issuer, context.idp_client_id, context.idp_id_token);
            let (Some(issuer), Some(id), Some(token)) = (issuer, id, token) else {
                return Err("the context has no identity provider".into());
            };
            sign_in.enterprise_managed(IdentityProvider::new(issuer, ConfiguredClient::new(id), SecretText::new(token)))
        }
        "auth/wif-jwt-bearer" => {
            let token = context.valid_jwt.ok_or("the context has no token of the workload")?;
            sign_in.workload_identity(move || Secret::new(token.clone()))
        }
        _ => sign_in,
    })
}

/// The credentials that the suite passes in `MCP_CONFORMANCE_CONTEXT`.
#[derive(Deserialize)]
struct AuthContext {
    client_id: String,
    client_secret: Option<String>,
    private_key_pem: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_issuer: Option<String>,
    valid_jwt: Option<String>,
}

fn context() -> Result<Option<AuthContext>, Box<dyn std::error::Error>> {
    match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) if text.contains("\"client_id\"") => Ok(Some(serde_json::from_str(&text)?)),
        _ => Ok(None),
    }
}

/// A browser and a user in one: follows the redirect of the sign-in page at once. The suite's page asks nothing.
struct AgreeingUser;

impl SignInUser for AgreeingUser {
    fn open_page<'a>(&'a self, page: &'a SignInPage) -> UserFuture<'a, Option<String>> {
        Box::pin(async {
            let response = get(&page.url).await?;
            let location = response.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
            });
            let location = location.ok_or_else(|| Failure::internal("Page", "the page has no redirect"))?;
            get(&location).await?;
            Ok(None)
        })
    }

    fn show_code<'a>(&'a self, _: &'a DeviceCode) -> UserFuture<'a, ()> {
        Box::pin(async { Err(Failure::internal("Device", "the suite has no devices")) })
    }
}

/// Sends a GET request without following redirects, and returns the response as text.
async fn get(url: &str) -> Result<String, Failure> {
    let rest = url.strip_prefix("http://").ok_or_else(|| Failure::internal("Page", "the URL is not http"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (authority, path) = match authority.split_once('?') {
        Some((authority, query)) => (authority, format!("?{query}")),
        None => (authority, path.to_owned()),
    };
    let mut stream = TcpStream::connect(authority).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}
