//! The words FILE of the command line -> sources of the page, each read by a thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use barewire_workbench::capture::Redactor;
use barewire_workbench::frames::{Format, FrameLimits, FrameReader};
use barewire_workbench::index::{IndexedCapture, read_file};
use barewire_workbench::view::{Source, SourceKind, SourceState, View};

use crate::Failure;
use crate::failure::option;
use crate::input;
use crate::input_files::InputFiles;

/// The files to show.
pub(super) struct FileReading {
    files: Vec<Option<PathBuf>>,
}

/// The files that are being read.
pub(super) struct RunningFiles {
    sources: Vec<Arc<Source>>,
}

struct QueuedFile {
    path: Option<PathBuf>,
    source: Arc<Source>,
}

impl FileReading {
    /// Finds the files; none without words. A file that cannot be opened is an error.
    pub(super) fn find(words: &[PathBuf]) -> Result<Self, Failure> {
        if words.is_empty() {
            return Ok(Self { files: Vec::new() });
        }
        let files = InputFiles::find(words)?.files;
        for path in files.iter().flatten() {
            let opened = fs::File::open(path).and_then(|file| file.metadata());
            opened.map_err(|error| {
                Failure::new(format!("cannot read {}: {error}", path.display())).with_hint("give the path of a file")
            })?;
        }
        Ok(Self { files })
    }

    /// Adds a source for each file, and starts to read.
    pub(super) fn start(self, view: &View, format: Format, no_redact: bool) -> RunningFiles {
        let queued: VecDeque<QueuedFile> = self
            .files
            .into_iter()
            .map(|path| {
                let name = path.as_ref().map_or("stdin".to_owned(), |path| path.display().to_string());
                let index = Arc::new(IndexedCapture::new());
                let source = Source::new(SourceKind::File, name, SourceState::Reading, index);
                QueuedFile { path, source: view.add(source) }
            })
            .collect();
        let sources = queued.iter().map(|file| Arc::clone(&file.source)).collect();
        let readers = queued.len().min(MAX_READERS);
        let queue = Arc::new(Mutex::new(queued));
        for _ in 0..readers {
            let queue = Arc::clone(&queue);
            let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            thread::spawn(move || {
                while let Some(file) = next() {
                    file.read(format, no_redact);
                }
            });
        }
        RunningFiles { sources }
    }
}

impl RunningFiles {
    /// Asks the readers to stop.
    pub(super) fn stop(&self) {
        self.sources.iter().for_each(|source| source.index().stop());
    }
}

impl QueuedFile {
    fn read(&self, format: Format, no_redact: bool) {
        let redactor = || if no_redact { Redactor::off() } else { Redactor::new() };
        let warning = RefCell::new(None);
        // Secrets in the log of a host can reach over several lines, so they are replaced in its entries.
        let mut of_entries = redactor();
        let filter = RefCell::new(move |entry, out: &mut Vec<_>| of_entries.entry(entry, out));
        let reader = FrameReader {
            file: input::file(self.path.as_deref()),
            format,
            limits: FrameLimits::default(),
            follow: false,
            warn: &|warned| *warning.borrow_mut() = Some(warned.to_string()),
            notice: &|_| {},
            filter: Some(&filter),
        };
        let total = self.path.as_ref().and_then(|path| fs::metadata(path).ok()).map(|metadata| metadata.len());
        let source = &self.source;
        let mut progress = |read| source.set_progress(read, total);
        let done = read_file(&reader, source.index(), redactor(), &mut progress);
        match done {
            Ok(()) => source.set_state(SourceState::Complete, warning.take()),
            Err(failure) => {
                let hint = failure.hint_in(option).map_or(String::new(), |hint| format!("; {hint}"));
                source.set_state(SourceState::Failed, Some(format!("{failure}{hint}")));
            }
        }
    }
}

/// The number of files that are read at the same time.
const MAX_READERS: usize = 2;
