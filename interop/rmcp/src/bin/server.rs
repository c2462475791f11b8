//! The demo surface (surface.json) on the official Rust SDK, in both eras, over stdio, or over HTTP: server [ADDR]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::serve::ListenerExt;
use barewire_interop_rmcp::SURFACE;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::{InputResponses as GivenResponses, ToolCallContext, ToolRoute};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, CompletionInfo,
    ContentBlock, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, InputRequest, InputRequests, InputRequiredResult,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ResourceUpdatedNotificationParam, Role, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, schemars, tool, tool_router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const TICK: Duration = Duration::from_millis(300);

#[derive(Clone)]
struct Demo {
    tools: Arc<Mutex<ToolRouter<Demo>>>,
    /// The number of added tools, for open listens.
    grown: watch::Sender<usize>,
    /// Receivers made before a subscription is acknowledged, so that its handler misses no change.
    listeners: Arc<std::sync::Mutex<Vec<watch::Receiver<usize>>>>,
    /// The task that notifies a subscribed legacy client of the clock.
    ticking: Arc<Mutex<Option<JoinHandle<()>>>>,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Fail {
    message: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Mirror {
    #[schemars(extend("x-mcp-header" = SURFACE["mirror"]["headers"]["text"]))]
    text: String,
    #[schemars(extend("x-mcp-header" = SURFACE["mirror"]["headers"]["count"]))]
    count: i32,
    #[schemars(extend("x-mcp-header" = SURFACE["mirror"]["headers"]["sure"]))]
    sure: bool,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Sleep {
    ms: u64,
}

#[tool_router]
impl Demo {
    #[tool(description = "Say it back")]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    #[tool(description = "Add two numbers")]
    async fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> String {
        (a + b).to_string()
    }

    #[tool(description = "Fail as told")]
    async fn fail(&self, Parameters(Fail { message }): Parameters<Fail>) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(message)])
    }

    #[tool(description = "One pixel")]
    async fn dot(&self) -> CallToolResult {
        CallToolResult::success(vec![ContentBlock::image(PNG, "image/png")])
    }

    #[tool(description = "Tell what goes into headers too")]
    async fn mirror(&self, Parameters(Mirror { text, count, sure }): Parameters<Mirror>) -> String {
        format!("{text} {count} {sure}")
    }

    #[tool(description = "Take a while")]
    async fn sleep(
        &self,
        Parameters(Sleep { ms }): Parameters<Sleep>,
        context: RequestContext<RoleServer>,
    ) -> Result<String, ErrorData> {
        let token = context.meta.get_progress_token();
        for step in 1..=5_u8 {
            tokio::select! {
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
                () = tokio::time::sleep(Duration::from_millis(ms / 5)) => {}
            }
            if let Some(token) = &token {
                let progress = ProgressNotificationParam::new(token.clone(), f64::from(step)).with_total(5.0);
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        Ok(format!("slept {ms} ms"))
    }

    #[tool(description = "Ask for a name and greet")]
    async fn greet(
        &self,
        GivenResponses(given): GivenResponses,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let key = text(&SURFACE["greet"]["key"]);
        let question = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Who are you?".to_owned(),
            requested_schema: serde_json::from_value(
                json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
            )
            .expect("an elicitation schema"),
        };
        let answer: ElicitResult = if context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28) {
            let Some(answer) = given.as_ref().and_then(|given| given.get(&key)) else {
                let mut questions = InputRequests::new();
                questions.insert(key, InputRequest::Elicitation(ElicitRequest::new(question)));
                return Ok(InputRequiredResult::new(Some(questions), Some("asked once".to_owned())).into());
            };
            serde_json::from_value(answer.clone()).map_err(|_| ErrorData::invalid_params("not an answer", None))?
        } else {
            let asked = context.peer.create_elicitation(question).await;
            asked.map_err(|error| ErrorData::internal_error(error.to_string(), None))?
        };
        let name = answer.content.as_ref().and_then(|content| content["name"].as_str());
        Ok(match (answer.action, name) {
            (ElicitationAction::Accept, Some(name)) => {
                CallToolResult::success(vec![ContentBlock::text(format!("Hello, {name}!"))])
            }
            _ => CallToolResult::error(vec![ContentBlock::text("nobody to greet")]),
        }
        .into())
    }

