//! What everybody but the driver wants done, in the order they said so.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use barewire_proto::json::Json;
use barewire_proto::rpc::{Code, Params};
use barewire_proto::session::{CallId, CallTimeout, Ticket};
use tokio::sync::{Notify, Semaphore, oneshot};

use super::context::Incoming;
use super::outlet::Exchange;
use super::{CallError, ConnectionEnd, ConnectionLimits, EndReason, Raw, Trace};

/// What is shared between the driver of a connection and all who use it.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// A permit for each byte that we may still have waiting, of what we send by ourselves.
    pub(super) room: Semaphore,
    /// How many permits there are when nothing waits.
    pub(super) share: usize,
    /// How many elements a batch of ours may have.
    pub(super) batch: usize,
    closed: OnceLock<ConnectionEnd>,
    ended: Notify,
    /// Nothing new is begun any more.
    closing: AtomicBool,
    told: Notify,
    trace: Option<Arc<dyn Trace>>,
}

#[derive(Debug, Default)]
struct Inner {
    commands: Vec<Command>,
    /// Bytes of answers among them: they will be written, so they count as waiting.
    bytes: usize,
    driver: Option<Waker>,
    over: bool,
}

/// There is no driver any more.
#[derive(Debug)]
pub(super) struct Over;

/// Something to be done by the driver.
#[derive(Debug)]
pub(super) enum Command {
    /// Ask, and tell the slot how it went.
    Ask { ask: Ask, permits: usize },
    /// Ask several things in one array, with notifications among them.
    Batch { entries: Vec<Entry>, permits: usize },
    /// Send a notification, written already: about a request that is being handled, or about none.
    Notify { message: Vec<u8>, permits: usize, about: Option<Arc<Incoming>> },
    /// A request's handler has finished, with an error of this code if it failed.
    Answered { ticket: Ticket, message: Vec<u8>, code: Option<Code> },
    /// A notification's handler has finished.
    Handled,
    /// A handler failed, and the log should say why.
    Failed { method: String, failure: crate::Failure },
    /// Nobody waits for this call any more.
    Forget(Arc<OnceLock<CallId>>),
    /// Close what carries the exchange; the other side takes it up again after this time.
    HangUp { exchange: Exchange, retry: Duration },
    /// Finish what is in flight and end.
    Shutdown,
}

/// A call that is to be made.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) params: Option<String>,
    pub(super) patience: CallTimeout,
    pub(super) progress: Option<OnProgress>,
    /// The other side is not told when nobody waits for it any more.
    pub(super) quiet: bool,
    /// What it is asked in the course of.
    pub(super) exchange: Exchange,
    /// Is told the id, so that the call can be forgotten.
    pub(super) id: Arc<OnceLock<CallId>>,
    pub(super) answer: oneshot::Sender<Result<Raw, CallError>>,
}

/// What is done with the progress of a call.
pub(super) struct OnProgress(pub(super) Box<dyn FnMut(Raw) + Send>);

impl std::fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnProgress")
    }
}

/// One element of a batch of ours.
#[derive(Debug)]
pub(super) enum Entry {
    Call(Ask),
    /// Written already.
    Notification(Vec<u8>),
}

impl Queue {
    pub(super) fn new(limits: &ConnectionLimits, trace: Option<Arc<dyn Trace>>) -> Self {
        let share = limits.own_share();
        let batch = limits.batch.or(ConnectionLimits::default().batch).unwrap_or(usize::MAX);
        Self {
            inner: Mutex::default(),
            room: Semaphore::new(share),
            share,
            batch,
            closed: OnceLock::new(),
            ended: Notify::new(),
            closing: AtomicBool::new(false),
            told: Notify::new(),
            trace,
        }
    }

    /// What the params of something we send become: with trace context, if there is any.
    pub(super) fn traced(&self, method: &str, params: Option<String>) -> Option<String> {
        let Some(trace) = &self.trace else { return params };
        match trace.outgoing(method, params.clone()) {
            Some(traced) if Json::parse(traced.as_bytes()).ok().and_then(Params::from_json).is_some() => Some(traced),
            // What is no object and no array cannot be sent.
            _ => params,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic runs with the lock held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something into the queue and wakes the driver.
    pub(super) fn push(&self, command: Command) -> Result<(), Over> {
        let mut inner = self.lock();
        if inner.over {
            return Err(Over);
        }
        if let Command::Answered { message, .. } = &command {
            inner.bytes += message.len();
        }
        inner.commands.push(command);
        let driver = inner.driver.take();
        drop(inner);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }

    /// Wakes the driver, for what is not in the queue.
    #[cfg(feature = "http")]
    pub(super) fn wake(&self) {
        let driver = self.lock().driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Wakes this one for whatever is put in from now on.
    #[cfg(feature = "http")]
    pub(super) fn register(&self, context: &mut Context<'_>) {
        match &mut self.lock().driver {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }

    /// Takes all there is, in exchange for an empty list.
    pub(super) fn take(&self, commands: &mut Vec<Command>) {
        let mut inner = self.lock();
        inner.bytes = 0;
        mem::swap(&mut inner.commands, commands);
    }

    /// Whether there is something to take.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().commands.is_empty()
    }

    /// How many bytes of answers wait here.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Ready when there is something to take.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if !inner.commands.is_empty() {
            return Poll::Ready(());
        }
        match &inner.driver {
            Some(waker) if waker.will_wake(context.waker()) => {}
            _ => inner.driver = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits until `bytes` more may wait to be written; gives how many permits that took.
    pub(super) async fn reserve(&self, bytes: usize) -> Result<usize, ConnectionEnd> {
        // What is larger than all there is takes all there is, and goes alone.
        let permits = bytes.clamp(1, self.share);
        let wanted = u32::try_from(permits).expect("the share fits into 32 bits");
        match self.room.acquire_many(wanted).await {
            Ok(room) => {
                room.forget();
                Ok(permits)
            }
            // Nothing can be written any more, and the connection is about to end: then it is known why.
            Err(_) => Err(self.ended().await),
        }
    }

    /// From now on only what is in flight is finished: those who would go on for ever are told.
    pub(super) fn begin_end(&self) {
        self.closing.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// Waits until only what is in flight is finished.
    pub(super) async fn closing(&self) {
        loop {
            let told = self.told.notified();
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            told.await;
        }
    }

    /// The connection is over: nothing is taken any more, and everybody who waits is told.
    pub(super) fn close(&self, closed: ConnectionEnd) -> Vec<Command> {
        let _ = self.closed.set(closed);
        let mut inner = self.lock();
        inner.over = true;
        inner.bytes = 0;
        let (left, driver) = (mem::take(&mut inner.commands), inner.driver.take());
        drop(inner);
        // It may not be the driver who closes it.
        if let Some(driver) = driver {
            driver.wake();
        }
        self.room.close();
        self.begin_end();
        self.ended.notify_waiters();
        left
    }

    /// Why the connection is over, if it is.
    pub(super) fn closed(&self) -> Option<&ConnectionEnd> {
        self.closed.get()
    }

    /// Why something could not be done.
    pub(super) fn why(&self) -> ConnectionEnd {
        self.closed().cloned().unwrap_or_else(|| ConnectionEnd::new(EndReason::Shutdown, None, None))
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) -> ConnectionEnd {
        loop {
            let ended = self.ended.notified();
            if let Some(closed) = self.closed() {
                return closed.clone();
            }
            ended.await;
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("closed", &self.closed()).finish_non_exhaustive()
    }
}
