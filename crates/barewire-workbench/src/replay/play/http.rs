//! Plays a script to a server at a URL, and reports the differences. Every message of the client is an HTTP request.

use std::collections::VecDeque;
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::transcript::{Framing, Stream};
use tokio::time::{Instant, timeout_at};

use super::clock::{MAX_MISSES, PlayClock};
use super::exchanges::{ClientExchanges, Purpose};
use super::{PlayOptions, PlayReport};
use crate::Error;
use crate::http::ExchangeEvent;
use crate::replay::client::{ClientReplay, NextAction};
use crate::replay::script::Script;
use crate::replay::wait_until;
use crate::text::shown;

/// Sends the client's messages in a capture to a server at a URL, with these headers in every request, and compares the
/// answers with the recorded ones.
///
/// Fails if the server cannot be reached.
pub async fn play_http(
    script: &Script,
    dialer: Dialer,
    headers: Vec<(String, String)>,
    options: &PlayOptions,
) -> Result<PlayReport, Error> {
    let mut client = ClientReplay::new(script, Framing::Body, options);
    let origin = dialer.origin();
    let mut exchanges = ClientExchanges::new(dialer, headers, options.max_frame);
    let mut clock = PlayClock::new(script, options);
    // The next message, and the time at which it is due.
    let mut waiting = None;
    // Responses to the server that are not in the capture.
    let mut replies: VecDeque<Vec<u8>> = VecDeque::new();
    let is_stuck = loop {
        let mut is_done = false;
        while exchanges.gate.is_none() && waiting.is_none() {
            if let Some(reply) = replies.pop_front() {
                exchanges.post(&reply, Purpose::Reply);
                continue;
            }
            match client.next() {
                NextAction::Send { bytes, time, send } => waiting = Some((bytes, send, clock.due(time))),
                action => {
                    is_done = action == NextAction::Done;
                    break;
                }
            }
            if let Some((bytes, send, _)) = waiting.take_if(|(_, _, due)| *due <= Instant::now()) {
                exchanges.post(&bytes, Purpose::Message(send));
            }
        }
        if is_done {
            break false;
        }
        clock.note_progress(client.progress());
        let gate_opens = exchanges.gate.as_ref().and_then(|gate| gate.until);
        let due = waiting.as_ref().map(|(_, _, due)| *due).filter(|_| exchanges.gate.is_none());
        let event = if due.is_none() && clock.is_late() {
            HttpPlayEvent::Late
        } else {
            tokio::select! {
                event = exchanges.session.next() => HttpPlayEvent::Received(event),
                () = wait_until(gate_opens) => HttpPlayEvent::GateOpens,
                () = wait_until(due) => HttpPlayEvent::Due,
                () = wait_until(clock.deadline.filter(|_| due.is_none())) => HttpPlayEvent::Late,
            }
        };
        match event {
            HttpPlayEvent::Received((number, event)) => {
                check_reached(&event, &exchanges, &origin)?;
                replies.extend(exchanges.take(number, event, &mut client));
                replies.truncate(MAX_WAITING_REPLIES);
            }
            HttpPlayEvent::GateOpens => exchanges.gate = None,
            HttpPlayEvent::Due => {
                let (bytes, send, _) = waiting.take().expect("a message was due");
                exchanges.post(&bytes, Purpose::Message(send));
            }
            HttpPlayEvent::Late => {
                // A message that the server has not accepted yet does not keep back the rest of the capture.
                let was_gated = exchanges.gate.take().is_some();
                let timeout = options.timeout.unwrap_or_default().as_secs_f64();
                let missed = client.give_up(&format!("nothing within {timeout} s"));
                clock.missed += 1;
                if clock.missed == MAX_MISSES {
                    break true;
                }
                if missed == 0 && waiting.is_none() && !was_gated {
                    break false;
                }
                clock.reset_deadline();
            }
        }
    };
    client.close();
    if is_stuck {
        client.handle_end("the server has not answered for too long");
    }
    // Messages that follow a response in the same stream may still arrive.
    let until = Instant::now() + LAST_RESPONSES_TIMEOUT;
    while exchanges.is_answering(&client) && Instant::now() < until {
        let Ok((number, event)) = timeout_at(until, exchanges.session.next()).await else { break };
        check_reached(&event, &exchanges, &origin)?;
        exchanges.take(number, event, &mut client);
    }
    exchanges.end().await;
    Ok(client.report())
}

/// Fails if the server cannot be reached and has never responded.
fn check_reached(event: &ExchangeEvent, exchanges: &ClientExchanges, origin: &str) -> Result<(), Error> {
    match event {
        ExchangeEvent::Broken(why) if !exchanges.is_reached => {
            let why = shown(&why.text(Stream::ToClient), MAX_REASON_LENGTH);
            Err(Error::new(format!("cannot replay the capture to {origin}: {why}")))
        }
        _ => Ok(()),
    }
}

enum HttpPlayEvent {
    Received((u64, ExchangeEvent)),
    /// The time limit for a message to be accepted has passed.
    GateOpens,
    Due,
    /// An expected message did not come in time.
    Late,
}

/// The maximum wait for the rest of the responses after everything was sent.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_millis(200);

/// The maximum number of waiting replies that are not in the capture. Each is sent when the one before it was accepted;
/// further requests of the server are not answered.
const MAX_WAITING_REPLIES: usize = 64;

/// The maximum number of characters of a reason in an error.
const MAX_REASON_LENGTH: usize = 200;
