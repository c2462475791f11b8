//! One message -> what is done about it: handlers run, calls settled, answers put where they are written from.
//!
//! Nothing here reads, writes or waits. [`Driver`](super::driver::Driver) does, and calls in here for each frame and for each
//! command of the queue.

use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use barewire_proto::frame::{Codec, Frame, FrameError};
use barewire_proto::rpc::{
    Batch, ErrorObject, Id, Invalid, Message, Notification, Params, Parsed, Reply, Request, Response, parse,
    write,
};
use barewire_proto::session::{
    BatchId, CallId, Conventions, Effect, Event, Refusal, Session, Settings as SessionSettings, Signal,
    Ticket, Tokens,
};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::connection::Settings;
use super::context::Incoming;
use super::methods::Table;
use super::output::Output;
use super::queue::{Ask, Command, Entry, OnProgress, Queue};
use super::work::{self, BoxedWork};
use super::{CallError, Closed, Context, Limits, Noise, Raw, Reason, Trace};
use crate::Failure;
use crate::log::{Log, quoted};

/// All that handling a message needs.
pub(super) struct Turn<C> {
    pub(super) session: Session,
    pub(super) output: Output,
    pub(super) queue: Arc<Queue>,
    pub(super) limits: Limits,
    methods: Table,
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
    held: Option<Held>,
    groups: HashMap<u64, Group>,
    last_group: u64,
    /// What the last handler was given, to be used again if it is done with it.
    spare: Option<Arc<Incoming>>,
    commands: Vec<Command>,
    /// A message has come.
    heard: bool,
    noise: Option<Noise>,
    /// Why nothing new is begun any more.
    closing: Option<Reason>,
    /// What the frames so far mean for the connection as a whole.
    pub(super) wants: Wants,
    began: Instant,
    /// When the last handler was done, or the first could begin.
    watch: std::time::Instant,
    /// When the first of these handlers could begin.
    watched: std::time::Instant,
    codec: PhantomData<fn() -> C>,
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
}

struct Running {
    task: AbortHandle,
    incoming: Arc<Incoming>,
    reply: Reply<'static>,
    group: Option<u64>,
}

struct Parked {
    ticket: Ticket,
    frame: Box<[u8]>,
    group: Option<u64>,
}

struct Held {
    offset: u64,
    frame: Box<[u8]>,
}

/// Notifications are handled one after the other.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Box<[u8]>>,
    bytes: usize,
    task: Option<AbortHandle>,
}

/// The answers to a batch, until all are there.
struct Group {
    /// The array as far as it goes.
    array: Vec<u8>,
    /// How many are missing, the batch itself counted while it is being read.
    open: usize,
    /// Whose answers are there; their ids are in flight until the array is written.
    answered: Vec<(Ticket, Id<'static>)>,
}

/// A request that is to be started.
struct Job<'a> {
    ticket: Ticket,
    request: Request<'a>,
    bytes: usize,
    group: Option<u64>,
    /// The session has it in flight already.
    deferred: bool,
}

