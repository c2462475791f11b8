//! Runs barewire's client through every interop case: barewire-interop REVISION|auto COMMAND...|URL

use std::fmt::Debug;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barewire::Code;
use barewire::client::{Listen, ServerNotification};
use barewire::mcp::{
    CallToolResult, CompleteParams, CompleteReference, Content, ElicitForm, ElicitResult, Era, LoggingLevel,
    ResourceContents, Revision, SubscriptionFilter,
};
use barewire::transport::Child;
use barewire::{Client, ClientError};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The outcome of a case that did not fail.
enum CaseOutcome {
    Passed,
    /// Not in this revision.
    Skipped,
}

/// The outcome, or the text of the failure.
type CaseResult = Result<CaseOutcome, String>;

/// A connected client, and the notifications and elicitations it received.
struct Session {
    client: Client,
    surface: Value,
    expected: Revision,
    notifications: Arc<Mutex<Vec<ServerNotification>>>,
    elicitations: Arc<Mutex<Vec<ElicitForm>>>,
    answer: Arc<Mutex<ElicitResult>>,
}

impl Session {
    fn is_modern(&self) -> bool {
        self.expected.era() == Era::Modern
    }

    fn text(&self, path: &str) -> String {
        let value = self.surface.pointer(path).and_then(Value::as_str);
        value.unwrap_or_else(|| panic!("no text at {path} in the surface")).to_owned()
    }

    fn arguments(&self, path: &str) -> Value {
        self.surface.pointer(path).cloned().unwrap_or_else(|| json!({}))
    }

    async fn call_for_text(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        self.client.call_tool(tool, arguments).await.map(|result| text_of(&result)).map_err(debug_text)
    }

    async fn connect(&self) -> CaseResult {
        expect_equal(&self.client.revision(), &self.expected)?;
        self.client.server_info().implementation.ok_or("the server has no name")?;
        self.client.capabilities().tools.ok_or("no tools declared")?;
        Ok(CaseOutcome::Passed)
    }

    async fn ping(&self) -> CaseResult {
        if self.is_modern() {
            return Ok(CaseOutcome::Skipped);
        }
        self.client.ping().await.map_err(debug_text)?;
        Ok(CaseOutcome::Passed)
    }

    async fn list_tools(&self) -> CaseResult {
        let tools = self.client.list_tools().await.map_err(debug_text)?;
        for name in self.surface["tools"].as_array().into_iter().flatten() {
            tools.iter().find(|tool| *name == *tool.name).ok_or_else(|| format!("no tool {name}"))?;
        }
        Ok(CaseOutcome::Passed)
    }

    async fn echo(&self) -> CaseResult {
        let text = self.call_for_text(&self.text("/echo/tool"), &self.arguments("/echo/arguments")).await?;
        expect_equal(&text, &self.text("/echo/text"))
    }

    async fn add(&self) -> CaseResult {
        let text = self.call_for_text(&self.text("/add/tool"), &self.arguments("/add/arguments")).await?;
        expect_equal(&last_number(&text), &self.surface["add"]["sum"].as_f64())
    }

    async fn twenty_at_once(&self) -> CaseResult {
        let tool = self.text("/add/tool");
        let calls: Vec<_> = (0..20_u8).map(|b| (b, self.client.call_tool(&tool, json!({"a": 1000, "b": b})))).collect();
        for (b, call) in calls {
            let text = text_of(&call.await.map_err(debug_text)?);
            expect_equal(&last_number(&text), &Some(1000.0 + f64::from(b)))?;
        }
        Ok(CaseOutcome::Passed)
    }

    async fn fail(&self) -> CaseResult {
        let call = self.client.call_tool(self.text("/fail/tool"), self.arguments("/fail/arguments"));
        let result = call.await.map_err(debug_text)?;
        expect_equal(&result.is_error, &true)?;
        expect_contains(&text_of(&result), &self.text("/fail/contains"))
    }

    async fn image(&self) -> CaseResult {
        let result = self.client.call_tool(self.text("/image/tool"), json!({})).await.map_err(debug_text)?;
        let image = result.content.iter().find_map(|block| match block {
            Content::Image(image) => Some(image.mime_type.clone()),
            _ => None,
        });
        expect_equal(&image, &Some(self.text("/image/mimeType")))
    }

    async fn unknown_tool(&self) -> CaseResult {
        expect_error(self.client.call_tool("no-such-tool", json!({})).await, -32602)
    }

    async fn bad_arguments(&self) -> CaseResult {
        // A protocol error up to 2025-06-18, a tool error since. Both mean that the call was not carried out.
        match self.client.call_tool(self.text("/add/tool"), self.arguments("/add/bad")).await {
            Ok(result) => expect_equal(&result.is_error, &true),
            other => expect_error(other, -32602),
        }
    }

