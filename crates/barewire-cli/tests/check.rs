//! `barewire check`: a server with one fault fails exactly the check for it, and one without faults fails none.

#![cfg(unix)]

use crate::checked;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use checked::{catalogue, each_fault_is_found, faults, fixture, with_status};
use serde_json::Value;

fn barewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
}

fn faulty_server() -> PathBuf {
    fixture("faulty-server")
}

/// Runs a check. The patience is enough for a busy machine, and is used up only where a response is missing.
fn check(args: &[&str], server: &[&str]) -> (Value, Output) {
    let output = barewire()
        .args(["check", "--json", "--quiet", "--patience", "4"])
        .args(args)
        .arg("--")
        .arg(faulty_server())
        .args(server)
        .output()
        .expect("it runs");
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{server:?}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report, output)
}

const SLOW: &str = r#"slow={"ms":800}"#;

#[test]
fn every_fault_is_found_by_its_check_and_by_no_other() {
    // The definitions of a healthy server are accepted.
    let folder = Folder::new("faults");
    let pin = folder.file("pin.json");
    let (report, output) = check(&["--pin", &pin], &[]);
    assert_eq!(output.status.code(), Some(0), "{report}");
    // Each run has several processes at once itself.
    each_fault_is_found(faults(&faulty_server()), 3, |fault, expected| {
        // Only these need a slow tool.
        let needs_slow =
            matches!(expected, "concurrency" | "late-answer" | "cancelled-answer") || fault == "cancels-all-calls";
        let args: &[&str] = match expected {
            _ if needs_slow => &["--call", SLOW],
            "definition-pin" => &["--pin", &pin],
            _ => &[],
        };
        check(args, &["--fault", fault])
    });
}

#[test]
fn every_check_has_a_fault_that_it_finds() {
    let found: BTreeSet<String> = faults(&faulty_server()).into_iter().map(|(_, check)| check).collect();
    for check in catalogue() {
        let id = check["id"].as_str().expect("an id");
        // tests/check_http.rs covers the checks that run only over HTTP.
        let places = check["places"].as_array().expect("places");
        if !places.iter().any(|it| it == "live (stdio)") {
            continue;
        }
        assert!(found.contains(id), "no fault of the fixture is found by {id}");
    }
}

#[test]
fn nothing_is_found_in_a_healthy_server() {
    let catalogue: Vec<String> =
        catalogue().iter().map(|check| check["id"].as_str().expect("an id").to_owned()).collect();
    for era in [&[][..], &["--legacy"], &["--modern"], &["--tasks"]] {
        let (report, output) = check(&["--call", SLOW], era);
        assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{era:?}: {report}");
        assert_eq!(with_status(&report, "incomplete"), BTreeSet::new(), "{era:?}: {report}");
        assert_eq!(output.status.code(), Some(0), "{era:?}");
        // A healthy server gives these nothing to inspect.
        let skipped = ["definition-pin", "input-required", "stderr-hygiene", "undeclared-client-capability"];
        let mut skipped = BTreeSet::from(skipped);
        match era {
            ["--tasks"] => {}
            [] => skipped.extend(catalogue.iter().map(String::as_str).filter(|id| id.starts_with("task-"))),
            _ => continue,
        }
        assert_eq!(with_status(&report, "skip"), skipped, "{era:?}: {report}");
    }
}

