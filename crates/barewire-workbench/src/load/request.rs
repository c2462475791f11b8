//! The request that a server is loaded with.

use std::collections::BTreeMap;

use barewire::client::{Client, ClientError};
use barewire_proto::mcp::{Era, Implementation, Revision, key};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::target::LoadTarget;
use crate::Error;

/// The request that is sent repeatedly.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadRequest {
    /// The method, such as `tools/call`.
    pub method: String,
    /// The params. A text that was made by [`payload`](super::payload) is different in every request.
    pub params: Option<Box<RawValue>>,
    /// The name of the tool or prompt, for the report.
    pub name: Option<String>,
}

impl LoadRequest {
    /// Makes a request from a method and its params.
    pub fn new(method: impl Into<String>, params: Option<Box<RawValue>>) -> Self {
        Self { method: method.into(), params, name: None }
    }

    /// Returns the params as sent in this revision: a modern request also describes its client.
    pub(super) fn params_on_wire(&self, revision: Revision) -> Result<Option<Box<RawValue>>, ClientError> {
        if revision.era() != Era::Modern {
            return Ok(self.params.clone());
        }
        let meta = json!({
            key::PROTOCOL_VERSION: revision.as_str(),
            key::CLIENT_CAPABILITIES: {},
            key::CLIENT_INFO: Implementation::new("barewire", env!("CARGO_PKG_VERSION")),
        });
        with_meta(self.params.as_deref(), &meta)
    }
}

/// A source of requests, which may depend on the server.
pub trait RequestSource {
    /// Returns the request to load this server with. `client` is connected to the server.
    fn request(&self, target: &LoadTarget, client: &Client) -> impl Future<Output = Result<LoadRequest, Error>> + Send;

    /// Whether the request depends on the era. If so, and one server supports only the legacy era, the other servers
    /// are also loaded in that era, so that all get the same request.
    fn depends_on_era(&self) -> bool {
        false
    }
}

/// Uses the same request for every server.
impl RequestSource for LoadRequest {
    async fn request(&self, _: &LoadTarget, _: &Client) -> Result<LoadRequest, Error> {
        Ok(self.clone())
    }
}

/// Returns params with these members added to their `_meta`. Existing members keep their values.
pub fn with_meta(params: Option<&RawValue>, meta: &Value) -> Result<Option<Box<RawValue>>, ClientError> {
    type Members = BTreeMap<String, Box<RawValue>>;
    let members = |text: &str, what: &str| -> Result<Members, ClientError> {
        serde_json::from_str(text).map_err(|_| ClientError::Params(format!("{what} must be an object")))
    };
    let mut meta = members(&meta.to_string(), "_meta")?;
    if meta.is_empty() {
        return Ok(params.map(ToOwned::to_owned));
    }
    let mut params = params.map_or(Ok(Members::new()), |params| members(params.get(), "params"))?;
    if let Some(written) = params.get("_meta") {
        meta.extend(members(written.get(), "_meta")?);
    }
    let raw = |members: &Members| to_raw_value(members).expect("members of JSON are JSON");
    params.insert("_meta".to_owned(), raw(&meta));
    Ok(Some(raw(&params)))
}
