//! `barewire read` with growing files, in pipes, and in the sessions of its guide.

use crate::eventually;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use eventually::system_calls_grow;

fn barewire() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barewire"));
    command.env("COLUMNS", "");
    command
}

/// The sessions in docs/read.md are the output of the program.
#[test]
fn the_sessions_in_the_guide() {
    let guide = include_str!("../../../docs/read.md");
    let sessions: Vec<&str> =
        guide.split("```console\n$ barewire ").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(sessions.len() > 5);
    for session in sessions {
        let (command, shown) = session.split_once('\n').expect("a command and its output");
        let output = barewire().args(command.split(' ')).current_dir("tests/cmd/files").output().expect("it runs");
        let printed = [output.stdout, output.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&printed), shown, "{command}");
    }
    // The guide has a Mermaid diagram as a drawing, not as a session.
    let drawn = barewire()
        .args(["read", "--diagram", "mermaid", "--tool", "paint", "tour.wire"])
        .current_dir("tests/cmd/files")
        .output()
        .expect("it runs");
    let block = format!("```mermaid\n{}```", String::from_utf8_lossy(&drawn.stdout));
    assert!(guide.contains(&block), "{block}");
}

/// A tap that is killed leaves half a line, which is not the fault of the client or server.
#[test]
fn a_capture_that_ends_within_a_line_has_a_warning() {
    let path = std::env::temp_dir().join(format!("barewire-cut-{}.wire", std::process::id()));
    let whole = "wire 1\n>(+0.1) {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    for (rest, is_cut) in [
        ("<(+0.2) {\"jsonrpc\":\"2.0\",\"id\":1,\"res", true),
        ("<(+0.2 c", true),
        ("@ hea", false),
        ("<(+0.2) {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", false),
    ] {
        std::fs::write(&path, format!("{whole}{rest}")).expect("a file");
        for verb in ["read", "check"] {
            let output = barewire().arg(verb).arg(&path).output().expect("it runs");
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.code(), Some(0), "{rest}: {stdout}{stderr}");
            assert_eq!(stderr.contains("ends in the middle of line 3"), is_cut, "{rest}: {stderr}");
            assert!(!stdout.contains("syntax") && !stdout.contains("FAIL"), "{rest}: {stdout}");
        }
    }
    std::fs::remove_file(path).expect("it is ours");
}

