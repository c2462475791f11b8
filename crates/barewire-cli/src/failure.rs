//! An error -> lines on stderr, with a hint that names a command-line option.

use std::io;

use barewire::client::oauth::{Remedy, SignInError};
use barewire_workbench::Advice;

pub(crate) use barewire_workbench::Error as Failure;

use crate::output::stderr;

/// Writes an error to stderr.
pub(crate) fn report(failure: &Failure) {
    let mut stderr = stderr();
    let _ = writeln!(stderr, "barewire: {failure}").and_then(|()| match failure.hint_in(option) {
        Some(hint) => writeln!(stderr, "hint: {hint}"),
        None => Ok(()),
    });
}

/// Returns the failure for a runtime that does not start or signals that cannot be caught.
pub(crate) fn runtime_failure(error: &io::Error) -> Failure {
    Failure::new(format!("cannot set up timers and signals: {error}"))
}

/// Returns the failure of a sign-in, with a hint.
pub(crate) fn sign_in_failure(error: &SignInError) -> Failure {
    let failure = Failure::new(error.to_string());
    if let Some(hint) = sign_in_hint(error) { failure.with_hint(hint) } else { failure }
}

/// Returns a hint that names the command or option that helps after a failed sign-in.
pub(crate) fn sign_in_hint(error: &SignInError) -> Option<String> {
    let remedy = match error {
        SignInError::NeedsUser { server, scopes: None } => return Some(format!("run: barewire login {server}")),
        SignInError::NeedsUser { server, scopes: Some(scopes) } => {
            return Some(format!("run: barewire login --scope {} {server}", shell_word(scopes)));
        }
        SignInError::TimedOut { .. } => return Some("run barewire login again; --timeout waits longer".to_owned()),
        SignInError::Listen { port: 1.., .. } => return Some("--port chooses another port".to_owned()),
        SignInError::Stopped(reason) => reason.remedy()?,
        _ => return None,
    };
    let hint = match remedy {
        Remedy::SetClient => "barewire login URL --client-id ID uses a client that is registered there",
        Remedy::SetClientSecret => "barewire login URL --client-id ID --client-secret-env NAME",
        Remedy::SetScopes => "barewire login URL --scope SCOPES asks for other scopes",
        Remedy::AllowOtherIssuer => "if you trust this server: barewire login URL --issuer-may-differ",
        Remedy::OmitResource => "barewire login URL --no-resource leaves the parameter out",
        Remedy::AllowPrivateNetwork => "if you trust this server: barewire login URL --private-network",
        Remedy::SetToken => "--bearer-env NAME sends the token in $NAME",
        Remedy::UseOtherGrant => "barewire login URL with --device, or without it",
        Remedy::SignInAgain => "run barewire login URL again",
        Remedy::TryLater => "try again later",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns a word of a shell's command line. The text is that of a peer: nothing in it is expanded or run.
fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " :/.,_-+@%=*?[]{}()<>|&;#~^".contains(letter);
    match text.chars().all(is_plain) {
        true => format!("\"{text}\""),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Returns a hint that names the command-line option for a setting of the library.
pub(crate) fn option(advice: &Advice) -> String {
    match advice {
        Advice::NameFile => "give the path of a file, or - for stdin".to_owned(),
        Advice::RaiseFrameLimit => "--max-frame raises the limit".to_owned(),
        Advice::CheckCapture => "check reads .wire files, which barewire tap --record writes. A program that is not \
                                 executable is named with its interpreter: barewire check -- python3 server.py"
            .to_owned(),
        Advice::StartProbe => "barewire attach --probe HOST lets a host start the probe; then use the host".to_owned(),
        Advice::AllowMoreTime => "use --timeout to wait longer".to_owned(),
        Advice::AllowHostile => "--hostile sends it to a URL too".to_owned(),
        Advice::AllowCalls => "--call TOOL=ARGS or --allow-calls".to_owned(),
        Advice::NameCall => "--call TOOL=ARGS names them".to_owned(),
        Advice::AllowAllCalls => "--allow-calls".to_owned(),
        Advice::SendCredentials => {
            "barewire login URL signs in with OAuth; --bearer-env NAME or --header sends credentials".to_owned()
        }
        Advice::GiveWrongToken => "--wrong-token-env KIND=NAME gives one".to_owned(),
        Advice::WriteBaseline => "--write-baseline writes a baseline file".to_owned(),
        Advice::UpdatePin => "--pin-update writes it again".to_owned(),
        Advice::ListChecks { near: Some(near) } => {
            format!("did you mean {near}? barewire check --list shows all checks")
        }
        Advice::ListChecks { near: None } => "barewire check --list shows all checks".to_owned(),
        Advice::ExplainCheck => "barewire check --explain ID shows where a check runs".to_owned(),
        Advice::NameAllChecks => "-v names them".to_owned(),
        Advice::ShowSdkFindings => "-v shows them whole, --strict counts them".to_owned(),
        Advice::ReadAsLines => "--format lines reads newline-delimited JSON".to_owned(),
        Advice::ReadCapture => "barewire read lists the frames of the input".to_owned(),
        Advice::NameChannel { channels } => format!("choose one with --channel NAME: {channels}"),
        Advice::AllowRedacted => {
            "--allow-redacted replays the replaced text as it is, and accepts any response in its place".to_owned()
        }
        Advice::RecordUncompressed => "record the session again with barewire tap --http --uncompressed".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_scope_is_one_word_in_which_the_shell_runs_nothing() {
        for (scope, word) in [
            ("mcp files:read", "\"mcp files:read\""),
            ("https://a.example/x.readonly", "\"https://a.example/x.readonly\""),
            ("$(reboot)", "'$(reboot)'"),
            ("`reboot` it's", "'`reboot` it'\\''s'"),
            ("a!b", "'a!b'"),
        ] {
            assert_eq!(shell_word(scope), word);
        }
    }
}
