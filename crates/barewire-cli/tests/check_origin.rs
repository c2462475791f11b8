//! `barewire check` tells the findings of a server's author from those of its SDK, in every format of a report.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// A capture of a server on the TypeScript SDK 1.x, with one finding of its author and one of the SDK.
fn capture() -> String {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cmd/files/sdk.wire");
    std::fs::read_to_string(file).expect("the capture")
}

/// Checks a capture, and returns the exit code and stdout.
fn check(name: &str, capture: &str, options: &[&str]) -> (Option<i32>, String) {
    let path = std::env::temp_dir().join(format!("barewire-origin-{name}-{}.wire", std::process::id()));
    std::fs::write(&path, capture).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_barewire")).arg("check").args(options).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let output = output.expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

/// The id and origin of each finding.
fn origins(report: &str) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(report).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().expect("checks").clone();
    let of = |check: &Value| check["findings"].as_array().cloned().unwrap_or_default();
    checks
        .iter()
        .flat_map(|check| of(check).iter().map(|it| (text(&check["id"]), text(&it["origin"]))).collect::<Vec<_>>())
        .collect()
}

fn pair(id: &str, origin: &str) -> (String, String) {
    (id.to_owned(), origin.to_owned())
}

#[test]
fn json_names_the_sdk_and_the_origin_of_each_finding() {
    let (code, text) = check("json", &capture(), &["--json"]);
    assert_eq!(code, Some(1));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["sdk"], "TypeScript SDK 1.x");
    assert_eq!(report["marks"]["revision"], "2025-11-25");
    assert_eq!(origins(&text), [pair("structured-errors", "sdk"), pair("tool-names", "author")]);
}

#[test]
fn only_findings_of_the_author_count_unless_strict() {
    let fixed = capture().replace("\"name\":\"get weather\"", "\"name\":\"get-weather\"");
    let (code, text) = check("fixed", &fixed, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("0 of yours, 1 of the SDK (looks like TypeScript SDK 1.x)"), "{text}");
    let (code, text) = check("strict", &fixed, &["--strict"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("They count"), "{text}");
}

#[test]
fn one_answer_that_differs_excludes_the_sdk() {
    let other = capture().replace("\"message\":\"Method not found\"", "\"message\":\"No such method\"");
    let (code, text) = check("other", &other, &["--json"]);
    assert_eq!(code, Some(1));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["sdk"], Value::Null);
    assert_eq!(origins(&text), [pair("structured-errors", "author"), pair("tool-names", "author")]);
}

#[test]
fn too_few_answers_name_no_sdk() {
    let (head, _) = capture().split_once(">(+0.060000)").map(|(head, rest)| (head.to_owned(), rest.len())).expect("it");
    let (_, text) = check("few", &head, &["--json"]);
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["sdk"], Value::Null);
    assert_eq!(origins(&text), [pair("tool-names", "author")]);
}

#[test]
fn junit_and_sarif_hide_nothing() {
    let (_, junit) = check("junit", &capture(), &["--junit"]);
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let case = junit.lines().find(|line| line.contains("name=\"structured-errors\"")).expect("a test case");
    assert!(case.contains("<system-out>"), "{case}");
    assert!(junit.contains("origin: sdk (TypeScript SDK 1.x"), "{junit}");
    assert!(junit.contains("origin: author"), "{junit}");
    let (_, strict) = check("strict-junit", &capture(), &["--junit", "--strict"]);
    assert!(strict.contains("failures=\"2\""), "{strict}");

    let (_, sarif) = check("sarif", &capture(), &["--sarif"]);
    let sarif: Value = serde_json::from_str(&sarif).expect("JSON");
    let run = &sarif["runs"][0];
    assert_eq!(run["properties"]["sdk"], "TypeScript SDK 1.x");
    let results = run["results"].as_array().expect("results");
    let origins: Vec<_> = results.iter().map(|result| result["properties"]["origin"].as_str()).collect();
    assert_eq!(origins, [Some("sdk"), Some("author")]);
    assert!(results.iter().all(|result| result.get("suppressions").is_none()));
}

#[test]
fn verbose_reports_show_the_findings_of_the_sdk_whole() {
    let (_, text) = check("verbose", &capture(), &["-v"]);
    assert!(text.contains("SDK   structured-errors (medium, SHOULD)"), "{text}");
    assert!(text.contains("at /error/message"), "{text}");
}
