//! The revisions of MCP, which have dates as names on the wire, and the features of each revision.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A revision of the protocol. Later revisions are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// The first revision.
    V2024_11_05,
    /// Adds Streamable HTTP, batches, audio and annotations of tools.
    V2025_03_26,
    /// Adds structured content, elicitation, resource links and titles; removes batches.
    V2025_06_18,
    /// Adds icons, tasks, elicitation by URL and sampling with tools.
    V2025_11_25,
    /// Removes the handshake: every request carries all necessary information in its `_meta`.
    V2026_07_28,
}

/// The era of a revision: with a handshake, or without state between requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a revision has a handshake or has none")]
pub enum Era {
    /// Up to 2025-11-25: a connection begins with `initialize` and has state.
    Legacy,
    /// From 2026-07-28 on: there is no state between requests.
    Modern,
}

impl Revision {
    /// All revisions, the oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// The last revision with `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The newest revision.
    pub const LATEST: Self = Self::V2026_07_28;

    /// Returns the name that is used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the revision with exactly this name, or `None` if this crate does not know it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// Returns the era of the revision.
    pub const fn era(self) -> Era {
        match self {
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// Whether the revision is of the modern era: no handshake, and no requests from the server.
    pub const fn is_modern(self) -> bool {
        matches!(self.era(), Era::Modern)
    }
}

/// The features of a revision. Code that writes a message must check that the revision has a feature before using it.
impl Revision {
    /// Whether the revision has batches. 2024-11-05 does not mention batches, so the rules of JSON-RPC apply, which has
    /// batches; 2025-03-26 requires batches; later revisions have none.
    pub fn has_batches(self) -> bool {
        self <= Self::V2025_03_26
    }

    /// Whether the revision has `message` in `notifications/progress`.
    pub fn has_progress_message(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether the revision has content of type `audio`.
    pub fn has_audio(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether the revision has `annotations` of tools. Content and resources have `annotations` in all revisions.
    pub fn has_annotations(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether the revision has the server capability `completions`. In 2024-11-05, `completion/complete` needs no
    /// capability.
    pub fn has_completions_capability(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether the revision has `context` in `completion/complete`.
    pub fn has_completion_context(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the revision has `outputSchema` of a tool and `structuredContent` of its result.
    pub fn has_structured_content(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the revision allows `structuredContent` that is not an object.
    pub fn has_structured_scalars(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether the revision has content of type `resource_link`.
    pub fn has_resource_links(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the revision has `title` beside `name`.
    pub fn has_titles(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the revision has `_meta` in tools, resources, prompts, roots and content. Params and results have
    /// `_meta` in all revisions.
    pub fn has_item_meta(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the revision has `elicitation/create`, with a form.
    pub fn has_elicitation(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether the revision has `elicitation/create` with a URL, and the capabilities `elicitation.form` and
    /// `elicitation.url`.
    pub fn has_url_elicitation(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether the revision has `elicitationId`, `notifications/elicitation/complete` and the error -32042.
    pub fn has_elicitation_ids(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether the revision has `icons`, and `description` and `websiteUrl` of an implementation.
    pub fn has_icons(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether the revision has `tools` and `toolChoice` in `sampling/createMessage`, and content that is an array.
    pub fn has_sampling_tools(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether the revision has tasks as a part of the protocol: `tasks/*` and `execution.taskSupport`. They are an
    /// experimental feature of 2025-11-25.
    pub fn has_tasks(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether the revision has polling of HTTP streams: a stream begins with an event that has only an id, and the
    /// server can close the connection so that the client reconnects later.
    pub fn has_polling(self) -> bool {
        self == Self::V2025_11_25
    }

    /// Whether invalid arguments of a tool are reported in a result with `isError`, so that the model can correct them.
    /// Earlier revisions report invalid arguments with the error -32602.
    pub fn bad_arguments_are_tool_errors(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether a missing resource is reported with the error -32002. From 2026-07-28 on the error is -32602 with
    /// `data.uri`.
    pub fn has_resource_not_found(self) -> bool {
        !self.is_modern()
    }

    /// Whether the revision has the map `extensions` in the capabilities of clients and servers.
    pub fn has_extensions(self) -> bool {
        self.is_modern()
    }

    /// Whether the revision has `resultType` in every result.
    pub fn has_result_type(self) -> bool {
        self.is_modern()
    }

    /// Whether the revision has `ttlMs` and `cacheScope` in results that can be cached.
    pub fn has_cache_hints(self) -> bool {
        self.is_modern()
    }

    /// Whether the server may send requests to the client. From 2026-07-28 on the server sends entries of
    /// `inputRequests` instead.
    pub fn has_server_requests(self) -> bool {
        !self.is_modern()
    }

    /// Whether the revision has `subscriptions/listen`. Earlier revisions have `resources/subscribe`, and notifications
    /// that need no subscription.
    pub fn has_listen(self) -> bool {
        self.is_modern()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Revision {
    type Err = UnknownRevision;

    fn from_str(text: &str) -> Result<Self, UnknownRevision> {
        Self::parse(text).ok_or(UnknownRevision)
    }
}

impl Serialize for Revision {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Revision {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom(UnknownRevision))
    }
}

/// The error for the name of a revision that this crate does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownRevision;

impl fmt::Display for UnknownRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown revision of MCP: expected one of ")?;
        for (index, revision) in Revision::ALL.iter().enumerate() {
            write!(f, "{}{revision}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownRevision {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_its_date_and_later_is_greater() {
        assert!(
            Revision::ALL.windows(2).all(|pair| pair[0] < pair[1] && pair[0].as_str() < pair[1].as_str())
        );
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
            let json = serde_json::to_string(&revision).expect("a string");
            assert_eq!(serde_json::from_str::<Revision>(&json).expect("the same"), revision);
        }
        for other in ["", "2025-11-2", "2025-11-25 ", "DRAFT-2026-v1", "2026-07-29"] {
            assert_eq!(Revision::parse(other), None);
        }
        assert_eq!(Revision::ALL.iter().max(), Some(&Revision::LATEST));
        let legacy = Revision::ALL.into_iter().filter(|revision| !revision.is_modern());
        assert_eq!(legacy.max(), Some(Revision::LATEST_LEGACY));
    }

    #[test]
    fn features_are_limited_to_their_revisions() {
        let with = |has: fn(Revision) -> bool| Revision::ALL.map(has);
        assert_eq!(with(Revision::has_batches), [true, true, false, false, false]);
        assert_eq!(with(Revision::has_audio), [false, true, true, true, true]);
        assert_eq!(with(Revision::has_elicitation_ids), [false, false, false, true, false]);
        assert_eq!(with(Revision::has_server_requests), [true, true, true, true, false]);
    }

    #[test]
    fn the_error_for_an_unknown_revision_lists_the_known_ones() {
        let refused = serde_json::from_str::<Revision>("\"1.0\"").expect_err("no revision").to_string();
        assert!(refused.contains("2024-11-05, 2025-03-26"), "{refused}");
    }
}
