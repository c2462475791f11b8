//! The captures of a probe -> findings about the host that started it.
//!
//! Everything that the probe does is on the wire, so the captures alone show how the host reacted. A probe that is
//! killed therefore loses nothing, and one report covers all starts of the probe.

mod judge;
mod steps;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use barewire_proto::frame::DEFAULT_LIMIT;
use barewire_proto::json::Json;
use barewire_proto::mcp::Side;
use barewire_proto::rpc::{DEFAULT_DEPTH, Message};

use super::inspector::Inspector;
use super::ledger::Ledger;
use crate::frames::{Format, FrameLimits, FrameReader, WireItem};
use crate::operations::{Handshake, OperationTracker, TrackedMessage};
use crate::pipeline::{Observer, ObserverSink};
use crate::text::shown;
use crate::{Advice, Error};
use judge::HostJudge;

pub use steps::Scenario;
pub(crate) use steps::{PING_IDS, PageStep, ROUND_STATES, UNKNOWN_METHOD_NAME, UNKNOWN_REVISION, pages};

/// What the captures say about a host.
#[derive(Default)]
pub(super) struct HostSummary {
    /// The names and versions that the client gave.
    pub(super) names: BTreeSet<String>,
    /// The revisions that were spoken.
    pub(super) revisions: BTreeSet<String>,
    /// The capabilities that the client declared.
    pub(super) capabilities: BTreeSet<String>,
    /// The methods that the client used.
    pub(super) methods: BTreeSet<String>,
    /// The number of times that the probe was started.
    pub(super) starts: u64,
    pub(super) frames: u64,
}

/// Reads all captures in a folder, oldest first.
pub(super) fn inspect(folder: &Path, warn: fn(&Error)) -> Result<(Ledger, HostSummary), Error> {
    let mut summary = HostSummary::default();
    let mut ledger = Ledger::of_host();
    for file in captures(folder)? {
        let inspector = Inspector { ledger, ..Inspector::new() };
        let observer = HostInspector { inspector, judge: HostJudge::new(), summary };
        let mut sink = ObserverSink::new(observer);
        let limits = FrameLimits { frame: DEFAULT_LIMIT, depth: DEFAULT_DEPTH };
        let (format, follow) = (Format::Wire, false);
        FrameReader { file: Some(&file), format, limits, follow, warn: &warn, notice: &|_| {}, filter: None }
            .each(&mut sink)?;
        let HostInspector { inspector, summary: seen, .. } = sink.finish();
        (ledger, summary) = (inspector.ledger, seen);
        // Each capture has its own numbers of frames.
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        ledger.name_capture(&shown(name.as_bytes(), 80));
        summary.starts += 1;
        summary.frames += inspector.frames;
    }
    Ok((ledger, summary))
}

fn captures(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let cannot = |error: std::io::Error| {
        Error::new(format!("cannot read {}: {error}", folder.display())).with_advice(Advice::StartProbe)
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        files.extend(path.extension().is_some_and(|it| it == "wire").then_some(path));
    }
    // `probe.wire`, `probe.2.wire` and so on: the number grows with the length of the name.
    files.sort_by(|a, b| (a.as_os_str().len(), a).cmp(&(b.as_os_str().len(), b)));
    Ok(files)
}

/// The passive checks, and the checks of hosts.
struct HostInspector {
    inspector: Inspector,
    judge: HostJudge,
    summary: HostSummary,
}

impl Observer for HostInspector {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        self.inspector.message(message);
        let Inspector { checks, ledger, .. } = &mut self.inspector;
        self.judge.message(message, checks, ledger);
        self.summary.message(message);
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.inspector.item(item, operations);
        self.judge.item(item, operations);
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.inspector.end(operations);
        self.judge.end(operations, &mut self.inspector.ledger);
    }
}

impl HostSummary {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        let conversation = message.conversation;
        let mut add = |set: fn(&mut Self) -> &mut BTreeSet<String>, text: String| {
            let set = set(self);
            if set.len() < MAX_FACTS {
                set.insert(text);
            }
        };
        if let Some(client) = &conversation.client {
            add(|it| &mut it.names, shown(format!("{} {}", client.name, client.version).trim().as_bytes(), 80));
        }
        // A version that the client has not accepted is not spoken.
        let is_spoken = message.sender == Side::Client && conversation.handshake != Handshake::Answered;
        if let Some(version) = conversation.version.as_ref().filter(|_| is_spoken) {
            add(|it| &mut it.revisions, shown(version.as_bytes(), 40));
        }
        if let Some(declared) = &conversation.client_capabilities
            && let Ok(declared) = Json::parse(declared.as_bytes())
        {
            declared
                .members()
                .for_each(|member| add(|it| &mut it.capabilities, shown(member.name.to_name().as_bytes(), 40)));
        }
        if message.sender == Side::Client
            && let Ok(Message::Request(request)) = message.message
        {
            add(|it| &mut it.methods, shown(request.method.to_name().as_bytes(), 40));
        }
    }
}

/// The maximum number of names, revisions and other facts of one kind.
const MAX_FACTS: usize = 100;
