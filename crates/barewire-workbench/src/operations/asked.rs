//! A request -> what is kept of it until it is answered.

use barewire_proto::json::Text;
use barewire_proto::mcp::RequestParams;
use barewire_proto::rpc::{Id, Request};

use super::conversation::{LONGEST_NAME, member};

/// What is kept of a request.
pub(super) struct Asked {
    pub(super) id: Id<'static>,
    pub(super) method: String,
    /// The tool, prompt or resource.
    pub(super) about: Option<String>,
    pub(super) token: Option<Id<'static>>,
    /// It brings what a server has asked for.
    pub(super) retry: Option<Retry>,
}

pub(super) struct Retry {
    /// As it was written.
    pub(super) state: Option<Box<str>>,
}

impl Asked {
    pub(super) fn of(request: &Request<'_>, params: &RequestParams<'_>) -> Self {
        let about = params.name.or(params.uri).and_then(Text::from_json).map(name_of);
        let token = member(params.meta.json, "progressToken").and_then(Id::from_json).map(Id::into_owned);
        let state = params.request_state.map(|state| state.as_str().into());
        let is_retry = params.input_responses.is_some() || state.is_some();
        let retry = is_retry.then_some(Retry { state });
        let method = name_of(request.method);
        Self { id: request.id.clone().into_owned(), method, about, token, retry }
    }
}

/// A name with its escapes resolved, cut where no name is that long.
pub(super) fn name_of(text: Text<'_>) -> String {
    let name = text.to_name();
    if name.len() <= LONGEST_NAME { name.into_owned() } else { name.chars().take(LONGEST_NAME / 4).collect() }
}
