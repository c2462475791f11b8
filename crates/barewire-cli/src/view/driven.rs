//! `-- PROGRAM` and `--url`: a server -> a source that the page drives.

use std::path::PathBuf;
use std::sync::Arc;

use barewire_workbench::capture::Redactor;
use barewire_workbench::index::{IndexWriter, IndexedCapture};
use barewire_workbench::view::drive::{Drive, DriveSettings, DriveTarget, DrivenServer};
use barewire_workbench::view::{Source, SourceKind, SourceState, View};

use super::Args;
use crate::Failure;
use crate::failure::report;
use crate::platform::Signals;

/// A source that the page drives; `None` if there is no session, and the page only shows why.
pub(super) struct DrivenSource(Option<Arc<Drive>>);

/// Returns the server that the command line names.
pub(super) fn target(args: &Args) -> Result<Option<DriveTarget>, Failure> {
    if !args.program.is_empty() {
        return Ok(Some(DriveTarget::Program(args.program.clone())));
    }
    let Some(url) = &args.url else { return Ok(None) };
    let dialer = args.url_headers.dialer(url, "drive the server")?;
    Ok(Some(DriveTarget::Url { dialer: Box::new(dialer), headers: args.url_headers.headers()? }))
}

impl DrivenSource {
    /// Connects to the server, and adds its source.
    pub(super) async fn start(target: DriveTarget, view: &View, args: &Args) -> Result<Self, Failure> {
        let redactor = if args.no_redact { Redactor::off() } else { Redactor::new() };
        let name = match &target {
            DriveTarget::Program(argv) => argv.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
            DriveTarget::Url { dialer, .. } => dialer.origin(),
        };
        let index = Arc::new(IndexedCapture::new());
        let settings = DriveSettings {
            observer: Box::new(IndexWriter::new(Arc::clone(&index), redactor)),
            is_redacted: !args.no_redact,
            warn: report,
        };
        let name = if args.no_redact { name } else { Redactor::new().text(&name) };
        let drive = match Drive::start(target, settings).await {
            Ok(drive) => Arc::new(drive),
            // The page shows what was said until then.
            Err(failure) if index.frames() > 0 => {
                report(&failure);
                let source = view.add(Source::new(SourceKind::Driven, name, SourceState::Failed, index));
                source.set_state(SourceState::Failed, Some(failure.to_string()));
                return Ok(Self(None));
            }
            Err(failure) => return Err(failure),
        };
        let files = view.clone();
        let driver = DrivenServer::new(Arc::clone(&drive), move |id| file_of(&files, id));
        let source = Source::new(SourceKind::Driven, name, SourceState::Live, index).driven_by(Arc::new(driver));
        let source = view.add(source);
        let ended = Arc::clone(&drive);
        tokio::spawn(async move {
            let how = ended.closed().await;
            source.set_state(SourceState::Ended, Some(how));
        });
        Ok(Self(Some(drive)))
    }

    /// Ends the session and the program. After another signal, does not wait for the program.
    pub(super) async fn stop(&self, signals: &mut Signals) {
        let Some(drive) = &self.0 else { return };
        tokio::select! {
            () = drive.stop() => {}
            _ = signals.next() => {}
        }
    }
}

/// Returns the file of a source.
fn file_of(view: &View, id: &str) -> Option<PathBuf> {
    let id: u64 = id.parse().ok()?;
    let source = view.sources().into_iter().find(|source| source.id() == id)?;
    source.is_file().then(|| PathBuf::from(source.name()))
}
