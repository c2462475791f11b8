//! Checks that logs of hosts and HAR files are read without a panic, the same however often they are read, and that the
//! transcript made from them gives the same frames.

use std::cell::RefCell;
use std::path::Path;

use barewire_proto::transcript::Entry;
use barewire_workbench::Error;
use barewire_workbench::frames::{Format, FrameLimits, FrameReader, Sink, Streams, WireItem, read_entries};

/// Generous limits, and limits so low that lines and frames are too long.
const LIMITS: [FrameLimits; 2] = [FrameLimits { frame: 1 << 20, depth: 64 }, FrameLimits { frame: 64, depth: 3 }];

pub fn check(data: &[u8]) {
    if data.len() > 64 * 1024 {
        return;
    }
    let name = format!("barewire-import-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, data).expect("the temporary folder is writable");
    for format in [Format::HostLog, Format::Har, Format::Auto] {
        for limits in LIMITS {
            let (items, wire) = read(&path, format, limits);
            assert_eq!(read(&path, format, limits), (items.clone(), wire.clone()), "the same the second time");
            let Some(items) = items.filter(|_| format != Format::Auto) else { continue };
            let mut sink = Items::default();
            let mut streams = Streams::new(limits);
            for entry in read_entries("memory", wire.as_bytes(), &|_| {}).expect("the transcript is valid") {
                assert!(streams.entry(&entry, &mut sink).expect("within the limits"));
            }
            streams.finish(&mut sink).expect("within the limits");
            assert_eq!(sink.0, items, "the same from the transcript");
        }
    }
    std::fs::remove_file(&path).expect("the file was written above");
}

/// Returns the items of a file, if it can be read, and the transcript that is made from it.
fn read(path: &Path, format: Format, limits: FrameLimits) -> (Option<Vec<String>>, String) {
    let wire = RefCell::new(String::new());
    let filter = RefCell::new(|entry: Entry, out: &mut Vec<Entry>| {
        entry.write(&mut wire.borrow_mut());
        out.push(entry);
    });
    let (file, warn, notice) = (Some(path), &|_: &_| {}, &|_| {});
    let reading = FrameReader { file, format, limits, follow: false, warn, notice, filter: Some(&filter) };
    let mut items = Items::default();
    let read = reading.each(&mut items);
    let wire = wire.borrow().clone();
    (read.ok().map(|()| items.0), wire)
}

/// The items, as text.
#[derive(Default)]
struct Items(Vec<String>);

impl Sink for Items {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Error> {
        self.0.push(match item {
            WireItem::Header(header) => format!("{header:?}"),
            WireItem::Frame(frame) => {
                let facts = frame.facts();
                format!("{} {:?} {} {} {:?}", frame.number, frame.bytes, frame.length, facts.kind, facts.id)
            }
            WireItem::Stderr(bytes) => format!("{bytes:?}"),
            WireItem::Endpoint { channel, uri } => format!("{channel} {uri}"),
            WireItem::Event(event) => format!("{event:?}"),
        });
        Ok(true)
    }
}
