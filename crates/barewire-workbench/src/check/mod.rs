//! A server or a capture -> findings, each with its location, its severity and a fix.
//!
//! [`catalogue`] has every check as data. [`Checks`] has the settings, and runs the checks on a [`Target`]; the result
//! is a [`Report`]. [`Inspector`] runs the passive checks on observed traffic. The [crate] docs have an example.

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
use catalogue::{CheckPlace, Severity};
use live::{LiveTarget, RunOptions};
use report::Subject;
use selection::Selection;

pub use baseline::Baseline;
pub use finding::{Finding, Location, Party};
pub use inspector::Inspector;
pub use report::{Report, Verdict};

/// The server or capture to check.
#[derive(Debug)]
pub struct Target(TargetKind);

#[derive(Debug)]
enum TargetKind {
    Server(Box<Server>),
    Program(Vec<OsString>),
    Url(String),
    /// The path of the `.wire` file; `None` means stdin.
    Capture(Option<PathBuf>),
}

impl Target {
    /// Targets a clone of a server in this process, over an in-memory connection. Checks of the server process (its
    /// exit, its child processes, its stderr) are skipped.
    pub fn server(server: &Server) -> Self {
        Self(TargetKind::Server(Box::new(server.clone())))
    }

    /// Targets a program with its arguments. A run starts the program about twenty times.
    pub fn program<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self(TargetKind::Program(argv.into_iter().map(Into::into).collect()))
    }

    /// Targets a server at a URL, over HTTP.
    pub fn url(url: impl Into<String>) -> Self {
        Self(TargetKind::Url(url.into()))
    }

    /// Targets a capture, which is a `.wire` file. Only the checks that send nothing run on a capture.
    pub fn capture(file: impl Into<PathBuf>) -> Self {
        Self(TargetKind::Capture(Some(file.into())))
    }

    /// Targets a capture that is read from stdin.
    pub fn stdin() -> Self {
        Self(TargetKind::Capture(None))
    }

    fn place(&self) -> CheckPlace {
        match self.0 {
            TargetKind::Server(_) | TargetKind::Program(_) => CheckPlace::Stdio,
            TargetKind::Url(_) => CheckPlace::Http,
            TargetKind::Capture(_) => CheckPlace::Capture,
        }
    }
}

/// The settings of a run: the selected checks, their permissions and the time limits.
///
/// By default, tools are called only if they declare `readOnlyHint`, and a server on another machine gets no hostile
/// input. A server in this process, a program and a server at a loopback URL always get hostile input.
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
    advice_text: fn(&Advice) -> String,
}

/// A callback that receives the subject of the current probe and the number of connections opened so far.
type OnProgress = Box<dyn Fn(&str, u32) + Send>;

