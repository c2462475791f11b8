//! The four kinds of message.

use super::{ErrorRef, Id, Reply};
use crate::json::{Json, Text};

/// A well-formed message, borrowed from its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
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
pub struct Request<'a> {
    /// What the answer is sent under.
    pub id: Id<'a>,
    /// What to do.
    pub method: Text<'a>,
    /// What to do it with: an object or an array.
    pub params: Option<Json<'a>>,
}

impl Request<'_> {
    /// The one answer this request gets.
    pub fn reply(&self) -> Reply<'_> {
        Reply::to(self.id.borrow())
    }
}

/// A method to run, and nobody to tell how it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification<'a> {
    /// What has happened.
    pub method: Text<'a>,
    /// An object or an array.
    pub params: Option<Json<'a>>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// Which request.
    pub id: Id<'a>,
    /// How it went.
    pub outcome: Result<Json<'a>, ErrorRef<'a>>,
}
