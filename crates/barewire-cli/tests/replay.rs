//! `barewire replay` with real programs: captures of real sessions, replayed to servers that are the same, changed,
//! silent or dead.
#![cfg(unix)]

use crate::program_output;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use program_output::ProgramOutput;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_barewire");

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{name}.wire"))
}

fn run(args: &[&str]) -> ProgramOutput {
    ProgramOutput::of(Command::new(PROGRAM).args(args).stdin(Stdio::null()).output().expect("it runs"))
}

/// Records a session of a client and our server with a tap.
fn record(name: &str, call: &[&str]) -> String {
    let file = file(name);
    let _ = fs::remove_file(&file);
    let path = file.to_str().expect("UTF-8").to_owned();
    let tap = ["--", PROGRAM, "tap", "--record", &path, "--", PROGRAM, "serve"];
    let said = run(&[&["call"], call, &tap].concat());
    assert_ne!(said.code, Some(2), "{}", said.stderr);
    path
}

/// Writes a capture.
fn written(name: &str, text: &str) -> String {
    let file = file(name);
    fs::write(&file, text).expect("a file");
    file.to_str().expect("UTF-8").to_owned()
}

fn edited(name: &str, capture: &str, from: &str, to: &str) -> String {
    let text = fs::read_to_string(capture).expect("a capture");
    assert!(text.contains(from), "{text}");
    written(name, &text.replace(from, to))
}

fn replay(capture: &str, options: &[&str], server: &[&str]) -> ProgramOutput {
    run(&[&["replay", capture], options, &["--"], server].concat())
}

fn shell(capture: &str, options: &[&str], script: &str) -> ProgramOutput {
    replay(capture, options, &["sh", "-c", script])
}

const SERVE: &[&str] = &[PROGRAM, "serve"];

#[test]
fn a_replayed_session_has_no_difference_in_any_era() {
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        for (index, asked) in [
            &["tools"][..],
            &["echo", "text=hello"],
            &["sleep", "ms=20", "--quiet"],
            &["greet", "--answer", "name=Ada"],
            &["fail", "message=no"],
            &["prompt", "introduce", "name=Ada"],
        ]
        .iter()
        .enumerate()
        {
            let name = format!("era-{revision}-{index}");
            let capture = record(&name, &[asked, &["--revision", revision][..]].concat());
            let said = replay(&capture, &["--notifications"], SERVE);
            assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{asked:?} {}", said.stderr);
            assert!(said.stderr.ends_with(": no difference\n"), "{}", said.stderr);
        }
    }
}

#[test]
fn a_different_response_is_shown_with_its_place() {
    let capture = record("add", &["add", "a=19", "b=23", "--revision", "2025-06-18"]);
    let changed = edited("add-changed", &capture, "\"text\":\"42\"", "\"text\":\"43\"");
    let said = replay(&changed, &[], SERVE);
    let diff = "tools/call add, id 3: the response differs (frames 6, 7)\n  /result/content/0/text\n    - \"43\"\n    + \"42\"\n";
    said.has(1, diff, "4 messages sent, 3 compared: 1 difference\n");

    let said = replay(&changed, &["--json"], SERVE);
    let lines: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((said.code, lines.len()), (Some(1), 2));
    assert_eq!(lines[0]["changes"][0]["path"], "/result/content/0/text");
    assert_eq!((&lines[0]["frame"], &lines[0]["answer_frame"]), (&6.into(), &7.into()));
    assert_eq!((&lines[1]["kind"], &lines[1]["differences"]), (&"summary".into(), &1.into()));

    let ignored = replay(&changed, &["--ignore", "tools/call:/result/content/*/text"], SERVE);
    ignored.has(0, "", "4 messages sent, 3 compared: no difference\n");
    let other_method = replay(&changed, &["--ignore", "tools/list:/result/content/*/text"], SERVE);
    assert_eq!(other_method.code, Some(1));
}

/// A server with new cursors each time: a page for each of them, and an error for any other.
const PAGES: &str = r#"
    read -r one; echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"fresh-'$$'"}}'
    read -r two
    case "$two" in
        *'"cursor":"fresh-'$$'"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}' ;;
        *) echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such page"}}' ;;
    esac
    read -r end"#;

#[test]
fn live_cursors_and_states_are_returned() {
    let capture = written(
        "pages",
        r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"old"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"old"}}
