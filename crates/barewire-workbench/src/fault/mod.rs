//! Messages of one direction -> what is written instead, and when: faults, as they were ordered.
//!
//! Only here are messages put together before they are passed on. What is done depends on the seed, the order and the bytes of one
//! direction, and on nothing else, so that it comes out the same again.

mod chance;
mod spec;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barewire_proto::rpc::{Id, Message, Parsed, parse};
use barewire_proto::transcript::{CutReason, InjectedFault, Note, Stream, Word};

use chance::Chance;
use spec::Kind;
pub use spec::Spec;

/// The faults of both directions.
#[non_exhaustive]
pub struct Ordered {
    /// The seed of what is left to chance, if there are faults.
    pub seed: Option<u64>,
    pub(crate) to_server: Option<Faults>,
    pub(crate) to_client: Option<Faults>,
}

/// The faults of one direction.
pub struct Faults {
    stream: Stream,
    specs: Vec<(Spec, Chance)>,
    asked: Option<Arc<Mutex<Asked>>>,
    /// How many messages there were.
    number: u64,
    /// The unfinished line.
    partial: Vec<u8>,
    /// In the middle of a line that is too long to be put together.
    passing: bool,
    held: Held,
    closed: bool,
}

/// What one direction has to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Act {
    /// Write this down.
    Note(Note),
    Write(Vec<u8>),
    Pause(Duration),
    Close,
    /// The program.
    Kill,
}

/// What was held back.
#[derive(Default)]
struct Held {
    /// For the message behind it; and its number.
    late: Option<(u64, Vec<u8>)>,
    /// To be written at once with those behind it, so many in all.
    together: Vec<u8>,
    count: usize,
    wanted: usize,
    since: Option<Instant>,
}

/// Which request is to be answered under an id, by the direction it went in.
#[derive(Default)]
struct Asked {
    methods: HashMap<(Stream, Id<'static>), String>,
    order: VecDeque<(Stream, Id<'static>)>,
}

impl Faults {
    /// Sorts faults by direction. Without a seed there is one by chance.
    pub fn ordered(specs: &[Spec], seed: Option<u64>) -> Ordered {
        if specs.is_empty() {
            return Ordered { seed: None, to_server: None, to_client: None };
        }
        let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(Instant::now()) % 1_000_000);
        let by_method = specs.iter().any(|spec| matches!(spec.which, spec::Which::Method(_)));
        let asked = by_method.then(|| Arc::new(Mutex::new(Asked::default())));
        let one = |stream: Stream| {
            let part = |index: usize| 2 * index as u64 + u64::from(stream == Stream::ToClient);
            let ours = specs.iter().enumerate().filter(|(_, spec)| spec.stream.is_none_or(|it| it == stream));
            let specs: Vec<_> = ours.map(|(index, spec)| (spec.clone(), Chance::new(seed, part(index)))).collect();
            // Also a direction without faults says which methods were asked for.
            (!specs.is_empty() || by_method).then(|| Self {
                stream,
                specs,
                asked: asked.clone(),
                number: 0,
                partial: Vec::new(),
                passing: false,
                held: Held::default(),
                closed: false,
            })
        };
        Ordered { seed: Some(seed), to_server: one(Stream::ToServer), to_client: one(Stream::ToClient) }
    }

    /// Takes what was read.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Vec<Act> {
        let mut acts = Vec::new();
        while let Some(newline) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(newline + 1);
            bytes = rest;
            if std::mem::take(&mut self.passing) {
                acts.push(Act::Write(line.to_vec()));
                continue;
            }
            let mut frame = std::mem::take(&mut self.partial);
            frame.extend_from_slice(line);
            self.frame(frame, &mut acts);
            if self.closed {
                if !bytes.is_empty() {
                    let why = CutReason::Dropped(bytes.len() as u64);
                    acts.push(Act::Note(Note::Cut { stream: self.stream, why }));
                }
                acts.push(Act::Close);
                return acts;
            }
        }
        self.partial.extend_from_slice(bytes);
        if self.passing || self.partial.len() > MOST_FRAME {
            self.number += u64::from(!self.passing);
            self.passing = true;
            acts.extend(self.release());
            acts.push(Act::Write(std::mem::take(&mut self.partial)));
        }
        acts
    }

    /// When what is held back is passed on in any case: who waits for an answer asks nothing more.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.since.map(|since| since + PATIENCE)
    }

    /// Passes on what is held back, although what it was held back for has not come.
    pub(crate) fn release(&mut self) -> Vec<Act> {
        let mut acts = Vec::new();
        if let Some((message, _)) = self.held.late {
            acts.push(Act::Note(Note::Fault(InjectedFault::ReorderUndone { stream: self.stream, message })));
        }
        acts.extend(self.held.release());
        acts
    }

    /// The stream has ended.
    pub(crate) fn finish(&mut self) -> Vec<Act> {
        let mut acts = self.release();
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            acts.push(Act::Write(rest));
        }
        acts
    }

    fn frame(&mut self, mut frame: Vec<u8>, acts: &mut Vec<Act>) {
        self.number += 1;
        let number = self.number;
        let method = self
            .asked
            .as_ref()
            .and_then(|asked| asked.lock().unwrap_or_else(PoisonError::into_inner).method(self.stream, &frame));
        let mut chosen: Vec<&mut (Spec, Chance)> = Vec::new();
        for one in &mut self.specs {
            let (spec, chance) = &mut *one;
            // Chance is asked in any case that fits, so that one fault does not change another.
            if spec.which.fits(number, method.as_deref()) && spec.percent.is_none_or(|percent| chance.percent(percent))
            {
                chosen.push(one);
            }
        }
        // What is done to the message comes before what is done to its writing.
        chosen.sort_by_key(|one| one.0.kind.step());
        let mut plan = Plan { before: Vec::new(), cuts: Vec::new(), pause: STEP, hold: None, end: None };
        for (spec, chance) in chosen {
            let Some(detail) = plan.apply(&spec.kind, chance, &mut frame) else { continue };
            let name = Word::new(spec.name()).expect("letters and hyphens");
            let (stream, detail) = (self.stream, detail.into_bytes());
            acts.push(Act::Note(Note::Fault(InjectedFault::Applied { stream, message: number, name, detail })));
        }
        self.carry_out(plan, frame, acts);
    }

    fn carry_out(&mut self, plan: Plan, frame: Vec<u8>, acts: &mut Vec<Act>) {
        let Plan { before, mut cuts, pause, hold, end } = plan;
        acts.extend(before);
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
            if self.held.count >= self.held.wanted || self.held.together.len() > MOST_FRAME {
                acts.extend(self.held.release());
            }
            return;
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut from = 0;
        for cut in cuts.into_iter().filter(|cut| *cut > 0 && *cut < frame.len()) {
            acts.extend([Act::Write(frame[from..cut].to_vec()), Act::Pause(pause)]);
            from = cut;
        }
        if from < frame.len() {
            acts.push(Act::Write(frame[from..].to_vec()));
        }
        acts.extend(self.held.release());
        if let Some(end) = end {
            self.closed = true;
            acts.extend((end == End::Kill).then_some(Act::Kill));
        }
    }
}

