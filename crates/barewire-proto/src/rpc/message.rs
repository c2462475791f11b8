//! The four kinds of messages.

use super::{ErrorRef, Id, Reply};
use crate::json::{Json, Kind, Text};

/// A well-formed message, borrowed from its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds are those of JSON-RPC 2.0")]
pub enum Message<'a> {
    /// A request.
    Request(Request<'a>),
    /// A notification.
    Notification(Notification<'a>),
    /// The response to a request.
    Response(Response<'a>),
    /// An error response whose id is absent or null, because its sender could not read the id of the request.
    OrphanError(ErrorRef<'a>),
}

/// A request: it has an id and is answered once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct Request<'a> {
    /// The id, which the response repeats.
    pub id: Id<'a>,
    /// The method to call.
    pub method: Text<'a>,
    /// The parameters of the method.
    pub params: Option<Params<'a>>,
}

impl Request<'_> {
    /// Returns the reply to this request, which is sent exactly once.
    pub fn reply(&self) -> Reply<'_> {
        Reply::to(self.id.borrow())
    }
}

/// A notification: it has no id and is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct Notification<'a> {
    /// The method, which names the event.
    pub method: Text<'a>,
    /// The parameters.
    pub params: Option<Params<'a>>,
}

/// The parameters of a request or notification: an object or an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params<'a>(Json<'a>);

impl<'a> Params<'a> {
    /// Returns `json` as parameters, or `None` if `json` is neither an object nor an array.
    pub fn from_json(json: Json<'a>) -> Option<Self> {
        matches!(json.kind(), Kind::Object | Kind::Array).then_some(Self(json))
    }

    /// Returns the parameters as the JSON text that the peer wrote.
    pub fn json(self) -> Json<'a> {
        self.0
    }
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct Response<'a> {
    /// The id of the request.
    pub id: Id<'a>,
    /// The result, or the error.
    pub outcome: Result<Json<'a>, ErrorRef<'a>>,
}
