//! `barewire check` of healthy servers that are slow, or whose lists change: nothing is found. What a server never
//! ends is not waited for.

#![cfg(unix)]

use crate::checked;

use std::collections::BTreeSet;
use std::process::Command;

use checked::{fixture, with_status};
use serde_json::Value;

/// Runs a check of the faulty server without a fault, with a patience that is enough for a busy machine.
fn check(args: &[&str], server: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_barewire"))
        .args(["check", "--json", "--quiet"])
        .args(args)
        .arg("--")
        .arg(fixture("faulty-server"))
        .args(server)
        .output()
        .expect("it runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{server:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn assert_healthy(report: &Value, passed: &[&str]) {
    assert_eq!(with_status(report, "fail"), BTreeSet::new(), "{report}");
    assert_eq!(with_status(report, "incomplete"), BTreeSet::new(), "{report}");
    for id in passed {
        assert!(with_status(report, "pass").contains(id), "{id} has not passed: {report}");
    }
}

#[test]
fn nothing_is_found_in_a_server_that_starts_slowly() {
    assert_healthy(&check(&[], &["--starts-after", "3000"]), &["call-before-initialized", "modern-stateless"]);
}

#[test]
fn nothing_is_found_in_a_server_that_answers_slowly() {
    let passed = ["coalesced-input", "answers-at-eof", "batch-policy", "envelope-validation", "answer-matching"];
    assert_healthy(&check(&[], &["--legacy", "--answers-after", "250"]), &passed);
}

#[test]
fn nothing_is_found_in_a_server_with_a_slow_tool() {
    let slow = r#"slow={"ms":4000}"#;
    assert_healthy(&check(&["--call", slow], &["--legacy"]), &["concurrency", "late-answer", "answer-matching"]);
}

/// The client is told of each change, and may read a tool twice whose page has changed.
#[test]
fn nothing_is_found_in_a_list_that_changes_while_it_is_read() {
    assert_healthy(&check(&[], &["--legacy", "--changes", "moving"]), &["tool-names", "pagination"]);
    assert_healthy(&check(&[], &["--legacy", "--changes", "refusing-cursors"]), &["tool-names", "pagination"]);
}

/// A server may answer before it has found all of its tools.
#[test]
fn nothing_is_found_in_a_list_that_grows_after_the_start() {
    for era in ["--legacy", "--modern"] {
        for loading in ["50", "200", "600"] {
            assert_healthy(&check(&[], &[era, "--loads-for", loading]), &["tool-names", "pagination"]);
        }
    }
}

/// Such a list could be read for ever. What is found does not need all pages that a client may read.
#[test]
fn a_list_whose_pages_repeat_is_not_read_to_the_last_page() {
    let report = check(&["--only", "pagination"], &["--legacy", "--endless-lists"]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["pagination"]), "{report}");
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|it| it["id"] == "pagination").expect("it is there");
    let detail = found["findings"][0]["detail"].as_str().unwrap_or_default();
    assert_eq!(detail, "tools/list: the last 10 pages have only entries of the pages before", "{found}");
}

/// A call may keep such a server busy for longer than any request is waited for. That it does is the only finding.
#[test]
fn only_concurrency_is_found_in_a_server_that_waits_for_its_tools() {
    for era in ["--legacy", "--modern"] {
        let report = check(&["--patience", "3", "--timeout", "300"], &[era, "--blocks-for", "8000"]);
        assert_eq!(with_status(&report, "fail"), BTreeSet::from(["concurrency"]), "{report}");
    }
}
