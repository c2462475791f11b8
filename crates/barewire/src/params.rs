//! Converts between JSON-RPC parameters and Rust types. Parameters are an object, an array, or absent.

use std::io;

use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::Params;
use serde::{Deserialize, Serialize};

use crate::Failure;

/// Deserializes parameters. Absent parameters are read as an empty object, an empty array or null, whichever the type
/// accepts.
pub(crate) fn read<'a, T: Deserialize<'a>>(params: Option<Params<'a>>) -> Result<T, Failure> {
    let (error, json) = match params {
        Some(params) => match params.json().to() {
            Ok(read) => return Ok(read),
            Err(error) => (error, params.json().as_bytes()),
        },
        None => match serde_json::from_str("{}") {
            Ok(read) => return Ok(read),
            Err(error) => (error, &b""[..]),
        },
    };
    // Empty parameters are treated like absent parameters. A type without data, such as `()`, accepts any parameters.
    if (matches!(json, b"" | b"{}" | b"[]") || size_of::<T>() == 0)
        && let Ok(read) = serde_json::from_str("[]").or_else(|_| serde_json::from_str("null"))
    {
        return Ok(read);
    }
    // The line and column are removed from the error text, because they do not help a peer that sent one line of JSON.
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
    Err(match json {
        b"" => Failure::invalid_params(format!("there are none: {what}")),
        _ => Failure::invalid_params(what),
    })
}

/// Serializes parameters; returns `None` for a value that serializes as null.
pub(crate) fn write(params: &(impl Serialize + ?Sized)) -> io::Result<Option<String>> {
    let text = serde_json::to_string(params)?;
    match text.trim_ascii_start().as_bytes().first() {
        Some(b'{' | b'[') => Ok(Some(text)),
        Some(b'n') => Ok(None),
        _ => {
            let kind = Json::parse(text.as_bytes()).map_or(Kind::String, Json::kind);
            let what = format!("params must be an object or an array, not {kind}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
    }
}

/// Parses parameters that [`write`] serialized, and calls `run` with them.
pub(crate) fn with<T>(params: Option<&str>, run: impl FnOnce(Option<Params<'_>>) -> T) -> T {
    let json = params.map(|text| Json::parse(text.as_bytes()).expect("serde_json writes valid JSON"));
    run(json.and_then(Params::from_json))
}
