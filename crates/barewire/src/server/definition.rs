//! The members that the definitions of tools, resources and prompts have in common: the builder methods that set them,
//! and a function that removes them for revisions that do not support them.

use barewire_proto::mcp::{Icon, Meta, Revision};

/// Generates the builder methods with the given names. Most of them set the member of `definition` that has the same
/// name.
macro_rules! definition_setters {
    ($($what:ident)*) => { $(definition_setters!(@ $what);)* };
    (@ title) => {
        /// Sets the name that a host shows to the user.
        #[must_use]
        pub fn title(mut self, title: impl Into<String>) -> Self {
            self.definition.title = Some(title.into());
            self
        }
    };
    (@ description) => {
        /// Sets the description for the model.
        #[must_use]
        pub fn description(mut self, description: impl Into<String>) -> Self {
            self.definition.description = Some(description.into());
            self
        }
    };
    (@ mime_type) => {
        /// Sets the MIME type of the contents, such as `text/plain`.
        #[must_use]
        pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
            self.definition.mime_type = Some(mime_type.into());
            self
        }
    };
    (@ icon) => {
        /// Adds an icon.
        #[must_use]
        pub fn icon(mut self, icon: Icon) -> Self {
            self.definition.icons.get_or_insert_default().push(icon);
            self
        }
    };
    (@ scope) => {
        /// Requires this scope, in addition to others. A request over HTTP whose token lacks a scope is refused with 403
        /// and a challenge that names all scopes that the request needs. A server on stdio or a socket has no tokens,
        /// and does not check scopes.
        #[must_use]
        pub fn scope(mut self, scope: impl Into<String>) -> Self {
            self.scopes.push(scope.into());
            self
        }
    };
    (@ annotations) => {
        /// Sets the annotations: the audience and the priority.
        #[must_use]
        pub fn annotations(mut self, annotations: Annotations) -> Self {
            self.definition.annotations = Some(annotations);
            self
        }
    };
    (@ meta) => {
        /// Sets the `_meta` of the definition.
        #[must_use]
        pub fn meta(mut self, meta: Meta) -> Self {
            self.definition.meta = Some(meta);
            self
        }
    };
    (@ cache) => {
        /// Sets how long clients may cache the contents. The default is the server's cache policy.
        #[must_use]
        pub fn cache(mut self, cache: CachePolicy) -> Self {
            self.cache = Some(cache);
            self
        }
    };
    (@ complete) => {
        /// Sets the function that proposes values for `argument`: an argument of the prompt or a variable of the URI
        /// template.
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

pub(super) use definition_setters;

/// Sets the members that this revision does not support to `None`.
pub(super) fn remove_unsupported(
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
