//! The official Rust SDK's client through every case: client REVISION|auto COMMAND...|URL

use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barewire_interop_rmcp::SURFACE;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest,
    ContentBlock, ElicitRequestParams, ElicitResult, ElicitationAction, GetPromptRequestParams,
    Implementation, PingRequest, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ResourceContents, ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams,
    SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService, ServiceError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// What the client was told and asked on the way, and what it answers.
#[derive(Clone)]
struct Handler {
    revision: ProtocolVersion,
    answer: Arc<Mutex<ElicitResult>>,
    asked: Arc<Mutex<Vec<Value>>>,
    progress: Arc<Mutex<Vec<f64>>>,
    updated: Arc<Mutex<Vec<String>>>,
    grown: Arc<Mutex<usize>>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1.0.0"))
            .with_protocol_version(self.revision.clone())
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = request {
            locked(&self.asked).push(serde_json::to_value(requested_schema).expect("a schema is JSON"));
        }
        Ok(locked(&self.answer).clone())
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        locked(&self.progress).push(params.progress);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        locked(&self.updated).push(params.uri);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        *locked(&self.grown) += 1;
    }
}

/// What became of a case: done, or not for this revision; an error is what was wrong.
enum Done {
    Here,
    NotHere,
}

type Outcome = Result<Done, String>;

struct Session {
    client: RunningService<RoleClient, Handler>,
    handler: Handler,
    expected: ProtocolVersion,
}

impl Session {
    fn modern(&self) -> bool {
        self.expected == ProtocolVersion::V_2026_07_28
    }

    async fn call(&self, tool: &str, arguments: &Value) -> Result<CallToolResult, ServiceError> {
        self.client.call_tool(params(tool, arguments)).await
    }

    async fn say(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        self.call(tool, arguments).await.map(|result| said(&result)).map_err(shown)
    }

    async fn connect(&self) -> Outcome {
        let peer = self.client.peer_info().ok_or("nothing is known of the server")?;
        same(&peer.protocol_version, &self.expected)?;
        peer.server_info.as_ref().ok_or("the server has no name")?;
        peer.capabilities.tools.as_ref().ok_or("no tools declared")?;
        Ok(Done::Here)
    }

    async fn ping(&self) -> Outcome {
        if self.modern() {
            return Ok(Done::NotHere);
        }
        self.client.send_request(ClientRequest::PingRequest(PingRequest::default())).await.map_err(shown)?;
        Ok(Done::Here)
    }

    async fn list_tools(&self) -> Outcome {
        let tools = self.client.list_all_tools().await.map_err(shown)?;
        for name in SURFACE["tools"].as_array().expect("a list of tools") {
            let tool =
                tools.iter().find(|tool| tool.name == text(name)).ok_or_else(|| format!("no tool {name}"))?;
            same(&tool.input_schema.get("type"), &Some(&json!("object")))?;
        }
        Ok(Done::Here)
    }

    async fn echo(&self) -> Outcome {
        let echo = &SURFACE["echo"];
        same(&self.say(&text(&echo["tool"]), &echo["arguments"]).await?, &text(&echo["text"]))
    }

    async fn add(&self) -> Outcome {
        let add = &SURFACE["add"];
        let said = self.say(&text(&add["tool"]), &add["arguments"]).await?;
        let number = said.trim_end_matches('.').rsplit(' ').next().unwrap_or_default();
        same(&number.parse().ok(), &add["sum"].as_f64())
    }

    async fn fail(&self) -> Outcome {
        let fail = &SURFACE["fail"];
        let result = self.call(&text(&fail["tool"]), &fail["arguments"]).await.map_err(shown)?;
        same(&result.is_error, &Some(true))?;
        contains(&said(&result), &text(&fail["contains"]))
    }

