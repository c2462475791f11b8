//! Executes the commands of the queue, which send messages: our calls, notifications, and answers of handlers that
//! became tasks. Also handles the timeouts of our calls.

use barewire_proto::rpc::{Id, Params, write};
use barewire_proto::session::{self, BatchId, CallId, Effect, SessionEvent};

use super::in_flight::{PendingCall, RunningRequest};
use super::{Dispatcher, EndRequest};
use crate::peer::outlet::{Exchange, MessageKind, Outlet};
use crate::peer::queue::{BatchEntry, Command, NewCall};
use crate::peer::{CallError, ConnectionEnd};

impl<O: Outlet> Dispatcher<O> {
    /// Executes the commands in the queue.
    pub(in crate::peer) fn take_commands(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let mut commands = std::mem::take(&mut self.commands);
        self.queue.take(&mut commands);
        for command in commands.drain(..) {
            self.run_command(command);
        }
        self.commands = commands;
    }

    fn run_command(&mut self, command: Command) {
        match command {
            Command::Call { call, permits } => {
                let exchange = call.exchange;
                let request = self.register_call(call, None);
                self.send_own(exchange, permits, request, |request, out| {
                    request.write(out);
                    MessageKind::Call(Some(request.call))
                });
            }
            Command::Batch { entries, permits } => {
                let array = self.register_batch(entries);
                self.send_own(Exchange::NONE, permits, array, |array, out| {
                    out.extend_from_slice(array);
                    MessageKind::Call(None)
                });
            }
            Command::Notify { message, permits, about } => {
                // Notifications about a request are dropped after the request is answered or cancelled.
                let exchange = about.as_ref().map_or(Exchange::NONE, |about| about.exchange);
                let message = Some(message).filter(|_| about.is_none_or(|about| !about.is_finished()));
                self.send_own(exchange, permits, message, |message, out| {
                    out.extend_from_slice(message);
                    MessageKind::Notification
                });
            }
            Command::Answered { ticket, message, code } => {
                let Some(running) = self.in_flight.running.remove(&ticket) else { return };
                let RunningRequest { incoming, reply, destination, .. } = running;
                incoming.finish();
                let Some(id) = reply.id() else { return };
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&message);
                    MessageKind::Answer(code)
                };
                match destination.batch {
                    None => {
                        if self.session.step(SessionEvent::Answer { ticket, id }) == Effect::Answer {
                            self.send(destination, write);
                        }
                    }
                    Some(number) => {
                        self.send(destination, write);
                        self.batch_element_answered(number, ticket, id);
                    }
                }
            }
            Command::Handled => self.in_flight.notifications.finished(),
            Command::Failed { method, failure } => self.log.failed(&method, &failure),
            Command::Forget(id) => {
                if let Some(call) = id.get()
                    && let Effect::SendCancel(call) = self.session.step(SessionEvent::AbandonCall(*call))
                {
                    self.abandon_call(call, None);
                }
            }
            Command::HangUp { exchange, retry } => self.output.hang_up(exchange, retry),
            Command::Shutdown => self.closing.request(EndRequest::Shutdown),
        }
    }

    /// Sends a message of ours, if there is one. If there is none, returns the permits immediately, because no write
    /// will return them.
    fn send_own<T>(
        &mut self,
        exchange: Exchange,
        permits: usize,
        message: Option<T>,
        write: impl FnOnce(&T, &mut Vec<u8>) -> MessageKind,
    ) {
        match message {
            Some(message) => {
                self.send(exchange.into(), |out| write(&message, out));
                self.output.hold_permits(permits);
            }
            None => self.queue.room.add_permits(permits),
        }
    }

    /// Registers a call of ours as pending, and returns the request to write; `None` if the caller has dropped the call
    /// or the connection is closing.
    fn register_call(&mut self, call: NewCall, batch: Option<BatchId>) -> Option<OutgoingRequest> {
        let NewCall { method, params, patience, progress, quiet, exchange, id, answer } = call;
        if answer.is_closed() {
            return None;
        }
        let now = self.timing.session_now();
        let Effect::SendRequest(call) = self.session.step(SessionEvent::StartCall { now, timeout: patience, batch })
        else {
            let stray = self.first_output.stray();
            self.closing.refuse_call(answer, |reason| ConnectionEnd::new(reason, stray, None));
            return None;
        };
        let _ = id.set(call);
        let id = call.id();
        let params = match &progress {
            Some(_) => crate::params::with(params.as_deref(), |params| {
                session::with_progress_token(&self.conventions.progress, params.map(Params::json), &id)
            })
            .or(params),
            None => params,
        };
        self.in_flight.calls.insert(call, PendingCall { answer, progress, quiet, exchange });
        Some(OutgoingRequest { call, id, method, params })
    }

    /// Registers the calls of a batch of ours, and returns the array to write; `None` if the array would be empty.
    fn register_batch(&mut self, entries: Vec<BatchEntry>) -> Option<Vec<u8>> {
        let batch = Some(BatchId(self.batches.next_number().0));
        let mut array = Vec::new();
        for entry in entries {
            let comma = if array.is_empty() { b'[' } else { b',' };
            match entry {
                BatchEntry::Call(call) => {
                    let Some(request) = self.register_call(call, batch) else { continue };
                    array.push(comma);
                    request.write(&mut array);
                }
                BatchEntry::Notification(message) => {
                    array.push(comma);
                    array.extend_from_slice(&message);
                }
            }
        }
        if array.is_empty() {
            return None;
        }
        array.push(b']');
        Some(array)
    }

    /// Abandons a call of ours: fails it with `error`, and sends a cancellation to the peer unless the call is quiet.
    fn abandon_call(&mut self, call: CallId, error: Option<CallError>) {
        let Some(pending) = self.in_flight.calls.remove(&call) else { return };
        if let Some(error) = error {
            let _ = pending.answer.send(Err(error));
        }
        if pending.quiet {
            return self.output.forget_call(call);
        }
        let cancel = self.conventions.cancel;
        self.send(pending.exchange.into(), |out| {
            session::write_cancel(&cancel, out, call);
            MessageKind::Cancel(call)
        });
    }

    /// Fails the calls whose timeout has passed.
    pub(in crate::peer) fn tick(&mut self) {
        let now = self.timing.session_now();
        while let Effect::TimedOut(call) = self.session.step(SessionEvent::Tick(now)) {
            self.abandon_call(call, Some(CallError::TimedOut));
        }
    }

    /// Fails a call of ours that will get no answer.
    #[cfg(feature = "http")]
    pub(in crate::peer) fn fail(&mut self, call: CallId, error: CallError) {
        self.session.step(SessionEvent::AbandonCall(call));
        self.in_flight.settle(call, Err(error));
    }
}

/// A request of ours, ready to be written.
struct OutgoingRequest {
    call: CallId,
    id: Id<'static>,
    method: String,
    params: Option<String>,
}

impl OutgoingRequest {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { id, method, params, .. } = self;
        crate::params::with(params.as_deref(), |params| write::request(out, id, method, params));
    }
}
