//! `barewire call` without `--raw`: a client of MCP that asks one thing, and everything that happens meanwhile.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use barewire::client::{Builder, Client, ClientError, ListenEnd};
use barewire::peer::Raw;
use barewire_proto::mcp::{Implementation, Root, SubscriptionParams};
use barewire_proto::rpc::{Code, ErrorObject};
use serde_json::{Map, Value};

use super::answer::Agreed;
use super::console::Console;
use super::elicit::Elicitor;
use super::target::Target;
use super::{Args, pages, progress, show, talk};
use crate::ask::arguments;
use crate::ask::given::{Pair, Text};
use crate::ask::no_answer::{NoAnswer, unless_signalled};
use crate::ask::request::{self, PlannedRequest, PreparedRequest};
use crate::failure::runtime_failure;
use crate::output::Output;
use crate::platform::Signals;
use crate::{Exit, Failure, log};

/// What came of it.
pub(super) enum Answer {
    Result {
        request: PreparedRequest,
        result: Raw,
    },
    Refused {
        error: ErrorObject,
        hint: Option<String>,
    },
    /// A notification, which nobody answers.
    Sent,
}

/// What the command line says besides whom to ask what.
pub(super) struct Wishes {
    ask: PlannedRequest,
    answers: Vec<Pair>,
    roots: Vec<Root>,
    meta: Value,
}

impl Wishes {
    /// Reads it all, before anything is started.
    pub(super) fn of(args: &Args) -> Result<Self, Failure> {
        let pairs =
            |words: &[String]| words.iter().map(|word| Pair::read(OsStr::new(word))).collect::<Result<Vec<_>, _>>();
        let mut meta = Map::new();
        for Pair { key, value } in pairs(&args.meta)? {
            let any = crate::ask::schema::Field::default();
            let value = match value {
                Text::Json(json) => json,
                text @ Text::Plain(_) => {
                    arguments::value(&any, &text).map_err(|wrong| Failure::new(format!("{key}: {wrong}")))?
                }
            };
            let value =
                serde_json::from_str(value.get()).map_err(|error| Failure::new(format!("--meta {key}: {error}")))?;
            meta.insert(key, value);
        }
        let ask = PlannedRequest::read(&args.what, &args.arguments, args.naming())?;
        if !meta.is_empty() && is_listen(&ask) {
            let what = format!("--meta: {LISTEN} is sent with no _meta but the client's own");
            return Err(Failure::new(what).with_hint("--raw sends any params"));
        }
        Ok(Self {
            ask,
            answers: pairs(&args.answer)?,
            roots: args.root.iter().map(|path| root(path)).collect::<Result<_, _>>()?,
            meta: Value::Object(meta),
        })
    }
}

pub(super) async fn call(
    args: &Args,
    target: &Target<'_>,
    wishes: Wishes,
    output: &mut Output,
) -> Result<Exit, Failure> {
    // Before anything is started that a signal could leave behind.
    let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
    let began = Instant::now();
    let console = Console::stderr();
    let log = Arc::clone(&console);
    log::start(move |line| log.say(line));
    let Wishes { ask, answers, roots, meta } = wishes;
    let elicitor = Elicitor::new(Arc::clone(&console), answers);
    let builder = client(args, &elicitor, roots);
    let client = match unless_signalled(&mut signals, target.connect(args, builder, &console)).await {
        Ok(client) => client,
        Err(missed) => return show::print(output, args, Err(missed), began.elapsed(), None),
    };
    let agreed = Agreed { revision: client.revision(), server: client.server_info().implementation };
    elicitor.server_is(agreed.server.as_ref().map_or("the server".to_owned(), |server| server.name.clone()));

    let mut notifications = client.notifications();
    let is_listen = is_listen(&ask);
    let mut work = Box::pin(asked(&client, args, ask, &meta, &console));
    let mut are_over = false;
    let answer = loop {
        tokio::select! {
            // What was told before the answer is shown before it.
            biased;
            told = notifications.next(), if !are_over => match told {
                None => are_over = true,
                Some(told) if is_listen => {
                    writeln!(output, "{}", talk::heard(&told, args.json))?;
                    output.flush()?;
                }
                Some(told) if !args.quiet => console.say(talk::told(&told)),
                Some(_) => {}
            },
            answer = &mut work => break answer,
            signal = signals.next() => break Err(NoAnswer::cancelled(signal)),
        }
    };
    // A call that is dropped is cancelled on the wire.
    drop(work);
    console.clear();
    // Whoever waits for the answer does not wait for the end of the program.
    let done = show::print(output, args, answer, began.elapsed(), Some(&agreed));
    tokio::select! {
        _ = client.shutdown() => {}
        // The program's watcher ends it without us.
        _ = signals.next() => {}
    }
    done
}

