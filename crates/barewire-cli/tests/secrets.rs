//! Nothing that is secret is written down: not in captures, not in logs, not in reports; and that it was on the wire is
//! told.

#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn barewire() -> Command {
    Command::new(env!("CARGO_BIN_EXE_barewire"))
}

/// A folder that is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barewire-secrets-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("it was written")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a shell script under a tap; returns the capture and the log.
fn tapped(name: &str, env: &[(&str, &str)], lines: &str, script: &[&str]) -> (Folder, String, String) {
    let folder = Folder::new(name);
    let mut command = barewire();
    command.args(["tap", "--record", &folder.file("s.wire"), "--log", &folder.file("log"), "--", "sh", "-c"]);
    command.args(script).envs(env.iter().copied()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success());
    let (capture, log) = (folder.text("s.wire"), folder.text("log"));
    (folder, capture, log)
}

#[track_caller]
fn has_none(text: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

#[test]
fn names_are_known_however_they_are_written() {
    let message = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"se\u0063ret":"esc12345","token":987654,"pass":"pa55","#,
        r#""bearer":"bea4er","secret":{"type":"text","value":"ne5ted"},"args":["--password","a4gs"],"key":"kept"}}"#,
        "\n"
    );
    let env = [("GITHUB_PAT", "ghpatvalue123"), ("DB_PASS", "dbpassvalue"), ("MY_KEY", "mykeyvalue1"), ("PWD", "/tmp")];
    let script = "cat; echo $GITHUB_PAT $DB_PASS $MY_KEY; echo srv --password pppsecret >&2";
    let script = [script, "sh", "--password=hun;ter", "--token=$uper", "-e", "DB_PASSWORD=(abc", "--pass", "pas7"];
    let (_folder, capture, log) = tapped("names", &env, message, &script);
    let secrets = ["esc12345", "987654", "pa55", "bea4er", "ne5ted", "a4gs", "value", "pppsecret", "hun", "ter"];
    let capture_only = capture.replace(r#""value":"#, "");
    has_none(&capture_only.replace("barewire", ""), &secrets);
    has_none(&capture, &["$uper", "(abc", "pas7"]);
    assert!(capture.contains(r#""key":"kept""#) && capture.contains("--token=<redacted-"), "{capture}");
    has_none(&log, &["esc12345", "987654", "pa55", "ne5ted", "pppsecret", "hun;", "pas7", "value1"]);
}

#[test]
fn headers_and_settings_are_found_in_any_text() {
    let lines = [
        "X-Api-Key: aaa11bbb",
        "X-Auth-Token: bbb22ccc",
        "api-key: ddd44eee",
        "password: eee55fff",
        "secret: fff66ggg",
        "token: ggg77hhh",
        "access_token: kkk12lll",
        "client_secret = lll34mmm",
        "Mcp-Session-Id: ppp11qqq",
        "OPENAI_API_KEY: rrr33sss",
        "Cookie: sid=sss44ttt; theme=ttt55uuu",
    ];
    let prose = "the token: see below; token = what you got; password: required";
    let text = [&lines[..], &[prose]].concat().join("\n");
    let message = serde_json::json!({"jsonrpc": "2.0", "method": "x", "params": {"text": text}});
    let script = ["cat > /dev/null; printf '%s\n' \"$TEXT\" >&2"];
    let (folder, capture, log) = tapped("settings", &[("TEXT", &text)], &format!("{message}\n"), &script);
    let secrets =
        ["aaa11", "bbb22", "ddd44", "eee55", "fff66", "ggg77", "kkk12", "lll34", "ppp11", "rrr33", "sss44", "ttt55"];
    has_none(&capture, &secrets);
    has_none(&log, &secrets);
    assert_eq!(capture.matches(prose).count(), 2, "{capture}");
    assert_eq!(capture.matches("Cookie: sid=<redacted-11>; theme=<redacted-12>").count(), 2, "{capture}");
    // A check finds the same.
    let raw = format!("wire 1\n> {message}\n! X-Api-Key: aaa11bbb\n");
    fs::write(folder.file("raw.wire"), raw).expect("it can be written");
    let (reports, output) = checked("settings-report", &["--only", "payload-exposure"], &[&folder.file("raw.wire")]);
    let report: Value = serde_json::from_str(&reports.text("json")).expect("JSON");
    let told = |stream: &str| findings(&report, "payload-exposure").iter().any(|it| it["stream"] == stream);
    assert!(told(">") && told("!"), "{report}");
    has_none(&(reports.text("json") + &String::from_utf8_lossy(&output.stdout)), &secrets);
}

#[test]
fn json_over_many_lines_hides_nothing() {
    let config = serde_json::json!({
        "args": ["--token", "S3cr3t-1"],
        "headers": [{"name": "Authorization", "value": "S3cr3t-2"}],
        "password": ["S3cr3t-3", "S3cr3t-4"],
        "secret": {"type": "text", "value": "S3cr3t-5"},
        "kept": "as it is",
    });
    let pretty = serde_json::to_string_pretty(&config).expect("it can be written");
    let fenced = format!("```json\r\n{}\r\n```", pretty.replace('\n', "\r\n"));
    let texts = [&pretty, &pretty.replace("  ", "\t"), &fenced];
    let message =
        serde_json::json!({"jsonrpc": "2.0", "method": "x", "params": {"texts": texts, "deep": config.to_string()}});
    let deep = serde_json::json!({"jsonrpc": "2.0", "method": "y", "params": {"text": message.to_string()}});
    // A program that says so in its log, and one that has lines in its messages.
    let script = ["cat; printf '%s\n' \"$TEXT\" >&2; printf '%s\n' \"$TEXT\""];
    let lines = format!("{message}\n{deep}\n");
    let (_folder, capture, log) = tapped("lines", &[("TEXT", &pretty)], &lines, &script);
    has_none(&capture, &["S3cr3t"]);
    has_none(&log, &["S3cr3t"]);
    let count =
        |sigil: &str, what: &str| capture.lines().filter(|line| line.starts_with(sigil) && line.contains(what)).count();
    for sigil in ["!", "<"] {
        assert!(count(sigil, "\"value\": \"<redacted-") == 2 && count(sigil, "as it is") >= 1, "{capture}");
    }
}

#[test]
fn paths_in_the_environment_are_no_secrets() {
    let path = r#"{"jsonrpc":"2.0","method":"run /usr/bin/python3 in /home/me/x12"}"#;
    let env = [("X_TOKEN", "/usr/bin/python3"), ("Y_TOKEN", "/home/me/x12"), ("Z_TOKEN", "Env/S3cr3t Val+ue-99")];
    let lines = format!("{path}\n?q=Env%2FS3cr3t+Val%2Bue-99 and Env%2FS3cr3t%20Val%2Bue-99\n");
    let (_folder, capture, log) = tapped("paths", &env, &lines, &["cat"]);
    assert_eq!(capture.matches(path).count(), 2, "{capture}");
    has_none(&capture, &["S3cr3t"]);
    has_none(&log, &["S3cr3t"]);
}

#[test]
fn parser_tokens_code_and_methods_are_no_secrets() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"token=await foo(); this.token=token","data":{"token":"}","expected_token":"identifier"}}}"#;
    let ask = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n";
    let script = format!("read line; echo '{error}'");
    let script = [&script, "sh", "--config", r#"{"apiKey": "c0nf", "a": "b"}"#];
    let (_folder, capture, log) = tapped("none", &[("FOO_TOKEN", "tools/call")], ask, &script);
    assert!(capture.contains(error) && capture.contains(ask), "{capture}");
    assert!(capture.contains(r#" --config '{"apiKey": "<redacted-1>", "a": "b"}'"#), "{capture}");
    assert!(log.contains("#1 tools/call a") && !log.contains("payload-exposure"), "{log}");
}

#[test]
fn a_secret_is_recognized_in_a_name_that_is_cut() {
    let secret = "0a1b2c3d4e".repeat(9);
    let tool = format!(r#"{{"name":"{secret}","inputSchema":{{"type":"object"}}}}"#);
    let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool},{tool}]}}}}"#);
    let ask = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
    let script = ["read line; printf '%s\n' \"$ANSWER\""];
    let (_folder, capture, log) = tapped("name", &[("API_KEY", &secret), ("ANSWER", &answer)], ask, &script);
    has_none(&capture, &["0a1b"]);
    has_none(&log, &["0a1b"]);
    assert!(log.contains("two tools have the name <redacted-1>…"), "{log}");
}

