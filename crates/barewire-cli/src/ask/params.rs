//! Params on a command line, in a file or on stdin -> a JSON object or array.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, IsTerminal, Read};

use barewire_proto::json::{Json, Kind};
use serde_json::value::RawValue;

use crate::Failure;
use crate::output::{shown, stderr};
use crate::platform;
use barewire_workbench::rows::CaretLine;

/// Reads params that are given as JSON, as `@FILE`, or as `-` for stdin.
pub(crate) fn read(argument: &OsStr) -> Result<Box<RawValue>, Failure> {
    match argument.as_encoded_bytes() {
        b"-" => check("stdin", &stdin()?),
        [b'@', path @ ..] => {
            let name = shown(path, MAX_PATH_LENGTH);
            let text = fs::read(platform::path(path)).map_err(|error| {
                Failure::new(format!("cannot read {name}: {error}")).with_hint("@ takes the path of a file")
            })?;
            check(&name, &text)
        }
        text => check("the params", text),
    }
}

fn stdin() -> Result<Vec<u8>, Failure> {
    let mut stdin = io::stdin().lock();
    if stdin.is_terminal() {
        let _ = writeln!(stderr(), "reading the params from the terminal: end with Ctrl-D");
    }
    let mut text = Vec::new();
    stdin
        .read_to_end(&mut text)
        .map_err(|error| Failure::new(format!("cannot read the params from stdin: {error}")))?;
    Ok(text)
}

fn check(name: &str, text: &[u8]) -> Result<Box<RawValue>, Failure> {
    let json = Json::parse(text).map_err(|syntax| {
        syntax_failure(name, text, syntax.at, syntax.expected)
            .with_hint(r#"params are JSON; in a shell, quoted: '{"name":"value"}'"#)
    })?;
    match json.kind() {
        Kind::Object | Kind::Array => {
            Ok(RawValue::from_string(json.as_str().to_owned()).expect("text that was parsed as JSON is JSON"))
        }
        kind => {
            let at = text.len() - text.trim_ascii_start().len();
            Err(syntax_failure(name, text, at, format_args!("expected an object or an array, not {kind},"))
                .with_hint("leave the params out if there are none"))
        }
    }
}

/// Returns a failure that shows the line with the error, and a caret under the byte `at`.
pub(crate) fn syntax_failure(name: &str, text: &[u8], at: usize, what: impl fmt::Display) -> Failure {
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = text[start..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let CaretLine { line, column, .. } = CaretLine::around(line.trim_ascii_end(), at - start);
    Failure::new(format!("{name}: {what} at byte {at}\n  {line}\n  {:column$}^", ""))
}

/// The maximum number of characters of a path shown in a message.
const MAX_PATH_LENGTH: usize = 80;
