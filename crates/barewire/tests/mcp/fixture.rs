//! The server for the transcripts of `testdata/mcp`, with a little of everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use barewire::Server;
use barewire::mcp::{
    Content, CreateMessageParams, Icon, LoggingLevel, PromptMessage, Resource as Link, ResourceContents, Revision,
    SamplingMessage, Tool as ToolDefinition,
};
use barewire::server::{
    CachePolicy, Call, CompletionRequest, Elicit, Prompt, ProtocolError, Resource, Roots, ServerHandle, Structured,
    Template, Tool, ToolError, Visit, audio, image,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;

/// Returns the server for these arguments:
///
/// - `--lenient` serves requests before the handshake
/// - `--only REVISION` serves this revision and no other
/// - `--still` has nothing that changes
/// - `--bare` offers nothing
/// - `--tasks` offers only tools that run as tasks, and a few to compare them with
/// - `--other-key` cannot open the state that the others give out
pub(crate) fn server(arguments: &[&str]) -> Server {
    let mut server = Server::new("everything", "1.0").state_key([7; 32]).page_size(3);
    let (mut still, mut bare, mut only_tasks) = (false, false, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match *argument {
            "--lenient" => server = server.lenient(),
            "--only" => {
                let revision = rest.next().and_then(|it| Revision::parse(it)).expect("a revision");
                server = server.revisions([revision]);
            }
            "--still" => still = true,
            "--bare" => bare = true,
            "--tasks" => only_tasks = true,
            "--other-key" => server = server.state_key([8; 32]),
            other => panic!("{other} is no argument of the fixture"),
        }
    }
    if bare {
        return server;
    }
    if only_tasks {
        return tasks(server);
    }
    let server = server.title("A little of everything").instructions("Try it.");
    let server = resources(prompts(questions(tools(server.cache(CachePolicy::public(Duration::from_secs(60)))))));
    if still {
        return server;
    }
    changes(server)
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Point {
    x: i64,
    y: i64,
}

/// Tools that ask no question.
fn tools(server: Server) -> Server {
    let dropped = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&dropped);
    let point = Tool::new("point", "A point", || async { Structured(Point { x: 1, y: 2 }) });
    let meta = [("example.com/of".to_owned(), json!("geometry"))].into_iter().collect();
    server
        .with(point.title("Point").icon(Icon::new("data:image/png;base64,AA==")).read_only().meta(meta))
        .tool("echo", "Says what it is told", |Text { text }| async move { text })
        .tool("add", "Adds two numbers", |Add { a, b }| async move { a + b })
        .tool("answer", "A number and not an object", || async { Structured(42) })
        .tool("media", "One of each kind of content", || async {
            vec![
                Content::text("words"),
                image([1, 2, 3], "image/png"),
                audio([4, 5, 6], "audio/wav"),
                Content::link(Link::new("note://hello", "hello")),
                Content::embedded(ResourceContents::text("note://hello", "Hello!")),
            ]
        })
        .tool("fail", "Fails", || async { Err::<(), _>("it failed") })
        .tool("refuse", "Is an error of the protocol", || async {
            Err::<(), _>(ProtocolError::application(7, "I would rather not").expect("a free code"))
        })
        .tool("panic", "Panics", || async {
            if true {
                panic!("on purpose");
            }
        })
        .with(Tool::new("think", "Works on a thread of its own", || async { "thought" }).blocking())
        .tool("climb", "Reports progress, some of it backwards", climb)
        .tool("linger", "Goes on after it has answered", linger)
        .tool("log", "Logs once at each level", log)
        .tool("slow", "Reports progress once and never ends", move |call: Call| {
            let guard = DropCounter(Arc::clone(&counted));
            async move {
                let _guard = guard;
                call.progress(1.0, None, None).await?;
                std::future::pending::<()>().await;
                Ok::<_, ToolError>(())
            }
        })
        .tool("dropped", "How many slow calls have been given up, when it is so many", move |Count { count }| {
            let dropped = Arc::clone(&dropped);
            async move {
                // Not at once: a handler is dropped only after the cancelling message has been handled.
                for _ in 0..1000 {
                    if dropped.load(Ordering::SeqCst) >= count {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                dropped.load(Ordering::SeqCst)
            }
        })
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    #[schemars(range(min = 1))]
    count: u32,
}

/// Increments the count when it is dropped.
struct DropCounter(Arc<AtomicU32>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn climb(call: Call) -> Result<&'static str, ToolError> {
    for step in [1.0, 2.0, 2.0, 0.5, f64::NAN, 3.0] {
        call.progress(step, 3.0, "climbing").await?;
    }
    Ok("at the top")
}

async fn linger(call: Call) -> &'static str {
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let _ = call.progress(1.0, None, None).await;
        let _ = call.log(LoggingLevel::Emergency, "too late").await;
    });
    "answered"
}

