//! Requests -> what the checks of their responses need: the revision, the capabilities, and an excerpt as evidence.

use std::collections::HashMap;

use barewire_proto::mcp::{RequestParams, Revision, Side};
use barewire_proto::rpc::Message;

use super::MAX_REQUESTS;
use crate::check::excerpt::Excerpt;
use crate::check::finding::Location;
use crate::operations::{Handshake, TrackedMessage};

/// The contexts of all unanswered requests.
#[derive(Default)]
pub(super) struct RequestContexts {
    /// Maps the operation number of each request to its context.
    contexts: HashMap<u64, RequestContext>,
    /// The memory that all excerpts take, in bytes.
    excerpt_size: usize,
}

/// The context of a request, kept until its response.
pub(super) struct RequestContext {
    /// The revision in the request's metadata, else that of the handshake.
    pub(super) revision: Option<Revision>,
    pub(super) is_modern: bool,
    /// The client's capabilities, as JSON text.
    pub(super) capabilities: Option<String>,
    /// The start of the request, with its id as the fault; `None` if too much is kept already.
    pub(super) excerpt: Option<Excerpt>,
}

impl RequestContexts {
    pub(super) fn insert(&mut self, number: u64, mut context: RequestContext) {
        if self.contexts.len() >= MAX_REQUESTS {
            *self = Self::default();
        }
        self.remove(number);
        let size = context.excerpt.as_ref().map_or(0, Excerpt::size);
        if self.excerpt_size + size > MAX_EXCERPT_SIZE {
            context.excerpt = None;
        } else {
            self.excerpt_size += size;
        }
        self.contexts.insert(number, context);
    }

    pub(super) fn get(&self, number: u64) -> Option<&RequestContext> {
        self.contexts.get(&number)
    }

    /// Returns an excerpt of a request, with its id as the fault.
    pub(super) fn excerpt(&self, number: u64) -> Option<Excerpt> {
        self.get(number)?.excerpt.clone()
    }

    pub(super) fn remove(&mut self, number: u64) {
        let excerpt = self.contexts.remove(&number).and_then(|context| context.excerpt);
        self.excerpt_size -= excerpt.as_ref().map_or(0, Excerpt::size);
    }
}

impl RequestContext {
    pub(super) fn of(tracked: &TrackedMessage<'_>) -> Self {
        let excerpt = tracked.text.map(|text| Excerpt::of_request(Location::of(tracked.frame, 0), text));
        let Ok(Message::Request(request)) = tracked.message else {
            return Self { revision: None, is_modern: false, capabilities: None, excerpt };
        };
        let meta = RequestParams::read(request.params).meta;
        let is_modern = meta.protocol_version.is_some();
        let conversation = tracked.conversation;
        let is_early = matches!(conversation.handshake, Handshake::None | Handshake::Asked);
        let is_undecided = !is_modern && is_early && tracked.sender == Side::Client;
        let revision = conversation.revision().filter(|_| !is_undecided);
        let capabilities = if is_modern {
            meta.client_capabilities.map(|it| it.as_str().to_owned())
        } else {
            conversation.client_capabilities.clone()
        };
        let is_modern = is_modern || revision.is_some_and(Revision::is_modern);
        Self { revision, is_modern, capabilities, excerpt }
    }
}

/// The maximum memory for the excerpts of unanswered requests, in bytes: for some thousand requests in flight.
const MAX_EXCERPT_SIZE: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_of_unanswered_requests_have_a_total_size() {
        let mut contexts = RequestContexts::default();
        let text = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"a":"{}"}},"id":7}}"#, "x".repeat(100_000));
        let context = || RequestContext {
            revision: None,
            is_modern: false,
            capabilities: None,
            excerpt: Some(Excerpt::of_request(Location::default(), text.as_bytes())),
        };
        for number in 0..20_000 {
            contexts.insert(number, context());
        }
        assert!(contexts.excerpt_size <= 4 * 1024 * 1024, "{}", contexts.excerpt_size);
        assert!(contexts.excerpt(0).is_some() && contexts.excerpt(19_999).is_none());
        (0..20_000).for_each(|number| contexts.remove(number));
        assert_eq!(contexts.excerpt_size, 0);
    }
}
