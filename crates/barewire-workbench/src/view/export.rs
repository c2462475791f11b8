//! `export` and `compare`: a source -> a file to save, in the format that the path names; two sources -> what differs.

use std::io::Write as _;

use serde_json::{Value, json};

use super::answer::{Answer, AnswerError};
use super::query::ViewRequest;
use super::saved_file::SavedFile;
use super::sources::Source;
use super::timeline::cancelled_after;
use super::{View, page_file};
use crate::compare::{ComparedSide, ComparedState, Comparison, OperationTexts};
use crate::diagram::{Diagram, DiagramBuilder};
use crate::export::{HarExporter, OtlpExporter};
use crate::index::{SelectionQuery, observe_selection, wire_entries};
use crate::pipeline::Observer;
use crate::secrets::Redactor;
use crate::text::shown;

/// Answers with the file, which has what the filter and the conversation select. All files but the page have whole
/// operations, so that no request looks unanswered because its response is not selected.
pub(super) fn export(view: &View, source: &Source, format: &str, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let failed = |error: std::io::Error| AnswerError::new(500, error);
    let mut out = SavedFile::create();
    let kind = match format {
        "wire" => {
            let (mut text, mut written) = (String::new(), Ok(()));
            let rows = source.index().captured_rows(&request.selection()?);
            wire_entries(source.index(), rows.as_ref(), &mut |_, entry| {
                text.clear();
                entry.write(&mut text);
                written = out.write_all(text.as_bytes());
                written.is_ok()
            });
            written.map_err(failed)?;
            "text/plain; charset=utf-8"
        }
        "har" => {
            observe(source, &request.selection()?, HarExporter::new(&mut out, Redactor::off()))?
                .finish()
                .map_err(failed)?;
            "application/json"
        }
        "otlp" => {
            observe(source, &request.selection()?, OtlpExporter::new(&mut out, Redactor::off()))?
                .finish()
                .map_err(failed)?;
            "application/json"
        }
        "svg" => {
            out.write_all(diagram(source, request)?.svg().as_bytes()).map_err(failed)?;
            "image/svg+xml"
        }
        "mermaid" => {
            out.write_all(diagram(source, request)?.mermaid("the SVG").as_bytes()).map_err(failed)?;
            "text/plain; charset=utf-8"
        }
        "html" => {
            let parameter = |name| request.parameter(name).unwrap_or_default();
            let page = page_file::page_file(view, source, parameter("filter"), parameter("conversation"))?;
            out.write_all(page.html.as_bytes()).map_err(failed)?;
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
    Ok(Answer::Download { name: format!("{stem}.{extension}"), kind, content: out.finish().map_err(failed)? })
}

/// `compare`: what differs between two sources.
pub(super) fn compare(view: &View, request: &ViewRequest) -> Result<Answer, AnswerError> {
    let texts = |name: &str| {
        let source = view.state().sources.get(request.parameter(name).unwrap_or_default());
        let source = source.ok_or_else(|| AnswerError::not_found(format!("{name} is not a source")))?;
        let texts = observe(&source, &SelectionQuery::default(), OperationTexts::new())?;
        match texts.is_full() {
            true => Err(AnswerError::new(422, "the captures are too large to compare")),
            false => Ok(texts),
        }
    };
    let comparison = Comparison::of(&texts("a")?, &texts("b")?, &[]);
    let side = |side: &Option<ComparedSide>, name| {
        side.as_ref().map(|side| {
            let source = view.state().sources.get(request.parameter(name).unwrap_or_default());
            // A response that comes after the cancellation does not count, as in the timeline.
            if let Some(latency) = source.and_then(|it| cancelled_after(&it.index().data(), side.frame)) {
                return json!({ "frame": side.frame, "latency": latency, "outcome": "cancelled" });
            }
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
            "a": side(&operation.first, "a"), "b": side(&operation.second, "b"), "differences": differences,
        })
    });
    let operations: Vec<Value> = operations.collect();
    let states = [ComparedState::Same, ComparedState::Different, ComparedState::OnlyFirst, ComparedState::OnlySecond];
    let summary: serde_json::Map<String, Value> =
        states.into_iter().map(|state| (state.name().to_owned(), json!(comparison.count(state)))).collect();
    Answer::json(&json!({ "operations": operations, "summary": summary }))
}

fn diagram(source: &Source, request: &ViewRequest) -> Result<Diagram, AnswerError> {
    // The builder itself draws the operations that a filter selects.
    let SelectionQuery { filter, conversation, .. } = request.selection()?;
    let of_conversation = SelectionQuery { conversation, ..SelectionQuery::default() };
    Ok(observe(source, &of_conversation, DiagramBuilder::new(&filter, false))?.finish())
}

/// Passes what a query selects of a source to an observer.
fn observe<O: Observer>(source: &Source, query: &SelectionQuery, observer: O) -> Result<O, AnswerError> {
    observe_selection(source.index(), query, observer).map_err(|error| AnswerError::new(500, error))
}

/// The maximum number of operations in a comparison, and of differences of one operation.
const MAX_COMPARED: usize = 10_000;
const MAX_DIFFERENCES: usize = 100;
/// The maximum width of a value, a path or a title.
const MAX_VALUE: usize = 200;
