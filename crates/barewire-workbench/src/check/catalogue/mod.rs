//! Every check there is, as data: what it looks at, why, how bad a failure is, and what to do about it. One table, from which
//! lists, explanations, docs/checks.md and all reports are made.

pub(crate) mod envelope;
pub(crate) mod flow;
pub(crate) mod framing;
pub(crate) mod http;
pub(crate) mod lifecycle;
pub(crate) mod methods;
pub(crate) mod modern;
pub(crate) mod privacy;
pub(crate) mod process;
pub(crate) mod tools;

use std::fmt;

use barewire_proto::mcp::Revision;

use crate::text::{nearest, shown};
use crate::{Advice, Error};

/// One check.
#[non_exhaustive]
pub struct Check {
    /// The name for scripts, in kebab-case; it does not change.
    pub id: &'static str,
    /// What must hold.
    pub title: &'static str,
    /// Why that matters.
    pub why: &'static str,
    /// How bad a failure is.
    pub severity: Severity,
    /// Why it is that severe, and not more or less.
    pub rationale: &'static str,
    /// What is looked at.
    pub looks_at: &'static str,
    /// When it passes.
    pub pass: &'static str,
    /// When it fails.
    pub fail: &'static str,
    /// When it is skipped.
    pub skip: &'static str,
    /// The sentence of a failure. The finding adds the particulars.
    pub sentence: &'static str,
    /// The revisions that it applies to.
    pub revisions: RevisionRange,
    /// Whose rule it is.
    pub level: Level,
    /// How to fix a failure.
    pub remedy: &'static str,
    /// An example.
    pub example: &'static str,
    /// Ids of checks that are near.
    pub see: &'static [&'static str],
    /// Where more is said.
    pub references: &'static [Reference],
    /// The part of the protocol that it is about.
    pub category: Category,
    /// The version of the check.
    pub version: u32,
    /// What changed with each version.
    pub history: &'static [(u32, &'static str)],
    /// Where it runs.
    pub places: &'static [CheckPlace],
    /// Whether it sends what no well-behaved client sends.
    pub hostile: bool,
    /// Ids of checks without which it says nothing: if one of them fails, this one is skipped.
    pub needs: &'static [&'static str],
}

/// How bad a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// No host fails on it today.
    Low,
    /// Some hosts fail on it.
    Medium,
    /// Common hosts fail on it.
    High,
    /// No conversation is possible.
    Critical,
}

/// Whose rule it is; the hardest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// The specification of MCP or JSON-RPC says MUST.
    Must,
    /// It says SHOULD.
    Should,
    /// It says nothing, and hosts depend on it.
    Ours,
}

/// A part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Category {
    /// The shape of messages.
    Envelope,
    /// Bytes and lines.
    Framing,
    /// The beginning of a conversation.
    Lifecycle,
    /// What is asked.
    Methods,
    /// Tools.
    Tools,
    /// Several things at once.
    Flow,
    /// The process.
    Process,
    /// What 2026-07-28 has in place of the handshake.
    Modern,
    /// HTTP.
    Http,
    /// What should not be on the wire.
    Privacy,
}

/// Where a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckPlace {
    /// A program that is started, or a server of this process.
    Stdio,
    /// A server at a URL.
    Http,
    /// A capture.
    Capture,
    /// Between a host and a server.
    Tap,
}

/// From one revision to another, both included.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a span has two ends")]
pub struct RevisionRange(pub Revision, pub Revision);

/// Where more is said.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reference {
    /// A weakness, by its number and name.
    Cwe(u32, &'static str),
    /// A section of JSON-RPC 2.0.
    JsonRpc(&'static str),
    /// A page of the specification of MCP, behind its base: revision, path and fragment.
    Mcp(&'static str),
    /// Another document, by its name and address.
    Other(&'static str, &'static str),
}

/// All of them, in the order in which they are reported: what others depend on comes first.
pub fn all() -> impl Iterator<Item = &'static Check> {
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
pub fn find(id: &str) -> Option<&'static Check> {
    all().find(|check| check.id == id)
}

/// The check of this id; the error says which one may be meant.
pub fn resolve(id: &str) -> Result<&'static Check, Error> {
    find(id).ok_or_else(|| {
        let near = nearest(id, all().map(|check| check.id));
        Error::new(format!("there is no check {}", shown(id.as_bytes(), 60))).with_advice(Advice::ListChecks { near })
    })
}

impl Check {
    /// Whether it runs there.
    pub fn runs_on(&self, place: CheckPlace) -> bool {
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
    /// All of them, the worst first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Medium, Self::Low];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// The meaning, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Critical => "no conversation is possible, or one that cannot be trusted",
            Self::High => "common hosts fail on it, or one of them waits for ever",
            Self::Medium => "some hosts fail on it, or somebody is misled",
            Self::Low => "nobody fails on it today; it costs time when something else goes wrong",
        }
    }
}

