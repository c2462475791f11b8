//! The messages of a wire that a filter selects -> a file for other programs: HAR, OTLP, or a web page.

use std::io::{self, Write};
use std::sync::Arc;

use super::filter::refuse_plain_stream;
use super::{Explain, plural};
use crate::output::{Output, stderr};
use crate::{Exit, Failure};
use barewire_workbench::capture::Redactor;
use barewire_workbench::export::{HarExporter, OtlpExporter};
use barewire_workbench::filter::Filter;
use barewire_workbench::frames::{FrameReader, Sink, WireItem};
use barewire_workbench::index::{IndexedCapture, observe, read_file};
use barewire_workbench::pipeline::{Observer, ObserverSink};
use barewire_workbench::view::{Source, SourceKind, SourceState, View};

/// `--har`: prints a HAR 1.2 file.
pub(super) fn har(
    reading: &FrameReader<'_>,
    filter: &Filter,
    redactor: Redactor,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let out = ExportOutput(output);
    let entries = match filter.is_set() {
        true => selected("--har", reading, filter, redactor, HarExporter::new(out, Redactor::off()))?.finish()?,
        false => everything("--har", reading, HarExporter::new(out, redactor))?.finish()?,
    };
    let _ =
        writeln!(stderr(), "{} exported", if entries == 1 { "1 entry".into() } else { format!("{entries} entries") });
    Ok(Exit::Clean)
}

/// `--otlp`: prints OTLP/JSON traces.
pub(super) fn otlp(
    reading: &FrameReader<'_>,
    filter: &Filter,
    redactor: Redactor,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let out = ExportOutput(output);
    let spans = match filter.is_set() {
        true => selected("--otlp", reading, filter, redactor, OtlpExporter::new(out, Redactor::off()))?.finish()?,
        false => everything("--otlp", reading, OtlpExporter::new(out, redactor))?.finish()?,
    };
    let _ = writeln!(stderr(), "{} exported", plural(spans, "span"));
    Ok(Exit::Clean)
}

/// `--html`: prints a page that shows the messages.
pub(super) fn html(
    reading: &FrameReader<'_>,
    filter: &Filter,
    redactor: Redactor,
    explain: Explain,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let is_redacted = !redactor.is_off();
    let index = indexed(reading, redactor)?;
    if !index.is_timed() {
        refuse_plain_stream(filter)?;
    }
    let name = reading.file.map_or("stdin".to_owned(), |file| file.display().to_string());
    let view = View::new(is_redacted, explain);
    let source = view.add(Source::new(SourceKind::File, name, SourceState::Complete, index));
    let page = view.page_file_and_cuts(&source, &filter.to_string()).map_err(|error| Failure::new(error.error))?;
    output.write_result(&page.html)?;
    output.flush()?;
    for cut in page.cuts {
        let _ = writeln!(stderr(), "note: {cut}");
    }
    Ok(Exit::Clean)
}

/// Passes everything to an exporter while it is read.
fn everything<O: Observer>(option: &'static str, reading: &FrameReader<'_>, exporter: O) -> Result<O, Failure> {
    let mut sink = ExportSink { option, observed: ObserverSink::new(exporter) };
    reading.each(&mut sink)?;
    Ok(sink.observed.finish())
}

/// Passes what a filter selects to an exporter. A response can select a request that came long before it, so everything
/// is read first.
fn selected<O: Observer>(
    option: &'static str,
    reading: &FrameReader<'_>,
    filter: &Filter,
    redactor: Redactor,
    exporter: O,
) -> Result<O, Failure> {
    let index = indexed(reading, redactor)?;
    if index.frames() > 0 && !index.is_timed() {
        return Err(no_times(option));
    }
    // A part would look like everything that the filter selects.
    if let Some(why) = index.shortage() {
        let failure = Failure::new(format!("cannot keep the input to export a part of it: {why}"));
        return Err(failure
            .with_hint("TMPDIR names a folder with room for a copy of the input; without a filter, none is made"));
    }
    observe(&index, filter, exporter)
}

fn indexed(reading: &FrameReader<'_>, redactor: Redactor) -> Result<Arc<IndexedCapture>, Failure> {
    let index = Arc::new(IndexedCapture::new());
    read_file(reading, &index, redactor, &mut |_| {})?;
    Ok(index)
}

fn no_times(option: &str) -> Failure {
    Failure::new(format!("{option} needs a transcript: this input has neither directions nor times"))
        .with_hint("barewire tap --record writes a transcript; docs/wire-format.md describes the format")
}

/// Passes everything to an exporter, unless the input has no directions.
struct ExportSink<O> {
    option: &'static str,
    observed: ObserverSink<O>,
}

impl<O: Observer> Sink for ExportSink<O> {
    fn take(&mut self, item: &WireItem<'_>) -> Result<bool, Failure> {
        match item {
            WireItem::Frame(frame) if frame.place.is_none() => Err(no_times(self.option)),
            item => self.observed.take(item),
        }
    }
}

/// The exported file on stdout: unchanged for another program, escaped for a terminal.
struct ExportOutput<'a>(&'a mut Output);

impl Write for ExportOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.data() {
            Some(data) => data.write_all(bytes)?,
            None => write!(self.0, "{}", String::from_utf8_lossy(bytes))?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