    async fn progress(&self) -> CaseResult {
        let call = self.client.call_tool(self.text("/sleep/tool"), self.arguments("/sleep/short"));
        let (call, mut progress) = call.with_progress();
        call.await.map_err(debug_text)?;
        let mut seen = Vec::new();
        while let Some(step) = progress.next().await {
            seen.push(step.progress);
        }
        if seen.len() < 2 || !seen.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("progress {seen:?}"));
        }
        Ok(CaseOutcome::Passed)
    }

    async fn cancellation(&self) -> CaseResult {
        // Dropping the call cancels it.
        let call = self.client.call_tool(self.text("/sleep/tool"), self.arguments("/sleep/long"));
        if let Ok(ended) = timeout(Duration::from_millis(200), call).await {
            return Err(format!("ended before it was cancelled: {ended:?}"));
        }
        self.echo().await
    }

    /// Calls the tool that elicits a name, with this answer.
    async fn greet(&self, answer: ElicitResult) -> Result<Option<CallToolResult>, String> {
        // elicitation/create came with 2025-06-18.
        if self.expected < Revision::V2025_06_18 {
            return Ok(None);
        }
        locked(&self.elicitations).clear();
        *locked(&self.answer) = answer;
        let result = self.client.call_tool(self.text("/greet/tool"), json!({})).await.map_err(debug_text)?;
        expect_equal(&locked(&self.elicitations).len(), &1)?;
        Ok(Some(result))
    }

    async fn elicitation_accepted(&self) -> CaseResult {
        let answer = self.surface["greet"]["answer"].as_object().cloned().unwrap_or_default();
        let Some(result) = self.greet(ElicitResult::accept(answer)).await? else { return Ok(CaseOutcome::Skipped) };
        expect_contains(&text_of(&result), &self.text("/greet/contains"))
    }

    async fn elicitation_refused(&self, answer: ElicitResult) -> CaseResult {
        let Some(result) = self.greet(answer).await? else { return Ok(CaseOutcome::Skipped) };
        expect_equal(&result.is_error, &true)
    }

    async fn list_resources(&self) -> CaseResult {
        let resources = self.client.list_resources().await.map_err(debug_text)?;
        let listed = |path: &str| resources.iter().any(|one| one.uri == self.text(path));
        expect_equal(&listed("/about"), &true)?;
        expect_equal(&(listed("/clock/uri") || self.surface.pointer("/clock/toggle").is_some()), &true)
    }

    async fn list_templates(&self) -> CaseResult {
        let templates = self.client.list_resource_templates().await.map_err(debug_text)?;
        expect_equal(&templates.iter().any(|one| one.uri_template == self.text("/template/uri")), &true)
    }

    async fn read(&self) -> CaseResult {
        let template = (self.text("/template/expanded"), self.text("/template/contains"));
        for (uri, contained) in [(self.text("/about"), String::new()), template] {
            let result = self.client.read_resource(&uri).await.map_err(debug_text)?;
            match result.contents.first() {
                Some(ResourceContents::Text(contents)) => {
                    expect_equal(&contents.uri, &uri)?;
                    expect_contains(&contents.text, &contained)?;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(CaseOutcome::Passed)
    }

    async fn unknown_resource(&self) -> CaseResult {
        let code = if self.is_modern() { -32602 } else { -32002 };
        expect_error(self.client.read_resource(self.text("/nowhere")).await, code)
    }

    async fn ticking(&self) -> CaseResult {
        let uri = self.text("/clock/uri");
        let updates = || {
            let notifications = locked(&self.notifications);
            notifications
                .iter()
                .filter(|one| matches!(one, ServerNotification::ResourceUpdated { uri: of } if *of == uri))
                .count()
        };
        let toggle = self.surface.pointer("/clock/toggle").and_then(Value::as_str);
        let before = updates();
        self.client.subscribe(&uri).await.map_err(debug_text)?;
        if let Some(toggle) = toggle {
            self.call_for_text(toggle, &json!({})).await?;
        }
        wait_until(Duration::from_secs(5), || updates() > before).await?;
        self.client.unsubscribe(&uri).await.map_err(debug_text)?;
        if let Some(toggle) = toggle {
            self.call_for_text(toggle, &json!({})).await?;
        }
        sleep(Duration::from_millis(200)).await; // For notifications that were on the way.
        let after = updates();
        sleep(Duration::from_millis(1300)).await;
        expect_equal(&updates(), &after)
    }

    async fn list_changed(&self) -> CaseResult {
        let tools = self.client.list_tools().await.map_err(debug_text)?;
        if !tools.iter().any(|tool| tool.name == "grow") {
            return Ok(CaseOutcome::Skipped);
        }
        if !self.is_modern() {
            self.call_for_text("grow", &json!({})).await?;
            let changed =
                || locked(&self.notifications).iter().any(|one| matches!(one, ServerNotification::ToolsListChanged));
            wait_until(Duration::from_secs(2), changed).await?;
            return Ok(CaseOutcome::Passed);
        }
        let filter = SubscriptionFilter::default().tools_list_changed(true);
        let mut listen: Listen = self.client.listen(filter.clone()).await.map_err(debug_text)?;
        expect_equal(&listen.acknowledged(), &filter)?;
        self.call_for_text("grow", &json!({})).await?;
        let next = timeout(Duration::from_secs(2), listen.next()).await.map_err(|_| "no change within 2 s")?;
        match next {
            Some(ServerNotification::ToolsListChanged) => Ok(CaseOutcome::Passed),
            other => Err(format!("{other:?}")),
        }
    }

    async fn mirrored(&self) -> CaseResult {
        // The list tells a client which arguments to repeat in headers.
        let tools = self.client.list_tools().await.map_err(debug_text)?;
        if !tools.iter().any(|tool| self.surface["mirror"]["tool"] == *tool.name) {
            return Ok(CaseOutcome::Skipped);
        }
        let text = self.call_for_text(&self.text("/mirror/tool"), &self.arguments("/mirror/arguments")).await?;
        expect_equal(&text, &self.text("/mirror/text"))
    }

    async fn list_prompts(&self) -> CaseResult {
        let prompts = self.client.list_prompts().await.map_err(debug_text)?;
        let prompt = prompts.iter().find(|one| one.name == self.text("/prompt/name")).ok_or("no such prompt")?;
        for (name, _) in self.surface["prompt"]["arguments"].as_object().into_iter().flatten() {
            expect_equal(&prompt.arguments.iter().flatten().any(|argument| argument.name == *name), &true)?;
        }
        Ok(CaseOutcome::Passed)
    }

    async fn get_prompt(&self) -> CaseResult {
        let call = self.client.get_prompt(self.text("/prompt/name"), self.arguments("/prompt/arguments"));
        let result = call.await.map_err(debug_text)?;
        let first = result.messages.first().and_then(|message| message.content.as_text());
        expect_contains(first.unwrap_or_default(), &self.text("/prompt/contains"))
    }

    async fn unknown_prompt(&self) -> CaseResult {
        expect_error(self.client.get_prompt("no-such-prompt", json!({})).await, -32602)
    }

    async fn completion(&self) -> CaseResult {
        let complete = |value: String| {
            let reference = CompleteReference::prompt(self.text("/completion/prompt"));
            self.client.complete(CompleteParams::new(reference, self.text("/completion/argument"), value))
        };
        let every = complete(String::new()).await.map_err(debug_text)?.completion.values;
        let first = every.first().ok_or("nothing to complete with")?;
        let some = complete(first.chars().take(1).collect()).await.map_err(debug_text)?.completion.values;
        expect_equal(&some.contains(first), &true)
    }

    async fn logging(&self) -> CaseResult {
        if self.is_modern() || self.client.capabilities().logging.is_none() {
            return Ok(CaseOutcome::Skipped);
        }
        self.client.set_log_level(LoggingLevel::Debug).await.map_err(debug_text)?;
        Ok(CaseOutcome::Passed)
    }
}

/// Runs the cases one after the other and prints a line for each.
struct Report {
    label: String,
    known: Vec<String>,
    failed: bool,
}

impl Report {
    async fn case(&mut self, name: &str, work: impl Future<Output = CaseResult>) {
        let outcome = timeout(Duration::from_secs(15), work).await;
        let outcome = outcome.unwrap_or_else(|_| Err("no result within 15 s".to_owned()));
        self.line(name, outcome);
    }

    fn line(&mut self, name: &str, outcome: CaseResult) {
        let (verdict, why) = match outcome {
            Ok(CaseOutcome::Passed) => ("pass", String::new()),
            Ok(CaseOutcome::Skipped) => ("skip", String::new()),
            Err(why) if self.known.iter().any(|known| known == name) => ("known", format!(": {why}")),
            Err(why) => {
                self.failed = true;
                ("FAIL", format!(": {why}"))
            }
        };
        let _ = writeln!(io::stdout(), "{verdict} {}: {name}{why}", self.label);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [wanted, program, rest @ ..] = &arguments[..] else {
        let _ = writeln!(io::stderr(), "barewire-interop REVISION|auto COMMAND...|URL");
        return ExitCode::from(2);
    };
    let environment = |name| std::env::var(name).ok();
    let mut report = Report {
        label: format!("barewire {wanted}"),
        known: environment("EXCEPT").unwrap_or_default().split(';').map(str::to_owned).collect(),
        failed: false,
    };
    let session = timeout(Duration::from_secs(15), open(wanted, program, rest)).await;
    let s = match session.unwrap_or_else(|_| Err("no result within 15 s".to_owned())) {
        Ok(session) => session,
        Err(why) => {
            report.line("open", Err(why));
            return ExitCode::FAILURE;
        }
    };
    report.case("connect", s.connect()).await;
    report.case("ping", s.ping()).await;
    report.case("tools/list", s.list_tools()).await;
    report.case("echo", s.echo()).await;
    report.case("add", s.add()).await;
    report.case("twenty at once", s.twenty_at_once()).await;
    report.case("a tool that fails", s.fail()).await;
    report.case("an image", s.image()).await;
    report.case("an unknown tool", s.unknown_tool()).await;
    report.case("bad arguments", s.bad_arguments()).await;
    report.case("progress", s.progress()).await;
    report.case("cancellation", s.cancellation()).await;
    report.case("elicitation, accepted", s.elicitation_accepted()).await;
    report.case("elicitation, declined", s.elicitation_refused(ElicitResult::decline())).await;
    report.case("elicitation, cancelled", s.elicitation_refused(ElicitResult::cancel())).await;
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
    report.case("logging", s.logging()).await;
    let close = async {
        s.client.shutdown().await.map_err(debug_text)?;
        Ok(CaseOutcome::Passed)
    };
    report.case("close", close).await;
    if report.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Connects to the server: starts a command, or uses a URL.
async fn open(wanted: &str, program: &str, rest: &[String]) -> Result<Session, String> {
    let surface = std::env::var("SURFACE");
    let surface = surface.unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../surface.json").to_owned());
    let surface = std::fs::read_to_string(surface).map_err(debug_text)?;
    let elicitations: Arc<Mutex<Vec<ElicitForm>>> = Arc::default();
    let answer = Arc::new(Mutex::new(ElicitResult::cancel()));
    let builder = Client::builder("barewire", "1.0.0").on_elicit({
        let (elicitations, answer) = (Arc::clone(&elicitations), Arc::clone(&answer));
        move |form| {
            locked(&elicitations).push(form);
            let answer = locked(&answer).clone();
            async move { Ok(answer) }
        }
    });
    // With a server of one era, `auto` ends up in that era; EXPECT names the revision.
    let (builder, expected) = match wanted {
        "auto" => (builder, std::env::var("EXPECT").unwrap_or_else(|_| Revision::LATEST.to_string())),
        revision => (builder.revision(revision.parse().map_err(debug_text)?), revision.to_owned()),
    };
    let client = match program.starts_with("http://") {
        true => builder.http(program).await,
        false => builder.spawn(Child::new(program).args(rest)).await,
    };
    let client = client.map_err(debug_text)?;
    let notifications: Arc<Mutex<Vec<ServerNotification>>> = Arc::default();
    let mut stream = client.notifications();
    let received = Arc::clone(&notifications);
    tokio::spawn(async move {
        while let Some(notification) = stream.next().await {
            locked(&received).push(notification);
        }
    });
    Ok(Session {
        client,
        surface: serde_json::from_str(&surface).map_err(debug_text)?,
        expected: expected.parse().map_err(debug_text)?,
        notifications,
        elicitations,
        answer,
    })
}

fn text_of(result: &CallToolResult) -> String {
    result.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

fn last_number(text: &str) -> Option<f64> {
    text.trim_end_matches('.').rsplit(' ').next()?.parse().ok()
}

fn debug_text(error: impl Debug) -> String {
    format!("{error:?}")
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn expect_equal<T: PartialEq + Debug>(given: &T, wanted: &T) -> CaseResult {
    if given == wanted { Ok(CaseOutcome::Passed) } else { Err(format!("got {given:?}, expected {wanted:?}")) }
}

fn expect_contains(given: &str, wanted: &str) -> CaseResult {
    if !given.is_empty() && given.contains(wanted) {
        Ok(CaseOutcome::Passed)
    } else {
        Err(format!("{wanted:?} is not in {given:?}"))
    }
}

/// Fails unless the result is a JSON-RPC error with this code.
fn expect_error<T: Debug>(answer: Result<T, ClientError>, code: i64) -> CaseResult {
    match answer {
        Err(error) if error.code().is_some() => expect_equal(&error.code(), &Some(Code::received(code))),
        other => Err(format!("got {other:?}, expected error {code}")),
    }
}

async fn wait_until(limit: Duration, found: impl Fn() -> bool) -> Result<(), String> {
    let wait = async {
        while !found() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(limit, wait).await.map_err(|_| format!("nothing within {limit:?}"))
}