/// Complete frames are shown as they are written, until Ctrl-C or, here, a kill.
#[test]
fn a_file_that_grows_is_followed() {
    let path = std::env::temp_dir().join(format!("barewire-follow-{}.wire", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(b"wire 1\n>(+0.1) {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("room");
    let mut child = barewire()
        .args(["read", "--follow"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    assert!(next().contains("ping"));
    // A line in two pieces is one line.
    file.write_all(b"<(+0.2) {\"jsonrpc\":\"2.0\",\"id\":1,").expect("room");
    // The program reads again, and finds half a line.
    system_calls_grow(&child, "syscr", 2);
    file.write_all(b"\"result\":{}}\n@(+0.3) exit code 0\n").expect("room");
    let answer = next();
    assert!(answer.contains("result") && answer.contains("ping") && answer.ends_with("100 ms"), "{answer}");
    child.kill().expect("it still waits");
    child.wait().expect("it ends");
    std::fs::remove_file(path).expect("it is ours");
}

/// If a host restarts its server, the tap overwrites the capture. The new content is shown from its start, even if it
/// is already longer than the old.
#[test]
fn an_overwritten_file_is_followed() {
    let path = std::env::temp_dir().join(format!("barewire-anew-{}.wire", std::process::id()));
    let session = |second: u8, method: &str| {
        format!(
            "wire 1 started=2026-11-16T10:00:0{second}.000000Z\n>(+0.1) {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}\n"
        )
    };
    std::fs::write(&path, session(1, "first/of/all")).expect("room");
    let mut child = barewire()
        .args(["read", "--follow"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    assert!(next().contains("first/of/all"));
    for (second, method) in [(2, "short"), (3, "longer/than/before/it"), (4, "as/long/as/before/it_")] {
        // Like the tap: the same file, truncated.
        std::fs::write(&path, session(second, method)).expect("room");
        let line = next();
        assert!(line.contains(method) && line.trim_start().starts_with("1 "), "{line}");
        assert!(!line.contains("in use"), "{line}");
    }
    child.kill().expect("it still waits");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches(" was truncated or replaced; reading it from the start\n").count(), 3, "{stderr}");
    std::fs::remove_file(path).expect("it is ours");
}

/// If a file is removed or renamed and another gets its name, the new file is followed.
#[test]
#[cfg(unix)]
fn a_name_is_followed_to_the_file_that_has_it_next() {
    let path = std::env::temp_dir().join(format!("barewire-next-{}.wire", std::process::id()));
    let aside = path.with_extension("old");
    let session = |method: &str| format!("wire 1\n>(+0.1) {{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}\n");
    std::fs::write(&path, session("first")).expect("room");
    let mut child = barewire()
        .args(["read", "--follow"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    assert!(next().contains("first"));
    std::fs::remove_file(&path).expect("it is ours");
    // The program reads again while no file has the name.
    system_calls_grow(&child, "syscr", 2);
    std::fs::write(&path, session("removed")).expect("room");
    let line = next();
    assert!(line.contains("removed") && line.trim_start().starts_with("1 "), "{line}");
    std::fs::rename(&path, &aside).expect("it is ours");
    std::fs::write(&path, session("renamed")).expect("room");
    assert!(next().contains("renamed"));
    // The new file can grow too.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("it is ours");
    file.write_all(b">(+0.2) {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"grown\"}\n").expect("room");
    let line = next();
    assert!(line.contains("grown") && line.trim_start().starts_with("2 "), "{line}");
    child.kill().expect("it still waits");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr.matches(" was truncated or replaced; reading it from the start\n").count(), 2, "{stderr}");
    for path in [path, aside] {
        std::fs::remove_file(path).expect("it is ours");
    }
}

/// Runs the program with input from `write`. Returns its stdout and its peak memory.
fn piped(args: &[&str], write: impl FnOnce(&mut dyn Write) + Send + 'static) -> (String, Option<u64>) {
    let mut child = barewire()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("piped");
    let id = child.id();
    let writer = std::thread::spawn(move || {
        write(&mut stdin);
        peak(id)
    });
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("UTF-8");
    child.wait().expect("it ends");
    (out, writer.join().expect("it writes"))
}

/// Returns the peak memory of a process in KiB, without the pages of its executable: 22 MiB in a test build.
fn peak(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let kib = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    Some(kib("VmHWM:")?.saturating_sub(kib("RssFile:")?))
}

#[test]
fn unanswered_requests_are_listed_at_the_end_of_a_pipe() {
    let (out, _) = piped(&["read", "--unanswered", "--json", "--format", "wire"], |stdin| {
        for id in 0..5000 {
            writeln!(stdin, "> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}").expect("it reads");
            if id % 1000 != 7 {
                writeln!(stdin, "< {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":0}}").expect("it reads");
            }
        }
        // A batch is shown if one of its requests has no response; a cancelled request needs none.
        stdin.write_all(b"> [{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"m\"},{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"m\"}]\n").expect("it reads");
        stdin.write_all(b"< {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":0}\n").expect("it reads");
        stdin.write_all(b"> {\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"m\"}\n").expect("it reads");
        stdin
            .write_all(
                b"> {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"c\"}}\n",
            )
            .expect("it reads");
    });
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let ids: Vec<i64> = lines.iter().filter_map(|line| line["id"].as_i64()).collect();
    assert_eq!(ids, [7, 1007, 2007, 3007, 4007]);
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[5]["kind"], "batch");
}

/// Reads a transcript of 128 MiB in every streaming view, without growing.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_a_transcript() {
    for args in
        [&["read", "--json"][..], &["read", "--unanswered"], &["read", "--tool", "none"], &["read", "--summary"]]
    {
        let (_, peak) = piped(args, |stdin| {
            stdin.write_all(b"wire 1\n").expect("it reads");
            let filler = "x".repeat(2000);
            for number in 0..64_000 {
                let mut pair = String::new();
                for line in [
                    format!(
                        ">(+{number}.1) {{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"tools/call\",\"params\":{{\"name\":\"t{}\"}}}}\n",
                        number % 999
                    ),
                    format!("<(+{number}.2) {{\"jsonrpc\":\"2.0\",\"id\":{number},\"result\":\"{filler}\"}}\n"),
                ] {
                    pair.push_str(&line);
                }
                stdin.write_all(pair.as_bytes()).expect("it reads");
            }
        });
        let peak = peak.expect("Linux says it");
        assert!(peak < 8 * 1024, "{args:?}: {peak} KiB");
    }
}

#[test]
fn an_empty_file_is_not_called_well_formed() {
    let output = barewire().arg("read").stdin(Stdio::null()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "the input has no frames\n");
}

/// A time has the same format everywhere, even a very long one.
#[test]
fn very_long_times_stay_in_their_columns() {
    let mut child = barewire()
        .args(["read", "--summary", "--format", "wire"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let wire = r#"wire 1
>(+0) {"jsonrpc":"2.0","id":1,"method":"ping"}
<(+999999999) {"jsonrpc":"2.0","id":1,"result":{}}
"#;
    child.stdin.take().expect("piped").write_all(wire.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("time          11574 d from first to last\n"), "{text}");
    assert!(text.contains("ping        1       -   11574 d   11574 d   11574 d\n"), "{text}");
}

fn summary(wire: &str, args: &[&str]) -> String {
    let mut child = barewire()
        .args(["read", "--summary", "--format", "wire"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("piped").write_all(wire.as_bytes()).expect("it reads");
    String::from_utf8(child.wait_with_output().expect("it ends").stdout).expect("UTF-8")
}

/// Failures are counted by tool, code and message.
#[test]
fn failures_are_counted_by_tool_code_and_message() {
    let mut wire = String::from("wire 1\n");
    for (id, (name, answer)) in [
        ("x", r#""result":{"isError":true}"#),
        ("y", r#""result":{"isError":true}"#),
        ("y", r#""result":{"isError":true}"#),
        ("x", r#""error":{"code":-32603,"message":"busy"}"#),
        ("x", r#""error":{"code":-32603,"message":"broken"}"#),
        ("x", r#""error":{"code":-32603,"message":"busy"}"#),
    ]
    .into_iter()
    .enumerate()
    {
        wire.push_str(&format!(
            "> {{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{name}\"}}}}\n\
             < {{\"jsonrpc\":\"2.0\",\"id\":{id},{answer}}}\n"
        ));
    }
    let text = summary(&wire, &[]);
    let failures = "
failures
       2x  frame 3      tools/call y  isError
       2x  frame 7      tools/call x  -32603 busy
       1x  frame 1      tools/call x  isError
       1x  frame 9      tools/call x  -32603 broken
";
    assert!(text.ends_with(failures), "{text}");
    let json: serde_json::Value = serde_json::from_str(&summary(&wire, &["--json"])).expect("JSON");
    let found = json["failures"].as_array().expect("a list").iter();
    let mut found: Vec<_> =
        found.map(|one| (one["name"].as_str(), one["message"].as_str(), one["count"].as_u64())).collect();
    found.sort();
    assert_eq!(
        found,
        [
            (Some("x"), None, Some(1)),
            (Some("x"), Some("broken"), Some(1)),
            (Some("x"), Some("busy"), Some(2)),
            (Some("y"), None, Some(2)),
        ]
    );
}

/// The table and the list of the slowest operations agree, also about an operation that ends with a request for input.
#[test]
fn latencies_in_a_summary_are_those_of_whole_operations() {
    let wire = r#"wire 1
>(+1) {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}
<(+1.1) {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}
>(+4) {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","requestState":"s"}}
<(+4.2) {"jsonrpc":"2.0","id":2,"result":{}}
>(+5) {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"never"}}
<(+5.05) {"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","requestState":"t"}}
"#;
    let text = summary(wire, &[]);
    assert!(text.contains("tools/call      2       -   50.0 ms    300 ms    300 ms\n"), "{text}");
    assert!(text.contains("   300 ms  frame 1      tools/call ask  2 rounds, 3.20 s in all\n"), "{text}");
    assert!(text.contains("  50.0 ms  frame 5      tools/call never\n"), "{text}");
    assert!(!text.contains("unanswered"), "{text}");
}

/// Channels over HTTP get longer names over time; the columns after them stay aligned.
#[test]
fn columns_stay_aligned_when_channels_have_longer_names() {
    let (out, _) = piped(&["read", "--format", "wire", "--events"], |stdin| {
        for number in [1, 9, 10, 99, 100, 9] {
            writeln!(stdin, ">x{number}(+1) {{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":\"m\"}}")
                .expect("it reads");
            writeln!(stdin, "@x{number}(+1) head < HTTP/1.1 200 OK").expect("it reads");
        }
    });
    let places: Vec<_> = out.lines().filter_map(|line| line.find("request").or(line.find("head"))).collect();
    assert_eq!(places.len(), 12, "{out}");
    assert!(places[..8].iter().all(|place| *place == places[0]), "{out}");
    assert!(places[8..].iter().all(|place| *place == places[0] + 1), "{out}");
}

#[test]
fn whole_values_are_shown_on_request() {
    let file = std::env::temp_dir().join(format!("barewire-full-{}.ndjson", std::process::id()));
    let (long, last) = ("x".repeat(10_000), "the last member");
    let members: Vec<String> = (0..30).map(|number| format!("\"m{number}\":{number}")).collect();
    let result = format!("{{\"a\":\"{long}\\u001b[31m\",{},\"z\":\"{last}\"}}", members.join(","));
    let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\nno \u{1b}[31mmessage {long}\n");
    std::fs::write(&file, message).expect("it can be written");
    let read = |args: &[&str]| {
        let output = barewire().arg("read").args(args).arg(&file).output().expect("it runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let cut = read(&["--frame", "1"]);
    assert!(!cut.contains(&long) && !cut.contains(last), "{cut}");
    assert!(cut.contains("and 12 more") && cut.ends_with("To see them as a whole, add --full.\n"), "{cut}");
    let full = read(&["--frame", "1", "--full"]);
    assert!(full.contains(&format!("\"a\": \"{long}\\u001b[31m\"\n")) && full.contains(last), "{full}");
    assert!(!full.contains('…') && !full.contains("--full"), "{full}");
    let noise = read(&["--frame", "2", "--full"]);
    assert!(noise.contains(&format!("no \\x1b[31mmessage {long}\n")), "{noise}");
    // Without --frame there is nothing to show.
    let output = barewire().args(["read", "--full"]).arg(&file).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    std::fs::remove_file(&file).expect("it is there");
}

/// `--frame` would ignore filters, so both together are refused.
#[test]
fn a_frame_and_a_filter_exclude_each_other() {
    let output = barewire().args(["read", "--frame", "1", "--errors", "x"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}

/// Returns the exit code and the error of reading a transcript.
fn read_transcript(transcript: &str, args: &[&str]) -> (Option<i32>, String) {
    let mut child = barewire()
        .args(["read", "--format", "wire", "--summary"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The program may exit before it has read all of it.
    let _ = child.stdin.take().expect("piped").write_all(transcript.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_line_of_a_transcript_has_a_maximum_length() {
    // The line break is part of the line.
    let line = |length: usize| format!("wire 1\n> \"{}\"\n", "x".repeat(length - 5));
    let max_frame = ["--max-frame", "1000"];
    let most = 4 * 1000 + 64 * 1024;
    // The frame is too long, but the line is not.
    let (code, stderr) = read_transcript(&line(most), &max_frame);
    assert_eq!(code, Some(1), "{stderr}");
    let (code, stderr) = read_transcript(&line(most + 1), &max_frame);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("line 2"), "{stderr}");
}

#[test]
fn a_transcript_has_a_maximum_number_of_open_streams() {
    let streams =
        |count: usize| (0..count).fold("wire 1\n".to_owned(), |all, number| all + &format!(">c{number} {{}}\n"));
    let (code, stderr) = read_transcript(&streams(65_536), &[]);
    assert_ne!(code, Some(2), "{stderr}");
    let (code, stderr) = read_transcript(&streams(65_537), &[]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("more than 65536 streams"), "{stderr}");
}
