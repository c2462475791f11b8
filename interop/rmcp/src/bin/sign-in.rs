//! The official Rust SDK's client signs in through a scripted browser, and calls a tool: sign-in URL BROWSER...
//!
//! BROWSER is a command that gets the URL of the sign-in page, and prints the URL that it is redirected to in the end.

use std::error::Error;
use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{AuthClient, AuthorizationManager, AuthorizationRequest, OAuthState};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::json;
use tokio::process::Command;

/// The browser is followed up to this URL, which nothing listens at.
const REDIRECT_URI: &str = "http://127.0.0.1:9/callback";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, browser, browser_arguments @ ..] = &arguments[..] else { return Err("sign-in URL BROWSER...".into()) };
    // All of this test is on this machine, which the SDK does not contact otherwise.
    let manager = AuthorizationManager::new_allowing_private_addresses(url.as_str()).await?;
    let mut state = OAuthState::Unauthorized(manager);
    let request = AuthorizationRequest::new(REDIRECT_URI).with_client_name("interop").with_application_type("native");
    state.start_authorization(request).await?;
    let page = state.get_authorization_url().await?;
    let mut command = Command::new(browser);
    command.args(browser_arguments).args([&page, "grace"]).stderr(Stdio::inherit());
    let opened = command.output().await?;
    state.handle_callback_url(String::from_utf8(opened.stdout)?.trim()).await?;
    let manager = state.into_authorization_manager().ok_or("no token")?;
    let client = AuthClient::new(reqwest::Client::default(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let mode =
        ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None };
    let client = ().serve_with_lifecycle(transport, mode).await?;
    let arguments = json!({"text": "signed in"}).as_object().cloned().unwrap_or_default();
    let result = client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await?;
    let text = serde_json::to_value(&result)?["content"][0]["text"].clone();
    if text != "signed in" {
        return Err(format!("the tool answered {text}").into());
    }
    client.cancel().await?;
    Ok(())
}
