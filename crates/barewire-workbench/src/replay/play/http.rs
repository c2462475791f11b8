//! A script and a server at a URL -> what the server answers this time: every message of the client is a request of HTTP.

use std::collections::VecDeque;
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::transcript::{Framing, Stream};
use tokio::time::{Instant, timeout_at};

use super::clock::{Clock, MAX_MISSES, wait_until};
use super::exchanges::{ClientExchanges, Purpose};
use super::{PlayOptions, PlayReport};
use crate::Error;
use crate::http::ExchangeEvent;
use crate::replay::client::{ClientReplay, NextAction};
use crate::replay::script::Script;
use crate::text::shown;

/// Sends what the client sent in the capture to a server at a URL, with these headers in every request, and compares the answers.
///
/// Fails if the server cannot be reached.
pub async fn play_http(
    script: &Script,
    dialer: Dialer,
    headers: Vec<(String, String)>,
    options: &PlayOptions,
) -> Result<PlayReport, Error> {
    let mut player = ClientReplay::new(script, Framing::Body, options);
    let origin = dialer.origin();
    let mut exchanges = ClientExchanges::new(dialer, headers, options.max_frame);
    let mut clock = Clock::new(script, options);
    let mut held = None;
    // Answers to the server that are not in the capture.
    let mut replies: VecDeque<Vec<u8>> = VecDeque::new();
    let is_stuck = loop {
        let mut done = false;
        while exchanges.can_send() && held.is_none() {
            if let Some(reply) = replies.pop_front() {
                exchanges.post(&reply, Purpose::Reply);
                continue;
            }
            match player.next() {
                NextAction::Send { bytes, time, at } => held = Some((bytes, at, clock.due(time))),
                NextAction::Wait => break,
                NextAction::Done => {
                    done = true;
                    break;
                }
            }
            if let Some((bytes, at, _)) = held.take_if(|(_, _, due)| *due <= Instant::now()) {
                exchanges.post(&bytes, Purpose::Message(at));
            }
        }
        if done {
            break false;
        }
        clock.look(player.progress(), 0);
        let (can_send, gate_opens) = (exchanges.can_send(), exchanges.gate_opens());
        let due = held.as_ref().map(|(_, _, due)| *due).filter(|_| can_send);
        let event = tokio::select! {
            event = exchanges.next() => HttpPlayEvent::Arrived(event),
            () = wait_until(gate_opens) => HttpPlayEvent::GateOpens,
            () = wait_until(due) => HttpPlayEvent::Due,
            () = wait_until(clock.deadline.filter(|_| due.is_none())) => HttpPlayEvent::Late,
        };
        match event {
            HttpPlayEvent::Arrived((number, event)) => {
                check_reached(&event, &exchanges, &origin)?;
                replies.extend(exchanges.take(number, event, &mut player));
            }
            HttpPlayEvent::GateOpens => exchanges.open_gate(),
            HttpPlayEvent::Due => {
                let (bytes, at, _) = held.take().expect("it was due");
                exchanges.post(&bytes, Purpose::Message(at));
            }
            HttpPlayEvent::Late => {
                exchanges.open_gate();
                let timeout = options.timeout.unwrap_or_default().as_secs_f64();
                let missed = player.give_up(&format!("nothing within {timeout} s"));
                clock.missed += 1;
                if clock.missed == MAX_MISSES {
                    break true;
                }
                if missed == 0 && held.is_none() {
                    break false;
                }
                clock.begin();
            }
        }
    };
    player.close();
    if is_stuck {
        player.ended("the server has answered nothing for too long");
    }
    // What follows an answer in the same response is still on its way.
    let until = Instant::now() + LAST_RESPONSES_TIMEOUT;
    while exchanges.is_answering(&player) {
        let Ok((number, event)) = timeout_at(until, exchanges.next()).await else { break };
        check_reached(&event, &exchanges, &origin)?;
        exchanges.take(number, event, &mut player);
    }
    exchanges.end().await;
    Ok(player.played())
}

/// Fails if the server has never answered and cannot be reached.
fn check_reached(event: &ExchangeEvent, exchanges: &ClientExchanges, origin: &str) -> Result<(), Error> {
    match event {
        ExchangeEvent::Broken(why) if !exchanges.is_reached() => {
            let why = shown(&why.text(Stream::ToClient), REASON_WIDTH);
            Err(Error::new(format!("cannot replay it to {origin}: {why}")))
        }
        _ => Ok(()),
    }
}

/// What the player waits for.
enum HttpPlayEvent {
    Arrived((u64, ExchangeEvent)),
    /// The wait for a message to be accepted is over.
    GateOpens,
    /// It is time for the next message.
    Due,
    /// Something has not come in time.
    Late,
}

/// The wait for the rest of responses after everything was sent.
const LAST_RESPONSES_TIMEOUT: Duration = Duration::from_millis(200);

/// The columns of a reason in a line.
const REASON_WIDTH: usize = 200;
