//! Every check as data: rule, reason, severity and fix. Lists, explanations, docs/checks.md and reports show this data.

pub(crate) mod authorization;
#[cfg(test)]
mod cited;
pub(crate) mod definitions;
pub(crate) mod envelope;
pub(crate) mod flow;
pub(crate) mod framing;
pub(crate) mod host;
pub(crate) mod http;
pub(crate) mod lifecycle;
pub(crate) mod methods;
pub(crate) mod modern;
#[cfg(test)]
mod pages;
pub(crate) mod privacy;
pub(crate) mod process;
mod rule;
pub(crate) mod tasks;
pub(crate) mod tools;

use std::fmt;

use barewire_proto::mcp::Revision;

use super::finding::Party;
use crate::text::{nearest, shown};
use crate::{Advice, Error};
use rule::ours;

pub use rule::{Bound, Document, Level, Rule, RuleSource, Sentence};

/// A check: one rule of the protocol, and the texts that explain it.
#[non_exhaustive]
pub struct Check {
    /// The name of the check, in kebab-case. Scripts use the name, so it never changes.
    pub id: &'static str,
    /// The rule, as a statement.
    pub title: &'static str,
    /// The reason for the rule.
    pub why: &'static str,
    /// The severity of a failure.
    pub severity: Severity,
    /// The reason for this severity.
    pub rationale: &'static str,
    /// The messages or events that are inspected.
    pub looks_at: &'static str,
    /// The condition under which the check passes.
    pub pass: &'static str,
    /// The condition under which the check fails.
    pub fail: &'static str,
    /// The condition under which the check is skipped.
    pub skip: &'static str,
    /// The headline of a failure. Each finding adds its details.
    pub sentence: &'static str,
    /// The revisions that the check applies to.
    pub revisions: RevisionRange,
    /// The strictest level of `rules` in any revision.
    pub level: Level,
    /// The rules that the check verifies. Of the rules that bind a party, the first that applies in a revision is the
    /// one that a finding about this party cites, unless the finding names another rule.
    pub rules: &'static [&'static Rule],
    /// Hosts, and other clients and servers, that are known to fail because of a violation.
    pub hosts: &'static [HostFact],
    /// The fix for a failure.
    pub remedy: &'static str,
    /// A correct message or line of code, as an example.
    pub example: &'static str,
    /// Ids of related checks.
    pub see: &'static [&'static str],
    /// Further reading.
    pub references: &'static [Reference],
    /// The part of the protocol that the check is about.
    pub category: Category,
    /// The version of the check.
    pub version: u32,
    /// Each version of the check, and what changed in it.
    pub history: &'static [(u32, &'static str)],
    /// The places where the check runs.
    pub places: &'static [CheckPlace],
    /// Whether the check sends input that no well-behaved client sends.
    pub hostile: bool,
    /// Ids of the checks that this check depends on: if one of them fails, this check is skipped.
    pub needs: &'static [&'static str],
}

/// The severity of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is lost.
    Low,
    /// Something is lost or misunderstood, but no host is known to fail.
    Medium,
    /// A host is known to fail.
    High,
    /// A host is known to be unable to use the server at all.
    Critical,
}

/// A host, or another client or server, that fails because of a violation.
#[derive(Debug)]
#[non_exhaustive]
pub struct HostFact {
    /// The name of the software.
    pub host: &'static str,
    /// What it does, in the third person.
    pub what: &'static str,
    /// The URL of a report or of the code.
    pub url: &'static str,
}

/// A part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Category {
    /// The shape of messages.
    Envelope,
    /// Bytes and lines.
    Framing,
    /// The start of a connection.
    Lifecycle,
    /// Methods and their errors.
    Methods,
    /// Tools.
    Tools,
    /// Sequences of requests, and concurrent requests.
    Flow,
    /// The server process.
    Process,
    /// The rules of 2026-07-28.
    Modern,
    /// Tasks.
    Tasks,
    /// HTTP.
    Http,
    /// Authorization over HTTP.
    Authorization,
    /// Data that should not be on the wire.
    Privacy,
    /// Definitions that change without notice, or hide something from people.
    Definitions,
    /// Hosts, as the clients of a probe.
    Host,
}

/// A place where a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckPlace {
    /// A program that barewire starts, or a server in this process.
    Stdio,
    /// A server at a URL.
    Http,
    /// A capture.
    Capture,
    /// Live traffic between a host and a server, observed by `barewire tap`.
    Tap,
    /// A host that has started `barewire probe` as its server.
    Host,
}