#[test]
fn a_log_shows_the_place_of_a_secret_and_not_its_value() {
    let message = concat!(
        r#"{"jsonrpc":"2.0","method":"x","params":{"url":"https://u:pwpwpw@h/","password":"hunter2hunter2","#,
        r#""text":"see https://docs.example/ and postgres://u:abcd@h/ AKIAABCDEFGHIJKLMNOP1"}}"#,
        "\n"
    );
    let (_folder, _, log) = tapped("log", &[], message, &["cat > /dev/null"]);
    has_none(&log, &["pwpw", "hunt", "abcd", "ABCD", "characters"]);
    for told in [
        "a password in a URL [frame 1, byte 0, at /params/url]",
        "a member named like a secret [frame 1, byte 0, at /params/password]",
        "a password in a URL [frame 1, byte 0, at /params/text]",
        "a key of AWS: AKIA… [frame 1, byte 0, at /params/text]",
    ] {
        assert!(log.contains(told), "{told}: {log}");
    }
}

#[test]
fn a_log_redacts_before_it_cuts() {
    let secret = "0a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6q7r8s9t";
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\naGtpRzl3MEJBUUVG\n-----END PRIVATE KEY-----\nready!\n";
    let script = "printf '%0170d ' 7 >&2; echo $API_KEY >&2; tee /dev/stderr";
    let (_folder, capture, log) = tapped("cut", &[("API_KEY", secret)], key, &[script]);
    for text in [&capture, &log] {
        has_none(text, &["0a1b2c", "MIIEvQ", "aGtpRz"]);
        assert!(text.contains("PRIVATE KEY") && text.contains("ready!"), "{text}");
    }
    assert_eq!(log.matches("on stderr: a private key").count(), 1, "{log}");
}

