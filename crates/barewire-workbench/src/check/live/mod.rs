//! A program or a URL -> findings: it is started as often as necessary, spoken to in every era it knows, well and badly.

mod answer;
mod calls;
mod ending;
mod eras;
mod group;
mod handshake;
pub(super) mod http;
mod lab;
mod modern;
mod ordinary;
mod probes;
mod rough;
mod sample;
mod talk;
mod tape;
mod web;

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
use super::ledger::{Ledger, Reason, Skip};
use crate::capture::{CaptureClock, CaptureWriter};
use crate::secrets::Redactor;
use crate::{Advice, Error};
use lab::{Lab, Target, Wishes};
use tape::Shared;

/// The server to check.
pub(super) enum Whom<'a> {
    Server(Box<Server>),
    /// A program and its arguments.
    Program(&'a [OsString]),
    Url(http::At<'a>),
}

/// What is allowed and wanted.
pub(super) struct Terms {
    pub(super) calls: Vec<(String, Value)>,
    pub(super) all_calls: bool,
    pub(super) wanted: Vec<&'static str>,
    pub(super) patience: Duration,
    pub(super) timeout: Duration,
    pub(super) record: Option<PathBuf>,
    pub(super) redactor: Redactor,
    pub(super) on_progress: Option<OnProgress>,
}

/// What came of it.
pub(super) struct Live {
    pub(super) ledger: Ledger,
    pub(super) about: About,
}

/// What was found out about the server.
#[derive(Default, Clone)]
pub(crate) struct About {
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

pub(super) fn run(whom: Whom<'_>, terms: Terms) -> Result<Live, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(format!("cannot wait for anything here: {error}")))?;
    let live = runtime.block_on(async {
        match whom {
            Whom::Server(server) => check(Target::Server(server), terms).await,
            Whom::Program(words) => {
                let [program, args @ ..] = words else { return Err(Error::new("no program to check")) };
                let child = Child::new(program).args(args);
                check(Target::Program { child, argv: words.to_vec() }, terms).await
            }
            Whom::Url(at) => http::check(at, terms).await,
        }
    });
    runtime.shutdown_background();
    live
}

impl Terms {
    /// A lab for it, with nothing on its tape.
    fn lab(self, target: Target) -> Result<Lab, Error> {
        let clock = CaptureClock::start();
        let capture = match self.record {
            Some(path) => Some(CaptureWriter::create(&path, clock, self.redactor, &[("by", "check")])?),
            None => None,
        };
        Ok(Lab {
            target,
            tape: Shared::new(clock, capture),
            patience: self.patience,
            until: Instant::now() + self.timeout,
            wishes: Wishes { calls: self.calls, all_calls: self.all_calls, wanted: self.wanted },
            on_progress: self.on_progress,
            started: 0,
            light: "ping",
            asks_for: Revision::LATEST_LEGACY,
            has_handshake: false,
            ignores_eof: false,
        })
    }
}

/// Checks what is spoken to over pipes, or over memory as if it were.
async fn check(target: Target, terms: Terms) -> Result<Live, Error> {
    let mut lab = terms.lab(target)?;
    let mut about = About::default();
    let found = eras::find(&mut lab, &mut about).await?;
    let main = course(&mut lab, found, &mut about).await?;
    if let Some(era) = main {
        rough::run(&mut lab, era).await?;
    }
    about.processes = lab.started;
    finish(lab, about, main, CheckPlace::Stdio)
}

/// What is the same over pipes and over HTTP: what well-behaved clients do, in every era.
async fn course(lab: &mut Lab, found: eras::Found, about: &mut About) -> Result<Option<Era>, Error> {
    lab.has_handshake = found.legacy.is_some();
    about.answers = found.legacy.is_some() || found.modern.is_some();
    let mut main = None;
    if let Some((talk, surface)) = found.legacy {
        if ordinary::run(lab, talk, surface).await? {
            main = Some(Era::Legacy);
            handshake::run(lab, about).await?;
        }
    } else {
        handshake::skip(lab);
    }
    if let Some((talk, surface)) = found.modern {
        about.modern = true;
        ordinary::run(lab, talk, surface).await?;
        main = main.or(Some(Era::Modern));
    } else {
        modern::skip(lab);
    }
    Ok(main)
}

/// All is over: what could not be done, what was found, and whether it could be kept.
fn finish(lab: Lab, mut about: About, main: Option<Era>, place: CheckPlace) -> Result<Live, Error> {
    about.is_cut = lab.is_late();
    if about.is_cut {
        for check in all().filter(|check| check.runs_on(place)) {
            if !lab.tape.is_settled(check) && main.is_some() {
                lab.tape.incomplete(check, Reason::new("time was up before it could run", Advice::AllowMoreTime));
            }
        }
    }
    for check in all().filter(|check| check.hostile && main.is_none()) {
        lab.tape.skip(check, Skip::Nothing("no MCP server answers".into()));
    }
    let tape = lab.tape.clone();
    drop(lab);
    let (ledger, kept) = tape.finish();
    kept.map_err(|error| Error::new(format!("cannot write the capture: {error}")))?;
    Ok(Live { ledger, about })
}
