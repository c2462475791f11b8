//! Compares small wires.

use barewire_proto::transcript::read;

use super::{ComparedState, Comparison, OperationTexts};
use crate::frames::{FrameLimits, Streams};
use crate::pipeline::ObserverSink;
use crate::replay::PathPattern;

fn operations(transcript: &str) -> OperationTexts {
    let mut sink = ObserverSink::new(OperationTexts::new());
    let mut streams = Streams::new(FrameLimits { frame: 1 << 20, depth: 64 });
    for entry in read(transcript.as_bytes()).expect("a transcript") {
        assert!(matches!(streams.entry(&entry, &mut sink), Ok(true)));
    }
    assert!(streams.finish(&mut sink).is_ok());
    sink.finish()
}

fn call(id: u32, tool: &str, argument: u32, result: Option<&str>) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{{"n":{argument}}},"_meta":{{"progressToken":{id}}}}}"#);
    let mut wire = format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}\n");
    if let Some(result) = result {
        wire += &format!("< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
    }
    wire
}

fn states(a: &str, b: &str) -> Vec<String> {
    let comparison = Comparison::of(&operations(a), &operations(b), &[]);
    let line = |it: &super::ComparedOperation| {
        let frame = |side: &Option<super::ComparedSide>| side.as_ref().map_or(0, |side| side.frame);
        let paths: Vec<&str> = it.differences.iter().map(|it| it.path.as_str()).collect();
        format!("{} {} {} {} {paths:?}", it.title(), it.state().name(), frame(&it.first), frame(&it.second))
    };
    comparison.operations.iter().map(line).collect()
}

#[test]
fn operations_are_matched_by_params_and_then_by_order() {
    let a = [call(1, "add", 1, Some(r#"{"x":1}"#)), call(2, "add", 2, Some(r#"{"x":2}"#)), call(3, "list", 0, None)]
        .concat();
    // The calls came in another order and with other ids; members in another order are no difference.
    let b = [
        call(7, "add", 2, Some(r#"{"x": 2.0}"#)),
        call(8, "add", 1, Some(r#"{"x":1,"y":[]}"#)),
        call(9, "sub", 0, None),
    ]
    .concat();
    assert_eq!(
        states(&a, &b),
        [
            "tools/call add different 1 3 [\"/result/y\"]",
            "tools/call add same 3 1 []",
            "tools/call list only-a 5 0 []",
            "tools/call sub only-b 0 5 []",
        ]
    );
}

#[test]
fn a_missing_response_and_other_params_are_differences() {
    let a = call(1, "add", 1, Some("{}"));
    assert_eq!(states(&a, &call(1, "add", 5, Some("{}"))), ["tools/call add different 1 1 [\"/params/arguments/n\"]"]);
    let comparison = Comparison::of(&operations(&a), &operations(&call(1, "add", 1, None)), &[]);
    let difference = &comparison.operations[0].differences[0];
    assert_eq!((difference.path.as_str(), difference.second.as_deref()), ("", None));
    assert_eq!(comparison.count(ComparedState::Different), 1);
}

#[test]
fn ignored_places_are_no_differences() {
    let (a, b) = (call(1, "now", 1, Some(r#"{"time":1}"#)), call(1, "now", 1, Some(r#"{"time":2}"#)));
    let ignored: [PathPattern; 1] = ["/result/time".parse().expect("a pattern")];
    assert_eq!(Comparison::of(&operations(&a), &operations(&b), &ignored).count(ComparedState::Same), 1);
    assert_eq!(Comparison::of(&operations(&a), &operations(&b), &[]).count(ComparedState::Different), 1);
}