impl Held {
    /// All of it, in the order in which it is written.
    fn release(&mut self) -> Option<Act> {
        let Self { late, mut together, .. } = std::mem::take(self);
        together.extend(late.map(|(_, frame)| frame).unwrap_or_default());
        (!together.is_empty()).then_some(Act::Write(together))
    }
}

/// What is to be done with one message.
struct Plan {
    before: Vec<Act>,
    /// Where its writing is cut.
    cuts: Vec<usize>,
    /// Between the pieces.
    pause: Duration,
    hold: Option<Hold>,
    end: Option<End>,
}

/// What comes behind it.
#[derive(PartialEq)]
enum End {
    Close,
    Kill,
}

enum Hold {
    Late,
    Together(usize),
}

impl Plan {
    /// Plans one fault. Returns the values that were chosen, or `None` if it cannot be done to this message.
    fn apply(&mut self, kind: &Kind, chance: &mut Chance, frame: &mut Vec<u8>) -> Option<String> {
        // Without its line break, unless it was dropped.
        let content = frame.len().saturating_sub(1);
        match kind {
            _ if frame.is_empty() => return None,
            Kind::Drop => frame.clear(),
            Kind::Truncate { keep } => {
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
            Kind::Crlf if frame.ends_with(b"\r\n") => return None,
            Kind::Crlf => frame.insert(content, b'\r'),
            Kind::Bom => drop(frame.splice(0..0, *b"\xef\xbb\xbf")),
            Kind::Junk { line } => drop(frame.splice(0..0, line.iter().copied())),
            Kind::Duplicate { times } => {
                let most = (MOST_FRAME / frame.len()).max(1);
                *frame = frame.repeat((*times).min(most));
            }
            Kind::Delay { time } => {
                self.before.push(Act::Pause(*time));
                return Some(format!("{time:?}"));
            }
            Kind::Split { pieces } => {
                if content < 2 {
                    return None;
                }
                let cuts: Vec<usize> = (1..*pieces).map(|_| chance.within(1..content)).collect();
                let said: Vec<String> = cuts.iter().take(20).map(usize::to_string).collect();
                self.cuts.extend(cuts);
                return Some(said.join(" "));
            }
            Kind::CutUtf8 => {
                let inside: Vec<usize> = (1..frame.len()).filter(|at| frame[*at] & 0xc0 == 0x80).collect();
                if inside.is_empty() {
                    return None;
                }
                let cut = inside[chance.within(0..inside.len())];
                self.cuts.push(cut);
                return Some(cut.to_string());
            }
            Kind::Dribble { pause } => {
                self.cuts.extend(1..frame.len());
                self.pause = *pause;
                return Some(format!("{pause:?}"));
            }
            Kind::Reorder => self.hold = Some(Hold::Late),
            Kind::Coalesce { frames } => self.hold = Some(Hold::Together(*frames)),
            Kind::HalfClose => self.end = Some(End::Close),
            Kind::Kill => {
                frame.truncate((content / 2).max(1));
                self.end = Some(End::Kill);
            }
        }
        Some(String::new())
    }
}

impl Kind {
    /// What comes first: whether there is a message, what is in it, when it comes, how it is written, and what ends with it.
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

impl Asked {
    /// The method of a message, or that of the request that it answers.
    fn method(&mut self, stream: Stream, frame: &[u8]) -> Option<String> {
        match parse(frame, usize::MAX) {
            Parsed::Message(Message::Request(request)) => {
                let method = request.method.to_name().into_owned();
                let key = (stream, request.id.into_owned());
                if self.order.len() >= MOST_ASKED
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

/// A longer line is passed on as it is.
const MOST_FRAME: usize = 16 * 1024 * 1024;

/// More than any host has under way.
const MOST_ASKED: usize = 4096;

/// Between two pieces, so that they are two reads.
const STEP: Duration = Duration::from_millis(2);

/// What is held back for a message that does not come is passed on after this.
const PATIENCE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests;