/// `barewire serve`, in all revisions and restricted to some.
#[test]
fn nothing_is_found_in_barewire_serve() {
    for revisions in [&[][..], &["--revision", "2026-07-28"], &["--revision", "2024-11-05,2025-06-18"]] {
        let own = env!("CARGO_BIN_EXE_barewire");
        let output = barewire()
            .args(["check", "--quiet", "--call", r#"sleep={"ms":400}"#, "--call", r#"fail={"message":"no"}"#])
            .args(["--call", "greet={}", "--", own, "serve"])
            .args(revisions)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{revisions:?}: {text}");
    }
}

/// `BLESS=1` rewrites the page; the review is `git diff`.
#[test]
fn the_page_of_checks_matches_the_catalogue() {
    let output = barewire().args(["check", "--page"]).output().expect("it runs");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/checks.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &output.stdout).expect("it can be written");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page.as_bytes() == output.stdout, "docs/checks.md is out of date: BLESS=1 rewrites it");
}

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-check-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn known_findings_do_not_count_and_missing_ones_do() {
    let folder = Folder::new("baseline");
    let known = folder.file("known.json");
    let only = ["--only", "stdout-purity,exit-code"];
    let run = |args: &[&str], fault: &str| {
        let args: Vec<&str> = args.iter().copied().chain(only).collect();
        check(&args, &["--fault", fault])
    };
    let (_, output) = run(&["--write-baseline", &known], "banner");
    assert_eq!(output.status.code(), Some(1));
    let (report, output) = run(&["--baseline", &known], "banner");
    assert_eq!(output.status.code(), Some(0), "{report}");
    // Another fault.
    let (report, output) = run(&["--baseline", &known], "exits-with-three");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["stale"].as_array().map(Vec::len), Some(1), "{report}");
    // No fault, so the entry of the baseline is stale.
    let (report, output) = run(&["--baseline", &known], "none");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(report["verdict"], "fail");
    assert_eq!(with_status(&report, "fail"), BTreeSet::new());
    // An entry that depends on timing may be missing, and is known if it is found.
    let mut entries: Value = serde_json::from_slice(&std::fs::read(&known).expect("the baseline")).expect("JSON");
    entries["findings"][0]["sometimes"] = true.into();
    std::fs::write(&known, entries.to_string()).expect("it can be written");
    for fault in ["none", "banner"] {
        let (report, output) = run(&["--baseline", &known], fault);
        assert_eq!(output.status.code(), Some(0), "{report}");
        assert_eq!(report["stale"].as_array().map(Vec::len), Some(0), "{report}");
    }
}

#[test]
fn fail_on_decides_and_skipped_checks_do_not_run() {
    let (report, output) = check(&["--fail-on", "medium", "--only", "exit-code"], &["--fault", "exits-with-three"]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["exit-code"]));
    assert_eq!(output.status.code(), Some(0), "it is only a low one");
    let (report, _) = check(&["--skip", "exit-code"], &["--fault", "exits-with-three"]);
    assert!(report["checks"].as_array().expect("checks").iter().all(|it| it["id"] != "exit-code"));
}

