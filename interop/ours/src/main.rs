//! Our client through every case of the interop tests: barewire-interop REVISION|auto COMMAND...|URL

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

/// What became of a case: done, or not for this revision; an error is what was wrong.
enum Done {
    Here,
    NotHere,
}

type Outcome = Result<Done, String>;

/// A connected client, and what it was told and asked on the way.
struct Session {
    client: Client,
    surface: Value,
    expected: Revision,
    told: Arc<Mutex<Vec<ServerNotification>>>,
    asked: Arc<Mutex<Vec<ElicitForm>>>,
    answer: Arc<Mutex<ElicitResult>>,
}

impl Session {
    fn modern(&self) -> bool {
        self.expected.era() == Era::Modern
    }

    fn text(&self, path: &str) -> String {
        let value = self.surface.pointer(path).and_then(Value::as_str);
        value.unwrap_or_else(|| panic!("no text at {path} in the surface")).to_owned()
    }

    fn arguments(&self, path: &str) -> Value {
        self.surface.pointer(path).cloned().unwrap_or_else(|| json!({}))
    }

    async fn say(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        self.client.call_tool(tool, arguments).await.map(|result| said(&result)).map_err(shown)
    }

    async fn connect(&self) -> Outcome {
        same(&self.client.revision(), &self.expected)?;
        self.client.server_info().implementation.ok_or("the server has no name")?;
        self.client.capabilities().tools.ok_or("no tools declared")?;
        Ok(Done::Here)
    }

    async fn ping(&self) -> Outcome {
        if self.modern() {
            return Ok(Done::NotHere);
        }
        self.client.ping().await.map_err(shown)?;
        Ok(Done::Here)
    }

    async fn list_tools(&self) -> Outcome {
        let tools = self.client.list_tools().await.map_err(shown)?;
        for name in self.surface["tools"].as_array().into_iter().flatten() {
            tools.iter().find(|tool| *name == *tool.name).ok_or_else(|| format!("no tool {name}"))?;
        }
        Ok(Done::Here)
    }

    async fn echo(&self) -> Outcome {
        let said = self.say(&self.text("/echo/tool"), &self.arguments("/echo/arguments")).await?;
        same(&said, &self.text("/echo/text"))
    }

    async fn add(&self) -> Outcome {
        let said = self.say(&self.text("/add/tool"), &self.arguments("/add/arguments")).await?;
        same(&last_number(&said), &self.surface["add"]["sum"].as_f64())
    }

    async fn twenty_at_once(&self) -> Outcome {
        let tool = self.text("/add/tool");
        let calls: Vec<_> = (0..20_u8).map(|b| (b, self.client.call_tool(&tool, json!({"a": 1000, "b": b})))).collect();
        for (b, call) in calls {
            let said = said(&call.await.map_err(shown)?);
            same(&last_number(&said), &Some(1000.0 + f64::from(b)))?;
        }
        Ok(Done::Here)
    }

    async fn fail(&self) -> Outcome {
        let call = self.client.call_tool(self.text("/fail/tool"), self.arguments("/fail/arguments"));
        let result = call.await.map_err(shown)?;
        same(&result.is_error, &true)?;
        contains(&said(&result), &self.text("/fail/contains"))
    }

    async fn image(&self) -> Outcome {
        let result = self.client.call_tool(self.text("/image/tool"), json!({})).await.map_err(shown)?;
        let image = result.content.iter().find_map(|block| match block {
            Content::Image(image) => Some(image.mime_type.clone()),
            _ => None,
        });
        same(&image, &Some(self.text("/image/mimeType")))
    }

    async fn unknown_tool(&self) -> Outcome {
        refused(self.client.call_tool("no-such-tool", json!({})).await, -32602)
    }

    async fn bad_arguments(&self) -> Outcome {
        // A protocol error up to 2025-06-18, a tool's own error since; both say that it was not done.
        match self.client.call_tool(self.text("/add/tool"), self.arguments("/add/bad")).await {
            Ok(result) => same(&result.is_error, &true),
            refusal => refused(refusal, -32602),
        }
    }

