//! A program or a URL -> findings: it is started as often as necessary, spoken to in every era it knows, well and badly.

mod calls;
mod connection;
mod ending;
mod eras;
mod group;
mod handshake;
mod harness;
mod hostile;
pub(super) mod http;
mod http_client;
mod http_probes;
mod modern;
mod ordinary;
mod outcome;
mod recording;
mod sample;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use barewire::Server;
use barewire::transport::Child;
use barewire_proto::mcp::{Era, Revision};
use serde_json::Value;
use tokio::runtime::Builder;

use super::OnProgress;
use super::catalogue::{CheckPlace, all};
use super::ledger::{Ledger, Reason, SkipReason};
use crate::capture::{CaptureClock, CaptureWriter};
use crate::secrets::Redactor;
use crate::{Advice, Error};
use harness::{Harness, Target, Wishes};
use recording::Recording;

/// The server to check.
pub(super) enum LiveTarget<'a> {
    Server(Box<Server>),
    /// A program and its arguments.
    Program(&'a [OsString]),
    Url(http::At<'a>),
}

/// What is allowed and wanted.
pub(super) struct RunOptions {
    pub(super) calls: Vec<(String, Value)>,
    pub(super) all_calls: bool,
    pub(super) wanted: Vec<&'static str>,
    pub(super) patience: Duration,
    pub(super) timeout: Duration,
    pub(super) record: Option<PathBuf>,
    pub(super) redactor: Redactor,
    pub(super) on_progress: Option<OnProgress>,
}

/// What inbox of it.
pub(super) struct LiveResult {
    pub(super) ledger: Ledger,
    pub(super) about: ServerSummary,
}

/// What was found out about the server.
#[derive(Default, Clone)]
pub(crate) struct ServerSummary {
    pub(crate) name: Option<String>,
    /// The legacy revisions that it agreed to.
    pub(crate) legacy: Vec<Revision>,
    pub(crate) modern: bool,
    /// Whether it was spoken to in any era.
    pub(crate) answers: bool,
    /// Processes that were started, or exchanges over HTTP.
    pub(crate) processes: u32,
    /// Whether time was up before everything was done.
    pub(crate) is_cut: bool,
}

pub(super) fn run(whom: LiveTarget<'_>, terms: RunOptions) -> Result<LiveResult, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(format!("cannot wait for anything here: {error}")))?;
    let live = runtime.block_on(async {
        match whom {
            LiveTarget::Server(server) => check(Target::Server(server), terms).await,
            LiveTarget::Program(words) => {
                let [program, args @ ..] = words else { return Err(Error::new("no program to check")) };
                let child = Child::new(program).args(args);
                check(Target::Program { child, argv: words.to_vec() }, terms).await
            }
            LiveTarget::Url(at) => http::check(at, terms).await,
        }
    });
    runtime.shutdown_background();
    live
}

impl RunOptions {
    /// A harness for it, with nothing on its recording.
    fn harness(self, target: Target) -> Result<Harness, Error> {
        let clock = CaptureClock::start();
        let capture = match self.record {
            Some(path) => Some(CaptureWriter::create(&path, clock, self.redactor, &[("by", "check")])?),
            None => None,
        };
        Ok(Harness {
            target,
            recording: Recording::new(clock, capture),
            patience: self.patience,
            until: Instant::now() + self.timeout,
            wishes: Wishes { calls: self.calls, all_calls: self.all_calls, wanted: self.wanted },
            on_progress: self.on_progress,
            started: 0,
            liveness_method: "ping",
            asks_for: Revision::LATEST_LEGACY,
            has_handshake: false,
            ignores_eof: false,
        })
    }
}

/// Checks what is spoken to over pipes, or over memory as if it were.
async fn check(target: Target, terms: RunOptions) -> Result<LiveResult, Error> {
    let mut harness = terms.harness(target)?;
    let mut about = ServerSummary::default();
    let found = eras::find(&mut harness, &mut about).await?;
    let main = course(&mut harness, found, &mut about).await?;
    if let Some(era) = main {
        hostile::run(&mut harness, era).await?;
    }
    about.processes = harness.started;
    finish(harness, about, main, CheckPlace::Stdio)
}

/// What is the same over pipes and over HTTP: what well-behaved clients do, in every era.
async fn course(
    harness: &mut Harness,
    found: eras::SpokenEras,
    about: &mut ServerSummary,
) -> Result<Option<Era>, Error> {
    harness.has_handshake = found.legacy.is_some();
    about.answers = found.legacy.is_some() || found.modern.is_some();
    let mut main = None;
    if let Some((connection, facts)) = found.legacy {
        if ordinary::run(harness, connection, facts).await? {
            main = Some(Era::Legacy);
            handshake::run(harness, about).await?;
        }
    } else {
        handshake::skip(harness);
    }
    if let Some((connection, facts)) = found.modern {
        about.modern = true;
        ordinary::run(harness, connection, facts).await?;
        main = main.or(Some(Era::Modern));
    } else {
        modern::skip(harness);
    }
    Ok(main)
}

/// All is over: what could not be done, what was found, and whether it could be kept.
fn finish(
    harness: Harness,
    mut about: ServerSummary,
    main: Option<Era>,
    place: CheckPlace,
) -> Result<LiveResult, Error> {
    about.is_cut = harness.is_late();
    if about.is_cut {
        for check in all().filter(|check| check.runs_on(place)) {
            if !harness.recording.is_settled(check) && main.is_some() {
                harness
                    .recording
                    .incomplete(check, Reason::new("time was up before it could run", Advice::AllowMoreTime));
            }
        }
    }
    for check in all().filter(|check| check.hostile && main.is_none()) {
        harness.recording.skip(check, SkipReason::Nothing("no MCP server answers".into()));
    }
    let recording = harness.recording.clone();
    drop(harness);
    let (ledger, kept) = recording.finish();
    kept.map_err(|error| Error::new(format!("cannot write the capture: {error}")))?;
    Ok(LiveResult { ledger, about })
}