/// A call may take ten seconds. One whose progress shows that it takes a minute is cancelled long before.
#[test]
fn a_call_whose_progress_shows_that_it_takes_too_long_is_not_waited_for() {
    let folder = Folder::new("long-call");
    let wire = folder.file("run.wire");
    let (report, output) = check(&["--call", r#"slow={"ms":60000}"#, "--record", &wire], &["--legacy"]);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let text = std::fs::read_to_string(&wire).expect("the capture");
    let time = |part: &str| {
        let line = text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part}: {text}"));
        let time = line.split_once("(+").and_then(|(_, rest)| rest.split_once(')')).expect("a time");
        time.0.parse::<f64>().expect("seconds")
    };
    let took = time(r#""reason":"barewire check""#) - time(r#""arguments":{"ms":60000}"#);
    assert!((1.0..10.0).contains(&took), "the call was cancelled after {took} s");
}

#[test]
fn an_unknown_tool_and_a_check_that_cannot_run_are_reported() {
    let (report, output) = check(&["--only", "output-schema", "--call", "no-such={}"], &[]);
    assert_eq!(output.status.code(), Some(3), "{report}");
    assert!(report.to_string().contains("cannot call no-such: the server does not list it"), "{report}");
    let program = env!("CARGO_BIN_EXE_barewire");
    let output = Command::new(program).args(["check", "--only", "http-origin", "--", program, "serve"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no selected check can run on this target"));
}

#[test]
fn a_tool_without_read_only_hint_is_not_called() {
    let folder = Folder::new("permission");
    let wire = folder.file("run.wire");
    let called = |text: &str, tool: &str| text.contains(&format!("\"name\":\"{tool}\""));
    let sent = |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--record", &wire]).collect();
        let (report, output) = check(&args, &[]);
        assert_eq!(output.status.code(), Some(0), "{report}");
        let text = std::fs::read_to_string(&wire).expect("the capture");
        let calls: Vec<&str> = text.lines().filter(|line| line.contains("\"method\":\"tools/call\"")).collect();
        (report, calls.join("\n"))
    };
    let (report, calls) = sent(&[]);
    assert!(called(&calls, "echo") && !called(&calls, "write"), "{calls}");
    let slow = report["checks"].as_array().expect("checks").iter().find(|it| it["id"] == "concurrency");
    assert_eq!(slow.expect("it is there")["skip"], "permission");
    assert!(called(&sent(&["--allow-calls"]).1, "write"));
    // Once, although the server speaks two eras, and with no other arguments.
    let calls = sent(&["--call", r#"write={"text":"this and no other"}"#]).1;
    let written: Vec<&str> = calls.lines().filter(|line| called(line, "write")).collect();
    assert_eq!(written.len(), 1, "{calls}");
    assert!(written[0].contains(r#""arguments":{"text":"this and no other"}"#), "{calls}");
}

/// A tool that is slow once, as any may be on a busy machine, proves nothing about concurrency; one that is always slow
/// does.
#[test]
fn a_tool_that_is_slow_once_is_not_taken_for_a_slow_one() {
    let server = |slow: &str| {
        let script = r#"n=0
            answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
            while read -r line; do
                id=${line#*\"id\":}; id=${id%%,*}
                case $line in
                *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
                *'"tools/list"'*) answer '{"tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}' ;;
                *'"tools/call"'*) n=$((n+1)); SLOW; answer '{"content":[]}' ;;
                *'"ping"'*) answer '{}' ;;
                *'"id"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"no\"}}" ;;
                esac
            done"#;
        let output = barewire()
            .args(["check", "--json", "--quiet", "--only", "concurrency", "--", "sh", "-c"])
            .arg(script.replace("SLOW", slow))
            .output()
            .expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let checks = report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|it| it["id"] == "concurrency").expect("it is there");
        (check["status"].as_str().expect("a status").to_owned(), check["skip"].clone())
    };
    // A tool that is not slow can be slow twice on a busy machine, but not each time.
    let is_skipped = || server("[ $n != 1 ] || sleep 0.5") == ("skip".to_owned(), "permission".into());
    assert!((0..10).any(|_| is_skipped()));
    assert_eq!(server("sleep 0.5"), ("fail".to_owned(), Value::Null));
}

/// One tool that never answers may only be slow, so the check has neither failed nor passed. Several are not all slow.
#[test]
fn a_tool_that_never_answers_may_be_slow_unless_none_answers() {
    let check = |tools: &str| {
        let script = r#"answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
            while read -r line; do
                id=${line#*\"id\":}; id=${id%%,*}
                case $line in
                *'"initialize"'*) answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
                *'"tools/list"'*) answer '"result":{"tools":[TOOLS]}' ;;
                *'"name":"t'*) ;;
                *'"ping"'*) answer '"result":{}' ;;
                *'"id"'*) answer '"error":{"code":-32601,"message":"no"}' ;;
                esac
            done"#;
        let output = barewire()
            .args(["check", "--json", "--quiet", "--only", "unanswered-request", "--", "sh", "-c"])
            .arg(script.replace("TOOLS", tools))
            .output()
            .expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let checks = report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|it| it["id"] == "unanswered-request").expect("it is there");
        (check["status"].as_str().expect("a status").to_owned(), check.to_string(), output.status.code())
    };
    let tool = |name: &str| {
        format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}},"annotations":{{"readOnlyHint":true}}}}"#)
    };
    let (status, text, code) = check(&tool("t1"));
    assert_eq!((status.as_str(), code), ("skip", Some(0)), "{text}");
    assert!(text.contains("t1 did not answer within 10s, and may be slow"), "{text}");
    let (status, text, code) = check(&format!("{},{}", tool("t1"), tool("t2")));
    assert_eq!((status.as_str(), code), ("fail", Some(1)), "{text}");
}

/// A server that is still answering when its stdin ends may exit with an error. It is not its fault that we close it.
#[test]
fn an_answer_under_way_is_waited_for_before_stdin_is_closed() {
    let folder = std::env::temp_dir().join(format!("barewire-slow-answer-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    // The patience is counted from the last answer, so only one request is answered late, between one patience and two.
    let script = r#"cd "$1" && mkdir $$ && cd $$
        answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
        while read -r line; do
            id=${line#*\"id\":}; id=${id%%,*}
            case $line in
            *'"initialize"'*) answer '"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}' ;;
            *'"ping"'*) answer '"result":{}' ;;
            *'"server/discover"'*) answer '"error":{"code":-32601,"message":"no"}' ;;
            *'"id"'*) touch open; (sleep 11; rm open; answer '"error":{"code":-32601,"message":"no"}') & ;;
            esac
        done
        [ ! -e open ] || exit 3"#;
    let output = barewire()
        .args(["check", "--json", "--quiet", "--patience", "8s", "--only", "unknown-method,exit-code"])
        .args(["--", "sh", "-c", script, "sh"])
        .arg(&folder)
        .output()
        .expect("it runs");
    std::fs::remove_dir_all(&folder).expect("it was made");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["unknown-method"]), "{report}");
    assert_eq!(with_status(&report, "pass"), BTreeSet::from(["exit-code"]), "{report}");
}

