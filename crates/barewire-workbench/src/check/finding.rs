//! A finding: the party at fault, the location on the wire, and the request and the response as evidence.

use barewire_proto::mcp::{Revision, Side};
use barewire_proto::transcript::Stream;

use super::catalogue::{Check, Level, Rule, Sentence, Severity};
use super::excerpt::{Excerpt, Fault};
use super::origin::Origin;
use crate::frames::WireFrame;
use crate::secrets::Redactor;
use crate::text::shown;

/// A violation of a check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// The check that was violated.
    pub check: &'static Check,
    /// The party at fault.
    pub party: Party,
    /// The details of this violation. Reports show them after [`Check::sentence`].
    pub detail: String,
    /// The location on the wire.
    pub location: Location,
    /// The request or notification; for a finding about something else that a client sent, these bytes.
    pub request: Option<Excerpt>,
    /// The response; for a finding about something else that a server wrote, these bytes, perhaps on stderr.
    pub response: Option<Excerpt>,
    /// Whether the request has no response, although it should have one.
    pub is_unanswered: bool,
    /// The text of the response or, without one, of the request. Empty until [`Finding::redact`] is called.
    pub evidence: String,
    /// The member at fault, as a JSON Pointer.
    pub path: Option<String>,
    /// The revision of MCP that the connection speaks, if it is known.
    pub revision: Option<Revision>,
    /// The cause of the violation: the author's code, or an SDK.
    pub origin: Origin,
    /// The rule that is violated, if it is not the first rule of the check that binds the party.
    pub(crate) named_rule: Option<&'static Rule>,
}

/// The party at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "only a client, a server or the carrier between them can be at fault")]
pub enum Party {
    /// The client.
    Client,
    /// The server.
    Server,
    /// The transport, or a proxy between client and server.
    Carrier,
}

/// A location on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The name of the connection; empty if there is only one connection.
    pub channel: String,
    /// The stream, as the character that marks it in a transcript: `>`, `<` or `!`.
    pub stream: Option<char>,
    /// The number of the frame, as in `barewire read`.
    pub frame: Option<u64>,
    /// The byte offset in the stream.
    pub offset: Option<u64>,
}

impl Finding {
    pub(crate) fn new(check: &'static Check, party: Party, location: Location, detail: impl Into<String>) -> Self {
        // The detail can contain text of the peer, so control characters are escaped and the length is limited.
        let detail = shown(detail.into().as_bytes(), MAX_DETAIL);
        Self {
            check,
            party,
            detail,
            location,
            request: None,
            response: None,
            is_unanswered: false,
            evidence: String::new(),
            path: None,
            revision: None,
            origin: Origin::Author,
            named_rule: None,
        }
    }

    /// Names the rule that is violated; it must be one of the check's rules.
    pub(crate) fn under(mut self, rule: &'static Rule) -> Self {
        debug_assert!(self.check.rules.iter().any(|it| std::ptr::eq(*it, rule)), "not a rule of {}", self.check.id);
        self.named_rule = Some(rule);
        self
    }

    pub(crate) fn in_revision(mut self, revision: Option<Revision>) -> Self {
        self.revision = revision;
        self
    }