fn is_listen(ask: &PlannedRequest) -> bool {
    matches!(ask, PlannedRequest::Method { method, .. } if method == LISTEN)
}

/// What the server may ask of us, and how long we wait.
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

async fn asked(
    client: &Client,
    args: &Args,
    ask: PlannedRequest,
    meta: &Value,
    console: &Arc<Console>,
) -> Result<Answer, NoAnswer> {
    if let Some(level) = args.log_level
        && let Err(error) = client.set_log_level(level).await
    {
        let NoAnswer { what, .. } = NoAnswer::from_client(&error, &args.context());
        console.say(format!("barewire: no log: {what}"));
    }
    // Whatever does not exist may have been sent as it was written, and the server has said so.
    let is_unchecked = matches!(&ask, PlannedRequest::Tool { given: crate::ask::given::GivenArguments::Object(_), .. });
    let request = ask.prepare(client, &args.context()).await?;
    for note in &request.notes {
        console.say(format!("barewire: {note}"));
    }
    match send(client, args, &request, meta, console).await {
        Ok(Some(result)) => Ok(Answer::Result { request, result }),
        Ok(None) => Ok(Answer::Sent),
        Err(ClientError::Refused { error, .. }) => {
            let may_not_exist = [Code::INVALID_PARAMS, Code::METHOD_NOT_FOUND].contains(&error.code);
            let hint = if is_unchecked && may_not_exist { existing(client, &request).await } else { None };
            Ok(Answer::Refused { error, hint })
        }
        Err(error) => Err(NoAnswer::from_client(&error, &args.context())),
    }
}

/// The result, if it is anything that is answered.
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
        return Ok(Some(pages::all(client, request, meta).await?));
    }
    if request.method == LISTEN {
        return listen(client, request).await.map(Some);
    }
    let mut call = client.request(request.method.clone(), &request.params).meta(meta);
    if !args.quiet {
        let (console, with_bar) = (Arc::clone(console), console.is_terminal());
        call = call.on_progress(move |told| console.status(progress::line(&told, with_bar)));
    }
    call.await.map(Some)
}

/// Waits for the end of a listen. What it tells comes with all that the server tells.
async fn listen(client: &Client, request: &PreparedRequest) -> Result<Raw, ClientError> {
    let text = request.params.as_ref().map_or(r#"{"notifications":{}}"#, |params| params.get());
    let wanted: SubscriptionParams =
        serde_json::from_str(text).map_err(|error| ClientError::Params(error.to_string()))?;
    if wanted.meta.is_some() {
        return Err(ClientError::Params(format!("{LISTEN} is sent with no _meta but the client's own")));
    }
    let listen = client.listen(wanted.notifications).await?;
    match listen.ended().await {
        ListenEnd::Refused(error) => Err(ClientError::Refused { method: LISTEN.to_owned(), error }),
        ListenEnd::Lost(error) => Err(error),
        ListenEnd::Cancelled => {
            let what = "it has ended the listen without an answer".to_owned();
            Err(ClientError::Fault { method: LISTEN.to_owned(), what })
        }
        _ => Ok(Raw::of(&serde_json::json!({})).expect("an object is JSON")),
    }
}

/// The tools there are, if the one that was called is not among them.
async fn existing(client: &Client, request: &PreparedRequest) -> Option<String> {
    let name = request.name()?;
    let tools = client.list_tools().await.ok()?;
    let names = request::names(&tools);
    (!names.contains(&name.as_str())).then(|| request::listed("tool", &name, &names))
}

/// A folder as a URI.
fn root(path: &Path) -> Result<Root, Failure> {
    let shown = crate::output::shown(path.as_os_str().as_encoded_bytes(), LONGEST);
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

/// As much of a path as fits a line.
const LONGEST: usize = 80;

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