/// Some twenty requests get no response, and each would cost the patience. They are waited for at once.
#[test]
fn a_server_that_never_answers_errors_costs_the_patience_a_few_times() {
    let began = std::time::Instant::now();
    let (report, _) = check(&[], &["--no-errors"]);
    let failed = with_status(&report, "fail");
    for id in ["unknown-method", "invalid-params", "resource-not-found", "bad-cursor", "parse-error-answer"] {
        assert!(failed.contains(id), "{id}: {report}");
    }
    let took = began.elapsed();
    // One after the other, they would take 80 s. On a busy machine the processes take their time too.
    assert!(took < std::time::Duration::from_secs(60), "{took:?}, with a patience of 4 s: {failed:?}");
}

/// Returns the first finding of a check.
fn first_finding<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().expect("checks");
    &checks.iter().find(|it| it["id"] == id).expect("it is there")["findings"][0]
}

#[test]
fn a_finding_has_the_request_and_the_response() {
    let (report, _) = check(&[], &["--fault", "all-ids-as-strings", "--legacy"]);
    let finding = first_finding(&report, "id-fidelity");
    for (side, stream, id) in [("request", ">", "1"), ("response", "<", "\"1\"")] {
        let excerpt = &finding[side];
        let text = excerpt["text"].as_str().expect("a text");
        let at = |index: usize| usize::try_from(excerpt["fault"][index].as_u64().expect("a number")).expect("it fits");
        assert_eq!(text.get(at(0)..at(1)), Some(id), "{finding}");
        assert_eq!((&excerpt["stream"], excerpt["frame"].is_u64()), (&Value::from(stream), true), "{finding}");
    }
    assert_eq!(finding["unanswered"], false, "{finding}");
    // Without an answer, the request is the evidence.
    let (report, _) = check(&[], &["--fault", "silent-on-junk", "--legacy"]);
    let finding = first_finding(&report, "parse-error-answer");
    assert_eq!(finding["request"]["text"], "{\"jsonrpc\":\"2.0\",\"id\":991,\"method\":", "{finding}");
    assert_eq!((&finding["response"], &finding["unanswered"]), (&Value::Null, &Value::from(true)), "{finding}");
}

/// A server that listens on a port or locks a file runs only once at a time.
#[test]
fn a_server_that_runs_once_at_a_time_is_checked() {
    let folder = Folder::new("lock");
    let script =
        format!("mkdir \"$1/lock\" || exit 1; {}; e=$?; rmdir \"$1/lock\"; exit $e", faulty_server().display());
    let output = barewire()
        .args(["check", "--json", "--quiet", "--patience", "5", "--", "sh", "-c", &script, "sh"])
        .arg(&folder.0)
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert!(with_status(&report, "pass").contains("split-input"), "{report}");
}

