//! Messages -> bytes: each function appends one message, on one line, and nothing else.

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

/// An answer to be written. It is only ever made from what it answers, so its id can only be that one, and it is used up
/// by being written.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "every request gets exactly one answer"]
pub struct Reply<'a> {
    /// `None` for what had no readable id.
    id: Option<Id<'a>>,
}

impl<'a> Reply<'a> {
    pub(super) fn to(id: Id<'a>) -> Self {
        Self { id: Some(id) }
    }

    pub(super) fn to_unreadable() -> Self {
        Self { id: None }
    }

    /// The id it answers, as it was written; `None` if it could not be read and is sent as null.
    pub fn id(&self) -> Option<&Id<'a>> {
        self.id.as_ref()
    }

    /// The same reply once more, for when writing it has failed halfway and what was written is taken back.
    pub fn borrow(&self) -> Reply<'_> {
        Reply { id: self.id.as_ref().map(Id::borrow) }
    }

    /// The same answer under an id of null: for a request whose id belongs to another that is still in flight.
    pub fn unnamed(self) -> Reply<'static> {
        Reply { id: None }
    }

    /// A reply that does not borrow from the frame of its request.
    pub fn into_owned(self) -> Reply<'static> {
        Reply { id: self.id.map(Id::into_owned) }
    }

    /// Appends the answer with a result.
    pub fn result(self, out: &mut Vec<u8>, result: Json<'_>) {
        self.open(out, "result");
        push_one_line(out, result.as_bytes());
        out.push(b'}');
    }

    /// Appends the answer with a result that is still to be written as JSON. If that fails, `out` is as it was and the
    /// reply comes back, to be used for an error.
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
                // A raw value inside the result may have been written on several lines.
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

    /// The same for a result that is an object, with `members` before its own: written already, one or more, without braces.
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
                    // No object: nothing can stand before it.
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

    /// Appends the answer with an error.
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

/// Appends an error under an id, or without the member if there is none: MCP leaves out what JSON-RPC has as null.
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
    serde_json::to_writer(out, text).expect("a string is always JSON, and a Vec takes all of it");
}

fn integer(out: &mut Vec<u8>, code: Code) {
    serde_json::to_writer(out, &code.get()).expect("an integer is always JSON, and a Vec takes all of it");
}