    /// Returns the rule that is violated; `None` if the carrier is at fault, whom no rule binds.
    pub fn rule(&self) -> Option<&'static Rule> {
        self.named_rule.or_else(|| self.check.rule(self.party, self.revision))
    }

    /// Returns the sentence of the rule in the revision of the connection; `None` if the rule is ours.
    pub fn sentence(&self) -> Option<&'static Sentence> {
        self.rule()?.sentence(self.revision)
    }

    /// Returns the level of the rule in the revision of the connection.
    pub fn level(&self) -> Level {
        self.sentence().map_or(Level::Ours, |sentence| sentence.level)
    }

    /// Returns the severity of the violation.
    pub fn severity(&self) -> Severity {
        self.rule().and_then(|rule| rule.severity).unwrap_or(self.check.severity)
    }

    /// Returns one sentence: whom the rule binds, how strictly, and where it is written.
    pub fn rule_text(&self) -> String {
        match (self.rule(), self.sentence()) {
            (Some(rule), Some(sentence)) => {
                let (level, party) = (sentence.level.as_str(), rule.binds.description());
                format!("{level} of {party}: {}: \"{}\"", sentence.label(self.revision), sentence.words)
            }
            (Some(rule), None) => format!("ours: good practice of {}, in no specification", rule.binds.description()),
            (None, _) => "none: the transport, or a proxy, is at fault".to_owned(),
        }
    }

    /// Adds the bytes at the location as evidence, with the fault in them.
    pub(crate) fn seen(self, bytes: &[u8], fault: Fault<'_>) -> Self {
        if bytes.is_empty() {
            return self;
        }
        let excerpt = Excerpt::of(self.location.clone(), bytes, fault);
        match (self.location.stream, self.party) {
            (Some('>'), _) | (None, Party::Client) => self.with_request(Some(excerpt)),
            _ => self.with_response(Some(excerpt)),
        }
    }

    pub(crate) fn with_request(mut self, request: Option<Excerpt>) -> Self {
        self.request = request;
        self
    }

    pub(crate) fn with_response(mut self, response: Option<Excerpt>) -> Self {
        self.response = response;
        self
    }

    /// Notes that the request has no response.
    pub(crate) fn unanswered(mut self) -> Self {
        self.is_unanswered = true;
        self
    }

    pub(crate) fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(shown(path.into().as_bytes(), MAX_DETAIL));
        self
    }

    /// Redacts and shortens all texts, before they are shown.
    pub fn redact(&mut self, redactor: &mut Redactor) {
        self.detail = redactor.shown(self.detail.as_bytes(), MAX_DETAIL);
        // The names on a path are no secret together, even if they look random as one word.
        let mut redact = |name: &str| redactor.shown(name.as_bytes(), MAX_DETAIL);
        self.path = self.path.take().map(|path| path.split('/').map(&mut redact).collect::<Vec<_>>().join("/"));
        for excerpt in [&mut self.request, &mut self.response].into_iter().flatten() {
            excerpt.redact(redactor);
        }
        let evidence = self.response.as_ref().or(self.request.as_ref());
        self.evidence = evidence.map_or(String::new(), |excerpt| excerpt.text().0);
    }

    /// Returns a text that is the same for this finding in every run.
    pub(crate) fn fingerprint(&self) -> String {
        self.identity().join("|")
    }

    /// Returns the check's id, the party, the path and the detail, without the numbers that differ between runs.
    pub(super) fn identity(&self) -> [String; 4] {
        let path = without_numbers(self.path.as_deref().unwrap_or_default());
        let (check, party) = (self.check.id.to_owned(), self.party.as_str().to_owned());
        // Whether another request is unanswered when a response arrives depends on the time.
        let detail = self.detail.split(LAST_REQUEST).next().unwrap_or_default();
        [check, party, path, without_numbers(detail)]
    }
}

/// The text between a detail and the id of the last unanswered request.
pub(super) const LAST_REQUEST: &str = "; the last request was sent with id ";

/// Replaces numbers with `#`, because they differ between runs. Error codes and revisions stay.
fn without_numbers(text: &str) -> String {
    let is_number = |c: char| c.is_ascii_digit() || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_number) {
        let end = rest[start..].find(|c| !is_number(c)).map_or(rest.len(), |length| start + length);
        let number = &rest[start..end];
        out.push_str(&rest[..start]);
        let is_code = number.len() == 6 && number.starts_with("-32");
        let is_revision = Revision::parse(number).is_some();
        match number.contains(|c: char| c.is_ascii_digit()) {
            true if !is_code && !is_revision => out.push('#'),
            _ => out.push_str(number),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

impl Party {
    /// Returns the name of this party, as reports show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Carrier => "carrier",
        }
    }
}

impl From<Side> for Party {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => Self::Client,
            Side::Server => Self::Server,
        }
    }
}

impl Location {
    pub(crate) fn of(seen: &WireFrame<'_>, at: usize) -> Self {
        Self {
            channel: seen.place.map_or(String::new(), |place| place.channel.to_owned()),
            stream: seen.place.map(|place| place.stream.sigil()),
            frame: Some(seen.number),
            offset: Some(seen.offset.saturating_add(at as u64)),
        }
    }

    pub(crate) fn channel(channel: &str) -> Self {
        Self { channel: channel.to_owned(), ..Self::default() }
    }

    /// Returns a key that sorts connections by their numbers: `p2` before `p10`.
    pub(super) fn connection_order(&self) -> (usize, &str) {
        (self.channel.len(), &self.channel)
    }

    /// Returns the location as text for people.
    pub fn text(&self) -> String {
        let place = match (self.frame, self.offset, self.stream) {
            (Some(frame), Some(offset), _) => format!("frame {frame}, byte {offset}"),
            (Some(frame), None, _) => format!("frame {frame}"),
            (None, _, Some(sigil)) => stream_name(sigil).to_owned(),
            (None, _, None) => String::new(),
        };
        [self.channel.as_str(), &place].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

fn stream_name(sigil: char) -> &'static str {
    match sigil {
        '!' => "stderr",
        '<' => "stdout",
        _ => "stdin",
    }
}

pub(crate) fn stream_location(channel: &str, stream: Stream) -> Location {
    Location { channel: channel.to_owned(), stream: Some(stream.sigil()), ..Location::default() }
}

/// The maximum width of a detail, in columns: more than two sentences, so that only a very long quoted name is cut.
const MAX_DETAIL: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_between_runs_are_replaced() {
        let text = "/tools/12: -32602 in 2025-11-25, not -1 or 7 of well-known 3-way";
        assert_eq!(without_numbers(text), "/tools/#: -32602 in 2025-11-25, not # or # of well-known #way");
    }
}