< {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
"#,
    );
    shell(&capture, &[], PAGES).has(0, "", "2 messages sent, 2 compared: no difference\n");
    // Our server seals a new state in each process, and refuses any other.
    let capture = record("state", &["greet", "--answer", "name=Ada", "--revision", "2026-07-28"]);
    let said = replay(&capture, &[], SERVE);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""));
}

#[test]
fn strings_that_the_client_sends_first_are_not_generated() {
    let capture = written(
        "echo",
        r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"build-20260728-1"}}
< {"jsonrpc":"2.0","id":1,"result":{"text":"build-20260728-1","order":"order-20260728-77"}}
> {"jsonrpc":"2.0","id":2,"method":"get","params":{"order":"order-20260728-77"}}
< {"jsonrpc":"2.0","id":2,"result":{}}
"#,
    );
    let server = r#"read -r one; echo '{"jsonrpc":"2.0","id":1,"result":{"text":"WRONG","order":"order-other"}}'
        read -r two; case "$two" in *order-other*) echo '{"jsonrpc":"2.0","id":2,"result":{}}' ;; esac; read -r end"#;
    let told =
        "echo, id 1: the response differs (frames 1, 2)\n  /result/text\n    - \"build-20260728-1\"\n    + \"WRONG\"\n";
    shell(&capture, &[], server).has(1, told, "2 messages sent, 2 compared: 1 difference\n");
}

#[test]
fn a_respelled_id_is_a_difference() {
    let capture = written("ids", TWO);
    let server = r#"read -r one; echo '{"jsonrpc":"2.0","id":1.0,"result":{}}'
        read -r two; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; read -r end"#;
    let told = "a, id 1: the response differs (frames 1, 2)\n  /id\n    - 1\n    + 1.0\n";
    shell(&capture, &[], server).has(1, told, "2 messages sent, 2 compared: 1 difference\n");
    // Unless the capture has the same spelling.
    let same = edited("ids-same", &capture, "< {\"jsonrpc\":\"2.0\",\"id\":1,", "< {\"jsonrpc\":\"2.0\",\"id\":1.0,");
    assert_eq!(shell(&same, &[], server).code, Some(0));
    assert_eq!(shell(&capture, &["--ignore", "/id"], server).code, Some(0));
}

#[test]
fn framings_that_no_program_reads_are_refused() {
    let capture = written(
        "sse",
        r#"@ framing sse
> data: {"jsonrpc":"2.0","id":1,
> data: "method":"tools/list","params":{"cursor":"old"}}
>
"#,
    );
    let said = shell(&capture, &[], "cat");
    let told = format!(
        "barewire: cannot replay {capture}: its framing is sse, which no program reads on stdin\n\
         hint: barewire read lists the frames of the input\n"
    );
    said.has(2, "", &told);
}

const TWO: &str = r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"a"}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":2,"method":"b"}
< {"jsonrpc":"2.0","id":2,"result":{}}
"#;

#[test]
fn the_end_of_a_server_is_reported_with_its_place() {
    let capture = written("dies", TWO);
    let dies = r#"read -r one; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read -r two; exit 3"#;
    let said = shell(&capture, &[], dies);
    let told = "b, id 2: no response: the server ended with code 3 (frames 3, 4)\n";
    said.has(1, told, "2 messages sent, 1 compared: 1 difference\n");
    let said = shell(&capture, &[], "read -r one; kill -9 $$");
    let told = "the server ended with signal 9: 1 message of the client could not be sent after that (frame 1)\n\
        a, id 1: no response: the server ended with signal 9 (frames 1, 2)\n";
    said.has(1, told, "1 message sent, 0 compared: 2 differences\n");
}

#[test]
fn a_silent_server_is_not_waited_for_forever() {
    let capture = written("mute", TWO);
    let said = shell(&capture, &["--timeout", "0.3"], "cat > /dev/null");
    let told = "a, id 1: no response: nothing within 0.3 s (frames 1, 2)\nb, id 2: no response: nothing within 0.3 s (frames 3, 4)\n";
    said.has(1, told, "2 messages sent, 0 compared: 2 differences\n");
}

#[test]
fn extra_responses_and_invalid_frames_are_reported() {
    let capture = written("twice", TWO);
    let twice = r#"echo 'listening on stdio'
        read -r one; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
        read -r two; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; echo '{"jsonrpc":"2.0","id":9,"result":{}}'
        cat > /dev/null"#;
    let said = shell(&capture, &[], twice);
    let told = "not a message\n    + listening on stdio\n\
        a, id 1: answered once more than in the capture (frame 1)\n    + {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\
        id 9: a response that matches no request\n    + {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n";
    said.has(1, told, "2 messages sent, 2 compared: 3 differences\n");
}

