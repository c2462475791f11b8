//! The rules behind a check: the party that each rule binds, and the sentences that state it, by revision.

use barewire_proto::mcp::Revision;

use super::{RevisionRange, Severity};
use crate::check::finding::Party;

/// A rule: a party, and what obliges that party.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rule {
    /// The party that the rule binds. A finding never blames another party.
    pub binds: Bound,
    /// The source of the rule.
    pub source: RuleSource,
    /// The severity of a violation of this rule; `None` if it is the severity of the check.
    pub severity: Option<Severity>,
}

/// The source of a rule.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a rule is written somewhere, or it is ours")]
pub enum RuleSource {
    /// Sentences of specifications. The first sentence that covers a revision is the one that findings cite.
    Written(&'static [Sentence]),
    /// Good practice in these revisions. No specification requires it.
    Ours(RevisionRange),
}

/// The party that a rule binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a rule binds one side, either side in one role, or both")]
pub enum Bound {
    /// The server.
    Server,
    /// The client.
    Client,
    /// The side that sends the message, whichever side that is.
    Sender,
    /// The side that receives the message, whichever side that is.
    Receiver,
    /// Both sides.
    Both,
}

/// A sentence of a specification.
#[derive(Debug)]
#[non_exhaustive]
pub struct Sentence {
    /// The revisions of MCP that have the sentence, on the same page and in the same section.
    pub revisions: RevisionRange,
    /// The keyword of the sentence; never [`Level::Ours`].
    pub level: Level,
    /// The document that has the sentence.
    pub document: Document,
    /// The heading of the section, or the name of the type in a schema; empty before the first heading of a page.
    pub section: &'static str,
    /// A few words of the sentence, enough to find it in the section.
    pub words: &'static str,
}

/// A document with rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Document {
    /// A page of the specification of MCP: its path below the revision.
    Page(&'static str),
    /// The schema of MCP.
    Schema,
    /// The page of the extension `io.modelcontextprotocol/tasks`, which has no version of its own yet.
    TasksExtension,
    /// JSON-RPC 2.0, which all messages of MCP follow in every revision.
    JsonRpc,
    /// An RFC, by its number.
    Rfc(u16),
}

/// The level of a rule, ordered from the strictest to the least strict. There is no MAY, because it binds no party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// A specification says MUST, MUST NOT or REQUIRED.
    Must,
    /// A specification says SHOULD or SHOULD NOT.
    Should,
    /// A specification says how things are, without a keyword.
    Stated,
    /// No specification says so, but it is good practice.
    Ours,
}

impl Rule {
    pub(super) const fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }

    /// Returns the sentences of the rule; none if the rule is ours.
    pub const fn sentences(&self) -> &'static [Sentence] {
        match self.source {
            RuleSource::Written(sentences) => sentences,
            RuleSource::Ours(_) => &[],
        }
    }

    /// Whether the rule applies in this revision.
    pub fn applies_in(&self, revision: Revision) -> bool {
        match self.source {
            RuleSource::Written(sentences) => sentences.iter().any(|it| it.revisions.contains(revision)),
            RuleSource::Ours(revisions) => revisions.contains(revision),
        }
    }

    /// Returns the sentence that a finding cites. If the revision is unknown, this is the least strict sentence, so
    /// that the finding claims no more than every revision says; of several, the one that most revisions have.
    pub fn sentence(&self, revision: Option<Revision>) -> Option<&'static Sentence> {
        let sentences = self.sentences().iter();
        match revision {
            Some(revision) => sentences.into_iter().find(|it| it.revisions.contains(revision)),
            None => sentences.max_by_key(|it| (it.level, it.revisions.count())),
        }
    }

    /// Returns the level of the rule in this revision; if the revision is unknown, the least strict level.
    pub fn level(&self, revision: Option<Revision>) -> Level {
        self.sentence(revision).map_or(Level::Ours, |sentence| sentence.level)
    }
}

impl Bound {
    /// Whether the rule can bind this party. A carrier between client and server is never bound.
    pub const fn includes(self, party: Party) -> bool {
        match (self, party) {
            (_, Party::Carrier) | (Self::Server, Party::Client) | (Self::Client, Party::Server) => false,
            (_, Party::Client | Party::Server) => true,
        }
    }

