//! Injects faults into the messages of one direction: decides which bytes are written, and when.
//!
//! Without faults, bytes are relayed as they are read; with faults, they are first assembled into messages. The result
//! depends only on the seed, the order of the faults and the messages, so that it can be repeated.

mod random;
mod spec;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::rpc::{Id, Message, Parsed, parse};
use barewire_proto::transcript::{CutReason, InjectedFault, Note, Stream, Word};

use random::SeededRandom;
use spec::FaultKind;
pub use spec::FaultSpec;

/// The faults of both directions.
#[non_exhaustive]
pub struct DirectionFaults {
    /// The random seed, if there are faults.
    pub seed: Option<u64>,
    pub(crate) to_server: Option<FaultInjector>,
    pub(crate) to_client: Option<FaultInjector>,
}

/// Injects the faults of one direction.
pub struct FaultInjector {
    stream: Stream,
    specs: Vec<(FaultSpec, SeededRandom)>,
    requests: Option<Arc<Mutex<RequestMethods>>>,
    number: u64,
    /// The bytes of the unfinished line.
    partial: Vec<u8>,
    /// Whether the rest of an overlong line is being relayed unchanged.
    passing: bool,
    held: HeldFrames,
    closed: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum FaultAction {
    Note(Note),
    Write(Vec<u8>),
    Pause(Duration),
    Close,
    Kill,
}

#[derive(Default)]
struct HeldFrames {
    /// A message that will be written after the next message, and its number.
    late: Option<(u64, Vec<u8>)>,
    /// Messages that will be written together when there are `wanted` of them; `count` is their number now.
    together: Vec<u8>,
    count: usize,
    wanted: usize,
    since: Option<Instant>,
}

/// Maps the direction and id of each outstanding request to its method.
#[derive(Default)]
struct RequestMethods {
    methods: HashMap<(Stream, Id<'static>), String>,
    order: VecDeque<(Stream, Id<'static>)>,
}

impl FaultInjector {
    /// Groups faults by direction. Without a seed, a random seed is used.
    pub fn by_direction(specs: &[FaultSpec], seed: Option<u64>) -> DirectionFaults {
        if specs.is_empty() {
            return DirectionFaults { seed: None, to_server: None, to_client: None };
        }
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(Instant::now()) % 1_000_000);
        let by_method = specs.iter().any(|spec| matches!(spec.which, spec::MessageSelector::Method(_)));
        let requests = by_method.then(|| Arc::new(Mutex::new(RequestMethods::default())));
        let one = |stream: Stream| {
            let part = |index: usize| 2 * index as u64 + u64::from(stream == Stream::ToClient);
            let ours = specs.iter().enumerate().filter(|(_, spec)| spec.stream.is_none_or(|it| it == stream));
            let specs: Vec<_> =
                ours.map(|(index, spec)| (spec.clone(), SeededRandom::new(seed, part(index)))).collect();
            // A direction without faults is still read, to learn the methods of its requests.
            (!specs.is_empty() || by_method).then(|| {
                let (requests, partial, held) = (requests.clone(), Vec::new(), HeldFrames::default());
                Self { stream, specs, requests, number: 0, partial, passing: false, held, closed: false }
            })
        };
        DirectionFaults { seed: Some(seed), to_server: one(Stream::ToServer), to_client: one(Stream::ToClient) }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Vec<FaultAction> {
        let mut actions = Vec::new();
        while let Some(newline) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(newline + 1);
            bytes = rest;
            if std::mem::take(&mut self.passing) {
                actions.push(FaultAction::Write(line.to_vec()));
                continue;
            }
            let mut frame = std::mem::take(&mut self.partial);
            frame.extend_from_slice(line);
            self.frame(frame, &mut actions);
            if self.closed {
                if !bytes.is_empty() {
                    let why = CutReason::Dropped(bytes.len() as u64);
                    actions.push(FaultAction::Note(Note::Cut { stream: self.stream, why }));
                }
                actions.push(FaultAction::Close);
                return actions;
            }
        }
        self.partial.extend_from_slice(bytes);
        if self.passing || self.partial.len() > MAX_FRAME {
            self.number += u64::from(!self.passing);
            self.passing = true;
            actions.extend(self.release());
            actions.push(FaultAction::Write(std::mem::take(&mut self.partial)));
        }
        actions
    }

    /// Returns the time at which held messages must be released. Without a limit, a peer that waits for a response to
    /// a held message would send nothing more, and the message would never be released.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.since.map(|since| since + MAX_HOLD)
    }

