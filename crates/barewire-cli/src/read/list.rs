//! Frames -> a line each, of those that are wanted.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use super::direction::Directions;
use super::event::Happening;
use super::link::{How, Link, title};
use super::{Args, apart, json, plural, text};
use crate::output::Output;
use crate::{Exit, Failure};
use barewire_workbench::frames::{Sink, WireFrame, WireItem};
use barewire_workbench::operations::OperationTracker;

/// Prints every frame that is wanted.
pub(super) struct Listing<'a> {
    args: &'a Args,
    output: &'a mut Output,
    watch: OperationTracker,
    directions: Directions,
    /// Of the frame at hand, one a message.
    links: Vec<Link>,
    held: Held,
    count: Count,
    ways: text::Ways,
}

#[derive(Default)]
struct Count {
    frames: u64,
    shown: u64,
    /// Of those that are shown.
    bad: u64,
}

impl Sink for Listing<'_> {
    fn take(&mut self, sight: &WireItem<'_>) -> Result<bool, Failure> {
        if let WireItem::Frame(seen) = sight {
            return self.frame(sight, seen);
        }
        self.watch.take(sight, &mut |_| {});
        if self.args.events
            && let Some(happening) = Happening::of(sight)
            && happening.is_wanted(&self.args.filter)
        {
            let Self { output, ways, .. } = self;
            if self.args.json { happening.json(output)? } else { happening.line(output, ways)? }
        }
        Ok(true)
    }

    fn caught_up(&mut self) -> Result<(), Failure> {
        Ok(self.output.flush()?)
    }

    fn restarted(&mut self, name: &str) -> Result<(), Failure> {
        // Nobody answers any more what was asked before.
        while !self.held.lines.is_empty() {
            self.let_go()?;
        }
        (self.watch, self.directions) = (OperationTracker::new(), Directions::default());
        self.output.flush()?;
        // If stderr is closed there is nobody to tell.
        let _ = writeln!(io::stderr(), "barewire: {name} begins anew");
        Ok(())
    }
}

impl<'a> Listing<'a> {
    pub(super) fn new(args: &'a Args, output: &'a mut Output) -> Self {
        Self {
            args,
            output,
            watch: OperationTracker::new(),
            directions: Directions::default(),
            links: Vec::new(),
            held: Held::default(),
            count: Count::default(),
            ways: text::Ways::default(),
        }
    }

    fn frame(&mut self, sight: &WireItem<'_>, seen: &WireFrame<'_>) -> Result<bool, Failure> {
        self.count.frames += 1;
        let wanted = self.watch(sight, seen)?;
        if let Some(number) = self.args.frame {
            if number == seen.number {
                self.counted(seen);
                let (output, links) = (&mut *self.output, &self.links);
                if self.args.json {
                    json::members(output, seen, links)?;
                } else {
                    apart::show(output, seen, links)?;
                }
            }
            return Ok(number != seen.number);
        }
        if self.args.filter.wants_unanswered() {
            self.hold(seen, wanted)?;
        } else if wanted {
            self.counted(seen);
            let Self { args, output, ways, links, .. } = self;
            line(args, output, ways, seen, links)?;
        }
        Ok(true)
    }

    /// Finds out what the frame has to do with others, and whether it is wanted.
    fn watch(&mut self, sight: &WireItem<'_>, seen: &WireFrame<'_>) -> Result<bool, Failure> {
        let Self { args, watch, directions, links, .. } = self;
        links.clear();
        let filter = &args.filter;
        let mut wanted = !filter.is_set();
        let mut each = |watched: &barewire_workbench::operations::TrackedMessage<'_>| {
            wanted = wanted || filter.wants(watched);
            if links.len() < MOST_LINKS {
                links.push(Link::of(watched));
            }
        };
        if seen.place.is_some() {
            watch.take(sight, &mut each);
        } else if filter.is_set() {
            super::refuse_without_places(filter)?;
            // What is told of it is a guess, and so only looked at and not shown.
            let placed = directions.guess(seen);
            watch.take(&WireItem::Frame(&placed), &mut each);
            if !filter.wants_unanswered() {
                links.clear();
            }
        }
        Ok(wanted)
    }

    fn counted(&mut self, seen: &WireFrame<'_>) {
        self.count.shown += 1;
        self.count.bad += u64::from(!seen.is_well_formed());
    }

    /// Keeps the line of a request until it is known whether anybody answers it.
    fn hold(&mut self, seen: &WireFrame<'_>, wanted: bool) -> Result<(), Failure> {
        for link in &self.links {
            if let (How::Answers { .. } | How::Cancels, Some(about)) = (link.how, &link.about) {
                self.held.answered(about.number);
            }
        }
        if !wanted {
            return Ok(());
        }
        let Self { args, output, ways, links, .. } = self;
        let shown: &[Link] = if seen.place.is_some() { links } else { &[] };
        let text = output.hold(|output| line(args, output, ways, seen, shown))?;
        let asks = links.iter().filter(|link| matches!(link.how, How::Asks { .. }));
        let open = asks.filter_map(|link| Some(link.about.as_ref()?.number)).collect();
        let bad = !seen.is_well_formed();
        self.held.keep(seen.number, Line { text, bad, open });
        while self.held.is_too_much() {
            self.let_go()?;
        }
        Ok(())
    }

    /// Prints the oldest line that is held.
    fn let_go(&mut self) -> Result<(), Failure> {
        let Some(line) = self.held.first() else { return Ok(()) };
        self.output.write_all(&line.text)?;
        self.count.shown += 1;
        self.count.bad += u64::from(line.bad);
        Ok(())
    }

    /// The input has ended.
    pub(super) fn finish(mut self) -> Result<Exit, Failure> {
        while !self.held.lines.is_empty() {
            self.let_go()?;
        }
        let Self { args, output, count, watch, .. } = self;
        output.flush()?;
        if let (Some(wanted), 0) = (args.frame, count.shown) {
            let have = plural(count.frames, "frame");
            return Err(Failure::new(format!("there is no frame {wanted}: the input has {have}"))
                .with_hint("barewire read without --frame lists them"));
        }
        if args.frame.is_none() && !args.json {
            // Talk goes to stderr; if that is closed there is nobody to tell.
            let _ = say(args, &count, &watch);
        }
        Ok(if count.bad == 0 { Exit::Clean } else { Exit::No })
    }
}

