//! Helpers of the tests of `barewire check`: the faulty servers, and access to reports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::thread;

use serde_json::Value;

/// The path of a faulty server, an example of this package.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_BIN_EXE_barewire")).parent().expect("it lies in a folder");
    own.join("examples").join(name)
}

/// The faults of a fixture, each with the check that finds it.
pub(crate) fn faults(fixture: &Path) -> Vec<(String, String)> {
    let output = Command::new(fixture).arg("--faults").output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let pair = |line: &str| line.split_once(' ').map(|(fault, check)| (fault.to_owned(), check.to_owned()));
    text.lines().filter_map(pair).collect()
}

/// All checks of the catalogue.
pub(crate) fn catalogue() -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_barewire")).args(["check", "--list", "--json"]).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The ids of the checks with this status.
pub(crate) fn with_status<'a>(report: &'a Value, status: &str) -> BTreeSet<&'a str> {
    let checks = report["checks"].as_array().expect("checks");
    checks.iter().filter(|it| it["status"] == status).filter_map(|it| it["id"].as_str()).collect()
}

/// The checks that failed or could not run.
pub(crate) fn findings(report: &Value) -> Vec<&Value> {
    let checks = report["checks"].as_array().into_iter().flatten();
    checks.filter(|it| it["status"] == "fail" || it["status"] == "incomplete").collect()
}

/// Runs a check for each fault, several at a time: exactly the check for it must fail.
pub(crate) fn each_fault_is_found(
    faults: Vec<(String, String)>,
    at_once: usize,
    check: impl Fn(&str, &str) -> (Value, Output) + Sync,
) {
    let left = Mutex::new(faults);
    let wrong = Mutex::new(Vec::new());
    let work = || {
        while let Some((fault, expected)) = { left.lock().expect("no thread panics").pop() } {
            let (report, output) = check(&fault, &expected);
            let failed = with_status(&report, "fail");
            let unknown = with_status(&report, "incomplete");
            // Without a token no other check can run.
            let is_let_in = expected != "http-unauthorized";
            let is_right = failed == BTreeSet::from([expected.as_str()]) && unknown.is_empty() == is_let_in;
            if !is_right || output.status.code() != Some(1) {
                let findings = findings(&report);
                let text = format!("{fault}: {expected} should fail: {failed:?}, unknown {unknown:?}: {findings:?}");
                wrong.lock().expect("no thread panics").push(text);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("no thread panics");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
