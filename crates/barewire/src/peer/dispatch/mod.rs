//! One message -> what is done about it: handlers run, calls settled, answers put where they are written from.
//!
//! Nothing here reads, writes or waits. [`Driver`](super::driver::Driver) does, and calls in here for each frame and for each
//! command of the queue.

mod batch;
mod closing;
mod commands;
mod handlers;
mod received;

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use barewire_proto::frame::Frame;
use barewire_proto::rpc::Reply;
use barewire_proto::session::{CallId, Conventions, Session, Settings as SessionSettings, Ticket, Tokens};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connection::Settings;
use super::context::Incoming;
use super::outlet::{Exchange, Outlet, Sent};
use super::queue::{Command, OnProgress, Queue};
use super::{CallError, ConnectionLimits, EndReason, Raw, Service, StrayOutput, Trace};
use crate::log::Log;
use batch::Group;

/// All that handling a message needs.
pub(crate) struct Dispatcher<O> {
    pub(super) session: Session,
    pub(super) output: O,
    pub(super) queue: Arc<Queue>,
    pub(super) limits: ConnectionLimits,
    service: Box<dyn Service>,
    conventions: Conventions,
    tokens: Tokens,
    answer_unreadable: bool,
    trace: Option<Arc<dyn Trace>>,
    log: Log,
    /// Who waits for the answers to our calls.
    callers: HashMap<CallId, Caller>,
    /// The tasks of requests that did not finish at their first poll.
    running: HashMap<Ticket, Running>,
    /// Requests that are in flight and not started: nothing can be written.
    parked: VecDeque<Parked>,
    notifications: Lane,
    /// A frame that cannot be taken yet. Nothing behind it is.
    pub(super) held: Option<Held>,
    groups: HashMap<u64, Group>,
    /// How many bytes their arrays have so far.
    arrays: usize,
    last_group: u64,
    /// What the last handler was given, to be used again if it is done with it.
    spare: Option<Arc<Incoming>>,
    commands: Vec<Command>,
    /// A message has come.
    heard: bool,
    stray: Option<StrayOutput>,
    /// Why nothing new is begun any more.
    pub(super) closing: Option<EndReason>,
    /// Whoever called after the other side's end, to be told how it ended.
    too_late: Vec<oneshot::Sender<Result<Raw, CallError>>>,
    /// The transport will know more of that.
    pub(super) has_ending: bool,
    /// The other side has taken nothing of what we write for a while.
    pub(super) impatient: bool,
    /// What the frames so far mean for the connection as a whole.
    pub(super) wants: Wants,
    began: Instant,
    /// When the last handler was done, or the first could begin.
    watch: std::time::Instant,
    /// When the first of these handlers could begin.
    watched: std::time::Instant,
    /// What the frame that is being handled came with.
    pub(super) exchange: Exchange,
    /// Who sent it, if the carrier knows.
    pub(super) caller: Option<AnyCaller>,
}

/// Who sent a message, as whoever carries messages knows it.
pub(crate) type AnyCaller = Arc<dyn Any + Send + Sync>;

/// Where an answer goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    exchange: Exchange,
    /// The array that it is part of.
    group: Option<u64>,
}

impl From<Exchange> for Place {
    fn from(exchange: Exchange) -> Self {
        Self { exchange, group: None }
    }
}

/// What is to become of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// Go on.
    More,
    /// Finish and end.
    Shutdown,
    /// The other side cannot be understood.
    ContentLength,
}

struct Caller {
    answer: oneshot::Sender<Result<Raw, CallError>>,
    progress: Option<OnProgress>,
    /// The other side is not told when it is given up.
    quiet: bool,
    /// What it was asked in the course of.
    exchange: Exchange,
}

struct Running {
    task: AbortHandle,
    incoming: Arc<Incoming>,
    reply: Reply<'static>,
    place: Place,
}

struct Parked {
    ticket: Ticket,
    frame: Box<[u8]>,
    place: Place,
    caller: Option<AnyCaller>,
}

pub(super) struct Held {
    offset: u64,
    pub(super) frame: Box<[u8]>,
    is_batch: bool,
}

impl Held {
    fn new(frame: Frame<'_>, is_batch: bool) -> Self {
        Self { offset: frame.offset, frame: frame.bytes.into(), is_batch }
    }
}

/// Notifications are handled one after the other.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Box<[u8]>>,
    bytes: usize,
    task: Option<AbortHandle>,
}