    #[tool(description = "Add a tool")]
    async fn grow(&self, context: RequestContext<RoleServer>) -> String {
        self.grown.send_modify(|count| *count += 1);
        let name = format!("grown-{}", *self.grown.borrow());
        let tool = Tool::new(name, "Was not there before", Arc::new(schemars_of_nothing()));
        let route = ToolRoute::new_dyn(tool, |_| Box::pin(async { Ok(CallToolResult::success(Vec::new()).into()) }));
        self.tools.lock().await.add_route(route);
        if context.protocol_version() < Some(ProtocolVersion::V_2026_07_28) {
            let _ = context.peer.notify_tool_list_changed().await;
        }
        "grown".to_owned()
    }
}

impl ServerHandler for Demo {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("rmcp", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.lock().await.list_all()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = self.tools.lock().await.clone();
        tools.call(ToolCallContext::new(self, request, context)).await
    }

    /// The SDK calls this to see which arguments must be repeated in headers. Added tools have none.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        Demo::tool_router().get(name).cloned()
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = [("about", &SURFACE["about"]), ("clock", &SURFACE["clock"]["uri"])];
        let resources = resources.map(|(name, uri)| Resource::new(text(uri), name));
        Ok(ListResourcesResult::with_all_items(resources.to_vec()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new(text(&SURFACE["template"]["uri"]), "greeting");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let contents = if uri == SURFACE["about"] {
            "A demo server on the official Rust SDK".to_owned()
        } else if uri == SURFACE["clock"]["uri"] {
            format!("{:?}", SystemTime::now())
        } else if let Some(name) = uri.strip_prefix("barewire://greeting/") {
            format!("Hello, {name}!")
        } else {
            return Err(ErrorData::resource_not_found("no such resource", Some(json!({"uri": uri}))));
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(contents, uri)]).into())
    }

    #[allow(deprecated)]
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let ticking = tokio::spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                let update = ResourceUpdatedNotificationParam::new(request.uri.clone());
                let _ = context.peer.notify_resource_updated(update).await;
            }
        });
        if let Some(before) = self.ticking.lock().await.replace(ticking) {
            before.abort();
        }
        Ok(())
    }

    #[allow(deprecated)]
    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if let Some(ticking) = self.ticking.lock().await.take() {
            ticking.abort();
        }
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.listeners.lock().expect("no thread panics while holding the lock").push(self.grown.subscribe());
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let listener = self.listeners.lock().expect("no thread panics while holding the lock").pop();
        let mut grown = listener.expect("one was made for this subscription");
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                _ = grown.changed() => { let _ = context.sink().notify_tool_list_changed().await; }
                () = tokio::time::sleep(TICK) => {
                    let _ = context.sink().notify_resource_updated(text(&SURFACE["clock"]["uri"])).await;
                }
            }
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let argument = PromptArgument::new("name").with_required(true);
        let prompt = Prompt::new("introduce", Some("Introduce yourself"), Some(vec![argument]));
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != "introduce" {
            return Err(ErrorData::invalid_params("no such prompt", None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let name = arguments.get("name").and_then(Value::as_str).unwrap_or("everybody");
        let message = PromptMessage::new_text(Role::User, format!("Introduce yourself to {name}."));
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let names = ["Ada", "Alan", "Grace"].into_iter();
        let values = names.filter(|name| name.starts_with(&request.argument.value)).map(str::to_owned).collect();
        let completion = CompletionInfo::new(values).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string in surface.json").to_owned()
}

fn schemars_of_nothing() -> serde_json::Map<String, Value> {
    serde_json::Map::from_iter([("type".to_owned(), json!("object"))])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let demo = Demo {
        tools: Arc::new(Mutex::new(Demo::tool_router())),
        grown: watch::Sender::new(0),
        listeners: Arc::default(),
        ticking: Arc::default(),
    };
    let Some(addr) = std::env::args().nth(1) else {
        demo.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    };
    // Called for each session, and for each request of the modern era: only the subscription belongs to a session.
    let one = move || Ok(Demo { ticking: Arc::default(), ..demo.clone() });
    let service = StreamableHttpService::new(one, Arc::new(LocalSessionManager::default()), Default::default());
    let listener = tokio::net::TcpListener::bind(addr).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await?;
    Ok(())
}
