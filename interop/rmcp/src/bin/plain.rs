//! The plain server on the official Rust SDK: plain [low]. With `low`, it handles requests itself, else macros of the SDK
//! do. With PORT in the environment, it serves HTTP.

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt, prompt, prompt_handler, prompt_router, schemars, tool,
    tool_handler, tool_router,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone)]
struct Plain;

#[derive(Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Introduce {
    name: String,
}

#[tool_router]
impl Plain {
    #[tool(name = "plain-echo", description = "Say it back", annotations(read_only_hint = true))]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    #[tool(name = "plain-wait", description = "Wait 300 ms", annotations(read_only_hint = true))]
    async fn wait(&self) -> String {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "waited".to_owned()
    }
}

#[prompt_router]
impl Plain {
    #[prompt(name = "plain-introduce")]
    async fn introduce(&self, Parameters(Introduce { name }): Parameters<Introduce>) -> Vec<PromptMessage> {
        vec![PromptMessage::new_text(Role::User, format!("Introduce {name}"))]
    }
}

#[tool_handler(router = Self::tool_router())]
#[prompt_handler(router = Self::prompt_router())]
impl ServerHandler for Plain {
    fn get_info(&self) -> ServerConfig {
        info()
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        check_cursor(request)?;
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("plain://about", "plain-about")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        read(request)
    }
}

/// The server that handles requests itself.
struct Low;

impl ServerHandler for Low {
    fn get_info(&self) -> ServerConfig {
        info()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        check_cursor(request)?;
        Ok(ListToolsResult::with_all_items(Plain::tool_router().list_all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|arguments| arguments.get("text")).and_then(Value::as_str);
        Ok(match (&*request.name, text) {
            ("plain-wait", _) => CallToolResult::success(vec![ContentBlock::text(Plain.wait().await)]),
            ("plain-echo", Some(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
            ("plain-echo", None) => CallToolResult::error(vec![ContentBlock::text("text is missing")]),
            _ => return Err(ErrorData::invalid_params("unknown tool", None)),
        }
        .into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        check_cursor(request)?;
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("plain://about", "plain-about")]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        read(request)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        check_cursor(request)?;
        Ok(ListPromptsResult::with_all_items(Plain::prompt_router().list_all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match request.name.as_str() {
            "plain-introduce" => {
                Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, "Introduce yourself")]).into())
            }
            _ => Err(ErrorData::invalid_params("unknown prompt", None)),
        }
    }
}

fn info() -> ServerConfig {
    let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().enable_resources().build();
    ServerConfig::new(capabilities).with_server_info(Implementation::new("plain", "1.0.0"))
}

fn check_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        Some(_) => Err(ErrorData::invalid_params("unknown cursor", None)),
        None => Ok(()),
    }
}

fn read(request: ReadResourceRequestParams) -> Result<ReadResourceResponse, ErrorData> {
    match request.uri.as_str() {
        "plain://about" => {
            Ok(ReadResourceResult::new(vec![ResourceContents::text("A plain server", request.uri)]).into())
        }
        uri => Err(ErrorData::resource_not_found("no such resource", Some(json!({"uri": uri})))),
    }
}

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let port = std::env::var("PORT").ok().map(|port| port.parse()).transpose()?;
    match std::env::args().nth(1).as_deref() {
        Some("low") => run(|| Low, port).await,
        _ => run(|| Plain, port).await,
    }
}

async fn run<S: ServerHandler>(create: fn() -> S, port: Option<u16>) -> Result<(), Failure> {
    let Some(port) = port else {
        create().serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    // The SDK accepts requests of this machine's names only; origins must be named.
    let config = StreamableHttpServerConfig::default().with_allowed_origins([format!("http://127.0.0.1:{port}")]);
    let service = StreamableHttpService::new(move || Ok(create()), Arc::new(LocalSessionManager::default()), config);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
