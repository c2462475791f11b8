//! `--compare`: two captures -> the operations that differ, and where.

use std::path::Path;

use serde_json::{Value, json};

use crate::output::{Output, Tone, safe_json, shown, stderr};
use crate::{Exit, Failure};
use barewire_workbench::compare::{ComparedOperation, ComparedSide, ComparedState, Comparison, OperationTexts};
use barewire_workbench::frames::FrameReader;
use barewire_workbench::rows::title;

/// Compares the file of `reading` with another. With `json`, prints every operation as an object; otherwise, only those
/// that differ.
pub(super) fn run<'a>(
    other: &'a Path,
    reading: &FrameReader<'a>,
    json: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let first = OperationTexts::read(reading)?;
    let second = OperationTexts::read(&FrameReader { file: Some(other), ..*reading })?;
    let comparison = Comparison::of(&first, &second, &[]);
    for operation in &comparison.operations {
        if json {
            writeln!(output, "{}", safe_json(&object(operation).to_string()))?;
        } else if operation.state() != ComparedState::Same {
            write_operation(output, operation)?;
        }
    }
    output.flush()?;
    let count = |state| comparison.count(state);
    let (same, different) = (count(ComparedState::Same), count(ComparedState::Different));
    let (only_first, only_second) = (count(ComparedState::OnlyFirst), count(ComparedState::OnlySecond));
    if !json {
        let _ = writeln!(
            stderr(),
            "{same} the same, {different} different, {only_first} only in the first, {only_second} only in the second"
        );
    }
    Ok(if different + only_first + only_second == 0 { Exit::Clean } else { Exit::No })
}

fn write_operation(output: &mut Output, operation: &ComparedOperation) -> std::io::Result<()> {
    let state = match operation.state() {
        ComparedState::Same => "same",
        ComparedState::Different => "different",
        ComparedState::OnlyFirst => "only in the first",
        ComparedState::OnlySecond => "only in the second",
    };
    let frame = |side: &Option<ComparedSide>| side.as_ref().map(|side| format!("frame {}", side.frame));
    let frames: Vec<String> = [frame(&operation.first), frame(&operation.second)].into_iter().flatten().collect();
    let title = output.paint(Tone::Strong, title(&operation.method, operation.name.as_deref()));
    writeln!(output, "{title}  {}: {state}", frames.join(" and "))?;
    for difference in &operation.differences {
        let path = if difference.path.is_empty() { "the response" } else { &difference.path };
        let text = |text: &Option<String>| {
            text.as_ref().map_or("nothing".to_owned(), |text| shown(text.as_bytes(), MAX_VALUE))
        };
        let (first, second) = (text(&difference.first), text(&difference.second));
        writeln!(output, "  {}: {first} -> {second}", shown(path.as_bytes(), MAX_PATH))?;
    }
    Ok(())
}

fn object(operation: &ComparedOperation) -> Value {
    let side = |side: &Option<ComparedSide>| {
        side.as_ref().map(|side| {
            json!({
                "conversation": side.conversation, "frame": side.frame, "answer_frame": side.answer_frame,
                "latency": side.latency.map(|latency| latency.as_secs_f64()),
            })
        })
    };
    let differences = operation.differences.iter();
    let differences: Vec<Value> = differences
        .map(|it| json!({ "path": it.path, "a": value(it.first.as_ref()), "b": value(it.second.as_ref()) }))
        .collect();
    json!({
        "method": operation.method, "name": operation.name, "state": operation.state().name(),
        "a": side(&operation.first), "b": side(&operation.second), "differences": differences,
    })
}

/// Returns the JSON text of a place as a string: a peer's value is never built as a tree.
fn value(text: Option<&String>) -> Value {
    text.map_or(Value::Null, |text| Value::String(text.clone()))
}

const MAX_PATH: usize = 100;
const MAX_VALUE: usize = 60;
