//! `barewire call` without `--raw`: one request of an MCP client -> its answer. Meanwhile, notifications are shown and
//! the server's requests for input are answered.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use barewire::client::{Builder, Client, ClientError, ListenEnd, StartedTool};
use barewire::peer::Raw;
use barewire_proto::mcp::{Implementation, Root, SubscriptionParams, Task};
use barewire_proto::rpc::{Code, ErrorObject};
use serde_json::{Map, Value};

use super::answer::{Printer, ResultFormat, ServerIdentity};
use super::console::Console;
use super::elicit::Elicitor;
use super::target::CallTarget;
use super::time_limit::TimeLimit;
use super::{Args, notification, progress, show};
use crate::ask::arguments;
use crate::ask::given::{GivenArguments, Pair};
use crate::ask::list;
use crate::ask::no_answer::{NoAnswer, unless_signalled};
use crate::ask::request::{self, PlannedRequest, PreparedRequest};
use crate::ask::schema::Field;
use crate::failure::runtime_failure;
use crate::output::{Output, shown};
use crate::platform::Signals;
use crate::{Exit, Failure, log};

/// The outcome of a request: `Sent` for a notification, which gets no response.
pub(super) enum CallOutcome {
    Result {
        request: PreparedRequest,
        result: Raw,
    },
    Refused {
        error: ErrorObject,
        hint: Option<String>,
    },
    Sent,
    /// The server runs the call as a task with this id, and the program does not wait for its result.
    Detached {
        id: String,
    },
}

/// A request given on the command line, with its form answers, roots and `_meta`.
pub(super) struct McpCall {
    request: PlannedRequest,
    answers: Vec<Pair>,
    roots: Vec<Root>,
    meta: Value,
}

impl McpCall {
    /// Reads the command line. Does not start a program yet.
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        let pairs =
            |words: &[String]| words.iter().map(|word| Pair::read(OsStr::new(word))).collect::<Result<Vec<_>, _>>();
        let mut meta = Map::new();
        for Pair { key, value } in pairs(&args.meta)? {
            let value = arguments::value(&Field::default(), &value)
                .and_then(|json| serde_json::from_str(json.get()).map_err(|error| error.to_string()));
            let value = value.map_err(|error| Failure::new(format!("--meta {key}: {error}")))?;
            meta.insert(key, value);
        }
        let request = PlannedRequest::read(&args.what, &args.arguments, args.naming())?;
        if !meta.is_empty() && is_listen(&request) {
            let what = format!("--meta: the _meta of {LISTEN} cannot be extended");
            return Err(Failure::new(what).with_hint("--raw sends any params"));
        }
        Ok(Self {
            request,
            answers: pairs(&args.answer)?,
            roots: args.root.iter().map(|path| root(path)).collect::<Result<_, _>>()?,
            meta: Value::Object(meta),
        })
    }

    pub(super) async fn run(self, args: &Args, target: &CallTarget<'_>, output: &mut Output) -> Result<Exit, Failure> {
        // Signals are caught before a program is started, so that a signal cannot leave the program running.
        let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
        let (format, started) = (ResultFormat::of(args), Instant::now());
        let console = Console::stderr();
        let log = Arc::clone(&console);
        log::start(move |line| log.line(line));
        let Self { request, answers, roots, meta } = self;
        let limit = TimeLimit::new();
        let elicitor = Elicitor::new(Arc::clone(&console), answers, Arc::clone(&limit));
        let builder = client(args, &elicitor, roots);
        let client = match unless_signalled(&mut signals, target.connect(args, builder, &console)).await {
            Ok(client) => client,
            Err(no_answer) => {
                let mut printer = Printer { output, format, elapsed: started.elapsed(), server: None };
                return printer.no_answer(no_answer, None);
            }
        };
        let implementation = client.server_info().implementation;
        let server = ServerIdentity { revision: client.revision(), implementation };
        elicitor.set_server(server.implementation.as_ref().map_or("the server".to_owned(), |it| it.name.clone()));

        let mut notifications = client.notifications();
        let is_listen = is_listen(&request);
        // The user ends `subscriptions/listen`, not a time limit.
        limit.start(args.patience().filter(|_| !is_listen));
        let mut work = Box::pin(answer(&client, args, request, &meta, &console));
        let mut are_over = false;
        let outcome = loop {
            tokio::select! {
                // Notifications that arrived before the answer are shown before it. There may always be one more, so
                // the time is checked first.
                biased;
                () = limit.expired() => break Err(NoAnswer::out_of_time(&args.context())),
                next = notifications.next(), if !are_over => match next {
                    None => are_over = true,
                    Some(next) if is_listen => {
                        notification::print_listened(output, &next, args.json)?;
                        output.flush()?;
                    }
                    Some(next) if !args.quiet => console.line(notification::stderr_line(&next)),
                    Some(_) => {}
                },
                outcome = &mut work => break outcome,
                signal = signals.next() => break Err(NoAnswer::cancelled(signal)),
            }
        };
        // Dropping an unfinished call sends a cancel to the server.
        drop(work);
        // The cancel of a task is a request of its own, which must be on its way before the connection is closed.
        tokio::task::yield_now().await;
        console.clear();
        // The answer is printed before the program has exited, so that the user does not wait for its exit.
        let mut printer = Printer { output, format, elapsed: started.elapsed(), server: Some(&server) };
        let done = show::print(&mut printer, args, outcome);
        tokio::select! {
            _ = client.shutdown() => {}
            // After a second signal we do not wait any longer; the watcher process ends the program.
            _ = signals.next() => {}
        }
        done
    }
}

