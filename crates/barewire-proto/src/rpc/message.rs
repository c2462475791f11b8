//! The four kinds of message.

use super::{ErrorRef, Id, Reply};
use crate::json::{Json, Kind, Text};

/// A well-formed message, borrowed from its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC 2.0 has these")]
pub enum Message<'a> {
    /// Asks for an answer.
    Request(Request<'a>),
    /// Asks for none.
    Notification(Notification<'a>),
    /// Answers a request.
    Response(Response<'a>),
    /// Answers something whose id its sender could not read: an error with an id of null, or without one.
    OrphanError(ErrorRef<'a>),
}

/// A method to run, and an id to answer under.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct Request<'a> {
    /// What the answer is sent under.
    pub id: Id<'a>,
    /// What to do.
    pub method: Text<'a>,
    /// What to do it with.
    pub params: Option<Params<'a>>,
}

impl Request<'_> {
    /// The answer to this request. It gets one.
    pub fn reply(&self) -> Reply<'_> {
        Reply::to(self.id.borrow())
    }
}

/// A method to run, and nobody to tell how it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct Notification<'a> {
    /// What has happened.
    pub method: Text<'a>,
    /// What with.
    pub params: Option<Params<'a>>,
}

/// The parameters of a request or notification: an object or an array, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params<'a>(Json<'a>);

impl<'a> Params<'a> {
    /// Takes `json` if it is an object or an array.
    pub fn from_json(json: Json<'a>) -> Option<Self> {
        matches!(json.kind(), Kind::Object | Kind::Array).then_some(Self(json))
    }

    /// The parameters as they were written.
    pub fn json(self) -> Json<'a> {
        self.0
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the members are those of JSON-RPC 2.0")]
pub struct Response<'a> {
    /// Which request.
    pub id: Id<'a>,
    /// How it went.
    pub outcome: Result<Json<'a>, ErrorRef<'a>>,
}
