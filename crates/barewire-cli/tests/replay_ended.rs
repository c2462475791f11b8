//! `barewire replay` of captures in which the host ended the server: the end is not compared.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::eventually::eventually;
use crate::program_output::ProgramOutput;
use crate::tap::stage::{Folder, end, lines, program, tap};

/// A server that answers one request, then ends with code 0 at the end of its stdin, and with code 1 when a signal asks
/// it to end: it says so on stdout, where nothing but messages belongs.
const POLITE: &str = r#"
trap 'echo bye; exit 1' INT TERM
read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
exec 3<&0; cat <&3 >/dev/null 2>&1 & wait $!"#;

/// A server that answers one request and has no handlers for signals.
const PLAIN: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; exec cat >/dev/null"#;

/// A server that answers one request, and does not notice the end of its stdin.
const DEAF: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; exec sleep 60"#;

/// A launcher that reports the signal that ended its server as its own code, as shells and npx do.
const LAUNCHER: &str =
    r#"sh -c 'read -r line; echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"; exec cat >/dev/null'; exit $?"#;

/// The ways in which hosts end a server.
#[derive(Debug, Clone, Copy)]
enum HostEnd {
    /// Closes stdin, and signals the process that it has started.
    CloseThen(Signal),
    /// Signals the process that it has started.
    Signal(Signal),
    /// Signals the process group, which it has made for the server.
    Group(Signal),
    /// Signals the server itself, which it finds among the descendants of the process that it has started, and then
    /// that process.
    Descendants(Signal),
}