/// A tool that takes longer than a call may take is not said to be quick, and the user is not told to pass an option
/// twice.
#[test]
fn the_reason_for_a_skip_is_true() {
    let skip = |args: &[&str], id: &str| {
        let args: Vec<&str> = ["--only", id].iter().chain(args).copied().collect();
        let (report, _) = check(&args, &["--legacy"]);
        let checks = report["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|it| it["id"] == id).expect("it is there").to_string()
    };
    let text = skip(&["--call", r#"slow={"ms":12000}"#], "concurrency");
    assert!(text.contains("slow takes longer than 10 s") && !text.contains("--allow-calls"), "{text}");
    // On a busy machine any tool may take so long once, but not each time.
    let mut texts = (0..10).map(|_| skip(&["--allow-calls", "--call", r#"slow={"ms":1}"#], "concurrency"));
    let text = texts.find(|text| text.contains("no tool takes longer than 200 ms")).expect("a quick call");
    assert!(!text.contains("--allow-calls"), "{text}");
    let text = skip(&[], "concurrency");
    assert!(text.contains("--allow-calls"), "{text}");
}

/// A very slow tool is not a fault, and the other checks still run.
#[test]
fn a_very_slow_tool_is_cancelled() {
    let (report, output) = check(&["--call", r#"slow={"ms":12000}"#], &["--legacy"]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert_eq!(output.status.code(), Some(0), "{report}");
}

#[test]
fn the_cause_that_keeps_a_check_from_running_is_reported() {
    let run = |args: &[&str], program: &[&str]| {
        let output = barewire()
            .args(["check", "--json", "--quiet", "--patience", "0.3"])
            .args(args)
            .arg("--")
            .args(program)
            .output()
            .expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let failed = with_status(&report, "fail").into_iter().map(str::to_owned).collect::<Vec<_>>();
        (failed.join(","), output.status.code())
    };
    let dead = ["sh", "-c", "exit 3"];
    let mute = ["sh", "-c", "cat >/dev/null"];
    assert_eq!(run(&["--only", "stdout-purity"], &dead), ("early-exit".to_owned(), Some(1)));
    assert_eq!(run(&["--only", "id-fidelity"], &mute), ("mute-server".to_owned(), Some(1)));
    assert_eq!(run(&["--only", "eof-exit", "--fail-on", "critical"], &mute).1, Some(1));
    // Without the cause, the result is unknown.
    assert_eq!(run(&["--skip", "early-exit,mute-server"], &dead), (String::new(), Some(3)));
}

/// An error of initialize may list the supported versions.
#[test]
fn a_version_listed_in_an_error_is_requested() {
    let script = r#"while read -r line; do
        case $line in
            *server/discover*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}';;
            *tools/list*) echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}';;
            *initialize*2025-06-18*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"strict","version":"1"}}}';;
            *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2025-06-18"]}}}';;
            *ping*) echo '{"jsonrpc":"2.0","id":2,"result":{}}';;
        esac
    done"#;
    let output = barewire()
        .args(["check", "--json", "--quiet", "--patience", "2", "--only", "ping,version-negotiation"])
        .args(["--", "sh", "-c", script])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "pass"), BTreeSet::from(["ping", "version-negotiation"]), "{report}");
}

/// The finding names the last request.
#[test]
fn a_crash_is_reported_with_its_request() {
    let (report, _) = check(&[], &["--fault", "dies-in-between", "--legacy"]);
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|it| it["id"] == "stays-alive").expect("it is there");
    let finding = &found["findings"][0];
    let detail = finding["detail"].as_str().unwrap_or_default();
    assert!(detail == "the process exited with code 1 while its stdin was open, after logging/setLevel", "{finding}");
    assert!(finding["frame"].is_u64(), "{finding}");
    let request = finding["request"]["text"].as_str().unwrap_or_default();
    assert!(request.contains("\"method\":\"logging/setLevel\""), "{finding}");
}

#[test]
fn a_capture_shows_unanswered_requests() {
    let folder = Folder::new("mute");
    let wire = folder.file("mute.wire");
    let text = "wire 1\n>(+0.1) {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n@(+30) exit signal 15\n";
    std::fs::write(&wire, text).expect("it can be written");
    let output = barewire().args(["check", "--json", &wire]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "fail"), BTreeSet::from(["unanswered-request"]), "{report}");
}

#[test]
fn an_empty_capture_is_incomplete() {
    let folder = Folder::new("empty");
    let wire = folder.file("empty.wire");
    std::fs::write(&wire, "").expect("it can be written");
    let output = barewire().args(["check", &wire]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("UNKNOWN  the capture has no frames"), "{text}");
}

/// The rules for the exit are the same in both eras.
#[test]
fn exit_faults_are_found_in_each_era() {
    for era in ["--legacy", "--modern"] {
        for (fault, expected) in [("stays-after-eof", "eof-exit"), ("leaves-a-child", "orphan-processes")] {
            let (report, output) = check(&[], &["--fault", fault, era]);
            assert_eq!(with_status(&report, "fail"), BTreeSet::from([expected]), "{fault} {era}");
            assert_eq!(output.status.code(), Some(1));
        }
    }
}