    async fn progress(&self) -> Outcome {
        let call = self.client.call_tool(self.text("/sleep/tool"), self.arguments("/sleep/short"));
        let (call, mut progress) = call.with_progress();
        call.await.map_err(shown)?;
        let mut seen = Vec::new();
        while let Some(step) = progress.next().await {
            seen.push(step.progress);
        }
        if seen.len() < 2 || !seen.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("progress {seen:?}"));
        }
        Ok(Done::Here)
    }

    async fn cancellation(&self) -> Outcome {
        // A call that is dropped is cancelled.
        let call = self.client.call_tool(self.text("/sleep/tool"), self.arguments("/sleep/long"));
        if let Ok(ended) = timeout(Duration::from_millis(200), call).await {
            return Err(format!("ended before it was cancelled: {ended:?}"));
        }
        self.echo().await
    }

    /// Calls the tool that asks, with this for an answer.
    async fn greet(&self, answer: ElicitResult) -> Result<Option<CallToolResult>, String> {
        // elicitation/create came with 2025-06-18.
        if self.expected < Revision::V2025_06_18 {
            return Ok(None);
        }
        locked(&self.asked).clear();
        *locked(&self.answer) = answer;
        let result = self.client.call_tool(self.text("/greet/tool"), json!({})).await.map_err(shown)?;
        same(&locked(&self.asked).len(), &1)?;
        Ok(Some(result))
    }

    async fn elicitation_accepted(&self) -> Outcome {
        let answer = self.surface["greet"]["answer"].as_object().cloned().unwrap_or_default();
        let Some(result) = self.greet(ElicitResult::accept(answer)).await? else { return Ok(Done::NotHere) };
        contains(&said(&result), &self.text("/greet/contains"))
    }

    async fn elicitation_not(&self, answer: ElicitResult) -> Outcome {
        let Some(result) = self.greet(answer).await? else { return Ok(Done::NotHere) };
        same(&result.is_error, &true)
    }

    async fn list_resources(&self) -> Outcome {
        let resources = self.client.list_resources().await.map_err(shown)?;
        let listed = |path: &str| resources.iter().any(|one| one.uri == self.text(path));
        same(&listed("/about"), &true)?;
        same(&(listed("/clock/uri") || self.surface.pointer("/clock/toggle").is_some()), &true)
    }

    async fn list_templates(&self) -> Outcome {
        let templates = self.client.list_resource_templates().await.map_err(shown)?;
        same(&templates.iter().any(|one| one.uri_template == self.text("/template/uri")), &true)
    }

    async fn read(&self) -> Outcome {
        let template = (self.text("/template/expanded"), self.text("/template/contains"));
        for (uri, contained) in [(self.text("/about"), String::new()), template] {
            let result = self.client.read_resource(&uri).await.map_err(shown)?;
            match result.contents.first() {
                Some(ResourceContents::Text(contents)) => {
                    same(&contents.uri, &uri)?;
                    contains(&contents.text, &contained)?;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(Done::Here)
    }

    async fn unknown_resource(&self) -> Outcome {
        let code = if self.modern() { -32602 } else { -32002 };
        refused(self.client.read_resource(self.text("/nowhere")).await, code)
    }

    async fn ticking(&self) -> Outcome {
        let uri = self.text("/clock/uri");
        let updates = || {
            let told = locked(&self.told);
            told.iter()
                .filter(|one| matches!(one, ServerNotification::ResourceUpdated { uri: of } if *of == uri))
                .count()
        };
        let toggle = self.surface.pointer("/clock/toggle").and_then(Value::as_str);
        let before = updates();
        self.client.subscribe(&uri).await.map_err(shown)?;
        if let Some(toggle) = toggle {
            self.say(toggle, &json!({})).await?;
        }
        until(Duration::from_secs(5), || updates() > before).await?;
        self.client.unsubscribe(&uri).await.map_err(shown)?;
        if let Some(toggle) = toggle {
            self.say(toggle, &json!({})).await?;
        }
        sleep(Duration::from_millis(200)).await; // What was on its way.
        let after = updates();
        sleep(Duration::from_millis(1300)).await;
        same(&updates(), &after)
    }

    async fn list_changed(&self) -> Outcome {
        let tools = self.client.list_tools().await.map_err(shown)?;
        if !tools.iter().any(|tool| tool.name == "grow") {
            return Ok(Done::NotHere);
        }
        if !self.modern() {
            self.say("grow", &json!({})).await?;
            let changed = || locked(&self.told).iter().any(|one| matches!(one, ServerNotification::ToolsListChanged));
            until(Duration::from_secs(2), changed).await?;
            return Ok(Done::Here);
        }
        let filter = SubscriptionFilter::default().tools_list_changed(true);
        let mut listen: Listen = self.client.listen(filter.clone()).await.map_err(shown)?;
        same(&listen.acknowledged(), &filter)?;
        self.say("grow", &json!({})).await?;
        let next = timeout(Duration::from_secs(2), listen.next()).await.map_err(|_| "no change in 2 s")?;
        match next {
            Some(ServerNotification::ToolsListChanged) => Ok(Done::Here),
            other => Err(format!("{other:?}")),
        }
    }

    async fn mirrored(&self) -> Outcome {
        // The list is what tells a client which arguments go into headers too.
        let tools = self.client.list_tools().await.map_err(shown)?;
        if !tools.iter().any(|tool| self.surface["mirror"]["tool"] == *tool.name) {
            return Ok(Done::NotHere);
        }
        let said = self.say(&self.text("/mirror/tool"), &self.arguments("/mirror/arguments")).await?;
        same(&said, &self.text("/mirror/text"))
    }

    async fn list_prompts(&self) -> Outcome {
        let prompts = self.client.list_prompts().await.map_err(shown)?;
        let prompt = prompts.iter().find(|one| one.name == self.text("/prompt/name")).ok_or("no such prompt")?;
        for (name, _) in self.surface["prompt"]["arguments"].as_object().into_iter().flatten() {
            same(&prompt.arguments.iter().flatten().any(|argument| argument.name == *name), &true)?;
        }
        Ok(Done::Here)
    }

    async fn get_prompt(&self) -> Outcome {
        let call = self.client.get_prompt(self.text("/prompt/name"), self.arguments("/prompt/arguments"));
        let result = call.await.map_err(shown)?;
        let first = result.messages.first().and_then(|message| message.content.as_text());
        contains(first.unwrap_or_default(), &self.text("/prompt/contains"))
    }

    async fn unknown_prompt(&self) -> Outcome {
        refused(self.client.get_prompt("no-such-prompt", json!({})).await, -32602)
    }

    async fn completion(&self) -> Outcome {
        let complete = |value: String| {
            let reference = CompleteReference::prompt(self.text("/completion/prompt"));
            self.client.complete(CompleteParams::new(reference, self.text("/completion/argument"), value))
        };
        let every = complete(String::new()).await.map_err(shown)?.completion.values;
        let first = every.first().ok_or("nothing to complete with")?;
        let some = complete(first.chars().take(1).collect()).await.map_err(shown)?.completion.values;
        same(&some.contains(first), &true)
    }

    async fn logging(&self) -> Outcome {
        if self.modern() || self.client.capabilities().logging.is_none() {
            return Ok(Done::NotHere);
        }
        self.client.set_log_level(LoggingLevel::Debug).await.map_err(shown)?;
        Ok(Done::Here)
    }
}

/// Runs the cases one after the other and prints a line for each.
struct Report {
    label: String,
    known: Vec<String>,
    failed: bool,
}

impl Report {
    async fn case(&mut self, name: &str, work: impl Future<Output = Outcome>) {
        let outcome = timeout(Duration::from_secs(15), work).await;
        let outcome = outcome.unwrap_or_else(|_| Err("no end after 15 s".to_owned()));
        self.line(name, outcome);
    }

    fn line(&mut self, name: &str, outcome: Outcome) {
        let (verdict, why) = match outcome {
            Ok(Done::Here) => ("pass", String::new()),
            Ok(Done::NotHere) => ("skip", String::new()),
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
    let s = match session.unwrap_or_else(|_| Err("no end after 15 s".to_owned())) {
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
    report.case("elicitation, declined", s.elicitation_not(ElicitResult::decline())).await;
    report.case("elicitation, cancelled", s.elicitation_not(ElicitResult::cancel())).await;
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
        s.client.shutdown().await.map_err(shown)?;
        Ok(Done::Here)
    };
    report.case("close", close).await;
    if report.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Starts the server, or finds it at its URL, and connects to it.
async fn open(wanted: &str, program: &str, rest: &[String]) -> Result<Session, String> {
    let surface = std::env::var("SURFACE");
    let surface = surface.unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../surface.json").to_owned());
    let surface = std::fs::read_to_string(surface).map_err(shown)?;
    let asked: Arc<Mutex<Vec<ElicitForm>>> = Arc::default();
    let answer = Arc::new(Mutex::new(ElicitResult::cancel()));
    let builder = Client::builder("barewire", "1.0.0").on_elicit({
        let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
        move |form| {
            locked(&asked).push(form);
            let answer = locked(&answer).clone();
            async move { Ok(answer) }
        }
    });
    // Against a server of one era only, `auto` ends there: EXPECT says where.
    let (builder, expected) = match wanted {
        "auto" => (builder, std::env::var("EXPECT").unwrap_or_else(|_| Revision::LATEST.to_string())),
        revision => (builder.revision(revision.parse().map_err(shown)?), revision.to_owned()),
    };
    let client = match program.starts_with("http://") {
        true => builder.http(program).await,
        false => builder.spawn(Child::new(program).args(rest)).await,
    };
    let client = client.map_err(shown)?;
    let told: Arc<Mutex<Vec<ServerNotification>>> = Arc::default();
    let mut notifications = client.notifications();
    let kept = Arc::clone(&told);
    tokio::spawn(async move {
        while let Some(notification) = notifications.next().await {
            locked(&kept).push(notification);
        }
    });
    Ok(Session {
        client,
        surface: serde_json::from_str(&surface).map_err(shown)?,
        expected: expected.parse().map_err(shown)?,
        told,
        asked,
        answer,
    })
}

fn said(result: &CallToolResult) -> String {
    result.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

fn last_number(text: &str) -> Option<f64> {
    text.trim_end_matches('.').rsplit(' ').next()?.parse().ok()
}

fn shown(error: impl Debug) -> String {
    format!("{error:?}")
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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
fn refused<T: Debug>(answer: Result<T, ClientError>, code: i64) -> Outcome {
    match answer {
        Err(error) if error.code().is_some() => same(&error.code(), &Some(Code::received(code))),
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
