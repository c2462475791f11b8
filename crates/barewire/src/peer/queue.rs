//! The queue of commands for the driver of a connection.

use std::mem;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::rpc::{Code, Params};
use barewire_proto::session::{CallId, CallTimeout, Ticket};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::context::IncomingMessage;
use super::outlet::Exchange;
use super::{CallError, ConnectionEnd, ConnectionLimits, EndReason, Raw, Trace};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{self, Mutex, MutexGuard};

/// The state that the driver of a connection shares with handlers and callers.
pub(super) struct Queue {
    state: Mutex<QueueState>,
    /// Permits, one for each byte that this side's own calls and notifications can still add to the output.
    pub(super) room: Semaphore,
    /// The number of permits of `room` when no output is pending.
    pub(super) own_share: usize,
    /// The maximum number of elements in a batch that this side sends.
    pub(super) batch_limit: usize,
    closed: sync::OnceLock<ConnectionEnd>,
    ended_notify: Notify,
    /// Whether the connection is closing, so that no new work is started.
    closing: AtomicBool,
    closing_notify: Notify,
    trace: Option<Arc<dyn Trace>>,
}

#[derive(Debug, Default)]
struct QueueState {
    commands: Vec<Command>,
    /// The total size of the answers among the commands, in bytes. The answers will be written, so they count as
    /// output.
    bytes: usize,
    driver_waker: Option<Waker>,
    closed: bool,
}

/// The error of [`Queue::push`]: the connection has ended, so no command is accepted.
#[derive(Debug)]
pub(super) struct QueueClosed;

/// A command for the driver.
#[derive(Debug)]
pub(super) enum Command {
    /// Send a call.
    Call { call: NewCall, permits: usize },
    /// Send several calls and notifications in one array.
    Batch { entries: Vec<BatchEntry>, permits: usize },
    /// Send a serialized notification. `about` is the request that the notification is about, if any.
    Notify { message: Vec<u8>, permits: usize, about: Option<Arc<IncomingMessage>> },
    /// Send the answer of a request's handler. `code` is the error code, if the handler failed.
    Answered { ticket: Ticket, message: Vec<u8>, code: Option<Code> },
    /// The handler of a notification has finished.
    Handled,
    /// Log the failure of a handler.
    Failed { method: String, failure: crate::Failure },
    /// Abandon a call, because its caller no longer waits.
    Forget(Arc<OnceLock<CallId>>),
    /// Close the stream of an HTTP exchange. The peer reconnects after `retry`.
    HangUp { exchange: Exchange, retry: Duration },
    /// Finish the work in flight and end the connection.
    Shutdown,
}

/// A call to send.
#[derive(Debug)]
pub(super) struct NewCall {
    pub(super) method: String,
    pub(super) params: Option<String>,
    pub(super) patience: CallTimeout,
    pub(super) progress: Option<OnProgress>,
    /// Whether no cancellation is sent to the peer when the call is abandoned.
    pub(super) quiet: bool,
    /// The HTTP exchange over whose stream the call is sent.
    pub(super) exchange: Exchange,
    /// Set when the call gets its id. The call can then be abandoned.
    pub(super) id: Arc<OnceLock<CallId>>,
    pub(super) answer: oneshot::Sender<Result<Raw, CallError>>,
}

/// The callback for the progress of a call.
pub(super) struct OnProgress(pub(super) Box<dyn FnMut(Raw) + Send>);

impl std::fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnProgress")
    }
}

/// One element of a batch that this side sends.
#[derive(Debug)]
pub(super) enum BatchEntry {
    Call(NewCall),
    /// A serialized notification.
    Notification(Vec<u8>),
}

impl Queue {
    pub(super) fn new(limits: &ConnectionLimits, trace: Option<Arc<dyn Trace>>) -> Self {
        let own_share = limits.own_share();
        let batch_limit = limits.batch.or(ConnectionLimits::default().batch).unwrap_or(usize::MAX);
        Self {
            state: Mutex::default(),
            room: Semaphore::new(own_share),
            own_share,
            batch_limit,
            closed: sync::OnceLock::new(),
            ended_notify: Notify::new(),
            closing: AtomicBool::new(false),
            closing_notify: Notify::new(),
            trace,
        }
    }

