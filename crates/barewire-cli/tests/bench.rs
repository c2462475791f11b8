//! `barewire bench` with good servers, and with servers that lose, repeat, mix up and delay answers.
#![cfg(unix)]

use crate::eventually;
use crate::http_server;
use crate::program_output;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use eventually::{eventually, system_calls_grow};
use http_server::{HttpServer, PROGRAM, TOKEN};
use program_output::ProgramOutput;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn bench(options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("bench").args(options).env(TOKEN, "sesame").stdin(Stdio::null());
    command
}

fn run(options: &[&str]) -> ProgramOutput {
    ProgramOutput::of(bench(options).output().expect("it runs"))
}

/// Returns the first server of the JSON output, and the exit code.
fn measured(options: &[&str]) -> (Value, Option<i32>) {
    let said = run(&[&["--json"], options].concat());
    let mut json: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr));
    assert_eq!(json["stopped"], false);
    (json["servers"][0].take(), said.code)
}

fn number(json: &Value) -> f64 {
    json.as_f64().unwrap_or_else(|| panic!("a number, not {json}"))
}

/// Returns a legacy server in a shell. It runs `call` for each request with $id, $line, $method and the number $n, from
/// 0: the first request is not measured.
fn shell(call: &str) -> [String; 3] {
    let script = r#"
        n=0
        answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
        say() { answer "$1" "{\"content\":[{\"type\":\"text\",\"text\":\"$2\"}]}"; }
        refuse() { echo "{\"jsonrpc\":\"2.0\",\"id\":$1,\"error\":{\"code\":$2,\"message\":\"no\"}}"; }
        while read -r line; do
            id=${line#*\"id\":}; id=${id%%,*}; id=${id%%\}*}
            method=${line#*\"method\":\"}; method=${method%%\"*}
            text=${line#*\"text\":\"}; text=${text%%\"*}
            case $method in
            server/discover) refuse "$id" -32601 ;;
            initialize) answer "$id" '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
            notifications/*) ;;
            tools/list) answer "$id" '{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}' ;;
            *) CALL; n=$((n+1)) ;;
            esac
        done"#;
    ["sh".to_owned(), "-c".to_owned(), script.replace("CALL", call)]
}

/// Returns a server that answers every request, and the file that it creates after a hundred answers.
fn busy_shell(name: &str) -> ([String; 3], PathBuf) {
    let busy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&busy);
    let call = format!(r#"answer "$id" '{{}}'; if [ "$n" = 100 ]; then : > '{}'; fi"#, busy.display());
    (shell(&call), busy)
}

fn with<'a>(options: &[&'a str], server: &'a [String]) -> Vec<&'a str> {
    options.iter().copied().chain(["--"]).chain(server.iter().map(String::as_str)).collect()
}

#[test]
fn a_good_server_is_measured_in_both_eras_on_stdio() {
    for (revision, era, method) in [("2025-06-18", "legacy", "ping"), ("2026-07-28", "modern", "server/discover")] {
        let options = ["--revision", revision, "--count", "500", "--in-flight", "8", "--warm-up", "0.05"];
        let (json, code) = measured(&[&options[..], &["--", PROGRAM, "serve"]].concat());
        assert_eq!((code, &json["era"], &json["transport"]), (Some(0), &era.into(), &"stdio".into()));
        assert_eq!((&json["request"]["method"], &json["revision"]), (&method.into(), &revision.into()));
        assert_eq!((&json["sent"], &json["answered"]), (&500.into(), &500.into()));
        let latency = &json["latency_us"];
        let times = ["min", "p50", "p90", "p99", "p999", "max"].map(|name| number(&latency[name]));
        assert!(times[0] > 0.0 && times.is_sorted(), "{times:?}");
        let rows = json["histogram"].as_array().expect("rows").iter().map(|row| number(&row["count"]));
        assert!((rows.sum::<f64>() - 500.0).abs() < 0.5);
        assert!(number(&json["throughput"]) > 0.0 && number(&json["seconds"]) > 0.0);
    }
    let (json, code) = measured(&["echo", "--payload", "1000", "--count", "100", "-n", "4", "--", PROGRAM, "serve"]);
    assert_eq!((code, &json["answered"], &json["request"]["name"]), (Some(0), &100.into(), &"echo".into()));
    assert!(number(&json["request"]["bytes"]) > 1000.0);
}

#[test]
fn a_good_server_is_measured_in_both_eras_over_http() {
    let served = HttpServer::new(&["--bearer-env", TOKEN]);
    let pid = served.process.id().to_string();
    for revision in ["2025-11-25", "2026-07-28"] {
        let options = ["--bearer-env", TOKEN, "--url", &served.url, "--pid", &pid, "--revision", revision];
        let load = ["echo", "--payload", "100", "--count", "200", "--in-flight", "4", "--warm-up", "0"];
        let (json, code) = measured(&[&options[..], &load].concat());
        assert_eq!((code, &json["answered"], &json["transport"]), (Some(0), &200.into(), &"http".into()));
        if cfg!(target_os = "linux") {
            assert!(number(&json["usage"]["memory"]) > 0.0);
        }
    }
    // The token for one server is not sent to the other.
    let against = format!("other={}", served.url);
    let options = ["--url", &served.url, "--bearer-env", TOKEN, "--count", "1", "--against", &against];
    let said = run(&options);
    assert!(said.code == Some(2) && said.stderr.starts_with("barewire: other: "), "{}", said.stderr);
    let said = run(&["--url", &served.url]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("401") && said.stderr.contains("--bearer-env"), "{}", said.stderr);
}

#[test]
fn lost_duplicate_and_wrong_answers_are_counted_exactly() {
    let server = shell(
        r#"case $((n % 10)) in
            1) ;;
            2) say "$id" "$text"; say "$id" "$text" ;;
            3) refuse "$id" -32603 ;;
            4) answer "$id" '{"content":[],"isError":true}' ;;
            5) say "$id" "${text%?}" ;;
            6) answer "$id" '{"tools":[]}' ;;
            7) say "$id" "$text"; say 77777 "$text" ;;
            8) say "$id" "$text"; echo "this is no message" ;;
            9) say "$id.0" "$text" ;;
            *) say "$id" "$text" ;;
        esac"#,
    );
    let options = ["echo", "--payload", "16", "--count", "100", "--warm-up", "0", "--timeout", "5", "-n", "8"];
    let (json, code) = measured(&with(&options, &server));
    assert_eq!(code, Some(1));
    let counts = ["sent", "answered", "lost", "duplicated", "late"].map(|name| json[name].as_u64());
    assert_eq!(counts, [Some(100), Some(40), Some(10), Some(10), Some(0)]);
    let kinds = ["error", "echo", "kind", "unknown_id", "id", "no_message", "http"];
    let wrong = kinds.map(|name| json["wrong"][name].as_u64());
    assert_eq!(wrong, [Some(20), Some(10), Some(10), Some(10), Some(10), Some(10), Some(0)]);
}

#[test]
fn an_answer_that_belongs_to_another_request_is_found() {
    // Every second answer has the text of the previous request.
    let server = shell(r#"if [ $((n % 2)) = 1 ]; then say "$id" "$before"; else say "$id" "$text"; fi; before=$text"#);
    let options = ["echo", "--payload", "16", "--count", "20", "--warm-up", "0", "-n", "4"];
    let said = run(&with(&options, &server));
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.contains("20 sent, 10 answered, 0 lost, 0 duplicated, 10 wrong"), "{}", said.stdout);
    assert!(
        said.stdout.contains("10 wrong: does not repeat the text that was sent, although the first answer did"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_stall_shows_in_all_requests_that_were_due() {
    // The server stalls for half a second, once.
    let server = shell(r#"if [ "$n" = 50 ]; then sleep 0.5; fi; answer "$id" '{}'"#);
    let at_a_rate = ["--rate", "200", "--duration", "1", "--warm-up", "0"];
    let (json, code) = measured(&with(&at_a_rate, &server));
    assert_eq!((code, &json["sent"], &json["answered"]), (Some(0), &200.into(), &200.into()));
    // Of the 200 requests that were due in a second, 100 were due while it slept: the last tenth waited 400 ms and
    // more.
    assert!(number(&json["latency_us"]["p90"]) > 250_000.0, "{json}");
    // The stall is part of the time, and so is whatever else a busy machine does in it.
    let (throughput, seconds) = (number(&json["throughput"]), number(&json["seconds"]));
    assert!(throughput <= 201.0 && (throughput * seconds - 200.0).abs() < 1.0, "{json}");

    // Also with one request in flight: requests that could not be sent waited too.
    let (json, _) = measured(&with(&[&at_a_rate[..], &["-n", "1"]].concat(), &server));
    assert!(number(&json["latency_us"]["p90"]) > 250_000.0, "{json}");

    // Without a rate only one request is slow.
    let (json, _) = measured(&with(&["--count", "200", "--warm-up", "0"], &server));
    assert!(number(&json["latency_us"]["max"]) > 450_000.0, "{json}");
    assert!(number(&json["latency_us"]["p90"]) < 250_000.0, "{json}");
}

#[test]
fn compared_servers_take_turns() {
    let folder = std::env::temp_dir().join(format!("barewire-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let log = folder.join("log");
    let server = |name: &str| shell(&format!(r#"echo {name} >> '{}'; answer "$id" '{{}}'"#, log.display()));
    let (first, second) = (server("first"), server("second"));
    let script = folder.join("second.sh");
    std::fs::write(&script, &second[2]).expect("a file");
    let against = format!("second=sh '{}'", script.display());
    let said = run(&with(&["--count", "80", "--warm-up", "0", "--against", &against, "--json"], &first));
    let json: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr));
    let turns = std::fs::read_to_string(&log).expect("both were asked");
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert_eq!(said.code, Some(0));
    let names: Vec<&Value> = json["servers"].as_array().expect("two").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["sh", "second"]);
    for server in json["servers"].as_array().expect("two") {
        assert_eq!(server["answered"], 80);
    }
    assert!(json["servers"][0]["ratio"].is_null());
    for name in ["throughput", "p50", "p99"] {
        assert!(number(&json["servers"][1]["ratio"][name]) > 0.0, "{name}");
    }
    // One first request each, and then turns of ten in alternating order.
    let turns: Vec<&str> = turns.lines().collect();
    assert_eq!(turns[..2], ["first", "second"]);
    let order: Vec<&str> = turns[2..].chunks(10).map(|turn| turn[0]).collect();
    assert!(turns[2..].chunks(10).all(|turn| turn.iter().all(|name| *name == turn[0])), "{turns:?}");
    assert_eq!(order, ["first", "second", "second", "first"].repeat(4));
}

#[test]
fn compared_servers_get_the_same_request() {
    let folder = std::env::temp_dir().join(format!("barewire-bench-same-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let script = folder.join("old.sh");
    std::fs::write(&script, &shell(r#"answer "$id" '{}'"#)[2]).expect("a file");
    let against = format!("old=sh '{}'", script.display());
    let options = ["--count", "5", "--warm-up", "0", "--against", &against];
    // A server of both eras gets the request of the legacy era.
    let said = run(&[&options[..], &["--", PROGRAM, "serve"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.starts_with("ping; 1 in flight, 5 times\n"), "{}", said.stdout);
    assert!(said.stdout.contains("MCP 2025-06-18 over stdio, requests of 50 B)\nold "), "{}", said.stdout);
    // A modern server keeps its own request, and the report says so.
    let modern = [PROGRAM, "serve", "--revision", "2026-07-28"];
    let said = run(&[&options[..], &["--"], &modern].concat());
    std::fs::remove_dir_all(&folder).expect("it is ours");
    let told = "The servers got different requests, because they share no revision: the ratios are not comparable.\n\
                server/discover to barewire, ping to old; 1 in flight, 5 times\n";
    assert!(said.stdout.starts_with(told), "{}", said.stdout);
}

#[test]
fn a_cpu_time_below_a_tick_is_unknown() {
    // Five lines cost far less than a tick of the clock; a busy machine may still count one.
    let (json, _) = measured(&with(&["--count", "5", "--warm-up", "0"], &shell(r#"answer "$id" '{}'"#)));
    if cfg!(target_os = "linux") {
        assert_ne!(json["usage"]["cpu_seconds"].as_f64(), Some(0.0), "{json}");
        assert_ne!(json["usage"]["cpu_us_per_request"].as_f64(), Some(0.0), "{json}");
    }
}

#[test]
fn no_tool_is_called_that_is_not_named() {
    let log = std::env::temp_dir().join(format!("barewire-bench-methods-{}", std::process::id()));
    let call = format!(r#"echo "$method" >> '{}'; answer "$id" '{{}}'"#, log.display());
    let said = run(&with(&["--count", "20", "--warm-up", "0.05", "--payload", "50"], &shell(&call)));
    let methods = std::fs::read_to_string(&log).expect("it was asked");
    std::fs::remove_file(&log).expect("it is ours");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(methods.lines().count() > 20 && methods.lines().all(|method| method == "ping"), "{methods}");
}

#[test]
fn the_end_of_a_server_is_reported_with_its_stderr() {
    let server = shell(r#"if [ "$n" = 10 ]; then echo "out of luck" >&2; exit 3; fi; answer "$id" '{}'"#);
    let said = run(&with(&["--count", "20", "--warm-up", "0"], &server));
    assert_eq!(said.code, Some(1));
    assert!(said.stdout.contains("10 sent, 9 answered, 1 lost"), "{}", said.stdout);
    let once = run(&with(&["--count", "1", "--warm-up", "0"], &server));
    assert!(once.stdout.starts_with("ping; 1 in flight, once\n"), "{}", once.stdout);
    assert!(said.stdout.contains("sh exited with code 3; its stderr ends with: out of luck"), "{}", said.stdout);
}

#[test]
fn a_server_that_ends_in_the_warm_up_is_not_measured() {
    let server = shell(r#"if [ "$n" = 10 ]; then echo "out of luck" >&2; exit 3; fi; answer "$id" '{}'"#);
    for options in [&["--count", "20", "--warm-up", "5"][..], &["--json", "--warm-up", "5"]] {
        run(&with(options, &server)).has(
            2,
            "",
            "barewire: nothing was measured: the server closed the connection: \
             sh exited with code 3; its stderr ends with: out of luck\n",
        );
    }
    // Next to a measured server it is in the report.
    let other = format!("gone=sh -c '{}'", server[2].replace('\'', r"'\''"));
    let said = run(&["--count", "20", "--warm-up", "5", "--against", &other, "--", PROGRAM, "serve"]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stdout.contains("gone: 0 sent, 0 answered"), "{}", said.stdout);
}

#[test]
fn a_signal_in_the_warm_up_measures_nothing() {
    let (server, busy) = busy_shell("warm-up");
    let mut command = bench(&with(&["--warm-up", "60"], &server));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    eventually("it is warmed up", || busy.exists());
    let pid = Pid::from_raw(child.id().try_into().expect("a pid")).expect("a pid");
    kill_process(pid, Signal::INT).expect("it is there");
    let said = ProgramOutput::of(child.wait_with_output().expect("it ends"));
    said.has(2, "", "barewire: stopped before anything was measured\n");
}

#[test]
fn requests_to_a_server_that_went_away_are_lost() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let mut served = HttpServer::new(&[]);
        let options = ["--json", "--duration", "600", "-n", "4", "--warm-up", "0", "--revision", revision];
        let mut command = bench(&[&options[..], &["--url", &served.url]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let began = Instant::now();
        system_calls_grow(&served.process, "syscw", 200);
        served.process.kill().expect("it is there");
        let said = ProgramOutput::of(child.wait_with_output().expect("it ends"));
        assert!(began.elapsed() < Duration::from_secs(500), "{:?}", began.elapsed());
        let json: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr));
        let server = &json["servers"][0];
        assert_eq!(said.code, Some(1));
        let (lost, answered) = (number(&server["lost"]), number(&server["answered"]));
        assert!((1.0..=50.0).contains(&lost) && answered > 0.0, "{server}");
        assert_eq!((number(&server["sent"]), number(&server["wrong"]["http"])), (lost + answered, 0.0));
        let broken = server["broken"].as_str().unwrap_or_default();
        assert!(broken.starts_with("the server cannot be reached any more: "), "{broken}");
    }
}

#[test]
fn a_server_that_closes_every_connection_is_still_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for client in listener.incoming() {
            // One request per connection, and no announcement of its end.
            let _ = client.and_then(|client| {
                // The end comes with the last byte of the answer: no other request fits in between.
                #[cfg(target_os = "linux")]
                rustix::net::sockopt::set_tcp_cork(&client, true)?;
                answered(&client)
            });
        }
    });
    let (server, code) = measured(&["--count", "50", "--warm-up", "0", "--revision", "2025-06-18", "--url", &url]);
    assert_eq!((code, number(&server["answered"])), (Some(0), 50.0), "{server}");
}

/// Answers one HTTP request like a legacy server without features.
fn answered(mut client: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(client);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        let name = "content-length: ";
        length = line.to_ascii_lowercase().strip_prefix(name).map_or(length, |it| it.trim().parse().expect("a length"));
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match body["method"].as_str() {
        Some("initialize") => {
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#
        }
        Some("ping") => "{}",
        Some(_) => return client.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"),
        None => return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"),
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, body["id"]);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
    client.write_all(format!("{head}: {}\r\n\r\n{answer}", answer.len()).as_bytes())
}

#[test]
fn after_a_signal_the_measurements_are_printed() {
    let (server, busy) = busy_shell("measured");
    let mut command = bench(&with(&["--json", "--duration", "600", "-n", "4", "--warm-up", "0"], &server));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let began = Instant::now();
    eventually("it is measured", || busy.exists());
    let pid = Pid::from_raw(child.id().try_into().expect("a pid")).expect("a pid");
    kill_process(pid, Signal::INT).expect("it is there");
    let said = ProgramOutput::of(child.wait_with_output().expect("it ends"));
    assert!(began.elapsed() < Duration::from_secs(500));
    let json: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr));
    assert_eq!((said.code, &json["stopped"]), (Some(0), &true.into()));
    let server = &json["servers"][0];
    assert!(number(&server["answered"]) > 0.0);
    assert_eq!(server["sent"], server["answered"]);
}

#[test]
fn unusable_requests_are_refused() {
    let serve = ["--", PROGRAM, "serve"];
    for (options, what) in [
        (&["--payload", "64", "add"][..], "--payload: add has no unused text argument"),
        (&["--payload", "text=64", "ping"], "--payload: only tools and prompts have arguments"),
        (&["--payload", "64", "echo", "text=a"], "--payload: echo has no unused text argument"),
        (&["echo"], "echo: text is missing, expected a string"),
        (&["ech", "text=a"], "the server has no tool ech"),
        (&["fail", "message=no"], "the tool failed: "),
        // A server that is slow to start would be taken for a legacy one.
        (
            &["greet", "--revision", "2026-07-28"],
            "the server answered tools/call with an error: Missing required client capability",
        ),
        (&["nothing/here"], "the server has no tool nothing/here"),
        (&["--method", "nothing/here"], "the server answered nothing/here with an error: Method not found"),
        (&["notifications/initialized"], "notifications/initialized is a notification, which has no answer"),
        (&["subscriptions/listen"], "subscriptions/listen cannot be sent repeatedly"),
        (&["tools", "echo"], "bench can only request a whole list"),
        (&["--against", "x"], "--against x: missing ="),
        (&["--against", "barewire=cat"], "--against: two servers are named barewire"),
        (&["--against", "none=/no/such/program"], "none: cannot start /no/such/program: no such file"),
    ] {
        let said = run(&[options, &serve].concat());
        assert_eq!((said.code, &*said.stdout), (Some(2), ""), "{options:?}: {}", said.stderr);
        assert!(said.stderr.starts_with(&format!("barewire: {what}")), "{options:?}: {}", said.stderr);
        assert!(!said.stderr.contains("--raw"), "{}", said.stderr);
    }
    run(&["ping"]).has(
        2,
        "",
        "barewire: no server to load: give a program or --url\n\
         hint: barewire bench [WHAT [ARGUMENT]…] -- PROGRAM ARGS…\n",
    );
    run(&["--url", "http://127.0.0.1:9/mcp", "--pid", "4194304"]).has(
        2,
        "",
        "barewire: --pid 4194304: no such process in /proc\n",
    );
    let said = run(&["--", "sh", "-c", "echo no server; exit 1"]);
    assert_eq!((said.code, &*said.stdout), (Some(2), ""));
}

#[test]
fn the_json_has_the_members_in_the_help() {
    let (json, _) = measured(&["--rate", "200", "--duration", "0.2", "--warm-up", "0", "--", PROGRAM, "serve"]);
    let said = run(&["--help"]);
    let help = said.stdout.split("With --json").nth(1).expect("it tells of JSON");
    for name in json.as_object().expect("an object").keys() {
        assert!(help.contains(name.as_str()), "{name} is not in the help");
    }
    for (object, names) in [
        ("request", &["method", "name", "bytes"][..]),
        ("load", &["in_flight", "rate", "payload", "duration", "count", "warm_up", "timeout"]),
        ("wrong", &["unknown_id", "id", "no_message", "error", "kind", "echo", "http"]),
        ("latency_us", &["min", "mean", "p50", "p90", "p99", "p999", "max"]),
        ("lag_us", &["p50", "p99", "max"]),
        ("generator", &["cpu_us_per_request"]),
    ] {
        let mut members: Vec<&str> = json[object].as_object().expect("an object").keys().map(String::as_str).collect();
        let mut names = names.to_vec();
        members.sort_unstable();
        names.sort_unstable();
        assert_eq!(members, names, "{object}");
    }
    if cfg!(target_os = "linux") {
        assert!(number(&json["usage"]["memory"]) > 0.0 && number(&json["usage"]["processes"]) >= 1.0);
    }
}
