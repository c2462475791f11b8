//! Connections of HTTP clients -> their requests, and messages -> the exchange or the stream that carries them.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, unbounded_channel};
use tokio::time::sleep;

use super::connection::{Bodies, ConnectionEvent, ResponsePart, serve as serve_connection};
use crate::replay::wait_until;

/// A server that answers HTTP requests by itself, without waiting.
pub(crate) trait HttpResponder {
    /// Returns the time of the next thing to do.
    fn due(&self) -> Option<Instant>;

    /// Handles an event on a connection.
    fn take(&mut self, event: ConnectionEvent);

    /// Does everything that is due.
    fn run(&mut self);
}

/// Accepts connections and passes their requests to the responder, until `stop` is ready.
pub(crate) async fn respond(
    listener: TcpListener,
    max_body: usize,
    responder: &mut impl HttpResponder,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let (sender, mut receiver) = unbounded_channel();
    let mut last = 0;
    let (room, bodies) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), Bodies::default());
    let accept = async || {
        let place = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
        listener.accept().await.map(|(client, _)| (client, place))
    };
    loop {
        let due = responder.due();
        tokio::select! {
            accepted = accept() => {
                // The client has disconnected, or too many files are open at the moment.
                let Ok((client, place)) = accepted else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                last += 1;
                let serving = serve_connection(client, last, max_body, bodies.clone(), sender.clone());
                tokio::spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Some(event) = receiver.recv() => responder.take(event),
            () = wait_until(due.map(Into::into)) => responder.run(),
            () = &mut stop => break,
        }
    }
}

/// An exchange whose final response is not sent yet.
pub(crate) struct PendingExchange {
    /// The id of the exchange's session.
    pub(crate) session: String,
    pub(crate) response: Sender<ResponsePart>,
    /// The id of the session that begins with this exchange, until the id is sent to the client.
    pub(crate) new_session: Option<String>,
    pub(crate) is_stream: bool,
}

impl PendingExchange {
    /// Sends a message: as JSON if it is the only one of the response, else in a stream of events. Sends nothing if the
    /// client has disconnected.
    pub(crate) fn send(&mut self, bytes: Vec<u8>, is_last: bool) {
        if is_last && !self.is_stream {
            let _ = self.response.try_send(ResponsePart::Message(bytes, self.new_session.take()));
            return;
        }
        if !self.is_stream {
            self.is_stream = true;
            let _ = self.response.try_send(ResponsePart::EventsHead(self.new_session.take()));
        }
        let _ = self.response.try_send(ResponsePart::Event(bytes));
        if is_last {
            let _ = self.response.try_send(ResponsePart::EventsEnd);
        }
    }
}

/// The stream of a session for messages that belong to no request.
#[derive(Default)]
pub(crate) struct SessionStream {
    /// The open stream.
    listener: Option<Sender<ResponsePart>>,
    /// Messages that are kept while no stream is open.
    undelivered: VecDeque<Vec<u8>>,
}

impl SessionStream {
    /// Opens the stream, and sends the messages that were kept for it.
    pub(crate) fn open(&mut self, response: &Sender<ResponsePart>) {
        let _ = response.try_send(ResponsePart::EventsHead(None));
        for message in self.undelivered.drain(..) {
            let _ = response.try_send(ResponsePart::Event(message));
        }
        self.listener = Some(response.clone());
    }

    pub(crate) fn send(&mut self, bytes: Vec<u8>) {
        self.listener.take_if(|listener| listener.is_closed());
        if let Some(listener) = &self.listener {
            let _ = listener.try_send(ResponsePart::Event(bytes));
        } else if self.undelivered.len() < MAX_UNDELIVERED {
            self.undelivered.push_back(bytes);
        }
    }
}

/// The maximum number of connections, as for a tap. Further clients wait until another connection ends.
const MAX_CONNECTIONS: usize = 1000;

/// The maximum number of messages that are kept for a client without an open stream.
const MAX_UNDELIVERED: usize = 10_000;
