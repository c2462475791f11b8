//! Every check there is, as data: what it looks at, why, how bad a failure is, and what to do about it. One table, from which
//! `check --list`, `check --explain`, docs/checks.md and all reports are made.

pub(crate) mod envelope;
pub(crate) mod flow;
pub(crate) mod framing;
pub(crate) mod http;
pub(crate) mod lifecycle;
pub(crate) mod methods;
pub(crate) mod modern;
mod page;
pub(crate) mod privacy;
pub(crate) mod process;
mod show;
pub(crate) mod tools;

use std::fmt;

use barewire_proto::mcp::Revision;

pub(super) use page::page;
pub(super) use show::{explain, known, list};

/// One check.
pub(crate) struct Check {
    /// Kebab-case; it does not change.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) why: &'static str,
    pub(crate) severity: Severity,
    /// Why it is that severe, and not more or less.
    pub(crate) rationale: &'static str,
    pub(crate) looks_at: &'static str,
    pub(crate) pass: &'static str,
    pub(crate) fail: &'static str,
    pub(crate) skip: &'static str,
    /// What is said when it fails. The finding adds the particulars.
    pub(crate) sentence: &'static str,
    pub(crate) revisions: Span,
    pub(crate) level: Level,
    pub(crate) remedy: &'static str,
    pub(crate) example: &'static str,
    /// Ids of checks that are near.
    pub(crate) see: &'static [&'static str],
    pub(crate) references: &'static [Reference],
    pub(crate) taxon: Taxon,
    pub(crate) version: u32,
    pub(crate) history: &'static [(u32, &'static str)],
    pub(crate) places: &'static [Place],
    /// It sends what no well-behaved client sends.
    pub(crate) hostile: bool,
    /// Ids of checks without which it says nothing: if one of them fails, this one is skipped.
    pub(crate) needs: &'static [&'static str],
}

/// How bad a failure is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// Whose rule it is; the hardest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The specification of MCP or JSON-RPC says MUST.
    Must,
    /// It says SHOULD.
    Should,
    /// It says nothing, and hosts depend on it.
    Ours,
}

/// What part of the protocol it is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taxon {
    Envelope,
    Framing,
    Lifecycle,
    Methods,
    Tools,
    Flow,
    Process,
    Modern,
    Http,
    Privacy,
}

/// Where it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A program that is started.
    Stdio,
    /// A server at a URL.
    Http,
    /// A capture.
    Capture,
    /// Between a host and a server.
    Tap,
}

/// From one revision to another, both included.
#[derive(Clone, Copy)]
pub(crate) struct Span(pub(crate) Revision, pub(crate) Revision);

/// Where more is said.
pub(crate) enum Reference {
    Cwe(u32, &'static str),
    /// A section of JSON-RPC 2.0.
    JsonRpc(&'static str),
    /// A page of the specification of MCP, behind its base: revision, path and fragment.
    Mcp(&'static str),
    /// A document of somebody else.
    Other(&'static str, &'static str),
}

/// All of them, in the order in which they are reported: what others depend on comes first.
pub(crate) fn all() -> impl Iterator<Item = &'static Check> {
    [
        lifecycle::FIRST,
        envelope::FIRST,
        framing::CHECKS,
        envelope::CHECKS,
        lifecycle::CHECKS,
        methods::CHECKS,
        tools::CHECKS,
        flow::CHECKS,
        process::CHECKS,
        modern::CHECKS,
        http::CHECKS,
        privacy::CHECKS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// The check of this id.
pub(crate) fn find(id: &str) -> Option<&'static Check> {
    all().find(|check| check.id == id)
}

impl Check {
    pub(crate) fn runs_on(&self, place: Place) -> bool {
        self.places.contains(&place)
    }
}

/// One is the other if it has the same id.
impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl Severity {
    pub(crate) const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Medium, Self::Low];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    const fn means(self) -> &'static str {
        match self {
            Self::Critical => "no conversation is possible, or one that cannot be trusted",
            Self::High => "common hosts fail on it, or one of them waits for ever",
            Self::Medium => "some hosts fail on it, or somebody is misled",
            Self::Low => "nobody fails on it today; it costs time when something else goes wrong",
        }
    }
}

impl Level {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Ours => "ours",
        }
    }
}

impl Taxon {
    pub(crate) const ALL: [Self; 10] = [
        Self::Envelope,
        Self::Framing,
        Self::Lifecycle,
        Self::Methods,
        Self::Tools,
        Self::Flow,
        Self::Process,
        Self::Modern,
        Self::Http,
        Self::Privacy,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Framing => "framing",
            Self::Lifecycle => "lifecycle",
            Self::Methods => "methods",
            Self::Tools => "tools",
            Self::Flow => "flow",
            Self::Process => "process",
            Self::Modern => "modern",
            Self::Http => "http",
            Self::Privacy => "privacy",
        }
    }

    const fn about(self) -> &'static str {
        match self {
            Self::Envelope => "JSON-RPC: the shape of messages, and which answer belongs to what",
            Self::Framing => "bytes: lines, pieces of lines, and what is no line of the protocol",
            Self::Lifecycle => "the beginning: the first answer, the handshake, the version",
            Self::Methods => "what is asked: methods that exist, that do not, and with wrong parameters",
            Self::Tools => "tools: their schemas, their results, their failures",
            Self::Flow => "several things at once: progress, cancelling, concurrency, pages",
            Self::Process => "the process: its end, its children, its stderr",
            Self::Modern => "what 2026-07-28 has in place of the handshake",
            Self::Http => "HTTP: who may ask, headers, statuses, sessions",
            Self::Privacy => "what should not be on the wire",
        }
    }
}

