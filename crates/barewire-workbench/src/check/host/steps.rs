//! The steps of the probe, as data: what the probe sends, and how the checks recognize it in a capture.

use super::super::catalogue::Check;
use super::super::catalogue::host::{
    CLIENT_CURSOR, CLIENT_DEEP_RESULT, CLIENT_LARGE_RESULT, CLIENT_LINE_SEPARATORS, CLIENT_PAGES, CLIENT_SPLIT_INPUT,
    CLIENT_UNKNOWN_MEMBERS,
};

/// The part of the protocol that one start of the probe is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scenario {
    /// Everything that a server of both eras may do.
    Everything,
    /// The same, but the probe does not know the modern era, so a client of both eras falls back to the handshake.
    Legacy,
    /// The probe knows only the oldest revision.
    OldestRevision,
    /// The probe knows only a revision that does not exist.
    UnknownRevision,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 4] = [Self::Everything, Self::Legacy, Self::OldestRevision, Self::UnknownRevision];

    /// Returns the name of the scenario, as captures and command lines have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Legacy => "legacy",
            Self::OldestRevision => "oldest-revision",
            Self::UnknownRevision => "unknown-revision",
        }
    }

    /// Returns the scenario with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.as_str() == name)
    }
}

/// A revision that does not exist.
pub(crate) const UNKNOWN_REVISION: &str = "2099-12-31";

/// What a page of a list puts to the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageStep {
    /// An ordinary page.
    Plain,
    /// A page without items.
    Empty,
    /// A page that is written in several parts.
    Split,
    UnknownMembers,
    LineSeparators,
    Large,
    Deep,
    /// A page whose `nextCursor` is the empty string.
    EmptyCursor,
    Last,
}

/// A page of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListPage {
    pub(crate) step: PageStep,
    /// The cursor that requests the page; `None` for the first page.
    pub(crate) cursor: Option<&'static str>,
}

const fn page(step: PageStep, cursor: &'static str) -> ListPage {
    ListPage { step, cursor: Some(cursor) }
}

const FIRST: ListPage = ListPage { step: PageStep::Plain, cursor: None };

/// The pages of the list of tools for a legacy client.
const LEGACY_PAGES: &[ListPage] = &[
    FIRST,
    page(PageStep::Empty, "2"),
    page(PageStep::Split, "eyJwYWdlIjogM30="),
    page(PageStep::UnknownMembers, " 4 ?&=%20+#"),
    page(PageStep::LineSeparators, "5"),
    page(PageStep::Large, "\"6\\\u{2028}\tZürich 🎉"),
    page(PageStep::Deep, "7"),
    page(PageStep::Last, "8"),
];

/// The pages of the list of tools for a modern client. Since 2026-07-28 the specification says that an empty cursor is
/// a cursor.
const MODERN_PAGES: &[ListPage] = &[
    FIRST,
    page(PageStep::Empty, "2"),
    page(PageStep::Split, "eyJwYWdlIjogM30="),
    page(PageStep::UnknownMembers, " 4 ?&=%20+#"),
    page(PageStep::LineSeparators, "5"),
    page(PageStep::Large, "\"6\\\u{2028}\tZürich 🎉"),
    page(PageStep::Deep, "7"),
    page(PageStep::EmptyCursor, "8"),
    page(PageStep::Last, ""),
];

/// The pages of every other list.
const SHORT_PAGES: &[ListPage] = &[FIRST, page(PageStep::Last, "next page")];

/// Returns the pages of a list, by the method that requests it.
pub(crate) fn pages(method: &str, is_modern: bool) -> Option<&'static [ListPage]> {
    match method {
        "tools/list" if is_modern => Some(MODERN_PAGES),
        "tools/list" => Some(LEGACY_PAGES),
        "prompts/list" | "resources/list" | "resources/templates/list" => Some(SHORT_PAGES),
        _ => None,
    }
}

impl PageStep {
    /// Whether a client may give up before it has read the whole page, so that the capture does not have all of it.
    pub(super) const fn is_written_slowly(self) -> bool {
        matches!(self, Self::Split | Self::Large)
    }

    /// Returns the check that fails if the client does not request the page after this one, and the details; `None` for
    /// the last page.
    pub(super) const fn judged_by(self) -> Option<(&'static Check, &'static str)> {
        match self {
            Self::Plain => Some((&CLIENT_PAGES, "the list is not requested further after its first page")),
            Self::Empty => Some((&CLIENT_PAGES, "the list is not requested further after a page without items")),
            Self::Split => Some((&CLIENT_SPLIT_INPUT, "the list is not requested further after this page")),
            Self::UnknownMembers => {
                Some((&CLIENT_UNKNOWN_MEMBERS, "the list is not requested further after this page"))
            }
            Self::LineSeparators => {
                Some((&CLIENT_LINE_SEPARATORS, "the list is not requested further after this page"))
            }
            Self::Large => Some((&CLIENT_LARGE_RESULT, "the list is not requested further after this page")),
            Self::Deep => Some((&CLIENT_DEEP_RESULT, "the list is not requested further after this page")),
            Self::EmptyCursor => {
                Some((&CLIENT_CURSOR, "the list is not requested further after a page whose nextCursor is empty"))
            }
            Self::Last => None,
        }
    }
}

/// A method that no client has.
pub(crate) const UNKNOWN_METHOD_NAME: &str = "barewire/unknown";

/// The ids of the first requests of the probe, as JSON text: they are easily altered, or taken for no id at all.
pub(crate) const PING_IDS: [&str; 3] = [r#""ping \"\\ Zürich 🎉 1""#, "0", "9007199254740991"];

/// The states of the rounds of a modern call, which a client must not change.
pub(crate) const ROUND_STATES: [&str; 2] = [" {\"round\": 1} \"\\\u{2028}\tZürich 🎉 ", "eyJyb3VuZCI6Mn0=\n"];