fn is_listen(request: &PlannedRequest) -> bool {
    matches!(request, PlannedRequest::Method { method, .. } if method == LISTEN)
}

/// Builds a client from the command-line options. The client answers the server's requests for user input.
fn client(args: &Args, elicitor: &Arc<Elicitor>, roots: Vec<Root>) -> Builder {
    let info = Implementation::new("barewire", env!("CARGO_PKG_VERSION")).title("barewire call");
    let (forms, pages) = (Arc::clone(elicitor), Arc::clone(elicitor));
    let mut builder = Client::builder("barewire", env!("CARGO_PKG_VERSION"))
        .info(info)
        .on_elicit(move |form| {
            let elicitor = Arc::clone(&forms);
            async move { Ok(elicitor.form(form).await) }
        })
        .on_elicit_url(move |page| {
            let elicitor = Arc::clone(&pages);
            async move { Ok(elicitor.url(page).await) }
        });
    builder = match args.patience() {
        Some(patience) => builder.timeout(patience),
        None => builder.no_timeout(),
    };
    if let Some(revision) = args.revision {
        builder = builder.revision(revision);
    }
    if args.lenient {
        builder = builder.lenient();
    }
    if !roots.is_empty() {
        builder = builder.roots(roots);
    }
    builder
}

async fn answer(
    client: &Client,
    args: &Args,
    request: PlannedRequest,
    meta: &Value,
    console: &Arc<Console>,
) -> Result<CallOutcome, NoAnswer> {
    if let Some(level) = args.log_level
        && let Err(error) = client.set_log_level(level).await
    {
        let NoAnswer { what, .. } = NoAnswer::from_client(&error, &args.context());
        console.line(format!("barewire: cannot set the log level: {what}"));
    }
    // If the arguments are a JSON object, the tool was not looked up in the server's list, so it may not exist.
    let is_unchecked = matches!(&request, PlannedRequest::Tool { given: GivenArguments::Object(_), .. });
    let request = request.prepare(client, &args.context()).await?;
    for note in &request.notes {
        console.line(format!("barewire: {note}"));
    }
    let sent = match args.detach {
        true => match detach(client, &request, meta).await {
            Ok(StartedTool::Task(task)) => return Ok(CallOutcome::Detached { id: task.id().to_owned() }),
            Ok(StartedTool::Result(result)) => {
                console.line("barewire: the server does not run this call as a task".to_owned());
                Ok(Some(Raw::of(&result).expect("a result is JSON")))
            }
            Err(error) => Err(error),
        },
        false => send(client, args, &request, meta, console).await,
    };
    match sent {
        Ok(Some(result)) => Ok(CallOutcome::Result { request, result }),
        Ok(None) => Ok(CallOutcome::Sent),
        Err(ClientError::Refused { error, .. }) => {
            let may_not_exist = [Code::INVALID_PARAMS, Code::METHOD_NOT_FOUND].contains(&error.code);
            let hint = if is_unchecked && may_not_exist { existing_tools(client, &request).await } else { None };
            Ok(CallOutcome::Refused { error, hint })
        }
        Err(error) => Err(NoAnswer::from_client(&error, &args.context())),
    }
}

/// Starts a tool call without waiting for the result of its task.
async fn detach(client: &Client, request: &PreparedRequest, meta: &Value) -> Result<StartedTool, ClientError> {
    let Some(name) = request.name().filter(|_| request.method == "tools/call") else {
        return Err(ClientError::Params("--detach is only for the call of a tool".to_owned()));
    };
    client.call_tool(name, request.arguments()).meta(meta).start().await
}

