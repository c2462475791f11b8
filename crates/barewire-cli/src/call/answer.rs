//! What came of a call -> stdout, in one of three forms, and the exit code.

use std::io::{self, Write};
use std::time::Duration;

use barewire::peer::Raw;
use barewire_proto::mcp::{Era, Implementation, Revision};
use barewire_proto::rpc::ErrorObject;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Args;
use super::pretty::indented;
use crate::ask::no_answer::NoAnswer;
use crate::failure::report;
use crate::output::{Output, safe_json, shown};
use crate::{Exit, Failure};

/// What the other side said.
pub(super) enum Answer {
    Result(Raw),
    Refused(ErrorObject),
}

/// How it is printed.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// As it was written.
    Plain,
    /// Indented.
    Pretty,
    /// As a part of one object that says what it is.
    Json,
}

impl Form {
    pub(super) fn of(args: &Args) -> Self {
        match (args.json, args.pretty) {
            (true, _) => Self::Json,
            (false, true) => Self::Pretty,
            (false, false) => Self::Plain,
        }
    }
}

/// What was agreed with a server of MCP.
pub(super) struct Agreed {
    pub(super) revision: Revision,
    pub(super) server: Option<Implementation>,
}

impl Agreed {
    /// Members of an object for scripts.
    fn members(&self) -> String {
        let era = match self.revision.era() {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        let mut members = format!(",\"revision\":\"{}\",\"era\":\"{era}\"", self.revision);
        if let Some(Implementation { name, version, .. }) = &self.server {
            let server = serde_json::json!({ "name": name, "version": version });
            members = format!("{members},\"server\":{}", safe_json(&server.to_string()));
        }
        members
    }
}

/// Prints it so that it is seen at once, and says on stderr what there is to say about it.
pub(super) fn print(
    output: &mut Output,
    form: Form,
    answer: Result<Answer, NoAnswer>,
    elapsed: Duration,
) -> Result<Exit, Failure> {
    match &answer {
        Ok(Answer::Result(result)) => said(output, form, "result", &result.to_string(), elapsed, None)?,
        Ok(Answer::Refused(error)) => said(output, form, "error", &json_of(error), elapsed, None)?,
        Err(missed) => failed(output, form, missed, elapsed, None, None)?,
    }
    output.flush()?;
    match answer {
        Ok(Answer::Result(_)) => Ok(Exit::Clean),
        Ok(Answer::Refused(ErrorObject { code, message, .. })) => {
            let message = shown(message.as_bytes(), LONGEST_MESSAGE);
            report(
                &Failure::new(format!("the answer is an error: {message} ({code})"))
                    .with_hint(format!("barewire explain {code}")),
            );
            Ok(Exit::No)
        }
        Err(missed) => {
            report(&Failure::from(missed));
            Ok(Exit::Failed)
        }
    }
}

/// Prints JSON: as one form has it, or inside of an object that says what it is.
pub(super) fn said(
    output: &mut Output,
    form: Form,
    kind: &str,
    text: &str,
    elapsed: Duration,
    agreed: Option<&Agreed>,
) -> io::Result<()> {
    match form {
        Form::Json => {
            let (text, elapsed) = (safe_json(text), elapsed.as_secs_f64());
            let agreed = agreed.map_or(String::new(), Agreed::members);
            writeln!(output, "{{\"kind\":\"{kind}\",\"elapsed\":{elapsed:.6}{agreed},\"{kind}\":{text}}}")
        }
        Form::Pretty => writeln!(output, "{}", indented(&safe_json(text))),
        Form::Plain if output.is_terminal() => writeln!(output, "{}", safe_json(text)),
        Form::Plain => writeln!(output, "{text}"),
    }
}

/// Says for scripts why there is no answer; `result` is what came instead.
pub(super) fn failed(
    output: &mut Output,
    form: Form,
    missed: &NoAnswer,
    elapsed: Duration,
    agreed: Option<&Agreed>,
    result: Option<&str>,
) -> io::Result<()> {
    let Form::Json = form else { return Ok(()) };
    let NoAnswer { reason, what, hint } = missed;
    write!(output, "{{\"kind\":\"failed\",\"elapsed\":{:.6}", elapsed.as_secs_f64())?;
    write!(output, "{}", agreed.map_or(String::new(), Agreed::members))?;
    write!(output, ",\"reason\":\"{}\",\"detail\":{}", reason.name(), serde_json::json!(what))?;
    if let Some(hint) = hint {
        write!(output, ",\"hint\":{}", serde_json::json!(hint))?;
    }
    if let Some(result) = result {
        write!(output, ",\"result\":{}", safe_json(result))?;
    }
    writeln!(output, "}}")
}

pub(super) fn json_of(error: &ErrorObject) -> String {
    #[derive(Serialize)]
    struct Written<'a> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a RawValue>,
    }
    let ErrorObject { code, message, data } = error;
    let written = Written { code: code.get(), message, data: data.as_deref() };
    serde_json::to_string(&written).expect("strings and numbers can be written")
}

/// A sentence for people; all of it is on stdout.
const LONGEST_MESSAGE: usize = 300;