/// Runs `tap` with these options before a program that ends at once.
fn tap(options: &[&str]) -> Output {
    barewire().arg("tap").args(options).args(["--", "true"]).stdin(Stdio::null()).output().expect("it runs")
}

#[test]
fn existing_captures_and_logs_become_private() {
    let folder = Folder::new("mode");
    let (record, log) = (folder.file("s.wire"), folder.file("log"));
    assert!(tap(&["--record", &record, "--log", &log]).status.success());
    for file in [&record, &log] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o664)).expect("it is ours");
    }
    assert!(tap(&["--record", &record, "--overwrite", "--log", &log]).status.success());
    for file in [&record, &log] {
        assert_eq!(fs::metadata(file).expect("it is there").permissions().mode() & 0o7777, 0o600, "{file}");
    }
}

#[test]
fn files_of_another_user_are_refused() {
    let folder = Folder::new("owner");
    let (record, log, report) = (folder.file("s.wire"), folder.file("log"), folder.file("json"));
    for file in [&record, &log, &report] {
        fs::write(file, "").expect("it can be written");
        fs::set_permissions(file, fs::Permissions::from_mode(0o666)).expect("it is ours");
        // Only root can give a file away.
        if std::os::unix::fs::chown(file, Some(65534), None).is_err() {
            return;
        }
    }
    let said = |output: Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let refusal = "the file belongs to another user";
    for (what, options) in [("record", ["--record", &record]), ("log", ["--log", &log])] {
        let said = said(tap(&options));
        assert!(said.contains(refusal), "{what}: {said}");
    }
    let json = format!("--json={report}");
    let options = ["check", "--quiet", "--only", "stdout-purity", &json, "--", "true"];
    let said = said(barewire().args(options).output().expect("it runs"));
    assert!(said.contains(refusal), "{said}");
    for file in [&record, &log, &report] {
        assert_eq!(fs::read(file).expect("root can read it"), b"", "nothing is written to {file}");
    }
}

