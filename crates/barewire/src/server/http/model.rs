//! The model of mailboxes, events, senders and sessions: their real code, run by loom in every order of its steps.
//!
//! ```text
//! .ci/model
//! ```

use std::future::poll_fn;
use std::sync::Arc;

use barewire_proto::http::EventId;
use bytes::Bytes;
use loom::future::block_on;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::mailbox::{MailboxShared, ResponseStart, StreamItem, StreamReader, UnsolicitedStart};
use super::mailboxes::{Mailboxes, SessionOutlet};
use super::sender::Senders;
use super::session::Session;
use super::{HttpLimits, HttpService, MemoryEvents};
use crate::Server;
use crate::peer::{Dispatcher, Exchange, MessageKind, Outlet};
use crate::sync::with_preemptions;

fn service(set: impl FnOnce(&mut HttpLimits)) -> HttpService {
    let mut limits = HttpLimits::default();
    set(&mut limits);
    Server::new("model", "1").http().limits(limits).service().expect("a service")
}

fn mailboxes() -> Arc<Mailboxes> {
    let events = Arc::new(MemoryEvents::default());
    Mailboxes::new(
        MailboxShared { session: "s".into(), events, waiting: Arc::new(AtomicUsize::new(0)) },
        UnsolicitedStart::of_new(0),
    )
}

/// Sends a notification and then the answer of the exchange, as the engine does.
fn send_two(mailboxes: &Arc<Mailboxes>) {
    let settings = service(|_| {}).0.standalone_settings();
    let mut dispatcher =
        Dispatcher::without_stream(settings, |room| SessionOutlet::new(Arc::clone(mailboxes), None, room));
    for kind in [MessageKind::Notification, MessageKind::Answer(None)] {
        dispatcher.outlet().send(EXCHANGE, |out| {
            out.extend_from_slice(b"{}");
            kind
        });
    }
}

/// Reads a stream to its end, and returns the numbers of the messages after `last`, as a connection sends them.
fn read_rest(reader: &StreamReader, mut last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        match block_on(poll_fn(|context| reader.poll_next(context))) {
            StreamItem::Messages(messages) => {
                for number in messages.iter().map(|queued| queued.id.sequence).filter(|number| *number > last) {
                    numbers.push(number);
                }
                last = numbers.last().copied().unwrap_or(last);
            }
            StreamItem::End => return numbers,
            StreamItem::HangUp(_) => unreachable!("the server does not hang up"),
        }
    }
}

#[test]
fn the_response_has_all_messages_in_order() {
    with_preemptions(3, || {
        let mailboxes = mailboxes();
        let mailbox = mailboxes.open(EXCHANGE, Bytes::new(), None);
        let sender = {
            let mailboxes = Arc::clone(&mailboxes);
            thread::spawn(move || send_two(&mailboxes))
        };
        let ResponseStart::Stream(number) = block_on(poll_fn(|context| mailbox.poll_start(context))) else {
            panic!("the first message is not the answer");
        };
        let reader = StreamReader::attached(Arc::clone(&mailbox), number);
        assert_eq!(read_rest(&reader, 0), [1, 2]);
        sender.join().expect("no panic");
    });
}

/// A connection breaks while messages are added, and another one resumes the stream: no message is lost, and none is
/// sent twice.
#[test]
fn a_stream_that_breaks_and_is_resumed_has_all_messages() {
    with_preemptions(2, || {
        let mailboxes = mailboxes();
        let mailbox = mailboxes.open(EXCHANGE, Bytes::new(), None);
        let broken = StreamReader::attached(Arc::clone(&mailbox), mailbox.open_stream());
        let sender = {
            let mailboxes = Arc::clone(&mailboxes);
            thread::spawn(move || send_two(&mailboxes))
        };
        drop(broken);
        let start = EventId { stream: EXCHANGE.0, sequence: 0 };
        let resumed = block_on(mailboxes.resume(start)).expect("nothing is dropped from the store");
        let mut numbers: Vec<u64> = resumed.replay.iter().map(|(id, _)| id.sequence).collect();
        if let Some(reader) = &resumed.reader {
            let last = numbers.last().copied().unwrap_or(0);
            numbers.extend(read_rest(reader, last));
        }
        assert_eq!(numbers, [1, 2]);
        sender.join().expect("no panic");
    });
}

/// The counters of a sender are made and dropped by several threads: its limit holds, and nothing is left.
#[test]
fn the_limit_of_a_sender_holds_while_it_is_forgotten_and_known_again() {
    loom::model(|| {
        let limits = HttpLimits { exchanges_per_sender: 1, ..HttpLimits::default() };
        let senders = Senders::new(&limits);
        let running = Arc::new(AtomicUsize::new(0));
        let run = |senders: Arc<Senders>, running: Arc<AtomicUsize>| {
            let sender = senders.at(None);
            if let Ok(guard) = sender.begin_exchange(None) {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two exchanges at once");
                running.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
            }
        };
        let other = {
            let (senders, running) = (Arc::clone(&senders), Arc::clone(&running));
            thread::spawn(move || run(senders, running))
        };
        run(Arc::clone(&senders), Arc::clone(&running));
        run(Arc::clone(&senders), running);
        other.join().expect("no panic");
        assert_eq!((senders.known_count(), senders.exchange_count()), (0, 0));
    });
}

/// A request uses a session while a new session needs its place: either the request finds the session and keeps it, or
/// the new session takes the place.
#[test]
fn a_session_that_a_request_has_found_is_not_ended_for_another_one() {
    with_preemptions(3, || {
        let service = service(|limits| limits.sessions = 1);
        let endpoint = &service.0;
        let session = || Session::new(endpoint, None, &endpoint.senders.at(None)).expect("random bytes");
        let (old, new) = (session(), session());
        assert!(endpoint.sessions.admit(&old, &endpoint.log).is_some());
        let user = {
            let (service, id) = (service.clone(), Arc::clone(&old.id));
            thread::spawn(move || {
                let Some(session_use) = service.0.sessions.find(&id, None) else { return false };
                assert!(session_use.session().is_open_to(None), "it has ended while it is used");
                true
            })
        };
        let is_admitted = endpoint.sessions.admit(&new, &endpoint.log).is_some();
        assert_ne!(user.join().expect("no panic"), is_admitted);
        assert_eq!(old.is_open_to(None), !is_admitted);
    });
}

const EXCHANGE: Exchange = Exchange(1);
