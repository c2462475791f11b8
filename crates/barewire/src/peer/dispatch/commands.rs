//! What we want -> what is written: calls, notifications, answers of tasks, and the time our calls have.

use barewire_proto::rpc::{Id, Params, write};
use barewire_proto::session::{BatchId, CallId, Effect, Event};

use super::{Caller, Dispatcher, Running, Wants};
use crate::peer::outlet::{Exchange, Outlet, Sent};
use crate::peer::queue::{Ask, Command, Entry};
use crate::peer::{CallError, EndReason, Raw};

impl<O: Outlet> Dispatcher<O> {
    /// Does what others have put into the queue.
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
                self.send_ours(exchange, permits, asked, |asked, out| {
                    asked.write(out);
                    Sent::Call(Some(asked.call))
                });
            }
            Command::Batch { entries, permits } => {
                let array = self.ask_batch(entries);
                self.send_ours(Exchange::NONE, permits, array, |array, out| {
                    out.extend_from_slice(array);
                    Sent::Call(None)
                });
            }
            Command::Notify { message, permits, about } => {
                // Of a request that is answered or cancelled, nothing more is said.
                let exchange = about.as_ref().map_or(Exchange::NONE, |about| about.exchange);
                let message = Some(message).filter(|_| about.is_none_or(|about| !about.is_over()));
                self.send_ours(exchange, permits, message, |message, out| {
                    out.extend_from_slice(message);
                    Sent::Notification
                });
            }
            Command::Answered { ticket, message, code } => {
                let Some(Running { incoming, reply, place, .. }) = self.running.remove(&ticket) else {
                    return;
                };
                incoming.finish();
                let Some(id) = reply.id() else { return };
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(&message);
                    Sent::Answer(code)
                };
                match place.group {
                    None => {
                        if self.session.step(Event::Answer { ticket, id }) == Effect::Answer {
                            self.send(place, write);
                        }
                    }
                    Some(number) => {
                        self.send(place, write);
                        self.answered(number, ticket, id);
                    }
                }
            }
            Command::Handled => self.notifications.task = None,
            Command::Failed { method, failure } => self.log.failed(&method, &failure),
            Command::Forget(id) => {
                if let Some(call) = id.get()
                    && let Effect::Tell(call) = self.session.step(Event::Forget(*call))
                {
                    self.given_up(call, None);
                }
            }
            Command::HangUp { exchange, retry } => self.output.hang_up(exchange, retry),
            Command::Shutdown => {
                if self.wants == Wants::More {
                    self.wants = Wants::Shutdown;
                }
            }
        }
    }

    /// Sends something of ours, if there is something. If not, nothing will be written that gives the permits back.
    fn send_ours<T>(
        &mut self,
        exchange: Exchange,
        permits: usize,
        what: Option<T>,
        write: impl FnOnce(&T, &mut Vec<u8>) -> Sent,
    ) {
        match what {
            Some(what) => {
                self.send(exchange.into(), |out| write(&what, out));
                self.output.holds(permits);
            }
            None => self.queue.room.add_permits(permits),
        }
    }

    /// Enters a request of ours; `None` if it is not to be sent.
    fn ask(&mut self, ask: Ask, batch: Option<BatchId>) -> Option<Asked> {
        let Ask { method, params, patience, progress, quiet, exchange, id, answer } = ask;
        if answer.is_closed() {
            return None;
        }
        let now = self.now();
        let Effect::Asked(call) = self.session.step(Event::Ask { now, patience, batch }) else {
            match self.closing.clone().unwrap_or(EndReason::Shutdown) {
                // There is more to learn of the other side's end, and whoever asks wants to know it.
                EndReason::Eof | EndReason::Write(_) if self.has_ending => self.too_late.push(answer),
                reason => {
                    let _ = answer.send(Err(CallError::Closed(self.closed(reason, None))));
                }
            }
            return None;
        };
        let _ = id.set(call);
        let id = call.id();
        let params = match &progress {
            Some(_) => crate::params::with(params.as_deref(), |params| {
                self.conventions.progress.ask(params.map(Params::json), &id)
            })
            .or(params),
            None => params,
        };
        self.callers.insert(call, Caller { answer, progress, quiet, exchange });
        Some(Asked { call, id, method, params })
    }

    /// Enters the requests of a batch of ours, and writes the array; `None` if nothing of it is to be sent.
    fn ask_batch(&mut self, entries: Vec<Entry>) -> Option<Vec<u8>> {
        self.last_group += 1;
        let batch = Some(BatchId(self.last_group));
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

    /// We no longer wait for this one: tells its caller why, and the other side.
    fn given_up(&mut self, call: CallId, why: Option<CallError>) {
        let Some(caller) = self.callers.remove(&call) else { return };
        if let Some(why) = why {
            let _ = caller.answer.send(Err(why));
        }
        if caller.quiet {
            return self.output.forget(call);
        }
        let cancel = self.conventions.cancel;
        self.send(caller.exchange.into(), |out| {
            cancel.write(out, call);
            Sent::Cancel(call)
        });
    }

    /// Ends the calls that have waited long enough.
    pub(in crate::peer) fn tick(&mut self) {
        let now = self.now();
        while let Effect::TimedOut(call) = self.session.step(Event::Tick(now)) {
            self.given_up(call, Some(CallError::TimedOut));
        }
    }

    /// A call of ours will not be answered.
    #[cfg(feature = "http")]
    pub(in crate::peer) fn fail(&mut self, call: CallId, why: CallError) {
        self.session.step(Event::Forget(call));
        self.settle(call, Err(why));
    }

    pub(super) fn settle(&mut self, call: CallId, outcome: Result<Raw, CallError>) {
        if let Some(caller) = self.callers.remove(&call) {
            // Who has dropped the call in the meantime does not want to know.
            let _ = caller.answer.send(outcome);
        }
    }
}

/// A request of ours that is to be written.
struct Asked {
    call: CallId,
    id: Id<'static>,
    method: String,
    params: Option<String>,
}

impl Asked {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { id, method, params, .. } = self;
        crate::params::with(params.as_deref(), |params| write::request(out, id, method, params));
    }
}
