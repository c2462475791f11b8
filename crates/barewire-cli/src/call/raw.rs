//! `barewire call --raw`: one JSON-RPC request without a handshake -> its response, exactly as the server wrote it.

use std::time::Instant;

use barewire::peer::{CallError, Raw};
use serde_json::value::RawValue;

use super::answer::{Printer, ResultFormat};
use super::target::CallTarget;
use super::{Args, CallFraming};
use crate::ask::no_answer::{NoAnswer, Reason, unless_signalled};
use crate::failure::runtime_failure;
use crate::output::Output;
use crate::platform::Signals;
use crate::{Exit, Failure};

pub(super) async fn call(
    args: &Args,
    target: &CallTarget<'_>,
    params: Option<&RawValue>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    // Signals are caught before a program is started, so that a signal cannot leave the program running.
    let mut signals = Signals::catch().map_err(|error| runtime_failure(&error))?;
    let (format, started) = (ResultFormat::of(args), Instant::now());
    let mut print =
        |outcome| Printer { output: &mut *output, format, elapsed: started.elapsed(), server: None }.raw(outcome);
    let peer = match unless_signalled(&mut signals, target.open(args)).await {
        Ok(peer) => peer,
        Err(no_answer) => return print(Err(no_answer)),
    };
    let call = peer.call::<Raw>(&args.what, params);
    let call = if let Some(patience) = args.patience() { call.timeout(patience) } else { call.no_timeout() };
    let response = async {
        match call.await {
            Ok(result) => Ok(Ok(result)),
            Err(CallError::Refused(error)) => Ok(Err(error)),
            Err(error) => Err(no_answer(&error, args)),
        }
    };
    let response = unless_signalled(&mut signals, response).await;
    // The response is printed before the program has exited, so that the user does not wait for its exit.
    let done = print(response);
    tokio::select! {
        _ = peer.shutdown() => {}
        // After a second signal we do not wait any longer; the watcher process ends the program.
        _ = signals.next() => {}
    }
    done
}

/// Converts an error of a plain JSON-RPC call. An error response is an answer, so callers never pass one.
fn no_answer(error: &CallError, args: &Args) -> NoAnswer {
    match error {
        CallError::TimedOut => {
            let hint = match args.framing {
                CallFraming::Lines => "use --timeout to wait longer; a language server needs --framing content-length",
                CallFraming::ContentLength => "use --timeout to wait longer; an MCP server needs --framing lines",
            };
            NoAnswer::new(Reason::TimedOut, format!("no response within {:?}", args.timeout), Some(hint))
        }
        CallError::Closed(closed) => NoAnswer::closed(closed),
        error => NoAnswer::new(Reason::BadAnswer, error.to_string(), None),
    }
}