async fn log(call: Call) -> Result<(), ToolError> {
    for level in LoggingLevel::ALL {
        call.log_as(level, Some("log"), json!({ "level": level.as_str() })).await?;
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Anything {}

#[derive(Deserialize, JsonSchema)]
struct Age {
    age: u8,
}

/// Tools that ask the client.
fn questions(server: Server) -> Server {
    let rolled = Arc::new(AtomicU32::new(0));
    server
        .tool("greet", "Asks for a name", greet)
        .tool("meet", "Asks for two things at once", meet)
        .tool("interview", "Asks for one thing and then for another", |call: Call| async move {
            let Name { name } = call.ask("name", Elicit::form("Who are you?")).await?;
            let Age { age } = call.ask("age", Elicit::form(format!("How old are you, {name}?"))).await?;
            Ok::<_, ToolError>(format!("{name}, {age}"))
        })
        .tool("sign", "Asks who signs, whatever the arguments", |call: Call, _: Anything| async move {
            call.keep("signed", &true)?;
            let Name { name } = call.ask("name", Elicit::form("Who signs?")).await?;
            Ok::<_, ToolError>(format!("signed by {name}"))
        })
        .tool("ponder", "Asks the model", |call: Call| async move {
            let question = CreateMessageParams::new(vec![SamplingMessage::user("What is it?")], 100);
            let answer = call.ask("thought", question).await?;
            let text = answer.content.first().and_then(|content| content.as_text()).unwrap_or_default();
            Ok::<_, ToolError>(format!("the model says: {text}"))
        })
        .tool("delegate", "Asks the model, and gives it a tool", |call: Call| async move {
            let schema = RawValue::from_string(r#"{"type":"object"}"#.to_owned())?;
            let mut question = CreateMessageParams::new(vec![SamplingMessage::user("Use it.")], 100);
            question.tools = Some(vec![ToolDefinition::new("lookup", schema)]);
            let answer = call.ask("thought", question).await?;
            Ok::<_, ToolError>(format!("{:?}", answer.stop_reason.unwrap_or_default()))
        })
        .tool("roots", "Asks for the client's folders", |call: Call| async move {
            let roots = call.ask("roots", Roots).await?;
            let uris: Vec<String> = roots.into_iter().map(|root| root.uri).collect();
            Ok::<_, ToolError>(uris.join(" "))
        })
        .tool("look", "Asks for the folders and the model at once", |call: Call| async move {
            let question = CreateMessageParams::new(vec![SamplingMessage::user("What is it?")], 100);
            let (roots, answer) = tokio::join!(call.ask("roots", Roots), call.ask("thought", question));
            Ok::<_, ToolError>(format!("{} folders, {}", roots?.len(), answer?.model))
        })
        .tool("visit", "Asks the user to open a page", |call: Call| async move {
            call.ask("page", Visit::new("Please look at this", "https://example.com/look")).await?;
            Ok::<_, ToolError>("they will look")
        })
        .tool("roll", "Rolls once, however often it runs", move |call: Call| {
            let rolled = Arc::clone(&rolled);
            async move {
                let roll = async { rolled.fetch_add(1, Ordering::SeqCst) + 1 };
                let roll: u32 = call.once("roll", roll).await?;
                let Name { name } = call.ask("name", Elicit::form("Who rolls?")).await?;
                let runs = rolled.load(Ordering::SeqCst);
                Ok::<_, ToolError>(format!("{name} has roll {roll} of {runs}"))
            }
        })
        .tool("insist", "Asks until it has heard yes, and counts", |call: Call| async move {
            let asked: u32 = call.state("asked")?.unwrap_or_default();
            call.keep("asked", &(asked + 1))?;
            let Name { name } = call.ask(&format!("again{asked}"), Elicit::form("Say yes")).await?;
            if name != "yes" {
                call.ask::<Elicit<Name>>(&format!("again{}", asked + 1), Elicit::form("Say yes")).await?;
            }
            Ok::<_, ToolError>(format!("asked in {asked} rounds before this one"))
        })
}

/// Tools that run as tasks. None of them depends on time: `wait` ends when `finish` is called.
fn tasks(server: Server) -> Server {
    let finished = Arc::new(Notify::new());
    let finish = Arc::clone(&finished);
    let wait = move || {
        let finished = Arc::clone(&finished);
        async move {
            finished.notified().await;
            "done"
        }
    };
    server
        .tool("echo", "Says what it is told", |Text { text }| async move { text })
        .tool("finish", "Ends a wait", move || {
            finish.notify_one();
            async { "told" }
        })
        .with(Tool::new("wait", "Waits for finish", wait).task())
        .with(Tool::new("fail", "Fails", || async { Err::<(), _>("it failed") }).task())
        .with(
            Tool::new("refuse", "Is an error of the protocol", || async {
                Err::<(), _>(ProtocolError::application(7, "I would rather not").expect("a free code"))
            })
            .task(),
        )
        .with(Tool::new("greet", "Asks for a name", greet).only_as_task())
        .with(Tool::new("meet", "Asks for two things at once", meet).task())
        .with(Tool::new("prepare", "Asks before the task", prepare).task().ask_before_task())
}

async fn prepare(call: Call) -> Result<String, ToolError> {
    let Name { name } = call.ask("name", Elicit::form("Who are you?")).await?;
    tokio::task::yield_now().await;
    Ok(format!("prepared for {name}"))
}

async fn meet(call: Call) -> Result<String, ToolError> {
    let (name, age) = tokio::join!(
        call.ask("name", Elicit::<Name>::form("Who are you?")),
        call.ask("age", Elicit::<Age>::form("How old are you?")),
    );
    Ok(format!("{}, {}", name?.name, age?.age))
}

async fn greet(call: Call, Greeting { greeting }: Greeting) -> Result<String, ToolError> {
    let Name { name } = call.ask("name", Elicit::form("Who are you?")).await?;
    Ok(format!("{}, {name}!", greeting.unwrap_or_else(|| "Hello".into())))
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    greeting: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Letter {
    /// To whom
    name: String,
    tone: Option<String>,
}

fn prompts(server: Server) -> Server {
    let letter = Prompt::new("letter", "A letter to somebody", |Letter { name, tone }| async move {
        vec![
            PromptMessage::user(format!("Write a {} letter to {name}", tone.unwrap_or("kind".into()))),
            PromptMessage::assistant(image([1, 2, 3], "image/png")),
        ]
    });
    let letter = letter.title("Letter").complete("tone", |request: CompletionRequest| async move {
        let tones = ["kind", "curt", "keen"].map(str::to_owned);
        let of_name = request.arguments.get("name").map(|name| format!("k-{name}"));
        let all = tones.into_iter().chain(of_name);
        all.filter(|tone| tone.starts_with(&request.value)).collect()
    });
    let letter = letter.complete("name", |_| async { (0..150).map(|n| format!("n{n}")).collect() });
    server
        .with(letter)
        .with(Prompt::new("about", "A letter to whoever is asked for", |call: Call| async move {
            let Name { name } = call.ask("name", Elicit::form("To whom?")).await?;
            Ok::<_, barewire::Failure>(format!("Write to {name}"))
        }))
        .with(Prompt::new("plain", "Says hello", || async { "Hello" }))
        .with(Prompt::new("talk", "With sound, and with a resource", || async {
            let hello = ResourceContents::text("note://hello", "Hello!").with_mime_type("text/plain");
            let messages = [audio([4, 5, 6], "audio/wav"), Content::embedded(hello)];
            messages.map(PromptMessage::user).to_vec()
        }))
}

#[derive(Deserialize)]
struct Id {
    id: u32,
}

#[derive(Deserialize)]
struct Path {
    path: String,
}

fn resources(server: Server) -> Server {
    let note = Template::new("note://by-number/{id}", "note", |Id { id }| async move { format!("Note {id}") });
    server
        .with(Resource::text("note://hello", "hello", "Hello!").title("Hello").mime_type("text/plain"))
        .with(Resource::bytes("note://bytes", "bytes", [1, 2, 3]).cache(CachePolicy::private(Duration::from_secs(1))))
        .with(Resource::new("note://asks", "asks", |call: Call| async move {
            let Name { name } = call.ask("name", Elicit::form("Whose?")).await?;
            Ok::<_, barewire::Failure>(format!("{name}'s note"))
        }))
        .with(Resource::text("note://more", "more", "More."))
        .with(note.mime_type("text/plain").complete("id", |request: CompletionRequest| async move {
            ["1", "12", "2"].iter().filter(|id| id.starts_with(&request.value)).map(|id| (*id).into()).collect()
        }))
        .with(Template::new("file:///{+path}", "file", |Path { path }| async move {
            if path.split('/').any(|part| part == "..") {
                return Err(barewire::Failure::invalid_params("a path must not lead out"));
            }
            Ok(format!("what is in {path}"))
        }))
}

/// Tools that change the server's entries.
fn changes(server: Server) -> Server {
    let handle = server.handle();
    let (grow, shrink, all, touch) = (handle.clone(), handle.clone(), handle.clone(), handle);
    server
        .tool("grow", "Adds a tool of this name", move |Name { name }| {
            let handle = grow.clone();
            async move { handle.add(Tool::new(name, "Was not there before", || async { "here" })) }
        })
        .tool("shrink", "Removes the tool of this name", move |Name { name }| {
            let handle = shrink.clone();
            async move { handle.remove_tool(&name) }
        })
        .tool("change", "Changes tools, prompts and resources", move || {
            let handle = all.clone();
            async move { change(&handle) }
        })
        .tool("touch", "Says that the resource of this URI has changed", move |Text { text }| {
            let handle = touch.clone();
            async move { handle.updated(&text) }
        })
}

fn change(handle: &ServerHandle) {
    handle.add(Tool::new("new", "Is new", || async { "new" }));
    handle.add(Prompt::new("new", "Is new", || async { "new" }));
    handle.add(Resource::text("note://new", "new", "New."));
}
