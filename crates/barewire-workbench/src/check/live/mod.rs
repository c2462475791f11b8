//! A server -> findings. The server gets valid and invalid input in every era, and hostile input in one era, on as many
//! connections as necessary.

mod authorization;
mod calls;
mod capabilities;
mod client_forms;
mod connection;
mod contents;
mod ending;
mod eras;
mod handshake;
mod hard_texts;
mod harness;
mod hostile;
mod http_client;
mod http_probes;
mod in_flight;
mod io_thread;
mod lists;
mod misuse;
mod modern;
mod ordinary;
mod outcome;
mod pattern;
mod pins;
mod recording;
mod running_calls;
mod sample;
mod slow_calls;
mod target;
mod tasks;
mod tool;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use barewire::client::http::Secret;
use barewire::client::oauth::finish_renewals;
use barewire_proto::mcp::{Era, Revision};
use serde_json::Value;
use tokio::runtime::Builder;

use super::OnProgress;
use super::catalogue::{CheckPlace, all};
use super::ledger::{Ledger, Reason, SkipReason};
use super::origin::Marks;
use super::wrong_token::WrongToken;
use crate::secrets::Redactor;
use crate::{Advice, Error};
use connection::ServerConnection;
use eras::{FirstConnections, FirstModern};
use harness::{Harness, Probe};
use hostile::BrokenMessage;

pub(super) use authorization::altered_tokens;
pub(super) use pins::PinSettings;
pub(super) use target::{LiveTarget, credentials};

pub(super) struct RunOptions {
    /// Tools that may be called once, with these arguments.
    pub(super) calls: Vec<(String, Value)>,
    /// Whether all tools may be called.
    pub(super) all_calls: bool,
    /// The ids of the selected checks.
    pub(super) selected: Vec<&'static str>,
    pub(super) patience: Duration,
    pub(super) timeout: Duration,
    pub(super) record: Option<PathBuf>,
    pub(super) pin: Option<PinSettings>,
    /// Tokens that the server must refuse.
    pub(super) wrong_tokens: Vec<(WrongToken, Secret)>,
    pub(super) redactor: Redactor,
    pub(super) on_progress: Option<OnProgress>,
}

#[derive(Default)]
pub(crate) struct ServerSummary {
    pub(crate) name: Option<String>,
    /// The legacy revisions that the server agreed to.
    pub(crate) legacy: Vec<Revision>,
    pub(crate) is_modern: bool,
    /// Whether the server answered in any era.
    pub(crate) answers: bool,
    /// The number of processes, of connections in memory, or of HTTP exchanges that were started.
    pub(crate) starts: u64,
    /// How the server answers, by which its SDK is recognised.
    pub(crate) marks: Marks,
    /// The limit that ended the run early.
    pub(crate) limit: Option<RunLimit>,
}

/// A limit that ends a run before all checks have run.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RunLimit {
    Time,
    /// The server has sent too much.
    Received,
}

impl RunLimit {
    pub(super) fn reason(self) -> Reason {
        let what = self.text();
        match self {
            Self::Time => Reason::new(what, Advice::AllowMoreTime),
            Self::Received => what.into(),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::Time => "the time limit was reached".to_owned(),
            Self::Received => format!("the server sent more than {} MiB", recording::MAX_RECEIVED / (1024 * 1024)),
        }
    }
}

/// Runs all live checks, and returns their observations and a summary of the server.
pub(super) fn run(target: LiveTarget, options: RunOptions) -> Result<(Ledger, ServerSummary), Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(format!("cannot start the async runtime: {error}")))?;
    let result = runtime.block_on(async { check(Harness::new(target, options)?).await });
    // A sign-in that is being renewed has spent its refresh token: the next one must be stored.
    runtime.block_on(finish_renewals(RENEWAL_WAIT));
    runtime.shutdown_background();
    result
}

/// The maximum wait for a renewal at the end: twice the time that a request to an authorization server may take, and the
/// file.
const RENEWAL_WAIT: Duration = Duration::from_secs(70);

async fn check(harness: Harness) -> Result<(Ledger, ServerSummary), Error> {
    let summary = RefCell::new(ServerSummary::default());
    let first = eras::find(&harness, &summary).await?;
    let (main, broken) = check_eras(&harness, first, &summary).await?;
    let mut summary = summary.into_inner();
    let http = match &harness.target {
        LiveTarget::Url { http, is_loopback, .. } => Some((http.clone(), *is_loopback)),
        LiveTarget::Server(_) | LiveTarget::Program { .. } => None,
    };
    let place = match http {
        Some((http, is_loopback)) => {
            let mut probes: Vec<Probe<'_>> = vec![
                Box::pin(http_probes::run(&harness, &http, is_loopback, &summary)),
                Box::pin(async {
                    authorization::run(&harness, &http, &summary).await;
                    Ok(())
                }),
            ];
            if let Some(broken) = broken {
                probes.push(Box::pin(async {
                    broken.finish(&harness).await;
                    Ok(())
                }));
            }
            harness.run_all(probes).await?;
            summary.starts = http.exchanges();
            CheckPlace::Http
        }
        None => {
            summary.starts = harness.started.get().into();
            CheckPlace::Stdio
        }
    };
    harness.decide_exits();
    finish(harness, summary, main, place)
}