#[test]
fn the_recorded_bytes_are_sent() {
    let text = "wire 1\n>(crlf)  {\"jsonrpc\" :\"2.0\", \"id\":1.0,\"method\":\"a\"}\n>\n>(esc) nonsense\\xff\n>(noeol) {\"half\n";
    let capture = written("bytes", text);
    let copy = file("bytes-copy");
    let said = shell(&capture, &[], &format!("cat > '{}'", copy.display()));
    said.has(0, "", "3 messages sent, 0 compared: no difference\n");
    let expected = b" {\"jsonrpc\" :\"2.0\", \"id\":1.0,\"method\":\"a\"}\r\n\nnonsense\xff\n{\"half";
    assert_eq!(fs::read(copy).expect("a copy"), expected);
}

#[test]
fn concurrent_requests_stay_concurrent() {
    // The server answers only when it has all requests.
    let asks: String = (1..=20).map(|id| format!("> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n")).collect();
    let answers: String =
        (1..=20).rev().map(|id| format!("< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{id}}}\n")).collect();
    let capture = written("concurrent", &format!("wire 1\n{asks}{answers}"));
    let server = r#"i=0; while [ $i -lt 20 ]; do read -r line; i=$((i+1)); done
        while [ $i -gt 0 ]; do echo '{"jsonrpc":"2.0","id":'$i',"result":'$i'}'; i=$((i-1)); done; cat > /dev/null"#;
    shell(&capture, &["--timeout", "5"], server).has(0, "", "20 messages sent, 20 compared: no difference\n");
}

#[test]
fn a_large_message_each_way_does_not_get_stuck() {
    let text = "x".repeat(3_000_000);
    let asks = format!("> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{{\"text\":\"{text}\"}}}}\n");
    let answer = format!("< {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{text}\"}}\n");
    let capture = written("large", &format!("wire 1\n{asks}{answer}"));
    let said = replay(&capture, &["--timeout", "20"], &[PROGRAM, "replay", "--quiet", "--serve", &capture]);
    said.has(0, "", "1 message sent, 1 compared: no difference\n");
}

#[test]
fn in_real_time_nothing_is_sent_earlier() {
    let capture = written(
        "slow",
        "wire 1\n>(+1.0) {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n>(+1.4) {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n",
    );
    let took = |options: &[&str]| {
        let began = Instant::now();
        assert_eq!(shell(&capture, options, "cat > /dev/null").code, Some(0));
        began.elapsed()
    };
    assert!(took(&["--real-time"]) >= Duration::from_millis(400));
}

#[test]
fn unusable_captures_are_refused_before_a_program_is_started() {
    let touched = file("touched");
    let _ = fs::remove_file(&touched);
    let touch = format!("touch '{}'", touched.display());
    let redacted = written(
        "redacted",
        ">(redacted) {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"key\":\"<redacted-1>\"}}\n",
    );
    let said = shell(&redacted, &[], &touch);
    let hint = "hint: --allow-redacted replays the replaced text as it is, and accepts any response in its place\n";
    said.has(2, "", &format!("barewire: cannot replay {redacted}: frame 1 has a redacted secret\n{hint}"));
    let gap = written("gap", "> {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n@ gap < 10\n");
    let said = shell(&gap, &[], &touch);
    assert!(said.stderr.contains("10 bytes of < are missing before frame 2"), "{}", said.stderr);
    assert_eq!(run(&["replay", &gap]).code, Some(2));
    assert_eq!(run(&["replay", "/no/such.wire", "--", "true"]).code, Some(2));
    let fit = written("fit", TWO);
    assert_eq!(
        run(&["replay", &fit]).stderr,
        "barewire: no server to replay to: give a program or --url\nhint: barewire replay FILE -- PROGRAM ARGS…, or --serve\n"
    );
    let said = run(&["replay", &fit, "--", "/no/such/program"]);
    said.has(2, "", "barewire: cannot start /no/such/program: no such file\n");
    assert!(!touched.exists());
    assert_eq!(shell(&redacted, &["--allow-redacted"], "cat > /dev/null").code, Some(0));
}

