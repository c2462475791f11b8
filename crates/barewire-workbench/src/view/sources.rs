//! The captures, taps and servers that the page shows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::query::ViewRequest;
use crate::index::IndexedCapture;

/// A capture, a tap or a driven server, with its index. Whoever reads the traffic feeds the index with an
/// [`IndexWriter`](crate::index::IndexWriter) and sets the state.
pub struct Source {
    /// The number, from 1. [`View::add`](super::View::add) sets it.
    id: AtomicU64,
    kind: SourceKind,
    name: String,
    index: Arc<IndexedCapture>,
    status: Mutex<SourceStatus>,
    driver: Option<Arc<dyn Driver>>,
    has_secrets: bool,
}

/// The kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the page knows these kinds")]
pub enum SourceKind {
    /// A file.
    File,
    /// A running tap.
    Tap,
    /// A server that the page drives.
    Driven,
}

/// The state of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the page knows these states")]
pub enum SourceState {
    /// A file is being read.
    Reading,
    /// A file was read whole.
    Complete,
    /// Traffic comes as it happens.
    Live,
    /// The traffic has ended.
    Ended,
    /// The connection to the traffic was lost, and is tried again.
    Lost,
    /// The traffic could not be read.
    Failed,
}

struct SourceStatus {
    state: SourceState,
    note: Option<String>,
    /// The number of bytes that were read, and of all bytes.
    progress: Option<(u64, Option<u64>)>,
}

/// What answers the requests of a source that can be driven: lists, calls, questions, replays.
pub trait Driver: Send + Sync {
    /// Answers a request. `path` is the part of the path after the source: `["call", "3"]`. Returns `None` if there is
    /// nothing at this path.
    fn answer(&self, path: &[&str], request: &ViewRequest) -> Option<Result<Answer, AnswerError>>;

    /// Returns the number of running calls and of open questions.
    fn open(&self) -> (u64, u64);
}

impl Source {
    /// Creates a source.
    pub fn new(kind: SourceKind, name: impl Into<String>, state: SourceState, index: Arc<IndexedCapture>) -> Self {
        let status = Mutex::new(SourceStatus { state, note: None, progress: None });
        Self { id: AtomicU64::new(0), kind, name: name.into(), index, status, driver: None, has_secrets: false }
    }

    /// Sets what answers the requests to drive the source.
    #[must_use]
    pub fn driven_by(self, driver: Arc<dyn Driver>) -> Self {
        Self { driver: Some(driver), ..self }
    }

    /// Sets whether secrets reach the page as they were sent. The page then names the source in a banner.
    #[must_use]
    pub fn with_secrets(self, has_secrets: bool) -> Self {
        Self { has_secrets, ..self }
    }

    /// Returns the number by which the page names the source.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Acquire)
    }

    /// Returns the index.
    pub fn index(&self) -> &Arc<IndexedCapture> {
        &self.index
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the source is a file; its name is the path then.
    pub fn is_file(&self) -> bool {
        self.kind == SourceKind::File
    }

    /// Returns the state.
    pub fn state(&self) -> SourceState {
        self.status().state
    }

    /// Sets the state, and a sentence about it: why a file cannot be read, or how a program has ended.
    pub fn set_state(&self, state: SourceState, note: Option<String>) {
        let mut status = self.status();
        (status.state, status.note) = (state, note);
    }

    /// Sets how many bytes were read, and how many there are.
    pub fn set_progress(&self, read: u64, total: Option<u64>) {
        self.status().progress = Some((read, total));
    }

    pub(super) fn driver(&self) -> Option<&dyn Driver> {
        self.driver.as_deref()
    }

    fn status(&self) -> std::sync::MutexGuard<'_, SourceStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the page shows about the source.
    pub(super) fn json(&self) -> Value {
        let (state, mut note, progress) = {
            let status = self.status();
            (status.state, status.note.clone(), status.progress)
        };
        let failure = self.index.failure();
        let data = self.index.data();
        let totals = &data.totals;
        if totals.is_full {
            note.get_or_insert_with(|| "only the first frames are shown: there is no room for more".to_owned());
        }
        let note = note.or(failure).or_else(|| totals.end.as_ref().map(|end| format!("the program has ended: {end}")));
        let is_over = !matches!(state, SourceState::Reading | SourceState::Live);
        let participant = |it: &Option<(String, String)>| {
            it.as_ref().map(|(name, version)| json!({"name": name, "version": version}))
        };
        let with_frames = data.conversations.iter().filter(|it| it.frames > 0);
        let conversations: Vec<Value> = with_frames
            .map(|it| {
                let is_ended = is_over || it.end.is_some();
                json!({
                    "name": it.name, "client": participant(&it.client), "server": participant(&it.server),
                    "era": it.era, "revision": it.revision, "http": it.is_over_http, "frames": it.frames,
                    "failures": it.failures, "findings": it.findings,
                    "state": if is_ended { "ended" } else { "running" }, "end": it.end,
                    "first": it.first.and_then(|time| time.seconds()), "last": it.last.and_then(|time| time.seconds()),
                })
            })
            .collect();
        let progress = progress.map(|(read, total)| json!({"read": read, "total": total}));
        let mut value = json!({
            "id": self.id().to_string(), "kind": self.kind.as_str(), "name": self.name, "state": state.as_str(),
            "note": note, "progress": progress.filter(|_| state == SourceState::Reading),
            "frames": totals.frames, "operations": data.operations.len(), "findings": data.findings.total,
            "failures": totals.failures, "bytes": totals.bytes, "started": totals.started,
            "first": totals.first.and_then(|time| time.seconds()), "last": totals.last.and_then(|time| time.seconds()),
            "timed": totals.is_timed, "redacted": totals.is_redacted, "drivable": self.driver.is_some(),
            "unredacted": self.has_secrets || totals.has_secrets,
            "conversations": conversations,
        });
        drop(data);
        if let Some(driver) = &self.driver {
            let (calls, questions) = driver.open();
            value["calls"] = json!(calls);
            value["questions"] = json!(questions);
        }
        value
    }
}

impl SourceKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Tap => "tap",
            Self::Driven => "driven",
        }
    }
}

impl SourceState {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Complete => "complete",
            Self::Live => "live",
            Self::Ended => "ended",
            Self::Lost => "lost",
            Self::Failed => "failed",
        }
    }
}

/// All sources.
#[derive(Default)]
pub(crate) struct SourceSet {
    list: RwLock<Vec<Arc<Source>>>,
    last: AtomicU64,
}

impl SourceSet {
    pub(super) fn add(&self, source: Source) -> Arc<Source> {
        let id = self.last.fetch_add(1, Ordering::AcqRel) + 1;
        source.id.store(id, Ordering::Release);
        let source = Arc::new(source);
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::clone(&source));
        source
    }

    pub(super) fn remove(&self, id: u64) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).retain(|source| source.id() != id);
    }

    pub(super) fn all(&self) -> Vec<Arc<Source>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the source with this number.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Source>> {
        let id: u64 = id.parse().ok()?;
        self.all().into_iter().find(|source| source.id() == id)
    }

    /// Returns what the page shows about all sources.
    pub(super) fn json(&self, is_redacted: bool) -> String {
        let sources: Vec<Value> = self.all().iter().map(|source| source.json()).collect();
        json!({"redacted": is_redacted, "sources": sources}).to_string()
    }
}
