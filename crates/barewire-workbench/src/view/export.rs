//! `export` and `compare`: a source -> a file to save, in the format that the path names; two sources -> what differs.

use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::query::ViewRequest;
use super::sources::Source;
use super::wire_entries::wire_entries;
use super::{View, page_file};
use crate::compare::{ComparedSide, ComparedState, Comparison, OperationTexts};
use crate::diagram::{Diagram, DiagramBuilder};
use crate::export::{HarExporter, OtlpExporter};
use crate::frames::{FrameLimits, Streams};
use crate::pipeline::{Observer, ObserverSink};
use crate::secrets::Redactor;
use crate::text::shown;

/// Answers with the file. A diagram and a page have what the filter selects, the other files the whole conversation.
pub(super) fn export(view: &View, source: &Source, format: &str, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let failed = |error: std::io::Error| AnswerError::new(500, error);
    let mut out = Vec::new();
    let kind = match format {
        "wire" => {
            let mut text = String::new();
            wire_entries(source.index(), request.parameter("conversation").filter(|it| !it.is_empty()), &mut |entry| {
                entry.write(&mut text);
                true
            });
            out = text.into_bytes();
            "text/plain; charset=utf-8"
        }
        "har" => {
            observe(source, request, HarExporter::new(&mut out, Redactor::off()))?.finish().map_err(failed)?;
            "application/json"
        }
        "otlp" => {
            observe(source, request, OtlpExporter::new(&mut out, Redactor::off()))?.finish().map_err(failed)?;
            "application/json"
        }
        "svg" => {
            out = diagram(source, request)?.svg().into_bytes();
            "image/svg+xml"
        }
        "mermaid" => {
            out = diagram(source, request)?.mermaid("the SVG").into_bytes();
            "text/plain; charset=utf-8"
        }
        "html" => {
            let filter = request.parameter("filter").unwrap_or_default();
            out = page_file::page_file(view, source, filter)?.into_bytes();
            "text/html; charset=utf-8"
        }
        _ => return Err(AnswerError::not_found("there is no such format")),
    };
    let extension = match format {
        "mermaid" => "mmd",
        "otlp" => "traces.json",
        same => same,
    };
    let stem = source.name().rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = stem.strip_suffix(".wire").or(stem.strip_suffix(".har")).unwrap_or(stem);
    Ok(Answer::Download { name: format!("{stem}.{extension}"), kind, content: out })
}

/// `compare`: what differs between two sources.
pub(super) fn compare(view: &View, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let texts = |name: &str| {
        let source = view.state().sources.get(request.parameter(name).unwrap_or_default());
        let source = source.ok_or_else(|| AnswerError::not_found(format!("{name} is not a source")))?;
        let texts = observe(&source, &ViewRequest::new(false, "", "", Vec::new()), OperationTexts::new())?;
        match texts.is_full() {
            true => Err(AnswerError::new(422, "the captures are too large to compare")),
            false => Ok(texts),
        }
    };
    let comparison = Comparison::of(&texts("a")?, &texts("b")?, &[]);
    let side = |side: &Option<ComparedSide>| {
        side.as_ref().map(|side| {
            let outcome = side.outcome.as_ref().map(|outcome| if outcome.is_failure() { "error" } else { "ok" });
            json!({ "frame": side.frame, "latency": side.latency.map(|it| it.as_secs_f64()), "outcome": outcome })
        })
    };
    let value = |text: &Option<String>| text.as_deref().map(|text| shown(text.as_bytes(), MAX_VALUE));
    let operations = comparison.operations.iter().take(MAX_COMPARED).map(|operation| {
        let differences = operation.differences.iter().take(MAX_DIFFERENCES);
        let differences: Vec<Value> = differences
            .map(|it| json!({ "path": shown(it.path.as_bytes(), MAX_VALUE), "a": value(&it.first), "b": value(&it.second) }))
            .collect();
        json!({
            "title": shown(operation.title().as_bytes(), MAX_VALUE), "state": operation.state().name(),
            "a": side(&operation.first), "b": side(&operation.second), "differences": differences,
        })
    });
    let operations: Vec<Value> = operations.collect();
    let states = [ComparedState::Same, ComparedState::Different, ComparedState::OnlyFirst, ComparedState::OnlySecond];
    let summary: serde_json::Map<String, Value> =
        states.into_iter().map(|state| (state.name().to_owned(), json!(comparison.count(state)))).collect();
    Answer::json(&json!({ "operations": operations, "summary": summary }))
}

fn diagram(source: &Source, request: &ViewRequest) -> Result<Diagram, AnswerError> {
    let query = request.selection()?;
    Ok(observe(source, request, DiagramBuilder::new(&query.filter, false))?.finish())
}

/// Passes everything in a source to an observer.
fn observe<O: Observer>(source: &Source, request: &ViewRequest, observer: O) -> Result<O, AnswerError> {
    let mut sink = ObserverSink::new(observer);
    let mut streams = Streams::new(FrameLimits::default());
    let mut error = None;
    let conversation = request.parameter("conversation").filter(|name| !name.is_empty());
    wire_entries(source.index(), conversation, &mut |entry| match streams.entry(&entry, &mut sink) {
        Ok(goes_on) => goes_on,
        Err(failure) => {
            error = Some(failure);
            false
        }
    });
    match error.map_or_else(|| streams.finish(&mut sink), Err) {
        Ok(()) => Ok(sink.finish()),
        Err(error) => Err(AnswerError::new(500, error)),
    }
}

/// The maximum number of operations in a comparison, and of differences of one operation.
const MAX_COMPARED: usize = 10_000;
const MAX_DIFFERENCES: usize = 100;
/// The maximum width of a value, a path or a title.
const MAX_VALUE: usize = 200;