/// Returns a line such as `task working: reading (3/12)`.
fn task_line(task: &Task) -> String {
    let message = task
        .status_message
        .as_deref()
        .map_or(String::new(), |message| format!(": {}", shown(message.as_bytes(), MAX_STATUS_MESSAGE)));
    format!("task {}{message}", task.status.as_str())
}

/// Sends a request and returns its result; `None` for a notification.
async fn send(
    client: &Client,
    args: &Args,
    request: &PreparedRequest,
    meta: &Value,
    console: &Arc<Console>,
) -> Result<Option<Raw>, ClientError> {
    if request.is_notification() {
        client.notify(&request.method, request.with_meta(meta)?).await?;
        return Ok(None);
    }
    if request.is_whole_list() {
        return Ok(Some(list::all(client, &request.method, request.params.as_deref(), meta).await?));
    }
    if request.method == LISTEN {
        return listen(client, request).await.map(Some);
    }
    let status = {
        let (console, quiet) = (Arc::clone(console), args.quiet);
        move |task: &Task| {
            if !quiet && !task.status.is_over() {
                console.status(task_line(task));
            }
        }
    };
    if let Some(id) = &request.task {
        return client.task(id).wait_raw(status).await.map(Some);
    }
    let mut call = client.request(request.method.clone(), &request.params).meta(meta).on_task(status);
    if !args.quiet {
        let (console, with_bar) = (Arc::clone(console), console.is_terminal);
        call = call.on_progress(move |it| console.status(progress::line(&it, with_bar)));
    }
    call.await.map(Some)
}

/// Sends `subscriptions/listen` and waits until the server ends it. The notifications arrive with those of other calls.
async fn listen(client: &Client, request: &PreparedRequest) -> Result<Raw, ClientError> {
    let text = request.params.as_ref().map_or(r#"{"notifications":{}}"#, |params| params.get());
    let wanted: SubscriptionParams =
        serde_json::from_str(text).map_err(|error| ClientError::Params(error.to_string()))?;
    if wanted.meta.is_some() {
        return Err(ClientError::Params(format!("the _meta of {LISTEN} cannot be extended")));
    }
    let listen = client.listen(wanted.notifications).await?;
    match listen.ended().await {
        ListenEnd::Refused(error) => Err(ClientError::Refused { method: LISTEN.to_owned(), error }),
        ListenEnd::Lost(error) => Err(error),
        ListenEnd::Cancelled => {
            let what = "the server ended subscriptions/listen without a response".to_owned();
            Err(ClientError::Fault { method: LISTEN.to_owned(), what })
        }
        _ => Ok(Raw::of(&serde_json::json!({})).expect("an object is JSON")),
    }
}

/// Returns a hint with the server's tools, if the called tool is not one of them.
async fn existing_tools(client: &Client, request: &PreparedRequest) -> Option<String> {
    let name = request.name()?;
    let tools = list::all(client, "tools/list", None, &serde_json::json!({})).await.ok()?;
    let names: Vec<_> = list::items(&tools, "tools").filter_map(list::item_name).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    (!names.contains(&name.as_str())).then(|| request::listed("tool", &name, &names))
}

/// Converts a folder to a root with a `file:` URI.
fn root(path: &Path) -> Result<Root, Failure> {
    let shown = crate::output::shown(path.as_os_str().as_encoded_bytes(), MAX_PATH);
    let whole = std::fs::canonicalize(path).map_err(|error| Failure::new(format!("--root {shown}: {error}")))?;
    let mut uri = String::from("file://");
    for byte in whole.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(*byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    let mut root = Root::new(uri);
    root.name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(root)
}

const LISTEN: &str = "subscriptions/listen";

/// The maximum number of characters of a task's status message to show.
const MAX_STATUS_MESSAGE: usize = 200;

/// The maximum number of characters of a path shown in a message.
const MAX_PATH: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_uri_whatever_its_name() {
        let folder = std::env::temp_dir().join(format!("barewire root é {}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let root = root(&folder).expect("it is there");
        std::fs::remove_dir(&folder).expect("it is empty");
        assert!(root.uri.starts_with("file:///"), "{}", root.uri);
        assert!(root.uri.contains("barewire%20root%20%C3%A9%20"), "{}", root.uri);
        assert!(root.name.is_some_and(|name| name.starts_with("barewire root é")));
        assert!(super::root(Path::new("/no/such/folder")).is_err());
    }
}
