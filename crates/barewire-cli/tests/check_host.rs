//! `barewire check --host` finds what is wrong with a client, and only that.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::checked::{each_fault_is_found, faults, fixture, with_status};
use crate::eventually::eventually;

fn barewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
}

/// A folder that is removed with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("barewire-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check_client(options: &[&str], scenarios: &str, client: &[&str]) -> (Value, Output) {
    let output = barewire()
        .args(["check", "--host", "--json", "--quiet", "--scenario", scenarios])
        .args(options)
        .arg("--")
        .arg(fixture("faulty-client"))
        .args(client)
        .arg("{server}")
        .output()
        .expect("it runs");
    let report = serde_json::from_slice(&output.stdout);
    let report: Value = report.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (report, output)
}

/// Each fault is found by exactly its check, and only the client is at fault.
#[test]
fn each_fault_of_a_client_is_found_by_its_check() {
    let faults = faults(&fixture("faulty-client"));
    assert!(faults.len() > 20, "the fixture lists its faults");
    each_fault_is_found(faults, 3, |fault, check| {
        let (options, scenario): (&[&str], _) = match check {
            "client-version" => (&[], "unknown-revision"),
            "client-input-round" | "jsonrpc-messages" => (&["--modern"], "everything"),
            "client-cursor" if fault == "stops-at-empty-cursor" => (&["--modern"], "everything"),
            "client-list-changed" => (&["--stay", "6"], "legacy"),
            _ => (&[], "legacy"),
        };
        let client: Vec<&str> = ["--fault", fault].iter().chain(options).copied().collect();
        let (report, output) = check_client(&[], scenario, &client);
        let findings = report["checks"].as_array().expect("checks").iter().filter_map(|it| it["findings"].as_array());
        assert!(findings.flatten().all(|it| it["party"] == "client"), "{fault}: {report}");
        (report, output)
    });
}

