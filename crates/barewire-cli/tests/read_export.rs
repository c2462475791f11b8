//! `barewire read` with `--har`, `--otlp`, `--html` and `--compare`: files for other programs, and two captures.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.args(args).env("COLUMNS", "").current_dir("tests/cmd/files").output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the directions, kinds and methods of all frames of a file.
fn kinds(file: &str) -> Vec<(Value, Value, Value)> {
    let output = text(&run(&["read", "--json", file]).stdout);
    let parse = |line: &str| -> Value { serde_json::from_str(line).expect(line) };
    output.lines().map(parse).map(|it| (it["stream"].clone(), it["kind"].clone(), it["method"].clone())).collect()
}

#[test]
fn a_har_file_is_read_as_the_capture_it_was_made_of() {
    for capture in ["tour.wire", "http.wire"] {
        let output = run(&["read", "--har", capture]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let path = std::env::temp_dir().join(format!("barewire-export-{}-{capture}.har", std::process::id()));
        fs::write(&path, &output.stdout).expect("a file");
        let mut read = kinds(&path.display().to_string());
        fs::remove_file(path).expect("it is ours");
        let mut wire = kinds(capture);
        // A HAR file has no times within a stream, so a message in it can come after those of other exchanges.
        let key = |it: &(Value, Value, Value)| format!("{it:?}");
        if capture == "http.wire" {
            read.sort_by_key(key);
            wire.sort_by_key(key);
        }
        assert_eq!(read, wire, "{capture}");
    }
}

#[test]
fn every_operation_is_a_span() {
    let output = run(&["read", "--otlp", "tour.wire"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let spans = json["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
    let calls = spans.iter().filter(|span| span["name"].as_str().is_some_and(|name| name.starts_with("tools/call ")));
    assert_eq!(calls.count(), 4);
    let refused = spans.iter().find(|span| span["name"] == "tools/weld").expect("a span");
    assert_eq!((&refused["kind"], &refused["status"]["code"]), (&3.into(), &2.into()));
}

#[test]
fn the_page_contains_the_frames_and_nothing_from_elsewhere() {
    let output = run(&["read", "--html", "tour.wire"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    let data = page.split("id=\"barewire-data\">").nth(1).and_then(|rest| rest.split("</script>").next());
    let data: Value = serde_json::from_str(data.expect("data")).expect("JSON");
    let rows = data["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().filter(|row| row["frame"].is_u64()).count(), 19);
    assert!(data["frames"]["3"]["text"].as_str().is_some_and(|text| text.contains("saw")), "{}", data["frames"]["3"]);
    assert!(data["frames"]["3"]["tree"].as_array().is_some_and(|nodes| !nodes.is_empty()), "{}", data["frames"]["3"]);
    assert_eq!(data["sources"]["sources"][0]["state"], "complete");
    assert!(data["words"]["tools/call"].is_string() && data["timeline"]["bars"].is_array(), "{}", data["words"]);
    assert!(
        page.contains("default-src 'none'") && !page.contains(" src=\"") && !page.contains("href=\"http"),
        "{page}"
    );
}

#[test]
fn a_plain_stream_has_no_times_to_export() {
    for option in ["--har", "--otlp"] {
        for filter in [vec![], vec!["--method", "ping"]] {
            let output = run(&[vec!["read", option, "good.ndjson"], filter].concat());
            assert_eq!(output.status.code(), Some(2));
            assert!(text(&output.stderr).contains(&format!("{option} needs a transcript")), "{}", text(&output.stderr));
        }
    }
    let output = run(&["read", "--html", "--slower-than", "1s", "good.ndjson"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--slower-than needs a transcript"), "{}", text(&output.stderr));
}

/// A response can select its request, also if the input is a pipe.
#[test]
fn an_export_has_what_the_filters_select() {
    let har = |filters: &[&str]| -> Vec<String> {
        let output = run(&[&["read", "--har", "tour.wire"], filters].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let entries = json["log"]["entries"].as_array().expect("entries").clone();
        entries.iter().map(|it| it["request"]["url"].as_str().expect("a URL").to_owned()).collect()
    };
    let (drill, weld) = ("stdio://server/tools/call/drill".to_owned(), "stdio://server/tools/weld".to_owned());
    assert_eq!(har(&["--errors"]), [drill, weld.clone()]);
    assert_eq!(har(&["--kind", "error"]), [weld]);
    assert_eq!(har(&["--unanswered"]), ["stdio://server/tools/list"]);
    assert_eq!(har(&["--tool", "paint"]), ["stdio://server/tools/call/paint", "stdio://server/tools/call/paint"]);
    assert!(har(&["--tool", "nothing"]).is_empty());
    let spans = run(&["read", "--otlp", "--slower-than", "1s", "tour.wire"]);
    assert!(text(&spans.stdout).contains("tools/call glue") && !text(&spans.stdout).contains("tools/call saw"));
    let page = text(&run(&["read", "--html", "--tool", "drill", "tour.wire"]).stdout);
    assert!(page.contains("This file has only what the filter tool:drill selects."));
    assert!(page.contains("no bit of 90 mm") && !page.contains("3 planks"));
}

/// With a filter, the input is kept until it is read whole. A file that lacks a part of it would look complete.
#[test]
fn an_export_of_what_cannot_be_kept_is_an_error() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    let no_folder = std::env::temp_dir().join("barewire-no-such-folder");
    command.args(["read", "--har", "--errors", "tour.wire"]).env("TMPDIR", no_folder).current_dir("tests/cmd/files");
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(
        said.contains("cannot keep the input to export a part of it: the texts of frames cannot be kept"),
        "{said}"
    );
    assert!(said.contains("hint: TMPDIR names a folder"), "{said}");
}

#[test]
fn a_comparison_names_what_differs() {
    let same = run(&["read", "--compare", "tour.wire", "tour.wire"]);
    assert_eq!((same.status.code(), text(&same.stdout)), (Some(0), String::new()));
    assert!(text(&same.stderr).contains(", 0 different, 0 only in the first, 0 only in the second"));
    let changed = fs::read_to_string("tests/cmd/files/tour.wire")
        .expect("a capture")
        .replace("\"isError\":true", "\"isError\":false");
    let path = std::env::temp_dir().join(format!("barewire-compare-{}.wire", std::process::id()));
    fs::write(&path, changed).expect("a file");
    let other = path.display().to_string();
    let differs = run(&["read", "--compare", &other, "tour.wire"]);
    let objects = text(&run(&["read", "--json", "--compare", &other, "tour.wire"]).stdout);
    fs::remove_file(path).expect("it is ours");
    assert_eq!(differs.status.code(), Some(1), "{}", text(&differs.stderr));
    let shown = text(&differs.stdout);
    assert!(shown.contains("tools/call drill") && shown.contains("/result/isError: true -> false"), "{shown}");
    let states: Vec<Value> = objects.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let different: Vec<&Value> = states.iter().filter(|it| it["state"] == "different").collect();
    assert_eq!((different.len(), &different[0]["differences"][0]["a"]), (1, &"true".into()));
}
