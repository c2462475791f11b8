//! Frames -> one line for each frame that the filters select.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::event::EventLine;
use super::filter::refuse_plain_stream;
use super::text::DirectionColumn;
use super::{Args, detail, json, plural, text};
use crate::output::{Output, WrittenText, stderr};
use crate::{Exit, Failure};
use barewire_workbench::filter::Filter;
use barewire_workbench::frames::{Sink, WireFrame, WireItem};
use barewire_workbench::operations::{OperationTracker, TrackedMessage};
use barewire_workbench::rows::{DirectionGuess, MessageRelation, Role, title};

pub(super) struct Listing<'a> {
    args: &'a Args,
    filter: &'a Filter,
    output: &'a mut Output,
    /// The name of the file, if the output has to say it.
    file: Option<&'a str>,
    tracker: OperationTracker,
    guess: DirectionGuess,
    /// The relations of the current frame's messages to other messages.
    links: Vec<MessageRelation>,
    pending: PendingLines,
    counts: FrameCounts,
    directions: DirectionColumn,
}

#[derive(Default)]
struct FrameCounts {
    frames: u64,
    shown: u64,
    /// The number of shown frames that are not well formed.
    bad: u64,
    /// The number of shown frames of which the input contains only the beginning.
    cut: u64,
}

impl Sink for Listing<'_> {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Failure> {
        if let WireItem::Frame(frame) = item {
            return self.frame(item, frame);
        }
        self.tracker.take(item, &mut |_| {});
        if self.args.events
            && let Some(event) = EventLine::of(item)
            && event.is_wanted(self.filter)
        {
            let Self { output, directions, file, .. } = self;
            if self.args.json { event.json(output, *file)? } else { event.line(output, directions)? }
        }
        Ok(true)
    }

    fn caught_up(&mut self) -> Result<(), Failure> {
        Ok(self.output.flush()?)
    }

    fn restarted(&mut self, name: &str) -> Result<(), Failure> {
        // The file was replaced, so requests of the old file will not get a response any more.
        self.print_pending(|pending| !pending.lines.is_empty())?;
        (self.tracker, self.guess) = (OperationTracker::new(), DirectionGuess::default());
        self.output.flush()?;
        let _ = writeln!(stderr(), "barewire: {name} was truncated or replaced; reading it from the start");
        Ok(())
    }
}

impl<'a> Listing<'a> {
    pub(super) fn new(args: &'a Args, filter: &'a Filter, file: Option<&'a str>, output: &'a mut Output) -> Self {
        let (tracker, guess, directions) =
            (OperationTracker::new(), DirectionGuess::default(), DirectionColumn::default());
        let (pending, counts) = (PendingLines::default(), FrameCounts::default());
        Self { args, filter, output, file, tracker, guess, links: Vec::new(), pending, counts, directions }
    }

    fn frame(&mut self, item: &WireItem<'_>, frame: &WireFrame<'_>) -> Result<bool, Failure> {
        self.counts.frames += 1;
        let wanted = self.track(item, frame)?;
        if let Some(number) = self.args.frame {
            if number == frame.number {
                self.counts.add_shown(FrameState::of(frame));
                let (output, links) = (&mut *self.output, &self.links);
                if self.args.json {
                    json::write(output, self.file, frame, links, true)?;
                } else {
                    detail::show(output, frame, links, self.args.full)?;
                }
            }
            return Ok(number != frame.number);
        }
        if self.filter.unanswered {
            self.defer(frame, wanted)?;
        } else if wanted {
            self.counts.add_shown(FrameState::of(frame));
            let Self { args, output, file, directions, links, .. } = self;
            line(args, output, *file, directions, frame, links)?;
        }
        Ok(true)
    }

    /// Sets `links` for the frame. Returns whether the filters select the frame.
    fn track(&mut self, item: &WireItem<'_>, frame: &WireFrame<'_>) -> Result<bool, Failure> {
        let Self { filter, tracker, guess, links, .. } = self;
        links.clear();
        let mut wanted = !filter.is_set();
        let mut each = |tracked: &TrackedMessage<'_>| {
            wanted = wanted || filter.matches(tracked);
            if links.len() < MAX_LINKS {
                links.push(MessageRelation::of(tracked));
            }
        };
        if frame.place.is_some() {
            tracker.take(item, &mut each);
        } else if filter.is_set() {
            refuse_plain_stream(filter)?;
            // If directions are guessed, relations are used only by filters and are not shown.
            tracker.take(&WireItem::Frame(&guess.place(frame)), &mut each);
            if !filter.unanswered {
                links.clear();
            }
        }
        Ok(wanted)
    }

    /// Holds back the line of a request until it is known whether the request gets a response.
    fn defer(&mut self, frame: &WireFrame<'_>, wanted: bool) -> Result<(), Failure> {
        for link in &self.links {
            if let (Role::Response { .. } | Role::Cancellation, Some(operation)) = (link.role, &link.operation) {
                self.pending.remove(operation.number);
            }
        }
        if !wanted {
            return Ok(());
        }
        let Self { args, output, file, directions, links, .. } = self;
        let shown: &[MessageRelation] = if frame.place.is_some() { links } else { &[] };
        let text = output.capture(|output| line(args, output, *file, directions, frame, shown))?;
        let requests = links.iter().filter(|link| matches!(link.role, Role::Request { .. }));
        let open = requests.filter_map(|link| Some(link.operation.as_ref()?.number)).collect();
        self.pending.insert(frame.number, PendingLine { text, state: FrameState::of(frame), open });
        self.print_pending(PendingLines::is_too_much)
    }

    /// Prints pending lines, the oldest first, while `condition` holds.
    fn print_pending(&mut self, condition: impl Fn(&PendingLines) -> bool) -> Result<(), Failure> {
        while condition(&self.pending)
            && let Some(line) = self.pending.pop_first()
        {
            self.output.print(&line.text)?;
            self.counts.add_shown(line.state);
        }
        Ok(())
    }

    /// Prints the pending lines, and a line on stderr that sums up the list.
    pub(super) fn finish(mut self) -> Result<Exit, Failure> {
        self.print_pending(|pending| !pending.lines.is_empty())?;
        let Self { args, filter, output, file, counts, tracker, .. } = self;
        output.flush()?;
        if let (Some(wanted), 0) = (args.frame, counts.shown) {
            let have = plural(counts.frames, "frame");
            return Err(Failure::new(format!("no frame {wanted}: the input has {have}"))
                .with_hint("barewire read without --frame lists them"));
        }
        if args.frame.is_none() && !args.json {
            let _ = conclude(filter, file, &counts, &tracker);
        }
        Ok(if counts.bad == 0 { Exit::Clean } else { Exit::No })
    }
}

