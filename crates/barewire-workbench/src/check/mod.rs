//! A server or a capture -> what is wrong with it, where, how bad, and how to fix it.
//!
//! [`catalogue`] has every check as data. [`Checks`] says what is allowed and runs them on a [`Target`]; the [`Report`] says what
//! was found. [`Inspector`] is the part of them that only looks on, for what passes by.
//!
//! ```
//! use barewire::Server;
//! use barewire_workbench::check::{Checks, Target};
//!
//! let server = Server::new("greeter", "1.0").tool("greet", "Greets", || async { "hello" });
//! let report = Checks::new().run(Target::server(&server))?;
//! assert!(report.is_clean(), "{report}");
//! # Ok::<(), barewire_workbench::Error>(())
//! ```

mod baseline;
pub mod catalogue;
mod finding;
mod inspector;
mod ledger;
mod live;
mod passive;
mod report;
mod schema;
mod selection;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use barewire::Server;
use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::frames::{Format, FrameLimits, FrameReader};
use crate::pipeline::ObserverSink;
use crate::secrets::Redactor;
use crate::{Advice, Error};
use catalogue::{Place, Severity};
use live::{Live, Terms};
use report::Subject;
use selection::Selection;

pub use baseline::Baseline;
pub use finding::{Finding, Location, Party};
pub use inspector::Inspector;
pub use report::{Report, Verdict};

/// The server or capture to check.
pub struct Target(Kind);

enum Kind {
    Server(Box<Server>),
    Program(Vec<OsString>),
    Url(String),
    /// `None` is stdin.
    Capture(Option<PathBuf>),
}

impl Target {
    /// A copy of a server of this process, over memory. What only a process shows (its end, its children, its stderr) is skipped.
    pub fn server(server: &Server) -> Self {
        Self(Kind::Server(Box::new(server.clone())))
    }

    /// A program and its arguments. It is started about a dozen times.
    pub fn program<T: Into<OsString>>(words: impl IntoIterator<Item = T>) -> Self {
        Self(Kind::Program(words.into_iter().map(Into::into).collect()))
    }

    /// A server at a URL, over HTTP.
    pub fn url(url: impl Into<String>) -> Self {
        Self(Kind::Url(url.into()))
    }

    /// A capture, a `.wire` file. It shows only what was said in it, so many checks cannot run on it.
    pub fn capture(file: impl Into<PathBuf>) -> Self {
        Self(Kind::Capture(Some(file.into())))
    }

    /// A capture on stdin.
    pub fn stdin() -> Self {
        Self(Kind::Capture(None))
    }

    fn place(&self) -> Place {
        match self.0 {
            Kind::Server(_) | Kind::Program(_) => Place::Stdio,
            Kind::Url(_) => Place::Http,
            Kind::Capture(_) => Place::Capture,
        }
    }
}

/// The checks to make, and what they may do.
///
/// Unless more is allowed, tools are called only if they say that they change nothing (`readOnlyHint`), and a server at a URL gets
/// nothing that looks like an attack. A server of this process and a program that is started get everything else.
#[must_use]
pub struct Checks {
    only: Vec<String>,
    skip: Vec<String>,
    fail_on: Severity,
    calls: Vec<(String, Value)>,
    all_calls: bool,
    hostile: bool,
    headers: Vec<(String, String)>,
    patience: Duration,
    timeout: Duration,
    record: Option<PathBuf>,
    redacts: bool,
    on_progress: Option<OnProgress>,
    warn: fn(&Error),
    words: fn(&Advice) -> String,
}

/// Called with what is being checked, and how many processes, connections or exchanges there were.
type OnProgress = Box<dyn Fn(&str, u32) + Send>;

impl Checks {
    /// All checks, with nothing allowed that could do harm.
    pub fn new() -> Self {
        Self {
            only: Vec::new(),
            skip: Vec::new(),
            fail_on: Severity::Low,
            calls: Vec::new(),
            all_calls: false,
            hostile: false,
            headers: Vec::new(),
            patience: Duration::from_secs(5),
            timeout: Duration::from_secs(300),
            record: None,
            redacts: true,
            on_progress: None,
            warn: |_| {},
            words: Advice::to_string,
        }
    }

    /// Makes only the checks with these ids.
    pub fn only<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.only.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Leaves out the checks with these ids.
    pub fn skip<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.skip.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Sets the least severity that makes the verdict [`Verdict::Fail`]; the lowest if nothing is set.
    pub fn fail_on(mut self, severity: Severity) -> Self {
        self.fail_on = severity;
        self
    }