    /// Releases held messages without waiting any longer for the next message.
    pub(crate) fn release(&mut self) -> Vec<FaultAction> {
        let mut actions = Vec::new();
        if let Some((message, _)) = self.held.late {
            actions.push(FaultAction::Note(Note::Fault(InjectedFault::ReorderUndone { stream: self.stream, message })));
        }
        actions.extend(self.held.release());
        actions
    }

    pub(crate) fn finish(&mut self) -> Vec<FaultAction> {
        let mut actions = self.release();
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            actions.push(FaultAction::Write(rest));
        }
        actions
    }

    fn frame(&mut self, mut frame: Vec<u8>, actions: &mut Vec<FaultAction>) {
        self.number += 1;
        let number = self.number;
        let method = self
            .requests
            .as_ref()
            .and_then(|requests| requests.lock().unwrap_or_else(PoisonError::into_inner).method(self.stream, &frame));
        let mut chosen: Vec<&mut (FaultSpec, SeededRandom)> = Vec::new();
        for one in &mut self.specs {
            let (spec, chance) = &mut *one;
            // Each fault has its own random numbers, and draws one for every message that it matches, so that its
            // choices do not depend on other faults.
            if spec.which.fits(number, method.as_deref()) && spec.percent.is_none_or(|percent| chance.percent(percent))
            {
                chosen.push(one);
            }
        }
        // Faults that change the content are applied before faults that change the writing.
        chosen.sort_by_key(|one| one.0.kind.step());
        let mut plan = FramePlan { before: Vec::new(), cuts: Vec::new(), pause: PIECE_PAUSE, hold: None, end: None };
        for (spec, chance) in chosen {
            let Some(detail) = plan.apply(&spec.kind, chance, &mut frame) else { continue };
            let name = Word::new(spec.name()).expect("letters and hyphens");
            let (stream, detail) = (self.stream, detail.into_bytes());
            actions.push(FaultAction::Note(Note::Fault(InjectedFault::Applied {
                stream,
                message: number,
                name,
                detail,
            })));
        }
        self.carry_out(plan, frame, actions);
    }

