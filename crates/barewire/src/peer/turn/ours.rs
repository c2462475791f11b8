//! What we want -> what is written: calls, notifications, answers of tasks, and the time our calls have.

use barewire_proto::frame::Codec;
use barewire_proto::rpc::{Params, write};
use barewire_proto::session::{BatchId, CallId, Effect, Event};

use super::{Caller, Running, Turn, Wants};
use crate::peer::queue::{Ask, Command, Entry};
use crate::peer::{CallError, Raw, Reason};

impl<C: Codec> Turn<C> {
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
            Command::Ask(ask) => {
                let mut message = Vec::new();
                let permits = ask.permits;
                if self.ask(ask, None, &mut message) {
                    self.send(None, |out| out.extend_from_slice(&message));
                    self.output.holds(permits);
                } else {
                    // Nothing of it will be written, so nothing else would give them back.
                    self.queue.room.add_permits(permits);
                }
            }
            Command::Batch(entries) => self.ask_batch(entries),
            Command::Notify { message, permits } => {
                self.send(None, |out| out.extend_from_slice(&message));
                self.output.holds(permits);
            }
            Command::Answered { ticket, message } => {
                let Some(Running { reply, group, .. }) = self.running.remove(&ticket) else { return };
                let Some(id) = reply.id() else { return };
                match group {
                    None => {
                        if self.session.step(Event::Answer { ticket, id }) == Effect::Answer {
                            self.send(None, |out| out.extend_from_slice(&message));
                        }
                    }
                    Some(number) => {
                        self.send(group, |out| out.extend_from_slice(&message));
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
                    self.callers.remove(&call);
                    self.tell(call);
                }
            }
            Command::Shutdown => {
                if self.wants == Wants::More {
                    self.wants = Wants::Shutdown;
                }
            }
        }
    }

    /// Writes a request of ours; `false` if it is not sent.
    fn ask(&mut self, ask: Ask, batch: Option<BatchId>, out: &mut Vec<u8>) -> bool {
        let Ask { method, params, patience, progress, id, answer, .. } = ask;
        if answer.is_closed() {
            return false;
        }
        let now = self.now();
        let Effect::Asked(call) = self.session.step(Event::Ask { now, patience, batch }) else {
            match self.closing.clone().unwrap_or(Reason::Shutdown) {
                // There is more to learn of the other side's end, and whoever asks wants to know it.
                Reason::Eof | Reason::Write(_) if self.has_ending => self.too_late.push(answer),
                reason => {
                    let _ = answer.send(Err(CallError::Closed(self.closed(reason, None))));
                }
            }
            return false;
        };
        let _ = id.set(call);
        let wire_id = call.id();
        let params = match &progress {
            Some(_) => crate::params::with(params.as_deref(), |params| {
                self.conventions.progress.ask(params.map(Params::json), &wire_id)
            })
            .or(params),
            None => params,
        };
        crate::params::with(params.as_deref(), |params| write::request(out, &wire_id, &method, params));
        self.callers.insert(call, Caller { answer, progress });
        true
    }

    fn ask_batch(&mut self, entries: Vec<Entry>) {
        self.last_group += 1;
        let batch = Some(BatchId(self.last_group));
        let (mut array, mut held) = (Vec::new(), 0);
        for entry in entries {
            let before = array.len();
            array.push(if before == 0 { b'[' } else { b',' });
            let sent = match entry {
                Entry::Call(ask) => {
                    held += ask.permits;
                    self.ask(ask, batch, &mut array)
                }
                Entry::Notification { message, permits } => {
                    held += permits;
                    array.extend_from_slice(&message);
                    true
                }
            };
            if !sent {
                array.truncate(before);
            }
        }
        if array.is_empty() {
            self.queue.room.add_permits(held);
            return;
        }
        array.push(b']');
        self.send(None, |out| out.extend_from_slice(&array));
        self.output.holds(held);
    }

    /// Tells the other side that we no longer wait for this one.
    fn tell(&mut self, call: CallId) {
        let cancel = self.conventions.cancel;
        self.send(None, |out| cancel.write(out, call));
    }

    /// Ends the calls that have waited long enough.
    pub(in crate::peer) fn tick(&mut self) {
        let now = self.now();
        while let Effect::TimedOut(call) = self.session.step(Event::Tick(now)) {
            self.settle(call, Err(CallError::TimedOut));
            self.tell(call);
        }
    }

    pub(super) fn settle(&mut self, call: CallId, outcome: Result<Raw, CallError>) {
        if let Some(caller) = self.callers.remove(&call) {
            // Who has dropped the call in the meantime does not want to know.
            let _ = caller.answer.send(outcome);
        }
    }
}
