//! The request that a server is loaded with.

use std::collections::BTreeMap;

use barewire::client::{Client, ClientError};
use barewire_proto::mcp::{Era, Implementation, Revision, key};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::target::LoadTarget;
use crate::Error;

/// The request that a server is sent again and again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadRequest {
    /// Its method, as `tools/call`.
    pub method: String,
    /// Its params. A text that [`payload`](super::payload) has made is another one in each request.
    pub params: Option<Box<RawValue>>,
    /// The tool or prompt that it names, for the report.
    pub name: Option<String>,
}

impl LoadRequest {
    /// Makes a request of a method and its params.
    pub fn new(method: impl Into<String>, params: Option<Box<RawValue>>) -> Self {
        Self { method: method.into(), params, name: None }
    }

    /// The params as they are written on a connection of this revision: a modern request says who sends it.
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

/// The choice of a request, which may depend on what the server has.
pub trait RequestSource {
    /// Returns the request to load this server with. The client is connected to it.
    fn request(&self, target: &LoadTarget, client: &Client) -> impl Future<Output = Result<LoadRequest, Error>> + Send;

    /// Whether each era has another request. If so, servers that speak both eras are loaded in the legacy one as soon as one of the
    /// others speaks only that, so that all are sent the same.
    fn depends_on_era(&self) -> bool {
        false
    }
}

/// Every server is sent the same request.
impl RequestSource for LoadRequest {
    async fn request(&self, _: &LoadTarget, _: &Client) -> Result<LoadRequest, Error> {
        Ok(self.clone())
    }
}

/// Returns params with these members in their `_meta` as well. Members that are there already stay as they are.
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
