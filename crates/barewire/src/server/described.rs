//! What tools, resources and prompts say of themselves alike, and what of it a revision has.

use barewire_proto::mcp::{Icon, Meta, Revision};

/// Methods of a builder that fill in what its `definition` says: those that are named.
macro_rules! described {
    ($($what:ident)*) => { $(described!(@ $what);)* };
    (@ title) => {
        /// The name for people.
        #[must_use]
        pub fn title(mut self, title: impl Into<String>) -> Self {
            self.definition.title = Some(title.into());
            self
        }
    };
    (@ description) => {
        /// What it is, for the model.
        #[must_use]
        pub fn description(mut self, description: impl Into<String>) -> Self {
            self.definition.description = Some(description.into());
            self
        }
    };
    (@ mime_type) => {
        /// What its bytes are, as `text/plain`.
        #[must_use]
        pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
            self.definition.mime_type = Some(mime_type.into());
            self
        }
    };
    (@ icon) => {
        /// A picture of it.
        #[must_use]
        pub fn icon(mut self, icon: Icon) -> Self {
            self.definition.icons.get_or_insert_default().push(icon);
            self
        }
    };
    (@ annotations) => {
        /// For whom it is and how much it matters.
        #[must_use]
        pub fn annotations(mut self, annotations: Annotations) -> Self {
            self.definition.annotations = Some(annotations);
            self
        }
    };
    (@ meta) => {
        /// What else is said of it.
        #[must_use]
        pub fn meta(mut self, meta: Meta) -> Self {
            self.definition.meta = Some(meta);
            self
        }
    };
    (@ cache) => {
        /// For how long its contents may be kept, instead of what the server says of all.
        #[must_use]
        pub fn cache(mut self, cache: CachePolicy) -> Self {
            self.cache = Some(cache);
            self
        }
    };
    (@ complete) => {
        /// Proposes values for an argument or a variable.
        #[must_use]
        pub fn complete<F>(
            mut self,
            argument: impl Into<String>,
            complete: impl Fn(CompletionRequest) -> F + Send + Sync + 'static,
        ) -> Self
        where
            F: Future<Output = Vec<String>> + Send + 'static,
        {
            self.completers.add(argument.into(), complete);
            self
        }
    };
}

pub(super) use described;

/// Leaves out what a revision does not have.
pub(super) fn fit(
    revision: Revision,
    title: &mut Option<String>,
    icons: &mut Option<Vec<Icon>>,
    meta: &mut Option<Meta>,
) {
    if !revision.has_titles() {
        *title = None;
    }
    if !revision.has_icons() {
        *icons = None;
    }
    if !revision.has_item_meta() {
        *meta = None;
    }
}
