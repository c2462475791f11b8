//! The commands of the queue -> what is written: our calls, notifications, answers of tasks; and the time limits of our calls.

use barewire_proto::rpc::{Id, Params, write};
use barewire_proto::session::{self, BatchId, CallId, Effect, SessionEvent};

use super::in_flight::{PendingCall, RunningRequest};
use super::{Dispatcher, EndRequest};
use crate::peer::outlet::{Exchange, Outlet, Sent};
use crate::peer::queue::{Ask, Command, Entry};
use crate::peer::{CallError, ConnectionEnd};

impl<O: Outlet> Dispatcher<O> {
    /// Carries out the commands in the queue.
    pub(in crate::peer) fn take_commands(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let mut commands = std::mem::take(&mut self.commands);
        self.queue.take(&mut commands);
        for command in commands.drain(..) {
            self.command(command);
        }
        self.commands = commands;
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Ask { ask, permits } => {
                let exchange = ask.exchange;
                let asked = self.ask(ask, None);
                self.send_own(exchange, permits, asked, |asked, out| {
                    asked.write(out);
                    Sent::Call(Some(asked.call))
                });
            }
            Command::Batch { entries, permits } => {
                let array = self.ask_batch(entries);
                self.send_own(Exchange::NONE, permits, array, |array, out| {
                    out.extend_from_slice(array);
                    Sent::Call(None)
                });
            }
            Command::Notify { message, permits, about } => {
                // Notifications about a request are dropped once it is answered or cancelled.
                let exchange = about.as_ref().map_or(Exchange::NONE, |about| about.exchange);
                let message = Some(message).filter(|_| about.is_none_or(|about| !about.is_over()));
                self.send_own(exchange, permits, message, |message, out| {
                    out.extend_from_slice(message);
                    Sent::Notification
                });
            }
            Command::Answered { ticket, message, code } => {
                let Some(running) = self.in_flight.running.remove(&ticket) else { return };
                let RunningRequest { incoming, reply, destination, .. } = running;
                incoming.finish();
                let Some(id) = reply.id() else { return };
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&message);
                    Sent::Answer(code)
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

    /// Sends a message of ours, if there is one. If not, the permits are given back now: no write will do so.
    fn send_own<T>(
        &mut self,
        exchange: Exchange,
        permits: usize,
        message: Option<T>,
        write: impl FnOnce(&T, &mut Vec<u8>) -> Sent,
    ) {
        match message {
            Some(message) => {
                self.send(exchange.into(), |out| write(&message, out));
                self.output.holds(permits);
            }
            None => self.queue.room.add_permits(permits),
        }
    }

    /// Enters a request of ours; `None` if it is not to be sent.
    fn ask(&mut self, ask: Ask, batch: Option<BatchId>) -> Option<OutgoingRequest> {
        let Ask { method, params, patience, progress, quiet, exchange, id, answer } = ask;
        if answer.is_closed() {
            return None;
        }
        let now = self.timing.session_now();
        let Effect::SendRequest(call) = self.session.step(SessionEvent::StartCall { now, timeout: patience, batch })
        else {
            let stray = self.opening.stray();
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

    /// Enters the requests of a batch of ours, and writes the array; `None` if nothing of it is to be sent.
    fn ask_batch(&mut self, entries: Vec<Entry>) -> Option<Vec<u8>> {
        let batch = Some(BatchId(self.batches.next_number().0));
        let mut array = Vec::new();
        for entry in entries {
            let comma = if array.is_empty() { b'[' } else { b',' };
            match entry {
                Entry::Call(ask) => {
                    let Some(asked) = self.ask(ask, batch) else { continue };
                    array.push(comma);
                    asked.write(&mut array);
                }
                Entry::Notification(message) => {
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

    /// Gives up a call of ours: tells its caller why, and the peer that no answer is needed.
    fn abandon_call(&mut self, call: CallId, why: Option<CallError>) {
        let Some(pending) = self.in_flight.calls.remove(&call) else { return };
        if let Some(why) = why {
            let _ = pending.answer.send(Err(why));
        }
        if pending.quiet {
            return self.output.forget(call);
        }
        let cancel = self.conventions.cancel;
        self.send(pending.exchange.into(), |out| {
            session::write_cancel(&cancel, out, call);
            Sent::Cancel(call)
        });
    }

    /// Ends the calls that have waited long enough.
    pub(in crate::peer) fn tick(&mut self) {
        let now = self.timing.session_now();
        while let Effect::TimedOut(call) = self.session.step(SessionEvent::Tick(now)) {
            self.abandon_call(call, Some(CallError::TimedOut));
        }
    }

    /// Fails a call of ours that will not be answered.
    #[cfg(feature = "http")]
    pub(in crate::peer) fn fail(&mut self, call: CallId, why: CallError) {
        self.session.step(SessionEvent::AbandonCall(call));
        self.in_flight.settle(call, Err(why));
    }
}

/// A request of ours that is to be written.
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