/// A range of revisions: the first and the last, both included.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "a range has two ends")]
pub struct RevisionRange(pub Revision, pub Revision);

/// A document about a rule.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reference {
    /// A weakness of the CWE list: its number and name.
    Cwe(u32, &'static str),
    /// A section of JSON-RPC 2.0.
    JsonRpc(&'static str),
    /// A page of the specification of MCP: revision, path and fragment.
    Mcp(&'static str),
    /// Another document: its name and URL.
    Other(&'static str, &'static str),
}

/// Returns all checks in the order of reports: each check comes after the checks that it depends on.
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
        tasks::CHECKS,
        http::CHECKS,
        authorization::CHECKS,
        privacy::CHECKS,
        definitions::CHECKS,
        host::CHECKS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Returns the check with this id.
pub fn find(id: &str) -> Option<&'static Check> {
    all().find(|check| check.id == id)
}

/// Returns the check with this id; the error suggests a similar id.
pub fn resolve(id: &str) -> Result<&'static Check, Error> {
    find(id).ok_or_else(|| {
        let near = nearest(id, all().map(|check| check.id));
        Error::new(format!("there is no check {}", shown(id.as_bytes(), 60))).with_advice(Advice::ListChecks { near })
    })
}

impl Check {
    /// Whether the check runs in this place. A check of captures also runs on hosts if one of its rules binds clients.
    pub fn runs_on(&self, place: CheckPlace) -> bool {
        let is_of_clients = || self.rules.iter().any(|rule| rule.binds.includes(Party::Client));
        let is_passive = place == CheckPlace::Host && self.places.contains(&CheckPlace::Capture);
        self.places.contains(&place) || is_passive && is_of_clients()
    }

    /// Returns the rule that a finding about this party cites, unless the finding names another rule: the first that
    /// binds the party and applies in the revision, else the first that binds the party.
    pub fn rule(&self, party: Party, revision: Option<Revision>) -> Option<&'static Rule> {
        let rules = || self.rules.iter().copied().filter(|rule| rule.binds.includes(party));
        rules().find(|rule| revision.is_some_and(|revision| rule.applies_in(revision))).or_else(|| rules().next())
    }
}

/// Checks with the same id are equal.
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
    /// All severities, the worst first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Medium, Self::Low];

    /// Returns the name of this severity, as reports show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Returns the meaning of this severity, for docs/checks.md.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Critical => "a real host cannot use the server at all; the check names one",
            Self::High => "a real host fails, or a published attack works; the check names one",
            Self::Medium => "something is lost or misunderstood, but no host is known to fail",
            Self::Low => "nothing is lost, but other problems become harder to find",
        }
    }
}

impl Category {
    /// All categories.
    pub const ALL: [Self; 14] = [
        Self::Envelope,
        Self::Framing,
        Self::Lifecycle,
        Self::Methods,
        Self::Tools,
        Self::Flow,
        Self::Process,
        Self::Modern,
        Self::Tasks,
        Self::Http,
        Self::Authorization,
        Self::Privacy,
        Self::Definitions,
        Self::Host,
    ];

    /// Returns the name of this category, as reports show it.
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
            Self::Tasks => "tasks",
            Self::Http => "http",
            Self::Authorization => "authorization",
            Self::Privacy => "privacy",
            Self::Definitions => "definitions",
            Self::Host => "host",
        }
    }

    /// Returns the subject of this category, for docs/checks.md.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Envelope => "JSON-RPC: the shape of messages, and the matching of responses to requests",
            Self::Framing => "bytes: lines, partial lines, and lines that are not messages",
            Self::Lifecycle => "the start of a connection: the first response, the handshake, the version",
            Self::Methods => "methods: known and unknown methods, invalid parameters, capabilities, error codes",
            Self::Tools => "tools: their schemas, results and failures",
            Self::Flow => "sequences of requests and concurrent requests: pages, progress, cancellation",
            Self::Process => "the server process: its exit, its child processes, its stderr",
            Self::Modern => "the rules of 2026-07-28, which has no handshake",
            Self::Tasks => "tasks: calls that are answered with an id, and whose result is fetched later",
            Self::Http => "HTTP: access, headers, statuses, sessions",
            Self::Authorization => "authorization: the way to a token, and the tokens that must be refused",
            Self::Privacy => "data that should not be in messages: secrets and personal identifiers",
            Self::Definitions => "definitions: changes behind the user's back, and text that people cannot see",
            Self::Host => "hosts: how a client handles everything that a server may send",
        }
    }
}