fn line(
    args: &Args,
    output: &mut Output,
    ways: &mut text::Ways,
    seen: &WireFrame<'_>,
    links: &[Link],
) -> io::Result<()> {
    if args.json { json::line(output, seen, links) } else { text::line(output, ways, seen, links) }
}

/// What there was, and what nobody answered.
fn say(args: &Args, count: &Count, watch: &OperationTracker) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    if count.frames == 0 {
        return writeln!(stderr, "there are no frames in it");
    }
    let bad = if count.bad == 0 { "all well formed".into() } else { format!("{} bad", count.bad) };
    if args.filter.is_set() {
        let of = plural(count.frames, "frame");
        return match count.shown {
            0 => writeln!(stderr, "none of {of}"),
            shown => writeln!(stderr, "{shown} of {of}, {bad}"),
        };
    }
    writeln!(stderr, "{}, {bad}", plural(count.frames, "frame"))?;
    let open: Vec<_> = watch.open().filter(|operation| operation.is_unanswered()).collect();
    if !open.is_empty() {
        writeln!(stderr, "{} without an answer:", plural(open.len() as u64, "request"))?;
    }
    for operation in open.iter().take(MOST_NAMED) {
        let frame = operation.rounds.last().map_or(0, |round| round.asked.frame);
        writeln!(stderr, "  frame {frame}  {}", title(&operation.method, operation.name.as_deref()))?;
    }
    if open.len() > MOST_NAMED {
        writeln!(stderr, "  and {} more: --unanswered shows all", open.len() - MOST_NAMED)?;
    }
    Ok(())
}

/// Lines of requests that are not answered so far.
#[derive(Default)]
struct Held {
    /// By frame.
    lines: BTreeMap<u64, Line>,
    /// The frame of each operation.
    frames: HashMap<u64, u64>,
    bytes: usize,
}

struct Line {
    text: Vec<u8>,
    bad: bool,
    /// Its requests that are not answered: a batch has several.
    open: Vec<u64>,
}

impl Held {
    fn keep(&mut self, frame: u64, line: Line) {
        for operation in &line.open {
            // Another round: the one before it is answered.
            self.answered(*operation);
            self.frames.insert(*operation, frame);
        }
        self.bytes += line.text.len();
        self.lines.insert(frame, line);
    }

    fn answered(&mut self, operation: u64) {
        let Some(frame) = self.frames.remove(&operation) else { return };
        let Some(line) = self.lines.get_mut(&frame) else { return };
        line.open.retain(|open| *open != operation);
        if line.open.is_empty() {
            self.bytes -= line.text.len();
            self.lines.remove(&frame);
        }
    }

    fn first(&mut self) -> Option<Line> {
        let (_, line) = self.lines.pop_first()?;
        self.bytes -= line.text.len();
        for operation in &line.open {
            self.frames.remove(operation);
        }
        Some(line)
    }

    fn is_too_much(&self) -> bool {
        self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES
    }
}

/// More messages in a batch than anybody sends; what those behind them have to do with others is not told.
const MOST_LINKS: usize = 1000;
/// More than a person reads at the end of a list.
const MOST_NAMED: usize = 5;
/// What is asked while this many wait for an answer makes the first of them count as one that is never answered.
const MOST_LINES: usize = 65_536;
const MOST_BYTES: usize = 64 * 1024 * 1024;
