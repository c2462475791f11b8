//! Messages -> bytes: each function appends one message on one line, without a line break.

use serde::Serialize;

use super::{Code, ErrorObject, Id, Params};
use crate::json::{Json, push_one_line};

/// Appends a request.
pub fn request(out: &mut Vec<u8>, id: &Id<'_>, method: &str, params: Option<Params<'_>>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    push_one_line(out, id.as_str().as_bytes());
    out.extend_from_slice(br#","method":"#);
    call(out, method, params);
}

/// Appends a notification.
pub fn notification(out: &mut Vec<u8>, method: &str, params: Option<Params<'_>>) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    call(out, method, params);
}

fn call(out: &mut Vec<u8>, method: &str, params: Option<Params<'_>>) {
    string(out, method);
    if let Some(params) = params {
        out.extend_from_slice(br#","params":"#);
        push_one_line(out, params.json().as_bytes());
    }
    out.push(b'}');
}

/// A response that is not written yet. It can only be created from the request or invalid frame that it answers, so its
/// id is always the right one. Writing consumes the reply.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "every request gets exactly one response"]
pub struct Reply<'a> {
    /// The id of the request; `None` if the id could not be read.
    id: Option<Id<'a>>,
}

impl<'a> Reply<'a> {
    pub(super) fn to(id: Id<'a>) -> Self {
        Self { id: Some(id) }
    }

    pub(super) fn to_unreadable() -> Self {
        Self { id: None }
    }

    /// Returns the id exactly as the request has it; `None` if the id could not be read, in which case null is sent.
    pub fn id(&self) -> Option<&Id<'a>> {
        self.id.as_ref()
    }

    /// Returns a second copy of the reply, to retry after writing has failed and the partial output was removed.
    pub fn borrow(&self) -> Reply<'_> {
        Reply { id: self.id.as_ref().map(Id::borrow) }
    }

    /// Replaces the id with null, for a request whose id is already used by another request in flight.
    pub fn unnamed(self) -> Reply<'static> {
        Reply { id: None }
    }

    /// Copies the id, so that the reply does not borrow from the frame of its request.
    pub fn into_owned(self) -> Reply<'static> {
        Reply { id: self.id.map(Id::into_owned) }
    }

    /// Appends the response with a result.
    pub fn result(self, out: &mut Vec<u8>, result: Json<'_>) {
        self.open(out, "result");
        push_one_line(out, result.as_bytes());
        out.push(b'}');
    }

    /// Serializes `result` and appends the response with it. On failure `out` is unchanged, and the reply is returned
    /// so that an error can be sent instead.
    pub fn serialize(
        self,
        out: &mut Vec<u8>,
        result: &(impl Serialize + ?Sized),
    ) -> Result<(), (Self, serde_json::Error)> {
        let start = out.len();
        self.open(out, "result");
        let value = out.len();
        match serde_json::to_writer(&mut *out, result) {
            Ok(()) => {
                // A raw value inside the result can contain line breaks.
                crate::json::flatten(&mut out[value..]);
                out.push(b'}');
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err((self, error))
            }
        }
    }

    /// Does the same as [`Self::serialize`] for a result that is an object, with `members` inserted before its own
    /// members. `members` is JSON text with at least one member, without braces.
    pub fn serialize_with(
        self,
        out: &mut Vec<u8>,
        members: &str,
        result: &(impl Serialize + ?Sized),
    ) -> Result<(), (Self, serde_json::Error)> {
        let start = out.len();
        self.open(out, "result");
        let first = out.len();
        out.push(b'{');
        push_one_line(out, members.as_bytes());
        let own = out.len();
        match serde_json::to_writer(&mut *out, result) {
            Ok(()) => {
                crate::json::flatten(&mut out[own..]);
                let text = &out[own..];
                let inner = text.get(1..).unwrap_or_default().trim_ascii_start();
                match (text.first(), inner.first()) {
                    (Some(b'{'), Some(b'}')) => {
                        out.truncate(own);
                        out.push(b'}');
                    }
                    (Some(b'{'), _) => out[own] = b',',
                    // The result is not an object: send it without `members`.
                    _ => drop(out.drain(first..own)),
                }
                out.push(b'}');
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err((self, error))
            }
        }
    }

    /// Appends the response with an error.
    pub fn error(self, out: &mut Vec<u8>, error: &ErrorObject) {
        self.open(out, "error");
        error_object(out, error);
        out.push(b'}');
    }

    fn open(&self, out: &mut Vec<u8>, outcome: &str) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        let id = self.id.as_ref().map_or("null", Id::as_str);
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b",\"");
        out.extend_from_slice(outcome.as_bytes());
        out.extend_from_slice(b"\":");
    }
}

/// Appends an error response. If `id` is `None`, the member `id` is omitted, as MCP requires; JSON-RPC would send null.
pub fn error(out: &mut Vec<u8>, id: Option<&Id<'_>>, error: &ErrorObject) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.extend_from_slice(br#""id":"#);
        out.extend_from_slice(id.as_str().as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(br#""error":"#);
    error_object(out, error);
    out.push(b'}');
}

fn error_object(out: &mut Vec<u8>, error: &ErrorObject) {
    let ErrorObject { code, message, data } = error;
    out.extend_from_slice(br#"{"code":"#);
    integer(out, *code);
    out.extend_from_slice(br#","message":"#);
    string(out, message);
    if let Some(data) = data {
        out.extend_from_slice(br#","data":"#);
        push_one_line(out, data.get().as_bytes());
    }
    out.push(b'}');
}

fn string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string is always JSON, and writing to a Vec cannot fail");
}

fn integer(out: &mut Vec<u8>, code: Code) {
    serde_json::to_writer(out, &code.get()).expect("an integer is always JSON, and writing to a Vec cannot fail");
}