#[test]
fn a_capture_says_that_it_is_not_redacted() {
    let folder = Folder::new("unredacted");
    let record = folder.file("s.wire");
    let first_line = || folder.text("s.wire").lines().next().unwrap_or_default().to_owned();
    assert!(tap(&["--record", &record]).status.success());
    assert!(!first_line().contains("redacted"), "{}", first_line());
    assert!(tap(&["--record", &record, "--overwrite", "--no-redact"]).status.success());
    assert!(first_line().starts_with("wire 1 ") && first_line().ends_with(" redacted=no"), "{}", first_line());
    // The readers accept it.
    let output = barewire().args(["read", &record]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// `check` of something, with all that it can write; and the folder where that is.
fn checked(name: &str, options: &[&str], what: &[&str]) -> (Folder, Output) {
    let folder = Folder::new(name);
    let form = |form: &str| format!("--{form}={}", folder.file(form));
    let output = barewire()
        .args(["check", "--quiet", "--patience", "2", &form("json"), &form("junit"), &form("sarif")])
        .args(options)
        .args(what)
        .output()
        .expect("it runs");
    (folder, output)
}

const FORMS: [&str; 3] = ["json", "junit", "sarif"];

#[test]
fn reports_are_private_and_have_no_secrets() {
    let script = concat!(
        "echo 'token=bannersecret99 Bearer abcdefghijklmnop1'; printf '\\033[31mtoken=errsecret77\\n' >&2;",
        "exec \"$0\" serve"
    );
    let program =
        ["--", "sh", "-c", script, env!("CARGO_BIN_EXE_barewire"), "--api-key=argv;secret88", "--pass", "pa55"];
    let secrets = ["bannersecret99", "abcdefghijklmnop1", "errsecret77", "secret88", "pa55"];
    let options = ["--only", "stdout-purity,stderr-hygiene"];
    let (folder, output) = checked("reports", &options, &program);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{printed}");
    has_none(&printed, &secrets);
    assert!(printed.contains("--api-key=<redacted-") && printed.contains("| token=<redacted-"), "{printed}");
    for form in FORMS {
        has_none(&folder.text(form), &secrets);
        let mode = fs::metadata(folder.file(form)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{form}");
    }
    let (folder, output) = checked("reports-all", &[&options[..], &["--no-redact"]].concat(), &program);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    // Of the command line only the beginning is shown.
    for secret in &secrets[..4] {
        assert!(printed.contains(secret) && FORMS.iter().all(|form| folder.text(form).contains(secret)), "{secret}");
    }
}

#[test]
fn captures_of_checks_have_redacted_arguments() {
    let folder = Folder::new("open");
    let record = folder.file("c.wire");
    let script = "exec \"$0\" serve";
    let options = ["check", "--quiet", "--only", "stdout-purity", "--record", &record, "--", "sh", "-c", script];
    let output = barewire()
        .args(options)
        .args([env!("CARGO_BIN_EXE_barewire"), "--api-key", "abcdefgh12345"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    let text = folder.text("c.wire");
    has_none(&text, &["abcdefgh12345"]);
    let open = format!("open sh -c '{script}' {} --api-key <redacted-1>", env!("CARGO_BIN_EXE_barewire"));
    assert!(text.contains(&open), "{text}");
}

/// The findings of one check, as JSON has them.
fn findings<'a>(report: &'a Value, id: &str) -> &'a Vec<Value> {
    let checks = report["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["id"] == id).expect(id);
    check["findings"].as_array().unwrap_or_else(|| panic!("{id} has not failed: {check}"))
}

#[test]
fn a_replacement_in_a_capture_is_reported_as_a_secret() {
    let leak = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"use AKIAABCDEFGHIJKLMNOP"}]}}"#;
    let script = format!("read line; echo '{leak}'; echo token=abcdefgh12345678 >&2");
    let ask = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n";
    let (folder, capture, log) = tapped("redacted", &[], ask, &[&script]);
    has_none(&capture, &["AKIA", "abcdefgh"]);
    assert!(log.contains("payload-exposure"), "{log}");
    let record = folder.file("s.wire");
    let (folder, _) = checked("redacted-report", &["--only", "payload-exposure"], &[&record]);
    let report: Value = serde_json::from_str(&folder.text("json")).expect("JSON");
    let found = findings(&report, "payload-exposure");
    let told = |finding: &Value| (finding["path"].as_str().map(str::to_owned), finding["detail"].clone());
    let mut told: Vec<_> = found.iter().map(told).collect();
    told.sort_by_key(|(path, _)| path.clone());
    let what = "a secret, redacted while recording";
    let expected =
        [(None, format!("on stderr: {what}").into()), (Some("/result/content/0/text".to_owned()), what.into())];
    assert_eq!(told, expected);
}