#[test]
fn a_server_from_a_capture_answers_a_client() {
    for revision in ["2025-06-18", "2026-07-28"] {
        let capture = record(&format!("served-{revision}"), &["greet", "--answer", "name=Ada", "--revision", revision]);
        let serve = ["--", PROGRAM, "replay", "--serve", &capture];
        let options = ["call", "greet", "--answer", "name=Ada", "--revision", revision];
        let said = run(&[&options[..], &serve].concat());
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "Hello, Ada!\n"), "{}", said.stderr);
        assert!(said.stderr.contains(" matched, 0 unmatched; 0 recorded requests unused\n"), "{}", said.stderr);
        let said = run(&[&["call", "echo", "text=x", "--revision", revision][..], &serve].concat());
        assert_eq!(said.code, Some(1));
        assert!(said.stderr.contains("no request of the capture matches; frame "), "{}", said.stderr);
    }
    let capture = record("served-sleep", &["sleep", "ms=20"]);
    let said = run(&["call", "sleep", "ms=20", "--", PROGRAM, "replay", "--quiet", "--serve", &capture]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "slept for 20 ms\n"));
    assert!(said.stderr.contains("progress 10/10"), "{}", said.stderr);
}

#[test]
fn a_server_from_a_capture_prints_a_summary() {
    let capture = written("exit", TWO);
    for (asks, code) in [("a", 0), ("c", 1)] {
        let mut child = Command::new(PROGRAM)
            .args(["replay", "--serve", "--quiet", &capture])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // Many requests at once: each is answered with its own id.
        let all: String =
            (0..100).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"{asks}\"}}\n")).collect();
        stdin.write_all(all.as_bytes()).expect("it reads");
        for id in 0..100 {
            let answer: Value = serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON");
            assert_eq!((&answer["id"], answer.get("error").is_some()), (&id.to_string().into(), code == 1));
        }
        drop(stdin);
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
    }
}

/// Returns a shell server that answers lines by their text.
fn answering(cases: &str) -> String {
    format!("while read -r line; do case \"$line\" in {cases} esac; done")
}

#[test]
fn an_incomplete_last_line_is_left_out() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for half in [r#"< {"jsonrpc":"2.0","id":1,"res"#, r#"> {"jsonrpc":"2.0","id":2,"meth"#, ">(+0.2 c"] {
        let capture = written("half", &format!("wire 1\n> {ping}\n{half}"));
        let left_out = format!(
            "barewire: {capture} ends in the middle of line 3, which is left out\n\
             hint: the program that wrote it was stopped while writing\n"
        );
        let told = format!("{left_out}1 message sent, 0 compared: no difference\n");
        shell(&capture, &[], "cat > /dev/null").has(0, "", &told);
        let mut child = Command::new(PROGRAM)
            .args(["replay", "--serve", "--quiet", &capture])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(format!("{ping}\n").as_bytes()).expect("it reads");
        drop(stdin);
        ProgramOutput::of(child.wait_with_output().expect("it ends")).has(0, "", &left_out);
    }
    // A last line that only lacks its line break is complete.
    let capture = written("half-not", &format!("wire 1\n> {ping}"));
    shell(&capture, &[], "cat > /dev/null").has(0, "", "1 message sent, 0 compared: no difference\n");
}

#[test]
fn ignored_values_are_still_returned() {
    let capture = written(
        "ignored",
        r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"old"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"old"}}
< {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
"#,
    );
    for ignored in ["/result/nextCursor", "/result"] {
        let said = shell(&capture, &["--ignore", ignored], PAGES);
        said.has(0, "", "2 messages sent, 2 compared: no difference\n");
    }
}

#[test]
fn mapped_numbers_are_returned_as_received() {
    let capture = written(
        "numbers",
        r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"create"}
< {"jsonrpc":"2.0","id":1,"result":{"row":{"id":41,"at":1.5}}}
> [{"jsonrpc":"2.0","id":41,"method":"get","params":{"id":41,"at":1.5}}]
< [{"jsonrpc":"2.0","id":41,"result":{}}]
"#,
    );
    let server = answering(
        r#"*create*) echo '{"jsonrpc":"2.0","id":1,"result":{"row":{"id":18446744073709551617,"at":2.50}}}' ;;
        *'"id":41,"method":"get","params":{"id":18446744073709551617,"at":2.50}'*) echo '[{"jsonrpc":"2.0","id":41,"result":{}}]' ;;"#,
    );
    let same = "2 messages sent, 2 compared: no difference\n";
    shell(&capture, &["--map", "/result/row", "--timeout", "120"], &server).has(0, "", same);
    // The first response must come within it; the second never comes.
    let said = shell(&capture, &["--timeout", "5"], &server);
    let told = "create, id 1: the response differs (frames 1, 2)\n  /result/row/at\n    - 1.5\n    + 2.50\n  /result/row/id\n    - 41\n    + 18446744073709551617\n";
    assert!(said.stdout.starts_with(told), "{}", said.stdout);
}

