//! The page that shows captures and live traffic: a web server on loopback, for the browser of the user who started it.
//!
//! ```text
//! browser -> server (Host, Origin, cookie) -> routes -> answers (rows, frame, timeline, ...) -> index
//! ```
//!
//! [`taps`] finds the running taps and reads their traffic; [`drive`] is a session with a server that the page drives.
//!
//! The page has no rule of the protocol: it shows what the index has found. Texts of peers are JSON strings in the
//! answers, and the page shows them as text.

mod access;
mod answer;
mod assets;
mod copy;
pub mod drive;
mod events;
mod export;
mod findings;
mod frame;
mod inlined;
mod listed_schemas;
mod meaning;
mod page_file;
mod preview;
mod query;
mod routes;
mod rows;
mod saved_file;
mod server;
mod sources;
mod stats;
pub mod taps;
mod timeline;
mod tree;

use std::sync::Arc;

use access::AccessRules;
use sources::SourceSet;

pub use answer::{Answer, AnswerError};
pub use page_file::PageFile;
pub use query::ViewRequest;
pub use saved_file::SavedContent;
pub use server::ViewServer;
pub use sources::{Driver, Source, SourceKind, SourceState};

/// A function that explains a word of the protocol: an error code, a method, a rule.
pub type ExplainFn = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What the page shows, and who may see it. Cheap to clone.
#[derive(Clone)]
pub struct View(Arc<ViewState>);

pub(crate) struct ViewState {
    pub(crate) access: AccessRules,
    pub(crate) sources: SourceSet,
    pub(crate) explain: Box<ExplainFn>,
    /// Whether secrets are replaced before they reach the page.
    pub(crate) is_redacted: bool,
}

impl View {
    /// Creates a view without sources. `is_redacted` is what the page tells its user about secrets.
    pub fn new(is_redacted: bool, explain: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let (access, sources) = (AccessRules::new(), SourceSet::default());
        Self(Arc::new(ViewState { access, sources, explain: Box::new(explain), is_redacted }))
    }

    /// Adds a source, which the page shows from now on.
    pub fn add(&self, source: Source) -> Arc<Source> {
        self.0.sources.add(source)
    }

    /// Removes a source, which the page no longer shows. Its texts are freed when nothing else uses it.
    pub fn remove(&self, source: &Source) {
        self.0.sources.remove(source.id());
    }

    /// Returns one HTML file that shows what a filter selects of a source, which must be one of this view and be read
    /// whole. The file needs nothing else, and says what did not fit into it.
    pub fn page_file(&self, source: &Source, filter: &str) -> Result<String, AnswerError> {
        self.page_file_and_cuts(source, filter).map(|page| page.html)
    }

    /// Returns the same as [`page_file`](Self::page_file), and what did not fit into it.
    pub fn page_file_and_cuts(&self, source: &Source, filter: &str) -> Result<PageFile, AnswerError> {
        page_file::page_file(self, source, filter, "")
    }

    /// Returns all sources.
    pub fn sources(&self) -> Vec<Arc<Source>> {
        self.0.sources.all()
    }

    pub(crate) fn state(&self) -> &ViewState {
        &self.0
    }
}
