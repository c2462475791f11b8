//! An error -> lines on stderr, with the options that would help.

use std::io::{self, Write};

use barewire_workbench::Advice;

pub(crate) use barewire_workbench::Error as Failure;

/// Writes an error to stderr. If that is closed nothing can be said.
pub(crate) fn report(failure: &Failure) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "barewire: {failure}").and_then(|()| match failure.hint_in(option) {
        Some(hint) => writeln!(stderr, "hint: {hint}"),
        None => Ok(()),
    });
}

/// The failure of everything that waits, where the system has no means to.
pub(crate) fn runtime_failure(error: &io::Error) -> Failure {
    Failure::new(format!("cannot wait for anything here: {error}"))
}

/// The option of the command line for a setting that would help.
pub(crate) fn option(advice: &Advice) -> String {
    match advice {
        Advice::NameFile => "give the path of a file, or - for stdin".to_owned(),
        Advice::RaiseFrameLimit => "--max-frame raises the limit".to_owned(),
        Advice::CheckCapture => "check reads .wire files, as barewire tap --record writes them".to_owned(),
        Advice::AllowMoreTime => "--timeout gives more".to_owned(),
        Advice::AllowHostile => "--hostile sends it to a URL as well".to_owned(),
        Advice::AllowCalls => "--call TOOL=ARGS or --allow-calls".to_owned(),
        Advice::AllowAllCalls => "--allow-calls".to_owned(),
        Advice::SendCredentials => "--bearer-env NAME or --header gives it what it wants".to_owned(),
        Advice::WriteBaseline => "--write-baseline writes one".to_owned(),
        Advice::ListChecks { near: Some(near) } => {
            format!("did you mean {near}? barewire check --list shows all")
        }
        Advice::ListChecks { near: None } => "barewire check --list shows all".to_owned(),
        Advice::ExplainCheck => "barewire check --explain ID says where it runs".to_owned(),
        Advice::NameAllChecks => "-v names them".to_owned(),
        Advice::ReadAsLines => "--format lines reads newline-delimited JSON".to_owned(),
        Advice::ReadCapture => "barewire read shows what is in it".to_owned(),
        Advice::NameChannel { channels } => format!("--channel NAME says which: {channels}"),
        Advice::AllowRedacted => {
            "--allow-redacted replays it as it stands there, and takes any answer where something is replaced"
                .to_owned()
        }
        Advice::RecordUncompressed => "capture it again, with barewire tap --http --uncompressed".to_owned(),
        other => other.to_string(),
    }
}