    /// Allows one call of a tool, with these arguments.
    pub fn call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.calls.push((tool.into(), arguments));
        self
    }

    /// Allows calls of every tool, with made-up arguments: only for servers whose tools may do anything.
    pub fn allow_calls(mut self, allow: bool) -> Self {
        self.all_calls = allow;
        self
    }

    /// Allows what no well-behaved client sends for a server at a URL as well.
    pub fn hostile(mut self, allow: bool) -> Self {
        self.hostile = allow;
        self
    }

    /// Sends a header with every request to a URL. Its value is a secret in everything that is written.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets how long one answer is waited for, six times as long for the first; 5 seconds if nothing is set.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how long the whole check may take; 300 seconds if nothing is set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Records everything that goes over the wire in a `.wire` file.
    pub fn record(mut self, file: impl Into<PathBuf>) -> Self {
        self.record = Some(file.into());
        self
    }

    /// Sets whether secrets are replaced in the report and in the capture; they are if nothing is set.
    pub fn redact(mut self, redact: bool) -> Self {
        self.redacts = redact;
        self
    }

    /// Sets a function that is called with what is being checked, and how many processes, connections or exchanges there were.
    pub fn on_progress(mut self, call: impl Fn(&str, u32) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Sets a function that is called with what is left out because it cannot be read.
    pub fn on_warning(mut self, call: fn(&Error)) -> Self {
        self.warn = call;
        self
    }

    /// Sets the words for settings that would have helped: a command line calls them by other names.
    pub fn words(mut self, words: fn(&Advice) -> String) -> Self {
        self.words = words;
        self
    }

    /// Runs the checks, and waits until they are done.
    pub fn run(self, target: Target) -> Result<Report, Error> {
        let (sender, mut receiver) = oneshot::channel();
        // A thread of its own, so that it can be called from within a runtime as well.
        let ran = self.spawn(target, sender)?.join();
        ran.ok().and_then(|()| receiver.try_recv().ok()).unwrap_or_else(|| Err(broken()))
    }

    /// The same, without blocking the thread.
    pub async fn run_async(self, target: Target) -> Result<Report, Error> {
        let (sender, receiver) = oneshot::channel();
        self.spawn(target, sender)?;
        receiver.await.unwrap_or_else(|_| Err(broken()))
    }

    fn spawn(
        self,
        target: Target,
        sender: oneshot::Sender<Result<Report, Error>>,
    ) -> Result<thread::JoinHandle<()>, Error> {
        let run = move || {
            // A caller that does not wait any more needs no report.
            let _ = sender.send(self.report(target));
        };
        let thread = thread::Builder::new().name("barewire-check".to_owned()).spawn(run);
        thread.map_err(|error| Error::new(format!("cannot start a thread: {error}")))
    }

    fn report(self, target: Target) -> Result<Report, Error> {
        let selection = Selection::new(&self.only, &self.skip)?;
        let place = target.place();
        selection.for_place(place)?;
        let (fail_on, words, warn) = (self.fail_on, self.words, self.warn);
        let mut redactor = self.redactor();
        let (subject, ledger) = match target.0 {
            Kind::Capture(file) => {
                let inspector = inspect(file.as_deref(), warn)?;
                let file = file.as_deref().unwrap_or(Path::new("-"));
                (Subject::capture(file, inspector.frames), inspector.ledger)
            }
            Kind::Server(server) => {
                let Live { ledger, about } = live::run(live::Whom::Server(server), self.terms(&selection))?;
                (Subject::memory(&about), ledger)
            }
            Kind::Program(words) => {
                let whom = live::Whom::Program(&words);
                let Live { ledger, about } = live::run(whom, self.terms(&selection))?;
                (Subject::program(&words, &about, &mut redactor), ledger)
            }
            Kind::Url(url) => {
                let at = live::http::At { url: &url, hostile: self.hostile, headers: self.headers.clone() };
                let Live { ledger, about } = live::run(live::Whom::Url(at), self.terms(&selection))?;
                (Subject::url(&url, &about, &mut redactor), ledger)
            }
        };
        Ok(Report::new(subject, ledger.settle(place), &selection, fail_on, words, &mut redactor))
    }

    fn redactor(&self) -> Redactor {
        if !self.redacts {
            return Redactor::off();
        }
        // Behind a scheme, if there is one.
        let secret = |value: &str| value.rsplit(' ').next().unwrap_or(value).as_bytes().to_vec();
        Redactor::knowing(self.headers.iter().map(|(_, value)| secret(value)))
    }

    fn terms(self, selection: &Selection) -> Terms {
        Terms {
            redactor: self.redactor(),
            calls: self.calls,
            all_calls: self.all_calls,
            wanted: selection.ids(),
            patience: self.patience,
            timeout: self.timeout,
            record: self.record,
            on_progress: self.on_progress,
        }
    }
}

impl Default for Checks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").field("only", &self.only).field("skip", &self.skip).finish_non_exhaustive()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Server(_) => f.write_str("Server"),
            Kind::Program(words) => f.debug_tuple("Program").field(words).finish(),
            Kind::Url(url) => f.debug_tuple("Url").field(url).finish(),
            Kind::Capture(file) => f.debug_tuple("Capture").field(file).finish(),
        }
    }
}

/// A panic of a check ends its thread; that is all that is known of it here.
fn broken() -> Error {
    Error::new("the check ended before it was done")
}

/// A capture -> what the passive checks find in it.
fn inspect(file: Option<&Path>, warn: fn(&Error)) -> Result<Inspector, Error> {
    let mut observed = ObserverSink::new(Inspector::new());
    let limits = FrameLimits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
    // Other formats do not say who has sent what.
    let reading = FrameReader { file, format: Format::Wire, limits, follow: false, warn: &warn };
    reading.each(&mut observed).map_err(|error| match file.is_some_and(Path::is_file) {
        true => error.with_advice(Advice::CheckCapture),
        false => error,
    })?;
    Ok(observed.finish())
}