    /// Adds trace context to the params of an outgoing message, if there is a [`Trace`].
    pub(super) fn with_trace_context(&self, method: &str, params: Option<String>) -> Option<String> {
        let Some(trace) = &self.trace else { return params };
        match trace.outgoing(method, params.clone()) {
            Some(traced) if Json::parse(traced.as_bytes()).ok().and_then(Params::from_json).is_some() => Some(traced),
            // Params must be an object or an array, so any other value that `outgoing` returns is ignored.
            _ => params,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A poisoned lock is safe to use: no code that can panic runs while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command and wakes the driver.
    pub(super) fn push(&self, command: Command) -> Result<(), QueueClosed> {
        let mut state = self.lock();
        if state.closed {
            return Err(QueueClosed);
        }
        if let Command::Answered { message, .. } = &command {
            state.bytes += message.len();
        }
        state.commands.push(command);
        let driver = state.driver_waker.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }

    /// Wakes the driver without adding a command.
    #[cfg(feature = "http")]
    pub(super) fn wake(&self) {
        let driver = self.lock().driver_waker.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Registers the task of `context` as the driver, which later commands wake.
    #[cfg(feature = "http")]
    pub(super) fn register(&self, context: &mut Context<'_>) {
        match &mut self.lock().driver_waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }

    /// Moves the queued commands into `commands`, which must be empty.
    pub(super) fn take(&self, commands: &mut Vec<Command>) {
        let mut state = self.lock();
        state.bytes = 0;
        mem::swap(&mut state.commands, commands);
    }

    /// Whether there are no commands.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().commands.is_empty()
    }

    /// The total size of the answers in the queue, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Returns `Ready` if there are commands. Otherwise the next command wakes the task of `context`.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.commands.is_empty() {
            return Poll::Ready(());
        }
        match &state.driver_waker {
            Some(waker) if waker.will_wake(context.waker()) => {}
            _ => state.driver_waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until there is room for `bytes` more bytes of output. Returns the number of permits that were taken.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<usize, ConnectionEnd> {
        // A message larger than `own_share` takes all permits, so no other message is pending at the same time.
        let permits = bytes.clamp(1, self.own_share);
        let wanted = u32::try_from(permits).expect("`own_share` fits into 32 bits");
        match self.room.acquire_many(wanted).await {
            Ok(room) => {
                room.forget();
                Ok(permits)
            }
            // The semaphore is closed, because nothing can be written any more. The reason is known after the
            // connection has ended.
            Err(_) => Err(self.ended().await),
        }
    }

    /// Marks the connection as closing, and wakes all tasks that wait in [`Self::closing`].
    pub(super) fn begin_end(&self) {
        self.closing.store(true, Ordering::Release);
        self.closing_notify.notify_waiters();
    }

    /// Waits until the connection is closing.
    pub(super) async fn closing(&self) {
        loop {
            let notified = self.closing_notify.notified();
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            notified.await;
        }
    }

    /// Ends the connection: refuses further commands, and wakes all waiting tasks. Returns the remaining commands.
    pub(super) fn close(&self, closed: ConnectionEnd) -> Vec<Command> {
        let _ = self.closed.set(closed);
        let mut state = self.lock();
        state.closed = true;
        state.bytes = 0;
        let (left, driver) = (mem::take(&mut state.commands), state.driver_waker.take());
        drop(state);
        // The driver is woken, because another task might have called this function.
        if let Some(driver) = driver {
            driver.wake();
        }
        self.room.close();
        self.begin_end();
        self.ended_notify.notify_waiters();
        left
    }

    /// Returns how the connection ended; `None` while it is open.
    pub(super) fn closed(&self) -> Option<&ConnectionEnd> {
        self.closed.get()
    }

    /// Returns how the connection ended, or [`EndReason::Shutdown`] if the connection has not ended yet.
    pub(super) fn end(&self) -> ConnectionEnd {
        self.closed().cloned().unwrap_or_else(|| ConnectionEnd::new(EndReason::Shutdown, None, None))
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) -> ConnectionEnd {
        loop {
            let notified = self.ended_notify.notified();
            if let Some(closed) = self.closed() {
                return closed.clone();
            }
            notified.await;
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("closed", &self.closed()).finish_non_exhaustive()
    }
}