    /// Returns the name of the party, as reports show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Both => "both",
        }
    }

    /// Returns the party as words of a sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Server => "the server",
            Self::Client => "the client",
            Self::Sender => "the sender",
            Self::Receiver => "the receiver",
            Self::Both => "both sides",
        }
    }
}

impl Sentence {
    /// Returns the document and the place in it, such as `MCP 2025-11-25, basic/lifecycle, Operation`. Without a
    /// revision, the range of revisions that have the sentence is named.
    pub fn label(&self, revision: Option<Revision>) -> String {
        let section = if self.section.is_empty() { String::new() } else { format!(", {}", self.section) };
        let revisions = revision.filter(|it| self.revisions.contains(*it));
        let mcp = revisions.map_or_else(|| self.revisions.span(), |revision| revision.to_string());
        match self.document {
            Document::Page(path) => format!("MCP {mcp}, {path}{section}"),
            Document::Schema => format!("MCP {mcp}, schema{section}"),
            Document::TasksExtension => format!("extension io.modelcontextprotocol/tasks (draft){section}"),
            Document::JsonRpc => format!("JSON-RPC 2.0{section}"),
            Document::Rfc(number) => format!("RFC {number}{section}"),
        }
    }

    /// Returns the URL of the place in the document of this revision; without a revision, of the latest that has it.
    pub fn url(&self, revision: Option<Revision>) -> String {
        let revision = revision.filter(|it| self.revisions.contains(*it)).unwrap_or(self.revisions.1);
        let anchor = |slug: String| if slug.is_empty() { slug } else { format!("#{slug}") };
        match self.document {
            Document::Page(path) => {
                format!("https://modelcontextprotocol.io/specification/{revision}/{path}{}", anchor(slug(self.section)))
            }
            Document::Schema => format!(
                "https://github.com/modelcontextprotocol/modelcontextprotocol/blob/main/schema/{revision}/schema.ts"
            ),
            Document::TasksExtension => format!(
                "https://github.com/modelcontextprotocol/ext-tasks/blob/main/specification/draft/tasks.md{}",
                anchor(slug(self.section))
            ),
            Document::JsonRpc => {
                let words = self.section.trim_start_matches(|c: char| !c.is_alphabetic());
                format!("https://www.jsonrpc.org/specification{}", anchor(slug(words).replace('-', "_")))
            }
            Document::Rfc(number) => {
                let section = self.section.trim_start_matches("section ");
                format!("https://www.rfc-editor.org/rfc/rfc{number}#section-{section}")
            }
        }
    }
}

/// The fragment of a heading in the pages of MCP: lower case, hyphens for spaces, no other punctuation.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns a rule that these sentences state.
pub(super) const fn written(binds: Bound, sentences: &'static [Sentence]) -> Rule {
    Rule { binds, source: RuleSource::Written(sentences), severity: None }
}

/// Returns a rule that no specification states in these revisions.
pub(super) const fn ours(binds: Bound, revisions: RevisionRange) -> Rule {
    Rule { binds, source: RuleSource::Ours(revisions), severity: None }
}

/// Returns a sentence with MUST, MUST NOT or REQUIRED.
pub(super) const fn must(
    revisions: RevisionRange,
    document: Document,
    section: &'static str,
    words: &'static str,
) -> Sentence {
    Sentence { revisions, level: Level::Must, document, section, words }
}

/// Returns a sentence with SHOULD or SHOULD NOT.
pub(super) const fn should(
    revisions: RevisionRange,
    document: Document,
    section: &'static str,
    words: &'static str,
) -> Sentence {
    Sentence { revisions, level: Level::Should, document, section, words }
}

/// Returns a sentence without a keyword.
pub(super) const fn states(
    revisions: RevisionRange,
    document: Document,
    section: &'static str,
    words: &'static str,
) -> Sentence {
    Sentence { revisions, level: Level::Stated, document, section, words }
}

impl Level {
    /// All levels, the strictest first.
    pub const ALL: [Self; 4] = [Self::Must, Self::Should, Self::Stated, Self::Ours];

    /// Returns the name of this level, as reports show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Stated => "stated",
            Self::Ours => "ours",
        }
    }

    /// Returns the meaning of this level, for docs/checks.md.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Must => "a specification says MUST, MUST NOT or REQUIRED",
            Self::Should => "a specification says SHOULD or SHOULD NOT",
            Self::Stated => "a specification says so, without one of these words",
            Self::Ours => "no specification says so; it is good practice",
        }
    }
}
