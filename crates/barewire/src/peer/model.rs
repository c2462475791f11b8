//! The model of the queue and of the exchanges: their real code, run by loom in every order of its steps.
//!
//! ```text
//! .ci/model
//! ```

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use barewire_proto::mcp::ParsedMessage;
use bytes::Bytes;
use loom::future::block_on;
use loom::thread;

use super::connection::ConnectionSettings;
use super::exchanges::{Delivery, Exchanges};
use super::outlet::{Exchange, MessageKind, Outlet};
use super::queue::{Command, Queue};
use super::started_handler::HandlerFuture;
use super::{BoxedHandler, ConnectionEnd, ConnectionLimits, Context, EndReason, IncomingParams, Service};
use crate::Failure;
use crate::log::Log;
use crate::sync::with_preemptions;

fn is_shutdown(end: &ConnectionEnd) -> bool {
    matches!(end.reason(), EndReason::Shutdown)
}

fn queue() -> Arc<Queue> {
    Arc::new(Queue::new(&ConnectionLimits::default(), None))
}

/// Takes commands until there are this many, as a driver does.
fn take(queue: &Queue, count: usize) {
    let mut taken = 0;
    block_on(poll_fn(|context| {
        loop {
            let mut commands = Vec::new();
            queue.take(&mut commands);
            taken += commands.len();
            if taken == count {
                return Poll::Ready(());
            }
            if queue.poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }));
}

/// If a command could be added without waking the driver, the driver would wait for ever: loom reports a deadlock.
#[test]
fn the_driver_gets_every_command() {
    with_preemptions(3, || {
        let queue = queue();
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || queue.push(Command::Handled).expect("it is open"))
            })
            .collect();
        take(&queue, 2);
        for sender in senders {
            sender.join().expect("no panic");
        }
        assert!(queue.is_empty());
    });
}

#[test]
fn a_command_is_accepted_and_taken_or_refused() {
    loom::model(|| {
        let queue = queue();
        let sender = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || usize::from(queue.push(Command::Handled).is_ok()))
        };
        let waiting = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || is_shutdown(&block_on(queue.ended())))
        };
        let left = queue.close(ConnectionEnd::new(EndReason::Shutdown, None, None));
        assert_eq!(sender.join().expect("no panic"), left.len());
        assert!(waiting.join().expect("no panic"));
        assert!(queue.is_empty() && queue.push(Command::Handled).is_err());
    });
}

/// The exchanges that were answered, and those that were ended without an answer.
#[derive(Clone, Default)]
struct DoneExchanges {
    answered: Arc<Mutex<Vec<u64>>>,
    ended: Arc<Mutex<Vec<u64>>>,
}

impl DoneExchanges {
    fn answered(&self) -> Vec<u64> {
        let mut answered = self.answered.lock().expect("no panic").clone();
        answered.sort_unstable();
        answered
    }

    fn all(&self) -> Vec<u64> {
        let mut all = self.answered();
        all.extend(self.ended.lock().expect("no panic").iter());
        all.sort_unstable();
        all
    }
}

impl Outlet for DoneExchanges {
    const WRITES_NULL_ID: bool = false;

    fn send(&mut self, exchange: Exchange, write: impl FnOnce(&mut Vec<u8>) -> MessageKind) {
        assert!(write(&mut Vec::new()).is_answer(), "the handler sends nothing else");
        self.answered.lock().expect("no panic").push(exchange.0);
    }

    fn hold_permits(&mut self, _: usize) {}

    fn len(&self) -> usize {
        0
    }

    fn end_exchange(&mut self, exchange: Exchange) {
        self.ended.lock().expect("no panic").push(exchange.0);
    }
}

/// A service that answers every request at once.
struct AnswerAll;

impl Service for AnswerAll {
    fn start(&mut self, _: Context, _: IncomingParams<'_>) -> Result<BoxedHandler, Failure> {
        Ok(HandlerFuture::boxed(async { Ok(true) }))
    }
}

fn exchanges(done: &DoneExchanges) -> Arc<Exchanges<DoneExchanges>> {
    let settings = ConnectionSettings::new(Box::new(AnswerAll), Log::default());
    Arc::new(Exchanges::new(settings, |_| done.clone()))
}

fn request(number: u64) -> Delivery {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"m"}}"#);
    let message = ParsedMessage::read(Bytes::from(body), 8);
    Delivery { exchange: Exchange(number), caller: None, message }
}

/// Starts the driver of a connection, and a thread that delivers request 1. Each returns whether it ended as it should.
fn start_driver_and_deliverer(exchanges: &Arc<Exchanges<DoneExchanges>>) -> [thread::JoinHandle<bool>; 2] {
    let (driven, delivered) = (Arc::clone(exchanges), Arc::clone(exchanges));
    let driver = thread::spawn(move || is_shutdown(&block_on(driven.drive())));
    let deliverer = thread::spawn(move || {
        delivered.deliver(request(1));
        true
    });
    [driver, deliverer]
}

/// Two threads deliver a message at the same time, and only one of them gets the lock. A message that it does not
/// handle before it returns is left to the driver, so all of them are handled.
#[test]
fn every_message_is_handled_by_the_thread_that_holds_the_lock_or_by_the_driver() {
    with_preemptions(2, || {
        let done = DoneExchanges::default();
        let exchanges = exchanges(&done);
        let [driver, deliverer] = start_driver_and_deliverer(&exchanges);
        exchanges.deliver(request(2));
        assert!(deliverer.join().expect("no panic"));
        // This is the last item of the inbox, so both messages are answered before.
        exchanges.end(EndReason::Shutdown);
        assert!(driver.join().expect("no panic"));
        assert_eq!(done.answered(), [1, 2]);
    });
}

/// A message that arrives while the connection ends is answered, or its exchange is ended. Otherwise its client would
/// wait for ever.
#[test]
fn no_message_is_left_when_the_connection_ends() {
    with_preemptions(2, || {
        let done = DoneExchanges::default();
        let exchanges = exchanges(&done);
        let [driver, deliverer] = start_driver_and_deliverer(&exchanges);
        exchanges.end(EndReason::Shutdown);
        exchanges.deliver(request(2));
        assert!(deliverer.join().expect("no panic"));
        assert!(driver.join().expect("no panic"));
        assert_eq!(done.all(), [1, 2]);
    });
}