/// A launcher and its child do not exit at the same moment.
#[test]
fn a_child_that_exits_soon_is_no_orphan() {
    let server = faulty_server();
    let script = format!("(sleep 0.2; :) & {}; exit 0", server.display());
    let output = barewire()
        .args(["check", "--json", "--quiet", "--only", "orphan-processes", "--", "sh", "-c", &script])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
}

#[test]
fn a_program_that_never_stops_writing_is_ended() {
    let began = std::time::Instant::now();
    let output = barewire().args(["check", "--quiet", "--patience", "0.2", "--timeout", "30", "--", "yes"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("none of which is a response"), "{text}");
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn a_new_finding_counts_after_any_number_of_known_ones() {
    let folder = Folder::new("many");
    let (wire, known) = (folder.file("run.wire"), folder.file("known.json"));
    let banner = "< banner\n".repeat(25);
    std::fs::write(&wire, &banner).expect("it can be written");
    let run = |args: &[&str]| {
        let output = barewire().arg("check").args(args).arg(&wire).output().expect("it runs");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    };
    assert_eq!(run(&["--write-baseline", &known]).1, Some(1));
    let (text, code) = run(&["--baseline", &known]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("failed, all known"), "{text}");
    std::fs::write(&wire, format!("{banner}< Content-Length: 7\n")).expect("it can be written");
    let (text, code) = run(&["--baseline", &known]);
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn only_one_format_is_printed() {
    let output = barewire().args(["check", "--json", "--sarif", "--", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only one of --json"));
}

#[test]
fn the_capture_is_private_and_gives_the_same_findings() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("record");
    let wire = folder.file("run.wire");
    let (live, _) = check(&["--record", &wire], &["--fault", "banner"]);
    let mode = std::fs::metadata(&wire).expect("the capture").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let output = barewire().args(["check", "--json", &wire]).output().expect("it runs");
    let again: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let purity = |report: &Value| {
        let checks = report["checks"].as_array().expect("checks").clone();
        let found = checks.into_iter().find(|it| it["id"] == "stdout-purity").expect("it is there");
        let findings = found["findings"].as_array().expect("findings");
        // A live run sorts findings by connection, and a capture by time.
        let places: BTreeSet<String> =
            findings.iter().map(|it| format!("{} {} {}", it["channel"], it["frame"], it["offset"])).collect();
        assert!(!places.is_empty(), "{report}");
        (places, found["more"].clone())
    };
    assert_eq!(purity(&live), purity(&again));
}

#[test]
fn a_run_that_times_out_is_incomplete() {
    let (report, output) = check(&["--timeout", "1.5", "--call", r#"slow={"ms":4000}"#], &[]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert!(!with_status(&report, "incomplete").is_empty(), "{report}");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let output = barewire().args(["check", "--", "./no-such-server"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no-such-server") && text.contains("hint:"), "{text}");
}

#[test]
fn sarif_and_junit_have_the_findings() {
    let folder = Folder::new("forms");
    let (sarif, junit) = (folder.file("out.sarif"), folder.file("out.xml"));
    let (report, _) = check(&[&format!("--sarif={sarif}"), &format!("--junit={junit}")], &["--fault", "dies-of-junk"]);
    let sarif: Value = serde_json::from_slice(&std::fs::read(&sarif).expect("SARIF")).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), catalogue().len());
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 1, "{results:?}");
    let index = results[0]["ruleIndex"].as_u64().and_then(|at| usize::try_from(at).ok()).expect("an index");
    assert_eq!(rules[index]["id"], results[0]["ruleId"]);
    assert_eq!(results[0]["ruleId"], "parse-error-recovery");
    let sent = &results[0]["properties"]["request"]["text"];
    assert_eq!(*sent, "{\"jsonrpc\":\"2.0\",\"id\":991,\"method\":", "{results:?}");
    let message = results[0]["message"]["text"].as_str().expect("a text");
    assert!(message.contains("\nsent     | ") && message.contains("\nreceived | no response"), "{message}");
    let junit = std::fs::read_to_string(&junit).expect("XML");
    let checks = report["checks"].as_array().expect("checks").len();
    assert!(junit.contains("<testsuite name=\"barewire check ") && junit.contains("failures=\"1\""), "{junit}");
    assert_eq!(junit.matches("<testcase ").count(), checks);
    assert_eq!(junit.matches("<failure ").count(), 1);
    assert!(junit.contains("  sent     | ") && junit.contains("  received | no response"), "{junit}");
}