impl CheckPlace {
    /// All places.
    pub const ALL: [Self; 5] = [Self::Stdio, Self::Http, Self::Capture, Self::Tap, Self::Host];

    /// Returns the name of this place, as `--explain` shows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "live (stdio)",
            Self::Http => "live (HTTP)",
            Self::Capture => "capture",
            Self::Tap => "tap",
            Self::Host => "host",
        }
    }
}

impl RevisionRange {
    /// Whether the range contains this revision.
    pub fn contains(self, revision: Revision) -> bool {
        (self.0..=self.1).contains(&revision)
    }

    /// Returns the number of revisions in the range.
    fn count(self) -> usize {
        Revision::ALL.into_iter().filter(|revision| self.contains(*revision)).count()
    }

    /// Returns the first and the last revision as text, or the only one.
    pub fn span(self) -> String {
        if self.0 == self.1 { self.0.to_string() } else { format!("{} to {}", self.0, self.1) }
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
    /// Returns the name of the document.
    pub fn label(&self) -> String {
        match self {
            Self::Cwe(number, name) => format!("CWE-{number}: {name}"),
            Self::JsonRpc(section) => format!("JSON-RPC 2.0, {section}"),
            Self::Mcp(page) => format!("MCP {page}"),
            Self::Other(label, _) => (*label).to_owned(),
        }
    }

    /// Returns the URL of the document.
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
const V2024_11_05: RevisionRange = only(Revision::V2024_11_05);
const V2025_11_25: RevisionRange = only(Revision::V2025_11_25);
const SINCE_2025_03_26: RevisionRange = RevisionRange(Revision::V2025_03_26, Revision::LATEST);
const SINCE_2025_06_18: RevisionRange = RevisionRange(Revision::V2025_06_18, Revision::LATEST);
const SINCE_2025_11_25: RevisionRange = RevisionRange(Revision::V2025_11_25, Revision::LATEST);
/// The legacy revisions with Streamable HTTP.
const LEGACY_SINCE_2025_03_26: RevisionRange = RevisionRange(Revision::V2025_03_26, Revision::LATEST_LEGACY);
const LEGACY_SINCE_2025_06_18: RevisionRange = RevisionRange(Revision::V2025_06_18, Revision::LATEST_LEGACY);
/// The revisions before errors could have no id.
const EARLY_2025: RevisionRange = RevisionRange(Revision::V2025_03_26, Revision::V2025_06_18);
const UNTIL_2025_03_26: RevisionRange = RevisionRange(Revision::V2024_11_05, Revision::V2025_03_26);
const UNTIL_2025_06_18: RevisionRange = RevisionRange(Revision::V2024_11_05, Revision::V2025_06_18);

const fn only(revision: Revision) -> RevisionRange {
    RevisionRange(revision, revision)
}

const fn host(host: &'static str, what: &'static str, url: &'static str) -> HostFact {
    HostFact { host, what, url }
}

/// The places of checks that only observe traffic.
const PASSIVE: &[CheckPlace] = &[CheckPlace::Stdio, CheckPlace::Http, CheckPlace::Capture, CheckPlace::Tap];
/// The places of checks that send their own input, and only over stdin and stdout.
const LIVE: &[CheckPlace] = &[CheckPlace::Stdio];
/// The places of checks that send their own input, over stdin and stdout or over HTTP.
const LIVE_ANYWHERE: &[CheckPlace] = &[CheckPlace::Stdio, CheckPlace::Http];
/// The places of checks that send requests which both sides must answer.
const LIVE_AND_HOST: &[CheckPlace] = &[CheckPlace::Stdio, CheckPlace::Http, CheckPlace::Host];

/// The default fields of a check.
const BASE: Check = Check {
    id: "",
    title: "",
    why: "",
    severity: Severity::Medium,
    rationale: "",
    looks_at: "",
    pass: "",
    fail: "",
    skip: "no MCP server responds",
    sentence: "",
    revisions: ALL,
    level: Level::Must,
    rules: OURS,
    hosts: &[],
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

/// The rules of a check of good practice of servers.
const OURS: &[&Rule] = &[&ours(Bound::Server, ALL)];

/// The default fields of a check that sends hostile input.
const HOSTILE: Check = Check { skip: "hostile input is not allowed", places: LIVE_ANYWHERE, hostile: true, ..BASE };

/// The ids of the checks that find out whether the server responds at all. Most other checks depend on them.
const ANSWERS: &[&str] = &["early-exit", "mute-server", "handshake"];

#[cfg(test)]
mod tests;