#[test]
fn text_of_a_peer_cannot_change_the_look_of_a_report() {
    let folder = Folder::new("escapes");
    let capture = concat!(
        "wire 1\n",
        "> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n",
        r#"< {"jsonrpc":"2.0","id":1,"method":"\u001b]0;owned\u0007x"}"#,
        "\n",
        r#"< {"jsonrpc":"2.0","id":1,"result":{"\u001b[2J":"AKIAABCDEFGHIJKLMNOP"}}"#,
        "\n",
    );
    fs::write(folder.file("c.wire"), capture).expect("it can be written");
    let (_reports, output) = checked("escapes-report", &[], &[&folder.file("c.wire")]);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(!printed.contains('\x1b') && printed.contains("at /result/\\x1b[2J"), "{printed}");
}

#[test]
fn a_session_is_in_no_report() {
    let folder = Folder::new("session");
    let exchange = |number: u32, body: &str, answer: &str| {
        let heads = "head > mcp-session-id: 5e55ion-0815";
        let mut text = format!("@x{number} head > POST /mcp HTTP/1.1\n@x{number} {heads}\n@x{number} framing body\n");
        text += &format!(">x{number}(noeol) {body}\n@x{number} eof >\n");
        if !answer.is_empty() {
            text += &format!("@x{number} head < HTTP/1.1 200 OK\n@x{number} head < content-type: application/json\n");
            text += &format!("<x{number}(noeol) {answer}\n@x{number} eof <\n");
        }
        text
    };
    let ask = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let answer = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    let capture = ["wire 1\n".to_owned(), exchange(1, &ask(1), ""), exchange(2, &ask(2), answer)].concat();
    fs::write(folder.file("c.wire"), capture).expect("it can be written");
    let (reports, _) = checked("session-report", &["--only", "unanswered-request"], &[&folder.file("c.wire")]);
    let report: Value = serde_json::from_str(&reports.text("json")).expect("JSON");
    assert_eq!(findings(&report, "unanswered-request")[0]["channel"], "x1");
    has_none(&reports.text("json"), &["5e55ion"]);
}

/// A server that sends every client the same encoded bytes.
fn encoded_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n";
            let _ = write!(stream, "{head}content-length: 10\r\nconnection: close\r\n\r\nencoded-me");
        }
    });
    url
}

#[test]
fn headers_of_the_user_are_numbered_like_all_secrets_and_encoded_bodies_are_left_out() {
    let (folder, url) = (Folder::new("web"), encoded_server());
    let record = folder.file("c.wire");
    let options = ["--header", "X-Odd: 0dd-va1ue-0815", "--header", "Mcp-Session-Id: s-1", "--record", &record];
    let output = barewire()
        .args(["check", "--quiet", "--patience", "0.5", "--timeout", "20", "--url", &format!("{url}?token=abc")])
        .args(options)
        .output()
        .expect("it runs");
    let text = folder.text("c.wire");
    has_none(&(text.clone() + &String::from_utf8_lossy(&output.stdout)), &["0dd-va1ue", "token=abc", "encoded-me"]);
    assert!(text.contains("gap < 10") && text.contains("unread < the body is encoded: gzip"), "{text}");
    // The query has the first number, so a header cannot have it.
    assert!(text.contains("?token=<redacted-1>") && text.contains("x-odd: <redacted-2>"), "{text}");
}
