//! `barewire serve --http` and `barewire call --url`: the program at both ends of a real socket.
#![cfg(unix)]

mod said;
mod served;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use said::Said;
use serde_json::Value;
use served::{PROGRAM, Served, TOKEN};

impl Served {
    fn ask(&self, options: &[&str]) -> Said {
        ask(&[options, &["--url", &self.url]].concat())
    }
}

fn ask(options: &[&str]) -> Said {
    let mut command = Command::new(PROGRAM);
    let command = command.arg("call").args(options).env(TOKEN, "sesame").stdin(Stdio::null());
    Said::of(command.output().expect("it runs"))
}

#[test]
fn a_tool_is_called_in_every_revision() {
    let served = Served::new(&[]);
    served.ask(&["echo", "text=hello"]).has(0, "hello\n", "");
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        served.ask(&["add", "a=19", "b=23", "--revision", revision, "--quiet"]).has(0, "42\n", "");
        let said = served.ask(&["echo", "text=x", "--revision", revision, "--json"]);
        let json: Value = serde_json::from_str(&said.stdout).expect("JSON");
        assert_eq!((said.code, &json["kind"], &json["revision"]), (Some(0), &"result".into(), &revision.into()));
    }
    let slow = served.ask(&["sleep", "ms=50"]);
    assert_eq!((slow.code, slow.stdout.as_str()), (Some(0), "slept for 50 ms\n"));
    assert!(slow.stderr.contains("progress 10/10"), "{}", slow.stderr);
    served.ask(&["greet", "--answer", "name=Ada"]).has(0, "Hello, Ada!\n", "");
    served.ask(&["greet", "--answer", "name=Ada", "--revision", "2025-06-18"]).has(0, "Hello, Ada!\n", "");
    assert_eq!(served.ask(&["fail", "message=no"]).code, Some(1));
}

#[test]
fn what_is_listened_on_and_how_to_get_there_is_said_on_stderr() {
    let served = Served::new(&["--bearer-env", TOKEN]);
    let Served { url, said, .. } = &served;
    assert_eq!(said[0], format!("barewire: serving {url}, for this machine only; Ctrl-C ends it"));
    assert!(said[1].ends_with(&format!("barewire call tools --url {url} --bearer-env {TOKEN}")), "{}", said[1]);
    let entry: Value = serde_json::from_str(said[2].split_once("a host:").expect("an entry").1).expect("JSON");
    assert_eq!(entry["mcpServers"]["barewire"]["url"], url.as_str());
    assert!(!said.concat().contains("sesame"));
}

#[test]
fn only_who_has_the_token_is_served() {
    let served = Served::new(&["--bearer-env", TOKEN]);
    let said = served.ask(&["echo", "text=x"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
    assert!(said.stderr.contains("401 Unauthorized") && said.stderr.contains("--bearer-env NAME"), "{}", said.stderr);
    served.ask(&["echo", "text=x", "--bearer-env", TOKEN]).has(0, "x\n", "");
    served.ask(&["echo", "text=x", "--header", "Authorization: Bearer sesame"]).has(0, "x\n", "");
    let wrong = served.ask(&["echo", "text=x", "--header", "Authorization: Bearer open", "--json"]);
    let json: Value = serde_json::from_str(&wrong.stdout).expect("JSON");
    assert_eq!((wrong.code, &json["reason"]), (Some(2), &"unauthorized".into()));
    assert!(!wrong.stdout.contains("Bearer open") && !wrong.stderr.contains("Bearer open"));
}

#[test]
fn a_url_that_leads_nowhere_is_explained() {
    let free = TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("an address");
    let said = ask(&["tools", "--url", &format!("http://{free}/mcp"), "--json"]);
    let json: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!((said.code, &json["reason"]), (Some(2), &"not-connected".into()));
    let served = Served::new(&[]);
    let elsewhere = served.url.replace("/mcp", "/elsewhere");
    let said = ask(&["tools", "--url", &elsewhere]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("the endpoint is /mcp"), "{}", said.stderr);
    // A web server that is no server of MCP.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut some = [0; 4096];
            let _ = stream.read(&mut some);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhi!\x1b",
            );
        }
    });
    let said = ask(&["tools", "--url", &format!("http://{addr}/")]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
    assert!(said.stderr.contains("is this the path of the MCP endpoint?"), "{}", said.stderr);
    assert!(!said.stderr.contains('\x1b'), "what a server says is escaped");
    for (options, what) in [
        (&["tools", "--url", "ftp://x/"][..], "neither http nor https"),
        (&["tools", "--url", "http://user:pw@localhost/"], "barewire: "),
        (&["tools", "--url", "http://localhost/", "--header", "secret"], "no colon"),
        (&["tools", "--url", "http://localhost/", "--bearer-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
        (&["tools", "--url", "http://localhost/", "--connect", "tcp:localhost:1"], "two to ask"),
    ] {
        let said = ask(options);
        assert_eq!(said.code, Some(2), "{options:?}");
        assert!(said.stderr.contains(what), "{options:?}: {}", said.stderr);
        assert!(!said.stderr.contains("pw@") && !said.stderr.contains("secret"), "{}", said.stderr);
    }
}

#[test]
fn a_signal_ends_the_server_in_order() {
    let mut served = Served::new(&[]);
    let addr =
        served.url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
    let mut idle = TcpStream::connect(&addr).expect("connected");
    let pid = i32::try_from(served.process.id()).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    assert_eq!(served.process.wait().expect("it ends").code(), Some(0));
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn others_are_served_only_if_it_is_said_by_which_name() {
    let mut command = Command::new(PROGRAM);
    let said = Said::of(command.args(["serve", "--http", "0.0.0.0:0"]).output().expect("it runs"));
    assert_eq!(said.code, Some(2));
    assert!(
        said.stderr.contains("can be reached from other machines") && said.stderr.contains("hint: --host"),
        "{}",
        said.stderr
    );
}