    fn carry_out(&mut self, plan: FramePlan, frame: Vec<u8>, actions: &mut Vec<FaultAction>) {
        let FramePlan { before, mut cuts, pause, hold, end } = plan;
        actions.extend(before);
        match hold {
            Some(Hold::Late) if self.held.late.is_none() => {
                self.held.late = Some((self.number, frame));
                self.held.since.get_or_insert_with(Instant::now);
                return;
            }
            Some(Hold::Together(count)) => self.held.wanted = self.held.wanted.max(count),
            _ => {}
        }
        if self.held.wanted > 0 && end.is_none() {
            self.held.together.extend(frame);
            self.held.count += 1;
            self.held.since.get_or_insert_with(Instant::now);
            if self.held.count >= self.held.wanted || self.held.together.len() > MAX_FRAME {
                actions.extend(self.held.release());
            }
            return;
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut from = 0;
        for cut in cuts.into_iter().filter(|cut| *cut > 0 && *cut < frame.len()) {
            actions.extend([FaultAction::Write(frame[from..cut].to_vec()), FaultAction::Pause(pause)]);
            from = cut;
        }
        if from < frame.len() {
            actions.push(FaultAction::Write(frame[from..].to_vec()));
        }
        actions.extend(self.held.release());
        if let Some(end) = end {
            self.closed = true;
            actions.extend((end == StreamEnd::Kill).then_some(FaultAction::Kill));
        }
    }
}

impl HeldFrames {
    /// Takes all held messages, in the order in which they are to be written.
    fn release(&mut self) -> Option<FaultAction> {
        let Self { late, mut together, .. } = std::mem::take(self);
        together.extend(late.map(|(_, frame)| frame).unwrap_or_default());
        (!together.is_empty()).then_some(FaultAction::Write(together))
    }
}

struct FramePlan {
    before: Vec<FaultAction>,
    /// The offsets at which the message is split into separate writes.
    cuts: Vec<usize>,
    pause: Duration,
    hold: Option<Hold>,
    end: Option<StreamEnd>,
}

/// The way in which the stream ends after a message.
#[derive(PartialEq)]
enum StreamEnd {
    Close,
    Kill,
}

enum Hold {
    Late,
    Together(usize),
}

impl FramePlan {
    /// Applies one fault. Returns the values that it used, as text, or `None` if it cannot be applied to this message.
    fn apply(&mut self, kind: &FaultKind, chance: &mut SeededRandom, frame: &mut Vec<u8>) -> Option<String> {
        // The length without the line break; 0 if the message was dropped.
        let content = frame.len().saturating_sub(1);
        match kind {
            _ if frame.is_empty() => return None,
            FaultKind::Drop => frame.clear(),
            FaultKind::Truncate { keep } => {
                if content == 0 {
                    return None;
                }
                let keep = keep.unwrap_or_else(|| chance.within(0..content));
                if keep >= content {
                    return None;
                }
                frame.drain(keep..content);
                return Some(keep.to_string());
            }
            FaultKind::Crlf if frame.ends_with(b"\r\n") => return None,
            FaultKind::Crlf => frame.insert(content, b'\r'),
            FaultKind::Bom => drop(frame.splice(0..0, *b"\xef\xbb\xbf")),
            FaultKind::Junk { line } => drop(frame.splice(0..0, line.iter().copied())),
            FaultKind::Duplicate { times } => {
                let most = (MAX_FRAME / frame.len()).max(1);
                *frame = frame.repeat((*times).min(most));
            }
            FaultKind::Delay { time } => {
                self.before.push(FaultAction::Pause(*time));
                return Some(format!("{time:?}"));
            }
            FaultKind::Split { pieces } => {
                if content < 2 {
                    return None;
                }
                let cuts: Vec<usize> = (1..*pieces).map(|_| chance.within(1..content)).collect();
                let said: Vec<String> = cuts.iter().take(20).map(usize::to_string).collect();
                self.cuts.extend(cuts);
                return Some(said.join(" "));
            }
            FaultKind::CutUtf8 => {
                let inside: Vec<usize> = (1..frame.len()).filter(|at| frame[*at] & 0xc0 == 0x80).collect();
                if inside.is_empty() {
                    return None;
                }
                let cut = inside[chance.within(0..inside.len())];
                self.cuts.push(cut);
                return Some(cut.to_string());
            }
            FaultKind::Dribble { pause } => {
                self.cuts.extend(1..frame.len());
                self.pause = *pause;
                return Some(format!("{pause:?}"));
            }
            FaultKind::Reorder => self.hold = Some(Hold::Late),
            FaultKind::Coalesce { frames } => self.hold = Some(Hold::Together(*frames)),
            FaultKind::HalfClose => self.end = Some(StreamEnd::Close),
            FaultKind::Kill => {
                frame.truncate((content / 2).max(1));
                self.end = Some(StreamEnd::Kill);
            }
        }
        Some(String::new())
    }
}

impl FaultKind {
    /// Returns the place of this fault in the order in which faults are applied: faults that drop the message, change
    /// its content, delay or hold it, end the stream, and split the writing.
    fn step(&self) -> u8 {
        match self {
            Self::Drop => 0,
            Self::Truncate { .. } => 1,
            Self::Crlf => 2,
            Self::Bom => 3,
            Self::Duplicate { .. } => 4,
            Self::Junk { .. } => 5,
            Self::Delay { .. } => 6,
            Self::Reorder | Self::Coalesce { .. } => 7,
            Self::HalfClose | Self::Kill => 8,
            Self::Split { .. } | Self::CutUtf8 | Self::Dribble { .. } => 9,
        }
    }
}

impl RequestMethods {
    /// Returns the method of a message, or of the request that it answers.
    fn method(&mut self, stream: Stream, frame: &[u8]) -> Option<String> {
        match parse(frame, usize::MAX) {
            Parsed::Message(Message::Request(request)) => {
                let method = request.method.to_name().into_owned();
                let key = (stream, request.id.into_owned());
                if self.order.len() >= MAX_OUTSTANDING
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.methods.remove(&oldest);
                }
                self.order.push_back(key.clone());
                self.methods.insert(key, method.clone());
                Some(method)
            }
            Parsed::Message(Message::Notification(notification)) => Some(notification.method.to_name().into_owned()),
            Parsed::Message(Message::Response(response)) => {
                let asker = if stream == Stream::ToServer { Stream::ToClient } else { Stream::ToServer };
                self.methods.remove(&(asker, response.id.into_owned()))
            }
            _ => None,
        }
    }
}

/// The maximum length of a line into which faults are injected. A longer line is relayed unchanged.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// The maximum number of outstanding requests whose methods are kept: more than any host has.
const MAX_OUTSTANDING: usize = 4096;

/// The pause between two pieces, long enough that the receiver reads them separately.
const PIECE_PAUSE: Duration = Duration::from_millis(2);

/// The maximum time that a message is held back to wait for the next message.
const MAX_HOLD: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests;