impl Place {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "live (stdio)",
            Self::Http => "live (HTTP)",
            Self::Capture => "capture",
            Self::Tap => "tap",
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Revision::V2024_11_05, Revision::LATEST) => f.write_str("all revisions"),
            (since, Revision::LATEST) => write!(f, "{since} and later"),
            (Revision::V2024_11_05, until) => write!(f, "up to {until}"),
            (since, until) if since == until => write!(f, "{since}"),
            (since, until) => write!(f, "{since} to {until}"),
        }
    }
}

impl Reference {
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Cwe(number, name) => format!("CWE-{number}: {name}"),
            Self::JsonRpc(section) => format!("JSON-RPC 2.0, {section}"),
            Self::Mcp(page) => format!("MCP {page}"),
            Self::Other(label, _) => (*label).to_owned(),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Cwe(number, _) => format!("https://cwe.mitre.org/data/definitions/{number}.html"),
            Self::JsonRpc(_) => "https://www.jsonrpc.org/specification".to_owned(),
            Self::Mcp(page) => format!("https://modelcontextprotocol.io/specification/{page}"),
            Self::Other(_, url) => (*url).to_owned(),
        }
    }
}

const ALL: Span = Span(Revision::V2024_11_05, Revision::LATEST);
const LEGACY: Span = Span(Revision::V2024_11_05, Revision::LATEST_LEGACY);
const MODERN: Span = Span(Revision::V2026_07_28, Revision::LATEST);

/// What is seen in passing, wherever bytes pass.
const PASSIVE: &[Place] = &[Place::Stdio, Place::Http, Place::Capture, Place::Tap];
/// What has to be provoked.
const LIVE: &[Place] = &[Place::Stdio];
/// What has to be provoked, and can be over HTTP as well.
const LIVE_ANYWHERE: &[Place] = &[Place::Stdio, Place::Http];

/// What most checks have in common.
const BASE: Check = Check {
    id: "",
    title: "",
    why: "",
    severity: Severity::Medium,
    rationale: "",
    looks_at: "",
    pass: "",
    fail: "",
    skip: "no MCP server answers",
    sentence: "",
    revisions: ALL,
    level: Level::Must,
    remedy: "",
    example: "",
    see: &[],
    references: &[],
    taxon: Taxon::Envelope,
    version: 1,
    history: &[(1, "first")],
    places: PASSIVE,
    hostile: false,
    needs: ANSWERS,
};

/// Without an answer nothing can be said.
const ANSWERS: &[&str] = &["early-exit", "mute-server", "handshake"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_says_everything() {
        for check in all() {
            let Check { id, title, why, rationale, looks_at, pass, fail, skip, sentence, remedy, .. } = check;
            assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{id}");
            assert!(check.example.len() > 3, "{id} has no example");
            for text in [title, why, rationale, looks_at, pass, fail, skip, sentence, remedy] {
                assert!(text.len() > 3, "{id} leaves something out: {text:?}");
                assert!(!text.contains("  "), "{id} has two spaces: {text}");
            }
            assert!(why.ends_with('.') && remedy.ends_with('.'), "{id}: these are sentences");
            for text in [title, rationale, looks_at, pass, fail, skip, sentence] {
                assert!(!text.ends_with('.'), "{id}: {text}");
            }
            assert!(!check.references.is_empty() || check.level == Level::Ours, "{id} names no rule");
            assert!(!check.places.is_empty() && !check.see.is_empty(), "{id}");
            assert_eq!(check.history.last().map(|(version, _)| *version), Some(check.version), "{id}");
        }
    }

    #[test]
    fn ids_are_used_once_and_lead_somewhere() {
        let ids: Vec<_> = all().map(|check| check.id).collect();
        for (index, check) in all().enumerate() {
            assert_eq!(ids.iter().position(|id| *id == check.id), Some(index), "{}", check.id);
            for other in check.see.iter().chain(check.needs) {
                assert!(ids.contains(other) && *other != check.id, "{}: {other}", check.id);
            }
        }
    }

    /// The first cause comes first.
    #[test]
    fn what_is_needed_stands_before_what_needs_it() {
        let place = |id: &str| all().position(|check| check.id == id).expect("it is there");
        for check in all() {
            for need in check.needs {
                assert!(place(need) < place(check.id), "{} needs {need}", check.id);
            }
        }
    }

    #[test]
    fn the_first_of_the_catalogue() {
        let first = find("jsonrpc-messages").expect("it is there");
        assert!(first.severity == Severity::Critical && first.level == Level::Must);
        assert!(first.references.iter().any(|it| matches!(it, Reference::Cwe(116, _))));
    }
}