/// A correct client has no findings, in any scenario, and does so much that few checks have nothing to look at.
#[test]
fn a_correct_client_has_no_findings() {
    let scenarios = "legacy,oldest-revision,unknown-revision";
    let (report, output) = check_client(&[], scenarios, &["--stay", "6"]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert_eq!(output.status.code(), Some(0), "{report}");
    let unseen: BTreeSet<&str> = [
        "batch-policy",
        "client-input-round",
        "client-session-expired",
        "http-accept",
        "http-content-type",
        "http-header-mirroring",
        "http-protocol-version",
        "http-session",
        "modern-meta",
        "modern-server-requests",
        "one-message-a-line",
        "progress-rules",
    ]
    .into();
    assert_eq!(with_status(&report, "skip"), unseen, "{report}");
    let (report, _) = check_client(&[], "everything", &["--modern"]);
    assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{report}");
    assert!(with_status(&report, "pass").contains("client-input-round"), "{report}");
}

/// `barewire call` speaks both eras, over stdio and over HTTP.
#[test]
fn our_own_client_has_no_findings() {
    let program = barewire().get_program().to_owned();
    for (target, tool) in [("{server}", "slow"), ("{server}", "ask"), ("{url}", "slow"), ("{url}", "ask")] {
        let mut command = barewire();
        command.args(["check", "--host", "--json", "--quiet", "--"]).arg(&program).args(["call", tool]);
        match target {
            "{url}" => command.args(["--url", target]),
            _ => command.args(["--", target]),
        };
        let output = command.output().expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(with_status(&report, "fail"), BTreeSet::new(), "{target} {tool}: {report}");
        assert_eq!(report["subject"]["kind"], "host");
        let about = report["subject"]["about"].as_str().expect("a summary");
        assert!(about.contains("2024-11-05, 2025-11-25, 2026-07-28;"), "{target}: {about}");
    }
}

/// The probe itself follows every rule of the specification that is checked in a capture. Its definitions have characters
/// that a host must be able to read, and that honest servers do not use.
#[test]
fn the_probe_breaks_no_rule() {
    let folder = Folder::new("probe-rules");
    let captures = folder.file("captures");
    let (_, output) = check_client(&["--folder", &captures], "legacy,oldest-revision", &["--stay", "6"]);
    assert_eq!(output.status.code(), Some(0));
    check_client(&["--folder", &captures], "everything", &["--modern"]);
    for file in ["probe.wire", "probe.2.wire", "probe.3.wire"] {
        let output = barewire().args(["check", "--json"]).arg(format!("{captures}/{file}")).output().expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut failed = with_status(&report, "fail");
        failed.retain(|id| !["control-characters", "text-direction"].contains(id));
        assert_eq!(failed, BTreeSet::new(), "{file}: {report}");
    }
    // The report can be made again from the captures alone.
    let output = barewire().args(["check", "--host", "--json", &captures]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["verdict"], "pass", "{report}");
    assert!(report["subject"]["what"].as_str().is_some_and(|it| it == "host: faulty-client 1"), "{report}");
}

#[test]
fn a_command_must_say_where_the_probe_goes() {
    let output = barewire().args(["check", "--host", "--", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("where the probe goes") && text.contains("hint: write {server}"), "{text}");
}

#[test]
fn a_client_that_never_starts_the_probe_is_not_passed() {
    let output = barewire().args(["check", "--host", "--quiet", "--", "echo", "{config}"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("no host has talked to the probe"), "{text}");
}

/// A host may kill the probe at any time: nothing that was recorded before is lost.
#[test]
fn a_killed_probe_still_has_its_report() {
    let folder = Folder::new("probe-killed");
    let script = r#"mkfifo "$0/in"; "$@" < "$0/in" > /dev/null & probe=$!
        exec 3> "$0/in"
        echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"killer","version":"1"}}}' >&3; sleep 1
        echo '{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}' >&3
        # The request is recorded.
        until cat "$0"/captures/* 2> /dev/null | grep -q '"tools/list"'; do sleep 0.05; done
        sleep 3; kill -KILL $probe; wait"#;
    let captures = folder.file("captures");
    let output = barewire()
        .args(["check", "--host", "--json", "--quiet", "--scenario", "legacy", "--folder", &captures])
        .args(["--", "sh", "-c", script, folder.0.to_str().expect("UTF-8"), "{server}"])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(with_status(&report, "fail").contains("client-initialized"), "{report}");
}

/// A client that goes on with an expired session is found; one that begins again is not.
#[test]
fn an_expired_session_must_be_replaced() {
    for (begins_again, expected) in [(true, "pass"), (false, "fail")] {
        let folder = Folder::new(if begins_again { "expired-new" } else { "expired-old" });
        let captures = folder.file("captures");
        let mut probe = barewire()
            .args(["probe", "--http", "127.0.0.1:0", "--scenario", "legacy", "--folder", &captures])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut line = String::new();
        let mut stderr = BufReader::new(probe.stderr.take().expect("it is piped"));
        stderr.read_line(&mut line).expect("a line");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#;
        let response = post(address, None, initialize);
        let session = header(&response, "mcp-session-id").expect("a session");
        let initialized = post(address, Some(&session), r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(initialized.starts_with("HTTP/1.1 202 "), "{initialized}");
        let expire = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"expire","arguments":{}}}"#;
        assert!(post(address, Some(&session), expire).contains("The server ends now."));
        let list = r#"{"jsonrpc":"2.0","id":3,"method":"prompts/list","params":{}}"#;
        eventually("the session expires", || post(address, Some(&session), list).starts_with("HTTP/1.1 404 "));
        match begins_again {
            true => post(address, None, initialize),
            false => post(address, Some(&session), list),
        };
        let killed = Command::new("kill").arg(probe.id().to_string()).status();
        assert!(killed.expect("kill is there").success());
        assert!(probe.wait().expect("it ends").success());
        let output = barewire().args(["check", "--host", "--json", &captures]).output().expect("it runs");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(with_status(&report, expected).contains("client-session-expired"), "{report}");
    }
}

/// Posts a message, and returns the whole response.
fn post(address: &str, session: Option<&str>, body: &str) -> String {
    let session =
        session.map_or(String::new(), |id| format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n"));
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n{session}connection: close\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(format!("{head}{body}").as_bytes()).expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("UTF-8");
    response
}

fn header(response: &str, name: &str) -> Option<String> {
    let value = |line: &str| line.strip_prefix(&format!("{name}: ")).map(str::to_owned);
    response.lines().find_map(value)
}