impl<O: Outlet> Dispatcher<O> {
    pub(super) fn new(output: O, settings: Settings, queue: Arc<Queue>) -> Self {
        let Settings { service, limits, conventions, answer_unreadable, log, trace, .. } = settings;
        let (limits, answer_unreadable) = (limits.with_room(), answer_unreadable.unwrap_or(true));
        let session = Session::new(SessionSettings {
            answer_unreadable,
            cancelled: conventions.cancel.answer,
            limits: limits.session(),
        });
        Self {
            session,
            output,
            queue,
            limits,
            service,
            conventions,
            tokens: Tokens::new(conventions.progress),
            answer_unreadable,
            trace,
            log,
            callers: HashMap::new(),
            running: HashMap::new(),
            parked: VecDeque::new(),
            notifications: Lane::default(),
            held: None,
            groups: HashMap::new(),
            arrays: 0,
            last_group: 0,
            spare: None,
            closing: None,
            too_late: Vec::new(),
            has_ending: false,
            impatient: false,
            commands: Vec::new(),
            heard: false,
            stray: None,
            wants: Wants::More,
            began: Instant::now(),
            watch: std::time::Instant::now(),
            watched: std::time::Instant::now(),
            exchange: Exchange::NONE,
            caller: None,
        }
    }

    /// The time as the session counts it.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// A time of the session's.
    pub(super) fn at(&self, time: Duration) -> Instant {
        later(self.began, time)
    }

    /// Handlers are timed from now on.
    pub(super) fn start_watch(&mut self) {
        self.watch = std::time::Instant::now();
        self.watched = self.watch;
    }

    /// For how long handlers have been running since then.
    pub(super) fn watched(&self) -> Duration {
        self.watch.duration_since(self.watched)
    }

    /// Whether no frame may be taken.
    pub(super) fn is_blocked(&self) -> bool {
        self.held.is_some() || {
            let waiting = self.output.len();
            waiting >= self.limits.hard() || (waiting >= self.limits.output && !self.must_read())
        }
    }

    /// Whether reading goes on although nothing new may be begun: while a call of ours waits, its answer may stand behind what
    /// we would rather not read.
    fn must_read(&self) -> bool {
        self.session.is_waiting() || self.is_stalled()
    }

    /// Whether both sides may be waiting for each other to read: nothing of what we write has been taken for a while, and what
    /// keeps them from it may be answers to calls that we gave up.
    fn is_stalled(&self) -> bool {
        self.impatient && self.session.expects_late()
    }

    /// Whether [`Self::start_waiting`] has something to start.
    pub(super) fn can_start(&self) -> bool {
        let lane = &self.notifications;
        (!self.parked.is_empty() && self.has_room())
            || (lane.task.is_none() && !lane.waiting.is_empty())
            || self.held.as_ref().is_some_and(|held| self.would_take(held))
    }

    /// Whether a frame that is held can be taken.
    fn would_take(&self, held: &Held) -> bool {
        let (bytes, waiting) = (held.frame.len(), self.must_read());
        self.session.would_take(bytes, self.is_stalled())
            && (waiting || (self.has_room() && !self.notifications.is_full(bytes, &self.limits)))
            && (waiting || !held.is_batch || self.has_room_for_batch(bytes))
    }

    /// Whether another batch may be begun. What has been gathered for those before counts as their requests do: a short
    /// request that waits can keep long answers to all else in its batch.
    fn has_room_for_batch(&self, bytes: usize) -> bool {
        self.arrays == 0 || self.arrays + bytes <= self.limits.request_bytes
    }

    /// Whether something new may be begun that will be answered.
    fn has_room(&self) -> bool {
        self.output.len() + self.queue.bytes() < self.limits.output
    }

    /// Whether nothing of theirs is being worked on.
    pub(super) fn is_idle(&self) -> bool {
        let lane = &self.notifications;
        let nothing_waits = self.held.is_none() && lane.task.is_none() && lane.waiting.is_empty();
        self.session.owes() == 0 && nothing_waits && self.queue.is_empty()
    }

    /// Puts something into the log that is about the connection as a whole.
    pub(super) fn report(&mut self, what: &str) {
        self.log.line(format_args!("barewire: connection {what}"));
    }

    /// Puts one message where it is written from: on the wire, or into the array that it is part of.
    #[inline]
    fn send(&mut self, place: Place, write: impl FnOnce(&mut Vec<u8>) -> Sent) {
        match place.group {
            None => self.output.send(place.exchange, write),
            Some(group) => {
                if let Some(group) = self.groups.get_mut(&group) {
                    let before = group.array.len();
                    group.entry(write);
                    self.arrays += group.array.len() - before;
                }
            }
        }
    }

    /// Where the answer to the frame goes that is being handled.
    fn here(&self) -> Place {
        self.exchange.into()
    }
}

impl Lane {
    fn is_full(&self, bytes: usize, limits: &ConnectionLimits) -> bool {
        self.bytes + bytes > limits.output && !self.waiting.is_empty()
            || self.waiting.len() >= limits.requests
    }
}

/// `time` after `from`. What no clock can hold is as good as never.
pub(crate) fn later(from: Instant, time: Duration) -> Instant {
    from.checked_add(time).unwrap_or_else(|| from + FAR)
}

/// Longer than anything runs.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