impl Checks {
    /// Selects all checks, with the default permissions.
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
            advice_text: Advice::to_string,
        }
    }

    /// Runs only the checks with these ids.
    pub fn only<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.only.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Omits the checks with these ids.
    pub fn skip<T: Into<String>>(mut self, ids: impl IntoIterator<Item = T>) -> Self {
        self.skip.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Sets the lowest severity that makes the verdict [`Verdict::Fail`]; [`Severity::Low`] by default.
    pub fn fail_on(mut self, severity: Severity) -> Self {
        self.fail_on = severity;
        self
    }

    /// Permits one call of this tool, with these arguments.
    pub fn call(mut self, tool: impl Into<String>, arguments: Value) -> Self {
        self.calls.push((tool.into(), arguments));
        self
    }

    /// Permits calls of every tool, with invented arguments: only for servers whose tools can do no harm.
    pub fn allow_calls(mut self, allow: bool) -> Self {
        self.all_calls = allow;
        self
    }

    /// Permits hostile input, such as broken JSON, for a server on another machine.
    pub fn hostile(mut self, allow: bool) -> Self {
        self.hostile = allow;
        self
    }

    /// Sends a header with every request to a URL. Reports and captures redact the header's value.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the time limit for each response, 5 seconds by default. The first response may take six times as long.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the time limit for the whole run, 300 seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Records all traffic in a `.wire` file.
    pub fn record(mut self, file: impl Into<PathBuf>) -> Self {
        self.record = Some(file.into());
        self
    }

    /// Sets whether secrets in the report and in the capture are redacted; true by default.
    pub fn redact(mut self, redact: bool) -> Self {
        self.redacts = redact;
        self
    }

    /// Sets a function that is called before each probe, with the probe's subject and the number of connections so far.
    pub fn on_progress(mut self, call: impl Fn(&str, u32) + Send + 'static) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Sets a function that is called with an error for each part of a capture that cannot be read.
    pub fn on_warning(mut self, call: fn(&Error)) -> Self {
        self.warn = call;
        self
    }

    /// Sets the function that turns advice into text for reports. The default text names methods of this type; a
    /// command-line program names its options instead.
    pub fn advice_text(mut self, text: fn(&Advice) -> String) -> Self {
        self.advice_text = text;
        self
    }

    /// Runs the checks, and blocks until they are done.
    pub fn run(self, target: Target) -> Result<Report, Error> {
        let (sender, mut receiver) = oneshot::channel();
        // The checks run on their own thread, so that `run` also works inside an async runtime.
        let ran = self.spawn(target, sender)?.join();
        ran.ok().and_then(|()| receiver.try_recv().ok()).unwrap_or_else(|| Err(panicked()))
    }

    /// Runs the checks like [`Self::run`], but without blocking the current thread.
    pub async fn run_async(self, target: Target) -> Result<Report, Error> {
        let (sender, receiver) = oneshot::channel();
        self.spawn(target, sender)?;
        receiver.await.unwrap_or_else(|_| Err(panicked()))
    }

    fn spawn(
        self,
        target: Target,
        sender: oneshot::Sender<Result<Report, Error>>,
    ) -> Result<thread::JoinHandle<()>, Error> {
        let run = move || {
            // The send fails if the future of `run_async` was dropped. Then nobody needs the report.
            let _ = sender.send(self.report(target));
        };
        let thread = thread::Builder::new().name("barewire-check".to_owned()).spawn(run);
        thread.map_err(|error| Error::new(format!("cannot start a thread: {error}")))
    }

    fn report(self, target: Target) -> Result<Report, Error> {
        let selection = Selection::new(&self.only, &self.skip)?;
        let place = target.place();
        selection.for_place(place)?;
        let (fail_on, advice_text, warn) = (self.fail_on, self.advice_text, self.warn);
        let mut redactor = self.redactor();
        let (subject, ledger) = match target.0 {
            TargetKind::Capture(file) => {
                let inspector = inspect(file.as_deref(), warn)?;
                let file = file.as_deref().unwrap_or(Path::new("-"));
                (Subject::capture(file, inspector.frames), inspector.ledger)
            }
            TargetKind::Server(server) => {
                let (ledger, summary) = live::run(LiveTarget::Server(server), self.options(&selection))?;
                (Subject::memory(&summary), ledger)
            }
            TargetKind::Program(argv) => {
                let (ledger, summary) = live::run(LiveTarget::program(&argv)?, self.options(&selection))?;
                (Subject::program(&argv, &summary, &mut redactor), ledger)
            }
            TargetKind::Url(url) => {
                let target = LiveTarget::url(&url, self.headers.clone(), self.hostile)?;
                let (ledger, summary) = live::run(target, self.options(&selection))?;
                (Subject::url(&url, &summary, &mut redactor), ledger)
            }
        };
        Ok(Report::new(subject, ledger.into_outcomes(place), &selection, fail_on, advice_text, &mut redactor))
    }

    fn redactor(&self) -> Redactor {
        if !self.redacts {
            return Redactor::off();
        }
        // Returns the header's value without its authentication scheme, such as `Bearer`.
        let secret = |value: &str| value.rsplit(' ').next().unwrap_or(value).as_bytes().to_vec();
        Redactor::knowing(self.headers.iter().map(|(_, value)| secret(value)))
    }

    fn options(self, selection: &Selection) -> RunOptions {
        RunOptions {
            redactor: self.redactor(),
            calls: self.calls,
            all_calls: self.all_calls,
            selected: selection.ids(),
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

fn panicked() -> Error {
    Error::new("the check panicked; this is a bug in barewire")
}

fn inspect(file: Option<&Path>, warn: fn(&Error)) -> Result<Inspector, Error> {
    let mut observed = ObserverSink::new(Inspector::new());
    let limits = FrameLimits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
    // Only the `.wire` format records the sender of each message.
    let reading = FrameReader { file, format: Format::Wire, limits, follow: false, warn: &warn };
    reading.each(&mut observed).map_err(|error| match file.is_some_and(Path::is_file) {
        true => error.with_advice(Advice::CheckCapture),
        false => error,
    })?;
    Ok(observed.finish())
}
