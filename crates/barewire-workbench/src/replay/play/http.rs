//! A script and a server at a URL -> what the server answers this time: every message of the client is a request of HTTP.

use std::collections::VecDeque;
use std::time::Duration;

use barewire::client::http::Dialer;
use barewire_proto::transcript::Framing;
use tokio::time::{Instant, timeout_at};

use super::clock::{Clock, MOST_MISSED, wait_until};
use super::exchanges::{About, Line};
use super::{PlayOptions, Played};
use crate::Error as Failure;
use crate::http::ExchangeEvent;
use crate::replay::player::{Next, Player};
use crate::replay::script::Script;
use crate::text::shown;

/// A server at a URL.
pub(super) struct Site {
    pub(super) dial: Dialer,
    /// What the user wants to be sent along.
    pub(super) headers: Vec<(String, String)>,
}

/// Sends what the client sent in the capture to a server at a URL, with these headers in every request, and compares the answers.
///
/// Fails if the server cannot be reached.
pub async fn play_http(
    script: &Script,
    dial: Dialer,
    headers: Vec<(String, String)>,
    options: &PlayOptions,
) -> Result<Played, Failure> {
    let mut player = Player::new(script, Framing::Body, options);
    let origin = dial.origin();
    let mut line = Line::new(Site { dial, headers }, options.max_frame);
    let mut clock = Clock::new(script, options);
    let mut held = None;
    // What the server is told because nobody else will.
    let mut replies: VecDeque<Vec<u8>> = VecDeque::new();
    let is_stuck = loop {
        let mut done = false;
        while line.is_free() && held.is_none() {
            if let Some(reply) = replies.pop_front() {
                line.post(&reply, About::Reply);
                continue;
            }
            match player.next() {
                Next::Send { bytes, time, at } => held = Some((bytes, at, clock.due(time))),
                Next::Wait => break,
                Next::Done => {
                    done = true;
                    break;
                }
            }
            if let Some((bytes, at, _)) = held.take_if(|(_, _, due)| *due <= Instant::now()) {
                line.post(&bytes, About::Sent(at));
            }
        }
        if done {
            break false;
        }
        clock.look(player.progress(), 0);
        let (is_free, free_at) = (line.is_free(), line.free_at());
        let due = held.as_ref().map(|(_, _, due)| *due).filter(|_| is_free);
        let event = tokio::select! {
            event = line.next() => Event::Arrived(event),
            () = wait_until(free_at) => Event::Free,
            () = wait_until(due) => Event::Due,
            () = wait_until(clock.deadline.filter(|_| due.is_none())) => Event::Late,
        };
        match event {
            Event::Arrived((number, event)) => {
                check(&event, &line, &origin)?;
                replies.extend(line.take(number, event, &mut player));
            }
            Event::Free => line.free(),
            Event::Due => {
                let (bytes, at, _) = held.take().expect("it was due");
                line.post(&bytes, About::Sent(at));
            }
            Event::Late => {
                line.free();
                let timeout = options.timeout.unwrap_or_default().as_secs_f64();
                let missed = player.give_up(&format!("nothing within {timeout} s"));
                clock.missed += 1;
                if clock.missed == MOST_MISSED {
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
    let until = Instant::now() + AT_THE_END;
    while line.is_answering(&player) {
        let Ok((number, event)) = timeout_at(until, line.next()).await else { break };
        check(&event, &line, &origin)?;
        line.take(number, event, &mut player);
    }
    line.end().await;
    Ok(player.played())
}

/// As long as nobody was ever there, there is nothing to compare.
fn check(event: &ExchangeEvent, line: &Line, origin: &str) -> Result<(), Failure> {
    match event {
        ExchangeEvent::Broken(why) if !line.is_reached() => {
            let why = shown(why.as_bytes(), LONGEST);
            Err(Failure::new(format!("cannot replay it to {origin}: {why}")))
        }
        _ => Ok(()),
    }
}

/// What can happen.
enum Event {
    Arrived((u64, ExchangeEvent)),
    /// Nobody waits any longer until a message is taken.
    Free,
    /// It is time for the next message.
    Due,
    /// Something has not come in time.
    Late,
}

/// Long enough for what is on its way.
const AT_THE_END: Duration = Duration::from_millis(200);

/// As much of a reason as fits a line.
const LONGEST: usize = 200;