/// A host that records one request, and then ends the server in this way. Returns the lines of the capture.
fn record(folder: &Folder, server: &str, how: HostEnd) -> Vec<String> {
    let file = folder.file("s.wire");
    let _ = std::fs::remove_file(&file);
    let mut command = tap(&["--record".as_ref(), file.as_os_str()], &["sh", "-c", server]);
    if let HostEnd::Group(_) = how {
        command.process_group(0);
    }
    let mut host = command.spawn().expect("it starts");
    let mut stdin = host.stdin.take().expect("piped");
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n").expect("it reads");
    let mut stdout = BufReader::new(host.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("an answer");
    // The answer is in the capture, and the shell has reached its last command.
    eventually("the answer is recorded", || lines(&file).iter().any(|line| line.starts_with('<')));
    let tap = Pid::from_child(&host);
    let stdin = Some(stdin).filter(|_| !matches!(how, HostEnd::CloseThen(_)));
    match how {
        HostEnd::CloseThen(signal) => {
            eventually("the end is recorded", || lines(&file).contains(&"@ eof >".to_owned()));
            let _ = kill_process(tap, signal);
        }
        HostEnd::Signal(signal) => kill_process(tap, signal).expect("it is there"),
        HostEnd::Group(signal) => kill_process_group(tap, signal).expect("it is there"),
        HostEnd::Descendants(signal) => {
            for pid in descendants(&host) {
                let _ = kill_process(pid, signal);
            }
            let _ = kill_process(tap, signal);
        }
    }
    let mut rest = String::new();
    let _ = std::io::Read::read_to_string(&mut stdout, &mut rest);
    drop(stdin);
    host.wait().expect("it ends");
    lines(&file)
}

/// The processes whose command line has the server's answer in it, which the tap has started.
fn descendants(host: &Child) -> Vec<Pid> {
    let output = Command::new("ps").args(["-A", "-o", "ppid=,pid=,comm="]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let rows: Vec<(u32, i32)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    let (mut found, mut parents) = (Vec::new(), vec![host.id()]);
    while let Some(parent) = parents.pop() {
        for (_, pid) in rows.iter().filter(|(of, _)| *of == parent) {
            found.push(Pid::from_raw(*pid).expect("an id"));
            parents.push(pid.cast_unsigned());
        }
    }
    found
}

fn replay(capture: &Path, server: &str) -> ProgramOutput {
    let mut command = Command::new(program());
    command.arg("replay").arg(capture).args(["--", "sh", "-c", server]).stdin(Stdio::null());
    ProgramOutput::of(command.output().expect("it runs"))
}

#[test]
fn an_end_by_the_host_is_not_a_difference() {
    use HostEnd::{CloseThen, Descendants, Group, Signal as Once};
    let folder = Folder::new("ended-by-host");
    for (server, how) in [
        (DEAF, CloseThen(Signal::TERM)),
        (DEAF, CloseThen(Signal::INT)),
        (DEAF, CloseThen(Signal::KILL)),
        (POLITE, Once(Signal::INT)),
        (POLITE, Once(Signal::TERM)),
        (POLITE, Once(Signal::KILL)),
        (POLITE, Group(Signal::INT)),
        (POLITE, Group(Signal::TERM)),
        (POLITE, Group(Signal::KILL)),
        (PLAIN, Once(Signal::INT)),
        (PLAIN, Once(Signal::TERM)),
        (PLAIN, Group(Signal::INT)),
        (PLAIN, Group(Signal::KILL)),
        (PLAIN, Descendants(Signal::TERM)),
        (PLAIN, Descendants(Signal::KILL)),
        (LAUNCHER, Once(Signal::TERM)),
        (LAUNCHER, Descendants(Signal::INT)),
        (LAUNCHER, Descendants(Signal::KILL)),
    ] {
        let recorded = record(&folder, server, how);
        let said = replay(&folder.file("s.wire"), PLAIN);
        let shown = (said.code, said.stdout.as_str());
        assert_eq!(shown, (Some(0), ""), "{how:?} {server}\n{}{recorded:#?}", said.stderr);
    }
}

/// The control: a server that ended by itself is compared, after the same host has closed stdin.
#[test]
fn an_end_of_its_own_is_compared() {
    let folder = Folder::new("ended-by-itself");
    for (end, said) in [("exit 3", "code 3"), ("exit 139", "code 139"), ("ulimit -c 0; kill -SEGV $$", "signal 11")] {
        let server = PLAIN.replace("exec cat >/dev/null", &format!("cat >/dev/null; {end}"));
        let file = folder.file("s.wire");
        let _ = std::fs::remove_file(&file);
        let mut host =
            tap(&["--record".as_ref(), file.as_os_str()], &["sh", "-c", &server]).spawn().expect("it starts");
        let mut stdin = host.stdin.take().expect("piped");
        stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n").expect("it reads");
        drop(stdin);
        host.wait().expect("it ends");
        let replayed = replay(&file, PLAIN);
        assert_eq!(replayed.code, Some(1), "{}", replayed.stderr);
        let expected = format!("the server ended with code 0; in the capture with {said}\n");
        assert_eq!(replayed.stdout, expected, "{:#?}", lines(&file));
        assert_eq!(replay(&file, &server).code, Some(0), "the same server");
    }
}

/// A request that the server could not answer in time: with more time, its answer is not a difference either.
#[test]
fn an_answer_that_the_host_did_not_wait_for_is_not_a_difference() {
    let folder = Folder::new("ended-early");
    let file = folder.file("s.wire");
    let slow = r#"read -r one; read -r two; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; exec sleep 60"#;
    let mut host = tap(&["--record".as_ref(), file.as_os_str()], &["sh", "-c", slow]).spawn().expect("it starts");
    let mut stdin = host.stdin.take().expect("piped");
    let requests = [1, 2].map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"a\"}}\n")).concat();
    stdin.write_all(requests.as_bytes()).expect("it reads");
    eventually("the answer is recorded", || file.exists() && lines(&file).iter().any(|line| line.starts_with('<')));
    end(host);
    drop(stdin);
    let answer = |id: u8| format!(r#"echo '{{"jsonrpc":"2.0","id":{id},"result":{{}}}}'; "#);
    let fast = format!("read -r one; read -r two; {}{}exec cat >/dev/null", answer(1), answer(2));
    let said = replay(&file, &fast);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{}", said.stderr);
}
