//! Parameters <-> types: absent, or an object or an array, and nothing else.

use std::io;

use barewire_proto::json::{Json, Kind};
use barewire_proto::rpc::Params;
use serde::{Deserialize, Serialize};

use crate::Failure;

/// Reads parameters as a type. Absent ones are read as an object without members, as an array without elements, or as
/// nothing, whichever the type can be.
pub(crate) fn read<'a, T: Deserialize<'a>>(params: Option<Params<'a>>) -> Result<T, Failure> {
    let (error, there) = match params {
        Some(params) => match params.json().to() {
            Ok(read) => return Ok(read),
            Err(error) => (error, params.json().as_bytes()),
        },
        None => match serde_json::from_str("{}") {
            Ok(read) => return Ok(read),
            Err(error) => (error, &b""[..]),
        },
    };
    // Empty and absent are the same. Whoever asks for `()` looks at nothing, so whatever is there will do.
    if (matches!(there, b"" | b"{}" | b"[]") || size_of::<T>() == 0)
        && let Ok(read) = serde_json::from_str("[]").or_else(|_| serde_json::from_str("null"))
    {
        return Ok(read);
    }
    // Where in the text is of no use to a caller who has sent one line of it.
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
    Err(match there {
        b"" => Failure::invalid_params(format!("there are none: {what}")),
        _ => Failure::invalid_params(what),
    })
}

/// Writes parameters; `None` for what is written as null.
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

/// Uses parameters that [`write`] wrote.
pub(crate) fn with<T>(params: Option<&str>, run: impl FnOnce(Option<Params<'_>>) -> T) -> T {
    let json = params.map(|text| Json::parse(text.as_bytes()).expect("serde_json writes JSON"));
    run(json.and_then(Params::from_json))
}
