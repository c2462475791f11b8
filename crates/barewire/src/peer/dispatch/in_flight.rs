//! The work in flight: our calls that wait for an answer, and messages from the peer that wait for a handler or are
//! being handled.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use barewire_proto::frame::Frame;
use barewire_proto::mcp::ParsedMessage;
use barewire_proto::rpc::{Parsed, ParsedFrame, Reply};
use barewire_proto::session::{CallId, Ticket};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{AnyCaller, Destination};
use crate::peer::context::IncomingMessage;
use crate::peer::outlet::Exchange;
use crate::peer::queue::OnProgress;
use crate::peer::{CallError, ConnectionLimits, Raw};

/// The work in flight of a connection.
#[derive(Default)]
pub(super) struct InFlight {
    /// The calls of ours that wait for an answer, by id.
    pub(super) calls: HashMap<CallId, PendingCall>,
    /// The requests whose handler did not finish at its first poll, by ticket.
    pub(super) running: HashMap<Ticket, RunningRequest>,
    /// The requests that are accepted but not started yet, because too much output is pending, in the order of arrival.
    pub(super) parked: VecDeque<ParkedRequest>,
    pub(super) notifications: NotificationQueue,
    /// A frame that cannot be handled yet. Later frames wait until it is handled.
    pub(super) held: Option<HeldFrame>,
}

/// A call of ours that is not answered yet.
pub(super) struct PendingCall {
    pub(super) answer: oneshot::Sender<Result<Raw, CallError>>,
    pub(super) progress: Option<OnProgress>,
    /// Whether no cancellation is sent to the peer when the call is abandoned.
    pub(super) quiet: bool,
    /// The HTTP exchange over whose stream the call was sent.
    pub(super) exchange: Exchange,
}

/// A request whose handler has become a task.
pub(super) struct RunningRequest {
    pub(super) task: AbortHandle,
    pub(super) incoming: Arc<IncomingMessage>,
    pub(super) reply: Reply<'static>,
    pub(super) destination: Destination,
}

/// A request that waits to be started.
pub(super) struct ParkedRequest {
    pub(super) ticket: Ticket,
    pub(super) message: ParsedMessage<Box<[u8]>>,
    pub(super) destination: Destination,
    pub(super) caller: Option<AnyCaller>,
}

/// A frame that waits to be handled.
pub(super) struct HeldFrame {
    offset: u64,
    kept: ParsedFrame<Box<[u8]>>,
    pub(super) is_batch: bool,
}

impl HeldFrame {
    /// Copies a frame that has been parsed.
    pub(super) fn new(frame: Frame<'_>, parsed: &Parsed<'_>) -> Self {
        let is_batch = matches!(parsed, Parsed::Batch(_));
        Self { offset: frame.offset, kept: ParsedFrame::copy(frame.bytes, parsed), is_batch }
    }

    /// The number of bytes of the frame.
    pub(super) fn len(&self) -> usize {
        self.kept.bytes().len()
    }

    pub(super) fn frame(&self) -> Frame<'_> {
        Frame::new(self.offset, self.kept.bytes())
    }

    pub(super) fn parsed(&self) -> Parsed<'_> {
        self.kept.parsed()
    }
}

/// The notifications that wait until the handler of an earlier notification has finished: notifications are handled one
/// after the other.
#[derive(Default)]
pub(super) struct NotificationQueue {
    waiting: VecDeque<WaitingNotification>,
    /// The total size of the waiting notifications, in bytes.
    bytes: usize,
    /// The task of the handler that the notifications wait for.
    task: Option<AbortHandle>,
}

/// A notification that waits for the handler of an earlier one.
pub(super) struct WaitingNotification {
    pub(super) frame: ParsedFrame<Box<[u8]>>,
    pub(super) caller: Option<AnyCaller>,
}

impl InFlight {
    /// Sends the outcome to the caller of `call`, if the call is still pending.
    pub(super) fn settle(&mut self, call: CallId, outcome: Result<Raw, CallError>) {
        if let Some(pending) = self.calls.remove(&call) {
            // The caller may have dropped the call in the meantime.
            let _ = pending.answer.send(outcome);
        }
    }

    /// Whether a message of the peer waits, or a notification is being handled.
    pub(super) fn has_waiting(&self) -> bool {
        self.held.is_some() || !self.notifications.is_idle()
    }

    /// Cancels all handlers that have become tasks.
    pub(super) fn stop_handlers(&mut self) {
        for running in self.running.values() {
            running.stop();
        }
        if let Some(task) = &self.notifications.task {
            task.abort();
        }
    }
}

impl RunningRequest {
    /// Marks the request as cancelled, and drops its handler.
    pub(super) fn stop(&self) {
        self.incoming.cancel();
        self.task.abort();
    }
}

impl NotificationQueue {
    /// Whether the next notification can be handled immediately.
    pub(super) fn is_idle(&self) -> bool {
        self.task.is_none() && self.waiting.is_empty()
    }

    /// Whether a notification waits and no notification is being handled.
    pub(super) fn can_start(&self) -> bool {
        self.task.is_none() && !self.waiting.is_empty()
    }

    /// Whether there is no room for another notification of `bytes` bytes.
    pub(super) fn is_full(&self, bytes: usize, limits: &ConnectionLimits) -> bool {
        self.bytes + bytes > limits.output && !self.waiting.is_empty() || self.waiting.len() >= limits.requests
    }

    /// Adds a notification at the end of the queue.
    pub(super) fn push(&mut self, notification: WaitingNotification) {
        self.bytes += notification.frame.bytes().len();
        self.waiting.push_back(notification);
    }

    /// Takes the next notification to handle; `None` while another notification is being handled.
    pub(super) fn next(&mut self) -> Option<WaitingNotification> {
        if self.task.is_some() {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.bytes -= next.frame.bytes().len();
        Some(next)
    }

    /// Records that the handler of a notification has become a task. Later notifications wait for this task.
    pub(super) fn started(&mut self, task: AbortHandle) {
        self.task = Some(task);
    }

    /// Records that the handler of a notification has finished.
    pub(super) fn finished(&mut self) {
        self.task = None;
    }
}
