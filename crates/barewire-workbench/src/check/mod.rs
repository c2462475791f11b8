//! A server or a capture -> findings, each with its location, its severity and a fix.
//!
//! [`catalogue`] has every check as data. [`Checks`] has the settings, and runs the checks on a [`Target`]; the result
//! is a [`Report`]. [`Inspector`] runs the passive checks on observed traffic. The [crate] docs have an example.

mod baseline;
pub mod catalogue;
mod definitions;
mod evidence;
mod excerpt;
mod expansion;
mod finding;
pub(crate) mod host;
mod inspector;
mod key_lines;
mod last_lines;
mod ledger;
mod live;
mod origin;
mod passive;
mod report;
pub(crate) mod schema;
mod selection;
mod wrong_token;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use barewire::Server;
use barewire::client::http::{Dialer, Secret};
use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::rpc::DEFAULT_DEPTH;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::frames::{Format, FrameLimits, FrameReader, recognize_file};
use crate::pipeline::ObserverSink;
use crate::secrets::Redactor;
use crate::{Advice, Error};
use catalogue::definitions::DEFINITION_PIN;
use catalogue::{CheckPlace, Severity};
use definitions::pin::Pins;
use live::{LiveTarget, PinSettings, RunOptions};
use report::{Subject, Threshold};
use selection::Selection;

pub use baseline::Baseline;
pub use evidence::EvidenceLine;
pub use excerpt::{CutLine, Excerpt};
pub use finding::{Finding, Location, Party};
pub use host::Scenario;
pub use inspector::Inspector;
pub use origin::Origin;
pub use report::{Report, Verdict};
pub use wrong_token::WrongToken;

/// The server or capture to check.
#[derive(Debug)]
pub struct Target(TargetKind);

