//! Checks that a `.wire` text gives the same frames and operations from memory, from a file and a second time, and that
//! every response has a request.

use std::collections::BTreeMap;

use barewire_workbench::check::Inspector;
use barewire_workbench::frames::{Format, FrameLimits, FrameReader, Streams, WireItem, read_entries};
use barewire_workbench::operations::{Operation, OperationTracker, Relation, ResponseOutcome, TrackedMessage};
use barewire_workbench::pipeline::{Observer, ObserverSink};

/// Generous limits, and limits so low that frames are too long and too deep.
const LIMITS: [FrameLimits; 2] = [FrameLimits { frame: 1 << 20, depth: 64 }, FrameLimits { frame: 96, depth: 3 }];

pub fn check(data: &[u8]) {
    // Longer inputs can exceed the limits of the tracker: 1024 suspended operations, and 4096 conversations.
    if data.len() > 64 * 1024 {
        return;
    }
    for limits in LIMITS {
        let in_memory = from_memory(data, limits);
        assert_eq!(from_memory(data, limits), in_memory, "the same the second time");
        let in_file = from_file(data, limits);
        match in_memory {
            Some(in_memory) => assert_eq!(in_file, Some(in_memory), "the same from a file"),
            None => assert_eq!(in_file, None, "a file is not read either"),
        }
    }
}

/// Returns the lines of an [`Account`] of the transcript, entry by entry; `None` if the transcript cannot be read.
fn from_memory(text: &[u8], limits: FrameLimits) -> Option<Vec<String>> {
    let entries = read_entries("memory", text, &|_| {}).ok()?;
    let (mut streams, mut observed) = (Streams::new(limits), ObserverSink::new(Account::new()));
    for entry in &entries {
        assert!(streams.entry(entry, &mut observed).expect("within the limits"), "an account has no end");
    }
    streams.finish(&mut observed).expect("within the limits");
    Some(observed.finish().lines)
}

/// Returns the lines of an [`Account`] of the transcript, read from a file; `None` if the file cannot be read.
fn from_file(text: &[u8], limits: FrameLimits) -> Option<Vec<String>> {
    let name = format!("barewire-{}-{:?}.wire", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text).expect("the temporary folder is writable");
    let mut observed = ObserverSink::new(Account::new());
    let (warn, notice) = (&|_: &_| {}, &|_| {});
    let (format, file) = (Format::Wire, Some(&*path));
    let reading = FrameReader { file, format, limits, follow: false, warn, notice, filter: None };
    let read = reading.each(&mut observed);
    std::fs::remove_file(&path).expect("the file was written above");
    read.ok().map(|()| observed.finish().lines)
}

/// Collects all messages and items as text, and counts the unfinished operations independently of the tracker.
struct Account {
    lines: Vec<String>,
    inspector: Inspector,
    /// The unfinished operations, with the number of requests and responses of each.
    open: BTreeMap<u64, (usize, usize)>,
    /// The number of the operation that began last.
    last: u64,
}

impl Observer for Account {
    fn message(&mut self, message: &TrackedMessage<'_>) {
        self.inspector.message(message);
        let TrackedMessage { frame, element, sender, conversation, .. } = message;
        let relation = self.relation(&message.relation);
        self.lines.push(format!("{} {element:?} {sender:?} {} {relation}", frame.number, conversation.name));
    }

    fn item(&mut self, item: &WireItem<'_>, operations: &OperationTracker) {
        self.inspector.item(item, operations);
        for refused in operations.refused() {
            let counted = self.open.remove(&refused.number).expect("a refused operation is unfinished");
            assert_eq!(counted, (refused.rounds.len(), refused.rounds.len() - 1), "{refused:?}");
            self.lines.push(format!("refused {refused:?}"));
        }
        let open: Vec<u64> = operations.open().map(|it| it.number).collect();
        assert!(open.iter().eq(self.open.keys()), "{open:?} are open, and not {:?}", self.open);
        for operation in operations.open() {
            let answered = operation.rounds.iter().filter(|round| round.answered.is_some()).count();
            assert_eq!(self.open[&operation.number], (operation.rounds.len(), answered), "{operation:?}");
        }
        self.lines.push(match item {
            WireItem::Header(header) => format!("{header:?}"),
            WireItem::Frame(frame) => {
                format!("frame {} at {}, {} bytes", frame.number, frame.offset, frame.length)
            }
            WireItem::Stderr(bytes) => format!("{bytes:?}"),
            WireItem::Endpoint { channel, uri } => format!("{channel} {uri}"),
            WireItem::Event(event) => format!("{event:?}"),
        });
    }

    fn end(&mut self, operations: &OperationTracker) {
        self.inspector.end(operations);
        self.lines.extend(operations.open().map(|it| format!("open {it:?}")));
        self.lines.extend(self.inspector.take_findings().iter().map(|finding| format!("{finding:?}")));
    }
}

impl Account {
    fn new() -> Self {
        // Findings are compared too, and only an incremental inspector provides them.
        Self { lines: Vec::new(), inspector: Inspector::incremental(), open: BTreeMap::new(), last: 0 }
    }

    fn relation(&mut self, relation: &Relation<'_>) -> String {
        let known = |operation: &Operation| assert!(self.open.contains_key(&operation.number), "{operation:?}");
        match *relation {
            Relation::None => "none".to_owned(),
            Relation::RefusesUnidentified => "refuses".to_owned(),
            Relation::Duplicate => "duplicate".to_owned(),
            Relation::Unsolicited => "unsolicited".to_owned(),
            Relation::Progress { operation } => {
                known(operation);
                format!("progress {operation:?}")
            }
            Relation::Cancellation { operation } => {
                known(operation);
                assert!(operation.cancelled.is_some());
                format!("cancellation {operation:?}")
            }
            Relation::Request { operation, id_in_use } => {
                let (asked, _) = self.open.entry(operation.number).or_insert_with(|| {
                    assert_eq!(operation.number, self.last + 1, "in the order in which they began");
                    self.last += 1;
                    (0, 0)
                });
                *asked += 1;
                assert_eq!(*asked, operation.rounds.len(), "{operation:?}");
                format!("request {operation:?} {id_in_use}")
            }
            Relation::Response { operation, late, .. } => {
                assert_eq!(late, operation.cancelled.is_some(), "{operation:?}");
                let (asked, answered) = self.open.get_mut(&operation.number).expect("the operation is unfinished");
                *answered += 1;
                assert!(*answered <= *asked, "answered more often than asked: {operation:?}");
                let outcome = &operation.answer().expect("the operation has this answer").outcome;
                if *outcome != ResponseOutcome::InputRequired {
                    self.open.remove(&operation.number);
                }
                format!("response {operation:?} {late}")
            }
        }
    }
}
