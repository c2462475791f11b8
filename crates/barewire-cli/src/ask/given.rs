//! The command-line words after the name of a tool or method -> `key=value` pairs, or one JSON object. Files and stdin
//! are read here, before a server is started.

use std::ffi::{OsStr, OsString};
use std::fs;

use barewire_proto::json::{Json, Kind};
use serde_json::value::RawValue;

use super::params;
use crate::Failure;
use crate::output::shown;

#[derive(Debug, Clone)]
pub(crate) enum GivenArguments {
    Nothing,
    /// A JSON object, sent exactly as the user wrote it.
    Object(Box<RawValue>),
    Pairs(Vec<Pair>),
}

#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) key: String,
    pub(crate) value: Text,
}

/// A value given on the command line.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    /// `key=text`, or the content of the file in `key=@FILE`. The schema decides its type.
    Plain(String),
    /// `key:=JSON`, or the content of the file in `key:=@FILE`.
    Json(Box<RawValue>),
}

impl GivenArguments {
    pub(crate) fn read(words: &[OsString]) -> Result<Self, Failure> {
        match words {
            [] => Ok(Self::Nothing),
            [only] if is_object(only) => object(only).map(Self::Object),
            words => words.iter().map(|word| Pair::read(word)).collect::<Result<_, _>>().map(Self::Pairs),
        }
    }
}

impl Pair {
    pub(crate) fn read(word: &OsStr) -> Result<Self, Failure> {
        let name = shown(word.as_encoded_bytes(), MAX_WORD_LENGTH);
        let word = word.to_str().ok_or_else(|| Failure::new(format!("{name}: not UTF-8")))?;
        let Some((key, value)) = word.split_once('=') else {
            return Err(Failure::new(format!("{name}: expected key=value, or one JSON object"))
                .with_hint("key:=JSON gives a value as JSON, key=@FILE reads it from a file"));
        };
        let (key, is_json) = if let Some(key) = key.strip_suffix(':') { (key, true) } else { (key, false) };
        if key.is_empty() {
            return Err(Failure::new(format!("{name}: no key before the =")));
        }
        let value = match value.strip_prefix('@') {
            Some(path) => fs::read_to_string(path).map_err(|error| {
                let path = shown(path.as_bytes(), MAX_WORD_LENGTH);
                let hint = format!("@ reads a file; for a text that begins with @, write {key}:='\"@…\"'");
                Failure::new(format!("{key}: cannot read {path}: {error}")).with_hint(hint)
            })?,
            None => value.to_owned(),
        };
        let value = if is_json { Text::Json(json(key, &value)?) } else { Text::Plain(value) };
        Ok(Self { key: key.to_owned(), value })
    }
}

/// Whether a word is a JSON object or array, or `@FILE` or `-` to read one. A word `key=value` never starts like these.
fn is_object(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes().trim_ascii_start();
    bytes == b"-" || matches!(bytes.first(), Some(b'{' | b'[' | b'@'))
}

fn object(word: &OsStr) -> Result<Box<RawValue>, Failure> {
    let raw = params::read(word)?;
    match Json::parse(raw.get().as_bytes()).map(Json::kind) {
        Ok(Kind::Object) => Ok(raw),
        _ => Err(Failure::new("MCP params must be an object, not an array").with_hint("--raw can send an array")),
    }
}

fn json(key: &str, text: &str) -> Result<Box<RawValue>, Failure> {
    let parsed = Json::parse(text.as_bytes()).map_err(|syntax| {
        params::syntax_failure(key, text.as_bytes(), syntax.at, syntax.expected)
            .with_hint(format!("{key}:= takes JSON, {key}= takes text"))
    })?;
    Ok(RawValue::from_string(parsed.as_str().to_owned()).expect("text that was parsed as JSON is JSON"))
}

/// The maximum number of characters of a word shown in a message.
const MAX_WORD_LENGTH: usize = 80;
