//! The facts about a request that are kept until it is answered.

use barewire_proto::json::Text;
use barewire_proto::mcp::RequestParams;
use barewire_proto::rpc::{Id, Request};

use super::conversation::{MAX_NAME_LENGTH, member};

pub(super) struct RequestFacts {
    pub(super) id: Id<'static>,
    pub(super) method: String,
    /// The tool, prompt or resource that the request names.
    pub(super) about: Option<String>,
    pub(super) token: Option<Id<'static>>,
    /// Whether the request contains the input that the server asked for.
    pub(super) is_retry: bool,
    /// The `requestState` of the request, as JSON text.
    pub(super) state: Option<Box<str>>,
}

impl RequestFacts {
    pub(super) fn of(request: &Request<'_>, params: &RequestParams<'_>) -> Self {
        let about = params.name.or(params.uri).and_then(Text::from_json).map(name_of);
        let token = member(params.meta.json, "progressToken").and_then(Id::from_json).map(Id::into_owned);
        let state: Option<Box<str>> = params.request_state.map(|state| state.as_str().into());
        let is_retry = params.input_responses.is_some() || state.is_some();
        let method = name_of(request.method);
        Self { id: request.id.clone().into_owned(), method, about, token, is_retry, state }
    }
}

/// Returns a name with its escapes resolved, shortened if it is longer than `MAX_NAME_LENGTH`.
pub(super) fn name_of(text: Text<'_>) -> String {
    let name = text.to_name();
    if name.len() <= MAX_NAME_LENGTH { name.into_owned() } else { name.chars().take(MAX_NAME_LENGTH / 4).collect() }
}
