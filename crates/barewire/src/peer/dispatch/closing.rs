//! The end -> everybody who waits is told.

use barewire_proto::frame::Frame;
use barewire_proto::rpc::{Message, Parsed, Reply, parse};
use barewire_proto::session::{Event, Refusal};

use super::{Dispatcher, Held, Place};
use crate::peer::outlet::Outlet;
use crate::peer::{CallError, ConnectionEnd, EndReason};
use crate::transport::Exit;

impl<O: Outlet> Dispatcher<O> {
    /// Nothing new is begun from now on, for this reason.
    pub(in crate::peer) fn close(&mut self, reason: EndReason) {
        self.session.step(match reason {
            EndReason::Eof => Event::Eof,
            _ => Event::Close,
        });
        self.closing.get_or_insert(reason);
        self.queue.begin_end();
    }

    /// Tells all who wait for an answer of the other side that none will come.
    pub(in crate::peer) fn fail_calls(&mut self, closed: &ConnectionEnd) {
        for (call, caller) in std::mem::take(&mut self.callers) {
            self.session.step(Event::Forget(call));
            let _ = caller.answer.send(Err(CallError::Closed(closed.clone())));
        }
        for answer in std::mem::take(&mut self.too_late) {
            let _ = answer.send(Err(CallError::Closed(closed.clone())));
        }
    }

    /// Stops the handlers that are still at it, and tells those who wait for them.
    pub(in crate::peer) fn give_up(&mut self) {
        self.stop_handlers();
        self.close(EndReason::Shutdown);
        let running = std::mem::take(&mut self.running).into_values().map(|it| (it.reply, it.place));
        let parked = std::mem::take(&mut self.parked).into_iter().filter_map(|it| {
            match parse(&it.frame, self.limits.depth) {
                Parsed::Message(Message::Request(request)) => Some((request.reply().into_owned(), it.place)),
                _ => None,
            }
        });
        let left: Vec<(Reply<'static>, Place)> = running.chain(parked).collect();
        for (reply, place) in left {
            let Some(id) = reply.id() else { continue };
            let error = Refusal::Closing.error(id);
            self.say_no(place, reply.borrow(), &error);
            if let Some(group) = place.group {
                self.close_entry(group);
            }
        }
        if let Some(Held { offset, frame, .. }) = self.held.take() {
            // Nothing is begun any more, so it is refused if it asks for something.
            self.whole(Frame { offset, bytes: &frame, event: None });
        }
    }

    /// How the connection ended, and what the other side sent if it never sent a message.
    pub(in crate::peer) fn closed(&self, reason: EndReason, exit: Option<Exit>) -> ConnectionEnd {
        ConnectionEnd::new(reason, self.stray.clone().filter(|_| !self.heard), exit)
    }

    /// It is over: everybody is told.
    pub(in crate::peer) fn finish(&mut self, reason: EndReason, exit: Option<Exit>) -> ConnectionEnd {
        let closed = self.closed(reason, exit);
        self.stop_handlers();
        // First, so that whoever is told and asks again sees that it is over.
        let left = self.queue.close(closed.clone());
        self.fail_calls(&closed);
        drop(left);
        closed
    }
}

impl<O> Dispatcher<O> {
    /// Stops all handlers.
    pub(in crate::peer) fn stop_handlers(&mut self) {
        for running in self.running.values() {
            running.incoming.cancel();
            running.task.abort();
        }
        if let Some(task) = &self.notifications.task {
            task.abort();
        }
    }
}

impl<O> Drop for Dispatcher<O> {
    /// If nobody drives the connection any more, nobody must wait for it either.
    fn drop(&mut self) {
        if self.queue.closed().is_some() {
            return;
        }
        self.stop_handlers();
        drop(self.queue.close(ConnectionEnd::new(EndReason::Abandoned, None, None)));
    }
}
