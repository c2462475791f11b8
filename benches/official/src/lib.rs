//! The echo tool on the official SDK: as in its documentation, and with as little code as possible between the wire and
//! the tool.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, schemars, tool, tool_router};
use serde::Deserialize;
use serde_json::Value;

/// A server with the one tool `echo`.
#[derive(Debug, Clone)]
pub struct Echo;

/// The arguments of the tool `echo`.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub struct EchoArguments {
    /// The text that the tool returns.
    pub text: String,
}

#[tool_router(server_handler)]
impl Echo {
    #[tool(description = "Say it back")]
    async fn echo(&self, Parameters(EchoArguments { text }): Parameters<EchoArguments>) -> String {
        text
    }
}

/// The same without the router, which looks up every tool, boxes its future and reads the arguments a second time.
#[derive(Debug, Clone)]
pub struct EchoByHand;

impl ServerHandler for EchoByHand {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![Echo::echo_tool_attr()]))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != "echo" {
            return Err(ErrorData::invalid_params("no such tool", None));
        }
        match request.arguments.as_mut().and_then(|arguments| arguments.remove("text")) {
            Some(Value::String(text)) => Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into()),
            _ => Err(ErrorData::invalid_params("no text", None)),
        }
    }
}