    async fn image(&self) -> Outcome {
        let result = self.call(&text(&SURFACE["image"]["tool"]), &json!({})).await.map_err(shown)?;
        let image = result.content.iter().find_map(|block| match block {
            ContentBlock::Image(image) => Some(image),
            _ => None,
        });
        same(&image.map(|image| image.mime_type.clone()), &Some(text(&SURFACE["image"]["mimeType"])))
    }

    async fn unknown_tool(&self) -> Outcome {
        refused(self.call("no-such-tool", &json!({})).await, -32602)
    }

    async fn bad_arguments(&self) -> Outcome {
        // A protocol error up to 2025-06-18, a tool's own error since; both say that it was not done.
        match self.call(&text(&SURFACE["add"]["tool"]), &SURFACE["add"]["bad"]).await {
            Ok(result) => same(&result.is_error, &Some(true)),
            refusal => refused(refusal, -32602),
        }
    }

    async fn progress(&self) -> Outcome {
        locked(&self.handler.progress).clear();
        self.say(&text(&SURFACE["sleep"]["tool"]), &SURFACE["sleep"]["short"]).await?;
        let seen = locked(&self.handler.progress).clone();
        if seen.len() < 2 || !seen.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("progress {seen:?}"));
        }
        Ok(Done::Here)
    }

    async fn cancellation(&self) -> Outcome {
        let request =
            CallToolRequest::new(params(&text(&SURFACE["sleep"]["tool"]), &SURFACE["sleep"]["long"]));
        let request = ClientRequest::CallToolRequest(request);
        let options = PeerRequestOptions::no_options();
        let call = self.client.send_cancellable_request(request, options).await.map_err(shown)?;
        sleep(Duration::from_millis(200)).await;
        call.cancel(Some("changed my mind".to_owned())).await.map_err(shown)?;
        self.echo().await
    }

    async fn elicitation(&self, action: ElicitationAction) -> Outcome {
        // elicitation/create came with 2025-06-18.
        if self.expected < ProtocolVersion::V_2025_06_18 {
            return Ok(Done::NotHere);
        }
        locked(&self.handler.asked).clear();
        let accepted = matches!(action, ElicitationAction::Accept);
        let answer = ElicitResult::new(action);
        *locked(&self.handler.answer) = match accepted {
            true => answer.with_content(SURFACE["greet"]["answer"].clone()),
            false => answer,
        };
        let result = self.call(&text(&SURFACE["greet"]["tool"]), &json!({})).await.map_err(shown)?;
        same(&locked(&self.handler.asked).len(), &1)?;
        if !accepted {
            return same(&result.is_error, &Some(true));
        }
        let field =
            &locked(&self.handler.asked)[0]["properties"][text(&SURFACE["greet"]["field"])]["type"].clone();
        same(field, &json!("string"))?;
        contains(&said(&result), &text(&SURFACE["greet"]["contains"]))
    }

    async fn elicitation_before_there_was_one(&self) -> Outcome {
        if self.expected >= ProtocolVersion::V_2025_06_18 {
            return Ok(Done::NotHere);
        }
        let result = self.call(&text(&SURFACE["greet"]["tool"]), &json!({})).await.map_err(shown)?;
        same(&result.is_error, &Some(true))
    }

    async fn list_resources(&self) -> Outcome {
        let resources = self.client.list_all_resources().await.map_err(shown)?;
        for uri in [&SURFACE["about"], &SURFACE["clock"]["uri"]] {
            resources
                .iter()
                .find(|one| one.uri == text(uri))
                .ok_or_else(|| format!("{uri} not in {resources:?}"))?;
        }
        Ok(Done::Here)
    }

    async fn list_templates(&self) -> Outcome {
        let templates = self.client.list_all_resource_templates().await.map_err(shown)?;
        let wanted = text(&SURFACE["template"]["uri"]);
        templates.iter().find(|one| one.uri_template == wanted).ok_or_else(|| format!("{templates:?}"))?;
        Ok(Done::Here)
    }

    async fn read(&self) -> Outcome {
        let template = &SURFACE["template"];
        let reads =
            [(&SURFACE["about"], String::new()), (&template["expanded"], text(&template["contains"]))];
        for (uri, contained) in reads {
            let request = ReadResourceRequestParams::new(text(uri));
            let result = self.client.read_resource(request).await.map_err(shown)?;
            match result.contents.first() {
                Some(ResourceContents::TextResourceContents { uri: given, text: content, .. }) => {
                    same(given, &text(uri))?;
                    contains(content, &contained)?;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(Done::Here)
    }

    async fn unknown_resource(&self) -> Outcome {
        let request = ReadResourceRequestParams::new(text(&SURFACE["nowhere"]));
        refused(self.client.read_resource(request).await, if self.modern() { -32602 } else { -32002 })
    }

    #[allow(deprecated)]
    async fn ticking(&self) -> Outcome {
        let clock = text(&SURFACE["clock"]["uri"]);
        if self.modern() {
            let mut filter = SubscriptionFilter::default();
            filter.resource_subscriptions = Some(vec![clock.clone()]);
            let mut subscription = self.client.listen(filter.clone()).await.map_err(shown)?;
            same(subscription.acknowledged(), &filter)?;
            let next =
                timeout(Duration::from_secs(5), subscription.next()).await.map_err(|_| "no update in 5 s")?;
            match next.map_err(shown)? {
                Some(ServerNotification::ResourceUpdatedNotification(update)) => {
                    same(&update.params.uri, &clock)?
                }
                other => return Err(format!("{other:?}")),
            };
            subscription.cancel().await.map_err(shown)?;
        } else {
            let before = locked(&self.handler.updated).len();
            self.client.subscribe(SubscribeRequestParams::new(&clock)).await.map_err(shown)?;
            until(Duration::from_secs(5), || locked(&self.handler.updated).len() > before).await?;
            same(&locked(&self.handler.updated).last().cloned(), &Some(clock.clone()))?;
            self.client.unsubscribe(UnsubscribeRequestParams::new(&clock)).await.map_err(shown)?;
        }
        sleep(Duration::from_millis(200)).await; // What was on its way.
        let after = locked(&self.handler.updated).len();
        sleep(Duration::from_millis(1300)).await;
        same(&locked(&self.handler.updated).len(), &after)
    }

    async fn list_changed(&self) -> Outcome {
        let tools = self.client.list_all_tools().await.map_err(shown)?;
        if !tools.iter().any(|tool| tool.name == "grow") {
            return Ok(Done::NotHere);
        }
        if self.modern() {
            let mut filter = SubscriptionFilter::default();
            filter.tools_list_changed = Some(true);
            let mut subscription = self.client.listen(filter).await.map_err(shown)?;
            self.say("grow", &json!({})).await?;
            let next =
                timeout(Duration::from_secs(2), subscription.next()).await.map_err(|_| "no change in 2 s")?;
            next.map_err(shown)?.ok_or("the subscription ended")?;
            subscription.cancel().await.map_err(shown)?;
        } else {
            self.say("grow", &json!({})).await?;
            until(Duration::from_secs(2), || *locked(&self.handler.grown) > 0).await?;
        }
        Ok(Done::Here)
    }

    async fn mirrored(&self) -> Outcome {
        // The list is what tells a client which arguments go into headers too.
        let mirror = &SURFACE["mirror"];
        let tools = self.client.list_all_tools().await.map_err(shown)?;
        if !tools.iter().any(|tool| mirror["tool"] == *tool.name) {
            return Ok(Done::NotHere);
        }
        same(&self.say(&text(&mirror["tool"]), &mirror["arguments"]).await?, &text(&mirror["text"]))
    }

    async fn list_prompts(&self) -> Outcome {
        let prompts = self.client.list_all_prompts().await.map_err(shown)?;
        let wanted = &SURFACE["prompt"];
        let prompt = prompts.iter().find(|one| one.name == text(&wanted["name"])).ok_or("no such prompt")?;
        let named = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str());
        same(
            &named.collect::<Vec<_>>(),
            &wanted["arguments"].as_object().into_iter().flatten().map(|(name, _)| &**name).collect(),
        )
    }

    async fn get_prompt(&self) -> Outcome {
        let wanted = &SURFACE["prompt"];
        let mut request = GetPromptRequestParams::new(text(&wanted["name"]));
        request.arguments = wanted["arguments"].as_object().cloned();
        let result = self.client.get_prompt(request).await.map_err(shown)?;
        match result.messages.first().map(|message| &message.content) {
            Some(ContentBlock::Text(content)) => contains(&content.text, &text(&wanted["contains"])),
            other => Err(format!("{other:?}")),
        }
    }

    async fn unknown_prompt(&self) -> Outcome {
        refused(self.client.get_prompt(GetPromptRequestParams::new("no-such-prompt")).await, -32602)
    }

    async fn completion(&self) -> Outcome {
        let wanted = &SURFACE["completion"];
        let (prompt, argument) = (text(&wanted["prompt"]), text(&wanted["argument"]));
        let complete = |value| self.client.complete_prompt_simple(&prompt, &argument, value);
        let every = complete(String::new()).await.map_err(shown)?;
        let first = every.first().ok_or("nothing to complete with")?;
        let some = complete(first.chars().take(1).collect()).await.map_err(shown)?;
        same(&some.contains(first), &true)
    }
}

/// Runs the cases one after the other and prints a line for each.
struct Report {
    label: String,
    known: Vec<String>,
    only: Option<Vec<String>>,
    failed: bool,
}

impl Report {
    async fn case(&mut self, name: &str, work: impl Future<Output = Outcome>) {
        if self.only.as_ref().is_some_and(|only| !only.iter().any(|one| one == name)) {
            return;
        }
        let outcome = timeout(Duration::from_secs(15), work).await;
        let (verdict, why) = match outcome.unwrap_or_else(|_| Err("no end after 15 s".to_owned())) {
            Ok(Done::Here) => ("pass", String::new()),
            Ok(Done::NotHere) => ("skip", String::new()),
            Err(why) if self.known.iter().any(|known| known == name) => ("known", format!(": {why}")),
            Err(why) => {
                self.failed = true;
                ("FAIL", format!(": {why}"))
            }
        };
        println!("{verdict} {}: {name}{why}", self.label);
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [wanted, program, rest @ ..] = &arguments[..] else {
        eprintln!("client REVISION|auto COMMAND...|URL");
        return ExitCode::from(2);
    };
    let environment = |name| std::env::var(name).ok();
    let modern = || vec![ProtocolVersion::V_2026_07_28];
    let revision = |text: &str| serde_json::from_value::<ProtocolVersion>(json!(text)).expect("a revision");
    // Against a server of one era only, `auto` ends there: EXPECT says where.
    let (mode, expected) = match &**wanted {
        "auto" => {
            let mode = ClientLifecycleMode::Auto { preferred_versions: modern(), legacy_version: None };
            (mode, environment("EXPECT").map_or(ProtocolVersion::V_2026_07_28, |text| revision(&text)))
        }
        "2026-07-28" => {
            (ClientLifecycleMode::Discover { preferred_versions: modern() }, ProtocolVersion::V_2026_07_28)
        }
        other => (ClientLifecycleMode::Initialize, revision(other)),
    };
    let mut report = Report {
        label: format!("rmcp {wanted}"),
        known: environment("EXCEPT").unwrap_or_default().split(';').map(str::to_owned).collect(),
        only: environment("ONLY").map(|only| only.split(';').map(str::to_owned).collect()),
        failed: false,
    };
    let handler = Handler {
        revision: expected.clone(),
        answer: Arc::new(Mutex::new(ElicitResult::new(ElicitationAction::Cancel))),
        asked: Arc::default(),
        progress: Arc::default(),
        updated: Arc::default(),
        grown: Arc::default(),
    };
    let opened = timeout(Duration::from_secs(15), async {
        if program.starts_with("http://") {
            let transport = StreamableHttpClientTransport::from_uri(program.clone());
            handler.clone().serve_with_lifecycle(transport, mode).await
        } else {
            let mut command = Command::new(program);
            command.args(rest);
            let transport = TokioChildProcess::new(command).expect("the server starts");
            handler.clone().serve_with_lifecycle(transport, mode).await
        }
    });
    let client = match opened.await {
        Ok(Ok(client)) => client,
        Ok(Err(why)) => {
            println!("FAIL {}: open: {why}", report.label);
            return ExitCode::FAILURE;
        }
        Err(_) => {
            println!("FAIL {}: open: no end after 15 s", report.label);
            return ExitCode::FAILURE;
        }
    };
    let s = Session { client, handler, expected };
    report.case("connect", s.connect()).await;
    report.case("ping", s.ping()).await;
    report.case("tools/list", s.list_tools()).await;
    report.case("echo", s.echo()).await;
    report.case("add", s.add()).await;
    report.case("a tool that fails", s.fail()).await;
    report.case("an image", s.image()).await;
    report.case("an unknown tool", s.unknown_tool()).await;
    report.case("bad arguments", s.bad_arguments()).await;
    report.case("progress", s.progress()).await;
    report.case("cancellation", s.cancellation()).await;
    report.case("elicitation, accepted", s.elicitation(ElicitationAction::Accept)).await;
    report.case("elicitation, declined", s.elicitation(ElicitationAction::Decline)).await;
    report.case("elicitation, cancelled", s.elicitation(ElicitationAction::Cancel)).await;
    report.case("elicitation, before there was one", s.elicitation_before_there_was_one()).await;
    report.case("resources/list", s.list_resources()).await;
    report.case("resources/templates/list", s.list_templates()).await;
    report.case("resources/read", s.read()).await;
    report.case("an unknown resource", s.unknown_resource()).await;
    report.case("a ticking resource", s.ticking()).await;
    report.case("list_changed", s.list_changed()).await;
    report.case("mirrored arguments", s.mirrored()).await;
    report.case("prompts/list", s.list_prompts()).await;
    report.case("prompts/get", s.get_prompt()).await;
    report.case("an unknown prompt", s.unknown_prompt()).await;
    report.case("completion", s.completion()).await;
    let close = async { s.client.cancel().await.map(|_| Done::Here).map_err(shown) };
    report.case("close", close).await;
    if report.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn params(tool: &str, arguments: &Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

fn said(result: &CallToolResult) -> String {
    let blocks = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text(content) => Some(content.text.as_str()),
        _ => None,
    });
    blocks.collect::<Vec<_>>().join(
        "
",
    )
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string in surface.json").to_owned()
}

fn shown(error: impl Debug) -> String {
    format!("{error:?}")
}

fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().expect("nobody panics while holding it")
}

fn same<T: PartialEq + Debug>(given: &T, wanted: &T) -> Outcome {
    if given == wanted { Ok(Done::Here) } else { Err(format!("{given:?} instead of {wanted:?}")) }
}

fn contains(given: &str, wanted: &str) -> Outcome {
    if !given.is_empty() && given.contains(wanted) {
        Ok(Done::Here)
    } else {
        Err(format!("no {wanted:?} in {given:?}"))
    }
}

/// An error unless the answer is a JSON-RPC error of this code.
fn refused<T: Debug>(answer: Result<T, ServiceError>, code: i32) -> Outcome {
    match answer {
        Err(ServiceError::McpError(error)) => same(&error.code.0, &code),
        other => Err(format!("{other:?} instead of error {code}")),
    }
}

async fn until(patience: Duration, found: impl Fn() -> bool) -> Result<(), String> {
    let wait = async {
        while !found() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(patience, wait).await.map_err(|_| format!("nothing in {patience:?}"))
}
