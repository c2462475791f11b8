//! Captures that are replayed against the driven server, in sessions of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use barewire::transport::{Child, Stderr};
use serde::Serialize;
use tokio::runtime::Builder;

use super::DriveTarget;
use crate::Error;
use crate::replay::{PlayOptions, PlayReport, Script, ScriptOptions, play, play_http};

/// The replays by number.
#[derive(Default)]
pub(super) struct Replays(Arc<Mutex<ReplayList>>);

#[derive(Default)]
struct ReplayList {
    last: u64,
    runs: BTreeMap<u64, ReplayState>,
}

enum ReplayState {
    Running,
    /// The report as JSON.
    Done(String),
}

#[derive(Serialize)]
struct ShownReplay<'a> {
    state: &'a str,
    notes: Vec<String>,
    differences: Vec<ShownDifference<'a>>,
    summary: String,
}

#[derive(Serialize)]
struct ShownDifference<'a> {
    frame: Option<u64>,
    answer_frame: Option<u64>,
    kind: &'a str,
    detail: String,
    method: Option<&'a str>,
    path: Option<String>,
    expected: Option<String>,
    received: Option<String>,
}

impl Replays {
    /// Starts to replay a capture, and returns the number of the run.
    pub(super) fn start(&self, capture: PathBuf, target: DriveTarget) -> Result<u64, String> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.runs.values().any(|run| matches!(run, ReplayState::Running)) {
            return Err("another capture is being replayed: wait for its end".to_owned());
        }
        list.last += 1;
        let run = list.last;
        while list.runs.len() >= MAX_RUNS {
            list.runs.pop_first();
        }
        list.runs.insert(run, ReplayState::Running);
        let runs = Arc::clone(&self.0);
        std::thread::spawn(move || {
            let shown = match replay(&capture, target) {
                Ok(report) => report_json(&report),
                Err(error) => failure_json(&error),
            };
            let mut list = runs.lock().unwrap_or_else(PoisonError::into_inner);
            list.runs.insert(run, ReplayState::Done(shown));
        });
        Ok(run)
    }

    /// Returns a run as JSON.
    pub(super) fn json(&self, run: u64) -> Option<String> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match list.runs.get(&run)? {
            ReplayState::Done(shown) => shown.clone(),
            ReplayState::Running => {
                let shown = ShownReplay {
                    state: "running",
                    notes: Vec::new(),
                    differences: Vec::new(),
                    summary: String::new(),
                };
                serde_json::to_string(&shown).ok()?
            }
        })
    }
}

fn replay(capture: &std::path::Path, target: DriveTarget) -> Result<PlayReport, Error> {
    // Any value matches a secret that the capture does not have.
    let options = ScriptOptions { allow_redacted: true, ..ScriptOptions::default() };
    let script = Script::load(capture, options, &|_| {})?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::new(format!("cannot replay: {error}")))?;
    let options = PlayOptions::default();
    runtime.block_on(async {
        match target {
            DriveTarget::Program(argv) => {
                let Some((program, args)) = argv.split_first() else { return Err(Error::new("there is no program")) };
                let server = Child::new(program).args(args).stderr(Stderr::discard()).spawn();
                let server = server.map_err(Error::not_started)?;
                Ok(play(&script, server, &options).await)
            }
            DriveTarget::Url { dialer, headers } => play_http(&script, *dialer, headers, &options).await,
        }
    })
}

fn report_json(report: &PlayReport) -> String {
    let mut differences = Vec::new();
    for difference in report.differences.iter().take(MAX_DIFFERENCES) {
        let shown = || ShownDifference {
            frame: difference.frame,
            answer_frame: difference.answer_frame,
            kind: difference.kind.as_str(),
            detail: difference.kind.to_string(),
            method: difference.method.as_deref(),
            path: None,
            expected: None,
            received: difference.received.as_deref().map(cut),
        };
        if difference.changes.is_empty() {
            differences.push(ShownDifference { path: Some(difference.kind.to_string()), ..shown() });
        }
        for change in difference.changes.iter().take(MAX_DIFFERENCES) {
            let (path, expected, received) = change.parts();
            let text = |value: Option<&str>| value.map(|value| cut(value.as_bytes()));
            differences.push(ShownDifference {
                path: Some(path),
                expected: text(expected),
                received: text(received),
                ..shown()
            });
        }
    }
    let PlayReport { sent, compared, .. } = report;
    let count = report.differences.len();
    let summary = format!("{sent} frames sent, {compared} messages compared, {count} differences");
    let notes = report.notes.iter().map(ToString::to_string).collect();
    serde_json::to_string(&ShownReplay { state: "done", notes, differences, summary }).unwrap_or_default()
}

fn failure_json(error: &Error) -> String {
    let shown = ShownReplay {
        state: "failed",
        notes: error.hint().into_iter().collect(),
        differences: Vec::new(),
        summary: error.to_string(),
    };
    serde_json::to_string(&shown).unwrap_or_default()
}

fn cut(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(MAX_VALUE)]).into_owned()
}

/// The maximum number of runs whose reports are kept.
const MAX_RUNS: usize = 10;

/// The maximum number of differences in a report, and of changes in one of them: more than a person reads.
const MAX_DIFFERENCES: usize = 500;

/// The maximum length of a value in a report, in bytes.
const MAX_VALUE: usize = 4096;