#[test]
fn a_cancelled_request_is_not_waited_for() {
    let capture = written(
        "cancelled",
        r#"wire 1
> {"jsonrpc":"2.0","id":1,"method":"slow"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
< {"jsonrpc":"2.0","id":1,"result":{"late":true}}
> {"jsonrpc":"2.0","id":2,"method":"ping"}
< {"jsonrpc":"2.0","id":2,"result":{}}
"#,
    );
    let pong = r#"*ping*) echo '{"jsonrpc":"2.0","id":2,"result":{}}' ;;"#;
    let other = r#"*requestId*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}' ;;"#;
    for server in [answering(pong), answering(&format!("{pong} {other}"))] {
        let began = Instant::now();
        let said = shell(&capture, &["--timeout", "600"], &server);
        said.has(0, "", "3 messages sent, 1 compared: no difference\n");
        assert!(began.elapsed() < Duration::from_secs(500), "{:?}", began.elapsed());
    }
}

/// In the capture the program crashed while the client still waited for the second response.
#[test]
fn the_last_request_to_a_crashed_server_is_still_expected() {
    let file = file("crashed");
    let _ = fs::remove_file(&file);
    let path = file.to_str().expect("UTF-8").to_owned();
    let first = r#"echo '{"jsonrpc":"2.0","id":1,"result":{}}'"#;
    let second = r#"echo '{"jsonrpc":"2.0","id":2,"result":{}}'"#;
    let crashing = format!("read a; read b; {first}; exit 3");
    let mut tap = Command::new(PROGRAM)
        .args(["tap", "--record", &path, "--", "sh", "-c", &crashing])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    // The stream stays open: only the program closes it.
    let mut stdin = tap.stdin.take().expect("piped");
    let asked = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"b\"}\n";
    stdin.write_all(asked.as_bytes()).expect("it reads");
    assert_eq!(tap.wait().expect("it ends").code(), Some(3));
    let recorded = fs::read_to_string(&file).expect("a capture");
    assert!(recorded.contains(") closed > by the program\n"), "{recorded}");

    // A working server answers the second request while the first response is awaited.
    let working = format!("read a; read b; {second}; {first}; read end; exit 3");
    let said = shell(&path, &[], &working);
    assert!(
        said.stdout.contains("b, id 2: a response came, and the capture has none"),
        "{} {}",
        said.stdout,
        said.stderr
    );
    assert_eq!(said.code, Some(1), "{} {}", said.stdout, said.stderr);
    shell(&path, &[], &crashing).has(0, "", "2 messages sent, 1 compared: no difference\n");
}

#[test]
fn numbers_are_compared_exactly() {
    for (recorded, came, is_same) in [
        ("18446744073709551616", "18446744073709551615", false),
        ("12345678901234567890123", "12345678901234567890124", false),
        ("9007199254740993", "9007199254740992.0", false),
        ("1.0", "1", true),
        ("1e2", "100", true),
    ] {
        let text = format!(
            "wire 1\n> {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}}\n< {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[{recorded}]}}\n"
        );
        let capture = written("exact", &text);
        let server = answering(&format!(r#"*) echo '{{"jsonrpc":"2.0","id":1,"result":[{came}]}}' ;;"#));
        let said = shell(&capture, &["--json"], &server);
        assert_eq!(said.code, Some(i32::from(!is_same)), "{}", said.stdout);
        let told = format!(r#""changes":[{{"path":"/result/0","recorded":{recorded},"came":{came}}}]"#);
        assert_eq!(said.stdout.contains(&told), !is_same, "{}", said.stdout);
    }
}

#[test]
fn a_missing_stray_response_is_reported() {
    let text = "wire 1\n> {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n< {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{\"a\":1,\"b\":2}}\n< {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    let capture = written("nobody", text);
    let answer = r#"echo '{"jsonrpc":"2.0","id":1,"result":{}}' ;;"#;
    let said = shell(&capture, &[], &answering(&format!("*) {answer}")));
    let told = "id 77: the capture has this response, which matches no request; it did not come (frame 2)\n";
    said.has(1, told, "1 message sent, 1 compared: 1 difference\n");
    let again = r#"echo '{"jsonrpc":"2.0","id":77,"result":{"b":2,"a":1}}'"#;
    let said = shell(&capture, &[], &answering(&format!("*) {again}; {answer}")));
    said.has(0, "", "1 message sent, 1 compared: no difference\n");
}
