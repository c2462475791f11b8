//! The outcome of a call -> stdout, in one of three formats, and the exit code.

use std::io::{self, Write};
use std::time::Duration;

use barewire::peer::Raw;
use barewire_proto::mcp::{Era, Implementation, Revision};
use barewire_proto::rpc::ErrorObject;
use serde_json::json;

use super::Args;
use super::pretty::Indented;
use crate::ask::no_answer::NoAnswer;
use crate::failure::report;
use crate::output::{Output, SafeJson, safe_json, shown};
use crate::{Exit, Failure};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum ResultFormat {
    /// Text for people; with `--raw`, the server's JSON unchanged.
    Plain,
    /// `--pretty`: indented JSON.
    Pretty,
    /// `--json`: one object that also has the kind of the outcome and the elapsed time.
    Json,
}

impl ResultFormat {
    pub(super) fn of(args: &Args) -> Self {
        match (args.json, args.pretty) {
            (true, _) => Self::Json,
            (false, true) => Self::Pretty,
            (false, false) => Self::Plain,
        }
    }
}

/// The server's name and version, and the revision in use.
pub(super) struct ServerIdentity {
    pub(super) revision: Revision,
    pub(super) implementation: Option<Implementation>,
}

impl ServerIdentity {
    /// Returns the members about the server for the `--json` object.
    fn members(&self) -> String {
        let era = match self.revision.era() {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        let mut members = format!(",\"revision\":\"{}\",\"era\":\"{era}\"", self.revision);
        if let Some(Implementation { name, version, .. }) = &self.implementation {
            let server = json!({ "name": name, "version": version });
            members = format!("{members},\"server\":{}", safe_json(&server.to_string()));
        }
        members
    }
}

pub(super) struct Printer<'a> {
    pub(super) output: &'a mut Output,
    pub(super) format: ResultFormat,
    pub(super) elapsed: Duration,
    /// `None` if there was no handshake.
    pub(super) server: Option<&'a ServerIdentity>,
}

impl Printer<'_> {
    /// Prints the outcome of `--raw`. An error response is printed as JSON too.
    pub(super) fn raw(&mut self, outcome: Result<Result<Raw, ErrorObject>, NoAnswer>) -> Result<Exit, Failure> {
        match outcome {
            Ok(Ok(result)) => {
                self.json("result", result.as_str().unwrap_or("null"))?;
                self.output.flush()?;
                Ok(Exit::Clean)
            }
            Ok(Err(error)) => {
                self.json("error", &error_json(&error))?;
                self.output.flush()?;
                let ErrorObject { code, message, .. } = error;
                let message = shown(message.as_bytes(), MAX_ERROR_MESSAGE);
                let failure = Failure::new(format!("the response is an error: {message} ({code})"));
                report(&failure.with_hint(format!("barewire explain {code}")));
                Ok(Exit::No)
            }
            Err(no_answer) => self.no_answer(no_answer, None),
        }
    }

    /// Prints JSON in the selected format. With `--json`, `kind` is the name of the member that holds this JSON.
    pub(super) fn json(&mut self, kind: &str, text: &str) -> io::Result<()> {
        let output = &mut *self.output;
        match self.format {
            ResultFormat::Json => {
                let (text, elapsed) = (SafeJson(text), self.elapsed.as_secs_f64());
                let server = self.server.map_or(String::new(), ServerIdentity::members);
                writeln!(output, "{{\"kind\":\"{kind}\",\"elapsed\":{elapsed:.6}{server},\"{kind}\":{text}}}")
            }
            ResultFormat::Pretty => writeln!(output, "{}", Indented::new(text, 0)),
            ResultFormat::Plain => match output.data() {
                Some(data) => writeln!(data, "{text}"),
                None => writeln!(output, "{}", SafeJson(text)),
            },
        }
    }

    /// Reports a missing answer on stderr, and with `--json` also on stdout. `result` is the server's result, if the
    /// server sent an invalid one.
    pub(super) fn no_answer(&mut self, no_answer: NoAnswer, result: Option<&Raw>) -> Result<Exit, Failure> {
        if self.format == ResultFormat::Json {
            let NoAnswer { reason, what, hint } = &no_answer;
            let server = self.server.map_or(String::new(), ServerIdentity::members);
            write!(self.output, "{{\"kind\":\"failed\",\"elapsed\":{:.6}{server}", self.elapsed.as_secs_f64())?;
            write!(self.output, ",\"reason\":{},\"detail\":{}", json!(reason), json!(what))?;
            if let Some(hint) = hint {
                write!(self.output, ",\"hint\":{}", json!(hint))?;
            }
            if let Some(result) = result {
                write!(self.output, ",\"result\":{}", SafeJson(result.as_str().unwrap_or("null")))?;
            }
            writeln!(self.output, "}}")?;
        }
        self.output.flush()?;
        report(&Failure::from(no_answer));
        Ok(Exit::Failed)
    }
}

/// Returns an error object as JSON. Its `data` is copied without parsing it.
pub(super) fn error_json(error: &ErrorObject) -> String {
    let ErrorObject { code, message, data } = error;
    let data = data.as_deref().map_or(String::new(), |data| format!(",\"data\":{data}"));
    format!("{{\"code\":{},\"message\":{}{data}}}", code.get(), json!(message))
}

/// The maximum number of characters of an error message on stderr. The full message is on stdout.
const MAX_ERROR_MESSAGE: usize = 300;