impl<C: Codec> Turn<C> {
    pub(super) fn new(settings: Settings, queue: Arc<Queue>) -> Self {
        let Settings { methods, limits, conventions, answer_unreadable, log, trace, .. } = settings;
        let (limits, answer_unreadable) = (limits.with_room(), answer_unreadable.unwrap_or(true));
        let session = Session::new(SessionSettings {
            answer_unreadable,
            cancelled: conventions.cancel.answer,
            limits: limits.session(),
        });
        Self {
            session,
            output: Output::default(),
            queue,
            limits,
            methods: methods.finish(),
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
            last_group: 0,
            spare: None,
            closing: None,
            commands: Vec::new(),
            heard: false,
            noise: None,
            wants: Wants::More,
            began: Instant::now(),
            watch: std::time::Instant::now(),
            watched: std::time::Instant::now(),
            codec: PhantomData,
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
            // While a call of ours waits, its answer may stand behind what we would rather not read.
            waiting >= self.limits.hard() || (waiting >= self.limits.output && !self.session.is_waiting())
        }
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
        let (bytes, waiting) = (held.frame.len(), self.session.is_waiting());
        self.session.would_take(bytes)
            && (waiting || (self.has_room() && !self.notifications.is_full(bytes, &self.limits)))
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

    // ── What came ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// Handles one frame.
    pub(super) fn frame(&mut self, frame: Result<Frame<'_>, FrameError>) {
        match frame {
            Ok(frame) => self.whole(frame),
            Err(error) => {
                let begins = match &error {
                    FrameError::TooLong(long) => &long.begins[..],
                    _ => b"",
                };
                self.invalid(error.offset(), begins, &Invalid::from_frame(&error), None);
                self.note(error.offset(), begins);
            }
        }
    }

    #[inline]
    fn whole(&mut self, frame: Frame<'_>) {
        match parse(frame.bytes, self.limits.depth) {
            Parsed::Message(message) => {
                self.heard = true;
                self.message(frame, message);
            }
            Parsed::Batch(batch) => {
                self.heard = true;
                self.batch(frame, batch);
            }
            Parsed::Invalid(invalid) => {
                self.invalid(frame.offset, frame.bytes, &invalid, None);
                self.note(frame.offset, frame.bytes);
            }
        }
    }

    #[inline]
    fn message(&mut self, frame: Frame<'_>, message: Message<'_>) {
        match message {
            Message::Request(request) => self.request(frame, request),
            Message::Notification(notification) => {
                if !self.notification(notification, frame) {
                    self.held = Some(Held { offset: frame.offset, frame: frame.bytes.into() });
                }
            }
            Message::Response(response) => self.response(frame, response),
            Message::OrphanError(error) => self.log.frame(
                frame.offset,
                frame.bytes,
                format_args!("the peer reports an error, code {}", error.code),
            ),
        }
    }

    #[inline]
    fn request(&mut self, frame: Frame<'_>, request: Request<'_>) {
        let bytes = frame.bytes.len();
        let room = self.parked.is_empty() && self.has_room();
        match self.session.step(Event::Request { id: &request.id, bytes, room }) {
            Effect::Start(ticket) => {
                self.start(Job { ticket, request, bytes, group: None, deferred: false });
            }
            Effect::Park(ticket) => {
                self.parked.push_back(Parked { ticket, frame: frame.bytes.into(), group: None });
            }
            Effect::Hold => self.held = Some(Held { offset: frame.offset, frame: frame.bytes.into() }),
            Effect::Refuse(refusal) => self.refuse(&request, refusal, None),
            effect => unreachable!("{effect:?} does not follow from a request"),
        }
    }

    fn refuse(&mut self, request: &Request<'_>, refusal: Refusal, group: Option<u64>) {
        let error = refusal.error(&request.id);
        let reply = match refusal {
            Refusal::Duplicate => request.reply().unnamed(),
            _ => request.reply(),
        };
        self.send(group, |out| reply.error(out, &error));
    }

    /// Refuses what is no message, or tells the caller whose answer it should have been.
    fn invalid(&mut self, offset: u64, bytes: &[u8], invalid: &Invalid<'_>, group: Option<u64>) {
        self.log.refused(offset, bytes, invalid);
        self.judge(invalid, group);
    }

    fn judge(&mut self, invalid: &Invalid<'_>, group: Option<u64>) {
        match self.session.step(Event::Invalid(invalid)) {
            Effect::Reject => {
                if let Some(reply) = invalid.reply() {
                    self.send(group, |out| reply.error(out, &invalid.error()));
                }
            }
            Effect::Fault(call) => self.settle(call, Err(CallError::Fault(invalid.to_string()))),
            _ => {}
        }
    }

    /// Keeps what the other side began with, if that was no message.
    fn note(&mut self, offset: u64, bytes: &[u8]) {
        if self.heard || self.noise.is_some() {
            return;
        }
        self.noise = Some(Noise { offset, begins: quoted(bytes) });
        let header = bytes.get(..CONTENT_LENGTH.len());
        if !self.answer_unreadable && header.is_some_and(|it| it.eq_ignore_ascii_case(CONTENT_LENGTH)) {
            self.wants = Wants::ContentLength;
        }
    }

    fn response(&mut self, frame: Frame<'_>, response: Response<'_>) {
        match self.session.step(Event::Response(&response.id)) {
            Effect::Settle(call) => {
                let outcome = match response.outcome {
                    Ok(result) => Ok(Raw::new(result)),
                    Err(error) => Err(CallError::Refused(error.to_owned())),
                };
                self.settle(call, outcome);
            }
            Effect::Late => {}
            _ => {
                let kind = if response.outcome.is_ok() { "result" } else { "error" };
                self.log.frame(
                    frame.offset,
                    frame.bytes,
                    format_args!("{kind} of no request that waits for one"),
                );
            }
        }
    }

    fn settle(&mut self, call: CallId, outcome: Result<Raw, CallError>) {
        if let Some(caller) = self.callers.remove(&call) {
            // Who has dropped the call in the meantime does not want to know.
            let _ = caller.answer.send(outcome);
        }
    }

    /// Handles a notification; `false` if it has to wait and nothing behind it may be taken.
    fn notification(&mut self, notification: Notification<'_>, frame: Frame<'_>) -> bool {
        match self.conventions.signal(&notification) {
            Signal::Cancel(id) => {
                self.cancelled(&id);
                return true;
            }
            Signal::Stray => {
                self.log.frame(frame.offset, frame.bytes, "cancels something, but does not say what");
                return true;
            }
            Signal::Progress(call) if self.callers.contains_key(&call) => {
                self.progress(call, notification.params);
                return true;
            }
            Signal::Progress(_) | Signal::None => {}
        }
        let lane = &self.notifications;
        if lane.task.is_none() && lane.waiting.is_empty() {
            self.notified(notification);
            return true;
        }
        let bytes = frame.bytes.len();
        match (lane.is_full(bytes, &self.limits), self.session.is_waiting()) {
            (false, _) => {
                self.notifications.bytes += bytes;
                self.notifications.waiting.push_back(frame.bytes.into());
                true
            }
            (true, false) => false,
            (true, true) => {
                let what = "dropped: too many notifications wait to be handled, and so does an answer to us";
                self.log.frame(frame.offset, frame.bytes, what);
                true
            }
        }
    }

    fn progress(&mut self, call: CallId, params: Option<Params<'_>>) {
        let now = self.now();
        self.session.step(Event::Progress { call, now });
        if let Some(Caller { progress: Some(OnProgress(tell)), .. }) = self.callers.get_mut(&call)
            && let Some(params) = params
        {
            let value = Raw::new(self.conventions.progress.value(params.json()));
            if let Err(panic) = Failure::catch(|| tell(value)) {
                self.log.failed(self.conventions.progress.method, &panic);
            }
        }
    }

    /// They no longer want an answer: the session forgets the id, then the handler is told, then it is dropped.
    fn cancelled(&mut self, id: &Id<'_>) {
        let Effect::Cancel { ticket, answer } = self.session.step(Event::Cancelled(id)) else { return };
        let (reply, group) = if let Some(running) = self.running.remove(&ticket) {
            running.incoming.cancel();
            running.task.abort();
            (running.reply, running.group)
        } else if let Some(at) = self.parked.iter().position(|parked| parked.ticket == ticket)
            && let Some(parked) = self.parked.remove(at)
            && let Parsed::Message(Message::Request(request)) = parse(&parked.frame, self.limits.depth)
        {
            (request.reply().into_owned(), parked.group)
        } else {
            // Its answer is there, in an array that is not complete.
            return;
        };
        if let Some(code) = answer {
            self.send(group, |out| reply.error(out, &ErrorObject::standard(code)));
        }
        if let Some(group) = group {
            self.close_entry(group);
        }
    }

    fn batch(&mut self, frame: Frame<'_>, batch: Batch<'_>) {
        let Some(most) = self.limits.batch else {
            for (index, invalid) in batch.refusals().enumerate() {
                match index {
                    0 => self.invalid(frame.offset, frame.bytes, &invalid, None),
                    _ => self.judge(&invalid, None),
                }
            }
            return;
        };
        if let Some(invalid) = batch.over(most) {
            return self.invalid(frame.offset, frame.bytes, &invalid, None);
        }
        self.last_group += 1;
        let group = self.last_group;
        self.groups.insert(group, Group { array: Vec::new(), open: 1, answered: Vec::new() });
        self.session.step(Event::StartOfBatch);
        let mut logged = false;
        for (element, bytes) in batch.elements().zip(batch.texts()) {
            let frame = Frame { bytes, ..frame };
            match element {
                Ok(Message::Request(request)) => self.element(request, bytes, group),
                // What cannot wait because it is part of a batch is dropped: nobody waits for it.
                Ok(Message::Notification(notification)) => {
                    if !self.notification(notification, frame) {
                        let what =
                            "dropped: too many notifications wait to be handled, and it is part of a batch";
                        self.log.frame(frame.offset, bytes, what);
                    }
                }
                Ok(message) => self.message(frame, message),
                // A bad frame is logged once, however much of it is bad.
                Err(invalid) if std::mem::replace(&mut logged, true) => self.judge(&invalid, Some(group)),
                Err(invalid) => self.invalid(frame.offset, bytes, &invalid, Some(group)),
            }
        }
        while let Effect::Missing(call) = self.session.step(Event::EndOfBatch) {
            self.settle(call, Err(CallError::Missing));
        }
        self.close_entry(group);
    }

    fn element(&mut self, request: Request<'_>, text: &[u8], group: u64) {
        let bytes = text.len();
        let room = self.parked.is_empty() && self.has_room();
        let open = |turn: &mut Self| {
            if let Some(group) = turn.groups.get_mut(&group) {
                group.open += 1;
            }
        };
        match self.session.step(Event::Request { id: &request.id, bytes, room }) {
            Effect::Start(ticket) => {
                open(self);
                // Its answer is not written before those of the others: until then its id is in flight.
                self.session.step(Event::Defer { ticket, id: &request.id, bytes });
                self.start(Job { ticket, request, bytes, group: Some(group), deferred: true });
            }
            Effect::Park(ticket) => {
                open(self);
                self.parked.push_back(Parked { ticket, frame: text.into(), group: Some(group) });
            }
            Effect::Refuse(refusal) => self.refuse(&request, refusal, Some(group)),
            // The rest of the batch is here already, so there is nothing to be held back.
            _ => self.refuse(&request, Refusal::Busy, Some(group)),
        }
    }

    // ── Handlers ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// Starts the handler of a message and runs it up to its first wait.
    fn begin(&mut self, method: &str, id: Option<&Id<'_>>, params: Option<Params<'_>>) -> Begun {
        let Some(handler) = self.methods.find(method) else {
            return Begun::Done(Err(Failure::method_not_found()));
        };
        let span = match id {
            Some(id) => tracing::info_span!("request", method, id = id.as_str()),
            None => tracing::info_span!("notification", method),
        };
        let traced = match &self.trace {
            Some(trace) => Failure::catch(|| trace.incoming(&span, method, params)),
            None => Ok(()),
        };
        let progress = self.conventions.progress;
        let mut incoming = self.spare.take().unwrap_or_else(|| Arc::new(Incoming::new(progress)));
        incoming = Incoming::of(incoming, method, id, self.tokens.find(params));
        let context = Context::new(Arc::clone(&incoming), Arc::clone(&self.queue));
        let entered = span.enter();
        let started = traced.and_then(|()| Failure::catch(|| handler.start(context, params))?);
        let polled = started.map(|mut work| {
            let polled = work::poll(&mut work, &mut std::task::Context::from_waker(Waker::noop()));
            (polled, work)
        });
        drop(entered);
        self.check_watch(method);
        match polled {
            Ok((Poll::Pending, work)) => Begun::Waits { work, span, incoming },
            Ok((Poll::Ready(done), work)) => {
                self.spare = Some(incoming);
                Begun::Done(work::keep(done, work))
            }
            Err(failure) => {
                self.spare = Some(incoming);
                Begun::Done(Err(failure))
            }
        }
    }

    /// Handles a request. If its handler is done at once the answer is written; if not it becomes a task.
    fn start(&mut self, job: Job<'_>) {
        let Job { ticket, ref request, bytes, group, deferred } = job;
        let method = request.method.to_name();
        match self.begin(&method, Some(&request.id), request.params) {
            Begun::Done(done) => {
                // What it sent while it ran goes out first.
                self.take_commands();
                if deferred && group.is_none() {
                    self.session.step(Event::Answer { ticket, id: &request.id });
                }
                let mut failed = None;
                let write = |out: &mut Vec<u8>| failed = work::answer(done, request.reply(), &method, out);
                match group {
                    None => C::encode(self.output.next(), write),
                    Some(number) => {
                        if let Some(group) = self.groups.get_mut(&number) {
                            group.entry(write);
                            group.answered.push((ticket, request.id.clone().into_owned()));
                        }
                        self.close_entry(number);
                    }
                }
                if let Some(failure) = failed {
                    self.log.failed(&method, &failure);
                }
            }
            Begun::Waits { work, span, incoming } => {
                if !deferred {
                    self.session.step(Event::Defer { ticket, id: &request.id, bytes });
                }
                let reply = request.reply().into_owned();
                let (queue, answer_to) = (Arc::clone(&self.queue), reply.borrow().into_owned());
                let method = method.into_owned();
                let task = async move {
                    let done = work::run(work).await;
                    let mut message = Vec::new();
                    let failure = work::answer(done, answer_to, &method, &mut message);
                    // If they cannot be told, the connection is over and nobody asks.
                    if let Some(failure) = failure {
                        let _ = queue.push(Command::Failed { method, failure });
                    }
                    let _ = queue.push(Command::Answered { ticket, message });
                };
                let task = tokio::spawn(task.instrument(span)).abort_handle();
                self.running.insert(ticket, Running { task, incoming, reply, group });
            }
        }
    }

    /// Handles a notification. If its handler is not done at once, those behind it wait.
    fn notified(&mut self, notification: Notification<'_>) {
        let method = notification.method.to_name();
        match self.begin(&method, None, notification.params) {
            Begun::Done(done) => {
                if let Some(failure) = work::finish(done) {
                    self.log.failed(&method, &failure);
                }
            }
            Begun::Waits { work, span, .. } => {
                let (queue, method) = (Arc::clone(&self.queue), method.into_owned());
                let task = async move {
                    if let Some(failure) = work::finish(work::run(work).await) {
                        let _ = queue.push(Command::Failed { method, failure });
                    }
                    let _ = queue.push(Command::Handled);
                };
                self.notifications.task = Some(tokio::spawn(task.instrument(span)).abort_handle());
            }
        }
    }

    /// Says so if a handler has kept everything else waiting.
    fn check_watch(&mut self, method: &str) {
        let now = std::time::Instant::now();
        let took = now.duration_since(self.watch);
        self.watch = now;
        if took > LONG {
            let method = quoted(method.as_bytes());
            self.log.line(format_args!(
                "barewire: handler of {method} ran for {} ms without waiting, and everything else waited for it: \
                 .blocking() gives it a thread",
                took.as_millis()
            ));
        }
    }

    /// Starts what could not be started before.
    pub(super) fn start_waiting(&mut self) {
        if !self.can_start() {
            return;
        }
        self.start_watch();
        while !self.parked.is_empty() && self.has_room() {
            let Some(Parked { ticket, frame, group }) = self.parked.pop_front() else { break };
            if let Parsed::Message(Message::Request(request)) = parse(&frame, self.limits.depth) {
                let bytes = frame.len();
                self.session.step(Event::Defer { ticket, id: &request.id, bytes });
                self.start(Job { ticket, request, bytes, group, deferred: true });
            }
        }
        while self.notifications.task.is_none()
            && let Some(frame) = self.notifications.waiting.pop_front()
        {
            self.notifications.bytes -= frame.len();
            if let Parsed::Message(Message::Notification(notification)) = parse(&frame, self.limits.depth) {
                self.notified(notification);
            }
        }
        // After those, because it came after them.
        if let Some(held) = &self.held
            && self.would_take(held)
            && let Some(Held { offset, frame }) = self.held.take()
        {
            self.whole(Frame { offset, bytes: &frame, event: None });
        }
    }

    // ── What we want ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Does what others have put into the queue.
    pub(super) fn take_commands(&mut self) {
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
                        if let Some(group) = self.groups.get_mut(&number) {
                            group.answered.push((ticket, id.borrow().into_owned()));
                        }
                        self.close_entry(number);
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
            let closing = Closed::new(self.closing.clone().unwrap_or(Reason::Shutdown), None, None);
            let _ = answer.send(Err(CallError::Closed(closing)));
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
    pub(super) fn tick(&mut self) {
        let now = self.now();
        while let Effect::TimedOut(call) = self.session.step(Event::Tick(now)) {
            self.settle(call, Err(CallError::TimedOut));
            self.tell(call);
        }
    }

    // ── What goes out ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Puts one message where it is written from: on the wire, or into the array that it is part of.
    fn send(&mut self, group: Option<u64>, write: impl FnOnce(&mut Vec<u8>)) {
        match group {
            None => C::encode(self.output.next(), write),
            Some(group) => {
                if let Some(group) = self.groups.get_mut(&group) {
                    group.entry(write);
                }
            }
        }
    }

    /// One of the answers to a batch is there, or will not come. With the last of them the array goes out, unless it is
    /// empty: nobody in it waited for an answer.
    fn close_entry(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        group.open -= 1;
        if group.open > 0 {
            return;
        }
        let Some(Group { mut array, answered, .. }) = self.groups.remove(&number) else { return };
        for (ticket, id) in &answered {
            self.session.step(Event::Answer { ticket: *ticket, id });
        }
        if !array.is_empty() {
            array.push(b']');
            self.send(None, |out| out.extend_from_slice(&array));
        }
    }

    // ── The end ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Nothing new is begun from now on, for this reason.
    pub(super) fn close(&mut self, reason: Reason) {
        self.session.step(match reason {
            Reason::Eof => Event::Eof,
            _ => Event::Close,
        });
        self.closing.get_or_insert(reason);
    }

    /// Tells all who wait for an answer of the other side that none will come.
    pub(super) fn fail_calls(&mut self, closed: &Closed) {
        for (call, caller) in std::mem::take(&mut self.callers) {
            self.session.step(Event::Forget(call));
            let _ = caller.answer.send(Err(CallError::Closed(closed.clone())));
        }
    }

    /// Stops all handlers.
    pub(super) fn stop_handlers(&mut self) {
        for running in self.running.values() {
            running.incoming.cancel();
            running.task.abort();
        }
        if let Some(task) = &self.notifications.task {
            task.abort();
        }
    }

    /// Stops the handlers that are still at it, and tells those who wait for them.
    pub(super) fn give_up(&mut self) {
        self.stop_handlers();
        self.close(Reason::Shutdown);
        if let Some(Held { offset, frame }) = self.held.take() {
            // Nothing is begun any more, so it is refused if it asks for something.
            self.whole(Frame { offset, bytes: &frame, event: None });
        }
        let running = std::mem::take(&mut self.running).into_values().map(|it| (it.reply, it.group));
        let parked = std::mem::take(&mut self.parked).into_iter().filter_map(|it| {
            match parse(&it.frame, self.limits.depth) {
                Parsed::Message(Message::Request(request)) => Some((request.reply().into_owned(), it.group)),
                _ => None,
            }
        });
        let left: Vec<(Reply<'static>, Option<u64>)> = running.chain(parked).collect();
        for (reply, group) in left {
            let Some(id) = reply.id() else { continue };
            let error = Refusal::Closing.error(id);
            self.send(group, |out| reply.borrow().error(out, &error));
            if let Some(group) = group {
                self.close_entry(group);
            }
        }
    }

    /// How the connection ended, and what the other side sent if it never sent a message.
    pub(super) fn closed(&self, reason: Reason, exit: Option<crate::transport::Exit>) -> Closed {
        Closed::new(reason, self.noise.clone().filter(|_| !self.heard), exit)
    }

    /// It is over: everybody is told.
    pub(super) fn finish(&mut self, reason: Reason, exit: Option<crate::transport::Exit>) -> Closed {
        let closed = self.closed(reason, exit);
        self.stop_handlers();
        self.fail_calls(&closed);
        drop(self.queue.close(closed.clone()));
        closed
    }
}

impl<C> Drop for Turn<C> {
    /// If nobody drives the connection any more, nobody must wait for it either.
    fn drop(&mut self) {
        if self.queue.closed().is_some() {
            return;
        }
        for running in self.running.values() {
            running.incoming.cancel();
            running.task.abort();
        }
        if let Some(task) = &self.notifications.task {
            task.abort();
        }
        drop(self.queue.close(Closed::new(Reason::Abandoned, None, None)));
    }
}

/// A handler after its first poll.
enum Begun {
    Done(Result<BoxedWork, Failure>),
    Waits { work: BoxedWork, span: Span, incoming: Arc<Incoming> },
}

impl Lane {
    fn is_full(&self, bytes: usize, limits: &Limits) -> bool {
        self.bytes + bytes > limits.output && !self.waiting.is_empty()
            || self.waiting.len() >= limits.requests
    }
}

impl Group {
    /// Adds an element to the array.
    fn entry(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.array.push(if self.array.is_empty() { b'[' } else { b',' });
        write(&mut self.array);
    }
}

/// `time` after `from`. What no clock can hold is as good as never.
pub(super) fn later(from: Instant, time: Duration) -> Instant {
    from.checked_add(time).unwrap_or_else(|| from + FAR)
}

/// Longer than anything runs.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// What the other framing begins with.
const CONTENT_LENGTH: &[u8] = b"content-length:";

/// A handler that runs longer without waiting keeps everything else on its connection waiting for a time that people
/// notice.
const LONG: Duration = Duration::from_millis(10);