#[derive(Debug)]
enum TargetKind {
    Server(Box<Server>),
    Program(Vec<OsString>),
    Url {
        url: String,
        /// The connections to the server, if they need settings.
        dialer: Option<Dialer>,
    },
    /// The path of the `.wire` file; `None` means stdin.
    Capture(Option<PathBuf>),
    /// The folder with the captures of a probe.
    Host(PathBuf),
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
        Self(TargetKind::Url { url: url.into(), dialer: None })
    }

    /// Targets a server at a URL, over the connections of a dialer for this URL: with its certificates, its proxy and its
    /// sign-in.
    pub fn url_with(url: impl Into<String>, dialer: Dialer) -> Self {
        Self(TargetKind::Url { url: url.into(), dialer: Some(dialer) })
    }

    /// Targets a capture, which is a `.wire` file. Only the checks that send nothing run on a capture.
    pub fn capture(file: impl Into<PathBuf>) -> Self {
        Self(TargetKind::Capture(Some(file.into())))
    }

    /// Targets a capture that is read from stdin.
    pub fn stdin() -> Self {
        Self(TargetKind::Capture(None))
    }

    /// Targets the host that has started a [probe](crate::probe), by the folder with the captures of the probe.
    pub fn host(folder: impl Into<PathBuf>) -> Self {
        Self(TargetKind::Host(folder.into()))
    }

    fn place(&self) -> CheckPlace {
        match self.0 {
            TargetKind::Server(_) | TargetKind::Program(_) => CheckPlace::Stdio,
            TargetKind::Url { .. } => CheckPlace::Http,
            TargetKind::Capture(_) => CheckPlace::Capture,
            TargetKind::Host(_) => CheckPlace::Host,
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
    strict: bool,
    calls: Vec<(String, Value)>,
    all_calls: bool,
    hostile: bool,
    headers: Vec<(String, String)>,
    /// The credentials of the target's sign-in, which reports and captures redact.
    credentials: Vec<String>,
    wrong_tokens: Vec<(WrongToken, Secret)>,
    patience: Duration,
    timeout: Duration,
    record: Option<PathBuf>,
    pin: Option<PathBuf>,
    updates_pin: bool,
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
            strict: false,
            calls: Vec::new(),
            all_calls: false,
            hostile: false,
            headers: Vec::new(),
            credentials: Vec::new(),
            wrong_tokens: Vec::new(),
            patience: Duration::from_secs(5),
            timeout: Duration::from_secs(300),
            record: None,
            pin: None,
            updates_pin: false,
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

    /// Sets whether the findings of the server's SDK count for the verdict too; false by default, because the author of
    /// the server cannot fix them.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
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

    /// Gives a token that a server at a URL must refuse, for the check of such tokens. The server gets the token, so it
    /// should be one of a test account. Reports and captures redact it.
    pub fn wrong_token(mut self, kind: WrongToken, token: impl Into<Secret>) -> Self {
        self.wrong_tokens.push((kind, token.into()));
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

    /// Compares all definitions of the server with those in a pin file. If there is no such file, it is written, unless
    /// a definition could not be read. Only the definitions of a live server can be pinned.
    pub fn pin(mut self, file: impl Into<PathBuf>) -> Self {
        self.pin = Some(file.into());
        self
    }

    /// Sets whether the file of [`Self::pin`] is written again, which accepts the definitions of the server.
    pub fn update_pin(mut self, update: bool) -> Self {
        self.updates_pin = update;
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
            // The send fails if the future of `run_async` was dropped. Then the caller no longer needs the report.
            let _ = sender.send(self.report(target));
        };
        let thread = thread::Builder::new().name("barewire-check".to_owned()).spawn(run);
        thread.map_err(|error| Error::new(format!("cannot start a thread: {error}")))
    }

    fn report(mut self, target: Target) -> Result<Report, Error> {
        let selection = Selection::new(&self.only, &self.skip)?;
        let place = target.place();
        selection.for_place(place)?;
        let threshold = Threshold { fail_on: self.fail_on, counts_sdk: self.strict };
        let (advice_text, warn) = (self.advice_text, self.warn);
        if let TargetKind::Url { dialer: Some(dialer), .. } = &target.0 {
            self.credentials = live::credentials(dialer)?;
        }
        let mut redactor = self.redactor();
        let pin = self.pin_settings(&selection, place)?;
        let (subject, ledger, marks) = match target.0 {
            TargetKind::Capture(file) => {
                let inspector = inspect(file.as_deref(), warn)?;
                let file = file.as_deref().unwrap_or(Path::new("-"));
                (Subject::capture(file, inspector.frames), inspector.ledger, inspector.marks.marks)
            }
            TargetKind::Host(folder) => {
                let (ledger, summary) = host::inspect(&folder, warn)?;
                // The probe is the server, so there is no SDK to recognise.
                (Subject::host(&summary), ledger, Default::default())
            }
            TargetKind::Server(server) => {
                let (ledger, summary) = live::run(LiveTarget::Server(server), self.options(&selection, pin))?;
                (Subject::memory(&summary), ledger, summary.marks)
            }
            TargetKind::Program(argv) => {
                let (ledger, summary) = live::run(LiveTarget::program(&argv)?, self.options(&selection, pin))?;
                (Subject::program(&argv, &summary, &mut redactor), ledger, summary.marks)
            }
            TargetKind::Url { url, dialer } => {
                let target = LiveTarget::url(&url, dialer, self.headers.clone(), self.hostile)?;
                let (ledger, summary) = live::run(target, self.options(&selection, pin))?;
                (Subject::url(&url, &summary, &mut redactor), ledger, summary.marks)
            }
        };
        let outcomes = ledger.into_outcomes(place);
        Ok(Report::new(subject, outcomes, &selection, threshold, advice_text, &mut redactor)
            .with_sdk(&marks, &mut redactor))
    }

    fn redactor(&self) -> Redactor {
        if !self.redacts {
            return Redactor::off();
        }
        // Returns the header's value without its authentication scheme, such as `Bearer`.
        let secret = |value: &String| value.rsplit(' ').next().unwrap_or(value).to_owned();
        let sent = self.headers.iter().map(|(_, value)| value).chain(&self.credentials).map(secret);
        let wrong = self.wrong_tokens.iter().map(|(_, token)| token.expose().to_owned());
        let known: Vec<String> = sent.chain(wrong).collect();
        // Tokens are also sent with a changed signature.
        let altered = known.iter().flat_map(|token| live::altered_tokens(token)).map(|(_, token)| token);
        Redactor::knowing(known.iter().cloned().chain(altered).map(String::into_bytes))
    }

    /// Reads the pin file, and fails if definitions cannot be pinned.
    fn pin_settings(&self, selection: &Selection, place: CheckPlace) -> Result<Option<PinSettings>, Error> {
        let Some(file) = self.pin.clone() else { return Ok(None) };
        if !DEFINITION_PIN.runs_on(place) {
            return Err(Error::new("only the definitions of a live server can be pinned, not those of a capture"));
        }
        if !selection.has(&DEFINITION_PIN) {
            return Err(Error::new(format!(
                "a pin file is given, but the check {} is not selected",
                DEFINITION_PIN.id
            )));
        }
        // A file that is written again need not be readable.
        let pins = if self.updates_pin { None } else { Pins::read(&file)? };
        Ok(Some(PinSettings { file, pins, redactor: self.redactor() }))
    }

    fn options(self, selection: &Selection, pin: Option<PinSettings>) -> RunOptions {
        RunOptions {
            pin,
            redactor: self.redactor(),
            calls: self.calls,
            all_calls: self.all_calls,
            selected: selection.ids(),
            patience: self.patience,
            timeout: self.timeout,
            record: self.record,
            wrong_tokens: self.wrong_tokens,
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
    // Only these formats record the sender of each message.
    let recognized = file.and_then(recognize_file).filter(|format| matches!(format, Format::HostLog | Format::Har));
    let format = recognized.unwrap_or(Format::Wire);
    let reading = FrameReader { file, format, limits, follow: false, warn: &warn, notice: &|_| {}, filter: None };
    reading.each(&mut observed).map_err(|error| match file.is_some_and(Path::is_file) {
        true => error.with_advice(Advice::CheckCapture),
        false => error,
    })?;
    Ok(observed.finish())
}