impl Level {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Ours => "ours",
        }
    }
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 10] = [
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

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
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

    /// The subject, in a sentence.
    pub const fn description(self) -> &'static str {
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

impl CheckPlace {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "live (stdio)",
            Self::Http => "live (HTTP)",
            Self::Capture => "capture",
            Self::Tap => "tap",
        }
    }
}

impl fmt::Display for RevisionRange {
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
    /// The name.
    pub fn label(&self) -> String {
        match self {
            Self::Cwe(number, name) => format!("CWE-{number}: {name}"),
            Self::JsonRpc(section) => format!("JSON-RPC 2.0, {section}"),
            Self::Mcp(page) => format!("MCP {page}"),
            Self::Other(label, _) => (*label).to_owned(),
        }
    }

    /// The address.
    pub fn url(&self) -> String {
        match self {
            Self::Cwe(number, _) => format!("https://cwe.mitre.org/data/definitions/{number}.html"),
            Self::JsonRpc(_) => "https://www.jsonrpc.org/specification".to_owned(),
            Self::Mcp(page) => format!("https://modelcontextprotocol.io/specification/{page}"),
            Self::Other(_, url) => (*url).to_owned(),
        }
    }
}

const ALL: RevisionRange = RevisionRange(Revision::V2024_11_05, Revision::LATEST);
const LEGACY: RevisionRange = RevisionRange(Revision::V2024_11_05, Revision::LATEST_LEGACY);
const MODERN: RevisionRange = RevisionRange(Revision::V2026_07_28, Revision::LATEST);

/// What is seen in passing, wherever bytes pass.
const PASSIVE: &[CheckPlace] = &[CheckPlace::Stdio, CheckPlace::Http, CheckPlace::Capture, CheckPlace::Tap];
/// What has to be provoked.
const LIVE: &[CheckPlace] = &[CheckPlace::Stdio];
/// What has to be provoked, and can be over HTTP as well.
const LIVE_ANYWHERE: &[CheckPlace] = &[CheckPlace::Stdio, CheckPlace::Http];

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
    category: Category::Envelope,
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

    /// A text that was left out is that of [`BASE`], which is empty but for what most checks have in common.
    #[test]
    fn every_check_says_everything() {
        let words = |text: &str| text.split_whitespace().count();
        for check in all() {
            let Check { id, title, why, rationale, looks_at, pass, fail, skip, sentence, remedy, .. } = check;
            assert!(id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{id}");
            for (name, text, least) in [
                ("title", title, 3),
                ("why", why, 6),
                ("rationale", rationale, 3),
                ("looks_at", looks_at, 2),
                ("pass", pass, 2),
                ("fail", fail, 2),
                ("skip", skip, 1),
                ("sentence", sentence, 3),
                ("remedy", remedy, 4),
            ] {
                assert!(words(text) >= least, "{id} leaves out its {name}: {text:?}");
                assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), **text, "{id}: spaces in {name}");
                let is_sentence = ["why", "remedy"].contains(&name);
                assert_eq!(text.ends_with('.'), is_sentence, "{id}: the end of {name}: {text}");
            }
            let said = [title, why, looks_at, pass, fail, sentence, remedy];
            for (index, text) in said.iter().enumerate() {
                assert!(!said[..index].contains(text), "{id} says the same twice: {text}");
            }
            assert!(!check.example.trim().is_empty(), "{id} has no example");
            assert!(!check.references.is_empty() || check.level == Level::Ours, "{id} names no rule");
            assert!(!check.places.is_empty() && !check.see.is_empty(), "{id} says nowhere to look");
            let versions: Vec<u32> = check.history.iter().map(|(version, _)| *version).collect();
            assert_eq!(versions, (1..=check.version).collect::<Vec<_>>(), "{id}: a version without its history");
            assert!(check.history.iter().all(|(_, what)| !what.is_empty()), "{id}: a version without a word");
        }
    }

    /// What stands for a whole text in one check and is not meant for all is a slip.
    #[test]
    fn no_two_checks_say_the_same() {
        let checks: Vec<&Check> = all().collect();
        for (index, check) in checks.iter().enumerate() {
            for other in &checks[..index] {
                for (one, two) in [
                    (check.title, other.title),
                    (check.why, other.why),
                    (check.sentence, other.sentence),
                    (check.remedy, other.remedy),
                    (check.example, other.example),
                ] {
                    assert!(one != two, "{} and {} say the same: {one}", check.id, other.id);
                }
            }
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