/// Runs the probes of every era, and returns the era of the hostile probes; `None` if the server answers nothing. Over
/// HTTP, also returns a broken message whose response is still to be waited for.
async fn check_eras(
    harness: &Harness,
    first: FirstConnections,
    summary: &RefCell<ServerSummary>,
) -> Result<(Option<Era>, Option<BrokenMessage>), Error> {
    let FirstConnections { mut legacy, modern } = first;
    harness.has_handshake.set(legacy.is_some());
    summary.borrow_mut().answers = legacy.is_some() || matches!(modern, Some(FirstModern::Spoken(..)));
    let mut main = None;
    let mut probes: Vec<Probe<'_>> = Vec::new();
    if let (true, Some((first, _))) = (harness.is_http(), &mut legacy) {
        check_second_session(harness, first).await?;
    }
    match legacy {
        Some((connection, facts)) => {
            if let Some(probe) = ordinary::begin(harness, connection, facts).await? {
                main = Some(Era::Legacy);
                // The first connection is closed before another one is opened, if there can be only one at a time.
                let misuse = misuse::probes(harness, &probe);
                let forms = client_forms::probe(harness, probe.facts.clone());
                probes.push(Box::pin(probe.run()));
                probes.extend(handshake::probes(harness, summary));
                probes.push(harness.side(forms));
                probes.extend(misuse);
            }
        }
        None => handshake::skip(harness),
    }
    match modern {
        Some(FirstModern::Spoken(connection, facts)) => {
            summary.borrow_mut().is_modern = true;
            main = main.or(Some(Era::Modern));
            if let Some(probe) = ordinary::begin(harness, connection, facts).await? {
                probes.extend(modern::probes(harness, probe));
            }
        }
        Some(FirstModern::Undecided(mut connection, id)) => probes.push(Box::pin(async move {
            let outcome = connection.settled_response(&id).await;
            match eras::modern_era(harness, connection, outcome, summary).await {
                Some((connection, facts)) => {
                    summary.borrow_mut().is_modern = true;
                    match ordinary::begin(harness, connection, facts).await? {
                        Some(probe) => harness.run_all(modern::probes(harness, probe)).await,
                        None => Ok(()),
                    }
                }
                None => {
                    modern::skip(harness);
                    Ok(())
                }
            }
        })),
        None => modern::skip(harness),
    }
    let Some(era) = main else {
        harness.run_all(probes).await?;
        return Ok((None, None));
    };
    if harness.is_http() {
        // All probes share one process, so the reaction to hostile input must not reach another probe.
        harness.run_all(probes).await?;
        for probe in hostile::probes(harness, era) {
            probe.await?;
        }
        return Ok((main, BrokenMessage::send(harness, era).await?));
    }
    let hostile = hostile::probes(harness, era);
    if harness.is_sequential.get() {
        probes.extend(hostile);
    } else {
        // There are fewer places than probes. The hostile probes wait longest, so they begin first.
        probes.splice(0..0, hostile);
    }
    harness.run_all(probes).await?;
    Ok((main, None))
}

/// Opens a second session, and lets the probes run one after the other if the server has only one at a time.
async fn check_second_session(harness: &Harness, first: &mut ServerConnection) -> Result<(), Error> {
    let Some(mut second) = harness.connect(Era::Legacy, true).await? else {
        harness.is_sequential.set(true);
        return Ok(());
    };
    let session = first.http().and_then(|client| client.client.session.clone());
    if let Some(client) = second.http()
        && session.is_some()
        && client.client.session == session
    {
        // The end of this session would be the end of the first one.
        client.client.session = None;
        harness.is_sequential.set(true);
    }
    harness.close(second).await;
    Ok(())
}

/// Ends the run: marks the checks that did not run, and completes the capture.
fn finish(
    harness: Harness,
    mut summary: ServerSummary,
    main: Option<Era>,
    place: CheckPlace,
) -> Result<(Ledger, ServerSummary), Error> {
    summary.limit = harness.reached_limit();
    harness.decide_pins(summary.name.as_deref())?;
    for check in all() {
        if let Some(limit) = summary.limit
            && main.is_some()
            && check.runs_on(place)
            && !harness.recording.ledger().has_evidence(check)
        {
            harness.recording.ledger().incomplete(check, limit.reason());
        }
        if check.hostile && main.is_none() {
            harness.recording.ledger().skip(check, SkipReason::Nothing("no MCP server responds".into()));
        }
    }
    let recording = harness.recording.clone();
    drop(harness);
    let (inspector, written) = recording.finish();
    written.map_err(|error| Error::new(format!("cannot write the capture: {error}")))?;
    summary.marks = inspector.marks.marks;
    Ok((inspector.ledger, summary))
}
