//! `barewire call --raw`: one request of JSON-RPC, with nothing before it, and its answer as it was written.

use std::borrow::Cow;
use std::time::Instant;

use barewire::peer::{CallError, Raw};
use serde_json::value::RawValue;

use super::answer::{self, Answer, Form};
use super::target::Target;
use super::{Args, Framing};
use crate::ask::no_answer::{NoAnswer, Reason, unless_signalled};
use crate::failure::runtime_failure;
use crate::output::Output;
use crate::platform::Signals;
use crate::{Exit, Failure};

pub(super) async fn call(
    args: &Args,
    target: &Target<'_>,
    params: Option<&RawValue>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    // Before anything is started that a signal could leave behind.
    let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
    let form = Form::of(args);
    let began = Instant::now();
    let peer = match unless_signalled(&mut signals, target.open(args)).await {
        Ok(peer) => peer,
        Err(missed) => return answer::print(output, form, Err(missed), began.elapsed()),
    };
    let call = peer.call::<Raw>(&args.what, params);
    let call = match args.patience() {
        Some(patience) => call.timeout(patience),
        None => call.no_timeout(),
    };
    let asked = async {
        match call.await {
            Ok(result) => Ok(Answer::Result(result)),
            Err(CallError::Refused(error)) => Ok(Answer::Refused(error)),
            Err(error) => Err(unanswered(&error, args)),
        }
    };
    let answer = unless_signalled(&mut signals, asked).await;
    // Whoever waits for the answer does not wait for the end of the program.
    let done = answer::print(output, form, answer, began.elapsed());
    tokio::select! {
        _ = peer.shutdown() => {}
        // The program's watcher ends it without us.
        _ = signals.next() => {}
    }
    done
}

/// Returns the reason why a call of plain JSON-RPC has no answer, but for a refusal, which is one.
fn unanswered(error: &CallError, args: &Args) -> NoAnswer {
    match error {
        CallError::TimedOut => NoAnswer {
            reason: Reason::TimedOut,
            what: format!("no answer within {:?}", args.timeout),
            hint: Some(Cow::Borrowed(match args.framing {
                Framing::Lines => "--timeout waits longer; a language server needs --framing content-length",
                Framing::ContentLength => "--timeout waits longer; an MCP server needs --framing lines",
            })),
        },
        CallError::Closed(closed) => NoAnswer::closed(closed),
        error => NoAnswer { reason: Reason::BadAnswer, what: error.to_string(), hint: None },
    }
}