impl FrameCounts {
    fn add_shown(&mut self, state: FrameState) {
        self.shown += 1;
        self.bad += u64::from(state == FrameState::Bad);
        self.cut += u64::from(state == FrameState::Cut);
    }

    /// Returns the words about frames that are not well formed.
    fn words(&self) -> String {
        match (self.bad, self.cut) {
            (0, 0) => "all well formed".to_owned(),
            (bad, 0) => format!("{bad} bad"),
            (0, cut) => format!("{cut} cut, all others well formed"),
            (bad, cut) => format!("{bad} bad, {cut} cut"),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum FrameState {
    WellFormed,
    /// Only the beginning is known, which is not a fault of the sender.
    Cut,
    Bad,
}

impl FrameState {
    fn of(frame: &WireFrame<'_>) -> Self {
        match frame.is_well_formed() {
            true => Self::WellFormed,
            false if frame.is_cut() => Self::Cut,
            false => Self::Bad,
        }
    }
}

fn line(
    args: &Args,
    output: &mut Output,
    file: Option<&str>,
    directions: &mut DirectionColumn,
    frame: &WireFrame<'_>,
    links: &[MessageRelation],
) -> io::Result<()> {
    match args.json {
        true => json::write(output, file, frame, links, false),
        false => text::line(output, directions, frame, links),
    }
}

/// Writes the number of frames and the unanswered requests to stderr.
fn conclude(filter: &Filter, file: Option<&str>, counts: &FrameCounts, tracker: &OperationTracker) -> io::Result<()> {
    let mut stderr = stderr();
    if let Some(file) = file {
        write!(stderr, "{file}: ")?;
    }
    if counts.frames == 0 {
        return writeln!(stderr, "the input has no frames");
    }
    let bad = counts.words();
    if filter.is_set() {
        let of = plural(counts.frames, "frame");
        return match counts.shown {
            0 => writeln!(stderr, "none of {of} matches the filters"),
            shown => writeln!(stderr, "{shown} of {of}, {bad}"),
        };
    }
    writeln!(stderr, "{}, {bad}", plural(counts.frames, "frame"))?;
    let open: Vec<_> = tracker.open().filter(|operation| operation.is_unanswered()).collect();
    if !open.is_empty() {
        writeln!(stderr, "{} without a response:", plural(open.len() as u64, "request"))?;
    }
    for operation in open.iter().take(MAX_NAMED) {
        let frame = operation.rounds.last().map_or(0, |round| round.asked.frame);
        writeln!(stderr, "  frame {frame}  {}", title(&operation.method, operation.name.as_deref()))?;
    }
    if open.len() > MAX_NAMED {
        writeln!(stderr, "  and {} more: --unanswered shows all", open.len() - MAX_NAMED)?;
    }
    Ok(())
}

/// The lines of requests that have no response so far.
#[derive(Default)]
struct PendingLines {
    /// Maps frame numbers to lines.
    lines: BTreeMap<u64, PendingLine>,
    /// Maps each operation's number to the frame number of its line.
    frames: HashMap<u64, u64>,
    bytes: usize,
}

struct PendingLine {
    text: WrittenText,
    state: FrameState,
    /// The operations of the line's requests without a response. A batch can have several.
    open: Vec<u64>,
}

impl PendingLines {
    fn insert(&mut self, frame: u64, line: PendingLine) {
        for operation in &line.open {
            // If the operation has a new round, the request of the previous round got its response.
            self.remove(*operation);
            self.frames.insert(*operation, frame);
        }
        self.bytes += line.text.len();
        self.lines.insert(frame, line);
    }

    /// Removes the line of an operation, unless other requests in the same batch are still without a response.
    fn remove(&mut self, operation: u64) {
        let Some(frame) = self.frames.remove(&operation) else { return };
        let Some(line) = self.lines.get_mut(&frame) else { return };
        line.open.retain(|open| *open != operation);
        if line.open.is_empty() {
            self.bytes -= line.text.len();
            self.lines.remove(&frame);
        }
    }

    fn pop_first(&mut self) -> Option<PendingLine> {
        let (_, line) = self.lines.pop_first()?;
        self.bytes -= line.text.len();
        for operation in &line.open {
            self.frames.remove(operation);
        }
        Some(line)
    }

    fn is_too_much(&self) -> bool {
        self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES
    }
}

/// The maximum number of messages in a batch whose relation to others is shown.
const MAX_LINKS: usize = 1000;
/// The maximum number of unanswered requests named at the end of a list.
const MAX_NAMED: usize = 5;
/// The maximum number of pending lines. Beyond it, the oldest line is printed as unanswered.
const MAX_LINES: usize = 65_536;
const MAX_BYTES: usize = 64 * 1024 * 1024;
